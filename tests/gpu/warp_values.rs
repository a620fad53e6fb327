//! What moves between lanes: every type and every mode, against the same moves on the host; seeds are printed.

use half::{bf16, f16};
use warpsmith::prelude::*;
use warpsmith::warp::{shfl_down_within, shfl_idx_within, shfl_up_within, shfl_xor_within};
use warpsmith_tests::{check_on_devices, cpu, devices, gpu, ptx, random};

/// A struct of 13 bytes and a bit that moves field by field.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue, WarpValue)]
struct Mixed<T> {
    number: T,
    small: u8,
    flag: bool,
    letter: char,
    side: Side,
}

/// A struct that any bits make a value of.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue, AnyBits)]
struct Particle {
    position: [f32; 2],
    id: u32,
    mass: [u16; 2],
}

/// An enum that moves as the number of its variant.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue, WarpValue)]
#[repr(u8)]
enum Side {
    Left = 7,
    Right = 200,
    Neither = 3,
}

/// The four modes, one after the other.
#[kernel]
fn moves<T: WarpValue + KernelValue>(operands: [u32; 4], width: u32, input: &[T], mut output: GridSliceMut<[T; 4]>) {
    let i = global_idx();
    let value = input[i.get()];
    let lane = lane_id();
    let [to, up, down, bits] = operands;
    let results = [
        shfl_idx_within(FULL_MASK, value, to.wrapping_add(lane), width),
        shfl_up_within(FULL_MASK, value, up, width),
        shfl_down_within(FULL_MASK, value, down, width),
        shfl_xor_within(FULL_MASK, value, bits, width),
    ];
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

/// Moves random values in random ways through full warps.
fn check<T>(make: impl Fn(u64, u64) -> T)
where
    T: WarpValue + KernelValue + PartialEq + std::fmt::Debug,
{
    let block = 96;
    for seed in 0..4_u64 {
        let seed = seed * 1000 + size_of::<T>() as u64;
        println!("seed {seed}");
        let width = 1 << (random(seed, 0) % 6);
        let operands = [1, 2, 3, 4].map(|i| random(seed, i) as u32 % 32);
        let input: Vec<T> = (0..2 * block).map(|i| make(random(seed, 10 + 2 * i), random(seed, 11 + 2 * i))).collect();
        let expected: Vec<[T; 4]> = (0..input.len())
            .map(|thread| {
                let (lane, warp) = (thread as u32 % 32, thread / 32 * 32);
                let (group, rank) = (lane / width * width, lane % width);
                let [to, up, down, bits] = operands;
                let sources = [
                    group + (to + lane) % width,
                    if rank >= up { lane - up } else { lane },
                    if rank + down < width { lane + down } else { lane },
                    // Lower groups may be read, those above not.
                    if lane ^ bits < group + width { lane ^ bits } else { lane },
                ];
                sources.map(|source| input[warp + source as usize])
            })
            .collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.to_device(&vec![[input[0]; 4]; input.len()])?;
            let config = LaunchConfig::new(2, block as u32);
            moves::launch::<T>(stream, config, operands, width, &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

#[test]
fn case_g1_every_number_moves_in_every_mode() {
    check(|a, _| a as u8);
    check(|a, _| a as i8);
    check(|a, _| a as u16);
    check(|a, _| a as i16);
    check(|a, _| a as u32);
    check(|a, _| a as i32);
    check(|a, _| a);
    check(|a, _| a as i64);
    check(|a, _| a as usize);
    check(|a, _| a as isize);
    check(|a, b| u128::from(a) << 64 | u128::from(b));
    check(|a, b| (u128::from(a) << 64 | u128::from(b)) as i128);
    check(|a, _| (a >> 40) as f32 - 1e6);
    check(|a, _| (a >> 11) as f64 * -1e-300);
    check(|a, _| f16::from_f32((a % 1000) as f32));
    check(|a, _| bf16::from_f32((a % 100) as f32));
}

#[test]
fn case_g1_arrays_tuples_and_structs_move_in_every_mode() {
    check(|a, _| [a as u8, (a >> 8) as u8, (a >> 16) as u8]);
    check(|a, b| [a as u16, (a >> 16) as u16, b as u16, (b >> 16) as u16, (b >> 32) as u16]);
    check(|a, b| [(a >> 40) as f32, (b >> 40) as f32, -1.5]);
    check(|a, b| [(a >> 40) as f32, (b >> 40) as f32, -1.5, (a % 99) as f32]);
    check(|a, b| [(a >> 11) as f64, (b >> 11) as f64]);
    check(|a, b| [[a as i16; 3], [b as i16; 3]]);
    check(|a, _| a.is_multiple_of(3));
    check(|a, _| char::from_u32(a as u32 % 0xd800).unwrap_or('?'));
    check(|a, b| a.is_multiple_of(2).then_some(b));
    check(|a, b| (a as u8, b, a.is_multiple_of(2)));
    check(|a, b| Particle {
        position: [(a >> 40) as f32, (b >> 40) as f32],
        id: a as u32,
        mass: [b as u16, (b >> 16) as u16],
    });
    check(|a, b| Mixed {
        number: a as i64,
        small: b as u8,
        flag: b.is_multiple_of(5),
        letter: if a.is_multiple_of(2) { '\u{10fffe}' } else { 'z' },
        side: [Side::Left, Side::Right, Side::Neither][b as usize % 3],
    });
}

#[test]
fn a_value_costs_a_shuffle_for_each_32_bits() {
    // Four modes each.
    let shuffles = |name: &str, count: usize| {
        ptx::of_instance(module_path!(), "moves", name).check_count("shfl.sync", 4 * count).check_not(".local");
    };
    for one in ["u8", "i16", "u32", "f32", "half::binary16::f16", "bool", "[u8; 3]"] {
        shuffles(one, 1);
    }
    shuffles("u64", 2);
    shuffles("f64", 2);
    shuffles("core::option::Option<u64>", 3);
    shuffles("[u16; 5]", 3);
    shuffles("[f32; 3]", 3);
    shuffles("u128", 4);
    shuffles("[f32; 4]", 4);
    shuffles("gpu::warp_values::Particle", 4);
}

/// Matches of values of all widths.
#[kernel]
fn matches(input: &[u64], mut output: GridSliceMut<[u32; 8]>) {
    let i = global_idx();
    let value = input[i.get()];
    let m = FULL_MASK;
    let wide = u128::from(value) << 64 | u128::from(value.is_multiple_of(2));
    let results = [
        match_any(m, value as u8),
        match_any(m, [value as u16, 7]),
        match_any(m, (value, true)),
        match_any(m, wide),
        match_any(m, u128::from(value % 2) << 127),
        match_all(m, wide),
        match_all(m, (value > 5, [1.5_f32; 3])),
        match_all(m, value.is_multiple_of(2).then_some(1_u128 << 64)),
    ];
    if let Some(output) = output.get_mut(&i) {
        *output = results;
    }
}

#[test]
fn case_g1_matches_compare_all_bits() {
    ptx::of(module_path!(), "matches").check_count("match.any.sync.b32", 2).check_count("match.any.sync.b64", 6);
    for block in [1_usize, 31, 32, 33, 70] {
        let input: Vec<u64> = (0..2 * block as u64).map(|i| random(77, i) % 4).collect();
        let warps: Vec<&[u64]> = input.chunks(block).flat_map(|block| block.chunks(32)).collect();
        let mut expected = Vec::new();
        for warp in warps {
            let mask = |test: &dyn Fn(u64) -> bool| {
                (0..).zip(warp).fold(0_u32, |mask, (lane, value)| mask | u32::from(test(*value)) << lane)
            };
            let all = |same: bool| if same { mask(&|_| true) } else { 0 };
            for own in warp {
                let equal = mask(&|v| v == *own);
                expected.push([
                    equal,
                    equal,
                    equal,
                    equal,
                    mask(&|v| v % 2 == own % 2),
                    all(warp.iter().all(|v| v == own)),
                    all(true),
                    all(warp.iter().all(|v| v % 2 == own % 2)),
                ]);
            }
        }
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<[u32; 8]>(input.len())?;
            matches::launch(stream, LaunchConfig::new(2, block as u32), &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// Reads from a lane that has ended, and from one that the mask leaves out.
#[kernel]
fn from_nowhere<T: WarpValue + KernelValue>(ended: u32, mask: u32, input: &[T], mut output: GridSliceMut<T>) {
    let i = global_idx();
    if mask & !ended & lanemask_eq() == 0 {
        return;
    }
    let value = shfl_idx_within(mask, input[i.get()], 9, WARP_SIZE);
    if let Some(output) = output.get_mut(&i) {
        *output = value;
    }
}

/// The CPU executor names the rule; a GPU gives some value of the type or reports that what came is none.
fn check_from_nowhere<T>(value: T, none: Option<&str>)
where
    T: WarpValue + KernelValue + PartialEq + std::fmt::Debug,
{
    for (ended, mask, rule) in [
        (1 << 9, FULL_MASK, "lane 9 has ended and sends nothing"),
        (0, 0xffff_fc00, "the mask 0xfffffc00 leaves lane 9 out"),
    ] {
        for device in devices() {
            let stream = device.stream().expect("a device gives streams");
            let work = |ended: u32, mask: u32| {
                let mut output = stream.to_device(&[value; 32])?;
                let input = stream.to_device(&[value; 32])?;
                from_nowhere::launch::<T>(&stream, LaunchConfig::new(1, 32), ended, mask, &input, &mut output)?;
                stream.to_host(&output)
            };
            match work(ended, mask) {
                Err(error) if std::ptr::eq(device, cpu()) => {
                    assert!(error.to_string().contains(rule), "on {device}: {error}");
                }
                Err(error) => {
                    let none = none.unwrap_or_else(|| panic!("on {device}, any bits are a value, but: {error}"));
                    assert!(error.to_string().contains(none), "on {device}: {error}");
                }
                Ok(values) => {
                    assert!(gpu().is_some_and(|gpu| std::ptr::eq(device, gpu)), "{device} did not report: {rule}");
                    println!("on {device}: {:?}", values[31]);
                }
            }
            assert_eq!(work(0, FULL_MASK).expect("all lanes are there"), [value; 32], "on {device}");
        }
    }
}

#[test]
fn a_source_that_takes_no_part_is_reported_or_gives_a_valid_value() {
    check_from_nowhere(7_u32, None);
    check_from_nowhere([1.5_f64, -2.5], None);
    check_from_nowhere(true, None);
    check_from_nowhere('x', Some("which is no char"));
    check_from_nowhere(Side::Neither, Some("came from another lane"));
}
