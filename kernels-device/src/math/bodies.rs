//! Bodies of functions that the `libm` crate lacks, for the CPU executor and for kernels without libdevice.

macro_rules! of_half_turns {
    ($sinpi:ident $cospi:ident $ty:ident $pi:path, $sin:path, $cos:path) => {
        pub(crate) fn $sinpi(x: $ty) -> $ty {
            let (quarters, rest) = reduce::$ty(x);
            match quarters {
                // At whole numbers the result is a zero with the argument's sign.
                _ if rest == 0.0 && quarters % 2 == 0 => (0.0 as $ty).copysign(x),
                0 => $sin($pi * rest),
                1 => $cos($pi * rest),
                2 => -$sin($pi * rest),
                _ => -$cos($pi * rest),
            }
        }

        pub(crate) fn $cospi(x: $ty) -> $ty {
            let (quarters, rest) = reduce::$ty(x);
            match quarters {
                _ if rest == 0.0 && quarters % 2 == 1 => 0.0,
                0 => $cos($pi * rest),
                1 => -$sin($pi * rest),
                2 => -$cos($pi * rest),
                _ => $sin($pi * rest),
            }
        }
    };
}
of_half_turns!(sinpif cospif f32 core::f32::consts::PI, super::single::sin_small, super::single::cos_small);
of_half_turns!(sinpi cospi f64 core::f64::consts::PI, libm::sin, libm::cos);

mod reduce {
    macro_rules! reduce {
        ($ty:ident $rint:path) => {
            /// `x` as a number of quarter turns from 0 to 3, where 2 is a whole turn, and a rest from -1/4 to 1/4: exactly.
            pub(super) fn $ty(x: $ty) -> (u32, $ty) {
                // NaN stays NaN, and an infinity becomes one.
                let turn = x - 2.0 * $rint(x * 0.5);
                let quarters = $rint(2.0 * turn);
                (quarters as i32 as u32 & 3, turn - 0.5 * quarters)
            }
        };
    }
    reduce!(f32 libm::rintf);
    reduce!(f64 libm::rint);
}

pub(crate) fn rcbrtf(x: f32) -> f32 {
    1.0 / super::single::cbrtf(x)
}

pub(crate) fn rcbrt(x: f64) -> f64 {
    1.0 / libm::cbrt(x)
}

/// Powers: the `libm` crate is far off for bases near 1 with large exponents.
///
/// The logarithm of the base and its product with the exponent are sums of two floats, so that the result is right to about
/// one unit in the last place.
macro_rules! power {
    (
        $ty:ident $bits:ty, $special:path, $rint:path, $trunc:path, digits: $digits:literal, bias: $bias:literal,
        range: $lowest:literal $highest:literal, ln_2: $ln_2:expr, third: $third:expr, terms: $terms:literal $powers:literal
    ) => {
        /// A sum of two floats, the second far below the first.
        type Pair = ($ty, $ty);

        const LN_2: Pair = $ln_2;
        const THIRD: Pair = $third;

        fn sum(a: $ty, b: $ty) -> Pair {
            let high = a + b;
            let part = high - a;
            (high, (a - (high - part)) + (b - part))
        }

        /// As `sum`, where `a` is the larger.
        fn quick_sum(a: $ty, b: $ty) -> Pair {
            let high = a + b;
            (high, b - (high - a))
        }

        fn product(a: Pair, b: Pair) -> Pair {
            let high = a.0 * b.0;
            quick_sum(high, a.0.mul_add(b.0, -high) + (a.0 * b.1 + a.1 * b.0))
        }

        fn add(a: Pair, b: Pair) -> Pair {
            let (high, low) = sum(a.0, b.0);
            quick_sum(high, low + (a.1 + b.1))
        }

        /// The natural logarithm of a positive, finite number.
        fn ln(x: $ty) -> Pair {
            let is_subnormal = x < $ty::MIN_POSITIVE;
            let x = if is_subnormal { x * ((1 as $bits) << ($digits + 1)) as $ty } else { x };
            let bits = x.to_bits();
            let mut exponent = (bits >> $digits) as i32 - $bias - if is_subnormal { $digits + 1 } else { 0 };
            let mut mantissa = $ty::from_bits(bits & ((1 << $digits) - 1) | $bias << $digits);
            if mantissa > core::$ty::consts::SQRT_2 {
                mantissa *= 0.5;
                exponent += 1;
            }
            // ln m = 2 (s + s^3 / 3 + s^5 / 5 + ..) with s = (m - 1) / (m + 1), whose numerator is exact.
            let below = mantissa - 1.0;
            let above = sum(mantissa, 1.0);
            let quotient = below / above.0;
            let rest = (-quotient).mul_add(above.0, below) - quotient * above.1;
            let s = quick_sum(quotient, rest / above.0);
            let square = product(s, s);
            // From the fifth power on one float is enough.
            let mut tail = 0.0;
            let mut n = $terms;
            while n >= 5 {
                tail = tail * square.0 + 1.0 / n as $ty;
                n -= 2;
            }
            let series = add(product(square, THIRD), (square.0 * square.0 * tail, 0.0));
            let fraction = add(s, product(s, series));
            add(product((exponent as $ty, 0.0), LN_2), (2.0 * fraction.0, 2.0 * fraction.1))
        }

        /// 2 to a power that a normal number has.
        fn power_of_two(exponent: i32) -> $ty {
            $ty::from_bits(((exponent + $bias) as $bits) << $digits)
        }

        /// `e^x` of a number in range.
        fn exp(x: Pair) -> $ty {
            let exponent = $rint(x.0 * core::$ty::consts::LOG2_E);
            let (high, low) = add(x, product((-exponent, 0.0), LN_2));
            let mut tail = 0.0;
            let mut n = $powers;
            while n >= 3 {
                tail = (tail + 1.0) * (high / n as $ty);
                n -= 1;
            }
            let square = high * high * (0.5 * (tail + 1.0));
            let (one, rest) = quick_sum(1.0, high);
            let value = one + (rest + (square + low));
            // In two steps, of which the second alone may round.
            let half = exponent as i32 / 2;
            value * power_of_two(half) * power_of_two(exponent as i32 - half)
        }

        /// `x` to the power of `y`.
        pub fn pow(x: $ty, y: $ty) -> $ty {
            if !(x.is_finite() && y.is_finite()) || x == 0.0 || x == 1.0 || y == 0.0 {
                return $special(x, y);
            }
            let mut sign = 1.0;
            if x < 0.0 {
                if $trunc(y) != y {
                    return $ty::NAN;
                }
                // Larger numbers are even.
                if y.abs() < ((1 as $bits) << ($digits + 1)) as $ty && y as i64 & 1 == 1 {
                    sign = -1.0;
                }
            }
            let logarithm = ln(x.abs());
            let rough = y * logarithm.0;
            if rough > $highest {
                sign * $ty::INFINITY
            } else if rough < $lowest {
                sign * 0.0
            } else {
                sign * exp(product((y, 0.0), logarithm))
            }
        }
    };
}

/// Powers of `f32`.
pub mod power_f32 {
    power! {
        f32 u32, libm::powf, libm::rintf, libm::truncf, digits: 23, bias: 127, range: -105.0 89.0,
        ln_2: (core::f32::consts::LN_2, -1.9046542e-9), third: (0.33333334, -9.934108e-9), terms: 15 9
    }
}

/// Powers of `f64`.
pub mod power_f64 {
    power! {
        f64 u64, libm::pow, libm::rint, libm::trunc, digits: 52, bias: 1023, range: -746.0 710.0,
        ln_2: (core::f64::consts::LN_2, 2.3190468138462996e-17), third: (0.3333333333333333, 1.850371707708594e-17), terms: 27 15
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_f64_are_right_at_the_edges() {
        let cases: [(f64, f64, f64); 7] = [
            (1.0000001952046527, -3271053671.039519, 4.922529243261903e-278),
            (0.5, 1074.0, 5e-324),
            (3.0, -7.25, 0.00034743286952519095),
            (5e-324, 0.5, 2.2227587494850775e-162),
            (1.7976931348623157e+308, 0.999, 8.840174632999172e+307),
            (-3.0, 333.0, -7.609880231320598e+158),
            (-1.5, -4.0, 0.19753086419753085),
        ];
        for (x, y, expected) in cases {
            let steps = power_f64::pow(x, y).to_bits().abs_diff(expected.to_bits());
            assert!(steps <= 1, "{x:e} to the power of {y:e} is {:e}, not {expected:e}", power_f64::pow(x, y));
        }
        let edges =
            [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, 2.5, 1e30];
        for x in edges {
            for y in edges {
                let (ours, hosts) = (power_f64::pow(x, y), x.powf(y));
                let same = (ours.is_nan() && hosts.is_nan()) || ours.to_bits().abs_diff(hosts.to_bits()) <= 1;
                assert!(same, "{x:e} to the power of {y:e} is {ours:e}, on the host {hosts:e}");
            }
        }
    }

    #[test]
    fn powers_of_f32_are_right_at_the_edges() {
        let cases: [(f32, f32, f32); 7] = [
            (0.99999946, -1.386138e+08, 1.9650731e+32),
            (0.5, 149.0, 1e-45),
            (3.0, -7.25, 0.00034743286),
            (1e-45, 0.5, 3.743392e-23),
            (3e+38, 0.99, 1.2369451e+38),
            (-3.0, 33.0, -5.5590605e+15),
            (-1.5, -4.0, 0.19753087),
        ];
        for (x, y, expected) in cases {
            let steps = power_f32::pow(x, y).to_bits().abs_diff(expected.to_bits());
            assert!(steps <= 1, "{x:e} to the power of {y:e} is {:e}, not {expected:e}", power_f32::pow(x, y));
        }
        let edges =
            [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 2.5, 1e30];
        for x in edges {
            for y in edges {
                let (ours, hosts) = (power_f32::pow(x, y), x.powf(y));
                let same = (ours.is_nan() && hosts.is_nan()) || ours.to_bits().abs_diff(hosts.to_bits()) <= 1;
                assert!(same, "{x:e} to the power of {y:e} is {ours:e}, on the host {hosts:e}");
            }
        }
    }

    #[test]
    fn half_turns_are_exact_at_quarters() {
        for x in [-3.0, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 7.0, 1e30] {
            let (sine, cosine) = (sinpi(x), cospi(x));
            let turn = x.rem_euclid(2.0);
            let expected = [(0.0, 0.0, 1.0), (0.5, 1.0, 0.0), (1.0, 0.0, -1.0), (1.5, -1.0, 0.0)];
            let (_, s, c) = expected.into_iter().find(|(at, ..)| *at == turn).expect("a multiple of a quarter turn");
            assert_eq!((sine, cosine), (s, c), "{x}");
            assert!(sine != 0.0 || sine.is_sign_negative() == x.is_sign_negative(), "{x}");
            assert_eq!((f64::from(sinpif(x as f32)), f64::from(cospif(x as f32))), (s, c), "{x}");
        }
        assert!(sinpi(f64::INFINITY).is_nan() && cospif(f32::NAN).is_nan());
    }
}
