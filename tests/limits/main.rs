//! Stack and heap of a GPU's threads: deep recursion works, and running out is reported and leaves the context usable.
//!
//! A program of its own, so that a context lost here spoils no other test.

use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, gpu, mix};

/// Calls itself `depth` times, with some 300 bytes a call that must be kept.
#[inline(never)]
fn descend(depth: u64, seed: u64) -> u64 {
    let mut kept: [u64; 32] = std::array::from_fn(|i| mix(seed, i as u64));
    if depth == 0 {
        return seed;
    }
    kept[(seed % 32) as usize] ^= depth;
    let below = descend(depth - 1, mix(seed, depth));
    kept.iter().fold(below, |total, v| mix(total, *v))
}

/// Descends as deep as the input says.
#[kernel]
fn recurse(depths: &[u64], mut output: GridSliceMut<u64>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = descend(depths[i.get()], i.get() as u64);
    }
}

#[test]
fn recursion_ten_calls_deep_needs_no_setting() {
    let depths: Vec<u64> = (0..64).map(|i| i % 11).collect();
    let expected: Vec<u64> = depths.iter().zip(0..).map(|(depth, i)| descend(*depth, i)).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u64>(depths.len())?;
        recurse::launch(stream, LaunchConfig::for_len(depths.len()), &stream.to_device(&depths)?, &mut output)?;
        stream.to_host(&output)
    });
}

#[test]
fn recursion_past_its_depth_is_reported() {
    let Some(gpu) = gpu() else { return };
    let stream = gpu.stream().expect("a device gives streams");
    let mut output = stream.zeroed::<u64>(1).expect("a small copy works");
    let deep = stream.to_device(&[1u64 << 40]).expect("a small copy works");
    let error = recurse::launch(&stream, LaunchConfig::for_len(1), &deep, &mut output)
        .and_then(|()| stream.synchronize())
        .expect_err("no stack is that deep");
    assert!(error.kernel_panic().is_some_and(|panic| panic.message.contains("stack")), "{error}");
    let shallow = stream.to_device(&[2u64]).expect("the context goes on");
    recurse::launch(&stream, LaunchConfig::for_len(1), &shallow, &mut output).expect("the context goes on");
    assert_eq!(stream.to_host(&output).expect("the context goes on"), [descend(2, 0)]);
}

/// Takes blocks of memory until it has as many bytes as the input says, then sums up what it wrote there.
#[kernel]
fn allocate(bytes: &[u64], mut output: GridSliceMut<u64>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let blocks: Vec<Vec<u8>> =
            (0..bytes[i.get()] >> 20).map(|block| vec![(block % 200) as u8 + 1; 1 << 20]).collect();
        *output = blocks.iter().map(|block| u64::from(block[block.len() - 1])).sum();
    }
}

#[test]
fn an_exhausted_heap_is_reported() {
    let Some(gpu) = gpu() else { return };
    let stream = gpu.stream().expect("a device gives streams");
    let mut output = stream.zeroed::<u64>(1).expect("a small copy works");
    let too_much = stream.to_device(&[1u64 << 40]).expect("a small copy works");
    let error = allocate::launch(&stream, LaunchConfig::for_len(1), &too_much, &mut output)
        .and_then(|()| stream.synchronize())
        .expect_err("no heap is that large");
    assert!(error.kernel_panic().is_some_and(|panic| panic.message.contains("memory allocation")), "{error}");
    // What the thread held is lost with it; a thread that takes nothing still runs.
    let nothing = stream.to_device(&[0u64]).expect("the context goes on");
    allocate::launch(&stream, LaunchConfig::for_len(1), &nothing, &mut output).expect("the context goes on");
    assert_eq!(stream.to_host(&output).expect("the context goes on"), [0]);
}
