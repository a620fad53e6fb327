//! Memory at an address: the checks, and buffers over it.

use std::ptr::NonNull;

use warpsmith_device::abi::KernelValue;

use super::error::{ExchangeError, Refused};
use crate::device::Device;
use crate::error::{MemoryError, Result};
use crate::memory::{DeviceBuffer, Keeper, Storage};
use crate::stream::Stream;

/// Checks the address of `len` elements of `T`, and gives one that is not null also where there are none.
pub(super) fn check_address<T>(address: usize, len: usize) -> Result<NonNull<u8>> {
    let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
    let bytes = bytes.ok_or(MemoryError::SizeOverflow { len, element_bytes: size_of::<T>() })?;
    if bytes == 0 {
        return Ok(NonNull::<T>::dangling().cast());
    }
    let align = align_of::<T>();
    let pointer = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(address));
    let pointer = pointer.ok_or(ExchangeError::Null { len })?;
    if !address.is_multiple_of(align) {
        let element = std::any::type_name::<T>();
        return Err(ExchangeError::Misaligned { address: address as u64, align, element }.into());
    }
    Ok(pointer)
}

/// Checks that an address is memory of a GPU.
pub(super) fn check_gpu_address(device: &Device, address: u64) -> Result<(), ExchangeError> {
    let Some(parts) = device.parts() else { return Ok(()) };
    let unknown = |source| ExchangeError::UnknownAddress { address, device: device.to_string(), source };
    let found = parts.gpu.ordinal_of(address).map_err(|error| unknown(Some(error)))?.ok_or_else(|| unknown(None))?;
    if usize::try_from(found).ok() == device.ordinal() {
        return Ok(());
    }
    Err(ExchangeError::OtherGpu { address, found, device: device.to_string() })
}

impl<T: KernelValue> DeviceBuffer<T> {
    /// A buffer over memory at an address that something else owns; nothing is copied. When the buffer is dropped it waits for
    /// the work that uses it, and then drops `keeper`, which frees the memory or lets its owner do so.
    ///
    /// On a GPU the address is one of its own memory, on the CPU executor one of the host's. Work that was given to the GPU
    /// elsewhere and touches the memory comes before: in order of `stream`, for which
    /// [`Stream::wait_for_exchange`] and events serve. From then on the buffer orders what this crate does; other work goes
    /// after it by [`Stream::exchange_waits`] or once the stream is done. A [checked device](Device::cpu_checked) does not watch
    /// the memory.
    ///
    /// # Errors
    /// [`Refused`] with the keeper: [`ExchangeError::Null`], [`ExchangeError::Misaligned`], [`ExchangeError::OtherGpu`] and
    /// [`ExchangeError::UnknownAddress`]. Without elements the address is not looked at.
    ///
    /// # Safety
    /// There are `len` elements of `T` at the address, all of them valid values, until `keeper` is dropped. Meanwhile nobody else
    /// writes them, and nobody reads them while this buffer writes, except in order with this crate's work.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let stream = Device::cpu().stream()?;
    /// let mut numbers = Box::new([1.0f32, 2.0, 3.0]);
    /// let address = numbers.as_mut_ptr();
    /// // SAFETY: the box holds three numbers, and is moved into the buffer, so nobody else uses them.
    /// let buffer = unsafe { DeviceBuffer::from_raw_parts(&stream, address, 3, ()) }?;
    /// assert_eq!(stream.to_host(&buffer)?, [1.0, 2.0, 3.0]);
    /// drop(buffer);
    /// assert_eq!(numbers[2], 3.0);
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub unsafe fn from_raw_parts<K: Send + 'static>(
        stream: &Stream,
        address: *mut T,
        len: usize,
        keeper: K,
    ) -> Result<Self, Box<Refused<K>>> {
        let device = stream.device();
        let checked = check_address::<T>(address.expose_provenance(), len).and_then(|pointer| {
            if len * size_of::<T>() != 0 {
                check_gpu_address(device, address.addr() as u64)?;
            }
            Ok(pointer)
        });
        let pointer = match checked {
            Ok(pointer) => pointer,
            Err(error) => return Err(Refused::new(error, keeper)),
        };
        let keeper = Keeper::new(Box::new(keeper));
        // SAFETY: the caller's promise; the size was checked.
        let storage = unsafe { Storage::foreign(stream, pointer, len * size_of::<T>(), keeper) };
        Ok(Self::from_storage(storage.into_shared(), len))
    }

    /// Lets the keeper of memory from [`from_raw_parts`](Self::from_raw_parts) go without a wait of the host when the buffer is
    /// dropped: `stream` then waits for the work that uses the memory. False when the memory is this crate's own.
    ///
    /// # Safety
    /// Once the keeper is dropped, the memory is used again or freed in order of `stream` only.
    pub unsafe fn release_in_order(&mut self, stream: &Stream) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.storage().release_in_order(stream) }
    }
}
