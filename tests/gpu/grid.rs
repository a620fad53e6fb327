//! The grid's barrier: blocks wait for what other blocks write, on the CPU executor and on a GPU.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use warpsmith::LaunchError;
use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, devices};

/// Each block writes its value into its own place, and takes the next block's, round after round.
#[kernel]
fn exchange(rounds: u32, places: &[AtomicU32], mut output: GridSliceMut<u32>) {
    let blocks = this_grid().num_blocks() as usize;
    let own = this_grid().block_rank() as usize;
    let mut value = own as u32;
    for round in 0..rounds {
        let half = round as usize % 2 * blocks;
        if thread_idx().x == block_dim().x - 1 {
            places[half + own].store(value.wrapping_mul(3).wrapping_add(round), Relaxed);
        }
        this_grid().sync();
        value = places[half + (own + 1) % blocks].load(Relaxed);
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn case_g3_grid_sync_against_a_neighbour_blocks_write() {
    for (grid, threads) in [(1, 32), (2, 33), (16, 256), (24, 1), (10, 1024), (64, 96)] {
        for rounds in [1, 2, 7, 50] {
            let mut expected: Vec<u32> = (0..grid).collect();
            for round in 0..rounds {
                let written: Vec<u32> =
                    expected.iter().map(|value| value.wrapping_mul(3).wrapping_add(round)).collect();
                expected = (0..grid as usize).map(|block| written[(block + 1) % grid as usize]).collect();
            }
            let expected: Vec<u32> =
                expected.into_iter().flat_map(|value| std::iter::repeat_n(value, threads as usize)).collect();
            check_on_devices(&expected, |stream| {
                let mut places = stream.zeroed::<u32>(2 * grid as usize)?;
                let mut output = stream.zeroed::<u32>(expected.len())?;
                let config = LaunchConfig::new(grid, threads).cooperative();
                exchange::launch(stream, config, rounds, &mut places, &mut output)?;
                stream.to_host(&output)
            });
        }
    }
}

#[test]
fn case_g3_on_two_streams_at_once_and_in_two_dimensions() {
    let blocks = 12;
    for device in devices() {
        let streams = [device.stream(), device.stream()].map(|stream| stream.expect("a device gives streams"));
        let mut buffers: Vec<_> = streams
            .iter()
            .map(|stream| {
                let places = stream.zeroed::<u32>(2 * blocks).expect("a small copy works");
                (places, stream.zeroed::<u32>(blocks * 64).expect("a small copy works"))
            })
            .collect();
        for _ in 0..20 {
            for (stream, (places, output)) in streams.iter().zip(&mut buffers) {
                let config = LaunchConfig::new((3, 4), (16, 4)).cooperative();
                exchange::launch(stream, config, 9, &mut *places, &mut *output).expect("a launch works");
            }
        }
        let mut expected: Vec<u32> = (0..blocks as u32).collect();
        for round in 0..9 {
            let written: Vec<u32> = expected.iter().map(|value| value.wrapping_mul(3).wrapping_add(round)).collect();
            expected = (0..blocks).map(|block| written[(block + 1) % blocks]).collect();
        }
        for (stream, (_, output)) in streams.iter().zip(&buffers) {
            let results = stream.to_host(output).expect("no thread panics");
            for (i, result) in results.iter().enumerate() {
                // In each block the threads of the last column write, all the same.
                assert_eq!(*result, expected[i / 64], "thread {i} on {device}");
            }
        }
    }
}

#[test]
fn case_g4_a_cooperative_launch_that_is_too_large_is_refused() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let mut places = stream.zeroed::<u32>(2).expect("a small copy works");
        let mut output = stream.zeroed::<u32>(2).expect("a small copy works");
        let config = LaunchConfig::new(1 << 20, 256).cooperative();
        let error = exchange::launch(&stream, config, 1, &mut places, &mut output).expect_err("too many blocks");
        let limit = match &error {
            warpsmith::Error::Launch(LaunchError::CooperativeTooLarge {
                requested: 1_048_576,
                threads: 256,
                limit,
                ..
            }) => *limit,
            other => panic!("on {device}: {other}"),
        };
        let text = error.to_string();
        assert!(text.contains("asks for 1048576 blocks of 256 threads"), "{text}");
        assert!(text.contains(&format!("holds {limit} of them at once")), "{text}");
        // As many as it says are taken, and one more is not.
        let mut places = stream.zeroed::<u32>(2 * limit as usize + 2).expect("a small copy works");
        let mut launch = |blocks: u32| {
            let config = LaunchConfig::new(blocks, 256).cooperative();
            exchange::launch(&stream, config, 3, &mut places, &mut output)
        };
        launch(limit as u32).expect("as many blocks as the device holds");
        launch(limit as u32 + 1).expect_err("one block more");
        let error = exchange::launch(&stream, LaunchConfig::new(2, 32), 1, &mut places, &mut output)
            .expect_err("a launch that is not cooperative");
        assert!(matches!(error, warpsmith::Error::Launch(LaunchError::NotCooperative { .. })), "{error}");
        stream.synchronize().expect("no thread panics");
    }
}

/// A panic in some threads of block 1, and grid barriers after it.
#[kernel]
fn panic_before_grid_sync(first: u32, last: u32, places: &[AtomicU32], mut output: GridSliceMut<u32>) {
    this_grid().sync();
    let thread = thread_idx().x;
    assert!(block_idx().x != 1 || thread < first || thread > last, "thread {thread} gives up");
    let own = block_idx().x as usize;
    let mut total = 0;
    for _ in 0..3 {
        places[own].fetch_add(1, Relaxed);
        this_grid().sync();
        total += places[0].load(Relaxed);
        this_grid().sync();
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = total;
    }
}

#[test]
fn case_e5_panic_before_grid_syncs() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        // One thread, the one that speaks for its block, a warp, all of the block, none.
        for (first, last) in [(3, 3), (0, 0), (0, 31), (0, 95), (200, 200)] {
            let mut places = stream.zeroed::<u32>(6).expect("a small copy works");
            let mut output = stream.zeroed::<u32>(6 * 96).expect("a small copy works");
            let config = LaunchConfig::new(6, 96).cooperative();
            let outcome = panic_before_grid_sync::launch(&stream, config, first, last, &mut places, &mut output)
                .and_then(|()| stream.synchronize());
            let results = stream.to_host(&output).expect("the stream goes on");
            if first == 200 {
                outcome.unwrap_or_else(|error| panic!("on {device}: {error}"));
                assert_eq!(results, [96 * 6; 6 * 96], "on {device}");
                continue;
            }
            let error = outcome.expect_err("a panic comes back as an error");
            let panic = error.kernel_panic().unwrap_or_else(|| panic!("on {device}: {error}"));
            assert_eq!(panic.block.x, 1, "on {device}");
            assert!((first..=last).contains(&panic.thread.x), "thread {} on {device}", panic.thread.x);
            assert_eq!(panic.message, format!("thread {} gives up", panic.thread.x), "on {device}");
            // Each thread finished with what all wrote, or stopped.
            for (i, result) in results.iter().enumerate() {
                assert!(*result == 0 || *result == 96 * 6, "thread {i} on {device} gave {result}");
            }
        }
    }
}
