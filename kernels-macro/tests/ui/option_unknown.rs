//! Options have known names.
use warpsmith::prelude::*;

#[kernel(threads = 256, fma)]
fn fill(x: &[f32]) {
    let _ = x;
}

fn main() {}
