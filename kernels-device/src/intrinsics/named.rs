//! Named barriers on words in shared memory, whose waits look at the panic flag.

use super::grid::{exit, launch_has_panicked};
use super::{activemask, bar_warp_sync, lane_id, vote_any};
use crate::index::{thread_in_block, threads_in_block};
use crate::ptx;

unsafe extern "C" {
    /// One word for each barrier, in shared memory; the lowering clears them when the kernel starts.
    safe fn __warpsmith_named_barriers() -> *mut u32;
}

/// Bits of a word below the number of threads that are to come, divided by 32: how many have come.
const COME_BITS: u32 = 11;
/// Bits below the number of meetings that are over.
const MEETING_BITS: u32 = 17;

/// What came of an arrival.
enum Arrival {
    /// Counted; the word as it was before.
    Counted(u32),
    /// Others who came before count to another number.
    Disagrees(u32),
    /// More have come than were to come.
    TooMany(u32),
}

#[inline(always)]
pub(crate) fn sync(id: u32, threads: u32) {
    let word = __warpsmith_named_barriers().wrapping_add(id as usize);
    let group = together();
    let mut arrival = Arrival::Counted(0);
    let mut in_vain = false;
    if speaks(group) {
        arrival = count(word, threads, weight(group));
        in_vain = match arrival {
            Arrival::Counted(before) => !wait(word, before),
            Arrival::Disagrees(_) | Arrival::TooMany(_) => true,
        };
    }
    // All lanes of the group go on, or none; and what others wrote is visible to all of them.
    if vote_any(group, u32::from(in_vain)) != 0 {
        complain(id, threads, &arrival);
        exit();
    }
    bar_warp_sync(group);
}

#[inline(always)]
pub(crate) fn arrive(id: u32, threads: u32) {
    let word = __warpsmith_named_barriers().wrapping_add(id as usize);
    let group = together();
    if speaks(group) {
        complain(id, threads, &count(word, threads, weight(group)));
    }
    bar_warp_sync(group);
}

/// The lanes that are here together, with what they wrote visible to each other.
#[inline(always)]
fn together() -> u32 {
    let group = activemask();
    bar_warp_sync(group);
    group
}

/// Whether the calling lane speaks for its group.
#[inline(always)]
fn speaks(group: u32) -> bool {
    group & 1_u32.wrapping_shl(lane_id()).wrapping_sub(1) == 0
}

/// How many threads a group counts as: lanes that the block does not have come with lane 0.
#[inline(always)]
fn weight(group: u32) -> u32 {
    let first = thread_in_block() & !31;
    let lanes = threads_in_block().wrapping_sub(first).min(32);
    let missing = if group & 1 != 0 { 32_u32.wrapping_sub(lanes) } else { 0 };
    group.count_ones().wrapping_add(missing)
}

/// Counts `weight` threads in.
#[inline(always)]
fn count(word: *mut u32, threads: u32, weight: u32) -> Arrival {
    // SAFETY: a fence writes no memory. It makes what the group wrote visible to whoever sees its arrival.
    unsafe { ptx!("fence.acq_rel.cta;") };
    let mut before = look(word);
    loop {
        let (come, to_come) = (before & 0x7ff, (before >> COME_BITS & 0x3f) << 5);
        if to_come != 0 && to_come != threads {
            return Arrival::Disagrees(to_come);
        }
        let all = come.wrapping_add(weight);
        let after = if all > threads {
            return Arrival::TooMany(all);
        } else if all == threads {
            (before >> MEETING_BITS).wrapping_add(1) << MEETING_BITS
        } else {
            (before >> MEETING_BITS << MEETING_BITS) | (threads >> 5) << COME_BITS | all
        };
        let found: u32;
        // SAFETY: the block's own word.
        unsafe {
            ptx!("atom.relaxed.cta.cas.b32 {0}, [{1}], {2}, {3};",
                out(reg) found, in(reg) word, in(reg) before, in(reg) after);
        }
        if found == before {
            return Arrival::Counted(before);
        }
        before = found;
    }
}

/// Waits until the meeting that the group was counted into is over; false when the launch has panicked.
#[inline(always)]
fn wait(word: *mut u32, before: u32) -> bool {
    /// Looks at the word before one at the panic flag: some ten microseconds of waiting.
    const LOOKS: u32 = 256;
    let mut looks = 0_u32;
    while look(word) >> MEETING_BITS == before >> MEETING_BITS {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) && launch_has_panicked() {
            return false;
        }
        if looks > 32 {
            // SAFETY: only time passes.
            unsafe { ptx!("nanosleep.u32 32;") };
        }
    }
    // SAFETY: a fence writes no memory. It makes what others wrote before they came visible to the group.
    unsafe { ptx!("fence.acq_rel.cta;") };
    true
}

#[inline(always)]
fn look(word: *mut u32) -> u32 {
    let now: u32;
    // SAFETY: the block's own word.
    unsafe { ptx!("ld.relaxed.cta.b32 {0}, [{1}];", out(reg) now, in(reg) word) };
    now
}

/// Panics when the arrival was none.
#[inline(always)]
fn complain(id: u32, threads: u32, arrival: &Arrival) {
    match arrival {
        Arrival::Counted(_) => {}
        Arrival::Disagrees(others) => {
            panic!("named barrier {id} waits for {threads} threads here, and for {others} elsewhere")
        }
        Arrival::TooMany(all) => panic!("{all} threads came to named barrier {id}, which waits for {threads}"),
    }
}
