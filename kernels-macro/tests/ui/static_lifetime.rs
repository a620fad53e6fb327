//! Arguments are borrowed for a launch.
use warpsmith::prelude::*;

#[kernel]
fn keep(x: &'static [f32], y: GridSliceMut<'static, f32>) {
    let _ = (x, y);
}

fn main() {}
