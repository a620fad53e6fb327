//! Hints stand on loops, one on each, with a number of copies where they take one.
use warpsmith::prelude::*;

#[kernel]
fn fill(x: &[f32]) {
    #[unroll]
    let y = x[0];
    #[unroll]
    #[no_unroll]
    for _ in x {}
    #[no_unroll(3)]
    while y > 0.0 {}
    #[unroll(0)]
    'a: loop {
        break 'a;
    }
    #[unroll("all")]
    for _ in x {}
    #[unroll(2, 3)]
    for _ in x {}
}

#[loops(4)]
fn helper() {}

fn main() {
    helper();
}
