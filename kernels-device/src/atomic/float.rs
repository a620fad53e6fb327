//! Atomic floats, beside `core::sync::atomic`, which has integers only.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use half::{bf16, f16};

use super::{AtomicRef, ScopedAtomic, SystemScope};
use crate::abi::{AtomicElement, DeviceElement, leaf_layout};
use crate::vector::{Bf16x2, F16x2};

macro_rules! atomic_floats {
    ($($(#[$docs:meta])* $name:ident $float:ident $bits:ident $zero:expr;)*) => {$(
        $(#[$docs])*
        ///
        /// Its methods are atomic for all threads of the system; [`ScopedAtomic`] has those for a block or a device. What each
        /// does and the PTX it becomes stands at [`AtomicRef`].
        #[repr(transparent)]
        pub struct $name {
            bits: $bits,
        }

        // SAFETY: an atomic integer holds no address.
        unsafe impl DeviceElement for $name {
            const LAYOUT: u64 = leaf_layout::<Self>(stringify!($name));
        }
        // SAFETY: it is the float's bits, with the size and alignment of the atomic integer, which are the integer's.
        unsafe impl AtomicElement for $name {
            type Plain = $float;
        }
        const _: () = assert!(align_of::<$name>() == align_of::<$float>() && size_of::<$name>() == size_of::<$float>());

        // SAFETY: zero bits are the float zero.
        unsafe impl bytemuck::Zeroable for $name {}

        impl Default for $name {
            fn default() -> Self {
                Self::new($zero)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.load(Ordering::Relaxed).fmt(f)
            }
        }

        impl From<$float> for $name {
            fn from(value: $float) -> Self {
                Self::new(value)
            }
        }

        impl $name {
            /// An atomic with this value.
            #[inline]
            #[must_use]
            pub const fn new(value: $float) -> Self {
                Self { bits: <$bits>::new(value.to_bits()) }
            }

            /// A plain value as an atomic.
            ///
            /// # Safety
            /// For the lifetime `'a`, `pointer` is valid for reads and writes, aligned, and accessed atomically only, or in
            /// ways that do not happen at the same time.
            #[inline]
            #[must_use]
            pub const unsafe fn from_ptr<'a>(pointer: *mut $float) -> &'a Self {
                // SAFETY: it has the size, alignment and bytes of the float.
                unsafe { &*pointer.cast_const().cast::<Self>() }
            }

            /// The address of the value.
            #[inline]
            #[must_use]
            pub const fn as_ptr(&self) -> *mut $float {
                self.bits.as_ptr().cast()
            }

            /// The value: who has the only reference needs no atomic access.
            #[inline]
            #[must_use]
            pub fn into_inner(self) -> $float {
                $float::from_bits(self.bits.into_inner())
            }

            #[inline(always)]
            fn whole(&self) -> AtomicRef<'_, Self, SystemScope> {
                self.system()
            }

            /// Reads.
            ///
            /// # Panics
            /// With `Release` and `AcqRel`, which say nothing about a load.
            #[inline(always)]
            #[must_use]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $float {
                self.whole().load(order)
            }

            /// Writes.
            ///
            /// # Panics
            /// With `Acquire` and `AcqRel`, which say nothing about a store.
            #[inline(always)]
            #[track_caller]
            pub fn store(&self, value: $float, order: Ordering) {
                self.whole().store(value, order);
            }

            /// Writes, and gives the value before.
            #[inline(always)]
            pub fn swap(&self, value: $float, order: Ordering) -> $float {
                self.whole().swap(value, order)
            }

            /// Adds, and gives the value before: [`AtomicRef::fetch_add`].
            #[inline(always)]
            pub fn fetch_add(&self, value: $float, order: Ordering) -> $float {
                self.whole().fetch_add(value, order)
            }

            /// Subtracts, and gives the value before: [`Self::fetch_add`] of the negated value.
            #[inline(always)]
            pub fn fetch_sub(&self, value: $float, order: Ordering) -> $float {
                self.whole().fetch_sub(value, order)
            }

            /// Keeps the smaller of both, and gives the value before. A NaN on one side yields the other; `-0.0` is below `0.0`.
            #[inline(always)]
            pub fn fetch_min(&self, value: $float, order: Ordering) -> $float {
                self.whole().fetch_min(value, order)
            }

            /// Keeps the larger of both, and gives the value before. A NaN on one side yields the other; `-0.0` is below `0.0`.
            #[inline(always)]
            pub fn fetch_max(&self, value: $float, order: Ordering) -> $float {
                self.whole().fetch_max(value, order)
            }

            /// Writes `new` where the value has the bits of `current`, and gives the value before: [`AtomicRef::compare_exchange`].
            ///
            /// # Errors
            /// The value found, when it was another.
            /// # Panics
            /// With the failure order `Release` or `AcqRel`, which say nothing about a load.
            #[inline(always)]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $float,
                new: $float,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$float, $float> {
                self.whole().compare_exchange(current, new, success, failure)
            }

            /// [`Self::compare_exchange`].
            ///
            /// # Errors
            /// The value found, when it was another.
            /// # Panics
            /// As [`Self::compare_exchange`].
            #[inline(always)]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $float,
                new: $float,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$float, $float> {
                self.whole().compare_exchange_weak(current, new, success, failure)
            }

            /// Replaces the value by what `change` makes of it: [`AtomicRef::fetch_update`].
            ///
            /// # Errors
            /// The value for which `change` gave `None`.
            /// # Panics
            /// With the order of loads `Release` or `AcqRel`, which say nothing about a load.
            #[inline(always)]
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                change: impl FnMut($float) -> Option<$float>,
            ) -> Result<$float, $float> {
                self.whole().fetch_update(success, failure, change)
            }
        }
    )*};
}

atomic_floats! {
    /// An `f32` that threads change at the same time.
    AtomicF32 f32 AtomicU32 0.0;
    /// An `f64` that threads change at the same time.
    AtomicF64 f64 AtomicU64 0.0;
    /// An `f16` that threads change at the same time.
    AtomicF16 f16 AtomicU16 f16::ZERO;
    /// A `bf16` that threads change at the same time.
    AtomicBf16 bf16 AtomicU16 bf16::ZERO;
    /// Two `f16` that threads change at the same time.
    AtomicF16x2 F16x2 AtomicU32 F16x2::new(f16::ZERO, f16::ZERO);
    /// Two `bf16` that threads change at the same time.
    AtomicBf16x2 Bf16x2 AtomicU32 Bf16x2::new(bf16::ZERO, bf16::ZERO);
}
