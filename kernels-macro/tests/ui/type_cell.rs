//! Unsynchronised interior mutability would be a race.
use warpsmith::prelude::*;

#[kernel]
fn count(n: &[std::cell::Cell<u32>]) {
    n[0].set(1);
}

fn main() {}
