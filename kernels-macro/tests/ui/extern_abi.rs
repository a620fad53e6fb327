//! A kernel has no ABI of its own.
use warpsmith::prelude::*;

#[kernel]
extern "C" fn exported(x: &[f32]) {
    let _ = x;
}

fn main() {}
