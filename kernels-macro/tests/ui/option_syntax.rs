//! Options are separated by commas.
use warpsmith::prelude::*;

#[kernel(block = 256 contract)]
fn fill(x: &[f32]) {
    let _ = x;
}

fn main() {}
