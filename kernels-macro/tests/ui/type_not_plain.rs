//! A struct needs the derive.
use warpsmith::prelude::*;

#[derive(Clone, Copy)]
struct Particle {
    mass: f32,
}

#[kernel]
fn advance(p: Particle, dt: f32) {
    let _ = (p.mass, dt);
}

fn main() {}
