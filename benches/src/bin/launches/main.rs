//! Times launches through the typed API against a bare loop over `cuLaunchKernel` in C: `launches [liblaunches.so]`.

mod bare;

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use warpsmith::prelude::*;

use crate::bare::{Arguments, Bare};

/// Launches between two synchronises: fewer than the driver queues before it waits.
const BATCH: u32 = 200;
/// Launches of a graph between two synchronises.
const GRAPHS: u32 = 10;
/// Batches of each form.
const ROUNDS: usize = 301;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Does next to nothing with five arguments.
#[kernel]
fn five(a: f32, x: &[f32], y: &[f32], n: u32, mut z: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(z) = z.get_mut(&i)
        && n == u32::MAX
    {
        *z = a * x[i.get()] + y[i.get()];
    }
}

/// Does next to nothing with sixteen arguments.
#[allow(clippy::too_many_arguments, reason = "their number is what is measured")]
#[kernel]
fn sixteen(
    a: f32,
    b: f32,
    c: f32,
    d: f32,
    n: u32,
    m: u32,
    k: u64,
    l: u64,
    x0: &[f32],
    x1: &[f32],
    x2: &[f32],
    x3: &[f32],
    x4: &[f32],
    x5: &[f32],
    mut z0: GridSliceMut<f32>,
    mut z1: GridSliceMut<f32>,
) {
    let i = global_idx();
    if n == u32::MAX
        && let (Some(z0), Some(z1)) = (z0.get_mut(&i), z1.get_mut(&i))
    {
        let at = i.get();
        *z0 = a * x0[at] + b * x1[at] + c * x2[at] + m as f32;
        *z1 = d * x3[at] + x4[at] + x5[at] + (k + l) as f32;
    }
}

/// Nanoseconds of one launch in each batch.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    /// Times a batch of launches, and waits for their end.
    fn batch(&mut self, stream: &Stream, launch: &mut dyn FnMut() -> Outcome) -> Outcome {
        let start = Instant::now();
        for _ in 0..BATCH {
            launch()?;
        }
        self.push(start.elapsed());
        Ok(stream.synchronize()?)
    }

    fn push(&mut self, batch: Duration) {
        self.0.push(batch.as_secs_f64() * 1e9 / f64::from(BATCH));
    }

    fn least_and_median(&mut self) -> (f64, f64) {
        self.0.sort_by(f64::total_cmp);
        (self.0[0], self.0[self.0.len() / 2])
    }
}

fn main() -> Outcome {
    let device = Device::new()?;
    if device.is_cpu() {
        return Err("a launch is timed against the driver's, and there is no GPU".into());
    }
    let stream = device.stream()?;
    let bare = std::env::args_os().nth(1).map(PathBuf::from).map(|path| Bare::open(&stream, &path)).transpose()?;
    println!("device: {device}; {ROUNDS} batches of {BATCH} launches, in alternation\n");
    println!("| arguments | launch | minimum, ns | median, ns | median / C |");
    println!("| --- | --- | --- | --- | --- |");
    five_arguments(&stream, bare.as_ref())?;
    sixteen_arguments(&stream, bare.as_ref())?;
    graphs(&stream)
}

/// Times launches of a graph of 32 launches.
fn graphs(stream: &Stream) -> Outcome {
    let (x, y, mut z) = (stream.zeroed::<f32>(32)?, stream.zeroed::<f32>(32)?, stream.zeroed::<f32>(32)?);
    let config = LaunchConfig::new(1, 32);
    let graph = stream
        .capture(|recording| (0..32).try_for_each(|_| five::launch(recording, config, 1.0, &x, &y, 3, &mut z)))?;
    let graph = graph.instantiate()?;
    graph.upload(stream)?;
    let mut times = Times::default();
    for round in 0..ROUNDS + 3 {
        let start = Instant::now();
        // Fewer than launches, as each is the work of 32.
        for _ in 0..GRAPHS {
            graph.launch(stream)?;
        }
        let nanoseconds = start.elapsed().as_secs_f64() * 1e9 / f64::from(GRAPHS);
        stream.synchronize()?;
        if round >= 3 {
            times.0.push(nanoseconds);
        }
    }
    let (least, median) = times.least_and_median();
    println!("| 5 | graph of 32 launches | {least:.0} | {median:.0} | - |");
    Ok(())
}

fn five_arguments(stream: &Stream, bare: Option<&Bare>) -> Outcome {
    let (x, y) = (stream.zeroed::<f32>(32)?, stream.zeroed::<f32>(32)?);
    let (mut z, mut z_prepared) = (stream.zeroed::<f32>(32)?, stream.zeroed::<f32>(32)?);
    let config = LaunchConfig::new(1, 32);
    let prepared = five::load(stream.device())?.prepare(config)?;
    compare(
        stream,
        "5",
        bare.map(|bare| (bare, Arguments::Five)),
        &mut || Ok(five::launch(stream, config, 1.0, &x, &y, 3, &mut z)?),
        &mut || Ok(five::launch(stream, &prepared, 1.0, &x, &y, 3, &mut z_prepared)?),
    )
}

fn sixteen_arguments(stream: &Stream, bare: Option<&Bare>) -> Outcome {
    let x: Vec<DeviceBuffer<f32>> = (0..6).map(|_| stream.zeroed(32)).collect::<Result<_, _>>()?;
    let mut z: Vec<DeviceBuffer<f32>> = (0..4).map(|_| stream.zeroed(32)).collect::<Result<_, _>>()?;
    let [z0, z1, z2, z3] = &mut z[..] else { unreachable!("there are four") };
    let config = LaunchConfig::new(1, 32);
    let prepared = sixteen::load(stream.device())?.prepare(config)?;
    let [x0, x1, x2, x3, x4, x5] = &x[..] else { unreachable!("there are six") };
    compare(
        stream,
        "16",
        bare.map(|bare| (bare, Arguments::Sixteen)),
        &mut || {
            Ok(sixteen::launch(
                stream, config, 1.0, 2.0, 3.0, 4.0, 5, 6, 7, 8, x0, x1, x2, x3, x4, x5, &mut *z0, &mut *z1,
            )?)
        },
        &mut || {
            Ok(sixteen::launch(
                stream, &prepared, 1.0, 2.0, 3.0, 4.0, 5, 6, 7, 8, x0, x1, x2, x3, x4, x5, &mut *z2, &mut *z3,
            )?)
        },
    )
}

/// Times the three forms in alternation and prints a line for each.
fn compare(
    stream: &Stream,
    arguments: &str,
    bare: Option<(&Bare, Arguments)>,
    typed: &mut dyn FnMut() -> Outcome,
    prepared: &mut dyn FnMut() -> Outcome,
) -> Outcome {
    let (mut of_c, mut of_typed, mut of_prepared) = (Times::default(), Times::default(), Times::default());
    for _ in 0..3 {
        Times::default().batch(stream, typed)?;
        Times::default().batch(stream, prepared)?;
    }
    for _ in 0..ROUNDS {
        if let Some((bare, which)) = bare {
            of_c.push(bare.time(stream, which, BATCH)?);
            stream.synchronize()?;
        }
        of_typed.batch(stream, typed)?;
        of_prepared.batch(stream, prepared)?;
    }
    let mut reference = None;
    if bare.is_some() {
        let (least, median) = of_c.least_and_median();
        reference = Some(median);
        println!("| {arguments} | `cuLaunchKernel` in C | {least:.0} | {median:.0} | 1.00 |");
    }
    for (name, times) in [("`launch` with a `LaunchConfig`", &mut of_typed), ("prepared", &mut of_prepared)] {
        let (least, median) = times.least_and_median();
        let ratio = reference.map_or("-".to_owned(), |reference| format!("{:.2}", median / reference));
        println!("| {arguments} | {name} | {least:.0} | {median:.0} | {ratio} |");
    }
    Ok(())
}
