//! A generic value needs a bound.
use warpsmith::prelude::*;

#[kernel]
fn fill<T: Copy>(value: T) {
    let _ = value;
}

fn main() {}
