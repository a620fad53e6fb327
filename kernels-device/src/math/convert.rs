//! Conversions with the rounding written in the name, which saturate; NaN becomes 0, but for kernels with `fast_math`, which
//! say that there is none.

use half::f16;

use super::sealed::Sealed;
use super::softfloat::Mode;
#[cfg(not(warpsmith_device))]
use super::softfloat::{self, F16, F32, F64};

/// `f32` and `f64`, as what conversions to integers and to `f16` take.
pub trait ToInteger: Sealed + Copy {
    #[doc(hidden)]
    fn to_i8(self) -> i8;
    #[doc(hidden)]
    fn to_u8(self) -> u8;
    #[doc(hidden)]
    fn to_i16(self) -> i16;
    #[doc(hidden)]
    fn to_u16(self) -> u16;
    #[doc(hidden)]
    fn to_i32(self, mode: Mode) -> i32;
    #[doc(hidden)]
    fn to_u32(self, mode: Mode) -> u32;
    #[doc(hidden)]
    fn to_i64(self, mode: Mode) -> i64;
    #[doc(hidden)]
    fn to_u64(self, mode: Mode) -> u64;
    #[doc(hidden)]
    fn to_f16(self, mode: Mode) -> f16;
}

/// A whole number near `x`.
#[cfg(not(warpsmith_device))]
fn whole(x: f64, mode: Mode) -> f64 {
    match mode {
        Mode::Nearest => x.round_ties_even(),
        Mode::Zero => x.trunc(),
        Mode::Up => x.ceil(),
        Mode::Down => x.floor(),
    }
}

macro_rules! to_integer {
    ($float:ident: $($small:ident $small_method:ident)*; $($large:ident $large_method:ident)*) => {
        impl ToInteger for $float {
            $(
                #[inline(always)]
                fn $small_method(self) -> $small {
                    #[cfg(warpsmith_device)]
                    {
                        crate::intrinsics::math::$float::$small_method(self)
                    }
                    #[cfg(not(warpsmith_device))]
                    {
                        whole(self.into(), Mode::Nearest) as $small
                    }
                }
            )*
            $(
                #[inline(always)]
                fn $large_method(self, mode: Mode) -> $large {
                    #[cfg(warpsmith_device)]
                    {
                        // For NaN the instruction's answer depends on the widths.
                        if self.is_nan() { 0 } else { crate::intrinsics::math::$float::$large_method(self, mode) }
                    }
                    #[cfg(not(warpsmith_device))]
                    {
                        whole(self.into(), mode) as $large
                    }
                }
            )*

            #[inline(always)]
            fn to_f16(self, mode: Mode) -> f16 {
                #[cfg(warpsmith_device)]
                {
                    f16::from_bits(crate::intrinsics::math::$float::to_f16(self, mode))
                }
                #[cfg(not(warpsmith_device))]
                {
                    // Exact: it is one already.
                    f16::from_f64(softfloat::convert(self.into(), F16, mode))
                }
            }
        }
    };
}
to_integer!(f32: i8 to_i8 u8 to_u8 i16 to_i16 u16 to_u16; i32 to_i32 u32 to_u32 i64 to_i64 u64 to_u64);
to_integer!(f64: i8 to_i8 u8 to_u8 i16 to_i16 u16 to_u16; i32 to_i32 u32 to_u32 i64 to_i64 u64 to_u64);

macro_rules! small {
    ($($ty:ident $bits:literal $method:ident $name:ident;)*) => {$(
        #[doc = concat!("`x` as `", stringify!($ty), "`, rounded to nearest with ties to even, and saturated; NaN gives 0.")]
        ///
        #[doc = concat!("PTX: `cvt.rni.sat.", $bits, "`.")]
        /// # Source
        /// PTX ISA, "cvt".
        #[inline]
        #[must_use]
        pub fn $name<F: ToInteger>(x: F) -> $ty {
            x.$method()
        }
    )*};
}
small! {
    i8 "s8" to_i8 to_i8_rn;
    u8 "u8" to_u8 to_u8_rn;
    i16 "s16" to_i16 to_i16_rn;
    u16 "u16" to_u16 to_u16_rn;
}

macro_rules! large {
    ($($ty:ident $bits:literal $method:ident: $rn:ident $ru:ident $rd:ident;)*) => {$(
        large! { @one $ty $bits "rni" $method $rn Nearest "to nearest with ties to even" }
        large! { @one $ty $bits "rpi" $method $ru Up "up" }
        large! { @one $ty $bits "rmi" $method $rd Down "down" }
    )*};
    (@one $ty:ident $bits:literal $ptx:literal $method:ident $name:ident $mode:ident $how:literal) => {
        #[doc = concat!("`x` as `", stringify!($ty), "`, rounded ", $how, ", and saturated; NaN gives 0.")]
        ///
        #[doc = concat!("Toward zero it is `as`. PTX: `cvt.", $ptx, ".", $bits, "`.")]
        /// # Source
        /// PTX ISA, "cvt"; CUDA Math API, "Type Casting Intrinsics".
        #[inline]
        #[must_use]
        pub fn $name<F: ToInteger>(x: F) -> $ty {
            x.$method(Mode::$mode)
        }
    };
}
large! {
    i32 "s32" to_i32: to_i32_rn to_i32_ru to_i32_rd;
    u32 "u32" to_u32: to_u32_rn to_u32_ru to_u32_rd;
    i64 "s64" to_i64: to_i64_rn to_i64_ru to_i64_rd;
    u64 "u64" to_u64: to_u64_rn to_u64_ru to_u64_rd;
}

macro_rules! to_half {
    ($($name:ident $mode:ident $ptx:literal $how:literal;)*) => {$(
        #[doc = concat!("`x` as `f16`, rounded ", $how, ".")]
        ///
        #[doc = concat!("PTX: `cvt.", $ptx, ".f16`.")]
        /// # Source
        /// PTX ISA, "cvt"; CUDA Math API, `__float2half_rn` and its kin.
        #[inline]
        #[must_use]
        pub fn $name<F: ToInteger>(x: F) -> f16 {
            x.to_f16(Mode::$mode)
        }
    )*};
}
to_half! {
    to_f16_rn Nearest "rn" "to nearest with ties to even";
    to_f16_rz Zero "rz" "toward zero";
    to_f16_ru Up "rp" "up";
    to_f16_rd Down "rm" "down";
}

/// Types of which not every number is an `f32`: `f64`, `i32`, `u32`, `i64` and `u64`.
pub trait ToSingle: Sealed + Copy {
    #[doc(hidden)]
    fn to_f32(self, mode: Mode) -> f32;
}

/// Types of which not every number is an `f64`: `i64` and `u64`.
pub trait ToDouble: Sealed + Copy {
    #[doc(hidden)]
    fn to_f64(self, mode: Mode) -> f64;
}

macro_rules! to_float {
    ($($trait:ident $from:ident $method:ident $to:ident |$x:ident, $mode:ident| $host:expr;)*) => {$(
        impl $trait for $from {
            #[inline(always)]
            fn $method(self, mode: Mode) -> $to {
                #[cfg(warpsmith_device)]
                {
                    crate::intrinsics::math::$from::$method(self, mode)
                }
                #[cfg(not(warpsmith_device))]
                {
                    let ($x, $mode) = (self, mode);
                    $host
                }
            }
        }
    )*};
}
to_float! {
    ToSingle f64 to_f32 f32 |x, mode| softfloat::convert(x, F32, mode) as f32;
    ToSingle i32 to_f32 f32 |x, mode| softfloat::convert_integer(x < 0, x.unsigned_abs().into(), F32, mode) as f32;
    ToSingle u32 to_f32 f32 |x, mode| softfloat::convert_integer(false, x.into(), F32, mode) as f32;
    ToSingle i64 to_f32 f32 |x, mode| softfloat::convert_integer(x < 0, x.unsigned_abs(), F32, mode) as f32;
    ToSingle u64 to_f32 f32 |x, mode| softfloat::convert_integer(false, x, F32, mode) as f32;
    ToDouble i64 to_f64 f64 |x, mode| softfloat::convert_integer(x < 0, x.unsigned_abs(), F64, mode);
    ToDouble u64 to_f64 f64 |x, mode| softfloat::convert_integer(false, x, F64, mode);
}

macro_rules! float_names {
    ($($trait:ident $method:ident $to:ident $name:ident $mode:ident $ptx:literal $how:literal;)*) => {$(
        #[doc = concat!("`x` as `", stringify!($to), "`, rounded ", $how, ".")]
        ///
        #[doc = concat!("To nearest it is `as`. PTX: `cvt.", $ptx, ".", stringify!($to), "`.")]
        /// # Source
        /// PTX ISA, "cvt"; CUDA Math API, "Type Casting Intrinsics".
        #[inline]
        #[must_use]
        pub fn $name<T: $trait>(x: T) -> $to {
            x.$method(Mode::$mode)
        }
    )*};
}
float_names! {
    ToSingle to_f32 f32 to_f32_rz Zero "rz" "toward zero";
    ToSingle to_f32 f32 to_f32_ru Up "rp" "up";
    ToSingle to_f32 f32 to_f32_rd Down "rm" "down";
    ToDouble to_f64 f64 to_f64_rz Zero "rz" "toward zero";
    ToDouble to_f64 f64 to_f64_ru Up "rp" "up";
    ToDouble to_f64 f64 to_f64_rd Down "rm" "down";
}
