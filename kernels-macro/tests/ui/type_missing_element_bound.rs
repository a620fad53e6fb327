//! A generic element needs a bound.
use warpsmith::prelude::*;

#[kernel]
fn first<T>(x: &[T]) {
    let _ = x;
}

fn main() {}
