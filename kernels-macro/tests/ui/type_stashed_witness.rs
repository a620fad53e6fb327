//! A witness stays in its thread's run.
use warpsmith::prelude::*;

static STASH: std::sync::Mutex<Option<GlobalIdx>> = std::sync::Mutex::new(None);

#[kernel]
fn fill(mut y: GridSliceMut<f32>) {
    let mine = global_idx();
    let copy = mine;
    let _ = (y.get_mut(&mine), copy);
}

fn main() {}
