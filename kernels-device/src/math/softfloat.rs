//! Arithmetic rounded in a direction, on whole numbers: what the CPU executor computes where a GPU has an instruction.
//!
//! Operands are `f64`, which holds every `f32`, `f16` and 32-bit integer; only the rounding differs between formats.

/// Where a result goes that lies between two numbers of its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To the nearer one, to the even one when both are equally near: `rn`.
    Nearest,
    /// Toward zero: `rz`.
    Zero,
    /// Toward positive infinity: `ru`.
    Up,
    /// Toward negative infinity: `rd`.
    Down,
}

/// A float format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Bits of the significand, the leading one included.
    digits: i32,
    /// Exponent of the unit of the smallest numbers.
    lowest: i32,
    /// Exponent of the leading bit of the largest numbers.
    highest: i32,
}

pub(crate) const F16: Format = Format { digits: 11, lowest: -24, highest: 15 };
pub(crate) const F32: Format = Format { digits: 24, lowest: -149, highest: 127 };
pub(crate) const F64: Format = Format { digits: 53, lowest: -1074, highest: 1023 };

/// Bit of a significand's leading one: two bits above it are room for a carry.
const TOP: i32 = 124;

/// `significand * 2^exponent`, where a lowest bit of 1 may stand for any bits below it.
///
/// The significand's leading one is bit `TOP`. The operations leave so many bits below a format's last that what the lowest
/// stands for never matters, except that it is not nothing.
#[derive(Clone, Copy, Debug)]
struct Exact {
    negative: bool,
    significand: u128,
    exponent: i32,
}

impl Exact {
    /// A finite number that is not 0.
    fn of(x: f64) -> Self {
        let bits = x.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
        let (significand, exponent) =
            if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        Self::normalised(x.is_sign_negative(), significand.into(), exponent)
    }

    /// Any significand but 0.
    fn normalised(negative: bool, significand: u128, exponent: i32) -> Self {
        let shift = TOP - (127 - significand.leading_zeros() as i32);
        let significand = if shift >= 0 { significand << shift } else { shifted_right(significand, -shift) };
        Self { negative, significand, exponent: exponent - shift }
    }

    fn product(self, other: Self) -> Self {
        // Both have 53 bits, in the upper part.
        let (a, b) = (self.significand >> (TOP - 52), other.significand >> (TOP - 52));
        let exponent = self.exponent + other.exponent + 2 * (TOP - 52);
        Self::normalised(self.negative != other.negative, a * b, exponent)
    }

    fn quotient(self, other: Self) -> Self {
        let (a, b) = (self.significand >> (TOP - 52), other.significand >> (TOP - 52));
        let dividend = a << 73;
        let rest = u128::from(dividend % b != 0);
        let exponent = self.exponent - other.exponent - 73 - 1;
        Self::normalised(self.negative != other.negative, (dividend / b) << 1 | rest, exponent)
    }

    /// The root of a positive number.
    fn root(self) -> Self {
        let significand = self.significand >> (TOP - 52);
        let exponent = self.exponent + (TOP - 52);
        let shift = if exponent & 1 == 0 { 72 } else { 73 };
        let square = significand << shift;
        let root = square.isqrt();
        let rest = u128::from(root * root != square);
        Self::normalised(false, (root << 1) | rest, (exponent - shift) / 2 - 1)
    }

    /// The sum, or `None` when it is 0.
    fn sum(self, other: Self) -> Option<Self> {
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        let aligned = shifted_right(small.significand, large.exponent - small.exponent);
        let (negative, significand) = if large.negative == small.negative {
            (large.negative, large.significand + aligned)
        } else if large.significand >= aligned {
            (large.negative, large.significand - aligned)
        } else {
            (small.negative, aligned - large.significand)
        };
        (significand != 0).then(|| Self::normalised(negative, significand, large.exponent))
    }

    /// The number of the format, which `f64` holds.
    fn round(self, format: Format, mode: Mode) -> f64 {
        let Format { digits, lowest, highest } = format;
        let unit = (self.exponent + TOP - digits + 1).max(lowest);
        let shift = unit - self.exponent;
        let (mut whole, rest, half) = if shift > 126 {
            // Far below the smallest number.
            (0, self.significand, u128::MAX)
        } else {
            (self.significand >> shift, self.significand & ((1 << shift) - 1), 1 << (shift - 1))
        };
        let away = match mode {
            Mode::Nearest => rest > half || (rest == half && whole & 1 == 1),
            Mode::Zero => false,
            Mode::Up => rest != 0 && !self.negative,
            Mode::Down => rest != 0 && self.negative,
        };
        whole += u128::from(away);
        let is_too_large = whole != 0 && 127 - whole.leading_zeros() as i32 + unit > highest;
        let magnitude = if !is_too_large {
            times_power(whole as f64, unit)
        } else if mode == Mode::Nearest || (mode == Mode::Up && !self.negative) || (mode == Mode::Down && self.negative)
        {
            f64::INFINITY
        } else {
            times_power(((1u64 << digits) - 1) as f64, highest - digits + 1)
        };
        if self.negative { -magnitude } else { magnitude }
    }
}

/// Shifts right; bits that fall off leave a lowest bit of 1.
fn shifted_right(value: u128, shift: i32) -> u128 {
    if shift > 127 { u128::from(value != 0) } else { value >> shift | u128::from(value & ((1u128 << shift) - 1) != 0) }
}

/// `value * 2^exponent` where it is exact.
fn times_power(value: f64, exponent: i32) -> f64 {
    let power = |exponent: i32| f64::from_bits(((exponent + 1023) as u64) << 52);
    let half = exponent / 2;
    value * power(half) * power(exponent - half)
}

/// A sum of two numbers of which one is 0, or that cancel.
fn zero_or(a: f64, b: f64, mode: Mode) -> f64 {
    if a != 0.0 {
        a
    } else if b != 0.0 {
        b
    } else if a.is_sign_negative() == b.is_sign_negative() {
        a
    } else {
        cancelled(mode)
    }
}

/// The 0 that is left when two numbers cancel.
fn cancelled(mode: Mode) -> f64 {
    if mode == Mode::Down { -0.0 } else { 0.0 }
}

pub(crate) fn add(a: f64, b: f64, format: Format, mode: Mode) -> f64 {
    if !a.is_finite() || !b.is_finite() {
        a + b
    } else if a == 0.0 || b == 0.0 {
        zero_or(a, b, mode)
    } else {
        Exact::of(a).sum(Exact::of(b)).map_or(cancelled(mode), |sum| sum.round(format, mode))
    }
}

pub(crate) fn mul(a: f64, b: f64, format: Format, mode: Mode) -> f64 {
    if !a.is_finite() || !b.is_finite() || a == 0.0 || b == 0.0 {
        a * b
    } else {
        Exact::of(a).product(Exact::of(b)).round(format, mode)
    }
}

pub(crate) fn div(a: f64, b: f64, format: Format, mode: Mode) -> f64 {
    if !a.is_finite() || !b.is_finite() || a == 0.0 || b == 0.0 {
        a / b
    } else {
        Exact::of(a).quotient(Exact::of(b)).round(format, mode)
    }
}

pub(crate) fn fma(a: f64, b: f64, c: f64, format: Format, mode: Mode) -> f64 {
    if a.is_finite() && b.is_finite() && !c.is_finite() {
        // Their product as `f64` might be infinite, which it is not.
        return c;
    }
    if !a.is_finite() || !b.is_finite() {
        return a * b + c;
    }
    if a == 0.0 || b == 0.0 {
        return zero_or(a * b, c, mode);
    }
    let product = Exact::of(a).product(Exact::of(b));
    if c == 0.0 {
        return product.round(format, mode);
    }
    product.sum(Exact::of(c)).map_or(cancelled(mode), |sum| sum.round(format, mode))
}

pub(crate) fn sqrt(a: f64, format: Format, mode: Mode) -> f64 {
    if a > 0.0 && a.is_finite() {
        Exact::of(a).root().round(format, mode)
    } else if a < 0.0 {
        f64::NAN
    } else {
        a
    }
}

/// A float as a number of a smaller format.
pub(crate) fn convert(a: f64, format: Format, mode: Mode) -> f64 {
    if a == 0.0 || !a.is_finite() { a } else { Exact::of(a).round(format, mode) }
}

/// An integer as a float.
pub(crate) fn convert_integer(negative: bool, magnitude: u64, format: Format, mode: Mode) -> f64 {
    if magnitude == 0 { 0.0 } else { Exact::normalised(negative, magnitude.into(), 0).round(format, mode) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Every edge of both formats, and random numbers.
    fn numbers() -> Vec<f64> {
        let mut all: Vec<f64> = std::vec![0.0, 1.0, 1.5, 3.0, 1e-45, 1e-40, 1e300, 5e-324, 1e-310, 0.1, 65504.0, 7.0];
        for base in [f64::MIN_POSITIVE, f64::MAX, f32::MAX.into(), f32::MIN_POSITIVE.into(), 1.0, 2.0, 16_777_216.0] {
            all.extend([base, base.next_up(), base.next_down()].into_iter().filter(|x| x.is_finite()));
            let single = base as f32;
            all.extend(
                [f64::from(single.next_up()), f64::from(single.next_down())].into_iter().filter(|x| x.is_finite()),
            );
        }
        let mut state = 12345u64;
        for i in 0..60 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let any = f64::from_bits(state ^ state >> 17);
            let near = f64::from_bits(state >> 12 | 1023 << 52);
            all.push(if i % 2 == 0 && any.is_finite() { any } else { near });
        }
        let negative: Vec<f64> = all.iter().map(|x| -x).collect();
        all.extend(negative);
        all
    }

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    /// The four modes agree with each other: nearest with the processor, up and down are neighbours around it.
    fn check(what: &str, nearest: f64, rounded: impl Fn(Mode) -> f64, next_up: impl Fn(f64) -> f64) {
        let [n, z, u, d] = [Mode::Nearest, Mode::Zero, Mode::Up, Mode::Down].map(&rounded);
        assert!(same(n, nearest), "{what}: {n:e}, not {nearest:e}");
        if n.is_nan() {
            assert!(z.is_nan() && u.is_nan() && d.is_nan(), "{what}");
            return;
        }
        assert!(d <= n && n <= u, "{what}: {d:e} {n:e} {u:e}");
        assert!(u == d || u == next_up(d), "{what}: {d:e} {u:e}");
        assert!(same(z, if u > 0.0 || (u == 0.0 && d == 0.0) { d } else { u }) || z == 0.0, "{what}: {z:e}");
    }

    #[test]
    fn f64_agrees_with_the_processor() {
        let up = |x: f64| x.next_up();
        for a in numbers() {
            check(&std::format!("sqrt {a:e}"), a.sqrt(), |mode| sqrt(a, F64, mode), up);
            for b in numbers() {
                let text = |name| std::format!("{name} {a:e} {b:e}");
                check(&text("add"), a + b, |mode| add(a, b, F64, mode), up);
                check(&text("mul"), a * b, |mode| mul(a, b, F64, mode), up);
                check(&text("div"), a / b, |mode| div(a, b, F64, mode), up);
                for c in [0.0, -0.0, 1.0, a, -a * b, b * 1e-300, -f64::MAX, 5e-324] {
                    if c.is_finite() {
                        check(
                            &std::format!("fma {a:e} {b:e} {c:e}"),
                            a.mul_add(b, c),
                            |mode| fma(a, b, c, F64, mode),
                            up,
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn f32_agrees_with_the_processor() {
        let up = |x: f64| f64::from((x as f32).next_up());
        let singles: Vec<f32> = numbers().into_iter().map(|x| x as f32).filter(|x| x.is_finite()).collect();
        for &a in &singles {
            let wide = f64::from(a);
            check(&std::format!("sqrt {a:e}"), a.sqrt().into(), |mode| sqrt(wide, F32, mode), up);
            for &b in &singles {
                let text = |name| std::format!("{name} {a:e} {b:e}");
                let other = f64::from(b);
                check(&text("add"), (a + b).into(), |mode| add(wide, other, F32, mode), up);
                check(&text("mul"), (a * b).into(), |mode| mul(wide, other, F32, mode), up);
                // The product of two `f32` is an `f64`: below and above it lie what `rd` and `ru` give.
                let (low, high) = (mul(wide, other, F32, Mode::Down), mul(wide, other, F32, Mode::Up));
                let exact = wide * other;
                assert!(low <= exact && exact <= high && (low == high) == (low == exact), "{}", text("mul"));
                check(&text("div"), (a / b).into(), |mode| div(wide, other, F32, mode), up);
                for c in [0.0, -0.0, 1.0, a, -a * b, b * 1e-30, -f32::MAX, 1e-45] {
                    if c.is_finite() {
                        let fused = f64::from(a.mul_add(b, c));
                        let text = std::format!("fma {a:e} {b:e} {c:e}");
                        check(&text, fused, |mode| fma(wide, other, c.into(), F32, mode), up);
                    }
                }
            }
        }
    }

    #[test]
    fn conversions_agree_with_the_processor() {
        for a in numbers() {
            let up = |x: f64| f64::from((x as f32).next_up());
            check(&std::format!("f32 of {a:e}"), f64::from(a as f32), |mode| convert(a, F32, mode), up);
            let half = half::f16::from_f64(a);
            let up = |x: f64| {
                let bits = half::f16::from_f64(x).to_bits();
                let next = match bits {
                    0x8000 => 1,
                    0x8001.. => bits - 1,
                    _ => bits + 1,
                };
                half::f16::from_bits(next).to_f64()
            };
            check(&std::format!("f16 of {a:e}"), half.to_f64(), |mode| convert(a, F16, mode), up);
        }
        for magnitude in
            [0, 1, (1 << 24) + 1, (1 << 25) - 1, (1 << 53) + 1, u64::MAX, u64::MAX - 1, 1 << 63, 0x8000_0080_0000_0000]
        {
            let up = |x: f64| f64::from((x as f32).next_up());
            check("f32", f64::from(magnitude as f32), |mode| convert_integer(false, magnitude, F32, mode), up);
            check("f64", magnitude as f64, |mode| convert_integer(false, magnitude, F64, mode), f64::next_up);
        }
    }
}
