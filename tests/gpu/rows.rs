//! Kernels that the CPU executor runs as loops over rows of threads, and rows of neighbouring blocks as one: the answers depend on
//! neither. Shapes are drawn, so that memory ends before, at and after the grid's end, in and between blocks.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, random};

/// A grid, its blocks, and how many elements or columns and rows there are.
#[derive(Debug)]
struct Shape {
    grid: (u32, u32),
    block: (u32, u32),
    columns: usize,
    rows: usize,
}

impl Shape {
    /// One of the shapes that a seed stands for.
    fn of(seed: u64) -> Self {
        let draw = |i: u64, from: u32, to: u32| from + (random(seed, i) % u64::from(to - from + 1)) as u32;
        let block = [(32, 1), (1, 1), (7, 3), (32, 8), (5, 1), (16, 2)][draw(0, 0, 5) as usize];
        let grid = (draw(1, 1, 60), draw(2, 1, 6));
        let near = |i: u64, threads: u32| match draw(i, 0, 3) {
            0 => threads,
            1 => draw(i + 10, 1, threads),
            2 => threads.saturating_sub(draw(i + 10, 1, 9)).max(1),
            _ => threads + draw(i + 10, 1, 9),
        };
        let (columns, rows) = (near(3, grid.0 * block.0) as usize, near(4, grid.1 * block.1) as usize);
        Self { grid, block, columns, rows }
    }

    fn config(&self) -> LaunchConfig {
        LaunchConfig::new(self.grid, self.block)
    }

    /// Whether a place has a thread, and its element.
    fn has(&self, column: usize, row: usize) -> bool {
        column < (self.grid.0 * self.block.0) as usize && row < (self.grid.1 * self.block.1) as usize
    }

    /// For each element what `value` says, or 0 where no thread is.
    fn plane(&self, value: impl Fn(usize, usize) -> u32) -> Vec<u32> {
        let places = (0..self.rows).flat_map(|row| (0..self.columns).map(move |column| (column, row)));
        places.map(|(column, row)| if self.has(column, row) { value(column, row) } else { 0 }).collect()
    }
}

fn shapes() -> impl Iterator<Item = Shape> {
    (0..60).map(|seed| {
        let shape = Shape::of(seed);
        println!("seed {seed}: {shape:?}");
        shape
    })
}

fn numbers(len: usize) -> Vec<u32> {
    (0..len as u64).map(|i| random(7, i) as u32 >> 8).collect()
}

#[kernel]
fn around(x: &[u32], threads: &AtomicU32, mut y: GridSliceMut<u32, Plane>) {
    threads.device().fetch_add(1, Relaxed);
    let place = global_idx_2d();
    let (width, height) = (y.map().width(), y.map().height());
    let (column, row) = (place.x(), place.y());
    if column == 0 || row == 0 || column + 1 >= width || row + 1 >= height {
        return;
    }
    if let Some(y) = y.get_mut(&place) {
        let at = row * width + column;
        *y = x[at - width] + 3 * x[at + width] + 5 * x[at - 1] + 7 * x[at + 1];
    }
}

#[test]
fn a_stencil_whose_rim_returns_early() {
    for shape in shapes() {
        let (columns, rows) = (shape.columns, shape.rows);
        let x = numbers(columns * rows);
        let mut expected = shape.plane(|column, row| {
            let at = row * columns + column;
            match column == 0 || row == 0 || column + 1 == columns || row + 1 == rows {
                true => 0,
                false => x[at - columns] + 3 * x[at + columns] + 5 * x[at - 1] + 7 * x[at + 1],
            }
        });
        expected.push(shape.grid.0 * shape.grid.1 * shape.block.0 * shape.block.1);
        check_on_devices(&expected, |stream| {
            let (x, mut y) = (stream.to_device(&x)?, stream.zeroed(columns * rows)?);
            let threads = stream.zeroed::<AtomicU32>(1)?;
            around::launch(stream, shape.config(), &x, &threads, y.plane_mut(columns, rows)?)?;
            let mut y = stream.to_host(&y)?;
            y.extend(stream.to_host(&threads)?.iter().map(|threads| threads.load(Relaxed)));
            Ok(y)
        });
    }
}

#[kernel]
fn rimmed(x: &[u32], mut y: GridSliceMut<u32, Plane>) {
    let place = global_idx_2d();
    let width = y.map().width() + 2;
    if let Some(y) = y.get_mut(&place) {
        let own = &x[place.y() * width..(place.y() + 1) * width];
        *y = own[place.x()] + 3 * own[place.x() + 2];
    }
}

#[test]
fn rows_of_an_input_with_a_rim() {
    for shape in shapes() {
        let width = shape.columns + 2;
        let x = numbers(width * shape.rows);
        let expected = shape.plane(|column, row| x[row * width + column] + 3 * x[row * width + column + 2]);
        check_on_devices(&expected, |stream| {
            let (x, mut y) = (stream.to_device(&x)?, stream.zeroed(shape.columns * shape.rows)?);
            rimmed::launch(stream, shape.config(), &x, y.plane_mut(shape.columns, shape.rows)?)?;
            stream.to_host(&y)
        });
    }
}

#[kernel]
fn looked_up(table: &[u32; 4], x: &[u32], mut y: GridSliceMut<u32>, mut pairs: GridSliceMut<u32, Runs<2>>) {
    let i = global_idx();
    if let (Some(&x), Some(y)) = (x.get(i.get()), y.get_mut(&i)) {
        *y = x + table[i.get() % 4];
    }
    let own = run_idx::<2>();
    for (i, pair) in pairs.run_mut(&own).iter_mut().enumerate() {
        *pair = table[i] + 1;
    }
}

#[test]
fn buffers_of_unequal_lengths() {
    for shape in shapes() {
        let threads = (shape.grid.0 * shape.grid.1 * shape.block.0 * shape.block.1) as usize;
        let (len, other, pairs) = (shape.columns, shape.columns + shape.rows, shape.columns * 2 - 1);
        let (x, table) = (numbers(other), [1, 20, 300, 4000]);
        let own = (0..len).map(|i| if i < threads { x[i] + table[i % 4] } else { 0 });
        let runs = (0..pairs).map(|i| if i / 2 < threads { table[i % 2] + 1 } else { 0 });
        let expected: Vec<u32> = own.chain(runs).collect();
        check_on_devices(&expected, |stream| {
            let (x, table) = (stream.to_device(&x)?, stream.to_device(&[table])?);
            let (mut y, mut z) = (stream.zeroed(len)?, stream.zeroed(pairs)?);
            looked_up::launch(stream, shape.config(), &table, &x, &mut y, &mut z)?;
            let mut y = stream.to_host(&y)?;
            y.extend(stream.to_host(&z)?);
            Ok(y)
        });
    }
}

/// Asks for its place by a pointer to a function.
#[kernel]
fn asks_far_away(which: u32, mut y: GridSliceMut<u32, Plane>) {
    let ask = [|| thread_idx().x, || block_idx().x * 100, || lane_id() * 10_000][which as usize];
    let place = global_idx_2d();
    if let Some(y) = y.get_mut(&place) {
        *y = ask();
    }
}

#[test]
fn places_in_blocks_that_are_asked_for_out_of_sight() {
    for shape in shapes().take(20) {
        for which in 0..3 {
            let (width, height) = (shape.block.0 as usize, shape.block.1 as usize);
            let expected = shape.plane(|column, row| match which {
                0 => (column % width) as u32,
                1 => (column / width) as u32 * 100,
                _ => ((row % height * width + column % width) % 32) as u32 * 10_000,
            });
            check_on_devices(&expected, |stream| {
                let mut y = stream.zeroed(shape.columns * shape.rows)?;
                asks_far_away::launch(stream, shape.config(), which, y.plane_mut(shape.columns, shape.rows)?)?;
                stream.to_host(&y)
            });
        }
    }
}
