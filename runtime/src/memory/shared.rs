//! Memory that host and device share: mapped and managed buffers, arguments of kernels and slices of the host by turns.

use std::fmt;
use std::mem::{align_of, size_of};

use bytemuck::Zeroable;
use warpsmith_device::abi::KernelValue;

use super::block::GpuBlock;
use super::buffer::DeviceBuffer;
use super::pinned::{host_allocation_failed, size_in_bytes};
use super::slice::{DeviceSlice, DeviceSliceMut};
use super::storage::{ALIGN, Elements, Storage, allocation_failed, failed};
use super::uses::Access;
use crate::device::Device;
use crate::driver::{Attribute, GpuMemory, PinnedMemory};
use crate::error::{MemoryError, Result};
use crate::stream::Stream;

/// Page-locked memory of the host that kernels reach over the bus: [`Stream::mapped`].
///
/// It is an argument of kernels as a [`DeviceBuffer`] is. The host reads and writes it as a slice, through
/// [`as_host`](Self::as_host) and [`as_host_mut`](Self::as_host_mut), which wait for the work that uses it; while the host has the
/// slice, the borrow keeps launches out. Good for what a kernel touches once: each access travels over the bus.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// #[kernel]
/// fn double(mut x: GridSliceMut<u32>) {
///     if let Some(x) = x.get_mut(&global_idx()) {
///         *x *= 2;
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let stream = Device::cpu().stream()?;
/// let mut numbers = stream.mapped::<u32>(4)?;
/// numbers.as_host_mut()?.copy_from_slice(&[1, 2, 3, 4]);
/// double::launch(&stream, LaunchConfig::for_len(4), &mut numbers)?;
/// assert_eq!(numbers.as_host()?, [2, 4, 6, 8]);
/// # Ok(())
/// # }
/// ```
///
/// No launch while the host has it:
/// ```compile_fail
/// # use warpsmith::prelude::*;
/// # #[kernel]
/// # fn double(mut x: GridSliceMut<u32>) {}
/// # fn main() -> warpsmith::Result<()> {
/// # let stream = Device::cpu().stream()?;
/// let mut numbers = stream.mapped::<u32>(4)?;
/// let on_host = numbers.as_host()?;
/// double::launch(&stream, LaunchConfig::for_len(4), &mut numbers)?;
/// println!("{on_host:?}");
/// # Ok(())
/// # }
/// ```
pub struct MappedBuffer<T: KernelValue> {
    buffer: DeviceBuffer<T>, // Invariant: the host reaches its storage.
}

/// Memory at one address for host and device, which moves to whoever uses it: [`Stream::managed`].
///
/// It is used as a [`MappedBuffer`] is; kernels find it in the GPU's own memory after the first access.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// let stream = Device::cpu().stream()?;
/// let mut numbers = stream.managed::<f64>(3)?;
/// numbers.as_host_mut()?[1] = 2.5;
/// assert_eq!(stream.to_host(&numbers)?, [0.0, 2.5, 0.0]);
/// # Ok::<(), warpsmith::Error>(())
/// ```
pub struct ManagedBuffer<T: KernelValue> {
    buffer: DeviceBuffer<T>, // Invariant: the host reaches its storage.
}

fn elements<T>() -> Elements {
    const { assert!(align_of::<T>() <= ALIGN, "device memory is aligned to 256 bytes") };
    Elements { type_name: std::any::type_name::<T>(), bytes: size_of::<T>() }
}

impl Stream {
    /// Page-locked host memory of `len` elements that kernels reach, all of whose bytes are zero.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when there is not that much to be page-locked.
    pub fn mapped<T: KernelValue + Zeroable>(&self, len: usize) -> Result<MappedBuffer<T>> {
        let bytes = size_in_bytes::<T>(len)?;
        let storage = Storage::shared_with_host(self, bytes, elements::<T>(), |gpu| {
            let memory = PinnedMemory::new(gpu, bytes).map(GpuBlock::Mapped);
            memory.map_err(|source| host_allocation_failed(bytes, "allocating page-locked memory", source))
        })?;
        Ok(MappedBuffer { buffer: DeviceBuffer::from_storage(storage.into_shared(), len) })
    }

    /// Managed memory of `len` elements, all of whose bytes are zero.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when the device has not that much free memory: it is never more than that, so that kernels
    /// do not wait for pages which push each other out. [`MemoryError::Unsupported`] on GPUs where the host may not touch managed
    /// memory while any kernel runs (before Pascal, and on Windows): take [`mapped`](Self::mapped) there.
    pub fn managed<T: KernelValue + Zeroable>(&self, len: usize) -> Result<ManagedBuffer<T>> {
        let bytes = size_in_bytes::<T>(len)?;
        let device = self.device();
        if let Some(parts) = device.parts() {
            let concurrent = parts.gpu.attribute(Attribute::ConcurrentManagedAccess);
            if concurrent.map_err(|source| failed("asking for managed memory", bytes, source))? == 0 {
                return Err(MemoryError::Unsupported {
                    what: "managed memory",
                    device: device.to_string(),
                    reason: "the host may not touch it there while any kernel runs, of which no buffer can know; take mapped \
                             memory (`Stream::mapped`)",
                }
                .into());
            }
        }
        let info = device.memory_info()?;
        if bytes as u64 > info.free {
            let (requested, device) = (bytes as u64, device.to_string());
            return Err(MemoryError::OutOfMemory { device, requested, free: info.free, total: info.total }.into());
        }
        let storage = Storage::shared_with_host(self, bytes, elements::<T>(), |gpu| {
            let memory = GpuMemory::managed(gpu, bytes).map(GpuBlock::Managed);
            memory.map_err(|source| allocation_failed(device, bytes, source))
        })?;
        Ok(ManagedBuffer { buffer: DeviceBuffer::from_storage(storage.into_shared(), len) })
    }
}

macro_rules! shared_buffer {
    ($name:ident) => {
        impl<T: KernelValue> $name<T> {
            /// Length in elements.
            #[inline]
            #[must_use]
            pub fn len(&self) -> usize {
                self.buffer.len()
            }

            /// Whether it has no elements.
            #[inline]
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.buffer.is_empty()
            }

            /// Size in bytes.
            #[must_use]
            pub fn size_bytes(&self) -> usize {
                self.buffer.size_bytes()
            }

            /// The device that reaches it.
            #[must_use]
            pub fn device(&self) -> &Device {
                self.buffer.device()
            }

            /// The elements as a slice of the host, once the work that writes them is done. While it is borrowed, kernels
            /// may read the buffer and none can write it.
            ///
            /// # Errors
            /// What the work that wrote the elements did wrong.
            pub fn as_host(&self) -> Result<&[T]> {
                let start = self.wait(Access::Read)?;
                // SAFETY: the host reaches the storage, which has `len` elements, zeroed when it was made; what writes them
                // is done, and launches that write need the exclusive borrow.
                Ok(unsafe { std::slice::from_raw_parts(start, self.len()) })
            }

            /// The elements as a slice of the host to be written, once all work that uses them is done. While it is
            /// borrowed, no kernel can use the buffer.
            ///
            /// # Errors
            /// What the work that wrote the elements did wrong.
            pub fn as_host_mut(&mut self) -> Result<&mut [T]> {
                let start = self.wait(Access::Exclusive)?;
                // SAFETY: as above; what reads them is done too, and the exclusive borrow is held.
                Ok(unsafe { std::slice::from_raw_parts_mut(start, self.len()) })
            }

            fn wait(&self, access: Access) -> Result<*mut T> {
                self.buffer.storage().wait_on_host(access)?;
                let start = self.buffer.storage().host_pointer().expect("the host reaches the storage");
                Ok(start.cast())
            }

            /// All elements, borrowed: what a kernel takes as `&[T]`.
            #[must_use]
            pub fn as_slice(&self) -> DeviceSlice<'_, T> {
                self.buffer.as_slice()
            }

            /// All elements, borrowed to be written: what a kernel takes as `GridSliceMut<T>`.
            #[must_use]
            pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
                self.buffer.as_slice_mut()
            }

            pub(crate) fn buffer_mut(&mut self) -> &mut DeviceBuffer<T> {
                &mut self.buffer
            }
        }

        impl<'a, T: KernelValue> From<&'a $name<T>> for DeviceSlice<'a, T> {
            fn from(buffer: &'a $name<T>) -> Self {
                buffer.as_slice()
            }
        }

        impl<'a, T: KernelValue> From<&'a mut $name<T>> for DeviceSliceMut<'a, T> {
            fn from(buffer: &'a mut $name<T>) -> Self {
                buffer.as_slice_mut()
            }
        }

        impl<T: KernelValue> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let element = std::any::type_name::<T>();
                f.debug_struct(stringify!($name))
                    .field("element", &element)
                    .field("len", &self.len())
                    .field("device", self.device())
                    .finish()
            }
        }
    };
}

shared_buffer!(MappedBuffer);
shared_buffer!(ManagedBuffer);
