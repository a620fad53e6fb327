//! A rectangle of neighbours a thread in two dimensions.

use super::{GridSliceMut, OwnershipMap, Plane, sealed};
use crate::abi::{KernelValue, fold_layout, leaf_layout};
use crate::index::{Stamp, global_idx_2d};

/// A [`Plane`] of which the thread at `(x, y)` owns the `ROWS` by `COLUMNS` elements from row `y * ROWS` and column
/// `x * COLUMNS` on. Witness: [`patch_idx`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Patches<const ROWS: usize, const COLUMNS: usize> {
    plane: Plane,
}

impl<const ROWS: usize, const COLUMNS: usize> Patches<ROWS, COLUMNS> {
    /// The shape.
    #[inline]
    #[must_use]
    pub const fn plane(&self) -> Plane {
        self.plane
    }
}

impl<const ROWS: usize, const COLUMNS: usize> From<Plane> for Patches<ROWS, COLUMNS> {
    fn from(plane: Plane) -> Self {
        Self { plane }
    }
}

/// A witness of one of a thread's own elements under [`Patches`].
#[derive(Debug)]
pub struct PatchIdx<const ROWS: usize, const COLUMNS: usize> {
    x: usize,
    y: usize,
    row: usize,    // Invariant: below ROWS.
    column: usize, // Invariant: below COLUMNS.
    stamp: Stamp,
}

impl<const ROWS: usize, const COLUMNS: usize> PatchIdx<ROWS, COLUMNS> {
    /// Column.
    #[inline]
    #[must_use]
    pub fn x(&self) -> usize {
        self.x.wrapping_add(self.column)
    }

    /// Row.
    #[inline]
    #[must_use]
    pub fn y(&self) -> usize {
        self.y.wrapping_add(self.row)
    }

    /// A witness of the patch's element in row `row` and column `column`.
    ///
    /// # Panics
    /// When they are not below `ROWS` and `COLUMNS`.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn at(&self, row: usize, column: usize) -> Self {
        assert!(row < ROWS && column < COLUMNS, "element ({row}, {column}) of a patch of {ROWS} by {COLUMNS}");
        Self { row, column, ..*self }
    }
}

/// A witness of the thread's own elements under [`Patches`], at the first of them.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn patch_idx<const ROWS: usize, const COLUMNS: usize>() -> PatchIdx<ROWS, COLUMNS> {
    const { assert!(ROWS > 0 && ROWS <= 1 << 8 && COLUMNS > 0 && COLUMNS <= 1 << 8, "a patch has from 1 to 256 lines") };
    let place = global_idx_2d();
    let (x, y) = (place.x().wrapping_mul(COLUMNS), place.y().wrapping_mul(ROWS));
    PatchIdx { x, y, row: 0, column: 0, stamp: place.stamp() }
}

impl<const ROWS: usize, const COLUMNS: usize> sealed::Witness for PatchIdx<ROWS, COLUMNS> {
    #[inline]
    fn stamp(&self) -> Stamp {
        self.stamp
    }
}

// SAFETY: lengths, no address.
unsafe impl<const ROWS: usize, const COLUMNS: usize> KernelValue for Patches<ROWS, COLUMNS> {
    const LAYOUT: u64 = fold_layout(
        fold_layout(fold_layout(leaf_layout::<Self>("Patches"), ROWS as u64), COLUMNS as u64),
        Plane::LAYOUT,
    );
}

// SAFETY: threads have different places, so their patches don't overlap: row and column stay below the patch's size, and
// nothing wraps around: places are below 2^54.
unsafe impl<const ROWS: usize, const COLUMNS: usize> OwnershipMap for Patches<ROWS, COLUMNS> {
    type Index = PatchIdx<ROWS, COLUMNS>;
    const FITS: bool = true;

    #[inline]
    fn element(&self, index: &PatchIdx<ROWS, COLUMNS>) -> Option<usize> {
        self.plane.place(index.x(), index.y())
    }
}

impl<T, const ROWS: usize, const COLUMNS: usize> GridSliceMut<'_, T, Patches<ROWS, COLUMNS>> {
    /// A row of the thread's patch, to write, when all of it lies inside the plane.
    ///
    /// # Panics
    /// In an ordinary build, when the witness was made by another thread's run.
    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn row_mut(&mut self, index: &PatchIdx<ROWS, COLUMNS>, row: usize) -> Option<&mut [T; COLUMNS]> {
        // With the last element inside the plane, so are those before it: they are its neighbours in one row.
        let last = self.own_element(&index.at(row, COLUMNS - 1))?;
        // SAFETY: the elements are the thread's own, one after another up to `last`, and its earlier borrow ended with
        // `&mut self`.
        Some(unsafe { &mut *last.sub(COLUMNS - 1).cast::<[T; COLUMNS]>() })
    }
}
