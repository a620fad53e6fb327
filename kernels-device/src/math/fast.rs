//! Fast approximations of `f32` functions, each one to three instructions.
//!
//! The CPU executor computes the precise function, so that its results differ from a GPU's within the bounds given.

macro_rules! approximations {
    ($(
        $(#[$meta:meta])*
        $name:ident($($argument:ident),*) = $device:expr, $host:expr;
    )*) => {$(
        $(#[$meta])*
        ///
        /// Subnormal numbers are kept. The CPU executor computes the precise function.
        /// # Source
        /// CUDA C++ Programming Guide, "Intrinsic Functions"; PTX ISA, "Floating Point Instructions".
        #[inline]
        #[must_use]
        pub fn $name($($argument: f32),*) -> f32 {
            #[cfg(warpsmith_device)]
            {
                $device
            }
            #[cfg(not(warpsmith_device))]
            {
                $host
            }
        }
    )*};
}

#[cfg(warpsmith_device)]
use crate::intrinsics::math::{
    cos_approx, div_approx, ex2_approx, lg2_approx, rcp_approx, sin_approx, sqrt_approx, tanh_approx,
};

approximations! {
    /// The sine, to an absolute error of 2^-21.41 for `x` from -pi to pi, and larger beyond.
    ///
    /// PTX: `sin.approx.f32`.
    fast_sin(x) = sin_approx(x), x.sin();
    /// The cosine, to an absolute error of 2^-21.19 for `x` from -pi to pi, and larger beyond.
    ///
    /// PTX: `cos.approx.f32`.
    fast_cos(x) = cos_approx(x), x.cos();
    /// The tangent: the quotient of [`fast_sin`] and [`fast_cos`], with their errors.
    ///
    /// PTX: `sin.approx.f32`, `cos.approx.f32`, `div.approx.f32`.
    fast_tan(x) = div_approx(sin_approx(x), cos_approx(x)), x.tan();
    /// `e^x`, to `2 + floor(abs(1.173 * x))` units in the last place.
    ///
    /// PTX: `ex2.approx.f32` of `x * log2(e)`.
    fast_exp(x) = ex2_approx(x * core::f32::consts::LOG2_E), x.exp();
    /// `2^x`, to 2 units in the last place.
    ///
    /// PTX: `ex2.approx.f32`.
    fast_exp2(x) = ex2_approx(x), x.exp2();
    /// `10^x`, to `2 + floor(abs(2.97 * x))` units in the last place.
    ///
    /// PTX: `ex2.approx.f32` of `x * log2(10)`.
    fast_exp10(x) = ex2_approx(x * core::f32::consts::LOG2_10), libm::exp10f(x);
    /// The natural logarithm, to an absolute error of 2^-21.41 for `x` from 0.5 to 2, else to 3 units in the last place.
    ///
    /// PTX: `lg2.approx.f32`, times `ln(2)`.
    fast_ln(x) = lg2_approx(x) * core::f32::consts::LN_2, x.ln();
    /// The logarithm to base 2, to an absolute error of 2^-22 for `x` from 0.5 to 2, else to 2 units in the last place.
    ///
    /// PTX: `lg2.approx.f32`.
    fast_log2(x) = lg2_approx(x), x.log2();
    /// The logarithm to base 10, to an absolute error of 2^-24 for `x` from 0.5 to 2, else to 3 units in the last place.
    ///
    /// PTX: `lg2.approx.f32`, times `log10(2)`.
    fast_log10(x) = lg2_approx(x) * core::f32::consts::LOG10_2, x.log10();
    /// `x^y` for `x` not below 0, with the errors of [`fast_log2`] times `y` and of [`fast_exp2`].
    ///
    /// A negative `x` gives NaN. On a GPU so do 0 and infinity to the power of 0, and 1 to an infinite one, which are 1 on the
    /// executor. PTX: `ex2.approx.f32` of `y` times `lg2.approx.f32`.
    fast_pow(x, y) = ex2_approx(y * lg2_approx(x)), if x < 0.0 { f32::NAN } else { x.powf(y) };
    /// The hyperbolic tangent, to a relative error of 2^-11.
    ///
    /// PTX: `tanh.approx.f32`, of compute capability 7.5.
    fast_tanh(x) = tanh_approx(x), x.tanh();
    /// `x / y`, to 2 units in the last place for `y` of magnitude 2^-126 to 2^126; 0 for larger ones, or NaN if `x` is infinite.
    ///
    /// PTX: `div.approx.f32`.
    fast_div(x, y) = div_approx(x, y), x / y;
    /// `1 / x`, to 1 unit in the last place.
    ///
    /// PTX: `rcp.approx.f32`.
    rcp(x) = rcp_approx(x), 1.0 / x;
    /// The square root, to a relative error of 2^-23.
    ///
    /// PTX: `sqrt.approx.f32`.
    fast_sqrt(x) = sqrt_approx(x), x.sqrt();
}

/// Sine and cosine at once: [`fast_sin`] and [`fast_cos`].
#[inline]
#[must_use]
pub fn fast_sin_cos(x: f32) -> (f32, f32) {
    (fast_sin(x), fast_cos(x))
}
