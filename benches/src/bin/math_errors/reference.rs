//! The mathematical functions to about 90 bits, which the results of the devices are compared with.
//!
//! Each takes floats exactly and gives `None` where the result is no nonzero real number: at poles, outside the domain, for
//! infinities, and where it is 0. Tests compare them with values computed at 300 bits.

use super::constants::{HALF_LN_TWO_PI, LN_2, LN_10, LN_GAMMA_AT_1, PI, STIRLING, TWO_OVER_PI, TWO_OVER_SQRT_PI};
use super::wide::{Scaled, Wide, decompose, power_of_two};

type Real = Option<Scaled>;

/// Below this magnitude an odd function with slope 1 at 0 is its argument, to more than 100 bits.
const TINY: f64 = 1e-18;

/// The argument itself, times one plus a relative correction.
fn near_identity(x: f64, correction: f64) -> Real {
    Some(Scaled::of(x) * (Wide::ONE + correction))
}

/// `e^x - 1` for |x| up to about 0.6.
fn exp_m1_small(x: Wide) -> Wide {
    // Horner's scheme over x^n / n!, where 30 terms leave less than 2^-110.
    let mut sum = Wide::ONE;
    for n in (2..=30).rev() {
        sum = Wide::ONE + x * sum / f64::from(n);
    }
    x * sum
}

/// `e^x` for |x| up to 10^6.
fn exp_wide(x: Wide) -> Scaled {
    let exponent = (x.high / LN_2.high).round();
    let rest = x - LN_2 * exponent;
    Scaled { value: exp_m1_small(rest) + 1.0, exponent: exponent as i32 }
}

/// `ln(1 + x)` for x from -0.5 to 0.7.
fn ln_1p_small(x: Wide) -> Wide {
    if x.high.abs() < 1e-25 {
        return x - x * x.scale(0.5);
    }
    let guess = Wide::from(x.high.ln_1p());
    // ln(1 + x) = guess + ln((1 + x) * e^-guess), whose argument is 1 + `rest` with a rest of about 2^-53.
    let inverse = exp_m1_small(-guess);
    let rest = x + inverse + x * inverse;
    guess + rest - (rest * rest).scale(0.5) + rest * rest * rest / 3.0
}

/// The logarithm of a positive number.
fn ln_scaled(x: Scaled) -> Wide {
    let mut x = x.normalised();
    if x.value.high > std::f64::consts::SQRT_2 {
        x = Scaled { value: x.value.scale(0.5), exponent: x.exponent + 1 };
    }
    let fraction = ln_1p_small(x.value - 1.0);
    if x.exponent == 0 { fraction } else { LN_2 * f64::from(x.exponent) + fraction }
}

fn ln_wide(x: Wide) -> Wide {
    ln_scaled(x.into())
}

/// `ln(1 + x)` for any x above -1.
fn ln_1p_wide(x: Wide) -> Wide {
    if (-0.5..0.7).contains(&x.high) { ln_1p_small(x) } else { ln_wide(x + 1.0) }
}

fn nonzero(value: Wide) -> Real {
    (value.high != 0.0).then(|| value.into())
}

pub(crate) fn exp(x: f64) -> Real {
    (x.abs() < 1e6).then(|| exp_wide(x.into()))
}

pub(crate) fn exp2(x: f64) -> Real {
    let whole = x.round();
    let rest = || exp_wide(LN_2 * (x - whole));
    (x.abs() < 1e6).then(|| Scaled { value: Wide::ONE, exponent: whole as i32 } * rest())
}

pub(crate) fn exp10(x: f64) -> Real {
    (x.abs() < 1e5).then(|| exp_wide(LN_10 * x))
}

pub(crate) fn exp_m1(x: f64) -> Real {
    if x == 0.0 || x.abs() > 1e6 {
        None
    } else if x.abs() < TINY {
        near_identity(x, x / 2.0)
    } else {
        Some(exp_m1_wide(x))
    }
}

fn exp_m1_wide(x: f64) -> Scaled {
    if x.abs() < 0.5 {
        exp_m1_small(x.into()).into()
    } else if x < 200.0 {
        let power = exp_wide(x.into());
        // e^x below 2^-200 changes nothing in -1 at this precision.
        let value = if power.exponent < -200 { Wide::ZERO } else { power.value.scale(power_of_two(power.exponent)) };
        (value - 1.0).into()
    } else {
        exp_wide(x.into())
    }
}

pub(crate) fn ln(x: f64) -> Real {
    if x > 0.0 && x.is_finite() { nonzero(ln_scaled(Scaled::of(x))) } else { None }
}

pub(crate) fn log2(x: f64) -> Real {
    if x <= 0.0 || !x.is_finite() {
        return None;
    }
    let (mantissa, exponent) = decompose(x);
    if mantissa == 1.0 {
        return nonzero(f64::from(exponent).into());
    }
    nonzero(ln_scaled(Scaled::of(x)) / LN_2)
}

pub(crate) fn log10(x: f64) -> Real {
    if x > 0.0 && x.is_finite() { nonzero(ln_scaled(Scaled::of(x)) / LN_10) } else { None }
}

pub(crate) fn ln_1p(x: f64) -> Real {
    if x <= -1.0 || !x.is_finite() || x == 0.0 {
        None
    } else if x.abs() < TINY {
        near_identity(x, -x / 2.0)
    } else if x > 1e60 {
        nonzero(ln_scaled(Scaled::of(x)))
    } else {
        nonzero(ln_1p_wide(x.into()))
    }
}

/// Sine and cosine for |x| up to about 0.8.
fn sin_cos_small(x: Wide) -> (Wide, Wide) {
    let square = x * x;
    let (mut sine, mut cosine) = (Wide::ONE, Wide::ONE);
    for n in (1..=15).rev() {
        sine = Wide::ONE - square * sine / f64::from(2 * n * (2 * n + 1));
        cosine = Wide::ONE - square * cosine / f64::from((2 * n - 1) * 2 * n);
    }
    (x * sine, cosine)
}

/// Sine and cosine of `quarters` quarter turns plus a small angle.
fn sin_cos_of(quarters: u64, rest: Wide) -> (Wide, Wide) {
    let (sine, cosine) = sin_cos_small(rest);
    match quarters % 4 {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}

/// `|x|` as a number of quarter turns, modulo 4, and a rest of at most an eighth of a turn.
fn reduce(x: f64) -> (u64, Wide) {
    let x = x.abs();
    if x < std::f64::consts::FRAC_PI_4 {
        return (0, x.into());
    }
    // x = mantissa * 2^exponent with a whole mantissa; x * 2 / pi modulo 4 needs only the digits of 2 / pi from weight
    // 2^(1 - exponent) down, since those before contribute multiples of 4.
    let (fraction, exponent) = decompose(x);
    let mantissa = (fraction * power_of_two(52)) as u64;
    let exponent = exponent - 52;
    let first = (exponent - 2).max(0) as usize;
    // The window holds the 384 digits behind the first `first`: a whole number of units of 2^-(first + 384).
    let mut window = [0u64; 6];
    for (i, limb) in window.iter_mut().enumerate() {
        let (index, shift) = (first / 64 + i, first % 64);
        let next = if shift == 0 { 0 } else { TWO_OVER_PI[index + 1] >> (64 - shift) };
        *limb = TWO_OVER_PI[index] << shift | next;
    }
    // product = mantissa * window, in 7 limbs, highest first.
    let mut product = [0u64; 7];
    let mut carry = 0u128;
    for i in (0..6).rev() {
        let step = u128::from(window[i]) * u128::from(mantissa) + carry;
        product[i + 1] = step as u64;
        carry = step >> 64;
    }
    product[0] = carry as u64;
    // The product's unit is 2^(exponent - first - 384), so the point stands so many bits above its end.
    let point = 384 + first as i32 - exponent;
    let bit = |position: i32| -> u64 {
        if !(0..448).contains(&position) {
            return 0;
        }
        product[6 - position as usize / 64] >> (position % 64) & 1
    };
    let mut quarters = bit(point) | bit(point + 1) << 1;
    // The fraction as limbs of 64 bits from the point down.
    let limbs: [u64; 4] =
        std::array::from_fn(|i| (0..64).fold(0, |limb, j| limb << 1 | bit(point - 1 - 64 * i as i32 - j)));
    let above_half = limbs[0] >> 63 == 1;
    let limbs = if above_half { limbs.map(|limb| !limb) } else { limbs };
    let mut rest = Wide::ZERO;
    for (i, limb) in limbs.into_iter().enumerate().rev() {
        let weight = power_of_two(-64 * (i as i32 + 1));
        let (upper, lower) = ((limb >> 32) as f64 * 4_294_967_296.0, (limb & 0xffff_ffff) as f64);
        rest = rest + Wide::sum(upper, lower).scale(weight);
    }
    if above_half {
        quarters += 1;
        rest = -rest;
    }
    (quarters, rest * PI.scale(0.5))
}

fn sin_cos_wide(x: f64) -> (Wide, Wide) {
    let (quarters, rest) = reduce(x);
    let (sine, cosine) = sin_cos_of(quarters, rest);
    (if x < 0.0 { -sine } else { sine }, cosine)
}

pub(crate) fn sin(x: f64) -> Real {
    if x == 0.0 || !x.is_finite() {
        None
    } else if x.abs() < TINY {
        near_identity(x, 0.0)
    } else {
        nonzero(sin_cos_wide(x).0)
    }
}

pub(crate) fn cos(x: f64) -> Real {
    x.is_finite().then(|| if x.abs() < TINY { Wide::ONE.into() } else { sin_cos_wide(x).1.into() })
}

pub(crate) fn tan(x: f64) -> Real {
    if x == 0.0 || !x.is_finite() {
        None
    } else if x.abs() < TINY {
        near_identity(x, 0.0)
    } else {
        let (sine, cosine) = sin_cos_wide(x);
        nonzero(sine / cosine)
    }
}

/// Sine and cosine of `pi * x`.
fn sin_cos_pi(x: f64) -> (Wide, Wide) {
    // Exact: the remainder by 2 and the nearest half are floats, and so is their difference.
    let turn = x.abs() % 2.0;
    let halves = (2.0 * turn).round();
    let (sine, cosine) = sin_cos_of(halves as u64, PI * (turn - halves / 2.0));
    (if x < 0.0 { -sine } else { sine }, cosine)
}

pub(crate) fn sinpi(x: f64) -> Real {
    if x == 0.0 || !x.is_finite() {
        None
    } else if x.abs() < TINY {
        Some(Scaled::of(x) * PI)
    } else {
        nonzero(sin_cos_pi(x).0)
    }
}

pub(crate) fn cospi(x: f64) -> Real {
    if !x.is_finite() {
        None
    } else if x.abs() < TINY {
        Some(Wide::ONE.into())
    } else {
        nonzero(sin_cos_pi(x).1)
    }
}

/// The arc tangent for |x| up to 2^100.
fn atan_wide(x: Wide) -> Wide {
    let guess = x.high.atan();
    let (sine, cosine) = if guess.abs() < 0.8 {
        sin_cos_small(guess.into())
    } else {
        let (sine, cosine) = sin_cos_of(1, Wide::from(guess.abs()) - PI.scale(0.5));
        (if guess < 0.0 { -sine } else { sine }, cosine)
    };
    // atan x = guess + atan of what is left, of about 2^-53.
    let rest = (x * cosine - sine) / (cosine + x * sine);
    Wide::from(guess) + rest - rest * rest * rest / 3.0
}

/// The arc tangent of any quotient of positive numbers.
fn atan_scaled(x: Scaled) -> Scaled {
    let x = x.normalised();
    if x.exponent < -60 {
        x
    } else if x.exponent > 99 {
        // pi / 2 - 1 / x
        let inverse = if x.exponent > 300 { Wide::ZERO } else { x.value.recip().scale(power_of_two(-x.exponent)) };
        (PI.scale(0.5) - inverse).into()
    } else {
        atan_wide(x.value.scale(power_of_two(x.exponent))).into()
    }
}

fn with_sign(value: Scaled, sign: f64) -> Real {
    Some(if sign < 0.0 { Scaled { value: -value.value, ..value } } else { value })
}

pub(crate) fn atan(x: f64) -> Real {
    if x == 0.0 || !x.is_finite() { None } else { with_sign(atan_scaled(Scaled::of(x.abs())), x) }
}

pub(crate) fn atan2(y: f64, x: f64) -> Real {
    if x == 0.0 || y == 0.0 || !x.is_finite() || !y.is_finite() {
        return None;
    }
    let angle = atan_scaled(Scaled::of(y.abs()) / Scaled::of(x.abs()));
    let angle = if x < 0.0 {
        let value = if angle.exponent < -200 { Wide::ZERO } else { angle.value.scale(power_of_two(angle.exponent)) };
        (PI - value).into()
    } else {
        angle
    };
    with_sign(angle, y)
}

/// The arc sine for |x| up to about 0.71.
fn asin_small(x: Wide) -> Wide {
    let guess = Wide::from(x.high.asin());
    let (sine, cosine) = sin_cos_small(guess);
    let rest = (x - sine) / cosine;
    // The second term of the inverse function's series; the rest is of about 2^-53.
    guess + rest + (rest * rest * sine / cosine).scale(0.5)
}

fn asin_wide(x: f64) -> Wide {
    if x.abs() <= 0.5 {
        return asin_small(x.into());
    }
    let half = Wide::sum(1.0, -x.abs()).scale(0.5);
    let angle = PI.scale(0.5) - asin_small(half.sqrt()).scale(2.0);
    if x < 0.0 { -angle } else { angle }
}

pub(crate) fn asin(x: f64) -> Real {
    if x == 0.0 || x.is_nan() || x.abs() > 1.0 {
        None
    } else if x.abs() < TINY {
        near_identity(x, 0.0)
    } else {
        nonzero(asin_wide(x))
    }
}

pub(crate) fn acos(x: f64) -> Real {
    if x.is_nan() || x.abs() > 1.0 {
        None
    } else if x > 0.5 {
        nonzero(asin_small(Wide::sum(1.0, -x).scale(0.5).sqrt()).scale(2.0))
    } else if x < -0.5 {
        nonzero(PI - asin_small(Wide::sum(1.0, x).scale(0.5).sqrt()).scale(2.0))
    } else {
        let sine = if x.abs() < 1e-40 { Wide::ZERO } else { asin_small(x.into()) };
        nonzero(PI.scale(0.5) - sine)
    }
}

pub(crate) fn sinh(x: f64) -> Real {
    if x == 0.0 || x.abs() > 1e6 || x.is_nan() {
        None
    } else if x.abs() < TINY {
        near_identity(x, 0.0)
    } else if x.abs() < 100.0 {
        // Below 200 it comes without an exponent.
        let power = exp_m1_wide(x.abs()).value;
        with_sign((power + power / (power + 1.0)).scale(0.5).into(), x)
    } else {
        with_sign(half_exp(x.abs()), x)
    }
}

/// `e^x / 2`
fn half_exp(x: f64) -> Scaled {
    let power = exp_wide(x.into());
    Scaled { exponent: power.exponent - 1, ..power }
}

pub(crate) fn cosh(x: f64) -> Real {
    if x.is_nan() || x.abs() > 1e6 {
        None
    } else if x.abs() < 100.0 {
        let power = exp_wide(x.abs().into());
        let value = power.value.scale(power_of_two(power.exponent));
        nonzero((value + value.recip()).scale(0.5))
    } else {
        Some(half_exp(x.abs()))
    }
}

pub(crate) fn tanh(x: f64) -> Real {
    if x == 0.0 || !x.is_finite() {
        None
    } else if x.abs() < TINY {
        near_identity(x, 0.0)
    } else if x.abs() > 50.0 {
        with_sign(Wide::ONE.into(), x)
    } else {
        let power = exp_m1_wide(2.0 * x.abs()).value;
        with_sign((power / (power + 2.0)).into(), x)
    }
}

pub(crate) fn asinh(x: f64) -> Real {
    let a = x.abs();
    if x == 0.0 || !x.is_finite() {
        None
    } else if a < TINY {
        near_identity(x, 0.0)
    } else if a > 1e60 {
        with_sign((ln_scaled(Scaled::of(a)) + LN_2).into(), x)
    } else {
        let square = Wide::from(a) * a;
        with_sign(ln_1p_wide(Wide::from(a) + square / ((square + 1.0).sqrt() + 1.0)).into(), x)
    }
}

pub(crate) fn acosh(x: f64) -> Real {
    if x.is_nan() || x <= 1.0 || !x.is_finite() {
        None
    } else if x > 1e60 {
        nonzero(ln_scaled(Scaled::of(x)) + LN_2)
    } else {
        let above = Wide::sum(x, -1.0);
        nonzero(ln_1p_wide(above + (above * (above + 2.0)).sqrt()))
    }
}

pub(crate) fn atanh(x: f64) -> Real {
    let a = x.abs();
    if x == 0.0 || x.is_nan() || a >= 1.0 {
        None
    } else if a < TINY {
        near_identity(x, 0.0)
    } else {
        with_sign(ln_1p_wide(Wide::from(2.0 * a) / Wide::sum(1.0, -a)).scale(0.5).into(), x)
    }
}

pub(crate) fn cbrt(x: f64) -> Real {
    if x == 0.0 || !x.is_finite() {
        return None;
    }
    let (mantissa, exponent) = decompose(x.abs());
    let third = exponent.div_euclid(3);
    let cube = Wide::from(mantissa * power_of_two(exponent.rem_euclid(3)));
    let guess = Wide::from(cube.high.cbrt());
    let root = guess + (cube - guess * guess * guess) / (guess * guess * 3.0);
    with_sign(Scaled { value: root, exponent: third }, x)
}

pub(crate) fn rcbrt(x: f64) -> Real {
    Some(Scaled::from(Wide::ONE) / cbrt(x)?)
}

fn root(x: f64) -> Scaled {
    let (mantissa, exponent) = decompose(x);
    let square = Wide::from(mantissa * power_of_two(exponent.rem_euclid(2)));
    Scaled { value: square.sqrt(), exponent: exponent.div_euclid(2) }
}

pub(crate) fn rsqrt(x: f64) -> Real {
    (x > 0.0 && x.is_finite()).then(|| Scaled::from(Wide::ONE) / root(x))
}

pub(crate) fn hypot(x: f64, y: f64) -> Real {
    if !x.is_finite() || !y.is_finite() || (x == 0.0 && y == 0.0) {
        return None;
    }
    let (large, small) = if x.abs() > y.abs() { (x.abs(), y.abs()) } else { (y.abs(), x.abs()) };
    let large = Scaled::of(large);
    if small == 0.0 {
        return Some(large);
    }
    let quotient = (Scaled::of(small) / large).normalised();
    if quotient.exponent < -120 {
        return Some(large);
    }
    let quotient = quotient.value.scale(power_of_two(quotient.exponent));
    Some(large * (quotient * quotient + 1.0).sqrt())
}

pub(crate) fn pow(x: f64, y: f64) -> Real {
    let finite = x.is_finite() && y.is_finite();
    if !finite || x == 0.0 || y == 0.0 || (x < 0.0 && y.fract() != 0.0) {
        return None;
    }
    // Overflow and underflow by far are left to the caller's own function.
    let size = (x.abs().ln() * y).abs();
    if size.is_nan() || size >= 1e4 {
        return None;
    }
    let sign = if x < 0.0 && y % 2.0 != 0.0 { -1.0 } else { 1.0 };
    if x.abs() == 1.0 {
        return with_sign(Wide::ONE.into(), sign);
    }
    // A large y comes with a logarithm near 0: scaled, so that splitting does not overflow.
    let logarithm = ln_scaled(Scaled::of(x.abs()));
    let product = (Scaled::from(logarithm) * Scaled::of(y)).normalised();
    if product.exponent < -120 {
        return with_sign(Wide::ONE.into(), sign);
    }
    with_sign(exp_wide(product.value.scale(power_of_two(product.exponent))), sign)
}

/// `x % y`, exactly: std's is.
pub(crate) fn rem(x: f64, y: f64) -> Real {
    let rest = x % y;
    (rest.is_finite() && rest != 0.0 && y.is_finite()).then(|| Scaled::of(rest))
}

/// The error function of x from 0 to 7, by its series of positive terms.
fn erf_series(x: f64) -> Wide {
    let square = Wide::from(x) * x;
    let (mut term, mut sum) = (Wide::from(x), Wide::from(x));
    let mut n = 0.0;
    while term.high > sum.high * 1e-34 {
        n += 1.0;
        term = term * square.scale(2.0) / (2.0 * n + 1.0);
        sum = sum + term;
    }
    let power = exp_wide(-square);
    sum * TWO_OVER_SQRT_PI * power.value.scale(power_of_two(power.exponent))
}

pub(crate) fn erf(x: f64) -> Real {
    if x == 0.0 || !x.is_finite() {
        None
    } else if x.abs() < TINY {
        Some(Scaled::of(x) * TWO_OVER_SQRT_PI)
    } else {
        with_sign(if x.abs() < 7.0 { erf_series(x.abs()).into() } else { Wide::ONE.into() }, x)
    }
}

pub(crate) fn erfc(x: f64) -> Real {
    if !x.is_finite() {
        None
    } else if x.abs() < 1e-40 {
        Some(Wide::ONE.into())
    } else if x < 0.0 {
        Some((Wide::ONE + if x > -7.0 { erf_series(-x) } else { Wide::ONE }).into())
    } else if x < 3.0 {
        Some((Wide::ONE - erf_series(x)).into())
    } else if x < 60.0 {
        // e^-x^2 / (x sqrt pi) times the continued fraction 1 / (1 + a / (1 + 2 a / (1 + 3 a / ..))) with a = 1 / (2 x^2).
        let square = Wide::from(x) * x;
        let step = square.scale(2.0).recip();
        let mut fraction = Wide::ONE;
        for n in (1..=160).rev() {
            fraction = step * f64::from(n) / fraction + 1.0;
        }
        let factor = TWO_OVER_SQRT_PI.scale(0.5) / (fraction * x);
        Some(exp_wide(-square) * factor)
    } else {
        None
    }
}

/// `ln gamma` of x from 32 up, by Stirling's series.
fn ln_gamma_large(x: Wide) -> Wide {
    let inverse = x.recip();
    let square = inverse * inverse;
    let series = STIRLING.iter().rev().fold(Wide::ZERO, |sum, coefficient| sum * square + *coefficient) * inverse;
    (x - 0.5) * ln_wide(x) - x + HALF_LN_TWO_PI + series
}

/// `x (x + 1) .. (x + n - 1)` and `x + n`, the first such that is at least 32.
fn shifted(x: Wide) -> (Scaled, Wide) {
    let (mut product, mut x) = (Scaled::from(Wide::ONE), x);
    while x.high < 32.0 {
        product = (product * x).normalised();
        x = x + 1.0;
    }
    (product, x)
}

/// `gamma x` for x above 0.
fn gamma_positive(x: Wide) -> Scaled {
    let (product, large) = shifted(x);
    exp_wide(ln_gamma_large(large)) / product
}

pub(crate) fn tgamma(x: f64) -> Real {
    if x == 0.0 || !x.is_finite() || (x < 0.0 && x.fract() == 0.0) || x.abs() > 1000.0 {
        None
    } else if x.abs() < 1e-40 {
        Some(Scaled::from(Wide::ONE) / Scaled::of(x))
    } else if x > 0.0 {
        Some(gamma_positive(x.into()))
    } else {
        // gamma x = pi / (sin(pi x) gamma(1 - x))
        Some(Scaled::from(PI) / sinpi(x)? / gamma_positive(Wide::sum(1.0, -x)))
    }
}

/// `ln gamma(1 + t)` for |t| up to 0.3.
fn ln_gamma_at_1(t: Wide) -> Wide {
    LN_GAMMA_AT_1.iter().rev().fold(Wide::ZERO, |sum, coefficient| sum * t + *coefficient) * t
}

/// `ln gamma x` for x above 0.
fn ln_gamma_positive(x: Wide) -> Wide {
    if (0.75..1.25).contains(&x.high) {
        ln_gamma_at_1(x - 1.0)
    } else if (1.75..2.25).contains(&x.high) {
        let t = x - 2.0;
        ln_1p_wide(t) + ln_gamma_at_1(t)
    } else {
        let (product, large) = shifted(x);
        ln_gamma_large(large) - ln_scaled(product)
    }
}

pub(crate) fn lgamma(x: f64) -> Real {
    if x == 0.0 || !x.is_finite() || (x < 0.0 && x.fract() == 0.0) {
        None
    } else if x.abs() < 1e-40 {
        nonzero(-ln_scaled(Scaled::of(x.abs())))
    } else if x > 1e200 {
        // (x - 1/2) ln x - x, of which the rest is far below.
        Some(Scaled::of(x) * (ln_scaled(Scaled::of(x)) - 1.0))
    } else if x > 0.0 {
        nonzero(ln_gamma_positive(x.into()))
    } else {
        let sine = sinpi(x)?;
        let sine = Scaled { value: sine.value.abs(), ..sine };
        nonzero(ln_wide(PI) - ln_scaled(sine) - ln_gamma_positive(Wide::sum(1.0, -x)))
    }
}
