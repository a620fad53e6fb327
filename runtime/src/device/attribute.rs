//! What can be asked of a GPU by number, and its context's limits.

use super::{Device, Kind};
use crate::error::{DeviceError, Result};

macro_rules! attributes {
    ($(#[$doc:meta] $name:ident = $number:literal,)*) => {
        /// A property of a GPU that [`Device::attribute`] tells; those that `cuda.h` lists up to CUDA 12, by its words.
        ///
        /// Where the answer is yes or no, it is 1 or 0. [`Device::attribute_by_number`] takes the numbers of later ones.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        pub enum DeviceAttribute {
            $(#[$doc] $name = $number,)*
        }

        impl DeviceAttribute {
            /// Every attribute, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

attributes! {
    /// Most threads in a block.
    MaxThreadsPerBlock = 1,
    /// Most threads in a block along x.
    MaxBlockDimX = 2,
    /// Most threads in a block along y.
    MaxBlockDimY = 3,
    /// Most threads in a block along z.
    MaxBlockDimZ = 4,
    /// Most blocks in a grid along x.
    MaxGridDimX = 5,
    /// Most blocks in a grid along y.
    MaxGridDimY = 6,
    /// Most blocks in a grid along z.
    MaxGridDimZ = 7,
    /// Bytes of shared memory that a block may have without asking for more.
    MaxSharedMemoryPerBlock = 8,
    /// Bytes of constant memory.
    TotalConstantMemory = 9,
    /// Threads of a warp.
    WarpSize = 10,
    /// Most bytes of a row in a pitched copy.
    MaxPitch = 11,
    /// Most 32-bit registers that a block may have.
    MaxRegistersPerBlock = 12,
    /// Highest clock rate of the multiprocessors in kilohertz.
    ClockRate = 13,
    /// Bytes to which textures must be aligned.
    TextureAlignment = 14,
    /// Whether copies run beside kernels (1).
    GpuOverlap = 15,
    /// Multiprocessors.
    MultiprocessorCount = 16,
    /// Whether kernels that run long are ended (1).
    KernelExecTimeout = 17,
    /// Whether the GPU shares the host's memory (1).
    Integrated = 18,
    /// Whether host memory can be mapped for the GPU (1).
    CanMapHostMemory = 19,
    /// Which processes may use the GPU; see [`ComputeMode`](crate::ComputeMode).
    ComputeMode = 20,
    /// Most elements of a one-dimensional texture.
    MaximumTexture1dWidth = 21,
    /// Largest width of a two-dimensional texture.
    MaximumTexture2dWidth = 22,
    /// Largest height of a two-dimensional texture.
    MaximumTexture2dHeight = 23,
    /// Largest width of a three-dimensional texture.
    MaximumTexture3dWidth = 24,
    /// Largest height of a three-dimensional texture.
    MaximumTexture3dHeight = 25,
    /// Largest depth of a three-dimensional texture.
    MaximumTexture3dDepth = 26,
    /// Largest width of a layered two-dimensional texture.
    MaximumTexture2dLayeredWidth = 27,
    /// Largest height of a layered two-dimensional texture.
    MaximumTexture2dLayeredHeight = 28,
    /// Most layers of a layered two-dimensional texture.
    MaximumTexture2dLayeredLayers = 29,
    /// Bytes to which surfaces must be aligned.
    SurfaceAlignment = 30,
    /// Whether several kernels may run at once (1).
    ConcurrentKernels = 31,
    /// Whether memory is protected by error-correcting codes (1).
    EccEnabled = 32,
    /// The GPU's bus number.
    PciBusId = 33,
    /// The GPU's number on its bus.
    PciDeviceId = 34,
    /// Whether the driver is in its compute mode on Windows (1).
    TccDriver = 35,
    /// Highest clock rate of the memory in kilohertz.
    MemoryClockRate = 36,
    /// Width of the memory bus in bits.
    GlobalMemoryBusWidth = 37,
    /// Bytes of the second-level cache.
    L2CacheSize = 38,
    /// Most threads resident on a multiprocessor.
    MaxThreadsPerMultiprocessor = 39,
    /// Engines that copy beside kernels.
    AsyncEngineCount = 40,
    /// Whether the GPU shares one address space with the host (1).
    UnifiedAddressing = 41,
    /// Largest width of a layered one-dimensional texture.
    MaximumTexture1dLayeredWidth = 42,
    /// Most layers of a layered one-dimensional texture.
    MaximumTexture1dLayeredLayers = 43,
    /// Whether four neighbours can be gathered from two-dimensional textures (1).
    CanTex2dGather = 44,
    /// Largest width of a two-dimensional texture that is gathered from.
    MaximumTexture2dGatherWidth = 45,
    /// Largest height of a two-dimensional texture that is gathered from.
    MaximumTexture2dGatherHeight = 46,
    /// Another largest width of a three-dimensional texture.
    MaximumTexture3dWidthAlternate = 47,
    /// Another largest height of a three-dimensional texture.
    MaximumTexture3dHeightAlternate = 48,
    /// Another largest depth of a three-dimensional texture.
    MaximumTexture3dDepthAlternate = 49,
    /// The GPU's PCI domain.
    PciDomainId = 50,
    /// Bytes to which the rows of textures must be aligned.
    TexturePitchAlignment = 51,
    /// Largest width and height of a cube texture.
    MaximumTextureCubemapWidth = 52,
    /// Largest width and height of a layered cube texture.
    MaximumTextureCubemapLayeredWidth = 53,
    /// Most layers of a layered cube texture.
    MaximumTextureCubemapLayeredLayers = 54,
    /// Most elements of a one-dimensional surface.
    MaximumSurface1dWidth = 55,
    /// Largest width of a two-dimensional surface.
    MaximumSurface2dWidth = 56,
    /// Largest height of a two-dimensional surface.
    MaximumSurface2dHeight = 57,
    /// Largest width of a three-dimensional surface.
    MaximumSurface3dWidth = 58,
    /// Largest height of a three-dimensional surface.
    MaximumSurface3dHeight = 59,
    /// Largest depth of a three-dimensional surface.
    MaximumSurface3dDepth = 60,
    /// Largest width of a layered one-dimensional surface.
    MaximumSurface1dLayeredWidth = 61,
    /// Most layers of a layered one-dimensional surface.
    MaximumSurface1dLayeredLayers = 62,
    /// Largest width of a layered two-dimensional surface.
    MaximumSurface2dLayeredWidth = 63,
    /// Largest height of a layered two-dimensional surface.
    MaximumSurface2dLayeredHeight = 64,
    /// Most layers of a layered two-dimensional surface.
    MaximumSurface2dLayeredLayers = 65,
    /// Largest width and height of a cube surface.
    MaximumSurfaceCubemapWidth = 66,
    /// Largest width and height of a layered cube surface.
    MaximumSurfaceCubemapLayeredWidth = 67,
    /// Most layers of a layered cube surface.
    MaximumSurfaceCubemapLayeredLayers = 68,
    /// Most elements of a one-dimensional texture on linear memory.
    MaximumTexture1dLinearWidth = 69,
    /// Largest width of a two-dimensional texture on linear memory.
    MaximumTexture2dLinearWidth = 70,
    /// Largest height of a two-dimensional texture on linear memory.
    MaximumTexture2dLinearHeight = 71,
    /// Most bytes of a row of a two-dimensional texture on linear memory.
    MaximumTexture2dLinearPitch = 72,
    /// Largest width of a two-dimensional texture with mipmaps.
    MaximumTexture2dMipmappedWidth = 73,
    /// Largest height of a two-dimensional texture with mipmaps.
    MaximumTexture2dMipmappedHeight = 74,
    /// The generation of the instruction set.
    ComputeCapabilityMajor = 75,
    /// The step within that generation.
    ComputeCapabilityMinor = 76,
    /// Most elements of a one-dimensional texture with mipmaps.
    MaximumTexture1dMipmappedWidth = 77,
    /// Whether streams have priorities (1).
    StreamPrioritiesSupported = 78,
    /// Whether the first-level cache holds global memory (1).
    GlobalL1CacheSupported = 79,
    /// Whether the first-level cache holds local memory (1).
    LocalL1CacheSupported = 80,
    /// Bytes of shared memory of a multiprocessor.
    MaxSharedMemoryPerMultiprocessor = 81,
    /// 32-bit registers of a multiprocessor.
    MaxRegistersPerMultiprocessor = 82,
    /// Whether memory can be managed (1).
    ManagedMemory = 83,
    /// Whether the GPU is one of several on its board (1).
    MultiGpuBoard = 84,
    /// A number that the GPUs of one board have in common.
    MultiGpuBoardGroupId = 85,
    /// Whether the link to the host carries atomics (1).
    HostNativeAtomicSupported = 86,
    /// How many times as fast `f32` is as `f64`.
    SingleToDoublePrecisionPerfRatio = 87,
    /// Whether kernels reach the host's ordinary memory (1).
    PageableMemoryAccess = 88,
    /// Whether the host may use managed memory while kernels run (1).
    ConcurrentManagedAccess = 89,
    /// Whether kernels can be interrupted (1).
    ComputePreemptionSupported = 90,
    /// Whether registered host memory has one address on both sides (1).
    CanUseHostPointerForRegisteredMem = 91,
    /// Whether streams write and wait for words of memory, by the first form of those calls (1).
    CanUseStreamMemOpsV1 = 92,
    /// Whether streams write and wait for 64-bit words, by the first form of those calls (1).
    CanUse64BitStreamMemOpsV1 = 93,
    /// Whether streams can wait for a word's inverse, by the first form of that call (1).
    CanUseStreamWaitValueNorV1 = 94,
    /// Whether cooperative launches work (1).
    CooperativeLaunch = 95,
    /// Whether cooperative launches over several GPUs work (1).
    CooperativeMultiDeviceLaunch = 96,
    /// Bytes of shared memory that a block may have when it asks for more.
    MaxSharedMemoryPerBlockOptin = 97,
    /// Whether writes of others can be flushed (1).
    CanFlushRemoteWrites = 98,
    /// Whether host memory can be registered (1).
    HostRegisterSupported = 99,
    /// Whether the GPU reaches ordinary memory through the host's page tables (1).
    PageableMemoryAccessUsesHostPageTables = 100,
    /// Whether the host reaches managed memory on the GPU without moving it (1).
    DirectManagedMemAccessFromHost = 101,
    /// Whether addresses can be reserved apart from memory (1).
    VirtualMemoryManagementSupported = 102,
    /// Whether memory can be shared by file descriptors (1).
    HandleTypePosixFileDescriptorSupported = 103,
    /// Whether memory can be shared by handles of Windows (1).
    HandleTypeWin32HandleSupported = 104,
    /// Whether memory can be shared by kernel handles of Windows (1).
    HandleTypeWin32KmtHandleSupported = 105,
    /// Most blocks resident on a multiprocessor.
    MaxBlocksPerMultiprocessor = 106,
    /// Whether memory can be compressed (1).
    GenericCompressionSupported = 107,
    /// Most bytes of the second-level cache that can be set aside for what persists.
    MaxPersistingL2CacheSize = 108,
    /// Most bytes of an access policy's window.
    MaxAccessPolicyWindowSize = 109,
    /// Whether other devices reach memory that is mapped by hand (1).
    GpuDirectRdmaWithCudaVmmSupported = 110,
    /// Bytes of shared memory that the driver takes of each block.
    ReservedSharedMemoryPerBlock = 111,
    /// Whether arrays may be sparse (1).
    SparseCudaArraySupported = 112,
    /// Whether host memory can be registered for reading only (1).
    ReadOnlyHostRegisterSupported = 113,
    /// Whether timeline semaphores of other interfaces work (1).
    TimelineSemaphoreInteropSupported = 114,
    /// Whether memory can be allocated in stream order (1).
    MemoryPoolsSupported = 115,
    /// Whether other devices reach the GPU's memory (1).
    GpuDirectRdmaSupported = 116,
    /// Ways to flush the writes of other devices, as bits.
    GpuDirectRdmaFlushWritesOptions = 117,
    /// Who sees writes of other devices in order without a flush.
    GpuDirectRdmaWritesOrdering = 118,
    /// Ways to share pools, as bits.
    MemoryPoolSupportedHandleTypes = 119,
    /// Whether blocks can be launched in clusters (1).
    ClusterLaunch = 120,
    /// Whether arrays can be mapped later (1).
    DeferredMappingCudaArraySupported = 121,
    /// Whether streams write and wait for 64-bit words (1).
    CanUse64BitStreamMemOps = 122,
    /// Whether streams can wait for a word's inverse (1).
    CanUseStreamWaitValueNor = 123,
    /// Whether memory can be shared as a DMA buffer of Linux (1).
    DmaBufSupported = 124,
    /// Whether events can be shared by processes (1).
    IpcEventSupported = 125,
    /// Domains in which fences order memory.
    MemSyncDomainCount = 126,
    /// Whether kernels can copy by tensor maps (1).
    TensorMapAccessSupported = 127,
    /// Whether memory can be shared by fabric handles (1).
    HandleTypeFabricSupported = 128,
    /// Whether the driver hands out addresses of functions that are valid on all GPUs (1).
    UnifiedFunctionPointers = 129,
    /// How the GPU takes part in the host's memory nodes.
    NumaConfig = 130,
    /// The number of the GPU's memory node.
    NumaId = 131,
    /// Whether one write can reach several GPUs (1).
    MulticastSupported = 132,
    /// Whether processes share the GPU through its service (1).
    MpsEnabled = 133,
    /// The host's memory node that is nearest.
    HostNumaId = 134,
}

impl DeviceAttribute {
    /// Its number in `cuda.h`.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// A limit of a GPU's context, which all that use the GPU in this process share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum ContextLimit {
    /// Bytes of stack of each thread; see [`Device::set_stack_bytes`].
    StackBytes = 0,
    /// Bytes that `printf` in CUDA C may fill before they are handed over. [`gpu_println!`](crate::gpu_println!) has a buffer of its
    /// own: [`Device::set_output_bytes`].
    PrintfBytes = 1,
    /// Bytes of the heap from which kernels allocate; see [`Device::set_heap_bytes`].
    HeapBytes = 2,
    /// How deep launches that kernels make may wait for each other.
    LaunchDepth = 3,
    /// How many launches that kernels make may be waiting.
    PendingLaunches = 4,
    /// Bytes that one miss of the second-level cache fetches at most; a hint.
    L2FetchBytes = 5,
    /// Bytes of the second-level cache that are set aside for what persists.
    PersistingL2Bytes = 6,
}

impl Device {
    /// An attribute of the device.
    ///
    /// The CPU executor answers for what stands in its [`limits`](Self::limits), and for its compute capability where it has a GPU's
    /// ([`cpu_as`](Self::cpu_as)).
    ///
    /// # Errors
    /// [`DeviceError::Driver`] when the driver does not know the attribute, as an old one may not;
    /// [`DeviceError::NeedsGpu`] for what only a GPU has.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::{DeviceAttribute, prelude::*};
    ///
    /// assert_eq!(Device::cpu().attribute(DeviceAttribute::WarpSize)?, 32);
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn attribute(&self, attribute: DeviceAttribute) -> Result<i32> {
        if self.is_cpu() {
            let value = self.executor_attribute(attribute);
            return value.ok_or(DeviceError::NeedsGpu { operation: "this device attribute" }.into());
        }
        self.attribute_by_number(attribute.number())
    }

    /// The attribute of a GPU with this number in `cuda.h`, for those that came after this crate.
    ///
    /// # Errors
    /// [`DeviceError::Driver`] when the driver does not know the number, [`DeviceError::NeedsGpu`] on the CPU executor.
    pub fn attribute_by_number(&self, number: u32) -> Result<i32> {
        let parts = self.parts().ok_or(DeviceError::NeedsGpu { operation: "a device attribute by its number" })?;
        let value = parts.gpu.attribute_by_number(number);
        Ok(value.map_err(|source| self.failed("an attribute could not be read", source))?)
    }

    fn executor_attribute(&self, attribute: DeviceAttribute) -> Option<i32> {
        let limits = self.limits();
        let (block, grid) = (limits.max_block_dim, limits.max_grid_dim);
        let capability = self.capability();
        let value = match attribute {
            DeviceAttribute::MaxThreadsPerBlock => limits.max_threads_per_block,
            DeviceAttribute::MaxBlockDimX => block.x,
            DeviceAttribute::MaxBlockDimY => block.y,
            DeviceAttribute::MaxBlockDimZ => block.z,
            DeviceAttribute::MaxGridDimX => grid.x,
            DeviceAttribute::MaxGridDimY => grid.y,
            DeviceAttribute::MaxGridDimZ => grid.z,
            DeviceAttribute::MaxSharedMemoryPerBlockOptin => limits.max_shared_bytes,
            DeviceAttribute::MaxRegistersPerBlock => limits.max_registers,
            DeviceAttribute::WarpSize => limits.warp_size,
            DeviceAttribute::MultiprocessorCount => limits.multiprocessors,
            DeviceAttribute::MaxThreadsPerMultiprocessor => limits.max_threads_per_multiprocessor,
            DeviceAttribute::ComputeCapabilityMajor => capability?.major,
            DeviceAttribute::ComputeCapabilityMinor => capability?.minor,
            _ => return None,
        };
        Some(i32::try_from(value).unwrap_or(i32::MAX))
    }

    /// A limit of the GPU's context. The CPU executor has the size of its threads' stacks alone.
    ///
    /// # Errors
    /// [`DeviceError::Driver`] when the driver or the GPU does not know the limit, [`DeviceError::NeedsGpu`] on the CPU executor.
    pub fn context_limit(&self, limit: ContextLimit) -> Result<usize> {
        let Some(parts) = self.parts() else { return self.executor_limit(limit) };
        let value = parts.gpu.limit_by_number(limit as u32);
        Ok(value.map_err(|source| self.failed("a limit of its context could not be read", source))?)
    }

    /// Sets a limit of the GPU's context, for all that use the GPU in this process; the driver may round it up.
    ///
    /// # Errors
    /// [`DeviceError::Driver`] when the driver refuses, [`DeviceError::NeedsGpu`] on the CPU executor, which has the size of its
    /// threads' stacks alone.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::{ContextLimit, prelude::*};
    ///
    /// let device = Device::cpu();
    /// device.set_context_limit(ContextLimit::StackBytes, 1 << 20)?;
    /// assert_eq!(device.context_limit(ContextLimit::StackBytes)?, 1 << 20);
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn set_context_limit(&self, limit: ContextLimit, value: usize) -> Result<()> {
        let Some(parts) = self.parts() else {
            self.executor_limit(limit)?;
            return self.set_stack_bytes(value);
        };
        let set = parts.gpu.set_limit_by_number(limit as u32, value);
        Ok(set.map_err(|source| self.failed("a limit of its context could not be set", source))?)
    }

    fn executor_limit(&self, limit: ContextLimit) -> Result<usize> {
        match (&self.inner.kind, limit) {
            (Kind::Cpu(parts), ContextLimit::StackBytes) => {
                Ok(parts.stack_bytes.load(std::sync::atomic::Ordering::Relaxed))
            }
            _ => Err(DeviceError::NeedsGpu { operation: "this limit of a context" }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_their_numbers_once_and_in_order() {
        let numbers: Vec<u32> = DeviceAttribute::ALL.iter().map(|attribute| attribute.number()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        let known = [
            (DeviceAttribute::CanTex2dGather, 44),
            (DeviceAttribute::SingleToDoublePrecisionPerfRatio, 87),
            (DeviceAttribute::MaxSharedMemoryPerBlockOptin, 97),
            (DeviceAttribute::MemoryPoolsSupported, 115),
            (DeviceAttribute::MulticastSupported, 132),
        ];
        assert!(known.iter().all(|(attribute, number)| attribute.number() == *number));
    }

    #[test]
    fn the_executor_answers_for_what_it_has() {
        let device = Device::cpu_as(crate::GpuProfile::SM_75);
        assert_eq!(device.attribute(DeviceAttribute::ComputeCapabilityMajor).unwrap(), 7);
        assert_eq!(device.attribute(DeviceAttribute::MaxSharedMemoryPerBlockOptin).unwrap(), 64 << 10);
        let needs_gpu = |result: Result<i32>| matches!(result, Err(crate::Error::Device(DeviceError::NeedsGpu { .. })));
        assert!(needs_gpu(device.attribute(DeviceAttribute::EccEnabled)));
        assert!(needs_gpu(device.attribute_by_number(10)));
        assert!(device.context_limit(ContextLimit::PrintfBytes).is_err());
        assert!(device.set_context_limit(ContextLimit::PrintfBytes, 1).is_err());
        device.set_context_limit(ContextLimit::StackBytes, 3 << 20).unwrap();
        assert_eq!(device.stack_bytes().unwrap(), Some(3 << 20));
    }
}
