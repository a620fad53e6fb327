//! The driver's graphs: built node by node, made ready, and launched.

use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUgraph, CUgraphExec, CUgraphNode};

use super::{Functions, Gpu, GpuFunction, GpuStream, LaunchShape, check};
use crate::error::DriverError;
use crate::memory::Pattern;

/// `CUDA_KERNEL_NODE_PARAMS` as the functions without a version in their names take it.
#[repr(C)]
pub(super) struct KernelNodeParams {
    function: CUfunction,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
}

impl KernelNodeParams {
    fn new(function: &GpuFunction, shape: &LaunchShape, arguments: &mut [*mut c_void]) -> Self {
        let LaunchShape { grid, block, shared_bytes, .. } = *shape;
        Self {
            function: function.function,
            grid: [grid.x, grid.y, grid.z],
            block: [block.x, block.y, block.z],
            shared_bytes,
            arguments: arguments.as_mut_ptr(),
            extra: null_mut(),
        }
    }
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
pub(super) struct HostNodeParams {
    function: extern "C" fn(*mut c_void),
    data: *mut c_void,
}

/// One side of `CUDA_MEMCPY3D`.
#[repr(C)]
struct CopySide {
    x_bytes: usize,
    y: usize,
    z: usize,
    level: usize,
    memory_type: c_uint,
    host: *const c_void,
    device: u64,
    array: *mut c_void,
    reserved: *mut c_void,
    pitch: usize,
    height: usize,
}

impl CopySide {
    /// A row of bytes.
    fn new(memory_type: c_uint, host: *const u8, device: u64, bytes: usize) -> Self {
        // Of one row the pitch says nothing, and the driver refuses large ones.
        let pitch = if i32::try_from(bytes).is_ok() { bytes } else { 0 };
        Self {
            x_bytes: 0,
            y: 0,
            z: 0,
            level: 0,
            memory_type,
            host: host.cast(),
            device,
            array: null_mut(),
            reserved: null_mut(),
            pitch,
            height: 1,
        }
    }

    fn on_host(address: *const u8, bytes: usize) -> Self {
        const HOST: c_uint = 1;
        Self::new(HOST, address, 0, bytes)
    }

    fn on_device(address: u64, bytes: usize) -> Self {
        const DEVICE: c_uint = 2;
        Self::new(DEVICE, std::ptr::null(), address, bytes)
    }
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
pub(super) struct CopyParams {
    from: CopySide,
    to: CopySide,
    width_bytes: usize,
    height: usize,
    depth: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
pub(super) struct FillParams {
    to: u64,
    pitch_bytes: usize,
    value: c_uint,
    element_bytes: c_uint,
    width: usize,
    height: usize,
}

/// A node of a graph.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct GpuGraphNode(CUgraphNode);

// SAFETY: a handle; whoever uses it answers for the graph.
unsafe impl Send for GpuGraphNode {}
// SAFETY: as above.
unsafe impl Sync for GpuGraphNode {}

/// A graph that is being built.
#[derive(Debug)]
pub(crate) struct GpuGraph {
    gpu: Arc<Gpu>,
    graph: CUgraph, // Invariant: valid until drop.
}

// SAFETY: the driver's graphs belong to no thread.
unsafe impl Send for GpuGraph {}
// SAFETY: through a shared reference it is built by the one thread that has made it, and only kept afterwards.
unsafe impl Sync for GpuGraph {}

fn handles(nodes: &[GpuGraphNode]) -> *const CUgraphNode {
    nodes.as_ptr().cast()
}

impl GpuGraph {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self, DriverError> {
        gpu.bind()?;
        let mut graph: CUgraph = null_mut();
        // SAFETY: it writes one handle; 0 is the only flag there is.
        unsafe { call!(gpu.functions(), cuGraphCreate(&raw mut graph, 0)) }?;
        Ok(Self { gpu: Arc::clone(gpu), graph })
    }

    /// Adds a launch, whose arguments are copied now.
    ///
    /// # Safety
    /// As for a launch on a stream, at each launch of the graph.
    pub(crate) unsafe fn add_kernel(
        &self,
        after: &[GpuGraphNode],
        function: &GpuFunction,
        shape: &LaunchShape,
        arguments: &mut [*mut c_void],
    ) -> Result<GpuGraphNode, DriverError> {
        self.gpu.bind()?;
        let params = KernelNodeParams::new(function, shape, arguments);
        let mut node: CUgraphNode = null_mut();
        // SAFETY: it writes one handle and reads as many as are said; the caller answers for the arguments.
        unsafe {
            call!(
                self.gpu.functions(),
                cuGraphAddKernelNode(&raw mut node, self.graph, handles(after), after.len(), &raw const params)
            )
        }?;
        Ok(GpuGraphNode(node))
    }

    /// Adds a copy within the device.
    ///
    /// # Safety
    /// At each launch of the graph `from` is readable and `to` writable for `bytes` bytes, and they do not overlap.
    pub(crate) unsafe fn add_copy(
        &self,
        after: &[GpuGraphNode],
        to: u64,
        from: u64,
        bytes: usize,
    ) -> Result<GpuGraphNode, DriverError> {
        // SAFETY: the caller's promise.
        unsafe { self.add_memcpy(after, CopySide::on_device(from, bytes), to, bytes) }
    }

    /// Adds a copy from the host.
    ///
    /// # Safety
    /// At each launch of the graph, until that is done, `from` is readable and `to` writable for `bytes` bytes.
    pub(crate) unsafe fn add_upload(
        &self,
        after: &[GpuGraphNode],
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<GpuGraphNode, DriverError> {
        // SAFETY: the caller's promise.
        unsafe { self.add_memcpy(after, CopySide::on_host(from, bytes), to, bytes) }
    }

    /// # Safety
    /// As [`Self::add_copy`] and [`Self::add_upload`].
    unsafe fn add_memcpy(
        &self,
        after: &[GpuGraphNode],
        from: CopySide,
        to: u64,
        bytes: usize,
    ) -> Result<GpuGraphNode, DriverError> {
        self.gpu.bind()?;
        let copy = CopyParams { from, to: CopySide::on_device(to, bytes), width_bytes: bytes, height: 1, depth: 1 };
        let mut node: CUgraphNode = null_mut();
        let context = self.gpu.context().cu_ctx();
        // SAFETY: it writes one handle, and reads the description and as many handles as are said.
        unsafe {
            call!(
                self.gpu.functions(),
                cuGraphAddMemcpyNode(&raw mut node, self.graph, handles(after), after.len(), &raw const copy, context,)
            )
        }?;
        Ok(GpuGraphNode(node))
    }

    /// Adds a fill with a pattern.
    ///
    /// # Safety
    /// At each launch of the graph `to` is writable for `count` patterns, and aligned to one.
    pub(crate) unsafe fn add_fill(
        &self,
        after: &[GpuGraphNode],
        to: u64,
        pattern: Pattern,
        count: usize,
    ) -> Result<GpuGraphNode, DriverError> {
        self.gpu.bind()?;
        let (value, element_bytes) = (pattern.word(), pattern.bytes() as c_uint);
        let params = FillParams { to, pitch_bytes: 0, value, element_bytes, width: count, height: 1 };
        let mut node: CUgraphNode = null_mut();
        let context = self.gpu.context().cu_ctx();
        // SAFETY: it writes one handle, and reads the description and as many handles as are said.
        unsafe {
            call!(
                self.gpu.functions(),
                cuGraphAddMemsetNode(
                    &raw mut node,
                    self.graph,
                    handles(after),
                    after.len(),
                    &raw const params,
                    context
                )
            )
        }?;
        Ok(GpuGraphNode(node))
    }

    /// Adds a function of the host's.
    ///
    /// # Safety
    /// `function` may be called with `data` from any thread at each launch of the graph, until that is done.
    pub(crate) unsafe fn add_host(
        &self,
        after: &[GpuGraphNode],
        function: extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> Result<GpuGraphNode, DriverError> {
        self.gpu.bind()?;
        let params = HostNodeParams { function, data };
        let mut node: CUgraphNode = null_mut();
        // SAFETY: it writes one handle and reads as many as are said.
        unsafe {
            call!(
                self.gpu.functions(),
                cuGraphAddHostNode(&raw mut node, self.graph, handles(after), after.len(), &raw const params)
            )
        }?;
        Ok(GpuGraphNode(node))
    }

    /// Makes it ready to be launched.
    pub(crate) fn instantiate(&self) -> Result<GpuGraphExec, DriverError> {
        self.gpu.bind()?;
        let mut exec: CUgraphExec = null_mut();
        // SAFETY: it writes one handle; the graph is valid.
        unsafe { call!(self.gpu.functions(), cuGraphInstantiateWithFlags(&raw mut exec, self.graph, 0)) }?;
        Ok(GpuGraphExec { gpu: Arc::clone(&self.gpu), exec })
    }
}

impl Drop for GpuGraph {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: the handle is valid and not used again.
            let _ = unsafe { call!(self.gpu.functions(), cuGraphDestroy(self.graph)) };
        }
    }
}

/// A graph that is ready to be launched.
#[derive(Debug)]
pub(crate) struct GpuGraphExec {
    gpu: Arc<Gpu>,
    exec: CUgraphExec, // Invariant: valid until drop.
}

// SAFETY: the driver's graphs belong to no thread.
unsafe impl Send for GpuGraphExec {}
// SAFETY: the driver does not guard one against several threads at once; all uses through a shared reference are under the device's
// gate of graphs.
unsafe impl Sync for GpuGraphExec {}

impl GpuGraphExec {
    /// Queues it; the caller holds the device's gate.
    pub(crate) fn launch(&self, stream: &GpuStream) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: both handles are valid; whoever added the nodes answers for what they use.
        unsafe { call!(self.gpu.functions(), cuGraphLaunch(self.exec, stream.stream.cu_stream())) }
    }

    /// Takes it over to the device; the caller holds the device's gate.
    pub(crate) fn upload(&self, stream: &GpuStream) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: both handles are valid.
        unsafe { call!(self.gpu.functions(), cuGraphUpload(self.exec, stream.stream.cu_stream())) }
    }

    /// Gives a launch other arguments, which are copied now, and another shape.
    ///
    /// # Safety
    /// `node` is a launch of the same function in the graph that this was made from; the rest as where it was added.
    pub(crate) unsafe fn update_kernel(
        &self,
        node: GpuGraphNode,
        function: &GpuFunction,
        shape: &LaunchShape,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        self.gpu.bind()?;
        let params = KernelNodeParams::new(function, shape, arguments);
        // SAFETY: the caller's promise.
        unsafe { call!(self.gpu.functions(), cuGraphExecKernelNodeSetParams(self.exec, node.0, &raw const params)) }
    }
}

impl Drop for GpuGraphExec {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: the handle is valid and not used again; whoever owns it has waited for its launches.
            let _ = unsafe { call!(self.gpu.functions(), cuGraphExecDestroy(self.exec)) };
        }
    }
}
