//! `#[warpsmith::test]`: tests that give the same on every run, and tests that must not.

use warpsmith::prelude::*;
use warpsmith::shared_array;

/// Adds to each value the one before it in its block, across a barrier or not.
#[kernel]
fn add_pairs<const SYNC: bool>(input: &[f32], mut output: GridSliceMut<f32>) {
    let i = global_idx();
    let t = thread_idx().x as usize;
    let mut tile = shared_array!([f32; 64]);
    tile.put(input[i.get()]);
    let tile = if SYNC { tile.sync() } else { tile.without_sync() };
    if let Some(output) = output.get_mut(&i) {
        *output = tile.at(t) + if t > 0 { tile.at(t - 1) } else { 0.0 };
    }
}

fn pairs<const SYNC: bool>(device: &Device) -> warpsmith::Result<Vec<f32>> {
    let stream = device.stream()?;
    let input: Vec<f32> = (0..128_u8).map(f32::from).collect();
    let mut output = stream.zeroed::<f32>(128)?;
    add_pairs::launch::<SYNC>(&stream, LaunchConfig::new(2, 64), &stream.to_device(&input)?, &mut output)?;
    stream.to_host(&output)
}

// Code for the checker costs a build of its own; generated kernels have it, and are checked.
#[warpsmith::test(schedules = 12, checked = false)]
fn what_waits_at_a_barrier_is_the_same_on_every_run(device: &Device) -> warpsmith::Result<Vec<f32>> {
    let sums = pairs::<true>(device)?;
    assert_eq!((sums[63], sums[64], sums[65]), (125.0, 64.0, 129.0));
    Ok(sums)
}

#[warpsmith::test(gpu = false, checked = false)]
#[should_panic(expected = "on reversed: another result than on the plain executor: item 1 is ")]
fn a_missing_barrier_makes_results_differ(device: &Device) -> warpsmith::Result<Vec<f32>> {
    pairs::<false>(device)
}

#[warpsmith::test(tolerance = 1e300, gpu = false, checked = false)]
fn differences_within_the_tolerance_are_none(device: &Device) -> warpsmith::Result<Vec<f32>> {
    pairs::<false>(device)
}

#[warpsmith::test(gpu = false, checked = false)]
#[should_panic(expected = "on reversed: the test panicked: ")]
fn asserts_hold_for_each_run(device: &Device) {
    assert_eq!(pairs::<false>(device).unwrap()[1], 1.0);
}

/// Fails where the thread before has not come by.
#[kernel]
fn expects_ascending_order(mut seen: GridSliceMut<u32>, count: &[AtomicCount]) {
    let i = global_idx();
    let before = count[0].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(before as usize, i.get(), "another came first");
    if let Some(seen) = seen.get_mut(&i) {
        *seen = before;
    }
}

type AtomicCount = std::sync::atomic::AtomicU32;

#[warpsmith::test(gpu = false, checked = false)]
#[should_panic(expected = "on reversed: kernel `gpu::testing::expects_ascending_order` panicked")]
fn a_panic_that_nobody_asked_for_fails_its_run(device: &Device) -> warpsmith::Result<()> {
    let stream = device.stream()?;
    let count = stream.zeroed::<AtomicCount>(1)?;
    let mut seen = stream.zeroed::<u32>(8)?;
    // Neither synchronised nor read back.
    expects_ascending_order::launch(&stream, LaunchConfig::new(1, 8), &mut seen, &count)
}
