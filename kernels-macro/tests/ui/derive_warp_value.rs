//! What moves between lanes by a derive is a struct, or an enum without data.
use warpsmith::prelude::*;

#[derive(Clone, Copy, WarpValue)]
enum Choice {
    Nothing,
    Number(u32),
}

#[derive(Clone, Copy, WarpValue)]
union Bits {
    float: f32,
    bits: u32,
}

#[derive(Clone, Copy, WarpValue)]
enum Never {}

fn main() {}
