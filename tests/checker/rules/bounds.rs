//! Accesses outside of buffers and of shared memory, and to buffers that were freed.

use std::sync::atomic::{AtomicU32, Ordering};

use warpsmith::CheckRule::{OutOfBounds, UseAfterFree};
use warpsmith::prelude::*;
use warpsmith::{CheckOptions, CheckRule, Result, dynamic_shared, shared_array};
use warpsmith_checker_tests::{Expected, caught_and_silent, findings, silent};

const SOURCE: &str = include_str!("bounds.rs");

#[track_caller]
fn outside(
    (place, action): (&str, &str),
    thread: (u32, u32),
    memory: (&str, i128),
    count: u64,
    launches: impl Fn(&Stream, bool) -> Result<()>,
) {
    check(OutOfBounds, (place, action), thread, memory, count, launches);
}

#[track_caller]
fn check(
    rule: CheckRule,
    (place, action): (&str, &str),
    thread: (u32, u32),
    memory: (&str, i128),
    count: u64,
    launches: impl Fn(&Stream, bool) -> Result<()>,
) {
    let expected = Expected { rule, source: SOURCE, place, thread, action, memory: Some(memory), count };
    caught_and_silent(CheckOptions::new(), &expected, launches);
}

/// Differences to the next element; with the fault the last one looks beyond the end.
#[kernel]
unsafe fn differences(x: *const f32, len: usize, mut y: GridSliceMut<f32>, fault: bool) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let next = if fault { i.get() + 1 } else { (i.get() + 1).min(len - 1) };
        // SAFETY: with no fault, `next` is below `len`.
        let next = unsafe { *x.add(next) }; // at one past
        // SAFETY: there are as many elements of `x` as of `y`.
        *y = next - unsafe { *x.add(i.get()) };
    }
}

#[test]
fn one_past_the_end() {
    outside(("one past", "reads 4 bytes"), (1, 34), ("`x`", 99), 1, |stream, fault| {
        let (x, mut y) = (stream.filled(1.0f32, 99)?, stream.zeroed::<f32>(99)?);
        // SAFETY: `x` has the length that is said.
        unsafe { differences::launch(stream, LaunchConfig::new(2, 64), x.as_device_ptr(), 99, &mut y, fault) }
    });
}

/// Shifts to the right; with the fault the first element comes from before the start.
#[kernel]
unsafe fn shifted(x: *const f32, mut y: GridSliceMut<f32>, fault: bool) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let first = usize::from(!fault);
        // SAFETY: with no fault, the first element stays where it is.
        *y = if i.get() < first { 0.0 } else { unsafe { *x.offset(i.get() as isize - 1) } }; // at before
    }
}

#[test]
fn before_the_start() {
    outside(("before", "reads 4 bytes"), (0, 0), ("`x`", -1), 1, |stream, fault| {
        let (x, mut y) = (stream.filled(1.0f32, 64)?, stream.zeroed::<f32>(64)?);
        // SAFETY: both have 64 elements.
        unsafe { shifted::launch(stream, LaunchConfig::new(1, 64), x.as_device_ptr(), &mut y, fault) }
    });
}

/// Writes as many elements as a buffer has bytes where there is the fault.
#[kernel]
unsafe fn numbered(y: *mut u32, len: usize) {
    let i = global_idx().get();
    if i < len {
        // SAFETY: `len` is the number of elements.
        unsafe { *y.add(i) = i as u32 }; // at numbered
    }
}

#[test]
fn bytes_taken_for_elements() {
    outside(("numbered", "writes 4 bytes"), (3, 8), ("`y`", 200), 600, |stream, fault| {
        // The neighbours are other buffers, up to which nothing of it comes.
        let buffers = [(); 3].map(|()| stream.zeroed::<u32>(200).expect("there is memory"));
        let y = buffers[1].as_device_ptr().cast_mut();
        let len = if fault { buffers[1].size_bytes() } else { buffers[1].len() };
        // SAFETY: with no fault, it has so many elements.
        unsafe { numbered::launch(stream, LaunchConfig::new(16, 64), y, len) }
    });
}

/// Copies a matrix; the fault is a row too many.
#[kernel(block = (16, 16))]
unsafe fn rows(x: *const u16, mut y: GridSliceMut<u16, Plane>, width: usize, first: usize) {
    let i = global_idx_2d();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: `first` is 0 where `x` has as many rows as `y`.
        *y = unsafe { *x.add((i.y() + first) * width + i.x()) } + 1; // at a row too far
    }
}

#[test]
fn a_row_too_far() {
    outside(("a row too far", "reads 2 bytes"), (0, 0), ("`x`", 480), 24, |stream, fault| {
        let (x, mut y) = (stream.filled(1u16, 24 * 20)?, stream.zeroed::<u16>(24 * 20)?);
        let y = y.plane_mut(24, 20)?;
        // SAFETY: both have 20 rows of 24.
        unsafe {
            rows::launch(stream, LaunchConfig::new((2, 2), (16, 16)), x.as_device_ptr(), y, 24, usize::from(fault))
        }
    });
}

/// Sums columns, whose elements are a stride apart: the fault takes the padded width of another matrix for it.
#[kernel]
unsafe fn columns(x: *const f64, height: usize, stride: usize, mut y: GridSliceMut<f64>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let mut sum = 0.0;
        for row in 0..height {
            // SAFETY: `x` has `height` rows of `stride`.
            sum += unsafe { *x.add(row * stride + i.get()) }; // at stride
        }
        *y = sum;
    }
}

#[test]
fn a_wrong_stride() {
    // Rows of 32: row 7 of the eight starts at 224 of the 240 elements, row 6 at 192.
    outside(("stride", "reads 8 bytes"), (0, 16), ("`x`", 240), 14, |stream, fault| {
        let (x, mut y) = (stream.filled(1.0f64, 240)?, stream.zeroed::<f64>(30)?);
        let stride = if fault { 32 } else { 30 };
        // SAFETY: eight rows of 30.
        unsafe { columns::launch(stream, LaunchConfig::new(1, 32), x.as_device_ptr(), 8, stride, &mut y) }
    });
}

/// Four floats that are accessed at once.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Four([f32; 4]);

/// Scales by fours, the last of which the fault takes though it is only partly inside.
#[kernel]
unsafe fn by_fours(x: *mut f32, len: usize, fault: bool) {
    let i = global_idx().get();
    let count = if fault { len.div_ceil(4) } else { len / 4 };
    if i < count {
        // SAFETY: with no fault, four elements from here on are inside; buffers are aligned to 256 bytes.
        let four = unsafe { &mut *x.cast::<Four>().add(i) };
        four.0 = four.0.map(|value| 2.0 * value); // at by fours
    }
}

#[test]
fn sixteen_bytes_that_are_partly_outside() {
    let launches = |fault| {
        findings(CheckOptions::new(), |stream| {
            let x = stream.filled(1.0f32, 62)?;
            // SAFETY: 62 elements.
            unsafe { by_fours::launch(stream, LaunchConfig::new(1, 32), x.as_device_ptr().cast_mut(), 62, fault) }
        })
    };
    silent(&launches(false));
    let found = launches(true);
    for finding in &found {
        assert_eq!(finding.rule, OutOfBounds, "{finding}");
        let memory = finding.memory.as_ref().expect("it is about memory");
        assert_eq!(
            (memory.name.as_str(), finding.side.thread.x, finding.side.line > 0),
            ("`x`", 15, true),
            "{finding}"
        );
        assert!((62..64).contains(&memory.element), "{finding}");
    }
    assert!(found.iter().any(|finding| finding.side.action.starts_with("reads")), "{found:#?}");
    assert!(found.iter().any(|finding| finding.side.action.starts_with("writes")), "{found:#?}");
}

/// Counts into bins; with the fault the last bin is beyond the end.
#[kernel]
unsafe fn binned(x: &[u32], bins: *mut u32, fault: bool) {
    let bin = x[global_idx().get()] as usize + usize::from(fault);
    // SAFETY: the values are below the number of bins.
    unsafe { AtomicU32::from_ptr(bins.add(bin)) }.fetch_add(1, Ordering::Relaxed); // at binned
}

#[test]
fn an_atomic_beyond_the_end() {
    outside(("binned", "reads 4 bytes"), (0, 7), ("`bins`", 8), 8, |stream, fault| {
        let x: Vec<u32> = (0..64).map(|i| i % 8).collect();
        let (x, bins) = (stream.to_device(&x)?, stream.zeroed::<u32>(8)?);
        // SAFETY: there are eight bins.
        unsafe { binned::launch(stream, LaunchConfig::new(2, 32), &x, bins.as_device_ptr().cast_mut(), fault) }
    });
}

/// Moves whole rows of 48 bytes; with the fault from four bytes further on.
#[kernel]
unsafe fn row_moved(x: *const u32, y: *mut u32, fault: bool) {
    let i = global_idx().get();
    let x = x.wrapping_add(12 * i + usize::from(fault));
    // SAFETY: there is a row for each thread.
    unsafe { x.copy_to_nonoverlapping(y.add(12 * i), 12) }; // at row moved
}

#[test]
fn a_copy_that_starts_too_late() {
    let launches = |fault| {
        findings(CheckOptions::new(), |stream| {
            let (x, y) = (stream.filled(1u32, 12 * 32)?, stream.zeroed::<u32>(12 * 32)?);
            let y = y.as_device_ptr().cast_mut();
            // SAFETY: 32 rows of 12 each.
            unsafe { row_moved::launch(stream, LaunchConfig::new(1, 32), x.as_device_ptr(), y, fault) }
        })
    };
    silent(&launches(false));
    let found = launches(true);
    let finding = warpsmith_checker_tests::caught(OutOfBounds, &found);
    let memory = finding.memory.as_ref().expect("it is about memory");
    assert_eq!((memory.name.as_str(), memory.element, finding.side.thread.x), ("`x`", 384, 31), "{finding}");
}

/// Turns a block's numbers around; the fault counts from 64 where 63 is the last.
#[kernel(block = 64)]
fn turned(x: &[f32], mut y: GridSliceMut<f32>, fault: bool) {
    let tile = shared!([f32; 64]).cast::<f32>();
    let (t, i) = (thread_idx().x as usize, global_idx());
    // SAFETY: 64 elements, as many as the block has threads.
    unsafe { *tile.add(t) = x[i.get()] };
    sync_threads();
    let last = 63 + usize::from(fault);
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: with no fault, below 64.
        *y = unsafe { *tile.add(last - t) }; // at turned
    }
}

#[test]
fn one_past_the_end_of_shared_memory() {
    outside(("turned", "reads 4 bytes"), (0, 0), ("shared memory", 64), 2, |stream, fault| {
        let (x, mut y) = (stream.filled(1.0f32, 128)?, stream.zeroed::<f32>(128)?);
        turned::launch(stream, LaunchConfig::new(2, 64), &x, &mut y, fault)
    });
}

/// Keeps a number for each thread in dynamic shared memory, of which the faulty launch gives too little.
#[kernel]
unsafe fn kept(mut y: GridSliceMut<u64>) {
    let slots = dynamic_shared::<u64>();
    let (t, i) = (thread_idx().x as usize, global_idx());
    // SAFETY: the launch gives eight bytes a thread.
    unsafe { *slots.add(t) = i.get() as u64 }; // at kept
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: as above.
        *y = unsafe { slots.add(t).read() };
    }
}

#[test]
fn dynamic_shared_memory_that_is_too_small() {
    let launches = |bytes| {
        findings(CheckOptions::new(), |stream| {
            let mut y = stream.zeroed::<u64>(64)?;
            // SAFETY: eight bytes for each of 32 threads, or the fault.
            unsafe { kept::launch(stream, LaunchConfig::new(2, 32).with_shared_bytes(bytes), &mut y) }
        })
    };
    silent(&launches(256));
    let found = launches(248);
    let expected = Expected {
        rule: OutOfBounds,
        source: SOURCE,
        place: "kept",
        thread: (0, 31),
        action: "writes 8 bytes",
        memory: Some(("shared memory", 31)),
        count: 2,
    };
    expected.first(&found);
}

/// Bytes of two arrays that lie beside each other, with what is theirs alone; looked at from end to end.
#[kernel(block = 32)]
fn ends(mut y: GridSliceMut<u32>) {
    let mut first = shared_array!([u32; 32]);
    let second = shared!([u8; 3]).cast::<u8>();
    let (t, i) = (thread_idx().x as usize, global_idx());
    first.put(t as u32);
    if t < 3 {
        // SAFETY: three bytes.
        unsafe { *second.add(t) = t as u8 };
    }
    let first = first.sync();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: as above.
        *y = first.at(31 - t) + first.at(0) + u32::from(unsafe { *second.add(t % 3) });
    }
}

#[test]
fn first_and_last_elements_are_inside() {
    silent(&findings(CheckOptions::new(), |stream| {
        for len in [1, 31, 32, 33, 64] {
            let mut y = stream.zeroed::<u32>(len)?;
            ends::launch(stream, LaunchConfig::new(2, 32), &mut y)?;
            let last = stream.to_host(&y)?[len - 1];
            let t = (len as u32 - 1) % 32;
            assert_eq!(last, 31 - t + t % 3, "{len}");
        }
        Ok(())
    }));
}

/// An end is an address that may be made, and not be read.
#[kernel]
unsafe fn up_to_the_end(start: *const u32, end: *const u32, mut y: GridSliceMut<u32, PerBlock>) {
    let mut at = start.wrapping_sub(1).wrapping_add(1);
    let mut sum = 0;
    while at != end {
        // SAFETY: between the two.
        unsafe {
            sum += *at;
            at = at.add(1);
        }
    }
    if let Some(leader) = block_leader()
        && let Some(y) = y.get_mut(&leader)
    {
        *y = sum;
    }
}

#[test]
fn the_end_is_an_address() {
    silent(&findings(CheckOptions::new(), |stream| {
        let (x, mut y) = (stream.filled(1u32, 77)?, stream.zeroed::<u32>(1)?);
        let range = x.as_device_ptr()..x.as_device_ptr().wrapping_add(77);
        // SAFETY: start and end of one buffer.
        unsafe { up_to_the_end::launch(stream, LaunchConfig::new(1, 1), range.start, range.end, &mut y)? };
        assert_eq!(stream.to_host(&y)?, [77]);
        Ok(())
    }));
}

/// Reads and writes what it is given the address of.
#[kernel]
unsafe fn touched(x: *mut u32) {
    let i = global_idx().get();
    // SAFETY: an element a thread.
    let value = unsafe { *x.add(i) }; // at touched
    // SAFETY: as above.
    unsafe { *x.add(i) = value + 1 };
}

/// Reads what it is given the address of.
#[kernel]
unsafe fn fetched(x: *const u32, mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: an element a thread.
        *y = unsafe { *x.add(i.get()) } + 1; // at fetched
    }
}

/// Writes to what it is given the address of.
#[kernel]
unsafe fn set(y: *mut u32) {
    let i = global_idx().get();
    // SAFETY: an element a thread.
    unsafe { *y.add(i) = i as u32 }; // at set
}

#[test]
fn a_read_of_a_buffer_that_was_dropped() {
    check(UseAfterFree, ("fetched", "reads 4 bytes"), (0, 0), ("`x`", 0), 32, |stream, fault| {
        let (x, mut y) = (stream.filled(1u32, 32)?, stream.zeroed::<u32>(32)?);
        let address = x.as_device_ptr();
        if fault {
            drop(x);
        }
        // SAFETY: with no fault, `x` is there until the end.
        unsafe { fetched::launch(stream, LaunchConfig::new(1, 32), address, &mut y) }
    });
}

#[test]
fn a_write_to_a_buffer_that_was_dropped() {
    check(UseAfterFree, ("set", "writes 4 bytes"), (0, 0), ("`y`", 0), 64, |stream, fault| {
        let y = stream.filled(1u32, 64)?;
        let address = y.as_device_ptr().cast_mut();
        if fault {
            drop(y);
        }
        // SAFETY: as above.
        unsafe { set::launch(stream, LaunchConfig::new(2, 32), address) }
    });
}

#[test]
fn a_buffer_that_was_dropped_before_others_were_made() {
    check(UseAfterFree, ("fetched", "reads 4 bytes"), (0, 0), ("`x`", 0), 32, |stream, fault| {
        let x = stream.filled(1u32, 32)?;
        let address = x.as_device_ptr();
        let kept = if fault {
            drop(x);
            None
        } else {
            Some(x)
        };
        // A buffer of the same size, which another allocator would put in its place.
        let mut others: Vec<DeviceBuffer<u32>> = Vec::new();
        for _ in 0..20 {
            others.push(stream.zeroed::<u32>(32)?);
        }
        // SAFETY: as above.
        unsafe { fetched::launch(stream, LaunchConfig::new(1, 32), address, &mut others[7])? };
        drop(kept);
        Ok(())
    });
}

#[test]
fn a_buffer_that_grew_elsewhere() {
    check(UseAfterFree, ("set", "writes 4 bytes"), (0, 0), ("`y`", 0), 32, |stream, fault| {
        let mut y = stream.filled(1u32, 32)?;
        let before = y.as_device_ptr().cast_mut();
        y = stream.filled(2u32, 64)?;
        let address = if fault { before } else { y.as_device_ptr().cast_mut() };
        // SAFETY: with no fault, it is the buffer that is there.
        unsafe { set::launch(stream, LaunchConfig::new(1, 32), address) }
    });
}

#[test]
fn an_address_into_the_middle_of_what_was_dropped() {
    check(UseAfterFree, ("fetched", "reads 4 bytes"), (0, 0), ("`x`", 0), 16, |stream, fault| {
        let (x, mut y) = (stream.filled(1u32, 64)?, stream.zeroed::<u32>(16)?);
        let address = x.as_device_ptr().wrapping_add(48);
        if fault {
            drop(x);
        }
        // SAFETY: 16 elements from there on.
        unsafe { fetched::launch(stream, LaunchConfig::new(1, 32), address, &mut y) }
    });
}

#[test]
fn a_buffer_may_be_dropped_after_its_launch() {
    silent(&findings(CheckOptions::new(), |stream| {
        for round in 0..50 {
            let x = stream.filled(round, 32)?;
            // SAFETY: 32 elements for 32 threads.
            unsafe { touched::launch(stream, LaunchConfig::new(1, 32), x.as_device_ptr().cast_mut())? };
            drop(x);
        }
        Ok(())
    }));
}

#[test]
fn a_buffer_that_moved_between_owners_is_still_there() {
    silent(&findings(CheckOptions::new(), |stream| {
        let mut owners = vec![stream.filled(1u32, 32)?];
        let address = owners[0].as_device_ptr().cast_mut();
        for _ in 0..10 {
            owners = std::mem::take(&mut owners);
            owners.reserve(100);
        }
        // SAFETY: the buffer is owned until the end.
        unsafe { touched::launch(stream, LaunchConfig::new(1, 32), address)? };
        assert_eq!(stream.to_host(&owners[0])?, [2; 32]);
        Ok(())
    }));
}

/// Each block publishes where its shared memory lies, and after the barrier of the grid reads its own, or the next one's. Then it reads
/// its own again.
///
/// # Safety
/// `places` has an element a block.
#[kernel]
unsafe fn abroad(places: *mut usize, mut y: GridSliceMut<u32>, fault: bool) {
    let (own, t) = (block_idx().x as usize, thread_idx().x as usize);
    let tile = shared!([u32; 33]).cast::<u32>();
    // SAFETY: a slot a thread, one more for the first one, and a place a block.
    unsafe {
        *tile.add(t) = t as u32;
        if t == 0 {
            *tile.add(32) = 7;
            *places.add(own) = tile.expose_provenance();
        }
    }
    this_grid().sync();
    let other = if fault { (own + 1) % grid_dim().x as usize } else { own };
    // SAFETY: some block's.
    let there = std::ptr::with_exposed_provenance::<u32>(unsafe { *places.add(other) });
    // SAFETY: the fault is that it may be another block's.
    let read = unsafe { *there.add(t) };
    this_grid().sync();
    if let Some(y) = y.get_mut(&global_idx()) {
        // SAFETY: the block's own, written before the barriers.
        *y = read + unsafe { *tile.add(32 - t) };
    }
}

#[test]
fn another_blocks_shared_memory() {
    let launch = |stream: &Stream, fault: bool| {
        let (places, mut y) = (stream.zeroed::<usize>(3)?, stream.zeroed(96)?);
        let address = places.as_device_ptr().cast_mut();
        // SAFETY: three blocks and as many places.
        unsafe { abroad::launch(stream, LaunchConfig::new(3, 32).cooperative(), address, &mut y, fault) }
    };
    for schedule in warpsmith_checker_tests::SCHEDULES {
        silent(&warpsmith_checker_tests::findings_under(schedule, |stream| launch(stream, false)));
        let findings = warpsmith_checker_tests::findings_under(schedule, |stream| launch(stream, true));
        let finding = warpsmith_checker_tests::caught(CheckRule::OutOfBounds, &findings);
        assert!(finding.message.starts_with("that shared memory is another block's"), "under {schedule}: {finding}");
        assert_eq!((findings.len(), finding.count), (1, 96), "under {schedule}: {finding}");
    }
}
