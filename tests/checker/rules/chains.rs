//! What is ordered by way of others: barriers before a release, barriers after an acquire, chains of both, pipelines; and accesses
//! that are no plain loads and stores.

use std::sync::atomic::{AtomicU32, Ordering};

use warpsmith::CheckRule::{ConflictingWrites, DataRace};
use warpsmith::mbarrier::Mbarrier;
use warpsmith::prelude::*;
use warpsmith::{Schedule, read_cache_global, write_streaming, write_volatile};
use warpsmith_checker_tests::{Apart, Meeting, always_silent, findings_under, silent};

/// The address of a buffer for kernels that do as they like with it.
fn raw<T: KernelValue>(buffer: &DeviceBuffer<T>) -> *mut T {
    buffer.as_device_ptr().cast_mut()
}

/// All threads of a block leave something, one of them counts the block, and all of the last block read what all have left.
///
/// # Safety
/// `parts` has an element a thread.
#[kernel]
unsafe fn threads_of_the_last_block<const BEFORE: bool, const AFTER: bool>(
    parts: *mut u32,
    count: &[AtomicU32],
    mut output: GridSliceMut<u32>,
) {
    let is_last = shared!(AtomicU32);
    let i = global_idx();
    // SAFETY: the thread's own.
    unsafe { *parts.add(i.get()) = 1 };
    if BEFORE {
        sync_threads();
    }
    if thread_idx().x == 0 {
        let before = count[0].fetch_add(1, Ordering::AcqRel);
        // SAFETY: of the block's memory, and reached by atomics alone.
        unsafe { &*is_last }.store(u32::from(before + 1 == grid_dim().x), Ordering::Relaxed);
    }
    let mut wanted = sync_threads_or(false);
    if AFTER {
        // SAFETY: written before the barrier.
        wanted = unsafe { &*is_last }.load(Ordering::Relaxed) == 1;
    } else if thread_idx().x == 0 {
        // SAFETY: as above.
        wanted = unsafe { &*is_last }.load(Ordering::Relaxed) == 1;
    }
    if wanted {
        let mut sum = 0;
        for part in 0..(grid_dim().x * block_dim().x) as usize {
            // SAFETY: some thread's.
            sum += unsafe { *parts.add(part) };
        }
        if let Some(output) = output.get_mut(&i) {
            *output = sum;
        }
    }
}

fn last_threads<const BEFORE: bool, const AFTER: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (parts, mut count, mut output) = (stream.zeroed(4 * 64)?, stream.zeroed::<u32>(1)?, stream.zeroed(4 * 64)?);
    let config = LaunchConfig::new(4, 64);
    // SAFETY: 256 threads and as many parts.
    unsafe { threads_of_the_last_block::launch::<BEFORE, AFTER>(stream, config, raw(&parts), &mut count, &mut output) }
}

#[test]
fn one_thread_releases_what_its_block_wrote_before_a_barrier() {
    Meeting {
        rule: DataRace,
        kernel: "threads_of_the_last_block",
        lines: ["*parts.add(i.get()) = 1", "*parts.add(part)"],
        memory: "`parts`",
        apart: Apart::Blocks,
    }
    .is_always_found(last_threads::<false, true>);
    always_silent(last_threads::<true, true>);
    always_silent(last_threads::<true, false>);
}

/// Each block waits for the one before it, adds to what that left, and tells the next.
///
/// # Safety
/// `sums` has an element a block.
#[kernel]
unsafe fn chained_scan<const RELEASES: bool>(flags: &[AtomicU32], sums: *mut u32) {
    let block = block_idx().x as usize;
    let mut before = 0;
    if block > 0 {
        while flags[block - 1].load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
        // SAFETY: the block before, which has written it.
        before = unsafe { *sums.add(block - 1) };
    }
    // SAFETY: the block's own.
    unsafe { *sums.add(block) = before + 1 };
    flags[block].store(1, if RELEASES { Ordering::Release } else { Ordering::Relaxed });
    if block > 1 {
        // SAFETY: of a block that the one before has waited for.
        before = unsafe { *sums.add(block - 2) };
        assert!(before as usize == block - 1, "block {block} found {before}");
    }
}

fn scanned<const RELEASES: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (mut flags, sums) = (stream.zeroed::<u32>(6)?, stream.zeroed(6)?);
    // SAFETY: six blocks of a thread, and as many sums.
    unsafe { chained_scan::launch::<RELEASES>(stream, LaunchConfig::new(6, 1), &mut flags, raw(&sums)) }
}

#[test]
fn a_chain_of_flags_is_ordered_from_its_first_to_its_last() {
    // Each block waits for the one before it, so that these come first.
    silent(&findings_under(Schedule::Ascending, scanned::<true>));
    let findings = findings_under(Schedule::Ascending, scanned::<false>);
    for read in ["*sums.add(block - 1)", "*sums.add(block - 2)"] {
        let lines = ["*sums.add(block) =", read];
        let apart = Apart::Blocks;
        Meeting { rule: DataRace, kernel: "chained_scan", lines, memory: "`sums`", apart }.is_in(&findings);
    }
}

/// A flag in shared memory from one warp to another, whose lanes are told by the one that saw it.
#[kernel]
fn between_warps<const MEET: bool>(mut output: GridSliceMut<u32>) {
    let (flag, tile) = (shared!(u32), shared!([u32; 32]).cast::<u32>());
    let lane = lane_id() as usize;
    if thread_idx().x == 0 {
        // SAFETY: one thread does, before the others come past the barrier.
        unsafe { *flag = 0 };
    }
    sync_threads();
    // SAFETY: from here on it is reached by atomics alone.
    let flag = unsafe { AtomicU32::from_ptr(flag) };
    let mut value = 0;
    if warp_id() == 0 {
        // SAFETY: a slot a lane.
        unsafe { *tile.add(lane) = lane as u32 };
        if MEET {
            sync_warp(FULL_MASK);
        }
        if lane == 0 {
            flag.store(1, Ordering::Release);
        }
    } else {
        let mut seen = 0;
        if lane == 0 {
            seen = flag.load(Ordering::Acquire);
        }
        seen = broadcast(FULL_MASK, seen, 0);
        sync_warp(FULL_MASK);
        if seen == 1 {
            // SAFETY: one of 32.
            value = unsafe { *tile.add(31 - lane) };
        }
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

fn told<const MEET: bool>(stream: &Stream) -> warpsmith::Result<()> {
    between_warps::launch::<MEET>(stream, LaunchConfig::new(2, 64), &mut stream.zeroed(128)?)
}

#[test]
fn a_lane_releases_what_its_warp_wrote_before_it_met() {
    // Under others the second warp may look too early, and read nothing.
    let findings = findings_under(Schedule::Ascending, told::<false>);
    Meeting {
        rule: DataRace,
        kernel: "between_warps",
        lines: ["*tile.add(lane) =", "*tile.add(31 - lane)"],
        memory: "shared memory",
        apart: Apart::Warps,
    }
    .is_in(&findings);
    always_silent(told::<true>);
}

/// A producing warp and a consuming one, with an mbarrier for each way; with `EARLY` the consumer says that the slots are free
/// before it has read them. Where there are two sets of slots by turns, that is early enough: the next round's comes after.
#[kernel]
fn pipeline<const EARLY: bool, const SETS: usize>(mut output: GridSliceMut<u32>) {
    let (barriers, slots) = (shared!([Mbarrier; 4]).cast::<Mbarrier>(), shared!([u32; 64]).cast::<u32>());
    if thread_idx().x < 4 {
        // SAFETY: a barrier a thread, before the others come past the barrier.
        unsafe { Mbarrier::init(barriers.add(thread_idx().x as usize), 64) };
    }
    sync_threads();
    let lane = lane_id() as usize;
    let mut sum = 0;
    for round in 0..6 {
        let slot = round % SETS;
        // SAFETY: initialised above, and there as long as the block.
        let (full, free) = unsafe { (&*barriers.add(slot), &*barriers.add(2 + slot)) };
        if warp_id() == 0 {
            // SAFETY: the lane's own, which the other has read, as the barrier says.
            unsafe { *slots.add(32 * slot + lane) = (round + lane) as u32 };
            let _ = full.arrive();
            let phase = free.arrive();
            free.wait(phase);
        } else {
            let phase = full.arrive();
            full.wait(phase);
            if EARLY {
                let _ = free.arrive();
            }
            // SAFETY: written before the other arrived.
            sum += unsafe { *slots.add(32 * slot + 31 - lane) };
            if !EARLY {
                let _ = free.arrive();
            }
        }
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = sum;
    }
}

fn piped<const EARLY: bool, const SETS: usize>(stream: &Stream) -> warpsmith::Result<()> {
    pipeline::launch::<EARLY, SETS>(stream, LaunchConfig::new(2, 64), &mut stream.zeroed(128)?)
}

#[test]
fn a_pipeline_of_mbarriers_whose_consumer_frees_a_slot_too_early() {
    Meeting {
        rule: DataRace,
        kernel: "pipeline",
        lines: ["*slots.add(32 * slot + lane) =", "*slots.add(32 * slot + 31 - lane)"],
        memory: "shared memory",
        apart: Apart::Warps,
    }
    .is_always_found(piped::<true, 1>);
    always_silent(piped::<false, 1>);
    always_silent(piped::<true, 2>);
    always_silent(piped::<false, 2>);
}

/// One thread makes an mbarrier, and all arrive at it; if `MEET`, after a barrier of the block.
#[kernel]
fn made_and_used<const MEET: bool>() {
    let barrier = shared!(Mbarrier);
    if thread_idx().x == 0 {
        // SAFETY: one thread does, and the others come past the barrier first, if there is one.
        unsafe { Mbarrier::init(barrier, 64) };
    }
    if MEET {
        sync_threads();
    }
    // SAFETY: it lies there as long as the block.
    let barrier = unsafe { &*barrier };
    let _ = barrier.arrive();
}

fn made<const MEET: bool>(stream: &Stream) -> warpsmith::Result<()> {
    made_and_used::launch::<MEET>(stream, LaunchConfig::new(2, 64))
}

#[test]
fn an_mbarrier_that_is_used_without_a_barrier_after_its_making() {
    let lines = ["Mbarrier::init", "barrier.arrive()"];
    let apart = Apart::Threads;
    Meeting { rule: DataRace, kernel: "made_and_used", lines, memory: "shared memory", apart }
        .is_always_found(made::<false>);
    always_silent(made::<true>);
}

/// A record that is copied whole, with padding.
#[repr(C)]
#[derive(Clone, Copy, KernelValue)]
struct Record {
    small: u8,
    wide: u64,
    last: u16,
}

/// Copies records and runs of words, volatile and past the caches, from what the next thread writes; or from another buffer.
///
/// # Safety
/// All have an element a thread, and `words` four and four more.
#[kernel]
unsafe fn copies(
    from: *const Record,
    to: *mut Record,
    words: *mut u32,
    more: *mut u32,
    streamed: *mut u32,
    len: usize,
) {
    let i = global_idx().get();
    let next = (i + 1) % len;
    // SAFETY: the caller's promise.
    unsafe {
        *to.add(i) = *from.add(next); // the record
        core::ptr::copy_nonoverlapping(words.add(4 * next), more.add(4 * i), 4); // the run
        let seen = read_cache_global(&*streamed.add(next)); // past the cache
        write_streaming(&mut *more.add(4 * i), seen);
        write_volatile(&mut *more.add(4 * i + 1), seen + 1);
    }
}

#[test]
fn copies_of_records_and_runs_and_accesses_past_the_caches() {
    let launch = |records: bool, runs: bool| {
        move |stream: &Stream| {
            let record = Record { small: 1, wide: 2, last: 3 };
            let (from, to) = (stream.filled(record, 64)?, stream.filled(record, 64)?);
            let (words, more) = (stream.filled(1_u32, 256)?, stream.zeroed::<u32>(256)?);
            let streamed = stream.filled(1_u32, 64)?;
            let config = LaunchConfig::new(1, 64);
            let to = if records { &from } else { &to };
            let more = if runs { &words } else { &more };
            // SAFETY: 64 threads, as many records, four times as many words.
            unsafe {
                copies::launch(
                    stream,
                    config,
                    from.as_device_ptr(),
                    raw(to),
                    raw(&words),
                    raw(more),
                    raw(&streamed),
                    64,
                )
            }
        }
    };
    for schedule in warpsmith_checker_tests::SCHEDULES {
        for (records, runs, line, names) in
            [(true, false, "the record", ["`from`", "`to`"]), (false, true, "the run", ["`words`", "`more`"])]
        {
            let findings = findings_under(schedule, launch(records, runs));
            let name = findings.first().and_then(|finding| finding.memory.as_ref()).map(|memory| memory.name.as_str());
            let name = name.unwrap_or_else(|| panic!("nothing was found under {schedule}"));
            assert!(names.contains(&name), "{name}");
            let (lines, apart) = ([line, line], Apart::Threads);
            Meeting { rule: DataRace, kernel: "copies", lines, memory: name, apart }.is_in(&findings);
        }
    }
    always_silent(launch(false, false));
}

/// Sixteen bytes at once, of a row that is shifted by one word where it should be by four.
///
/// # Safety
/// `words` has four elements a thread, and three more.
#[kernel]
unsafe fn vectors<const APART: bool>(words: *mut u32) {
    let i = global_idx().get();
    // SAFETY: below the length.
    unsafe { words.add(if APART { 4 * i } else { i }).cast::<[u32; 4]>().write([1; 4]) }; // the vector
}

fn stored<const APART: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let words = stream.zeroed::<u32>(4 * 64 + 3)?;
    // SAFETY: 64 threads, and four words for each.
    unsafe { vectors::launch::<APART>(stream, LaunchConfig::new(2, 32), raw(&words)) }
}

#[test]
fn vectors_that_overlap_in_some_words() {
    Meeting {
        rule: ConflictingWrites,
        kernel: "vectors",
        lines: ["the vector", "the vector"],
        memory: "`words`",
        apart: Apart::Threads,
    }
    .is_always_found(stored::<false>);
    always_silent(stored::<true>);
}

/// A relaxed addition carries on what a release has begun.
///
/// # Safety
/// `value` is one element.
#[kernel]
unsafe fn release_sequence<const CARRIES: bool>(value: *mut u32, flag: &[AtomicU32], mut output: GridSliceMut<u32>) {
    let i = global_idx();
    match i.get() {
        0 => {
            // SAFETY: one thread writes.
            unsafe { *value = 9 };
            flag[0].store(1, Ordering::Release);
        }
        1 if CARRIES => {
            flag[0].fetch_add(1, Ordering::Relaxed);
        }
        1 => flag[0].store(2, Ordering::Relaxed),
        _ => {
            if flag[0].load(Ordering::Acquire) == 2
                && let Some(output) = output.get_mut(&i)
            {
                // SAFETY: it is one element.
                *output = unsafe { *value };
            }
        }
    }
}

fn carried<const CARRIES: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (value, mut flag, mut output) = (stream.zeroed(1)?, stream.zeroed::<u32>(1)?, stream.zeroed(3)?);
    // SAFETY: it is one element.
    unsafe { release_sequence::launch::<CARRIES>(stream, LaunchConfig::new(3, 1), raw(&value), &mut flag, &mut output) }
}

#[test]
fn a_relaxed_store_ends_what_was_released() {
    let findings = findings_under(Schedule::Ascending, carried::<false>);
    Meeting {
        rule: DataRace,
        kernel: "release_sequence",
        lines: ["*value = 9", "*output = unsafe { *value }"],
        memory: "`value`",
        apart: Apart::Blocks,
    }
    .is_in(&findings);
    always_silent(carried::<true>);
}
