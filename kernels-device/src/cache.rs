//! Loads and stores with a hint to the caches, prefetches, and accesses that the compiler neither adds nor drops.
//!
//! Each is an ordinary access in all but speed: the value read is the value there, of any type that may live in device
//! memory, and a type of 16 bytes that is aligned to 16 moves with one instruction. Types of other sizes move in pieces
//! of their alignment. The reference may be to global, shared or local memory; where the lowering can tell that it is
//! to global memory, the instruction says so (`ld.global.cs`), else it takes any address (`ld.cs`). Hints matter for
//! global memory only. All of it works on every device, and the CPU executor makes plain accesses of it.
//!
//! The compiler does not merge such accesses into wider ones: read a [`F32x4`](crate::F32x4) rather than four `f32`.

use crate::abi::KernelValue;

#[cfg(warpsmith_device)]
macro_rules! load {
    ($operation:ident, $value:expr) => {{
        use core::mem::MaybeUninit;

        use crate::intrinsics::cache::{Quad, $operation};
        let value: &T = $value;
        let from = core::ptr::from_ref(value).cast::<u8>();
        let mut result = MaybeUninit::<T>::uninit();
        let to = result.as_mut_ptr().cast::<u8>();
        let mut at = 0;
        while at < size_of::<T>() {
            // SAFETY: the size is a multiple of the alignment, so that the piece lies inside both and is aligned.
            unsafe {
                let (from, to) = (from.add(at), to.add(at));
                match align_of::<T>() {
                    1 => to.cast::<MaybeUninit<u8>>().write($operation::load_8(from)),
                    2 => to.cast::<MaybeUninit<u16>>().write($operation::load_16(from)),
                    4 => to.cast::<MaybeUninit<u32>>().write($operation::load_32(from)),
                    8 => to.cast::<MaybeUninit<u64>>().write($operation::load_64(from)),
                    _ => to.cast::<Quad>().write($operation::load_128(from)),
                }
            }
            at += piece::<T>();
        }
        // SAFETY: every byte of a value was copied, and it is `Copy`.
        unsafe { result.assume_init() }
    }};
}

#[cfg(warpsmith_device)]
macro_rules! store {
    ($operation:ident, $place:expr, $value:expr) => {{
        use core::mem::MaybeUninit;

        use crate::intrinsics::cache::{Quad, $operation};
        let (place, value): (&mut T, T) = ($place, $value);
        let to = core::ptr::from_mut(place).cast::<u8>();
        let from = (&raw const value).cast::<u8>();
        let mut at = 0;
        while at < size_of::<T>() {
            // SAFETY: the size is a multiple of the alignment, so that the piece lies inside both and is aligned; padding
            // is copied as what it is, bytes that need not hold anything.
            unsafe {
                let (from, to) = (from.add(at), to.add(at));
                match align_of::<T>() {
                    1 => $operation::store_8(to, from.cast::<MaybeUninit<u8>>().read()),
                    2 => $operation::store_16(to, from.cast::<MaybeUninit<u16>>().read()),
                    4 => $operation::store_32(to, from.cast::<MaybeUninit<u32>>().read()),
                    8 => $operation::store_64(to, from.cast::<MaybeUninit<u64>>().read()),
                    _ => $operation::store_128(to, from.cast::<Quad>().read()),
                }
            }
            at += piece::<T>();
        }
    }};
}

/// Bytes that one instruction moves of a type.
#[cfg(warpsmith_device)]
const fn piece<T>() -> usize {
    if align_of::<T>() < 16 { align_of::<T>() } else { 16 }
}

/// Reads what is not likely to be read again soon: the caches drop it first. PTX: `ld.global.cs`; CUDA's `__ldcs`.
///
/// # Examples
/// ```
/// use warpsmith_device::{GridSliceMut, global_idx, read_streaming, write_streaming};
///
/// /// Copies without pushing other data out of the caches.
/// fn copy(input: &[f32], mut output: GridSliceMut<f32>) {
///     let i = global_idx();
///     if let Some(output) = output.get_mut(&i) {
///         write_streaming(output, read_streaming(&input[i.get()]));
///     }
/// }
/// ```
/// # Source
/// PTX ISA, "Cache Operators"; CUDA C++ Programming Guide, "Load Functions Using Cache Hints".
#[inline(always)]
#[must_use]
pub fn read_streaming<T: KernelValue>(value: &T) -> T {
    #[cfg(warpsmith_device)]
    return load!(streaming, value);
    #[cfg(not(warpsmith_device))]
    *value
}

/// Reads what will not be read again: its cache line need not be kept. The same as [`read_streaming`], which it is where the
/// memory is not known to be global. PTX: `ld.global.lu`; CUDA's `__ldlu`.
///
/// # Source
/// PTX ISA, "Cache Operators"; CUDA C++ Programming Guide, "Load Functions Using Cache Hints".
#[inline(always)]
#[must_use]
pub fn read_last_use<T: KernelValue>(value: &T) -> T {
    #[cfg(warpsmith_device)]
    return load!(last_use, value);
    #[cfg(not(warpsmith_device))]
    *value
}

/// Reads through the cache that all multiprocessors share (L2), past the multiprocessor's own (L1). PTX: `ld.global.cg`;
/// CUDA's `__ldcg`.
///
/// # Source
/// PTX ISA, "Cache Operators"; CUDA C++ Programming Guide, "Load Functions Using Cache Hints".
#[inline(always)]
#[must_use]
pub fn read_cache_global<T: KernelValue>(value: &T) -> T {
    #[cfg(warpsmith_device)]
    return load!(cache_global, value);
    #[cfg(not(warpsmith_device))]
    *value
}

/// Reads through the cache for data that no thread writes. PTX: `ld.global.nc`; CUDA's `__ldg`.
///
/// A plain read through a `&[T]` parameter becomes this by itself: the borrow shows that nobody writes there. This function
/// is for references that do not show it, such as those made from raw pointers.
///
/// # Safety
/// `value` is in global memory, and no thread of the device writes it from the kernel's start to its end: neither before
/// the reference was made nor after it is gone.
///
/// # Source
/// PTX ISA, "Data Movement and Conversion Instructions: ld.global.nc"; CUDA C++ Programming Guide, "Read-Only Data Cache
/// Load Function".
#[inline(always)]
#[must_use]
pub unsafe fn read_non_coherent<T: KernelValue>(value: &T) -> T {
    #[cfg(warpsmith_device)]
    return load!(non_coherent, value);
    #[cfg(not(warpsmith_device))]
    *value
}

/// Writes what is not likely to be read again soon: the caches drop it first. PTX: `st.global.cs`; CUDA's `__stcs`.
///
/// # Source
/// PTX ISA, "Cache Operators"; CUDA C++ Programming Guide, "Store Functions Using Cache Hints".
#[inline(always)]
pub fn write_streaming<T: KernelValue>(place: &mut T, value: T) {
    #[cfg(warpsmith_device)]
    store!(write_streaming, place, value);
    #[cfg(not(warpsmith_device))]
    {
        *place = value;
    }
}

/// Writes to the cache that all multiprocessors share (L2), past the multiprocessor's own (L1). PTX: `st.global.cg`;
/// CUDA's `__stcg`.
///
/// # Source
/// PTX ISA, "Cache Operators"; CUDA C++ Programming Guide, "Store Functions Using Cache Hints".
#[inline(always)]
pub fn write_cache_global<T: KernelValue>(place: &mut T, value: T) {
    #[cfg(warpsmith_device)]
    store!(write_cache_global, place, value);
    #[cfg(not(warpsmith_device))]
    {
        *place = value;
    }
}

/// Asks for the cache line of a value to be brought into the multiprocessor's own cache (L1). PTX: `prefetch.global.L1`.
///
/// A hint without effect on any value; the CPU executor does nothing.
///
/// # Source
/// PTX ISA, "Data Movement and Conversion Instructions: prefetch, prefetchu".
#[inline(always)]
pub fn prefetch_l1<T>(value: &T) {
    #[cfg(warpsmith_device)]
    crate::intrinsics::cache::prefetch_l1(core::ptr::from_ref(value).cast());
    #[cfg(not(warpsmith_device))]
    let _ = value;
}

/// Asks for the cache line of a value to be brought into the cache that all multiprocessors share (L2). PTX:
/// `prefetch.global.L2`.
///
/// A hint without effect on any value; the CPU executor does nothing.
///
/// # Source
/// PTX ISA, "Data Movement and Conversion Instructions: prefetch, prefetchu".
#[inline(always)]
pub fn prefetch_l2<T>(value: &T) {
    #[cfg(warpsmith_device)]
    crate::intrinsics::cache::prefetch_l2(core::ptr::from_ref(value).cast());
    #[cfg(not(warpsmith_device))]
    let _ = value;
}

/// Reads with an access that the compiler neither drops nor merges nor repeats. PTX: `ld.volatile.global`.
///
/// For measuring, and for memory that a debugger changes. It is no way to talk to other threads: what they change is an
/// atomic's business.
///
/// # Source
/// PTX ISA, "Data Movement and Conversion Instructions: ld"; `core::ptr::read_volatile`.
#[inline(always)]
#[must_use]
pub fn read_volatile<T: KernelValue>(value: &T) -> T {
    #[cfg(warpsmith_device)]
    return load!(volatile, value);
    #[cfg(not(warpsmith_device))]
    // SAFETY: a reference is valid and aligned.
    unsafe {
        core::ptr::from_ref(value).read_volatile()
    }
}

/// Writes with an access that the compiler neither drops nor merges nor repeats. PTX: `st.volatile.global`.
///
/// # Source
/// PTX ISA, "Data Movement and Conversion Instructions: st"; `core::ptr::write_volatile`.
#[inline(always)]
pub fn write_volatile<T: KernelValue>(place: &mut T, value: T) {
    #[cfg(warpsmith_device)]
    store!(write_volatile, place, value);
    #[cfg(not(warpsmith_device))]
    // SAFETY: a reference is valid and aligned.
    unsafe {
        core::ptr::from_mut(place).write_volatile(value)
    }
}
