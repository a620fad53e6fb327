//! A `GridSliceMut` is a parameter of its own.
use warpsmith::prelude::*;

#[kernel]
fn fill(both: (GridSliceMut<f32>, f32), one: Option<GridSliceMut<f32>>) {
    let _ = (both, one);
}

fn main() {}
