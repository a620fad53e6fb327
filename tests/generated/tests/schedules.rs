//! Generated kernels: each gives what its program means, whatever the order of blocks and threads, and on a GPU.

use std::sync::LazyLock;

use warpsmith::prelude::*;
use warpsmith_generated_tests::kernels::{LAUNCHES, SEED};
use warpsmith_generated_tests::program::{
    BLOCKS, COUNTERS, Draws, Given, PROGRAMS, Program, WITHOUT_ATOMICS, programs,
};

/// A program with its input and what it gives.
struct Case {
    program: Program,
    input: Vec<u32>,
    expected: Given,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    println!("generated from the seed {SEED}");
    let case = |(number, program): (usize, Program)| {
        let mut draws = Draws::new(SEED.wrapping_add(number as u64));
        let input: Vec<u32> = (0..BLOCKS * program.threads).map(|_| draws.bits()).collect();
        let expected = program.run(&input);
        Case { program, input, expected }
    };
    programs(SEED).into_iter().enumerate().map(case).collect()
});

/// Runs kernels of these numbers and compares each with its program.
fn check(device: &Device, numbers: std::ops::Range<usize>) -> warpsmith::Result<()> {
    let stream = device.stream()?;
    for number in numbers {
        let Case { program, input, expected } = &CASES[number];
        let given = stream.to_device(input)?;
        let mut totals = stream.zeroed::<u32>(COUNTERS)?;
        let mut output = stream.filled(0xdead_dead, input.len())?;
        let config = LaunchConfig::new(BLOCKS, program.threads);
        LAUNCHES[number](&stream, config, &given, &mut totals, &mut output)?;
        let (output, totals) = (stream.to_host(&output)?, stream.to_host(&totals)?);
        let first = (0..input.len()).find(|&i| output[i] != expected.output[i]);
        assert!(
            first.is_none() && totals == expected.totals,
            "kernel k{number} of seed {SEED} differs from its program: totals {totals:?} instead of {:?}; first in the output \
             {:?} instead of {:?}",
            expected.totals,
            first.map(|i| (i, output[i])),
            first.map(|i| (i, expected.output[i]))
        );
    }
    Ok(())
}

/// One half of those without atomics.
#[warpsmith::test(schedules = 50)]
fn kernels_without_atomics_give_what_they_mean(device: &Device) -> warpsmith::Result<()> {
    check(device, 0..WITHOUT_ATOMICS / 2)
}

/// The other half.
#[warpsmith::test(schedules = 50)]
fn more_kernels_without_atomics_give_what_they_mean(device: &Device) -> warpsmith::Result<()> {
    check(device, WITHOUT_ATOMICS / 2..WITHOUT_ATOMICS)
}

#[warpsmith::test(schedules = 50)]
fn kernels_whose_atomics_come_in_any_order_give_what_they_mean(device: &Device) -> warpsmith::Result<()> {
    check(device, WITHOUT_ATOMICS..PROGRAMS)
}
