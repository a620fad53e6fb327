//! A kernel is not `const`.
use warpsmith::prelude::*;

#[kernel]
const fn constant(x: &[f32]) {
    let _ = x;
}

fn main() {}
