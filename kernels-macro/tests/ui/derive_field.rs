//! Every field is plain data itself.
use warpsmith::prelude::*;

#[derive(Clone, Copy)]
struct Inner(f32);

#[derive(Clone, Copy, KernelValue)]
struct Outer {
    count: u32,
    inner: Inner,
}

#[derive(Clone, Copy, KernelValue)]
enum Choice {
    Nothing,
    Inner { inner: Inner },
}

fn main() {}
