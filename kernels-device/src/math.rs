//! Mathematics beyond the methods of `f32` and `f64`: special functions, fast approximations, directed rounding, and what
//! the hardware does with integers.
//!
//! Everything is safe to call, from any thread, and on the CPU executor too.
//! `docs/math.md` in the repository has the measured errors of these functions and of std's.
//!
//! # Examples
//! ```
//! use warpsmith_device::math::{add_rd, add_ru, dp4a, erf, to_u8_rn};
//!
//! assert_eq!(to_u8_rn(254.5f32), 254);
//! assert_eq!(to_u8_rn(300.0f64), 255);
//! assert!(add_rd(1.0f32, 1e-10) == 1.0 && add_ru(1.0f32, 1e-10) > 1.0);
//! assert_eq!(dp4a(0x0102_0304, 0x0101_0101, 5), 15);
//! assert!((erf(0.5f64) - 0.520_499_877_813).abs() < 1e-12);
//! ```

#[doc(hidden)]
pub mod bodies;
mod convert;
mod directed;
mod fast;
mod integer;
#[doc(hidden)]
pub mod single;
#[cfg_attr(
    warpsmith_device,
    allow(dead_code, reason = "the executor's arithmetic is compiled, though never run, in the device build too")
)]
pub(crate) mod softfloat;
mod special;

pub use convert::{
    ToDouble, ToInteger, ToSingle, to_f16_rd, to_f16_rn, to_f16_ru, to_f16_rz, to_f32_rd, to_f32_ru, to_f32_rz,
    to_f64_rd, to_f64_ru, to_f64_rz, to_i8_rn, to_i16_rn, to_i32_rd, to_i32_rn, to_i32_ru, to_i64_rd, to_i64_rn,
    to_i64_ru, to_u8_rn, to_u16_rn, to_u32_rd, to_u32_rn, to_u32_ru, to_u64_rd, to_u64_rn, to_u64_ru,
};
pub use directed::{
    Directed, add_rd, add_rn, add_ru, add_rz, div_rd, div_rn, div_ru, div_rz, fma_rd, fma_rn, fma_ru, fma_rz, mul_rd,
    mul_rn, mul_ru, mul_rz, rcp_rd, rcp_rn, rcp_ru, rcp_rz, saturate, sqrt_rd, sqrt_rn, sqrt_ru, sqrt_rz, sub_rd,
    sub_rn, sub_ru, sub_rz,
};
pub use fast::{
    fast_cos, fast_div, fast_exp, fast_exp2, fast_exp10, fast_ln, fast_log2, fast_log10, fast_pow, fast_sin,
    fast_sin_cos, fast_sqrt, fast_tan, fast_tanh, rcp,
};
pub use integer::{
    Integer, bfe, bfi, bfind, brev, byte_perm, dp2a_hi, dp2a_hi_u32, dp2a_lo, dp2a_lo_u32, dp4a, dp4a_su, dp4a_u32,
    dp4a_us, funnel_shift_l, funnel_shift_lc, funnel_shift_r, funnel_shift_rc, mul_hi, sad, usad,
};
pub use special::{Float, cospi, erf, erfc, exp10, lgamma, rcbrt, rsqrt, sinpi, tgamma};

/// Keeps the traits of this module to the types that the hardware knows.
pub(crate) mod sealed {
    /// Implemented for the primitive types alone.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}
