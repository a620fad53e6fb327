//! A `GridSliceMut` is not shared.
use warpsmith::prelude::*;

#[kernel]
fn fill(y: &GridSliceMut<f32>) {
    let _ = y;
}

fn main() {}
