//! What a whole block computes together: reductions, scans, broadcasts, sorting, and exchanges between threads.
//!
//! Every thread of the block must call each of these, at the same place, and all of them must still run; the block may
//! have any shape and any number of threads, counted x fastest. Each uses some shared memory, once for each place in the
//! source, and ends with a barrier, so that it may be called in a loop.
//!
//! When threads diverge here or one has ended, results are unspecified values, and the CPU executor reports threads that
//! wait for each other in vain.

mod exchange;
mod reduce;
mod scan;
mod sort;

pub use exchange::{block_broadcast, blocked_to_striped, striped_to_blocked};
pub use reduce::block_reduce;
pub use scan::{block_exclusive_scan, block_inclusive_scan};
pub use sort::block_sort;

use crate::index::{block_dim, thread_in_block};
use crate::warp::{FULL_MASK, WARP_SIZE, WarpValue, shfl_idx};

/// Most warps of a block: 1024 threads.
const MOST_WARPS: usize = 32;

/// Where a thread stands in its block.
struct Place {
    /// Number in the block.
    thread: u32,
    /// Threads of the block.
    threads: u32,
    /// Number of the warp in the block.
    warp: usize,
    /// Number in the warp.
    lane: u32,
    /// Lanes of the warp that exist.
    lanes: u32,
}

impl Place {
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn here() -> Self {
        let block = block_dim();
        let (thread, threads) = (thread_in_block(), block.x.wrapping_mul(block.y).wrapping_mul(block.z));
        let lane = thread % WARP_SIZE;
        let first = thread.wrapping_sub(lane);
        let lanes = threads.wrapping_sub(first).min(WARP_SIZE);
        Self { thread, threads, warp: (thread / WARP_SIZE) as usize, lane, lanes }
    }

    /// Warps of the block.
    #[inline(always)]
    fn warps(&self) -> usize {
        self.threads.div_ceil(WARP_SIZE) as usize
    }
}

/// The value of lane `source`, which exists.
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
fn from_lane<T: WarpValue>(value: T, source: u32) -> T {
    shfl_idx(FULL_MASK, value, source)
}
