//! Functions of `f32` that the `libm` crate computes in `f64`, in `f32` and integers: for kernels without libdevice.
//!
//! The polynomials are Chebyshev fits of our own on the ranges given.

/// Binary digits of 2 / pi, after a word for the places before the point.
const TWO_OVER_PI: [u32; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];

/// pi / 2 in units of 2^-62.
const HALF_PI: i64 = 0x6487_ed51_10b4_611a;

/// `|x|` as a number of quarter turns and a rest of at most an eighth of a turn; `x` is finite.
fn reduce(x: f32) -> (u32, f32) {
    let x = x.abs();
    if x < core::f32::consts::FRAC_PI_4 {
        return (0, x);
    }
    // x is `mantissa * 2^exponent`. Digits of 2 / pi before place `exponent - 2` only add whole turns.
    let bits = x.to_bits();
    let mantissa = bits & 0x7f_ffff | 0x80_0000;
    let exponent = (bits >> 23) as i32 - 150;
    let place = (exponent + 30) as u32;
    let (word, shift) = ((place / 32) as usize, place % 32);
    let words = (0..4).fold(0u128, |all, i| all << 32 | u128::from(TWO_OVER_PI[word + i]));
    // 96 digits from the place on; the product's point stands above bit 93.
    let product = (words << shift >> 32) * u128::from(mantissa);
    let (quarters, rest) = ((product >> 94) as u32, (product >> 30) as i64);
    // A rest above a half is negative as a signed number, and belongs to the next quarter.
    let angle = (i128::from(rest) * i128::from(HALF_PI)) >> 64;
    let unit = f32::from_bits((127 - 62) << 23);
    (quarters.wrapping_add(u32::from(rest < 0)) & 3, angle as i64 as f32 * unit)
}

/// The sine of an angle up to an eighth of a turn.
pub(super) fn sin_small(x: f32) -> f32 {
    let z = x * x;
    let p = (-0.000_195_878_3f32).mul_add(z, 0.008_332_748).mul_add(z, -0.166_666_64);
    (x * z).mul_add(p, x)
}

/// The cosine of an angle up to an eighth of a turn.
pub(super) fn cos_small(x: f32) -> f32 {
    let z = x * x;
    let p = 2.454_788e-5f32.mul_add(z, -0.001_388_830_2).mul_add(z, 0.041_666_664);
    (z * z).mul_add(p, (-0.5f32).mul_add(z, 1.0))
}

/// The sine.
pub fn sinf(x: f32) -> f32 {
    if !x.is_finite() {
        return f32::NAN;
    }
    let (quarters, rest) = reduce(x);
    let value = if quarters & 1 == 0 { sin_small(rest) } else { cos_small(rest) };
    let value = if quarters & 2 == 0 { value } else { -value };
    if x.is_sign_negative() { -value } else { value }
}

/// The cosine.
pub fn cosf(x: f32) -> f32 {
    if !x.is_finite() {
        return f32::NAN;
    }
    let (quarters, rest) = reduce(x);
    let value = if quarters & 1 == 0 { cos_small(rest) } else { sin_small(rest) };
    if quarters == 1 || quarters == 2 { -value } else { value }
}

/// The tangent.
pub fn tanf(x: f32) -> f32 {
    if !x.is_finite() {
        return f32::NAN;
    }
    let (quarters, rest) = reduce(x);
    let (sine, cosine) = (sin_small(rest), cos_small(rest));
    let value = if quarters & 1 == 0 { sine / cosine } else { -cosine / sine };
    if x.is_sign_negative() { -value } else { value }
}

/// `asin(x) - x` for x from 0 to 0.5, from `x` and its square.
fn asin_rest(x: f32, z: f32) -> f32 {
    let p = 0.033690847f32
        .mul_add(z, 0.017149238)
        .mul_add(z, 0.031100662)
        .mul_add(z, 0.044599403)
        .mul_add(z, 0.07500094)
        .mul_add(z, 0.16666666);
    x * z * p
}

/// The arc sine.
pub fn asinf(x: f32) -> f32 {
    let a = x.abs();
    let value = if a <= 0.5 {
        a + asin_rest(a, a * a)
    } else {
        // asin a = pi / 2 - 2 asin sqrt((1 - a) / 2), where pi / 2 is a sum of two; NaN where a is above 1.
        let z = 0.5 * (1.0 - a);
        let root = z.sqrt();
        let half = root + asin_rest(root, z);
        core::f32::consts::FRAC_PI_2 - 2.0f32.mul_add(half, 4.371_139e-8)
    };
    value.copysign(x)
}

/// 2 to the power of `x`.
pub fn exp2f(x: f32) -> f32 {
    if x > 128.5 {
        return f32::INFINITY;
    }
    if x < -151.0 {
        return 0.0;
    }
    let whole = libm::rintf(x);
    let r = x - whole;
    let p = 0.000_154_531_63f32
        .mul_add(r, 0.001_339_086_3)
        .mul_add(r, 0.009_618_083)
        .mul_add(r, 0.055_503_57)
        .mul_add(r, 0.240_226_5)
        .mul_add(r, core::f32::consts::LN_2);
    let exponent = whole as i32;
    let half = exponent / 2;
    let power = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
    // In two steps, of which the second alone may round. NaN comes through `r`.
    r.mul_add(p, 1.0) * power(half) * power(exponent - half)
}

/// The length of a vector.
pub fn hypotf(x: f32, y: f32) -> f32 {
    if x.is_infinite() || y.is_infinite() {
        return f32::INFINITY;
    }
    let (large, small) = if x.abs() > y.abs() { (x.abs(), y.abs()) } else { (y.abs(), x.abs()) };
    // Scaled so that squares neither overflow nor underflow where they count.
    let (scale, back) = if large > 1e18 {
        (f32::from_bits((127 - 80) << 23), f32::from_bits((127 + 80) << 23))
    } else if large < 1e-16 {
        (f32::from_bits((127 + 90) << 23), f32::from_bits((127 - 90) << 23))
    } else {
        (1.0, 1.0)
    };
    let (a, b) = (large * scale, small * scale);
    let square = b * b;
    a.mul_add(a, square).sqrt() * back
}

/// The cube root.
pub fn cbrtf(x: f32) -> f32 {
    if !x.is_finite() || x == 0.0 {
        return x + x;
    }
    let a = x.abs();
    // Scaled by a cube where twice the cube would overflow or `a` is subnormal.
    let (scale, back) = if a < f32::MIN_POSITIVE {
        (f32::from_bits((127 + 24) << 23), f32::from_bits((127 - 8) << 23))
    } else if a > 1e37 {
        (f32::from_bits((127 - 24) << 23), f32::from_bits((127 + 8) << 23))
    } else {
        (1.0, 1.0)
    };
    let a = a * scale;
    // A third of the exponent, then two steps of Halley's method, and one of Newton's with an exact remainder.
    let mut root = f32::from_bits(a.to_bits() / 3 + 0x2a51_37a0);
    for _ in 0..2 {
        let cube = root * root * root;
        root *= (cube + 2.0 * a) / (2.0 * cube + a);
    }
    let square = root * root;
    let square_rest = root.mul_add(root, -square);
    let cube = square * root;
    let rest = square.mul_add(root, -cube) + square_rest * root;
    root -= ((cube - a) + rest) / (3.0 * square);
    (root * back).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Floats of every exponent, dense around multiples of pi / 4, against `f64`.
    #[test]
    fn every_function_is_right_to_a_few_floats() {
        type Single = fn(f32) -> f32;
        type Double = fn(f64) -> f64;
        let functions: [(&str, Single, Double, u32); 6] = [
            ("sin", sinf, f64::sin, 2),
            ("cos", cosf, f64::cos, 2),
            ("tan", tanf, f64::tan, 4),
            ("asin", asinf, f64::asin, 2),
            ("exp2", exp2f, f64::exp2, 1),
            ("cbrt", cbrtf, f64::cbrt, 1),
        ];
        let spread = (0..=u32::MAX / 20_011).map(|i| f32::from_bits(i * 20_011));
        let near = (1..20_000).flat_map(|i| {
            let bits = (f64::from(i) * core::f64::consts::FRAC_PI_4) as f32;
            [bits.next_down(), bits, bits.next_up()]
        });
        let special =
            [0.0, -0.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-45, f32::MAX, 1.0, -1.0, 0.5, 16_367_173.0];
        for x in spread.chain(near).chain(special) {
            for (name, single, double, allowed) in functions {
                let (value, expected) = (single(x), double(x.into()) as f32);
                let same = value.is_nan() && expected.is_nan();
                assert!(
                    same || value.to_bits().abs_diff(expected.to_bits()) <= allowed,
                    "{name} of {x:e} is {value:e}, not {expected:e}"
                );
            }
            for y in [x * 0.001, x * 0.9, 1.0, f32::INFINITY] {
                let (value, expected) = (hypotf(x, y), f64::from(x).hypot(y.into()) as f32);
                let same = value.is_nan() && expected.is_nan();
                let steps = value.to_bits().abs_diff(expected.to_bits());
                assert!(same || steps <= 1, "hypot of {x:e} and {y:e} is {value:e}, not {expected:e}");
            }
        }
    }
}
