//! An output names its element type.
use warpsmith::prelude::*;

#[kernel]
fn fill(y: GridSliceMut) {
    let _ = y;
}

fn main() {}
