//! A kernel has a body.
use warpsmith::prelude::*;

#[kernel]
fn declared(x: &[f32]);

fn main() {}
