//! Casts in kernels that run under the checker: the same value, and a word to the checker where it is not the one cast.
//!
//! Under `cfg(warpsmith_checked)` `#[kernel]` writes `number as T` as `checked(number, |value| value as T)`. What is cast may be
//! anything that `as` takes; only numbers are compared.

use core::any::TypeId;
use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ptr;

/// A number of one of the primitive types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A signed integer of a type of this name.
    Signed(i128, &'static str),
    /// An unsigned integer of a type of this name.
    Unsigned(u128, &'static str),
    /// An `f32`.
    F32(f32),
    /// An `f64`.
    F64(f64),
}

/// Why a cast did not keep a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// An integer's upper bits were cut off.
    Truncated,
    /// The bits of an integer mean a number of another sign.
    Sign,
    /// A float lies outside of what the integer type holds, so the nearest integer that it holds came out.
    OutOfRange,
    /// A NaN became 0.
    Nan,
    /// The float type has no such number, so a neighbour came out.
    Inexact,
    /// A finite number became infinite.
    Infinite,
}

/// Casts `value`, and tells the checker when a number's value was not kept.
#[cfg(warpsmith_checked)]
#[track_caller]
pub fn checked<S, T>(value: S, cast: impl FnOnce(S) -> T) -> T {
    unsafe extern "Rust" {
        // The program's own; this code is compiled once more and linked beside it.
        safe fn __warpsmith_check_lossy_cast(place: crate::host::Place, from: Number, to: Number, loss: Loss);
    }
    let from = Number::of(&value);
    let result = cast(value);
    if let (Some(from), Some(to)) = (from, Number::of(&result))
        && let Some(loss) = from.loss_as(to)
    {
        __warpsmith_check_lossy_cast(core::panic::Location::caller(), from, to, loss);
    }
    result
}

impl Number {
    /// The value as a number, where it is one.
    #[inline]
    pub fn of<T>(value: &T) -> Option<Self> {
        macro_rules! primitive {
            ($($ty:ident => $make:expr,)*) => {$(
                if type_id::<T>() == TypeId::of::<$ty>() {
                    // SAFETY: `T` is this very type.
                    let number = unsafe { *ptr::from_ref(value).cast::<$ty>() };
                    return Some($make(number));
                }
            )*};
        }
        macro_rules! integers {
            ($make:ident $wide:ident: $($ty:ident)*) => {
                primitive!($($ty => |number| Self::$make(number as $wide, stringify!($ty)),)*)
            };
        }
        integers!(Signed i128: i8 i16 i32 i64 i128 isize);
        integers!(Unsigned u128: u8 u16 u32 u64 u128 usize);
        primitive!(f32 => Self::F32, f64 => Self::F64,);
        None
    }

    /// What got lost when a cast gave `to`; `None` when nothing did.
    ///
    /// A float's fraction that an integer does not take is no loss, nor is a float rounded to `f32`: that is what such casts
    /// are for.
    #[inline]
    #[must_use]
    pub fn loss_as(self, to: Self) -> Option<Loss> {
        // Nearly all casts are these: where the types are known, one comparison is left of them.
        match (self, to) {
            (Self::Signed(from, _), Self::Signed(to, _)) if from == to => None,
            (Self::Unsigned(from, _), Self::Unsigned(to, _)) if from == to => None,
            (Self::Signed(signed, _), Self::Unsigned(unsigned, _))
            | (Self::Unsigned(unsigned, _), Self::Signed(signed, _))
                if signed >= 0 && signed.unsigned_abs() == unsigned =>
            {
                None
            }
            _ => self.other_loss_as(to),
        }
    }

    #[inline(never)]
    fn other_loss_as(self, to: Self) -> Option<Loss> {
        match (self, to) {
            (Self::F32(from), Self::Signed(..) | Self::Unsigned(..)) => Self::F64(f64::from(from)).loss_as(to),
            (Self::F64(from), Self::Signed(..) | Self::Unsigned(..)) => {
                if from.is_nan() {
                    return Some(Loss::Nan);
                }
                // An integer that was not clamped lies less than 1 away from the float, towards 0.
                (!to.is_within_one_below(from)).then_some(Loss::OutOfRange)
            }
            (_, Self::Signed(..) | Self::Unsigned(..)) => match (self.integer(), to.integer()) {
                (from, to) if from == to => None,
                ((from_negative, _), (to_negative, _)) if from_negative != to_negative => Some(Loss::Sign),
                _ => Some(Loss::Truncated),
            },
            (Self::F64(from), Self::F32(to)) => (from.is_finite() && to.is_infinite()).then_some(Loss::Infinite),
            (Self::F32(_) | Self::F64(_), _) => None,
            (_, Self::F32(to)) => self.loss_as(Self::F64(f64::from(to))),
            (_, Self::F64(to)) => {
                let (negative, magnitude) = self.integer();
                let is_exact = to.abs() < TWO_TO_128 && to.abs() as u128 == magnitude && (to < 0.0) == negative;
                if to.is_infinite() { Some(Loss::Infinite) } else { (!is_exact).then_some(Loss::Inexact) }
            }
        }
    }

    /// Whether an integer is negative, and its distance from 0; of floats the integer part, clamped.
    fn integer(self) -> (bool, u128) {
        match self {
            Self::Signed(number, _) => (number < 0, number.unsigned_abs()),
            Self::Unsigned(number, _) => (false, number),
            Self::F32(number) => Self::F64(f64::from(number)).integer(),
            Self::F64(number) => (number <= -1.0, number.abs() as u128),
        }
    }

    /// Whether this integer is `float` without its fraction.
    fn is_within_one_below(self, float: f64) -> bool {
        float.abs() < TWO_TO_128 && self.integer() == Self::F64(float).integer()
    }
}

/// Above every integer.
const TWO_TO_128: f64 = 340_282_366_920_938_463_463_374_607_431_768_211_456.0;

impl fmt::Display for Number {
    /// As it is written in a program: `-3i32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(number, ty) => write!(f, "{number}{ty}"),
            Self::Unsigned(number, ty) => write!(f, "{number}{ty}"),
            Self::F32(number) => write!(f, "{number:?}f32"),
            Self::F64(number) => write!(f, "{number:?}f64"),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "its upper bits are cut off",
            Self::Sign => "its sign changes",
            Self::OutOfRange => "it lies outside of the type",
            Self::Nan => "it is not a number",
            Self::Inexact => "the type has no such number",
            Self::Infinite => "it lies beyond the type's largest number",
        })
    }
}

/// The id of a type that may have lifetimes, as if they were `'static`: enough to know a type that has none.
#[inline]
fn type_id<T>() -> TypeId {
    trait HasId {
        fn id(&self) -> TypeId
        where
            Self: 'static;
    }
    impl<T> HasId for PhantomData<T> {
        fn id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<T>()
        }
    }
    let marker = PhantomData::<T>;
    let object: &dyn HasId = &marker;
    // SAFETY: only the bound by a lifetime changes, of an object without contents whose method does not look at it.
    let object = unsafe { mem::transmute::<&dyn HasId, &(dyn HasId + 'static)>(object) };
    object.id()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Casts as the macro has it, without a checker.
    fn loss<S, T>(value: S, cast: impl FnOnce(S) -> T) -> Option<Loss> {
        let from = Number::of(&value);
        let to = cast(value);
        from?.loss_as(Number::of(&to)?)
    }

    macro_rules! losses {
        ($($value:expr => $($ty:ty)|+ => $loss:expr;)*) => {$($(
            assert_eq!(loss($value, |value| value as $ty), $loss, "{:?} as {}", $value, stringify!($ty));
        )+)*};
    }

    #[test]
    fn integers_are_kept_or_lose_bits_or_their_sign() {
        losses! {
            255u32 => u8 | u16 | i16 | i128 | usize | f32 => None;
            256u32 => u8 => Some(Loss::Truncated);
            300i32 => u8 => Some(Loss::Truncated);
            300i32 => i8 => Some(Loss::Truncated);
            -1i32 => u8 | u32 | u64 | usize | u128 => Some(Loss::Sign);
            -1i32 => i8 | i16 | i64 | isize | f32 | f64 => None;
            200u8 => i8 => Some(Loss::Sign);
            200u8 => i16 => None;
            u64::MAX => i64 | isize => Some(Loss::Sign);
            u64::MAX => u128 | usize => None;
            -129i64 => i8 => Some(Loss::Sign);
            -300i64 => i8 => Some(Loss::Truncated);
            u128::MAX => u64 => Some(Loss::Truncated);
            i128::MIN => i128 => None;
            i128::MIN => u128 => Some(Loss::Sign);
            i128::MIN => i64 => Some(Loss::Sign);
        }
    }

    #[test]
    fn floats_to_integers_lose_their_fraction_only() {
        losses! {
            2.75f32 => u8 | i8 | i64 | u128 => None;
            -2.75f64 => i8 | i32 | i128 => None;
            -0.5f32 => u8 | u32 | i32 => None;
            -0.0f64 => u8 | i8 => None;
            -1.0f32 => u8 | u32 | u128 => Some(Loss::OutOfRange);
            255.9f64 => u8 => None;
            256.0f64 => u8 => Some(Loss::OutOfRange);
            -128.9f64 => i8 => None;
            -129.0f64 => i8 => Some(Loss::OutOfRange);
            2147483648.0f32 => i32 => Some(Loss::OutOfRange);
            2147483648.0f32 => u32 | i64 => None;
            18446744073709551616.0f64 => u64 => Some(Loss::OutOfRange);
            f32::INFINITY => u128 | i32 => Some(Loss::OutOfRange);
            f64::NEG_INFINITY => i128 | u8 => Some(Loss::OutOfRange);
            f64::NAN => u8 | i128 => Some(Loss::Nan);
            1e39f64 => u128 | i128 => Some(Loss::OutOfRange);
            f32::MAX => u128 => None;
            f32::MAX => i128 => Some(Loss::OutOfRange);
            -170141183460469231731687303715884105728.0f64 => i128 => None;
        }
    }

    #[test]
    fn integers_to_floats_are_exact_or_not() {
        losses! {
            16777216u32 => f32 | f64 => None;
            16777217u32 => f32 => Some(Loss::Inexact);
            16777217u32 => f64 => None;
            -16777217i64 => f32 => Some(Loss::Inexact);
            u64::MAX => f32 | f64 => Some(Loss::Inexact);
            i64::MIN => f32 | f64 => None;
            i64::MAX => f64 => Some(Loss::Inexact);
            u128::MAX => f64 => Some(Loss::Inexact);
            u128::MAX => f32 => Some(Loss::Infinite);
            u128::MAX >> 1 => f32 => Some(Loss::Inexact);
            i128::MIN => f32 | f64 => None;
            0u8 => f32 => None;
        }
    }

    #[test]
    fn floats_to_floats_may_round_but_not_overflow() {
        losses! {
            0.1f64 => f32 | f64 => None;
            1e-300f64 => f32 => None;
            1e39f64 => f32 => Some(Loss::Infinite);
            -1e39f64 => f32 => Some(Loss::Infinite);
            f64::INFINITY => f32 => None;
            f64::NAN => f32 => None;
            f32::MAX => f64 => None;
        }
    }

    #[derive(Clone, Copy)]
    enum Letter {
        A = 300,
    }

    #[test]
    fn what_is_no_number_is_not_compared() {
        assert_eq!(loss(true, |value| value as u8), None);
        assert_eq!(loss('ß', |value| value as u8), None);
        assert_eq!(loss(Letter::A, |value| value as u8), None);
        assert_eq!(loss(&raw const *"text", |value| value.cast::<u8>() as usize), None);
        assert_eq!(loss(200u8, |value| value as char), None);
        assert_eq!(Number::of(&core::num::Wrapping(3u8)), None);
        assert_eq!(Number::of(&"text"), None);
        let local = 3;
        assert_eq!(Number::of(&&local), None);
    }

    /// Every pair of integer types over edge values, against the meaning of "the value is kept" in wider integers.
    #[test]
    fn integers_agree_with_try_from() {
        macro_rules! pairs {
            ($($from:ident)*) => {$(pairs!(@from $from: i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);)*};
            (@from $from:ident: $($to:ident)*) => {$(
                for value in [$from::MIN, $from::MIN / 2, 0, 1, 127, $from::MAX / 2, $from::MAX / 2 + 1, $from::MAX] {
                    let kept = $to::try_from(value).is_ok();
                    let lost = loss(value, |value| value as $to);
                    assert_eq!(lost.is_none(), kept, "{value}{} as {}: {lost:?}", stringify!($from), stringify!($to));
                }
            )*};
        }
        pairs!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
    }

    #[test]
    fn numbers_are_printed_as_they_are_written() {
        let text = |number: Option<Number>| std::format!("{}", number.expect("it is one"));
        assert_eq!(text(Number::of(&-3i8)), "-3i8");
        assert_eq!(text(Number::of(&7usize)), "7usize");
        assert_eq!(text(Number::of(&1.0f32)), "1.0f32");
        assert_eq!(text(Number::of(&f64::NAN)), "NaNf64");
        assert_eq!(text(Number::of(&1e39f64)), "1e39f64");
    }
}
