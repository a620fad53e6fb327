//! The staging ring: copies of ordinary host memory in pieces through page-locked ones, so that the host's copying and the bus's
//! go on at once.

use std::fmt;
use std::mem::{ManuallyDrop, size_of_val};

use rayon::prelude::*;
use warpsmith_device::abi::KernelValue;

use super::pending::{Settled, refuse_capture, settle};
use super::pinned::size_in_bytes;
use super::slice::{DeviceSlice, DeviceSliceMut, check_lengths};
use super::storage::failed;
use super::uses::Access;
use crate::device::Device;
use crate::driver::{GpuEvent, PinnedMemory};
use crate::error::{DeviceError, DriverError, MemoryError, Result};
use crate::stream::Stream;

/// Bytes that one thread copies at a time.
const SHARE: usize = 256 << 10;

/// The pieces of a [`StagingRing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingOptions {
    piece_bytes: usize,
    pieces: usize,
}

impl Default for StagingOptions {
    /// Four pieces of 4 MiB.
    fn default() -> Self {
        Self { piece_bytes: 4 << 20, pieces: 4 }
    }
}

impl StagingOptions {
    /// Four pieces of 4 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with pieces of so many bytes, one at least.
    #[must_use]
    pub const fn piece_bytes(mut self, bytes: usize) -> Self {
        self.piece_bytes = if bytes == 0 { 1 } else { bytes };
        self
    }

    /// The same with so many pieces, two at least: one is filled while another is copied.
    #[must_use]
    pub const fn pieces(mut self, count: usize) -> Self {
        self.pieces = if count < 2 { 2 } else { count };
        self
    }
}

/// Page-locked pieces through which ordinary host memory is copied to and from a GPU: [`Device::staging_ring`].
///
/// A GPU reaches page-locked memory only, so the driver copies ordinary memory over a piece of its own, one step after the
/// other. The ring does so with several pieces and threads: while one piece travels over the bus, the host fills or empties the
/// next. On the CPU executor there is nothing to stage, and the copies are plain ones.
///
/// # Examples
/// ```
/// use warpsmith::{StagingOptions, prelude::*};
///
/// let device = Device::cpu();
/// let stream = device.stream()?;
/// let mut ring = device.staging_ring(StagingOptions::new())?;
/// let numbers = vec![1.5f32; 100_000];
/// let mut on_device = stream.zeroed::<f32>(numbers.len())?;
/// ring.copy_to_device(&stream, &numbers, &mut on_device)?;
/// let mut back = vec![0.0f32; numbers.len()];
/// ring.copy_to_host(&stream, &on_device, &mut back)?;
/// assert_eq!(back, numbers);
/// # Ok::<(), warpsmith::Error>(())
/// ```
pub struct StagingRing {
    device: Device,
    piece_bytes: usize,
    pieces: Vec<Piece>, // Empty on the executor.
    next: usize,
}

/// A piece, and the end of the last copy from or to it.
struct Piece {
    memory: ManuallyDrop<PinnedMemory>, // Freed by drop, or never, when the driver does not say that its copy is over.
    point: GpuEvent,
    in_use: bool,
    /// Whether `point` says nothing of the last copy, because it could not be recorded.
    unmarked: bool,
}

impl Piece {
    /// Waits until the last copy is over.
    fn wait(&mut self) -> Result<(), DriverError> {
        if self.unmarked {
            self.point.gpu().synchronize()?;
            (self.unmarked, self.in_use) = (false, false);
        }
        if self.in_use {
            self.point.synchronize()?;
            self.in_use = false;
        }
        Ok(())
    }

    /// Marks the end of a copy that was given to the stream.
    fn mark(&mut self, stream: &Stream, bytes: usize) -> Result<(), MemoryError> {
        let Some(queue) = stream.gpu() else { return Ok(()) };
        self.in_use = true;
        self.point.record(&queue.stream).map_err(|source| {
            self.unmarked = true;
            failed("marking the end of a copy", bytes, source)
        })
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let is_over = match (self.unmarked, self.in_use) {
            (false, false) => true,
            (false, true) => matches!(settle(&self.point, self.point.gpu()), Settled::Over(_)),
            (true, _) => self.point.gpu().synchronize().map_or_else(|error| error.is_end(), |()| true),
        };
        if !is_over {
            return;
        }
        // SAFETY: dropped here only, once.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
    }
}

impl Device {
    /// A ring of page-locked pieces for copies of ordinary host memory.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when there is not that much to be page-locked.
    pub fn staging_ring(&self, options: StagingOptions) -> Result<StagingRing> {
        let StagingOptions { piece_bytes, pieces } = options;
        let mut ring = StagingRing { device: self.clone(), piece_bytes, pieces: Vec::new(), next: 0 };
        let Some(parts) = self.parts() else { return Ok(ring) };
        size_in_bytes::<u8>(piece_bytes)?;
        for _ in 0..pieces {
            let memory = PinnedMemory::new(&parts.gpu, piece_bytes).map_err(|source| {
                super::pinned::host_allocation_failed(piece_bytes, "allocating page-locked memory", source)
            })?;
            let point = GpuEvent::new(&parts.gpu, false);
            let point = point.map_err(|source| failed("making an event for a copy", piece_bytes, source))?;
            ring.pieces.push(Piece { memory: ManuallyDrop::new(memory), point, in_use: false, unmarked: false });
        }
        Ok(ring)
    }
}

impl StagingRing {
    /// Copies all of `source` to a device's buffer or a part of one. The source has been read when this returns; the last pieces
    /// may still travel.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when the lengths differ, [`MemoryError::OtherDevice`] and [`DeviceError::OtherDevice`] for
    /// another device, [`MemoryError::Capturing`] while the stream is captured.
    pub fn copy_to_device<'a, T: KernelValue>(
        &mut self,
        stream: &Stream,
        source: &[T],
        destination: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<()> {
        let mut destination = destination.into();
        self.check(stream)?;
        if self.pieces.is_empty() {
            return destination.copy_from_host(stream, source);
        }
        check_lengths(source.len(), destination.len())?;
        let (from, all) = (source.as_ptr().cast::<u8>(), size_of_val(source));
        let mut done = 0;
        while done < all {
            let bytes = self.piece_bytes.min(all - done);
            let piece = self.take().map_err(|source| stream.work_failed(source))?;
            let start = piece.memory.host().as_ptr();
            // SAFETY: inside the source, and inside the piece, which no copy uses any more.
            unsafe { copy_in_parallel(start, from.add(done), bytes) };
            let to = destination.offset() + done;
            // SAFETY: the part is inside the storage, whose slice is as long as the source and borrowed by nobody else; the
            // piece stays until its event has passed.
            unsafe { destination.storage().start_from_host(stream, Access::Shared, to, start, bytes) }?;
            piece.mark(stream, bytes)?;
            done += bytes;
        }
        Ok(())
    }

    /// Copies a device's buffer or a part of one to all of `destination`, once the stream's work is done.
    ///
    /// # Errors
    /// As [`copy_to_device`](Self::copy_to_device); what the stream's earlier work did wrong.
    pub fn copy_to_host<'a, T: KernelValue>(
        &mut self,
        stream: &Stream,
        source: impl Into<DeviceSlice<'a, T>>,
        destination: &mut [T],
    ) -> Result<()> {
        let source = source.into();
        self.check(stream)?;
        if self.pieces.is_empty() {
            return source.copy_to_host(stream, destination);
        }
        check_lengths(source.len(), destination.len())?;
        let (to, all) = (destination.as_mut_ptr().cast::<u8>(), size_of_val(destination));
        let (count, ring) = (all.div_ceil(self.piece_bytes), self.pieces.len());
        let range = |number: usize| (number * self.piece_bytes, self.piece_bytes.min(all - number * self.piece_bytes));
        // Piece `number` is started when the one a ring's length before it was emptied.
        for number in 0..count + ring {
            let slot = number % ring;
            if let Some(before) = number.checked_sub(ring) {
                let (offset, bytes) = range(before);
                let piece = &mut self.pieces[slot];
                piece.wait().map_err(|source| stream.work_failed(source))?;
                // SAFETY: inside the piece, which no copy uses any more, and inside the destination.
                unsafe { copy_in_parallel(to.add(offset), piece.memory.host().as_ptr(), bytes) };
            }
            if number < count {
                let (offset, bytes) = range(number);
                let piece = &mut self.pieces[slot];
                piece.wait().map_err(|source| stream.work_failed(source))?;
                let start = piece.memory.host().as_ptr();
                // SAFETY: the part is inside the storage; the piece stays until its event has passed.
                unsafe { source.storage().start_to_host(stream, source.offset() + offset, start, bytes) }?;
                piece.mark(stream, bytes)?;
            }
        }
        source.storage().wait_for_copy(stream)
    }

    fn check(&self, stream: &Stream) -> Result<()> {
        if stream.device() != &self.device {
            let (found, expected) = (self.device.to_string(), stream.device().to_string());
            return Err(DeviceError::OtherDevice { what: "staging ring", found, expected }.into());
        }
        refuse_capture(stream, "a staged copy")
    }

    /// The next piece, when its last copy is over.
    fn take(&mut self) -> Result<&mut Piece, DriverError> {
        let slot = self.next;
        self.next = (slot + 1) % self.pieces.len();
        let piece = &mut self.pieces[slot];
        piece.wait()?;
        Ok(piece)
    }
}

/// Addresses for the threads that copy.
#[derive(Clone, Copy)]
struct Sides {
    to: *mut u8,
    from: *const u8,
}

// SAFETY: each thread copies a part of its own, between memory that the caller keeps for all of them.
unsafe impl Send for Sides {}
// SAFETY: as above.
unsafe impl Sync for Sides {}

/// Copies on several threads, of which one alone is slower than the bus.
///
/// # Safety
/// As for `copy_nonoverlapping`.
unsafe fn copy_in_parallel(to: *mut u8, from: *const u8, bytes: usize) {
    let sides = Sides { to, from };
    (0..bytes.div_ceil(SHARE)).into_par_iter().for_each(|share| {
        let sides = &sides;
        let start = share * SHARE;
        // SAFETY: the shares are apart and inside the range that the caller answers for.
        unsafe { sides.to.add(start).copy_from_nonoverlapping(sides.from.add(start), SHARE.min(bytes - start)) };
    });
}

impl fmt::Debug for StagingRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagingRing")
            .field("device", &self.device)
            .field("piece_bytes", &self.piece_bytes)
            .field("pieces", &self.pieces.len())
            .finish_non_exhaustive()
    }
}
