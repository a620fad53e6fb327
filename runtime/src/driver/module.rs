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
        // SAFETY: the text is NUL-terminated.
        unsafe { Self::load_image(gpu, ptx.to_bytes_with_nul(), &[]) }
    }

    /// Loads PTX, a cubin or a fatbin, with options of the driver's compiler and their numbers.
    ///
    /// # Safety
    /// The sizes in the image's own headers lie inside the bytes; text ends with a zero byte.
    pub(crate) unsafe fn load_image(
        gpu: &Arc<Gpu>,
        image: &[u8],
        options: &[(c_uint, usize)],
    ) -> Result<Self, LoadFailure> {
        gpu.bind().map_err(|source| LoadFailure { source, log: String::new() })?;
        let mut options = JitCall::new(options);
        let mut module: CUmodule = null_mut();
        let (count, keys, values) = options.arguments();
        // SAFETY: the caller answers for the image; each option has a value of the kind that `cuda.h` gives it, and the logs'
        // buffers live through the call.
        let answer = unsafe {
            call!(gpu.functions(), cuModuleLoadDataEx(&raw mut module, image.as_ptr().cast(), count, keys, values))
        };
        answer.map_err(|source| LoadFailure { source, log: options.errors() })?;
        let info = options.infos();
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
        let name = CString::new(name).unwrap_or_default();
        Ok(self.global_and_size(&name)?.0)
    }

    /// The address of a variable of the module, and its size in bytes.
    pub(crate) fn global_and_size(&self, name: &CStr) -> Result<(u64, usize), DriverError> {
        self.gpu.bind()?;
        let (mut address, mut bytes): (CUdeviceptr, usize) = (0, 0);
        let (to_address, to_bytes) = (&raw mut address, &raw mut bytes);
        // SAFETY: it writes an address and a size; the name is NUL-terminated.
        unsafe { call!(self.gpu.functions(), cuModuleGetGlobal_v2(to_address, to_bytes, self.module, name.as_ptr())) }?;
        Ok((address, bytes))
    }
}

/// Options of the driver's compiler and linker for one call or several, with room for what it writes.
pub(super) struct JitCall {
    keys: Vec<c_uint>,
    values: Vec<*mut c_void>,
    errors: Vec<u8>,
    infos: Vec<u8>,
}

impl JitCall {
    const LOG_BYTES: usize = 16 << 10;

    pub(super) fn new(options: &[(c_uint, usize)]) -> Self {
        const INFO_LOG_BUFFER: c_uint = 3;
        const INFO_LOG_BUFFER_SIZE: c_uint = 4;
        const ERROR_LOG_BUFFER: c_uint = 5;
        const ERROR_LOG_BUFFER_SIZE: c_uint = 6;
        let (mut errors, mut infos) = (vec![0u8; Self::LOG_BYTES], vec![0u8; Self::LOG_BYTES]);
        // A number travels as the pointer's own bits.
        let number = std::ptr::without_provenance_mut::<c_void>;
        let size = number(Self::LOG_BYTES);
        let mut keys = vec![ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE, INFO_LOG_BUFFER, INFO_LOG_BUFFER_SIZE];
        let mut values = vec![errors.as_mut_ptr().cast(), size, infos.as_mut_ptr().cast(), size];
        keys.extend(options.iter().map(|(key, _)| *key));
        values.extend(options.iter().map(|(_, value)| number(*value)));
        Self { keys, values, errors, infos }
    }

    /// As the driver takes them: the count, the options and their values.
    pub(super) fn arguments(&mut self) -> (c_uint, *mut c_uint, *mut *mut c_void) {
        let count = c_uint::try_from(self.keys.len()).expect("there are few options");
        (count, self.keys.as_mut_ptr(), self.values.as_mut_ptr())
    }

    pub(super) fn errors(&self) -> String {
        log_text(&self.errors)
    }

    pub(super) fn infos(&self) -> String {
        log_text(&self.infos)
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

    /// The sizes in bytes of its parameters; `None` where the driver does not tell them, as those before CUDA 12.4.
    ///
    /// The driver tells the end of the list by an error. So where the module itself says how many there are, no more are asked for.
    pub(crate) fn parameter_sizes(&self, count: Option<usize>) -> Result<Option<Vec<usize>>, DriverError> {
        /// No kernel has more bytes of parameters, so none has more parameters.
        const MOST: usize = 32_764;
        let gpu = &self.module.gpu;
        gpu.bind()?;
        let Some(get) = gpu.functions().cuFuncGetParamInfo else { return Ok(None) };
        let mut sizes = Vec::new();
        while sizes.len() <= MOST {
            if Some(sizes.len()) == count {
                return Ok(Some(sizes));
            }
            let (mut offset, mut size) = (0usize, 0usize);
            // SAFETY: it writes two numbers; the handle is valid.
            let answer = unsafe { get(self.function, sizes.len(), &raw mut offset, &raw mut size) };
            match check(gpu.functions(), "cuFuncGetParamInfo", answer) {
                Ok(()) => sizes.push(size),
                // There is no parameter with this number.
                Err(error) if error.code == code::INVALID_VALUE => return Ok(Some(sizes)),
                Err(error) if error.code == code::NOT_FOUND => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
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
        if !self.front.is_bound() {
            self.gpu.bind()?;
        }
        if shape.cooperative || shape.is_clustered() {
            // SAFETY: the caller's promise.
            return unsafe { self.launch_together(function, shape, arguments) };
        }
        let LaunchShape { grid, block, shared_bytes, .. } = *shape;
        // SAFETY: the handles are kept valid by their owners; the caller answers for the arguments.
        let answer = unsafe {
            (self.front.launch)(
                function.function,
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                shared_bytes,
                self.front.stream,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        check(self.functions(), "cuLaunchKernel", answer)
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
