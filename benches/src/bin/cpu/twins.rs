//! The same work as one would write it for rayon.

use rayon::prelude::*;

use crate::kernels::{CHUNK, steps};

/// Elements of a task.
const TASK: usize = 1 << 14;

pub(crate) fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
    y.par_chunks_mut(TASK).zip(x.par_chunks(TASK)).for_each(|(y, x)| {
        for (y, x) in y.iter_mut().zip(x) {
            *y += a * x;
        }
    });
}

pub(crate) fn stencil(x: &[f32], y: &mut [f32], width: usize) {
    let height = x.len() / width;
    y.par_chunks_mut(width).enumerate().for_each(|(row, y)| {
        if row == 0 || row + 1 == height {
            return;
        }
        let line = |row: usize| &x[row * width..(row + 1) * width];
        let (above, own, below) = (line(row - 1), line(row), line(row + 1));
        for column in 1..width - 1 {
            y[column] = 0.25 * ((above[column] + below[column]) + (own[column - 1] + own[column + 1]));
        }
    });
}

pub(crate) fn rimmed_stencil(x: &[f32], y: &mut [f32], width: usize) {
    y.par_chunks_mut(width).enumerate().for_each(|(row, y)| {
        let line = |row: usize| &x[row * (width + 2)..(row + 1) * (width + 2)];
        let (above, own, below) = (line(row), line(row + 1), line(row + 2));
        for (column, y) in y.iter_mut().enumerate() {
            *y = 0.25 * ((above[column + 1] + below[column + 1]) + (own[column] + own[column + 2]));
        }
    });
}

pub(crate) fn mandelbrot(counts: &mut [u32], size: usize) {
    counts.par_chunks_mut(size).enumerate().for_each(|(row, counts)| {
        for (column, count) in counts.iter_mut().enumerate() {
            *count = steps(column, row, size);
        }
    });
}

pub(crate) fn chunk_sums(x: &[f32], sums: &mut [f32]) {
    sums.par_iter_mut().zip(x.par_chunks(CHUNK)).for_each(|(sum, x)| *sum = x.iter().sum());
}
