//! A kernel loaded on one device: what it takes, how many of its blocks fit, and launches prepared once.

use std::fmt;
use std::sync::Arc;

use warpsmith_device::Dim3;

mod attributes;
mod instance;
mod occupancy;

pub use attributes::{KernelAttributes, SharedCarveout};
pub(crate) use instance::KernelIdentity;
pub use instance::KernelInstance;
pub(crate) use occupancy::Multiprocessor;
pub use occupancy::{Occupancy, OccupancyBound};

use crate::device::{ComputeCapability, Device};
use crate::driver::{Attribute, FunctionAttribute};
use crate::error::{DeviceError, DriverError, LaunchError, ModuleError, Result};
use crate::launch::{LaunchConfig, PreparedLaunch, check_block, check_launch};
use crate::module::{GpuCode, LoadedKernel};

/// A kernel loaded on a device: `saxpy::load(&device)` beside `saxpy::launch`.
///
/// A handle, cheap to clone. Loading a kernel is not needed for launching it: the first launch loads it too. It is for asking what the
/// kernel takes, for choosing a launch's shape, and for [preparing](Self::prepare) launches.
///
/// A kernel may have two pieces of machine code, one of them for launches whose grid and blocks extend along x only, which saves
/// instructions. What is asked without a shape is told of that one.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
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
/// let device = Device::cpu();
/// let stream = device.stream()?;
/// let (x, mut y) = (stream.filled(1.0f32, 1000)?, stream.filled(2.0f32, 1000)?);
///
/// let kernel = saxpy::load(&device)?;
/// println!("{:?}", kernel.attributes()?);
/// let prepared = kernel.prepare(kernel.config_for_len(1000, 0)?)?;
/// for a in [1.0, 2.0] {
///     saxpy::launch(&stream, &prepared, a, &x, &mut y)?;
/// }
/// assert_eq!(stream.to_host(&y)?, [5.0; 1000]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Kernel {
    device: Device,
    identity: KernelIdentity,
    along_x: Arc<LoadedKernel>,
}

impl Kernel {
    /// Loads an instance of a kernel; used by the code that `#[kernel]` writes.
    ///
    /// # Errors
    /// [`ModuleError`] when the kernel's code can't be had.
    #[doc(hidden)]
    pub fn load<F: Copy>(device: &Device, instance: &KernelInstance<F>) -> Result<Self> {
        let identity = instance.identity();
        let along_x = Self::loaded(device, identity, true)?;
        Ok(Self { device: device.clone(), identity, along_x })
    }

    pub(crate) fn loaded(
        device: &Device,
        identity: KernelIdentity,
        along_x: bool,
    ) -> Result<Arc<LoadedKernel>, ModuleError> {
        let kernels = device.kernels();
        Ok(kernels.get(device, identity.desc, identity.instance, along_x && device.is_gpu())?.to_owned())
    }

    /// The code for blocks of this shape.
    fn for_block(&self, block: Dim3) -> Result<Arc<LoadedKernel>> {
        if block.y == 1 && block.z == 1 {
            return Ok(Arc::clone(&self.along_x));
        }
        Ok(Self::loaded(&self.device, self.identity, false)?)
    }

    /// The kernel's module path and name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.along_x.path()
    }

    /// The device that it is loaded on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What the kernel takes and allows.
    ///
    /// # Errors
    /// [`LaunchError::Attributes`] when the driver does not answer.
    pub fn attributes(&self) -> Result<KernelAttributes> {
        let kernel = &self.along_x;
        let limits = self.device.limits();
        let compiled = kernel.desc().options.max_threads;
        let most =
            if compiled == 0 { limits.max_threads_per_block } else { compiled.min(limits.max_threads_per_block) };
        let Some(code) = kernel.gpu() else {
            let shared_bytes = u32::try_from(kernel.fixed_shared_bytes()).unwrap_or(u32::MAX);
            return Ok(KernelAttributes {
                registers: None,
                shared_bytes,
                constant_bytes: None,
                local_bytes: None,
                max_threads_per_block: most,
                ptx_architecture: None,
                binary_architecture: None,
                max_dynamic_shared_bytes: limits.max_shared_bytes.saturating_sub(shared_bytes),
                shared_carveout: None,
            });
        };
        let get = |attribute| code.function.attribute(attribute);
        let ask = || -> Result<KernelAttributes, DriverError> {
            let architecture = |number: u32| ComputeCapability { major: number / 10, minor: number % 10 };
            Ok(KernelAttributes {
                registers: Some(get(FunctionAttribute::NumRegs)?),
                shared_bytes: get(FunctionAttribute::SharedSizeBytes)?,
                constant_bytes: Some(get(FunctionAttribute::ConstSizeBytes)?),
                local_bytes: Some(get(FunctionAttribute::LocalSizeBytes)?),
                max_threads_per_block: get(FunctionAttribute::MaxThreadsPerBlock)?.min(most),
                ptx_architecture: Some(architecture(get(FunctionAttribute::PtxVersion)?)),
                binary_architecture: Some(architecture(get(FunctionAttribute::BinaryVersion)?)),
                max_dynamic_shared_bytes: get(FunctionAttribute::MaxDynamicSharedSizeBytes)?,
                shared_carveout: Some(SharedCarveout::from_number(
                    code.function.signed_attribute(FunctionAttribute::PreferredSharedMemoryCarveout)?,
                )),
            })
        };
        Ok(ask().map_err(|source| self.failed("its attributes could not be read", source))?)
    }

    /// How many blocks of this size, with so many bytes of dynamic shared memory each, a multiprocessor holds at once.
    ///
    /// The CPU executor answers with the limits of a GPU that it [stands for](Device::cpu_as), where it does; registers are not
    /// known there and bound nothing.
    ///
    /// # Errors
    /// [`LaunchError`] when such a block would be refused, with request and limit; [`DeviceError::NeedsGpu`] on a CPU executor that stands
    /// for no GPU; [`LaunchError::Attributes`] when the driver does not answer.
    pub fn occupancy(&self, block_dim: impl Into<Dim3>, shared_bytes: u32) -> Result<Occupancy> {
        let config = LaunchConfig::new(1, block_dim).with_shared_bytes(shared_bytes);
        let kernel = self.for_block(config.block_dim())?;
        let threads = check_block(&config, &kernel, &self.device)?;
        let shared = u32::try_from(kernel.fixed_shared_bytes() + u64::from(shared_bytes)).unwrap_or(u32::MAX);
        let block = occupancy::Block {
            threads,
            registers_per_thread: kernel.gpu().map_or(0, |c| c.registers),
            shared_bytes: shared,
        };
        let Some(code) = kernel.gpu() else {
            let profile = self.device.profile().ok_or(DeviceError::NeedsGpu { operation: "occupancy" })?;
            return Ok(profile.multiprocessor().occupancy(block, None));
        };
        let ask = || -> Result<Occupancy, DriverError> {
            let blocks = code.function.resident_blocks(threads, shared_bytes)?;
            Ok(self.multiprocessor()?.occupancy(block, Some(blocks)))
        };
        Ok(ask().map_err(|source| self.failed("its occupancy could not be asked for", source))?)
    }

    /// What a multiprocessor of the GPU has.
    fn multiprocessor(&self) -> Result<occupancy::Multiprocessor, DriverError> {
        let parts = self.device.parts().expect("only GPUs are asked");
        Ok(occupancy::Multiprocessor {
            threads: self.device.limits().max_threads_per_multiprocessor,
            blocks: parts.gpu.attribute(Attribute::MaxBlocksPerMultiprocessor)?,
            registers: parts.gpu.attribute(Attribute::MaxRegistersPerMultiprocessor)?,
            shared_bytes: parts.gpu.attribute(Attribute::MaxSharedMemoryPerMultiprocessor)?,
            reserved_shared_bytes: parts.gpu.attribute(Attribute::ReservedSharedMemoryPerBlock)?,
        })
    }

    /// At least one thread for each of `len` elements, in blocks of the size with which most warps are resident, each with so many
    /// bytes of dynamic shared memory. Launches for 0 elements start nothing.
    ///
    /// A kernel that is compiled for one block size gets that. The CPU executor, where size matters less, gets blocks of 256 threads
    /// or the most that the kernel allows.
    ///
    /// # Errors
    /// [`LaunchError`] when no block can have so much shared memory, or the driver does not answer.
    pub fn config_for_len(&self, len: usize, shared_bytes: u32) -> Result<LaunchConfig> {
        let options = &self.along_x.desc().options;
        let [x, y, z] = options.block;
        if options.block != [0; 3] {
            let threads = x * y * z;
            let config = LaunchConfig::for_len_with_block(len, threads).with_block_dim(Dim3::new(x, y, z));
            return self.checked(config.with_shared_bytes(shared_bytes));
        }
        let attributes_limit = match options.max_threads {
            0 => self.device.limits().max_threads_per_block,
            most => most.min(self.device.limits().max_threads_per_block),
        };
        // First, so that too much shared memory is refused in words.
        let smallest = LaunchConfig::new(1, 1).with_shared_bytes(shared_bytes);
        check_block(&smallest, &self.along_x, &self.device)?;
        let threads = match self.along_x.gpu() {
            None => attributes_limit.min(LaunchConfig::DEFAULT_BLOCK),
            Some(code) => code
                .function
                .suggested_block(shared_bytes, attributes_limit.min(code.max_threads))
                .map_err(|source| self.failed("a block size could not be chosen", source))?,
        };
        self.checked(LaunchConfig::for_len_with_block(len, threads).with_shared_bytes(shared_bytes))
    }

    fn checked(&self, config: LaunchConfig) -> Result<LaunchConfig> {
        if !config.is_empty() {
            check_block(&config, &*self.for_block(config.block_dim())?, &self.device)?;
        }
        Ok(config)
    }

    /// How many of a launch's clusters the device holds at once.
    ///
    /// # Errors
    /// [`LaunchError`] when such a launch would be refused; [`DeviceError::NeedsGpu`] on the CPU executor.
    pub fn max_active_clusters(&self, config: &LaunchConfig) -> Result<u32> {
        let kernel = Self::loaded(&self.device, self.identity, config.is_along_x())?;
        let code = kernel.gpu().ok_or(DeviceError::NeedsGpu { operation: "counting clusters" })?;
        check_launch(config, &kernel, &self.device)?;
        let count = code.function.resident_clusters(&config.shape());
        Ok(count.map_err(|source| self.failed("its clusters could not be counted", source))?)
    }

    /// Wishes for more shared memory or for more cache while this kernel runs, in all launches from now on. The CPU executor has neither
    /// and takes any wish.
    ///
    /// # Errors
    /// [`LaunchError::Carveout`] for more than 100 percent, [`LaunchError::Attributes`] when the driver refuses.
    pub fn set_shared_carveout(&self, carveout: SharedCarveout) -> Result<()> {
        if let SharedCarveout::Percent(percent) = carveout
            && percent > 100
        {
            return Err(LaunchError::Carveout { kernel: self.name().to_owned(), percent }.into());
        }
        let general = Self::loaded(&self.device, self.identity, false)?;
        for code in [&self.along_x, &general].into_iter().filter_map(|kernel| kernel.gpu()) {
            let set = |code: &GpuCode| {
                code.function.set_attribute(FunctionAttribute::PreferredSharedMemoryCarveout, carveout.number())
            };
            set(code).map_err(|source| self.failed("its carve-out could not be set", source))?;
        }
        Ok(())
    }

    /// A launch of this shape, all of whose limits are checked now: to be passed to the kernel's `launch` in place of the
    /// [`LaunchConfig`], as often as wanted and with any arguments.
    ///
    /// # Errors
    /// [`LaunchError`] when the shape is refused, with request and limit.
    pub fn prepare(&self, config: LaunchConfig) -> Result<PreparedLaunch> {
        let kernel = Self::loaded(&self.device, self.identity, config.is_along_x())?;
        if !config.is_empty() {
            check_launch(&config, &kernel, &self.device)?;
        }
        Ok(PreparedLaunch::new(self.device.clone(), self.identity, kernel, config))
    }

    #[cold]
    fn failed(&self, operation: &'static str, source: DriverError) -> LaunchError {
        LaunchError::Attributes { kernel: self.name().to_owned(), operation, source }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("name", &self.name()).field("device", &self.device).finish_non_exhaustive()
    }
}
