//! Times the CPU executor against hand-written rayon code, and the waits of threads for each other: `cpu`.

mod kernels;
mod twins;

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use warpsmith::prelude::*;

use crate::kernels::{BARRIERS, BLOCK, CHUNK};

/// Elements of what does not fit into caches.
const LARGE: usize = 1 << 25;
/// Elements of what fits into a core's second cache.
const SMALL: usize = 1 << 17;
/// Rows and columns of the planes.
const SIDE: usize = 4096;
/// Rows and columns of the picture.
const PICTURE: usize = 1024;
/// Threads of the launch that other systems' simulators take a second for.
const TINY: usize = 4096;
/// Least time for all runs of one side.
const BUDGET: Duration = Duration::from_secs(2);

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let device = Device::cpu();
    let stream = device.stream()?;
    let workers = device.limits().multiprocessors;
    println!("device: {device}; best of many runs, the two sides in alternation; of the ratios the median\n");
    println!("| name | kernel | rayon | rayon's time / kernel's |\n| --- | --- | --- | --- |");
    elementwise(&stream)?;
    planes(&stream)?;
    sums(&stream)?;
    println!("\n| name | time | per thread and wait, on one core |\n| --- | --- | --- |");
    waits(&stream, workers)?;
    println!("\n| name | time |\n| --- | --- |");
    tiny(&stream)
}

/// Numbers from 0 to 1 that look drawn.
fn numbers(len: usize) -> Vec<f32> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32).collect()
}

/// The times of many rounds, in each of which every side runs once.
fn rounds<const SIDES: usize>(
    mut sides: [&mut dyn FnMut() -> Outcome; SIDES],
) -> Result<Vec<[Duration; SIDES]>, Box<dyn Error>> {
    let mut rounds = Vec::new();
    let begin = Instant::now();
    while rounds.len() < 5 || begin.elapsed() < BUDGET {
        let mut times = [Duration::ZERO; SIDES];
        for (side, time) in sides.iter_mut().zip(&mut times) {
            let start = Instant::now();
            side()?;
            *time = start.elapsed();
        }
        rounds.push(times);
    }
    Ok(rounds)
}

/// The shortest time of a side.
fn best<const SIDES: usize>(rounds: &[[Duration; SIDES]], side: usize) -> Duration {
    rounds.iter().map(|round| round[side]).min().unwrap_or_default()
}

/// Times a kernel against its twin and prints a row.
fn compare(name: &str, mut kernel: impl FnMut() -> Outcome, mut twin: impl FnMut()) -> Outcome {
    let mut twin = || {
        twin();
        Ok(())
    };
    let rounds = rounds([&mut kernel, &mut twin])?;
    // What else the machine does slows neighbouring runs alike: the ratios of rounds differ less than the sides' best.
    let mut ratios: Vec<f64> = rounds.iter().map(|[kernel, twin]| twin.as_secs_f64() / kernel.as_secs_f64()).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let (kernel, twin, ratio) = (best(&rounds, 0), best(&rounds, 1), ratios[ratios.len() / 2]);
    println!("| {name} | {kernel:.3?} | {twin:.3?} | {ratio:.3} |");
    Ok(())
}

/// Fails when the kernel's results are not the twin's.
fn same<T: PartialEq + std::fmt::Debug>(name: &str, kernel: &[T], twin: &[T]) -> Outcome {
    match kernel.iter().zip(twin).position(|(a, b)| a != b) {
        Some(at) => Err(format!("{name}: element {at} is {:?}, and {:?} in rayon", kernel[at], twin[at]).into()),
        None => Ok(()),
    }
}

fn elementwise(stream: &Stream) -> Outcome {
    for (name, len) in [("saxpy, 2^25 elements", LARGE), ("saxpy, 2^17 elements", SMALL)] {
        let x = numbers(len);
        let mut y = vec![0.0; len];
        let (device_x, mut device_y) = (stream.to_device(&x)?, stream.to_device(&y)?);
        let config = LaunchConfig::for_len(len);
        kernels::saxpy::launch(stream, config, 0.5, &device_x, &mut device_y)?;
        twins::saxpy(0.5, &x, &mut y);
        same(name, &stream.to_host(&device_y)?, &y)?;
        compare(
            name,
            || Ok(kernels::saxpy::launch(stream, config, 0.5, &device_x, &mut device_y)?),
            || twins::saxpy(0.5, &x, &mut y),
        )?;
    }
    Ok(())
}

fn planes(stream: &Stream) -> Outcome {
    let x = numbers(SIDE * SIDE);
    let mut y = vec![0.0; x.len()];
    let (device_x, mut device_y) = (stream.to_device(&x)?, stream.to_device(&y)?);
    for (name, block) in [("stencil, 256 x 1", (256, 1)), ("stencil, 32 x 8", (32, 8))] {
        let (columns, rows) = block;
        let config = LaunchConfig::new((SIDE as u32 / columns, SIDE as u32 / rows), block);
        kernels::stencil::launch(stream, config, &device_x, device_y.plane_mut(SIDE, SIDE)?)?;
        twins::stencil(&x, &mut y, SIDE);
        same(name, &stream.to_host(&device_y)?, &y)?;
        compare(
            name,
            || Ok(kernels::stencil::launch(stream, config, &device_x, device_y.plane_mut(SIDE, SIDE)?)?),
            || twins::stencil(&x, &mut y, SIDE),
        )?;
    }

    let x = numbers((SIDE + 2) * (SIDE + 2));
    let device_x = stream.to_device(&x)?;
    for (name, block) in
        [("stencil, input with a rim, 256 x 1", (256, 1)), ("stencil, input with a rim, 32 x 8", (32, 8))]
    {
        let (columns, rows) = block;
        let config = LaunchConfig::new((SIDE as u32 / columns, SIDE as u32 / rows), block);
        kernels::rimmed_stencil::launch(stream, config, &device_x, device_y.plane_mut(SIDE, SIDE)?)?;
        twins::rimmed_stencil(&x, &mut y, SIDE);
        same(name, &stream.to_host(&device_y)?, &y)?;
        compare(
            name,
            || Ok(kernels::rimmed_stencil::launch(stream, config, &device_x, device_y.plane_mut(SIDE, SIDE)?)?),
            || twins::rimmed_stencil(&x, &mut y, SIDE),
        )?;
    }

    let mut counts = vec![0; PICTURE * PICTURE];
    let mut device_counts = stream.to_device(&counts)?;
    let config = LaunchConfig::new((PICTURE as u32 / 16, PICTURE as u32 / 16), (16, 16));
    kernels::mandelbrot::launch(stream, config, device_counts.plane_mut(PICTURE, PICTURE)?)?;
    twins::mandelbrot(&mut counts, PICTURE);
    same("mandelbrot", &stream.to_host(&device_counts)?, &counts)?;
    compare(
        "mandelbrot, 16 x 16",
        || Ok(kernels::mandelbrot::launch(stream, config, device_counts.plane_mut(PICTURE, PICTURE)?)?),
        || twins::mandelbrot(&mut counts, PICTURE),
    )
}

fn sums(stream: &Stream) -> Outcome {
    let x = numbers(LARGE);
    let device_x = stream.to_device(&x)?;
    let mut sums = vec![0.0; LARGE / CHUNK];
    let mut device_sums = stream.to_device(&sums)?;
    let config = LaunchConfig::for_len(sums.len());
    kernels::chunk_sums::launch(stream, config, &device_x, &mut device_sums)?;
    twins::chunk_sums(&x, &mut sums);
    same("sums of chunks", &stream.to_host(&device_sums)?, &sums)?;
    compare(
        "sums of 4096 contiguous elements",
        || Ok(kernels::chunk_sums::launch(stream, config, &device_x, &mut device_sums)?),
        || twins::chunk_sums(&x, &mut sums),
    )?;
    for blocks in [16, 128, 1000, 1024, 4096] {
        let mut device_sums = stream.zeroed((blocks * BLOCK) as usize)?;
        let config = LaunchConfig::new(blocks, BLOCK);
        compare(
            &format!("grid-stride sum, {blocks} blocks of {BLOCK}, against sums of contiguous elements"),
            || Ok(kernels::stride_sums::launch(stream, config, &device_x, &mut device_sums)?),
            || twins::chunk_sums(&x, &mut sums),
        )?;
    }
    Ok(())
}

/// Prints what a wait costs a thread when blocks keep all cores busy.
fn wait(name: &str, workers: u32, threads: u32, waits: u32, mut kernel: impl FnMut() -> Outcome) -> Outcome {
    let time = best(&rounds([&mut kernel])?, 0);
    let each = time.as_secs_f64() * 1e9 * f64::from(workers) / (f64::from(threads) * f64::from(waits));
    println!("| {name} | {time:.3?} | {each:.1} ns |");
    Ok(())
}

fn waits(stream: &Stream, workers: u32) -> Outcome {
    const BLOCKS: u32 = 32;
    let threads = BLOCKS * BLOCK;
    let x = stream.to_device(&numbers(threads as usize))?;
    let config = LaunchConfig::new(BLOCKS, BLOCK);
    let mut sums = stream.zeroed(BLOCKS as usize)?;
    wait("reduction of 256 threads by 9 barriers", workers, threads, BARRIERS, || {
        Ok(kernels::barrier_sums::launch(stream, config, &x, &mut sums)?)
    })?;
    let mut sums = stream.zeroed(threads as usize)?;
    wait("reduction of 32 lanes by 5 shuffles", workers, threads, 5, || {
        Ok(kernels::shuffle_sums::launch(stream, config, &x, &mut sums)?)
    })
}

fn tiny(stream: &Stream) -> Outcome {
    let (x, y) = (stream.to_device(&numbers(TINY))?, stream.to_device(&numbers(TINY))?);
    let mut z = stream.zeroed(TINY)?;
    let config = LaunchConfig::new(TINY as u32 / BLOCK, BLOCK);
    let time = best(&rounds([&mut || Ok(kernels::add::launch(stream, config, &x, &y, &mut z)?)])?, 0);
    println!("| z = x + y of {TINY} threads, launch included | {time:.3?} |");
    let one = LaunchConfig::new(1, 1);
    let time = best(&rounds([&mut || Ok(kernels::add::launch(stream, one, &x, &y, &mut z)?)])?, 0);
    println!("| launch of one thread | {time:.3?} |");
    black_box(stream.to_host(&z)?);
    Ok(())
}
