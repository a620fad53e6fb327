//! The CUDA array interface, version 3: what Python's `__cuda_array_interface__` says of an array on a GPU.

use std::fmt;

use super::dlpack::check_type;
use super::element::{DataType, ExchangeElement};
use super::error::{ExchangeError, Refused};
use super::layout::TensorLayout;
use super::order::{self, ExchangeStream};
use super::raw::{check_address, check_gpu_address};
use super::tensor::Tensor;
use crate::error::Result;
use crate::memory::{DeviceBuffer, Keeper, Storage};
use crate::stream::Stream;

/// The entries of a `__cuda_array_interface__`. Its `Display` is the Python dictionary.
///
/// `descr` is left out: it repeats `typestr` for all types that can be exchanged.
///
/// # Examples
/// ```
/// use warpsmith::exchange::{CudaArrayInterface, TensorLayout};
///
/// let array = CudaArrayInterface {
///     shape: vec![2, 3],
///     typestr: "<f4".to_owned(),
///     data: (0x7f00_0000_0000, false),
///     strides: None,
///     mask: false,
///     version: 3,
///     stream: Some(1),
/// };
/// assert_eq!(array.layout::<f32>()?, TensorLayout::contiguous(&[2, 3])?);
/// assert!(array.layout::<f64>().is_err());
/// assert_eq!(
///     array.to_string(),
///     "{'shape': (2, 3), 'typestr': '<f4', 'data': (139637976727552, False), 'strides': None, 'version': 3, 'stream': 1}"
/// );
/// # Ok::<(), warpsmith::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaArrayInterface {
    /// Extents.
    pub shape: Vec<i64>,
    /// Type of the elements: `<f4` for `f32`.
    pub typestr: String,
    /// Address, 0 without elements, and whether the elements may only be read.
    pub data: (u64, bool),
    /// Strides in bytes; `None` for row-major without gaps.
    pub strides: Option<Vec<i64>>,
    /// Whether a mask goes with the array.
    pub mask: bool,
    /// Version of the interface: 2 or 3.
    pub version: u32,
    /// The stream in whose order the elements are ready: `None` when they are ready at once, 1 and 2 for the default
    /// streams, or a handle.
    pub stream: Option<i64>,
}

impl CudaArrayInterface {
    /// Shape and strides in elements, for an array of `T`.
    ///
    /// # Errors
    /// [`ExchangeError`] for elements of another type, a mask, another version, and shapes and strides that cannot be.
    pub fn layout<T: ExchangeElement>(&self) -> Result<TensorLayout, ExchangeError> {
        if !matches!(self.version, 2 | 3) {
            return Err(ExchangeError::InterfaceVersion { version: self.version });
        }
        if self.mask {
            return Err(ExchangeError::Mask);
        }
        let expected = || {
            let expected = T::DATA_TYPE.to_string();
            ExchangeError::ElementType {
                expected_type: std::any::type_name::<T>(),
                expected,
                found: self.typestr.clone(),
            }
        };
        check_type::<T>(DataType::from_type_string(&self.typestr).ok_or_else(expected)?)?;
        TensorLayout::from_foreign(&self.shape, self.strides.as_deref(), size_of::<T>())
    }

    /// The array's elements, without a copy, on the stream's GPU: `stream` waits for the array's own stream. `keeper` is dropped
    /// with the result, which waits for the work that uses the elements.
    ///
    /// # Errors
    /// [`Refused`] with the keeper: [`ExchangeError`] as [`layout`](Self::layout), for addresses that are null, not aligned or not
    /// of the stream's GPU, for the stream 0, and on the CPU executor.
    ///
    /// # Safety
    /// What the entries say is true, and the elements are valid values of `T` until `keeper` is dropped. Until then nobody else
    /// writes the memory between the first and the last element, and nobody reads what this crate writes, except in order with
    /// this crate's work.
    pub unsafe fn into_tensor<T: ExchangeElement, K: Send + 'static>(
        self,
        stream: &Stream,
        keeper: K,
    ) -> Result<Tensor<T>, Box<Refused<K>>> {
        let checked = || -> Result<_> {
            let layout = self.layout::<T>()?;
            let device = stream.device();
            if device.is_cpu() {
                return Err(ExchangeError::NeedsGpu { operation: "the CUDA array interface" }.into());
            }
            // SAFETY: the caller says that the entries are true.
            let theirs = unsafe { ExchangeStream::from_array_interface(self.stream) }?;
            let address = check_address::<T>(usize::try_from(self.data.0).expect("64 bits"), layout.span())?;
            if !layout.is_empty() {
                check_gpu_address(device, self.data.0)?;
                stream.wait_for_exchange(theirs)?;
            }
            Ok((address, layout))
        };
        let (address, layout) = match checked() {
            Ok(checked) => checked,
            Err(error) => return Err(Refused::new(error, keeper)),
        };
        let (span, keeper) = (layout.span(), Keeper::new(Box::new(keeper)));
        // SAFETY: the caller says that the elements are there until the keeper is dropped.
        let storage = unsafe { Storage::foreign(stream, address, span * size_of::<T>(), keeper) };
        // The address was checked to be aligned.
        let buffer = DeviceBuffer::from_storage(storage.into_shared(), span);
        Ok(Tensor::new(buffer, layout).expect("the buffer has the layout's span").read_only(self.data.1))
    }
}

impl<T: ExchangeElement> Tensor<T> {
    /// What a `__cuda_array_interface__` says of this tensor, whose elements are ready in order of `stream`: it is made to wait for
    /// the work that uses them. Keep the tensor as long as the array is used, and drop it after the consumer's work.
    ///
    /// # Errors
    /// [`ExchangeError::NeedsGpu`] on the CPU executor, [`ExchangeError::NoTypeString`] for `bf16` and vectors,
    /// [`ExchangeError::InGraph`] when a graph uses the memory, [`ExchangeError::Driver`] when the stream cannot be made to wait.
    pub fn cuda_array_interface(&self, stream: ExchangeStream) -> Result<CudaArrayInterface> {
        if self.device().is_cpu() {
            return Err(ExchangeError::NeedsGpu { operation: "the CUDA array interface" }.into());
        }
        let typestr = T::DATA_TYPE.type_string()?;
        if !self.buffer().storage().export() {
            return Err(ExchangeError::InGraph.into());
        }
        order::before(self.buffer().storage(), stream)?;
        let signed = |value: &usize| i64::try_from(*value).expect("layouts fit into 63 bits");
        let layout = self.layout();
        let in_bytes = |stride: &usize| signed(stride).saturating_mul(size_of::<T>() as i64);
        let address = if self.is_empty() { 0 } else { self.buffer().as_device_ptr().addr() as u64 };
        Ok(CudaArrayInterface {
            shape: layout.shape().iter().map(signed).collect(),
            typestr,
            data: (address, self.is_read_only()),
            strides: (!layout.is_contiguous()).then(|| layout.strides().iter().map(in_bytes).collect()),
            mask: false,
            version: 3,
            stream: stream.number(),
        })
    }
}

impl fmt::Display for CudaArrayInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tuple = |values: &[i64]| match values {
            [only] => format!("({only},)"),
            _ => format!("({})", values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
        };
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "None".to_owned());
        let read_only = if self.data.1 { "True" } else { "False" };
        write!(
            f,
            "{{'shape': {}, 'typestr': '{}', 'data': ({}, {read_only}), 'strides': {}, 'version': {}, 'stream': {}}}",
            tuple(&self.shape),
            self.typestr,
            self.data.0,
            or_none(self.strides.as_deref().map(tuple)),
            self.version,
            or_none(self.stream.map(|stream| stream.to_string())),
        )
    }
}
