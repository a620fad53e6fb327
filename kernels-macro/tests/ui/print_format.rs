//! A format that the value's type does not have, and formats that are none.
use warpsmith::prelude::*;

#[kernel]
fn show(x: f32, n: u32) {
    gpu_println!("{x:x}");
    gpu_println!("{} {}", x);
    gpu_println!("{}", x, n);
    gpu_println!("{");
    gpu_println!("{missing}");
    gpu_println!("{x:1$}", n, n);
    gpu_println!("{:p}", n);
}

fn main() {}
