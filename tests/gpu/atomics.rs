//! Atomics in device and shared memory, through `core::sync::atomic` as it is and for floats.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::{check_on_devices, random};

/// Every operation on its own counter, all threads at once.
#[kernel]
fn every_operation(input: &[u32], counters: &[AtomicU32], signed: &[AtomicI32], wide: &[AtomicU64]) {
    let i = global_idx();
    let Some(value) = input.get(i.get()).copied() else { return };
    counters[0].fetch_add(value, Ordering::Relaxed);
    counters[1].fetch_sub(value, Ordering::Relaxed);
    counters[2].fetch_max(value, Ordering::Relaxed);
    counters[3].fetch_min(value, Ordering::Relaxed);
    counters[4].fetch_or(value, Ordering::AcqRel);
    counters[5].fetch_and(value, Ordering::SeqCst);
    counters[6].fetch_xor(value, Ordering::Release);
    let mut seen = counters[7].load(Ordering::Relaxed);
    loop {
        let next = seen.wrapping_add(value.rotate_left(3));
        match counters[7].compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(now) => seen = now,
        }
    }
    signed[0].fetch_max(value as i32, Ordering::Relaxed);
    signed[1].fetch_min(value as i32, Ordering::Relaxed);
    wide[0].fetch_add(u64::from(value) << 16, Ordering::Relaxed);
    wide[1].fetch_max(u64::from(value) << 32, Ordering::Relaxed);
}

#[test]
fn every_operation_counts_every_thread() {
    let input: Vec<u32> = (0..10_000).map(|i| random(21, i) as u32).collect();
    let sum = |f: &dyn Fn(u32) -> u32| input.iter().fold(0u32, |sum, v| sum.wrapping_add(f(*v)));
    let expected: Vec<u64> = vec![
        sum(&|v| v).into(),
        0u32.wrapping_sub(sum(&|v| v)).into(),
        input.iter().copied().max().unwrap_or(0).into(),
        0,
        input.iter().fold(0, |all, v| all | v).into(),
        0,
        input.iter().fold(0, |all, v| all ^ v).into(),
        sum(&|v| v.rotate_left(3)).into(),
        input.iter().map(|v| *v as i32).max().unwrap_or(0).max(0) as u64,
        input.iter().map(|v| *v as i32).min().unwrap_or(0).min(0) as u64,
        input.iter().map(|v| u64::from(*v) << 16).sum(),
        input.iter().map(|v| u64::from(*v) << 32).max().unwrap_or(0),
    ];
    check_on_devices(&expected, |stream| {
        let mut counters = stream.zeroed::<u32>(8)?;
        let mut signed = stream.zeroed::<i32>(2)?;
        let mut wide = stream.zeroed::<u64>(2)?;
        let config = LaunchConfig::for_len(input.len());
        every_operation::launch(stream, config, &stream.to_device(&input)?, &mut counters, &mut signed, &mut wide)?;
        let counters = stream.to_host(&counters)?.into_iter().map(u64::from);
        let signed = stream.to_host(&signed)?.into_iter().map(|v| v as u64);
        Ok(counters.chain(signed).chain(stream.to_host(&wide)?).collect())
    });
}

/// Each thread's ticket and, through it, a slot that no other thread has.
#[kernel]
fn tickets(counter: &[AtomicU32], owners: &[AtomicU32]) {
    let ticket = counter[0].fetch_add(1, Ordering::Relaxed);
    owners[ticket as usize].fetch_add(1 + global_idx().get() as u32, Ordering::Relaxed);
}

#[test]
fn every_ticket_is_given_once() {
    const LEN: usize = 5000;
    let expected: Vec<u32> = (1..=LEN as u32).collect();
    check_on_devices(&expected, |stream| {
        let mut counter = stream.zeroed::<u32>(1)?;
        let mut owners = stream.zeroed::<u32>(LEN)?;
        tickets::launch(stream, LaunchConfig::new(50, 100), &mut counter, &mut owners)?;
        let mut owners = stream.to_host(&owners)?;
        owners.sort_unstable();
        Ok(owners)
    });
}

/// Adds one to the bin of each element, in shared memory first.
#[kernel]
fn scatter_add(bins_of: &[u32], bins: &[AtomicU32]) {
    let own = shared!([AtomicU32; 4]).cast::<AtomicU32>();
    let thread = thread_idx().x as usize;
    if thread < 4 {
        // SAFETY: each of the four threads writes its own slot.
        unsafe { own.add(thread).write(AtomicU32::new(0)) };
    }
    sync_threads();
    // SAFETY: every slot was written before the barrier, and is an atomic from here on.
    let own = unsafe { &*own.cast::<[AtomicU32; 4]>() };
    for i in grid_stride(bins_of.len()) {
        own[bins_of[i.get()] as usize].fetch_add(1, Ordering::Relaxed);
    }
    sync_threads();
    if thread < bins.len() {
        bins[thread].fetch_add(own[thread].load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[test]
fn case_h7_scatter_add_of_10_000_into_2_bins() {
    let bins_of: Vec<u32> = (0..10_000).map(|i| i % 2).collect();
    check_on_devices(&[5000, 5000], |stream| {
        let mut bins = stream.zeroed::<u32>(2)?;
        scatter_add::launch(stream, LaunchConfig::new(7, 128), &stream.to_device(&bins_of)?, &mut bins)?;
        stream.to_host(&bins)
    });
}

/// Largest and smallest float, and an exact sum.
#[kernel]
fn float_extremes(input: &[f32], results: &[AtomicF32]) {
    if let Some(value) = input.get(global_idx().get()).copied() {
        results[0].fetch_max(value, Ordering::Relaxed);
        results[1].fetch_min(value, Ordering::Relaxed);
        results[2].fetch_add(value, Ordering::Relaxed);
    }
}

#[test]
fn case_d3_float_extremes_with_mixed_signs() {
    // Multiples of 1/4 below 2^20: every order of adding gives the same sum.
    let input: Vec<f32> = (0..4000).map(|i| (random(22, i) % 1000) as f32 / 4.0 - 130.0).collect();
    let expected = [
        input.iter().copied().fold(f32::NEG_INFINITY, f32::max).to_bits(),
        input.iter().copied().fold(f32::INFINITY, f32::min).to_bits(),
        input.iter().sum::<f32>().to_bits(),
    ];
    check_on_devices(&expected, |stream| {
        let mut results = stream.to_device(&[f32::NEG_INFINITY, f32::INFINITY, 0.0])?;
        let device_input = stream.to_device(&input)?;
        float_extremes::launch(stream, LaunchConfig::for_len(input.len()), &device_input, &mut results)?;
        Ok(stream.to_host(&results)?.into_iter().map(f32::to_bits).collect())
    });
}
