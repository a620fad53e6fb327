//! One value out of all the block's.

use super::{MOST_WARPS, Warp};
use crate::bits::AnyBits;
use crate::groups::LaneGroup;
use crate::shared_array;
use crate::warp::WarpValue;

/// Combines the values of all threads of the block, in the order of the threads, and gives every thread the result.
///
/// `combine` must be associative; it need not be commutative. Neighbours are combined first: with 8 threads the result is
/// `((0 1) (2 3)) ((4 5) (6 7))`, in each warp; the warps' results are combined from the first to the last. So sums of
/// floats are the same in every run, and on the CPU.
///
/// PTX: 5 `shfl.sync`, a trip through shared memory, two `barrier.sync`. All threads of the block must call it.
///
/// # Examples
/// ```
/// use warpsmith_device::{GridSliceMut, block_leader, collective::block_reduce, grid_stride, view::PerBlock};
///
/// /// The largest value that each block's threads come by.
/// fn largest(input: &[u32], mut output: GridSliceMut<u32, PerBlock>) {
///     let own = grid_stride(input.len()).map(|i| input[i.get()]).max().unwrap_or(0);
///     let largest = block_reduce(own, u32::max);
///     if let Some(leader) = block_leader() && let Some(output) = output.get_mut(&leader) {
///         *output = largest;
///     }
/// }
/// ```
/// # Source
/// CUDA C++ Programming Guide, "Warp Shuffle Functions".
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn block_reduce<T: AnyBits + WarpValue>(value: T, combine: impl Fn(T, T) -> T) -> T {
    let warp = Warp::of_block();
    let total = warp.reduce(value, &combine);
    let mut slots = shared_array!([T; MOST_WARPS]);
    if warp.thread_rank() == 0 {
        slots.scatter(warp.meta_group_rank() as usize, total);
    }
    let slots = slots.sync();
    let mut total = slots.at(0);
    for number in 1..warp.meta_group_size() as usize {
        total = combine(total, slots.at(number));
    }
    let _next = slots.sync();
    total
}
