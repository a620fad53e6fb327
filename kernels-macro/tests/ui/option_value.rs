//! Flags take no value and counts need one.
use warpsmith::prelude::*;

#[kernel(contract = true, block, min_blocks)]
fn fill(x: &[f32]) {
    let _ = x;
}

#[kernel(opt_level = 4, ftz = true)]
fn clear(x: &[f32]) {
    let _ = x;
}

#[kernel(opt_level = "z", approx = 2)]
fn copy(x: &[f32]) {
    let _ = x;
}

#[kernel(opt_level)]
fn scale(x: &[f32]) {
    let _ = x;
}

fn main() {}
