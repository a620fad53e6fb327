//! `y = a * x + y`: the smallest whole program.

use warpsmith::prelude::*;
use warpsmith_examples::{Outcome, equal, median_time, report};

/// One element a thread; threads past the end do nothing.
#[kernel]
fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y += a * x[i.get()];
    }
}

fn main() -> Outcome {
    const LEN: usize = (1 << 22) + 1;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;

    let x: Vec<f32> = (0..LEN).map(|i| i as f32 * 0.25).collect();
    let y: Vec<f32> = (0..LEN).map(|i| (i % 1000) as f32).collect();
    let device_x = stream.to_device(&x)?;
    let mut device_y = stream.to_device(&y)?;
    saxpy::launch(&stream, LaunchConfig::for_len(LEN), 3.0, &device_x, &mut device_y)?;
    let result = stream.to_host(&device_y)?;

    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| y + 3.0 * x).collect();
    equal("saxpy", &result, &expected)?;

    let time =
        median_time(&stream, 20, || saxpy::launch(&stream, LaunchConfig::for_len(LEN), 3.0, &device_x, &mut device_y))?;
    report("saxpy", time, 3 * LEN * size_of::<f32>());
    Ok(())
}
