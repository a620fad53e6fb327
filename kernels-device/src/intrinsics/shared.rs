//! Accesses to memory that several threads may reach at once; the lowering makes plain loads and stores of them.
//!
//! A load is frozen: LLVM gives `undef` to a load that races with a store, and to one of memory that nobody wrote, and
//! `freeze` makes one value of it, whichever.

use core::mem::MaybeUninit;

macro_rules! accesses {
    ($($load:ident $store:ident $unit:ty;)*) => {
        unsafe extern "C" {
            $(
                fn $load(from: *const u8) -> MaybeUninit<$unit>;
                fn $store(to: *mut u8, value: MaybeUninit<$unit>);
            )*
        }
    };
}
accesses! {
    __warpsmith_load_racing_8 __warpsmith_store_racing_8 u8;
    __warpsmith_load_racing_16 __warpsmith_store_racing_16 u16;
    __warpsmith_load_racing_32 __warpsmith_store_racing_32 u32;
    __warpsmith_load_racing_64 __warpsmith_store_racing_64 u64;
}

/// Bytes that are moved at once: a scalar as a whole, more in words, which the lowering joins again where it can.
const fn unit<T>() -> usize {
    if size_of::<T>() > 8 && align_of::<T>() > 4 { 4 } else { align_of::<T>() }
}

/// Reads a value that other threads may be writing, or that nobody wrote: any bytes come out, the same for each use.
///
/// # Safety
/// `from` is aligned and good for reads. `T` takes every bit pattern.
#[inline(always)]
pub(crate) unsafe fn load<T>(from: *const T) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    let (from, to) = (from.cast::<u8>(), value.as_mut_ptr().cast::<u8>());
    let mut at = 0;
    while at < size_of::<T>() {
        // SAFETY: `at` is a multiple of the unit, which divides size and alignment; the caller promises the rest.
        unsafe {
            match unit::<T>() {
                8 => to.add(at).cast::<MaybeUninit<u64>>().write(__warpsmith_load_racing_64(from.add(at))),
                4 => to.add(at).cast::<MaybeUninit<u32>>().write(__warpsmith_load_racing_32(from.add(at))),
                2 => to.add(at).cast::<MaybeUninit<u16>>().write(__warpsmith_load_racing_16(from.add(at))),
                _ => to.add(at).cast::<MaybeUninit<u8>>().write(__warpsmith_load_racing_8(from.add(at))),
            }
        }
        at = at.wrapping_add(unit::<T>());
    }
    // SAFETY: all of it was written, and the caller promises that any bytes are a value.
    unsafe { value.assume_init() }
}

/// Writes a value that other threads may be reading or writing.
///
/// # Safety
/// `to` is aligned and good for writes.
#[inline(always)]
pub(crate) unsafe fn store<T>(to: *mut T, value: T) {
    let value = MaybeUninit::new(value);
    let (from, to) = (value.as_ptr().cast::<u8>(), to.cast::<u8>());
    let mut at = 0;
    while at < size_of::<T>() {
        // SAFETY: as in `load`.
        unsafe {
            match unit::<T>() {
                8 => __warpsmith_store_racing_64(to.add(at), from.add(at).cast::<MaybeUninit<u64>>().read()),
                4 => __warpsmith_store_racing_32(to.add(at), from.add(at).cast::<MaybeUninit<u32>>().read()),
                2 => __warpsmith_store_racing_16(to.add(at), from.add(at).cast::<MaybeUninit<u16>>().read()),
                _ => __warpsmith_store_racing_8(to.add(at), from.add(at).cast::<MaybeUninit<u8>>().read()),
            }
        }
        at = at.wrapping_add(unit::<T>());
    }
}
