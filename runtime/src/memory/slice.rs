//! Slices: borrowed parts of a buffer.

use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::{Bound, RangeBounds};

use warpsmith_device::abi::{DeviceElement, KernelValue};
use warpsmith_device::{Plane, Vector, Volume};

use super::buffer::DeviceBuffer;
use super::pattern::Pattern;
use super::storage::{ALIGN, Storage};
use super::uses::Access;
use super::view::DeviceViewMut;
use crate::device::Device;
use crate::error::{MemoryError, Result};
use crate::stream::Stream;

/// A part of a buffer, to be read: what a kernel takes as `&[T]`.
pub struct DeviceSlice<'a, T: DeviceElement> {
    storage: &'a Storage,
    start: usize, // Invariant: `start + len` elements of `T` are inside `storage`.
    len: usize,
    _elements: PhantomData<&'a [T]>,
}

/// A part of a buffer, to be written: what a kernel takes as `GridSliceMut<T>`.
pub struct DeviceSliceMut<'a, T: DeviceElement> {
    storage: &'a Storage,
    start: usize, // Invariant: `start + len` elements of `T` are inside `storage`, borrowed by nobody else.
    len: usize,
    _elements: PhantomData<&'a mut [T]>,
}

impl<T: DeviceElement> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: DeviceElement> Copy for DeviceSlice<'_, T> {}

/// Start and length of a range, when it is inside `0..len`.
fn resolve(range: &impl RangeBounds<usize>, len: usize) -> Result<(usize, usize), MemoryError> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if start <= end && end <= len { Ok((start, end - start)) } else { Err(MemoryError::Range { start, end, len }) }
}

impl<'a, T: DeviceElement> DeviceSlice<'a, T> {
    pub(crate) fn new(storage: &'a Storage, start: usize, len: usize) -> Self {
        debug_assert!((start + len) * size_of::<T>() <= storage.bytes());
        Self { storage, start, len, _elements: PhantomData }
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

    /// The device whose memory it is.
    #[must_use]
    pub fn device(&self) -> &'a Device {
        self.storage.device()
    }

    /// A part of this slice, or `None` when the range is not inside it.
    #[must_use]
    pub fn get(&self, range: impl RangeBounds<usize>) -> Option<Self> {
        let (start, len) = resolve(&range, self.len).ok()?;
        Some(Self::new(self.storage, self.start + start, len))
    }

    /// A part of this slice.
    ///
    /// # Panics
    /// When the range is not inside the slice.
    #[must_use]
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        match resolve(&range, self.len) {
            Ok((start, len)) => Self::new(self.storage, self.start + start, len),
            Err(error) => panic!("{error}"),
        }
    }

    /// The elements before `middle`, and the others.
    ///
    /// # Panics
    /// When `middle` is past the end.
    #[must_use]
    #[track_caller]
    pub fn split_at(&self, middle: usize) -> (Self, Self) {
        (self.slice(..middle), self.slice(middle..))
    }

    /// The same elements as vectors, for a kernel that takes `&[F32x4]` and the like: it then reads 16 bytes at a time.
    ///
    /// # Errors
    /// [`MemoryError::NotVectors`] when the length is no multiple of a vector's, or the slice starts between two.
    pub fn as_vectors<V: Vector<Lane = T>>(&self) -> Result<DeviceSlice<'a, V>> {
        let (start, len) = vectors::<V>(self.storage, self.start, self.len)?;
        Ok(DeviceSlice::new(self.storage, start, len))
    }

    /// Copies all elements to the host, once the stream's work is done.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when the lengths differ; what the stream's earlier work did wrong.
    pub fn copy_to_host(&self, stream: &Stream, elements: &mut [T]) -> Result<()>
    where
        T: KernelValue,
    {
        check_lengths(self.len, elements.len())?;
        let bytes = size_of_val(elements);
        // SAFETY: the slice is inside the storage and as long as `elements`; its bytes are elements of `T`.
        unsafe { self.storage.copy_to_host(stream, self.offset(), elements.as_mut_ptr().cast(), bytes) }
    }

    /// The elements, once the stream's work is done.
    ///
    /// # Errors
    /// What the stream's earlier work did wrong.
    pub fn to_host(&self, stream: &Stream) -> Result<Vec<T>> {
        let mut elements: Vec<T> = Vec::new();
        let bytes = self.len * size_of::<T>();
        elements.try_reserve_exact(self.len).map_err(|_| {
            let (free, total) = Device::cpu().memory_info().map_or((0, 0), |info| (info.free, info.total));
            MemoryError::OutOfMemory { device: "the host".to_owned(), requested: bytes as u64, free, total }
        })?;
        // SAFETY: room for `len` elements was reserved; the slice is inside the storage.
        unsafe { self.storage.copy_to_host(stream, self.offset(), elements.as_mut_ptr().cast(), bytes) }?;
        // SAFETY: the copy is done and wrote `len` elements: a buffer's bytes are always elements of its type, which are
        // plain data, so copies of them are values too.
        unsafe { elements.set_len(self.len) };
        Ok(elements)
    }

    pub(super) fn offset(&self) -> usize {
        self.start * size_of::<T>()
    }

    /// Size in bytes.
    #[inline]
    pub(crate) fn size_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The first element's number in the storage.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn storage(&self) -> &'a Storage {
        self.storage
    }

    /// Where kernels find the first element.
    #[inline]
    pub(crate) fn pointer(&self) -> *const T {
        self.storage.pointer().wrapping_add(self.offset()).cast_const().cast()
    }
}

impl<'a, T: DeviceElement> DeviceSliceMut<'a, T> {
    /// The caller holds the only borrow of these elements for `'a`.
    pub(crate) fn new(storage: &'a Storage, start: usize, len: usize) -> Self {
        debug_assert!((start + len) * size_of::<T>() <= storage.bytes());
        Self { storage, start, len, _elements: PhantomData }
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

    /// The device whose memory it is.
    #[must_use]
    pub fn device(&self) -> &'a Device {
        self.storage.device()
    }

    /// The same elements for a shorter time, to be passed on and used again.
    #[must_use]
    pub fn reborrow(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::new(self.storage, self.start, self.len)
    }

    /// The same elements, to be read.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::new(self.storage, self.start, self.len)
    }

    /// A part of this slice.
    ///
    /// # Panics
    /// When the range is not inside the slice.
    #[must_use]
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> DeviceSliceMut<'_, T> {
        self.reborrow().into_slice(range)
    }

    /// As [`slice_mut`](Self::slice_mut), for as long as this slice was borrowed.
    ///
    /// # Panics
    /// When the range is not inside the slice.
    #[must_use]
    #[track_caller]
    pub fn into_slice(self, range: impl RangeBounds<usize>) -> Self {
        match resolve(&range, self.len) {
            Ok((start, len)) => Self::new(self.storage, self.start + start, len),
            Err(error) => panic!("{error}"),
        }
    }

    /// The elements before `middle`, and the others, to be written apart.
    ///
    /// # Panics
    /// When `middle` is past the end.
    #[must_use]
    #[track_caller]
    pub fn split_at(self, middle: usize) -> (Self, Self) {
        assert!(middle <= self.len, "split at {middle} of a slice of {} elements", self.len);
        let second = Self::new(self.storage, self.start + middle, self.len - middle);
        (Self::new(self.storage, self.start, middle), second)
    }

    /// The same elements as vectors, for a kernel that takes `GridSliceMut<F32x4>` and the like: it then writes 16 bytes at
    /// a time.
    ///
    /// # Errors
    /// [`MemoryError::NotVectors`] when the length is no multiple of a vector's, or the slice starts between two.
    pub fn into_vectors<V: Vector<Lane = T>>(self) -> Result<DeviceSliceMut<'a, V>> {
        let (start, len) = vectors::<V>(self.storage, self.start, self.len)?;
        Ok(DeviceSliceMut::new(self.storage, start, len))
    }

    /// The elements as rows whose starts are `stride` elements apart, for a kernel that takes `GridSliceMut<T, Plane>`, or one
    /// with `Tiles<N>`, `TransposedTiles<N>` or `Patches<R, C>` for `Plane`.
    ///
    /// # Errors
    /// [`MemoryError::ViewTooLarge`], and [`MemoryError::StrideTooSmall`] when `stride` is less than `width`.
    pub fn into_plane(self, width: usize, height: usize, stride: usize) -> Result<DeviceViewMut<'a, T, Plane>> {
        DeviceViewMut::plane(self, width, height, stride)
    }

    /// The elements as a dense volume, x fastest, for a kernel that takes `GridSliceMut<T, Volume>`.
    ///
    /// # Errors
    /// [`MemoryError::ViewTooLarge`] when the slice has fewer elements.
    pub fn into_volume(self, width: usize, height: usize, depth: usize) -> Result<DeviceViewMut<'a, T, Volume>> {
        DeviceViewMut::volume(self, width, height, depth)
    }

    /// Copies all elements from the host.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when the lengths differ, [`MemoryError::OtherDevice`] for another device's stream.
    pub fn copy_from_host(&mut self, stream: &Stream, elements: &[T]) -> Result<()>
    where
        T: KernelValue,
    {
        self.write(stream, Access::Shared, elements)
    }

    pub(super) fn write(&mut self, stream: &Stream, access: Access, elements: &[T]) -> Result<()>
    where
        T: KernelValue,
    {
        check_lengths(elements.len(), self.len)?;
        let bytes = size_of_val(elements);
        // SAFETY: the slice is inside the storage, as long as `elements`, and borrowed by nobody else.
        unsafe { self.storage.copy_from_host(stream, access, self.offset(), elements.as_ptr().cast(), bytes) }
    }

    /// Copies all elements from another buffer or slice of the device.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when the lengths differ, [`MemoryError::OtherDevice`] for another device.
    pub fn copy_from_device<'b>(&mut self, stream: &Stream, source: impl Into<DeviceSlice<'b, T>>) -> Result<()>
    where
        T: KernelValue,
    {
        self.write_from_device(stream, Access::Shared, source.into())
    }

    pub(super) fn write_from_device(
        &mut self,
        stream: &Stream,
        access: Access,
        source: DeviceSlice<'_, T>,
    ) -> Result<()>
    where
        T: KernelValue,
    {
        check_lengths(source.len, self.len)?;
        let bytes = self.len * size_of::<T>();
        let from = (source.storage, source.offset());
        // SAFETY: both slices are inside their storages and of one length; this one is borrowed by nobody else, so they do
        // not overlap.
        unsafe { self.storage.copy_on_device(stream, access, self.offset(), from, bytes) }
    }

    /// Copies elements within the slice: those of `source` to as many from `destination` on.
    ///
    /// # Errors
    /// [`MemoryError::Overlap`] when the two parts overlap, [`MemoryError::Range`] when one is not inside the slice.
    pub fn copy_within(&mut self, stream: &Stream, source: impl RangeBounds<usize>, destination: usize) -> Result<()>
    where
        T: KernelValue,
    {
        let (source_start, len) = resolve(&source, self.len)?;
        let end = destination.saturating_add(len);
        if end > self.len {
            return Err(MemoryError::Range { start: destination, end, len: self.len }.into());
        }
        if len != 0 && source_start.abs_diff(destination) < len {
            return Err(MemoryError::Overlap { source_start, destination_start: destination, len }.into());
        }
        let bytes = len * size_of::<T>();
        let from = (self.storage, self.offset() + source_start * size_of::<T>());
        let to = self.offset() + destination * size_of::<T>();
        // SAFETY: both parts are inside the slice, which is borrowed by nobody else, and do not overlap.
        unsafe { self.storage.copy_on_device(stream, Access::Shared, to, from, bytes) }
    }

    /// Sets all elements to a value.
    ///
    /// # Errors
    /// [`MemoryError`] when the driver refuses.
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<()>
    where
        T: KernelValue,
    {
        if let Some(pattern) = Pattern::of(&value) {
            // SAFETY: the slice is inside the storage and borrowed by nobody else; the pattern is an element's bits.
            return unsafe { self.storage.fill(stream, Access::Shared, self.offset(), pattern, self.len) };
        }
        // A short run from the host, then copies of what is there, each doubling it.
        let mut done = self.len.min((4096 / size_of::<T>().max(1)).max(1));
        self.slice_mut(..done).copy_from_host(stream, &vec![value; done])?;
        while done < self.len {
            let (filled, mut rest) = self.reborrow().split_at(done);
            let count = filled.len.min(rest.len);
            rest.slice_mut(..count).copy_from_device(stream, filled.as_slice().slice(..count))?;
            done += count;
        }
        Ok(())
    }

    pub(super) fn offset(&self) -> usize {
        self.start * size_of::<T>()
    }

    /// Size in bytes.
    #[inline]
    pub(crate) fn size_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The first element's number in the storage.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn storage(&self) -> &'a Storage {
        self.storage
    }

    /// Where kernels find the first element.
    #[inline]
    pub(crate) fn pointer(&self) -> *mut T {
        self.storage.pointer().wrapping_add(self.offset()).cast()
    }
}

/// Start and length in vectors of a part of a storage that has them in lanes.
fn vectors<V: Vector>(storage: &Storage, start: usize, len: usize) -> Result<(usize, usize), MemoryError> {
    // Storages start at a multiple of every vector's size, but for other libraries' memory.
    let address = storage.pointer().addr();
    if len != 0 && !address.is_multiple_of(size_of::<V>()) {
        let (vector, align) = (std::any::type_name::<V>(), size_of::<V>());
        return Err(MemoryError::VectorsMisaligned { vector, address: address as u64, align });
    }
    const { assert!(size_of::<V>() <= ALIGN && size_of::<V>() == V::LANES * size_of::<V::Lane>()) };
    if len.is_multiple_of(V::LANES) && (start.is_multiple_of(V::LANES) || len == 0) {
        return Ok((start / V::LANES, len / V::LANES));
    }
    Err(MemoryError::NotVectors { vector: std::any::type_name::<V>(), lanes: V::LANES, start, len })
}

pub(super) fn check_lengths(source_len: usize, destination_len: usize) -> Result<(), MemoryError> {
    if source_len == destination_len {
        Ok(())
    } else {
        Err(MemoryError::LengthMismatch { source_len, destination_len })
    }
}

impl<'a, T: DeviceElement> From<&'a DeviceBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: DeviceElement> From<&'a mut DeviceBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: DeviceElement> From<&'a DeviceSliceMut<'_, T>> for DeviceSlice<'a, T> {
    fn from(slice: &'a DeviceSliceMut<'_, T>) -> Self {
        slice.as_slice()
    }
}

impl<'a, T: DeviceElement> From<&DeviceSlice<'a, T>> for DeviceSlice<'a, T> {
    fn from(slice: &DeviceSlice<'a, T>) -> Self {
        *slice
    }
}

impl<'a, T: DeviceElement> From<&'a mut DeviceBuffer<T>> for DeviceSliceMut<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_slice_mut()
    }
}

impl<T: DeviceElement> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(f, "DeviceSlice", self.start, self.len, self.storage.device())
    }
}

impl<T: DeviceElement> fmt::Debug for DeviceSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(f, "DeviceSliceMut", self.start, self.len, self.storage.device())
    }
}

fn debug(f: &mut fmt::Formatter<'_>, name: &str, start: usize, len: usize, device: &Device) -> fmt::Result {
    f.debug_struct(name).field("start", &start).field("len", &len).field("device", device).finish()
}
