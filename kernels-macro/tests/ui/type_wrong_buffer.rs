//! A buffer of another type shows both types.
use warpsmith::prelude::*;

#[kernel]
fn sum(x: &[f32]) {
    let _ = x;
}

fn call(stream: &Stream, config: LaunchConfig, x: &DeviceBuffer<f64>) -> warpsmith::Result<()> {
    sum::launch(stream, config, x)
}

fn main() {}
