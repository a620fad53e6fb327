//! A kernel is not `async`.
use warpsmith::prelude::*;

#[kernel]
async fn later(x: &[f32]) {
    let _ = x;
}

fn main() {}
