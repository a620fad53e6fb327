//! Function pointers are addresses of the host.
use warpsmith::prelude::*;

#[kernel]
fn apply(f: fn(f32) -> f32, x: &[f32]) {
    let _ = (f, x);
}

fn main() {}
