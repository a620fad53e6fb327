//! Dynamic shared memory, cut into arrays.

use super::phases::{SharedArray, Writing};
use super::{dynamic_shared, dynamic_shared_bytes};
use crate::bits::AnyBits;
use crate::index::Stamp;

/// Cuts the block's dynamic shared memory, whose size the launch gives, into arrays of any types and lengths, one after
/// another.
///
/// The arrays of one carver do not overlap. Every thread must take the same ones in the same order to share them; where
/// threads do not, or where a second carver starts again from the beginning, slots hold each other's bytes, which is some
/// value of their type.
///
/// # Examples
/// ```
/// use warpsmith_device::{shared::DynamicShared, slot_idx};
///
/// /// Swaps neighbours, in a block of any size: the launch gives 4 bytes a thread.
/// fn swap(value: f32, threads: usize) -> f32 {
///     let mut slots = DynamicShared::new().take::<f32>(threads);
///     slots.put(value);
///     slots.sync().get(slot_idx().get() ^ 1).unwrap_or(value)
/// }
/// ```
#[derive(Debug)]
pub struct DynamicShared {
    first: *mut u8,
    used: usize, // Invariant: at most `bytes`.
    bytes: usize,
    stamp: Stamp,
}

impl DynamicShared {
    /// A carver with all of the launch's dynamic shared memory.
    #[inline]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is made in a kernel only, from what the launch gave")]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn new() -> Self {
        Self { first: dynamic_shared::<u8>(), used: 0, bytes: dynamic_shared_bytes(), stamp: Stamp::now() }
    }

    /// Bytes that are left, before the next array is aligned.
    #[inline]
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.wrapping_sub(self.used)
    }

    /// The next array, of `len` items, aligned as its type asks.
    ///
    /// # Panics
    /// When the launch has not given enough; the message says how much is missing. Does not compile for a type with an
    /// alignment above 16.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn take<T: AnyBits>(&mut self, len: usize) -> SharedArray<[T], Writing> {
        const { assert!(align_of::<T>() <= 16, "dynamic shared memory is aligned to 16 bytes") };
        self.stamp.check();
        let mask = const { align_of::<T>() - 1 };
        // No wrapping: a launch's bytes are far below `usize::MAX`.
        let start = self.used.wrapping_add(mask) & !mask;
        let end = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(start));
        match end {
            Some(end) if end <= self.bytes => {
                self.used = end;
                // SAFETY: the window has `bytes` bytes, is aligned to 16, and the array lies inside it.
                unsafe { SharedArray::of_length(self.first.add(start).cast::<T>(), len, self.stamp) }
            }
            _ => too_little(len, size_of::<T>(), start, self.bytes),
        }
    }
}

#[cfg_attr(warpsmith_device, inline(always))]
#[cfg_attr(not(warpsmith_device), cold, inline(never), track_caller)]
fn too_little(len: usize, size: usize, start: usize, bytes: usize) -> ! {
    panic!(
        "an array of {len} items of {size} bytes from byte {start} on does not fit into the launch's {bytes} bytes of \
         dynamic shared memory; `LaunchConfig::with_shared_bytes` gives more"
    )
}
