//! The device that runs kernels: a GPU, or the CPU executor, behind one type.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cudarc::driver::CudaContext;
use warpsmith_device::abi::KernelValue;
use warpsmith_device::{Constant, Dim3};

mod attribute;
mod checking;
mod choice;
mod deferred;
mod info;
mod uuid;

pub use attribute::{ContextLimit, DeviceAttribute};
pub(crate) use choice::{Choice, GpuChoice, parse_choice};
pub(crate) use deferred::Deferred;
pub use info::{ComputeMode, DeviceInfo, driver_version};
pub use uuid::{DeviceUuid, ParseUuidError};

use crate::check::{CheckOptions, CheckReport, Finding, MemoryReport, Watched};
use crate::constants::ConstantTable;
use crate::cpu;
use crate::cpu::panics::warn_where_panics_abort;
use crate::cpu::schedule::{ParseScheduleError, Schedule};
use crate::driver::{Attribute, Driver, Gpu, GpuPool, Limit, no_gpu};
use crate::error::{DeviceError, DriverError, Error, Result};
use crate::memory::PoolAccount;
use crate::module::{KernelTable, LoadedKernel};
use crate::output::{DEFAULT_OUTPUT_BYTES, OutputLine, Sink, SinkSlot, standard_output};
use crate::outside::{self, Inside, Kept};
use crate::panic_report::RecordPool;
use crate::profile::{GpuProfile, ParseProfileError};
use crate::stream::{Stream, StreamInner, WeakStream};

/// A launch's id is its kernel's number above this many bits, and a count in them.
pub(crate) const LAUNCH_COUNT_BITS: u32 = warpsmith_device::print::layout::LAUNCH_COUNT_BITS;

/// The environment variable that chooses the device of [`Device::new`].
const CHOICE_VARIABLE: &str = "WARPSMITH_DEVICE";

/// The environment variable that makes the CPU executor a checked one.
const CHECK_VARIABLE: &str = "WARPSMITH_CHECK";

/// The environment variable that chooses the schedule of [`Device::cpu`].
const SCHEDULE_VARIABLE: &str = "WARPSMITH_SCHEDULE";

/// The environment variable that has each launch wait for its end.
const BLOCKING_VARIABLE: &str = "WARPSMITH_LAUNCH_BLOCKING";

/// The environment variable that chooses the GPU whose limits the executor has.
const PROFILE_VARIABLE: &str = "WARPSMITH_CPU_PROFILE";

/// A GPU, or the CPU executor.
///
/// A `Device` is a handle: clones are the same device, and so are two devices opened with the same number. GPUs use
/// their primary context, which other CUDA libraries in the process share.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// let device = Device::cpu();
/// let stream = device.stream()?;
/// let numbers = stream.to_device(&[1, 2, 3])?;
/// assert_eq!(stream.to_host(&numbers)?, [1, 2, 3]);
/// # Ok::<(), warpsmith::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    inner: Kept<Arc<DeviceInner>>,
}

struct DeviceInner {
    kind: Kind,
    name: String,
    limits: DeviceLimits,
    kernels: KernelTable,
    constants: ConstantTable,
    /// What its buffers take, and how much they may.
    pool_account: PoolAccount,
    deferred: Arc<Deferred>,
    sink: SinkSlot,
    output_bytes: AtomicUsize,
    /// Whether each launch waits for its end.
    launch_blocking: AtomicBool,
    /// Held while a graph is launched, and by uses of memory that graphs use too.
    graph_gate: Mutex<()>,
    /// What a checked device looks for, or the word in the environment that says nothing; unset where nothing is checked.
    checking: OnceLock<Result<CheckOptions, String>>,
    /// What was found and not reported yet, with the stream's id; 0 for streams that were dropped.
    findings: Mutex<Vec<(u64, Finding)>>,
    /// What its checked launches asked of memory.
    traffic: Mutex<MemoryReport>,
    /// Elements of its buffers that are watched.
    watches: Mutex<Vec<Weak<Watched>>>,
}

enum Kind {
    Cpu(CpuParts),
    Gpu(GpuParts),
}

/// What a device has when it is the CPU executor.
struct CpuParts {
    /// The schedule of its launches, or what is wrong with the one that was asked for.
    schedule: Result<Option<Schedule>, ParseScheduleError>,
    /// The GPU whose limits its launches keep to, or what is wrong with the one that was asked for.
    profile: Result<Option<GpuProfile>, ParseProfileError>,
    /// Bytes of stack of threads that wait for others.
    stack_bytes: AtomicUsize,
}

/// What a device has when it is a GPU.
pub(crate) struct GpuParts {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) info: Box<DeviceInfo>,
    pub(crate) capability: ComputeCapability,
    /// `None` where the driver has no pools.
    pub(crate) pool: Option<Arc<GpuPool>>,
    pub(crate) records: RecordPool,
    /// The stream that the context has by itself, while somebody uses it.
    pub(crate) default_stream: Mutex<WeakStream>,
    /// Streams on which kernels that print were launched.
    printing: Mutex<Vec<Weak<StreamInner>>>,
}

impl GpuParts {
    /// Has [`Self::hand_over_output`] ask this stream.
    pub(crate) fn note_printing(&self, stream: &Arc<StreamInner>) {
        let mut printing = self.printing.lock().unwrap_or_else(PoisonError::into_inner);
        printing.retain(|known| known.strong_count() > 0);
        if !printing.iter().any(|known| known.as_ptr() == Arc::as_ptr(stream)) {
            printing.push(Arc::downgrade(stream));
        }
    }

    /// Hands over what the kernels of all streams have printed.
    fn hand_over_output(&self) {
        let printing = self.printing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        printing.iter().filter_map(Weak::upgrade).for_each(|stream| stream.hand_over_output());
    }
}

/// The version of a GPU's instruction set: 9.0 for Hopper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// The generation.
    pub major: u32,
    /// The step within it.
    pub minor: u32,
}

impl ComputeCapability {
    /// As in `sm_90`.
    #[must_use]
    pub const fn architecture(self) -> u32 {
        self.major * 10 + self.minor
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What a device allows in a launch.
///
/// The CPU executor has the limits that all supported GPUs share, and the shared memory of the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceLimits {
    /// Most threads in a block.
    pub max_threads_per_block: u32,
    /// Most threads in a block along each dimension.
    pub max_block_dim: Dim3,
    /// Most blocks in a grid along each dimension.
    pub max_grid_dim: Dim3,
    /// Bytes of shared memory a block may have.
    pub max_shared_bytes: u32,
    /// Registers of a block.
    pub max_registers: u32,
    /// Threads of a warp.
    pub warp_size: u32,
    /// Multiprocessors of the GPU, or threads that the CPU executor runs blocks on.
    pub multiprocessors: u32,
    /// Threads that may be resident on a multiprocessor.
    pub max_threads_per_multiprocessor: u32,
}

/// The memory of a device in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Free bytes.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

impl Device {
    /// The device that `WARPSMITH_DEVICE` names: `cpu`, `gpu`, a GPU's number (`1` or `gpu:1`), its UUID (`GPU-0f1e2d3c-..`) or its
    /// place on the PCI bus (`0000:3b:00.0`). Without the variable the first GPU, and where there is no driver or no GPU the CPU executor.
    ///
    /// # Errors
    /// [`DeviceError`] when the named device cannot be had, when the variable holds something else, and when a driver is
    /// there but fails: the CPU executor does not quietly take the place of a broken GPU. Also when `WARPSMITH_CHECK` asks for
    /// checks, which the CPU executor makes, and `WARPSMITH_DEVICE` for a GPU.
    pub fn new() -> Result<Self> {
        let value = std::env::var_os(CHOICE_VARIABLE).unwrap_or_default();
        let choice = parse_choice(&value.to_string_lossy())?;
        let checks = !matches!(checks_asked_for(), Ok(None));
        match choice {
            Choice::Gpu(_) if checks => {
                Err(DeviceError::ChecksNeedExecutor { device: value.to_string_lossy().into_owned() }.into())
            }
            Choice::Gpu(choice) => choice.open(),
            Choice::Unset if !checks => Self::gpu_or_cpu(),
            Choice::Unset | Choice::Cpu => Ok(Self::cpu()),
        }
    }

    fn gpu_or_cpu() -> Result<Self> {
        match Self::gpu(0) {
            Err(Error::Device(reason @ (DeviceError::NoDriver { .. } | DeviceError::NoGpu { .. }))) => {
                tracing::debug!(%reason, "no GPU: kernels run on the CPU executor");
                Ok(Self::cpu())
            }
            other => other,
        }
    }

    /// The CPU executor.
    ///
    /// A kernel's panic comes back as an error. Where the program is compiled with `panic = "abort"` it cannot be caught: it ends the
    /// program with its message, and a warning says so when the executor is opened.
    ///
    /// Its launches run under the schedule that `WARPSMITH_SCHEDULE` names, where that variable is set, as those of
    /// [`cpu_scheduled`](Self::cpu_scheduled) do. It is a checked one, as [`cpu_checked`](Self::cpu_checked) gives, where
    /// `WARPSMITH_CHECK` is set: to `1`, or to a list of what else to look for, such as `overflow,lossy,non-finite,memory,schedules=8`. Where
    /// a variable is set to something else, [`stream`](Self::stream) says so. With `memory` the program prints the report itself:
    /// `println!("{}", device.memory_report())`.
    #[must_use]
    pub fn cpu() -> Self {
        static CPU: OnceLock<Device> = OnceLock::new();
        CPU.get_or_init(|| match (checks_asked_for(), schedule_asked_for()) {
            (Ok(Some(options)), schedule) => Self::cpu_checked_under(options, schedule),
            (Ok(_), schedule) => Self::cpu_executor(schedule),
            (Err(word), schedule) => Self::cpu_executor(schedule).checking(Err(word)),
        })
        .clone()
    }

    /// The CPU executor, each launch of which runs on the calling thread alone, its blocks and threads in the order that the
    /// schedule decides, and in the same order each time.
    ///
    /// This finds what a kernel owes to luck: a missing barrier, or a result that depends on which block comes first. Each call
    /// gives a device of its own, with its own buffers and constants.
    ///
    /// # Examples
    /// See [`Schedule`].
    #[must_use]
    pub fn cpu_scheduled(schedule: Schedule) -> Self {
        Self::cpu_executor(Ok(Some(schedule)))
    }

    /// The CPU executor with its checker: it watches every access of a kernel's threads to buffers and shared memory, and
    /// reports races, reads of what nobody wrote, accesses outside of buffers, barriers that threads miss, and more.
    ///
    /// A checked launch runs on one core, under the schedule that `WARPSMITH_SCHEDULE` names, where that variable is set. Its
    /// kernels need code for the checker, which their package's build script makes.
    ///
    /// Each call gives the same device, whose buffers and findings all callers share.
    #[must_use]
    pub fn cpu_checked() -> Self {
        static CHECKED: OnceLock<Device> = OnceLock::new();
        CHECKED.get_or_init(|| Self::cpu_checked_under(CheckOptions::new(), schedule_asked_for())).clone()
    }

    /// As [`cpu_checked`](Self::cpu_checked), with more to look for, and under the options' schedule whatever the environment
    /// says. Each call gives a device of its own, with its own buffers and constants.
    #[must_use]
    pub fn cpu_checked_with(options: CheckOptions) -> Self {
        Self::cpu_checked_under(options, Ok(None))
    }

    /// A checked device; a schedule that is given takes the place of the options'.
    fn cpu_checked_under(options: CheckOptions, schedule: Result<Option<Schedule>, ParseScheduleError>) -> Self {
        let options = match schedule {
            Ok(Some(schedule)) => options.schedule(schedule),
            _ => options,
        };
        let schedule = schedule.map(|_| Some(options.run_under()));
        let name = format!("CPU executor (checked, schedule {})", options.run_under());
        Self::cpu_executor_of(name, 1, schedule).checking(Ok(options))
    }

    fn checking(self, checking: Result<CheckOptions, String>) -> Self {
        self.inner.checking.get_or_init(|| checking);
        self
    }

    /// The CPU executor as it is whatever the environment says; each call gives a device of its own.
    pub(crate) fn cpu_plain() -> Self {
        Self::cpu_executor(Ok(None))
    }

    /// Whether the program carries any kernel's code for the checker.
    pub(crate) fn can_check() -> bool {
        crate::check::code::is_carried()
    }

    /// The CPU executor with the limits of a GPU: what that would refuse of a launch is refused here too, in the same words. So a
    /// program can be tried for GPUs that are not at hand.
    ///
    /// That goes for sizes of grids, blocks and clusters, for shared memory, for how many blocks of a cooperative launch are resident,
    /// and for kernels whose code was made for newer GPUs only. How many registers a kernel's threads take is known on a GPU alone.
    /// A large cooperative launch that the GPU takes may be refused for want of stacks: each of its threads waits on one, 12286 of them
    /// where Linux maps as much as it does by default (`vm.max_map_count`). The error says so.
    /// [`limits`](Self::limits) and [`capability`](Self::capability) are the GPU's. In place of this call,
    /// `WARPSMITH_CPU_PROFILE=sm_75` does it for every other way to open the executor.
    ///
    /// Each call gives a device of its own, with its own buffers and constants.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::{GpuProfile, prelude::*};
    ///
    /// let device = Device::cpu_as(GpuProfile::SM_75);
    /// assert_eq!(device.limits().max_shared_bytes, 64 << 10);
    /// assert_eq!(device.capability().unwrap().major, 7);
    /// ```
    #[must_use]
    pub fn cpu_as(profile: GpuProfile) -> Self {
        let workers = workers();
        Self::cpu_executor_with(format!("CPU executor ({workers} threads)"), workers, Ok(None), Ok(Some(profile)))
    }

    fn cpu_executor(schedule: Result<Option<Schedule>, ParseScheduleError>) -> Self {
        let (workers, name) = match schedule {
            Ok(Some(schedule)) => (1, format!("CPU executor (schedule {schedule})")),
            _ => {
                let workers = workers();
                (workers, format!("CPU executor ({workers} threads)"))
            }
        };
        Self::cpu_executor_of(name, workers, schedule)
    }

    fn cpu_executor_of(name: String, workers: u32, schedule: Result<Option<Schedule>, ParseScheduleError>) -> Self {
        Self::cpu_executor_with(name, workers, schedule, profile_asked_for())
    }

    fn cpu_executor_with(
        name: String,
        workers: u32,
        schedule: Result<Option<Schedule>, ParseScheduleError>,
        profile: Result<Option<GpuProfile>, ParseProfileError>,
    ) -> Self {
        warn_where_panics_abort();
        let (limits, name) = match &profile {
            Ok(Some(profile)) => (profile.limits(), format!("{name} as {profile}")),
            _ => {
                let shared_by_all = DeviceLimits { max_threads_per_multiprocessor: 1024, ..GpuProfile::SM_90.limits() };
                (DeviceLimits { multiprocessors: workers, ..shared_by_all }, name)
            }
        };
        Self::from_parts(
            Kind::Cpu(CpuParts { schedule, profile, stack_bytes: AtomicUsize::new(cpu::DEFAULT_STACK_BYTES) }),
            name,
            limits,
        )
    }

    /// The GPU with this number, from 0, as `CUDA_VISIBLE_DEVICES` orders them.
    ///
    /// # Errors
    /// [`DeviceError`] when there is no driver, no GPU or none with this number, with what was looked for and what to do.
    pub fn gpu(ordinal: usize) -> Result<Self> {
        let driver = Driver::get()?;
        let count = driver.gpu_count()?;
        if count == 0 {
            return Err(no_gpu().into());
        }
        if ordinal >= count {
            return Err(DeviceError::NoSuchGpu { requested: ordinal, count }.into());
        }
        let context = CudaContext::new(ordinal).map_err(|source| DeviceError::Driver {
            ordinal,
            operation: "its primary context could not be opened",
            source: cudarc_error("cuDevicePrimaryCtxRetain", source),
        })?;
        Self::from_cudarc(&context)
    }

    /// How many GPUs the driver sees; 0 without a driver.
    #[must_use]
    pub fn gpu_count() -> usize {
        Driver::get().and_then(Driver::gpu_count).unwrap_or(0)
    }

    /// The GPU of a context that code on cudarc already has. Two wrappers of one context are one device.
    ///
    /// # Errors
    /// [`DeviceError`] when the driver does not answer.
    pub fn from_cudarc(context: &Arc<CudaContext>) -> Result<Self> {
        static OPEN: Mutex<Vec<(usize, Weak<DeviceInner>)>> = Mutex::new(Vec::new());
        if outside::inside() == Inside::Gpu {
            return Err(DeviceError::InHostTask.into());
        }
        let key = context.cu_ctx().addr();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, device)| device.strong_count() > 0);
        if let Some(inner) = open.iter().find(|(each, _)| *each == key).and_then(|(_, device)| device.upgrade()) {
            return Ok(Self { inner: Kept::new(inner) });
        }
        let ordinal = context.ordinal();
        let gpu = Arc::new(Gpu::new(Driver::get()?, Arc::clone(context)));
        let device = Self::from_gpu(&gpu).map_err(|source| DeviceError::Driver {
            ordinal,
            operation: "its properties could not be read",
            source,
        })?;
        open.push((key, Arc::downgrade(&device.inner)));
        Ok(device)
    }

    fn from_gpu(gpu: &Arc<Gpu>) -> Result<Self, DriverError> {
        let get = |attribute| gpu.attribute(attribute);
        let info = DeviceInfo::read(gpu.driver(), gpu.context().ordinal(), gpu.context().cu_device())?;
        let shared = get(Attribute::MaxSharedMemoryPerBlock)?;
        let limits = DeviceLimits {
            max_threads_per_block: get(Attribute::MaxThreadsPerBlock)?,
            max_block_dim: Dim3 {
                x: get(Attribute::MaxBlockDimX)?,
                y: get(Attribute::MaxBlockDimY)?,
                z: get(Attribute::MaxBlockDimZ)?,
            },
            max_grid_dim: Dim3 {
                x: get(Attribute::MaxGridDimX)?,
                y: get(Attribute::MaxGridDimY)?,
                z: get(Attribute::MaxGridDimZ)?,
            },
            max_shared_bytes: get(Attribute::MaxSharedMemoryPerBlockOptin)?.max(shared),
            max_registers: get(Attribute::MaxRegistersPerBlock)?,
            warp_size: get(Attribute::WarpSize)?,
            multiprocessors: info.multiprocessors,
            max_threads_per_multiprocessor: get(Attribute::MaxThreadsPerMultiprocessor)?,
        };
        let pool = match get(Attribute::MemoryPoolsSupported)? {
            0 => None,
            // Without a pool allocation is slower, and nothing else changes.
            _ => GpuPool::new(gpu).inspect_err(|error| tracing::warn!(%error, "no memory pool")).ok().map(Arc::new),
        };
        let name = info.name.clone();
        let parts = GpuParts {
            gpu: Arc::clone(gpu),
            capability: info.capability,
            info: Box::new(info),
            pool,
            records: RecordPool::new(Arc::clone(gpu)),
            default_stream: Mutex::default(),
            printing: Mutex::default(),
        };
        Ok(Self::from_parts(Kind::Gpu(parts), name, limits))
    }

    fn from_parts(kind: Kind, name: String, limits: DeviceLimits) -> Self {
        let inner = DeviceInner {
            kind,
            name,
            limits,
            kernels: KernelTable::default(),
            constants: ConstantTable::default(),
            pool_account: PoolAccount::default(),
            deferred: Arc::default(),
            sink: SinkSlot::default(),
            output_bytes: AtomicUsize::new(DEFAULT_OUTPUT_BYTES),
            launch_blocking: AtomicBool::new(blocking_asked_for().unwrap_or(false)),
            graph_gate: Mutex::new(()),
            checking: OnceLock::new(),
            findings: Mutex::default(),
            traffic: Mutex::default(),
            watches: Mutex::default(),
        };
        Self { inner: Kept::new(Arc::new(inner)) }
    }

    /// A new stream, which runs its work in order and beside other streams.
    ///
    /// # Errors
    /// [`StreamError`](crate::StreamError) when the driver refuses, [`DeviceError`] when `WARPSMITH_CHECK` names what the checker
    /// does not look for, or `WARPSMITH_SCHEDULE` no schedule.
    pub fn stream(&self) -> Result<Stream> {
        self.check_environment()?;
        Stream::new(self)
    }

    /// Reports what the environment asks for and the executor does not know.
    pub(crate) fn check_environment(&self) -> Result<()> {
        if let Some(Err(word)) = self.inner.checking.get() {
            return Err(DeviceError::UnknownCheck { word: word.clone() }.into());
        }
        if let Err(value) = blocking_asked_for() {
            return Err(DeviceError::UnknownLaunchBlocking { value }.into());
        }
        if let Kind::Cpu(parts) = &self.inner.kind {
            if let Err(reason) = &parts.schedule {
                return Err(DeviceError::UnknownSchedule { reason: reason.clone() }.into());
            }
            if let Err(reason) = &parts.profile {
                return Err(DeviceError::UnknownProfile { reason: reason.clone() }.into());
            }
        }
        Ok(())
    }

    /// The device's name, as its maker gives it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Whether this is the CPU executor.
    #[inline]
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        matches!(self.inner.kind, Kind::Cpu(_))
    }

    /// Whether this is a GPU.
    #[inline]
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        !self.is_cpu()
    }

    /// The GPU's number, or `None` for the CPU executor.
    #[must_use]
    pub fn ordinal(&self) -> Option<usize> {
        self.parts().map(|parts| parts.gpu.context().ordinal())
    }

    /// The compute capability of the GPU, or of the one whose limits the CPU executor [has](Self::cpu_as); `None` where it has none's.
    #[must_use]
    pub fn capability(&self) -> Option<ComputeCapability> {
        match self.parts() {
            Some(parts) => Some(parts.capability),
            None => self.profile().map(|profile| profile.capability()),
        }
    }

    /// The GPU whose limits the executor has.
    pub(crate) fn profile(&self) -> Option<GpuProfile> {
        match &self.inner.kind {
            Kind::Cpu(parts) => parts.profile.as_ref().ok().copied().flatten(),
            Kind::Gpu(_) => None,
        }
    }

    /// What the device allows in a launch.
    #[inline]
    #[must_use]
    pub fn limits(&self) -> &DeviceLimits {
        &self.inner.limits
    }

    /// The device's memory: the GPU's, or the host's for the CPU executor.
    ///
    /// # Errors
    /// [`DeviceError`] when the driver does not answer.
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        match self.parts() {
            None => Ok(host_memory_info()),
            Some(parts) => {
                let (free, total) = parts
                    .gpu
                    .memory_info()
                    .map_err(|source| self.failed("its memory could not be asked for", source))?;
                Ok(MemoryInfo { free, total })
            }
        }
    }

    /// Waits for all work of the GPU's context, that of other libraries included.
    ///
    /// What kernels have printed comes out. Their panics are reported by the streams they ran on; those of streams that
    /// were dropped are reported here, once the buffers that the stream used last are dropped or used elsewhere, and so
    /// are failures to free memory. A program that ends without asking never hears of a panic.
    ///
    /// # Errors
    /// [`DeviceError`] when earlier work failed, [`KernelPanic`](crate::KernelPanic), [`MemoryError`](crate::MemoryError),
    /// [`Error::Check`](crate::Error::Check) for what was found on streams that were dropped.
    pub fn synchronize(&self) -> Result<()> {
        if let Some(parts) = self.parts() {
            if outside::inside() == Inside::Gpu {
                return Err(DeviceError::InHostTask.into());
            }
            let waited = parts.gpu.synchronize();
            parts.hand_over_output();
            waited.map_err(|source| self.failed("earlier work on it failed", source))?;
        }
        self.take_deferred()
    }

    /// Has each launch on this device wait until its kernel has ended, or no longer; for debugging.
    ///
    /// A failure that would else come back from a later call, such as an access to an address that is not mapped, then comes back from the
    /// launch that caused it as [`LaunchError::Failed`](crate::LaunchError::Failed), and so does a panic of the kernel as
    /// [`KernelPanic`](crate::KernelPanic). `WARPSMITH_LAUNCH_BLOCKING=1` has every device do so from the start.
    pub fn set_launch_blocking(&self, blocking: bool) {
        self.inner.launch_blocking.store(blocking, Ordering::Relaxed);
    }

    /// Whether each launch waits until its kernel has ended.
    #[inline]
    #[must_use]
    pub fn is_launch_blocking(&self) -> bool {
        self.inner.launch_blocking.load(Ordering::Relaxed)
    }

    /// Sets a constant that kernels read, for this device: one declared with [`constant!`](crate::constant!).
    ///
    /// Launches that are made after this call see the value, on every stream of the device; launches made before keep the
    /// value that they had, whether they have run or not. So no stream is named, and this call waits for nothing: the value
    /// travels with the next launch of each kernel that reads it, which runs after that kernel's earlier launches. Where a
    /// stream was dropped that had launched the kernel, that next launch waits on the host for the GPU's work.
    ///
    /// # Errors
    /// [`DeviceError::AmbiguousConstant`] when another constant was set that has the same name and place.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// constant! {
    ///     static FACTOR: f32 = 1.0;
    /// }
    ///
    /// #[kernel]
    /// fn scale(mut x: GridSliceMut<f32>) {
    ///     if let Some(x) = x.get_mut(&global_idx()) {
    ///         *x *= FACTOR.get();
    ///     }
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::cpu();
    /// let stream = device.stream()?;
    /// let mut x = stream.to_device(&[1.0, 2.0])?;
    /// device.set_constant(&FACTOR, &10.0)?;
    /// scale::launch(&stream, LaunchConfig::for_len(2), &mut x)?;
    /// assert_eq!(stream.to_host(&x)?, [10.0, 20.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_constant<T: KernelValue>(&self, constant: &'static Constant<T>, value: &T) -> Result<()> {
        Ok(self.inner.constants.set(constant.desc(), Arc::new(*value))?)
    }

    /// The value that the next launch on this device sees of a constant.
    #[must_use]
    pub fn constant<T: KernelValue>(&self, constant: &'static Constant<T>) -> T {
        let set = self.inner.constants.value(constant.desc());
        set.and_then(|value| value.downcast_ref::<T>().copied()).unwrap_or_else(|| constant.declared())
    }

    /// Bytes of stack that each thread of a kernel has on the GPU; on the CPU executor those of each thread of kernels that wait for
    /// others.
    ///
    /// # Errors
    /// [`DeviceError`] when the driver does not answer.
    pub fn stack_bytes(&self) -> Result<Option<usize>> {
        if let Kind::Cpu(parts) = &self.inner.kind {
            return Ok(Some(parts.stack_bytes.load(Ordering::Relaxed)));
        }
        self.read_limit(Limit::StackSize, "its stack size could not be asked for")
    }

    /// Sets the bytes of stack that each thread has, for kernels that recurse deeply. The GPU sets aside as much for every
    /// thread that may be resident.
    ///
    /// On the CPU executor each thread of a kernel that waits for others has so many, 256 KiB at least, of which only those count that
    /// it uses; other kernels run on the stacks of the system's threads.
    ///
    /// # Errors
    /// [`DeviceError`] when the driver refuses, as it does when the GPU has not that much memory.
    pub fn set_stack_bytes(&self, bytes: usize) -> Result<()> {
        if let Kind::Cpu(parts) = &self.inner.kind {
            parts.stack_bytes.store(bytes.max(cpu::DEFAULT_STACK_BYTES), Ordering::Relaxed);
            return Ok(());
        }
        self.write_limit(Limit::StackSize, bytes, "its stack size could not be set")
    }

    /// Bytes of the heap from which kernels allocate on the GPU; `None` on the CPU executor.
    ///
    /// # Errors
    /// [`DeviceError`] when the driver does not answer.
    pub fn heap_bytes(&self) -> Result<Option<usize>> {
        self.read_limit(Limit::MallocHeapSize, "its heap size could not be asked for")
    }

    /// Sets the size of the heap from which kernels allocate; to be done before the first kernel that allocates is
    /// launched. Does nothing on the CPU executor.
    ///
    /// # Errors
    /// [`DeviceError`] when the driver refuses, as it does once such a kernel was loaded.
    pub fn set_heap_bytes(&self, bytes: usize) -> Result<()> {
        self.write_limit(Limit::MallocHeapSize, bytes, "its heap size could not be set")
    }

    /// Sets who takes the lines that kernels print on streams which have no sink of their own; until then they go to the
    /// standard output. The sink is called by whoever synchronises, and on the CPU executor by the threads that run kernels,
    /// which wait meanwhile; it must not use the stream that the line comes from.
    pub fn set_output_sink(&self, sink: impl Fn(&OutputLine<'_>) + Send + Sync + 'static) {
        self.inner.sink.set(Some(Arc::new(sink)));
    }

    /// Has lines that kernels print go to the standard output again.
    pub fn clear_output_sink(&self) {
        self.inner.sink.set(None);
    }

    /// Bytes of the buffer that each stream has for what its kernels print: 1 MiB unless it was set.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.inner.output_bytes.load(Ordering::Relaxed)
    }

    /// Sets the bytes of that buffer. A stream on which kernels have printed keeps its buffer until it is synchronised. The
    /// CPU executor prints at once and needs none.
    pub fn set_output_bytes(&self, bytes: usize) {
        self.inner.output_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn output_sink(&self) -> Sink {
        self.inner.sink.get().unwrap_or_else(standard_output)
    }

    fn read_limit(&self, limit: Limit, operation: &'static str) -> Result<Option<usize>> {
        let Some(parts) = self.parts() else { return Ok(None) };
        Ok(Some(parts.gpu.limit(limit).map_err(|source| self.failed(operation, source))?))
    }

    fn write_limit(&self, limit: Limit, bytes: usize, operation: &'static str) -> Result<()> {
        let Some(parts) = self.parts() else { return Ok(()) };
        Ok(parts.gpu.set_limit(limit, bytes).map_err(|source| self.failed(operation, source))?)
    }

    /// cudarc's context, for code that uses cudarc beside this crate; `None` for the CPU executor.
    #[must_use]
    pub fn as_cudarc(&self) -> Option<&Arc<CudaContext>> {
        self.parts().map(|parts| parts.gpu.context())
    }

    #[inline]
    pub(crate) fn parts(&self) -> Option<&GpuParts> {
        match &self.inner.kind {
            Kind::Cpu(_) => None,
            Kind::Gpu(parts) => Some(parts),
        }
    }

    /// The schedule that launches run under, where they have one.
    #[must_use]
    pub fn schedule(&self) -> Option<Schedule> {
        match &self.inner.kind {
            Kind::Cpu(parts) => parts.schedule.as_ref().ok().copied().flatten(),
            Kind::Gpu(_) => None,
        }
    }

    /// What keeps launches of graphs apart from other uses of their memory, from the time that a use is ordered until the device has it:
    /// a graph borrows nothing, so that no borrow keeps the two apart.
    pub(crate) fn graph_gate(&self) -> MutexGuard<'_, ()> {
        self.inner.graph_gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn constants(&self) -> &ConstantTable {
        &self.inner.constants
    }

    pub(crate) fn pool_account(&self) -> &PoolAccount {
        &self.inner.pool_account
    }

    #[inline]
    pub(crate) fn kernels(&self) -> &KernelTable {
        &self.inner.kernels
    }

    /// The kernel of a launch's id.
    pub(crate) fn launched(&self, launch: u64) -> Option<Arc<LoadedKernel>> {
        self.inner.kernels.by_number(u32::try_from(launch >> LAUNCH_COUNT_BITS).ok()?)
    }

    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    fn failed(&self, operation: &'static str, source: DriverError) -> DeviceError {
        DeviceError::Driver { ordinal: self.ordinal().unwrap_or(0), operation, source }
    }

    /// Where failures are kept, for those that may outlive the device.
    pub(crate) fn deferred(&self) -> &Arc<Deferred> {
        &self.inner.deferred
    }

    /// Keeps the first failure of a `drop`, for the next [`Self::synchronize`].
    pub(crate) fn defer(&self, error: Error) {
        self.inner.deferred.keep(error);
    }

    /// Keeps the failure of a `drop` in cudarc, which else would be reported by whatever cudarc does next.
    pub(crate) fn defer_cudarc_error(&self) {
        let Some(parts) = self.parts() else { return };
        if let Err(source) = parts.gpu.context().check_err() {
            self.defer(self.failed("dropping a stream", cudarc_error("cuStreamDestroy", source)).into());
        }
    }

    /// The failure that was kept, once.
    fn take_deferred(&self) -> Result<()> {
        self.defer_cudarc_error();
        if let Some(panic) = self.parts().and_then(|parts| parts.records.collect(|launch| self.launched(launch))) {
            return Err(Error::KernelPanic(panic));
        }
        let findings = self.take_findings_of(0);
        if !findings.is_empty() {
            return Err(Error::Check(Box::new(CheckReport { findings, panic: None })));
        }
        self.inner.deferred.take().map_or(Ok(()), Err)
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.inner.name)
            .field("ordinal", &self.ordinal())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ordinal() {
            Some(ordinal) => write!(f, "GPU {ordinal} ({})", self.inner.name),
            None => f.write_str(&self.inner.name),
        }
    }
}

/// Turns an answer that came through cudarc into ours.
pub(crate) fn cudarc_error(call: &'static str, source: cudarc::driver::DriverError) -> DriverError {
    DriverError { call, code: source.0 as u32, name: format!("{:?}", source.0) }
}

/// The checks that the environment asks for, or the word in it that names none.
fn checks_asked_for() -> Result<Option<CheckOptions>, String> {
    CheckOptions::parse(&std::env::var_os(CHECK_VARIABLE).unwrap_or_default().to_string_lossy())
}

/// Threads that the executor runs blocks on.
fn workers() -> u32 {
    u32::try_from(rayon::current_num_threads()).unwrap_or(u32::MAX)
}

/// The GPU whose limits the environment asks for, where it does.
fn profile_asked_for() -> Result<Option<GpuProfile>, ParseProfileError> {
    match std::env::var_os(PROFILE_VARIABLE) {
        Some(value) if !value.is_empty() => value.to_string_lossy().parse().map(Some),
        _ => Ok(None),
    }
}

/// Whether the environment asks for launches that wait for their end, or what it says instead.
fn blocking_asked_for() -> Result<bool, String> {
    let value = std::env::var_os(BLOCKING_VARIABLE).unwrap_or_default();
    match value.to_string_lossy().trim() {
        "" | "0" => Ok(false),
        "1" => Ok(true),
        other => Err(other.to_owned()),
    }
}

/// The schedule that the environment asks for, where it does.
fn schedule_asked_for() -> Result<Option<Schedule>, ParseScheduleError> {
    let value = std::env::var_os(SCHEDULE_VARIABLE).filter(|value| !value.is_empty());
    value.map(|value| value.to_string_lossy().parse()).transpose()
}

/// The host's memory as the kernel of the operating system tells it; zeros where it does not.
fn host_memory_info() -> MemoryInfo {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse().ok()?;
        kibibytes.checked_mul(1024)
    };
    MemoryInfo { free: field("MemAvailable").unwrap_or(0), total: field("MemTotal").unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_the_devices_own() {
        let device = Device::cpu_scheduled(Schedule::Random(42));
        assert_eq!((device.schedule(), device.limits().multiprocessors), (Some(Schedule::Random(42)), 1));
        assert_eq!(device.to_string(), "CPU executor (schedule random:42)");
        assert_ne!(device, Device::cpu_scheduled(Schedule::Random(42)));
    }

    #[test]
    fn the_executor_has_the_limits_of_the_gpu_that_it_stands_for() {
        for profile in GpuProfile::ALL {
            let device = Device::cpu_as(profile);
            assert_eq!(*device.limits(), profile.limits());
            assert_eq!(device.capability(), Some(profile.capability()));
            assert!(device.is_cpu() && device.to_string().ends_with(&format!(" as {profile}")), "{device}");
        }
        let unknown = "sm_1".parse::<GpuProfile>().map(Some);
        let device = Device::cpu_executor_with("CPU".to_owned(), 1, Ok(None), unknown);
        let error = device.stream().map(drop).unwrap_err().to_string();
        assert!(
            error.starts_with("WARPSMITH_CPU_PROFILE cannot be used: \"sm_1\" names no GPU; it can be "),
            "{error}"
        );
    }

    #[test]
    fn what_names_no_schedule_is_told_with_the_first_stream() {
        let schedule = || "random".parse().map(Some);
        for device in [Device::cpu_executor(schedule()), Device::cpu_checked_under(CheckOptions::new(), schedule())] {
            let error = device.stream().map(drop).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with("WARPSMITH_SCHEDULE cannot be used: \"random\" names no schedule; it can be "),
                "{text}"
            );
            // Printed with its causes it says so once.
            let causes = std::iter::successors(std::error::Error::source(&error), |&error| error.source());
            assert!(causes.into_iter().all(|cause| !text.ends_with(&format!(": {cause}"))), "{error:?}");
        }
    }

    #[test]
    fn a_checked_device_runs_under_the_schedule_that_the_environment_names() {
        let device = Device::cpu_checked_under(CheckOptions::new(), Ok(Some(Schedule::Random(5))));
        assert_eq!(device.schedule(), Some(Schedule::Random(5)));
        assert_eq!(device.check_options().map(CheckOptions::run_under), Some(Schedule::Random(5)));
        let other = Device::cpu_checked_under(CheckOptions::new().schedule(Schedule::Reversed), Ok(None));
        assert_eq!(other.schedule(), Some(Schedule::Reversed));
    }

    #[test]
    fn buffers_of_another_checked_device_are_not_watched() {
        let (device, other) = (Device::cpu_checked(), Device::cpu_checked_with(CheckOptions::new()));
        let buffer = device.stream().unwrap().zeroed::<f32>(4).unwrap();
        assert!(device.watch(&buffer, 3).is_ok() && Device::cpu_checked().watch(&buffer, 3).is_ok());
        let error = other.watch(&buffer, 3).map(drop).unwrap_err().to_string();
        assert!(error.contains("the buffer is of another device"), "{error}");
        let error = device.watch(&buffer, 4).map(drop).unwrap_err().to_string();
        assert!(error.contains("the buffer has 4 elements"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_hosts_memory_is_known() {
        let info = host_memory_info();
        assert!(info.free > 0 && info.free <= info.total, "{info:?}");
    }
}
