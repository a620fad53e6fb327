//! Arithmetic with the rounding written in the name: to nearest, toward zero, up and down.

use super::sealed::Sealed;
use super::softfloat::Mode;
#[cfg(not(warpsmith_device))]
use super::softfloat::{self, F32, F64};

/// `f32` and `f64`, as what arithmetic with a rounding direction takes.
pub trait Directed: Sealed + Copy {
    #[doc(hidden)]
    const ONE: Self;
    #[doc(hidden)]
    fn add(self, other: Self, mode: Mode) -> Self;
    #[doc(hidden)]
    fn negate(self) -> Self;
    #[doc(hidden)]
    fn mul(self, other: Self, mode: Mode) -> Self;
    #[doc(hidden)]
    fn div(self, other: Self, mode: Mode) -> Self;
    #[doc(hidden)]
    fn rcp(self, mode: Mode) -> Self;
    #[doc(hidden)]
    fn fma(self, factor: Self, addend: Self, mode: Mode) -> Self;
    #[doc(hidden)]
    fn sqrt(self, mode: Mode) -> Self;
    #[doc(hidden)]
    fn saturate(self) -> Self;
}

macro_rules! directed {
    ($($ty:ident $format:ident;)*) => {$(
        #[cfg(warpsmith_device)]
        impl Directed for $ty {
            const ONE: Self = 1.0;

            #[inline(always)]
            fn add(self, other: Self, mode: Mode) -> Self {
                crate::intrinsics::math::$ty::add(self, other, mode)
            }

            #[inline(always)]
            fn negate(self) -> Self {
                -self
            }

            #[inline(always)]
            fn mul(self, other: Self, mode: Mode) -> Self {
                crate::intrinsics::math::$ty::mul(self, other, mode)
            }

            #[inline(always)]
            fn div(self, other: Self, mode: Mode) -> Self {
                crate::intrinsics::math::$ty::div(self, other, mode)
            }

            #[inline(always)]
            fn rcp(self, mode: Mode) -> Self {
                crate::intrinsics::math::$ty::rcp(self, mode)
            }

            #[inline(always)]
            fn fma(self, factor: Self, addend: Self, mode: Mode) -> Self {
                crate::intrinsics::math::$ty::fma(self, factor, addend, mode)
            }

            #[inline(always)]
            fn sqrt(self, mode: Mode) -> Self {
                crate::intrinsics::math::$ty::sqrt(self, mode)
            }

            #[inline(always)]
            fn saturate(self) -> Self {
                crate::intrinsics::math::$ty::saturate(self)
            }
        }

        #[cfg(not(warpsmith_device))]
        impl Directed for $ty {
            const ONE: Self = 1.0;

            fn add(self, other: Self, mode: Mode) -> Self {
                softfloat::add(self.into(), other.into(), $format, mode) as $ty
            }

            fn negate(self) -> Self {
                -self
            }

            fn mul(self, other: Self, mode: Mode) -> Self {
                softfloat::mul(self.into(), other.into(), $format, mode) as $ty
            }

            fn div(self, other: Self, mode: Mode) -> Self {
                softfloat::div(self.into(), other.into(), $format, mode) as $ty
            }

            fn rcp(self, mode: Mode) -> Self {
                Directed::div(Self::ONE, self, mode)
            }

            fn fma(self, factor: Self, addend: Self, mode: Mode) -> Self {
                softfloat::fma(self.into(), factor.into(), addend.into(), $format, mode) as $ty
            }

            fn sqrt(self, mode: Mode) -> Self {
                softfloat::sqrt(self.into(), $format, mode) as $ty
            }

            fn saturate(self) -> Self {
                // Written so that NaN gives 0, and so does -0.
                if self > 0.0 { if self < 1.0 { self } else { 1.0 } } else { 0.0 }
            }
        }
    )*};
}
directed! {
    f32 F32;
    f64 F64;
}

macro_rules! operations {
    ($(
        $what:literal $ptx:literal $method:ident ($($argument:ident),*):
        $rn:ident $rz:ident $ru:ident $rd:ident;
    )*) => {$(
        operations! { @one $what "rounded to nearest, ties to even" $ptx ".rn" $rn Nearest $method ($($argument),*) }
        operations! { @one $what "rounded toward zero" $ptx ".rz" $rz Zero $method ($($argument),*) }
        operations! { @one $what "rounded up, toward positive infinity" $ptx ".rp" $ru Up $method ($($argument),*) }
        operations! { @one $what "rounded down, toward negative infinity" $ptx ".rm" $rd Down $method ($($argument),*) }
    )*};
    (@one $what:literal $how:literal $ptx:literal $suffix:literal $name:ident $mode:ident $method:ident ($first:ident $(, $argument:ident)*)) => {
        #[doc = concat!($what, ", ", $how, ".")]
        ///
        #[doc = concat!("PTX: `", $ptx, $suffix, ".f32`, `", $ptx, $suffix, ".f64`. Subnormal numbers are kept, and options of")]
        /// `#[kernel]` that relax arithmetic do not reach it. The CPU executor gives the same bits.
        /// # Source
        /// PTX ISA, "Floating Point Instructions".
        #[inline]
        #[must_use]
        pub fn $name<F: Directed>($first: F $(, $argument: F)*) -> F {
            $first.$method($($argument,)* Mode::$mode)
        }
    };
}
operations! {
    "`a + b`" "add" add(a, b): add_rn add_rz add_ru add_rd;
    "`a * b`" "mul" mul(a, b): mul_rn mul_rz mul_ru mul_rd;
    "`a / b`" "div" div(a, b): div_rn div_rz div_ru div_rd;
    "`1 / a`" "rcp" rcp(a): rcp_rn rcp_rz rcp_ru rcp_rd;
    "`a * b + c` without a rounding in between" "fma" fma(a, b, c): fma_rn fma_rz fma_ru fma_rd;
    "The square root of `a`" "sqrt" sqrt(a): sqrt_rn sqrt_rz sqrt_ru sqrt_rd;
}

macro_rules! differences {
    ($($how:literal $name:ident $sum:ident;)*) => {$(
        #[doc = concat!("`a - b`, ", $how, ".")]
        ///
        #[doc = concat!("It is [`", stringify!($sum), "`] of `a` and `-b`.")]
        #[inline]
        #[must_use]
        pub fn $name<F: Directed>(a: F, b: F) -> F {
            $sum(a, b.negate())
        }
    )*};
}
differences! {
    "rounded to nearest, ties to even" sub_rn add_rn;
    "rounded toward zero" sub_rz add_rz;
    "rounded up, toward positive infinity" sub_ru add_ru;
    "rounded down, toward negative infinity" sub_rd add_rd;
}

/// `x` clamped to the range from 0 to 1; NaN gives 0.
///
/// PTX: `cvt.sat.f32.f32`, `cvt.sat.f64.f64`. `-0.0` gives `0.0`.
/// # Source
/// PTX ISA, "cvt"; CUDA Math API, `__saturatef`.
#[inline]
#[must_use]
pub fn saturate<F: Directed>(x: F) -> F {
    x.saturate()
}
