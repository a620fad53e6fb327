//! Reductions and scans of a warp against the order that their docs promise, with warps that are not full.

use half::f16;
use warpsmith::prelude::*;
use warpsmith::warp;
use warpsmith_tests::{check_on_devices, check_with_absent_lanes, random};

/// The masks that the tests use: full, with holes, of one lane, of none but the last lanes.
const MASKS: [u32; 8] = [FULL_MASK, 0xffff, 0x8421_00f1, 0x5555_5555, 1, 1 << 31, 0xfff0_0000, 0x7fff_ffff];

/// The values of the lanes of `mask` in one warp, by rank, with their places.
fn taking_part<T: Copy>(warp: &[T], mask: u32) -> (Vec<usize>, Vec<T>) {
    let lanes: Vec<usize> = (0..warp.len()).filter(|lane| mask & 1 << lane != 0).collect();
    let values = lanes.iter().map(|lane| warp[*lane]).collect();
    (lanes, values)
}

/// The tree of the docs.
fn tree<T: Copy>(values: &[T], join: &impl Fn(T, T) -> T) -> T {
    let mut level = values.to_vec();
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| if let [a, b] = *pair { join(a, b) } else { pair[0] }).collect();
    }
    level[0]
}

/// The scan of the docs.
fn scan<T: Copy>(values: &[T], join: &impl Fn(T, T) -> T) -> Vec<T> {
    let mut values = values.to_vec();
    for reach in [1, 2, 4, 8, 16] {
        let before = values.clone();
        for rank in reach..values.len() {
            values[rank] = join(before[rank - reach], before[rank]);
        }
    }
    values
}

/// What each thread gets: `of` makes the results of the lanes that take part out of their values.
fn by_warps<T: Copy, R: Copy>(input: &[T], block: usize, mask: u32, none: R, of: impl Fn(&[T]) -> Vec<R>) -> Vec<R> {
    let mut expected = Vec::new();
    for warp in input.chunks(block).flat_map(|block| block.chunks(32)) {
        let (lanes, values) = taking_part(warp, mask);
        let mut results = vec![none; warp.len()];
        for (lane, result) in lanes.iter().zip(if values.is_empty() { Vec::new() } else { of(&values) }) {
            results[*lane] = result;
        }
        expected.extend(results);
    }
    expected
}

/// All six reductions of an integer type, by those lanes that are in the mask.
#[kernel]
fn integers<T: WarpInteger + KernelValue>(mask: u32, input: &[T], mut output: GridSliceMut<[T; 6]>) {
    let i = global_idx();
    if mask & lanemask_eq() == 0 {
        return;
    }
    let value = input[i.get()];
    let results = [
        reduce_add(mask, value),
        reduce_min(mask, value),
        reduce_max(mask, value),
        reduce_and(mask, value),
        reduce_or(mask, value),
        reduce_xor(mask, value),
    ];
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

macro_rules! check_integers {
    ($($int:ty)*) => {$(
        for (number, mask) in (0..).zip(MASKS) {
            let block = [32, 33, 64, 45][number as usize % 4];
            let seed = 500 + number;
            println!("seed {seed}, mask {mask:#x}, {}", stringify!($int));
            let input: Vec<$int> =
                (0..2 * block).map(|i| (random(seed, i) as u128 * 0x1_0000_0001_0000_0001_u128) as $int).collect();
            let expected = by_warps(&input, block as usize, mask, [0; 6], |values| {
                let fold = |join: fn($int, $int) -> $int| values.iter().copied().reduce(join).expect("not empty");
                vec![[
                    fold(<$int>::wrapping_add),
                    fold(<$int>::min),
                    fold(<$int>::max),
                    fold(|a, b| a & b),
                    fold(|a, b| a | b),
                    fold(|a, b| a ^ b),
                ]; values.len()]
            });
            check_with_absent_lanes(&expected, |stream| {
                let mut output = stream.zeroed::<[$int; 6]>(input.len())?;
                let config = LaunchConfig::new(2, block as u32);
                integers::launch::<$int>(stream, config, mask, &stream.to_device(&input)?, &mut output)?;
                stream.to_host(&output)
            });
        }
    )*};
}

#[test]
fn integers_reduce_over_any_mask() {
    check_integers!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize u128 i128);
}

/// Float sums and extremes.
#[kernel]
fn floats<T: WarpNumber + KernelValue>(mask: u32, input: &[T], mut output: GridSliceMut<[T; 5]>) {
    let i = global_idx();
    if mask & lanemask_eq() == 0 {
        return;
    }
    let value = input[i.get()];
    let results = [
        reduce_add(mask, value),
        reduce_min(mask, value),
        reduce_max(mask, value),
        inclusive_scan_add(mask, value),
        exclusive_scan_add(mask, value),
    ];
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

macro_rules! check_floats {
    ($($float:ty, $zero:expr, $make:expr;)*) => {$(
        for (number, mask) in (0..).zip(MASKS) {
            let block = [32, 45, 64, 33][number as usize % 4];
            let seed = 600 + number;
            println!("seed {seed}, mask {mask:#x}, {}", stringify!($float));
            let input: Vec<$float> = (0..2 * block).map(|i| $make(random(seed, i))).collect();
            let expected = by_warps(&input, block as usize, mask, [$zero; 5], |values| {
                let sums = scan(values, &|a, b| a + b);
                let least = values.iter().copied().reduce(<$float>::min).expect("not empty");
                let greatest = values.iter().copied().reduce(<$float>::max).expect("not empty");
                let sum = tree(values, &|a, b| a + b);
                (0..values.len())
                    .map(|rank| [sum, least, greatest, sums[rank], if rank == 0 { $zero } else { sums[rank - 1] }])
                    .collect()
            });
            check_with_absent_lanes(&expected, |stream| {
                let mut output = stream.to_device(&vec![[$zero; 5]; input.len()])?;
                let config = LaunchConfig::new(2, block as u32);
                floats::launch::<$float>(stream, config, mask, &stream.to_device(&input)?, &mut output)?;
                stream.to_host(&output)
            });
        }
    )*};
}

#[test]
fn float_sums_have_the_order_of_the_docs_to_the_bit() {
    check_floats! {
        f32, 0.0, |r: u64| ((r >> 20) as f32 - 1e13) * 1.234e-7;
        f64, 0.0, |r: u64| (r as f64 - 9e18) * 1.234e-17;
        f16, f16::ZERO, |r: u64| f16::from_f32(((r % 20011) as f32 - 1e4) * 0.0371);
        half::bf16, half::bf16::ZERO, |r: u64| half::bf16::from_f32(((r % 20011) as f32 - 1e4) * 0.0371);
    }
}

#[test]
fn case_d2_nan_yields_to_numbers_wherever_it_lies() {
    for nan in [0_usize, 15, 31] {
        let mut input = vec![2.0_f32; 32];
        input[nan] = f32::NAN;
        let expected = vec![[2.0_f32, 2.0]; 32];
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<[f32; 5]>(32)?;
            let input = stream.to_device(&input)?;
            floats::launch::<f32>(stream, LaunchConfig::new(1, 32), FULL_MASK, &input, &mut output)?;
            Ok(stream.to_host(&output)?.iter().map(|all| [all[1], all[2]]).collect())
        });
    }
}

/// Maps `x -> a * x + b`, which do not commute when joined.
fn then((a, b): (u32, u32), (c, d): (u32, u32)) -> (u32, u32) {
    (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d))
}

/// An operation of the kernel's own.
#[kernel]
fn maps(mask: u32, input: &[(u32, u32)], mut output: GridSliceMut<[(u32, u32); 3]>) {
    let i = global_idx();
    if mask & lanemask_eq() == 0 {
        return;
    }
    let value = input[i.get()];
    let results = [
        warp::reduce(mask, value, then),
        inclusive_scan(mask, value, then),
        exclusive_scan(mask, (77, 78), value, then),
    ];
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

#[test]
fn operations_that_do_not_commute_keep_their_order() {
    for (number, mask) in (0..).zip(MASKS) {
        for block in [32_usize, 1, 31, 33, 96] {
            println!("seed {number}, mask {mask:#x}, block {block}");
            let input: Vec<(u32, u32)> =
                (0..2 * block as u64).map(|i| (random(number, i) as u32, random(number, i) as u32 >> 3)).collect();
            let expected = by_warps(&input, block, mask, [(0, 0); 3], |values| {
                let all = values.iter().copied().reduce(then).expect("not empty");
                let mut before = None;
                let results = values.iter().map(|value| {
                    let now = before.map_or(*value, |before| then(before, *value));
                    let result = [all, now, before.unwrap_or((77, 78))];
                    before = Some(now);
                    result
                });
                results.collect()
            });
            check_with_absent_lanes(&expected, |stream| {
                let mut output = stream.to_device(&vec![[(0, 0); 3]; input.len()])?;
                maps::launch(
                    stream,
                    LaunchConfig::new(2, block as u32),
                    mask,
                    &stream.to_device(&input)?,
                    &mut output,
                )?;
                stream.to_host(&output)
            });
        }
    }
}

/// Some lanes leave, the rest goes on with the full mask.
#[kernel]
fn some_left(leaving: u32, input: &[u32], mut output: GridSliceMut<[u32; 5]>) {
    let i = global_idx();
    if leaving & lanemask_eq() != 0 {
        return;
    }
    let value = input[i.get()];
    let results = [
        reduce_add(FULL_MASK, value),
        reduce_max(FULL_MASK, u64::from(value)) as u32,
        inclusive_scan_add(FULL_MASK, value),
        u32::from(elect(FULL_MASK)),
        broadcast(FULL_MASK, value, (!leaving).ilog2()),
    ];
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

#[test]
fn lanes_that_ended_take_no_part_in_reductions() {
    for leaving in [0, 1, 0xffff, 0x0f0f_0f0f, 0x7fff_ffff, 0x8000_0000] {
        let input: Vec<u32> = (0..64).map(|i| random(9, i) as u32).collect();
        let expected = by_warps(&input, 64, !leaving, [0; 5], |values| {
            let sum = values.iter().fold(0_u32, |sum, value| sum.wrapping_add(*value));
            let greatest = values.iter().copied().max().expect("not empty");
            let sums = scan(values, &u32::wrapping_add);
            let last = *values.last().expect("not empty");
            (0..values.len()).map(|rank| [sum, greatest, sums[rank], u32::from(rank == 0), last]).collect()
        });
        check_with_absent_lanes(&expected, |stream| {
            let mut output = stream.zeroed::<[u32; 5]>(64)?;
            some_left::launch(stream, LaunchConfig::new(1, 64), leaving, &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// The lane masks.
#[kernel]
fn lane_masks(mut output: GridSliceMut<[u32; 5]>) {
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = [lanemask_eq(), lanemask_lt(), lanemask_le(), lanemask_gt(), lanemask_ge()];
    }
}

#[test]
fn case_g1_lane_masks() {
    let expected: Vec<[u32; 5]> = (0..70)
        .map(|thread| {
            let lane = thread % 32;
            let mask = |test: &dyn Fn(u32) -> bool| (0..32).fold(0, |mask, l| mask | u32::from(test(l)) << l);
            [mask(&|l| l == lane), mask(&|l| l < lane), mask(&|l| l <= lane), mask(&|l| l > lane), mask(&|l| l >= lane)]
        })
        .collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 5]>(70)?;
        lane_masks::launch(stream, LaunchConfig::new(1, 70), &mut output)?;
        stream.to_host(&output)
    });
}
