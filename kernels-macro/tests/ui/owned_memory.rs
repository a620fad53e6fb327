//! Owners of host memory do not cross.
use warpsmith::prelude::*;

#[kernel]
fn take(a: Vec<f32>, b: Box<f32>, c: Box<[u8]>, d: (u32, std::sync::Arc<u64>)) {
    let _ = (a, b, c, d);
}

fn main() {}
