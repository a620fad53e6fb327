//! One element for each block, its first thread's.

use super::{OwnershipMap, sealed};
use crate::abi::{KernelValue, leaf_layout};
use crate::index::{Stamp, block_in_grid, thread_in_block};

/// Block `b` owns element `b`, counted x fastest; its first thread writes it. Witness: [`block_leader`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PerBlock;

/// The witness of a block's first thread that the block's element is its own.
#[derive(Debug)]
pub struct BlockLeader {
    block: usize,
    stamp: Stamp,
}

impl BlockLeader {
    /// The block's number in the grid.
    #[inline]
    #[must_use]
    pub fn get(&self) -> usize {
        self.block
    }
}

/// A witness for the block's first thread, `None` for all others.
///
/// # Examples
/// ```
/// use warpsmith_device::{GridSliceMut, view::{PerBlock, block_leader}};
///
/// fn write_once(total: f32, mut totals: GridSliceMut<f32, PerBlock>) {
///     if let Some(leader) = block_leader() && let Some(slot) = totals.get_mut(&leader) {
///         *slot = total;
///     }
/// }
/// ```
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn block_leader() -> Option<BlockLeader> {
    (thread_in_block() == 0).then(|| BlockLeader { block: block_in_grid() as usize, stamp: Stamp::now() })
}

impl sealed::Witness for BlockLeader {
    #[inline]
    fn stamp(&self) -> Stamp {
        self.stamp
    }
}

// SAFETY: it holds nothing.
unsafe impl KernelValue for PerBlock {
    const LAYOUT: u64 = leaf_layout::<Self>("PerBlock");
}

// SAFETY: only one thread of a block gets a witness, and different blocks have different numbers.
unsafe impl OwnershipMap for PerBlock {
    type Index = BlockLeader;

    #[inline]
    fn element(&self, index: &BlockLeader) -> Option<usize> {
        Some(index.block)
    }
}
