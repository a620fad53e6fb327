//! PTX instructions that compute, each on its operands alone.

use core::arch::asm;

use crate::math::softfloat::Mode;
use crate::ptx;

macro_rules! compute {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty = $template:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name($($argument: $ty),*) -> $result {
            let result: $result;
            // SAFETY: the instruction reads and writes registers alone.
            unsafe { ptx!($template, out(reg) result, $(in(reg) $argument,)* options(pure, nomem, nostack)) };
            result
        }
    )*};
}

compute! {
    sin_approx(x: f32) -> f32 = "sin.approx.f32 {0}, {1};";
    cos_approx(x: f32) -> f32 = "cos.approx.f32 {0}, {1};";
    ex2_approx(x: f32) -> f32 = "ex2.approx.f32 {0}, {1};";
    lg2_approx(x: f32) -> f32 = "lg2.approx.f32 {0}, {1};";
    tanh_approx(x: f32) -> f32 = "tanh.approx.f32 {0}, {1};";
    rcp_approx(x: f32) -> f32 = "rcp.approx.f32 {0}, {1};";
    sqrt_approx(x: f32) -> f32 = "sqrt.approx.f32 {0}, {1};";
    div_approx(x: f32, y: f32) -> f32 = "div.approx.f32 {0}, {1}, {2};";
    prmt(x: u32, y: u32, selector: u32) -> u32 = "prmt.b32 {0}, {1}, {2}, {3};";
    funnel_shift_l(low: u32, high: u32, shift: u32) -> u32 = "shf.l.wrap.b32 {0}, {1}, {2}, {3};";
    funnel_shift_lc(low: u32, high: u32, shift: u32) -> u32 = "shf.l.clamp.b32 {0}, {1}, {2}, {3};";
    funnel_shift_r(low: u32, high: u32, shift: u32) -> u32 = "shf.r.wrap.b32 {0}, {1}, {2}, {3};";
    funnel_shift_rc(low: u32, high: u32, shift: u32) -> u32 = "shf.r.clamp.b32 {0}, {1}, {2}, {3};";
    sad(a: i32, b: i32, c: u32) -> u32 = "sad.s32 {0}, {1}, {2}, {3};";
    usad(a: u32, b: u32, c: u32) -> u32 = "sad.u32 {0}, {1}, {2}, {3};";
    dp4a(a: i32, b: i32, c: i32) -> i32 = "dp4a.s32.s32 {0}, {1}, {2}, {3};";
    dp4a_u32(a: u32, b: u32, c: u32) -> u32 = "dp4a.u32.u32 {0}, {1}, {2}, {3};";
    dp4a_us(a: u32, b: i32, c: i32) -> i32 = "dp4a.u32.s32 {0}, {1}, {2}, {3};";
    dp4a_su(a: i32, b: u32, c: i32) -> i32 = "dp4a.s32.u32 {0}, {1}, {2}, {3};";
    dp2a_lo(a: i32, b: i32, c: i32) -> i32 = "dp2a.lo.s32.s32 {0}, {1}, {2}, {3};";
    dp2a_hi(a: i32, b: i32, c: i32) -> i32 = "dp2a.hi.s32.s32 {0}, {1}, {2}, {3};";
    dp2a_lo_u32(a: u32, b: u32, c: u32) -> u32 = "dp2a.lo.u32.u32 {0}, {1}, {2}, {3};";
    dp2a_hi_u32(a: u32, b: u32, c: u32) -> u32 = "dp2a.hi.u32.u32 {0}, {1}, {2}, {3};";
}

/// One instruction with the suffix for each rounding; `mode` is a constant where this is called.
macro_rules! by_mode {
    ($mode:expr, $rn:literal $rz:literal $ru:literal $rd:literal, $result:ty, $before:literal $after:literal ($($argument:ident),*)) => {{
        let result: $result;
        macro_rules! instruction {
            ($suffix:literal) => {
                // SAFETY: the instruction reads and writes registers alone.
                unsafe {
                    asm!(
                        concat!("/*ptx: ", $before, $suffix, $after, " */"),
                        out(reg) result, $(in(reg) $argument,)* options(pure, nomem, nostack)
                    )
                }
            };
        }
        match $mode {
            Mode::Nearest => instruction!($rn),
            Mode::Zero => instruction!($rz),
            Mode::Up => instruction!($ru),
            Mode::Down => instruction!($rd),
        }
        result
    }};
}

macro_rules! operations {
    ($ty:ident: $($name:ident($($argument:ident),*) $instruction:literal $operands:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name($($argument: $ty,)* mode: Mode) -> $ty {
            by_mode!(
                mode, "rn" "rz" "rp" "rm", $ty,
                $instruction $operands ($($argument),*)
            )
        }
    )*};
}

macro_rules! float_to_integer {
    ($ty:ident: $($name:ident $result:ty, $operands:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(x: $ty, mode: Mode) -> $result {
            by_mode!(mode, "rni" "rzi" "rpi" "rmi", $result, "cvt." $operands (x))
        }
    )*};
}

macro_rules! to_float {
    ($ty:ident: $($name:ident $result:ty, $operands:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(x: $ty, mode: Mode) -> $result {
            by_mode!(mode, "rn" "rz" "rp" "rm", $result, "cvt." $operands (x))
        }
    )*};
}

/// The register of a small integer is a wide one.
macro_rules! float_to_small {
    ($ty:ident: $($name:ident $result:ident $register:ident, $template:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(x: $ty) -> $result {
            compute! {
                convert(x: $ty) -> $register = $template;
            }
            // For NaN the instruction's answer depends on the widths.
            if x.is_nan() { 0 } else { convert(x) as $result }
        }
    )*};
}

pub(crate) mod rsqrt {
    use super::ptx;

    compute! {
        f32(x: f32) -> f32 = "rsqrt.approx.f32 {0}, {1};";
        f64(x: f64) -> f64 = "rsqrt.approx.f64 {0}, {1};";
    }
}

pub(crate) mod f32 {
    use super::{Mode, asm, ptx};

    operations! { f32:
        add(a, b) "add." ".f32 {0}, {1}, {2};";
        mul(a, b) "mul." ".f32 {0}, {1}, {2};";
        div(a, b) "div." ".f32 {0}, {1}, {2};";
        rcp(a) "rcp." ".f32 {0}, {1};";
        fma(a, b, c) "fma." ".f32 {0}, {1}, {2}, {3};";
        sqrt(a) "sqrt." ".f32 {0}, {1};";
    }
    compute! {
        saturate(x: f32) -> f32 = "cvt.sat.f32.f32 {0}, {1};";
    }
    float_to_integer! { f32:
        to_i32 i32, ".s32.f32 {0}, {1};";
        to_u32 u32, ".u32.f32 {0}, {1};";
        to_i64 i64, ".s64.f32 {0}, {1};";
        to_u64 u64, ".u64.f32 {0}, {1};";
    }
    float_to_small! { f32:
        to_i8 i8 i32, "cvt.rni.sat.s8.f32 {0}, {1};";
        to_u8 u8 u32, "cvt.rni.sat.u8.f32 {0}, {1};";
        to_i16 i16 i32, "cvt.rni.sat.s16.f32 {0}, {1};";
        to_u16 u16 u32, "cvt.rni.sat.u16.f32 {0}, {1};";
    }
    to_float! { f32:
        to_f16 u16, ".f16.f32 {0}, {1};";
    }
}

pub(crate) mod f64 {
    use super::{Mode, asm, ptx};

    operations! { f64:
        add(a, b) "add." ".f64 {0}, {1}, {2};";
        mul(a, b) "mul." ".f64 {0}, {1}, {2};";
        div(a, b) "div." ".f64 {0}, {1}, {2};";
        rcp(a) "rcp." ".f64 {0}, {1};";
        fma(a, b, c) "fma." ".f64 {0}, {1}, {2}, {3};";
        sqrt(a) "sqrt." ".f64 {0}, {1};";
    }
    compute! {
        saturate(x: f64) -> f64 = "cvt.sat.f64.f64 {0}, {1};";
    }
    float_to_integer! { f64:
        to_i32 i32, ".s32.f64 {0}, {1};";
        to_u32 u32, ".u32.f64 {0}, {1};";
        to_i64 i64, ".s64.f64 {0}, {1};";
        to_u64 u64, ".u64.f64 {0}, {1};";
    }
    float_to_small! { f64:
        to_i8 i8 i32, "cvt.rni.sat.s8.f64 {0}, {1};";
        to_u8 u8 u32, "cvt.rni.sat.u8.f64 {0}, {1};";
        to_i16 i16 i32, "cvt.rni.sat.s16.f64 {0}, {1};";
        to_u16 u16 u32, "cvt.rni.sat.u16.f64 {0}, {1};";
    }
    to_float! { f64:
        to_f16 u16, ".f16.f64 {0}, {1};";
        to_f32 f32, ".f32.f64 {0}, {1};";
    }
}

macro_rules! integers {
    ($($ty:ident: $mul_hi:literal $bfind:literal $bfe:literal $bfi:literal, $($to:ident $result:ident $convert:literal)*;)*) => {$(
        pub(crate) mod $ty {
            use super::{Mode, asm, ptx};

            compute! {
                mul_hi(a: $ty, b: $ty) -> $ty = $mul_hi;
                bfind(x: $ty) -> u32 = $bfind;
                bfe(x: $ty, position: u32, len: u32) -> $ty = $bfe;
                bfi(x: $ty, into: $ty, position: u32, len: u32) -> $ty = $bfi;
            }
            to_float! { $ty: $($to $result, $convert;)* }
        }
    )*};
}
integers! {
    i32: "mul.hi.s32 {0}, {1}, {2};" "bfind.s32 {0}, {1};" "bfe.s32 {0}, {1}, {2}, {3};" "bfi.b32 {0}, {1}, {2}, {3}, {4};",
        to_f32 f32 ".f32.s32 {0}, {1};";
    u32: "mul.hi.u32 {0}, {1}, {2};" "bfind.u32 {0}, {1};" "bfe.u32 {0}, {1}, {2}, {3};" "bfi.b32 {0}, {1}, {2}, {3}, {4};",
        to_f32 f32 ".f32.u32 {0}, {1};";
    i64: "mul.hi.s64 {0}, {1}, {2};" "bfind.s64 {0}, {1};" "bfe.s64 {0}, {1}, {2}, {3};" "bfi.b64 {0}, {1}, {2}, {3}, {4};",
        to_f32 f32 ".f32.s64 {0}, {1};" to_f64 f64 ".f64.s64 {0}, {1};";
    u64: "mul.hi.u64 {0}, {1}, {2};" "bfind.u64 {0}, {1};" "bfe.u64 {0}, {1}, {2}, {3};" "bfi.b64 {0}, {1}, {2}, {3}, {4};",
        to_f32 f32 ".f32.u64 {0}, {1};" to_f64 f64 ".f64.u64 {0}, {1};";
}
