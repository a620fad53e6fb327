//! A type of which every bit pattern is a value has no padding.
use warpsmith::prelude::*;

#[derive(Clone, Copy, KernelValue, AnyBits)]
struct Padded {
    number: u32,
    small: u8,
}

#[derive(Clone, Copy, KernelValue, AnyBits)]
struct Generic<T>(T);

#[derive(Clone, Copy, KernelValue, AnyBits)]
enum Choice {
    One,
    Two,
}

fn main() {}
