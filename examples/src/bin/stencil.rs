//! Heat that spreads over a plate: each step replaces every point by a mix of itself and its four neighbours, which a
//! block keeps in shared memory with a rim of one.

use warpsmith::prelude::*;
use warpsmith_examples::{Outcome, equal, median_time, report};

/// Columns and rows of a block's part of the plate.
pub(crate) const TILE: usize = 32;
/// Rows that a thread computes.
pub(crate) const ROWS: usize = 4;
/// Rows of a block.
const BLOCK_ROWS: usize = TILE / ROWS;
/// Columns and rows that a block reads.
const WITH_RIM: usize = TILE + 2;

/// One step: `x` and `y` are planes of one shape; past the edge the plate goes on as at the edge.
#[kernel(block = (TILE as u32, BLOCK_ROWS as u32), contract)]
pub(crate) fn spread(rate: f32, x: &[f32], y: GridSliceMut<f32, Tiles<ROWS>>) {
    let mut y = y;
    let plate = x.plane(y.map().plane().width(), y.map().plane().height());
    let (left, top) = (block_idx().x as i32 * TILE as i32 - 1, block_idx().y as i32 * TILE as i32 - 1);
    let mut tile = shared_array!(Rows<f32, WITH_RIM, WITH_RIM>);
    tile.fill_with(|[row, column]| *plate.clamped(left + column as i32, top + row as i32));
    let tile = tile.sync();
    let column = thread_idx().x as usize + 1;
    for place in tile_idx::<ROWS>().elements() {
        if let Some(y) = y.get_mut(&place) {
            let row = thread_idx().y as usize + place.number() * BLOCK_ROWS + 1;
            let middle = tile.at([row, column]);
            let around = (tile.at([row - 1, column]) + tile.at([row + 1, column]))
                + (tile.at([row, column - 1]) + tile.at([row, column + 1]));
            *y = middle + rate * (around - 4.0 * middle);
        }
    }
}

/// One block for each tile of a plate.
pub(crate) fn config(width: usize, height: usize) -> LaunchConfig {
    let tiles = (width.div_ceil(TILE) as u32, height.div_ceil(TILE) as u32);
    LaunchConfig::new(tiles, (TILE as u32, BLOCK_ROWS as u32))
}

fn main() -> Outcome {
    const WIDTH: usize = 1001;
    const HEIGHT: usize = 701;
    const STEPS: usize = 4;
    // A power of two: its products are exact, so that contraction changes nothing and the host's results are the same.
    const RATE: f32 = 0.125;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;

    let mut plate: Vec<f32> = (0..WIDTH * HEIGHT).map(|i| (i * 7919 % 1024) as f32).collect();
    let mut x = stream.to_device(&plate)?;
    let mut y = stream.zeroed::<f32>(WIDTH * HEIGHT)?;
    for _ in 0..STEPS {
        spread::launch(&stream, config(WIDTH, HEIGHT), RATE, &x, y.plane_mut(WIDTH, HEIGHT)?)?;
        std::mem::swap(&mut x, &mut y);
        let at = |row: usize, column: usize| plate[row.min(HEIGHT - 1) * WIDTH + column.min(WIDTH - 1)];
        plate = (0..WIDTH * HEIGHT)
            .map(|i| (i / WIDTH, i % WIDTH))
            .map(|(row, column)| {
                let middle = at(row, column);
                let around = (at(row.saturating_sub(1), column) + at(row + 1, column))
                    + (at(row, column.saturating_sub(1)) + at(row, column + 1));
                middle + RATE * (around - 4.0 * middle)
            })
            .collect();
    }
    equal("heat", &stream.to_host(&x)?, &plate)?;

    let time = median_time(&stream, 10, || {
        spread::launch(&stream, config(WIDTH, HEIGHT), RATE, &x, y.plane_mut(WIDTH, HEIGHT)?)
    })?;
    report("stencil", time, 2 * WIDTH * HEIGHT * size_of::<f32>());
    Ok(())
}
