//! Named barriers: some warps of a block wait for each other, and the others go on.

use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::{check_on_devices, devices};

/// Two warps exchange among themselves, round after round; the third produces, in parts, for the fourth.
#[kernel]
fn parts(rounds: u32, mut output: GridSliceMut<u32>) {
    let slots = shared!([u32; 128]).cast::<u32>();
    let thread = thread_idx().x as usize;
    let mut value = thread as u32;
    match warp_id() {
        0 | 1 => {
            for _ in 0..rounds {
                // SAFETY: each thread writes its own slot, and the barriers part the writes from the reads.
                unsafe { slots.add(thread).write(value) };
                NamedBarrier::<1>::sync(64);
                // SAFETY: as above.
                value = unsafe { slots.add((thread + 32) % 64).read() } + 1;
                NamedBarrier::<2>::sync(64);
            }
        }
        2 => {
            for round in 0..rounds {
                // SAFETY: the consumer reads after the first barrier and before the second.
                unsafe { slots.add(thread).write(value + round) };
                NamedBarrier::<3>::arrive(64);
                NamedBarrier::<15>::sync(64);
            }
        }
        _ => {
            value = 0;
            for _ in 0..rounds {
                NamedBarrier::<3>::sync(64);
                // SAFETY: as above.
                value += (64..96).map(|producer| unsafe { slots.add(producer).read() }).sum::<u32>();
                NamedBarrier::<15>::arrive(64);
            }
        }
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn named_barriers_part_writes_from_reads() {
    for rounds in [0, 1, 2, 50, 1000] {
        // The last warp is not full.
        for threads in [128u32, 100] {
            let consumed: u32 = (0..rounds).map(|round| (64..96).map(|value| value + round).sum::<u32>()).sum();
            let expected: Vec<u32> = (0..3 * threads)
                .map(|i| match i % threads {
                    thread @ 0..64 => rounds + if rounds % 2 == 0 { thread } else { (thread + 32) % 64 },
                    thread @ 64..96 => thread,
                    _ => consumed,
                })
                .collect();
            check_on_devices(&expected, |stream| {
                let mut output = stream.zeroed::<u32>(expected.len())?;
                parts::launch(stream, LaunchConfig::new(3, threads), rounds, &mut output)?;
                stream.to_host(&output)
            });
        }
    }
}

/// A panic in one thread, or in whole warps, and waits for them at a named barrier.
#[kernel]
fn panic_before_named(first: u32, last: u32, mut output: GridSliceMut<u32>) {
    let thread = thread_idx().x;
    NamedBarrier::<7>::sync(96);
    assert!(thread < first || thread > last, "thread {thread} gives up");
    if thread < 64 {
        NamedBarrier::<8>::sync(64);
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn case_e5_panic_before_a_named_barrier() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        for (first, last) in [(3, 3), (0, 0), (0, 31), (40, 63), (70, 70), (200, 200)] {
            let mut output = stream.zeroed::<u32>(96).expect("a small copy works");
            let outcome = panic_before_named::launch(&stream, LaunchConfig::new(1, 96), first, last, &mut output)
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
                let comes = thread < first || thread > last;
                let is_met = thread >= 64 || first >= 64;
                assert_eq!(result, u32::from(comes && is_met), "thread {thread} of {first}..={last} on {device}");
            }
        }
    }
}

/// Two halves of a block that count differently.
#[kernel]
fn disagree(mut output: GridSliceMut<u32>) {
    if thread_idx().x < 32 {
        NamedBarrier::<4>::sync(64);
    } else {
        NamedBarrier::<4>::sync(96);
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn case_g5_threads_that_count_differently_are_told() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<u32>(96).expect("a small copy works");
        let error = disagree::launch(&stream, LaunchConfig::new(1, 96), &mut output)
            .and_then(|()| stream.synchronize())
            .expect_err("they disagree");
        let message = error.to_string();
        for part in ["named barrier 4", "64", "96"] {
            assert!(message.contains(part), "on {device}: {message}");
        }
        if device.is_cpu() {
            assert!(message.matches("named.rs:").count() >= 2, "both places: {message}");
        }
        assert_eq!(stream.to_host(&output).expect("the stream goes on"), [0; 96], "on {device}");
    }
}
