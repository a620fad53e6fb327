//! Atomic floats, beside `core::sync::atomic`, whose integers kernels use as they are.
//!
//! A kernel takes `&[AtomicF32]` and the host passes a buffer of `f32`. Every operation is atomic for all threads of
//! the device.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::abi::{AtomicElement, DeviceElement, leaf_layout};

macro_rules! atomic_floats {
    ($($(#[$docs:meta])* $name:ident $float:ident $bits:ident $add:ident;)*) => {$(
        $(#[$docs])*
        #[derive(Debug, Default)]
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

        impl $name {
            /// An atomic with this value.
            #[must_use]
            pub const fn new(value: $float) -> Self {
                Self { bits: <$bits>::new(value.to_bits()) }
            }

            /// Reads. As for the integers, `Release` and `AcqRel` panic.
            #[inline]
            #[must_use]
            pub fn load(&self, order: Ordering) -> $float {
                $float::from_bits(self.bits.load(order))
            }

            /// Writes. As for the integers, `Acquire` and `AcqRel` panic.
            #[inline]
            pub fn store(&self, value: $float, order: Ordering) {
                self.bits.store(value.to_bits(), order);
            }

            /// Writes, and gives the value before.
            #[inline]
            pub fn swap(&self, value: $float, order: Ordering) -> $float {
                $float::from_bits(self.bits.swap(value.to_bits(), order))
            }

            /// Adds, and gives the value before. The order in which threads add is open, and so is the sum's rounding.
            ///
            /// PTX: `atom.add`, or `red.add` where the result is not used.
            #[inline]
            pub fn fetch_add(&self, value: $float, order: Ordering) -> $float {
                #[cfg(warpsmith_device)]
                {
                    if matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst) {
                        core::sync::atomic::fence(order);
                    }
                    // SAFETY: a reference to an atomic is valid and aligned, and accessed atomically only.
                    let before = unsafe { crate::intrinsics::$add(self.bits.as_ptr().cast(), value) };
                    if matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst) {
                        core::sync::atomic::fence(order);
                    }
                    before
                }
                #[cfg(not(warpsmith_device))]
                self.replace(order, |before| before + value)
            }

            /// Subtracts, and gives the value before; as [`Self::fetch_add`] of the negated value.
            #[inline]
            pub fn fetch_sub(&self, value: $float, order: Ordering) -> $float {
                self.fetch_add(-value, order)
            }

            /// Keeps the smaller of both, and gives the value before. As with the float's own `min`, a NaN on one side
            /// yields the other.
            #[inline]
            pub fn fetch_min(&self, value: $float, order: Ordering) -> $float {
                self.replace(order, |before| before.min(value))
            }

            /// Keeps the larger of both, and gives the value before. As with the float's own `max`, a NaN on one side
            /// yields the other.
            #[inline]
            pub fn fetch_max(&self, value: $float, order: Ordering) -> $float {
                self.replace(order, |before| before.max(value))
            }

            /// Writes `new` where the value has the bits of `current`: `-0.0` differs from `0.0`, and a NaN can be
            /// found.
            ///
            /// # Errors
            /// The value found, when it was another.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $float,
                new: $float,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$float, $float> {
                match self.bits.compare_exchange(current.to_bits(), new.to_bits(), success, failure) {
                    Ok(bits) => Ok($float::from_bits(bits)),
                    Err(bits) => Err($float::from_bits(bits)),
                }
            }

            /// Replaces the value by what `change` makes of it, and gives the value before. Compares bits, so that a
            /// NaN in memory ends the loop too.
            #[inline]
            fn replace(&self, order: Ordering, change: impl Fn($float) -> $float) -> $float {
                let mut before = self.bits.load(Ordering::Relaxed);
                loop {
                    let after = change($float::from_bits(before)).to_bits();
                    match self.bits.compare_exchange_weak(before, after, order, Ordering::Relaxed) {
                        Ok(_) => return $float::from_bits(before),
                        Err(found) => before = found,
                    }
                }
            }
        }
    )*};
}

atomic_floats! {
    /// An `f32` that threads change at the same time.
    AtomicF32 f32 AtomicU32 atom_add_f32;
    /// An `f64` that threads change at the same time; adding needs compute capability 6.0.
    AtomicF64 f64 AtomicU64 atom_add_f64;
}
