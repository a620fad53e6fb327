//! A kernel returns nothing.
use warpsmith::prelude::*;

#[kernel]
fn sum(x: &[f32]) -> f32 {
    x.iter().sum()
}

fn main() {}
