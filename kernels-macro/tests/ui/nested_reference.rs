//! References are parameters of their own.
use warpsmith::prelude::*;

#[kernel]
fn pairs(x: (&[f32], u32), y: Option<&f32>, z: [&u8; 2], w: &[&f32]) {
    let _ = (x, y, z, w);
}

fn main() {}
