//! Bodies of C's maths functions for kernels, most from the `libm` crate: used where NVIDIA's libdevice was not found.

use crate::math::{bodies, single};

macro_rules! table {
    ($($symbol:ident $function:ident ($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {$(
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $symbol($($argument: $ty),*) -> $result {
            libm::$function($($argument),*)
        }
    )*};
}

table! {
    __warpsmith_math_acosf acosf(x: f32) -> f32;
    __warpsmith_math_atanf atanf(x: f32) -> f32;
    __warpsmith_math_sinhf sinhf(x: f32) -> f32;
    __warpsmith_math_coshf coshf(x: f32) -> f32;
    __warpsmith_math_tanhf tanhf(x: f32) -> f32;
    __warpsmith_math_asinhf asinhf(x: f32) -> f32;
    __warpsmith_math_acoshf acoshf(x: f32) -> f32;
    __warpsmith_math_atanhf atanhf(x: f32) -> f32;
    __warpsmith_math_expf expf(x: f32) -> f32;
    __warpsmith_math_exp10f exp10f(x: f32) -> f32;
    __warpsmith_math_expm1f expm1f(x: f32) -> f32;
    __warpsmith_math_logf logf(x: f32) -> f32;
    __warpsmith_math_log2f log2f(x: f32) -> f32;
    __warpsmith_math_log10f log10f(x: f32) -> f32;
    __warpsmith_math_log1pf log1pf(x: f32) -> f32;
    __warpsmith_math_tgammaf tgammaf(x: f32) -> f32;
    __warpsmith_math_lgammaf lgammaf(x: f32) -> f32;
    __warpsmith_math_erff erff(x: f32) -> f32;
    __warpsmith_math_erfcf erfcf(x: f32) -> f32;
    __warpsmith_math_atan2f atan2f(x: f32, y: f32) -> f32;
    __warpsmith_math_fmodf fmodf(x: f32, y: f32) -> f32;
    __warpsmith_math_fdimf fdimf(x: f32, y: f32) -> f32;
    __warpsmith_math_sin sin(x: f64) -> f64;
    __warpsmith_math_cos cos(x: f64) -> f64;
    __warpsmith_math_tan tan(x: f64) -> f64;
    __warpsmith_math_asin asin(x: f64) -> f64;
    __warpsmith_math_acos acos(x: f64) -> f64;
    __warpsmith_math_atan atan(x: f64) -> f64;
    __warpsmith_math_sinh sinh(x: f64) -> f64;
    __warpsmith_math_cosh cosh(x: f64) -> f64;
    __warpsmith_math_tanh tanh(x: f64) -> f64;
    __warpsmith_math_asinh asinh(x: f64) -> f64;
    __warpsmith_math_acosh acosh(x: f64) -> f64;
    __warpsmith_math_atanh atanh(x: f64) -> f64;
    __warpsmith_math_exp exp(x: f64) -> f64;
    __warpsmith_math_exp2 exp2(x: f64) -> f64;
    __warpsmith_math_exp10 exp10(x: f64) -> f64;
    __warpsmith_math_expm1 expm1(x: f64) -> f64;
    __warpsmith_math_log log(x: f64) -> f64;
    __warpsmith_math_log2 log2(x: f64) -> f64;
    __warpsmith_math_log10 log10(x: f64) -> f64;
    __warpsmith_math_log1p log1p(x: f64) -> f64;
    __warpsmith_math_cbrt cbrt(x: f64) -> f64;
    __warpsmith_math_tgamma tgamma(x: f64) -> f64;
    __warpsmith_math_lgamma lgamma(x: f64) -> f64;
    __warpsmith_math_erf erf(x: f64) -> f64;
    __warpsmith_math_erfc erfc(x: f64) -> f64;
    __warpsmith_math_atan2 atan2(x: f64, y: f64) -> f64;
    __warpsmith_math_hypot hypot(x: f64, y: f64) -> f64;
    __warpsmith_math_fmod fmod(x: f64, y: f64) -> f64;
    __warpsmith_math_fdim fdim(x: f64, y: f64) -> f64;
}

macro_rules! own_bodies {
    ($($symbol:ident $function:path, ($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {$(
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $symbol($($argument: $ty),*) -> $result {
            $function($($argument),*)
        }
    )*};
}

own_bodies! {
    __warpsmith_math_sinf single::sinf, (x: f32) -> f32;
    __warpsmith_math_cosf single::cosf, (x: f32) -> f32;
    __warpsmith_math_tanf single::tanf, (x: f32) -> f32;
    __warpsmith_math_asinf single::asinf, (x: f32) -> f32;
    __warpsmith_math_exp2f single::exp2f, (x: f32) -> f32;
    __warpsmith_math_cbrtf single::cbrtf, (x: f32) -> f32;
    __warpsmith_math_hypotf single::hypotf, (x: f32, y: f32) -> f32;
    __warpsmith_math_sinpif bodies::sinpif, (x: f32) -> f32;
    __warpsmith_math_cospif bodies::cospif, (x: f32) -> f32;
    __warpsmith_math_rcbrtf bodies::rcbrtf, (x: f32) -> f32;
    __warpsmith_math_sinpi bodies::sinpi, (x: f64) -> f64;
    __warpsmith_math_cospi bodies::cospi, (x: f64) -> f64;
    __warpsmith_math_rcbrt bodies::rcbrt, (x: f64) -> f64;
    __warpsmith_math_powf bodies::power_f32::pow, (x: f32, y: f32) -> f32;
    __warpsmith_math_pow bodies::power_f64::pow, (x: f64, y: f64) -> f64;
}

macro_rules! integer_power {
    ($symbol:ident $ty:ty) => {
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $symbol(x: $ty, n: i32) -> $ty {
            let mut base = x;
            let mut left = n.unsigned_abs();
            let mut result = 1.0;
            while left != 0 {
                if left & 1 == 1 {
                    result *= base;
                }
                base *= base;
                left >>= 1;
            }
            if n < 0 { 1.0 / result } else { result }
        }
    };
}
integer_power!(__warpsmith_math_powif f32);
integer_power!(__warpsmith_math_powi f64);
