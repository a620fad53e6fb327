//! What is measured: kernels as one would write them for a GPU.

use warpsmith::prelude::*;

/// Threads of a block.
pub(crate) const BLOCK: u32 = 256;
/// Elements that a thread of [`chunk_sums`] adds up.
pub(crate) const CHUNK: usize = 4096;
/// Steps after which a point of [`mandelbrot`] counts as inside.
pub(crate) const LIMIT: u32 = 200;
/// Barriers of [`barrier_sums`]: one after the own value, and one a halving.
pub(crate) const BARRIERS: u32 = 1 + BLOCK.ilog2();

/// `y += a * x`.
#[kernel]
pub(crate) fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y += a * x[i.get()];
    }
}

/// `z = x + y`.
#[kernel]
pub(crate) fn add(x: &[f32], y: &[f32], mut z: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(z) = z.get_mut(&i) {
        *z = x[i.get()] + y[i.get()];
    }
}

/// The mean of a point's four neighbours; the rim stays.
#[kernel]
pub(crate) fn stencil(x: &[f32], mut y: GridSliceMut<f32, Plane>) {
    let place = global_idx_2d();
    let (width, height) = (y.map().width(), y.map().height());
    let (column, row) = (place.x(), place.y());
    if column == 0 || row == 0 || column + 1 >= width || row + 1 >= height {
        return;
    }
    if let Some(y) = y.get_mut(&place) {
        let at = row * width + column;
        *y = 0.25 * ((x[at - width] + x[at + width]) + (x[at - 1] + x[at + 1]));
    }
}

/// The same, where the input has a rim of one element around it that the output lacks, so that every thread does the same.
#[kernel]
pub(crate) fn rimmed_stencil(x: &[f32], mut y: GridSliceMut<f32, Plane>) {
    let place = global_idx_2d();
    let width = y.map().width() + 2;
    let line = |row: usize| &x[row * width..(row + 1) * width];
    let (column, row) = (place.x(), place.y());
    if let Some(y) = y.get_mut(&place) {
        let (above, own, below) = (line(row), line(row + 1), line(row + 2));
        *y = 0.25 * ((above[column + 1] + below[column + 1]) + (own[column] + own[column + 2]));
    }
}

/// Steps until the point leaves the circle of radius 2, at most [`LIMIT`].
pub(crate) fn steps(column: usize, row: usize, size: usize) -> u32 {
    let pixel = 3.0 / size as f64;
    let (re, im) = (column as f64 * pixel - 2.25, 1.5 - row as f64 * pixel);
    let (mut x, mut y) = (0.0, 0.0);
    (0..LIMIT)
        .find(|_| {
            (x, y) = (x * x - y * y + re, 2.0 * x * y + im);
            x * x + y * y > 4.0
        })
        .unwrap_or(LIMIT)
}

/// One pixel a thread.
#[kernel]
pub(crate) fn mandelbrot(mut counts: GridSliceMut<u32, Plane>) {
    let (place, size) = (global_idx_2d(), counts.map().width());
    if let Some(count) = counts.get_mut(&place) {
        *count = steps(place.x(), place.y(), size);
    }
}

/// Each thread adds up the elements of its own chunk.
#[kernel]
pub(crate) fn chunk_sums(x: &[f32], mut sums: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(sum) = sums.get_mut(&i) {
        let start = i.get() * CHUNK;
        *sum = x[start..x.len().min(start + CHUNK)].iter().sum();
    }
}

/// Each thread adds up elements that are as far apart as the grid has threads.
#[kernel]
pub(crate) fn stride_sums(x: &[f32], mut sums: GridSliceMut<f32>) {
    let i = global_idx();
    let mut total = 0.0;
    for i in grid_stride(x.len()) {
        total += x[i.get()];
    }
    if let Some(sum) = sums.get_mut(&i) {
        *sum = total;
    }
}

/// One sum a block, by halves in shared memory.
#[kernel(block = BLOCK)]
pub(crate) fn barrier_sums(x: &[f32], mut sums: GridSliceMut<f32, PerBlock>) {
    let mut slots = shared_array!([f32; BLOCK as usize]);
    slots.put(x[global_idx().get()]);
    let mut slots = slots.sync();
    let thread = slot_idx().get();
    let mut half = BLOCK as usize / 2;
    while half > 0 {
        let sum = (thread < half).then(|| slots.at(thread) + slots.at(thread + half));
        let mut next = slots.without_sync();
        if let Some(sum) = sum {
            next.put(sum);
        }
        slots = next.sync();
        half /= 2;
    }
    if let Some(leader) = block_leader()
        && let Some(sum) = sums.get_mut(&leader)
    {
        *sum = slots.at(0);
    }
}

/// One sum a warp, by five shuffles.
#[kernel(block = BLOCK)]
pub(crate) fn shuffle_sums(x: &[f32], mut sums: GridSliceMut<f32>) {
    let i = global_idx();
    let mut sum = x[i.get()];
    for distance in [16, 8, 4, 2, 1] {
        sum += shfl_down(u32::MAX, sum, distance);
    }
    if let Some(out) = sums.get_mut(&i) {
        *out = sum;
    }
}
