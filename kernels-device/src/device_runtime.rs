//! What lowered kernels call without naming it: panic records, the device heap, memory functions.
//!
//! Compiled in the device build only; the lowering finds these functions by their symbols.

use core::arch::asm;
use core::mem::offset_of;

/// The first panic of a launch, in host memory that the device can write; the runtime reads it.
///
/// Which thread is the first is decided in device memory: the GPU has no atomics on the host's. A word there is raised to `round`, and
/// whoever finds it lower than that fills the record. The host takes the record, clears it and begins another round.
#[derive(Debug)]
#[repr(C)]
pub struct PanicRecord {
    /// 1 when the rest up to the message's values is written.
    pub done: u32,
    /// Index into the kernel's panic sites.
    pub site: u32,
    /// The launch's id, as the host chose it.
    pub launch: u64,
    /// The block that panicked.
    pub block: [u32; 3],
    /// The thread within the block.
    pub thread: [u32; 3],
    /// Device address of the `core::panic::Location`, or 0.
    pub location: u64,
    /// The message's values.
    pub values: [u64; 8],
    /// Which panic the record is for, from 1 on; the host's.
    pub round: u64,
    /// The id of the launch that panicked last, written by every thread that panics: waits look at it.
    pub panicked: u64,
    /// Address of what the stream's kernels print into, or 0; the host's.
    pub output: u64,
    /// Address of the word in device memory that says which round was claimed; the host's.
    pub claimed: u64,
}

const _: () = assert!(offset_of!(PanicRecord, output) == crate::print::layout::OUTPUT_ADDRESS);

unsafe extern "C" {
    safe fn __warpsmith_hidden(which: u32) -> u64;
    fn malloc(size: usize) -> *mut u8;
    fn free(pointer: *mut u8);
    safe fn __warpsmith_sreg_tid_x() -> u32;
    safe fn __warpsmith_sreg_tid_y() -> u32;
    safe fn __warpsmith_sreg_tid_z() -> u32;
    safe fn __warpsmith_sreg_ctaid_x() -> u32;
    safe fn __warpsmith_sreg_ctaid_y() -> u32;
    safe fn __warpsmith_sreg_ctaid_z() -> u32;
}

/// Bytes of stack that stay free for what a recursive function calls.
const STACK_RESERVE: u64 = 1 << 10;

/// Panics when the stack is about to end.
#[doc(hidden)]
#[unsafe(no_mangle)]
pub extern "C" fn __warpsmith_check_stack() {
    let now: u64;
    // SAFETY: reads a register; the launcher's values are there in every launch.
    let (end, bytes) = unsafe {
        asm!("/*ptx: stacksave.u64 {0:r}; */", out(reg) now);
        (__warpsmith_hidden(3), __warpsmith_hidden(2))
    };
    if now < end.wrapping_add(STACK_RESERVE) {
        panic!(
            "the call stack is at its end: a thread has {bytes} bytes of it, and `Device::set_stack_bytes` gives more"
        );
    }
}

/// Stores past all caches' reordering, without the checks of a debug build: a panic here would call itself.
#[inline(always)]
unsafe fn store32(address: u64, value: u32) {
    // SAFETY: the caller gives an address inside the record.
    unsafe { asm!("/*ptx: st.volatile.b32 [{0:r}], {1:e}; */", in(reg) address, in(reg) value) }
}

/// Loads what the host may have changed.
#[inline(always)]
unsafe fn load64(address: u64) -> u64 {
    let value: u64;
    // SAFETY: the caller gives an address inside the record.
    unsafe { asm!("/*ptx: ld.volatile.b64 {0:r}, [{1:r}]; */", out(reg) value, in(reg) address) };
    value
}

/// As [`store32`].
#[inline(always)]
unsafe fn store64(address: u64, value: u64) {
    // SAFETY: the caller gives an address inside the record.
    unsafe { asm!("/*ptx: st.volatile.b64 [{0:r}], {1:r}; */", in(reg) address, in(reg) value) }
}

/// Records a panic, if it is the launch's first, and ends the thread.
#[doc(hidden)]
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "each is a register, as long as the call is not inlined")]
pub extern "C" fn __warpsmith_panic(
    site: u32,
    location: u64,
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
    v4: u64,
    v5: u64,
    v6: u64,
    v7: u64,
) -> ! {
    // SAFETY: the launcher passes the address of a record that lives as long as the stream; wrapping arithmetic on it
    // stays inside the record.
    unsafe {
        let record = __warpsmith_hidden(0);
        let at = |offset: usize| record.wrapping_add(offset as u64);
        store64(at(offset_of!(PanicRecord, panicked)), __warpsmith_hidden(1));
        let (mut round, mut before): (u64, u64);
        loop {
            round = load64(at(offset_of!(PanicRecord, round)));
            asm!("/*ptx: atom.relaxed.gpu.global.max.u64 {0:r}, [{1:r}], {2:r}; */", out(reg) before,
                in(reg) load64(at(offset_of!(PanicRecord, claimed))), in(reg) round);
            // Where the host has begun another round meanwhile, an earlier launch's panic was taken, and this one is still to be told.
            if before < round || load64(at(offset_of!(PanicRecord, round))) == round {
                break;
            }
        }
        if before < round {
            // The host has cleared the record before it began the round: what is stored here comes after that.
            asm!("/*ptx: fence.acq_rel.sys; */");
            store32(at(offset_of!(PanicRecord, site)), site);
            store64(at(offset_of!(PanicRecord, launch)), __warpsmith_hidden(1));
            let block = offset_of!(PanicRecord, block);
            store32(at(block), __warpsmith_sreg_ctaid_x());
            store32(at(block.wrapping_add(4)), __warpsmith_sreg_ctaid_y());
            store32(at(block.wrapping_add(8)), __warpsmith_sreg_ctaid_z());
            let thread = offset_of!(PanicRecord, thread);
            store32(at(thread), __warpsmith_sreg_tid_x());
            store32(at(thread.wrapping_add(4)), __warpsmith_sreg_tid_y());
            store32(at(thread.wrapping_add(8)), __warpsmith_sreg_tid_z());
            store64(at(offset_of!(PanicRecord, location)), location);
            let values = offset_of!(PanicRecord, values);
            store64(at(values), v0);
            store64(at(values.wrapping_add(8)), v1);
            // Most messages have fewer: a constant 0 costs nothing, and the host has cleared the record.
            let store = |offset: usize, value: u64| {
                if value != 0 {
                    store64(at(values.wrapping_add(offset)), value);
                }
            };
            store(16, v2);
            store(24, v3);
            store(32, v4);
            store(40, v5);
            store(48, v6);
            store(56, v7);
            // The host takes a record that it sees `done` of for written.
            asm!("/*ptx: fence.acq_rel.sys; */");
            store32(at(offset_of!(PanicRecord, done)), 1);
        }
        asm!("/*ptx: exit; */", options(noreturn));
    }
}

/// What the device's `malloc` aligns to.
const HEAP_ALIGN: usize = 16;

/// Allocates from the device heap; null when it is exhausted.
///
/// # Safety
/// As `GlobalAlloc::alloc`.
#[doc(hidden)]
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn __warpsmith_alloc(size: usize, align: usize) -> *mut u8 {
    // SAFETY: the sizes come from a layout; the block before an over-aligned address keeps the address to free.
    unsafe {
        if align <= HEAP_ALIGN {
            return malloc(size);
        }
        let Some(total) = size.checked_add(align) else { return core::ptr::null_mut() };
        let start = malloc(total);
        if start.is_null() {
            return start;
        }
        let offset = align - (start as usize & (align - 1));
        let aligned = start.add(offset);
        aligned.cast::<*mut u8>().sub(1).write(start);
        aligned
    }
}

/// Allocates zeroed memory from the device heap; null when it is exhausted.
///
/// # Safety
/// As `GlobalAlloc::alloc_zeroed`.
#[doc(hidden)]
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn __warpsmith_alloc_zeroed(size: usize, align: usize) -> *mut u8 {
    // SAFETY: the caller promises a layout.
    unsafe {
        let pointer = __warpsmith_alloc(size, align);
        if !pointer.is_null() {
            core::ptr::write_bytes(pointer, 0, size);
        }
        pointer
    }
}

/// Frees what [`__warpsmith_alloc`] gave.
///
/// # Safety
/// As `GlobalAlloc::dealloc`.
#[doc(hidden)]
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn __warpsmith_dealloc(pointer: *mut u8, _size: usize, align: usize) {
    // SAFETY: the caller promises a pointer and its layout.
    unsafe { free(if align <= HEAP_ALIGN { pointer } else { pointer.cast::<*mut u8>().sub(1).read() }) }
}

/// Moves an allocation to one of another size; null when the heap is exhausted.
///
/// # Safety
/// As `GlobalAlloc::realloc`.
#[doc(hidden)]
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn __warpsmith_realloc(pointer: *mut u8, size: usize, align: usize, new_size: usize) -> *mut u8 {
    // SAFETY: the caller promises a pointer and its layout.
    unsafe {
        let moved = __warpsmith_alloc(new_size, align);
        if !moved.is_null() {
            core::ptr::copy_nonoverlapping(pointer, moved, size.min(new_size));
            __warpsmith_dealloc(pointer, size, align);
        }
        moved
    }
}

/// C's `memcmp`, also for `bcmp`.
///
/// # Safety
/// Both pointers are good for `len` bytes.
#[doc(hidden)]
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn __warpsmith_memcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    let mut i = 0;
    while i < len {
        // SAFETY: `i` is below `len`. Volatile, so that the loop is not turned into a call of itself.
        let (a, b) = unsafe { (left.add(i).read_volatile(), right.add(i).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
        i += 1;
    }
    0
}

/// C's `memmove`, also for `memcpy`.
///
/// # Safety
/// Both pointers are good for `len` bytes.
#[doc(hidden)]
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn __warpsmith_memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller promises the ranges; LLVM expands this into a loop on the device.
    unsafe { core::ptr::copy(from, to, len) };
    to
}

/// C's `memset`.
///
/// # Safety
/// The pointer is good for `len` bytes.
#[doc(hidden)]
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn __warpsmith_memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller promises the range; LLVM expands this into a loop on the device.
    unsafe { core::ptr::write_bytes(to, byte as u8, len) };
    to
}

/// C's `strlen`.
///
/// # Safety
/// The pointer is to bytes that end in zero.
#[doc(hidden)]
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn __warpsmith_strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: the caller promises a zero at the end. Volatile, so that the loop is not turned into a call of itself.
    while unsafe { text.add(len).read_volatile() } != 0 {
        len += 1;
    }
    len
}
