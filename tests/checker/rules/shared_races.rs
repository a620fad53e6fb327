//! Reads and writes of shared memory that nothing orders, and what orders them.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use warpsmith::CheckRule::DataRace;
use warpsmith::collective::{blocked_to_striped, striped_to_blocked};
use warpsmith::mbarrier::Mbarrier;
use warpsmith::prelude::*;
use warpsmith_checker_tests::{Apart, Meeting, always_silent};

/// Two blocks of two warps, and an element for each thread.
fn two_blocks(
    launch: impl Fn(&Stream, LaunchConfig, &DeviceBuffer<u32>, &mut DeviceBuffer<u32>) -> warpsmith::Result<()>,
) -> impl Fn(&Stream) -> warpsmith::Result<()> {
    move |stream| {
        let input: Vec<u32> = (0..128).collect();
        let mut output = stream.zeroed::<u32>(128)?;
        launch(stream, LaunchConfig::new(2, 64), &stream.to_device(&input)?, &mut output)
    }
}

/// A race of lines of a kernel on shared memory.
fn race<'a>(kernel: &'a str, lines: [&'a str; 2], apart: Apart) -> Meeting<'a> {
    Meeting { rule: DataRace, kernel, lines, memory: "shared memory", apart }
}

/// Goes through the input in tiles; `AFTER` has the barrier between the reads of one tile and the writes of the next.
#[kernel]
fn tiled<const AFTER: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize;
    let mut sum = 0;
    for first in (0..input.len()).step_by(64) {
        // SAFETY: a slot a thread.
        unsafe { *tile.add(thread) = input[first + thread] };
        sync_threads();
        for i in 0..64 {
            // SAFETY: one of 64.
            sum += unsafe { *tile.add(i) } * i as u32;
        }
        if AFTER {
            sync_threads();
        }
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = sum;
    }
}

#[test]
fn a_tile_that_is_overwritten_while_others_read_it() {
    race("tiled", ["*tile.add(thread) =", "sum += unsafe { *tile.add(i) }"], Apart::Threads)
        .is_always_found(two_blocks(|stream, config, x, y| tiled::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| tiled::launch::<true>(stream, config, x, y)));
}

/// The last steps of a tree of sums by one warp; `SYNC` says that its lanes are not in step by nature.
#[kernel]
fn warp_synchronous<const SYNC: bool>(input: &[u32], mut output: GridSliceMut<u32, PerBlock>) {
    let tile = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize;
    // SAFETY: a slot a thread.
    unsafe { *tile.add(thread) = input[global_idx().get()] };
    sync_threads();
    if thread < 32 {
        let mut stride = 32;
        while stride > 0 {
            if thread < stride {
                // SAFETY: both are below 64.
                unsafe { *tile.add(thread) += *tile.add(thread + stride) };
            }
            if SYNC {
                sync_warp(FULL_MASK);
            }
            stride /= 2;
        }
    }
    if let Some(leader) = block_leader()
        && let Some(output) = output.get_mut(&leader)
    {
        // SAFETY: the first.
        *output = unsafe { *tile };
    }
}

#[test]
fn warp_synchronous_code_without_sync_warp() {
    let sums =
        |launch: fn(&Stream, LaunchConfig, &DeviceBuffer<u32>, &mut DeviceBuffer<u32>) -> warpsmith::Result<()>| {
            move |stream: &Stream| {
                let mut output = stream.zeroed::<u32>(2)?;
                launch(stream, LaunchConfig::new(2, 64), &stream.filled(1, 128)?, &mut output)
            }
        };
    let line = "*tile.add(thread) += *tile.add(thread + stride)";
    race("warp_synchronous", [line, line], Apart::Lanes)
        .is_always_found(sums(|s, config, x, y| warp_synchronous::launch::<false>(s, config, x, y)));
    always_silent(sums(|s, config, x, y| warp_synchronous::launch::<true>(s, config, x, y)));
}

/// Each thread reads what the other warp's wrote, after a barrier of its warp or of the block.
#[kernel]
fn between_warps<const OF_BLOCK: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize;
    // SAFETY: a slot a thread.
    unsafe { *tile.add(thread) = input[global_idx().get()] };
    if OF_BLOCK {
        sync_threads();
    } else {
        sync_warp(FULL_MASK);
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        // SAFETY: one of 64.
        *output = unsafe { *tile.add(thread ^ 32) };
    }
}

#[test]
fn a_barrier_of_the_warp_where_warps_meet() {
    race("between_warps", ["*tile.add(thread) =", "*tile.add(thread ^ 32)"], Apart::Warps)
        .is_always_found(two_blocks(|stream, config, x, y| between_warps::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| between_warps::launch::<true>(stream, config, x, y)));
}

/// Each warp smooths its own part of a tile; with `WIDE` its last lane looks one element too far, into another warp's part.
#[kernel]
fn halo<const WIDE: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 65]).cast::<u32>();
    let (thread, lane) = (thread_idx().x as usize, lane_id());
    // SAFETY: a slot a thread, and one more of the last.
    unsafe {
        *tile.add(thread) = input[global_idx().get()];
        if thread == 63 {
            *tile.add(64) = 0;
        }
    };
    sync_warp(FULL_MASK);
    let next = if lane < 31 || WIDE { thread + 1 } else { thread };
    if let Some(output) = output.get_mut(&global_idx()) {
        // SAFETY: one of 65.
        *output = unsafe { *tile.add(next) };
    }
}

#[test]
fn a_halo_that_is_one_element_too_wide() {
    race("halo", ["*tile.add(thread) =", "*tile.add(next)"], Apart::Warps)
        .is_always_found(two_blocks(|stream, config, x, y| halo::launch::<true>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| halo::launch::<false>(stream, config, x, y)));
}

/// An inclusive scan in place; with `BETWEEN` all have read before any writes.
#[kernel]
fn scan_in_place<const BETWEEN: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize;
    // SAFETY: a slot a thread.
    unsafe { *tile.add(thread) = input[global_idx().get()] };
    sync_threads();
    let mut reach = 1;
    while reach < 64 {
        // SAFETY: not below the first.
        let before = if thread >= reach { unsafe { *tile.add(thread - reach) } } else { 0 };
        if BETWEEN {
            sync_threads();
        }
        // SAFETY: the thread's own slot.
        unsafe { *tile.add(thread) += before };
        sync_threads();
        reach *= 2;
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        // SAFETY: the thread's own slot.
        *output = unsafe { *tile.add(thread) };
    }
}

#[test]
fn a_scan_that_updates_in_place() {
    race("scan_in_place", ["*tile.add(thread - reach)", "*tile.add(thread) += before"], Apart::Threads)
        .is_always_found(two_blocks(|stream, config, x, y| scan_in_place::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| scan_in_place::launch::<true>(stream, config, x, y)));
}

/// Two halves by turns; one barrier a round is enough, one in every second round is not.
#[kernel]
fn double_buffer<const EACH_ROUND: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let halves = shared!([u32; 128]).cast::<u32>();
    let thread = thread_idx().x as usize;
    let mut value = input[global_idx().get()];
    for round in 0..6 {
        let half = round % 2 * 64;
        // SAFETY: the thread's slot in one half.
        unsafe { *halves.add(half + thread) = value };
        if EACH_ROUND || round % 2 == 0 {
            sync_threads();
        }
        // SAFETY: a slot of the same half.
        value = unsafe { *halves.add(half + (thread + 33) % 64) } + 1;
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn a_double_buffer_with_one_barrier_too_few() {
    race("double_buffer", ["*halves.add(half + thread) =", "*halves.add(half + (thread + 33) % 64)"], Apart::Threads)
        .is_always_found(two_blocks(|stream, config, x, y| double_buffer::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| double_buffer::launch::<true>(stream, config, x, y)));
}

/// One warp produces for another, which waits at the barrier of the producer's number or at another that all of its own come to.
#[kernel]
fn named<const SAME: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 32]).cast::<u32>();
    let lane = lane_id() as usize;
    let mut value = input[global_idx().get()];
    if warp_id() == 0 {
        // SAFETY: a slot a lane of the one warp.
        unsafe { *tile.add(lane) = value };
        NamedBarrier::<1>::arrive(64);
    } else {
        if SAME {
            NamedBarrier::<1>::sync(64);
        } else {
            NamedBarrier::<2>::sync(32);
        }
        // SAFETY: one of 32.
        value = unsafe { *tile.add(31 - lane) };
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn a_named_barrier_with_the_wrong_number() {
    race("named", ["*tile.add(lane) = value", "*tile.add(31 - lane)"], Apart::Warps)
        .is_always_found(two_blocks(|stream, config, x, y| named::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| named::launch::<true>(stream, config, x, y)));
}

/// Counts in shared memory, with plain additions or with atomic ones.
#[kernel]
fn histogram<const ATOMIC: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let bins = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize;
    // SAFETY: a bin a thread.
    unsafe { *bins.add(thread) = 0 };
    sync_threads();
    let bin = (input[global_idx().get()] % 5) as usize;
    if ATOMIC {
        // SAFETY: one of 64, reached by atomics alone until the next barrier.
        unsafe { AtomicU32::from_ptr(bins.add(bin)) }.fetch_add(1, Relaxed);
    } else {
        // SAFETY: one of 64.
        unsafe { *bins.add(bin) += 1 };
    }
    sync_threads();
    if let Some(output) = output.get_mut(&global_idx()) {
        // SAFETY: one of 64.
        *output = unsafe { *bins.add(thread) };
    }
}

#[test]
fn a_histogram_without_atomics() {
    let line = "*bins.add(bin) += 1";
    race("histogram", [line, line], Apart::Threads)
        .is_always_found(two_blocks(|stream, config, x, y| histogram::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| histogram::launch::<true>(stream, config, x, y)));
}

/// Each thread reads what the other warp's wrote before it arrived; with `WAIT` once all have arrived.
#[kernel]
fn arrivals<const WAIT: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let (barrier, tile) = (shared!(Mbarrier), shared!([u32; 64]).cast::<u32>());
    let thread = thread_idx().x as usize;
    if thread == 0 {
        // SAFETY: one thread does, before the others come past the barrier.
        unsafe { Mbarrier::init(barrier, 64) };
    }
    sync_threads();
    // SAFETY: a slot a thread.
    unsafe { *tile.add(thread) = input[global_idx().get()] };
    // SAFETY: initialised above, and there as long as the block.
    let barrier = unsafe { &*barrier };
    let phase = barrier.arrive();
    if WAIT {
        barrier.wait(phase);
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        // SAFETY: one of 64.
        *output = unsafe { *tile.add(63 - thread) };
    }
}

#[test]
fn an_mbarrier_that_nobody_waits_at() {
    race("arrivals", ["*tile.add(thread) =", "*tile.add(63 - thread)"], Apart::Warps)
        .is_always_found(two_blocks(|stream, config, x, y| arrivals::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| arrivals::launch::<true>(stream, config, x, y)));
}

/// Each thread reads the next lane's slot, after a shuffle, which orders no memory, or after `sync_warp`.
#[kernel]
fn after_a_shuffle<const SYNC: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize;
    // SAFETY: a slot a thread.
    unsafe { *tile.add(thread) = input[global_idx().get()] };
    let next = shfl_xor(FULL_MASK, thread as u32, 1) as usize;
    if SYNC {
        sync_warp(FULL_MASK);
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        // SAFETY: one of 64.
        *output = unsafe { *tile.add(next) };
    }
}

#[test]
fn a_shuffle_in_the_place_of_a_barrier() {
    race("after_a_shuffle", ["*tile.add(thread) =", "*tile.add(next)"], Apart::Lanes)
        .is_always_found(two_blocks(|stream, config, x, y| after_a_shuffle::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| after_a_shuffle::launch::<true>(stream, config, x, y)));
}

/// Halves of a warp work alone, with masks of their own; with `CROSSED` they read each other's slots.
#[kernel]
fn half_warps<const CROSSED: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize;
    // SAFETY: a slot a thread.
    unsafe { *tile.add(thread) = input[global_idx().get()] };
    if lane_id() < 16 {
        sync_warp(0x0000_ffff);
    } else {
        sync_warp(0xffff_0000);
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        // SAFETY: one of 64.
        *output = unsafe { *tile.add(if CROSSED { thread ^ 31 } else { thread ^ 15 }) };
    }
}

#[test]
fn halves_of_a_warp_that_read_each_others_slots() {
    race("half_warps", ["*tile.add(thread) =", "*tile.add(if CROSSED"], Apart::Lanes)
        .is_always_found(two_blocks(|stream, config, x, y| half_warps::launch::<true>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| half_warps::launch::<false>(stream, config, x, y)));
}

/// One slot for what the first thread tells all, round after round; `AFTER` keeps the first from the next round until all have read.
#[kernel]
fn one_slot<const AFTER: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let slot = shared!(u32);
    let mut sum = 0;
    for &told in &input[..4] {
        if thread_idx().x == 0 {
            // SAFETY: one thread writes.
            unsafe { *slot = told };
        }
        sync_threads();
        // SAFETY: it is there as long as the block.
        sum += unsafe { *slot };
        if AFTER {
            sync_threads();
        }
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = sum;
    }
}

#[test]
fn a_slot_that_is_told_anew_while_others_read() {
    race("one_slot", ["*slot = told", "sum += unsafe { *slot }"], Apart::Threads)
        .is_always_found(two_blocks(|stream, config, x, y| one_slot::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| one_slot::launch::<true>(stream, config, x, y)));
}

/// A shared array whose phases are parted by a barrier, or are said to need none.
#[kernel]
fn phases<const SYNC: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let mut tile = shared_array!([u32; 64]);
    tile.put(input[global_idx().get()]);
    let tile = if SYNC { tile.sync() } else { tile.without_sync() };
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = tile.at(63 - thread_idx().x as usize);
    }
}

#[test]
fn phases_of_a_shared_array_that_no_barrier_parts() {
    race("phases", ["tile.put(", "tile.at(63"], Apart::Warps)
        .is_always_found(two_blocks(|stream, config, x, y| phases::launch::<false>(stream, config, x, y)));
    always_silent(two_blocks(|stream, config, x, y| phases::launch::<true>(stream, config, x, y)));
}

/// Each block of a cluster reads the next one's slots, after the cluster's barrier or its own.
#[kernel]
fn clusters<const OF_CLUSTER: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize;
    // SAFETY: a slot a thread.
    unsafe { *tile.add(thread) = input[global_idx().get()] };
    if OF_CLUSTER {
        this_cluster().sync();
    } else {
        sync_threads();
    }
    let next = this_cluster().map_shared_rank(tile, 1 - cluster_rank());
    // SAFETY: one of 64, of a block that ends after the barrier below.
    let value = unsafe { *next.add(thread) };
    this_cluster().sync();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn a_barrier_of_the_block_where_the_cluster_meets() {
    let launch = |wanted: bool| {
        two_blocks(move |stream, config, x, y| {
            let config = config.with_cluster(2);
            if wanted {
                clusters::launch::<true>(stream, config, x, y)
            } else {
                clusters::launch::<false>(stream, config, x, y)
            }
        })
    };
    race("clusters", ["*tile.add(thread) =", "*next.add(thread)"], Apart::Blocks).is_always_found(launch(false));
    always_silent(launch(true));
}

/// Disjoint bytes of one word, disjoint fields of a struct, and one slot that all read.
#[kernel]
fn neighbours(input: &[u32], mut output: GridSliceMut<u32>) {
    #[repr(C)]
    struct Record {
        low: u16,
        flag: u8,
        other: u8,
        wide: u64,
    }
    let bytes = shared!([u8; 64]).cast::<u8>();
    let records = shared!([Record; 16]).cast::<Record>();
    let thread = thread_idx().x as usize;
    let value = input[global_idx().get()];
    // SAFETY: a byte a thread, and of each record a field for each of four threads.
    unsafe {
        *bytes.add(thread) = value as u8;
        let record = records.add(thread / 4);
        match thread % 4 {
            0 => (*record).low = value as u16,
            1 => (*record).flag = value as u8,
            2 => (*record).other = value as u8,
            _ => (*record).wide = value.into(),
        }
        // The thread's own byte again, between writes of its neighbours.
        *bytes.add(thread) += 1;
    }
    sync_threads();
    // SAFETY: all that was written before the barrier.
    let sum = unsafe {
        let record = &*records.add(thread / 4);
        u32::from(*bytes.add(7))
            + u32::from(record.low)
            + u32::from(record.flag)
            + u32::from(record.other)
            + record.wide as u32
    };
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = sum;
    }
}

#[test]
fn disjoint_bytes_and_fields_and_broadcast_reads() {
    always_silent(two_blocks(|stream, config, x, y| neighbours::launch(stream, config, x, y)));
}

/// Slots of a tile of eight lanes, and of the lanes that took one branch, ordered by their group's barrier.
#[kernel]
fn groups(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize;
    let eight = this_thread_block().tiled_partition::<8>();
    let mut value = input[global_idx().get()];
    // SAFETY: the thread's own slot, and one of its tile's after the tile's barrier, and then its own again.
    unsafe {
        *tile.add(thread) = value;
        eight.sync();
        value += *tile.add(thread ^ 7);
        eight.sync();
        *tile.add(thread) = value;
    }
    eight.sync();
    if thread.is_multiple_of(3) {
        let together = coalesced_threads();
        // SAFETY: slots of lanes in this branch, parted by their group's barrier.
        unsafe {
            *tile.add(thread) = value + 1;
            together.sync();
            let lane = together.shfl(thread as u32, (together.thread_rank() + 1) % together.num_threads());
            value = *tile.add(lane as usize);
        }
    }
    this_thread_block().sync();
    // SAFETY: after the block's barrier.
    value += unsafe { *tile.add(63 - thread) };
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn barriers_of_cooperative_groups_order() {
    always_silent(two_blocks(|stream, config, x, y| groups::launch(stream, config, x, y)));
}

/// All that a block does together, one after the other and twice, with nothing between.
#[kernel]
fn collectives(input: &[u32], mut output: GridSliceMut<u32>) {
    let i = global_idx();
    let mut value = input[i.get()];
    for _ in 0..2 {
        value = value.wrapping_add(block_reduce(value, u32::wrapping_add));
        value = block_inclusive_scan(value, u32::max);
        let (before, total) = block_exclusive_scan(value, 0, u32::wrapping_add);
        value = before ^ total;
        value = block_sort(value, |a, b| a < b);
        value = value.wrapping_add(block_broadcast(value, 40));
        let items = striped_to_blocked::<u32, 2, 64>([value, value + 1]);
        let items = blocked_to_striped::<u32, 2, 64>(items);
        value = items[0].wrapping_mul(3) ^ items[1];
        value += sync_threads_count(value.is_multiple_of(2));
        value = value.wrapping_add(reduce_add(FULL_MASK, value)).wrapping_add(inclusive_scan_add(FULL_MASK, value));
    }
    if let Some(output) = output.get_mut(&i) {
        *output = value;
    }
}

#[test]
fn collectives_of_the_library_in_a_row() {
    always_silent(two_blocks(|stream, config, x, y| collectives::launch(stream, config, x, y)));
    // A last warp that is not full.
    always_silent(|stream| {
        let mut output = stream.zeroed::<u32>(100)?;
        reductions::launch(stream, LaunchConfig::new(2, 50), &stream.filled(3, 100)?, &mut output)
    });
}

/// Reductions and scans in blocks of any size.
#[kernel]
fn reductions(input: &[u32], mut output: GridSliceMut<u32>) {
    let i = global_idx();
    let sum = block_reduce(input[i.get()], u32::wrapping_add);
    let upto = block_inclusive_scan(sum, u32::wrapping_add);
    if let Some(output) = output.get_mut(&i) {
        *output = block_sort(upto, |a, b| b < a) + block_broadcast(upto, 49);
    }
}

/// Phases of shared arrays, with and without a size known before the launch, and a barrier a phase.
#[kernel]
fn arrays(input: &[u32], mut output: GridSliceMut<u32>) {
    let thread = slot_idx().get();
    let mut rows = shared_array!(PaddedRows<u32, 8, 8>);
    let mut dynamic = DynamicShared::new();
    let mut words = dynamic.take::<u16>(128);
    let mut bytes = dynamic.take::<u8>(64);
    let mut value = input[global_idx().get()];
    for _ in 0..3 {
        rows.put(value);
        for slot in block_stride(128) {
            words.put_at(&slot, value as u16);
        }
        bytes.put(value as u8);
        let reading = rows.sync();
        let (read_words, read_bytes) = (words.without_sync(), bytes.without_sync());
        value = reading.at([thread / 8, thread % 8])
            + u32::from(read_words.at(127 - thread))
            + u32::from(read_bytes.at(thread ^ 1));
        rows = reading.sync();
        (words, bytes) = (read_words.without_sync(), read_bytes.without_sync());
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn shared_arrays_in_phases() {
    always_silent(two_blocks(|stream, config, x, y| arrays::launch(stream, config.with_shared_bytes(512), x, y)));
}
