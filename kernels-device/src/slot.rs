//! Which slots of a block's shared memory are a thread's own.

use crate::index::{Stamp, thread_in_block, threads_in_block};

/// A witness of one of a thread's own slots: a number congruent to the thread's number in its block, modulo the number of
/// the block's threads.
#[derive(Debug)]
pub struct SlotIdx {
    number: usize,
    stamp: Stamp,
}

impl SlotIdx {
    /// The slot's number.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> usize {
        self.number
    }

    /// A witness of the thread's slot that is `rounds` times the number of the block's threads further.
    #[inline(always)]
    #[must_use]
    pub fn round(&self, rounds: usize) -> Self {
        Self {
            number: self.number.saturating_add(rounds.saturating_mul(threads_in_block() as usize)),
            stamp: self.stamp,
        }
    }

    #[inline(always)]
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }
}

/// The thread's own slot: its number in the block, counted x fastest.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn slot_idx() -> SlotIdx {
    SlotIdx { number: thread_in_block() as usize, stamp: Stamp::now() }
}

/// The thread's share of `0..len`: its number in the block, then every further one that is as many threads away.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn block_stride(len: usize) -> BlockStride {
    BlockStride {
        next: thread_in_block() as usize,
        step: threads_in_block() as usize,
        len: len.min(isize::MAX as usize),
        stamp: Stamp::now(),
    }
}

/// The witnesses of [`block_stride`].
#[derive(Debug)]
pub struct BlockStride {
    next: usize,
    step: usize, // Invariant: the number of threads of the block.
    len: usize,  // Invariant: at most isize::MAX, so that `next + step` does not wrap before `next` passes it.
    stamp: Stamp,
}

impl Iterator for BlockStride {
    type Item = SlotIdx;

    #[inline(always)]
    fn next(&mut self) -> Option<SlotIdx> {
        if self.next >= self.len {
            return None;
        }
        let number = self.next;
        self.next = number.wrapping_add(self.step);
        Some(SlotIdx { number, stamp: self.stamp })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.len.saturating_sub(self.next).div_ceil(self.step.max(1));
        (count, Some(count))
    }
}

impl ExactSizeIterator for BlockStride {}
