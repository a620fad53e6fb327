//! A slice crosses by reference.
use warpsmith::prelude::*;

#[kernel]
fn sum(x: [f32]) {}

fn main() {}
