//! The timeline: when a device did what it was given, by its own clock.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

mod bandwidth;
mod chrome;
mod report;
mod table;

pub use report::{KernelTimes, TimelineEntry, TimelineReport};

use crate::device::Device;
use crate::driver::GpuEvent;
use crate::error::{DriverError, Result, StreamError};
use crate::stream::{Stream, StreamInner};
use crate::work::{Shape, Work};

/// What a piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WorkKind {
    /// A kernel.
    Launch,
    /// A copy from the host to the device.
    CopyToDevice,
    /// A copy from the device to the host.
    CopyToHost,
    /// A copy within a device.
    CopyOnDevice,
    /// Memory that is set to a value.
    Fill,
    /// A graph, as one piece on a GPU. On the CPU executor its nodes are told instead.
    Graph,
}

impl fmt::Display for WorkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Launch => "launch",
            Self::CopyToDevice => "copy to the device",
            Self::CopyToHost => "copy to the host",
            Self::CopyOnDevice => "copy on the device",
            Self::Fill => "fill",
            Self::Graph => "graph",
        })
    }
}

/// Keeps when the launches and copies of some streams began and ended.
///
/// On a GPU each piece of work lies between two events of the driver, which costs some microseconds of the host's time and
/// keeps pieces of one stream from overlapping as they may at their edges: look at times here, and at overlap in a profiler.
/// On the CPU executor the times are those of the call.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
/// use warpsmith::Timeline;
///
/// #[kernel]
/// fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
///     let i = global_idx();
///     if let Some(y) = y.get_mut(&i) {
///         *y += a * x[i.get()];
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// # let stream = Device::cpu().stream()?;
/// let timeline = Timeline::new();
/// timeline.watch(&stream)?;
/// let x = stream.filled(1.0f32, 1000)?;
/// let mut y = stream.filled(2.0f32, 1000)?;
/// saxpy::launch(&stream, LaunchConfig::for_len(1000), 3.0, &x, &mut y)?;
///
/// // saxpy reads and writes `y`: 12 bytes for each element, not the 8 of its arguments.
/// let report = timeline.report()?.with_bytes("saxpy", 12 * 1000);
/// println!("{report}");
/// assert_eq!(report.kernels()[0].launches, 1);
/// let json = report.chrome_trace(); // for a trace viewer
/// # assert!(json.contains("saxpy"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Timeline {
    inner: Arc<TimelineInner>,
}

/// What a timeline shares with the streams that it watches.
pub(crate) struct TimelineInner {
    started: Instant,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    lanes: Vec<Lane>,
    entries: Vec<TimelineEntry>,
    /// Bytes a second that copies on each device reach, once measured.
    bandwidths: Vec<(Device, f64)>,
}

/// A stream that is watched, and its work that was not asked for yet.
struct Lane {
    stream: u64,
    device: Device,
    /// A moment on the GPU's clock, and when it was since the timeline's start.
    anchor: Option<(Arc<GpuEvent>, Duration)>,
    pending: Vec<Pending>,
    /// The first failure of the driver to time something.
    failed: Option<DriverError>,
}

struct Pending {
    work: Work,
    host: Span,
    thread: (u64, Option<String>),
    /// `None` where the host does the work.
    gpu: Option<(GpuEvent, GpuEvent)>,
}

/// A span of time since the timeline's start.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: Duration,
    end: Duration,
}

impl Default for TimelineInner {
    fn default() -> Self {
        Self { started: Instant::now(), kept: Mutex::default() }
    }
}

impl fmt::Debug for TimelineInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept();
        let pending: usize = kept.lanes.iter().map(|lane| lane.pending.len()).sum();
        f.debug_struct("TimelineInner").field("entries", &kept.entries.len()).field("pending", &pending).finish()
    }
}

impl Timeline {
    /// A timeline that watches nothing yet; its times count from now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps what this stream is given from now on. Watching a stream again changes nothing.
    ///
    /// On a GPU this waits for what the stream was given before, to compare its clock with the host's.
    ///
    /// # Errors
    /// [`StreamError::Watched`] when another timeline watches the stream, [`StreamError`] when the driver refuses.
    pub fn watch(&self, stream: &Stream) -> Result<()> {
        stream.not_recording("timing")?;
        let _held = stream.timeline().lock_for(&self.inner).ok_or(StreamError::Watched)?;
        let mut kept = self.inner.kept();
        if kept.lanes.iter().any(|lane| lane.stream == stream.inner().id()) {
            return Ok(());
        }
        let anchor = match stream.gpu() {
            None => None,
            // One for each device, so that its streams are compared by its own clock.
            Some(queue) => match kept.lanes.iter().find(|lane| lane.device == *stream.device()) {
                Some(lane) => lane.anchor.clone(),
                None => {
                    let taken = || {
                        let event = GpuEvent::new(queue.stream.gpu(), true)?;
                        queue.stream.synchronize()?;
                        event.record(&queue.stream)?;
                        event.synchronize()?;
                        Ok(event)
                    };
                    let event =
                        taken().map_err(|source| failed("comparing the GPU's clock with the host's", source))?;
                    Some((Arc::new(event), self.inner.started.elapsed()))
                }
            },
        };
        kept.lanes.push(Lane {
            stream: stream.inner().id(),
            device: stream.device().clone(),
            anchor,
            pending: Vec::new(),
            failed: None,
        });
        drop(kept);
        stream.timeline().set(&self.inner);
        Ok(())
    }

    /// All that was kept so far, in the order of its beginnings; waits until it was done.
    ///
    /// The first report measures how fast each device copies its own memory, for the share of it that kernels reach.
    ///
    /// # Errors
    /// [`StreamError`] when work failed or the driver could not time it; what was kept stays.
    pub fn report(&self) -> Result<TimelineReport> {
        let mut kept = self.inner.kept();
        let Kept { lanes, entries, bandwidths } = &mut *kept;
        for lane in lanes.iter_mut() {
            if let Some(source) = lane.failed.take() {
                return Err(failed("timing a stream's work", source).into());
            }
            lane.finish(entries).map_err(|source| failed("the work that is timed", source))?;
        }
        entries.sort_by_key(|entry| entry.start);
        let devices: Vec<Device> = lanes.iter().map(|lane| lane.device.clone()).collect();
        for device in devices {
            if !bandwidths.iter().any(|(known, _)| *known == device) {
                let bandwidth = device.copy_bandwidth()?;
                bandwidths.push((device, bandwidth));
            }
        }
        let bandwidths = bandwidths.iter().map(|(device, bandwidth)| (device.to_string(), *bandwidth)).collect();
        Ok(TimelineReport::new(entries.clone(), bandwidths))
    }
}

impl TimelineInner {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// Turns what is pending into entries, once it was done.
    fn finish(&mut self, entries: &mut Vec<TimelineEntry>) -> Result<(), DriverError> {
        /// `cuEventElapsedTime` gives milliseconds as an `f32`: within this it counts in steps of half a microsecond.
        const FINE: Duration = Duration::from_secs(4);
        let mut done = 0;
        let mut outcome = Ok(());
        for pending in &mut self.pending {
            let span = match (&self.anchor, pending.gpu.take()) {
                (Some((anchor, at)), Some((start, end))) => {
                    let times = end.synchronize().and_then(|()| Ok((anchor.elapsed(&start)?, start.elapsed(&end)?)));
                    match times {
                        Ok((since, took)) => {
                            let start_at = *at + since;
                            if since > FINE {
                                self.anchor = Some((Arc::new(start), start_at));
                            }
                            Span { start: start_at, end: start_at + took }
                        }
                        Err(error) => {
                            pending.gpu = Some((start, end));
                            outcome = Err(error);
                            break;
                        }
                    }
                }
                _ => pending.host,
            };
            done += 1;
            let Work { kind, ref mut name, shape, bytes } = pending.work;
            entries.push(TimelineEntry {
                kind,
                name: std::mem::take(name),
                device: self.device.to_string(),
                stream: self.stream,
                grid: shape.map(|Shape { grid, .. }| grid),
                block: shape.map(|Shape { block, .. }| block),
                shared_bytes: shape.map_or(0, |Shape { shared_bytes, .. }| shared_bytes),
                bytes,
                start: span.start,
                end: span.end,
                queued: pending.host.start,
                queued_until: pending.host.end,
                thread: std::mem::take(&mut pending.thread),
            });
        }
        self.pending.drain(..done);
        outcome
    }
}

/// Which timeline watches a stream.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct TimelineSlot {
    active: AtomicBool,
    timeline: Mutex<Weak<TimelineInner>>,
    /// Held while a timeline begins to watch.
    watching: Mutex<()>,
}

impl TimelineSlot {
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Keeps other timelines away while this one begins to watch; `None` where one does already.
    fn lock_for(&self, timeline: &Arc<TimelineInner>) -> Option<MutexGuard<'_, ()>> {
        let held = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        match self.current() {
            Some(other) if !Arc::ptr_eq(&other, timeline) => None,
            _ => Some(held),
        }
    }

    fn current(&self) -> Option<Arc<TimelineInner>> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    fn set(&self, timeline: &Arc<TimelineInner>) {
        *self.timeline.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(timeline);
        self.active.store(true, Ordering::Release);
    }

    /// Begins to time a piece of work, where a timeline watches.
    pub(crate) fn begin(&self, stream: &Stream, work: Work) -> Option<Timing> {
        if !self.is_active() {
            return None;
        }
        let Some(timeline) = self.current() else {
            self.active.store(false, Ordering::Release);
            return None;
        };
        let gpu = match stream.gpu() {
            None => None,
            Some(queue) => match GpuEvent::new(queue.stream.gpu(), true).and_then(|event| {
                event.record(&queue.stream)?;
                Ok(event)
            }) {
                Ok(event) => Some(event),
                Err(error) => {
                    timeline.note_failure(stream.inner().id(), error);
                    return None;
                }
            },
        };
        let start = timeline.started.elapsed();
        Some(Timing { timeline, stream: Arc::clone(stream.inner()), work, start, gpu })
    }
}

impl TimelineInner {
    fn note_failure(&self, stream: u64, error: DriverError) {
        if let Some(lane) = self.kept().lanes.iter_mut().find(|lane| lane.stream == stream) {
            lane.failed.get_or_insert(error);
        }
    }
}

/// A piece of work that is being given to a stream.
pub(crate) struct Timing {
    timeline: Arc<TimelineInner>,
    stream: Arc<StreamInner>,
    work: Work,
    start: Duration,
    gpu: Option<GpuEvent>,
}

impl Timing {
    /// The work was given.
    pub(crate) fn end(self) {
        let Self { timeline, stream, work, start, gpu } = self;
        let host = Span { start, end: timeline.started.elapsed() };
        let gpu = match (gpu, stream.gpu()) {
            (Some(begun), Some(queue)) => {
                let ended = GpuEvent::new(queue.stream.gpu(), true).and_then(|event| {
                    event.record(&queue.stream)?;
                    Ok(event)
                });
                match ended {
                    Ok(ended) => Some((begun, ended)),
                    Err(error) => return timeline.note_failure(stream.id(), error),
                }
            }
            _ => None,
        };
        let pending = Pending { work, host, thread: this_thread(), gpu };
        if let Some(lane) = timeline.kept().lanes.iter_mut().find(|lane| lane.stream == stream.id()) {
            lane.pending.push(pending);
        }
    }
}

/// A number for this thread, and its name if it has one.
fn this_thread() -> (u64, Option<String>) {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    (NUMBER.with(|number| *number), std::thread::current().name().map(str::to_owned))
}

fn failed(operation: &'static str, source: DriverError) -> StreamError {
    StreamError::Driver { operation, source }
}
