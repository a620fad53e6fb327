//! How a stream is made: its priority, and the stream that a GPU has by itself.

use std::ops::RangeInclusive;

use super::{Queue, Stream};
use crate::device::Device;
use crate::error::{DeviceError, Result, StreamError};
use crate::outside::{self, Inside};

/// The priorities that the CPU executor takes: those of current GPUs. Its work is done when it is given, so they change nothing.
const EXECUTOR_PRIORITIES: RangeInclusive<i32> = -5..=0;

/// How [`Device::stream_with`] makes a stream.
///
/// # Examples
/// ```
/// use warpsmith::{StreamOptions, prelude::*};
///
/// let device = Device::cpu();
/// let most_urgent = *device.stream_priorities()?.start();
/// let stream = device.stream_with(StreamOptions::new().priority(most_urgent))?;
/// assert_eq!(stream.priority()?, most_urgent);
/// # Ok::<(), warpsmith::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    priority: Option<i32>,
}

impl StreamOptions {
    /// As [`Device::stream`] makes one.
    #[must_use]
    pub const fn new() -> Self {
        Self { priority: None }
    }

    /// Blocks of streams with a lower number start before those of others. 0 is the default, and
    /// [`Device::stream_priorities`] tells the range.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
}

impl Device {
    /// A new stream, made as the options say.
    ///
    /// # Errors
    /// [`StreamError::PriorityOutOfRange`], and as for [`Device::stream`].
    pub fn stream_with(&self, options: StreamOptions) -> Result<Stream> {
        let Some(requested) = options.priority else { return self.stream() };
        let range = self.stream_priorities()?;
        if !range.contains(&requested) {
            let (most_urgent, least_urgent) = range.into_inner();
            return Err(StreamError::PriorityOutOfRange { requested, most_urgent, least_urgent }.into());
        }
        self.check_environment()?;
        Stream::with_priority(self, requested)
    }

    /// The priorities that streams may have, the most urgent first: -5..=0 on current GPUs.
    ///
    /// # Errors
    /// [`StreamError`] when the driver does not answer.
    pub fn stream_priorities(&self) -> Result<RangeInclusive<i32>> {
        let Some(parts) = self.parts() else { return Ok(EXECUTOR_PRIORITIES) };
        let range = parts.gpu.stream_priorities();
        Ok(range.map_err(|source| StreamError::Driver { operation: "asking for the priorities of streams", source })?)
    }

    /// The stream that the GPU's context has by itself, `cuda.h`'s legacy default stream, for work in order with that of code which
    /// names no stream. It waits for all blocking streams of other libraries and they wait for it, so it is slow to share; streams of
    /// this crate are not blocking. All handles of it are the same stream.
    ///
    /// The default stream of each thread (`CU_STREAM_PER_THREAD`) is not offered: its handle means another stream on another thread,
    /// where buffers of this crate would be used and freed out of order. On the CPU executor this is a new stream.
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn default_stream(&self) -> Result<Stream> {
        self.check_environment()?;
        let Some(parts) = self.parts() else { return self.stream() };
        if outside::inside() == Inside::Gpu {
            return Err(DeviceError::InHostTask.into());
        }
        let mut open = parts.default_stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(stream) = open.upgrade() {
            return Ok(stream);
        }
        let stream = Stream::from_cudarc(&parts.gpu.context().default_stream())?;
        *open = stream.downgrade();
        Ok(stream)
    }
}

impl Stream {
    /// The stream's priority: the lower the number, the more urgent.
    ///
    /// # Errors
    /// [`StreamError`] when the driver does not answer.
    pub fn priority(&self) -> Result<i32> {
        match &self.inner.queue {
            Queue::Cpu(_) => Ok(self.inner.executor_priority),
            Queue::Gpu(queue) => {
                let asked = queue.stream.priority();
                Ok(asked
                    .map_err(|source| StreamError::Driver { operation: "asking for a stream's priority", source })?)
            }
        }
    }
}
