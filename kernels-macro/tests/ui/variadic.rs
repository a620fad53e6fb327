//! A kernel has a fixed number of parameters.
use warpsmith::prelude::*;

#[kernel]
unsafe extern "C" fn many(first: u32, ...) {
    let _ = first;
}

fn main() {}
