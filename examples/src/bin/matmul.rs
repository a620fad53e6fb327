//! `C = A * B` with tiles in shared memory, for sizes that are no multiple of the tile.

use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_examples::{Outcome, equal, median_time, report_operations};

/// Rows and columns of a tile, and of a block.
const TILE: usize = 16;

/// `a: [rows, inner]`, `b: [inner, columns]`, both row-major; `c` is a plane of `rows` by `columns`.
#[kernel(block = (TILE as u32, TILE as u32))]
fn matmul(a: &[f32], b: &[f32], mut c: GridSliceMut<f32, Plane>, inner: usize) {
    let a_tile = shared!([f32; TILE * TILE]).cast::<f32>();
    let b_tile = shared!([f32; TILE * TILE]).cast::<f32>();
    let (x, y) = (thread_idx().x as usize, thread_idx().y as usize);
    let place = global_idx_2d();
    let (column, row) = (place.x(), place.y());
    let (columns, rows) = (c.map().width(), c.map().height());

    let mut total = 0.0;
    for start in (0..inner).step_by(TILE) {
        let own = y * TILE + x;
        let a_value = if row < rows && start + x < inner { a[row * inner + start + x] } else { 0.0 };
        let b_value = if start + y < inner && column < columns { b[(start + y) * columns + column] } else { 0.0 };
        // SAFETY: `own` is below TILE * TILE and different in each thread; the last reads ended at the barrier below.
        unsafe {
            a_tile.add(own).write(a_value);
            b_tile.add(own).write(b_value);
        }
        sync_threads();
        for k in 0..TILE.min(inner - start) {
            // SAFETY: all of both tiles was written before the barrier, and nobody writes until the next.
            total += unsafe { a_tile.add(y * TILE + k).read() * b_tile.add(k * TILE + x).read() };
        }
        sync_threads();
    }
    if let Some(c) = c.get_mut(&place) {
        *c = total;
    }
}

fn main() -> Outcome {
    const ROWS: usize = 301;
    const INNER: usize = 257;
    const COLUMNS: usize = 413;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;

    let a: Vec<f32> = (0..ROWS * INNER).map(|i| (i % 17) as f32 / 3.0 - 2.0).collect();
    let b: Vec<f32> = (0..INNER * COLUMNS).map(|i| (i % 23) as f32 / 7.0 - 1.5).collect();
    let device_a = stream.to_device(&a)?;
    let device_b = stream.to_device(&b)?;
    let mut device_c = stream.zeroed::<f32>(ROWS * COLUMNS)?;
    let tile = TILE as u32;
    let grid = (COLUMNS.div_ceil(TILE) as u32, ROWS.div_ceil(TILE) as u32);
    let config = LaunchConfig::new(grid, (tile, tile));
    matmul::launch(&stream, config, &device_a, &device_b, device_c.plane_mut(COLUMNS, ROWS)?, INNER)?;
    let c = stream.to_host(&device_c)?;

    // The same additions in the same order, and no contraction on either side: the results are equal to the last bit.
    let mut expected = vec![0.0f32; ROWS * COLUMNS];
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            expected[row * COLUMNS + column] =
                (0..INNER).map(|k| a[row * INNER + k] * b[k * COLUMNS + column]).fold(0.0, |sum, v| sum + v);
        }
    }
    equal("matmul", &c, &expected)?;

    let time = median_time(&stream, 5, || {
        matmul::launch(&stream, config, &device_a, &device_b, device_c.plane_mut(COLUMNS, ROWS)?, INNER)
    })?;
    report_operations("matmul", time, 2 * ROWS * INNER * COLUMNS, "float operations");
    Ok(())
}
