//! Constants: tables that never change, and values that the host sets between launches.

use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, devices};

/// A table of structs with padding, made when the program is compiled.
static TABLE: [(u8, u32, f64); 300] = {
    let mut table = [(0, 0, 0.0); 300];
    let mut i = 0;
    while i < table.len() {
        table[i] = (i as u8, (i * i) as u32, i as f64 / 8.0);
        i += 1;
    }
    table
};

/// A large table, 64 KiB and more.
static LARGE: [u32; 20_000] = {
    let mut table = [0; 20_000];
    let mut i = 0;
    while i < table.len() {
        table[i] = (i as u32).wrapping_mul(0x9e37_79b9);
        i += 1;
    }
    table
};

/// Rows of unequal length: references to tables in a table.
static ROWS: [&[u16]; 3] = [&[1, 2, 3], &[], &[40_000]];

/// Looks up what the data says.
#[kernel]
fn look_up(places: &[u32], mut output: GridSliceMut<(f64, u32)>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let place = places[i.get()] as usize;
        let (a, b, c) = TABLE[place % TABLE.len()];
        let row: u32 = ROWS[place % 3].iter().map(|v| u32::from(*v)).sum();
        *output = (c + f64::from(a), b ^ LARGE[place] ^ row);
    }
}

#[test]
fn case_e7_static_tables_are_read_by_every_thread() {
    let places: Vec<u32> = (0..200).map(|i| i * 97 % 20_000).collect();
    let expected: Vec<(f64, u32)> = places
        .iter()
        .map(|place| {
            let i = place % 300;
            let value = f64::from(i) / 8.0 + f64::from(i as u8);
            (value, (i * i) ^ place.wrapping_mul(0x9e37_79b9) ^ [6, 0, 40_000][(place % 3) as usize])
        })
        .collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.filled((0.0, 0), places.len())?;
        look_up::launch(stream, LaunchConfig::for_len(places.len()), &stream.to_device(&places)?, &mut output)?;
        stream.to_host(&output)
    });
}

/// A value with padding, a bool and an option.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue)]
struct Settings {
    negate: bool,
    scale: f64,
    offset: Option<u16>,
}

constant! {
    /// Read at a place that the data gives.
    static WEIGHTS: [f32; 64] = [1.0; 64];
    /// Read whole.
    static SETTINGS: Settings = Settings { negate: false, scale: 1.0, offset: None };
}

constant! {
    /// Read by two kernels, one of which reads nothing else.
    static SHIFT: u32 = 100;
}

/// Reads a constant through a reference, in a function of its own.
#[inline(never)]
fn weight(weights: &Constant<[f32; 64]>, at: usize) -> f32 {
    weights.at(at)
}

/// Reads constants in every way.
#[kernel]
fn weigh(x: &[u32], mut output: GridSliceMut<f64>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let place = (x[i.get()] + SHIFT.get()) as usize % 64;
        let settings = SETTINGS.get();
        let all: f32 = WEIGHTS.with(|weights| weights.iter().sum());
        let sum = f64::from(WEIGHTS.at(place) * weight(&WEIGHTS, 63 - place) + all) * settings.scale;
        let sum = sum + f64::from(settings.offset.unwrap_or(0));
        *output = if settings.negate { -sum } else { sum };
    }
}

/// Reads one constant.
#[kernel]
fn shift(mut output: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = i.get() as u32 + SHIFT.get();
    }
}

/// What `weigh` computes.
fn weighed(x: &[u32], weights: &[f32; 64], settings: Settings, shift: u32) -> Vec<f64> {
    let all: f32 = weights.iter().sum();
    x.iter()
        .map(|x| {
            let place = (x + shift) as usize % 64;
            let sum = f64::from(weights[place] * weights[63 - place] + all) * settings.scale;
            let sum = sum + f64::from(settings.offset.unwrap_or(0));
            if settings.negate { -sum } else { sum }
        })
        .collect()
}

/// Constants belong to a device, so one test sets them.
#[test]
fn constants_are_set_between_launches() {
    let x: Vec<u32> = (0..100).collect();
    let declared = Settings { negate: false, scale: 1.0, offset: None };
    for device in devices() {
        let run = |streams: [&Stream; 2]| -> warpsmith::Result<(Vec<f64>, Vec<u32>)> {
            let mut sums = streams[0].zeroed::<f64>(x.len())?;
            let mut shifted = streams[1].zeroed::<u32>(40)?;
            let input = streams[0].to_device(&x)?;
            weigh::launch(streams[0], LaunchConfig::new(4, 32), &input, &mut sums)?;
            shift::launch(streams[1], LaunchConfig::for_len(40), &mut shifted)?;
            Ok((streams[0].to_host(&sums)?, streams[1].to_host(&shifted)?))
        };
        let check = |streams: [&Stream; 2], weights: [f32; 64], settings: Settings, by: u32| {
            let (sums, shifted) = run(streams).unwrap_or_else(|error| panic!("on {device}: {error}"));
            assert_eq!(sums, weighed(&x, &weights, settings, by), "on {device}");
            assert_eq!(shifted, (by..by + 40).collect::<Vec<_>>(), "on {device}");
            let now = (device.constant(&WEIGHTS), device.constant(&SETTINGS), device.constant(&SHIFT));
            assert_eq!(now, (weights, settings, by), "on {device}");
        };
        let (a, b) = (device.stream().expect("a stream"), device.stream().expect("a stream"));
        check([&a, &b], [1.0; 64], declared, 100);
        let weights = std::array::from_fn(|i| i as f32);
        device.set_constant(&WEIGHTS, &weights).expect("one constant of this name");
        check([&a, &b], weights, declared, 100);
        check([&b, &a], weights, declared, 100);
        let settings = Settings { negate: true, scale: 0.5, offset: Some(7) };
        device.set_constant(&SETTINGS, &settings).expect("one constant of this name");
        device.set_constant(&SHIFT, &3).expect("one constant of this name");
        check([&b, &b], weights, settings, 3);
        // A launch in blocks of two dimensions has code of its own, and so a copy of its own.
        let mut output = a.zeroed::<u32>(64).expect("there is memory");
        shift::launch(&a, LaunchConfig::new((2, 2), (4, 4)), &mut output).expect("a launch works");
        assert_eq!(a.to_host(&output).expect("the launch worked"), (3..67).collect::<Vec<_>>(), "on {device}");
        device.set_constant(&SHIFT, &100).expect("one constant of this name");
        device.set_constant(&WEIGHTS, &[1.0; 64]).expect("one constant of this name");
        device.set_constant(&SETTINGS, &declared).expect("one constant of this name");
        check([&a, &b], [1.0; 64], declared, 100);
    }
}

constant! {
    /// Changed between launches that overlap.
    static ROUND: [u32; 2] = [0, 0];
}

/// Takes its time, then says which round it saw, in the first and in the last read.
#[kernel]
fn slow_round(turns: u32, mut output: GridSliceMut<[u32; 2]>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let first = ROUND.at(0);
        let mut value = i.get() as u32;
        for _ in 0..turns {
            value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        }
        // Never true, which the optimiser does not know.
        let second = if value == 0x1234_5678 && turns == 1 { 0 } else { ROUND.at(1) };
        *output = [first, second];
    }
}

#[test]
fn launches_keep_the_value_that_was_set_before_them() {
    const ROUNDS: u32 = 60;
    for device in devices() {
        let turns = if device.is_gpu() { 200_000 } else { 10 };
        let streams: Vec<Stream> = (0..3).map(|_| device.stream().expect("a stream")).collect();
        let mut outputs: Vec<DeviceBuffer<[u32; 2]>> = (0..ROUNDS)
            .map(|round| streams[round as usize % 3].filled([u32::MAX; 2], 256).expect("there is memory"))
            .collect();
        for (round, output) in (0..ROUNDS).zip(&mut outputs) {
            // Every other launch comes without a change, on another stream than the one before.
            if round % 2 == 0 {
                device.set_constant(&ROUND, &[round + 1, round + 1]).expect("one constant of this name");
            }
            let stream = &streams[round as usize % 3];
            slow_round::launch(stream, LaunchConfig::new(2, 128), turns, output).expect("a launch works");
        }
        for (round, output) in (0..ROUNDS).zip(&outputs) {
            let seen = streams[round as usize % 3].to_host(output).expect("the launches worked");
            assert_eq!(seen, vec![[round / 2 * 2 + 1; 2]; 256], "round {round} on {device}");
        }
    }
}

constant! {
    /// Read by blocks that are alive at once.
    static SHARE: u32 = 1;
}

/// Reads a constant in blocks of a cluster, or of a grid that waits for each other.
#[kernel]
fn shares(mut output: GridSliceMut<u32>) {
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = SHARE.get();
    }
}

#[test]
fn launches_in_clusters_and_cooperative_ones_see_what_was_set() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        device.set_constant(&SHARE, &7).expect("one constant of this name");
        let config = LaunchConfig::new(4, 32);
        let mut configs = vec![config, config.cooperative()];
        if device.capability().is_none_or(|capability| capability.major >= 9) {
            configs.extend([config.with_cluster(2), config.with_cluster(2).cooperative()]);
        }
        for config in configs {
            let mut output = stream.zeroed::<u32>(128).expect("there is memory");
            shares::launch(&stream, config, &mut output).expect("a launch works");
            assert_eq!(stream.to_host(&output).expect("the launch worked"), [7; 128], "{config:?} on {device}");
        }
    }
}
