//! Loaded modules, their kernels, and launches of these.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUfunction, CUmodule, CUstream};
use warpsmith_device::Dim3;

use super::{FunctionAttribute, Functions, Gpu, GpuStream, check, code, driver_error};
use crate::error::DriverError;

/// A module loaded into a GPU's context.
#[derive(Debug)]
pub(crate) struct GpuModule {
    gpu: Arc<Gpu>,
    module: CUmodule, // Invariant: valid until drop.
}

// SAFETY: the driver's modules may be used from any thread.
unsafe impl Send for GpuModule {}
// SAFETY: as above, and from several at once.
unsafe impl Sync for GpuModule {}

/// Why a module was not loaded: the driver's answer, and what its compiler wrote.
#[derive(Debug)]
pub(crate) struct LoadFailure {
    pub(crate) source: DriverError,
    pub(crate) log: String,
}

impl GpuModule {
    /// Compiles PTX for the GPU and loads it.
    pub(crate) fn load(gpu: &Arc<Gpu>, ptx: &CStr) -> Result<Self, LoadFailure> {
        const INFO_LOG_BUFFER: c_uint = 3;
        const INFO_LOG_BUFFER_SIZE: c_uint = 4;
        const ERROR_LOG_BUFFER: c_uint = 5;
        const ERROR_LOG_BUFFER_SIZE: c_uint = 6;
        const LOG_BYTES: usize = 16 << 10;
        gpu.bind().map_err(|source| LoadFailure { source, log: String::new() })?;
        let mut errors = vec![0u8; LOG_BYTES];
        let mut infos = vec![0u8; LOG_BYTES];
        let mut options = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE, INFO_LOG_BUFFER, INFO_LOG_BUFFER_SIZE];
        // A size travels as the pointer's own bits.
        let size: *mut c_void = std::ptr::without_provenance_mut(LOG_BYTES);
        let mut values: [*mut c_void; 4] = [errors.as_mut_ptr().cast(), size, infos.as_mut_ptr().cast(), size];
        let mut module: CUmodule = null_mut();
        // SAFETY: the text is NUL-terminated; each option has a value of the kind that `cuda.h` gives it.
        let answer = unsafe {
            call!(
                gpu.functions(),
                cuModuleLoadDataEx(&raw mut module, ptx.as_ptr().cast(), 4, options.as_mut_ptr(), values.as_mut_ptr())
            )
        };
        answer.map_err(|source| LoadFailure { source, log: log_text(&errors) })?;
        let info = log_text(&infos);
        if !info.is_empty() {
            tracing::debug!(%info, "the driver compiled a module");
        }
        Ok(Self { gpu: Arc::clone(gpu), module })
    }

    /// An entry of the module.
    pub(crate) fn function(self: &Arc<Self>, entry: &CStr) -> Result<GpuFunction, DriverError> {
        self.gpu.bind()?;
        let mut function: CUfunction = null_mut();
        // SAFETY: it writes one handle; the name is NUL-terminated.
        unsafe { call!(self.gpu.functions(), cuModuleGetFunction(&raw mut function, self.module, entry.as_ptr())) }?;
        Ok(GpuFunction { module: Arc::clone(self), function })
    }

    /// The address of a variable of the module.
    pub(crate) fn global(&self, name: &str) -> Result<u64, DriverError> {
        self.gpu.bind()?;
        let name = CString::new(name).unwrap_or_default();
        let (mut address, mut bytes): (CUdeviceptr, usize) = (0, 0);
        let (to_address, to_bytes) = (&raw mut address, &raw mut bytes);
        // SAFETY: it writes an address and a size; the name is NUL-terminated.
        unsafe { call!(self.gpu.functions(), cuModuleGetGlobal_v2(to_address, to_bytes, self.module, name.as_ptr())) }?;
        Ok(address)
    }
}

fn log_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

impl Drop for GpuModule {
    fn drop(&mut self) {
        // A kernel of it may still run: whoever drops a module has given up its kernels, so wait for them.
        if self.gpu.synchronize().is_ok() {
            // SAFETY: the handle is valid and not used again.
            let _ = unsafe { call!(self.gpu.functions(), cuModuleUnload(self.module)) };
        }
    }
}

/// An entry of a loaded module.
#[derive(Debug)]
pub(crate) struct GpuFunction {
    module: Arc<GpuModule>,
    pub(super) function: CUfunction, // Invariant: valid while `module` lives.
}

// SAFETY: the driver's functions may be used from any thread.
unsafe impl Send for GpuFunction {}
// SAFETY: as above, and from several at once.
unsafe impl Sync for GpuFunction {}

impl GpuFunction {
    pub(crate) fn attribute(&self, attribute: FunctionAttribute) -> Result<u32, DriverError> {
        Ok(u32::try_from(self.signed_attribute(attribute)?).unwrap_or(0))
    }

    /// For attributes that may be below 0.
    pub(crate) fn signed_attribute(&self, attribute: FunctionAttribute) -> Result<i32, DriverError> {
        let gpu = &self.module.gpu;
        gpu.bind()?;
        let mut value: c_int = 0;
        // SAFETY: it writes one number; the handle is valid.
        unsafe { call!(gpu.functions(), cuFuncGetAttribute(&raw mut value, attribute as u32, self.function)) }?;
        Ok(value)
    }

    /// The threads of a block with which most warps are resident, `most` at the most.
    pub(crate) fn suggested_block(&self, shared_bytes: u32, most: u32) -> Result<u32, DriverError> {
        let gpu = &self.module.gpu;
        gpu.bind()?;
        let most = c_int::try_from(most).unwrap_or(c_int::MAX);
        let (mut grid, mut block): (c_int, c_int) = (0, 0);
        // SAFETY: it writes two numbers; without a callback every block has the same dynamic shared memory.
        unsafe {
            call!(
                gpu.functions(),
                cuOccupancyMaxPotentialBlockSize(
                    &raw mut grid,
                    &raw mut block,
                    self.function,
                    null_mut(),
                    shared_bytes as usize,
                    most,
                )
            )
        }?;
        Ok(u32::try_from(block).unwrap_or(0).max(1))
    }

    /// How many of a launch's clusters the GPU can hold at once.
    pub(crate) fn resident_clusters(&self, shape: &LaunchShape) -> Result<u32, DriverError> {
        let gpu = &self.module.gpu;
        gpu.bind()?;
        let mut attributes = shape.attributes();
        let config = DriverLaunchConfig::new(shape, null_mut(), &mut attributes);
        let mut count: c_int = 0;
        // SAFETY: it writes one number and reads the configuration and its attributes, which live through the call.
        unsafe {
            call_if_there!(
                gpu.functions(),
                cuOccupancyMaxActiveClusters(&raw mut count, self.function, &raw const config)
            )
        }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// How many blocks of so many threads a multiprocessor can hold at once.
    pub(crate) fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32, DriverError> {
        let gpu = &self.module.gpu;
        gpu.bind()?;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let mut count: c_int = 0;
        // SAFETY: it writes one number; the handle is valid.
        unsafe {
            call!(
                gpu.functions(),
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &raw mut count,
                    self.function,
                    threads,
                    shared_bytes as usize,
                )
            )
        }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    pub(crate) fn set_attribute(&self, attribute: FunctionAttribute, value: i32) -> Result<(), DriverError> {
        let gpu = &self.module.gpu;
        gpu.bind()?;
        // SAFETY: the handle is valid; the driver checks the value.
        unsafe { call!(gpu.functions(), cuFuncSetAttribute(self.function, attribute as u32, value)) }
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchShape {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) cluster: Dim3,
    pub(crate) shared_bytes: u32,
    pub(crate) cooperative: bool,
}

impl LaunchShape {
    /// Whether its clusters have more than one block.
    #[inline]
    pub(crate) fn is_clustered(&self) -> bool {
        self.cluster != Dim3::new(1, 1, 1)
    }

    fn attributes(&self) -> [LaunchAttribute; 2] {
        const COOPERATIVE: c_uint = 2;
        const CLUSTER_DIMENSION: c_uint = 4;
        let attribute = |id, [x, y, z]: [u32; 3]| LaunchAttribute { id, pad: 0, value: [x, y, z, 0], more: [0; 6] };
        let Dim3 { x, y, z } = self.cluster;
        [attribute(CLUSTER_DIMENSION, [x, y, z]), attribute(COOPERATIVE, [u32::from(self.cooperative), 0, 0])]
    }
}

/// `CUlaunchAttribute`: the value is a union of 64 bytes.
#[repr(C)]
struct LaunchAttribute {
    id: c_uint,
    pad: c_uint,
    value: [u32; 4],
    more: [u64; 6],
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct DriverLaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: CUstream,
    attributes: *mut LaunchAttribute,
    attribute_count: c_uint,
}

impl DriverLaunchConfig {
    /// Points to the attributes.
    fn new(shape: &LaunchShape, stream: CUstream, attributes: &mut [LaunchAttribute; 2]) -> Self {
        let words = |dim: Dim3| [dim.x, dim.y, dim.z];
        Self {
            grid: words(shape.grid),
            block: words(shape.block),
            shared_bytes: shape.shared_bytes,
            stream,
            attributes: attributes.as_mut_ptr(),
            // The last says that the launch is cooperative.
            attribute_count: if shape.cooperative { 2 } else { 1 },
        }
    }
}

impl GpuStream {
    /// Launches a kernel.
    ///
    /// # Safety
    /// `arguments` holds the addresses of as many arguments as the function takes, each readable at the function's own
    /// type, and what they point to on the device may be used so in stream order.
    #[inline]
    pub(crate) unsafe fn launch(
        &self,
        function: &GpuFunction,
        shape: &LaunchShape,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        self.gpu.bind()?;
        if shape.cooperative || shape.is_clustered() {
            // SAFETY: the caller's promise.
            return unsafe { self.launch_together(function, shape, arguments) };
        }
        let LaunchShape { grid, block, shared_bytes, .. } = *shape;
        // SAFETY: the handles are kept valid by their owners; the caller answers for the arguments.
        unsafe {
            call!(
                self.functions(),
                cuLaunchKernel(
                    function.function,
                    grid.x,
                    grid.y,
                    grid.z,
                    block.x,
                    block.y,
                    block.z,
                    shared_bytes,
                    self.stream.cu_stream(),
                    arguments.as_mut_ptr(),
                    null_mut(),
                )
            )
        }
    }

    /// Launches a kernel whose blocks are resident together: all of them, or those of a cluster.
    ///
    /// # Safety
    /// As [`Self::launch`].
    #[cold]
    unsafe fn launch_together(
        &self,
        function: &GpuFunction,
        shape: &LaunchShape,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        let (stream, functions) = (self.stream.cu_stream(), self.functions());
        if shape.is_clustered() {
            let mut attributes = shape.attributes();
            let config = DriverLaunchConfig::new(shape, stream, &mut attributes);
            // SAFETY: as in `launch`; the configuration and its attributes live through the call.
            return unsafe {
                call_if_there!(
                    functions,
                    cuLaunchKernelEx(&raw const config, function.function, arguments.as_mut_ptr(), null_mut())
                )
            };
        }
        let LaunchShape { grid, block, shared_bytes, .. } = *shape;
        // SAFETY: as in `launch`.
        unsafe {
            call!(
                functions,
                cuLaunchCooperativeKernel(
                    function.function,
                    grid.x,
                    grid.y,
                    grid.z,
                    block.x,
                    block.y,
                    block.z,
                    shared_bytes,
                    stream,
                    arguments.as_mut_ptr(),
                )
            )
        }
    }
}
