//! Every problem is reported, and callers bring no further ones.
use warpsmith::prelude::*;

#[kernel(threads = 7, unchecked)]
pub async fn wrong(x: &mut [f32], y: String, z: impl Clone) -> u32 {
    let _ = (x, y, z);
    0
}

fn call(stream: &Stream, config: LaunchConfig) -> warpsmith::Result<()> {
    wrong::launch(stream, config, 1, 2, 3)
}

fn main() {}
