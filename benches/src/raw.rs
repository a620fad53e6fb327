//! The kernels of the examples once more, with raw pointers into shared memory and into the output: what the safe forms
//! are measured against.

use warpsmith::prelude::*;
use warpsmith::shared;

use crate::reduce::BLOCK as REDUCE_BLOCK;
use crate::scan::{BLOCK as SCAN_BLOCK, ITEMS};
use crate::transpose::{ROWS, TILE};

/// As `reduce::tree_sum`.
///
/// # Safety
/// `x` is to `len` vectors, and `sums` to an element for each block, which nothing else uses during the launch.
#[kernel(block = REDUCE_BLOCK)]
pub(crate) unsafe fn tree_sum(x: *const F32x4, len: usize, sums: *mut f32) {
    let slots = shared!([f32; REDUCE_BLOCK as usize]).cast::<f32>();
    let thread = thread_idx().x as usize;
    let step = grid_dim().x as usize * REDUCE_BLOCK as usize;
    let mut i = block_idx().x as usize * REDUCE_BLOCK as usize + thread;
    let mut total = 0.0;
    // SAFETY: indices stay below the lengths, and threads write slots that no other reads before the next barrier.
    unsafe {
        while i < len {
            let F32x4([a, b, c, d]) = x.add(i).read();
            total += (a + b) + (c + d);
            i += step;
        }
        slots.add(thread).write(total);
        sync_threads();
        let mut half = REDUCE_BLOCK as usize / 2;
        while half > 0 {
            if thread < half {
                let sum = slots.add(thread).read() + slots.add(thread + half).read();
                slots.add(thread).write(sum);
            }
            sync_threads();
            half /= 2;
        }
        if thread == 0 {
            sums.add(block_idx().x as usize).write(slots.read());
        }
    }
}

fn scan_of_warp(mut value: u32) -> u32 {
    let mut distance = 1;
    while distance < WARP_SIZE {
        let other = shfl_up(FULL_MASK, value, distance);
        if lane_id() >= distance {
            value = value.wrapping_add(other);
        }
        distance *= 2;
    }
    value
}

/// What comes before the thread in its block, and the block's total.
///
/// # Safety
/// All threads of a block of `WARPS` whole warps call it.
unsafe fn scan_of_block<const WARPS: usize>(value: u32) -> (u32, u32) {
    let slots = shared!([u32; WARPS]).cast::<u32>();
    let warp = thread_idx().x as usize / 32;
    let running = scan_of_warp(value);
    // SAFETY: the last lane of each warp writes its own slot between two barriers.
    unsafe {
        if lane_id() == 31 {
            slots.add(warp).write(running);
        }
        sync_threads();
        let (mut before, mut total) = (0u32, 0u32);
        let mut other = 0;
        while other < WARPS {
            if other == warp {
                before = total;
            }
            total = total.wrapping_add(slots.add(other).read());
            other += 1;
        }
        sync_threads();
        (before.wrapping_add(running).wrapping_sub(value), total)
    }
}

/// The vectors that a thread takes of its block's, zeros past the end.
///
/// # Safety
/// `x` is to `len` vectors.
unsafe fn load(x: *const U32x4, len: usize) -> [U32x4; ITEMS] {
    let first = block_idx().x as usize * SCAN_BLOCK as usize * ITEMS + thread_idx().x as usize;
    std::array::from_fn(|round| {
        let i = first + round * SCAN_BLOCK as usize;
        // SAFETY: the index was just compared.
        if i < len { unsafe { x.add(i).read() } } else { U32x4([0; 4]) }
    })
}

/// As `scan::block_sums`.
///
/// # Safety
/// `x` is to `len` vectors, and `sums` to an element for each block, which nothing else uses during the launch.
#[kernel(block = SCAN_BLOCK)]
pub(crate) unsafe fn block_sums(x: *const U32x4, len: usize, sums: *mut u32) {
    // SAFETY: the caller's promise; a block has 8 whole warps.
    unsafe {
        let own = load(x, len).iter().flat_map(|four| four.0).fold(0, u32::wrapping_add);
        let (_, total) = scan_of_block::<{ SCAN_BLOCK as usize / 32 }>(own);
        if thread_idx().x == 0 {
            sums.add(block_idx().x as usize).write(total);
        }
    }
}

/// As `scan::sums_before`.
///
/// # Safety
/// `sums` is to `len` elements that nothing else uses during the launch.
#[kernel(block = 1024)]
pub(crate) unsafe fn sums_before(sums: *mut u32, len: usize) {
    let mut carry = 0u32;
    let mut i = thread_idx().x as usize;
    for _ in 0..len.div_ceil(1024) {
        // SAFETY: the index is compared before each access; a block has 32 whole warps.
        unsafe {
            let value = if i < len { sums.add(i).read() } else { 0 };
            let (before, total) = scan_of_block::<32>(value);
            if i < len {
                sums.add(i).write(carry.wrapping_add(before));
            }
            carry = carry.wrapping_add(total);
        }
        i += 1024;
    }
}

/// As `scan::running_sums`.
///
/// # Safety
/// `x` and `y` are to `len` vectors, `before` to an element for each block; nothing else uses `y` during the launch.
#[kernel(block = SCAN_BLOCK)]
pub(crate) unsafe fn running_sums(x: *const U32x4, before: *const u32, y: *mut U32x4, len: usize) {
    let first = block_idx().x as usize * SCAN_BLOCK as usize * ITEMS + thread_idx().x as usize;
    // SAFETY: the caller's promise; indices are compared before each access; a block has 8 whole warps.
    unsafe {
        let fours = load(x, len);
        let mut carry = before.add(block_idx().x as usize).read();
        for (round, U32x4([a, b, c, d])) in fours.into_iter().enumerate() {
            let (ab, cd) = (a.wrapping_add(b), c.wrapping_add(d));
            let (own, total) = scan_of_block::<{ SCAN_BLOCK as usize / 32 }>(ab.wrapping_add(cd));
            let own = carry.wrapping_add(own);
            carry = carry.wrapping_add(total);
            let i = first + round * SCAN_BLOCK as usize;
            if i < len {
                let second = own.wrapping_add(ab);
                let sums = [own.wrapping_add(a), second, second.wrapping_add(c), second.wrapping_add(cd)];
                y.add(i).write(U32x4(sums));
            }
        }
    }
}

/// Rows of a block of the two-dimensional kernels.
const BLOCK_ROWS: usize = TILE / ROWS;

/// As `transpose::transpose`.
///
/// # Safety
/// `x` is to `height` rows of `width`, `y` to as many elements, which nothing else uses during the launch.
#[kernel(block = (TILE as u32, BLOCK_ROWS as u32))]
pub(crate) unsafe fn transpose(x: *const f32, y: *mut f32, width: usize, height: usize) {
    let tile = shared!([[f32; TILE + 1]; TILE]).cast::<f32>();
    let (column, row) = (thread_idx().x as usize, thread_idx().y as usize);
    let (left, top) = (block_idx().x as usize * TILE, block_idx().y as usize * TILE);
    // SAFETY: indices are compared with the shape, and threads write slots of their own before the barrier.
    unsafe {
        for part in 0..ROWS {
            let own = row + part * BLOCK_ROWS;
            if left + column < width && top + own < height {
                tile.add(own * (TILE + 1) + column).write(x.add((top + own) * width + left + column).read());
            }
        }
        sync_threads();
        for part in 0..ROWS {
            let own = row + part * BLOCK_ROWS;
            if top + column < height && left + own < width {
                y.add((left + own) * height + top + column).write(tile.add(column * (TILE + 1) + own).read());
            }
        }
    }
}

/// Columns and rows that a block of the stencil reads.
const WITH_RIM: usize = TILE + 2;

/// As `stencil::spread`.
///
/// # Safety
/// `x` and `y` are to `height` rows of `width`; nothing else uses `y` during the launch.
#[expect(clippy::needless_range_loop, reason = "with an iterator over it, an array stays in memory")]
#[kernel(block = (TILE as u32, BLOCK_ROWS as u32), contract)]
pub(crate) unsafe fn spread(rate: f32, x: *const f32, y: *mut f32, width: usize, height: usize) {
    let tile = shared!([[f32; WITH_RIM]; WITH_RIM]).cast::<f32>();
    let (column, row) = (thread_idx().x as usize, thread_idx().y as usize);
    let (left, top) = (block_idx().x as usize * TILE, block_idx().y as usize * TILE);
    // SAFETY: indices are kept inside the shape, and threads write slots of their own before the barrier.
    unsafe {
        // All loads first, so that they overlap.
        const ROUNDS: usize = (WITH_RIM * WITH_RIM).div_ceil(TILE * BLOCK_ROWS);
        let mut values = [0.0; ROUNDS];
        for round in 0..ROUNDS {
            let slot = row * TILE + column + round * TILE * BLOCK_ROWS;
            if slot < WITH_RIM * WITH_RIM {
                let from_row = ((top + slot / WITH_RIM) as i32 - 1).min(height as i32 - 1).max(0);
                let from_column = ((left + slot % WITH_RIM) as i32 - 1).min(width as i32 - 1).max(0);
                values[round] = x.add(from_row as usize * width + from_column as usize).read();
            }
        }
        for round in 0..ROUNDS {
            let slot = row * TILE + column + round * TILE * BLOCK_ROWS;
            if slot < WITH_RIM * WITH_RIM {
                tile.add(slot).write(values[round]);
            }
        }
        sync_threads();
        for part in 0..ROWS {
            let own = row + part * BLOCK_ROWS;
            if left + column < width && top + own < height {
                let at = |row: usize, column: usize| tile.add(row * WITH_RIM + column).read();
                let middle = at(own + 1, column + 1);
                let around =
                    (at(own, column + 1) + at(own + 2, column + 1)) + (at(own + 1, column) + at(own + 1, column + 2));
                y.add((top + own) * width + left + column).write(middle + rate * (around - 4.0 * middle));
            }
        }
    }
}
