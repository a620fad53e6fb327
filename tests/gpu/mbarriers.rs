//! Mbarriers: arriving and waiting are two steps.

use warpsmith::mbarrier::Mbarrier;
use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::{check_on_devices, devices};

/// The block's mbarrier for all of its threads.
fn of_block<'a>() -> &'a Mbarrier {
    let barrier = shared!(Mbarrier);
    if thread_idx().x == 0 {
        // SAFETY: one thread does, before the others come past the barrier.
        unsafe { Mbarrier::init(barrier, block_dim().x) };
    }
    sync_threads();
    // SAFETY: initialised above, and there as long as the block.
    unsafe { &*barrier }
}

/// Each thread takes what the next wrote before it arrived, round after round, in two halves by turns.
#[kernel]
fn rotate(rounds: u32, mut output: GridSliceMut<u32>) {
    let (barrier, slots) = (of_block(), shared!([u32; 2048]).cast::<u32>());
    let thread = thread_idx().x as usize;
    let next = (thread + 1) % block_dim().x as usize;
    let mut value = thread as u32;
    for round in 0..rounds as usize {
        let half = round % 2 * 1024;
        // SAFETY: each thread writes its own slot; what it overwrites was read before the phase in between.
        unsafe { slots.add(half + thread).write(value) };
        let phase = barrier.arrive();
        let meanwhile = value / 2 + round as u32;
        if round % 3 == 0 {
            barrier.wait(phase);
        } else {
            while !barrier.test_wait(phase) {
                barrier.wait(phase);
            }
        }
        // SAFETY: written before its thread arrived.
        value = unsafe { slots.add(half + next).read() } + meanwhile % 2 + 1;
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn mbarriers_part_writes_from_reads() {
    for (threads, rounds) in [(1usize, 3), (31, 5), (32, 1), (33, 20), (96, 500), (1024, 50)] {
        let mut values: Vec<u32> = (0..threads as u32).collect();
        for round in 0..rounds {
            values = (0..threads)
                .map(|thread| values[(thread + 1) % threads] + (values[thread] / 2 + round) % 2 + 1)
                .collect();
        }
        let expected = [values.as_slice(); 3].concat();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u32>(expected.len())?;
            rotate::launch(stream, LaunchConfig::new(3, threads as u32), rounds, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// A panic in some threads before they arrive.
#[kernel]
fn panic_before_arriving(first: u32, last: u32, mut output: GridSliceMut<u32>) {
    let thread = thread_idx().x;
    let barrier = of_block();
    assert!(thread < first || thread > last, "thread {thread} gives up");
    let phase = barrier.arrive();
    if thread < 64 {
        barrier.wait(phase);
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn case_e5_panic_before_an_mbarrier() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        for (first, last) in [(3, 3), (0, 31), (64, 95), (200, 200)] {
            let mut output = stream.zeroed::<u32>(96).expect("a small copy works");
            let outcome = panic_before_arriving::launch(&stream, LaunchConfig::new(1, 96), first, last, &mut output)
                .and_then(|()| stream.synchronize());
            let results = stream.to_host(&output).expect("the stream goes on");
            if first < 96 {
                let error = outcome.expect_err("a panic comes back as an error");
                let panic = error.kernel_panic().unwrap_or_else(|| panic!("on {device}: {error}"));
                assert!((first..=last).contains(&panic.thread.x), "thread {} on {device}", panic.thread.x);
                assert_eq!(panic.message, format!("thread {} gives up", panic.thread.x), "on {device}");
            } else {
                outcome.unwrap_or_else(|error| panic!("on {device}: {error}"));
            }
            for (thread, result) in (0..96u32).zip(results) {
                let arrives = thread < first || thread > last;
                let expected = arrives && (first >= 96 || thread >= 64);
                assert_eq!(result, u32::from(expected), "thread {thread} with {first}..={last} on {device}");
            }
        }
    }
}
