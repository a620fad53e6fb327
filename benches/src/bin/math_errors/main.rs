//! Measures how far the functions of `f32` and `f64` are from the true value, and prints the table of `docs/math.md`.
//!
//! `math_errors measure FILE` asks every function at 10^6 points on the GPU, or on the CPU executor where there is none, and
//! writes what it found. Whether a GPU's kernels use libdevice is a choice of the build, so two builds write two files.
//! `math_errors libm FILE` asks the `libm` crate on this processor. `math_errors table FILE..` merges the files.

mod constants;
mod functions;
mod points;
mod reference;
#[cfg(test)]
mod reference_tests;
mod wide;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

use warpsmith::prelude::*;

use crate::functions::{Form, Function};
use crate::points::{Domain, Point};
use crate::wide::{Scaled, power_of_two};

/// Points of each function and type, unless `POINTS` says otherwise.
const POINTS: usize = 1_000_000;
/// What the points are drawn from.
const SEED: u64 = 20_260_101;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", file] => {
            let device = Device::new()?;
            let column = if device.is_cpu() {
                "CPU"
            } else if kernels_use_libdevice()? {
                "GPU, libdevice"
            } else {
                "GPU, libm"
            };
            eprintln!("{column}: {device}");
            let stream = device.stream()?;
            write_results(file, column, |function, errors| on_device(&stream, function, errors))
        }
        ["libm", file] => write_results(file, "libm on a CPU", |function, errors| {
            with_libm(function, errors);
            Ok(())
        }),
        ["table", ref files @ ..] if !files.is_empty() => table(files),
        _ => Err("usage: math_errors measure FILE | libm FILE | table FILE..".into()),
    }
}

/// Whether this program's kernels call libdevice, seen by the tables that its sine brings.
fn kernels_use_libdevice() -> Result<bool, Box<dyn Error>> {
    Ok(warpsmith::compiled_kernels()?.iter().any(|kernel| kernel.images.iter().any(|i| i.ptx.contains("__cudart_"))))
}

/// The largest error of a function in one type.
#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    /// From the true value, in units of the last place of the nearest float.
    ulps: f64,
    /// From the correctly rounded result, in floats: what CUDA's tables list.
    steps: u64,
    /// Where `steps` is largest, else `ulps`.
    at: [f64; 2],
    got: f64,
    expected: f64,
}

/// The errors of a function in both types.
#[derive(Clone, Copy, Debug, Default)]
struct Errors {
    f32: Worst,
    f64: Worst,
}

fn point_count() -> usize {
    std::env::var("POINTS").ok().and_then(|count| count.parse().ok()).unwrap_or(POINTS)
}

fn write_results(
    file: &str,
    column: &str,
    measure: impl Fn(&Function, &mut Errors) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    for function in functions::all() {
        let mut errors = Errors::default();
        measure(&function, &mut errors)?;
        let bounds = [function.bounds.0, function.bounds.1];
        for ((ty, worst), bound) in [("f32", errors.f32), ("f64", errors.f64)].into_iter().zip(bounds) {
            let Worst { ulps, steps, at, got, expected } = worst;
            let name = function.name;
            writeln!(text, "{column}\t{name}\t{ty}\t{}\t{bound}\t{ulps:.2}\t{steps}", function.domain.text())?;
            eprintln!(
                "{name} {ty}: {ulps:.2} ulp, {steps} steps (CUDA {bound}) at {:?}, {:?}: {got:?}, not {expected:?}",
                at[0], at[1]
            );
        }
    }
    std::fs::write(file, text)?;
    Ok(())
}

/// The points of a function in one type.
fn points<T: Point>(function: &Function) -> (Vec<T>, Vec<T>) {
    let seed = function.name.bytes().fold(SEED, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    match function.domain {
        Domain::Real(real) => (points::one(&real, point_count(), seed), Vec::new()),
        domain => points::two(&domain, point_count(), seed),
    }
}

fn on_device(stream: &Stream, function: &Function, errors: &mut Errors) -> Result<(), Box<dyn Error>> {
    let (x32, y32) = points::<f32>(function);
    let (x64, y64) = points::<f64>(function);
    match &function.form {
        Form::One { f32, f64, .. } => {
            errors.f32 = worst(function, &x32, &y32, &f32(stream, &x32)?);
            errors.f64 = worst(function, &x64, &y64, &f64(stream, &x64)?);
        }
        Form::Two { f32, f64, .. } => {
            errors.f32 = worst(function, &x32, &y32, &f32(stream, &x32, &y32)?);
            errors.f64 = worst(function, &x64, &y64, &f64(stream, &x64, &y64)?);
        }
    }
    Ok(())
}

fn with_libm(function: &Function, errors: &mut Errors) {
    let (x32, y32) = points::<f32>(function);
    let (x64, y64) = points::<f64>(function);
    let (results32, results64): (Vec<f32>, Vec<f64>) = match &function.form {
        Form::One { libm32, libm64, .. } => {
            (x32.iter().map(|x| libm32(*x)).collect(), x64.iter().map(|x| libm64(*x)).collect())
        }
        Form::Two { libm32, libm64, .. } => (
            x32.iter().zip(&y32).map(|(x, y)| libm32(*x, *y)).collect(),
            x64.iter().zip(&y64).map(|(x, y)| libm64(*x, *y)).collect(),
        ),
    };
    errors.f32 = worst(function, &x32, &y32, &results32);
    errors.f64 = worst(function, &x64, &y64, &results64);
}

/// The largest error of `results`, found on all cores.
fn worst<T: Point + Result64 + Sync>(function: &Function, x: &[T], y: &[T], results: &[T]) -> Worst {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = results.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..results.len())
            .step_by(share)
            .map(|start| {
                scope.spawn(move || {
                    let mut worst = Worst::default();
                    for i in start..(start + share).min(results.len()) {
                        let at = [x[i].to_f64(), y.get(i).map_or(0.0, |y| y.to_f64())];
                        let (exact, special) = match &function.form {
                            Form::One { reference, special, .. } => (reference(at[0]), special(at[0])),
                            Form::Two { reference, special, .. } => (reference(at[0], at[1]), special(at[0], at[1])),
                        };
                        worst.note(at, exact, special, results[i]);
                    }
                    worst
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("the reference does not panic"))
            .fold(Worst::default(), Worst::larger)
    })
}

/// What the comparison asks of a float type.
trait Result64: Point {
    /// The exponent of the unit in the last place of numbers up to the smallest normal one.
    const LOWEST_UNIT: i32;
    /// The float nearest to a value.
    fn round(value: Scaled) -> Self;
    /// Its number in the order of all floats; the two zeros share theirs.
    fn ordinal(self) -> i64;
}

/// `high + low`, with the last bit telling whether more follows: rounding it again rounds the sum.
fn round_to_odd(high: f64, low: f64) -> f64 {
    if low == 0.0 || high.to_bits() & 1 == 1 {
        high
    } else if (low > 0.0) == (high > 0.0) {
        f64::from_bits(high.to_bits() + 1)
    } else {
        f64::from_bits(high.to_bits() - 1)
    }
}

/// `value * 2^exponent`, rounded once where it ends up subnormal.
fn scaled(value: f64, exponent: i32) -> f64 {
    if exponent > 1023 {
        value * power_of_two(1023) * power_of_two((exponent - 1023).min(1023))
    } else if exponent < -1000 {
        value * power_of_two(-900) * power_of_two((exponent + 900).max(-1000))
    } else {
        value * power_of_two(exponent)
    }
}

impl Result64 for f32 {
    const LOWEST_UNIT: i32 = -149;

    fn round(value: Scaled) -> Self {
        let value = value.normalised();
        scaled(round_to_odd(value.value.high, value.value.low), value.exponent) as f32
    }

    fn ordinal(self) -> i64 {
        let magnitude = i64::from(self.to_bits() & 0x7fff_ffff);
        if self.is_sign_negative() { -magnitude } else { magnitude }
    }
}

impl Result64 for f64 {
    const LOWEST_UNIT: i32 = -1074;

    fn round(value: Scaled) -> Self {
        let value = value.normalised();
        let subnormal = value.exponent < -1022;
        let high = if subnormal { round_to_odd(value.value.high, value.value.low) } else { value.value.to_f64() };
        scaled(high, value.exponent)
    }

    fn ordinal(self) -> i64 {
        let magnitude = (self.to_bits() & (u64::MAX >> 1)) as i64;
        if self.is_sign_negative() { -magnitude } else { magnitude }
    }
}

impl Worst {
    /// Takes in one result. `special` is expected where there is no exact value.
    fn note<T: Result64>(&mut self, at: [f64; 2], exact: Option<Scaled>, special: f64, got: T) {
        let expected = exact.map_or_else(|| T::from_f64(special), T::round);
        let (steps, ulps) = match (expected.to_f64().is_nan(), got.to_f64().is_nan()) {
            (true, true) => (0, 0.0),
            (true, false) | (false, true) => (u64::MAX, f64::INFINITY),
            (false, false) => {
                let steps = expected.ordinal().abs_diff(got.ordinal());
                (steps, exact.map_or(steps as f64, |exact| distance(exact, got)))
            }
        };
        let one = Self { ulps, steps, at, got: got.to_f64(), expected: expected.to_f64() };
        *self = self.larger(one);
    }

    /// The larger of each error, and the place of the one with more steps.
    fn larger(self, other: Self) -> Self {
        let key = |worst: &Self| (worst.steps, (worst.ulps.min(1e15) * 1e3) as u64);
        let place = if key(&other) > key(&self) { other } else { self };
        Self { ulps: self.ulps.max(other.ulps), ..place }
    }
}

/// From the true value, in units of the last place of the float nearest to it.
fn distance<T: Result64>(exact: Scaled, got: T) -> f64 {
    let exact = exact.normalised();
    let digits = T::FRACTION as i32;
    let unit = (exact.exponent - digits).max(T::LOWEST_UNIT);
    let largest = if T::BITS == 32 { 127 } else { 1023 };
    let got = got.to_f64();
    if exact.exponent > largest || got.is_infinite() {
        // Beyond the largest number, or given as infinite: the steps say what there is to say.
        return T::round(exact).ordinal().abs_diff(T::from_f64(got).ordinal()) as f64;
    }
    if got == 0.0 {
        return scaled(exact.value.high.abs(), exact.exponent - unit);
    }
    let got = Scaled::of(got);
    let shift = got.exponent - exact.exponent;
    if shift.abs() > 100 {
        return f64::INFINITY;
    }
    let difference = exact.value - got.value.scale(power_of_two(shift));
    scaled(difference.to_f64().abs(), exact.exponent - unit)
}

/// What a file says of one function: ulps and steps by column.
type Line = BTreeMap<String, (String, u64)>;

/// Merges files and prints the table.
fn table(files: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut order: Vec<[String; 4]> = Vec::new();
    let mut lines: BTreeMap<[String; 4], Line> = BTreeMap::new();
    let mut columns: Vec<String> = Vec::new();
    for file in files {
        for line in std::fs::read_to_string(file)?.lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            let [column, name, ty, domain, bound, ulps, steps] = parts[..] else {
                return Err(format!("{file} has a line that this program did not write: {line}").into());
            };
            if !columns.iter().any(|known| known == column) {
                columns.push(column.to_owned());
            }
            let key = [name, ty, domain, bound].map(str::to_owned);
            if !order.contains(&key) {
                order.push(key.clone());
            }
            lines.entry(key).or_default().insert(column.to_owned(), (ulps.to_owned(), steps.parse()?));
        }
    }
    println!("| function | type | domain | CUDA's bound | {} |", columns.join(" | "));
    println!("| --- | --- | --- | --- |{}", " --- |".repeat(columns.len()));
    let mut failures = Vec::new();
    for key in order {
        let [name, ty, domain, bound] = &key;
        print!("| `{name}` | `{ty}` | {domain} | {bound} |");
        for column in &columns {
            let Some((ulps, steps)) = lines[&key].get(column) else {
                print!(" |");
                continue;
            };
            // Where a function overflows or cancels, only the size matters.
            if *steps < 10_000 {
                print!(" {steps} ({ulps}) |");
            } else {
                print!(" {:.0e} |", *steps as f64);
            }
            let allowed = bound.parse::<u64>()? + if column == "GPU, libdevice" { 1 } else { 4 };
            if column != "CPU" && *steps > allowed {
                failures.push(format!("{name} {ty}: {steps} on {column}, where {allowed} are allowed"));
            }
        }
        println!();
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}
