//! What rustc says about the end of a block points at the block's end, in a kernel as elsewhere.
use warpsmith::prelude::*;

#[kernel]
fn fill(x: &[f32]) {
    let longer;
    {
        let value = x[0];
        longer = &value;
    }
    let _ = longer;
}

fn main() {}
