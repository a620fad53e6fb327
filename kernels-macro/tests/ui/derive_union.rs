//! A union is no plain data.
use warpsmith::prelude::*;

#[derive(Clone, Copy, KernelValue)]
union Bits {
    float: f32,
    bits: u32,
}

fn main() {}
