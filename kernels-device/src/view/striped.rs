//! `N` elements a thread, a block's threads side by side in each round.

use super::{OwnershipMap, sealed};
use crate::abi::{KernelValue, fold_layout, leaf_layout};
use crate::index::{Stamp, block_in_grid, thread_in_block, threads_in_block};

/// Block `b` of `threads` threads owns the `N * threads` elements from `b * N * threads`, and its thread `t` every
/// `threads`-th of them from the `t`-th on: so the threads of a warp reach neighbours in each of the `N` rounds. Witness:
/// [`striped_idx`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Striped<const N: usize>;

/// A witness of one of a thread's own elements under [`Striped`].
#[derive(Debug)]
pub struct StripedIdx<const N: usize> {
    first: usize, // Invariant: the thread's first element.
    step: usize,  // Invariant: threads of a block.
    round: usize, // Invariant: below N.
    stamp: Stamp,
}

impl<const N: usize> StripedIdx<N> {
    /// The element's index.
    #[inline]
    #[must_use]
    pub fn get(&self) -> usize {
        self.first.wrapping_add(self.round.wrapping_mul(self.step))
    }

    /// A witness of the thread's element in round `round`.
    ///
    /// # Panics
    /// When `round` is not below `N`.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn nth(&self, round: usize) -> Self {
        assert!(round < N, "round {round} of {N}");
        Self { round, ..*self }
    }

    /// Witnesses of all the thread's elements, in order.
    #[inline]
    pub fn elements(&self) -> impl Iterator<Item = Self> + use<N> {
        let (first, step, stamp) = (self.first, self.step, self.stamp);
        (0..N).map(move |round| Self { first, step, round, stamp })
    }
}

/// A witness of the thread's own elements under [`Striped`], at the first of them.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn striped_idx<const N: usize>() -> StripedIdx<N> {
    const { assert!(N > 0 && N <= 1 << 16, "a thread has from 1 to 65536 elements") };
    let threads = threads_in_block() as usize;
    // A block past these has no element in any slice, and no index may wrap around to another block's.
    const LAST_BLOCK: u64 = isize::MAX as u64 >> (16 + 10 + 1);
    let number = block_in_grid();
    let first = if number <= LAST_BLOCK {
        (number as usize).wrapping_mul(N).wrapping_mul(threads).wrapping_add(thread_in_block() as usize)
    } else {
        isize::MAX as usize
    };
    StripedIdx { first, step: threads, round: 0, stamp: Stamp::now() }
}

impl<const N: usize> sealed::Witness for StripedIdx<N> {
    #[inline]
    fn stamp(&self) -> Stamp {
        self.stamp
    }
}

// SAFETY: it holds nothing.
unsafe impl<const N: usize> KernelValue for Striped<N> {
    const LAYOUT: u64 = fold_layout(leaf_layout::<Self>("Striped"), N as u64);
}

// SAFETY: `(block * N + round) * threads + thread` is different for different threads, since `round < N`, `thread <
// threads` and nothing below 2^63 wraps around; a block for which it would gets indices that no slice has.
unsafe impl<const N: usize> OwnershipMap for Striped<N> {
    type Index = StripedIdx<N>;

    #[inline]
    fn element(&self, index: &StripedIdx<N>) -> Option<usize> {
        Some(index.get())
    }
}
