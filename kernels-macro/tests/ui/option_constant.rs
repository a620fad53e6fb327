//! A constant is held to the same limits as a number.
use warpsmith::prelude::*;

const WIDE: u32 = 2048;

#[kernel(block = (WIDE, 1))]
fn fill(x: &[f32]) {
    let _ = x;
}

#[kernel(max_registers = WIDE - 2048)]
fn clear(x: &[f32]) {
    let _ = x;
}

fn main() {}
