//! Tensors: buffers with a shape and strides, of this crate's memory or another library's.

use std::fmt;
use std::sync::Arc;

use warpsmith_device::abi::KernelValue;

use super::error::ExchangeError;
use super::layout::TensorLayout;
use crate::device::Device;
use crate::error::Result;
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;

/// Elements in a device's memory with a shape and strides.
///
/// # Examples
/// ```
/// use warpsmith::exchange::{Tensor, TensorLayout};
/// use warpsmith::prelude::*;
///
/// let stream = Device::cpu().stream()?;
/// let buffer = stream.to_device(&[1, 2, 3, 4, 5, 6])?;
/// let columns = Tensor::new(buffer, TensorLayout::column_major(&[2, 3])?)?;
/// assert_eq!(columns.to_host(&stream)?, [1, 3, 5, 2, 4, 6]);
/// assert!(columns.as_slice().is_err());
/// assert_eq!(columns.as_span().len(), 6);
/// # Ok::<(), warpsmith::Error>(())
/// ```
pub struct Tensor<T: KernelValue> {
    elements: Elements<T>,
    layout: TensorLayout, // Invariant: `layout.span()` elements from the first are inside the buffer.
    is_read_only: bool,
}

enum Elements<T: KernelValue> {
    Owned(DeviceBuffer<T>),
    Shared(Arc<DeviceBuffer<T>>),
}

impl<T: KernelValue> Tensor<T> {
    /// The first elements of a buffer, in this layout.
    ///
    /// # Errors
    /// [`ExchangeError::OutsideBuffer`] when the layout reaches past the buffer.
    pub fn new(buffer: DeviceBuffer<T>, layout: TensorLayout) -> Result<Self> {
        check_inside(&layout, buffer.len())?;
        Ok(Self { elements: Elements::Owned(buffer), layout, is_read_only: false })
    }

    /// As [`new`](Self::new), of a buffer that others read too: the tensor may only be read.
    ///
    /// # Errors
    /// [`ExchangeError::OutsideBuffer`] when the layout reaches past the buffer.
    pub fn shared(buffer: Arc<DeviceBuffer<T>>, layout: TensorLayout) -> Result<Self> {
        check_inside(&layout, buffer.len())?;
        Ok(Self { elements: Elements::Shared(buffer), layout, is_read_only: true })
    }

    pub(super) fn read_only(mut self, is_read_only: bool) -> Self {
        self.is_read_only |= is_read_only;
        self
    }

    pub(super) fn buffer(&self) -> &DeviceBuffer<T> {
        match &self.elements {
            Elements::Owned(buffer) => buffer,
            Elements::Shared(buffer) => buffer,
        }
    }

    /// Shape and strides.
    #[must_use]
    pub fn layout(&self) -> &TensorLayout {
        &self.layout
    }

    /// Extents of the dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// Whether the elements may only be read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The device whose memory it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.buffer().device()
    }

    /// The elements in row-major order, for a kernel that takes `&[T]`.
    ///
    /// # Errors
    /// [`ExchangeError::NotContiguous`] when they lie in another order or with gaps.
    pub fn as_slice(&self) -> Result<DeviceSlice<'_, T>> {
        self.check_contiguous()?;
        Ok(self.as_span())
    }

    /// The elements in row-major order, for a kernel that takes `GridSliceMut<T>`.
    ///
    /// # Errors
    /// [`ExchangeError::NotContiguous`] as [`as_slice`](Self::as_slice), [`ExchangeError::ReadOnly`] when they may only be read.
    pub fn as_slice_mut(&mut self) -> Result<DeviceSliceMut<'_, T>> {
        self.check_contiguous()?;
        let span = self.layout.span();
        match &mut self.elements {
            Elements::Owned(buffer) if !self.is_read_only => Ok(buffer.slice_mut(..span)),
            _ => Err(ExchangeError::ReadOnly { operation: "a slice to be written was asked for" }.into()),
        }
    }

    /// All memory from the first element to the last, gaps included, for a kernel that reads it with
    /// [`strides`](TensorLayout::strides).
    #[must_use]
    pub fn as_span(&self) -> DeviceSlice<'_, T> {
        self.buffer().slice(..self.layout.span())
    }

    /// The elements in row-major order, whatever the strides, once the stream's work is done.
    ///
    /// # Errors
    /// What the stream's earlier work did wrong.
    pub fn to_host(&self, stream: &Stream) -> Result<Vec<T>> {
        let span = self.as_span().to_host(stream)?;
        if self.layout.is_contiguous() {
            return Ok(span);
        }
        Ok(self.layout.offsets().map(|offset| span[offset]).collect())
    }

    /// See [`DeviceBuffer::release_in_order`]. False also for a tensor of a shared buffer.
    ///
    /// # Safety
    /// Once the memory is given back, its owner uses it again in order of `stream` only.
    pub unsafe fn release_in_order(&mut self, stream: &Stream) -> bool {
        match &mut self.elements {
            // SAFETY: the caller's promise.
            Elements::Owned(buffer) => unsafe { buffer.release_in_order(stream) },
            Elements::Shared(_) => false,
        }
    }

    fn check_contiguous(&self) -> Result<(), ExchangeError> {
        if self.layout.is_contiguous() {
            return Ok(());
        }
        let (shape, strides) = (self.layout.shape().to_vec(), self.layout.strides().to_vec());
        Err(ExchangeError::NotContiguous { shape, strides })
    }
}

fn check_inside(layout: &TensorLayout, len: usize) -> Result<(), ExchangeError> {
    if layout.span() <= len { Ok(()) } else { Err(ExchangeError::OutsideBuffer { needed: layout.span(), len }) }
}

impl<T: KernelValue> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("element", &std::any::type_name::<T>())
            .field("layout", &self.layout)
            .field("is_read_only", &self.is_read_only)
            .field("device", self.device())
            .finish()
    }
}
