//! The stream: work that a device does in order, beside the work of other streams.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytemuck::Zeroable;
use cudarc::driver::CudaStream;
use warpsmith_device::abi::{DeviceElement, KernelValue};

use crate::check::{CheckReport, Finding};
use crate::completion::Mark;
use crate::device::{Device, LAUNCH_COUNT_BITS, cudarc_error};
use crate::driver::{GpuEvent, GpuMemory, GpuPool, GpuStream};
use crate::error::{DeviceError, DriverError, Error, GraphError, KernelPanic, LaunchError, Result, StreamError};
use crate::event::Event;
use crate::graph::{Graph, Recorder};
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DeviceSlice, Storage};
use crate::module::LoadedKernel;
use crate::output::{GpuOutput, OutputLine, Printing, Sink, SinkSlot};
use crate::outside::{self, Inside, Kept};
use crate::panic_report::RecordSlot;
use crate::timeline::TimelineSlot;

mod host_task;
mod options;

pub use options::StreamOptions;

use host_task::TaskPanic;

/// The handle of the default stream of each thread.
pub(crate) const PER_THREAD_STREAM: usize = 2;

/// A queue of work on a device: launches and copies run in the order in which they are given.
///
/// A `Stream` is a handle: clones are the same stream. Work on different streams overlaps, except that a buffer used on
/// one stream and then on another is waited for: buffers keep track of their uses.
///
/// On a GPU, launches return before the work is done. A failure of it, a panic of a kernel above all, comes back from the
/// next [`synchronize`](Self::synchronize) of this stream or copy to the host on it. The CPU executor does its work at
/// once, and reports panics at the same places. After a stream was dropped, its panic comes back from a copy to the host of a
/// buffer that it used last, or, once its buffers are dropped too, from [`Device::synchronize`](crate::Device::synchronize). A
/// program that ends without any of these never hears of it.
///
/// What kernels print with `gpu_println!` comes out at the same calls, before they report anything. Dropping the last handle
/// of a stream whose kernels may have printed waits for them, so that nothing is lost.
#[derive(Clone)]
pub struct Stream {
    inner: Kept<Arc<StreamInner>>,
    /// Shared by all handles of the stream and by nothing else: without it, no more work comes.
    handle: Kept<Arc<Handle>>,
}

/// A stream that others keep open, or nobody.
#[derive(Default)]
pub(crate) struct WeakStream(Weak<Handle>);

impl WeakStream {
    pub(crate) fn upgrade(&self) -> Option<Stream> {
        self.0.upgrade().map(Stream::from_handle)
    }
}

/// Hands over what kernels have printed when the last handle goes.
struct Handle(Arc<StreamInner>);

impl Drop for Handle {
    fn drop(&mut self) {
        if let Queue::Gpu(queue) = &self.0.queue
            && queue.output.is_pending()
        {
            // What went wrong is reported as for every stream that is dropped.
            let _ = queue.stream.synchronize();
            self.0.hand_over_output();
        }
    }
}

/// What each launch looks at comes first.
#[repr(C, align(64))]
pub(crate) struct StreamInner {
    id: u64,
    queue: Queue,
    // After `queue`, whose drop still needs the device.
    device: Device,
    /// What a graph's recording has been given; `None` for streams that work.
    recorder: Option<Box<Recorder>>,
    timeline: TimelineSlot,
    recent: RecentKernels,
    /// The recordings of graphs that were launched here: their kernels' panics are this stream's to report.
    graphs: Mutex<Vec<Arc<StreamInner>>>,
    handles: Weak<Handle>,
    sink: SinkSlot,
    task_panic: Arc<TaskPanic>,
    /// What was asked for; on the CPU executor it changes nothing.
    executor_priority: i32,
}

enum Queue {
    Cpu(Mutex<Option<Box<KernelPanic>>>),
    Gpu(Box<GpuQueue>),
}

/// What a stream has when its device is a GPU.
pub(crate) struct GpuQueue {
    pub(crate) stream: GpuStream,
    /// `None` only while the stream is dropped.
    record: Option<RecordSlot>,
    /// Used again for every crossing: a wait keeps the point at which the event was last recorded before it.
    crossing: OnceLock<GpuEvent>,
    launches: AtomicU64,
    output: GpuOutput,
    /// Held from recording `crossing` to the wait for it.
    crossing_lock: Mutex<()>,
    /// What kernels that sync the grid count in; allocated for the first of them.
    grid_barrier: Mutex<Option<GpuMemory>>,
    pool: Option<Arc<GpuPool>>,
    /// How many points were marked for futures; held while one is, so that their numbers are in the stream's order.
    marks: Mutex<u64>,
}

/// The kernels last launched on a stream, newest first, without repeats in a row.
#[derive(Debug, Default)]
#[repr(C)]
struct RecentKernels {
    newest: AtomicU64,
    older: Mutex<[u64; RecentKernels::KEPT]>,
}

impl RecentKernels {
    const KEPT: usize = 3;

    #[inline]
    fn push(&self, kernel: &LoadedKernel) {
        let entry = u64::from(kernel.number()) + 1;
        let newest = self.newest.load(Ordering::Relaxed);
        if newest != entry {
            let mut older = self.older.lock().unwrap_or_else(PoisonError::into_inner);
            older.rotate_right(1);
            older[0] = newest;
            self.newest.store(entry, Ordering::Relaxed);
        }
    }

    fn names(&self, device: &Device) -> Vec<String> {
        let older = *self.older.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = vec![self.newest.load(Ordering::Relaxed)];
        entries.extend(older);
        let mut names = Vec::new();
        for entry in entries.into_iter().filter(|&entry| entry != 0) {
            let number = u32::try_from(entry - 1).unwrap_or(u32::MAX);
            if let Some(kernel) = device.kernels().by_number(number)
                && !names.iter().any(|name| name == kernel.path())
            {
                names.push(kernel.path().to_owned());
            }
        }
        names
    }
}

impl Stream {
    /// A new stream of the device.
    pub(crate) fn new(device: &Device) -> Result<Self> {
        match device.parts() {
            None => Self::on_executor(device, 0, None),
            Some(parts) => {
                device.defer_cudarc_error();
                let operation = "making a stream";
                // cudarc calls the driver itself.
                parts.gpu.bind().map_err(|source| StreamError::Driver { operation, source })?;
                let stream = parts.gpu.context().new_stream().map_err(|source| StreamError::Driver {
                    operation,
                    source: cudarc_error("cuStreamCreate", source),
                })?;
                Self::on_gpu(device, stream, None)
            }
        }
    }

    /// A stream that takes work for a graph and does none.
    pub(crate) fn recording(device: &Device) -> Result<Self> {
        let recorder = Some(Box::default());
        match device.parts() {
            None => Self::on_executor(device, 0, recorder),
            Some(parts) => {
                let operation = "making a stream";
                // cudarc calls the driver itself.
                parts.gpu.bind().map_err(|source| StreamError::Driver { operation, source })?;
                let stream = parts.gpu.context().new_stream().map_err(|source| StreamError::Driver {
                    operation,
                    source: cudarc_error("cuStreamCreate", source),
                })?;
                Self::on_gpu(device, stream, recorder)
            }
        }
    }

    /// Records work for a graph, in order, each piece after the one before; nothing of it is done until the graph is launched.
    ///
    /// `record` gets a stream that takes launches, copies between buffers of the device, fills, and copies from the host, whose bytes
    /// the graph keeps. What needs the work's result at once, such as [`synchronize`](Self::synchronize) or a copy to the host, and
    /// allocations are errors there. This stream itself is not touched: whatever goes wrong in `record`, a panic included, leaves it as
    /// it was.
    ///
    /// An `unsafe` launch in `record` promises what it promises for each launch of the graph.
    ///
    /// # Errors
    /// What `record` returns; [`StreamError`] when the driver refuses.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// #[kernel]
    /// fn add_one(mut y: GridSliceMut<u32>) {
    ///     if let Some(y) = y.get_mut(&global_idx()) {
    ///         *y += 1;
    ///     }
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let stream = Device::cpu().stream()?;
    /// let mut y = stream.zeroed::<u32>(100)?;
    /// let graph = stream.capture(|recording| {
    ///     for _ in 0..3 {
    ///         add_one::launch(recording, LaunchConfig::for_len(100), &mut y)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// let graph = graph.instantiate()?;
    /// graph.launch(&stream)?;
    /// graph.launch(&stream)?;
    /// assert_eq!(stream.to_host(&y)?, [6; 100]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn capture(&self, record: impl FnOnce(&Self) -> Result<()>) -> Result<Graph> {
        let mut graph = Graph::new(self.device())?;
        graph.record_chain(record)?;
        Ok(graph)
    }

    /// Where work is recorded, on a graph's recording.
    #[inline]
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.inner.recorder.as_deref()
    }

    /// Whether this takes work for a graph.
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.inner.recorder.is_some()
    }

    /// Refuses what cannot be recorded.
    #[inline]
    pub(crate) fn not_recording(&self, operation: &'static str) -> Result<(), GraphError> {
        if self.is_recording() { Err(GraphError::NotRecorded { operation }) } else { Ok(()) }
    }

    /// A new stream of a priority that the device has.
    pub(crate) fn with_priority(device: &Device, priority: i32) -> Result<Self> {
        let Some(parts) = device.parts() else { return Self::on_executor(device, priority, None) };
        let operation = "making a stream with a priority";
        // cudarc calls the driver itself.
        parts.gpu.bind().map_err(|source| StreamError::Driver { operation, source })?;
        let made = parts.gpu.context().new_stream_with_priority(priority);
        let stream = made.map_err(|source| StreamError::Driver {
            operation,
            source: cudarc_error("cuStreamCreateWithPriority", source),
        })?;
        Self::on_gpu(device, stream, None)
    }

    fn on_executor(device: &Device, priority: i32, recorder: Option<Box<Recorder>>) -> Result<Self> {
        if outside::inside() == Inside::Cpu {
            return Err(DeviceError::InHostTask.into());
        }
        Ok(Self::from_queue(device, Queue::Cpu(Mutex::new(None)), priority, recorder))
    }

    fn from_handle(handle: Arc<Handle>) -> Self {
        Self { inner: Kept::new(Arc::clone(&handle.0)), handle: Kept::new(handle) }
    }

    pub(crate) fn downgrade(&self) -> WeakStream {
        WeakStream(Arc::downgrade(&self.handle))
    }

    /// Runs this crate's work on a stream that code on cudarc already has, in order with that code's own work on it.
    ///
    /// Buffers know only the uses that go through this crate: order other uses yourself, on the same stream or by events.
    ///
    /// # Errors
    /// [`StreamError::PerThreadStream`] for the default stream of each thread; [`DeviceError`] or [`StreamError`] when the driver does
    /// not answer.
    pub fn from_cudarc(stream: &Arc<CudaStream>) -> Result<Self> {
        if stream.cu_stream().addr() == PER_THREAD_STREAM {
            return Err(StreamError::PerThreadStream.into());
        }
        let device = Device::from_cudarc(stream.context())?;
        Self::on_gpu(&device, Arc::clone(stream), None)
    }

    pub(crate) fn on_gpu(device: &Device, stream: Arc<CudaStream>, recorder: Option<Box<Recorder>>) -> Result<Self> {
        let parts = device.parts().ok_or(DeviceError::NeedsGpu { operation: "a CUDA stream" })?;
        parts.gpu.bind().map_err(|source| StreamError::Driver { operation: "taking a stream", source })?;
        let record = parts
            .records
            .take()
            .map_err(|source| StreamError::Driver { operation: "setting memory aside for panics", source })?;
        let queue = GpuQueue {
            stream: GpuStream::new(Arc::clone(&parts.gpu), stream),
            record: Some(record),
            crossing: OnceLock::new(),
            launches: AtomicU64::new(0),
            output: GpuOutput::default(),
            crossing_lock: Mutex::new(()),
            grid_barrier: Mutex::new(None),
            pool: parts.pool.clone(),
            marks: Mutex::new(0),
        };
        Ok(Self::from_queue(device, Queue::Gpu(Box::new(queue)), 0, recorder))
    }

    fn from_queue(device: &Device, queue: Queue, executor_priority: i32, recorder: Option<Box<Recorder>>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let handle = Arc::new_cyclic(|handles| {
            let recent = RecentKernels::default();
            let (handles, sink, timeline) = (Weak::clone(handles), SinkSlot::default(), TimelineSlot::default());
            let (graphs, task_panic, device) = (Mutex::default(), Arc::default(), device.clone());
            Handle(Arc::new(StreamInner {
                id,
                queue,
                recent,
                recorder,
                graphs,
                handles,
                sink,
                timeline,
                task_panic,
                executor_priority,
                device,
            }))
        });
        Self::from_handle(handle)
    }

    /// The device that does the work.
    #[inline]
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// cudarc's stream, for code that uses cudarc beside this crate; `None` on the CPU executor.
    #[must_use]
    pub fn as_cudarc(&self) -> Option<&Arc<CudaStream>> {
        self.inner.gpu().map(|queue| queue.stream.cuda())
    }

    /// A buffer with these elements.
    ///
    /// # Errors
    /// [`MemoryError`](crate::MemoryError) when there is not that much memory.
    pub fn to_device<T: KernelValue>(&self, elements: &[T]) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::from_host(self, elements)
    }

    /// The elements of a buffer or of a part of one, once the stream's work is done.
    ///
    /// # Errors
    /// [`KernelPanic`] when a kernel on this stream has panicked, [`StreamError`] when earlier work failed.
    pub fn to_host<'a, T: DeviceElement>(&self, buffer: impl Into<DeviceSlice<'a, T>>) -> Result<Vec<T>> {
        buffer.into().to_host(self)
    }

    /// A buffer of `len` elements, all of whose bytes are zero.
    ///
    /// # Errors
    /// [`MemoryError`](crate::MemoryError) when there is not that much memory.
    pub fn zeroed<T: DeviceElement + Zeroable>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::zeroed(self, len)
    }

    /// A buffer of `len` copies of a value.
    ///
    /// # Errors
    /// [`MemoryError`](crate::MemoryError) when there is not that much memory.
    pub fn filled<T: KernelValue>(&self, value: T, len: usize) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::filled(self, value, len)
    }

    /// A buffer of `len` elements that hold nothing yet, for a kernel that takes `GridSliceMut<MaybeUninit<T>>`.
    ///
    /// # Errors
    /// [`MemoryError`](crate::MemoryError) when there is not that much memory.
    pub fn uninit<T: KernelValue>(&self, len: usize) -> Result<DeviceBuffer<MaybeUninit<T>>> {
        DeviceBuffer::uninit(self, len)
    }

    /// Waits until all work of the stream is done.
    ///
    /// # Errors
    /// [`KernelPanic`] for the first panic of a kernel since the last report, with the stream usable afterwards;
    /// [`Error::Check`] with what the checker found, on a [checked device](Device::cpu_checked);
    /// [`StreamError`] when work failed, and then the GPU's context may be lost, as the message says, or when a
    /// [host task](Self::host_task) has panicked.
    pub fn synchronize(&self) -> Result<()> {
        self.not_recording("a synchronise")?;
        self.inner.check_outside()?;
        if let Queue::Gpu(queue) = &self.inner.queue {
            queue.stream.synchronize().map_err(|source| {
                // What was printed before a context was lost can still be read.
                self.inner.hand_over_output();
                self.work_failed(source)
            })?;
        }
        self.report()
    }

    /// As [`synchronize`](Self::synchronize), but gives up after `limit`. The work goes on then.
    ///
    /// # Errors
    /// [`StreamError::Timeout`] with the kernels last launched, and as [`synchronize`](Self::synchronize).
    pub fn synchronize_timeout(&self, limit: Duration) -> Result<()> {
        self.not_recording("a synchronise")?;
        if let Queue::Gpu(queue) = &self.inner.queue {
            let start = Instant::now();
            let mut pause = Duration::from_micros(1);
            while !queue.stream.is_done().map_err(|source| self.work_failed(source))? {
                let waited = start.elapsed();
                if waited >= limit {
                    self.inner.hand_over_output();
                    return Err(StreamError::Timeout { waited, kernels: self.recent_kernels() }.into());
                }
                std::thread::sleep(pause.min(limit - waited));
                pause = (pause * 2).min(Duration::from_millis(2));
            }
        }
        self.report()
    }

    /// Sets who takes the lines that kernels print on this stream, instead of the device's sink. It is called by whoever
    /// synchronises, and on the CPU executor by the threads that run kernels, which wait meanwhile; it must not use the
    /// stream.
    ///
    /// # Examples
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use warpsmith::prelude::*;
    ///
    /// #[kernel]
    /// fn greet() {
    ///     gpu_println!("hello from thread {}", thread_idx());
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let stream = Device::cpu().stream()?;
    /// let lines = Arc::new(Mutex::new(Vec::new()));
    /// let sink = Arc::clone(&lines);
    /// stream.set_output_sink(move |line| sink.lock().unwrap().push(line.text.to_owned()));
    /// greet::launch(&stream, LaunchConfig::new(1, 1))?;
    /// stream.synchronize()?;
    /// assert_eq!(*lines.lock().unwrap(), ["hello from thread (0, 0, 0)"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_output_sink(&self, sink: impl Fn(&OutputLine<'_>) + Send + Sync + 'static) {
        self.inner.sink.set(Some(Arc::new(sink)));
    }

    pub(crate) fn output_sink(&self) -> Sink {
        self.inner.output_sink()
    }

    /// Gets ready for a launch of a kernel that prints; what it gives is held until the driver has the launch.
    #[cold]
    pub(crate) fn prepare_output(&self, kernel: &LoadedKernel) -> Result<Option<Printing<'_>>, DriverError> {
        let (Some(queue), Some(parts)) = (self.inner.gpu(), self.device().parts()) else { return Ok(None) };
        let Some(record) = &queue.record else { return Ok(None) };
        parts.note_printing(&self.inner);
        queue.output.prepare(&parts.gpu, record, kernel, self.device().output_bytes()).map(Some)
    }

    /// Whether all work of the stream is done. Does not report panics.
    ///
    /// # Errors
    /// [`StreamError`] when work failed.
    pub fn is_done(&self) -> Result<bool> {
        self.not_recording("asking whether work is done")?;
        match &self.inner.queue {
            Queue::Cpu(_) => Ok(true),
            Queue::Gpu(queue) => queue.stream.is_done().map_err(|source| self.work_failed(source)),
        }
    }

    /// An event that marks this point of the stream.
    ///
    /// # Errors
    /// [`StreamError`] when the driver refuses.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(self.device())?;
        event.record(self)?;
        Ok(event)
    }

    /// Lets later work of this stream wait until the point that `event` marks is passed.
    ///
    /// # Errors
    /// [`StreamError`] when the driver refuses, [`DeviceError`] when the event is of another kind of device.
    pub fn wait(&self, event: &Event) -> Result<()> {
        event.wait_on(self)
    }

    /// Reports a kernel's panic, and what the checker found. The stream's work is done.
    pub(crate) fn report(&self) -> Result<()> {
        self.inner.take_fault().map_or(Ok(()), Err)
    }

    /// Keeps what the checker found in a launch until it is reported.
    pub(crate) fn note_findings(&self, findings: Vec<Finding>) {
        self.inner.device.note_findings(self.inner.id, findings);
    }

    /// Keeps the first panic of the CPU executor until it is reported.
    pub(crate) fn note_panic(&self, panic: Box<KernelPanic>) {
        if let Queue::Cpu(pending) = &self.inner.queue {
            pending.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
    }

    #[inline]
    pub(crate) fn note_launch(&self, kernel: &LoadedKernel) {
        self.inner.recent.push(kernel);
    }

    /// Waits for the launch that was made last, and reports what went wrong as its own fault.
    #[cold]
    pub(crate) fn finish_launch(&self, kernel: String, config: &LaunchConfig) -> Result<()> {
        if let Queue::Gpu(queue) = &self.inner.queue {
            // What the program captures itself has not run, and waiting would end the capture.
            if queue.stream.is_capturing().map_err(|source| self.work_failed(source))? {
                return Ok(());
            }
            queue.stream.synchronize().map_err(|source| {
                self.inner.hand_over_output();
                LaunchError::Failed { kernel, config: Box::new(*config), source }
            })?;
        }
        self.report()
    }

    /// Which timeline watches the stream.
    #[inline]
    pub(crate) fn timeline(&self) -> &TimelineSlot {
        &self.inner.timeline
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<StreamInner> {
        &self.inner
    }

    #[inline]
    pub(crate) fn gpu(&self) -> Option<&GpuQueue> {
        self.inner.gpu()
    }

    fn recent_kernels(&self) -> Vec<String> {
        self.inner.recent.names(&self.inner.device)
    }

    #[cold]
    pub(crate) fn work_failed(&self, source: DriverError) -> Error {
        StreamError::Failed { kernels: self.recent_kernels(), source }.into()
    }

    /// Checks that a buffer's storage is on this stream's device.
    pub(crate) fn check_device(&self, storage: &Storage) -> Result<(), crate::error::MemoryError> {
        if storage.device().is_same(self.device()) {
            return Ok(());
        }
        Err(crate::error::MemoryError::OtherDevice {
            buffer: storage.device().to_string(),
            stream: self.device().to_string(),
        })
    }
}

impl GpuQueue {
    /// Takes note that kernels of a graph are to use the record anew, where one of them has panicked and that was reported.
    ///
    /// `wait` waits for the graph's earlier launches.
    pub(crate) fn renew_record(&self, wait: impl FnOnce()) {
        if let Some(record) = &self.record
            && record.has_marked_launch()
            && !record.has_panic()
        {
            wait();
            // Of a panic that was being written then nobody has heard.
            if !record.has_panic() {
                record.forget_launches();
            }
        }
    }

    /// Where the stream's kernels find the record for their panics.
    #[inline]
    pub(crate) fn record_address(&self) -> u64 {
        self.record.as_ref().map_or(0, RecordSlot::device_address)
    }

    /// The stream's grid barrier, cleared in stream order for the next launch: the one before may have left it halfway. Until
    /// what this gives is dropped, nobody else gets it.
    pub(crate) fn cleared_barrier(&self) -> Result<GridBarrier<'_>, DriverError> {
        const BYTES: usize = size_of::<u64>();
        let mut held = self.grid_barrier.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = match &mut *held {
            Some(memory) => memory,
            empty => empty.insert(GpuMemory::new(&self.stream, BYTES, self.pool.as_ref())?),
        };
        let address = memory.address();
        // SAFETY: the allocation has that many bytes, and earlier launches that use it are before this in the stream.
        unsafe { self.stream.set_bytes(address, 0, BYTES) }?;
        Ok(GridBarrier { address, _held: held })
    }

    fn has_panic(&self) -> bool {
        self.record.as_ref().is_some_and(RecordSlot::has_panic)
    }

    /// The id of the next launch.
    #[inline]
    pub(crate) fn next_launch(&self, kernel: &LoadedKernel) -> u64 {
        let count = self.launches.fetch_add(1, Ordering::Relaxed);
        (u64::from(kernel.number()) << LAUNCH_COUNT_BITS) | (count & ((1 << LAUNCH_COUNT_BITS) - 1))
    }
}

/// A cleared grid barrier, for one launch.
pub(crate) struct GridBarrier<'a> {
    pub(crate) address: u64,
    _held: MutexGuard<'a, Option<GpuMemory>>,
}

impl StreamInner {
    /// Distinguishes streams; never given twice.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The device that does the work.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    #[inline]
    pub(crate) fn gpu(&self) -> Option<&GpuQueue> {
        match &self.queue {
            Queue::Cpu(_) => None,
            Queue::Gpu(queue) => Some(queue),
        }
    }

    /// Refuses what a host task asks for, before it waits for a lock: whoever holds that may wait for the task. The executor may be
    /// used by a GPU's task, and the other way round.
    #[inline]
    pub(crate) fn check_outside(&self) -> Result<(), DeviceError> {
        match (&self.queue, outside::inside()) {
            (Queue::Cpu(_), Inside::Cpu) | (Queue::Gpu(_), Inside::Gpu) => Err(DeviceError::InHostTask),
            _ => Ok(()),
        }
    }

    /// A mark at the stream's end as it stands; `None` on the CPU executor, whose work is done.
    pub(crate) fn mark(&self) -> Result<Option<Mark>> {
        let Queue::Gpu(queue) = &self.queue else { return Ok(None) };
        let operation = "marking a point to wait for";
        let failed = |source| StreamError::Driver { operation, source };
        if queue.stream.is_capturing().map_err(failed)? {
            return Err(StreamError::Capturing { operation }.into());
        }
        let event = GpuEvent::new(queue.stream.gpu(), false).map_err(failed)?;
        let mut marks = queue.marks.lock().unwrap_or_else(PoisonError::into_inner);
        event.record(&queue.stream).map_err(failed)?;
        *marks += 1;
        Ok(Some(Mark::new(Kept::new(Arc::new(event)), (self.id, *marks))))
    }

    /// Lets later work of this stream wait for all that `other` has been given so far.
    pub(crate) fn wait_for(&self, other: &Self) -> Result<(), DriverError> {
        let Queue::Gpu(own) = &self.queue else { return Ok(()) };
        other.is_waited_for_by(&own.stream)
    }

    /// Lets later work of a GPU's stream, which may be another library's, wait for all that this one has been given so far.
    pub(crate) fn is_waited_for_by(&self, own: &GpuStream) -> Result<(), DriverError> {
        let Queue::Gpu(other) = &self.queue else { return Ok(()) };
        let event = match other.crossing.get() {
            Some(event) => event,
            None => {
                let event = GpuEvent::new(other.stream.gpu(), false)?;
                other.crossing.get_or_init(|| event)
            }
        };
        let _held = other.crossing_lock.lock().unwrap_or_else(PoisonError::into_inner);
        event.record(&other.stream)?;
        own.wait(event)
    }

    /// Whether all work is done and no more can come.
    pub(crate) fn is_finished(&self) -> bool {
        self.handles.strong_count() == 0
            && match &self.queue {
                Queue::Cpu(pending) => {
                    pending.lock().unwrap_or_else(PoisonError::into_inner).is_none()
                        && !self.device.has_findings(self.id)
                }
                Queue::Gpu(queue) => {
                    !queue.has_panic() && !self.graphs_have_panic() && queue.stream.is_done().unwrap_or(false)
                }
            }
    }

    fn output_sink(&self) -> Sink {
        self.sink.get().unwrap_or_else(|| self.device.output_sink())
    }

    /// Hands over what kernels have printed on a GPU: all of it when the stream is done.
    pub(crate) fn hand_over_output(&self) {
        if let Queue::Gpu(queue) = &self.queue {
            queue.output.hand_over(
                || self.output_sink(),
                |number| self.device.kernels().by_number(number),
                || queue.stream.is_done().unwrap_or(false),
            );
        }
    }

    /// What went wrong since the last report: a panic, or what the checker found.
    pub(crate) fn take_fault(&self) -> Option<Error> {
        let panic = self.take_panic();
        let findings = self.device.take_findings_of(self.id);
        if findings.is_empty() {
            return panic.map(Error::KernelPanic).or_else(|| self.task_panic.take());
        }
        Some(Error::Check(Box::new(CheckReport { findings, panic })))
    }

    /// The first panic since the last report, after what was printed. The work that may have panicked is done.
    pub(crate) fn take_panic(&self) -> Option<Box<KernelPanic>> {
        self.hand_over_output();
        match &self.queue {
            Queue::Cpu(pending) => pending.lock().unwrap_or_else(PoisonError::into_inner).take(),
            Queue::Gpu(queue) => queue
                .record
                .as_ref()?
                .take_panic(queue.stream.gpu(), |launch| self.device.launched(launch))
                .or_else(|| self.take_panic_of_graphs()),
        }
    }

    /// Whether this takes work for a graph.
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.recorder.is_some()
    }

    /// Has this stream report panics of a graph that is launched on it.
    pub(crate) fn follow(&self, recording: &Arc<Self>) {
        let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        if !graphs.iter().any(|known| Arc::ptr_eq(known, recording)) {
            graphs.push(Arc::clone(recording));
        }
    }

    fn graphs_have_panic(&self) -> bool {
        let graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        graphs.iter().filter_map(|graph| graph.gpu()).any(GpuQueue::has_panic)
    }

    /// The first panic of graphs that were launched here; forgets those that are gone and have none.
    fn take_panic_of_graphs(&self) -> Option<Box<KernelPanic>> {
        let graphs = std::mem::take(&mut *self.graphs.lock().unwrap_or_else(PoisonError::into_inner));
        let panic = graphs.iter().find_map(|graph| graph.take_panic());
        let kept = graphs.into_iter().filter(|graph| {
            // Without its graph nothing else has a recording, and no more of its kernels are launched.
            Arc::strong_count(graph) > 1 || graph.gpu().is_some_and(GpuQueue::has_panic)
        });
        let kept: Vec<_> = kept.collect();
        self.graphs.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
        panic
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        // A panic that nobody has asked for is not lost: `Device::synchronize` reports it. Other streams do not: they may
        // belong to code that knows nothing of this one.
        self.task_panic.orphan(self.device.deferred());
        match &mut self.queue {
            Queue::Cpu(pending) => {
                if let Some(panic) = pending.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
                    self.device.defer(Error::KernelPanic(panic));
                }
                self.device.orphan_findings(self.id);
            }
            Queue::Gpu(queue) => {
                if let Some(barrier) = queue.grid_barrier.get_mut().unwrap_or_else(PoisonError::into_inner).take()
                    && let Err(source) = barrier.free(&queue.stream)
                {
                    let operation = "freeing a grid barrier";
                    self.device.defer(StreamError::Driver { operation, source }.into());
                }
                if let (Some(record), Some(parts)) = (queue.record.take(), self.device.parts()) {
                    parts.records.give_back(record, &queue.stream);
                }
            }
        }
    }
}

impl fmt::Debug for StreamInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).field("device", &self.device).finish_non_exhaustive()
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
