//! Writes of two threads to one place, by way of indices that are unsafe tricks, and tricks that are right.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use warpsmith::CheckRule::ConflictingWrites;
use warpsmith::prelude::*;
use warpsmith_checker_tests::{Apart, Meeting, always_silent, caught, findings_under};

/// Conflicting writes of one line of a kernel.
fn conflict<'a>(kernel: &'a str, line: &'a str, memory: &'a str, apart: Apart) -> Meeting<'a> {
    Meeting { rule: ConflictingWrites, kernel, lines: [line, line], memory, apart }
}

/// The address of a buffer for kernels that do as they like with it.
fn raw<T: KernelValue>(buffer: &DeviceBuffer<T>) -> *mut T {
    buffer.as_device_ptr().cast_mut()
}

/// The line of `every_thread_writes_one`'s write.
const ONE_PLACE: u32 = line!() + 10;

/// Every thread writes one element, or each its own.
///
/// # Safety
/// `y` has an element a thread.
#[kernel]
unsafe fn every_thread_writes_one<const OWN: bool>(y: *mut f32) {
    let at = if OWN { global_idx().get() } else { 3 };
    // SAFETY: below the number of threads.
    unsafe { *y.add(at) = 1.5 };
}

#[test]
fn every_thread_writes_one_element() {
    let written = |own: bool| {
        move |stream: &Stream| {
            let (y, config) = (stream.zeroed::<f32>(64)?, LaunchConfig::new(1, 64));
            // SAFETY: 64 threads and as many elements.
            unsafe {
                if own {
                    every_thread_writes_one::launch::<true>(stream, config, raw(&y))
                } else {
                    every_thread_writes_one::launch::<false>(stream, config, raw(&y))
                }
            }
        }
    };
    conflict("every_thread_writes_one", "*y.add(at) =", "`y`", Apart::Threads).is_always_found(written(false));
    let findings = findings_under(warpsmith::Schedule::Ascending, written(false));
    let finding = caught(ConflictingWrites, &findings);
    let other = finding.other.as_ref().expect("a conflict has two sides");
    assert_eq!((finding.side.line, other.line), (ONE_PLACE, ONE_PLACE), "{finding}");
    assert_eq!((finding.side.thread.x, other.thread.x), (1, 0), "{finding}");
    assert_eq!((finding.side.action.as_str(), other.action.as_str()), ("writes 1.5", "wrote 1.5"), "{finding}");
    let memory = finding.memory.as_ref().expect("it is about memory");
    assert_eq!((memory.element_type.as_str(), memory.len, memory.element), ("f32", 64, 3), "{finding}");
    always_silent(written(true));
}

/// Two threads an element, as where the block's size was left out of the index.
///
/// # Safety
/// `y` has an element a thread.
#[kernel]
unsafe fn index_of_the_block_alone<const WHOLE: bool>(y: *mut u32) {
    let first = if WHOLE { (block_idx().x * block_dim().x) as usize } else { 0 };
    // SAFETY: below the number of threads.
    unsafe { *y.add(first + thread_idx().x as usize) = block_idx().x };
}

#[test]
fn an_index_without_its_block() {
    let written = |whole: bool| {
        move |stream: &Stream| {
            let (y, config) = (stream.zeroed::<u32>(96)?, LaunchConfig::new(3, 32));
            // SAFETY: 96 threads and as many elements.
            unsafe {
                if whole {
                    index_of_the_block_alone::launch::<true>(stream, config, raw(&y))
                } else {
                    index_of_the_block_alone::launch::<false>(stream, config, raw(&y))
                }
            }
        }
    };
    conflict("index_of_the_block_alone", "*y.add(first +", "`y`", Apart::Blocks).is_always_found(written(false));
    always_silent(written(true));
}

/// A scatter by places that are all different, or not.
///
/// # Safety
/// All places are below the length of `y`.
#[kernel]
unsafe fn scatter(places: &[u32], y: *mut u32) {
    let i = global_idx().get();
    // SAFETY: the caller's promise.
    unsafe { *y.add(places[i] as usize) = i as u32 };
}

#[test]
fn a_scatter_to_places_that_come_twice() {
    let scattered = |places: Vec<u32>| {
        move |stream: &Stream| {
            let (y, places) = (stream.zeroed::<u32>(64)?, stream.to_device(&places)?);
            // SAFETY: all places are below 64.
            unsafe { scatter::launch(stream, LaunchConfig::new(2, 32), &places, raw(&y)) }
        }
    };
    let permutation: Vec<u32> = (0..64).map(|i| i * 29 % 64).collect();
    let mut twice = permutation.clone();
    twice[50] = twice[7];
    conflict("scatter", "*y.add(places[i] as usize)", "`y`", Apart::Blocks).is_always_found(scattered(twice.clone()));
    for schedule in warpsmith_checker_tests::SCHEDULES {
        let findings = findings_under(schedule, scattered(twice.clone()));
        let finding = caught(ConflictingWrites, &findings);
        let other = finding.other.as_ref().expect("a conflict has two sides");
        let mut threads = [&finding.side, other].map(|side| (side.block.x, side.thread.x));
        threads.sort_unstable();
        assert_eq!((threads, finding.count), ([(0, 7), (1, 18)], 1), "{finding}");
        assert_eq!(finding.memory.as_ref().map(|memory| memory.element), Some(i128::from(twice[7])), "{finding}");
    }
    always_silent(scattered(permutation));
}

/// A tile with a halo on both sides; the first thread fills the right one, which is one further than `NARROW` says.
#[kernel]
fn halo<const NARROW: bool>(input: &[u32], mut output: GridSliceMut<u32>) {
    let tile = shared!([u32; 66]).cast::<u32>();
    let thread = thread_idx().x as usize;
    // SAFETY: all are below 66.
    unsafe {
        *tile.add(thread + 1) = input[global_idx().get()];
        if thread == 0 {
            *tile = 0;
            *tile.add(if NARROW { 64 } else { 65 }) = 0;
        }
    }
    sync_threads();
    if let Some(output) = output.get_mut(&global_idx()) {
        // SAFETY: below 65.
        *output = unsafe { *tile.add(thread) } + 1;
    }
}

#[test]
fn a_halo_that_is_off_by_one() {
    let filled = |narrow: bool| {
        move |stream: &Stream| {
            let (input, mut output, config) = (stream.filled(1, 128)?, stream.zeroed(128)?, LaunchConfig::new(2, 64));
            if narrow {
                halo::launch::<true>(stream, config, &input, &mut output)
            } else {
                halo::launch::<false>(stream, config, &input, &mut output)
            }
        }
    };
    Meeting {
        rule: ConflictingWrites,
        kernel: "halo",
        lines: ["*tile.add(thread + 1) =", "*tile.add(if NARROW"],
        memory: "shared memory",
        apart: Apart::Warps,
    }
    .is_always_found(filled(true));
    always_silent(filled(false));
}

/// Where a stream is compacted: a place from a counter, which is counted atomically or read and written.
///
/// # Safety
/// `kept` has an element a thread.
#[kernel]
unsafe fn compact<const ATOMIC: bool>(count: &[AtomicU32], kept: *mut u32) {
    let place = if ATOMIC {
        count[0].fetch_add(1, Relaxed)
    } else {
        let place = count[0].load(Relaxed);
        // As if nobody else came between the two: here everybody does.
        sync_threads();
        count[0].store(place + 1, Relaxed);
        place
    };
    // SAFETY: the counter is below the number of threads.
    unsafe { *kept.add(place as usize) = global_idx().get() as u32 };
}

#[test]
fn places_from_a_counter_that_is_no_atomic_addition() {
    let compacted = |atomic: bool| {
        move |stream: &Stream| {
            let (mut count, kept, config) = (stream.zeroed::<u32>(1)?, stream.zeroed(64)?, LaunchConfig::new(1, 64));
            // SAFETY: 64 threads and as many places.
            unsafe {
                if atomic {
                    compact::launch::<true>(stream, config, &mut count, raw(&kept))
                } else {
                    compact::launch::<false>(stream, config, &mut count, raw(&kept))
                }
            }
        }
    };
    conflict("compact", "*kept.add(place as usize)", "`kept`", Apart::Threads).is_always_found(compacted(false));
    always_silent(compacted(true));
}

/// Each thread writes four bytes, or eight where only four of them are its own.
///
/// # Safety
/// `words` has an element a thread and one more.
#[kernel]
unsafe fn too_wide<const WIDE: bool>(words: *mut u32) {
    let i = global_idx().get();
    // SAFETY: there is one more.
    unsafe {
        if WIDE {
            words.add(i).cast::<u64>().write_unaligned(i as u64);
        } else {
            words.add(i).write_unaligned(i as u32);
        }
    }
}

#[test]
fn a_write_that_is_wider_than_its_place() {
    let written = |wide: bool| {
        move |stream: &Stream| {
            let (words, config) = (stream.zeroed::<u32>(65)?, LaunchConfig::new(2, 32));
            // SAFETY: 64 threads and one element more.
            unsafe {
                if wide {
                    too_wide::launch::<true>(stream, config, raw(&words))
                } else {
                    too_wide::launch::<false>(stream, config, raw(&words))
                }
            }
        }
    };
    let findings = findings_under(warpsmith::Schedule::Ascending, written(true));
    let line = "words.add(i).cast::<u64>()";
    let finding = conflict("too_wide", line, "`words`", Apart::Threads).is_in(&findings);
    assert_eq!(finding.count, 63, "{finding}");
    always_silent(written(false));
}

/// Flags of a byte, eight a byte by bits or one a byte.
///
/// # Safety
/// `flags` has a byte a thread.
#[kernel]
unsafe fn flags<const BITS: bool>(flags: *mut u8) {
    let i = global_idx().get();
    // SAFETY: below the number of threads.
    unsafe {
        if BITS {
            *flags.add(i / 8) = 1 << (i % 8);
        } else {
            *flags.add(i) = 1;
        }
    }
}

#[test]
fn bits_of_one_byte_and_bytes_of_one_word() {
    let written = |bits: bool| {
        move |stream: &Stream| {
            let (bytes, config) = (stream.zeroed::<u8>(64)?, LaunchConfig::new(2, 32));
            // SAFETY: 64 threads and as many bytes.
            unsafe {
                if bits {
                    flags::launch::<true>(stream, config, raw(&bytes))
                } else {
                    flags::launch::<false>(stream, config, raw(&bytes))
                }
            }
        }
    };
    conflict("flags", "*flags.add(i / 8) =", "`flags`", Apart::Lanes).is_always_found(written(true));
    always_silent(written(false));
}

/// A transpose in place: the upper half swaps with the lower, or every thread with the one across, so that each pair is swapped twice.
///
/// # Safety
/// `square` has 64 elements.
#[kernel]
unsafe fn transpose<const HALF: bool>(square: *mut u32) {
    let (row, column) = (thread_idx().x as usize / 8, thread_idx().x as usize % 8);
    if !HALF || row < column {
        // SAFETY: both are below 64.
        unsafe {
            let (a, b) = (square.add(8 * row + column), square.add(8 * column + row));
            let (of_a, of_b) = (*a, *b);
            *a = of_b;
            *b = of_a;
        }
    }
}

#[test]
fn a_transpose_in_place_by_both_halves() {
    let turned = |half: bool| {
        move |stream: &Stream| {
            let (square, config) = (stream.filled(1, 64)?, LaunchConfig::new(1, 64));
            // SAFETY: there are 64 elements.
            unsafe {
                if half {
                    transpose::launch::<true>(stream, config, raw(&square))
                } else {
                    transpose::launch::<false>(stream, config, raw(&square))
                }
            }
        }
    };
    Meeting {
        rule: ConflictingWrites,
        kernel: "transpose",
        lines: ["*a = of_b", "*b = of_a"],
        memory: "`square`",
        apart: Apart::Threads,
    }
    .is_always_found(turned(false));
    always_silent(turned(true));
}

/// One element written by one thread after another, with a barrier between, and by the lanes of a warp that are elected.
///
/// # Safety
/// `y` is one element, and `z` one a warp.
#[kernel]
unsafe fn by_turns(y: *mut u32, z: *mut u32) {
    for turn in 0..4 {
        if thread_idx().x == 16 * turn {
            // SAFETY: one thread does so between two barriers.
            unsafe { *y = turn };
        }
        sync_threads();
    }
    if elect(FULL_MASK) {
        // SAFETY: one lane of each warp does so.
        unsafe { *z.add(warp_id() as usize) = 1 };
    }
    if sync_threads_or(thread_idx().x == 9) && block_leader().is_some() {
        // SAFETY: one thread of the block, after the barrier.
        unsafe { *y += 1 };
    }
}

#[test]
fn writes_that_come_one_after_another() {
    always_silent(|stream| {
        let (y, z) = (stream.zeroed(1)?, stream.zeroed(2)?);
        // SAFETY: one element, and one for each of two warps.
        unsafe { by_turns::launch(stream, LaunchConfig::new(1, 64), raw(&y), raw(&z)) }
    });
}
