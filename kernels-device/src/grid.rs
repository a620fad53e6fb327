//! The whole grid as a group: its size, a thread's rank in it, and a barrier for all of its blocks.

use crate::index::{block_in_grid, grid_dim, thread_in_block, threads_in_block};

/// All threads of the launch; from [`this_grid`].
///
/// # Examples
/// ```
/// use core::sync::atomic::{AtomicU32, Ordering};
///
/// use warpsmith_device::{block_idx, this_grid, thread_idx};
///
/// /// Each block marks its own place; past the barrier the next block's mark is there.
/// fn exchange(marks: &[AtomicU32]) -> u32 {
///     let (own, blocks) = (block_idx().x as usize, marks.len());
///     if thread_idx().x == 0 {
///         marks[own].store(own as u32 + 1, Ordering::Relaxed);
///     }
///     this_grid().sync();
///     marks[(own + 1) % blocks].load(Ordering::Relaxed)
/// }
/// ```
/// The launch says `LaunchConfig::new(blocks, threads).cooperative()`.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    _private: (),
}

/// The grid that the calling thread belongs to.
#[inline]
#[must_use]
pub fn this_grid() -> Grid {
    Grid { _private: () }
}

impl Grid {
    /// Waits until every thread of the grid has come here, and makes their earlier writes visible to each other.
    ///
    /// Every thread of every block must call it, at the same place. Threads that have ended are not waited for while one
    /// of their block comes; a block that ends as a whole without coming would be waited for without end. Once a thread of
    /// the launch has panicked, those that wait in vain end too.
    ///
    /// A kernel that calls this is launched with `LaunchConfig::cooperative`; every other launch of it is refused.
    ///
    /// PTX: `barrier.red.or.pred` for the block, then `atom.add.u64` and `ld` of one counter by one thread of each block
    /// between `fence.acq_rel.gpu`, then `barrier.red.or.pred`.
    ///
    /// # Panics
    /// On the CPU executor, in a launch that is not cooperative. It also reports threads that wait at different places, and
    /// blocks that ended without coming.
    ///
    /// # Source
    /// CUDA C++ Programming Guide, "Grid Synchronization"; PTX ISA, "Memory Consistency Model".
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn sync(&self) {
        #[cfg(warpsmith_device)]
        crate::intrinsics::grid::sync_grid(self.num_blocks());
        #[cfg(not(warpsmith_device))]
        {
            let place = core::panic::Location::caller();
            let may_wait = crate::host::current("Grid::sync", |context| context.block().can_sync_grid());
            assert!(may_wait, "`Grid::sync` needs a cooperative launch: `LaunchConfig::cooperative()`");
            crate::host::current("Grid::sync", |context| context.block().sync_grid(context.thread(), place));
        }
    }

    /// The calling thread's number in the grid: blocks before threads, x fastest in both.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn thread_rank(&self) -> u64 {
        self.block_rank().wrapping_mul(u64::from(threads_in_block())).wrapping_add(u64::from(thread_in_block()))
    }

    /// Threads of the grid.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn num_threads(&self) -> u64 {
        self.num_blocks().wrapping_mul(u64::from(threads_in_block()))
    }

    /// The number of the calling thread's block in the grid, x fastest.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn block_rank(&self) -> u64 {
        block_in_grid()
    }

    /// Blocks of the grid.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn num_blocks(&self) -> u64 {
        grid_dim().count()
    }
}
