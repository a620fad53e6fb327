//! The marker functions and the inline PTX that the lowering turns into instructions; compiled for the device only.
//!
//! Whatever several threads do together stays volatile (no `pure`, no `nomem`), so that no pass copies or moves it.

pub(crate) mod cluster;
pub(crate) mod grid;
pub(crate) mod math;
pub(crate) mod mbarrier;
pub(crate) mod named;
pub(crate) mod print;
pub(crate) mod shape;
pub(crate) mod warp;

use crate::index::Dim3;
use crate::ptx;
use crate::shared::SharedSite;

pub(crate) mod atomic;
pub(crate) mod cache;
pub(crate) mod rng;
pub(crate) mod shared;
pub(crate) mod timing;

unsafe extern "C" {
    safe fn __warpsmith_sreg_tid_x() -> u32;
    safe fn __warpsmith_sreg_tid_y() -> u32;
    safe fn __warpsmith_sreg_tid_z() -> u32;
    safe fn __warpsmith_sreg_ctaid_x() -> u32;
    safe fn __warpsmith_sreg_ctaid_y() -> u32;
    safe fn __warpsmith_sreg_ctaid_z() -> u32;
    safe fn __warpsmith_sreg_ntid_x() -> u32;
    safe fn __warpsmith_sreg_ntid_y() -> u32;
    safe fn __warpsmith_sreg_ntid_z() -> u32;
    safe fn __warpsmith_sreg_nctaid_x() -> u32;
    safe fn __warpsmith_sreg_nctaid_y() -> u32;
    safe fn __warpsmith_sreg_nctaid_z() -> u32;
    safe fn __warpsmith_sreg_laneid() -> u32;
    safe fn __warpsmith_hidden(which: u32) -> u64;
    safe fn __warpsmith_architecture_at_least(architecture: u32) -> u32;
    safe fn __warpsmith_dynamic_shared() -> *mut u8;
    safe fn __warpsmith_shared(
        key: *const u8,
        key_len: usize,
        size: usize,
        align: usize,
        site: &'static SharedSite,
    ) -> *mut u8;
}

#[inline(always)]
pub(crate) fn thread_idx() -> Dim3 {
    Dim3 { x: __warpsmith_sreg_tid_x(), y: __warpsmith_sreg_tid_y(), z: __warpsmith_sreg_tid_z() }
}

#[inline(always)]
pub(crate) fn block_idx() -> Dim3 {
    Dim3 { x: __warpsmith_sreg_ctaid_x(), y: __warpsmith_sreg_ctaid_y(), z: __warpsmith_sreg_ctaid_z() }
}

#[inline(always)]
pub(crate) fn block_dim() -> Dim3 {
    Dim3 { x: __warpsmith_sreg_ntid_x(), y: __warpsmith_sreg_ntid_y(), z: __warpsmith_sreg_ntid_z() }
}

#[inline(always)]
pub(crate) fn grid_dim() -> Dim3 {
    Dim3 { x: __warpsmith_sreg_nctaid_x(), y: __warpsmith_sreg_nctaid_y(), z: __warpsmith_sreg_nctaid_z() }
}

/// Gets the kernel code of its own for launches whose grid and blocks extend along x only, in which all that is asked
/// about y and z is a constant: one multiplication, where a global index takes six.
#[inline(always)]
pub(crate) fn differs_along_x() {
    let _ = __warpsmith_hidden(4);
}

/// Notes that the kernel asks which block a thread is in, or which thread of its block: executors on CPUs run the threads of
/// others in longer rows. Nothing is left of it in the PTX.
#[inline(always)]
pub(crate) fn asks_place_in_block() {
    let _ = __warpsmith_hidden(6);
}

/// Notes that the kernel asks for a thread's number in the grid: likewise, where blocks have many rows.
#[inline(always)]
pub(crate) fn asks_number_in_grid() {
    let _ = __warpsmith_hidden(7);
}

/// Whether the PTX is made for compute capability `architecture / 10` or above: a constant, so that code that a device
/// lacks is dropped from its PTX. The number must be constant where this is called.
#[inline(always)]
pub(crate) fn architecture_at_least(architecture: u32) -> bool {
    __warpsmith_architecture_at_least(architecture) != 0
}

#[inline(always)]
pub(crate) fn lane_id() -> u32 {
    __warpsmith_sreg_laneid()
}

/// One static shared allocation for each `Key` type's name and `site`.
#[inline(always)]
pub(crate) fn shared<T, Key>(site: &'static SharedSite) -> *mut T {
    __warpsmith_shared(
        core::any::type_name::<Key>().as_ptr(),
        core::any::type_name::<Key>().len(),
        const { size_of::<T>() },
        const { align_of::<T>() },
        site,
    )
    .cast()
}

#[inline(always)]
pub(crate) fn dynamic_shared() -> *mut u8 {
    __warpsmith_dynamic_shared()
}

#[inline(always)]
pub(crate) fn dynamic_shared_bytes() -> u32 {
    let bytes: u32;
    // SAFETY: reads a register that does not change.
    unsafe { ptx!("mov.u32 {0}, %dynamic_smem_size;", out(reg) bytes, options(pure, nomem, nostack)) };
    bytes
}

/// `a * b + c` in 64 bits.
#[inline(always)]
pub(crate) fn mad_wide(a: u32, b: u32, c: u64) -> u64 {
    let result: u64;
    // SAFETY: computes in registers.
    unsafe {
        ptx!("mad.wide.u32 {0}, {1}, {2}, {3};", out(reg) result, in(reg) a, in(reg) b, in(reg) c,
            options(pure, nomem, nostack));
    }
    result
}

#[inline(always)]
pub(crate) fn bar_sync() {
    // Not `bar.sync`, which is for whole warps: lanes of one warp that wait at two places would do so without end.
    // SAFETY: a barrier writes no memory of its own.
    unsafe { core::arch::asm!("/*ptx: barrier.sync 0; */") };
}

macro_rules! barrier_votes {
    ($($name:ident $template:literal)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(predicate: u32) -> u32 {
            let result: u32;
            // SAFETY: a barrier writes no memory of its own.
            unsafe { ptx!($template, out(reg) result, in(reg) predicate) };
            result
        }
    )*};
}
barrier_votes! {
    bar_red_popc "{{ .reg .pred %vote; setp.ne.u32 %vote, {1}, 0; barrier.red.popc.u32 {0}, 0, %vote; }}"
    bar_red_and "{{ .reg .pred %vote; setp.ne.u32 %vote, {1}, 0; barrier.red.and.pred %vote, 0, %vote; selp.u32 {0}, 1, 0, %vote; }}"
    bar_red_or "{{ .reg .pred %vote; setp.ne.u32 %vote, {1}, 0; barrier.red.or.pred %vote, 0, %vote; selp.u32 {0}, 1, 0, %vote; }}"
}

#[inline(always)]
pub(crate) fn bar_warp_sync(mask: u32) {
    // SAFETY: a barrier writes no memory of its own.
    unsafe { ptx!("bar.warp.sync {0};", in(reg) mask) };
}

#[inline(always)]
pub(crate) fn activemask() -> u32 {
    let mask: u32;
    // SAFETY: reads which lanes run.
    unsafe { ptx!("activemask.b32 {0};", out(reg) mask) };
    mask
}

macro_rules! shuffles {
    ($($name:ident $template:literal)*) => {$(
        /// `control` holds the clamp in its low 5 bits and the segment mask from bit 8 on.
        #[inline(always)]
        pub(crate) fn $name(mask: u32, value: u32, operand: u32, control: u32) -> u32 {
            let result: u32;
            // SAFETY: moves registers between lanes.
            unsafe {
                ptx!($template, out(reg) result, in(reg) value, in(reg) operand, in(reg) control, in(reg) mask);
            }
            result
        }
    )*};
}
shuffles! {
    shfl_idx "shfl.sync.idx.b32 {0}, {1}, {2}, {3}, {4};"
    shfl_up "shfl.sync.up.b32 {0}, {1}, {2}, {3}, {4};"
    shfl_down "shfl.sync.down.b32 {0}, {1}, {2}, {3}, {4};"
    shfl_xor "shfl.sync.bfly.b32 {0}, {1}, {2}, {3}, {4};"
}

macro_rules! votes {
    ($($name:ident $template:literal)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(mask: u32, predicate: u32) -> u32 {
            let result: u32;
            // SAFETY: moves registers between lanes.
            unsafe { ptx!($template, out(reg) result, in(reg) predicate, in(reg) mask) };
            result
        }
    )*};
}
votes! {
    vote_ballot "{{ .reg .pred %vote; setp.ne.u32 %vote, {1}, 0; vote.sync.ballot.b32 {0}, %vote, {2}; }}"
    vote_all "{{ .reg .pred %vote; setp.ne.u32 %vote, {1}, 0; vote.sync.all.pred %vote, %vote, {2}; selp.u32 {0}, 1, 0, %vote; }}"
    vote_any "{{ .reg .pred %vote; setp.ne.u32 %vote, {1}, 0; vote.sync.any.pred %vote, %vote, {2}; selp.u32 {0}, 1, 0, %vote; }}"
}

macro_rules! matches {
    ($($name:ident $value:ty, $template:literal)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(mask: u32, value: $value) -> u32 {
            let result: u32;
            // SAFETY: moves registers between lanes.
            unsafe { ptx!($template, out(reg) result, in(reg) value, in(reg) mask) };
            result
        }
    )*};
}
matches! {
    match_any_32 u32, "match.any.sync.b32 {0}, {1}, {2};"
    match_any_64 u64, "match.any.sync.b64 {0}, {1}, {2};"
    match_all_32 u32, "{{ .reg .pred %equal; match.all.sync.b32 {0}|%equal, {1}, {2}; }}"
    match_all_64 u64, "{{ .reg .pred %equal; match.all.sync.b64 {0}|%equal, {1}, {2}; }}"
}

#[inline(always)]
pub(crate) fn membar_cta() {
    // SAFETY: a fence writes no memory.
    unsafe { ptx!("membar.cta;") };
}

#[inline(always)]
pub(crate) fn membar_gl() {
    // SAFETY: a fence writes no memory.
    unsafe { ptx!("membar.gl;") };
}

#[inline(always)]
pub(crate) fn membar_sys() {
    // SAFETY: a fence writes no memory.
    unsafe { ptx!("membar.sys;") };
}
