//! Atomic operations on words, which the lowering turns into instructions by the number that each ends in.

use crate::ptx;

macro_rules! words {
    ($($word:ident $load:ident $store:ident $rmw:ident $cas:ident;)*) => {
        unsafe extern "C" {$(
            pub(crate) fn $load(pointer: *mut $word, how: u32) -> $word;
            pub(crate) fn $store(pointer: *mut $word, value: $word, how: u32);
            pub(crate) fn $rmw(pointer: *mut $word, value: $word, how: u32) -> $word;
            pub(crate) fn $cas(pointer: *mut $word, current: $word, new: $word, how: u32) -> $word;
        )*}
    };
}
words! {
    u16 __warpsmith_atomic_load_16 __warpsmith_atomic_store_16 __warpsmith_atomic_rmw_16 __warpsmith_atomic_cas_16;
    u32 __warpsmith_atomic_load_32 __warpsmith_atomic_store_32 __warpsmith_atomic_rmw_32 __warpsmith_atomic_cas_32;
    u64 __warpsmith_atomic_load_64 __warpsmith_atomic_store_64 __warpsmith_atomic_rmw_64 __warpsmith_atomic_cas_64;
}

macro_rules! fences {
    ($($name:ident $template:literal)*) => {$(
        #[inline(always)]
        pub(crate) fn $name() {
            // SAFETY: a fence writes no memory.
            unsafe { ptx!($template) };
        }
    )*};
}
fences! {
    fence_acq_rel_cta "fence.acq_rel.cta;"
    fence_acq_rel_gpu "fence.acq_rel.gpu;"
    fence_acq_rel_sys "fence.acq_rel.sys;"
    fence_sc_cta "fence.sc.cta;"
    fence_sc_gpu "fence.sc.gpu;"
    fence_sc_sys "fence.sc.sys;"
}
