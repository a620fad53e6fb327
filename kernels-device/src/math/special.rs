//! Special functions of `f32` and `f64` that std lacks.

use super::sealed::Sealed;

/// `f32` and `f64`, as what the functions of this module take.
pub trait Float: Sealed + Copy {
    #[doc(hidden)]
    fn erf(self) -> Self;
    #[doc(hidden)]
    fn erfc(self) -> Self;
    #[doc(hidden)]
    fn exp10(self) -> Self;
    #[doc(hidden)]
    fn sinpi(self) -> Self;
    #[doc(hidden)]
    fn cospi(self) -> Self;
    #[doc(hidden)]
    fn rcbrt(self) -> Self;
    #[doc(hidden)]
    fn rsqrt(self) -> Self;
    #[doc(hidden)]
    fn tgamma(self) -> Self;
    #[doc(hidden)]
    fn lgamma(self) -> Self;
}

macro_rules! functions {
    ($ty:ident $sqrt:path: $($method:ident $name:ident $host:path;)*) => {
        impl Float for $ty {
            $(
                #[inline]
                fn $method(self) -> Self {
                    #[cfg(warpsmith_device)]
                    {
                        // The name in C, which the lowering maps to libdevice or to a body of ours.
                        unsafe extern "C" {
                            safe fn $name(x: $ty) -> $ty;
                        }
                        $name(self)
                    }
                    #[cfg(not(warpsmith_device))]
                    {
                        $host(self)
                    }
                }
            )*

            #[inline]
            fn rsqrt(self) -> Self {
                #[cfg(warpsmith_device)]
                {
                    crate::intrinsics::math::rsqrt::$ty(self)
                }
                #[cfg(not(warpsmith_device))]
                {
                    1.0 / $sqrt(self)
                }
            }
        }
    };
}

functions! { f32 libm::sqrtf:
    erf erff libm::erff;
    erfc erfcf libm::erfcf;
    exp10 exp10f libm::exp10f;
    sinpi sinpif super::bodies::sinpif;
    cospi cospif super::bodies::cospif;
    rcbrt rcbrtf super::bodies::rcbrtf;
    tgamma tgammaf libm::tgammaf;
    lgamma lgammaf libm::lgammaf;
}
functions! { f64 libm::sqrt:
    erf erf libm::erf;
    erfc erfc libm::erfc;
    exp10 exp10 libm::exp10;
    sinpi sinpi super::bodies::sinpi;
    cospi cospi super::bodies::cospi;
    rcbrt rcbrt super::bodies::rcbrt;
    tgamma tgamma libm::tgamma;
    lgamma lgamma libm::lgamma;
}

/// The error function, `2 / sqrt(pi)` times the integral of `e^-t^2` from 0 to `x`.
///
/// A call of libdevice or of the `libm` crate; the CPU executor calls `libm`. `docs/math.md` has its measured errors.
/// # Source
/// CUDA C++ Programming Guide, "Mathematical Functions".
#[inline]
#[must_use]
pub fn erf<F: Float>(x: F) -> F {
    x.erf()
}

/// The complementary error function, `1 - erf(x)` without the loss of digits for large `x`.
///
/// As [`erf`] otherwise.
#[inline]
#[must_use]
pub fn erfc<F: Float>(x: F) -> F {
    x.erfc()
}

/// 10 to the power of `x`.
///
/// As [`erf`] otherwise.
#[inline]
#[must_use]
pub fn exp10<F: Float>(x: F) -> F {
    x.exp10()
}

/// The sine of `pi * x`, with no rounding of the product: exactly 0 at whole numbers, with the sign of `x`.
///
/// A call of libdevice or of a body of ours, which the CPU executor calls too.
/// # Source
/// CUDA C++ Programming Guide, "Mathematical Functions".
#[inline]
#[must_use]
pub fn sinpi<F: Float>(x: F) -> F {
    x.sinpi()
}

/// The cosine of `pi * x`, with no rounding of the product: exactly 0 halfway between whole numbers.
///
/// As [`sinpi`] otherwise.
#[inline]
#[must_use]
pub fn cospi<F: Float>(x: F) -> F {
    x.cospi()
}

/// One over the cube root of `x`.
///
/// As [`sinpi`] otherwise.
#[inline]
#[must_use]
pub fn rcbrt<F: Float>(x: F) -> F {
    x.rcbrt()
}

/// One over the square root of `x`, to 2 units in the last place for `f32` and 1 for `f64`.
///
/// PTX: `rsqrt.approx.f32`, `rsqrt.approx.f64`. Subnormal numbers are kept. The CPU executor computes `1.0 / x.sqrt()`, which
/// may differ in the last digits.
/// # Source
/// PTX ISA, "rsqrt"; CUDA C++ Programming Guide, "Mathematical Functions".
#[inline]
#[must_use]
pub fn rsqrt<F: Float>(x: F) -> F {
    x.rsqrt()
}

/// The gamma function: `(x - 1)!` for whole numbers.
///
/// As [`erf`] otherwise.
#[inline]
#[must_use]
pub fn tgamma<F: Float>(x: F) -> F {
    x.tgamma()
}

/// The logarithm of the gamma function's magnitude.
///
/// As [`erf`] otherwise. Between about -11 and -2.2, where the result passes 0 many times, only the absolute error is small.
#[inline]
#[must_use]
pub fn lgamma<F: Float>(x: F) -> F {
    x.lgamma()
}
