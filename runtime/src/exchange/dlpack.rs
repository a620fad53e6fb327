//! DLPack: the C structs, taking a producer's tensor, and giving one to a consumer.

use std::ffi::c_void;
use std::fmt;
use std::ptr::{NonNull, null_mut};

use super::element::{DataType, ExchangeElement};
use super::error::{ExchangeError, Refused};
use super::layout::TensorLayout;
use super::order::{self, ExchangeStream};
use super::raw::{check_address, check_gpu_address};
use super::tensor::Tensor;
use crate::device::Device;
use crate::error::Result;
use crate::memory::{DeviceBuffer, Keeper, Storage};
use crate::outside::{self, Inside, Kept};
use crate::stream::Stream;

/// Memory of the host.
pub const CPU: i32 = 1;
/// Memory of a GPU.
pub const CUDA: i32 = 2;
/// Page-locked memory of the host.
pub const CUDA_HOST: i32 = 3;
/// Memory that moves between host and GPUs.
pub const CUDA_MANAGED: i32 = 13;

/// Set in [`DLManagedTensorVersioned::flags`] when the elements may only be read.
pub const FLAG_READ_ONLY: u64 = 1;

/// Where a tensor lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDevice {
    /// [`CPU`], [`CUDA`] and so on.
    pub device_type: i32,
    /// The GPU's number; 0 for memory of the host.
    pub device_id: i32,
}

/// Elements with a shape, without an owner.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DLTensor {
    /// The memory; may be null without elements.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// Type of the elements.
    pub dtype: DataType,
    /// `ndim` extents.
    pub shape: *mut i64,
    /// `ndim` strides in elements, or null for row-major without gaps.
    pub strides: *mut i64,
    /// From `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor with its owner's deleter, as all versions before 1.0 had it.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The owner's own.
    pub manager_ctx: *mut c_void,
    /// Called once by the consumer, with this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// The version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLPackVersion {
    /// Structs of another major version are laid out in another way.
    pub major: u32,
    /// Later minor versions add constants only.
    pub minor: u32,
}

/// A tensor with its owner's deleter, from version 1.0 on.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// The version; may be read whatever it is.
    pub version: DLPackVersion,
    /// The owner's own.
    pub manager_ctx: *mut c_void,
    /// Called once by the consumer, with this struct; may be called whatever the version is.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`FLAG_READ_ONLY`] and others.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// The two forms of a managed tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// [`DLManagedTensorVersioned`]: a capsule named `dltensor_versioned`, for consumers that pass `max_version=(1, 0)` or later.
    Versioned,
    /// [`DLManagedTensor`]: a capsule named `dltensor`. It cannot say that elements may only be read.
    Legacy,
}

/// The version that tensors are given in. 1.0 is what every consumer of versioned tensors reads.
const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 0 };

/// A DLPack tensor that is this value's own: when dropped it calls the tensor's deleter, exactly once.
///
/// # Examples
/// ```
/// use warpsmith::exchange::{ExchangeStream, Form, Tensor, TensorLayout};
/// use warpsmith::prelude::*;
///
/// let stream = Device::cpu().stream()?;
/// let buffer = stream.to_device(&[1.0f32, 2.0, 3.0, 4.0])?;
/// let tensor = Tensor::new(buffer, TensorLayout::contiguous(&[2, 2])?)?;
/// let managed = tensor.into_dlpack(ExchangeStream::UNORDERED, Form::Versioned)?;
/// assert_eq!(managed.data_type().unwrap().to_string(), "float32");
/// // SAFETY: the tensor is this program's own, and nobody else knows it.
/// let back = unsafe { managed.into_tensor::<f32>(&stream) }?;
/// assert_eq!(back.shape(), [2, 2]);
/// assert_eq!(stream.to_host(back.as_slice()?)?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), warpsmith::Error>(())
/// ```
pub struct ManagedTensor {
    raw: Raw,
}

#[derive(Clone, Copy)]
enum Raw {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Legacy(NonNull<DLManagedTensor>),
}

// SAFETY: whoever made the value promised that the deleter may be called from any thread; all else is only read.
unsafe impl Send for ManagedTensor {}

impl Drop for ManagedTensor {
    fn drop(&mut self) {
        if outside::inside() == Inside::Gpu {
            // Its owner's deleter may call the driver.
            return outside::discard(Self { raw: self.raw });
        }
        match self.raw {
            // SAFETY: the tensor is this value's own, so it is valid and its deleter was not called.
            Raw::Versioned(tensor) => unsafe {
                if let Some(delete) = (*tensor.as_ptr()).deleter {
                    delete(tensor.as_ptr());
                }
            },
            // SAFETY: as above.
            Raw::Legacy(tensor) => unsafe {
                if let Some(delete) = (*tensor.as_ptr()).deleter {
                    delete(tensor.as_ptr());
                }
            },
        }
    }
}

impl ManagedTensor {
    /// Takes a versioned tensor over.
    ///
    /// # Safety
    /// The pointer is a valid managed tensor of DLPack, laid out as its version says, that is handed over here: nobody else calls
    /// its deleter, which may be called from any thread.
    #[must_use]
    pub unsafe fn from_versioned(tensor: NonNull<DLManagedTensorVersioned>) -> Self {
        Self { raw: Raw::Versioned(tensor) }
    }

    /// Takes a legacy tensor over.
    ///
    /// # Safety
    /// As for [`from_versioned`](Self::from_versioned).
    #[must_use]
    pub unsafe fn from_legacy(tensor: NonNull<DLManagedTensor>) -> Self {
        Self { raw: Raw::Legacy(tensor) }
    }

    /// Which form it has.
    #[must_use]
    pub fn form(&self) -> Form {
        match self.raw {
            Raw::Versioned(_) => Form::Versioned,
            Raw::Legacy(_) => Form::Legacy,
        }
    }

    /// The struct's address, for a consumer, who now has to call the deleter: a [`DLManagedTensorVersioned`] or a
    /// [`DLManagedTensor`], as [`form`](Self::form) says.
    #[must_use]
    pub fn into_raw(self) -> NonNull<c_void> {
        let raw = self.raw;
        std::mem::forget(self);
        match raw {
            Raw::Versioned(tensor) => tensor.cast(),
            Raw::Legacy(tensor) => tensor.cast(),
        }
    }

    /// The tensor's description, and whether it may only be read.
    fn tensor(&self) -> Result<(DLTensor, bool), ExchangeError> {
        match self.raw {
            Raw::Versioned(tensor) => {
                // SAFETY: the version and the flags of a valid tensor may be read; its version is the first field of all.
                let version = unsafe { (*tensor.as_ptr()).version };
                if version.major != VERSION.major {
                    return Err(ExchangeError::Version { major: version.major, minor: version.minor });
                }
                // SAFETY: the major version is known, so the struct is laid out as here.
                let (tensor, flags) = unsafe { ((*tensor.as_ptr()).dl_tensor, (*tensor.as_ptr()).flags) };
                Ok((tensor, flags & FLAG_READ_ONLY != 0))
            }
            // SAFETY: the tensor is valid.
            Raw::Legacy(tensor) => Ok((unsafe { (*tensor.as_ptr()).dl_tensor }, false)),
        }
    }

    /// The type of the elements.
    ///
    /// # Errors
    /// [`ExchangeError::Version`] for a tensor of another major version.
    pub fn data_type(&self) -> Result<DataType, ExchangeError> {
        Ok(self.tensor()?.0.dtype)
    }

    /// Where the elements are.
    ///
    /// # Errors
    /// [`ExchangeError::Version`] for a tensor of another major version.
    pub fn device(&self) -> Result<DLDevice, ExchangeError> {
        Ok(self.tensor()?.0.device)
    }

    /// Whether the elements may only be read. A legacy tensor does not say.
    ///
    /// # Errors
    /// [`ExchangeError::Version`] for a tensor of another major version.
    pub fn is_read_only(&self) -> Result<bool, ExchangeError> {
        Ok(self.tensor()?.1)
    }

    /// Shape and strides.
    ///
    /// # Errors
    /// [`ExchangeError`] for negative extents and strides, and for what cannot be read.
    pub fn layout(&self) -> Result<TensorLayout, ExchangeError> {
        let (tensor, _) = self.tensor()?;
        let ndim = i64::from(tensor.ndim);
        let Ok(count) = usize::try_from(tensor.ndim) else { return Err(ExchangeError::Dimensions { ndim }) };
        if count == 0 {
            return TensorLayout::contiguous(&[]);
        }
        if tensor.shape.is_null() {
            return Err(ExchangeError::Dimensions { ndim });
        }
        // SAFETY: a valid tensor has `ndim` extents there.
        let shape = unsafe { std::slice::from_raw_parts(tensor.shape, count) };
        let strides = (!tensor.strides.is_null()).then(|| {
            // SAFETY: as above, of strides.
            unsafe { std::slice::from_raw_parts(tensor.strides, count) }
        });
        TensorLayout::from_foreign(shape, strides, 1)
    }

    /// The tensor's elements, without a copy, on the stream's device. They go back to their owner when the result is
    /// dropped, which waits for the work that uses them.
    ///
    /// On a GPU, memory of that GPU, managed memory and page-locked memory of the host are taken; on the CPU executor memory of
    /// the host, page-locked or not, and managed memory.
    ///
    /// # Errors
    /// [`Refused`] with the tensor, whose deleter was not called: [`ExchangeError`] for elements of another type, memory that the
    /// device does not reach, negative strides, and addresses that are null, not aligned, or unknown to the driver.
    ///
    /// # Safety
    /// What the tensor says is true, and its elements are valid values of `T`. The producer has made them ready in order of
    /// `stream`, whose [`exchange_number`](Stream::exchange_number) it was given. Until the result is dropped nobody else
    /// writes the memory between the first and the last element, and nobody reads what this crate writes, except in order with
    /// this crate's work.
    pub unsafe fn into_tensor<T: ExchangeElement>(self, stream: &Stream) -> Result<Tensor<T>, Box<Refused<Self>>> {
        let (address, layout, is_read_only) = match self.check::<T>(stream.device()) {
            Ok(checked) => checked,
            Err(error) => return Err(Refused::new(error, self)),
        };
        let span = layout.span();
        let keeper = Keeper::new(Box::new(self));
        // SAFETY: the tensor has these elements until its deleter is called, which the keeper does; the caller promises the rest.
        let storage = unsafe { Storage::foreign(stream, address, span * size_of::<T>(), keeper) };
        // The address was checked to be aligned.
        let buffer = DeviceBuffer::from_storage(storage.into_shared(), span);
        Ok(Tensor::new(buffer, layout).expect("the buffer has the layout's span").read_only(is_read_only))
    }

    fn check<T: ExchangeElement>(&self, device: &Device) -> Result<(NonNull<u8>, TensorLayout, bool)> {
        let (tensor, is_read_only) = self.tensor()?;
        check_type::<T>(tensor.dtype)?;
        let layout = self.layout()?;
        check_place(tensor.device, device)?;
        let span = layout.span();
        if span != 0 && tensor.data.is_null() {
            return Err(ExchangeError::Null { len: layout.len() }.into());
        }
        let start = tensor.data.cast::<u8>().wrapping_add(usize::try_from(tensor.byte_offset).unwrap_or(usize::MAX));
        let mut address = start.expose_provenance();
        if let (Some(parts), 1..) = (device.parts(), span) {
            if tensor.device.device_type == CUDA_HOST {
                let unknown = |source| {
                    let device = device.to_string();
                    ExchangeError::UnknownAddress { address: address as u64, device, source }
                };
                let found = parts.gpu.device_address(address as u64).map_err(|error| unknown(Some(error)))?;
                let found = found.ok_or_else(|| unknown(None))?;
                address = usize::try_from(found).expect("addresses have 64 bits");
            } else if tensor.device.device_type == CUDA {
                check_gpu_address(device, address as u64)?;
            }
        }
        Ok((check_address::<T>(address, span)?, layout, is_read_only))
    }
}

impl fmt::Debug for ManagedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagedTensor").field("form", &self.form()).field("tensor", &self.tensor()).finish()
    }
}

/// Checks that elements of a type are `T`s.
pub(super) fn check_type<T: ExchangeElement>(found: DataType) -> Result<(), ExchangeError> {
    if found == T::DATA_TYPE {
        return Ok(());
    }
    Err(ExchangeError::ElementType {
        expected_type: std::any::type_name::<T>(),
        expected: T::DATA_TYPE.to_string(),
        found: found.to_string(),
    })
}

fn check_place(place: DLDevice, device: &Device) -> Result<(), ExchangeError> {
    let (found, remedy) = match (place.device_type, device.ordinal()) {
        (CPU | CUDA_HOST | CUDA_MANAGED, None) | (CUDA_HOST | CUDA_MANAGED, Some(_)) => return Ok(()),
        (CUDA, Some(ordinal)) if usize::try_from(place.device_id) == Ok(ordinal) => return Ok(()),
        (CPU, Some(_)) => {
            ("memory of the host".to_owned(), "let its library move it to the GPU, or use Device::cpu() for it")
        }
        (CUDA, Some(_)) => (format!("memory of GPU {}", place.device_id), "use `Device::gpu` with that number for it"),
        (CUDA, None) => {
            (format!("memory of GPU {}", place.device_id), "open that GPU with `Device::gpu`, or move it to the host")
        }
        (other, _) => (
            format!("memory of DLPack's device type {other}"),
            "let its library move it to the host or to an NVIDIA GPU",
        ),
    };
    Err(ExchangeError::Device { found, device: device.to_string(), remedy })
}

/// A tensor that was given away, until its deleter is called.
struct Exported<T: ExchangeElement, M> {
    managed: M,
    shape: Vec<i64>,
    strides: Vec<i64>,
    tensor: Tensor<T>,
}

impl<T: ExchangeElement, M> Exported<T, M> {
    /// The tensor in a box of its own, described by `make` from its plain part, which points into the box.
    fn leak(tensor: Tensor<T>, make: impl FnOnce(DLTensor) -> M) -> *mut Self {
        let signed = |values: &[usize]| values.iter().map(|&value| value as i64).collect::<Vec<_>>();
        let layout = tensor.layout();
        let (mut shape, mut strides) = (signed(layout.shape()), signed(layout.strides()));
        let device = match tensor.device().ordinal() {
            None => DLDevice { device_type: CPU, device_id: 0 },
            Some(ordinal) => DLDevice { device_type: CUDA, device_id: i32::try_from(ordinal).unwrap_or(i32::MAX) },
        };
        let data = if tensor.is_empty() {
            null_mut()
        } else {
            let address = tensor.buffer().as_device_ptr();
            // Known to the executor's memory by its provenance, and on a GPU a plain number.
            address.cast_mut().cast()
        };
        let plain = DLTensor {
            data,
            device,
            ndim: i32::try_from(shape.len()).expect("fewer dimensions than 2^31"),
            dtype: T::DATA_TYPE,
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        // The vectors' memory stays where it is when they move.
        Box::into_raw(Box::new(Self { managed: make(plain), shape, strides, tensor }))
    }

    /// # Safety
    /// `context` is from `leak`, and not used again.
    unsafe fn delete(context: *mut c_void) {
        // SAFETY: the caller's promise.
        let exported = unsafe { Box::from_raw(context.cast::<Self>()) };
        // The consumer was told of the shape by address until now.
        let Self { tensor, shape, strides, managed: _ } = *exported;
        drop((shape, strides));
        drop(Kept::new(GivenBack(Some(tensor))));
    }
}

/// A tensor that its consumer has given back. The consumer's work that is under way is not known here, so all of the device's is
/// waited for before the memory is freed.
struct GivenBack<T: ExchangeElement>(Option<Tensor<T>>);

impl<T: ExchangeElement> Drop for GivenBack<T> {
    fn drop(&mut self) {
        let Some(tensor) = self.0.take() else { return };
        let device = tensor.device().clone();
        if let Some(parts) = device.parts()
            && let Err(source) = parts.gpu.synchronize()
            && !source.is_end()
        {
            // The consumer may still use the memory: it is rather lost than given to somebody else.
            std::mem::forget(tensor);
            let operation = "waiting for the work on a tensor that was given back";
            device.defer(ExchangeError::Driver { operation, source }.into());
        }
    }
}

unsafe extern "C" fn delete_versioned<T: ExchangeElement>(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: a consumer calls this once, with the struct that `into_dlpack` made, whose context is the box.
    unsafe { Exported::<T, DLManagedTensorVersioned>::delete((*managed).manager_ctx) };
}

unsafe extern "C" fn delete_legacy<T: ExchangeElement>(managed: *mut DLManagedTensor) {
    // SAFETY: as above.
    unsafe { Exported::<T, DLManagedTensor>::delete((*managed).manager_ctx) };
}

impl<T: ExchangeElement> Tensor<T> {
    /// Gives the tensor to a consumer, whose later work on `consumer` waits for this crate's. The memory is freed, or goes back
    /// to its owner, once the consumer has called the deleter and the device's work is done: the deleter waits for it.
    ///
    /// # Errors
    /// [`Refused`] with the tensor: [`ExchangeError::ReadOnly`] for the legacy form of a tensor that may only be read, which
    /// that form cannot say, [`ExchangeError::InGraph`] when a graph uses the memory, and [`ExchangeError::Driver`] when the consumer's stream cannot be made to wait.
    pub fn into_dlpack(self, consumer: ExchangeStream, form: Form) -> Result<ManagedTensor, Box<Refused<Self>>> {
        if form == Form::Legacy && self.is_read_only() {
            let operation = "the legacy form of DLPack cannot say so: ask for the versioned one";
            return Err(Refused::new(ExchangeError::ReadOnly { operation }, self));
        }
        if !self.buffer().storage().export() {
            return Err(Refused::new(ExchangeError::InGraph, self));
        }
        if let Err(error) = order::before(self.buffer().storage(), consumer) {
            return Err(Refused::new(error, self));
        }
        let raw = match form {
            Form::Versioned => {
                let flags = if self.is_read_only() { FLAG_READ_ONLY } else { 0 };
                let exported = Exported::leak(self, |dl_tensor| DLManagedTensorVersioned {
                    version: VERSION,
                    manager_ctx: null_mut(),
                    deleter: Some(delete_versioned::<T>),
                    flags,
                    dl_tensor,
                });
                // SAFETY: the box was leaked just now, and nobody else knows it.
                let managed = unsafe {
                    (*exported).managed.manager_ctx = exported.cast();
                    &raw mut (*exported).managed
                };
                Raw::Versioned(NonNull::new(managed).expect("a box has an address"))
            }
            Form::Legacy => {
                let exported = Exported::leak(self, |dl_tensor| DLManagedTensor {
                    dl_tensor,
                    manager_ctx: null_mut(),
                    deleter: Some(delete_legacy::<T>),
                });
                // SAFETY: as above.
                let managed = unsafe {
                    (*exported).managed.manager_ctx = exported.cast();
                    &raw mut (*exported).managed
                };
                Raw::Legacy(NonNull::new(managed).expect("a box has an address"))
            }
        };
        Ok(ManagedTensor { raw })
    }
}
