//! What a block computes together, in blocks of every awkward size and shape.

use std::num::Wrapping;

use warpsmith::collective::{blocked_to_striped, striped_to_blocked};
use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, random};

/// Shapes of blocks: one thread, around a warp, several warps with a last one that is not full, more dimensions, the most.
const BLOCKS: &[(u32, u32, u32)] = &[
    (1, 1, 1),
    (2, 1, 1),
    (31, 1, 1),
    (32, 1, 1),
    (33, 1, 1),
    (100, 1, 1),
    (7, 5, 3),
    (16, 16, 1),
    (1000, 1, 1),
    (1024, 1, 1),
];

fn threads((x, y, z): (u32, u32, u32)) -> usize {
    (x * y * z) as usize
}

/// Composes two maps `x -> a * x + b` modulo 2^32, the first applied first: associative, and not commutative.
fn compose(first: u64, second: u64) -> u64 {
    let (a, b) = (Wrapping((first >> 32) as u32), Wrapping(first as u32));
    let (c, d) = (Wrapping((second >> 32) as u32), Wrapping(second as u32));
    u64::from((a * c).0) << 32 | u64::from((b * c + d).0)
}

/// The identity of [`compose`].
const IDENTITY: u64 = 1 << 32;

/// Everything that combines: twice in a loop, so that the second meets what the first left in shared memory.
#[kernel]
fn combining(input: &[u64], mut output: GridSliceMut<[u64; 6]>) {
    let i = global_idx();
    let mut value = input[i.get()];
    let mut results = [0; 6];
    for round in 0..2 {
        results[3 * round] = block_reduce(value, compose);
        results[3 * round + 1] = block_inclusive_scan(value, compose);
        let (before, total) = block_exclusive_scan(value, IDENTITY + 7, compose);
        results[3 * round + 2] = before ^ total.rotate_left(1);
        value = compose(value, value);
    }
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

#[test]
fn reductions_and_scans_keep_the_order() {
    for &block in BLOCKS {
        let count = threads(block);
        let input: Vec<u64> = (0..2 * count as u64).map(|i| random(31, i)).collect();
        let round = |values: &[u64]| -> Vec<[u64; 3]> {
            let total = values.iter().fold(IDENTITY, |a, b| compose(a, *b));
            let mut before = IDENTITY;
            values
                .iter()
                .map(|value| {
                    let own = before;
                    before = compose(before, *value);
                    let (start, all) = (compose(IDENTITY + 7, own), compose(IDENTITY + 7, total));
                    [total, before, start ^ all.rotate_left(1)]
                })
                .collect()
        };
        let mut expected = Vec::new();
        for values in input.chunks(count) {
            let second: Vec<u64> = values.iter().map(|value| compose(*value, *value)).collect();
            expected
                .extend(round(values).iter().zip(round(&second)).map(|(a, b)| [a[0], a[1], a[2], b[0], b[1], b[2]]));
        }
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<[u64; 6]>(2 * count)?;
            combining::launch(stream, LaunchConfig::new(2, block), &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// A sum of floats in the documented order, and a broadcast from the last thread.
#[kernel]
fn float_sum(input: &[f32], mut output: GridSliceMut<[f32; 2]>) {
    let i = global_idx();
    let value = input[i.get()];
    let sum = block_reduce(value, |a, b| a + b);
    let last = block_broadcast(value, input.len() as u32 - 1);
    if let Some(output) = output.get_mut(&i) {
        *output = [sum, last];
    }
}

/// `((0 1) (2 3)) ((4 5) ..` in each warp, then the warps in order.
fn tree_sum(values: &[f32]) -> f32 {
    let warp = |warp: &[f32]| {
        let mut values = warp.to_vec();
        while values.len() > 1 {
            values = values.chunks(2).map(|pair| pair.iter().copied().reduce(|a, b| a + b).unwrap_or(0.0)).collect();
        }
        values[0]
    };
    values.chunks(32).map(warp).reduce(|a, b| a + b).unwrap_or(0.0)
}

#[test]
fn sums_of_floats_have_one_order() {
    for &block in BLOCKS {
        let input: Vec<f32> = (0..threads(block) as u64).map(|i| random(32, i) as u16 as f32 * 1e-3 - 30.0).collect();
        let expected = vec![[tree_sum(&input), input[input.len() - 1]]; input.len()];
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<[f32; 2]>(input.len())?;
            float_sum::launch(stream, LaunchConfig::new(1, block), &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// Sorts by the low half only, then by all bits downwards.
#[kernel]
fn sorting(input: &[u64], mut output: GridSliceMut<[u64; 2]>) {
    let i = global_idx();
    let value = input[i.get()];
    let by_half = block_sort(value, |a, b| (*a as u32) < *b as u32);
    let downwards = block_sort(by_half, |a, b| a > b);
    if let Some(output) = output.get_mut(&i) {
        *output = [u64::from(by_half as u32), downwards];
    }
}

#[test]
fn blocks_sort() {
    for &block in BLOCKS {
        for kinds in [2, 50, u64::MAX] {
            let input: Vec<u64> = (0..threads(block) as u64).map(|i| random(33, i) % kinds).collect();
            let mut halves: Vec<u64> = input.iter().map(|value| u64::from(*value as u32)).collect();
            halves.sort_unstable();
            let mut all = input.clone();
            all.sort_unstable_by(|a, b| b.cmp(a));
            let expected: Vec<[u64; 2]> = halves.into_iter().zip(all).map(|(a, b)| [a, b]).collect();
            check_on_devices(&expected, |stream| {
                let mut output = stream.zeroed::<[u64; 2]>(input.len())?;
                sorting::launch(stream, LaunchConfig::new(1, block), &stream.to_device(&input)?, &mut output)?;
                stream.to_host(&output)
            });
        }
    }
}

/// Threads of a block that exchanges.
const EXCHANGING: usize = 96;

/// Striped to blocked, squared, and back.
#[kernel]
fn exchanging(input: &[u32], mut output: GridSliceMut<[u32; 10]>) {
    let thread = slot_idx().get();
    let first = block_idx().x as usize * 5 * EXCHANGING;
    let striped: [u32; 5] = std::array::from_fn(|j| input[first + j * EXCHANGING + thread]);
    let blocked = striped_to_blocked::<_, 5, EXCHANGING>(striped);
    let again = blocked_to_striped::<_, 5, EXCHANGING>(blocked.map(|value| value.wrapping_mul(value)));
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = std::array::from_fn(|j| if j < 5 { blocked[j] } else { again[j - 5] });
    }
}

#[test]
fn exchanges_are_transposes() {
    let input: Vec<u32> = (0..2 * 5 * EXCHANGING as u64).map(|i| random(34, i) as u32).collect();
    let mut expected = Vec::new();
    for values in input.chunks(5 * EXCHANGING) {
        for thread in 0..EXCHANGING {
            let value = |j: usize| values[j * EXCHANGING + thread];
            expected.push(std::array::from_fn::<u32, 10, _>(|j| {
                if j < 5 { values[thread * 5 + j] } else { value(j - 5).wrapping_mul(value(j - 5)) }
            }));
        }
    }
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 10]>(2 * EXCHANGING)?;
        exchanging::launch(stream, LaunchConfig::new(2, EXCHANGING as u32), &stream.to_device(&input)?, &mut output)?;
        stream.to_host(&output)
    });
}

#[test]
fn an_exchange_in_a_block_of_another_size_is_a_panic() {
    for device in warpsmith_tests::devices() {
        let stream = device.stream().expect("a device gives streams");
        let input = stream.to_device(&vec![0; 2 * 5 * EXCHANGING]).expect("a small copy works");
        let mut output = stream.zeroed::<[u32; 10]>(2 * EXCHANGING).expect("a small allocation works");
        exchanging::launch(&stream, LaunchConfig::new(1, 64), &input, &mut output).expect("the launch itself works");
        let error = stream.synchronize().expect_err("the block has another size").to_string();
        assert!(error.contains("an exchange among 96 threads in a block of 64"), "{error}");
    }
}

/// The smallest and the largest number of each block; threads past the end bring NaN, which yields to numbers.
#[kernel]
fn extremes(input: &[f32], mut output: GridSliceMut<[f32; 2], PerBlock>) {
    let value = input.get(global_idx().get()).copied().unwrap_or(f32::NAN);
    let least = block_reduce(value, f32::min);
    let most = block_reduce(value, f32::max);
    if let Some(leader) = block_leader()
        && let Some(output) = output.get_mut(&leader)
    {
        *output = [least, most];
    }
}

#[test]
fn case_d2_nan_yields_to_numbers_in_every_length() {
    const BLOCK: u32 = 256;
    // Below and above a warp, a block and a grid of 132 multiprocessors with 8 such blocks each.
    for len in [1_usize, 2, 31, 32, 33, 255, 256, 257, 1000, 270_335, 270_337] {
        let places = [None, Some(0), Some(len / 2), Some(len - 1)];
        for (all_nan, nan) in places.map(|place| (false, place)).into_iter().chain([(true, None)]) {
            let mut input: Vec<f32> = (0..len).map(|i| (i * 7919 % 1009) as f32 - 500.0).collect();
            if all_nan {
                input.fill(f32::NAN);
            }
            if let Some(place) = nan {
                input[place] = f32::NAN;
            }
            let fold = |over: fn(f32, f32) -> f32| input.iter().copied().fold(f32::NAN, over);
            // NaN has many bit patterns: what counts is whether it is one.
            let bits = |value: f32| if value.is_nan() { u32::MAX } else { value.to_bits() };
            let expected = [bits(fold(f32::min)), bits(fold(f32::max))];
            println!("{len} elements, NaN at {nan:?}, or all: {all_nan}");
            check_on_devices(&expected, |stream| {
                // As many launches as it takes until one block has the rest: of the least, then of the most.
                let mut results = [0; 2];
                for (which, result) in results.iter_mut().enumerate() {
                    let mut rest = input.clone();
                    loop {
                        let blocks = rest.len().div_ceil(BLOCK as usize);
                        let device_rest = stream.to_device(&rest)?;
                        let mut output = stream.zeroed::<[f32; 2]>(blocks)?;
                        extremes::launch(stream, LaunchConfig::new(blocks as u32, BLOCK), &device_rest, &mut output)?;
                        rest = stream.to_host(&output)?.iter().map(|both| both[which]).collect();
                        if blocks == 1 {
                            break;
                        }
                    }
                    *result = bits(rest[0]);
                }
                Ok(results.to_vec())
            });
        }
    }
}
