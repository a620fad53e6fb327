//! Running sums of many numbers in three launches: each block's sum, the sums' running sums, and the blocks' own.

use warpsmith::prelude::*;
use warpsmith_examples::{Outcome, equal, median_time, report};

/// Threads in a block.
pub(crate) const BLOCK: u32 = 256;
/// Vectors of four numbers that a thread takes.
pub(crate) const ITEMS: usize = 4;
/// Numbers that a block takes.
pub(crate) const PER_BLOCK: usize = BLOCK as usize * ITEMS * 4;

/// A thread's part of its block's numbers, zeros past their end; every load is on its way before the first is used.
fn load(x: &[U32x4]) -> [U32x4; ITEMS] {
    let own = striped_idx::<ITEMS>();
    std::array::from_fn(|round| x.get(own.nth(round).get()).copied().unwrap_or_default())
}

/// Adds each block's numbers up.
#[kernel(block = BLOCK)]
pub(crate) fn block_sums(x: &[U32x4], mut sums: GridSliceMut<u32, PerBlock>) {
    let own = load(x).iter().flat_map(|four| four.0).fold(0, u32::wrapping_add);
    let sum = block_reduce(own, u32::wrapping_add);
    if let Some(leader) = block_leader()
        && let Some(slot) = sums.get_mut(&leader)
    {
        *slot = sum;
    }
}

/// Replaces the blocks' sums by what comes before each block; one block does it all.
#[kernel(block = 1024)]
pub(crate) fn sums_before(mut sums: GridSliceMut<u32>) {
    let mut carry = 0;
    let len = sums.len();
    let mut own = grid_stride(len);
    for _ in 0..len.div_ceil(1024) {
        // Threads past the end come along, for the barriers' sake.
        let place = own.next();
        let value = place.as_ref().and_then(|place| sums.get(place).copied()).unwrap_or(0);
        let (before, total) = block_exclusive_scan(value, carry, u32::wrapping_add);
        carry = total;
        if let Some(slot) = place.and_then(|place| sums.get_mut(&place)) {
            *slot = before;
        }
    }
}

/// Running sums of each block's numbers, on top of what comes before the block.
#[kernel(block = BLOCK)]
pub(crate) fn running_sums(x: &[U32x4], before: &[u32], mut y: GridSliceMut<U32x4, Striped<ITEMS>>) {
    let own = striped_idx::<ITEMS>();
    let fours = load(x);
    let mut carry = before[block_idx().x as usize];
    for (round, U32x4([a, b, c, d])) in fours.into_iter().enumerate() {
        let (ab, cd) = (a.wrapping_add(b), c.wrapping_add(d));
        let (before, total) = block_exclusive_scan(ab.wrapping_add(cd), carry, u32::wrapping_add);
        carry = total;
        if let Some(y) = y.get_mut(&own.nth(round)) {
            let second = before.wrapping_add(ab);
            *y = U32x4([before.wrapping_add(a), second, second.wrapping_add(c), second.wrapping_add(cd)]);
        }
    }
}

/// Blocks for this many vectors of four numbers.
pub(crate) fn blocks(fours: usize) -> u32 {
    fours.div_ceil(PER_BLOCK / 4) as u32
}

/// Queues all three launches; `sums` has an element for each block.
pub(crate) fn scan(
    stream: &Stream,
    x: &DeviceBuffer<U32x4>,
    sums: &mut DeviceBuffer<u32>,
    y: &mut DeviceBuffer<U32x4>,
) -> warpsmith::Result<()> {
    let config = LaunchConfig::new(blocks(x.len()), BLOCK);
    block_sums::launch(stream, config, x, &mut *sums)?;
    sums_before::launch(stream, LaunchConfig::new(1, 1024), &mut *sums)?;
    running_sums::launch(stream, config, x, &*sums, y)
}

fn main() -> Outcome {
    const FOURS: usize = (1 << 20) + 333;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;

    let numbers: Vec<U32x4> = (0..FOURS as u32)
        .map(|i| U32x4([0, 1, 2, 3].map(|lane| (4 * i + lane).wrapping_mul(2_654_435_761) >> 20)))
        .collect();
    let x = stream.to_device(&numbers)?;
    let mut sums = stream.zeroed::<u32>(blocks(FOURS) as usize)?;
    let mut y = stream.zeroed::<U32x4>(FOURS)?;
    scan(&stream, &x, &mut sums, &mut y)?;

    let flat = |fours: &[U32x4]| fours.iter().flat_map(|four| four.0).collect::<Vec<u32>>();
    let expected: Vec<u32> = flat(&numbers)
        .into_iter()
        .scan(0u32, |sum, value| {
            *sum = sum.wrapping_add(value);
            Some(*sum)
        })
        .collect();
    equal("running sums", &flat(&stream.to_host(&y)?), &expected)?;

    let time = median_time(&stream, 10, || scan(&stream, &x, &mut sums, &mut y))?;
    report("scan", time, 3 * FOURS * size_of::<U32x4>());
    Ok(())
}
