//! A `&mut T` would have as many holders as the grid has threads.
use warpsmith::prelude::*;

#[kernel]
fn count(n: &mut u32) {
    *n += 1;
}

fn main() {}
