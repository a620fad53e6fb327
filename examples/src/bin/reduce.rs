//! Sum and maximum of many numbers: grid-stride loops, then a tree of sums in shared memory, or the library's reduction.

use std::sync::atomic::{AtomicU32, Ordering};

use warpsmith::prelude::*;
use warpsmith_examples::{Outcome, close, equal, median_time, report};

/// Threads in a block.
pub(crate) const BLOCK: u32 = 256;

/// Adds the numbers up, one sum for each block: each thread adds its share, then half of the threads add the other half's
/// sums to theirs, then a quarter, down to one.
#[kernel(block = BLOCK)]
pub(crate) fn tree_sum(x: &[F32x4], mut sums: GridSliceMut<f32, PerBlock>) {
    let mut total = 0.0;
    for i in grid_stride(x.len()) {
        let F32x4([a, b, c, d]) = x[i.get()];
        total += (a + b) + (c + d);
    }
    let mut slots = shared_array!([f32; BLOCK as usize]);
    slots.put(total);
    let mut slots = slots.sync();
    let thread = slot_idx().get();
    let mut half = BLOCK as usize / 2;
    while half > 0 {
        // Nobody reads the lower half's slots but their owners, so that one barrier a step is enough.
        let sum = (thread < half).then(|| slots.at(thread) + slots.at(thread + half));
        let mut next = slots.without_sync();
        if let Some(sum) = sum {
            next.put(sum);
        }
        slots = next.sync();
        half /= 2;
    }
    if let Some(leader) = block_leader()
        && let Some(sum) = sums.get_mut(&leader)
    {
        *sum = slots.at(0);
    }
}

/// Raises `maximum[0]` to the largest number.
#[kernel]
pub(crate) fn maximum(x: &[u32], maximum: &[AtomicU32]) {
    let own = grid_stride(x.len()).map(|i| x[i.get()]).max().unwrap_or(0);
    let largest = block_reduce(own, Ord::max);
    if block_leader().is_some() {
        maximum[0].fetch_max(largest, Ordering::Relaxed);
    }
}

fn main() -> Outcome {
    const LEN: usize = (1 << 22) + 76;
    const BLOCKS: u32 = 264;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;
    let config = LaunchConfig::new(BLOCKS, BLOCK);

    let numbers: Vec<f32> = (0..LEN).map(|i| (i % 1024) as f32 / 1024.0).collect();
    let x = stream.to_device(&numbers)?;
    let mut sums = stream.zeroed::<f32>(BLOCKS as usize)?;
    tree_sum::launch(&stream, config, x.as_vectors()?, &mut sums)?;
    let device_sum: f64 = stream.to_host(&sums)?.into_iter().map(f64::from).sum();
    let host_sum: f64 = numbers.iter().map(|x| f64::from(*x)).sum();
    close("sum", &[device_sum], &[host_sum], 1e-5, "each thread adds about 60 numbers in f32, each rounding by 2^-24")?;

    let integers: Vec<u32> = (0..LEN as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 1).collect();
    let y = stream.to_device(&integers)?;
    let mut largest = stream.zeroed::<u32>(1)?;
    maximum::launch(&stream, config, &y, &mut largest)?;
    equal("maximum", &stream.to_host(&largest)?, &[integers.iter().copied().max().unwrap_or(0)])?;

    let time = median_time(&stream, 20, || tree_sum::launch(&stream, config, x.as_vectors()?, &mut sums))?;
    report("sum", time, LEN * size_of::<f32>());
    Ok(())
}
