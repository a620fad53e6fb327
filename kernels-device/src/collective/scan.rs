//! Running combinations over the block's threads.

use super::{MOST_WARPS, Warp};
use crate::bits::AnyBits;
use crate::groups::LaneGroup;
use crate::shared_array;
use crate::warp::WarpValue;

/// What a thread has from a scan.
struct Scanned<T> {
    /// All threads up to this one.
    up_to_here: T,
    /// All threads before this one; `None` for the first.
    before: Option<T>,
    /// All threads.
    total: T,
}

#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
fn scan<T: AnyBits + WarpValue>(value: T, combine: impl Fn(T, T) -> T) -> Scanned<T> {
    let warp = Warp::of_block();
    let (own, lane) = (warp.meta_group_rank() as usize, warp.thread_rank());
    let running = warp.inclusive_scan(value, &combine);
    let lane_before = warp.shfl_up(running, 1);
    let mut slots = shared_array!([T; MOST_WARPS]);
    if lane.wrapping_add(1) == warp.num_threads() {
        slots.scatter(own, running);
    }
    let slots = slots.sync();
    let mut total = slots.at(0);
    let mut warps_before = total;
    for number in 1..warp.meta_group_size() as usize {
        if number == own {
            warps_before = total;
        }
        total = combine(total, slots.at(number));
    }
    let _next = slots.sync();
    let (up_to_here, before) = match (own, lane) {
        (0, 0) => (running, None),
        (0, _) => (running, Some(lane_before)),
        (_, 0) => (combine(warps_before, running), Some(warps_before)),
        _ => (combine(warps_before, running), Some(combine(warps_before, lane_before))),
    };
    Scanned { up_to_here, before, total }
}

/// Combines the values of the threads up to and including the calling one, in order.
///
/// `combine` must be associative; it need not be commutative. PTX: 6 `shfl.sync`, a trip through shared memory, two
/// `barrier.sync`. All threads of the block must call it.
///
/// # Source
/// CUDA C++ Programming Guide, "Warp Shuffle Functions", the example of a scan.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn block_inclusive_scan<T: AnyBits + WarpValue>(value: T, combine: impl Fn(T, T) -> T) -> T {
    scan(value, combine).up_to_here
}

/// Combines `initial` and the values of the threads before the calling one, in order; and `initial` and all the block's
/// values, to carry on with.
///
/// `combine` must be associative; it need not be commutative. All threads must pass the same `initial`. PTX and callers
/// as in [`block_inclusive_scan`].
///
/// # Examples
/// ```
/// use warpsmith_device::collective::block_exclusive_scan;
///
/// /// Where a thread's items start, when each of the block's threads has some; and how many there are.
/// fn place_of(items: u32) -> (u32, u32) {
///     block_exclusive_scan(items, 0, |a, b| a + b)
/// }
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn block_exclusive_scan<T: AnyBits + WarpValue>(value: T, initial: T, combine: impl Fn(T, T) -> T) -> (T, T) {
    let scanned = scan(value, &combine);
    let before = match scanned.before {
        Some(before) => combine(initial, before),
        None => initial,
    };
    (before, combine(initial, scanned.total))
}
