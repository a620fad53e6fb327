//! The format is a literal.
use warpsmith::prelude::*;

const FORMAT: &str = "{}";

#[kernel]
fn show(x: f32) {
    gpu_println!(FORMAT, x);
    gpu_println!(concat!("{", "}"), x);
    gpu_print!(x);
    gpu_dbg!(x,,);
}

fn main() {}
