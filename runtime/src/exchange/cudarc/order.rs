//! The order of this crate's work and cudarc's on memory that cudarc owns.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};

use crate::device::cudarc_error;
use crate::driver::{Gpu, GpuEvent, GpuStream};
use crate::error::{DriverError, Result, StreamError};
use crate::exchange::error::ExchangeError;
use crate::memory::finish_context;
use crate::stream::{PER_THREAD_STREAM, Stream, StreamInner};

/// What cudarc knows of uses of its memory: an event for the last read and one for the last write.
pub(super) trait Tracked {
    /// Has `stream` wait for the uses that the next one must come after; gives the first element's address.
    fn wait(&mut self, stream: &CudaStream) -> u64;

    /// Notes a use that `stream` has been given.
    fn note(&mut self, stream: &CudaStream);
}

impl<T> Tracked for CudaView<'_, T> {
    fn wait(&mut self, stream: &CudaStream) -> u64 {
        let (address, note) = self.device_ptr(stream);
        // The use comes later; `note` is for it.
        std::mem::forget(note);
        address
    }

    fn note(&mut self, stream: &CudaStream) {
        // Dropping what comes with the address records the event.
        drop(self.device_ptr(stream));
    }
}

/// Both are written.
macro_rules! tracked_for_writing {
    ($($type:ty),*) => {$(
        impl<T> Tracked for $type {
            fn wait(&mut self, stream: &CudaStream) -> u64 {
                let (address, note) = self.device_ptr_mut(stream);
                // The use comes later; `note` is for it.
                std::mem::forget(note);
                address
            }

            fn note(&mut self, stream: &CudaStream) {
                // Dropping what comes with the address records the event.
                drop(self.device_ptr_mut(stream));
            }
        }
    )*};
}
tracked_for_writing!(CudaViewMut<'_, T>, CudaSlice<T>);

/// A stream of this crate's and the stream that cudarc's memory belongs to.
///
/// cudarc's events are recorded only where its context has several streams and keeps track of them, and remember the last
/// reader only. So the memory's own stream is waited for as well, and waits afterwards: uses of this crate then follow each
/// other, and come before what the memory's own stream does next, its free included.
pub(super) struct Order {
    ours: Arc<StreamInner>, // Invariant: of a GPU.
    theirs: GpuStream,
    /// Our stream, as one of the memory's own wrapper of the context: whether events are recorded is a matter of that.
    ours_for_them: Arc<CudaStream>,
}

impl Order {
    /// Checks that memory of cudarc's stream `theirs` can be used on `stream`.
    pub(super) fn new(stream: &Stream, theirs: &Arc<CudaStream>) -> Result<Self> {
        stream.not_recording("taking memory of cudarc")?;
        let (Some(queue), Some(parts)) = (stream.gpu(), stream.device().parts()) else {
            return Err(ExchangeError::NeedsGpu { operation: "memory of cudarc" }.into());
        };
        if theirs.cu_stream().addr() == PER_THREAD_STREAM {
            return Err(StreamError::PerThreadStream.into());
        }
        if theirs.context().cu_ctx() != parts.gpu.context().cu_ctx() {
            let (found, device) = (theirs.context().ordinal(), stream.device().to_string());
            return Err(ExchangeError::OtherContext { found, device }.into());
        }
        // cudarc calls the driver itself, which a host task must not.
        parts.gpu.bind().map_err(failed("taking memory of cudarc"))?;
        let handle = queue.stream.cuda().cu_stream();
        // SAFETY: the handle is valid as long as `ours`, which outlives the uses of the wrapper in `self`, and it is of the same
        // context, as was checked.
        let ours_for_them = unsafe { theirs.context().wrap_borrowed_stream(handle) };
        let theirs = GpuStream::new(Arc::clone(&parts.gpu), Arc::clone(theirs));
        Ok(Self { ours: Arc::clone(stream.inner()), theirs, ours_for_them })
    }

    /// Our stream.
    pub(super) fn stream(&self) -> &Arc<StreamInner> {
        &self.ours
    }

    fn gpu(&self) -> &Arc<Gpu> {
        self.theirs.gpu()
    }

    fn same_stream(&self) -> bool {
        self.theirs.cuda().cu_stream() == self.ours_for_them.cu_stream()
    }

    /// Has our stream wait for what cudarc has done with the memory; gives the first element's address.
    pub(super) fn take(&self, memory: &mut dyn Tracked) -> Result<u64, ExchangeError> {
        let failed = failed("waiting for work of cudarc");
        // What went wrong in cudarc before is told apart from what goes wrong here.
        self.check("an earlier call of cudarc").map_err(&failed)?;
        if !self.same_stream() {
            let event = GpuEvent::new(self.gpu(), false).map_err(&failed)?;
            let queue = self.ours.gpu().expect("the stream is of a GPU");
            event.record(&self.theirs).and_then(|()| queue.stream.wait(&event)).map_err(&failed)?;
        }
        let address = memory.wait(&self.ours_for_them);
        self.check("cuStreamWaitEvent").map_err(&failed)?;
        Ok(address)
    }

    /// Has cudarc's later work come after what our stream has been given.
    pub(super) fn give_back(&self, memory: &mut dyn Tracked) -> Result<(), DriverError> {
        let noted = self.gpu().bind().and_then(|()| {
            memory.note(&self.ours_for_them);
            self.check("cuEventRecord")
        });
        self.or_wait(noted.and_then(|()| self.let_theirs_wait()))
    }

    /// Has the memory's own stream come after what our stream has been given.
    pub(super) fn give_back_unnoted(&self) -> Result<(), DriverError> {
        self.or_wait(self.let_theirs_wait())
    }

    fn let_theirs_wait(&self) -> Result<(), DriverError> {
        if self.same_stream() { Ok(()) } else { self.ours.is_waited_for_by(&self.theirs) }
    }

    /// What cannot be ordered is waited for.
    fn or_wait(&self, ordered: Result<(), DriverError>) -> Result<(), DriverError> {
        ordered.or_else(|_| self.gpu().synchronize())
    }

    /// Waits until the uses are over, for memory that cudarc has again whatever happens.
    pub(super) fn wait_or_end(&self) -> Result<(), DriverError> {
        finish_context(self.gpu())
    }

    /// What went wrong in cudarc where it gives no `Result`.
    fn check(&self, call: &'static str) -> Result<(), DriverError> {
        self.theirs.cuda().context().check_err().map_err(|source| cudarc_error(call, source))
    }
}

fn failed(operation: &'static str) -> impl Fn(DriverError) -> ExchangeError {
    move |source| ExchangeError::Driver { operation, source }
}
