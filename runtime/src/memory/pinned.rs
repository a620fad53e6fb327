//! Page-locked memory of the host: pinned and registered buffers, which a GPU copies from and to while the host goes on.

use std::fmt;
use std::mem::{align_of, size_of};
use std::ops::{Deref, DerefMut};

use bytemuck::Zeroable;
use warpsmith_device::abi::KernelValue;

use super::storage::{ALIGN, out_of_memory};
use crate::device::Device;
use crate::driver::{PinnedMemory, Registration};
use crate::error::{Error, MemoryError, Result};
use crate::outside::{self, Inside, Kept};

/// An operation that took a buffer failed; the buffer comes back with the error.
///
/// `?` in a function that returns [`Result`](crate::Result) passes the error on and drops the buffer.
pub struct BufferError<B>(Box<(Error, Option<B>)>);

impl<B> BufferError<B> {
    pub(super) fn new(error: impl Into<Error>, buffer: B) -> Self {
        Self::with(error, Some(buffer))
    }

    pub(super) fn with(error: impl Into<Error>, buffer: Option<B>) -> Self {
        Self(Box::new((error.into(), buffer)))
    }

    /// What went wrong.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.0.0
    }

    /// The buffer; `None` only when the driver would not say whether its copy is over, so that nobody may touch the memory.
    #[must_use]
    pub fn into_buffer(self) -> Option<B> {
        self.0.1
    }

    /// What went wrong, and the buffer, as [`into_buffer`](Self::into_buffer) gives it.
    #[must_use]
    pub fn into_parts(self) -> (Error, Option<B>) {
        *self.0
    }
}

impl<B> From<BufferError<B>> for Error {
    fn from(failed: BufferError<B>) -> Self {
        failed.into_parts().0
    }
}

impl<B> fmt::Debug for BufferError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.error(), f)
    }
}

impl<B> fmt::Display for BufferError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.error(), f)
    }
}

impl<B> std::error::Error for BufferError<B> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error().source()
    }
}

/// Size in bytes of so many elements.
pub(super) fn size_in_bytes<T>(len: usize) -> Result<usize, MemoryError> {
    let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
    bytes.ok_or(MemoryError::SizeOverflow { len, element_bytes: size_of::<T>() })
}

/// Elements in page-locked memory of the host: a slice that a GPU copies from and to at the bus's full speed, while the host
/// goes on.
///
/// Made by [`Device::pinned`] and [`Device::pinned_from`]; copied by [`Stream::copy_to_device`](crate::Stream::copy_to_device),
/// [`Stream::copy_to_host`](crate::Stream::copy_to_host) and within [`Stream::scope`](crate::Stream::scope). On the CPU executor
/// it is ordinary memory.
pub struct PinnedBuffer<T: KernelValue> {
    memory: Memory<T>,
    len: usize, // Invariant: elements of `T` in `memory`.
    device: Device,
}

enum Memory<T> {
    /// Of the executor, or without bytes.
    Heap(Vec<T>),
    Locked(PinnedMemory),
}

impl Device {
    /// Page-locked host memory of `len` elements, all of whose bytes are zero.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when there is not that much to be page-locked, [`MemoryError::SizeOverflow`] when the bytes
    /// are more than can be addressed.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let device = Device::cpu();
    /// let stream = device.stream()?;
    /// let mut numbers = device.pinned::<f32>(1000)?;
    /// numbers[7] = 1.5;
    /// let mut on_device = stream.zeroed::<f32>(1000)?;
    /// // The buffer moves in, so that nobody touches it before the copy is over.
    /// let copy = stream.copy_to_device(numbers, &mut on_device)?;
    /// let numbers = copy.wait()?;
    /// assert_eq!(stream.to_host(&on_device)?, *numbers);
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn pinned<T: KernelValue + Zeroable>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        let bytes = size_in_bytes::<T>(len)?;
        PinnedBuffer::new(self, len, bytes, |to: *mut T| {
            // SAFETY: `new` gives room for so many bytes, and for this type zeros are values.
            unsafe { to.cast::<u8>().write_bytes(0, bytes) };
        })
    }

    /// Page-locked host memory with these elements.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when there is not that much to be page-locked.
    pub fn pinned_from<T: KernelValue>(&self, elements: &[T]) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::new(self, elements.len(), size_of_val(elements), |to: *mut T| {
            // SAFETY: `new` gives fresh room for so many elements.
            unsafe { to.copy_from_nonoverlapping(elements.as_ptr(), elements.len()) };
        })
    }

    /// Page-locks a vector's memory where it is, so that it need not be copied into a [`PinnedBuffer`]. The vector moves in,
    /// and comes back from [`RegisteredBuffer::into_vec`].
    ///
    /// Registering takes the system about as long as a copy of the memory: it pays for vectors that are copied several times.
    /// On the CPU executor nothing is locked.
    ///
    /// # Errors
    /// The [`MemoryError`] and the vector, when the system does not lock that much memory.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let device = Device::cpu();
    /// let stream = device.stream()?;
    /// let registered = device.register(vec![1u32, 2, 3])?;
    /// let mut on_device = stream.zeroed::<u32>(3)?;
    /// let registered = stream.copy_to_device(registered, &mut on_device)?.wait()?;
    /// assert_eq!(registered.into_vec(), [1, 2, 3]);
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn register<T: KernelValue>(&self, mut elements: Vec<T>) -> Result<RegisteredBuffer<T>, BufferError<Vec<T>>> {
        let bytes = size_of_val(elements.as_slice());
        let registration = match self.parts() {
            Some(parts) if bytes != 0 => {
                // SAFETY: the vector moves into the buffer, which drops the registration first and never lets it grow.
                match unsafe { Registration::new(&parts.gpu, elements.as_mut_ptr().cast(), bytes) } {
                    Ok(registration) => Some(registration),
                    Err(source) => {
                        let error = host_allocation_failed(bytes, "page-locking memory of the host", source);
                        return Err(BufferError::new(error, elements));
                    }
                }
            }
            _ => None,
        };
        Ok(RegisteredBuffer { locked: Kept::new(Locked { registration, elements }), device: self.clone() })
    }
}

/// The error of the host's memory, of which the device's figures say nothing.
pub(super) fn host_allocation_failed(
    bytes: usize,
    operation: &'static str,
    source: crate::error::DriverError,
) -> Error {
    if source.code == crate::driver::code::OUT_OF_MEMORY {
        let info = Device::cpu().memory_info().map_or((0, 0), |info| (info.free, info.total));
        let (device, (free, total)) = ("the host, as page-locked memory".to_owned(), info);
        return MemoryError::OutOfMemory { device, requested: bytes as u64, free, total }.into();
    }
    MemoryError::Driver { operation, bytes: bytes as u64, source }.into()
}

impl<T: KernelValue> PinnedBuffer<T> {
    /// `fill` writes all elements.
    fn new(device: &Device, len: usize, bytes: usize, fill: impl FnOnce(*mut T)) -> Result<Self> {
        const { assert!(align_of::<T>() <= ALIGN, "pinned memory is aligned to 256 bytes at least") };
        let memory = match device.parts() {
            Some(parts) if bytes != 0 => {
                let memory = PinnedMemory::new(&parts.gpu, bytes);
                let memory =
                    memory.map_err(|source| host_allocation_failed(bytes, "allocating page-locked memory", source))?;
                fill(memory.host().as_ptr().cast());
                Memory::Locked(memory)
            }
            _ => {
                let mut elements = Vec::new();
                elements.try_reserve_exact(len).map_err(|_| out_of_memory(&Device::cpu(), bytes))?;
                fill(elements.as_mut_ptr());
                // SAFETY: room for `len` elements was reserved, and `fill` wrote them.
                unsafe { elements.set_len(len) };
                Memory::Heap(elements)
            }
        };
        Ok(Self { memory, len, device: device.clone() })
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The device for which it was made; streams of other devices take it too.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl<T: KernelValue> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.memory {
            Memory::Heap(elements) => elements,
            // SAFETY: the memory has `len` elements, written when it was made, page-aligned, and borrowed with the buffer.
            Memory::Locked(memory) => unsafe { std::slice::from_raw_parts(memory.host().as_ptr().cast(), self.len) },
        }
    }
}

impl<T: KernelValue> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Heap(elements) => elements,
            // SAFETY: as above, and borrowed by nobody else.
            Memory::Locked(memory) => unsafe {
                std::slice::from_raw_parts_mut(memory.host().as_ptr().cast(), self.len)
            },
        }
    }
}

impl<T: KernelValue> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug::<T>(f, "PinnedBuffer", self.len, &self.device)
    }
}

/// A vector whose memory is page-locked for as long as it is in here: [`Device::register`].
pub struct RegisteredBuffer<T: KernelValue> {
    locked: Kept<Locked<T>>,
    device: Device,
}

struct Locked<T> {
    // Dropped before the elements, to which it refers.
    registration: Option<Registration>,
    elements: Vec<T>,
}

impl<T: KernelValue> RegisteredBuffer<T> {
    /// The vector, as ordinary memory again; in a [host task](crate::Stream::host_task), which cannot unlock memory, a copy of it.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<T> {
        if outside::inside() == Inside::Gpu {
            return self.locked.elements.clone();
        }
        let Locked { registration, elements } = &mut *self.locked;
        drop(registration.take());
        std::mem::take(elements)
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        size_of_val(self.locked.elements.as_slice())
    }

    /// The device for which it was registered; streams of other devices take it too.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl<T: KernelValue> Deref for RegisteredBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.locked.elements
    }
}

impl<T: KernelValue> DerefMut for RegisteredBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.locked.elements
    }
}

impl<T: KernelValue> fmt::Debug for RegisteredBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug::<T>(f, "RegisteredBuffer", self.locked.elements.len(), &self.device)
    }
}

fn debug<T>(f: &mut fmt::Formatter<'_>, name: &str, len: usize, device: &Device) -> fmt::Result {
    let element = std::any::type_name::<T>();
    f.debug_struct(name).field("element", &element).field("len", &len).field("device", device).finish()
}

mod sealed {
    pub trait Sealed {}
}

impl<T: KernelValue> sealed::Sealed for PinnedBuffer<T> {}
impl<T: KernelValue> sealed::Sealed for RegisteredBuffer<T> {}

/// Host memory that may move into a copy which goes on: [`PinnedBuffer`] and [`RegisteredBuffer`]. Its elements stay where they
/// are when it moves.
pub trait HostBuffer: sealed::Sealed + Send + DerefMut<Target = [Self::Element]> + 'static {
    /// The elements.
    type Element: KernelValue;
}

impl<T: KernelValue> HostBuffer for PinnedBuffer<T> {
    type Element = T;
}

impl<T: KernelValue> HostBuffer for RegisteredBuffer<T> {
    type Element = T;
}
