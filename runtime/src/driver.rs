//! The CUDA driver's functions, looked up one by one in its library, each behind a wrapper that owns what it makes.
//!
//! cudarc's own bindings panic when the library or a symbol is missing, and read the driver's answer as a Rust `enum`
//! that newer drivers have more values than. Here a missing symbol is an error and an answer is a number. The library is
//! the one that cudarc uses, and its contexts and streams are cudarc's.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ops::RangeInclusive;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUlinkState,
    CUmemoryPool, CUmodule, CUstream, CUuuid,
};
use cudarc::driver::{CudaContext, CudaStream};
use libloading::Library;

use crate::error::{DeviceError, DriverError, Version};
use crate::outside::{self, Inside};

/// Codes of `CUresult` that this crate tells apart.
pub(crate) mod code {
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const DEINITIALIZED: u32 = 4;
    pub(crate) const STUB_LIBRARY: u32 = 34;
    pub(crate) const DEVICE_UNAVAILABLE: u32 = 46;
    pub(crate) const NO_DEVICE: u32 = 100;
    pub(crate) const UNSUPPORTED_PTX_VERSION: u32 = 222;
    pub(crate) const NOT_FOUND: u32 = 500;
    pub(crate) const NOT_READY: u32 = 600;
    pub(crate) const PEER_ACCESS_ALREADY_ENABLED: u32 = 704;
    pub(crate) const NOT_PERMITTED: u32 = 800;
    pub(crate) const SYSTEM_NOT_READY: u32 = 802;
    pub(crate) const SYSTEM_DRIVER_MISMATCH: u32 = 803;
    pub(crate) const COMPAT_NOT_SUPPORTED_ON_DEVICE: u32 = 804;
    pub(crate) const STREAM_CAPTURE_UNSUPPORTED: u32 = 900;
    pub(crate) const UNKNOWN: u32 = 999;
}

/// Numbers of `CUdevice_attribute` that this crate asks for.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Attribute {
    MaxThreadsPerBlock = 1,
    MaxBlockDimX = 2,
    MaxBlockDimY = 3,
    MaxBlockDimZ = 4,
    MaxGridDimX = 5,
    MaxGridDimY = 6,
    MaxGridDimZ = 7,
    MaxSharedMemoryPerBlock = 8,
    WarpSize = 10,
    MaxRegistersPerBlock = 12,
    MaxThreadsPerMultiprocessor = 39,
    TexturePitchAlignment = 51,
    MaxSharedMemoryPerMultiprocessor = 81,
    MaxRegistersPerMultiprocessor = 82,
    MaxBlocksPerMultiprocessor = 106,
    ReservedSharedMemoryPerBlock = 111,
    ConcurrentManagedAccess = 89,
    MaxSharedMemoryPerBlockOptin = 97,
    MemoryPoolsSupported = 115,
}

/// Numbers of `CUfunction_attribute` that this crate uses.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum FunctionAttribute {
    MaxThreadsPerBlock = 0,
    SharedSizeBytes = 1,
    ConstSizeBytes = 2,
    LocalSizeBytes = 3,
    NumRegs = 4,
    PtxVersion = 5,
    BinaryVersion = 6,
    MaxDynamicSharedSizeBytes = 8,
    PreferredSharedMemoryCarveout = 9,
}

/// Numbers of `CUlimit` that this crate uses.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Limit {
    StackSize = 0,
    MallocHeapSize = 2,
}

/// A function that the driver calls in a stream's order.
type HostFunction = extern "C" fn(*mut c_void);

macro_rules! driver_functions {
    ($($symbol:ident($($argument:ty),*);)* @if_there $($later:ident($($later_argument:ty),*);)*) => {
        /// The driver's functions.
        #[allow(non_snake_case, reason = "the fields are named as the driver's functions are")]
        struct Functions {
            $($symbol: unsafe extern "C" fn($($argument),*) -> c_uint,)*
            $($later: Option<unsafe extern "C" fn($($later_argument),*) -> c_uint>,)*
        }

        impl Functions {
            fn load() -> Result<Self, DeviceError> {
                let library = open_library()?;
                Ok(Self {
                    $($symbol: {
                        type Function = unsafe extern "C" fn($($argument),*) -> c_uint;
                        // SAFETY: the type is the function's in `cuda.h`, with enums as their numbers.
                        let found = unsafe { library.get::<Function>(concat!(stringify!($symbol), "\0").as_bytes()) };
                        *found.map_err(|_| DeviceError::OldDriver { symbol: stringify!($symbol) })?
                    },)*
                    $($later: {
                        type Function = unsafe extern "C" fn($($later_argument),*) -> c_uint;
                        // SAFETY: as above.
                        let found = unsafe { library.get::<Function>(concat!(stringify!($later), "\0").as_bytes()) };
                        found.ok().map(|function| *function)
                    },)*
                })
            }
        }
    };
}

driver_functions! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(c_uint, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetByPCIBusId(*mut CUdevice, *const c_char);
    cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
    cuDeviceGetUuid_v2(*mut CUuuid, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, c_uint, CUdevice);
    cuCtxGetCurrent(*mut CUcontext);
    cuCtxSetCurrent(CUcontext);
    cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int);
    cuCtxGetLimit(*mut usize, c_uint);
    cuCtxSetLimit(c_uint, usize);
    cuCtxSynchronize();
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemAllocManaged(*mut CUdeviceptr, usize, c_uint);
    cuMemAllocFromPoolAsync(*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
    cuMemFreeAsync(CUdeviceptr, CUstream);
    cuMemPoolCreate(*mut CUmemoryPool, *const PoolProps);
    cuMemPoolDestroy(CUmemoryPool);
    cuMemPoolSetAttribute(CUmemoryPool, c_uint, *mut c_void);
    cuMemPoolGetAttribute(CUmemoryPool, c_uint, *mut c_void);
    cuMemPoolSetAccess(CUmemoryPool, *const memory::PoolAccess, usize);
    cuMemPoolTrimTo(CUmemoryPool, usize);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
    cuPointerGetAttributes(c_uint, *mut c_uint, *mut *mut c_void, CUdeviceptr);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoH_v2(*mut c_void, CUdeviceptr, usize);
    cuMemcpy2DAsync_v2(*const memory::Memcpy2d, CUstream);
    cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);
    cuCtxEnablePeerAccess(CUcontext, c_uint);
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    cuMemsetD16Async(CUdeviceptr, u16, usize, CUstream);
    cuMemsetD32Async(CUdeviceptr, u32, usize, CUstream);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamQuery(CUstream);
    cuStreamGetPriority(CUstream, *mut c_int);
    cuStreamIsCapturing(CUstream, *mut c_uint);
    cuThreadExchangeStreamCaptureMode(*mut c_uint);
    cuLaunchHostFunc(CUstream, HostFunction, *mut c_void);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventRecord(CUevent, CUstream);
    cuEventQuery(CUevent);
    cuEventSynchronize(CUevent);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuEventDestroy_v2(CUevent);
    cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuModuleGetGlobal_v2(*mut CUdeviceptr, *mut usize, CUmodule, *const c_char);
    cuLinkCreate_v2(c_uint, *mut c_uint, *mut *mut c_void, *mut CUlinkState);
    cuLinkAddData_v2(
        CUlinkState, c_uint, *mut c_void, usize, *const c_char, c_uint, *mut c_uint, *mut *mut c_void
    );
    cuLinkComplete(CUlinkState, *mut *mut c_void, *mut usize);
    cuLinkDestroy(CUlinkState);
    cuFuncGetAttribute(*mut c_int, c_uint, CUfunction);
    cuFuncSetAttribute(CUfunction, c_uint, c_int);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, CUfunction, c_int, usize);
    cuOccupancyMaxPotentialBlockSize(*mut c_int, *mut c_int, CUfunction, *mut c_void, usize, c_int);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void
    );
    cuLaunchCooperativeKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void
    );
    cuGraphCreate(*mut CUgraph, c_uint);
    cuGraphDestroy(CUgraph);
    cuGraphAddKernelNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const KernelNodeParams);
    cuGraphAddMemcpyNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CopyParams, CUcontext);
    cuGraphAddMemsetNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const FillParams, CUcontext);
    cuGraphAddHostNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const HostNodeParams);
    cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
    cuGraphExecKernelNodeSetParams(CUgraphExec, CUgraphNode, *const KernelNodeParams);
    cuGraphExecDestroy(CUgraphExec);
    cuGraphUpload(CUgraphExec, CUstream);
    cuGraphLaunch(CUgraphExec, CUstream);
    @if_there
    // Since CUDA 12.4.
    cuFuncGetParamInfo(CUfunction, usize, *mut usize, *mut usize);
    // Since CUDA 11.8; GPUs that need them need a later driver than that.
    cuLaunchKernelEx(*const DriverLaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
    cuOccupancyMaxActiveClusters(*mut c_int, CUfunction, *const DriverLaunchConfig);
}

/// The names under which the driver's library is looked for, in the order in which cudarc tries them.
const LIBRARY_NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };

/// Opens the driver's library, which stays open.
///
/// Another crate may have cudarc linked to the library instead of loading it, and then cudarc gives no handle of it.
fn open_library() -> Result<&'static Library, DeviceError> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    // SAFETY: opening the driver's library runs its initialisers, which every CUDA program does.
    let mut found = LIBRARY_NAMES.iter().filter_map(|&name| unsafe { Library::new(name) }.ok());
    let library = loaded_library().or_else(|| found.next()).ok_or_else(|| DeviceError::NoDriver {
        looked_for: LIBRARY_NAMES.iter().map(ToString::to_string).collect(),
        library_path: std::env::var("LD_LIBRARY_PATH").ok(),
    })?;
    Ok(LIBRARY.get_or_init(|| library))
}

/// The library that the program is linked to, or that was opened before.
fn loaded_library() -> Option<Library> {
    #[cfg(unix)]
    {
        use libloading::os::unix;
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
        // SAFETY: nothing is loaded, and so nothing is run.
        unsafe { unix::Library::open(Some("libcuda.so.1"), flags) }.ok().map(Library::from)
    }
    #[cfg(not(unix))]
    None
}

/// Calls a driver function and turns its answer into a `Result`.
macro_rules! call {
    ($functions:expr, $symbol:ident($($argument:expr),* $(,)?)) => {{
        let functions: &Functions = $functions;
        check(functions, stringify!($symbol), (functions.$symbol)($($argument),*))
    }};
}

/// As [`call!`], for a function that older drivers lack.
macro_rules! call_if_there {
    ($functions:expr, $symbol:ident($($argument:expr),* $(,)?)) => {{
        let functions: &Functions = $functions;
        match functions.$symbol {
            Some(function) => check(functions, stringify!($symbol), function($($argument),*)),
            None => Err(driver_error(functions, stringify!($symbol), code::NOT_FOUND)),
        }
    }};
}

mod device;
mod graph;
mod link;
mod memory;
mod module;
mod words;

use graph::{CopyParams, FillParams, HostNodeParams, KernelNodeParams};
pub(crate) use graph::{GpuGraph, GpuGraphExec, GpuGraphNode};
pub(crate) use link::GpuLinker;
pub(crate) use memory::{Memcpy2d, PoolFigures, Registration};
use module::DriverLaunchConfig;
pub(crate) use module::{GpuFunction, GpuModule, LaunchShape, LoadFailure};
pub(crate) use words::DeviceWords;

#[inline]
fn check(functions: &Functions, call: &'static str, answer: u32) -> Result<(), DriverError> {
    if answer == 0 { Ok(()) } else { Err(driver_error(functions, call, answer)) }
}

#[cold]
fn driver_error(functions: &Functions, call: &'static str, code: u32) -> DriverError {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the driver takes any number and answers with a static string or an error.
    let answer = unsafe { (functions.cuGetErrorName)(code, &raw mut text) };
    let name = if answer == 0 && !text.is_null() {
        // SAFETY: on success it is a NUL-terminated string that lives as long as the driver.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    } else {
        "an unknown error".to_owned()
    };
    DriverError { call, code, name }
}

/// The driver, opened and initialised once for the process.
pub(crate) struct Driver {
    functions: Functions,
    version: Version,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Driver {
    /// Opens and initialises the driver. Only success is kept: a driver that is installed later is found later.
    pub(crate) fn get() -> Result<&'static Self, DeviceError> {
        if outside::inside() == Inside::Gpu {
            return Err(DeviceError::InHostTask);
        }
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let functions = Functions::load()?;
        // SAFETY: 0 is the only flag there is.
        let init = unsafe { call!(&functions, cuInit(0)) };
        if let Err(source) = init {
            if source.code == code::NO_DEVICE {
                return Err(no_gpu());
            }
            return Err(DeviceError::Init { remedy: init_remedy(source.code), source });
        }
        let mut number: c_int = 0;
        // SAFETY: it writes one number.
        let answer = unsafe { call!(&functions, cuDriverGetVersion(&raw mut number)) };
        answer.map_err(|source| DeviceError::Init { remedy: init_remedy(source.code), source })?;
        let number = number.unsigned_abs();
        let version = Version { major: number / 1000, minor: number % 1000 / 10 };
        Ok(DRIVER.get_or_init(|| Self { functions, version }))
    }

    /// The CUDA version of the driver.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// How many GPUs the driver sees.
    pub(crate) fn gpu_count(&self) -> Result<usize, DeviceError> {
        let mut count: c_int = 0;
        // SAFETY: it writes one number.
        let answer = unsafe { call!(&self.functions, cuDeviceGetCount(&raw mut count)) };
        match answer {
            Ok(()) => Ok(usize::try_from(count).unwrap_or(0)),
            Err(source) if source.code == code::NO_DEVICE => Ok(0),
            Err(source) => Err(DeviceError::Init { remedy: init_remedy(source.code), source }),
        }
    }
}

/// The error of a driver that sees no GPU.
pub(crate) fn no_gpu() -> DeviceError {
    DeviceError::NoGpu { visible: std::env::var("CUDA_VISIBLE_DEVICES").ok() }
}

fn init_remedy(code: u32) -> &'static str {
    match code {
        code::STUB_LIBRARY => {
            "the library found is the CUDA toolkit's stub, which is only for linking: take its `stubs` folder off \
             LD_LIBRARY_PATH, so that the driver's own library is found"
        }
        code::SYSTEM_DRIVER_MISMATCH => {
            "its library and its kernel module are of different versions: reboot, or reload the kernel module, and in a \
             container use the host's version of the library"
        }
        code::COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            "a forward-compatibility library is on LD_LIBRARY_PATH that this GPU does not support: take it off"
        }
        code::SYSTEM_NOT_READY => "the system is not ready: check that the services the GPU needs (fabric manager) run",
        code::NOT_PERMITTED | code::DEVICE_UNAVAILABLE | code::UNKNOWN => {
            "check that `nvidia-smi` works and that this process may open /dev/nvidia*; in a container, that it was \
             started with GPU access"
        }
        _ => "check that `nvidia-smi` works; without a GPU use Device::cpu() or WARPSMITH_DEVICE=cpu",
    }
}

/// A GPU's context, with the driver that it belongs to.
#[derive(Debug)]
pub(crate) struct Gpu {
    driver: &'static Driver,
    context: Arc<CudaContext>,
    /// The contexts whose memory this one was let reach. A second time would be an error of the driver.
    peers: Mutex<Vec<Weak<CudaContext>>>,
}

/// What the driver knows of an address.
struct PointerFacts {
    ordinal: c_int,
    device_address: CUdeviceptr,
}

impl Gpu {
    /// Wraps a context of cudarc's.
    pub(crate) fn new(driver: &'static Driver, context: Arc<CudaContext>) -> Self {
        Self { driver, context, peers: Mutex::default() }
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    fn functions(&self) -> &'static Functions {
        &self.driver.functions
    }

    /// Makes the context current on the calling thread, which nearly every call of the driver needs.
    #[inline]
    pub(crate) fn bind(&self) -> Result<(), DriverError> {
        if outside::inside() == Inside::Gpu {
            return Err(DriverError::in_host_task());
        }
        let wanted = self.context.cu_ctx();
        let mut current: CUcontext = null_mut();
        // SAFETY: it writes one handle.
        unsafe { call!(self.functions(), cuCtxGetCurrent(&raw mut current)) }?;
        if current != wanted {
            // SAFETY: `context` keeps the handle valid.
            unsafe { call!(self.functions(), cuCtxSetCurrent(wanted)) }?;
        }
        Ok(())
    }

    pub(crate) fn attribute(&self, attribute: Attribute) -> Result<u32, DriverError> {
        Ok(u32::try_from(self.attribute_by_number(attribute as u32)?).unwrap_or(0))
    }

    pub(crate) fn attribute_by_number(&self, number: u32) -> Result<i32, DriverError> {
        // Needs no context, and so no `bind`.
        if outside::inside() == Inside::Gpu {
            return Err(DriverError::in_host_task());
        }
        self.driver.device_attribute(self.context.cu_device(), number)
    }

    /// Free and total memory in bytes.
    pub(crate) fn memory_info(&self) -> Result<(u64, u64), DriverError> {
        self.bind()?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: it writes two numbers.
        unsafe { call!(self.functions(), cuMemGetInfo_v2(&raw mut free, &raw mut total)) }?;
        Ok((free as u64, total as u64))
    }

    pub(crate) fn limit(&self, limit: Limit) -> Result<usize, DriverError> {
        self.limit_by_number(limit as u32)
    }

    pub(crate) fn set_limit(&self, limit: Limit, value: usize) -> Result<(), DriverError> {
        self.set_limit_by_number(limit as u32, value)
    }

    /// The limit of the context with this number of `CUlimit`.
    pub(crate) fn limit_by_number(&self, number: u32) -> Result<usize, DriverError> {
        self.bind()?;
        let mut value = 0usize;
        // SAFETY: it writes one number.
        unsafe { call!(self.functions(), cuCtxGetLimit(&raw mut value, number)) }?;
        Ok(value)
    }

    pub(crate) fn set_limit_by_number(&self, number: u32, value: usize) -> Result<(), DriverError> {
        self.bind()?;
        // SAFETY: the driver checks the value.
        unsafe { call!(self.functions(), cuCtxSetLimit(number, value)) }
    }

    /// The priorities of streams, the most urgent first.
    pub(crate) fn stream_priorities(&self) -> Result<RangeInclusive<i32>, DriverError> {
        self.bind()?;
        let (mut least, mut greatest): (c_int, c_int) = (0, 0);
        // SAFETY: it writes two numbers.
        unsafe { call!(self.functions(), cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)) }?;
        Ok(greatest..=least)
    }

    /// Lets the calling thread ask about events while other threads capture graphs.
    pub(crate) fn relax_capture_of_thread(&self) -> Result<(), DriverError> {
        const RELAXED: c_uint = 2;
        self.bind()?;
        let mut mode = RELAXED;
        // SAFETY: it reads and writes one number.
        unsafe { call!(self.functions(), cuThreadExchangeStreamCaptureMode(&raw mut mode)) }
    }

    /// Waits for all work of the context.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        self.bind()?;
        // SAFETY: no arguments.
        unsafe { call!(self.functions(), cuCtxSynchronize()) }
    }

    /// Whether the driver knows host memory as page-locked or managed, so that a copy from it reads it later.
    pub(crate) fn is_page_locked(&self, start: *const u8, bytes: usize) -> bool {
        // Such memory may begin or end inside the range. Where the driver fails to say, it counts as such: then the copy waits.
        let ends = [start, start.wrapping_add(bytes.saturating_sub(1))];
        ends.into_iter().any(|at| !matches!(self.pointer_facts(at.addr() as u64), Ok(None)))
    }

    /// Which GPU the driver knows an address as memory of.
    pub(crate) fn ordinal_of(&self, address: u64) -> Result<Option<c_int>, DriverError> {
        Ok(self.pointer_facts(address)?.map(|facts| facts.ordinal))
    }

    /// Where kernels find the memory that the host finds at an address.
    pub(crate) fn device_address(&self, address: u64) -> Result<Option<u64>, DriverError> {
        Ok(self.pointer_facts(address)?.map(|facts| facts.device_address))
    }

    /// What the driver knows of an address, if it does.
    ///
    /// The function for one attribute answers with an error where the address is not the driver's, which tools that watch its
    /// calls report; this one has an answer for that.
    fn pointer_facts(&self, address: u64) -> Result<Option<PointerFacts>, DriverError> {
        const MEMORY_TYPE: c_uint = 2;
        const DEVICE_POINTER: c_uint = 3;
        const DEVICE_ORDINAL: c_uint = 9;
        self.bind()?;
        let mut memory_type: c_uint = 0;
        let mut facts = PointerFacts { ordinal: -1, device_address: 0 };
        let mut attributes = [MEMORY_TYPE, DEVICE_POINTER, DEVICE_ORDINAL];
        let mut answers: [*mut c_void; 3] =
            [(&raw mut memory_type).cast(), (&raw mut facts.device_address).cast(), (&raw mut facts.ordinal).cast()];
        let count = attributes.len() as c_uint;
        // SAFETY: it writes a number for each attribute, of the size that `cuda.h` says; the driver takes any address.
        unsafe {
            let (attributes, answers) = (attributes.as_mut_ptr(), answers.as_mut_ptr());
            call!(self.functions(), cuPointerGetAttributes(count, attributes, answers, address))
        }?;
        Ok((memory_type != 0).then_some(facts))
    }

    /// Copies bytes from any address of the device; waits for it.
    ///
    /// # Safety
    /// `address` is readable for `into.len()` bytes on the device, and nothing writes there meanwhile.
    pub(crate) unsafe fn read(&self, address: u64, into: &mut [u8]) -> Result<(), DriverError> {
        self.bind()?;
        // SAFETY: the destination is a slice; the caller answers for the source.
        unsafe { call!(self.functions(), cuMemcpyDtoH_v2(into.as_mut_ptr().cast(), address, into.len())) }
    }
}

/// A stream of a GPU.
#[derive(Debug)]
pub(crate) struct GpuStream {
    gpu: Arc<Gpu>,
    stream: Arc<CudaStream>,
    front: Front,
}

/// What each launch needs of the stream, its context and the driver, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Front {
    stream: CUstream,   // Invariant: of `GpuStream::stream`, which keeps it valid.
    context: CUcontext, // Invariant: of `GpuStream::gpu`.
    current: unsafe extern "C" fn(*mut CUcontext) -> c_uint,
    launch: LaunchFunction,
}

/// `cuLaunchKernel`.
type LaunchFunction = unsafe extern "C" fn(
    CUfunction,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    CUstream,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_uint;

// SAFETY: the handles may be used from any thread.
unsafe impl Send for Front {}
// SAFETY: as above, and from several at once.
unsafe impl Sync for Front {}

impl Front {
    /// Whether the context is current on the calling thread, which may call the driver.
    #[inline]
    fn is_bound(&self) -> bool {
        if outside::inside() == Inside::Gpu {
            return false;
        }
        let mut current: CUcontext = null_mut();
        // SAFETY: it writes one handle.
        unsafe { (self.current)(&raw mut current) == 0 && current == self.context }
    }
}

impl GpuStream {
    pub(crate) fn new(gpu: Arc<Gpu>, stream: Arc<CudaStream>) -> Self {
        let functions = gpu.functions();
        let front = Front {
            stream: stream.cu_stream(),
            context: gpu.context.cu_ctx(),
            current: functions.cuCtxGetCurrent,
            launch: functions.cuLaunchKernel,
        };
        Self { gpu, stream, front }
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(crate) fn cuda(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    fn functions(&self) -> &'static Functions {
        self.gpu.functions()
    }

    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: `stream` keeps the handle valid.
        unsafe { call!(self.functions(), cuStreamSynchronize(self.stream.cu_stream())) }
    }

    /// Whether all work of the stream is done.
    pub(crate) fn is_done(&self) -> Result<bool, DriverError> {
        self.gpu.bind()?;
        // SAFETY: `stream` keeps the handle valid.
        match unsafe { call!(self.functions(), cuStreamQuery(self.stream.cu_stream())) } {
            Ok(()) => Ok(true),
            Err(error) if error.code == code::NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets later work of this stream wait for what `event` was recorded after.
    pub(crate) fn wait(&self, event: &GpuEvent) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: both handles are kept valid by their owners.
        unsafe { call!(self.functions(), cuStreamWaitEvent(self.stream.cu_stream(), event.event, 0)) }
    }

    /// Copies from the host in stream order. From pageable memory, the source has been read when the call returns.
    ///
    /// # Safety
    /// `to` is writable for `bytes` bytes in stream order; `from` is readable for as many until the copy is done.
    pub(crate) unsafe fn copy_from_host(&self, to: u64, from: *const u8, bytes: usize) -> Result<(), DriverError> {
        self.gpu.bind()?;
        let stream = self.stream.cu_stream();
        // SAFETY: the caller answers for both sides.
        unsafe { call!(self.functions(), cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream)) }
    }

    /// Copies to the host in stream order.
    ///
    /// # Safety
    /// `from` is readable for `bytes` bytes in stream order; `to` is writable for as many until the copy is done.
    pub(crate) unsafe fn copy_to_host(&self, to: *mut u8, from: u64, bytes: usize) -> Result<(), DriverError> {
        self.gpu.bind()?;
        let stream = self.stream.cu_stream();
        // SAFETY: the caller answers for both sides.
        unsafe { call!(self.functions(), cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream)) }
    }

    /// Copies within the device in stream order.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `bytes` bytes in stream order, and they do not overlap.
    pub(crate) unsafe fn copy_on_device(&self, to: u64, from: u64, bytes: usize) -> Result<(), DriverError> {
        self.gpu.bind()?;
        let stream = self.stream.cu_stream();
        // SAFETY: the caller answers for both sides.
        unsafe { call!(self.functions(), cuMemcpyDtoDAsync_v2(to, from, bytes, stream)) }
    }

    /// Sets bytes in stream order.
    ///
    /// # Safety
    /// `to` is writable for `bytes` bytes in stream order.
    pub(crate) unsafe fn set_bytes(&self, to: u64, value: u8, bytes: usize) -> Result<(), DriverError> {
        self.gpu.bind()?;
        let stream = self.stream.cu_stream();
        // SAFETY: the caller answers for the memory.
        unsafe { call!(self.functions(), cuMemsetD8Async(to, value, bytes, stream)) }
    }
}

impl GpuStream {
    /// The lower, the more urgent.
    pub(crate) fn priority(&self) -> Result<i32, DriverError> {
        self.gpu.bind()?;
        let mut priority: c_int = 0;
        // SAFETY: it writes one number; `stream` keeps the handle valid.
        unsafe { call!(self.functions(), cuStreamGetPriority(self.stream.cu_stream(), &raw mut priority)) }?;
        Ok(priority)
    }

    /// Whether work given to the stream goes into a graph.
    pub(crate) fn is_capturing(&self) -> Result<bool, DriverError> {
        self.gpu.bind()?;
        let mut status: c_uint = 0;
        // SAFETY: it writes one number; `stream` keeps the handle valid.
        unsafe { call!(self.functions(), cuStreamIsCapturing(self.stream.cu_stream(), &raw mut status)) }?;
        Ok(status != 0)
    }

    /// Has the driver call a function of the host with a number, in stream order.
    ///
    /// # Safety
    /// The function may be called with the number, on any thread, whenever the driver likes.
    pub(crate) unsafe fn call_host(&self, function: HostFunction, number: u64) -> Result<(), DriverError> {
        self.gpu.bind()?;
        let number = std::ptr::without_provenance_mut(usize::try_from(number).expect("pointers have 64 bits"));
        // SAFETY: the caller answers for the function; `stream` keeps the handle valid.
        unsafe { call!(self.functions(), cuLaunchHostFunc(self.stream.cu_stream(), function, number)) }
    }
}

/// An event of a GPU.
#[derive(Debug)]
pub(crate) struct GpuEvent {
    gpu: Arc<Gpu>,
    event: CUevent, // Invariant: valid until drop.
}

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for GpuEvent {}
// SAFETY: as above, and from several at once.
unsafe impl Sync for GpuEvent {}

impl GpuEvent {
    /// Makes an event; one that takes the time costs a little more.
    pub(crate) fn new(gpu: &Arc<Gpu>, timing: bool) -> Result<Self, DriverError> {
        Self::with_options(gpu, timing, false)
    }

    /// As [`new`](Self::new); whoever waits for a blocking one sleeps instead of asking in a loop.
    pub(crate) fn with_options(gpu: &Arc<Gpu>, timing: bool, blocking: bool) -> Result<Self, DriverError> {
        const BLOCKING_SYNC: c_uint = 1;
        const DISABLE_TIMING: c_uint = 2;
        gpu.bind()?;
        let mut event: CUevent = null_mut();
        let flags = if timing { 0 } else { DISABLE_TIMING } | if blocking { BLOCKING_SYNC } else { 0 };
        // SAFETY: it writes one handle.
        unsafe { call!(gpu.functions(), cuEventCreate(&raw mut event, flags)) }?;
        Ok(Self { gpu: Arc::clone(gpu), event })
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Marks this point of the stream.
    pub(crate) fn record(&self, stream: &GpuStream) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: both handles are kept valid by their owners.
        unsafe { call!(self.gpu.functions(), cuEventRecord(self.event, stream.stream.cu_stream())) }
    }

    /// Whether the marked point was passed.
    pub(crate) fn is_done(&self) -> Result<bool, DriverError> {
        self.gpu.bind()?;
        // SAFETY: the handle is valid.
        match unsafe { call!(self.gpu.functions(), cuEventQuery(self.event)) } {
            Ok(()) => Ok(true),
            Err(error) if error.code == code::NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the marked point was passed.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: the handle is valid.
        unsafe { call!(self.gpu.functions(), cuEventSynchronize(self.event)) }
    }

    /// The time from this event to `later`, both passed.
    pub(crate) fn elapsed(&self, later: &Self) -> Result<Duration, DriverError> {
        self.gpu.bind()?;
        let mut milliseconds = 0.0f32;
        // SAFETY: it writes one number; both handles are valid.
        unsafe { call!(self.gpu.functions(), cuEventElapsedTime(&raw mut milliseconds, self.event, later.event)) }?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) * 1e-3))
    }
}

impl Drop for GpuEvent {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: the handle is valid and not used again. The driver keeps what a waiting stream still needs.
            let _ = unsafe { call!(self.gpu.functions(), cuEventDestroy_v2(self.event)) };
        }
    }
}

/// `CUmemPoolProps` with the fields that every version has; what later ones add is zero in the reserved bytes.
#[repr(C)]
struct PoolProps {
    allocation_type: c_uint,
    handle_types: c_uint,
    location_type: c_uint,
    location_id: c_int,
    security_attributes: *mut c_void,
    reserved: [u8; 64],
}

/// A pool of a GPU's memory: this crate's own, so that other users of the context keep their settings.
#[derive(Debug)]
pub(crate) struct GpuPool {
    gpu: Arc<Gpu>,
    pool: CUmemoryPool, // Invariant: valid until drop.
}

// SAFETY: the driver's pools may be used from any thread.
unsafe impl Send for GpuPool {}
// SAFETY: as above, and from several at once.
unsafe impl Sync for GpuPool {}

impl GpuPool {
    /// Makes a pool that keeps freed memory for later allocations.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self, DriverError> {
        const PINNED: c_uint = 1;
        const ON_DEVICE: c_uint = 1;
        const RELEASE_THRESHOLD: c_uint = 4;
        gpu.bind()?;
        let props = PoolProps {
            allocation_type: PINNED,
            handle_types: 0,
            location_type: ON_DEVICE,
            location_id: gpu.context.cu_device(),
            security_attributes: null_mut(),
            reserved: [0; 64],
        };
        let mut pool: CUmemoryPool = null_mut();
        // SAFETY: it reads the properties and writes one handle.
        unsafe { call!(gpu.functions(), cuMemPoolCreate(&raw mut pool, &raw const props)) }?;
        let pool = Self { gpu: Arc::clone(gpu), pool };
        // Else each synchronise gives free memory back to the system, which costs more than most kernels.
        let mut threshold = u64::MAX;
        // SAFETY: the attribute is a `u64`.
        unsafe {
            call!(gpu.functions(), cuMemPoolSetAttribute(pool.pool, RELEASE_THRESHOLD, (&raw mut threshold).cast()))
        }?;
        Ok(pool)
    }

    /// Gives the memory that is free back to the device.
    pub(crate) fn trim(&self) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: the handle is valid.
        unsafe { call!(self.gpu.functions(), cuMemPoolTrimTo(self.pool, 0)) }
    }
}

impl Drop for GpuPool {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: the handle is valid and not used again; the driver waits for memory that is yet to be freed.
            let _ = unsafe { call!(self.gpu.functions(), cuMemPoolDestroy(self.pool)) };
        }
    }
}

/// Memory of a GPU.
#[derive(Debug)]
pub(crate) struct GpuMemory {
    gpu: Arc<Gpu>,
    address: u64, // Invariant: an allocation of the context, or 0 once freed; or foreign.
    /// Whether another library frees it.
    is_foreign: bool,
    pool: Option<Arc<GpuPool>>,
}

/// The bytes to ask for where so many are wanted: whole words, as a byte's atomics read and write the word around it.
fn whole_words(bytes: usize) -> usize {
    // What is too much to be rounded is refused by the driver as it is.
    bytes.checked_next_multiple_of(size_of::<u32>()).unwrap_or(bytes)
}

impl GpuMemory {
    /// Allocates at least one byte; from a pool, the memory is there in stream order.
    pub(crate) fn new(stream: &GpuStream, bytes: usize, pool: Option<&Arc<GpuPool>>) -> Result<Self, DriverError> {
        stream.gpu.bind()?;
        let bytes = whole_words(bytes);
        let mut address: CUdeviceptr = 0;
        let functions = stream.functions();
        if let Some(pool) = pool {
            let stream = stream.stream.cu_stream();
            // SAFETY: it writes one address.
            unsafe { call!(functions, cuMemAllocFromPoolAsync(&raw mut address, bytes, pool.pool, stream)) }?;
        } else {
            // SAFETY: it writes one address.
            unsafe { call!(functions, cuMemAlloc_v2(&raw mut address, bytes)) }?;
        }
        Ok(Self { gpu: Arc::clone(&stream.gpu), address, is_foreign: false, pool: pool.cloned() })
    }

    /// Memory that another library frees.
    pub(crate) fn foreign(gpu: &Arc<Gpu>, address: u64) -> Self {
        Self { gpu: Arc::clone(gpu), address, is_foreign: true, pool: None }
    }

    /// Whether it is freed in a stream's order.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pool.is_some()
    }

    /// Leaves the memory as it is, with work under way.
    pub(crate) fn forget(mut self) {
        self.address = 0;
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Frees the memory after the work that `stream` has now. For another library's memory, waits for that work.
    pub(crate) fn free(mut self, stream: &GpuStream) -> Result<(), DriverError> {
        // What fails here leaves the memory to `drop`.
        self.gpu.bind()?;
        let address = std::mem::take(&mut self.address);
        if self.is_foreign {
            stream.synchronize()
        } else if self.pool.is_some() {
            let stream = stream.stream.cu_stream();
            // SAFETY: the address was allocated and is forgotten here.
            unsafe { call!(self.gpu.functions(), cuMemFreeAsync(address, stream)) }
        } else {
            let waited = stream.synchronize();
            // SAFETY: as above; no work that uses it is left.
            unsafe { call!(self.gpu.functions(), cuMemFree_v2(address)) }?;
            waited
        }
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        if self.address != 0 && self.gpu.synchronize().is_ok() && !self.is_foreign {
            // SAFETY: the address was allocated, and no work of the context that uses it is left.
            let _ = unsafe { call!(self.gpu.functions(), cuMemFree_v2(self.address)) };
        }
    }
}

/// Page-locked host memory that the GPU reaches too, zeroed.
#[derive(Debug)]
pub(crate) struct PinnedMemory {
    gpu: Arc<Gpu>,
    host: NonNull<u8>, // Invariant: valid until drop.
    device: u64,
}

// SAFETY: memory that belongs to no thread; whoever uses the pointer answers for the access.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    pub(crate) fn new(gpu: &Arc<Gpu>, bytes: usize) -> Result<Self, DriverError> {
        const PORTABLE: c_uint = 1;
        const DEVICE_MAP: c_uint = 2;
        gpu.bind()?;
        let mut host: *mut c_void = null_mut();
        // SAFETY: it writes one address.
        unsafe { call!(gpu.functions(), cuMemHostAlloc(&raw mut host, whole_words(bytes), PORTABLE | DEVICE_MAP)) }?;
        let host = NonNull::new(host.cast::<u8>()).expect("the driver answered success, so the address is not null");
        let mut memory = Self { gpu: Arc::clone(gpu), host, device: 0 };
        // SAFETY: the allocation has that many bytes.
        unsafe { memory.host.as_ptr().write_bytes(0, bytes) };
        // SAFETY: it writes one address; the memory was allocated as mapped.
        unsafe {
            call!(gpu.functions(), cuMemHostGetDevicePointer_v2(&raw mut memory.device, memory.host.as_ptr().cast(), 0))
        }?;
        Ok(memory)
    }

    /// Its address on the host.
    pub(crate) fn host(&self) -> NonNull<u8> {
        self.host
    }

    /// Its address on the GPU.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if outside::inside() == Inside::Gpu {
            return outside::discard(Self { gpu: Arc::clone(&self.gpu), host: self.host, device: self.device });
        }
        if self.gpu.bind().is_ok() {
            // SAFETY: the memory was allocated so and is not used again.
            let _ = unsafe { call!(self.gpu.functions(), cuMemFreeHost(self.host.as_ptr().cast())) };
        }
    }
}
