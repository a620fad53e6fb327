//! Timing in alternation, and the table.

use std::error::Error;
use std::time::Duration;

use warpsmith::prelude::*;

/// Launches before the first that is timed.
const WARM_UP: usize = 3;
/// Launches that are timed.
const ROUNDS: usize = 20;

/// One launch of a kernel.
pub(crate) type Work<'a> = dyn FnMut() -> Result<(), Box<dyn Error>> + 'a;

/// What a launch does.
pub(crate) enum Unit {
    /// Bytes that it reads and writes.
    Bytes(usize),
    /// Float operations.
    Operations(usize),
}

/// One line of the table.
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
}

/// Prints what all lines have in common, and the table's head.
pub(crate) fn heading(device: &Device, with_twins: bool) -> Result<(), Box<dyn Error>> {
    let capability = device.capability().ok_or("a GPU has a compute capability")?;
    println!("device: {device}, compute capability {}.{}", capability.major, capability.minor);
    let driver = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    println!("driver: {}", driver.lines().next().unwrap_or("version not readable"));
    let other = if with_twins { "CUDA C++" } else { "no CUDA C++: give the path of kernels.cubin to compare" };
    println!("{WARM_UP} launches to warm up, then {ROUNDS} timed by events, in alternation with {other}\n");
    println!(
        "| name | Rust min, ms | Rust median, ms | Rust | CUDA C++ min, ms | CUDA C++ median, ms | CUDA C++ | Rust / CUDA C++ |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    Ok(())
}

/// Prints the head of the table with three columns of times.
pub(crate) fn triple_heading() {
    println!(
        "\n| name | safe median, ms | safe | raw pointers median, ms | CUDA C++ median, ms | safe / raw pointers | safe / CUDA C++ |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
}

impl Bench {
    /// Times three forms of one kernel in rotation, and prints the line.
    pub(crate) fn run_three(
        self,
        stream: &Stream,
        safe: &mut Work<'_>,
        raw: &mut Work<'_>,
        mut twin: Option<&mut Work<'_>>,
    ) -> Result<(), Box<dyn Error>> {
        let mut times: [Vec<Duration>; 3] = Default::default();
        for round in 0..WARM_UP + ROUNDS {
            let mut note = |which: usize, duration: Duration| {
                if round >= WARM_UP {
                    times[which].push(duration);
                }
            };
            note(0, time(stream, safe)?);
            note(1, time(stream, raw)?);
            if let Some(twin) = &mut twin {
                note(2, time(stream, *twin)?);
            }
        }
        let [safe, raw, twin] = times.map(|times| (!times.is_empty()).then(|| min_and_median(times).1));
        let (safe, raw) = safe.zip(raw).ok_or("every form ran")?;
        let ratio = |other: Duration| other.as_secs_f64() / safe.as_secs_f64();
        print!(
            "| {} | {} | {} | {} |",
            self.name,
            milliseconds(safe),
            self.rate_text(self.rate(safe)),
            milliseconds(raw)
        );
        match twin {
            Some(twin) => println!(" {} | {:.3} | {:.3} |", milliseconds(twin), ratio(raw), ratio(twin)),
            None => println!(" | {:.3} | |", ratio(raw)),
        }
        Ok(())
    }

    /// Times `rust`, and `twin` in alternation with it, and prints the line.
    pub(crate) fn run(
        self,
        stream: &Stream,
        rust: &mut Work<'_>,
        mut twin: Option<&mut Work<'_>>,
    ) -> Result<(), Box<dyn Error>> {
        for _ in 0..WARM_UP {
            rust()?;
            if let Some(twin) = &mut twin {
                twin()?;
            }
        }
        stream.synchronize()?;
        let (mut rust_times, mut twin_times) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            rust_times.push(time(stream, rust)?);
            if let Some(twin) = &mut twin {
                twin_times.push(time(stream, *twin)?);
            }
        }
        let (rust_min, rust_median) = min_and_median(rust_times);
        let rust_rate = self.rate(rust_median);
        print!(
            "| {} | {} | {} | {} |",
            self.name,
            milliseconds(rust_min),
            milliseconds(rust_median),
            self.rate_text(rust_rate)
        );
        if twin_times.is_empty() {
            println!(" | | | |");
        } else {
            let (min, median) = min_and_median(twin_times);
            let rate = self.rate(median);
            let ratio = rust_rate / rate;
            println!(" {} | {} | {} | {ratio:.3} |", milliseconds(min), milliseconds(median), self.rate_text(rate));
        }
        Ok(())
    }

    /// Billions a second.
    fn rate(&self, time: Duration) -> f64 {
        let amount = match self.unit {
            Unit::Bytes(amount) | Unit::Operations(amount) => amount,
        };
        amount as f64 / time.as_secs_f64() / 1e9
    }

    fn rate_text(&self, rate: f64) -> String {
        match self.unit {
            Unit::Bytes(_) => format!("{:.3} TB/s", rate / 1e3),
            Unit::Operations(_) => format!("{:.2} TFLOP/s", rate / 1e3),
        }
    }
}

fn time(stream: &Stream, work: &mut Work<'_>) -> Result<Duration, Box<dyn Error>> {
    let start = stream.record()?;
    work()?;
    let end = stream.record()?;
    Ok(start.elapsed(&end)?)
}

fn min_and_median(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    let middle = times.len() / 2;
    (times[0], (times[middle - 1] + times[middle]) / 2)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.4}", time.as_secs_f64() * 1e3)
}

/// Fails when two results differ by more than `tolerance`, relative to the larger of 1 and the value.
pub(crate) fn same(name: &str, rust: &[f32], other: &[f32], tolerance: f32) -> Result<(), Box<dyn Error>> {
    let agree = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= tolerance * b.abs().max(1.0);
    match rust.iter().zip(other).position(|pair| !agree(pair)) {
        _ if rust.len() != other.len() => Err(format!("{name}: {} results against {}", rust.len(), other.len()).into()),
        Some(i) => Err(format!("{name}: result {i} is {}, the other side has {}", rust[i], other[i]).into()),
        None => Ok(()),
    }
}
