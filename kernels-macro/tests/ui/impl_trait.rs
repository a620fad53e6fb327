//! A generic parameter has a name.
use warpsmith::prelude::*;

#[kernel]
fn convert(x: impl Into<f32>, y: &[impl Clone]) {
    let _ = (x, y);
}

fn main() {}
