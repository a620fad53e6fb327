//! The values that atomics hold, and the arithmetic that depends on which they are.

use core::sync::atomic::Ordering;

use half::{bf16, f16};

use super::scope::ThreadScope;
use super::word::Word;
use super::{code, replace, rmw};
use crate::vector::{Bf16x2, F16x2};

/// A value that an atomic of the device may hold: integers and floats of 32 and 64 bits, `f16`, `bf16` and their pairs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no atomic operations by scope",
    note = "`i32`, `u32`, `i64`, `u64`, `isize`, `usize`, `f32`, `f64`, `f16`, `bf16`, `F16x2` and `Bf16x2` have; \
            smaller integers have those of `core::sync::atomic`"
)]
pub trait AtomicValue: Operations {}

/// An integer that an atomic of the device may hold.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no atomic operations on bits; the integers of 32 and 64 bits have"
)]
pub trait AtomicInteger: AtomicValue {}

/// Every pointer is valid, aligned, and accessed by others only atomically at the same time.
#[doc(hidden)]
pub trait Operations: Copy {
    type Word: Word;
    const ADD: u32;
    fn to_word(self) -> Self::Word;
    fn from_word(word: Self::Word) -> Self;
    unsafe fn fetch_sub<S: ThreadScope>(pointer: *mut Self::Word, value: Self, order: Ordering) -> Self::Word;
    unsafe fn fetch_min<S: ThreadScope>(pointer: *mut Self::Word, value: Self, order: Ordering) -> Self::Word;
    unsafe fn fetch_max<S: ThreadScope>(pointer: *mut Self::Word, value: Self, order: Ordering) -> Self::Word;
}

macro_rules! integers {
    ($($int:ident $word:ident $min:ident $max:ident;)*) => {$(
        impl AtomicValue for $int {}
        impl AtomicInteger for $int {}
        impl Operations for $int {
            type Word = $word;
            const ADD: u32 = code::ADD;
            #[inline(always)]
            fn to_word(self) -> $word {
                self as $word
            }
            #[inline(always)]
            fn from_word(word: $word) -> Self {
                word as Self
            }
            #[inline(always)]
            unsafe fn fetch_sub<S: ThreadScope>(pointer: *mut $word, value: Self, order: Ordering) -> $word {
                // SAFETY: the caller's promise.
                unsafe { rmw::<$word, S>(pointer, value as $word, code::SUB, order) }
            }
            #[inline(always)]
            unsafe fn fetch_min<S: ThreadScope>(pointer: *mut $word, value: Self, order: Ordering) -> $word {
                // SAFETY: the caller's promise.
                unsafe { rmw::<$word, S>(pointer, value as $word, code::$min, order) }
            }
            #[inline(always)]
            unsafe fn fetch_max<S: ThreadScope>(pointer: *mut $word, value: Self, order: Ordering) -> $word {
                // SAFETY: the caller's promise.
                unsafe { rmw::<$word, S>(pointer, value as $word, code::$max, order) }
            }
        }
    )*};
}
integers! {
    i32 u32 MIN MAX;
    u32 u32 UNSIGNED_MIN UNSIGNED_MAX;
    i64 u64 MIN MAX;
    u64 u64 UNSIGNED_MIN UNSIGNED_MAX;
    isize u64 MIN MAX;
    usize u64 UNSIGNED_MIN UNSIGNED_MAX;
}

/// Smallest and largest of floats by their bits.
macro_rules! float_bits {
    ($($module:ident $word:ident $infinity:literal;)*) => {$(
        pub(super) mod $module {
            pub(super) const SIGN: $word = 1 << ($word::BITS - 1);
            const INFINITY: $word = $infinity;

            #[inline(always)]
            pub(in super::super) const fn is_nan(bits: $word) -> bool {
                bits & !SIGN > INFINITY
            }

            /// Integers that compare as the floats do, -0.0 below 0.0.
            #[inline(always)]
            const fn key(bits: $word) -> $word {
                if bits & SIGN == 0 { bits | SIGN } else { !bits }
            }

            /// The smaller; a NaN on one side yields the other.
            #[inline(always)]
            pub(in super::super) const fn smallest(before: $word, value: $word) -> $word {
                let takes = !is_nan(value) && (is_nan(before) || key(value) < key(before));
                if takes { value } else { before }
            }

            /// The larger; a NaN on one side yields the other.
            #[inline(always)]
            pub(in super::super) const fn largest(before: $word, value: $word) -> $word {
                let takes = !is_nan(value) && (is_nan(before) || key(value) > key(before));
                if takes { value } else { before }
            }
        }
    )*};
}
float_bits! {
    bits_of_f16 u16 0x7c00;
    bits_of_bf16 u16 0x7f80;
    bits_of_f32 u32 0x7f80_0000;
    bits_of_f64 u64 0x7ff0_0000_0000_0000;
}

// The bits of floats without sign order as the floats do, those with sign the other way round, and each kind has its NaN
// beyond infinity. So an integer's minimum or maximum, picked by the value's sign, is the float's for all but one kind of
// memory: a NaN that the comparison takes for the better one. Then nothing is written, and the loop does it.
macro_rules! floats {
    ($($float:ident $word:ident $bits:ident;)*) => {$(
        impl AtomicValue for $float {}
        impl Operations for $float {
            type Word = $word;
            const ADD: u32 = code::ADD_FLOAT;
            #[inline(always)]
            fn to_word(self) -> $word {
                self.to_bits()
            }
            #[inline(always)]
            fn from_word(word: $word) -> Self {
                Self::from_bits(word)
            }
            #[inline(always)]
            unsafe fn fetch_sub<S: ThreadScope>(pointer: *mut $word, value: Self, order: Ordering) -> $word {
                // SAFETY: the caller's promise.
                unsafe { rmw::<$word, S>(pointer, (-value).to_bits(), code::ADD_FLOAT, order) }
            }
            #[inline(always)]
            unsafe fn fetch_min<S: ThreadScope>(pointer: *mut $word, value: Self, order: Ordering) -> $word {
                let value = value.to_bits();
                // SAFETY: the caller's promise.
                unsafe {
                    if $bits::is_nan(value) {
                        return rmw::<$word, S>(pointer, 0, code::OR, order);
                    }
                    let before = if value & $bits::SIGN == 0 {
                        rmw::<$word, S>(pointer, value, code::MIN, order)
                    } else {
                        rmw::<$word, S>(pointer, value, code::UNSIGNED_MAX, order)
                    };
                    if $bits::is_nan(before) && before & $bits::SIGN != 0 {
                        return replace::<$word, S>(pointer, order, |before| $bits::smallest(before, value));
                    }
                    before
                }
            }
            #[inline(always)]
            unsafe fn fetch_max<S: ThreadScope>(pointer: *mut $word, value: Self, order: Ordering) -> $word {
                let value = value.to_bits();
                // SAFETY: the caller's promise.
                unsafe {
                    if $bits::is_nan(value) {
                        return rmw::<$word, S>(pointer, 0, code::OR, order);
                    }
                    let before = if value & $bits::SIGN == 0 {
                        rmw::<$word, S>(pointer, value, code::MAX, order)
                    } else {
                        rmw::<$word, S>(pointer, value, code::UNSIGNED_MIN, order)
                    };
                    if $bits::is_nan(before) && before & $bits::SIGN == 0 {
                        return replace::<$word, S>(pointer, order, |before| $bits::largest(before, value));
                    }
                    before
                }
            }
        }
    )*};
}
floats! {
    f32 u32 bits_of_f32;
    f64 u64 bits_of_f64;
}

/// `change` of both halves.
#[inline(always)]
fn by_halves(before: u32, value: u32, change: impl Fn(u16, u16) -> u16) -> u32 {
    let low = change(before as u16, value as u16);
    let high = change((before >> 16) as u16, (value >> 16) as u16);
    u32::from(low) | u32::from(high) << 16
}

#[inline(always)]
fn whole(before: u16, value: u16, change: impl Fn(u16, u16) -> u16) -> u16 {
    change(before, value)
}

macro_rules! short_floats {
    ($($float:ident $word:ident $bits:ident $apply:ident $add:ident $signs:literal;)*) => {$(
        impl AtomicValue for $float {}
        impl Operations for $float {
            type Word = $word;
            const ADD: u32 = code::$add;
            #[inline(always)]
            fn to_word(self) -> $word {
                self.to_bits()
            }
            #[inline(always)]
            fn from_word(word: $word) -> Self {
                Self::from_bits(word)
            }
            #[inline(always)]
            unsafe fn fetch_sub<S: ThreadScope>(pointer: *mut $word, value: Self, order: Ordering) -> $word {
                // SAFETY: the caller's promise.
                unsafe { rmw::<$word, S>(pointer, value.to_bits() ^ $signs, code::$add, order) }
            }
            #[inline(always)]
            unsafe fn fetch_min<S: ThreadScope>(pointer: *mut $word, value: Self, order: Ordering) -> $word {
                let value = value.to_bits();
                // SAFETY: the caller's promise.
                unsafe {
                    replace::<$word, S>(pointer, order, |before| $apply(before, value, |b, v| $bits::smallest(b, v)))
                }
            }
            #[inline(always)]
            unsafe fn fetch_max<S: ThreadScope>(pointer: *mut $word, value: Self, order: Ordering) -> $word {
                let value = value.to_bits();
                // SAFETY: the caller's promise.
                unsafe {
                    replace::<$word, S>(pointer, order, |before| $apply(before, value, |b, v| $bits::largest(b, v)))
                }
            }
        }
    )*};
}
short_floats! {
    f16 u16 bits_of_f16 whole ADD_FLOAT 0x8000;
    bf16 u16 bits_of_bf16 whole ADD_BF16 0x8000;
    F16x2 u32 bits_of_f16 by_halves ADD_F16X2 0x8000_8000;
    Bf16x2 u32 bits_of_bf16 by_halves ADD_BF16X2 0x8000_8000;
}
