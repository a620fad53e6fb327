//! Counts start at 1.
use warpsmith::prelude::*;

#[kernel(block = (16, 0), min_blocks = 0, max_registers = 0)]
fn fill(x: &[f32]) {
    let _ = x;
}

#[kernel(max_threads = 0)]
fn clear(x: &[f32]) {
    let _ = x;
}

fn main() {}
