//! The benchmarks' kernels in Rust; cuda/kernels.cu has the same in CUDA C++.

use std::array;

use warpsmith::prelude::*;
use warpsmith::shared;

/// `y = a * x + y`. One rounding for both operations, as nvcc has it.
#[kernel(contract)]
pub(crate) fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y += a * x[i.get()];
    }
}

fn warp_sum(mut value: f32) -> f32 {
    let mut distance = WARP_SIZE / 2;
    while distance > 0 {
        value += shfl_xor(FULL_MASK, value, distance);
        distance /= 2;
    }
    value
}

fn block_sum(value: f32) -> f32 {
    let slots = shared!([f32; WARP_SIZE as usize]).cast::<f32>();
    let value = warp_sum(value);
    if lane_id() == 0 {
        // SAFETY: a block has at most 32 warps, and each writes its own slot.
        unsafe { slots.add(warp_id() as usize).write(value) };
    }
    sync_threads();
    // SAFETY: only slots of warps that exist are read, and those were written before the barrier.
    warp_sum(if lane_id() < block_dim().x / WARP_SIZE { unsafe { slots.add(lane_id() as usize).read() } } else { 0.0 })
}

/// The first thread of each block writes its block's sum to its own element of `partial`.
#[kernel]
pub(crate) fn sum(x: &[F32x4], mut partial: GridSliceMut<f32>) {
    let mut total = 0.0;
    for i in grid_stride(x.len()) {
        let F32x4([a, b, c, d]) = x[i.get()];
        total += (a + b) + (c + d);
    }
    let total = block_sum(total);
    if thread_idx().x == 0
        && let Some(partial) = partial.get_mut(&global_idx())
    {
        *partial = total;
    }
}

/// A map of transcendental functions.
#[kernel(contract)]
pub(crate) fn map(x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let v = x[i.get()];
        *y = (v.sin() * v.cos()).exp() + (v.abs() + 1.0).ln() + (v * v * v).tanh();
    }
}

/// Where each element of a volume lies: two divisions of a 64-bit index.
#[kernel]
pub(crate) fn places(width: usize, height: usize, mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let (row, column) = (i.get() / width, i.get() % width);
        *y = (column ^ (row % height) << 8 ^ (row / height) << 16) as u32;
    }
}

/// As [`places`], in 32 bits.
#[kernel]
pub(crate) fn places_u32(width: u32, height: u32, mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let (row, column) = (i.get() as u32 / width, i.get() as u32 % width);
        *y = column ^ (row % height) << 8 ^ (row / height) << 16;
    }
}

/// Rows and columns of a block's part of the product.
pub(crate) const TILE: usize = 128;
/// Columns of `A` and rows of `B` in a step.
const DEPTH: usize = 16;
/// Rows and columns of a thread's part of the product.
const PATCH: usize = 8;
/// Threads of a block.
pub(crate) const THREADS: u32 = 256;

/// A block's part of one operand, `DEPTH` lines of `TILE` numbers.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Tile([[f32; TILE]; DEPTH]);

macro_rules! sgemm {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        ///
        /// `a` is `[rows, inner]`, `b` is `[inner, columns]`, `c` is `[rows, columns]`, all in fours along rows and all
        /// multiples of the tile.
        ///
        /// # Safety
        /// `c` is to `c_len` elements that nothing else uses during the launch.
        pub(crate) unsafe fn $name(a: &[F32x4], b: &[F32x4], c: *mut F32x4, c_len: usize, columns: usize, inner: usize) {
            // SAFETY: the caller answers for the memory; each thread writes its own patch of it.
            let c = unsafe { std::slice::from_raw_parts_mut(c, c_len) };
            let a_tile = shared!(Tile);
            let b_tile = shared!(Tile);
            let thread = thread_idx().x as usize;
            let (row, column) = (block_idx().y as usize * TILE, block_idx().x as usize * TILE);
            let (patch_row, patch_column) = (thread / 16 * PATCH, thread % 16 * PATCH);
            let mut total = [[0.0f32; PATCH]; PATCH];
            let mut start = 0;
            while start < inner {
                // SAFETY: between the barriers each thread writes its own slots, and nobody reads.
                let (a_lines, b_lines) = unsafe { (&mut (*a_tile).0, &mut (*b_tile).0) };
                // All loads first: a check that may panic keeps what follows it behind what precedes it.
                let a_fours: [F32x4; 2] = array::from_fn(|part| {
                    let id = thread + part * THREADS as usize;
                    a[((row + id / 4) * inner + start + id % 4 * 4) / 4]
                });
                let b_fours: [F32x4; 2] = array::from_fn(|part| {
                    let id = thread + part * THREADS as usize;
                    b[((start + id / 32) * columns + column + id % 32 * 4) / 4]
                });
                for part in 0..2 {
                    let id = thread + part * THREADS as usize;
                    for j in 0..4 {
                        a_lines[id % 4 * 4 + j][id / 4] = a_fours[part].0[j];
                    }
                    let q = id % 32 * 4;
                    b_lines[id / 32][q..q + 4].copy_from_slice(&b_fours[part].0);
                }
                sync_threads();
                // SAFETY: all was written before the barrier, and nobody writes until the next.
                let (a_lines, b_lines) = unsafe { (&(*a_tile).0, &(*b_tile).0) };
                for k in 0..DEPTH {
                    let left: [f32; PATCH] = array::from_fn(|i| a_lines[k][patch_row + i]);
                    let right: [f32; PATCH] = array::from_fn(|j| b_lines[k][patch_column + j]);
                    for i in 0..PATCH {
                        for j in 0..PATCH {
                            total[i][j] = left[i].mul_add(right[j], total[i][j]);
                        }
                    }
                }
                sync_threads();
                start += DEPTH;
            }
            for (i, line) in total.iter().enumerate() {
                let first = ((row + patch_row + i) * columns + column + patch_column) / 4;
                for j in 0..PATCH / 4 {
                    c[first + j] = F32x4(array::from_fn(|q| line[4 * j + q]));
                }
            }
        }
    };
}

sgemm! {
    /// `C = A * B` with every access checked.
    #[kernel(block = THREADS)]
    sgemm_checked
}
sgemm! {
    /// `C = A * B` without checks.
    #[kernel(block = THREADS, unchecked)]
    sgemm_unchecked
}
