//! Counts are whole numbers.
use warpsmith::prelude::*;

#[kernel(block = "256", min_blocks = -1, max_registers = 2.5)]
fn fill(x: &[f32]) {
    let _ = x;
}

#[kernel(block = (1, 2, 3, 4))]
fn four(x: &[f32]) {
    let _ = x;
}

fn main() {}
