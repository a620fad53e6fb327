//! Shared memory of generated kernels.

use std::sync::atomic::AtomicU32;

use warpsmith::prelude::*;

/// A block's array in shared memory with a slot for each thread.
#[derive(Clone, Copy)]
pub(crate) struct Slots<const N: usize> {
    first: *mut u32, // Invariant: so many words of shared memory, alive as long as the kernel's thread.
}

impl<const N: usize> Slots<N> {
    /// The array at this address, for the thread that asked for it.
    ///
    /// # Safety
    /// It is shared memory of the calling thread's block, and this does not leave the thread. Between two meetings of threads,
    /// a slot that one of them writes is touched by no other.
    pub(crate) unsafe fn new(array: *mut [u32; N]) -> Self {
        Self { first: array.cast() }
    }

    pub(crate) fn get(self, index: u32) -> u32 {
        // SAFETY: the index is below the length; who made this promises that nobody writes the slot now.
        unsafe { self.first.add(index as usize % N).read() }
    }

    pub(crate) fn set(self, index: u32, value: u32) {
        // SAFETY: as above, and that nobody reads it.
        unsafe { self.first.add(index as usize % N).write(value) }
    }
}

/// A block's counters, which start at 0.
///
/// # Safety
/// It is shared memory of the calling thread's block, and the reference does not leave the thread.
pub(crate) unsafe fn counters<'a>(array: *mut [u32; 4]) -> &'a [AtomicU32; 4] {
    let t = thread_idx().x as usize;
    if t < 4 {
        // SAFETY: each of four threads writes its own, and the others wait below.
        unsafe { array.cast::<u32>().add(t).write(0) };
    }
    sync_threads();
    // SAFETY: as the caller promises; from here on the words are reached as atomics only.
    unsafe { &*array.cast() }
}
