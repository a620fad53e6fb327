//! Warp shuffles, votes and matches: section G of the case list, with last warps that are not full.

use warpsmith::prelude::*;
use warpsmith::warp::{shfl_down_within, shfl_idx_within, shfl_xor_within};
use warpsmith_tests::{check_on_devices, random};

/// Values that repeat, so that matches find something.
fn inputs(len: usize) -> Vec<u64> {
    (0..len as u64).map(|i| random(11, i) % 5 * 0x1_0000_0001).collect()
}

/// Runs `lanes` over the warps of each block on the host: it gets a warp's values and a lane.
fn by_lanes<R>(input: &[u64], block: usize, lanes: impl Fn(&[u64], usize) -> R) -> Vec<R> {
    let warps = input.chunks(block).flat_map(|block| block.chunks(32));
    warps.flat_map(|warp| (0..warp.len()).map(|lane| lanes(warp, lane)).collect::<Vec<R>>()).collect()
}

/// Every shuffle, in both widths. Lanes that do not exist are never asked: the sources are clamped by hand.
#[kernel]
fn shuffles(input: &[u64], mut output: GridSliceMut<[u64; 6]>) {
    let i = global_idx();
    let value = input[i.get()] + u64::from(lane_id());
    let lanes = (block_dim().x - warp_id() * WARP_SIZE).min(WARP_SIZE);
    let results = [
        shfl_idx(FULL_MASK, value, 0),
        u64::from(shfl_idx(FULL_MASK, value as u32, (lane_id() + 1) % lanes)),
        shfl_up(FULL_MASK, value, 3),
        shfl_down(FULL_MASK, value as i32, if lane_id() + 2 < lanes { 2 } else { 0 }) as u64,
        shfl_xor(FULL_MASK, value as f64, if lane_id() ^ 1 < lanes { 1 } else { 0 }).to_bits(),
        u64::from(shfl_idx_within(FULL_MASK, value as u16, 1.min(lanes - lane_id() / 4 * 4 - 1), 4)),
    ];
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

#[test]
fn case_g1_shuffles() {
    for block in [1usize, 2, 31, 32, 33, 64, 100] {
        let input = inputs(3 * block);
        let expected = by_lanes(&input, block, |warp, lane| {
            let at = |lane: usize| warp[lane] + lane as u64;
            let pair = if lane ^ 1 < warp.len() { lane ^ 1 } else { lane };
            [
                at(0),
                at((lane + 1) % warp.len()) & 0xffff_ffff,
                at(if lane >= 3 { lane - 3 } else { lane }),
                at(if lane + 2 < warp.len() { lane + 2 } else { lane }) as i32 as u64,
                (at(pair) as f64).to_bits(),
                at(lane / 4 * 4 + 1.min(warp.len() - lane / 4 * 4 - 1)) & 0xffff,
            ]
        });
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<[u64; 6]>(input.len())?;
            shuffles::launch(stream, LaunchConfig::new(3, block as u32), &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// Votes and matches.
#[kernel]
fn votes(input: &[u64], mut output: GridSliceMut<[u32; 7]>) {
    let i = global_idx();
    let value = input[i.get()];
    let results = [
        ballot(FULL_MASK, value.is_multiple_of(2)),
        u32::from(all(FULL_MASK, value < 4 << 32)),
        u32::from(any(FULL_MASK, value == 0)),
        match_any(FULL_MASK, value),
        match_any(FULL_MASK, value as u8),
        match_all(FULL_MASK, value),
        match_all(FULL_MASK, value >> 40),
    ];
    sync_warp(FULL_MASK);
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

#[test]
fn case_g1_votes_and_matches() {
    for block in [1usize, 31, 32, 33, 70] {
        let input = inputs(5 * block);
        let mask = |warp: &[u64], test: &dyn Fn(u64) -> bool| {
            warp.iter().enumerate().fold(0u32, |mask, (lane, value)| mask | u32::from(test(*value)) << lane)
        };
        let expected = by_lanes(&input, block, |warp, lane| {
            let own = warp[lane];
            let whole = mask(warp, &|_| true);
            [
                mask(warp, &|v| v % 2 == 0),
                u32::from(warp.iter().all(|v| *v < 4 << 32)),
                u32::from(warp.contains(&0)),
                mask(warp, &|v| v == own),
                mask(warp, &|v| v as u8 == own as u8),
                if warp.iter().all(|v| *v == own) { whole } else { 0 },
                whole,
            ]
        });
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<[u32; 7]>(input.len())?;
            votes::launch(stream, LaunchConfig::new(5, block as u32), &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// Lane and warp numbers in blocks of three dimensions.
#[kernel]
fn numbers(mut output: GridSliceMut<[u32; 2]>) {
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = [lane_id(), warp_id()];
    }
}

#[test]
fn case_g1_lanes_count_over_all_dimensions() {
    let threads = 5 * 7 * 3;
    let expected: Vec<[u32; 2]> = (0..2 * threads).map(|i| [i % threads % 32, i % threads / 32]).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 2]>(expected.len())?;
        numbers::launch(stream, LaunchConfig::new(2, (5, 7, 3)), &mut output)?;
        stream.to_host(&output)
    });
}

/// Half a warp reduces alone, while the other half does something else.
#[kernel]
fn half_warps(input: &[u64], mut output: GridSliceMut<u64>) {
    let i = global_idx();
    let mut value = input[i.get()];
    if lane_id() < 16 {
        for distance in [8, 4, 2, 1] {
            value = value.wrapping_add(shfl_xor_within(0xffff, value, distance, 16));
        }
    } else {
        value = value.max(shfl_down_within(0xffff_0000, value, 1, 16));
    }
    if let Some(output) = output.get_mut(&i) {
        *output = value;
    }
}

#[test]
fn case_g6_a_group_of_16_reduces_alone() {
    let input: Vec<u64> = (0..128).map(|i| random(12, i)).collect();
    let expected = by_lanes(&input, 64, |warp, lane| {
        if lane < 16 {
            warp[..16].iter().fold(0u64, |sum, v| sum.wrapping_add(*v))
        } else {
            warp[lane].max(warp[if lane < 31 { lane + 1 } else { lane }])
        }
    });
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u64>(input.len())?;
        half_warps::launch(stream, LaunchConfig::new(2, 64), &stream.to_device(&input)?, &mut output)?;
        stream.to_host(&output)
    });
}

/// A warp's sum where some lanes left before it.
#[kernel]
fn after_some_left(limit: u32, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    if lane_id() >= limit {
        return;
    }
    let mask = FULL_MASK >> (WARP_SIZE - limit);
    let count = ballot(mask, true).count_ones() + shfl_idx(mask, lane_id(), limit - 1);
    if let Some(output) = output.get_mut(&i) {
        *output = count;
    }
}

#[test]
fn lanes_that_ended_are_not_waited_for() {
    for limit in [1u32, 7, 31, 32] {
        let expected: Vec<u32> = (0..96).map(|i| if i % 32 < limit { 2 * limit - 1 } else { 0 }).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u32>(96)?;
            after_some_left::launch(stream, LaunchConfig::new(1, 96), limit, &mut output)?;
            stream.to_host(&output)
        });
    }
}
