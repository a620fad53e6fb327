//! `unchecked` needs an `unsafe fn`.
use warpsmith::prelude::*;

#[kernel(unchecked)]
fn fill(x: &[f32]) {
    let _ = x;
}

fn main() {}
