//! What can go wrong on the host side: one enum per family of operations, with [`Error`] over them all.

use std::fmt;
use std::time::Duration;

use warpsmith_device::Dim3;
use warpsmith_device::abi::ParamDesc;

use crate::check::CheckReport;
use crate::cpu::schedule::{ParseScheduleError, Schedule};
use crate::device::{ComputeCapability, DeviceUuid};
use crate::exchange::ExchangeError;
use crate::launch::LaunchConfig;
use crate::profile::ParseProfileError;

mod foreign;

pub use foreign::ForeignError;

/// The result of every operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any failure of this crate; each variant is a family of operations.
///
/// Work on a GPU runs later than the call that asks for it, so a failure of earlier work may come back from a later
/// call: from [`Stream::synchronize`](crate::Stream::synchronize) and from copies to the host.
///
/// `Debug` prints the message and its causes, because that is what a `main` that returns an error shows.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device could not be found or opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Memory could not be allocated, copied or viewed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The code of a kernel could not be found or loaded.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// A launch did not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Memory could not be exchanged with another library.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// Code from elsewhere could not be read, compiled, linked, loaded or launched.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// Work on a stream failed or took too long.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A graph could not be recorded, changed or launched.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A kernel panicked.
    #[error(transparent)]
    KernelPanic(#[from] Box<KernelPanic>),
    /// The checker found faults in launches on a [checked device](crate::Device::cpu_checked).
    #[error(transparent)]
    Check(#[from] Box<CheckReport>),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut cause = std::error::Error::source(self);
        while let Some(inner) = cause {
            write!(f, ": {inner}")?;
            cause = inner.source();
        }
        Ok(())
    }
}

impl Error {
    /// The panic of a kernel, when that is what this error is.
    #[must_use]
    pub fn kernel_panic(&self) -> Option<&KernelPanic> {
        match self {
            Self::KernelPanic(panic) => Some(panic),
            Self::Check(report) => report.panic.as_deref(),
            _ => None,
        }
    }
}

/// The driver's own answer to one of its calls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{call}` answered {name} ({code})")]
#[non_exhaustive]
pub struct DriverError {
    /// The driver function that failed.
    pub call: &'static str,
    /// The code, as `cuda.h` numbers them.
    pub code: u32,
    /// The code's name in `cuda.h`.
    pub name: String,
}

impl DriverError {
    /// Whether every later call in the process will fail too: the context is lost, and only a new process helps.
    #[must_use]
    pub const fn context_is_lost(&self) -> bool {
        matches!(self.code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721)
    }
}

/// The name of the answer that this crate gives in the driver's place.
const IN_HOST_TASK: &str = "CUDA_ERROR_NOT_PERMITTED, as a host task of a stream must not use devices";

impl DriverError {
    /// Whether the GPU does no more work for this process: the context is lost, or the driver has ended.
    pub(crate) fn is_end(&self) -> bool {
        self.context_is_lost() || self.code == crate::driver::code::DEINITIALIZED
    }

    /// The answer to a call that a host task makes. The driver was not called.
    #[cold]
    pub(crate) fn in_host_task() -> Self {
        let code = crate::driver::code::NOT_PERMITTED;
        Self { call: "cuCtxSetCurrent", code, name: IN_HOST_TASK.to_owned() }
    }

    /// Whether the call was made in a [host task](crate::Stream::host_task), where none is allowed. Nothing was done, and nothing is lost.
    #[must_use]
    pub fn is_from_host_task(&self) -> bool {
        self.name == IN_HOST_TASK
    }
}

/// Why a device could not be found or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Two constants have one name and place, so that a kernel's cannot be told from the other.
    #[error(
        "two constants are named `{constant}` and declared at {file}:{line}; declare them in places of their own, not both in \
         one macro"
    )]
    AmbiguousConstant {
        /// The constant's path.
        constant: String,
        /// Source file of the declaration.
        file: String,
        /// Line, from 1.
        line: u32,
    },
    /// The driver's library is not on this machine.
    #[error(
        "no NVIDIA driver on this machine: looked for {} in LD_LIBRARY_PATH ({}) and in the system's library folders, and \
         could open none; install the NVIDIA driver (no CUDA toolkit is needed), or, where it is in an unusual place, add its \
         folder to LD_LIBRARY_PATH; without a GPU use Device::cpu() or WARPSMITH_DEVICE=cpu",
        looked_for.join(", "),
        library_path.as_deref().map_or_else(|| "not set".to_owned(), |value| format!("{value:?}"))
    )]
    NoDriver {
        /// The names that were tried.
        looked_for: Vec<String>,
        /// The value of `LD_LIBRARY_PATH`.
        library_path: Option<String>,
    },
    /// The driver is older than any that this crate supports.
    #[error(
        "the NVIDIA driver is too old: it lacks `{symbol}`, which every driver since CUDA 11.4 (470.42) has; update the \
         driver, or use Device::cpu() or WARPSMITH_DEVICE=cpu"
    )]
    OldDriver {
        /// The driver function that is missing.
        symbol: &'static str,
    },
    /// The driver is there, but answered that it cannot start.
    #[error("the NVIDIA driver is installed but does not start; {remedy}")]
    Init {
        /// What to do about it.
        remedy: &'static str,
        /// The driver's answer.
        source: DriverError,
    },
    /// The driver is there and sees no GPU.
    #[error(
        "the NVIDIA driver sees no GPU (CUDA_VISIBLE_DEVICES is {}); check that `nvidia-smi` lists one and that this \
         process may use it, or use Device::cpu() or WARPSMITH_DEVICE=cpu",
        visible.as_deref().map_or_else(|| "not set".to_owned(), |value| format!("{value:?}"))
    )]
    NoGpu {
        /// The value of `CUDA_VISIBLE_DEVICES`.
        visible: Option<String>,
    },
    /// The ordinal is not one of a GPU.
    #[error("there is no GPU {requested}: the driver sees {count}, numbered from 0")]
    NoSuchGpu {
        /// The ordinal asked for.
        requested: usize,
        /// How many there are.
        count: usize,
    },
    /// No GPU has the UUID.
    #[error("there is no GPU with the UUID {requested}: the driver sees {}", listed(known))]
    NoSuchUuid {
        /// The UUID asked for.
        requested: DeviceUuid,
        /// Those of the GPUs that there are.
        known: Vec<DeviceUuid>,
    },
    /// No GPU is at that place on the PCI bus.
    #[error("there is no GPU at {requested:?} on the PCI bus: the driver sees {}", listed(known))]
    NoSuchPciBusId {
        /// The place asked for.
        requested: String,
        /// Those of the GPUs that there are.
        known: Vec<String>,
    },
    /// `WARPSMITH_DEVICE` holds something else than a device.
    #[error(
        "WARPSMITH_DEVICE is {value:?}; it can be `cpu`, `gpu`, or `gpu:N` with the number of a GPU, its UUID, or its place on the \
         PCI bus"
    )]
    UnknownChoice {
        /// The value.
        value: String,
    },
    /// An element cannot be watched.
    #[error("element {index} cannot be watched: {reason}")]
    CannotWatch {
        /// The element's index.
        index: usize,
        /// Why.
        reason: String,
    },
    /// `WARPSMITH_CHECK` holds a word that names no check.
    #[error(
        "WARPSMITH_CHECK names {word:?}; it can be `1`, or a list of `overflow`, `lossy`, `non-finite`, `memory` and `schedules=COUNT` (1 or more), with commas"
    )]
    UnknownCheck {
        /// The word.
        word: String,
    },
    /// Checks were asked for, and a GPU, which makes none.
    #[error(
        "WARPSMITH_CHECK asks for checks, which the CPU executor makes, and WARPSMITH_DEVICE for {device:?}; leave one of them out"
    )]
    ChecksNeedExecutor {
        /// What `WARPSMITH_DEVICE` holds.
        device: String,
    },
    /// `WARPSMITH_CPU_PROFILE` holds something else than a GPU's profile.
    #[error("WARPSMITH_CPU_PROFILE cannot be used: {reason}")]
    UnknownProfile {
        /// What is wrong with it.
        reason: ParseProfileError,
    },
    /// `WARPSMITH_SCHEDULE` holds something else than a schedule.
    #[error("WARPSMITH_SCHEDULE cannot be used: {reason}")]
    UnknownSchedule {
        /// What is wrong with it.
        reason: ParseScheduleError,
    },
    /// The GPU is there and could not be opened or asked.
    #[error("GPU {ordinal} could not be used: {operation}{}", lost_text(source))]
    Driver {
        /// Which GPU.
        ordinal: usize,
        /// What was being done.
        operation: &'static str,
        /// The driver's answer.
        source: DriverError,
    },
    /// A stream or a context of another device, where one of this device is needed.
    #[error("the {what} belongs to {found}, not to {expected}")]
    OtherDevice {
        /// What it is.
        what: &'static str,
        /// Where it belongs.
        found: String,
        /// Where it is used.
        expected: String,
    },
    /// The operation needs a GPU, and the device is the CPU executor.
    #[error("{operation} needs a GPU, and this device is the CPU executor")]
    NeedsGpu {
        /// The operation.
        operation: &'static str,
    },
    /// `WARPSMITH_LAUNCH_BLOCKING` says neither yes nor no.
    #[error("WARPSMITH_LAUNCH_BLOCKING is {value:?}; it can be 1, with which each launch waits for its end, or 0")]
    UnknownLaunchBlocking {
        /// What it says.
        value: String,
    },
    /// A host task of a stream used a device.
    #[error("a host task of a stream must not use devices: have it send a message to a thread that does")]
    InHostTask,
    /// The time was asked for between events of which one does not take it.
    #[error("the event does not take the time: it was made with `EventOptions::without_timing`")]
    EventWithoutTiming,
    /// An event was asked about before it was recorded.
    #[error("the event was never recorded on a stream, so it marks no point in time")]
    EventNotRecorded,
}

fn listed<T: fmt::Display>(known: &[T]) -> String {
    let known: Vec<String> = known.iter().map(T::to_string).collect();
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// Why memory could not be allocated, copied or viewed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The device has not that much free memory.
    #[error(
        "out of memory on {device}: {requested} bytes were asked for, {free} of {total} bytes are free; drop buffers that \
         are no longer needed, or work in smaller pieces"
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        requested: u64,
        /// Bytes free.
        free: u64,
        /// Bytes in all.
        total: u64,
    },
    /// The device's pool has a limit, and the allocation would pass it.
    #[error(
        "the memory pool of {device} is limited to {limit} bytes, of which {used} are in use; {requested} more were asked for: \
         drop buffers that are no longer needed, or raise the limit with `MemoryPool::set_limit`"
    )]
    PoolLimit {
        /// The device.
        device: String,
        /// Bytes asked for.
        requested: u64,
        /// Bytes of the buffers there are.
        used: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The size in bytes does not fit into a `usize`.
    #[error("{len} elements of {element_bytes} bytes are more bytes than can be addressed")]
    SizeOverflow {
        /// Elements asked for.
        len: usize,
        /// Size of one element in bytes.
        element_bytes: usize,
    },
    /// The two sides of a copy differ in length.
    #[error("a copy needs equal lengths: the source has {source_len} elements, the destination {destination_len}")]
    LengthMismatch {
        /// Elements to copy.
        source_len: usize,
        /// Room for them.
        destination_len: usize,
    },
    /// A range that is not inside its buffer.
    #[error("the range {start}..{end} is not inside a buffer of {len} elements")]
    Range {
        /// First element.
        start: usize,
        /// One past the last element.
        end: usize,
        /// Length of the buffer in elements.
        len: usize,
    },
    /// The two parts of one buffer that a copy is between overlap.
    #[error(
        "a copy of {len} elements from element {source_start} to element {destination_start} of one buffer overlaps itself; \
         copy to another buffer first, or in pieces of at most {distance} elements",
        distance = source_start.abs_diff(*destination_start)
    )]
    Overlap {
        /// First element to copy.
        source_start: usize,
        /// Where it goes.
        destination_start: usize,
        /// Number of elements.
        len: usize,
    },
    /// A host slice with fewer elements than a two-dimensional copy reaches.
    #[error(
        "{rows} rows of {columns} elements, {stride} from one row's start to the next, reach over {needed} elements; the host \
         slice has {len}"
    )]
    HostPlaneTooShort {
        /// Rows to copy.
        rows: usize,
        /// Elements of a row.
        columns: usize,
        /// Elements from one row's start to the next.
        stride: usize,
        /// Elements that the rows reach over.
        needed: u128,
        /// Length of the host slice in elements.
        len: usize,
    },
    /// The two sides of a two-dimensional copy differ in shape.
    #[error(
        "a copy needs equal shapes: the source has {source_rows} x {source_columns} elements, the destination \
             {destination_rows} x {destination_columns}"
    )]
    ShapeMismatch {
        /// Rows to copy.
        source_rows: usize,
        /// Elements of each.
        source_columns: usize,
        /// Rows of the destination.
        destination_rows: usize,
        /// Elements of each.
        destination_columns: usize,
    },
    /// Elements whose bytes are no whole number of elements of another type, or do not start where one may.
    #[error(
        "{len} elements of `{from}` ({from_bytes} bytes each) from element {start} of a buffer are no whole elements of `{to}` \
         ({to_bytes} bytes each, aligned to {to_align}): start and length in bytes must be multiples of {to_bytes}"
    )]
    Cast {
        /// The type of the elements.
        from: &'static str,
        /// Size of one in bytes.
        from_bytes: usize,
        /// The type that they should become.
        to: &'static str,
        /// Size of one in bytes.
        to_bytes: usize,
        /// Its alignment in bytes.
        to_align: usize,
        /// First element's number in the buffer.
        start: usize,
        /// Number of elements.
        len: usize,
    },
    /// The device lacks something that a kind of memory needs.
    #[error("{what} cannot be had on {device}: {reason}")]
    Unsupported {
        /// The kind of memory.
        what: &'static str,
        /// The device.
        device: String,
        /// What it lacks, and what to do.
        reason: &'static str,
    },
    /// A copy with borrowed or lent host memory on a stream that is being captured: a graph would run it again later.
    #[error("{operation} cannot be captured into a graph, which would use the host memory again when it is replayed")]
    Capturing {
        /// The operation.
        operation: &'static str,
    },
    /// A two- or three-dimensional view whose extents do not fit the buffer.
    #[error("a view of {shape} elements (row stride {stride}) needs {needed} elements; the buffer has {len}")]
    ViewTooLarge {
        /// The extents, as text: `640 x 480`.
        shape: String,
        /// Elements from one row's start to the next.
        stride: usize,
        /// Elements that the view spans.
        needed: u128,
        /// Length of the buffer in elements.
        len: usize,
    },
    /// A stride shorter than the rows that it separates.
    #[error("the {axis} stride of {stride} elements is less than the {extent} elements that it must step over")]
    StrideTooSmall {
        /// `row` or `slice`.
        axis: &'static str,
        /// The stride in elements.
        stride: usize,
        /// What it steps over, in elements.
        extent: usize,
    },
    /// Elements that are no whole number of aligned vectors.
    #[error(
        "{len} elements from element {start} of a buffer are no `{vector}`s: length and start must be multiples of {lanes}; \
         take a part that is, or let the kernel take a slice of scalars and look at it with `as_vectors`"
    )]
    NotVectors {
        /// The vector's type.
        vector: &'static str,
        /// Elements of a vector.
        lanes: usize,
        /// First element's number in the buffer.
        start: usize,
        /// Number of elements.
        len: usize,
    },
    /// A buffer that a graph uses keeps the type of its elements, which is the graph's too.
    #[error(
        "a graph uses the buffer of `{from}`, so it cannot become one of `{to}`: cast a slice of it, or drop the graph and copy"
    )]
    InGraph {
        /// The elements' type.
        from: &'static str,
        /// The type asked for.
        to: &'static str,
    },
    /// Another library's memory that is not aligned as vectors are.
    #[error(
        "`{vector}`s lie at multiples of {align} bytes, and the buffer's memory is another library's and starts at \
         {address:#x}; let that library make a copy, or take scalars"
    )]
    VectorsMisaligned {
        /// The vector's type.
        vector: &'static str,
        /// Address of the buffer.
        address: u64,
        /// Alignment in bytes.
        align: usize,
    },
    /// A buffer of one device used with a stream of another.
    #[error(
        "the buffer lives on {buffer}, the stream runs on {stream}; copy through the host, or use a stream of {buffer}"
    )]
    OtherDevice {
        /// Where the buffer lives.
        buffer: String,
        /// Where the stream runs.
        stream: String,
    },
    /// The driver refused for a reason that no check above covers.
    #[error("{operation} of {bytes} bytes failed{}", lost_text(source))]
    Driver {
        /// What was being done.
        operation: &'static str,
        /// How many bytes it was about.
        bytes: u64,
        /// The driver's answer.
        source: DriverError,
    },
}

/// Why the code of a kernel could not be found or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// No build script compiled the kernel for the GPU.
    #[error(
        "no GPU code for kernel `{kernel}`{} in this program ({searched} kernels were found in it): the crate that \
         launches it, or defines it (`{krate}`), needs `warpsmith-build` under [build-dependencies] and a build.rs with \
         `fn main() {{ warpsmith_build::compile() }}`; a generic kernel is compiled for the types with which the crates \
         that have such a build script launch it",
        instance_text(instance)
    )]
    NotFound {
        /// The kernel's path.
        kernel: String,
        /// The crate that defines it.
        krate: String,
        /// Type name of its generic arguments.
        instance: String,
        /// How many kernels the program carries.
        searched: usize,
    },
    /// The build script ran, and the device build of the target failed.
    #[error("no GPU code for kernel `{kernel}`: the device build of `{target}` failed:\n{message}")]
    BuildFailed {
        /// The kernel's path.
        kernel: String,
        /// The target as cargo names it.
        target: String,
        /// The compiler's message.
        message: String,
    },
    /// The program does not carry the kernel's code for the checker.
    #[error("kernel `{kernel}` cannot be checked: {}", not_checked_text(krate, *is_generic, *is_compiled))]
    NotChecked {
        /// The kernel's path.
        kernel: String,
        /// The crate that defines it.
        krate: String,
        /// Whether it has type or constant parameters: the crates that launch it compile it then.
        is_generic: bool,
        /// Whether a build script compiled it for GPUs.
        is_compiled: bool,
    },
    /// A parameter has another shape on the host than the kernel was compiled with.
    #[error(
        "parameter {index} of kernel `{kernel}` differs between host and device: the host has {host}, the GPU code was \
         compiled with {device}; the two builds saw different types (other features, another version of a crate): rebuild \
         with `cargo clean -p` of the crate that defines the type"
    )]
    ParamMismatch {
        /// The kernel's path.
        kernel: String,
        /// Which parameter, from 0.
        index: usize,
        /// The shape on the host.
        host: ParamShape,
        /// The shape in the metadata.
        device: ParamShape,
    },
    /// The number of parameters differs.
    #[error("kernel `{kernel}` has {host} parameters on the host and {device} in its GPU code; rebuild the crate")]
    ParamCountMismatch {
        /// The kernel's path.
        kernel: String,
        /// Parameters on the host.
        host: usize,
        /// Parameters in the metadata.
        device: usize,
    },
    /// No image runs on the GPU.
    #[error(
        "kernel `{kernel}` was compiled for {available}; {device} is sm_{architecture}: add {architecture} to the \
         architectures of the build (`WARPSMITH_ARCHITECTURES`, or the builder's `architectures`)"
    )]
    NoImage {
        /// The kernel's path.
        kernel: String,
        /// The GPU.
        device: String,
        /// Its architecture.
        architecture: u32,
        /// The architectures there are, as text.
        available: String,
    },
    /// The driver is older than the PTX.
    #[error(
        "the driver is too old for kernel `{kernel}`: it supports CUDA {driver} (PTX up to {known}), the kernel's PTX is \
         {needed} at the least; update the NVIDIA driver to one for CUDA {remedy} or newer"
    )]
    DriverTooOld {
        /// The kernel's path.
        kernel: String,
        /// CUDA version of the driver.
        driver: Version,
        /// Newest PTX version that it knows.
        known: Version,
        /// Oldest PTX version among the images that suit the GPU.
        needed: Version,
        /// CUDA version that knows the PTX.
        remedy: Version,
    },
    /// A constant has another shape on the host than the kernel was compiled with.
    #[error(
        "constant `{constant}` of kernel `{kernel}` differs between host and device: the host has {host_bytes} bytes, the GPU \
         code was compiled with {device_bytes}, or their fields differ; the two builds saw different types: rebuild with \
         `cargo clean -p` of the crate that declares it"
    )]
    ConstantMismatch {
        /// The kernel's path.
        kernel: String,
        /// The constant's path.
        constant: String,
        /// Size in bytes on the host.
        host_bytes: u64,
        /// Size in bytes in the metadata.
        device_bytes: u64,
    },
    /// The driver refused the kernel's PTX.
    #[error("the driver refused the code of kernel `{kernel}` (sm_{architecture}){}", log_text(log))]
    Rejected {
        /// The kernel's path.
        kernel: String,
        /// The image's architecture.
        architecture: u32,
        /// What the driver's compiler said.
        log: String,
        /// The driver's answer.
        source: DriverError,
    },
    /// The kernels in the program cannot be read.
    #[error("the kernels in this program cannot be read: {reason}; rebuild it")]
    Corrupt {
        /// What is wrong.
        reason: String,
    },
}

/// Why there is no code for the checker, and what helps.
fn not_checked_text(krate: &str, is_generic: bool, is_compiled: bool) -> String {
    const CALL: &str = "warpsmith_build::Builder::new().checked(true).compile()";
    let whose = if is_generic {
        format!(
            "the package that launches it with these types (a generic kernel is compiled there, not with `{krate}`)"
        )
    } else {
        format!("the package of `{krate}`, which defines it")
    };
    if is_compiled {
        format!(
            "it was compiled for GPUs, but not for the checker; where the build did not say why, compile with WARPSMITH_CHECK=1 set, or \
             call `{CALL}` in the build script of {whose}"
        )
    } else {
        format!(
            "no build script compiled it; {whose} needs `warpsmith-build` under [build-dependencies] and a build.rs with `fn main() {{ \
             {CALL} }}`"
        )
    }
}

fn instance_text(instance: &str) -> String {
    if instance.contains('<') { format!(" with {instance}") } else { String::new() }
}

fn log_text(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(":\n{log}") }
}

/// A version as `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Before the point.
    pub major: u32,
    /// After the point.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The shape of a parameter, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamShape {
    /// The kind as a number of `warpsmith_device::abi::ParamKind`.
    pub kind: u32,
    /// Size in bytes of the value or of an element.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// Size in bytes of the second argument.
    pub extent_size: u64,
    /// Hash of the type's fields.
    pub layout: u64,
}

impl From<&ParamDesc> for ParamShape {
    fn from(desc: &ParamDesc) -> Self {
        Self {
            kind: desc.kind as u32,
            size: desc.size,
            align: desc.align,
            extent_size: desc.extent_size,
            layout: desc.layout,
        }
    }
}

impl fmt::Display for ParamShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            0 => "a value",
            1 => "a slice with elements",
            2 => "a reference to a value",
            3 => "a writable slice with elements",
            4 => "a pointer to values",
            _ => "something unknown",
        };
        write!(f, "{kind} of {} bytes aligned to {} (layout {:016x}", self.size, self.align, self.layout)?;
        if self.extent_size != 0 {
            write!(f, ", map of {} bytes", self.extent_size)?;
        }
        write!(f, ")")
    }
}

/// Why a launch did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A dimension of the grid or of the block is 0.
    #[error(
        "launch of `{kernel}` with {dimension} = 0: every dimension is at least 1 (LaunchConfig::for_len(0) is the way to \
         launch nothing)"
    )]
    ZeroDimension {
        /// The kernel.
        kernel: String,
        /// Which dimension: `grid_dim.x`.
        dimension: &'static str,
    },
    /// A dimension of the grid or of the block is larger than the device allows.
    #[error("launch of `{kernel}` with {dimension} = {requested}; the device allows {limit}")]
    DimensionTooLarge {
        /// The kernel.
        kernel: String,
        /// Which dimension: `grid_dim.y`.
        dimension: &'static str,
        /// What was asked for.
        requested: u32,
        /// What the device allows.
        limit: u32,
    },
    /// The block holds more threads than the device allows.
    #[error("launch of `{kernel}` asks for {requested} threads per block; the device allows {limit}")]
    BlockTooLarge {
        /// The kernel.
        kernel: String,
        /// Threads in a block.
        requested: u64,
        /// What the device allows.
        limit: u32,
    },
    /// The block holds more threads than the kernel can have: its launch bounds, or the registers it uses.
    #[error("launch of `{kernel}` asks for {requested} threads per block; this kernel allows {limit} ({reason})")]
    BlockTooLargeForKernel {
        /// The kernel.
        kernel: String,
        /// Threads in a block.
        requested: u64,
        /// What the kernel allows.
        limit: u32,
        /// Where the limit comes from.
        reason: String,
    },
    /// The kernel is compiled for one block shape, and this is another.
    #[error(
        "launch of `{kernel}` with blocks of {requested}; it is compiled for blocks of {compiled} (`#[kernel(block = ..)]`)"
    )]
    BlockShape {
        /// The kernel.
        kernel: String,
        /// The launch's block.
        requested: Dim3,
        /// The kernel's block.
        compiled: Dim3,
    },
    /// The block needs more shared memory than the device has for a block.
    #[error(
        "launch of `{kernel}` asks for {requested} bytes of shared memory per block ({fixed} fixed in the kernel, \
         {dynamic} of the launch); the device allows {limit}"
    )]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// Bytes in all.
        requested: u64,
        /// Bytes that the kernel declares.
        fixed: u64,
        /// Bytes that the launch adds.
        dynamic: u64,
        /// Bytes that the device allows.
        limit: u64,
    },
    /// A cooperative launch has more blocks than can be resident at once, so that some would wait for others that never
    /// start.
    #[error(
        "cooperative launch of `{kernel}` asks for {requested} blocks of {threads} threads; {device} holds {limit} of them \
         at once{}{reason}",
        if reason.is_empty() { "" } else { "; " }
    )]
    CooperativeTooLarge {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// Blocks in the grid.
        requested: u64,
        /// Threads in a block.
        threads: u64,
        /// Blocks that the device holds at once.
        limit: u64,
        /// Where that is the CPU executor's own limit: why, and what to do. Empty where it is a GPU's.
        reason: String,
    },
    /// A cluster holds more blocks than every GPU with clusters takes.
    #[error("launch of `{kernel}` in clusters of {requested} blocks; a cluster has at most {limit}")]
    ClusterTooLarge {
        /// The kernel.
        kernel: String,
        /// Blocks in a cluster.
        requested: u64,
        /// What is allowed.
        limit: u32,
    },
    /// The grid is no multiple of its clusters.
    #[error("launch of `{kernel}` with {dimension} = {cluster}, of which the grid's {grid} blocks are no multiple")]
    ClusterShape {
        /// The kernel.
        kernel: String,
        /// Which dimension: `cluster_dim.x`.
        dimension: &'static str,
        /// Blocks of a cluster along it.
        cluster: u32,
        /// Blocks of the grid along it.
        grid: u32,
    },
    /// The GPU has no clusters.
    #[error(
        "launch of `{kernel}` in clusters, which GPUs have from compute capability 9.0 on; {device} has {capability}: leave \
         `LaunchConfig::with_cluster` out there"
    )]
    NoClusters {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// Its compute capability.
        capability: ComputeCapability,
    },
    /// The kernel waits for the whole grid, and the launch does not promise that all of it is there.
    #[error("`{kernel}` calls `Grid::sync`, so its launch must be cooperative: `LaunchConfig::cooperative`")]
    NotCooperative {
        /// The kernel.
        kernel: String,
    },
    /// An argument lives on another device than the stream.
    #[error("argument {argument} of `{kernel}` lives on {buffer}, the stream runs on {stream}")]
    OtherDevice {
        /// The kernel.
        kernel: String,
        /// Which argument that is not a plain value, from 1.
        argument: usize,
        /// Where the argument lives.
        buffer: String,
        /// Where the stream runs.
        stream: String,
    },
    /// A kernel takes a reference to one element, and the buffer has none.
    #[error("argument {argument} of `{kernel}` is a reference to one element, and the buffer is empty")]
    EmptyReference {
        /// The kernel.
        kernel: String,
        /// Which argument that is not a plain value, from 1.
        argument: usize,
    },
    /// An argument lies in memory that a graph cannot use, because the host may hold references into it.
    #[error("argument {argument} of `{kernel}` lies in memory that a graph cannot use: pass a `DeviceBuffer`")]
    NotForGraphs {
        /// The kernel.
        kernel: String,
        /// Which argument that is not a plain value, from 1.
        argument: usize,
    },
    /// A constant that the kernel reads could not be brought up to date.
    #[error("the constants of `{kernel}` could not be set{}", lost_text(source))]
    Constants {
        /// The kernel.
        kernel: String,
        /// The driver's answer.
        source: DriverError,
    },
    /// An argument waits for work of another stream, and the driver refused that.
    #[error(
        "argument {argument} of `{kernel}` could not be ordered after its last use on another stream{}",
        lost_text(source)
    )]
    Ordering {
        /// The kernel.
        kernel: String,
        /// Which argument that is not a plain value, from 1.
        argument: usize,
        /// The driver's answer.
        source: DriverError,
    },
    /// A launch was prepared for another kernel, or for another instance of a generic one.
    #[error("`{kernel}` was given a launch that was prepared for `{prepared}` (instance `{instance}`)")]
    PreparedForOtherKernel {
        /// The kernel that was to be launched.
        kernel: String,
        /// The kernel that the launch was prepared for.
        prepared: String,
        /// The instance that the launch was prepared for.
        instance: String,
    },
    /// A launch was prepared for another device than the stream's.
    #[error("the launch of `{kernel}` was prepared for {prepared}, the stream runs on {stream}")]
    PreparedForOtherDevice {
        /// The kernel.
        kernel: String,
        /// The device that the launch was prepared for.
        prepared: String,
        /// Where the stream runs.
        stream: String,
    },
    /// More shared memory was wished for than there is.
    #[error("a carve-out of {percent} percent for `{kernel}`; shared memory can have 0 to 100 percent")]
    Carveout {
        /// The kernel.
        kernel: String,
        /// What was wished for.
        percent: u8,
    },
    /// The driver did not answer a question about a kernel.
    #[error("kernel `{kernel}`: {operation}{}", lost_text(source))]
    Attributes {
        /// The kernel.
        kernel: String,
        /// What was being done.
        operation: &'static str,
        /// The driver's answer.
        source: DriverError,
    },
    /// The kernel failed while it ran; told by launches that [wait for their end](crate::Device::set_launch_blocking).
    #[error(
        "kernel `{kernel}` failed while it ran, with {config:?}{}",
        if source.context_is_lost() { "; the GPU's context is lost, and only a new process gets a new one" } else { "" }
    )]
    Failed {
        /// The kernel.
        kernel: String,
        /// The launch's shape.
        config: Box<LaunchConfig>,
        /// The driver's answer.
        source: DriverError,
    },
    /// The CPU executor could not run the launch.
    #[error("the CPU executor could not run `{kernel}`: {reason}")]
    Executor {
        /// The kernel.
        kernel: String,
        /// What happened.
        reason: String,
    },
    /// The driver refused for a reason that no check above covers.
    #[error("the driver refused the launch of `{kernel}` with {config:?}{}", lost_text(source))]
    Driver {
        /// The kernel.
        kernel: String,
        /// The launch's shape.
        config: Box<LaunchConfig>,
        /// The driver's answer.
        source: DriverError,
    },
}

fn lost_text(source: &DriverError) -> &'static str {
    if source.context_is_lost() {
        "; the GPU's context was lost by earlier work, and only a new process gets a new one"
    } else {
        ""
    }
}

/// Why a graph could not be recorded, changed or launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The operation has no meaning while work is recorded, because its result or its memory is needed at once.
    #[error(
        "{operation} cannot be recorded in a graph; do it on a stream, before the recording or after the graph was launched"
    )]
    NotRecorded {
        /// The operation.
        operation: &'static str,
    },
    /// The launch cannot be part of a graph.
    #[error("the launch of `{kernel}` cannot be recorded in a graph: {reason}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// Why.
        reason: &'static str,
    },
    /// A buffer lies in memory that a graph cannot use, because the host may hold references into it.
    #[error("a copy uses memory that a graph cannot use: use a `DeviceBuffer`")]
    Memory,
    /// A recording was used after it had ended.
    #[error("this stream recorded a graph, and the recording has ended")]
    Ended,
    /// A piece of work was added that records nothing.
    #[error("nothing was recorded, so there is no node")]
    NoNode,
    /// A node belongs to another graph.
    #[error("the node belongs to another graph")]
    OtherGraph,
    /// The graph and the stream are of different devices.
    #[error("the graph is of {graph}, the stream runs on {stream}")]
    OtherDevice {
        /// The graph's device.
        graph: String,
        /// Where the stream runs.
        stream: String,
    },
    /// A node can only be updated by one launch of the kernel that it launches.
    #[error(
        "{node} cannot become {found}: an update is one launch of the same kernel, compiled for the same kind of shape"
    )]
    Update {
        /// What the node does.
        node: String,
        /// What was recorded instead.
        found: String,
    },
    /// With new arguments a node would use memory at the same time as another, and one of them writes it.
    #[error(
        "{node} would use memory at the same time as {other}, and one of them writes it; the graph has no order between the two"
    )]
    UpdateConflict {
        /// What the node does.
        node: String,
        /// What the other node does.
        other: String,
    },
    /// A host function of a graph panicked.
    #[error("a host function of a graph panicked: {message}")]
    HostPanic {
        /// The panic's message.
        message: String,
    },
    /// The driver refused.
    #[error("{operation} failed{}", lost_text(source))]
    Driver {
        /// What was being done.
        operation: &'static str,
        /// The driver's answer.
        source: DriverError,
    },
}

/// Why work on a stream failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The work did not finish in time; it goes on, and the stream can be waited for again.
    #[error("the stream did not finish within {waited:?}: last launched on it {}", launched_text(kernels))]
    Timeout {
        /// How long was waited.
        waited: Duration,
        /// The kernels last launched on the stream, newest first.
        kernels: Vec<String>,
    },
    /// Work on the stream failed.
    #[error("work on the stream failed{}; last launched on it {}", lost_text(source), launched_text(kernels))]
    Failed {
        /// The kernels last launched on the stream, newest first.
        kernels: Vec<String>,
        /// The driver's answer.
        source: DriverError,
    },
    /// A host task of the stream panicked. The work after it went on.
    #[error("a host task of the stream panicked: {message}")]
    HostTaskPanicked {
        /// The panic's message.
        message: String,
    },
    /// The priority is none that streams of the device have.
    #[error(
        "a stream of priority {requested} was asked for; the device has priorities from {most_urgent}, the most urgent, to \
         {least_urgent}"
    )]
    PriorityOutOfRange {
        /// The priority asked for.
        requested: i32,
        /// The lowest number.
        most_urgent: i32,
        /// The highest number.
        least_urgent: i32,
    },
    /// The stream is the one that each thread has by itself.
    #[error(
        "the stream is the default stream of each thread (CU_STREAM_PER_THREAD), which is another stream on another thread: make a \
         stream, or take the legacy default stream with `Device::default_stream`"
    )]
    PerThreadStream,
    /// The operation cannot be captured into a graph.
    #[error("{operation} is not possible while the stream's work is captured into a graph: do it before or after")]
    Capturing {
        /// The operation.
        operation: &'static str,
    },
    /// The system refused a thread of this crate's own.
    #[error("a thread of this crate could not be started")]
    Thread {
        /// The system's answer.
        source: std::io::Error,
    },
    /// The stream could not be made, or an event could not be recorded or waited for.
    #[error("{operation} failed{}", lost_text(source))]
    Driver {
        /// What was being done.
        operation: &'static str,
        /// The driver's answer.
        source: DriverError,
    },
    /// A stream is watched by one timeline at a time.
    #[error("the stream is watched by another timeline: drop that one first, or watch the stream with it")]
    Watched,
}

fn launched_text(kernels: &[String]) -> String {
    match kernels {
        [] => "is no kernel".to_owned(),
        [one] => format!("is `{one}`"),
        [newest, older @ ..] => format!("is `{newest}`, before it `{}`", older.join("`, `")),
    }
}

/// A panic of a kernel: the first in its launch.
///
/// The context stays usable, and so does the stream. The launch's other threads may have gone on, so what it wrote is
/// incomplete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "kernel `{kernel}` panicked at {file}:{line}:{column} in block {block}, thread {thread}{}: {message}{}",
    schedule.map_or_else(String::new, |schedule| format!(", under the schedule {schedule}")),
    backtrace.as_ref().map_or_else(String::new, |backtrace| format!("\nits calls, the last one first:\n{backtrace}"))
)]
#[non_exhaustive]
pub struct KernelPanic {
    /// The kernel's path.
    pub kernel: String,
    /// The panic's message.
    pub message: String,
    /// Source file of the panic.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// The block whose thread panicked.
    pub block: Dim3,
    /// The thread in its block.
    pub thread: Dim3,
    /// The schedule that the launch ran under, where it had one: under it the panic comes again, also where the variable
    /// `WARPSMITH_SCHEDULE` names it.
    pub schedule: Option<Schedule>,
    /// The kernel's calls that led to the panic, the last one first, as the standard library prints them: on the CPU executor, where
    /// `RUST_BACKTRACE=1` asks for them.
    pub backtrace: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_checked_says_who_has_to_compile_it() {
        let text = |is_generic, is_compiled| {
            let (kernel, krate) = ("kern::scale".to_owned(), "kern".to_owned());
            ModuleError::NotChecked { kernel, krate, is_generic, is_compiled }.to_string()
        };
        assert!(text(false, true).ends_with("in the build script of the package of `kern`, which defines it"));
        assert!(text(false, false).contains("the package of `kern`, which defines it needs `warpsmith-build`"));
        for is_compiled in [false, true] {
            let text = text(true, is_compiled);
            assert!(text.contains("the package that launches it with these types"), "{text}");
        }
        assert!(text(true, false).contains("a build.rs with `fn main() { warpsmith_build::"), "{}", text(true, false));
    }

    #[test]
    fn an_error_shows_its_causes_where_main_returns_it() {
        let source = DriverError { call: "cuInit", code: 999, name: "CUDA_ERROR_UNKNOWN".to_owned() };
        let error = Error::from(DeviceError::Init { remedy: "try again", source });
        assert_eq!(
            format!("{error:?}"),
            "the NVIDIA driver is installed but does not start; try again: `cuInit` answered CUDA_ERROR_UNKNOWN (999)"
        );
    }

    #[test]
    fn messages_start_small_and_end_without_a_full_stop() {
        let kernel = || "m::k".to_owned();
        let errors: Vec<Error> = vec![
            DeviceError::NoDriver { looked_for: vec!["libcuda.so".to_owned()], library_path: None }.into(),
            DeviceError::NoGpu { visible: Some(String::new()) }.into(),
            DeviceError::EventNotRecorded.into(),
            MemoryError::Range { start: 1, end: 3, len: 2 }.into(),
            LaunchError::ZeroDimension { kernel: kernel(), dimension: "grid_dim.x" }.into(),
            ModuleError::NotFound { kernel: kernel(), krate: "m".to_owned(), instance: String::new(), searched: 0 }
                .into(),
            StreamError::Timeout { waited: Duration::from_secs(1), kernels: vec![] }.into(),
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.starts_with(|first: char| !first.is_uppercase() || text.starts_with("WARPSMITH")), "{text}");
            assert!(!text.ends_with('.') && !text.contains("  "), "{text}");
        }
    }
}
