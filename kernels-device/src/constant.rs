//! Constants that the host sets: the same for all threads of a launch, read through the GPU's constant cache.
//!
//! A table that never changes needs none of this: a `const` or a plain `static` lands in read-only memory once, and is
//! not copied to every thread.

use core::cell::UnsafeCell;
use core::fmt;

use crate::abi::{CStrRef, KernelValue};

/// Bytes of constants that a kernel may reach: the size of PTX's `.const` space.
pub const CONSTANT_BYTES: usize = 64 << 10;

/// Opens every [`ConstantDesc`], so that the lowering finds it.
#[doc(hidden)]
pub const CONSTANT_MAGIC: [u64; 2] = [0x57_53_43_4f_4e_53_54_21, 0xd1e2_94b7_5c03_6af8];

/// What names a constant, and the shape of its value; the lowering reads it out of the bitcode.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConstantDesc {
    magic: [u64; 2],
    /// `module_path!()` of the declaration.
    pub module_path: CStrRef,
    /// The static's name.
    pub name: CStrRef,
    /// `file!()` of the declaration.
    pub file: CStrRef,
    /// Line of the declaration, from 1.
    pub line: u32,
    /// Column of the declaration, from 1.
    pub column: u32,
    /// Size of the value in bytes.
    pub size: u64,
    /// [`KernelValue::LAYOUT`] of the value.
    pub layout: u64,
    /// Alignment of the value in bytes.
    pub align: u64,
}

/// A value that kernels read and the host sets between launches; declared with [`constant!`](crate::constant!).
///
/// Kernels read it with [`get`](Self::get), [`at`](Self::at) or [`with`](Self::with). The host sets it for a device with
/// `device.set_constant(&NAME, &value)`: launches after that call see the value, on every stream of the device, and
/// launches before it keep theirs. Until then a device has the value of the declaration.
///
/// A GPU reads it from the `.const` space, which is fastest where all threads of a warp read the same element at once;
/// threads that read different elements wait for each other. PTX: `ld.const`.
///
/// # Source
/// PTX ISA, "Constant State Space"; CUDA C++ Programming Guide, "`__constant__`".
#[repr(C)]
pub struct Constant<T> {
    // The lowering takes the declared value from the static's start. Nothing ever writes it; that it might be written
    // keeps rustc from reading it at compile time, since the lowering gives the device memory of its own for it.
    value: UnsafeCell<T>,
    desc: ConstantDesc,
}

// SAFETY: the value is only ever read, and a `KernelValue` may be read from any thread.
unsafe impl<T: KernelValue> Sync for Constant<T> {}

impl<T: KernelValue> Constant<T> {
    /// For [`constant!`](crate::constant!): only in a static does it have a meaning of its own.
    #[doc(hidden)]
    #[must_use]
    pub const fn declare(
        value: T,
        module_path: &'static str,
        name: &'static str,
        file: &'static str,
        line: u32,
        column: u32,
    ) -> Self {
        const {
            assert!(size_of::<T>() > 0, "a constant of a type without size has nothing to set");
            assert!(size_of::<T>() <= CONSTANT_BYTES, "constants are limited to 65536 bytes; use a buffer");
        }
        let desc = ConstantDesc {
            magic: CONSTANT_MAGIC,
            module_path: CStrRef::new(module_path),
            name: CStrRef::new(name),
            file: CStrRef::new(file),
            line,
            column,
            size: size_of::<T>() as u64,
            layout: T::LAYOUT,
            align: align_of::<T>() as u64,
        };
        Self { value: UnsafeCell::new(value), desc }
    }

    /// What names it; for the launcher. On the device it is not there.
    #[doc(hidden)]
    pub fn desc(&self) -> &ConstantDesc {
        &self.desc
    }

    /// The declared value; for the launcher.
    #[doc(hidden)]
    pub fn declared(&self) -> T {
        // SAFETY: nothing writes it.
        unsafe { *self.value.get() }
    }

    /// Lets `f` read the value that the launch sees. Only within a kernel.
    ///
    /// # Panics
    /// On the CPU executor, when it is called outside a kernel.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        #[cfg(warpsmith_device)]
        // SAFETY: the lowering puts the static into memory that is written only between launches.
        return f(unsafe { &*self.value.get() });
        #[cfg(not(warpsmith_device))]
        {
            let set = crate::host::current("Constant::with", |context| context.constant(&self.desc));
            // SAFETY: what was set for this static has its type, and lives until the launch ends, which `f` is a part of;
            // the declared value is never written.
            f(unsafe { &*set.map_or(self.value.get().cast_const(), <*const u8>::cast) })
        }
    }

    /// The value that the launch sees. Only within a kernel.
    ///
    /// # Panics
    /// On the CPU executor, when it is called outside a kernel.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn get(&self) -> T {
        self.with(|value| *value)
    }
}

impl<T: KernelValue, const N: usize> Constant<[T; N]> {
    /// An element of the array that the launch sees. Only within a kernel.
    ///
    /// # Panics
    /// When `index` is not below the array's length; on the CPU executor, when it is called outside a kernel.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn at(&self, index: usize) -> T {
        self.with(
            #[inline(always)]
            |values| values[index],
        )
    }
}

impl<T> fmt::Debug for Constant<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Constant").finish_non_exhaustive()
    }
}

/// Declares statics that kernels read and the host sets between launches, each a [`Constant`](crate::Constant).
///
/// The value of the declaration is what a device has until the host sets another. All constants that a kernel reaches
/// have room in 64 KiB; more is refused when the package is built.
///
/// # Examples
/// ```
/// use warpsmith_device::{GridSliceMut, constant, global_idx};
///
/// constant! {
///     /// The filter's coefficients.
///     static COEFFICIENTS: [f32; 3] = [0.25, 0.5, 0.25];
/// }
///
/// /// Weighs each element and its neighbours.
/// fn filter(x: &[f32], mut y: GridSliceMut<f32>) {
///     let i = global_idx();
///     if let Some(y) = y.get_mut(&i) {
///         *y = (0..3).map(|k| COEFFICIENTS.at(k) * x[i.get() + k]).sum();
///     }
/// }
/// ```
#[macro_export]
macro_rules! constant {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)+) => {$(
        $(#[$attribute])*
        $visibility static $name: $crate::constant::Constant<$type> = $crate::constant::Constant::declare(
            $value,
            ::core::module_path!(),
            ::core::stringify!($name),
            ::core::file!(),
            ::core::line!(),
            ::core::column!(),
        );
    )+};
}
