//! Block barriers: none is passed early, merged, split or duplicated, also where threads end before it.

use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::{check_on_devices, devices, random};

/// Threads in a block.
const BLOCK: u32 = 96;

/// Each thread reads what the thread `shift` further wrote before the barrier, eight times over.
#[kernel]
fn rotate(input: &[u32], mut output: GridSliceMut<u32>) {
    let slots = shared!([u32; BLOCK as usize]).cast::<u32>();
    let i = global_idx();
    let thread = thread_idx().x as usize;
    let mut value = input[i.get()];
    for round in 1..9 {
        // SAFETY: each thread writes its own slot; the last reads ended at the barrier below.
        unsafe { slots.add(thread).write(value) };
        sync_threads();
        // SAFETY: the index stays below BLOCK, and all slots were written before the barrier.
        value =
            unsafe { slots.add((thread + round) % BLOCK as usize).read() }.wrapping_mul(3).wrapping_add(round as u32);
        sync_threads();
    }
    if let Some(output) = output.get_mut(&i) {
        *output = value;
    }
}

#[test]
fn no_thread_passes_a_barrier_early() {
    let block = BLOCK as usize;
    let input: Vec<u32> = (0..3 * block as u64).map(|i| random(1, i) as u32).collect();
    let mut expected = input.clone();
    for values in expected.chunks_mut(block) {
        for round in 1..9 {
            let before = values.to_vec();
            for (thread, value) in values.iter_mut().enumerate() {
                *value = before[(thread + round) % block].wrapping_mul(3).wrapping_add(round as u32);
            }
        }
    }
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u32>(input.len())?;
        rotate::launch(stream, LaunchConfig::new(3, BLOCK), &stream.to_device(&input)?, &mut output)?;
        stream.to_host(&output)
    });
}

/// A store under `if block == 0` beside unrelated work, with a barrier after.
#[kernel]
fn store_in_block_zero(input: &[u32], mut flags: GridSliceMut<u32>, mut output: GridSliceMut<u32>) {
    let slots = shared!([u32; BLOCK as usize]).cast::<u32>();
    let i = global_idx();
    let thread = thread_idx().x as usize;
    // SAFETY: each thread writes its own slot.
    unsafe { slots.add(thread).write(input[i.get()]) };
    if block_idx().x == 0
        && let Some(flag) = flags.get_mut(&i)
    {
        *flag = 7;
    }
    sync_threads();
    // SAFETY: all slots were written before the barrier.
    let neighbour = unsafe { slots.add((thread + 1) % BLOCK as usize).read() };
    if let Some(output) = output.get_mut(&i) {
        *output = neighbour ^ 5;
    }
}

#[test]
fn case_e2_store_in_one_block_then_barrier() {
    let block = BLOCK as usize;
    let input: Vec<u32> = (0..4 * block as u64).map(|i| random(2, i) as u32).collect();
    let flags = (0..input.len()).map(|i| if i < block { 7 } else { 0 });
    let outputs = (0..input.len()).map(|i| input[i / block * block + (i % block + 1) % block] ^ 5);
    let expected: Vec<u32> = flags.chain(outputs).collect();
    check_on_devices(&expected, |stream| {
        let mut flags = stream.zeroed::<u32>(input.len())?;
        let mut output = stream.zeroed::<u32>(input.len())?;
        let device_input = stream.to_device(&input)?;
        store_in_block_zero::launch(stream, LaunchConfig::new(4, BLOCK), &device_input, &mut flags, &mut output)?;
        Ok([stream.to_host(&flags)?, stream.to_host(&output)?].concat())
    });
}

/// A checked access that may fail, a barrier, then reads of what the others wrote.
#[kernel]
fn checked_then_barrier(table: &[u32], places: &[u32], mut output: GridSliceMut<u32>) {
    let slots = shared!([u32; BLOCK as usize]).cast::<u32>();
    let i = global_idx();
    let thread = thread_idx().x as usize;
    // SAFETY: each thread writes its own slot.
    unsafe { slots.add(thread).write(0xbad) };
    sync_threads();
    let value = table[places[i.get()] as usize];
    // SAFETY: as above.
    unsafe { slots.add(thread).write(value) };
    sync_threads();
    let mut total = 0u32;
    for other in 0..BLOCK as usize {
        // SAFETY: `other` is below BLOCK, and nobody writes after the barrier.
        total = total.wrapping_mul(31).wrapping_add(unsafe { slots.add(other).read() });
    }
    if let Some(output) = output.get_mut(&i) {
        *output = total;
    }
}

#[test]
fn case_e4_checked_access_then_barrier() {
    let block = BLOCK as usize;
    let table: Vec<u32> = (0..50).map(|i| random(3, i) as u32).collect();
    let good: Vec<u32> = (0..2 * block as u64).map(|i| (random(4, i) % 50) as u32).collect();
    // What a block's threads compute when those in `failing` ended before their second store.
    let block_total = |places: &[u32]| {
        places.iter().fold(0u32, |total, place| {
            total.wrapping_mul(31).wrapping_add(table.get(*place as usize).copied().unwrap_or(0xbad))
        })
    };
    for failing in [vec![], vec![3], vec![0, 31, 32, 95], (1..96).collect::<Vec<usize>>()] {
        let mut places = good.clone();
        for thread in &failing {
            places[block + thread] = 50 + *thread as u32;
        }
        let totals = [block_total(&places[..block]), block_total(&places[block..])];
        for device in devices() {
            let stream = device.stream().expect("a device gives streams");
            let device_table = stream.to_device(&table).expect("a small copy works");
            let device_places = stream.to_device(&places).expect("a small copy works");
            let mut output = stream.zeroed::<u32>(places.len()).expect("a small copy works");
            let config = LaunchConfig::new(2, BLOCK);
            let outcome = checked_then_barrier::launch(&stream, config, &device_table, &device_places, &mut output)
                .and_then(|()| stream.synchronize());
            match outcome {
                Ok(()) => assert!(failing.is_empty(), "{failing:?} did not fail on {device}"),
                Err(error) => {
                    let panic = error.kernel_panic().unwrap_or_else(|| panic!("on {device}: {error}"));
                    let thread = panic.thread.x as usize;
                    assert!(failing.contains(&thread), "thread {thread} failed on {device}, not one of {failing:?}");
                    assert_eq!(panic.block.x, 1);
                    let wanted = format!("index out of bounds: the len is 50 but the index is {}", 50 + thread);
                    assert_eq!(panic.message, wanted, "on {device}");
                }
            }
            let results = stream.to_host(&output).expect("the panic was reported, and the stream goes on");
            for (i, result) in results.iter().enumerate() {
                let failed = i >= block && failing.contains(&(i - block));
                let wanted = if failed { 0 } else { totals[i / block] };
                // No block before the one that panicked is left out.
                assert!(*result == wanted, "thread {i} of {failing:?} on {device}: {result:#x}, not {wanted:#x}");
            }
        }
    }
}

/// A panic in one thread, and block barriers after it.
#[kernel]
fn panic_before_barriers(culprit: u32, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    assert!(i.get() as u32 != culprit, "thread {} gives up", i.get());
    let mut total = 0;
    for round in 0..5 {
        sync_threads();
        total += sync_threads_count(true) * round;
    }
    if let Some(output) = output.get_mut(&i) {
        *output = total;
    }
}

#[test]
fn case_e5_panic_in_one_thread_before_barriers() {
    for device in devices() {
        for culprit in [3, 31, 64, u32::MAX] {
            let stream = device.stream().expect("a device gives streams");
            let mut output = stream.zeroed::<u32>(BLOCK as usize).expect("a small copy works");
            let outcome = panic_before_barriers::launch(&stream, LaunchConfig::new(1, BLOCK), culprit, &mut output)
                .and_then(|()| stream.synchronize());
            let present = if culprit == u32::MAX {
                outcome.unwrap_or_else(|error| panic!("on {device}: {error}"));
                BLOCK
            } else {
                let error = outcome.expect_err("a panic comes back as an error");
                let panic = error.kernel_panic().unwrap_or_else(|| panic!("on {device}: {error}"));
                assert_eq!(panic.thread.x, culprit, "on {device}");
                assert_eq!(panic.message, format!("thread {culprit} gives up"), "on {device}");
                BLOCK - 1
            };
            let results = stream.to_host(&output).expect("the panic was reported, and the stream goes on");
            for (thread, result) in results.iter().enumerate() {
                let wanted = if thread as u32 == culprit { 0 } else { present * 10 };
                assert_eq!(*result, wanted, "thread {thread} with culprit {culprit} on {device}");
            }
        }
    }
}

/// The three barriers that also ask a question.
#[kernel]
fn questions(input: &[u32], mut output: GridSliceMut<[u32; 3]>) {
    let i = global_idx();
    let value = input[i.get()];
    let count = sync_threads_count(value.is_multiple_of(3));
    let all = sync_threads_and(value < 1000);
    let any = sync_threads_or(value == 5);
    if let Some(output) = output.get_mut(&i) {
        *output = [count, u32::from(all), u32::from(any)];
    }
}

#[test]
fn case_g2_barriers_that_count_and_vote() {
    for block in [1usize, 31, 32, 33, 64, 100, 256, 1024] {
        let input: Vec<u32> = (0..3 * block as u32).map(|i| if i < block as u32 { i } else { i * 7 % 1009 }).collect();
        let expected: Vec<[u32; 3]> = input
            .chunks(block)
            .flat_map(|values| {
                let count = values.iter().filter(|v| *v % 3 == 0).count() as u32;
                let answers = [count, u32::from(values.iter().all(|v| *v < 1000)), u32::from(values.contains(&5))];
                std::iter::repeat_n(answers, values.len())
            })
            .collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<[u32; 3]>(input.len())?;
            questions::launch(stream, LaunchConfig::new(3, block as u32), &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// A barrier that only one branch reaches per round, inside a function that is called from both.
#[kernel]
fn barrier_in_a_callee(rounds: u32, mut output: GridSliceMut<u32>) {
    #[inline(never)]
    fn meet(slots: *mut u32, thread: usize, value: u32) -> u32 {
        // SAFETY: each thread writes its own slot; the last reads ended at the barrier below.
        unsafe { slots.add(thread).write(value) };
        sync_threads();
        // SAFETY: `thread ^ 1` is below BLOCK, which is even.
        let other = unsafe { slots.add(thread ^ 1).read() };
        sync_threads();
        other
    }
    let slots = shared!([u32; BLOCK as usize]).cast::<u32>();
    let i = global_idx();
    let thread = thread_idx().x as usize;
    let mut value = i.get() as u32;
    for round in 0..rounds {
        // `round` is the same for all threads, so both branches are taken together.
        value = if round % 3 == 0 { meet(slots, thread, value * 2) } else { meet(slots, thread, value ^ round) + 1 };
        value %= 10_007;
    }
    if let Some(output) = output.get_mut(&i) {
        *output = value;
    }
}

#[test]
fn a_barrier_in_a_callee_keeps_its_place() {
    let mut expected: Vec<u32> = (0..2 * BLOCK).collect();
    for round in 0..10 {
        let before = expected.clone();
        for (i, value) in expected.iter_mut().enumerate() {
            let other = before[i ^ 1];
            *value = if round % 3 == 0 { other * 2 } else { (other ^ round) + 1 } % 10_007;
        }
    }
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u32>(expected.len())?;
        barrier_in_a_callee::launch(stream, LaunchConfig::new(2, BLOCK), 10, &mut output)?;
        stream.to_host(&output)
    });
}
