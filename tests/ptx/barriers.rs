//! A barrier in the source is one barrier in the PTX.

use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::{check_on_devices, ptx};

/// What is known before the barrier decides what comes after it: an optimiser that threads the jump through copies the barrier.
#[kernel]
fn between_two_equal_tests(limit: u32, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    let small = thread_idx().x < limit;
    let value = if small { 3 } else { 5 };
    sync_threads();
    if let Some(output) = output.get_mut(&i) {
        *output = if small { value * 7 } else { value + 1 };
    }
}

/// The same with an enum that is matched twice, and the barrier inside a function.
#[kernel]
fn inside_a_function(limit: u32, mut output: GridSliceMut<u32>) {
    enum Side {
        Left(u32),
        Right,
    }
    fn publish(slots: *mut u32, value: u32) -> u32 {
        let thread = thread_idx().x as usize;
        // SAFETY: each of the block's 64 threads writes its own slot.
        unsafe { slots.add(thread).write(value) };
        sync_threads();
        // SAFETY: `thread ^ 1` is below 64 too, and its slot was written before the barrier.
        unsafe { slots.add(thread ^ 1).read() }
    }
    let slots = shared!([u32; 64]).cast::<u32>();
    let side = if thread_idx().x < limit { Side::Left(thread_idx().x) } else { Side::Right };
    let value = match side {
        Side::Left(value) => value,
        Side::Right => 100,
    };
    let other = publish(slots, value);
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = match side {
            Side::Left(value) => other + value,
            Side::Right => other,
        };
    }
}

#[test]
fn a_barrier_is_never_duplicated() {
    ptx::of(module_path!(), "between_two_equal_tests").check_count("barrier.sync", 1).check_not("bar.sync");
    ptx::of(module_path!(), "inside_a_function").check_count("barrier.sync", 1).check_not("bar.sync");
}

#[test]
fn and_works() {
    let expected: Vec<u32> = (0..64).map(|thread| if thread < 40 { 21 } else { 6 }).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u32>(64)?;
        between_two_equal_tests::launch(stream, LaunchConfig::new(1, 64), 40, &mut output)?;
        stream.to_host(&output)
    });
    let value = |thread: u32| if thread < 41 { thread } else { 100 };
    let expected: Vec<u32> = (0..64).map(|thread| value(thread ^ 1) + if thread < 41 { thread } else { 0 }).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u32>(64)?;
        inside_a_function::launch(stream, LaunchConfig::new(1, 64), 41, &mut output)?;
        stream.to_host(&output)
    });
}

/// A shuffle and a vote between two equal tests.
#[kernel]
fn warp_operations(limit: u32, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    let small = lane_id() < limit;
    let value = if small { 3 } else { lane_id() };
    let other = shfl_xor(FULL_MASK, value, 1);
    let votes = ballot(FULL_MASK, value > 20);
    if let Some(output) = output.get_mut(&i) {
        *output = if small { other + votes } else { other ^ votes };
    }
}

#[test]
fn warp_operations_are_never_duplicated() {
    ptx::of(module_path!(), "warp_operations").check_count("shfl.sync", 1).check_count("vote.sync", 1);
    let value = |lane: u32| if lane < 9 { 3 } else { lane };
    let votes = (0..32).fold(0u32, |votes, lane| votes | u32::from(value(lane) > 20) << lane);
    let expected: Vec<u32> =
        (0..32).map(|lane| if lane < 9 { value(lane ^ 1) + votes } else { value(lane ^ 1) ^ votes }).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u32>(32)?;
        warp_operations::launch(stream, LaunchConfig::new(1, 32), 9, &mut output)?;
        stream.to_host(&output)
    });
}
