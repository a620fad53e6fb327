//! Functions that are right to a few units in the last place, and fast ones within their bounds; `benches` measures them.

use num_complex::Complex64;
use warpsmith::math::*;
use warpsmith::prelude::*;
use warpsmith_tests::{devices, random};

/// How many floats of `T` lie between two results, where NaN equals NaN.
fn steps32(a: f32, b: f32) -> u64 {
    let key = |v: f32| if v.is_sign_negative() { -i64::from(v.to_bits() & 0x7fff_ffff) } else { v.to_bits().into() };
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) => key(a).abs_diff(key(b)),
        _ => u64::MAX,
    }
}

fn steps64(a: f64, b: f64) -> u64 {
    let key = |v: f64| if v.is_sign_negative() { -((v.to_bits() << 1 >> 1) as i64) } else { v.to_bits() as i64 };
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) => key(a).abs_diff(key(b)),
        _ => u64::MAX,
    }
}

/// Arguments of every size and kind.
fn arguments(count: u64) -> Vec<f64> {
    let special =
        [0.0, -0.0, 1.0, -1.0, 0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-310, 5e-324, 1e308, 3e38, 1e-45];
    let drawn = (0..count).map(|i| {
        let unit = (random(21, i) >> 11) as f64 / (1u64 << 53) as f64;
        match i % 4 {
            0 => unit * 4.0 - 2.0,
            1 => unit * 200.0 - 100.0,
            2 => 2f64.powf(unit * 60.0 - 30.0),
            _ => 1.0 + (unit - 0.5) * 1e-3,
        }
    });
    special.into_iter().chain(drawn).collect()
}

macro_rules! every_method {
    ($kernel:ident $test:ident $ty:ident $count:literal $steps:ident: $($name:literal $allowed:literal |$x:ident| $body:expr;)*) => {
        #[kernel]
        fn $kernel(x: &[$ty], mut output: GridSliceMut<[$ty; $count]>) {
            let i = global_idx();
            if let Some(output) = output.get_mut(&i) {
                let x = x[i.get()];
                *output = [$({ let $x = x; $body }),*];
            }
        }

        #[test]
        fn $test() {
            const NAMES: [&str; $count] = [$($name),*];
            const ALLOWED: [u64; $count] = [$($allowed),*];
            let x: Vec<$ty> = arguments(4000).into_iter().map(|x| x as $ty).collect();
            let expected: Vec<[$ty; $count]> = x.iter().map(|&x| [$({ let $x = x; $body }),*]).collect();
            for device in devices() {
                let run = || {
                    let stream = device.stream()?;
                    let mut output = stream.to_device(&vec![[-77.0; $count]; x.len()])?;
                    $kernel::launch(&stream, LaunchConfig::for_len(x.len()), &stream.to_device(&x)?, &mut output)?;
                    stream.to_host(&output)
                };
                let results = run().unwrap_or_else(|error| panic!("on {device}: {error}"));
                for ((x, result), expected) in x.iter().zip(&results).zip(&expected) {
                    for k in 0..$count {
                        let steps = $steps(result[k], expected[k]);
                        assert!(
                            steps <= ALLOWED[k],
                            "{} of {x:?} on {device}: {:?}, the host has {:?}", NAMES[k], result[k], expected[k]
                        );
                    }
                }
            }
        }
    };
}

macro_rules! methods_of {
    ($kernel:ident $test:ident $ty:ident $steps:ident $int:ident) => {
        every_method! { $kernel $test $ty 62 $steps:
            "abs" 0 |x| x.abs();
            "signum" 0 |x| x.signum();
            "copysign" 0 |x| x.copysign(-2.0);
            "floor" 0 |x| x.floor();
            "ceil" 0 |x| x.ceil();
            "round" 0 |x| x.round();
            "round_ties_even" 0 |x| x.round_ties_even();
            "trunc" 0 |x| x.trunc();
            "fract" 0 |x| x.fract();
            "mul_add" 0 |x| x.mul_add(1.7, -0.3);
            "sqrt" 0 |x| x.sqrt();
            "recip" 0 |x| x.recip();
            "rem" 0 |x| x % 0.7;
            "rem_euclid" 0 |x| x.rem_euclid(0.7);
            "div_euclid" 0 |x| x.div_euclid(0.7);
            "to_degrees" 0 |x| x.to_degrees();
            "to_radians" 0 |x| x.to_radians();
            "max" 0 |x| x.max(0.25);
            "min" 0 |x| x.min(0.25);
            "clamp" 0 |x| x.clamp(-1.0, 1.5);
            "midpoint" 0 |x| x.midpoint(3.0);
            "next_up" 0 |x| x.next_up();
            "next_down" 0 |x| x.next_down();
            "total_cmp" 0 |x| if x.is_nan() { 5.0 } else { x.total_cmp(&0.0) as i8 as $ty };
            "partial_cmp" 0 |x| x.partial_cmp(&0.5).map_or(9.0, |order| order as i8 as $ty);
            "classify" 0 |x| x.classify() as u8 as $ty;
            "is_*" 0 |x| {
                let flags = [x.is_nan(), x.is_infinite(), x.is_finite(), x.is_normal(), x.is_subnormal(), x > 0.0];
                flags.iter().fold(0.0, |sum, flag| 2.0 * sum + if *flag { 1.0 } else { 0.0 })
            };
            "is_sign_*" 0 |x| if x.is_nan() { 0.0 } else if x.is_sign_negative() { 1.0 } else if x.is_sign_positive() { 2.0 } else { 3.0 };
            "bits" 0 |x| $ty::from_bits(x.to_bits() & !1);
            "bytes" 0 |x| $ty::from_le_bytes($ty::from_be_bytes($ty::from_ne_bytes(x.to_ne_bytes()).to_be_bytes()).to_le_bytes());
            // SAFETY: the value is clamped to the integer's range and is no NaN.
            "to_int_unchecked" 0 |x| if x.is_nan() { 0.0 } else { unsafe { x.clamp(-1e9, 1e9).to_int_unchecked::<i32>() as $ty } };
            "as" 0 |x| (x as i32) as $ty + (x as u8) as $ty;
            "powi" 64 |x| x.powi(3);
            "powi(-2)" 64 |x| x.powi(-2);
            "sin" 8 |x| x.sin();
            "cos" 8 |x| x.cos();
            "tan" 12 |x| x.tan();
            "sin_cos" 8 |x| { let (sine, cosine) = x.sin_cos(); if sine.abs() > cosine.abs() { sine } else { cosine } };
            "asin" 8 |x| (x / 110.0).asin();
            "acos" 8 |x| (x / 110.0).acos();
            "atan" 8 |x| x.atan();
            "atan2" 8 |x| x.atan2(1.5);
            "sinh" 8 |x| x.sinh();
            "cosh" 8 |x| x.cosh();
            "tanh" 8 |x| x.tanh();
            "exp" 6 |x| x.exp();
            "exp2" 6 |x| x.exp2();
            "exp_m1" 6 |x| x.exp_m1();
            "ln" 6 |x| x.ln();
            "ln_1p" 6 |x| x.ln_1p();
            "log2" 6 |x| x.log2();
            "log10" 8 |x| x.log10();
            "log" 12 |x| (x.abs() + 2.0).log(7.0);
            "powf" 12 |x| x.abs().powf(1.3);
            "powf(-0.7)" 12 |x| x.abs().powf(-0.7);
            "cbrt" 6 |x| x.cbrt();
            "hypot" 8 |x| x.hypot(0.3);
            // std's formulas, which lose digits near 0 and 1 on the host.
            "asinh" 12 |x| if x.abs() < 1e18 { x.asinh() } else { 0.0 };
            "acosh" 64 |x| if x < 1e18 { (x.abs() + 1.5).acosh() } else { 0.0 };
            "atanh" 12 |x| (x / 220.0).clamp(-0.5, 0.5).atanh();
            "sum of products" 0 |x| [x, 2.0, 0.5].iter().product::<$ty>() + [x, 1.0].iter().sum::<$ty>();
            "consts" 0 |_x| core::$ty::consts::PI + $ty::EPSILON + $ty::MIN_POSITIVE;
        }
    };
}
methods_of!(methods_f32 every_method_of_f32 f32 steps32 i32);
methods_of!(methods_f64 every_method_of_f64 f64 steps64 i64);

macro_rules! special_of {
    ($kernel:ident $test:ident $ty:ident $steps:ident) => {
        every_method! { $kernel $test $ty 9 $steps:
            "erf" 8 |x| erf(x);
            "erfc" 12 |x| erfc(x);
            "exp10" 10 |x| exp10(x);
            "sinpi" 8 |x| sinpi(x);
            "cospi" 8 |x| cospi(x);
            "rsqrt" 6 |x| rsqrt(x.abs());
            "rcbrt" 6 |x| rcbrt(x);
            "tgamma" 20 |x| tgamma(x.abs());
            "lgamma" 64 |x| if (0.5..2.5).contains(&x) { 0.0 } else { lgamma(x.abs()) };
        }
    };
}
special_of!(special_f32 special_functions_of_f32 f32 steps32);
special_of!(special_f64 special_functions_of_f64 f64 steps64);

#[test]
fn inverse_hyperbolic_functions_reach_the_ends_of_their_domains() {
    #[kernel]
    fn ends(x: &[f64], mut output: GridSliceMut<[f64; 6]>) {
        let i = global_idx();
        if let Some(output) = output.get_mut(&i) {
            let x = x[i.get()];
            let s = x as f32;
            let large = [x * 1e308, f64::from(s * 3e38)];
            *output = [
                large[0].asinh(),
                large[0].acosh(),
                (x - 1e-16).atanh(),
                f64::from((large[1] as f32).asinh()),
                f64::from((large[1] as f32).acosh()),
                f64::from((s - 6e-8).atanh()),
            ];
        }
    }
    let expected =
        [709.889_355_822_726, 709.889_355_822_726, 18.714_973_875_118_524, 89.289_993, 89.289_993, 8.664_339_742];
    // std's formulas overflow and cancel here on the host, so this is for a GPU alone.
    for device in devices().filter(|device| !device.is_cpu()) {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<[f64; 6]>(1).expect("a small allocation works");
        let x = stream.to_device(&[1.0]).expect("a small copy works");
        ends::launch(&stream, LaunchConfig::for_len(1), &x, &mut output).expect("a launch works");
        let results = stream.to_host(&output).expect("a small copy works")[0];
        for (k, (result, expected)) in results.iter().zip(expected).enumerate() {
            assert!((result / expected - 1.0).abs() < 1e-6, "result {k} is {result}, not {expected}");
        }
    }
}

/// The fast functions beside what they approximate.
#[kernel]
fn fast(x: &[f32], mut output: GridSliceMut<[f32; 15]>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let x = x[i.get()];
        let positive = x.abs() + 0.01;
        let (sine, cosine) = fast_sin_cos(x);
        *output = [
            fast_sin(x),
            fast_cos(x),
            fast_tan(x),
            fast_exp(x),
            fast_exp2(x),
            fast_exp10(x),
            fast_ln(positive),
            fast_log2(positive),
            fast_log10(positive),
            fast_pow(positive, 1.5),
            fast_tanh(x),
            fast_div(1.0, positive),
            rcp(positive),
            fast_sqrt(positive),
            sine + cosine,
        ];
    }
}

#[test]
fn fast_functions_stay_within_their_bounds() {
    let x: Vec<f32> = (0..5000).map(|i| (random(22, i) >> 40) as f32 / (1 << 24) as f32 * 6.0 - 3.0).collect();
    for device in devices() {
        let run = || {
            let stream = device.stream()?;
            let mut output = stream.zeroed::<[f32; 15]>(x.len())?;
            fast::launch(&stream, LaunchConfig::for_len(x.len()), &stream.to_device(&x)?, &mut output)?;
            stream.to_host(&output)
        };
        let results = run().unwrap_or_else(|error| panic!("on {device}: {error}"));
        for (&single, result) in x.iter().zip(&results) {
            let x = f64::from(single);
            let positive = f64::from(single.abs() + 0.01);
            // The true value, and the error that is allowed: the published bounds with a little more for the table's rounding.
            let ulp = |value: f64, count: f64| value.abs() * 2f64.powi(-23) * count;
            let expected: [(f64, f64); 15] = [
                (x.sin(), 2f64.powf(-21.0)),
                (x.cos(), 2f64.powf(-21.0)),
                (x.tan(), (x.tan().abs() + 1.0) * 2f64.powf(-20.0) / x.cos().abs()),
                (x.exp(), ulp(x.exp(), 3.0 + 1.2 * x.abs())),
                (x.exp2(), ulp(x.exp2(), 3.0)),
                (10f64.powf(x), ulp(10f64.powf(x), 3.0 + 3.0 * x.abs())),
                (positive.ln(), 2f64.powf(-21.0) + ulp(positive.ln(), 3.0)),
                (positive.log2(), 2f64.powf(-21.5) + ulp(positive.log2(), 2.0)),
                (positive.log10(), 2f64.powf(-22.5) + ulp(positive.log10(), 3.0)),
                (positive.powf(1.5), positive.powf(1.5) * 2f64.powf(-19.0)),
                (x.tanh(), x.tanh().abs() * 2f64.powf(-10.9)),
                (1.0 / positive, ulp(1.0 / positive, 2.0)),
                (1.0 / positive, ulp(1.0 / positive, 1.0)),
                (positive.sqrt(), ulp(positive.sqrt(), 1.5)),
                (x.sin() + x.cos(), 2f64.powf(-20.0)),
            ];
            for (k, (value, allowed)) in expected.into_iter().enumerate() {
                let error = (f64::from(result[k]) - value).abs();
                assert!(
                    error <= allowed,
                    "function {k} of {x} on {device}: {}, not {value}: {error:e} > {allowed:e}",
                    result[k]
                );
            }
        }
    }
}

/// `num-complex` as it is.
#[kernel]
fn complex(x: &[f64], mut output: GridSliceMut<[f64; 14]>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let x = x[i.get()];
        let (a, b) = (Complex64::new(x, 0.5 - x), Complex64::new(1.25, x * 0.5));
        let values = [a.exp(), a / b, a * b - b, a.powf(1.5), a.powc(b), a.sqrt(), a.ln()];
        for (k, value) in values.into_iter().enumerate() {
            output[2 * k] = value.re;
            output[2 * k + 1] = value.im;
        }
        output[0] += a.norm() + a.arg();
    }
}

#[test]
fn case_d8_complex_numbers() {
    let x: Vec<f64> = (0..500).map(|i| (random(23, i) >> 11) as f64 / (1u64 << 53) as f64 * 4.0 - 2.0).collect();
    for device in devices() {
        let run = || {
            let stream = device.stream()?;
            let mut output = stream.zeroed::<[f64; 14]>(x.len())?;
            complex::launch(&stream, LaunchConfig::for_len(x.len()), &stream.to_device(&x)?, &mut output)?;
            stream.to_host(&output)
        };
        let results = run().unwrap_or_else(|error| panic!("on {device}: {error}"));
        for (&x, result) in x.iter().zip(&results) {
            let (a, b) = (Complex64::new(x, 0.5 - x), Complex64::new(1.25, x * 0.5));
            // By definition, not by the methods that the kernel calls.
            let ln = Complex64::new((x * x + (0.5 - x) * (0.5 - x)).sqrt().ln(), (0.5 - x).atan2(x));
            let exp = |z: Complex64| Complex64::new(z.re.exp() * z.im.cos(), z.re.exp() * z.im.sin());
            let scale = b.re * b.re + b.im * b.im;
            let expected = [
                exp(a) + Complex64::new((x * x + (0.5 - x) * (0.5 - x)).sqrt() + (0.5 - x).atan2(x), 0.0),
                Complex64::new((a.re * b.re + a.im * b.im) / scale, (a.im * b.re - a.re * b.im) / scale),
                Complex64::new(a.re * b.re - a.im * b.im - b.re, a.re * b.im + a.im * b.re - b.im),
                exp(ln * 1.5),
                exp(ln * b),
                exp(ln * 0.5),
                ln,
            ];
            for (k, expected) in expected.into_iter().enumerate() {
                let error = (Complex64::new(result[2 * k], result[2 * k + 1]) - expected).norm();
                assert!(error < 1e-13 * (1.0 + expected.norm()), "result {k} for {x} on {device} is off by {error:e}");
            }
        }
    }
}
