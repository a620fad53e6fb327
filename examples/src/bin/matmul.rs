//! `C = A * B` with tiles in shared memory: a plain form for every size, and a fast one in which each thread computes 64
//! elements out of registers.

use std::array;

use warpsmith::prelude::*;
use warpsmith_examples::{Outcome, equal, median_time, report_operations};

/// Rows and columns of a tile, and of a block, of the plain form.
const TILE: usize = 16;

/// `a: [rows, inner]`, `b: [inner, columns]`, both row-major; `c` is a plane of `rows` by `columns`.
#[kernel(block = (TILE as u32, TILE as u32))]
fn matmul(a: &[f32], b: &[f32], mut c: GridSliceMut<f32, Plane>, inner: usize) {
    let mut a_tile = shared_array!(Rows<f32, TILE, TILE>);
    let mut b_tile = shared_array!(Rows<f32, TILE, TILE>);
    let (x, y) = (thread_idx().x as usize, thread_idx().y as usize);
    let place = global_idx_2d();
    let (column, row) = (place.x(), place.y());
    let (columns, rows) = (c.map().width(), c.map().height());

    let mut total = 0.0;
    for start in (0..inner).step_by(TILE) {
        a_tile.put(if row < rows && start + x < inner { a[row * inner + start + x] } else { 0.0 });
        b_tile.put(if start + y < inner && column < columns { b[(start + y) * columns + column] } else { 0.0 });
        // One barrier serves both tiles.
        let (a_lines, b_lines) = (a_tile.sync(), b_tile.without_sync());
        for k in 0..TILE.min(inner - start) {
            total += a_lines.at([y, k]) * b_lines.at([k, x]);
        }
        (a_tile, b_tile) = (a_lines.sync(), b_lines.without_sync());
    }
    if let Some(c) = c.get_mut(&place) {
        *c = total;
    }
}

/// Rows and columns of a block's part of the product.
pub(crate) const PART: usize = 128;
/// Columns of `A` and rows of `B` in a step.
pub(crate) const DEPTH: usize = 16;
/// Rows and columns of a thread's part of the product.
const PATCH: usize = 8;
/// Rows and columns of a block's threads.
pub(crate) const SIDE: u32 = (PART / PATCH) as u32;
/// Threads of a block.
const THREADS: usize = (SIDE * SIDE) as usize;

/// `C = A * B` as [`matmul`], in vectors of four along rows: rows and columns are multiples of [`PART`], `inner` is one of
/// [`DEPTH`]. Products are fused with the additions.
#[expect(clippy::needless_range_loop, reason = "with an iterator over it, an array stays in memory")]
#[kernel(block = (SIDE, SIDE))]
pub(crate) fn matmul_by_patches(
    a: &[F32x4],
    b: &[F32x4],
    mut c: GridSliceMut<F32x4, Patches<PATCH, { PATCH / 4 }>>,
    columns: usize,
    inner: usize,
) {
    let mut a_tile = shared_array!(Rows<f32, DEPTH, PART>);
    let mut b_tile = shared_array!(Rows<f32, DEPTH, PART>);
    let thread = slot_idx().get();
    let (row, column) = (block_idx().y as usize * PART, block_idx().x as usize * PART);
    let (patch_row, patch_column) = (thread / SIDE as usize * PATCH, thread % SIDE as usize * PATCH);
    // Which vectors of both operands the thread brings in each step: bounds are checked here, for all steps.
    let steps = inner / DEPTH;
    let parts = [thread, thread + THREADS];
    let from_a = parts.map(|id| a.strided::<1>(((row + id / 4) * inner + id % 4 * 4) / 4, DEPTH / 4, steps));
    let from_b =
        parts.map(|id| b.strided::<1>((id / 32 * columns + column + id % 32 * 4) / 4, DEPTH * columns / 4, steps));

    let mut total = [[0.0f32; PATCH]; PATCH];
    for step in 0..steps {
        let a_fours = from_a.map(|part| part.at(step)[0].0);
        let b_fours = from_b.map(|part| part.at(step)[0].0);
        for part in 0..parts.len() {
            let id = parts[part];
            for j in 0..4 {
                a_tile.scatter([id % 4 * 4 + j, id / 4], a_fours[part][j]);
            }
            b_tile.scatter_run([id / 32, id % 32 * 4], b_fours[part]);
        }
        let (a_lines, b_lines) = (a_tile.sync(), b_tile.without_sync());
        for k in 0..DEPTH {
            let left: [f32; PATCH] = a_lines.run([k, patch_row]);
            let right: [f32; PATCH] = b_lines.run([k, patch_column]);
            for i in 0..PATCH {
                for j in 0..PATCH {
                    total[i][j] = left[i].mul_add(right[j], total[i][j]);
                }
            }
        }
        (a_tile, b_tile) = (a_lines.sync(), b_lines.without_sync());
    }
    let own = patch_idx();
    for (i, line) in total.iter().enumerate() {
        if let Some(place) = c.row_mut(&own, i) {
            *place = array::from_fn(|j| F32x4(array::from_fn(|lane| line[4 * j + lane])));
        }
    }
}

/// The product on the host, with the operations and the order of the kernels.
fn expected(a: &[f32], b: &[f32], [rows, inner, columns]: [usize; 3], step: impl Fn(f32, f32, f32) -> f32) -> Vec<f32> {
    let mut c = vec![0.0f32; rows * columns];
    for row in 0..rows {
        for k in 0..inner {
            for column in 0..columns {
                let total = &mut c[row * columns + column];
                *total = step(a[row * inner + k], b[k * columns + column], *total);
            }
        }
    }
    c
}

fn main() -> Outcome {
    const ROWS: usize = 301;
    const INNER: usize = 257;
    const COLUMNS: usize = 413;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;
    let operand =
        |len: usize, period: usize| -> Vec<f32> { (0..len).map(|i| (i % period) as f32 / 3.0 - 2.0).collect() };

    let (a, b) = (operand(ROWS * INNER, 17), operand(INNER * COLUMNS, 23));
    let (device_a, device_b) = (stream.to_device(&a)?, stream.to_device(&b)?);
    let mut device_c = stream.zeroed::<f32>(ROWS * COLUMNS)?;
    let grid = (COLUMNS.div_ceil(TILE) as u32, ROWS.div_ceil(TILE) as u32);
    let config = LaunchConfig::new(grid, (TILE as u32, TILE as u32));
    matmul::launch(&stream, config, &device_a, &device_b, device_c.plane_mut(COLUMNS, ROWS)?, INNER)?;
    // The same additions in the same order, and no contraction on either side: the results are equal to the last bit.
    let host = expected(&a, &b, [ROWS, INNER, COLUMNS], |a, b, total| total + a * b);
    equal("matmul", &stream.to_host(&device_c)?, &host)?;

    const LARGE: [usize; 3] = [2 * PART, 5 * DEPTH, 3 * PART];
    let [rows, inner, columns] = LARGE;
    let (a, b) = (operand(rows * inner, 19), operand(inner * columns, 29));
    let fours =
        |values: &[f32]| -> Vec<F32x4> { values.chunks_exact(4).map(|v| F32x4([v[0], v[1], v[2], v[3]])).collect() };
    let (device_a, device_b) = (stream.to_device(&fours(&a))?, stream.to_device(&fours(&b))?);
    let mut device_c = stream.zeroed::<F32x4>(rows * columns / 4)?;
    let config = LaunchConfig::new(((columns / PART) as u32, (rows / PART) as u32), (SIDE, SIDE));
    let view = device_c.plane_mut(columns / 4, rows)?;
    matmul_by_patches::launch(&stream, config, &device_a, &device_b, view, columns, inner)?;
    let results: Vec<f32> = stream.to_host(&device_c)?.into_iter().flat_map(|four| four.0).collect();
    equal("matmul by patches", &results, &expected(&a, &b, LARGE, f32::mul_add))?;

    let time = median_time(&stream, 5, || {
        let view = device_c.plane_mut(columns / 4, rows)?;
        matmul_by_patches::launch(&stream, config, &device_a, &device_b, view, columns, inner)
    })?;
    report_operations("matmul by patches", time, 2 * rows * inner * columns, "float operations");
    Ok(())
}
