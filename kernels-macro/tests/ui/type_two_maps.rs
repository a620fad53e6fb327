//! A slice has one ownership map.
use warpsmith::prelude::*;

#[kernel]
fn fill(mut y: GridSliceMut<f32>) {
    let _ = y.get_mut(&global_idx());
    let _ = y.get_mut(&run_idx::<4>());
}

fn main() {}
