//! An associated function cannot be a kernel.
use warpsmith::prelude::*;

struct Scale(f32);

impl Scale {
    #[kernel]
    fn apply(x: &[f32]) {
        let _ = x;
    }
}

fn main() {}
