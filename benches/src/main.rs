//! Times Rust kernels against CUDA C++ on the same algorithms: `bench [kernels.cubin]`.

mod blocks;
mod kernels;
mod raw;
mod report;
mod twin;

macro_rules! examples {
    ($($name:ident $path:literal;)*) => {$(
        #[path = $path]
        #[allow(dead_code, reason = "an example's `main` and what only that needs")]
        mod $name;
    )*};
}
examples! {
    matmul "../../examples/src/bin/matmul.rs";
    reduce "../../examples/src/bin/reduce.rs";
    scan "../../examples/src/bin/scan.rs";
    stencil "../../examples/src/bin/stencil.rs";
    transpose "../../examples/src/bin/transpose.rs";
}

use std::error::Error;
use std::path::PathBuf;

use warpsmith::prelude::*;

use crate::kernels::{THREADS, TILE};
use crate::report::{Bench, Unit};
use crate::twin::{Argument, Twins};

/// Elements of the one-dimensional benchmarks.
const LEN: usize = 1 << 28;
/// Rows and columns of the matrices.
const SIDE: usize = 8192;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::new()?;
    if device.is_cpu() {
        return Err("the benchmarks compare two compilers for GPUs, and there is no GPU".into());
    }
    let stream = device.stream()?;
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let twins = arguments.next().map(|cubin| Twins::load(&stream, &cubin)).transpose()?;
    report::heading(&device, twins.is_some())?;
    one_dimensional(&stream, twins.as_ref())?;
    matrices(&stream, twins.as_ref())?;
    blocks::run(&stream, twins.as_ref())
}

/// Numbers from 0 to 1 that look drawn.
fn numbers(len: usize) -> Vec<f32> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32).collect()
}

fn one_dimensional(stream: &Stream, twins: Option<&Twins>) -> Result<(), Box<dyn Error>> {
    let config = LaunchConfig::for_len(LEN);
    let host_x = numbers(LEN);
    let x = stream.to_device(&host_x)?;
    let mut y = stream.zeroed::<f32>(LEN)?;
    let mut twin_y = stream.zeroed::<f32>(LEN)?;

    Bench { name: "copy", unit: Unit::Bytes(8 * LEN) }.run(
        stream,
        &mut || Ok(y.copy_from_device(stream, &x)?),
        None,
    )?;

    y.copy_from_device(stream, &x)?;
    twin_y.copy_from_device(stream, &x)?;
    let twin_arguments = [Argument::f32(2.5), Argument::buffer(&x), Argument::buffer(&twin_y), Argument::usize(LEN)];
    let mut rust = || Ok(kernels::saxpy::launch(stream, config, 2.5, &x, &mut y)?);
    let mut twin = twins.map(|twins| twins.launcher("saxpy", config, &twin_arguments)).transpose()?;
    Bench { name: "saxpy", unit: Unit::Bytes(12 * LEN) }.run(stream, &mut rust, twin.as_mut().map(|twin| twin as _))?;
    drop(twin);
    if twins.is_some() {
        report::same("saxpy", &stream.to_host(&y)?, &stream.to_host(&twin_y)?, 0.0)?;
    }

    let mut rust = || Ok(kernels::map::launch(stream, config, &x, &mut y)?);
    let twin_arguments = [Argument::buffer(&x), Argument::buffer(&twin_y), Argument::usize(LEN)];
    let mut twin = twins.map(|twins| twins.launcher("map", config, &twin_arguments)).transpose()?;
    Bench { name: "map", unit: Unit::Bytes(8 * LEN) }.run(stream, &mut rust, twin.as_mut().map(|twin| twin as _))?;
    drop(twin);
    if twins.is_some() {
        // Both sides' functions are right to a few units in the last place.
        report::same("map", &stream.to_host(&y)?, &stream.to_host(&twin_y)?, 2e-6)?;
    }
    drop((y, twin_y));

    let fours: Vec<F32x4> = host_x.chunks_exact(4).map(|v| F32x4([v[0], v[1], v[2], v[3]])).collect();
    drop(x);
    let x = stream.to_device(&fours)?;
    let blocks = 16 * stream.device().limits().multiprocessors;
    let config = LaunchConfig::new(blocks, 256);
    let threads = blocks as usize * 256;
    let mut partial = stream.zeroed::<f32>(threads)?;
    let twin_partial = stream.zeroed::<f32>(threads)?;
    let mut rust = || Ok(kernels::sum::launch(stream, config, &x, &mut partial)?);
    let twin_arguments = [Argument::buffer(&x), Argument::usize(LEN / 4), Argument::buffer(&twin_partial)];
    let mut twin = twins.map(|twins| twins.launcher("sum", config, &twin_arguments)).transpose()?;
    Bench { name: "sum", unit: Unit::Bytes(4 * LEN) }.run(stream, &mut rust, twin.as_mut().map(|twin| twin as _))?;
    drop(twin);
    let partial = stream.to_host(&partial)?;
    let total: f64 = partial.iter().map(|v| f64::from(*v)).sum();
    let host_total: f64 = host_x.iter().map(|v| f64::from(*v)).sum();
    report::same("sum", &[(total / host_total) as f32], &[1.0], 1e-5)?;
    if twins.is_some() {
        report::same("sum", &partial, &stream.to_host(&twin_partial)?, 0.0)?;
    }
    Ok(())
}

fn matrices(stream: &Stream, twins: Option<&Twins>) -> Result<(), Box<dyn Error>> {
    const FOURS: usize = SIDE * SIDE / 4;
    let values = numbers(SIDE * SIDE + 16);
    let fours = |shift: usize| -> Vec<F32x4> {
        values[shift..shift + SIDE * SIDE]
            .chunks_exact(4)
            .map(|v| F32x4([v[0] - 0.5, v[1] - 0.5, v[2] - 0.5, v[3] - 0.5]))
            .collect()
    };
    let (host_a, host_b) = (fours(0), fours(7));
    let (a, b) = (stream.to_device(&host_a)?, stream.to_device(&host_b)?);
    let (c, twin_c) = (stream.filled(F32x4::default(), FOURS)?, stream.filled(F32x4::default(), FOURS)?);
    let blocks = (SIDE / TILE) as u32;
    let config = LaunchConfig::new((blocks, blocks), THREADS);
    let address = c.cuda_address().ok_or("the buffer is on a GPU")? as *mut F32x4;
    let twin_arguments = [
        Argument::buffer(&a),
        Argument::buffer(&b),
        Argument::buffer(&twin_c),
        Argument::usize(SIDE),
        Argument::usize(SIDE),
    ];
    let unit = || Unit::Operations(2 * SIDE * SIDE * SIDE);

    for name in ["sgemm checked", "sgemm unchecked"] {
        let mut rust = || {
            // SAFETY: `c` has FOURS elements, lives until the results are copied, and only this stream uses it.
            unsafe {
                if name == "sgemm checked" {
                    kernels::sgemm_checked::launch(stream, config, &a, &b, address, FOURS, SIDE, SIDE)?;
                } else {
                    kernels::sgemm_unchecked::launch(stream, config, &a, &b, address, FOURS, SIDE, SIDE)?;
                }
            }
            Ok(())
        };
        let mut twin = twins.map(|twins| twins.launcher("sgemm", config, &twin_arguments)).transpose()?;
        Bench { name, unit: unit() }.run(stream, &mut rust, twin.as_mut().map(|twin| twin as _))?;
        drop(twin);
        let results = stream.to_host(&c)?;
        check_rows(&host_a, &host_b, &results)?;
        if twins.is_some() {
            let flat = |values: &[F32x4]| values.iter().flat_map(|v| v.0).collect::<Vec<f32>>();
            report::same(name, &flat(&results), &flat(&stream.to_host(&twin_c)?), 0.0)?;
        }
    }
    Ok(())
}

/// Compares a few elements of the product with sums in `f64`.
fn check_rows(a: &[F32x4], b: &[F32x4], c: &[F32x4]) -> Result<(), Box<dyn Error>> {
    let at = |m: &[F32x4], i: usize| f64::from(m[i / 4].0[i % 4]);
    for i in (0..SIDE * SIDE).step_by(SIDE * 1021 + 97) {
        let (row, column) = (i / SIDE, i % SIDE);
        let expected: f64 = (0..SIDE).map(|k| at(a, row * SIDE + k) * at(b, k * SIDE + column)).sum();
        if (at(c, i) - expected).abs() > 1e-2 {
            return Err(format!("element ({row}, {column}) of the product is {}, not {expected}", at(c, i)).into());
        }
    }
    Ok(())
}
