//! Trait objects hold addresses of the host.
use warpsmith::prelude::*;

#[kernel]
fn apply(f: &dyn Fn(f32) -> f32, g: Box<dyn Fn(f32) -> f32>) {
    let _ = (f, g);
}

fn main() {}
