//! The examples' kernels, which share memory without `unsafe`, against raw pointers and CUDA C++.

use std::error::Error;

use warpsmith::prelude::*;

use crate::report::{self, Bench, Unit, Work};
use crate::twin::{Argument, Twins};
use crate::{kernels, matmul, numbers, raw, reduce, scan, stencil, transpose};

/// Vectors of four numbers of the one-dimensional kernels.
const FOURS: usize = 1 << 26;
/// Columns and rows of the two-dimensional ones: no multiples of a tile.
const WIDTH: usize = 16_001;
const HEIGHT: usize = 15_999;

type Outcome = Result<(), Box<dyn Error>>;

/// A raw address of a buffer.
fn address<T: DeviceElement>(buffer: &DeviceBuffer<T>) -> *mut T {
    buffer.cuda_address().expect("the benchmarks run on a GPU, with buffers that are not empty") as *mut T
}

/// Fails when two results differ. Where raw pointers and CUDA C++ write one buffer, CUDA C++ was the last.
fn equal<T: PartialEq>(name: &str, results: &[T], others: &[T]) -> Outcome {
    if results == others { Ok(()) } else { Err(format!("{name}: the results differ").into()) }
}

/// All of them.
pub(crate) fn run(stream: &Stream, twins: Option<&Twins>) -> Outcome {
    report::triple_heading();
    sum(stream, twins)?;
    running_sums(stream, twins)?;
    planes(stream, twins)?;
    product(stream)?;
    places(stream, twins)
}

fn sum(stream: &Stream, twins: Option<&Twins>) -> Outcome {
    let fours: Vec<F32x4> = numbers(4 * FOURS).chunks_exact(4).map(|v| F32x4([v[0], v[1], v[2], v[3]])).collect();
    let x = stream.to_device(&fours)?;
    let blocks = 8 * stream.device().limits().multiprocessors;
    let config = LaunchConfig::new(blocks, reduce::BLOCK);
    let mut sums = stream.zeroed::<f32>(blocks as usize)?;
    let (raw_sums, twin_sums) = (stream.zeroed::<f32>(blocks as usize)?, stream.zeroed::<f32>(blocks as usize)?);
    let (x_address, sums_address) = (address(&x), address(&raw_sums));
    let mut safe = || Ok(reduce::tree_sum::launch(stream, config, &x, &mut sums)?);
    // SAFETY: the buffers have these lengths and outlive the launches, which one stream orders.
    let mut raw = || Ok(unsafe { raw::tree_sum::launch(stream, config, x_address.cast_const(), FOURS, sums_address) }?);
    let arguments = [Argument::buffer(&x), Argument::usize(FOURS), Argument::buffer(&twin_sums)];
    let mut twin = twins.map(|twins| twins.launcher("tree_sum", config, &arguments)).transpose()?;
    let twin = twin.as_mut().map(|twin| twin as &mut Work<'_>);
    Bench { name: "tree sum", unit: Unit::Bytes(16 * FOURS) }.run_three(stream, &mut safe, &mut raw, twin)?;
    let sums = stream.to_host(&sums)?;
    report::same("tree sum", &sums, &stream.to_host(&raw_sums)?, 0.0)?;
    if twins.is_some() {
        report::same("tree sum", &sums, &stream.to_host(&twin_sums)?, 0.0)?;
    }
    Ok(())
}

fn running_sums(stream: &Stream, twins: Option<&Twins>) -> Outcome {
    let fours: Vec<U32x4> = (0..FOURS as u32).map(|i| U32x4([i, i ^ 77, i.wrapping_mul(31), 5])).collect();
    let x = stream.to_device(&fours)?;
    let blocks = scan::blocks(FOURS);
    let config = LaunchConfig::new(blocks, scan::BLOCK);
    let one = LaunchConfig::new(1, 1024);
    let (mut sums, mut y) = (stream.zeroed::<u32>(blocks as usize)?, stream.zeroed::<U32x4>(FOURS)?);
    let (other_sums, other_y) = (stream.zeroed::<u32>(blocks as usize)?, stream.zeroed::<U32x4>(FOURS)?);
    let (x_address, sums_address, y_address) = (address(&x).cast_const(), address(&other_sums), address(&other_y));
    let mut safe = || Ok(scan::scan(stream, &x, &mut sums, &mut y)?);
    // SAFETY: the buffers have these lengths and outlive the launches, which one stream orders.
    let mut raw = || unsafe {
        raw::block_sums::launch(stream, config, x_address, FOURS, sums_address)?;
        raw::sums_before::launch(stream, one, sums_address, blocks as usize)?;
        Ok(raw::running_sums::launch(stream, config, x_address, sums_address.cast_const(), y_address, FOURS)?)
    };
    let sums_of = [Argument::buffer(&x), Argument::usize(FOURS), Argument::buffer(&other_sums)];
    let before = [Argument::buffer(&other_sums), Argument::usize(blocks as usize)];
    let all = [Argument::buffer(&x), Argument::buffer(&other_sums), Argument::buffer(&other_y), Argument::usize(FOURS)];
    let mut twin = match twins {
        Some(twins) => {
            let mut first = twins.launcher("block_sums", config, &sums_of)?;
            let mut second = twins.launcher("sums_before", one, &before)?;
            let mut third = twins.launcher("running_sums", config, &all)?;
            Some(move || {
                first()?;
                second()?;
                third()
            })
        }
        None => None,
    };
    let twin = twin.as_mut().map(|twin| twin as &mut Work<'_>);
    Bench { name: "scan", unit: Unit::Bytes(48 * FOURS) }.run_three(stream, &mut safe, &mut raw, twin)?;
    let y = stream.to_host(&y)?;
    equal("scan", &y, &stream.to_host(&other_y)?)?;
    raw()?;
    equal("scan, raw pointers", &y, &stream.to_host(&other_y)?)
}

fn planes(stream: &Stream, twins: Option<&Twins>) -> Outcome {
    let x = stream.to_device(&numbers(WIDTH * HEIGHT))?;
    let (mut y, mut other) = (stream.zeroed::<f32>(WIDTH * HEIGHT)?, stream.zeroed::<f32>(WIDTH * HEIGHT)?);
    let (x_address, y_address) = (address(&x).cast_const(), address(&other));
    let bytes = Unit::Bytes(8 * WIDTH * HEIGHT);
    let shape = [Argument::usize(WIDTH), Argument::usize(HEIGHT)];

    let config = transpose::config(WIDTH, HEIGHT);
    let mut safe = || Ok(transpose::transpose::launch(stream, config, &x, y.plane_mut(HEIGHT, WIDTH)?)?);
    // SAFETY: the buffers have this shape and outlive the launches, which one stream orders.
    let mut raw = || Ok(unsafe { raw::transpose::launch(stream, config, x_address, y_address, WIDTH, HEIGHT) }?);
    let arguments = [Argument::buffer(&x), Argument::buffer(&other), shape[0], shape[1]];
    let mut twin = twins.map(|twins| twins.launcher("transpose", config, &arguments)).transpose()?;
    let twin = twin.as_mut().map(|twin| twin as &mut Work<'_>);
    Bench { name: "transpose", unit: bytes }.run_three(stream, &mut safe, &mut raw, twin)?;
    let safe_y = stream.to_host(&y)?;
    equal("transpose", &safe_y, &stream.to_host(&other)?)?;
    raw()?;
    equal("transpose, raw pointers", &safe_y, &stream.to_host(&other)?)?;

    other.copy_from_device(stream, &x)?;
    let config = stencil::config(WIDTH, HEIGHT);
    let mut safe = || Ok(stencil::spread::launch(stream, config, 0.125, &x, y.plane_mut(WIDTH, HEIGHT)?)?);
    // SAFETY: as above.
    let mut raw = || Ok(unsafe { raw::spread::launch(stream, config, 0.125, x_address, y_address, WIDTH, HEIGHT) }?);
    let arguments = [Argument::f32(0.125), Argument::buffer(&x), Argument::buffer(&other), shape[0], shape[1]];
    let mut twin = twins.map(|twins| twins.launcher("spread", config, &arguments)).transpose()?;
    let twin = twin.as_mut().map(|twin| twin as &mut Work<'_>);
    Bench { name: "stencil", unit: Unit::Bytes(8 * WIDTH * HEIGHT) }.run_three(stream, &mut safe, &mut raw, twin)?;
    let y = stream.to_host(&y)?;
    equal("stencil", &y, &stream.to_host(&other)?)?;
    raw()?;
    equal("stencil, raw pointers", &y, &stream.to_host(&other)?)
}

fn product(stream: &Stream) -> Outcome {
    const SIDE: usize = 8192;
    let operand = |seed: usize| -> Vec<F32x4> {
        numbers(SIDE * SIDE + seed)[seed..]
            .chunks_exact(4)
            .map(|v| F32x4([v[0] - 0.5, v[1] - 0.5, v[2] - 0.5, v[3] - 0.5]))
            .collect()
    };
    let (a, b) = (stream.to_device(&operand(0))?, stream.to_device(&operand(7))?);
    let (mut c, other) = (stream.zeroed::<F32x4>(SIDE * SIDE / 4)?, stream.zeroed::<F32x4>(SIDE * SIDE / 4)?);
    let blocks = (SIDE / matmul::PART) as u32;
    let config = LaunchConfig::new((blocks, blocks), (matmul::SIDE, matmul::SIDE));
    let flat = LaunchConfig::new((blocks, blocks), kernels::THREADS);
    let c_address = address(&other);
    let mut safe =
        || Ok(matmul::matmul_by_patches::launch(stream, config, &a, &b, c.plane_mut(SIDE / 4, SIDE)?, SIDE, SIDE)?);
    // SAFETY: `other` has this length and outlives the launches, which one stream orders.
    let mut raw = || unsafe {
        Ok(kernels::sgemm_unchecked::launch(stream, flat, &a, &b, c_address, SIDE * SIDE / 4, SIDE, SIDE)?)
    };
    Bench { name: "matmul by patches", unit: Unit::Operations(2 * SIDE * SIDE * SIDE) }
        .run_three(stream, &mut safe, &mut raw, None)?;
    equal("matmul", &stream.to_host(&c)?, &stream.to_host(&other)?)
}

/// 64-bit indices in the place of the safe form, 32-bit ones in that of raw pointers.
fn places(stream: &Stream, twins: Option<&Twins>) -> Outcome {
    const LEN: usize = 1 << 28;
    let (mut y, mut other) = (stream.zeroed::<u32>(LEN)?, stream.zeroed::<u32>(LEN)?);
    let twin_y = stream.zeroed::<u32>(LEN)?;
    let config = LaunchConfig::for_len(LEN);
    let mut wide = || Ok(kernels::places::launch(stream, config, 641, 479, &mut y)?);
    let mut narrow = || Ok(kernels::places_u32::launch(stream, config, 641, 479, &mut other)?);
    let arguments = [Argument::usize(641), Argument::usize(479), Argument::buffer(&twin_y), Argument::usize(LEN)];
    let mut twin = twins.map(|twins| twins.launcher("places", config, &arguments)).transpose()?;
    let twin = twin.as_mut().map(|twin| twin as &mut Work<'_>);
    let name = "places: 64-bit, 32-bit, 32-bit";
    Bench { name, unit: Unit::Bytes(4 * LEN) }.run_three(stream, &mut wide, &mut narrow, twin)?;
    let y = stream.to_host(&y)?;
    equal("places", &y, &stream.to_host(&other)?)?;
    if twins.is_some() { equal("places, CUDA C++", &y, &stream.to_host(&twin_y)?) } else { Ok(()) }
}
