//! `#[kernel]` stands once.
use warpsmith::prelude::*;

#[kernel(contract)]
#[kernel(block = 32)]
fn fill(x: &[f32]) {
    let _ = x;
}

fn main() {}
