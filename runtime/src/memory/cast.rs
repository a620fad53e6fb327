//! Casts: the same bytes as elements of another type, where both types and the bounds allow it.

use std::any::type_name;
use std::mem::{align_of, size_of};

use bytemuck::{AnyBitPattern, NoUninit};
use warpsmith_device::abi::KernelValue;

use super::buffer::DeviceBuffer;
use super::pinned::BufferError;
use super::slice::{DeviceSlice, DeviceSliceMut};
use super::storage::{ALIGN, Storage};
use crate::error::{MemoryError, Result};

/// Start and length in elements of `U` of a part of a storage that has them in elements of `T`.
fn cast<T, U>(storage: &Storage, start: usize, len: usize) -> Result<(usize, usize), MemoryError> {
    const { assert!(align_of::<U>() <= ALIGN, "storages are aligned to 256 bytes") };
    let refused = || MemoryError::Cast {
        from: type_name::<T>(),
        from_bytes: size_of::<T>(),
        to: type_name::<U>(),
        to_bytes: size_of::<U>(),
        to_align: align_of::<U>(),
        start,
        len,
    };
    // A slice is inside its storage, so these products do not wrap.
    let (first, bytes, each) = (start * size_of::<T>(), len * size_of::<T>(), size_of::<U>());
    if bytes == 0 {
        return Ok((0, 0));
    }
    // Storages start at a multiple of every alignment, but for other libraries' memory.
    let address = storage.pointer().addr();
    if !address.is_multiple_of(align_of::<U>()) {
        let (vector, align) = (type_name::<U>(), align_of::<U>());
        return Err(MemoryError::VectorsMisaligned { vector, address: address as u64, align });
    }
    // A multiple of a type's size is one of its alignment.
    if each != 0 && first.is_multiple_of(each) && bytes.is_multiple_of(each) {
        return Ok((first / each, bytes / each));
    }
    Err(refused())
}

impl<'a, T: KernelValue + NoUninit> DeviceSlice<'a, T> {
    /// The same bytes as elements of another type.
    ///
    /// # Errors
    /// [`MemoryError::Cast`] when length or start in bytes are no multiples of the other type's size.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let stream = Device::cpu().stream()?;
    /// let floats = stream.to_device(&[1.0f32, -2.0, 0.5])?;
    /// assert_eq!(stream.to_host(floats.as_slice().cast::<u32>()?)?, [0x3f80_0000, 0xc000_0000, 0x3f00_0000]);
    /// assert!(floats.as_slice().cast::<u64>().is_err(), "12 bytes are no whole number of them");
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn cast<U: KernelValue + AnyBitPattern>(&self) -> Result<DeviceSlice<'a, U>> {
        let (start, len) = cast::<T, U>(self.storage(), self.start(), self.len())?;
        Ok(DeviceSlice::new(self.storage(), start, len))
    }
}

impl<'a, T: KernelValue + NoUninit + AnyBitPattern> DeviceSliceMut<'a, T> {
    /// The same bytes as elements of another type, to be written.
    ///
    /// # Errors
    /// As [`DeviceSlice::cast`].
    pub fn into_cast<U: KernelValue + NoUninit + AnyBitPattern>(self) -> Result<DeviceSliceMut<'a, U>> {
        let (start, len) = cast::<T, U>(self.storage(), self.start(), self.len())?;
        Ok(DeviceSliceMut::new(self.storage(), start, len))
    }
}

impl<T: KernelValue + NoUninit> DeviceBuffer<T> {
    /// The same memory as a buffer of elements of another type, without a copy.
    ///
    /// # Errors
    /// The buffer, and [`MemoryError::InGraph`] when a graph uses it, [`MemoryError::Cast`] when its length in bytes is no multiple of the other type's size.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let stream = Device::cpu().stream()?;
    /// let bytes = stream.to_device(&[1u8, 0, 0, 0, 2, 0, 0, 0])?;
    /// assert_eq!(stream.to_host(&bytes.into_cast::<u32>()?)?, [1u32.to_le(), 2u32.to_le()]);
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn into_cast<U: KernelValue + AnyBitPattern>(self) -> Result<DeviceBuffer<U>, BufferError<Self>> {
        if self.storage().is_in_graph() {
            return Err(BufferError::new(MemoryError::InGraph { from: type_name::<T>(), to: type_name::<U>() }, self));
        }
        match cast::<T, U>(self.storage(), 0, self.len()) {
            Ok((_, len)) => Ok(DeviceBuffer::from_storage(self.into_storage(), len)),
            Err(error) => Err(BufferError::new(error, self)),
        }
    }
}
