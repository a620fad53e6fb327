//! Copies that go on while the host does: with a buffer that moves in, or borrowed memory in a scope that waits.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of_val;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpsmith_device::abi::KernelValue;

use super::pinned::{BufferError, HostBuffer};
use super::slice::{DeviceSlice, DeviceSliceMut, check_lengths};
use super::storage::{Storage, failed};
use super::uses::Access;
use crate::driver::{Gpu, GpuEvent};
use crate::error::{DriverError, MemoryError, Result};
use crate::stream::{Stream, StreamInner};

/// How waiting for a copy ended.
pub(super) enum Settled {
    /// It is over, and so is the driver's use of the host memory.
    Over(Result<(), DriverError>),
    /// The driver would not say.
    Unknown(DriverError),
}

/// Waits for the point that an event marks.
pub(super) fn settle(event: &GpuEvent, gpu: &Gpu) -> Settled {
    settled(event.synchronize(), gpu)
}

/// What came of a wait; where it failed, the context is waited for, as it may be the event or the stream that the driver objects to.
fn settled(waited: Result<(), DriverError>, gpu: &Gpu) -> Settled {
    match waited {
        Ok(()) => Settled::Over(Ok(())),
        Err(error) if error.is_end() => Settled::Over(Err(error)),
        Err(error) => match gpu.synchronize() {
            Ok(()) => Settled::Over(Ok(())),
            Err(all) if all.is_end() => Settled::Over(Err(error)),
            Err(_) => Settled::Unknown(error),
        },
    }
}

/// Waits for all work of a stream that copies from or to borrowed memory of the host, before the borrow may end.
pub(crate) fn finish_borrowed(stream: &Stream) -> Result<()> {
    let Some(queue) = stream.gpu() else { return Ok(()) };
    let waited = wait_or_end(|| settled(queue.stream.synchronize(), queue.stream.gpu()));
    waited.map_err(|source| {
        // What was printed before a context was lost can still be read.
        stream.inner().hand_over_output();
        stream.work_failed(source)
    })
}

/// Waits for all work of a GPU's context, before memory that it uses is somebody else's again.
pub(crate) fn finish_context(gpu: &Gpu) -> Result<(), DriverError> {
    wait_or_end(|| settled(gpu.synchronize(), gpu))
}

/// Refuses copies with host memory that a graph would use again later.
pub(super) fn refuse_capture(stream: &Stream, operation: &'static str) -> Result<()> {
    let Some(queue) = stream.gpu() else { return Ok(()) };
    match queue.stream.is_capturing() {
        Ok(false) => Ok(()),
        Ok(true) => Err(MemoryError::Capturing { operation }.into()),
        Err(source) => Err(failed("asking whether a stream is captured", 0, source).into()),
    }
}

/// A copy that may still be under way, with the host buffer that moved into it.
///
/// [`wait`](Self::wait) gives the buffer back. Dropping this waits too; forgetting it leaks the buffer, so that in no case the
/// memory is used before the copy is over.
#[must_use = "the copy is waited for when this is dropped, and the buffer with it"]
pub struct Pending<B: HostBuffer> {
    buffer: Option<B>, // Invariant: there until `wait` or drop takes it.
    stream: Arc<StreamInner>,
    point: Option<GpuEvent>,
    /// For a copy to the host: the other streams whose work wrote what is copied.
    writers: Vec<Arc<StreamInner>>,
    to_host: bool,
}

impl<B: HostBuffer> Pending<B> {
    /// Whether the copy is over.
    ///
    /// # Errors
    /// [`MemoryError::Driver`] when earlier work of the stream failed.
    pub fn is_done(&self) -> Result<bool> {
        match &self.point {
            None => Ok(true),
            Some(point) => Ok(point.is_done().map_err(|source| failed("a copy", self.bytes(), source))?),
        }
    }

    /// Waits until the copy is over, and gives the buffer back.
    ///
    /// # Errors
    /// What earlier work of the stream did wrong, with the buffer: of a copy to the host also a panic of the kernels that wrote
    /// what was copied.
    pub fn wait(mut self) -> Result<B, BufferError<B>> {
        let bytes = self.bytes();
        match self.settle() {
            Settled::Over(waited) => {
                let buffer = self.buffer.take().expect("only this and drop take the buffer");
                if let Err(source) = waited {
                    return Err(BufferError::new(failed("a copy", bytes, source), buffer));
                }
                let faults = || {
                    let mut writers = std::iter::once(&self.stream).chain(&self.writers);
                    writers.find_map(|stream| stream.take_fault())
                };
                match self.to_host.then(faults).flatten() {
                    Some(error) => Err(BufferError::new(error, buffer)),
                    None => Ok(buffer),
                }
            }
            Settled::Unknown(source) => {
                std::mem::forget(self.buffer.take());
                Err(BufferError::with(failed("a copy", bytes, source), None))
            }
        }
    }

    fn bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| size_of_val::<[B::Element]>(buffer))
    }

    fn settle(&self) -> Settled {
        match (&self.point, self.stream.gpu()) {
            (Some(point), Some(queue)) => settle(point, queue.stream.gpu()),
            _ => Settled::Over(Ok(())),
        }
    }
}

impl<B: HostBuffer> Drop for Pending<B> {
    fn drop(&mut self) {
        let bytes = self.bytes();
        let Some(buffer) = self.buffer.take() else { return };
        let waited = match self.settle() {
            Settled::Over(waited) => waited,
            Settled::Unknown(source) => {
                std::mem::forget(buffer);
                Err(source)
            }
        };
        if let Err(source) = waited {
            self.stream.device().defer(failed("a copy whose buffer was dropped", bytes, source).into());
        }
    }
}

impl<B: HostBuffer> fmt::Debug for Pending<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("bytes", &self.bytes()).field("to_host", &self.to_host).finish_non_exhaustive()
    }
}

impl Stream {
    /// Copies a page-locked buffer to a device's buffer or a part of one, and returns at once. The buffer moves into the copy
    /// and comes back from [`Pending::wait`].
    ///
    /// # Errors
    /// The buffer, and [`MemoryError::LengthMismatch`] when the lengths differ, [`MemoryError::OtherDevice`] for another device's
    /// stream, [`MemoryError::Capturing`] while the stream is captured.
    ///
    /// # Examples
    /// See [`Device::pinned`](crate::Device::pinned).
    pub fn copy_to_device<'a, B: HostBuffer>(
        &self,
        source: B,
        destination: impl Into<DeviceSliceMut<'a, B::Element>>,
    ) -> Result<Pending<B>, BufferError<B>> {
        let destination = destination.into();
        let (start, len) = (source.as_ptr(), source.len());
        let bytes = size_of_val::<[B::Element]>(&source);
        self.start_copy(source, false, Vec::new(), bytes, || {
            check_lengths(len, destination.len())?;
            let storage = destination.storage();
            // SAFETY: the slice is inside the storage and borrowed by nobody else; the host's side moves into the copy.
            unsafe { storage.start_from_host(self, Access::Shared, destination.offset(), start.cast(), bytes) }
        })
    }

    /// Copies a device's buffer or a part of one to a page-locked buffer, and returns at once. The buffer moves into the copy
    /// and comes back from [`Pending::wait`].
    ///
    /// # Errors
    /// As [`copy_to_device`](Self::copy_to_device).
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let device = Device::cpu();
    /// let stream = device.stream()?;
    /// let squares = stream.to_device(&[1u32, 4, 9])?;
    /// let copy = stream.copy_to_host(&squares, device.pinned::<u32>(3)?)?;
    /// // ... the host goes on ...
    /// assert_eq!(*copy.wait()?, [1, 4, 9]);
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn copy_to_host<'a, B: HostBuffer>(
        &self,
        source: impl Into<DeviceSlice<'a, B::Element>>,
        mut destination: B,
    ) -> Result<Pending<B>, BufferError<B>> {
        let source = source.into();
        let (start, len) = (destination.as_mut_ptr(), destination.len());
        let bytes = size_of_val::<[B::Element]>(&destination);
        let writers = source.storage().other_writers(self);
        self.start_copy(destination, true, writers, bytes, || {
            check_lengths(source.len(), len)?;
            // SAFETY: the slice is inside the storage; the host's side moves into the copy.
            unsafe { source.storage().start_to_host(self, source.offset(), start.cast(), bytes) }
        })
    }

    /// Starts a copy with a buffer that moves in.
    fn start_copy<B: HostBuffer>(
        &self,
        buffer: B,
        to_host: bool,
        writers: Vec<Arc<StreamInner>>,
        bytes: usize,
        copy: impl FnOnce() -> Result<()>,
    ) -> Result<Pending<B>, BufferError<B>> {
        let point = match refuse_capture(self, "a copy with page-locked memory").and_then(|()| new_point(self, bytes)) {
            Ok(point) => point,
            Err(error) => return Err(BufferError::new(error, buffer)),
        };
        if let Err(error) = copy() {
            return Err(BufferError::new(error, buffer));
        }
        let pending = Pending { buffer: Some(buffer), stream: Arc::clone(self.inner()), point, writers, to_host };
        if let (Some(point), Some(queue)) = (&pending.point, self.gpu())
            && let Err(source) = point.record(&queue.stream)
        {
            return Err(unmarked(pending, bytes, source));
        }
        Ok(pending)
    }

    /// Runs `body`, which may start copies from and to borrowed memory of the host, and waits for them all before it returns,
    /// also when `body` fails or panics.
    ///
    /// Copies from and to page-locked memory ([`PinnedBuffer`](crate::PinnedBuffer), which is a slice) go on while `body` does
    /// other things; those of ordinary memory may wait.
    ///
    /// # Errors
    /// What `body` returns; else what the stream's work did wrong, panics of kernels included when something was copied to the
    /// host. When both fail, the work's failure comes back from [`Device::synchronize`](crate::Device::synchronize).
    ///
    /// # Panics
    /// When `body` does, after the copies are over.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let device = Device::cpu();
    /// let stream = device.stream()?;
    /// let (input, mut output) = (device.pinned_from(&[1.0f32, 2.0])?, device.pinned::<f32>(2)?);
    /// let mut on_device = stream.zeroed::<f32>(2)?;
    /// stream.scope(|scope| {
    ///     scope.copy_to_device(&input, &mut on_device)?;
    ///     scope.copy_to_host(&on_device, &mut output)
    /// })?;
    /// assert_eq!(*output, [1.0, 2.0]);
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    ///
    /// Memory that does not outlive the scope is refused:
    /// ```compile_fail
    /// # use warpsmith::prelude::*;
    /// # let stream = Device::cpu().stream()?;
    /// # let mut on_device = stream.zeroed::<f32>(2)?;
    /// stream.scope(|scope| {
    ///     let input = [1.0f32, 2.0];
    ///     scope.copy_to_device(&input, &mut on_device)
    /// })?;
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn scope<'env, R, F>(&self, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope CopyScope<'scope, 'env>) -> Result<R>,
    {
        let scope = CopyScope {
            stream: self.clone(),
            copies: Mutex::new(Copies {
                point: new_point(self, 0)?,
                started: false,
                writers: Vec::new(),
                to_host: false,
            }),
            scope: PhantomData,
            environment: PhantomData,
        };
        // Nothing between the first copy and the wait may unwind past this frame.
        let ran: Result<Result<R>, Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        let waited = scope.wait();
        // Of two failures the body's comes back, and the other from the device's next `synchronize`.
        let keep = |waited: Result<()>| {
            if let Err(error) = waited {
                self.device().defer(error);
            }
        };
        match ran {
            Ok(Ok(value)) => waited.map(|()| value),
            Ok(Err(error)) => {
                keep(waited);
                Err(error)
            }
            Err(panic) => {
                keep(waited);
                resume_unwind(panic)
            }
        }
    }
}

/// An event for the end of a copy; `None` on the executor.
fn new_point(stream: &Stream, bytes: usize) -> Result<Option<GpuEvent>> {
    let Some(queue) = stream.gpu() else { return Ok(None) };
    let point = GpuEvent::new(queue.stream.gpu(), false);
    Ok(Some(point.map_err(|source| failed("making an event for a copy", bytes, source))?))
}

/// Ends a copy whose end could not be marked.
#[cold]
fn unmarked<B: HostBuffer>(mut pending: Pending<B>, bytes: usize, source: DriverError) -> BufferError<B> {
    let buffer = pending.buffer.take();
    let over = source.is_end()
        || pending.stream.gpu().is_none_or(|queue| match queue.stream.gpu().synchronize() {
            Ok(()) => true,
            Err(error) => error.is_end(),
        });
    let error = failed("marking the end of a copy", bytes, source);
    if over {
        return BufferError::with(error, buffer);
    }
    std::mem::forget(buffer);
    BufferError::with(error, None)
}

/// Starts copies from and to memory that outlives the scope: [`Stream::scope`].
pub struct CopyScope<'scope, 'env: 'scope> {
    stream: Stream,
    copies: Mutex<Copies>,
    // Neither may be shortened or lengthened, as in `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    environment: PhantomData<&'env mut &'env ()>,
}

struct Copies {
    point: Option<GpuEvent>,
    started: bool,
    writers: Vec<Arc<StreamInner>>,
    to_host: bool,
}

impl<'scope> CopyScope<'scope, '_> {
    /// The scope's stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Starts a copy of all of `source` to a device's buffer or a part of one.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when the lengths differ, [`MemoryError::OtherDevice`] for another device,
    /// [`MemoryError::Capturing`] while the stream is captured.
    pub fn copy_to_device<'a, T: KernelValue>(
        &'scope self,
        source: &'scope [T],
        destination: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<()> {
        let destination = destination.into();
        check_lengths(source.len(), destination.len())?;
        let (storage, offset, bytes) = (destination.storage(), destination.offset(), size_of_val(source));
        self.start_checked(bytes, || {
            // SAFETY: the slice is inside the storage and borrowed by nobody else; the host's side is borrowed until the scope
            // has waited.
            unsafe { storage.start_from_host(&self.stream, Access::Shared, offset, source.as_ptr().cast(), bytes) }
        })
    }

    /// Starts a copy of a device's buffer or a part of one to all of `destination`.
    ///
    /// # Errors
    /// As [`copy_to_device`](Self::copy_to_device).
    pub fn copy_to_host<'a, T: KernelValue>(
        &'scope self,
        source: impl Into<DeviceSlice<'a, T>>,
        destination: &'scope mut [T],
    ) -> Result<()> {
        let source = source.into();
        check_lengths(source.len(), destination.len())?;
        let bytes = size_of_val(destination);
        self.note_read(source.storage());
        self.start_checked(bytes, || {
            let start = destination.as_mut_ptr().cast();
            // SAFETY: the slice is inside the storage; the host's side is borrowed until the scope has waited.
            unsafe { source.storage().start_to_host(&self.stream, source.offset(), start, bytes) }
        })
    }

    /// Notes that a storage is copied to the host, so that what its writers did wrong is reported.
    pub(super) fn note_read(&self, storage: &Storage) {
        let writers = storage.other_writers(&self.stream);
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.to_host = true;
        copies.writers.extend(writers);
    }

    /// Starts a copy, unless the stream is captured, and marks its end.
    pub(super) fn start_checked(&self, bytes: usize, copy: impl FnOnce() -> Result<()>) -> Result<()> {
        refuse_capture(&self.stream, "a copy with borrowed memory")?;
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.started = true;
        copy()?;
        if let (Some(point), Some(queue)) = (&copies.point, self.stream.gpu())
            && let Err(source) = point.record(&queue.stream)
        {
            // The last copy is not covered by the event.
            wait_or_end(|| settled(queue.stream.synchronize(), queue.stream.gpu()))
                .map_err(|source| failed("a copy with borrowed memory", bytes, source))?;
            return Err(failed("marking the end of a copy", bytes, source).into());
        }
        Ok(())
    }

    /// Waits for all copies; when this returns, none uses the host's memory any more.
    fn wait(&self) -> Result<()> {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if !copies.started {
            return Ok(());
        }
        if let (Some(point), Some(queue)) = (&copies.point, self.stream.gpu()) {
            wait_or_end(|| settle(point, queue.stream.gpu()))
                .map_err(|source| failed("a copy with borrowed memory", 0, source))?;
        }
        if !copies.to_host {
            return Ok(());
        }
        let mut writers = std::iter::once(self.stream.inner()).chain(&copies.writers);
        writers.find_map(|stream| stream.take_fault()).map_or(Ok(()), Err)
    }
}

/// Waits for work with borrowed memory. Returning before they are over would let the GPU write memory that is somebody
/// else's by then, so a driver that does not answer at all ends the process.
fn wait_or_end(wait: impl Fn() -> Settled) -> Result<(), DriverError> {
    for _ in 0..1000 {
        match wait() {
            Settled::Over(waited) => return waited,
            Settled::Unknown(error) => {
                tracing::error!(%error, "the driver does not say whether work with borrowed memory is over");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    std::process::abort()
}

impl fmt::Debug for CopyScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyScope").field("stream", &self.stream).finish_non_exhaustive()
    }
}
