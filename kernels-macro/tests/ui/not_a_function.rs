//! `#[kernel]` goes on a function.
use warpsmith::prelude::*;

#[kernel]
struct Saxpy {
    a: f32,
}

fn main() {}
