//! Cooperative groups of up to a warp: tiles of each size in blocks that they do not divide, and coalesced threads.

use warpsmith::groups::TileSize;
use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, devices, random};

/// All that a tile can do, as numbers.
type Results = [u64; 27];

fn then((a, b): (u32, u32), (c, d): (u32, u32)) -> (u32, u32) {
    (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d))
}

fn packed((a, b): (u32, u32)) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

/// What one thread of a group gets, computed on the host from the values of all, by rank.
fn expected(values: &[u64], rank: usize, operand: u32, width: usize) -> Results {
    let (count, own) = (values.len(), values[rank]);
    let reach = operand as usize % 40;
    let mask = |test: &dyn Fn(u64) -> bool| {
        (0..).zip(values).fold(0_u64, |mask, (rank, value)| mask | u64::from(test(*value)) << rank)
    };
    let pairs: Vec<(u32, u32)> = values.iter().map(|v| (*v as u32 | 1, (*v >> 32) as u32)).collect();
    let all = pairs.iter().copied().reduce(then).expect("a group has threads");
    let upto = |rank: usize| pairs[..=rank].iter().copied().reduce(then).expect("it has the first");
    let smalls = || values.iter().map(|v| *v as u32);
    let sum = |upto: usize| values[..upto].iter().fold(0_u64, |sum, v| sum.wrapping_add(*v));
    let with = |rank: usize| if rank < count { values[rank] } else { own };
    [
        count as u64,
        rank as u64,
        values[operand as usize % count],
        if reach <= rank { values[rank - reach] } else { own },
        with(rank + reach),
        with(rank ^ (reach % width)),
        u64::from(values.iter().any(|v| v % 7 == 0)),
        u64::from(values.iter().all(|v| v % 7 != 0)),
        mask(&|v| v % 3 == 0),
        mask(&|v| v % 5 == own % 5),
        mask(&|v| v as u8 % 2 == own as u8 % 2),
        if values.iter().all(|v| v % 2 == values[0] % 2) { mask(&|_| true) } else { 0 },
        sum(count),
        u64::from(smalls().fold(0, u32::wrapping_add)),
        u64::from(smalls().map(|v| v as i32).min().expect("not empty") as u32),
        *values.iter().max().expect("not empty"),
        u64::from(smalls().fold(u32::MAX, |a, b| a & (b | 0xffff_0000))),
        values.iter().fold(0, |a, b| a | b & 0x8421),
        u64::from(smalls().fold(0, |a, b| a ^ b)),
        packed(all),
        packed(upto(rank)),
        packed(if rank == 0 { (5, 6) } else { upto(rank - 1) }),
        sum(rank + 1),
        sum(rank),
        mask(&|v| v % 5 == own % 5).count_ones().into(),
        mask(&|v| (v % 3 == 0) == (own % 3 == 0)).count_ones().into(),
        values.iter().filter(|v| *v % 5 == own % 5).fold(0_u64, |sum, v| sum.wrapping_add(*v)),
    ]
}

/// The same by the group.
fn by_group(group: &impl LaneGroup, own: u64, operand: u32, width: u32) -> Results {
    let pair = (own as u32 | 1, (own >> 32) as u32);
    let small = own as u32;
    let reach = operand % 40;
    group.sync();
    [
        u64::from(group.num_threads()),
        u64::from(group.thread_rank()),
        group.shfl(own, operand % group.num_threads()),
        group.shfl_up(own, reach),
        group.shfl_down(own, reach),
        group.shfl_xor(own, reach % width),
        u64::from(group.any(own.is_multiple_of(7))),
        u64::from(group.all(!own.is_multiple_of(7))),
        u64::from(group.ballot(own.is_multiple_of(3))),
        u64::from(group.match_any(own % 5)),
        u64::from(group.match_any(own as u8 % 2)),
        u64::from(group.match_all(own.is_multiple_of(2))),
        group.reduce_add(own),
        u64::from(group.reduce_add(small)),
        u64::from(group.reduce_min(small as i32) as u32),
        group.reduce_max(own),
        u64::from(group.reduce_and(small | 0xffff_0000)),
        u64::from(group.reduce_or(own as u16 & 0x8421)),
        u64::from(group.reduce_xor(small)),
        packed(group.reduce(pair, then)),
        packed(group.inclusive_scan(pair, then)),
        packed(group.exclusive_scan((5, 6), pair, then)),
        group.inclusive_scan_add(own),
        group.exclusive_scan_add(own),
        u64::from(group.labeled_partition(own % 5).num_threads()),
        u64::from(group.binary_partition(own.is_multiple_of(3)).num_threads()),
        group.labeled_partition(own % 5).reduce_add(own),
    ]
}

/// Tiles of the block.
#[kernel]
fn tiles<const N: u32>(operand: u32, input: &[u64], mut output: GridSliceMut<Results>)
where
    Tile<N>: TileSize,
{
    let i = global_idx();
    let results = by_group(&this_thread_block().tiled_partition::<N>(), input[i.get()], operand, N);
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

fn check_tiles<const N: u32>()
where
    Tile<N>: TileSize,
{
    for (number, block) in [32_usize, 33, 45, 63, 64, 100].into_iter().enumerate() {
        for seed in [number as u64, 100 + number as u64] {
            println!("seed {seed}, tiles of {N}, block of {block}");
            let operand = random(seed, 1 << 40) as u32;
            let input: Vec<u64> = (0..2 * block as u64).map(|i| random(seed, i)).collect();
            let tiles = input.chunks(block).flat_map(|block| block.chunks(N as usize));
            let expected: Vec<Results> = tiles
                .flat_map(|tile| {
                    (0..tile.len()).map(|rank| expected(tile, rank, operand, N as usize)).collect::<Vec<_>>()
                })
                .collect();
            check_on_devices(&expected, |stream| {
                let mut output = stream.zeroed::<Results>(input.len())?;
                let config = LaunchConfig::new(2, block as u32);
                tiles::launch::<N>(stream, config, operand, &stream.to_device(&input)?, &mut output)?;
                stream.to_host(&output)
            });
        }
    }
}

#[test]
fn case_g6_tiles_of_16_work_alone() {
    check_tiles::<16>();
}

#[test]
fn tiles_of_every_size_work_alone() {
    check_tiles::<1>();
    check_tiles::<2>();
    check_tiles::<4>();
    check_tiles::<8>();
    check_tiles::<32>();
}

/// The threads on one side of a branch, which come together by the side that they took.
#[kernel]
fn coalesced(taken: u32, operand: u32, input: &[u64], mut output: GridSliceMut<Results>) {
    let i = global_idx();
    let own = input[i.get()];
    // A ballot says for sure who is on which side; `coalesced_threads` may see fewer on a GPU.
    let tile = this_thread_block().tiled_partition::<32>();
    let group = tile.binary_partition(taken >> lane_id() & 1 != 0);
    #[expect(clippy::if_same_then_else, reason = "two places, so that the sides run apart")]
    let results = if taken >> lane_id() & 1 != 0 {
        by_group(&group, own, operand, 32)
    } else {
        by_group(&group, own, operand, 32)
    };
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

#[test]
fn groups_with_holes_count_by_rank() {
    for (number, taken) in
        [u32::MAX, 0, 1, 0x8000_0000, 0x5555_5555, 0xfff0_0001, 0x7fff_ffff, 0x00ff_1234].into_iter().enumerate()
    {
        let seed = 700 + number as u64;
        let block = [32_usize, 33, 64, 77][number % 4];
        println!("seed {seed}, taken {taken:#x}, block of {block}");
        let operand = random(seed, 1 << 40) as u32;
        let input: Vec<u64> = (0..2 * block as u64).map(|i| random(seed, i)).collect();
        let mut expected_results = Vec::new();
        for warp in input.chunks(block).flat_map(|block| block.chunks(32)) {
            let side = |lane: usize| taken >> lane & 1;
            for lane in 0..warp.len() {
                let ours: Vec<usize> = (0..warp.len()).filter(|other| side(*other) == side(lane)).collect();
                let values: Vec<u64> = ours.iter().map(|lane| warp[*lane]).collect();
                let rank = ours.iter().position(|other| *other == lane).expect("it is on its own side");
                expected_results.push(expected(&values, rank, operand, 32));
            }
        }
        check_on_devices(&expected_results, |stream| {
            let mut output = stream.zeroed::<Results>(input.len())?;
            let config = LaunchConfig::new(2, block as u32);
            coalesced::launch(stream, config, taken, operand, &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// Whoever comes together counts in one addition.
#[kernel]
fn counts(input: &[u32], total: &[std::sync::atomic::AtomicU32], mut output: GridSliceMut<u32>) {
    let i = global_idx();
    if input[i.get()].is_multiple_of(3) {
        let group = coalesced_threads();
        let mut first = 0;
        if group.thread_rank() == 0 {
            first = total[0].fetch_add(group.num_threads(), std::sync::atomic::Ordering::Relaxed);
        }
        let place = group.shfl(first, 0) + group.thread_rank();
        if let Some(output) = output.get_mut(&i) {
            *output = place + 1;
        }
    }
}

#[test]
fn coalesced_threads_add_once_and_get_places_of_their_own() {
    let input: Vec<u32> = (0..500).map(|i| random(5, i) as u32).collect();
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let work = || {
            let mut total = stream.zeroed::<u32>(1)?;
            let mut places = stream.zeroed::<u32>(500)?;
            counts::launch(&stream, LaunchConfig::new(5, 100), &stream.to_device(&input)?, &mut total, &mut places)?;
            Ok::<_, warpsmith::Error>((stream.to_host(&total)?[0], stream.to_host(&places)?))
        };
        let (total, places) = work().unwrap_or_else(|error| panic!("on {device}: {error}"));
        let counting = |i: &usize| input[*i].is_multiple_of(3);
        assert_eq!(total as usize, (0..500).filter(counting).count(), "on {device}");
        assert!((0..500).filter(|i| !counting(i)).all(|i| places[i] == 0), "on {device}");
        let mut taken: Vec<u32> = (0..500).filter(counting).map(|i| places[i]).collect();
        taken.sort_unstable();
        assert_eq!(taken, (1..=total).collect::<Vec<u32>>(), "on {device}");
    }
}

/// The numbers of a block in three dimensions and of its tiles.
#[kernel]
fn numbers(mut output: GridSliceMut<[u32; 8]>) {
    let block = this_thread_block();
    let tile = block.tiled_partition::<8>();
    let part = tile.tiled_partition::<2>();
    block.sync();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = [
            block.num_threads(),
            block.thread_rank(),
            block.group_index().x,
            block.thread_index().y + block.dim_threads().z,
            tile.meta_group_rank(),
            tile.meta_group_size(),
            part.meta_group_rank(),
            part.reduce_add(block.thread_rank()),
        ];
    }
}

#[test]
fn blocks_and_tiles_know_their_numbers() {
    let threads = 5 * 7 * 3;
    let expected: Vec<[u32; 8]> = (0..2 * threads)
        .map(|i| {
            let rank = i % threads;
            let sum = if rank / 2 * 2 + 1 < threads { rank / 2 * 4 + 1 } else { rank };
            [threads, rank, i / threads, rank / 5 % 7 + 3, rank / 8, 14, rank / 2, sum]
        })
        .collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 8]>(expected.len())?;
        numbers::launch(stream, LaunchConfig::new(2, (5, 7, 3)), &mut output)?;
        stream.to_host(&output)
    });
}

/// Asks a tile for a thread of this rank.
#[kernel]
fn asks<const N: u32>(rank: u32, mut output: GridSliceMut<u32>)
where
    Tile<N>: TileSize,
{
    let value = this_thread_block().tiled_partition::<N>().shfl(thread_idx().x, rank);
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn groups_that_are_too_large_and_ranks_that_are_missing_are_reported() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let ask = |block: u32, rank: u32, large: bool| {
            let mut output = stream.zeroed::<u32>(block as usize)?;
            let config = LaunchConfig::new(1, block);
            if large {
                asks::launch::<32>(&stream, config, rank, &mut output)?;
            } else {
                asks::launch::<8>(&stream, config, rank, &mut output)?;
            }
            stream.to_host(&output)
        };
        let error = ask(16, 0, true).expect_err("32 threads are more than 16").to_string();
        assert!(error.contains("a tile of 32 threads is larger than its block of 16"), "on {device}: {error}");
        let error = ask(12, 4, false).expect_err("the second tile has 4 threads").to_string();
        assert!(error.contains("the thread of rank 4 is asked for in a group of 4"), "on {device}: {error}");
        assert_eq!(ask(12, 3, false).expect("all tiles have it"), [3, 3, 3, 3, 3, 3, 3, 3, 11, 11, 11, 11]);
    }
}
