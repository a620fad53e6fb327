//! What moves between lanes is a struct of such, or an enum without data.
use warpsmith::prelude::*;

#[derive(Clone, Copy)]
struct Inner(f32);

#[derive(Clone, Copy, WarpValue)]
struct Outer {
    count: u32,
    inner: Inner,
}

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
