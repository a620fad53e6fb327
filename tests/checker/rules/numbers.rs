//! What is looked for where asked: integers that wrap, casts that lose a number, and numbers that are not finite.

use warpsmith::CheckRule::{LossyCast, NonFinite, Overflow};
use warpsmith::prelude::*;
use warpsmith::{CheckOptions, CheckRule, Device, Result};
use warpsmith_checker_tests::{Expected, caught_and_silent, findings, silent};

const SOURCE: &str = include_str!("numbers.rs");

fn expected<'a>(rule: CheckRule, place: &'a str, thread: u32, action: &'a str, count: u64) -> Expected<'a> {
    Expected { rule, source: SOURCE, place, thread: (0, thread), action, memory: None, count }
}

/// Writes what a thread makes of its element.
#[kernel]
fn integers(x: &[i32], mut y: GridSliceMut<i64>, which: u32) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let value = x[i.get()];
        *y = match which {
            0 => i64::from(value + 1),                        // at sum
            1 => i64::from(value - 100),                      // at difference
            2 => i64::from(value * value),                    // at product
            3 => i64::from(-value),                           // at negation
            4 => i64::from(1u32 << value),                    // at shift
            5 => i64::from(value.unsigned_abs() as u8 + 200), // at byte
            6 => {
                let mut index = i.get();
                index -= value as usize; // at index
                index as i64
            }
            _ => unreachable!("there are seven"),
        };
    }
}

/// Calls arithmetic of the standard library.
#[kernel]
fn absolute(x: &[i32], mut y: GridSliceMut<i32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get()].abs(); // at absolute
    }
}

#[test]
fn arithmetic_in_the_standard_library_is_told_at_the_line_that_calls_it() {
    let launches = |value| {
        findings(CheckOptions::new().overflow(true), |stream| {
            let (x, mut y) = (stream.filled(value, 1)?, stream.zeroed::<i32>(1)?);
            absolute::launch(stream, LaunchConfig::new(1, 1), &x, &mut y)
        })
    };
    silent(&launches(-i32::MAX));
    if wraps() {
        let found = launches(i32::MIN);
        expected(Overflow, "absolute", 0, "overflows in -(-2147483648i32)", 1).only(&found);
        assert!(found[0].side.inner.starts_with("core/src/num/"), "{}", found[0]);
    }
}

/// The same, where it is meant.
#[kernel]
fn meant(x: &[i32], mut y: GridSliceMut<i64>, which: u32) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let value = x[i.get()];
        *y = match which {
            0 => i64::from(value.wrapping_add(1)),
            1 => i64::from(value.saturating_sub(100)),
            2 => value.checked_mul(value).map_or(-1, i64::from),
            3 => i64::from(value.overflowing_neg().0),
            4 => i64::from(1u32.wrapping_shl(value as u32)),
            5 => (core::num::Wrapping(value as u8) + core::num::Wrapping(200)).0.into(),
            _ => (i.get() as i64) - i64::from(value),
        };
    }
}

/// What of each case wraps, in whose line, and what does not.
const WRAPPING: [(i32, &str, &str, i32); 7] = [
    (i32::MAX, "sum", "overflows in 2147483647i32 + 1i32", i32::MAX - 1),
    (i32::MIN + 99, "difference", "overflows in -2147483549i32 - 100i32", i32::MIN + 100),
    (-46_341, "product", "overflows in -46341i32 * -46341i32", -46_340),
    (i32::MIN, "negation", "overflows in -(-2147483648i32)", i32::MAX),
    (32, "shift", "overflows in 1 << 32 of 32 bits", 31),
    (56, "byte", "overflows in add", 55),
    (8, "index", "overflows in 7u64 - 8u64", 7),
];

fn launch_integers(stream: &Stream, which: u32, value: i32) -> Result<()> {
    let mut x = [1; 32];
    x[7] = value;
    if which == 6 {
        x[0] = 0;
    }
    let (x, mut y) = (stream.to_device(&x)?, stream.zeroed::<i64>(32)?);
    integers::launch(stream, LaunchConfig::new(1, 32), &x, &mut y, which)
}

/// Arithmetic wraps in the profile of these tests, as it does in release builds.
fn wraps() -> bool {
    let value = std::hint::black_box(u8::MAX);
    std::panic::catch_unwind(|| value + std::hint::black_box(1)).is_ok()
}

#[test]
fn integers_that_wrap() {
    let overflow = CheckOptions::new().overflow(true);
    for (which, (wrong, place, action, right)) in (0..).zip(WRAPPING) {
        silent(&findings(overflow, |stream| {
            launch_integers(stream, which, right)?;
            stream.synchronize()
        }));
        if wraps() {
            let found = findings(overflow, |stream| launch_integers(stream, which, wrong));
            expected(Overflow, place, 7, action, 1).only(&found);
            // It is looked for where asked alone.
            silent(&findings(CheckOptions::new(), |stream| launch_integers(stream, which, wrong)));
        } else {
            let stream = Device::cpu_checked_with(overflow).stream().expect("the executor has streams");
            launch_integers(&stream, which, wrong).expect("the launch is taken");
            let error = stream.synchronize().expect_err("it overflows").to_string();
            assert!(error.contains("overflow") && error.contains("numbers.rs"), "{error}");
        }
    }
}

#[test]
fn integers_that_are_meant_to_wrap() {
    for (which, (value, ..)) in (0..).zip(WRAPPING) {
        silent(&findings(CheckOptions::new().overflow(true), |stream| {
            let (x, mut y) = (stream.filled(value, 32)?, stream.zeroed::<i64>(32)?);
            meant::launch(stream, LaunchConfig::new(1, 32), &x, &mut y, which)?;
            stream.synchronize()
        }));
    }
}

/// Casts a thread's element.
#[kernel]
fn casts(x: &[f64], mut y: GridSliceMut<f64>, which: u32) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let value = x[i.get()];
        *y = match which {
            0 => f64::from(value as i64 as u8),         // at truncated
            1 => f64::from(value as i64 as i32 as u32), // at sign
            2 => f64::from(value as i16),               // at out of range
            3 => f64::from(value as u32),               // at below
            4 => f64::from(value as i32),               // at nan
            5 => f64::from(value as i64 as f32),        // at inexact
            6 => f64::from(value as f32),               // at infinite
            7 => f64::from(value as u8 as char as u32 as u8),
            _ => {
                let bits = value.to_bits();
                f64::from((bits & 0xFF) as u8) + f64::from((value as i64 >> 8 & 1) as u8)
            }
        };
    }
}

/// What of each case loses a number, in whose line, how, what it says, and what does not.
const LOSSY: [(f64, &str, &str, &str, f64); 7] = [
    (300.0, "truncated", "casts 300i64 and gets 44u8", "its upper bits are cut off", 255.0),
    (-1.0, "sign", "casts -1i32 and gets 4294967295u32", "its sign changes", 2_147_483_647.0),
    (32_768.5, "out of range", "casts 32768.5f64 and gets 32767i16", "it lies outside of the type", -32_768.9),
    (-1.0, "below", "casts -1.0f64 and gets 0u32", "it lies outside of the type", -0.5),
    (f64::NAN, "nan", "casts NaNf64 and gets 0i32", "it is not a number", 2.5),
    (16_777_217.0, "inexact", "casts 16777217i64 and gets 16777216.0f32", "the type has no such number", 16_777_218.0),
    (1e39, "infinite", "casts 1e39f64 and gets inff32", "it lies beyond the type's largest number", 0.1),
];

fn launch_casts(stream: &Stream, which: u32, value: f64) -> Result<()> {
    let mut x = [1.0; 32];
    x[9] = value;
    let (x, mut y) = (stream.to_device(&x)?, stream.zeroed::<f64>(32)?);
    casts::launch(stream, LaunchConfig::new(1, 32), &x, &mut y, which)
}

#[test]
fn casts_that_lose_a_number() {
    let lossy = CheckOptions::new().lossy_casts(true);
    for (which, (wrong, place, action, message, right)) in (0..).zip(LOSSY) {
        silent(&findings(lossy, |stream| launch_casts(stream, which, right)));
        let found = findings(lossy, |stream| launch_casts(stream, which, wrong));
        expected(LossyCast, place, 9, action, 1).only(&found);
        assert_eq!(found[0].message, message, "{}", found[0]);
        silent(&findings(CheckOptions::new(), |stream| launch_casts(stream, which, wrong)));
    }
}

#[test]
fn casts_that_keep_the_number() {
    // Infinities stay what they are, fractions are dropped on purpose, and zeros lose nothing but a sign.
    for (which, value) in [
        (6, f64::INFINITY),
        (6, f64::NAN),
        (6, 1.0 + f64::EPSILON),
        (2, 32_767.9),
        (3, -0.0),
        (4, -2_147_483_648.5),
        (7, 200.0),
        (8, 1e9),
    ] {
        silent(&findings(CheckOptions::new().lossy_casts(true), |stream| launch_casts(stream, which, value)));
    }
}

/// Computes with two floats.
#[kernel]
fn floats(a: &[f32], b: &[f32], mut y: GridSliceMut<f32>, which: u32) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let (a, b) = (a[i.get()], b[i.get()]);
        let first = match which {
            0 => a / b,                                // at quotient
            1 => a + b,                                // at float sum
            2 => a * b,                                // at float product
            3 => a.sqrt(),                             // at root
            4 => a % b,                                // at remainder
            5 => a.mul_add(b, 1.0),                    // at fused
            6 => a - b,                                // at float difference
            7 => (f64::from(a) * f64::from(b)) as f32, // at narrowed
            8 => a.max(b),
            _ => {
                if a.is_finite() {
                    a.abs()
                } else {
                    b.copysign(a)
                }
            }
        };
        // What it infects is no finding.
        *y = (first * 0.5 + b) * 0.25;
    }
}

const BIG: f32 = f32::MAX;

/// Two operands that give what is not finite, in whose line, how that is told, and two that do not.
const NOT_FINITE: [([f32; 2], &str, &str, [f32; 2]); 8] = [
    ([1.0, 0.0], "quotient", "computes / of 1.0 and 0.0, which is inf", [0.0, 1.0]),
    ([BIG, BIG], "float sum", "computes + of 3.4028235e38 and 3.4028235e38, which is inf", [BIG, -BIG]),
    ([1e30, 1e10], "float product", "computes * of 1e30 and 10000000000.0, which is inf", [1e30, 1.0]),
    ([-1.0, 0.0], "root", "computes sqrt of -1.0, which is NaN", [0.0, 0.0]),
    ([1.0, 0.0], "remainder", "computes % of 1.0 and 0.0, which is NaN", [0.0, 1.0]),
    ([1e30, 1e10], "fused", "computes fma of 1e30, 10000000000.0 and 1.0, which is inf", [1e-30, 1e-30]),
    ([-BIG, BIG], "float difference", "computes - of -3.4028235e38 and 3.4028235e38, which is -inf", [1.0, 2.0]),
    ([1e30, 1e10], "narrowed", "computes as f32 of 1.0000000150474662e40, which is inf", [1e20, 1e-5]),
];

fn launch_floats(stream: &Stream, which: u32, [a, b]: [f32; 2]) -> Result<()> {
    let (mut first, mut second) = ([5.0; 32], [1.0; 32]);
    (first[11], second[11]) = (a, b);
    let (first, second, mut y) = (stream.to_device(&first)?, stream.to_device(&second)?, stream.zeroed::<f32>(32)?);
    floats::launch(stream, LaunchConfig::new(1, 32), &first, &second, &mut y, which)
}

#[test]
fn floats_that_are_not_finite() {
    let non_finite = CheckOptions::new().non_finite(true);
    for (which, (wrong, place, action, _)) in (0..).zip(NOT_FINITE) {
        let found = findings(non_finite, |stream| launch_floats(stream, which, wrong));
        let first = found.first().unwrap_or_else(|| panic!("{place}: nothing was found"));
        expected(NonFinite, place, 11, action, 1).only(std::slice::from_ref(first));
        // Infinities and NaNs that were there infect what comes after, and nothing of it is found.
        assert_eq!(found.len(), 1, "{found:#?}");
        silent(&findings(CheckOptions::new(), |stream| launch_floats(stream, which, wrong)));
    }
}

#[test]
fn floats_that_stay_finite_or_never_were() {
    let non_finite = CheckOptions::new().non_finite(true);
    for (which, (.., right)) in (0..).zip(NOT_FINITE) {
        let others = [[f32::INFINITY, 1.0], [f32::NAN, 1.0], [1.0, f32::NAN], [f32::INFINITY, f32::INFINITY]];
        // A root has one operand, and only the first of these tell of it.
        let others = if which == 3 { &others[..2] } else { &others[..] };
        for operands in others.iter().chain([&right]) {
            silent(&findings(non_finite, |stream| launch_floats(stream, which, *operands)));
        }
    }
    for (which, operands) in [(8, [f32::INFINITY, 1.0]), (9, [f32::NAN, 2.0]), (9, [-0.0, 2.0])] {
        silent(&findings(non_finite, |stream| launch_floats(stream, which, operands)));
    }
}

/// Softmax of a row, with and without the subtraction that keeps it finite.
#[kernel(block = 32)]
fn softmax(x: &[f32], mut y: GridSliceMut<f32>, fault: bool) {
    let i = global_idx();
    let value = x[i.get()];
    let most = if fault { 0.0 } else { warpsmith::warp::reduce_max(FULL_MASK, value) };
    let power = (value - most).exp(); // at softmax
    let sum = warpsmith::warp::reduce_add(FULL_MASK, power);
    if let Some(y) = y.get_mut(&i) {
        *y = power / sum;
    }
}

#[test]
fn a_softmax_that_does_not_subtract_its_maximum() {
    let told = expected(NonFinite, "softmax", 30, "computes exp of 90.0, which is inf", 2);
    caught_and_silent(CheckOptions::new().non_finite(true), &told, |stream, fault| {
        let x: Vec<f32> = (0..32).map(|i| 3.0 * i as f32).collect();
        let (x, mut y) = (stream.to_device(&x)?, stream.zeroed::<f32>(32)?);
        softmax::launch(stream, LaunchConfig::new(1, 32), &x, &mut y, fault)
    });
}

/// A power that grows beyond what the type holds.
#[kernel]
fn powers(x: &[f32], mut y: GridSliceMut<f32>, exponent: i32) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get()].powi(exponent); // at power
    }
}

#[test]
fn a_power_that_is_not_finite() {
    let told = expected(NonFinite, "power", 4, "computes powi of 2.0, which is inf", 1);
    caught_and_silent(CheckOptions::new().non_finite(true), &told, |stream, fault| {
        let mut x = [1.0; 32];
        (x[4], x[5]) = (2.0, f32::INFINITY);
        let (x, mut y) = (stream.to_device(&x)?, stream.zeroed::<f32>(32)?);
        powers::launch(stream, LaunchConfig::new(1, 32), &x, &mut y, if fault { 400 } else { 40 })
    });
}
