//! The shapes of shared arrays: how an index becomes a slot.

use core::marker::PhantomData;

use crate::bits::AnyBits;

/// What an array in shared memory looks like: `[T; N]`, [`Rows`], [`PaddedRows`], or `[T]` with a length of its own.
///
/// # Safety
/// [`Self::slot`], [`Self::run`] and, below the length, [`Self::place`] give places, in items, inside the storage that the
/// extent says, a run with all its items; different indices are different places.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the shape of a shared array",
    label = "not a shared array's shape",
    note = "write `[T; N]`, `Rows<T, ROWS, COLUMNS>` or `PaddedRows<T, ROWS, COLUMNS>`, of a type `T: AnyBits`: numbers, \
            vectors and arrays of them"
)]
pub unsafe trait Shape {
    /// What a slot holds.
    type Item: AnyBits;
    /// How a slot is named.
    type Index: Copy + core::fmt::Debug;
    /// What the type does not say of the array's size.
    type Extent: Copy;

    /// Number of slots.
    fn len(extent: Self::Extent) -> usize;

    /// The slot's place; `None` outside the shape.
    fn slot(extent: Self::Extent, index: Self::Index) -> Option<usize>;

    /// The place of the first of `count` neighbours in one row; `None` when they are not all inside.
    fn run(extent: Self::Extent, index: Self::Index, count: usize) -> Option<usize>;

    /// The index of slot `number`, counted row by row; outside the shape for numbers that are not below the length.
    fn index(number: usize) -> Self::Index;

    /// The place of slot `number`, counted row by row: inside the storage for numbers below the length.
    fn place(number: usize) -> usize;

    /// Panics, because `count` slots from `index` on are not all inside.
    fn outside(extent: Self::Extent, index: Self::Index, count: usize) -> !;
}

/// A [`Shape`] whose size is part of the type.
///
/// # Safety
/// Every place that the shape gives is inside [`Self::Storage`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the shape of a static shared array",
    label = "its size is not part of the type",
    note = "write `[T; N]`, `Rows<T, ROWS, COLUMNS>` or `PaddedRows<T, ROWS, COLUMNS>`, of a type `T: AnyBits`: numbers, \
            vectors and arrays of them"
)]
pub unsafe trait StaticShape: Shape<Extent = ()> {
    /// The array's memory.
    type Storage;
}

// SAFETY: `N` items, and an index below `N` is its own place.
unsafe impl<T: AnyBits, const N: usize> Shape for [T; N] {
    type Item = T;
    type Index = usize;
    type Extent = ();

    #[inline(always)]
    fn len((): ()) -> usize {
        N
    }

    #[inline(always)]
    fn slot((): (), index: usize) -> Option<usize> {
        (index < N).then_some(index)
    }

    #[inline(always)]
    fn run((): (), index: usize, count: usize) -> Option<usize> {
        (index < N && count <= N.wrapping_sub(index)).then_some(index)
    }

    #[inline(always)]
    fn index(number: usize) -> usize {
        number
    }

    #[inline(always)]
    fn place(number: usize) -> usize {
        number
    }

    #[cfg_attr(warpsmith_device, inline(always))]
    #[cfg_attr(not(warpsmith_device), cold, inline(never), track_caller)]
    fn outside((): (), index: usize, count: usize) -> ! {
        panic!("access to {count} slot(s) from {index} on leaves a shared array of {N} slots")
    }
}

// SAFETY: `N` items.
unsafe impl<T: AnyBits, const N: usize> StaticShape for [T; N] {
    type Storage = Self;
}

// SAFETY: `extent` items, and an index below that is its own place.
unsafe impl<T: AnyBits> Shape for [T] {
    type Item = T;
    type Index = usize;
    type Extent = usize;

    #[inline(always)]
    fn len(extent: usize) -> usize {
        extent
    }

    #[inline(always)]
    fn slot(extent: usize, index: usize) -> Option<usize> {
        (index < extent).then_some(index)
    }

    #[inline(always)]
    fn run(extent: usize, index: usize, count: usize) -> Option<usize> {
        (index < extent && count <= extent.wrapping_sub(index)).then_some(index)
    }

    #[inline(always)]
    fn index(number: usize) -> usize {
        number
    }

    #[inline(always)]
    fn place(number: usize) -> usize {
        number
    }

    #[cfg_attr(warpsmith_device, inline(always))]
    #[cfg_attr(not(warpsmith_device), cold, inline(never), track_caller)]
    fn outside(extent: usize, index: usize, count: usize) -> ! {
        panic!("access to {count} slot(s) from {index} on leaves a shared array of {extent} slots")
    }
}

/// A shared array of `ROWS` rows of `COLUMNS` slots, named `[row, column]`.
#[derive(Debug)]
pub struct Rows<T, const ROWS: usize, const COLUMNS: usize>(PhantomData<T>);

/// [`Rows`] with one unused item after each row, so that the slots of a column lie in different banks: 32 threads that
/// read down a column of 32-bit items then do so at once, where rows of 32 would have them wait for one another.
///
/// # Source
/// CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks".
#[derive(Debug)]
pub struct PaddedRows<T, const ROWS: usize, const COLUMNS: usize>(PhantomData<T>);

/// A row and what keeps the next one off its banks.
#[doc(hidden)]
#[derive(Debug)]
#[repr(C)]
pub struct PaddedRow<T, const COLUMNS: usize> {
    items: [T; COLUMNS],
    padding: T,
}

macro_rules! two_dimensional {
    ($($shape:ident, $storage:ty, $stride:expr;)*) => {$(
        // SAFETY: `ROWS` rows that start `stride` items apart, of which a slot or run uses the first `COLUMNS`.
        unsafe impl<T: AnyBits, const ROWS: usize, const COLUMNS: usize> Shape for $shape<T, ROWS, COLUMNS> {
            type Item = T;
            type Index = [usize; 2];
            type Extent = ();

            #[inline(always)]
            fn len((): ()) -> usize {
                ROWS * COLUMNS
            }

            #[inline(always)]
            fn slot((): (), [row, column]: [usize; 2]) -> Option<usize> {
                (row < ROWS && column < COLUMNS).then(|| row.wrapping_mul($stride).wrapping_add(column))
            }

            #[inline(always)]
            fn run((): (), [row, column]: [usize; 2], count: usize) -> Option<usize> {
                let inside = row < ROWS && column < COLUMNS && count <= COLUMNS.wrapping_sub(column);
                inside.then(|| row.wrapping_mul($stride).wrapping_add(column))
            }

            #[inline(always)]
            fn index(number: usize) -> [usize; 2] {
                const { assert!(COLUMNS > 0, "a row has at least one column") };
                [number / COLUMNS, number % COLUMNS]
            }

            #[inline(always)]
            fn place(number: usize) -> usize {
                if $stride == COLUMNS {
                    return number;
                }
                let [row, column] = Self::index(number);
                row.wrapping_mul($stride).wrapping_add(column)
            }

            #[cfg_attr(warpsmith_device, inline(always))]
            #[cfg_attr(not(warpsmith_device), cold, inline(never), track_caller)]
            fn outside((): (), [row, column]: [usize; 2], count: usize) -> ! {
                panic!("access to {count} slot(s) from [{row}, {column}] on leaves a shared array of {ROWS} by {COLUMNS} slots")
            }
        }

        // SAFETY: as above.
        unsafe impl<T: AnyBits, const ROWS: usize, const COLUMNS: usize> StaticShape for $shape<T, ROWS, COLUMNS> {
            type Storage = [$storage; ROWS];
        }
    )*};
}
two_dimensional! {
    Rows, [T; COLUMNS], COLUMNS;
    PaddedRows, PaddedRow<T, COLUMNS>, COLUMNS + 1;
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    fn places<S: StaticShape>() -> Vec<usize> {
        (0..S::len(())).map(|number| S::slot((), S::index(number)).expect("inside the shape")).collect()
    }

    #[test]
    fn slots_are_distinct_and_inside_the_storage() {
        fn check<S: StaticShape>(expected: impl Iterator<Item = usize>) {
            let places = places::<S>();
            assert_eq!(places, expected.collect::<Vec<_>>());
            assert_eq!(places, (0..S::len(())).map(S::place).collect::<Vec<_>>());
            assert!(places.iter().all(|place| (place + 1) * size_of::<S::Item>() <= size_of::<S::Storage>()));
            assert!(S::slot((), S::index(S::len(()))).is_none());
        }
        check::<[u16; 7]>(0..7);
        check::<Rows<f32, 3, 5>>(0..15);
        check::<PaddedRows<f32, 3, 5>>((0..18).filter(|place| place % 6 != 5));
        assert_eq!(size_of::<<PaddedRows<f32, 3, 5> as StaticShape>::Storage>(), 72);
        assert_eq!((<[u8]>::slot(4, 3), <[u8]>::slot(4, 4)), (Some(3), None));
    }

    #[test]
    fn runs_stay_inside_a_row() {
        assert_eq!(<[u8; 8]>::run((), 5, 3), Some(5));
        assert_eq!(<[u8; 8]>::run((), 5, 4), None);
        assert_eq!(<[u8; 8]>::run((), 8, 0), None);
        assert_eq!(<[u8]>::run(8, 5, 3), Some(5));
        assert_eq!(<[u8]>::run(8, 5, 4), None);
        assert_eq!(Rows::<u8, 2, 8>::run((), [1, 4], 4), Some(12));
        assert_eq!(Rows::<u8, 2, 8>::run((), [0, 5], 4), None);
        assert_eq!(PaddedRows::<u8, 2, 8>::run((), [1, 4], 4), Some(13));
        assert_eq!(Rows::<u8, 2, 8>::run((), [usize::MAX, usize::MAX], usize::MAX), None);
    }
}
