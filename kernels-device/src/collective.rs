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

/// Most warps of a block: 1024 threads.
const MOST_WARPS: usize = 32;

/// The calling thread's warp, without the lanes that its block does not have.
type Warp = crate::groups::Tile<32>;
