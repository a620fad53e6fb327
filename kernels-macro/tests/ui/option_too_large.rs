//! Counts stay below what any device has.
use warpsmith::prelude::*;

#[kernel(block = (64, 32), min_blocks = 33, max_registers = 256)]
fn fill(x: &[f32]) {
    let _ = x;
}

#[kernel(max_threads = 1025)]
fn clear(x: &[f32]) {
    let _ = x;
}

#[kernel(block = (1, 1, 65))]
fn deep(x: &[f32]) {
    let _ = x;
}

fn main() {}
