//! Transposes a matrix by tiles in shared memory, so that both reads and writes go along rows.

use warpsmith::prelude::*;
use warpsmith_examples::{Outcome, equal, median_time, report};

/// Rows and columns of a tile.
pub(crate) const TILE: usize = 32;
/// Rows of a tile that a thread moves.
pub(crate) const ROWS: usize = 4;
/// Rows of a block.
const BLOCK_ROWS: usize = TILE / ROWS;

/// `x: [height, width]`, row-major; `y` is the plane of `width` rows of `height`.
#[kernel(block = (TILE as u32, BLOCK_ROWS as u32))]
pub(crate) fn transpose(x: &[f32], y: GridSliceMut<f32, TransposedTiles<ROWS>>) {
    let mut y = y;
    let (width, height) = (y.map().plane().height(), y.map().plane().width());
    // The padding puts the slots of a column into different banks.
    let mut tile = shared_array!(PaddedRows<f32, TILE, TILE>);
    for place in tile_idx::<ROWS>().elements() {
        if place.x() < width && place.y() < height {
            tile.put_at(&slot_idx().round(place.number()), x[place.y() * width + place.x()]);
        }
    }
    let tile = tile.sync();
    let (column, row) = (thread_idx().x as usize, thread_idx().y as usize);
    for place in transposed_tile_idx::<ROWS>().elements() {
        if let Some(y) = y.get_mut(&place) {
            *y = tile.at([column, row + place.number() * BLOCK_ROWS]);
        }
    }
}

/// One block for each tile of a matrix.
pub(crate) fn config(width: usize, height: usize) -> LaunchConfig {
    let tiles = (width.div_ceil(TILE) as u32, height.div_ceil(TILE) as u32);
    LaunchConfig::new(tiles, (TILE as u32, BLOCK_ROWS as u32))
}

fn main() -> Outcome {
    const WIDTH: usize = 1999;
    const HEIGHT: usize = 1001;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;

    let matrix: Vec<f32> = (0..WIDTH * HEIGHT).map(|i| i as f32).collect();
    let x = stream.to_device(&matrix)?;
    let mut y = stream.zeroed::<f32>(WIDTH * HEIGHT)?;
    transpose::launch(&stream, config(WIDTH, HEIGHT), &x, y.plane_mut(HEIGHT, WIDTH)?)?;
    let expected: Vec<f32> = (0..WIDTH * HEIGHT).map(|i| matrix[i % HEIGHT * WIDTH + i / HEIGHT]).collect();
    equal("transpose", &stream.to_host(&y)?, &expected)?;

    let time = median_time(&stream, 10, || {
        transpose::launch(&stream, config(WIDTH, HEIGHT), &x, y.plane_mut(HEIGHT, WIDTH)?)
    })?;
    report("transpose", time, 2 * WIDTH * HEIGHT * size_of::<f32>());
    Ok(())
}
