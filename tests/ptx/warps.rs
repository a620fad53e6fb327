//! How many instructions a warp's reductions cost, and which they are on each architecture.

use warpsmith::prelude::*;
use warpsmith::warp;
use warpsmith_tests::ptx;

/// Integers of up to 32 bits.
#[kernel]
fn small_sums(x: &[u32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    let value = x[i.get()];
    let result = reduce_add(FULL_MASK, value)
        ^ reduce_max(FULL_MASK, value as i16) as u32
        ^ u32::from(reduce_min(FULL_MASK, value as u8))
        ^ reduce_xor(FULL_MASK, value as i32) as u32;
    if let Some(y) = y.get_mut(&i) {
        *y = result;
    }
}

#[test]
fn small_integers_take_one_instruction_from_8_0_on() {
    ptx::of(module_path!(), "small_sums")
        .check("redux.sync.add.u32")
        .check("redux.sync.max.s32")
        .check("redux.sync.min.u32")
        .check("redux.sync.xor.b32")
        .check_count("redux.sync", 4)
        .check_not("shfl.sync")
        .check_not("vote.sync");
    // A vote says which lanes are there; five shuffles for a full warp, three in and after the loop for others.
    if let Some(text) = ptx::of_architecture(module_path!(), "small_sums", 75) {
        text.check_not("redux")
            .check_count("vote.sync", 4)
            .check_count("shfl.sync.bfly", 4 * 5)
            .check_count("shfl.sync.idx", 4 * 3);
    }
}

/// A float's sum, and an operation whose order matters.
#[kernel]
fn float_sum(x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    let result = reduce_add(FULL_MASK, x[i.get()]);
    if let Some(y) = y.get_mut(&i) {
        *y = result;
    }
}

/// Scans of 64 bits.
#[kernel]
fn wide_scan(x: &[u64], mut y: GridSliceMut<u64>) {
    let i = global_idx();
    let result = inclusive_scan_add(FULL_MASK, x[i.get()]);
    if let Some(y) = y.get_mut(&i) {
        *y = result;
    }
}

/// The greatest value's place.
#[kernel]
fn argmax(x: &[f32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    let first = |a: (f32, u32), b: (f32, u32)| if b.0 > a.0 { b } else { a };
    let (_, at) = warp::reduce(FULL_MASK, (x[i.get()], i.get() as u32), first);
    if let Some(y) = y.get_mut(&i) {
        *y = at;
    }
}

#[test]
fn trees_cost_five_shuffles_for_each_word() {
    ptx::of(module_path!(), "float_sum")
        .check_count("shfl.sync.bfly", 5)
        .check_count("shfl.sync.idx", 3)
        .check_count("add.rn.f32", 6)
        .check_not(".local");
    ptx::of(module_path!(), "wide_scan")
        .check_count("shfl.sync.up", 2 * 5)
        .check_count("shfl.sync.idx", 2 + 1)
        .check_not(".local");
    ptx::of(module_path!(), "argmax")
        .check_count("shfl.sync.bfly", 2 * 5)
        .check_count("shfl.sync.idx", 2 * 2 + 1)
        .check_not(".local");
}

/// Lane masks and a leader.
#[kernel]
fn lanes(mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = lanemask_eq() ^ lanemask_le() ^ lanemask_gt() ^ lanemask_ge() ^ u32::from(elect(FULL_MASK));
    }
}

#[test]
fn lane_masks_are_registers() {
    let text = ptx::of(module_path!(), "lanes");
    for register in ["%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge"] {
        text.check_count(register, 1);
    }
    text.check_count("vote.sync.ballot", 1);
}
