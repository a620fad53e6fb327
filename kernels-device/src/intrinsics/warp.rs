//! Lane masks, and reductions in one instruction.

use crate::ptx;

unsafe extern "C" {
    safe fn __warpsmith_sreg_lanemask_eq() -> u32;
    safe fn __warpsmith_sreg_lanemask_lt() -> u32;
    safe fn __warpsmith_sreg_lanemask_le() -> u32;
    safe fn __warpsmith_sreg_lanemask_gt() -> u32;
    safe fn __warpsmith_sreg_lanemask_ge() -> u32;
}

macro_rules! lane_masks {
    ($($name:ident $register:ident)*) => {$(
        #[inline(always)]
        pub(crate) fn $name() -> u32 {
            $register()
        }
    )*};
}
lane_masks! {
    lanemask_eq __warpsmith_sreg_lanemask_eq
    lanemask_lt __warpsmith_sreg_lanemask_lt
    lanemask_le __warpsmith_sreg_lanemask_le
    lanemask_gt __warpsmith_sreg_lanemask_gt
    lanemask_ge __warpsmith_sreg_lanemask_ge
}

macro_rules! reductions {
    ($($name:ident $int:ty, $template:literal)*) => {$(
        /// Compute capability 8.0.
        #[inline(always)]
        pub(crate) fn $name(mask: u32, value: $int) -> $int {
            let result: $int;
            // SAFETY: moves registers between lanes.
            unsafe { ptx!($template, out(reg) result, in(reg) value, in(reg) mask) };
            result
        }
    )*};
}
reductions! {
    redux_add u32, "redux.sync.add.u32 {0}, {1}, {2};"
    redux_min u32, "redux.sync.min.u32 {0}, {1}, {2};"
    redux_max u32, "redux.sync.max.u32 {0}, {1}, {2};"
    redux_min_signed i32, "redux.sync.min.s32 {0}, {1}, {2};"
    redux_max_signed i32, "redux.sync.max.s32 {0}, {1}, {2};"
    redux_and u32, "redux.sync.and.b32 {0}, {1}, {2};"
    redux_or u32, "redux.sync.or.b32 {0}, {1}, {2};"
    redux_xor u32, "redux.sync.xor.b32 {0}, {1}, {2};"
}
