//! Graphs: work that is described once and launched as a whole, as often as wanted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

mod dot;
mod nodes;
mod recorder;

use nodes::Nodes;
use recorder::{HostWork, Recorded, Work};
pub(crate) use recorder::{MemoryUse, RecordedKernel, Recorder};

use crate::device::Device;
use crate::driver::{GpuGraph, GpuGraphExec, GpuGraphNode, PinnedMemory};
use crate::error::{DriverError, GraphError, Result, StreamError};
use crate::launch::ArgumentList;
use crate::memory::Access;
use crate::outside::{self, Inside, Kept};
use crate::stream::{Stream, StreamInner};

/// Work of a device, described by [`Stream::capture`] or node by node, not yet made ready to be launched.
///
/// A graph keeps the memory that it uses alive: buffers may be dropped before it. It borrows nothing: between launches of the graph the
/// buffers are used as always, and each launch of the graph counts as a use of all of them, which comes after earlier uses on any
/// stream and before later ones. Two nodes that use the same memory, of which one writes it, run one after the other whether that was
/// asked for or not.
///
/// On the CPU executor a launch runs the nodes in the order in which they were added.
///
/// # Examples
/// ```
/// use warpsmith::Graph;
/// use warpsmith::prelude::*;
///
/// #[kernel]
/// fn scale(factor: u32, x: &[u32], mut y: GridSliceMut<u32>) {
///     let i = global_idx();
///     if let Some(y) = y.get_mut(&i) {
///         *y = factor * x[i.get()];
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::cpu();
/// let stream = device.stream()?;
/// let (x, mut y) = (stream.to_device(&[1, 2, 3])?, stream.zeroed::<u32>(3)?);
/// let mut z = stream.zeroed::<u32>(3)?;
///
/// let config = LaunchConfig::for_len(3);
/// let mut graph = Graph::new(&device)?;
/// let scaled = graph.add(&[], |recording| scale::launch(recording, config, 10, &x, &mut y))?;
/// graph.add(&[scaled], |recording| z.copy_from_device(recording, &y))?;
/// println!("{}", graph.to_dot());
///
/// let mut graph = graph.instantiate()?;
/// graph.launch(&stream)?;
/// assert_eq!(stream.to_host(&z)?, [10, 20, 30]);
/// // The same graph with another argument.
/// graph.update(scaled, |recording| scale::launch(recording, config, 7, &x, &mut y))?;
/// graph.launch(&stream)?;
/// assert_eq!(stream.to_host(&z)?, [7, 14, 21]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Graph {
    id: u64,
    recording: Stream,
    nodes: Nodes,
}

/// A node of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphNode {
    graph: u64,
    index: usize,
}

impl Graph {
    /// An empty graph.
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) when the driver refuses.
    pub fn new(device: &Device) -> Result<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Self { id, recording: Stream::recording(device)?, nodes: Nodes::default() })
    }

    /// Adds what `record` does on the stream that it is given: one launch or copy, or several, each after the one before. It runs after
    /// the nodes `after`. Gives the last node.
    ///
    /// What can be recorded is told at [`Stream::capture`].
    ///
    /// # Errors
    /// [`GraphError::NoNode`] when nothing is recorded, [`GraphError::OtherGraph`] for another graph's node, and what `record` returns.
    /// The graph is then as it was.
    pub fn add(&mut self, after: &[GraphNode], record: impl FnOnce(&Stream) -> Result<()>) -> Result<GraphNode> {
        let mut after = self.indices(after)?;
        let recorded = record_on(&self.recording, record)?;
        let mut last = None;
        for (work, uses) in recorded {
            let index = self.nodes.push(work, uses, after);
            after = vec![index];
            last = Some(index);
        }
        let index = last.ok_or(GraphError::NoNode)?;
        Ok(GraphNode { graph: self.id, index })
    }

    /// Adds a function of the host's, which runs after the nodes `after` on a thread of the driver's, and on the CPU executor on the thread
    /// that launches the graph. It must not use devices, and what it asks of one is refused, as in a
    /// [host task](Stream::host_task).
    ///
    /// A panic in it comes back from the device's next [`synchronize`](Device::synchronize), as [`GraphError::HostPanic`].
    ///
    /// # Errors
    /// [`GraphError::OtherGraph`] for another graph's node.
    pub fn add_host(&mut self, after: &[GraphNode], function: impl Fn() + Send + Sync + 'static) -> Result<GraphNode> {
        let after = self.indices(after)?;
        outside::start().map_err(|source| StreamError::Thread { source })?;
        let work = HostWork::new(self.device(), Box::new(function));
        let index = self.nodes.push(Work::Host(Box::new(work)), Vec::new(), after);
        Ok(GraphNode { graph: self.id, index })
    }

    /// Adds what `record` does, each piece after the one before.
    pub(crate) fn record_chain(&mut self, record: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        for (work, uses) in record_on(&self.recording, record)? {
            let after = self.nodes.len().checked_sub(1).into_iter().collect();
            self.nodes.push(work, uses, after);
        }
        Ok(())
    }

    /// The nodes, in the order in which they were added.
    #[must_use]
    pub fn nodes(&self) -> Vec<GraphNode> {
        (0..self.nodes.len()).map(|index| GraphNode { graph: self.id, index }).collect()
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    /// The graph as text in the DOT language, for Graphviz.
    #[must_use]
    pub fn to_dot(&self) -> String {
        dot::text(&self.nodes)
    }

    /// The device whose work it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.recording.device()
    }

    /// Makes the graph ready to be launched.
    ///
    /// # Errors
    /// [`GraphError::Driver`] when the driver refuses.
    pub fn instantiate(self) -> Result<ExecutableGraph> {
        let gpu = self.recording.gpu().map(|queue| GpuParts::new(queue, &self.nodes)).transpose();
        let gpu = gpu.map_err(|source| GraphError::Driver { operation: "making a graph ready", source })?;
        let Self { id, recording, nodes } = self;
        let uses = nodes.uses();
        Ok(ExecutableGraph { gpu, id, recording, nodes, uses, last: Mutex::new(None) })
    }

    fn indices(&self, nodes: &[GraphNode]) -> Result<Vec<usize>, GraphError> {
        nodes
            .iter()
            .map(|node| if node.graph == self.id { Ok(node.index) } else { Err(GraphError::OtherGraph) })
            .collect()
    }
}

/// What `record` does on the recording; nothing of it stays there, whatever happens.
fn record_on(recording: &Stream, record: impl FnOnce(&Stream) -> Result<()>) -> Result<Recorded> {
    struct Close<'a>(&'a Recorder);
    impl Drop for Close<'_> {
        fn drop(&mut self) {
            drop(self.0.close());
        }
    }
    let recorder = recording.recorder().expect("a graph's own stream records");
    recorder.open();
    let close = Close(recorder);
    record(recording)?;
    let recorded = close.0.close();
    Ok(recorded)
}

/// A graph that is ready to be launched: [`Graph::instantiate`] makes it.
///
/// Dropping it waits for its launches.
pub struct ExecutableGraph {
    // Goes first: what its nodes use must live until then.
    gpu: Option<GpuParts>,
    id: u64,
    recording: Stream,
    nodes: Nodes,
    /// Each piece of memory once.
    uses: Vec<MemoryUse>,
    /// The stream of the last launch, on a GPU. Launches of one graph run one after the other, so that after this one all are done.
    last: Mutex<Option<Arc<StreamInner>>>,
}

/// What it is to the driver.
struct GpuParts {
    exec: GpuGraphExec,
    // The driver's nodes, by their places here.
    nodes: Vec<GpuGraphNode>,
    /// What nodes copy from the host: page-locked, so that the driver reads it in stream order and no thread of the host is asked.
    _sources: Vec<PinnedMemory>,
    _graph: GpuGraph,
}

impl GpuParts {
    fn new(queue: &crate::stream::GpuQueue, nodes: &Nodes) -> Result<Self, DriverError> {
        let graph = GpuGraph::new(queue.stream.gpu())?;
        let mut made: Vec<GpuGraphNode> = Vec::with_capacity(nodes.len());
        let mut sources = Vec::new();
        for node in nodes.iter() {
            let after: Vec<GpuGraphNode> = node.after.iter().map(|&index| made[index]).collect();
            let address =
                |place: &(Kept<Arc<crate::memory::Storage>>, usize)| place.0.pointer().addr() as u64 + place.1 as u64;
            let node = match &node.work {
                Work::Kernel { launch, id } => with_arguments(queue, launch, *id, |function, config, list| {
                    // SAFETY: the list is of the function's arguments, as in a launch; what they point to is kept alive by the
                    // graph, and its uses are ordered at each launch.
                    unsafe { graph.add_kernel(&after, function, &config.shape(), list) }
                })?,
                Work::Copy { to, from, bytes } => {
                    // SAFETY: the ranges are inside storages that the graph keeps alive, and were checked when they were recorded.
                    unsafe { graph.add_copy(&after, address(to), address(from), *bytes) }?
                }
                Work::Upload { to, from } => {
                    let source = PinnedMemory::new(queue.stream.gpu(), from.len())?;
                    let start = source.host().as_ptr();
                    // SAFETY: the new memory has as many bytes.
                    unsafe { start.copy_from_nonoverlapping(from.as_ptr().cast(), from.len()) };
                    sources.push(source);
                    // SAFETY: as above; the source is kept until the graph's launches are done, and does not move.
                    unsafe { graph.add_upload(&after, address(to), start, from.len()) }?
                }
                Work::Fill { to, pattern, count } => {
                    // SAFETY: the range is inside a storage that the graph keeps alive, and was checked when it was recorded.
                    unsafe { graph.add_fill(&after, address(to), *pattern, *count) }?
                }
                // SAFETY: the function lives as long as the graph, which waits for its launches before it goes.
                Work::Host(work) => unsafe {
                    graph.add_host(&after, call_host, std::ptr::from_ref::<HostWork>(work).cast_mut().cast())
                }?,
            };
            made.push(node);
        }
        Ok(Self { exec: graph.instantiate()?, nodes: made, _sources: sources, _graph: graph })
    }
}

/// Runs a node's function; the driver calls it.
extern "C" fn call_host(work: *mut std::ffi::c_void) {
    // SAFETY: the node was given its own function, which lives until the graph's launches are done.
    unsafe { &*work.cast::<HostWork>() }.run(Inside::Gpu);
}

/// Gives a launch's function, shape and the addresses of all its arguments, the hidden ones too.
fn with_arguments<R>(
    queue: &crate::stream::GpuQueue,
    launch: &RecordedKernel,
    id: u64,
    work: impl FnOnce(&crate::driver::GpuFunction, &crate::LaunchConfig, &mut [*mut std::ffi::c_void]) -> R,
) -> R {
    let code = launch.kernel.gpu().expect("a kernel that was recorded for a GPU has code for it");
    let record = queue.record_address();
    let mut list = ArgumentList::new();
    list.fill(&launch.arguments);
    list.push((&raw const record).cast());
    list.push((&raw const id).cast());
    list.push((&raw const launch.stack).cast());
    work(&code.function, &launch.config, list.as_mut_slice())
}

impl ExecutableGraph {
    /// Queues all of the graph's work on the stream, after the work that the stream has, after earlier launches of this graph, and
    /// after earlier uses of its memory on other streams.
    ///
    /// A panic of one of its kernels comes back as that of a launch on the stream does. Until it has, further launches of the graph may
    /// leave that kernel's work out; so what they wrote is incomplete too.
    ///
    /// # Errors
    /// [`GraphError`] when the stream is another device's or a recording, or the driver refuses.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        stream.inner().check_outside()?;
        stream.not_recording("the launch of another graph")?;
        if !stream.device().is_same(self.device()) {
            return Err(self.other_device(stream).into());
        }
        let gate = self.device().graph_gate();
        let failed = |operation| move |source| GraphError::Driver { operation, source };
        for MemoryUse { storage, access } in &self.uses {
            storage.order(stream, *access).map_err(failed("ordering a graph after earlier uses of its memory"))?;
        }
        match (&self.gpu, stream.gpu(), self.recording.gpu()) {
            (Some(parts), Some(queue), Some(own)) => {
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                own.renew_record(|| {
                    if let Some(queue) = last.as_ref().and_then(|stream| stream.gpu()) {
                        // What fails there is reported there.
                        let _ = queue.stream.synchronize();
                    }
                });
                let elsewhere = last.as_ref().filter(|last| last.id() != stream.inner().id());
                if let Some(other) = elsewhere {
                    stream.inner().wait_for(other).map_err(failed("ordering a graph after its last launch"))?;
                }
                stream.inner().follow(self.recording.inner());
                let mut constants = Vec::new();
                for (kernel, code) in self.nodes.kernels_with_constants() {
                    constants.push(code.prepare(stream, queue, kernel)?);
                }
                if let Some(kernel) = self.nodes.last_kernel() {
                    stream.note_launch(kernel);
                }
                let seen = stream.see(|| crate::work::Work::graph(self.nodes.len()));
                parts.exec.launch(&queue.stream).map_err(failed("the launch of a graph"))?;
                seen.end();
                if last.as_ref().is_none_or(|last| last.id() != stream.inner().id()) {
                    *last = Some(Arc::clone(stream.inner()));
                }
            }
            _ => {
                for node in self.nodes.iter() {
                    if let Work::Kernel { launch, .. } = &node.work {
                        stream.note_launch(&launch.kernel);
                    }
                    node.work.run(stream)?;
                }
            }
        }
        drop(gate);
        if self.device().is_launch_blocking() { stream.synchronize() } else { Ok(()) }
    }

    /// Has the device take over what it needs of the graph now rather than at the first launch. Does nothing on the CPU executor.
    ///
    /// # Errors
    /// [`GraphError`] when the stream is another device's or a recording, or the driver refuses.
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        stream.inner().check_outside()?;
        stream.not_recording("the upload of another graph")?;
        if !stream.device().is_same(self.device()) {
            return Err(self.other_device(stream).into());
        }
        if let (Some(parts), Some(queue)) = (&self.gpu, stream.gpu()) {
            let _gate = self.device().graph_gate();
            let failed = |operation| move |source| GraphError::Driver { operation, source };
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            // A launch elsewhere comes after this, and this after the last launch.
            if let Some(other) = last.as_ref().filter(|other| other.id() != stream.inner().id()) {
                let waits = stream.inner().wait_for(other);
                waits.map_err(failed("ordering the upload of a graph after its launches"))?;
            }
            parts.exec.upload(&queue.stream).map_err(failed("the upload of a graph"))?;
            *last = Some(Arc::clone(stream.inner()));
        }
        Ok(())
    }

    /// Gives a node that is a launch another one of the same kernel, with other arguments or another shape. Launches of the graph that were
    /// made already keep the arguments they have.
    ///
    /// # Errors
    /// [`GraphError::Update`] when something else is recorded, [`GraphError::UpdateConflict`] when the new arguments lie in memory that
    /// another node uses at the same time, [`GraphError::OtherGraph`], and what `record` returns. The graph is then as it was.
    pub fn update(&mut self, node: GraphNode, record: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        if node.graph != self.id {
            return Err(GraphError::OtherGraph.into());
        }
        let mut recorded = record_on(&self.recording, record)?;
        let (work, uses) = recorded.pop().ok_or(GraphError::NoNode)?;
        if !recorded.is_empty() || !self.nodes.is_same_kernel(node.index, &work) {
            let found = if recorded.is_empty() { work.to_string() } else { format!("{} nodes", recorded.len() + 1) };
            return Err(GraphError::Update { node: self.nodes.get(node.index).work.to_string(), found }.into());
        }
        if let Some(other) = self.nodes.conflict(node.index, &uses) {
            let (node, other) = (&self.nodes.get(node.index).work, &self.nodes.get(other).work);
            return Err(GraphError::UpdateConflict { node: node.to_string(), other: other.to_string() }.into());
        }
        if let (Some(parts), Some(queue), Work::Kernel { launch, id }) = (&self.gpu, self.recording.gpu(), &work) {
            let made = parts.nodes[node.index];
            let updated = with_arguments(queue, launch, *id, |function, config, list| {
                // SAFETY: as where the node was added.
                unsafe { parts.exec.update_kernel(made, function, &config.shape(), list) }
            });
            updated.map_err(|source| GraphError::Driver { operation: "the update of a graph's node", source })?;
        }
        self.nodes.replace(node.index, work, uses);
        self.uses = self.nodes.uses();
        Ok(())
    }

    /// The nodes, in the order in which they were added.
    #[must_use]
    pub fn nodes(&self) -> Vec<GraphNode> {
        (0..self.nodes.len()).map(|index| GraphNode { graph: self.id, index }).collect()
    }

    /// The graph as text in the DOT language, for Graphviz.
    #[must_use]
    pub fn to_dot(&self) -> String {
        dot::text(&self.nodes)
    }

    /// The device whose work it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.recording.device()
    }

    #[cold]
    fn other_device(&self, stream: &Stream) -> GraphError {
        GraphError::OtherDevice { graph: self.device().to_string(), stream: stream.device().to_string() }
    }
}

impl Drop for ExecutableGraph {
    fn drop(&mut self) {
        // On a thread of the driver's nothing can be waited for: another thread does that.
        drop(Kept::new(Remains {
            last: self.last.get_mut().unwrap_or_else(PoisonError::into_inner).take(),
            gpu: self.gpu.take(),
            nodes: std::mem::take(&mut self.nodes),
            uses: std::mem::take(&mut self.uses),
        }));
    }
}

/// What is left of an [`ExecutableGraph`], until its launches are done.
struct Remains {
    last: Option<Arc<StreamInner>>,
    // Goes before the nodes, to which it refers.
    gpu: Option<GpuParts>,
    nodes: Nodes,
    uses: Vec<MemoryUse>,
}

impl Drop for Remains {
    fn drop(&mut self) {
        let Some(queue) = self.last.as_ref().and_then(|stream| stream.gpu()) else { return };
        // The nodes' own memory is read until then. What fails there is reported there.
        let waited = queue.stream.synchronize().or_else(|_| queue.stream.gpu().synchronize());
        if waited.is_err_and(|error| !error.is_end()) {
            // Launches may still be under way: their memory is rather lost than given to somebody else.
            std::mem::forget((self.gpu.take(), std::mem::take(&mut self.nodes), std::mem::take(&mut self.uses)));
        }
    }
}

impl fmt::Debug for ExecutableGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutableGraph")
            .field("nodes", &self.nodes)
            .field("device", self.device())
            .finish_non_exhaustive()
    }
}

/// All writes of a graph count as beside others': whoever holds a borrow of the memory may use it after the graph.
fn joined(access: Access, other: Access) -> Access {
    if access == Access::Read && other == Access::Read { Access::Read } else { Access::Shared }
}
