//! Numbers of about 106 bits: the unevaluated sum of two `f64`.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `high + low`, where `high` is the sum rounded to nearest.
///
/// Values stay between 2^-900 and 2^900 or are zero, so that no part underflows or overflows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    pub(crate) high: f64,
    pub(crate) low: f64,
}

fn two_sum(a: f64, b: f64) -> Wide {
    let high = a + b;
    let part = high - a;
    Wide { high, low: (a - (high - part)) + (b - part) }
}

/// As `two_sum`, where `a` is the larger.
fn quick_two_sum(a: f64, b: f64) -> Wide {
    let high = a + b;
    Wide { high, low: b - (high - a) }
}

/// The upper 26 bits and the rest.
fn split(a: f64) -> (f64, f64) {
    let t = 134_217_729.0 * a;
    let upper = t - (t - a);
    (upper, a - upper)
}

fn two_product(a: f64, b: f64) -> Wide {
    let high = a * b;
    let ((a1, a2), (b1, b2)) = (split(a), split(b));
    Wide { high, low: ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2 }
}

impl Wide {
    pub(crate) const ZERO: Self = Self::of(0.0, 0.0);
    pub(crate) const ONE: Self = Self::of(1.0, 0.0);

    /// A constant, already normalised.
    pub(crate) const fn of(high: f64, low: f64) -> Self {
        Self { high, low }
    }

    /// `a + b`, exactly.
    pub(crate) fn sum(a: f64, b: f64) -> Self {
        two_sum(a, b)
    }

    /// Multiplies by a power of two.
    pub(crate) fn scale(self, power: f64) -> Self {
        Self { high: self.high * power, low: self.low * power }
    }

    pub(crate) fn abs(self) -> Self {
        if self.high < 0.0 { -self } else { self }
    }

    pub(crate) fn recip(self) -> Self {
        Self::ONE / self
    }

    pub(crate) fn sqrt(self) -> Self {
        if self.high == 0.0 {
            return Self::ZERO;
        }
        let root = Self::from(self.high.sqrt());
        // One step of Newton's method doubles the 53 bits.
        root + ((self - root * root) / root).scale(0.5)
    }

    /// Rounded to nearest.
    pub(crate) fn to_f64(self) -> f64 {
        self.high + self.low
    }
}

impl From<f64> for Wide {
    fn from(value: f64) -> Self {
        Self { high: value, low: 0.0 }
    }
}

impl Neg for Wide {
    type Output = Self;

    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Add for Wide {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (high, low) = (two_sum(self.high, other.high), two_sum(self.low, other.low));
        let sum = quick_two_sum(high.high, high.low + low.high);
        quick_two_sum(sum.high, sum.low + low.low)
    }
}

impl Sub for Wide {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Wide {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let product = two_product(self.high, other.high);
        quick_two_sum(product.high, product.low + (self.high * other.low + self.low * other.high))
    }
}

impl Div for Wide {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let first = self.high / other.high;
        let rest = self - other * Self::from(first);
        let second = rest.high / other.high;
        let rest = rest - other * Self::from(second);
        quick_two_sum(first, second) + Self::from(rest.high / other.high)
    }
}

impl Add<f64> for Wide {
    type Output = Self;

    fn add(self, other: f64) -> Self {
        self + Self::from(other)
    }
}

impl Sub<f64> for Wide {
    type Output = Self;

    fn sub(self, other: f64) -> Self {
        self + -other
    }
}

impl Mul<f64> for Wide {
    type Output = Self;

    fn mul(self, other: f64) -> Self {
        self * Self::from(other)
    }
}

impl Div<f64> for Wide {
    type Output = Self;

    fn div(self, other: f64) -> Self {
        self / Self::from(other)
    }
}

/// `value * 2^exponent`: results beyond the range of `f64` too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled {
    pub(crate) value: Wide,
    pub(crate) exponent: i32,
}

/// 2^`exponent`, which must be that of a normal `f64`.
pub(crate) fn power_of_two(exponent: i32) -> f64 {
    assert!((-1022..=1023).contains(&exponent), "2^{exponent} is no normal f64");
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// A positive or negative finite float that is not 0 as mantissa from 1 to 2 and exponent.
pub(crate) fn decompose(x: f64) -> (f64, i32) {
    if x.abs() < f64::MIN_POSITIVE {
        let (mantissa, exponent) = decompose(x * power_of_two(64));
        return (mantissa, exponent - 64);
    }
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    (f64::from_bits(x.to_bits() & !(0x7ff << 52) | 1023 << 52), exponent)
}

impl Scaled {
    /// The value of a float that is not 0.
    pub(crate) fn of(x: f64) -> Self {
        let (mantissa, exponent) = decompose(x);
        Self { value: mantissa.into(), exponent }
    }

    /// Brings the mantissa's leading part between 1 and 2.
    pub(crate) fn normalised(self) -> Self {
        if self.value.high == 0.0 {
            return self;
        }
        let (_, exponent) = decompose(self.value.high);
        // In two steps: a power of two of any `f64` exponent need not be a normal number.
        let half = -exponent / 2;
        let value = self.value.scale(power_of_two(half)).scale(power_of_two(-exponent - half));
        Self { value, exponent: self.exponent + exponent }
    }
}

impl From<Wide> for Scaled {
    fn from(value: Wide) -> Self {
        Self { value, exponent: 0 }
    }
}

impl Mul for Scaled {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let (a, b) = (self.normalised(), other.normalised());
        Self { value: a.value * b.value, exponent: a.exponent + b.exponent }
    }
}

impl Div for Scaled {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let (a, b) = (self.normalised(), other.normalised());
        Self { value: a.value / b.value, exponent: a.exponent - b.exponent }
    }
}

impl Mul<Wide> for Scaled {
    type Output = Self;

    fn mul(self, other: Wide) -> Self {
        self * Self::from(other)
    }
}
