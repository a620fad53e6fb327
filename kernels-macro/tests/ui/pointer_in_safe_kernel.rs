//! Raw pointers need an `unsafe fn`.
use warpsmith::prelude::*;

#[kernel]
fn fill(x: *const f32, y: *mut f32) {
    let _ = (x, y);
}

fn main() {}
