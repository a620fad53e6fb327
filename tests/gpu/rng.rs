//! Random numbers: on every device those that the host draws, bit for bit.

use rand::RngExt;
use warpsmith::prelude::*;
use warpsmith::rng::{Philox4x32, philox4x32_10};
use warpsmith_tests::{check_on_devices, mix, random};

/// Everything that a generator gives, as bits.
fn draw_all(rng: &mut Philox4x32) -> [u64; 16] {
    let pair = |(a, b): (f32, f32)| u64::from(a.to_bits()) << 32 | u64::from(b.to_bits());
    let one = u64::from(rng.next_u32());
    let two = rng.next_u64();
    let uniform = pair((rng.uniform_f32(), rng.uniform_positive_f32()));
    let (wide, wide_positive) = (rng.uniform_f64().to_bits(), rng.uniform_positive_f64().to_bits());
    let normal = pair(rng.normal_pair_f32());
    let (a, b) = rng.normal_pair_f64();
    let waiting = pair((rng.exponential_f32(), rng.normal_f32()));
    let waiting_long = rng.exponential_f64().to_bits();
    let small = u64::from(rng.range(0..10u8)) << 32 | rng.range(-7..=7i16) as u16 as u64;
    // Ranges of which a quarter is rejected, so that loops run.
    let rejecting = u64::from(rng.range(0..3u32 << 30)) << 32 | rng.range(i32::MIN..=1 << 30) as u32 as u64;
    let rejecting_wide = rng.range(0..3u64 << 62) ^ rng.range(i64::MIN..=1 << 62) as u64;
    let mut order = [0u8, 1, 2, 3, 4, 5, 6, 7];
    rng.shuffle(&mut order);
    let happens = (0..10).fold(0, |bits, i| bits << 1 | u64::from(rng.bernoulli(0.1 * i as f32)));
    rng.skip(two % 1000);
    let end = rng.next_u64();
    let order = u64::from_le_bytes(order);
    [
        one,
        two,
        uniform,
        wide,
        wide_positive,
        normal,
        a.to_bits(),
        b.to_bits(),
        waiting,
        waiting_long,
        small,
        rejecting,
        rejecting_wide,
        order,
        happens,
        end,
    ]
}

/// One stream a thread.
#[kernel]
fn draw_everything(seed: u64, rounds: u32, mut output: GridSliceMut<[u64; 16]>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let mut rng = Philox4x32::new(seed, i.get() as u64, i.get() as u64 % 7);
        for _ in 0..rounds {
            let drawn = draw_all(&mut rng);
            for (sum, bits) in output.iter_mut().zip(drawn) {
                *sum = mix(*sum, bits);
            }
        }
    }
}

#[test]
fn every_device_draws_the_numbers_of_the_host() {
    const LEN: usize = 300;
    for (seed, rounds) in [(0, 1), (0x0123_4567_89ab_cdef, 1), (u64::MAX, 40)] {
        let expected: Vec<[u64; 16]> = (0..LEN as u64)
            .map(|i| {
                let mut rng = Philox4x32::new(seed, i, i % 7);
                let mut sums = [0; 16];
                for _ in 0..rounds {
                    for (sum, bits) in sums.iter_mut().zip(draw_all(&mut rng)) {
                        *sum = mix(*sum, bits);
                    }
                }
                sums
            })
            .collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.filled([0; 16], LEN)?;
            draw_everything::launch(stream, LaunchConfig::new(10, 32), seed, rounds, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// The published vectors, through counters and keys from memory.
#[kernel]
fn of_counters(counters: &[[u32; 4]], keys: &[[u32; 2]], mut output: GridSliceMut<[u32; 4]>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = philox4x32_10(counters[i.get()], keys[i.get()]);
    }
}

#[test]
fn published_vectors_on_every_device() {
    let counters = [[0; 4], [u32::MAX; 4], [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]];
    let keys = [[0; 2], [u32::MAX; 2], [0xa409_3822, 0x299f_31d0]];
    let expected = [
        [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
    ];
    check_on_devices(&expected, |stream| {
        let mut output = stream.filled([0; 4], 3)?;
        let (counters, keys) = (stream.to_device(&counters)?, stream.to_device(&keys)?);
        of_counters::launch(stream, LaunchConfig::for_len(3), &counters, &keys, &mut output)?;
        stream.to_host(&output)
    });
}

/// Normal numbers of many words, in a kernel that rounds each operation.
#[kernel]
fn normal(rounds: u32, mut output: GridSliceMut<u64>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = sum_of_normal(i.get() as u64, rounds);
    }
}

/// The same in a kernel that may contract.
#[kernel(contract)]
fn normal_contracted(rounds: u32, mut output: GridSliceMut<u64>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = sum_of_normal(i.get() as u64, rounds);
    }
}

fn sum_of_normal(stream: u64, rounds: u32) -> u64 {
    let mut rng = Philox4x32::new(9, stream, 0);
    (0..rounds).fold(0, |sum, _| {
        let ((a, b), (c, d)) = (rng.normal_pair_f32(), rng.normal_pair_f64());
        mix(mix(sum, u64::from(a.to_bits()) << 32 | u64::from(b.to_bits())), c.to_bits() ^ d.to_bits().rotate_left(1))
    })
}

#[test]
fn normal_numbers_are_the_same_bits_with_and_without_contraction() {
    const LEN: usize = 1000;
    let expected: Vec<u64> = (0..LEN as u64).map(|i| sum_of_normal(i, 30)).collect();
    check_on_devices(&expected, |stream| {
        let (mut plain, mut contracted) = (stream.zeroed::<u64>(LEN)?, stream.zeroed::<u64>(LEN)?);
        normal::launch(stream, LaunchConfig::for_len(LEN), 30, &mut plain)?;
        normal_contracted::launch(stream, LaunchConfig::for_len(LEN), 30, &mut contracted)?;
        let plain = stream.to_host(&plain)?;
        assert_eq!(plain, stream.to_host(&contracted)?);
        Ok(plain)
    });
}

/// Goes on with a generator that the launch before left in memory.
#[kernel]
fn go_on(mut states: GridSliceMut<Philox4x32>, mut output: GridSliceMut<u64>) {
    let i = global_idx();
    if let (Some(state), Some(output)) = (states.get_mut(&i), output.get_mut(&i)) {
        *output = mix(*output, state.range(0..1000u64));
    }
}

#[test]
fn a_generator_in_a_buffer_goes_on_with_its_stream() {
    let seeds: Vec<u64> = (0..64).map(|i| random(51, i)).collect();
    let states: Vec<Philox4x32> = seeds.iter().map(|seed| Philox4x32::new(*seed, 1, 1)).collect();
    let expected: Vec<u64> = states
        .iter()
        .map(|state| {
            let mut state = *state;
            (0..5).fold(0, |sum, _| mix(sum, state.range(0..1000u64)))
        })
        .collect();
    check_on_devices(&expected, |stream| {
        let mut device_states = stream.to_device(&states)?;
        let mut output = stream.zeroed::<u64>(states.len())?;
        for _ in 0..5 {
            go_on::launch(stream, LaunchConfig::for_len(states.len()), &mut device_states, &mut output)?;
        }
        stream.to_host(&output)
    });
}

/// What `rand` makes of a generator's numbers.
fn draw_through_rand(rng: &mut Philox4x32) -> u64 {
    let (whole, fraction): (u64, f32) = (rng.random(), rng.random());
    let die = rng.random_range(1..=6u32);
    let mut bytes = [0u8; 7];
    rng.fill(&mut bytes);
    let happens = rng.random_bool(0.25);
    let bytes = bytes.iter().fold(u64::from(happens), |all, byte| all << 8 | u64::from(*byte));
    mix(mix(whole, bytes), u64::from(die) << 32 | u64::from(fraction.to_bits()))
}

/// One stream a thread, by way of `rand`.
#[kernel]
fn through_rand(mut output: GridSliceMut<u64>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let mut rng = Philox4x32::new(12, i.get() as u64, 0);
        *output = (0..5).fold(0, |sum, _| mix(sum, draw_through_rand(&mut rng)));
    }
}

#[test]
fn distributions_of_rand_take_the_generator() {
    let draw = |i| {
        let mut rng = Philox4x32::new(12, i, 0);
        (0..5).fold(0, |sum, _| mix(sum, draw_through_rand(&mut rng)))
    };
    let expected: Vec<u64> = (0..100).map(draw).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u64>(100)?;
        through_rand::launch(stream, LaunchConfig::for_len(100), &mut output)?;
        stream.to_host(&output)
    });
    // Bytes are the numbers', lowest first.
    let mut bytes = [0u8; 6];
    Philox4x32::new(0, 0, 0).fill(&mut bytes);
    assert_eq!(bytes, [0xd5, 0xe8, 0x27, 0x66, 0x8d, 0xc5]);
}

/// A range without anything in it.
#[kernel]
fn from_nothing(end: u32, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = Philox4x32::new(0, 0, 0).range(3..end);
    }
}

#[test]
fn an_empty_range_is_a_reported_panic() {
    for device in warpsmith_tests::devices() {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<u32>(1).expect("a small copy works");
        let error = from_nothing::launch(&stream, LaunchConfig::for_len(1), 3, &mut output)
            .and_then(|()| stream.synchronize())
            .expect_err("the range is empty");
        let panic = error.kernel_panic().unwrap_or_else(|| panic!("on {device}: {error}"));
        assert_eq!(panic.message, "the range 3..3 is empty", "on {device}");
        assert!(panic.file.ends_with("gpu/rng.rs"), "on {device}: {}", panic.file);
    }
}
