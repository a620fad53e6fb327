//! Reductions and scans over the lanes of a mask, with an order that is the same on every device.
//!
//! The lanes that take part are numbered by rank, from the lowest on. A reduction is the tree that joins neighbours:
//! `((v0 + v1) + (v2 + v3)) + ..`, where what has no partner waits for the next step. A scan takes steps of 1, 2, 4, 8 and
//! 16 ranks: in each, a lane puts the value of the lane so many ranks below before its own.

use super::value::WarpValue;

/// The lanes that an operation is for.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    pub(crate) mask: u32,
    /// They are all the lanes of an aligned group of so many, a power of two; 0 where that is not known.
    #[cfg_attr(not(warpsmith_device), expect(dead_code, reason = "the executor has no use for it"))]
    pub(crate) whole: u32,
    /// Whether all of them are there; otherwise those are left out that have ended or never were.
    pub(crate) all_there: bool,
}

impl Lanes {
    pub(crate) const fn of_mask(mask: u32) -> Self {
        Self { mask, whole: 0, all_there: false }
    }
}

/// What an operation by name does with two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

mod sealed {
    pub trait Number: Copy {
        const ZERO: Self;
        fn plus(self, other: Self) -> Self;
        fn least(self, other: Self) -> Self;
        fn greatest(self, other: Self) -> Self;
        /// The whole reduction in one instruction, where the device has one.
        #[cfg(warpsmith_device)]
        #[inline(always)]
        fn at_once(self, _mask: u32, _operation: super::Operation) -> Option<Self> {
            None
        }
    }

    pub trait Integer: Number {
        fn and(self, other: Self) -> Self;
        fn or(self, other: Self) -> Self;
        fn xor(self, other: Self) -> Self;
    }
}

/// A number that the lanes of a warp add and compare: all integers, `f32`, `f64`, `f16` and `bf16`.
#[diagnostic::on_unimplemented(
    message = "the lanes of a warp cannot add or compare `{Self}`",
    note = "integers and floats can; for other values use `reduce` or `inclusive_scan` with an operation of your own"
)]
pub trait WarpNumber: WarpValue + sealed::Number {}

/// An integer whose bits the lanes of a warp combine.
pub trait WarpInteger: WarpNumber + sealed::Integer {}

macro_rules! integers {
    ($($int:ty $(as $wide:ident, $unsigned:ident, $min:ident, $max:ident)?;)*) => {$(
        impl WarpNumber for $int {}
        impl WarpInteger for $int {}
        impl sealed::Number for $int {
            const ZERO: Self = 0;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            $(
                #[cfg(warpsmith_device)]
                #[inline(always)]
                fn at_once(self, mask: u32, operation: Operation) -> Option<Self> {
                    use crate::intrinsics::{architecture_at_least, warp};
                    if !architecture_at_least(80) {
                        return None;
                    }
                    let (wide, bits) = (self as $wide, self as $wide as $unsigned);
                    Some(match operation {
                        Operation::Add => warp::redux_add(mask, bits) as Self,
                        Operation::Min => warp::$min(mask, wide) as Self,
                        Operation::Max => warp::$max(mask, wide) as Self,
                        Operation::And => warp::redux_and(mask, bits) as Self,
                        Operation::Or => warp::redux_or(mask, bits) as Self,
                        Operation::Xor => warp::redux_xor(mask, bits) as Self,
                    })
                }
            )?
        }
        impl sealed::Integer for $int {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    )*};
}
integers! {
    u8 as u32, u32, redux_min, redux_max;
    u16 as u32, u32, redux_min, redux_max;
    u32 as u32, u32, redux_min, redux_max;
    i8 as i32, u32, redux_min_signed, redux_max_signed;
    i16 as i32, u32, redux_min_signed, redux_max_signed;
    i32 as i32, u32, redux_min_signed, redux_max_signed;
    u64;
    u128;
    usize;
    i64;
    i128;
    isize;
}

macro_rules! floats {
    ($($float:ty, $zero:expr;)*) => {$(
        impl WarpNumber for $float {}
        impl sealed::Number for $float {
            const ZERO: Self = $zero;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                <$float>::min(self, other)
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                <$float>::max(self, other)
            }
        }
    )*};
}
floats! {
    f32, 0.0;
    f64, 0.0;
    half::f16, half::f16::ZERO;
    half::bf16, half::bf16::ZERO;
}

/// The reduction tree over what the lanes of `lanes` bring; every lane of them gets the same, to the bit. Where the order
/// of an operation's two values makes a difference, it is `ordered`.
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub(crate) fn reduce_lanes<T: WarpValue>(
    name: &'static str,
    lanes: Lanes,
    value: T,
    ordered: bool,
    operation: impl Fn(T, T) -> T,
) -> T {
    #[cfg(warpsmith_device)]
    {
        let _ = name;
        device::reduce(lanes, value, ordered, operation)
    }
    #[cfg(not(warpsmith_device))]
    {
        let _ = ordered;
        executor::reduce(name, lanes, value, operation)
    }
}

/// The inclusive scan over what the lanes of `lanes` bring.
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub(crate) fn scan_lanes<T: WarpValue>(name: &'static str, lanes: Lanes, value: T, operation: impl Fn(T, T) -> T) -> T {
    #[cfg(warpsmith_device)]
    {
        let _ = name;
        device::scan(lanes, value, operation).0
    }
    #[cfg(not(warpsmith_device))]
    executor::scan(name, lanes, value, operation).0
}

/// The exclusive scan over what the lanes of `lanes` bring: `first` in the lowest, else the inclusive one of the lane
/// before.
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub(crate) fn exclusive_scan_lanes<T: WarpValue>(
    name: &'static str,
    lanes: Lanes,
    first: T,
    value: T,
    operation: impl Fn(T, T) -> T,
) -> T {
    #[cfg(warpsmith_device)]
    let before = {
        let _ = name;
        let (scanned, lanes) = device::scan(lanes, value, operation);
        device::value_before(lanes, scanned)
    };
    #[cfg(not(warpsmith_device))]
    let before = executor::scan(name, lanes, value, operation).1;
    before.unwrap_or(first)
}

/// As [`reduce_lanes`], for an operation that may be one instruction.
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub(crate) fn reduce_numbers<T: WarpNumber>(
    name: &'static str,
    lanes: Lanes,
    value: T,
    operation: Operation,
    join: impl Fn(T, T) -> T,
) -> T {
    #[cfg(warpsmith_device)]
    {
        // Groups of one warp would take turns at the instruction, so small ones do without it.
        let small = lanes.whole != 0 && lanes.whole < super::WARP_SIZE;
        if !small && let Some(result) = value.at_once(lanes.mask, operation) {
            return result;
        }
    }
    let _ = operation;
    reduce_lanes(name, lanes, value, false, join)
}

#[cfg(warpsmith_device)]
mod device {
    //! The trees as shuffles: of a whole group along its lanes, else along the chain of lanes that are there.

    use super::super::{
        FULL_MASK, WARP_SIZE, ballot, lane_id, lanemask_gt, lanemask_lt, shfl_idx, shfl_up_within, shfl_xor_within,
    };
    use super::{Lanes, WarpValue};

    /// Finds out which of the lanes are there.
    #[inline(always)]
    fn present(lanes: Lanes) -> Lanes {
        if lanes.all_there {
            return lanes;
        }
        let mask = ballot(lanes.mask, true);
        Lanes { mask, whole: if mask == FULL_MASK { WARP_SIZE } else { 0 }, all_there: true }
    }

    #[inline(always)]
    pub(super) fn reduce<T: WarpValue>(lanes: Lanes, value: T, ordered: bool, operation: impl Fn(T, T) -> T) -> T {
        let Lanes { mask, whole, .. } = present(lanes);
        if whole == 0 { along_chain(mask, value, operation) } else { butterfly(mask, whole, value, ordered, operation) }
    }

    /// Both partners compute the same, the lower lane's value first where that matters.
    #[inline(always)]
    fn butterfly<T: WarpValue>(mask: u32, width: u32, mut value: T, ordered: bool, operation: impl Fn(T, T) -> T) -> T {
        let mut distance = 1;
        while distance < width {
            let other = shfl_xor_within(mask, value, distance, width);
            let upper = ordered && lane_id() & distance != 0;
            let (left, right) = if upper { (other, value) } else { (value, other) };
            value = operation(left, right);
            distance *= 2;
        }
        value
    }

    /// Each lane joins what it has with what the lane at the end of its reach has, which doubles the reach.
    #[inline(always)]
    fn along_chain<T: WarpValue>(mask: u32, mut value: T, operation: impl Fn(T, T) -> T) -> T {
        let above = mask & lanemask_gt();
        let mut next = if above == 0 { WARP_SIZE } else { above.trailing_zeros() };
        let mut reach = 1;
        while reach < mask.count_ones() {
            let source = if next == WARP_SIZE { lane_id() } else { next };
            let other = shfl_idx(mask, value, source);
            let after = shfl_idx(mask, next, source);
            if next != WARP_SIZE {
                value = operation(value, other);
                next = after;
            }
            reach *= 2;
        }
        shfl_idx(mask, value, mask.trailing_zeros())
    }

    /// The inclusive scan, and the lanes that took part.
    #[inline(always)]
    pub(super) fn scan<T: WarpValue>(lanes: Lanes, mut value: T, operation: impl Fn(T, T) -> T) -> (T, Lanes) {
        let lanes = present(lanes);
        let Lanes { mask, whole, .. } = lanes;
        if whole != 0 {
            let mut distance = 1;
            while distance < whole {
                let other = shfl_up_within(mask, value, distance, whole);
                if lane_id() & (whole - 1) >= distance {
                    value = operation(other, value);
                }
                distance *= 2;
            }
            return (value, lanes);
        }
        let below = mask & lanemask_lt();
        let mut previous = if below == 0 { WARP_SIZE } else { below.ilog2() };
        let mut reach = 1;
        while reach < mask.count_ones() {
            let source = if previous == WARP_SIZE { lane_id() } else { previous };
            let other = shfl_idx(mask, value, source);
            let before = shfl_idx(mask, previous, source);
            if previous != WARP_SIZE {
                value = operation(other, value);
                previous = before;
            }
            reach *= 2;
        }
        (value, lanes)
    }

    /// The value of the lane before among `lanes`, all of which are there.
    #[inline(always)]
    pub(super) fn value_before<T: WarpValue>(lanes: Lanes, value: T) -> Option<T> {
        let below = lanes.mask & lanemask_lt();
        let source = if below == 0 { lane_id() } else { below.ilog2() };
        let before = shfl_idx(lanes.mask, value, source);
        (below != 0).then_some(before)
    }
}

#[cfg(not(warpsmith_device))]
mod executor {
    //! The same trees over the values of all lanes, which one meeting gathers.

    use super::super::meet::{absent, gather};
    use super::{Lanes, WarpValue};
    use crate::host::{WARP_SIZE, lanes as lanes_of};

    /// The values by rank, how many there are, and the calling lane's rank.
    #[track_caller]
    fn values<T: WarpValue>(name: &'static str, lanes: Lanes, value: T) -> ([T; WARP_SIZE as usize], usize, usize) {
        let gathered = gather(name, lanes.mask, value.to_lane_bits());
        if lanes.all_there && gathered.members != lanes.mask {
            absent(name, lanes.mask, gathered.members);
        }
        let mut values = [value; WARP_SIZE as usize];
        let mut count = 0;
        for lane in lanes_of(gathered.members) {
            values[count] = T::from_lane_bits(gathered.values[lane as usize]);
            count += 1;
        }
        let below = gathered.members & !(u32::MAX << super::super::lane_id());
        (values, count, below.count_ones() as usize)
    }

    #[track_caller]
    pub(super) fn reduce<T: WarpValue>(name: &'static str, lanes: Lanes, value: T, operation: impl Fn(T, T) -> T) -> T {
        let (mut values, count, _) = values(name, lanes, value);
        let mut reach = 1;
        while reach < count {
            for rank in (0..count - reach).step_by(2 * reach) {
                values[rank] = operation(values[rank], values[rank + reach]);
            }
            reach *= 2;
        }
        values[0]
    }

    /// The calling lane's inclusive scan, and that of the lane before.
    #[track_caller]
    pub(super) fn scan<T: WarpValue>(
        name: &'static str,
        lanes: Lanes,
        value: T,
        operation: impl Fn(T, T) -> T,
    ) -> (T, Option<T>) {
        let (mut values, count, own) = values(name, lanes, value);
        let mut reach = 1;
        while reach < count {
            for rank in (reach..count).rev() {
                values[rank] = operation(values[rank - reach], values[rank]);
            }
            reach *= 2;
        }
        (values[own], own.checked_sub(1).map(|before| values[before]))
    }
}

/// The reductions of `mask`, each with [`reduce`]'s order.
macro_rules! reductions {
    ($($(#[$docs:meta])* $name:ident, $number:ident, $operation:ident, $method:ident, $ptx:literal;)*) => {$(
        $(#[$docs])*
        ///
        #[doc = concat!("PTX: `redux.sync.", $ptx, "` for integers of up to 32 bits, compute capability 8.0; else `shfl.sync`, as [`reduce`].")]
        /// Every lane of the mask that has not ended must come; each gets the result.
        ///
        /// # Source
        /// PTX ISA, "redux.sync"; CUDA C++ Programming Guide, "Warp Reduce Functions".
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(warpsmith_device), track_caller)]
        pub fn $name<T: $number>(mask: u32, value: T) -> T {
            reduce_numbers(stringify!($name), Lanes::of_mask(mask), value, Operation::$operation, T::$method)
        }
    )*};
}
reductions! {
    /// The sum of the lanes' values; integers wrap, floats are added in the order of [`reduce`].
    reduce_add, WarpNumber, Add, plus, "add";
    /// The least of the lanes' values; a NaN yields to numbers, and which zero is less is not specified.
    reduce_min, WarpNumber, Min, least, "min";
    /// The greatest of the lanes' values; a NaN yields to numbers, and which zero is greater is not specified.
    reduce_max, WarpNumber, Max, greatest, "max";
    /// The bits that are set in all of the lanes' values.
    reduce_and, WarpInteger, And, and, "and";
    /// The bits that are set in any of the lanes' values.
    reduce_or, WarpInteger, Or, or, "or";
    /// The bits that are set in an odd number of the lanes' values.
    reduce_xor, WarpInteger, Xor, xor, "xor";
}

/// Joins the values of the lanes of `mask` that have not ended; each of them gets the result, the same to the bit.
///
/// Neighbours are joined first, the lower lane's value on the left: `((v0 + v1) + (v2 + v3)) + ..` over the lanes that are
/// there, whichever device runs it. So `operation` must be associative up to what you accept, but need not commute. It
/// is called as often as the device likes, and must not do what lanes do together.
///
/// PTX: `vote.sync.ballot.b32`, then five `shfl.sync.bfly.b32` for each 32 bits when the warp is full, else up to eleven
/// `shfl.sync.idx.b32`. Every lane of the mask that has not ended must come.
///
/// # Examples
/// ```
/// use warpsmith_device::{FULL_MASK, warp};
///
/// /// Where the warp's greatest value lies: the first of equals. All threads of the warp must call it.
/// fn argmax(value: f32, index: u32) -> u32 {
///     let (_, at) = warp::reduce(FULL_MASK, (value, index), |a, b| if b.0 > a.0 { b } else { a });
///     at
/// }
/// ```
/// # Source
/// CUDA C++ Programming Guide, "Warp Shuffle Functions".
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn reduce<T: WarpValue>(mask: u32, value: T, operation: impl Fn(T, T) -> T) -> T {
    reduce_lanes("reduce", Lanes::of_mask(mask), value, true, operation)
}

/// Joins the values of the lanes of `mask` up to the calling lane's, its own included.
///
/// In steps of 1, 2, 4, 8 and 16 lanes, each lane puts the value from so far below before its own; lanes that have
/// ended are no steps. As for [`reduce`], `operation` need not commute, is called as often as the device likes, and must
/// not do what lanes do together.
///
/// PTX: `vote.sync.ballot.b32`, then five `shfl.sync.up.b32` for each 32 bits when the warp is full, else up to ten
/// `shfl.sync.idx.b32`. Every lane of the mask that has not ended must come.
///
/// # Source
/// CUDA C++ Programming Guide, "Warp Shuffle Functions".
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn inclusive_scan<T: WarpValue>(mask: u32, value: T, operation: impl Fn(T, T) -> T) -> T {
    scan_lanes("inclusive_scan", Lanes::of_mask(mask), value, operation)
}

/// Joins the values of the lanes of `mask` below the calling one; `first` in the lowest, and there only.
///
/// That is the [`inclusive_scan`] of the lane before: one `shfl.sync.idx.b32` more for each 32 bits. Every lane of the mask
/// that has not ended must come.
///
/// # Source
/// CUDA C++ Programming Guide, "Warp Shuffle Functions".
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn exclusive_scan<T: WarpValue>(mask: u32, first: T, value: T, operation: impl Fn(T, T) -> T) -> T {
    exclusive_scan_lanes("exclusive_scan", Lanes::of_mask(mask), first, value, operation)
}

/// The sum of the values of the lanes of `mask` up to the calling lane's, as [`inclusive_scan`]; integers wrap.
///
/// PTX: `shfl.sync`. Every lane of the mask that has not ended must come.
///
/// # Source
/// CUDA C++ Programming Guide, "Warp Shuffle Functions".
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn inclusive_scan_add<T: WarpNumber>(mask: u32, value: T) -> T {
    scan_lanes("inclusive_scan_add", Lanes::of_mask(mask), value, T::plus)
}

/// The sum of the values of the lanes of `mask` below the calling one, as [`exclusive_scan`]; integers wrap.
///
/// PTX: `shfl.sync`. Every lane of the mask that has not ended must come.
///
/// # Source
/// CUDA C++ Programming Guide, "Warp Shuffle Functions".
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn exclusive_scan_add<T: WarpNumber>(mask: u32, value: T) -> T {
    exclusive_scan_lanes("exclusive_scan_add", Lanes::of_mask(mask), T::ZERO, value, T::plus)
}
