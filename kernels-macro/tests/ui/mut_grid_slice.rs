//! A `GridSliceMut` is passed by value.
use warpsmith::prelude::*;

#[kernel]
fn fill(y: &mut GridSliceMut<f32>) {
    let _ = y;
}

fn main() {}
