//! The event: a point in a stream's work, to wait for and to measure time between.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::completion::SharedEvent;
use crate::device::Device;
use crate::driver::GpuEvent;
use crate::error::{DeviceError, DriverError, Result, StreamError};
use crate::outside::Kept;
use crate::stream::Stream;

/// A point in a stream's work.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// let stream = Device::cpu().stream()?;
/// let start = stream.record()?;
/// let numbers = stream.to_device(&[1.0f32; 1000])?;
/// let end = stream.record()?;
/// println!("{} elements copied in {:?}", numbers.len(), start.elapsed(&end)?);
/// # Ok::<(), warpsmith::Error>(())
/// ```
pub struct Event {
    device: Device,
    options: EventOptions,
    point: Point,
}

/// How [`Event::with_options`] makes an event.
///
/// # Examples
/// ```
/// use warpsmith::{EventOptions, prelude::*};
///
/// let device = Device::cpu();
/// let event = Event::with_options(&device, EventOptions::new().without_timing().blocking())?;
/// event.record(&device.stream()?)?;
/// event.synchronize()?;
/// # Ok::<(), warpsmith::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventOptions {
    timing: bool,
    blocking: bool,
}

impl EventOptions {
    /// An event that takes the time, and whose wait asks the GPU in a loop.
    #[must_use]
    pub const fn new() -> Self {
        Self { timing: true, blocking: false }
    }

    /// The event does not take the time, which makes recording it and waiting for it cheaper. [`Event::elapsed`] is an error then.
    #[must_use]
    pub const fn without_timing(mut self) -> Self {
        self.timing = false;
        self
    }

    /// A thread that waits for the event sleeps instead of asking in a loop: it hears of the end later, and takes no core meanwhile.
    #[must_use]
    pub const fn blocking(mut self) -> Self {
        self.blocking = true;
        self
    }
}

impl Default for EventOptions {
    fn default() -> Self {
        Self::new()
    }
}

enum Point {
    /// The executor's work is done when it is given, so a point is a moment.
    Cpu(Mutex<Option<Instant>>),
    Gpu {
        event: SharedEvent,
        recorded: Mutex<bool>,
    },
}

impl Event {
    /// An event that marks no point yet.
    ///
    /// # Errors
    /// [`StreamError`] when the driver refuses.
    pub fn new(device: &Device) -> Result<Self> {
        Self::with_options(device, EventOptions::new())
    }

    /// As [`new`](Self::new), made as the options say.
    ///
    /// # Errors
    /// [`StreamError`] when the driver refuses.
    pub fn with_options(device: &Device, options: EventOptions) -> Result<Self> {
        let point = match device.parts() {
            None => Point::Cpu(Mutex::new(None)),
            Some(parts) => {
                let event = GpuEvent::with_options(&parts.gpu, options.timing, options.blocking);
                let event = event.map_err(|source| failed("making an event", source))?;
                Point::Gpu { event: Kept::new(Arc::new(event)), recorded: Mutex::new(false) }
            }
        };
        Ok(Self { device: device.clone(), options, point })
    }

    /// The driver's event, where it marks a point.
    pub(crate) fn shared(&self) -> Option<SharedEvent> {
        match &self.point {
            Point::Gpu { event, recorded } if *recorded.lock().unwrap_or_else(PoisonError::into_inner) => {
                Some(event.clone())
            }
            _ => None,
        }
    }

    /// Marks this point of the stream: all that it has been given so far.
    ///
    /// # Errors
    /// [`DeviceError::OtherDevice`] when the stream is another device's, [`StreamError`] when the driver refuses.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.not_recording("recording an event")?;
        self.check_device(stream.device())?;
        match (&self.point, stream.gpu()) {
            (Point::Gpu { event, recorded }, Some(queue)) => {
                event.record(&queue.stream).map_err(|source| failed("recording an event", source))?;
                *recorded.lock().unwrap_or_else(PoisonError::into_inner) = true;
            }
            (Point::Cpu(moment), _) => {
                *moment.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            }
            (Point::Gpu { .. }, None) => unreachable!("the stream is of this event's device, which is a GPU"),
        }
        Ok(())
    }

    /// Whether the point was passed; an event that was never recorded counts as passed.
    ///
    /// # Errors
    /// [`StreamError`] when the work before it failed.
    pub fn is_done(&self) -> Result<bool> {
        match &self.point {
            Point::Cpu(_) => Ok(true),
            Point::Gpu { event, .. } => {
                Ok(event.is_done().map_err(|source| failed("the work before an event", source))?)
            }
        }
    }

    /// Waits until the point was passed. Panics of kernels are reported by their stream, not here.
    ///
    /// # Errors
    /// [`StreamError`] when the work before it failed.
    pub fn synchronize(&self) -> Result<()> {
        if let Point::Gpu { event, .. } = &self.point {
            event.synchronize().map_err(|source| failed("the work before an event", source))?;
        }
        Ok(())
    }

    /// The time from this point to `later`; waits until both were passed. 0 when `later` is the earlier.
    ///
    /// # Errors
    /// [`DeviceError`] when one was never recorded, does not take the time, or belongs to another device; [`StreamError`] when work
    /// failed.
    pub fn elapsed(&self, later: &Self) -> Result<Duration> {
        self.check_device(&later.device)?;
        if !(self.options.timing && later.options.timing) {
            return Err(DeviceError::EventWithoutTiming.into());
        }
        match (&self.point, &later.point) {
            (Point::Gpu { event: start, recorded: first }, Point::Gpu { event: end, recorded: second }) => {
                for recorded in [first, second] {
                    if !*recorded.lock().unwrap_or_else(PoisonError::into_inner) {
                        return Err(DeviceError::EventNotRecorded.into());
                    }
                }
                self.synchronize()?;
                later.synchronize()?;
                Ok(start.elapsed(end).map_err(|source| failed("reading the time between events", source))?)
            }
            (Point::Cpu(first), Point::Cpu(second)) => {
                let moment = |point: &Mutex<Option<Instant>>| {
                    point.lock().unwrap_or_else(PoisonError::into_inner).ok_or(DeviceError::EventNotRecorded)
                };
                Ok(moment(second)?.saturating_duration_since(moment(first)?))
            }
            _ => unreachable!("both events are of one device"),
        }
    }

    /// Lets later work of the stream wait for this point.
    pub(crate) fn wait_on(&self, stream: &Stream) -> Result<()> {
        stream.not_recording("waiting for an event")?;
        let (Point::Gpu { event, recorded }, Some(queue)) = (&self.point, stream.gpu()) else {
            // A stream of the executor has no later work, and a GPU's stream need not wait for what is done already.
            return self.synchronize();
        };
        if *recorded.lock().unwrap_or_else(PoisonError::into_inner) {
            queue.stream.wait(event).map_err(|source| failed("waiting for an event", source))?;
        }
        Ok(())
    }

    fn check_device(&self, other: &Device) -> Result<()> {
        if self.device.is_same(other) {
            return Ok(());
        }
        let (found, expected) = (self.device.to_string(), other.to_string());
        Err(DeviceError::OtherDevice { what: "event", found, expected }.into())
    }
}

fn failed(operation: &'static str, source: DriverError) -> StreamError {
    StreamError::Driver { operation, source }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("device", &self.device).finish_non_exhaustive()
    }
}
