//! Sum and maximum of many numbers: grid-stride loops, warp shuffles, then one value a warp through shared memory.

use std::sync::atomic::{AtomicU32, Ordering};

use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith::warp::WarpValue;
use warpsmith_examples::{Outcome, close, equal, median_time, report};

/// Threads in a block.
const BLOCK: u32 = 256;

/// Combines the values of a block's threads; thread 0 gets the result. All threads of the block must call it.
fn block_reduce<T: WarpValue + Default>(value: T, combine: impl Fn(T, T) -> T) -> T {
    let within_warp = |mut value: T| {
        let mut distance = WARP_SIZE / 2;
        while distance > 0 {
            value = combine(value, shfl_xor(FULL_MASK, value, distance));
            distance /= 2;
        }
        value
    };
    let slots = shared!([T; WARP_SIZE as usize]).cast::<T>();
    let value = within_warp(value);
    if lane_id() == 0 {
        // SAFETY: a block has at most 32 warps, and each writes its own slot.
        unsafe { slots.add(warp_id() as usize).write(value) };
    }
    sync_threads();
    let warps = block_dim().x / WARP_SIZE;
    // SAFETY: the first `warps` slots were written before the barrier, and only those are read.
    let value = if lane_id() < warps { unsafe { slots.add(lane_id() as usize).read() } } else { T::default() };
    within_warp(value)
}

/// Adds the numbers up; the first thread of each block writes its block's sum to its own element of `partial`.
#[kernel]
fn sum(x: &[f32], mut partial: GridSliceMut<f32>) {
    let mut total = 0.0;
    for i in grid_stride(x.len()) {
        total += x[i.get()];
    }
    let total = block_reduce(total, |a, b| a + b);
    if thread_idx().x == 0
        && let Some(partial) = partial.get_mut(&global_idx())
    {
        *partial = total;
    }
}

/// Raises `maximum[0]` to the largest number.
#[kernel]
fn maximum(x: &[u32], maximum: &[AtomicU32]) {
    let mut largest = 0;
    for i in grid_stride(x.len()) {
        largest = largest.max(x[i.get()]);
    }
    let largest = block_reduce(largest, Ord::max);
    if thread_idx().x == 0 {
        maximum[0].fetch_max(largest, Ordering::Relaxed);
    }
}

fn main() -> Outcome {
    const LEN: usize = (1 << 22) + 77;
    const BLOCKS: u32 = 264;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;
    let config = LaunchConfig::new(BLOCKS, BLOCK);

    let numbers: Vec<f32> = (0..LEN).map(|i| (i % 1024) as f32 / 1024.0).collect();
    let x = stream.to_device(&numbers)?;
    let mut partial = stream.zeroed::<f32>((BLOCKS * BLOCK) as usize)?;
    sum::launch(&stream, config, &x, &mut partial)?;
    let device_sum: f64 = stream.to_host(&partial)?.into_iter().map(f64::from).sum();
    let host_sum: f64 = numbers.iter().map(|x| f64::from(*x)).sum();
    close("sum", &[device_sum], &[host_sum], 1e-5, "each thread adds about 60 numbers in f32, each rounding by 2^-24")?;

    let integers: Vec<u32> = (0..LEN as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 1).collect();
    let y = stream.to_device(&integers)?;
    let mut largest = stream.zeroed::<u32>(1)?;
    maximum::launch(&stream, config, &y, &mut largest)?;
    equal("maximum", &stream.to_host(&largest)?, &[integers.iter().copied().max().unwrap_or(0)])?;

    let time = median_time(&stream, 20, || sum::launch(&stream, config, &x, &mut partial))?;
    report("sum", time, LEN * size_of::<f32>());
    Ok(())
}
