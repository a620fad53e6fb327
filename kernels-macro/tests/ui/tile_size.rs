//! A tile's size is a power of two up to 32, and a part is no larger than its tile.
use warpsmith::prelude::*;

#[kernel]
fn of_a_size_that_is_none(mut output: GridSliceMut<u32>) {
    let tile = this_thread_block().tiled_partition::<12>();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = tile.reduce_add(1);
    }
}

fn main() {}
