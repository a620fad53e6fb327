//! Parameters are unconditional.
use warpsmith::prelude::*;

#[kernel]
fn fill(#[cfg(debug_assertions)] checked: bool, x: &[f32]) {
    let _ = x;
}

fn main() {}
