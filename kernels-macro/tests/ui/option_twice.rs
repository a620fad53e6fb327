//! An option is given once.
use warpsmith::prelude::*;

#[kernel(contract, block = 32, contract, block = 64)]
fn fill(x: &[f32]) {
    let _ = x;
}

fn main() {}
