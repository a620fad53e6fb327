//! A `&mut [T]` would have as many holders as the grid has threads.
use warpsmith::prelude::*;

#[kernel]
fn fill(y: &mut [f32]) {
    y.fill(1.0);
}

fn main() {}
