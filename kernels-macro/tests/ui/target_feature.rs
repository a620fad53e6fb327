//! CPU features mean nothing to a GPU.
use warpsmith::prelude::*;

#[kernel]
#[target_feature(enable = "avx2")]
fn fill(x: &[f32]) {
    let _ = x;
}

fn main() {}
