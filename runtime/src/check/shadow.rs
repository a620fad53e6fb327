//! What is known of each granule of four bytes: which of them may be touched and hold something, and who touched them last.
//!
//! What follows here runs before every access of checked code, so the common cases are a few comparisons and everything else
//! is out of line.

use std::sync::atomic::Ordering;

use super::arena::{ADDRESSABLE, INITIALISED, SHARED_BYTES, WATCHED};
use super::report;
use super::split;
use super::turns::{NOW, owner};

/// Bytes of a granule.
pub(super) const GRANULE: usize = 4;

/// Granules of shared memory lie below this.
const SHARED_GRANULES: usize = SHARED_BYTES / GRANULE;

/// An access: in which turn, and from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Access {
    /// 0 for none; [`SPLIT`] where each byte has a cell of its own.
    pub(super) turn: u32,
    /// The place above eight bits: four for the bytes, and [`ATOMIC`].
    pub(super) what: u32,
}

/// In `Access::what`: an atomic access.
pub(super) const ATOMIC: u32 = 0x10;
/// In `Access::what`: all bytes of a granule.
pub(super) const ALL: u32 = 0x0F;
/// A turn that is never given.
pub(super) const SPLIT: u32 = u32::MAX;

/// Places above this are not told apart.
const MOST_PLACES: u32 = (1 << 24) - 1;

impl Access {
    pub(super) const NONE: Self = Self { turn: 0, what: 0 };

    /// The number of the place.
    pub(super) fn place(self) -> u32 {
        self.what >> 8
    }

    pub(super) fn is_atomic(self) -> bool {
        self.what & ATOMIC != 0
    }

    pub(super) fn bytes(self) -> u32 {
        self.what & ALL
    }
}

/// The number of a place, and the bytes of a granule that it touches.
#[inline(always)]
pub(super) fn what(place: u32, bytes: u32) -> u32 {
    place.min(MOST_PLACES) << 8 | bytes
}

/// Who touched a granule last. Of the reads that nothing orders after one another, the two that are kept are of threads as far
/// apart as any: a later write that is ordered after both is ordered after all, as far as barriers go.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(32))]
pub(super) struct Cell {
    pub(super) write: Access,
    /// The last read since that write.
    pub(super) read: Access,
    /// An earlier read since that write.
    pub(super) other: Access,
    /// Where the bytes' own cells are, and the launch that split it, where `write` and `read` say so.
    pub(super) split: u32,
    pub(super) launch: u32,
}

#[inline(always)]
pub(super) fn cell(granule: usize) -> *mut Cell {
    std::ptr::with_exposed_provenance_mut::<Cell>(WATCHED.cells.load(Ordering::Relaxed)).wrapping_add(granule)
}

#[inline(always)]
fn states(granule: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut::<u8>(WATCHED.states.load(Ordering::Relaxed)).wrapping_add(granule)
}

/// How far apart two threads are, by the bits in which they differ: 0 for one thread, 1 in a warp, 2 in a block, 3 else.
#[inline(always)]
pub(super) fn distance(differing: u64) -> u32 {
    u32::from(differing != 0) + u32::from(differing >= 32) + u32::from(differing >= 1024)
}

/// Whether barriers of this thread's warp or block order a turn, which is not older than the launch, before its own; or whether it is
/// of another block's shared memory, which had been at the same addresses.
#[inline(always)]
pub(super) fn is_near_and_before(turn: u32, granule: usize) -> bool {
    if turn < NOW.start.load(Ordering::Relaxed) {
        return is_far_and_before(turn, granule);
    }
    if turn < NOW.block.load(Ordering::Relaxed) {
        return true;
    }
    if turn == SPLIT {
        return false;
    }
    let differing = owner(turn) ^ NOW.who.load(Ordering::Relaxed);
    differing == 0 || (differing < 32 && turn < NOW.warp.load(Ordering::Relaxed))
}

/// The same, of a turn that may be of another block.
#[inline(never)]
fn is_far_and_before(turn: u32, granule: usize) -> bool {
    if turn == SPLIT {
        return false;
    }
    let differing = owner(turn) ^ NOW.who.load(Ordering::Relaxed);
    if differing >= 1024 {
        return is_shared(granule) && NOW.clusters.load(Ordering::Relaxed) == 0;
    }
    differing == 0
        || turn < NOW.block.load(Ordering::Relaxed)
        || (differing < 32 && turn < NOW.warp.load(Ordering::Relaxed))
}

/// Whether the access is none, this turn's, or before it by a barrier.
#[inline(always)]
pub(super) fn is_before(access: Access, granule: usize) -> bool {
    access.turn < NOW.grid.load(Ordering::Relaxed)
        || access.turn == NOW.turn.load(Ordering::Relaxed)
        || is_near_and_before(access.turn, granule)
}

/// Where an address lies in the watched range; `None` where it lies elsewhere, as stacks do.
#[inline(always)]
fn watched(address: usize) -> Option<usize> {
    let offset = address.wrapping_sub(WATCHED.start.load(Ordering::Relaxed));
    if offset < WATCHED.open.load(Ordering::Relaxed) {
        return Some(offset);
    }
    if offset < WATCHED.reserved.load(Ordering::Relaxed) {
        return report::far_out(offset);
    }
    None
}

/// Looks at a load of `N` bytes: 1, 2, 4, 8 or 16.
#[inline(always)]
pub(super) fn load<const N: usize>(address: usize, place: u32) {
    let Some(offset) = watched(address) else { return };
    if offset & (N - 1) != 0 {
        return load_unaligned(offset, N, place);
    }
    let granule = offset / GRANULE;
    if N < GRANULE {
        let bytes = ((1_u32 << N) - 1) << (offset % GRANULE);
        // SAFETY: the offset is watched, and so its granule has a state and a cell.
        let (state, cell) = unsafe { (*states(granule), &mut *cell(granule)) };
        let wanted = (bytes | bytes << 4) as u8;
        if state & wanted != wanted {
            report::unreadable(offset, N, place);
        }
        split::read_some(cell, granule, what(place, bytes));
        return;
    }
    let wanted = u128::MAX >> (128 - 8 * (N / GRANULE));
    if read_states::<N>(granule) != wanted {
        report::unreadable(offset, N, place);
    }
    let what = what(place, ALL);
    for granule in granule..granule + N / GRANULE {
        // SAFETY: as above.
        read(unsafe { &mut *cell(granule) }, granule, what);
    }
}

/// The states of the granules of `N` bytes.
#[inline(always)]
fn read_states<const N: usize>(granule: usize) -> u128 {
    let states = states(granule);
    // SAFETY: the offset is watched, and the range is open in whole pages, so that aligned bytes are watched together.
    unsafe {
        match N {
            4 => u128::from(*states),
            8 => u128::from(states.cast::<u16>().read_unaligned()),
            _ => u128::from(states.cast::<u32>().read_unaligned()),
        }
    }
}

/// Notes a read of a whole granule.
#[inline(always)]
pub(super) fn read(cell: &mut Cell, granule: usize, what: u32) {
    let turn = NOW.turn.load(Ordering::Relaxed);
    if cell.read.turn == turn {
        return;
    }
    if !is_before(cell.write, granule) && split::read_unordered(cell, granule, what) {
        return;
    }
    let access = Access { turn, what };
    if is_before(cell.read, granule) {
        cell.read = access;
    } else {
        keep_two(cell, granule, access);
    }
}

/// Notes a read after one that nothing orders before it.
#[inline(always)]
fn keep_two(cell: &mut Cell, granule: usize, access: Access) {
    // In cells that are not taken apart, `split` is how far apart the two reads are and `launch` the turn of the one with which
    // that was found out. Reads in different warps stand for all others of the block since its last barrier: whatever comes after
    // is of another warp than one of the two, and only a barrier of the block orders it after that. So do reads in different
    // blocks for all others of the grid.
    if cell.launch == cell.read.turn {
        let floor = match cell.split {
            3 => NOW.grid.load(Ordering::Relaxed),
            2 if cell.read.turn >= NOW.start.load(Ordering::Relaxed) => NOW.block.load(Ordering::Relaxed),
            _ => SPLIT,
        };
        if cell.other.turn >= floor {
            return;
        }
    }
    keep_farthest(cell, granule, access);
}

/// The same, where what is there does not stand for it.
#[inline(never)]
fn keep_farthest(cell: &mut Cell, granule: usize, access: Access) {
    let who = NOW.who.load(Ordering::Relaxed);
    let read = owner(cell.read.turn) ^ who;
    let has_other =
        cell.other.turn >= NOW.grid.load(Ordering::Relaxed) && !is_near_and_before(cell.other.turn, granule);
    let other = if has_other { owner(cell.other.turn) ^ who } else { 0 };
    // What is farther from this one stays.
    if distance(other) <= distance(read) {
        cell.other = cell.read;
    }
    cell.read = access;
    let apart = distance(read.max(other));
    let are_plain = (cell.read.what | cell.other.what) & ATOMIC == 0;
    cell.split = if are_plain { apart } else { 0 };
    cell.launch = access.turn;
}

/// Looks at a store of `N` bytes: 1, 2, 4 or 8. `value` has its bits.
#[inline(always)]
pub(super) fn store<const N: usize>(address: usize, value: u64, place: u32) {
    let Some(offset) = watched(address) else { return };
    if offset & (N - 1) != 0 {
        return store_unaligned(offset, N, place, Some(value));
    }
    let granule = offset / GRANULE;
    if N < GRANULE {
        let bytes = ((1_u32 << N) - 1) << (offset % GRANULE);
        // SAFETY: the offset is watched, and so its granule has a state and a cell.
        let (state, cell) = unsafe { (&mut *states(granule), &mut *cell(granule)) };
        if u32::from(*state) & bytes != bytes {
            return report::unwritable(offset, N, place);
        }
        split::write_some(cell, granule, what(place, bytes), Some(value));
        *state |= (bytes << 4) as u8;
        return;
    }
    let wanted = u128::MAX >> (128 - 8 * (N / GRANULE));
    if read_states::<N>(granule) != wanted && !initialise(offset, N, place) {
        return;
    }
    let what = what(place, ALL);
    for granule in granule..granule + N / GRANULE {
        // SAFETY: as above.
        write(unsafe { &mut *cell(granule) }, granule, what, Some(value));
    }
}

/// Marks what a store of whole granules writes; reports it where that may not be touched.
#[inline(never)]
fn initialise(offset: usize, bytes: usize, place: u32) -> bool {
    for granule in offset / GRANULE..(offset + bytes) / GRANULE {
        // SAFETY: the offset is watched, as its caller saw.
        let state = unsafe { &mut *states(granule) };
        if *state & ADDRESSABLE != ADDRESSABLE {
            report::unwritable(offset, bytes, place);
            return false;
        }
        *state = INITIALISED;
    }
    true
}

/// Notes a write of a whole granule.
#[inline(always)]
pub(super) fn write(cell: &mut Cell, granule: usize, what: u32, value: Option<u64>) {
    let turn = NOW.turn.load(Ordering::Relaxed);
    let reads = cell.read.turn | cell.other.turn;
    if cell.write.turn == turn && reads == 0 {
        return;
    }
    let is_ordered = is_before(cell.write, granule)
        && (reads == 0 || is_before(cell.read, granule) && is_before(cell.other, granule));
    if !is_ordered {
        split::write_unordered(cell, granule, what, value);
    }
    cell.write = Access { turn, what };
    if reads != 0 {
        cell.read = Access::NONE;
        cell.other = Access::NONE;
    }
}

/// A load of bytes that do not start where a value of their number does.
#[cold]
#[inline(never)]
fn load_unaligned(offset: usize, bytes: usize, place: u32) {
    report::misaligned(offset, place);
    load_range(offset, bytes, place);
}

/// A store likewise.
#[cold]
#[inline(never)]
fn store_unaligned(offset: usize, bytes: usize, place: u32, value: Option<u64>) {
    report::misaligned(offset, place);
    store_range(offset, bytes, place, value);
}

/// Looks at a load of any number of bytes.
#[inline(never)]
pub(super) fn load_many(address: usize, bytes: usize, place: u32) {
    if bytes == 0 {
        return;
    }
    let Some(offset) = watched(address) else { return };
    look_at_alignment(offset, place);
    load_range(offset, bytes, place);
}

/// Looks at a load of at most 32 bytes that are moved as they are, no matter what they hold: a bit for each that holds something.
#[inline(never)]
pub(super) fn move_many(address: usize, bytes: usize, place: u32) -> u32 {
    let Some(offset) = watched(address) else { return u32::MAX };
    look_at_alignment(offset, place);
    move_from(offset, bytes, place);
    if !is_open(offset, bytes) {
        return u32::MAX;
    }
    let holds = |&byte: &usize| state((offset + byte) / GRANULE) & (0x10 << ((offset + byte) % GRANULE)) != 0;
    (0..bytes).filter(holds).fold(0, |held, byte| held | 1 << byte)
}

/// Looks at a store of what was moved so.
#[inline(never)]
pub(super) fn put_many(address: usize, bytes: usize, held: u32, place: u32) {
    let Some(offset) = watched(address) else { return };
    look_at_alignment(offset, place);
    if !is_open(offset, bytes) || !has_states(offset, bytes, false) {
        return report::unwritable(offset, bytes, place);
    }
    write_range(offset, bytes, place, None);
    for byte in 0..bytes {
        let (granule, bit) = ((offset + byte) / GRANULE, 0x10 << ((offset + byte) % GRANULE));
        let state = state(granule);
        set_state(granule, if held & (1 << byte) != 0 { state | bit } else { state & !bit });
    }
}

fn move_from(offset: usize, bytes: usize, place: u32) {
    if !is_open(offset, bytes) || !has_states(offset, bytes, false) {
        report::unreadable(offset, bytes, place);
    }
    if is_open(offset, bytes) {
        read_range(offset, bytes, place);
    }
}

/// Looks at a store of any number of bytes.
#[inline(never)]
pub(super) fn store_many(address: usize, bytes: usize, place: u32) {
    if bytes == 0 {
        return;
    }
    let Some(offset) = watched(address) else { return };
    look_at_alignment(offset, place);
    store_range(offset, bytes, place, None);
}

/// Reports an address that is no multiple of what its place asks for.
#[inline(always)]
fn look_at_alignment(offset: usize, place: u32) {
    if offset & 15 != 0 {
        report::misaligned(offset, place);
    }
}

fn load_range(offset: usize, bytes: usize, place: u32) {
    if !is_open(offset, bytes) || !has_states(offset, bytes, true) {
        report::unreadable(offset, bytes, place);
    }
    if is_open(offset, bytes) {
        read_range(offset, bytes, place);
    }
}

fn store_range(offset: usize, bytes: usize, place: u32, value: Option<u64>) {
    if !is_open(offset, bytes) || !has_states(offset, bytes, false) {
        return report::unwritable(offset, bytes, place);
    }
    write_range(offset, bytes, place, value);
    super::arena::mark(offset, bytes, super::arena::Mark::Init);
}

/// Whether all these bytes can be touched at all.
fn is_open(offset: usize, bytes: usize) -> bool {
    offset.checked_add(bytes).is_some_and(|end| end <= WATCHED.open.load(Ordering::Relaxed))
}

/// The granules of a range, each with its bytes that are in it.
pub(super) fn granules(offset: usize, bytes: usize) -> impl Iterator<Item = (usize, u32)> {
    let end = offset + bytes;
    (offset / GRANULE..end.div_ceil(GRANULE)).map(move |granule| {
        let (from, to) =
            (offset.max(granule * GRANULE) % GRANULE, end.min((granule + 1) * GRANULE) - granule * GRANULE);
        (granule, (1_u32 << to) - (1_u32 << from))
    })
}

/// Whether all bytes of a range may be touched, and hold something where that is asked for. The range is open.
pub(super) fn has_states(offset: usize, bytes: usize, initialised: bool) -> bool {
    granules(offset, bytes).all(|(granule, bytes)| {
        let wanted = if initialised { bytes | bytes << 4 } else { bytes } as u8;
        // SAFETY: the range is open.
        unsafe { *states(granule) & wanted == wanted }
    })
}

/// The state of the granule of a byte that is open.
pub(super) fn state(granule: usize) -> u8 {
    // SAFETY: the byte is open.
    unsafe { *states(granule) }
}

/// Sets the state of the granule of a byte that is open.
pub(super) fn set_state(granule: usize, state: u8) {
    // SAFETY: the byte is open.
    unsafe { *states(granule) = state };
}

pub(super) fn read_range(offset: usize, bytes: usize, place: u32) {
    for (granule, bytes) in granules(offset, bytes) {
        // SAFETY: the range is open.
        let cell = unsafe { &mut *cell(granule) };
        if bytes == ALL {
            read(cell, granule, what(place, ALL));
        } else {
            split::read_some(cell, granule, what(place, bytes));
        }
    }
}

pub(super) fn write_range(offset: usize, bytes: usize, place: u32, value: Option<u64>) {
    for (granule, bytes) in granules(offset, bytes) {
        // SAFETY: the range is open.
        let cell = unsafe { &mut *cell(granule) };
        if bytes == ALL {
            write(cell, granule, what(place, ALL), value);
        } else {
            split::write_some(cell, granule, what(place, bytes), value);
        }
    }
}

/// Looks at bytes that are moved as they are: no matter what they hold.
#[inline(never)]
pub(super) fn copy(to: usize, from: usize, bytes: usize, place: u32) {
    if bytes == 0 {
        return;
    }
    let source = watched(from);
    if let Some(offset) = source {
        look_at_alignment(offset, place);
        move_from(offset, bytes, place);
    }
    let Some(offset) = watched(to) else { return };
    look_at_alignment(offset, place);
    if !is_open(offset, bytes) || !has_states(offset, bytes, false) {
        return report::unwritable(offset, bytes, place);
    }
    write_range(offset, bytes, place, None);
    match source {
        Some(source) if is_open(source, bytes) => copy_marks(offset, source, bytes),
        _ => super::arena::mark(offset, bytes, super::arena::Mark::Init),
    }
}

/// Has the bytes at `to` hold something exactly where those at `from` do.
pub(super) fn copy_marks(to: usize, from: usize, bytes: usize) {
    if to.is_multiple_of(GRANULE) && from.is_multiple_of(GRANULE) && bytes.is_multiple_of(GRANULE) {
        // Both ranges may be touched, so their states differ in nothing else.
        // SAFETY: the callers saw that both are open.
        return unsafe { states(to / GRANULE).copy_from(states(from / GRANULE), bytes / GRANULE) };
    }
    let bit = |offset: usize| 0x10 << (offset % GRANULE);
    // In the order in which an overlapping move takes the bytes.
    let one = |i: usize| {
        let holds = state((from + i) / GRANULE) & bit(from + i) != 0;
        // SAFETY: the callers saw that the range is open.
        let state = unsafe { &mut *states((to + i) / GRANULE) };
        *state = if holds { *state | bit(to + i) } else { *state & !bit(to + i) };
    };
    if to <= from { (0..bytes).for_each(one) } else { (0..bytes).rev().for_each(one) }
}

/// Looks at an atomic access, which holds its bytes together: 1, 2, 4, 8 or 16, aligned.
#[inline(never)]
pub(super) fn atomic(address: usize, bytes: usize, place: u32, reads: bool, writes: bool) {
    let Some(offset) = watched(address) else { return };
    look_at_alignment(offset, place);
    if !is_open(offset, bytes) || !has_states(offset, bytes, reads) {
        if writes && !reads {
            return report::unwritable(offset, bytes, place);
        }
        report::unreadable(offset, bytes, place);
        if !is_open(offset, bytes) || !has_states(offset, bytes, false) {
            return;
        }
    }
    for (granule, bytes) in granules(offset, bytes) {
        // SAFETY: the range is open.
        let cell = unsafe { &mut *cell(granule) };
        let what = what(place, bytes) | ATOMIC;
        match (writes, bytes == ALL) {
            (true, true) => write(cell, granule, what, None),
            (true, false) => split::write_some(cell, granule, what, None),
            (false, true) => read(cell, granule, what),
            (false, false) => split::read_some(cell, granule, what),
        }
    }
    if writes {
        super::arena::mark(offset, bytes, super::arena::Mark::Init);
    }
}

/// Whether a granule is for shared memory.
pub(super) fn is_shared(granule: usize) -> bool {
    granule < SHARED_GRANULES
}
