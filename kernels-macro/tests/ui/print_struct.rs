//! A struct is printed field by field.
use warpsmith::prelude::*;

#[derive(Clone, Copy, Debug, KernelValue)]
struct Particle {
    mass: f32,
}

#[kernel]
fn show(p: Particle, x: f32) {
    gpu_println!("{x}");
    gpu_println!("{:?} at {x}", p);
    gpu_println!("{p:?}");
}

fn main() {}
