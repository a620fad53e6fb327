//! Flags take no value and counts need one.
use warpsmith::prelude::*;

#[kernel(contract = true, block, min_blocks)]
fn fill(x: &[f32]) {
    let _ = x;
}

fn main() {}
