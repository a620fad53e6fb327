//! The order of this crate's work and another library's on a GPU.

use std::sync::Arc;

use cudarc::driver::sys::CUstream;

use super::error::ExchangeError;
use crate::device::Device;
use crate::driver::{GpuEvent, GpuStream};
use crate::error::{DriverError, Result};
use crate::stream::Stream;

/// Another library's stream, as the exchange protocols number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeStream {
    number: Option<u64>, // Invariant: `None`, or not 0: 1, 2 or a valid handle.
}

impl ExchangeStream {
    /// No stream: nothing is ordered. For the CPU executor's memory, and for a side that answers for the order itself.
    pub const UNORDERED: Self = Self { number: None };
    /// The legacy default stream, which waits for other blocking streams and they for it.
    pub const LEGACY_DEFAULT: Self = Self { number: Some(1) };
    /// The calling thread's default stream.
    pub const PER_THREAD_DEFAULT: Self = Self { number: Some(2) };

    /// The stream that a consumer passes to `__dlpack__(stream=..)`: `None` is the legacy default stream on a GPU and none on
    /// the CPU executor, -1 asks for no order, 1 and 2 are the default streams, and other numbers are handles.
    ///
    /// # Errors
    /// [`ExchangeError::StreamNumber`] for 0, which could be either default stream, and for other negative numbers;
    /// [`ExchangeError::StreamOnCpu`] for a stream of the CPU executor.
    ///
    /// # Safety
    /// A number above 2 is the handle of a stream of the device's context, and stays valid while the result is used.
    pub unsafe fn from_dlpack(device: &Device, value: Option<i64>) -> Result<Self, ExchangeError> {
        match value {
            None if device.is_gpu() => Ok(Self::LEGACY_DEFAULT),
            None | Some(-1) => Ok(Self::UNORDERED),
            Some(value) if device.is_cpu() => Err(ExchangeError::StreamOnCpu { value }),
            Some(value) => Self::numbered(value),
        }
    }

    /// The stream that a CUDA array interface names: `None` asks for no order, 1 and 2 are the default streams, and other
    /// numbers are handles.
    ///
    /// # Errors
    /// [`ExchangeError::StreamNumber`] for 0 and for negative numbers.
    ///
    /// # Safety
    /// A number above 2 is the handle of a stream of the device's context, and stays valid while the result is used.
    pub unsafe fn from_array_interface(value: Option<i64>) -> Result<Self, ExchangeError> {
        value.map_or(Ok(Self::UNORDERED), Self::numbered)
    }

    fn numbered(value: i64) -> Result<Self, ExchangeError> {
        match u64::try_from(value) {
            Ok(number) if number != 0 => Ok(Self { number: Some(number) }),
            _ => Err(ExchangeError::StreamNumber { value }),
        }
    }

    /// The number: `None` without a stream.
    #[must_use]
    pub fn number(self) -> Option<i64> {
        self.number.map(|number| i64::try_from(number).expect("it was made from an `i64`"))
    }

    /// The stream on a GPU; `None` where nothing is to be ordered.
    pub(super) fn on(self, device: &Device) -> Option<GpuStream> {
        let (number, parts) = (self.number?, device.parts()?);
        let handle: CUstream = std::ptr::with_exposed_provenance_mut(usize::try_from(number).expect("64 bits"));
        // SAFETY: 1 and 2 are the driver's own names of default streams, and the others are valid by the invariant.
        let stream = unsafe { parts.gpu.context().wrap_borrowed_stream(handle) };
        Some(GpuStream::new(Arc::clone(&parts.gpu), stream))
    }
}

fn failed(operation: &'static str) -> impl Fn(DriverError) -> ExchangeError {
    move |source| ExchangeError::Driver { operation, source }
}

impl Stream {
    /// Runs this crate's work on another library's stream, in order with that library's own work on it.
    ///
    /// # Errors
    /// [`DeviceError`](crate::DeviceError) on the CPU executor and for [`ExchangeStream::UNORDERED`], and when the driver does
    /// not answer.
    ///
    /// # Safety
    /// The stream stays valid until all handles of the result and all buffers that were used on it are gone, as the default
    /// streams always do. The per-thread default stream is another one on each thread: with it, handles and buffers stay on the
    /// thread that calls this.
    pub unsafe fn from_exchange(device: &Device, stream: ExchangeStream) -> Result<Self> {
        let needs_gpu = || ExchangeError::NeedsGpu { operation: "another library's stream" };
        let theirs = stream.on(device).ok_or_else(needs_gpu)?;
        Self::on_gpu(device, Arc::clone(theirs.cuda()), None)
    }

    /// The number by which other libraries know this stream: what to pass to a producer's `__dlpack__(stream=..)`, so that
    /// it makes its data ready for this stream. `None` on the CPU executor.
    #[must_use]
    pub fn exchange_number(&self) -> Option<i64> {
        let handle = self.as_cudarc()?.cu_stream().expose_provenance();
        // The driver's null handle is the legacy default stream, which the protocols write as 1.
        Some(i64::try_from(handle.max(1)).expect("addresses are below 2^63"))
    }

    /// Lets later work of this stream wait for all that another library has given its stream so far.
    ///
    /// # Errors
    /// [`ExchangeError::Driver`] when the driver refuses.
    pub fn wait_for_exchange(&self, theirs: ExchangeStream) -> Result<()> {
        self.not_recording("waiting for another library's stream")?;
        let (Some(queue), Some(theirs)) = (self.gpu(), theirs.on(self.device())) else { return Ok(()) };
        let event = GpuEvent::new(theirs.gpu(), false).map_err(failed("making an event"))?;
        let waits = event.record(&theirs).and_then(|()| queue.stream.wait(&event));
        Ok(waits.map_err(failed("waiting for another library's stream"))?)
    }

    /// Lets later work of another library's stream wait for all that this stream has been given so far.
    ///
    /// # Errors
    /// [`ExchangeError::Driver`] when the driver refuses.
    pub fn exchange_waits(&self, theirs: ExchangeStream) -> Result<()> {
        self.not_recording("letting another library's stream wait")?;
        let Some(theirs) = theirs.on(self.device()) else { return Ok(()) };
        Ok(self.inner().is_waited_for_by(&theirs).map_err(failed("letting another library's stream wait"))?)
    }
}

/// Lets later work on `theirs` wait for all uses of a storage so far.
pub(super) fn before(storage: &crate::memory::Storage, theirs: ExchangeStream) -> Result<(), ExchangeError> {
    let Some(theirs) = theirs.on(storage.device()) else { return Ok(()) };
    storage.order_before(&theirs).map_err(failed("letting the consumer's stream wait"))
}
