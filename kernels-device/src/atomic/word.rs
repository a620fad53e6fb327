//! The words that atomics are made of, and what one operation does to a word: an instruction of the device, or the
//! host's own atomics.

use core::sync::atomic::Ordering;

use super::code;

/// 16, 32 or 64 bits in memory.
///
/// Each `how` is a number of [`code`], and each pointer is valid, aligned, and accessed by others only atomically at
/// the same time.
#[doc(hidden)]
pub trait Word: Copy + Eq {
    unsafe fn load(pointer: *mut Self, how: u32) -> Self;
    unsafe fn store(pointer: *mut Self, value: Self, how: u32);
    /// Gives the value before.
    unsafe fn rmw(pointer: *mut Self, value: Self, how: u32) -> Self;
    /// Gives the value before, and writes `new` when it was `current`.
    unsafe fn cas(pointer: *mut Self, current: Self, new: Self, how: u32) -> Self;
}

/// The order's number among the operation's.
#[inline(always)]
pub(super) const fn order_number(order: Ordering) -> u32 {
    match order {
        Ordering::Relaxed => code::RELAXED,
        Ordering::Acquire => code::ACQUIRE,
        Ordering::Release => code::RELEASE,
        Ordering::AcqRel => code::ACQUIRE_RELEASE,
        _ => code::SEQUENTIAL,
    }
}

#[cfg(warpsmith_device)]
macro_rules! device_words {
    ($($word:ident $load:ident $store:ident $rmw:ident $cas:ident;)*) => {$(
        impl Word for $word {
            #[inline(always)]
            unsafe fn load(pointer: *mut Self, how: u32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { crate::intrinsics::atomic::$load(pointer, how) }
            }
            #[inline(always)]
            unsafe fn store(pointer: *mut Self, value: Self, how: u32) {
                // SAFETY: the caller's promise.
                unsafe { crate::intrinsics::atomic::$store(pointer, value, how) }
            }
            #[inline(always)]
            unsafe fn rmw(pointer: *mut Self, value: Self, how: u32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { crate::intrinsics::atomic::$rmw(pointer, value, how) }
            }
            #[inline(always)]
            unsafe fn cas(pointer: *mut Self, current: Self, new: Self, how: u32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { crate::intrinsics::atomic::$cas(pointer, current, new, how) }
            }
        }
    )*};
}
#[cfg(warpsmith_device)]
device_words! {
    u16 __warpsmith_atomic_load_16 __warpsmith_atomic_store_16 __warpsmith_atomic_rmw_16 __warpsmith_atomic_cas_16;
    u32 __warpsmith_atomic_load_32 __warpsmith_atomic_store_32 __warpsmith_atomic_rmw_32 __warpsmith_atomic_cas_32;
    u64 __warpsmith_atomic_load_64 __warpsmith_atomic_store_64 __warpsmith_atomic_rmw_64 __warpsmith_atomic_cas_64;
}

#[cfg(not(warpsmith_device))]
mod host {
    use core::sync::atomic::{AtomicI16, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering};

    use half::{bf16, f16};

    use super::{Word, code};
    use crate::atomic::scope::Scoped;

    fn order_of(how: u32) -> Ordering {
        match code::decode(how).1 {
            code::RELAXED => Ordering::Relaxed,
            code::ACQUIRE => Ordering::Acquire,
            code::RELEASE => Ordering::Release,
            code::ACQUIRE_RELEASE => Ordering::AcqRel,
            _ => Ordering::SeqCst,
        }
    }

    /// The order of a failed exchange: what the order says of loads.
    fn failure_of(order: Ordering) -> Ordering {
        match order {
            Ordering::Release => Ordering::Relaxed,
            Ordering::AcqRel => Ordering::Acquire,
            order => order,
        }
    }

    fn add_f16(a: u16, b: u16) -> u16 {
        // Two roundings are one here: an f32 has more than twice the digits of the sum.
        f16::from_f32(f16::from_bits(a).to_f32() + f16::from_bits(b).to_f32()).to_bits()
    }

    fn add_bf16(a: u16, b: u16) -> u16 {
        bf16::from_f32(bf16::from_bits(a).to_f32() + bf16::from_bits(b).to_f32()).to_bits()
    }

    fn by_halves(a: u32, b: u32, add: fn(u16, u16) -> u16) -> u32 {
        u32::from(add(a as u16, b as u16)) | u32::from(add((a >> 16) as u16, (b >> 16) as u16)) << 16
    }

    fn float_sum_16(operation: u32, a: u16, b: u16) -> u16 {
        if operation == code::ADD_BF16 { add_bf16(a, b) } else { add_f16(a, b) }
    }

    fn float_sum_32(operation: u32, a: u32, b: u32) -> u32 {
        match operation {
            code::ADD_F16X2 => by_halves(a, b, add_f16),
            code::ADD_BF16X2 => by_halves(a, b, add_bf16),
            _ => (f32::from_bits(a) + f32::from_bits(b)).to_bits(),
        }
    }

    fn float_sum_64(_operation: u32, a: u64, b: u64) -> u64 {
        (f64::from_bits(a) + f64::from_bits(b)).to_bits()
    }

    macro_rules! host_words {
        ($($word:ident $signed:ident $atomic:ident $signed_atomic:ident $float_sum:ident;)*) => {$(
            impl Word for $word {
                #[inline]
                unsafe fn load(pointer: *mut Self, how: u32) -> Self {
                    let _scope = Scoped::new(code::decode(how).2);
                    // SAFETY: the caller's promise.
                    unsafe { $atomic::from_ptr(pointer) }.load(order_of(how))
                }

                #[inline]
                unsafe fn store(pointer: *mut Self, value: Self, how: u32) {
                    let _scope = Scoped::new(code::decode(how).2);
                    // SAFETY: the caller's promise.
                    unsafe { $atomic::from_ptr(pointer) }.store(value, order_of(how));
                }

                #[inline]
                unsafe fn rmw(pointer: *mut Self, value: Self, how: u32) -> Self {
                    let _scope = Scoped::new(code::decode(how).2);
                    // SAFETY: the caller's promise.
                    let atomic = unsafe { $atomic::from_ptr(pointer) };
                    // SAFETY: the caller's promise; both integers have one layout.
                    let signed = unsafe { $signed_atomic::from_ptr(pointer.cast()) };
                    let (operation, order) = (code::decode(how).0, order_of(how));
                    let replace = |change: &dyn Fn($word) -> $word| {
                        let mut before = atomic.load(Ordering::Relaxed);
                        loop {
                            let failure = failure_of(order);
                            match atomic.compare_exchange_weak(before, change(before), order, failure) {
                                Ok(_) => return before,
                                Err(found) => before = found,
                            }
                        }
                    };
                    match operation {
                        code::EXCHANGE => atomic.swap(value, order),
                        code::ADD => atomic.fetch_add(value, order),
                        code::SUB => atomic.fetch_sub(value, order),
                        code::AND => atomic.fetch_and(value, order),
                        code::OR => atomic.fetch_or(value, order),
                        code::XOR => atomic.fetch_xor(value, order),
                        code::MIN => signed.fetch_min(value as $signed, order) as $word,
                        code::MAX => signed.fetch_max(value as $signed, order) as $word,
                        code::UNSIGNED_MIN => atomic.fetch_min(value, order),
                        code::UNSIGNED_MAX => atomic.fetch_max(value, order),
                        code::INC => replace(&|before| if before >= value { 0 } else { before + 1 }),
                        code::DEC => {
                            replace(&|before| if before == 0 || before > value { value } else { before - 1 })
                        }
                        _ => replace(&|before| $float_sum(operation, before, value)),
                    }
                }

                #[inline]
                unsafe fn cas(pointer: *mut Self, current: Self, new: Self, how: u32) -> Self {
                    let _scope = Scoped::new(code::decode(how).2);
                    let order = order_of(how);
                    // SAFETY: the caller's promise.
                    let atomic = unsafe { $atomic::from_ptr(pointer) };
                    match atomic.compare_exchange(current, new, order, failure_of(order)) {
                        Ok(before) | Err(before) => before,
                    }
                }
            }
        )*};
    }
    host_words! {
        u16 i16 AtomicU16 AtomicI16 float_sum_16;
        u32 i32 AtomicU32 AtomicI32 float_sum_32;
        u64 i64 AtomicU64 AtomicI64 float_sum_64;
    }
}
