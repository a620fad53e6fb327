//! A raw pointer is a parameter of its own.
use warpsmith::prelude::*;

#[kernel]
unsafe fn fill(y: (*mut f32, usize)) {
    let _ = y;
}

fn main() {}
