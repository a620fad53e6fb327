//! What the examples share: comparing with the host, timing by events, and printing both.

use std::error::Error;
use std::fmt::{self, Debug};
use std::time::Duration;

use warpsmith::prelude::*;

/// What every example's `main` returns; an error ends the process with status 1.
pub type Outcome = Result<(), Box<dyn Error>>;

/// A result of the device that is not the host's.
#[derive(Debug)]
pub struct Mismatch(String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Mismatch {}

/// Says that `device` equals `host`, element by element.
///
/// # Errors
/// [`Mismatch`] with the first element that differs.
pub fn equal<T: PartialEq + Debug>(what: &str, device: &[T], host: &[T]) -> Result<(), Mismatch> {
    same_length(what, device.len(), host.len())?;
    if let Some(i) = (0..host.len()).find(|i| device[*i] != host[*i]) {
        return Err(Mismatch(format!(
            "{what}: element {i} is {:?} on the device, {:?} on the host",
            device[i], host[i]
        )));
    }
    println!("{what}: all {} elements equal the host's", host.len());
    Ok(())
}

/// Says that `device` is within `tolerance`, relative to the host's value, of `host`; `reason` says why they may differ.
///
/// # Errors
/// [`Mismatch`] with the first element that is further away, or is NaN.
pub fn close(what: &str, device: &[f64], host: &[f64], tolerance: f64, reason: &str) -> Result<(), Mismatch> {
    same_length(what, device.len(), host.len())?;
    let is_close = |i: &usize| (device[*i] - host[*i]).abs() <= tolerance * host[*i].abs();
    if let Some(i) = (0..host.len()).find(|i| !is_close(i)) {
        return Err(Mismatch(format!("{what}: element {i} is {} on the device, {} on the host", device[i], host[i])));
    }
    println!("{what}: all {} elements within {tolerance:e} of the host's ({reason})", host.len());
    Ok(())
}

fn same_length(what: &str, device: usize, host: usize) -> Result<(), Mismatch> {
    if device == host {
        Ok(())
    } else {
        Err(Mismatch(format!("{what}: {device} elements on the device, {host} on the host")))
    }
}

/// Runs `work` once to load the kernel, then `repeats` times between two events each; the median.
///
/// # Errors
/// Whatever `work` or the stream answers.
pub fn median_time(
    stream: &Stream,
    repeats: usize,
    mut work: impl FnMut() -> warpsmith::Result<()>,
) -> warpsmith::Result<Duration> {
    work()?;
    let mut times = Vec::with_capacity(repeats);
    for _ in 0..repeats.max(1) {
        let start = stream.record()?;
        work()?;
        let end = stream.record()?;
        times.push(start.elapsed(&end)?);
    }
    times.sort();
    Ok(times[times.len() / 2])
}

/// Prints a kernel's time and how many bytes it moved in it.
pub fn report(kernel: &str, time: Duration, bytes: usize) {
    let gigabytes = bytes as f64 / 1e9 / time.as_secs_f64();
    println!("{kernel}: {:.1} us, {gigabytes:.2} GB/s", time.as_secs_f64() * 1e6);
}

/// Prints a kernel's time and how many operations it did in it.
pub fn report_operations(kernel: &str, time: Duration, operations: usize, unit: &str) {
    let billions = operations as f64 / 1e9 / time.as_secs_f64();
    println!("{kernel}: {:.1} us, {billions:.2} billion {unit} a second", time.as_secs_f64() * 1e6);
}
