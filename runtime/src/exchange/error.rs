//! Why memory could not be exchanged.

use std::fmt;

use crate::error::{DriverError, Error};

/// Why memory could not be taken from another library or given to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// A graph uses the memory, whose launches another library could not know of.
    #[error(
        "a graph uses the memory, and its launches would run beside the other library's work: export a copy of the buffer"
    )]
    InGraph,
    /// The tensor is of a later major version of DLPack, whose layout is not known.
    #[error(
        "the tensor is of DLPack {major}.{minor}; versions 1.x are read: ask the producer for one with `max_version=(1, 0)`"
    )]
    Version {
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
    },
    /// The description of the shape cannot be read.
    #[error("the tensor says that it has {ndim} dimensions{}", if *ndim < 0 { "" } else { ", and gives no shape" })]
    Dimensions {
        /// Number of dimensions.
        ndim: i64,
    },
    /// Shape and strides differ in length.
    #[error("a shape of {shape} dimensions has {strides} strides; each dimension needs one")]
    StrideCount {
        /// Dimensions of the shape.
        shape: usize,
        /// Strides given.
        strides: usize,
    },
    /// A dimension has a negative extent.
    #[error("dimension {axis} has the extent {extent}; extents are 0 or more")]
    NegativeExtent {
        /// Which dimension, from 0.
        axis: usize,
        /// Its extent.
        extent: i64,
    },
    /// A dimension runs backwards.
    #[error(
        "dimension {axis} has the stride {stride}; negative strides are not taken: let the producer make a copy in order"
    )]
    NegativeStride {
        /// Which dimension, from 0.
        axis: usize,
        /// Its stride, in the units of the description.
        stride: i64,
    },
    /// A stride in bytes that is no whole number of elements.
    #[error(
        "dimension {axis} has a stride of {stride} bytes, which is no multiple of an element's {element_bytes} bytes"
    )]
    PartialStride {
        /// Which dimension, from 0.
        axis: usize,
        /// Its stride in bytes.
        stride: i64,
        /// Bytes of an element.
        element_bytes: usize,
    },
    /// More elements than can be addressed.
    #[error("a tensor of shape {shape:?} with strides {strides:?} spans more bytes than can be addressed")]
    TooLarge {
        /// The extents.
        shape: Vec<usize>,
        /// The strides in elements.
        strides: Vec<usize>,
    },
    /// Shape and strides reach past the buffer.
    #[error("shape and strides reach element {needed} (counted from 1) of a buffer of {len} elements")]
    OutsideBuffer {
        /// Elements needed.
        needed: usize,
        /// Elements there.
        len: usize,
    },
    /// The elements are of another type.
    #[error("the elements are {found}; `{expected_type}` is {expected}")]
    ElementType {
        /// The Rust type asked for.
        expected_type: &'static str,
        /// What it is in the exchange's words.
        expected: String,
        /// What the elements are.
        found: String,
    },
    /// A type of elements for which the CUDA array interface has no name.
    #[error("the CUDA array interface has no type string for {found}; exchange it through DLPack")]
    NoTypeString {
        /// What the elements are.
        found: String,
    },
    /// The memory is not reached from the device.
    #[error("the tensor lives in {found}, which {device} does not reach; {remedy}")]
    Device {
        /// Where it lives.
        found: String,
        /// The device it was to be used on.
        device: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The driver knows the address as memory of another GPU.
    #[error("the address {address:#x} is memory of GPU {found}, not of {device}")]
    OtherGpu {
        /// The address.
        address: u64,
        /// Whose it is.
        found: i32,
        /// The device it was to be used on.
        device: String,
    },
    /// The memory is of another context than the stream.
    #[error(
        "the memory belongs to a context of GPU {found} that is not the stream's, which is of {device}: use a stream of that context"
    )]
    OtherContext {
        /// The GPU of the memory's context.
        found: usize,
        /// The stream's device.
        device: String,
    },
    /// The buffer is none that cudarc could own.
    #[error("the buffer cannot become a slice of cudarc: {reason}")]
    NotForCudarc {
        /// Why.
        reason: &'static str,
    },
    /// The driver does not know the address.
    #[error("the address {address:#x} is no memory of {device}")]
    UnknownAddress {
        /// The address.
        address: u64,
        /// The device it was to be used on.
        device: String,
        /// The driver's error, where it gave one.
        source: Option<DriverError>,
    },
    /// No address for elements that are there.
    #[error("the address is null, and there are {len} elements")]
    Null {
        /// Number of elements.
        len: usize,
    },
    /// The address does not suit the elements.
    #[error(
        "the address {address:#x} is not a multiple of {align}, as `{element}` needs; let the producer make a copy"
    )]
    Misaligned {
        /// The address of the first element.
        address: u64,
        /// Alignment in bytes.
        align: usize,
        /// The elements' type.
        element: &'static str,
    },
    /// The elements may only be read.
    #[error("the tensor may only be read, and {operation}")]
    ReadOnly {
        /// What would write.
        operation: &'static str,
    },
    /// The elements are not row-major without gaps.
    #[error(
        "a tensor of shape {shape:?} with strides {strides:?} (in elements) is not row-major without gaps; let the producer \
         make it so, or read `as_span` with its strides"
    )]
    NotContiguous {
        /// The extents.
        shape: Vec<usize>,
        /// The strides in elements.
        strides: Vec<usize>,
    },
    /// The number is not that of a stream.
    #[error("a stream cannot be {value}; 1 is the legacy default stream, 2 the per-thread one, and others are handles")]
    StreamNumber {
        /// The number given.
        value: i64,
    },
    /// A stream for memory of the host.
    #[error("a stream ({value}) was given for memory of the CPU executor, which has none; pass `None`")]
    StreamOnCpu {
        /// The number given.
        value: i64,
    },
    /// An array with a mask.
    #[error("the array has a mask, which kernels would not see; apply it first")]
    Mask,
    /// A version of the CUDA array interface that is not read.
    #[error("version {version} of the CUDA array interface is not read; versions 2 and 3 are")]
    InterfaceVersion {
        /// The version.
        version: u32,
    },
    /// The operation needs a GPU, and the device is the CPU executor.
    #[error("{operation} needs a GPU, and this device is the CPU executor; exchange through DLPack")]
    NeedsGpu {
        /// The operation.
        operation: &'static str,
    },
    /// The driver refused for a reason that no check above covers.
    #[error("{operation} failed")]
    Driver {
        /// What was being done.
        operation: &'static str,
        /// The driver's answer.
        source: DriverError,
    },
}

/// What was refused, with the reason. Nothing was consumed: `value` is what was passed in.
///
/// It turns into an [`Error`], so that `?` passes it on; the value is dropped then, which for a [`ManagedTensor`] calls its
/// deleter.
///
/// [`ManagedTensor`]: super::ManagedTensor
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct Refused<V> {
    /// Why.
    pub error: Error,
    /// What was passed in.
    pub value: V,
}

impl<V> fmt::Debug for Refused<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.error)
    }
}

impl<V> Refused<V> {
    pub(super) fn new(error: impl Into<Error>, value: V) -> Box<Self> {
        Box::new(Self { error: error.into(), value })
    }
}

impl<V> From<Box<Refused<V>>> for Error {
    fn from(refused: Box<Refused<V>>) -> Self {
        refused.error
    }
}
