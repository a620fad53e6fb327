//! What crosses is `Copy`.
use warpsmith::prelude::*;

#[derive(Clone, KernelValue)]
struct Particle {
    mass: f32,
}

fn main() {}
