//! A type that borrows does not cross.
use warpsmith::prelude::*;

#[derive(Clone, Copy, KernelValue)]
struct View<'a> {
    data: &'a [f32],
    start: *const u8,
}

fn main() {}
