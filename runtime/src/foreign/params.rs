//! What a kernel from elsewhere may be declared to take, and what may be passed for it.

use warpsmith_device::abi::{DeviceElement, KernelValue, RawSlice};
use warpsmith_device::view::RawGridSlice;
use warpsmith_device::{GridSliceMut, Linear};

use crate::error::LaunchError;
use crate::launch::{Binder, LaunchArg};

/// A type that a declaration in [`foreign_kernels!`](crate::foreign_kernels!) may give a parameter.
///
/// | declared | the kernel receives | in C | argument of the launch |
/// | --- | --- | --- | --- |
/// | `&[T]` | the address of the first element | `const T*` | `&DeviceBuffer<T>`, `DeviceSlice<T>` |
/// | `&mut [T]` | the address of the first element | `T*` | `&mut DeviceBuffer<T>`, `DeviceSliceMut<T>` |
/// | an integer, `f16`, `bf16`, `f32`, `f64`, `bool` | the value | `int`, `__half`, `float`, ... | the value |
/// | `ByValue<T>` | the value of a `T` with `#[repr(C)]` | `struct` | `ByValue(value)` |
/// | `*const T`, `*mut T` | the address | `const T*`, `T*` | the pointer; the launch is `unsafe` |
///
/// # Safety
/// `address` gives where `BYTES` readable bytes lie: the parameter as the kernel receives it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a kernel from elsewhere",
    label = "not a parameter of a kernel from elsewhere",
    note = "there are `&[T]`, `&mut [T]`, integers, floats and `bool`, `*const T` and `*mut T` in an `unsafe fn`, and \
            `ByValue<T>` for a struct with `#[repr(C)]` and `#[derive(KernelValue)]`"
)]
pub unsafe trait ForeignParam {
    /// The parameter as the host keeps it for the launch.
    type Raw: Copy;
    /// What the condition of a declaration sees.
    type Seen: Copy;
    /// Size of the parameter in bytes.
    const BYTES: usize;
    /// Whether safe code may launch with any argument of the type.
    const IS_SAFE: bool = true;

    /// What the condition sees.
    fn seen(raw: &Self::Raw) -> Self::Seen;

    /// Where the parameter's bytes lie.
    fn address(raw: &Self::Raw) -> *const u8;
}

/// A value that may be passed for a parameter of a kernel from elsewhere that is declared as `P`; the table at
/// [`ForeignParam`] says which.
///
/// # Safety
/// What `bind` gives may be used by a kernel as `P` says, from the launch until the stream's later work: memory is of the
/// stream's device, its use was noted with the binder, and the argument's borrow covers what `P` does with it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a parameter declared as `{P}`",
    label = "not an argument for a parameter declared as `{P}`",
    note = "`&[T]` takes `&DeviceBuffer<T>` or a `DeviceSlice<T>`, `&mut [T]` takes `&mut DeviceBuffer<T>` or a \
            `DeviceSliceMut<T>`; a number takes one of the very type, `ByValue<T>` takes `ByValue(value)`"
)]
pub unsafe trait ForeignArg<P: ForeignParam> {
    /// Notes the use and gives what the kernel receives.
    ///
    /// # Errors
    /// [`LaunchError`] when the argument lives on another device.
    fn bind(self, binder: &mut Binder<'_>) -> Result<P::Raw, LaunchError>;
}

/// What a condition sees of a slice: its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenSlice {
    len: usize,
}

impl SeenSlice {
    /// Length in elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A struct that crosses to a kernel from elsewhere by value. Its layout must be the kernel's: give it `#[repr(C)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ByValue<T>(pub T);

/// A parameter of a declaration, to be compared with the kernel's.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ForeignParamDesc {
    pub(super) name: &'static str,
    pub(super) type_name: &'static str,
    pub(super) bytes: usize,
}

const POINTER_BYTES: usize = size_of::<u64>();

// SAFETY: a slice's first field is its address, and that is what a kernel receives.
unsafe impl<T: DeviceElement> ForeignParam for &[T] {
    type Raw = RawSlice<T>;
    type Seen = SeenSlice;
    const BYTES: usize = POINTER_BYTES;

    fn seen(raw: &RawSlice<T>) -> SeenSlice {
        SeenSlice { len: raw.len }
    }

    fn address(raw: &RawSlice<T>) -> *const u8 {
        (&raw const raw.ptr).cast()
    }
}

// SAFETY: as the `LaunchArg` of the same slice: memory of the stream's device whose use is noted, borrowed for reads.
unsafe impl<T: DeviceElement, A: LaunchArg<&'static [T]>> ForeignArg<&[T]> for A {
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawSlice<T>, LaunchError> {
        LaunchArg::bind(self, binder)
    }
}

// SAFETY: as above.
unsafe impl<T: DeviceElement> ForeignParam for &mut [T] {
    type Raw = RawGridSlice<T, Linear>;
    type Seen = SeenSlice;
    const BYTES: usize = POINTER_BYTES;

    fn seen(raw: &RawGridSlice<T, Linear>) -> SeenSlice {
        SeenSlice { len: raw.extent.len }
    }

    fn address(raw: &RawGridSlice<T, Linear>) -> *const u8 {
        (&raw const raw.ptr).cast()
    }
}

// SAFETY: as the `LaunchArg` of the same slice: memory of the stream's device whose use is noted, and the only borrow of it.
unsafe impl<T: DeviceElement, A: LaunchArg<GridSliceMut<'static, T>>> ForeignArg<&mut [T]> for A {
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, Linear>, LaunchError> {
        LaunchArg::bind(self, binder)
    }
}

macro_rules! values {
    ($($value:ty),*) => {$(
        // SAFETY: the kernel receives the value's own bytes.
        unsafe impl ForeignParam for $value {
            type Raw = Self;
            type Seen = Self;
            const BYTES: usize = size_of::<Self>();

            fn seen(raw: &Self) -> Self {
                *raw
            }

            fn address(raw: &Self) -> *const u8 {
                (&raw const *raw).cast()
            }
        }

        // SAFETY: a plain value.
        unsafe impl ForeignArg<$value> for $value {
            fn bind(self, _binder: &mut Binder<'_>) -> Result<Self, LaunchError> {
                Ok(self)
            }
        }
    )*};
}
values!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool, half::f16, half::bf16);

// SAFETY: the kernel receives the value's own bytes.
unsafe impl<T: KernelValue> ForeignParam for ByValue<T> {
    type Raw = Self;
    type Seen = T;
    const BYTES: usize = size_of::<T>();

    fn seen(raw: &Self) -> T {
        raw.0
    }

    fn address(raw: &Self) -> *const u8 {
        (&raw const raw.0).cast()
    }
}

// SAFETY: a plain value.
unsafe impl<T: KernelValue> ForeignArg<ByValue<T>> for ByValue<T> {
    fn bind(self, _binder: &mut Binder<'_>) -> Result<Self, LaunchError> {
        Ok(self)
    }
}

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        // SAFETY: the kernel receives the address.
        unsafe impl<T: 'static> ForeignParam for $pointer {
            type Raw = Self;
            type Seen = Self;
            const BYTES: usize = POINTER_BYTES;
            const IS_SAFE: bool = false;

            fn seen(raw: &Self) -> Self {
                *raw
            }

            fn address(raw: &Self) -> *const u8 {
                (&raw const *raw).cast()
            }
        }

        // SAFETY: a raw pointer promises nothing, and the launch with one is `unsafe`.
        unsafe impl<T: 'static> ForeignArg<$pointer> for $pointer {
            fn bind(self, _binder: &mut Binder<'_>) -> Result<Self, LaunchError> {
                Ok(self)
            }
        }
    )*};
}
pointers!(*const T, *mut T);
