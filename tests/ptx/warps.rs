//! How many instructions a warp's reductions cost, and which they are on each architecture.

use warpsmith::groups::TileSize;
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

/// Sums of tiles in a block that they divide.
#[kernel(block = 256)]
fn tile_sums<const N: u32>(x: &[f32], mut y: GridSliceMut<f32>)
where
    Tile<N>: TileSize,
{
    let i = global_idx();
    let tile = this_thread_block().tiled_partition::<N>();
    let result = tile.reduce_add(x[i.get()]);
    if let Some(y) = y.get_mut(&i) {
        *y = result;
    }
}

/// Scans of tiles in a block that they divide.
#[kernel(block = 256)]
fn tile_scans<const N: u32>(x: &[u32], mut y: GridSliceMut<u32>)
where
    Tile<N>: TileSize,
{
    let i = global_idx();
    let tile = this_thread_block().tiled_partition::<N>();
    let result = tile.inclusive_scan_add(x[i.get()]);
    if let Some(y) = y.get_mut(&i) {
        *y = result;
    }
}

#[test]
fn tiles_cost_a_shuffle_for_each_doubling() {
    fn check<const N: u32>()
    where
        Tile<N>: TileSize,
    {
        let steps = N.ilog2() as usize;
        let instance = N.to_string();
        let sums = ptx::of_instance(module_path!(), "tile_sums", &instance);
        // The block is known to have whole tiles only, so what others need is gone.
        sums.check_count("shfl.sync", steps).check_count("shfl.sync.bfly", steps).check_not("vote.sync");
        let scans = ptx::of_instance(module_path!(), "tile_scans", &instance);
        scans.check_count("shfl.sync", steps).check_count("shfl.sync.up", steps).check_not("vote.sync");
        // Makes the instances.
        let stream = warpsmith_tests::cpu().stream().expect("a device gives streams");
        let work = || {
            let config = LaunchConfig::new(1, 256);
            let mut sums = stream.zeroed::<f32>(256)?;
            tile_sums::launch::<N>(&stream, config, &stream.to_device(&[1.0; 256])?, &mut sums)?;
            let mut scans = stream.zeroed::<u32>(256)?;
            tile_scans::launch::<N>(&stream, config, &stream.to_device(&[2; 256])?, &mut scans)?;
            Ok::<_, warpsmith::Error>((stream.to_host(&sums)?, stream.to_host(&scans)?))
        };
        let (sums, scans) = work().expect("the executor runs this");
        assert!(sums.iter().all(|sum| *sum == N as f32));
        assert!((0..).zip(scans).all(|(thread, scan)| scan == 2 * (thread % N + 1)));
    }
    check::<1>();
    check::<2>();
    check::<4>();
    check::<8>();
    check::<16>();
    check::<32>();
}

/// Integers in tiles of 16 and 32.
#[kernel(block = 64)]
fn tiles_of_integers(x: &[u32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    let block = this_thread_block();
    let result = block.tiled_partition::<32>().reduce_max(x[i.get()]);
    let result = result ^ block.tiled_partition::<16>().reduce_max(x[i.get()]);
    if let Some(y) = y.get_mut(&i) {
        *y = result;
    }
}

#[test]
fn only_whole_warps_reduce_in_one_instruction() {
    ptx::of(module_path!(), "tiles_of_integers").check_count("redux.sync.max.u32", 1).check_count("shfl.sync", 4);
}

/// A shuffle after a branch that is taken again.
#[kernel]
fn between_branches(limit: u32, x: &[u64], mut y: GridSliceMut<u64>) {
    let i = global_idx();
    let small = lane_id() < limit;
    let value = if small { x[i.get()] } else { 3 };
    let other = reduce_add(FULL_MASK, [value as u32, 1][usize::from(value == 3)]);
    let wide = shfl_xor(FULL_MASK, u128::from(value), 1);
    if let Some(y) = y.get_mut(&i) {
        *y = if small { u64::from(other) + wide as u64 } else { u64::from(other) ^ wide as u64 };
    }
}

#[test]
fn warp_operations_are_never_copied() {
    ptx::of(module_path!(), "between_branches").check_count("redux.sync", 1).check_count("shfl.sync", 4);
}
