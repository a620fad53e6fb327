//! The buffer: device memory that owns its elements.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Zeroable;
use warpsmith_device::abi::{AtomicElement, DeviceElement, KernelValue};
use warpsmith_device::{Plane, Vector, Volume};

use super::slice::{DeviceSlice, DeviceSliceMut};
use super::storage::{ALIGN, Elements, Fresh, Storage};
use super::uses::Access;
use super::view::DeviceViewMut;
use crate::device::Device;
use crate::error::{MemoryError, Result};
use crate::outside::Kept;
use crate::stream::Stream;

/// Elements in a device's memory.
///
/// Made by a [`Stream`]; freed when dropped, after the last work that uses it. A buffer may be used on any stream of its
/// device: it keeps track of its uses, and a use on another stream waits for those before it.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// let stream = Device::cpu().stream()?;
/// let mut squares = stream.to_device(&[1, 4, 9, 16])?;
/// squares.slice_mut(1..3).copy_from_host(&stream, &[0, 0])?;
/// assert_eq!(stream.to_host(&squares)?, [1, 0, 0, 16]);
/// assert_eq!(stream.to_host(squares.slice(2..))?, [0, 16]);
/// # Ok::<(), warpsmith::Error>(())
/// ```
pub struct DeviceBuffer<T: DeviceElement> {
    storage: Kept<Arc<Storage>>, // Invariant: holds `len` elements of `T`.
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: DeviceElement> DeviceBuffer<T> {
    fn new(stream: &Stream, len: usize, fresh: Fresh) -> Result<Self> {
        const { assert!(align_of::<T>() <= ALIGN, "device memory is aligned to 256 bytes") };
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(MemoryError::SizeOverflow { len, element_bytes: size_of::<T>() })?;
        let elements = Elements { type_name: std::any::type_name::<T>(), bytes: size_of::<T>() };
        Ok(Self::from_storage(Storage::new(stream, bytes, fresh, elements)?.into_shared(), len))
    }

    /// The elements of a storage that holds `len` of them, aligned.
    pub(crate) fn from_storage(storage: Arc<Storage>, len: usize) -> Self {
        debug_assert_eq!(len.checked_mul(size_of::<T>()), Some(storage.bytes()));
        Self { storage: Kept::new(storage), len, _elements: PhantomData }
    }

    pub(crate) fn into_storage(self) -> Arc<Storage> {
        Arc::clone(&self.storage)
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// A buffer with these elements; [`Stream::to_device`].
    ///
    /// # Errors
    /// [`MemoryError`] when there is not that much memory.
    pub fn from_host(stream: &Stream, elements: &[T]) -> Result<Self>
    where
        T: KernelValue,
    {
        let mut buffer = Self::new(stream, elements.len(), Fresh::Uninit)?;
        buffer.copy_from_host(stream, elements)?;
        Ok(buffer)
    }

    /// A buffer whose bytes are all zero; [`Stream::zeroed`].
    ///
    /// # Errors
    /// [`MemoryError`] when there is not that much memory.
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self>
    where
        T: Zeroable,
    {
        Self::new(stream, len, Fresh::Zeroed)
    }

    /// A buffer of copies of a value; [`Stream::filled`].
    ///
    /// # Errors
    /// [`MemoryError`] when there is not that much memory.
    pub fn filled(stream: &Stream, value: T, len: usize) -> Result<Self>
    where
        T: KernelValue,
    {
        let mut buffer = Self::new(stream, len, Fresh::Uninit)?;
        buffer.fill(stream, value)?;
        Ok(buffer)
    }

    /// Length in elements.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.storage.bytes()
    }

    /// Where the elements lie, on the executor.
    pub(crate) fn executor_address(&self) -> usize {
        self.storage.pointer().addr()
    }

    /// The device whose memory it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.storage.device()
    }

    /// All elements, borrowed.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::new(&self.storage, 0, self.len)
    }

    /// All elements, borrowed to be written.
    #[must_use]
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::new(&self.storage, 0, self.len)
    }

    /// A part of the elements.
    ///
    /// # Panics
    /// When the range is not inside the buffer.
    #[must_use]
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> DeviceSlice<'_, T> {
        self.as_slice().slice(range)
    }

    /// A part of the elements, to be written.
    ///
    /// # Panics
    /// When the range is not inside the buffer.
    #[must_use]
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> DeviceSliceMut<'_, T> {
        self.as_slice_mut().into_slice(range)
    }

    /// Two parts, to be written apart.
    ///
    /// # Panics
    /// When `middle` is past the end.
    #[must_use]
    #[track_caller]
    pub fn split_at_mut(&mut self, middle: usize) -> (DeviceSliceMut<'_, T>, DeviceSliceMut<'_, T>) {
        self.as_slice_mut().split_at(middle)
    }

    /// All elements as vectors, for a kernel that takes `&[F32x4]` and the like: it then reads 16 bytes at a time.
    ///
    /// # Errors
    /// [`MemoryError::NotVectors`] when the length is no multiple of a vector's.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// #[kernel]
    /// fn double(x: &[F32x4], mut y: GridSliceMut<F32x4>) {
    ///     let i = global_idx();
    ///     if let Some(y) = y.get_mut(&i) {
    ///         *y = 2.0 * x[i.get()];
    ///     }
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// # let stream = Device::cpu().stream()?;
    /// let x = stream.to_device(&[1.0f32; 1000])?;
    /// let mut y = stream.zeroed::<f32>(1000)?;
    /// double::launch(&stream, LaunchConfig::for_len(250), x.as_vectors()?, y.as_vectors_mut()?)?;
    /// assert_eq!(stream.to_host(&y)?, [2.0; 1000]);
    /// assert!(x.slice(1..5).as_vectors::<F32x4>().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_vectors<V: Vector<Lane = T>>(&self) -> Result<DeviceSlice<'_, V>> {
        self.as_slice().as_vectors()
    }

    /// All elements as vectors, to be written: for a kernel that takes `GridSliceMut<F32x4>` and the like.
    ///
    /// # Errors
    /// [`MemoryError::NotVectors`] when the length is no multiple of a vector's.
    pub fn as_vectors_mut<V: Vector<Lane = T>>(&mut self) -> Result<DeviceSliceMut<'_, V>> {
        self.as_slice_mut().into_vectors()
    }

    /// The elements as rows of `width` without gaps, for a kernel that takes `GridSliceMut<T, Plane>`, or one with `Tiles<N>`,
    /// `TransposedTiles<N>` or `Patches<R, C>` for `Plane`.
    ///
    /// # Errors
    /// [`MemoryError::ViewTooLarge`] when the buffer has fewer elements.
    pub fn plane_mut(&mut self, width: usize, height: usize) -> Result<DeviceViewMut<'_, T, Plane>> {
        self.as_slice_mut().into_plane(width, height, width)
    }

    /// As [`plane_mut`](Self::plane_mut), with row starts `stride` elements apart.
    ///
    /// # Errors
    /// [`MemoryError::ViewTooLarge`], and [`MemoryError::StrideTooSmall`] when `stride` is less than `width`.
    pub fn plane_mut_with_stride(
        &mut self,
        width: usize,
        height: usize,
        stride: usize,
    ) -> Result<DeviceViewMut<'_, T, Plane>> {
        self.as_slice_mut().into_plane(width, height, stride)
    }

    /// The elements as a dense volume, x fastest, for a kernel that takes `GridSliceMut<T, Volume>`.
    ///
    /// # Errors
    /// [`MemoryError::ViewTooLarge`] when the buffer has fewer elements.
    pub fn volume_mut(&mut self, width: usize, height: usize, depth: usize) -> Result<DeviceViewMut<'_, T, Volume>> {
        self.as_slice_mut().into_volume(width, height, depth)
    }

    /// Copies all elements from the host.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when the lengths differ, [`MemoryError::OtherDevice`] for another device's stream.
    pub fn copy_from_host(&mut self, stream: &Stream, elements: &[T]) -> Result<()>
    where
        T: KernelValue,
    {
        self.as_slice_mut().write(stream, Access::Exclusive, elements)
    }

    /// Copies all elements to the host, once the stream's work is done.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when the lengths differ; what the stream's earlier work did wrong.
    pub fn copy_to_host(&self, stream: &Stream, elements: &mut [T]) -> Result<()>
    where
        T: KernelValue,
    {
        self.as_slice().copy_to_host(stream, elements)
    }

    /// Copies all elements from another buffer or slice of the device.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when the lengths differ, [`MemoryError::OtherDevice`] for another device.
    pub fn copy_from_device<'a>(&mut self, stream: &Stream, source: impl Into<DeviceSlice<'a, T>>) -> Result<()>
    where
        T: KernelValue,
    {
        self.as_slice_mut().write_from_device(stream, Access::Exclusive, source.into())
    }

    /// Copies elements within the buffer: those of `source` to as many from `destination` on.
    ///
    /// # Errors
    /// [`MemoryError::Overlap`] when the two parts overlap, [`MemoryError::Range`] when one is not inside the buffer.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let stream = Device::cpu().stream()?;
    /// let mut numbers = stream.to_device(&[1, 2, 3, 4, 5])?;
    /// numbers.copy_within(&stream, 0..2, 3)?;
    /// assert_eq!(stream.to_host(&numbers)?, [1, 2, 3, 1, 2]);
    /// assert!(numbers.copy_within(&stream, 0..2, 1).is_err());
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn copy_within(&mut self, stream: &Stream, source: impl RangeBounds<usize>, destination: usize) -> Result<()>
    where
        T: KernelValue,
    {
        self.as_slice_mut().copy_within(stream, source, destination)
    }

    /// Sets all elements to a value.
    ///
    /// # Errors
    /// [`MemoryError`] when the driver refuses.
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<()>
    where
        T: KernelValue,
    {
        self.as_slice_mut().fill(stream, value)
    }

    /// The same elements as atomics, for kernels that take `&[AtomicU32]` and the like over many launches.
    #[must_use]
    pub fn into_atomic<A: AtomicElement<Plain = T>>(self) -> DeviceBuffer<A> {
        // Other libraries' memory may have no more than the plain type's alignment.
        const { assert!(size_of::<A>() == size_of::<T>() && align_of::<A>() == align_of::<T>()) };
        DeviceBuffer { storage: self.storage, len: self.len, _elements: PhantomData }
    }

    /// The same elements without atomic access.
    #[must_use]
    pub fn into_plain(self) -> DeviceBuffer<T::Plain>
    where
        T: AtomicElement,
    {
        const { assert!(size_of::<T::Plain>() == size_of::<T>()) };
        DeviceBuffer { storage: self.storage, len: self.len, _elements: PhantomData }
    }

    /// The first element's address on the buffer's device, for `unsafe` kernels that take raw pointers.
    ///
    /// Uses through this address are not known to the buffer: launch on the stream that last used it, and keep the buffer
    /// until that work is done.
    #[must_use]
    pub fn as_device_ptr(&self) -> *const T {
        self.as_slice().pointer()
    }

    /// The address on a GPU, for code that uses cudarc beside this crate; `None` on the CPU executor and without elements.
    ///
    /// Uses through this address are not known to the buffer: order them yourself, on the stream that last used it.
    #[must_use]
    pub fn cuda_address(&self) -> Option<u64> {
        let on_gpu = self.storage.device().is_gpu() && self.storage.bytes() != 0;
        on_gpu.then(|| self.storage.pointer().addr() as u64)
    }
}

impl<T: KernelValue> DeviceBuffer<MaybeUninit<T>> {
    /// A buffer whose elements hold nothing yet; [`Stream::uninit`].
    ///
    /// # Errors
    /// [`MemoryError`] when there is not that much memory.
    pub fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        Self::new(stream, len, Fresh::Uninit)
    }

    /// Takes every element to be written.
    ///
    /// # Safety
    /// The work given to the buffer's streams so far writes every element. What a graph has only recorded is not given to a stream, and
    /// what it does when it is launched later leaves every element written.
    #[must_use]
    pub unsafe fn assume_init(self) -> DeviceBuffer<T> {
        DeviceBuffer { storage: self.storage, len: self.len, _elements: PhantomData }
    }
}

impl<T: DeviceElement> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer")
            .field("element", &std::any::type_name::<T>())
            .field("len", &self.len)
            .field("device", self.storage.device())
            .finish()
    }
}
