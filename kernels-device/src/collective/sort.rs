//! Sorting one value a thread.

use super::Warp;
use crate::bits::AnyBits;
use crate::groups::LaneGroup;
use crate::index::{thread_in_block, threads_in_block};
use crate::shared_array;
use crate::warp::{WARP_SIZE, WarpValue};

/// Most threads of a block.
const MOST_THREADS: usize = 1024;

/// Sorts the values of the block's threads: thread `t` gets the `t`-th in the order that `is_less` gives. Equal values may
/// change places.
///
/// `is_less` must be a strict weak order, as for `sort_unstable_by`; with one that is not, the values come in some order, or
/// some of them twice. PTX: for 1024 threads 55 steps, 40 of them with one `shfl.sync` and 15 with a trip through shared memory
/// and two `barrier.sync`. All threads of the block must call it.
///
/// # Examples
/// ```
/// use warpsmith_device::collective::block_sort;
///
/// /// The block's values in ascending order, NaNs last.
/// fn sorted(value: f32) -> f32 {
///     block_sort(value, |a, b| a.total_cmp(b).is_lt())
/// }
/// ```
/// # Source
/// K. E. Batcher, "Sorting networks and their applications", 1968: bitonic merging, in the form whose comparators all point
/// one way, so that missing threads count as greatest.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn block_sort<T: AnyBits + WarpValue>(value: T, is_less: impl Fn(&T, &T) -> bool) -> T {
    let (warp, thread, threads) = (Warp::of_block(), thread_in_block(), threads_in_block());
    let mut slots = shared_array!([T; MOST_THREADS]);
    let mut own = value;
    let mut run = 2;
    while run < threads.wrapping_mul(2) {
        // The first step of a merge mirrors the second half; the others halve the distance.
        let mut bits = run.wrapping_sub(1);
        while bits > 0 {
            let partner = thread ^ bits;
            let exists = partner < threads;
            let other = if bits < WARP_SIZE {
                warp.shfl_xor(own, bits)
            } else {
                slots.put(own);
                let reading = slots.sync();
                let other = reading.at(if exists { partner } else { thread } as usize);
                slots = reading.sync();
                other
            };
            // Of two equal values each thread keeps its own.
            let wrong = if thread < partner { is_less(&other, &own) } else { is_less(&own, &other) };
            if exists && wrong {
                own = other;
            }
            bits = if bits == run.wrapping_sub(1) { run / 4 } else { bits / 2 };
        }
        run = run.wrapping_mul(2);
    }
    own
}
