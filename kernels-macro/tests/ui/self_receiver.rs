//! A kernel is no method.
use warpsmith::prelude::*;

struct Scale(f32);

#[kernel]
fn apply(&self, x: &[f32]) {}

fn main() {}
