//! Options do not contradict each other.
use warpsmith::prelude::*;

#[kernel(block = 256, max_threads = 256)]
fn fill(x: &[f32]) {
    let _ = x;
}

#[kernel(min_blocks = 2)]
fn clear(x: &[f32]) {
    let _ = x;
}

#[kernel(fast_math, approx)]
fn divide(x: &[f32]) {
    let _ = x;
}

#[kernel(opt_level = 0, fast_math)]
fn debug(x: &[f32]) {
    let _ = x;
}

fn main() {}
