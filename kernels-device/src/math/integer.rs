//! What the hardware does with integers in one instruction.
//!
//! Counting and reversing bits, saturating and wrapping arithmetic are methods of Rust's integers, and become single
//! instructions as they are.

use super::sealed::Sealed;

impl Sealed for i32 {}
impl Sealed for u32 {}
impl Sealed for i64 {}
impl Sealed for u64 {}

/// `i32`, `u32`, `i64` and `u64`, as what the functions of this module take.
pub trait Integer: Sealed + Copy {
    #[doc(hidden)]
    fn mul_hi(self, other: Self) -> Self;
    #[doc(hidden)]
    fn brev(self) -> Self;
    #[doc(hidden)]
    fn bfind(self) -> u32;
    #[doc(hidden)]
    fn bfe(self, position: u32, len: u32) -> Self;
    #[doc(hidden)]
    fn bfi(self, into: Self, position: u32, len: u32) -> Self;
}

macro_rules! integers {
    ($($ty:ident $wide:ident $unsigned:ident $bits:literal;)*) => {$(
        impl Integer for $ty {
            #[inline]
            fn mul_hi(self, other: Self) -> Self {
                #[cfg(warpsmith_device)]
                {
                    crate::intrinsics::math::$ty::mul_hi(self, other)
                }
                #[cfg(not(warpsmith_device))]
                {
                    (($wide::from(self) * $wide::from(other)) >> $bits) as $ty
                }
            }

            #[inline]
            fn brev(self) -> Self {
                self.reverse_bits()
            }

            #[inline]
            fn bfind(self) -> u32 {
                #[cfg(warpsmith_device)]
                {
                    crate::intrinsics::math::$ty::bfind(self)
                }
                #[cfg(not(warpsmith_device))]
                {
                    // A negative number's highest bit that differs from its sign.
                    #[allow(unused_comparisons, reason = "unsigned numbers are never below 0")]
                    let magnitude = if self < 0 { !self } else { self } as $unsigned;
                    magnitude.checked_ilog2().unwrap_or(u32::MAX)
                }
            }

            #[inline]
            fn bfe(self, position: u32, len: u32) -> Self {
                let (position, len) = (position & 0xff, len & 0xff);
                // Not for bits beyond the highest: ptxas 13.0 folds `bfe` of known numbers to something else there.
                #[cfg(warpsmith_device)]
                if position.wrapping_add(len) <= $bits {
                    return crate::intrinsics::math::$ty::bfe(self, position, len);
                }
                if len == 0 {
                    return 0;
                }
                // Bits beyond the highest are copies of the sign, which an unsigned number has as 0.
                let highest = $bits - 1;
                let shifted = self >> position.min(highest);
                #[allow(unused_comparisons, reason = "unsigned numbers are never below 0")]
                let beyond = if self < 0 { !0 } else { 0 };
                let shifted = if position > highest { beyond } else { shifted };
                let kept = len.min($bits);
                (shifted << ($bits - kept)) >> ($bits - kept)
            }

            #[inline]
            fn bfi(self, into: Self, position: u32, len: u32) -> Self {
                let (position, len) = (position & 0xff, len & 0xff);
                // As in `bfe`.
                #[cfg(warpsmith_device)]
                if position.wrapping_add(len) <= $bits {
                    return crate::intrinsics::math::$ty::bfi(self, into, position, len);
                }
                if len == 0 || position >= $bits {
                    return into;
                }
                let ones = ($unsigned::MAX >> ($bits - len.min($bits))) << position;
                (into as $unsigned & !ones | (self as $unsigned) << position & ones) as $ty
            }
        }
    )*};
}
integers! {
    i32 i64 u32 32;
    u32 u64 u32 32;
    i64 i128 u64 64;
    u64 u128 u64 64;
}

/// The upper half of the full product.
///
/// PTX: `mul.hi`.
/// # Examples
/// ```
/// use warpsmith_device::math::mul_hi;
///
/// assert_eq!(mul_hi(0x8000_0000u32, 6), 3);
/// assert_eq!(mul_hi(-1i64, 5), -1);
/// ```
/// # Source
/// PTX ISA, "mul"; CUDA Math API, `__mulhi`, `__umulhi`, `__mul64hi`, `__umul64hi`.
#[inline]
#[must_use]
pub fn mul_hi<I: Integer>(a: I, b: I) -> I {
    a.mul_hi(b)
}

/// The bits in reverse order: `reverse_bits` under CUDA's name.
///
/// PTX: `brev`.
/// # Source
/// PTX ISA, "brev"; CUDA Math API, `__brev`, `__brevll`.
#[inline]
#[must_use]
pub fn brev<I: Integer>(x: I) -> I {
    x.brev()
}

/// The position of the highest bit set, or of the highest that differs from the sign for signed numbers; `u32::MAX` if none.
///
/// PTX: `bfind`.
/// # Source
/// PTX ISA, "bfind".
#[inline]
#[must_use]
pub fn bfind<I: Integer>(x: I) -> u32 {
    x.bfind()
}

/// `len` bits of `x` from `position` on, sign-extended for signed numbers.
///
/// Bits beyond the highest are the sign's copies, or 0 for unsigned numbers; of `position` and `len` the lowest 8 bits count.
/// PTX: `bfe`.
/// # Source
/// PTX ISA, "bfe".
#[inline]
#[must_use]
pub fn bfe<I: Integer>(x: I, position: u32, len: u32) -> I {
    x.bfe(position, len)
}

/// `into` with `len` bits from `position` on replaced by the lowest of `x`.
///
/// What does not fit is left out; of `position` and `len` the lowest 8 bits count. PTX: `bfi`.
/// # Source
/// PTX ISA, "bfi".
#[inline]
#[must_use]
pub fn bfi<I: Integer>(x: I, into: I, position: u32, len: u32) -> I {
    x.bfi(into, position, len)
}

/// Four bytes chosen from the eight of `y` and `x`, where `x` holds the lowest: each of `selector`'s lowest four nibbles
/// names one by its lowest three bits.
///
/// PTX: `prmt.b32`.
/// # Examples
/// ```
/// use warpsmith_device::math::byte_perm;
///
/// assert_eq!(byte_perm(0x3322_1100, 0x7766_5544, 0x7410), 0x7744_1100);
/// ```
/// # Source
/// PTX ISA, "prmt"; CUDA Math API, `__byte_perm`.
#[inline]
#[must_use]
pub fn byte_perm(x: u32, y: u32, selector: u32) -> u32 {
    #[cfg(warpsmith_device)]
    {
        crate::intrinsics::math::prmt(x, y, selector & 0x7777)
    }
    #[cfg(not(warpsmith_device))]
    {
        let bytes = (u64::from(y) << 32 | u64::from(x)).to_le_bytes();
        u32::from_le_bytes(core::array::from_fn(|i| bytes[(selector >> (4 * i) & 7) as usize]))
    }
}

macro_rules! instructions {
    ($(
        $(#[$meta:meta])*
        $name:ident($($argument:ident: $ty:ty),*) -> $result:ty = $host:expr;
    )*) => {$(
        $(#[$meta])*
        #[inline]
        #[must_use]
        pub fn $name($($argument: $ty),*) -> $result {
            #[cfg(warpsmith_device)]
            {
                crate::intrinsics::math::$name($($argument),*)
            }
            #[cfg(not(warpsmith_device))]
            {
                $host
            }
        }
    )*};
}

/// `high` and `low` as one number.
#[cfg(not(warpsmith_device))]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The sum of `c` and four products of bytes, modulo 2^32.
#[cfg(not(warpsmith_device))]
fn four_products(a: [i64; 4], b: [i64; 4], c: i64) -> u32 {
    (0..4).fold(c, |sum, i| sum + a[i] * b[i]) as u32
}

#[cfg(not(warpsmith_device))]
fn signed_bytes(a: i32) -> [i64; 4] {
    a.to_le_bytes().map(|byte| i64::from(byte as i8))
}

#[cfg(not(warpsmith_device))]
fn bytes(a: u32) -> [i64; 4] {
    a.to_le_bytes().map(i64::from)
}

#[cfg(not(warpsmith_device))]
fn signed_halves(a: i32) -> [i64; 2] {
    [i64::from(a as i16), i64::from((a >> 16) as i16)]
}

#[cfg(not(warpsmith_device))]
fn halves(a: u32) -> [i64; 2] {
    [i64::from(a as u16), i64::from(a >> 16)]
}

/// The sum of `c` and the products of two halves with two of four bytes, modulo 2^32.
#[cfg(not(warpsmith_device))]
fn two_products(a: [i64; 2], b: [i64; 4], first: usize, c: i64) -> u32 {
    (c + a[0] * b[first] + a[1] * b[first + 1]) as u32
}

instructions! {
    /// The upper half of `high:low` shifted left by the lowest five bits of `shift`.
    ///
    /// PTX: `shf.l.wrap.b32`.
    /// # Source
    /// PTX ISA, "shf"; CUDA Math API, `__funnelshift_l`.
    funnel_shift_l(low: u32, high: u32, shift: u32) -> u32 = (pair(low, high) << (shift & 31) >> 32) as u32;
    /// The upper half of `high:low` shifted left by `shift`, 32 at most.
    ///
    /// PTX: `shf.l.clamp.b32`.
    /// # Source
    /// PTX ISA, "shf"; CUDA Math API, `__funnelshift_lc`.
    funnel_shift_lc(low: u32, high: u32, shift: u32) -> u32 = (pair(low, high) << shift.min(32) >> 32) as u32;
    /// The lower half of `high:low` shifted right by the lowest five bits of `shift`.
    ///
    /// PTX: `shf.r.wrap.b32`.
    /// # Source
    /// PTX ISA, "shf"; CUDA Math API, `__funnelshift_r`.
    funnel_shift_r(low: u32, high: u32, shift: u32) -> u32 = (pair(low, high) >> (shift & 31)) as u32;
    /// The lower half of `high:low` shifted right by `shift`, 32 at most.
    ///
    /// PTX: `shf.r.clamp.b32`.
    /// # Source
    /// PTX ISA, "shf"; CUDA Math API, `__funnelshift_rc`.
    funnel_shift_rc(low: u32, high: u32, shift: u32) -> u32 = (pair(low, high) >> shift.min(32)) as u32;
    /// `abs(a - b) + c`, wrapping, for signed `a` and `b`.
    ///
    /// PTX: `sad.s32`.
    /// # Source
    /// PTX ISA, "sad"; CUDA Math API, `__sad`.
    sad(a: i32, b: i32, c: u32) -> u32 = a.abs_diff(b).wrapping_add(c);
    /// `abs(a - b) + c`, wrapping, for unsigned `a` and `b`.
    ///
    /// PTX: `sad.u32`.
    /// # Source
    /// PTX ISA, "sad"; CUDA Math API, `__usad`.
    usad(a: u32, b: u32, c: u32) -> u32 = a.abs_diff(b).wrapping_add(c);
    /// `c` plus the dot product of `a` and `b` as four signed bytes each, wrapping.
    ///
    /// PTX: `dp4a.s32.s32`.
    /// # Source
    /// PTX ISA, "dp4a"; CUDA Math API, `__dp4a`.
    dp4a(a: i32, b: i32, c: i32) -> i32 = four_products(signed_bytes(a), signed_bytes(b), c.into()) as i32;
    /// `c` plus the dot product of `a` and `b` as four unsigned bytes each, wrapping.
    ///
    /// PTX: `dp4a.u32.u32`.
    /// # Source
    /// PTX ISA, "dp4a"; CUDA Math API, `__dp4a`.
    dp4a_u32(a: u32, b: u32, c: u32) -> u32 = four_products(bytes(a), bytes(b), c.into());
    /// `c` plus the dot product of four unsigned bytes of `a` and four signed ones of `b`, wrapping.
    ///
    /// PTX: `dp4a.u32.s32`.
    /// # Source
    /// PTX ISA, "dp4a".
    dp4a_us(a: u32, b: i32, c: i32) -> i32 = four_products(bytes(a), signed_bytes(b), c.into()) as i32;
    /// `c` plus the dot product of four signed bytes of `a` and four unsigned ones of `b`, wrapping.
    ///
    /// PTX: `dp4a.s32.u32`.
    /// # Source
    /// PTX ISA, "dp4a".
    dp4a_su(a: i32, b: u32, c: i32) -> i32 = four_products(signed_bytes(a), bytes(b), c.into()) as i32;
    /// `c` plus the products of `a`'s two signed halves with the two lowest signed bytes of `b`, wrapping.
    ///
    /// PTX: `dp2a.lo.s32.s32`.
    /// # Source
    /// PTX ISA, "dp2a"; CUDA Math API, `__dp2a_lo`.
    dp2a_lo(a: i32, b: i32, c: i32) -> i32 = two_products(signed_halves(a), signed_bytes(b), 0, c.into()) as i32;
    /// `c` plus the products of `a`'s two signed halves with the two highest signed bytes of `b`, wrapping.
    ///
    /// PTX: `dp2a.hi.s32.s32`.
    /// # Source
    /// PTX ISA, "dp2a"; CUDA Math API, `__dp2a_hi`.
    dp2a_hi(a: i32, b: i32, c: i32) -> i32 = two_products(signed_halves(a), signed_bytes(b), 2, c.into()) as i32;
    /// `c` plus the products of `a`'s two unsigned halves with the two lowest unsigned bytes of `b`, wrapping.
    ///
    /// PTX: `dp2a.lo.u32.u32`.
    /// # Source
    /// PTX ISA, "dp2a"; CUDA Math API, `__dp2a_lo`.
    dp2a_lo_u32(a: u32, b: u32, c: u32) -> u32 = two_products(halves(a), bytes(b), 0, c.into());
    /// `c` plus the products of `a`'s two unsigned halves with the two highest unsigned bytes of `b`, wrapping.
    ///
    /// PTX: `dp2a.hi.u32.u32`.
    /// # Source
    /// PTX ISA, "dp2a"; CUDA Math API, `__dp2a_hi`.
    dp2a_hi_u32(a: u32, b: u32, c: u32) -> u32 = two_products(halves(a), bytes(b), 2, c.into());
}
