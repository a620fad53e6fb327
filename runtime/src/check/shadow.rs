//! What is known of each granule of four bytes: which of them may be touched and hold something, and who touched them last.
//!
//! What follows here runs before every access of checked code, so the common cases are a few comparisons and everything else
//! is out of line.

use std::sync::atomic::Ordering;

use super::arena::{ADDRESSABLE, INITIALISED, SHARED_BYTES, WATCHED};
use super::report;
use super::split;
use super::turns::{NOBODYS_TURN, NOW, Who, owner};

/// Bytes of a granule.
pub(super) const GRANULE: usize = 4;

/// Granules of shared memory lie below this.
const SHARED_GRANULES: usize = SHARED_BYTES / GRANULE;

/// What an atomic access does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atomic {
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) acquires: bool,
    pub(super) releases: bool,
    /// Whether it is atomic and ordered for the threads of its block alone.
    pub(super) in_block: bool,
}

/// An access: in which turn, and from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Access {
    /// 0 for none; [`SPLIT`] where each byte has a cell of its own.
    pub(super) turn: u32,
    /// The place above eight bits: four for the bytes, [`ATOMIC`], and what is said of two reads. On top [`IN_BLOCK`].
    pub(super) what: u32,
}

/// In `Access::what`: an atomic access.
pub(super) const ATOMIC: u32 = 0x10;
/// In `Access::what`: all bytes of a granule.
pub(super) const ALL: u32 = 0x0F;
/// In `Access::what`: of an atomic access, that it is atomic for its block alone.
pub(super) const IN_BLOCK: u32 = 1 << 31;
/// In `what` of a cell's read: there is [another](other).
pub(super) const HAS_OTHER: u32 = 0x20;
/// In `what` of a cell's read: it and the other are plain and of different warps of a block, or of different blocks.
const WARPS_APART: u32 = 0x40;
const BLOCKS_APART: u32 = 0x80;
pub(super) const APART: u32 = WARPS_APART | BLOCKS_APART;
/// A turn that is never given.
pub(super) const SPLIT: u32 = u32::MAX;

/// Places above this are not told apart.
const MOST_PLACES: u32 = (1 << 23) - 1;

impl Access {
    pub(super) const NONE: Self = Self { turn: 0, what: 0 };

    /// No read, of a cell whose own write does not stand for all writes of its turn.
    const NONE_YET: Self = Self { turn: NOBODYS_TURN, what: 0 };

    /// The number of the place.
    pub(super) fn place(self) -> u32 {
        (self.what & !IN_BLOCK) >> 8
    }

    pub(super) fn is_atomic(self) -> bool {
        self.what & ATOMIC != 0
    }

    pub(super) fn is_in_block(self) -> bool {
        self.what & IN_BLOCK != 0
    }

    pub(super) fn bytes(self) -> u32 {
        self.what & ALL
    }

    /// Without what it says of another.
    fn alone(self) -> Self {
        Self { what: self.what & !(HAS_OTHER | APART), ..self }
    }
}

/// The number of a place, and the bytes of a granule that it touches.
#[inline(always)]
pub(super) fn what(place: u32, bytes: u32) -> u32 {
    place.min(MOST_PLACES) << 8 | bytes
}

/// Who touched a granule last. Of the reads that nothing orders after one another, two are kept, of threads as far apart as any: a
/// later write that is ordered after both is ordered after all, as far as barriers go. The older of them is [elsewhere](other),
/// so that what streams of accesses move through the caches is small.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub(super) struct Cell {
    /// Where its turn is [`SPLIT`], `what` of the two say where the bytes' own cells are and which launch split the granule.
    pub(super) write: Access,
    /// The last read since that write.
    pub(super) read: Access,
}

#[inline(always)]
pub(super) fn cell(granule: usize) -> *mut Cell {
    std::ptr::with_exposed_provenance_mut::<Cell>(WATCHED.cells.load(Ordering::Relaxed)).wrapping_add(granule)
}

/// The earlier read since the write, of a cell whose read says that there is one; older than that read.
#[inline(always)]
pub(super) fn other<'a>(of: &Cell, granule: usize) -> &'a mut Access {
    if !std::ptr::eq(of, cell(granule)) {
        return split::other(of);
    }
    let others = std::ptr::with_exposed_provenance_mut::<Access>(WATCHED.others.load(Ordering::Relaxed));
    // SAFETY: there is one for each cell; one thread looks at them, at one at a time.
    unsafe { &mut *others.wrapping_add(granule) }
}

#[inline(always)]
fn states(granule: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut::<u8>(WATCHED.states.load(Ordering::Relaxed)).wrapping_add(granule)
}

/// What two threads differ in is below this where they are of one warp.
const WARP: u64 = 32;
/// The same, of one block.
const BLOCK: u64 = 1 << Who::THREAD_BITS;

/// How far apart two threads are, by the bits in which they differ: 0 for one thread, 1 in a warp, 2 in a block, 3 else.
#[inline(always)]
pub(super) fn distance(differing: u64) -> u32 {
    u32::from(differing != 0) + u32::from(differing >= WARP) + u32::from(differing >= BLOCK)
}

pub(super) fn are_of_different_blocks(a: u64, b: u64) -> bool {
    a ^ b >= BLOCK
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
    differing == 0 || (differing < WARP && turn < NOW.warp.load(Ordering::Relaxed))
}

/// The same, of a turn that may be of another block.
#[inline(never)]
fn is_far_and_before(turn: u32, granule: usize) -> bool {
    if turn == SPLIT {
        return false;
    }
    let differing = owner(turn) ^ NOW.who.load(Ordering::Relaxed);
    if differing >= BLOCK {
        return is_shared(granule) && NOW.clusters.load(Ordering::Relaxed) == 0;
    }
    differing == 0
        || turn < NOW.block.load(Ordering::Relaxed)
        || (differing < WARP && turn < NOW.warp.load(Ordering::Relaxed))
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

/// Looks at a load of `N` bytes: 1, 2, 4, 8 or 16. All that is rare is left to other functions at the end, so that nothing needs to be
/// saved for after them.
#[inline(always)]
pub(super) fn load<const N: usize>(address: usize, place: u32) {
    let offset = address.wrapping_sub(WATCHED.start.load(Ordering::Relaxed));
    if offset >= WATCHED.open.load(Ordering::Relaxed) {
        if offset < WATCHED.reserved.load(Ordering::Relaxed) {
            load_far_out::<N>(offset, place);
        }
        return;
    }
    if offset & (N - 1) != 0 {
        return load_unaligned(offset, N, place);
    }
    let granule = offset / GRANULE;
    if N < GRANULE {
        let bytes = bytes_at::<N>(offset);
        if u32::from(state(granule)) & (bytes | bytes << 4) != bytes | bytes << 4 {
            return load_unreadable::<N>(offset, place);
        }
    } else if read_states::<N>(granule) != WHOLE >> (128 - 8 * (N / GRANULE)) {
        return load_unreadable::<N>(offset, place);
    }
    note_load::<N>(offset, place);
}

/// States of 16 granules whose bytes all hold something.
const WHOLE: u128 = u128::MAX;

/// Which bytes of a granule `N` of them are, fewer than it has.
#[inline(always)]
fn bytes_at<const N: usize>(offset: usize) -> u32 {
    ((1_u32 << N) - 1) << (offset % GRANULE)
}

#[cold]
#[inline(never)]
extern "C" fn load_far_out<const N: usize>(offset: usize, place: u32) {
    if let Some(offset) = report::far_out(offset) {
        load::<N>(WATCHED.start.load(Ordering::Relaxed) + offset, place);
    }
}

#[cold]
#[inline(never)]
extern "C" fn load_unreadable<const N: usize>(offset: usize, place: u32) {
    report::unreadable(offset, N, place);
    note_load::<N>(offset, place);
}

/// Notes a load of bytes that are watched and aligned.
#[inline(always)]
fn note_load<const N: usize>(offset: usize, place: u32) {
    let granule = offset / GRANULE;
    // SAFETY: the granules of the bytes are watched, and so they have cells; one thread looks at these, and at these alone.
    let cells = unsafe { std::slice::from_raw_parts_mut(cell(granule), N.div_ceil(GRANULE)) };
    match N {
        0..GRANULE => split::read_some(&mut cells[0], granule, what(place, bytes_at::<N>(offset))),
        GRANULE => read(&mut cells[0], granule, what(place, ALL)),
        _ => read_all(cells, granule, what(place, ALL)),
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
    if is_read(cell) {
        return;
    }
    if is_read_simply(cell) {
        cell.read = Access { turn, what };
        return;
    }
    read_after(cell, granule, what);
}

/// Whether a read of the whole granule was noted in this turn that stands for all others.
#[inline(always)]
fn is_read(cell: &Cell) -> bool {
    cell.read.turn == NOW.turn.load(Ordering::Relaxed) && cell.read.what & (ALL | ATOMIC) == ALL
}

/// Whether a read of the whole granule has to look at no access of another thread in this launch.
#[inline(always)]
fn is_read_simply(cell: &Cell) -> bool {
    let (turn, grid) = (NOW.turn.load(Ordering::Relaxed), NOW.grid.load(Ordering::Relaxed));
    // Another read would be older than that one.
    cell.read.turn < grid && (cell.write.turn < grid || cell.write.turn == turn)
}

/// Notes a read of some granules, the first of which is given.
#[inline(always)]
fn read_all(cells: &mut [Cell], granule: usize, what: u32) {
    let turn = NOW.turn.load(Ordering::Relaxed);
    if cells.iter().all(|cell| is_read(cell) || is_read_simply(cell)) {
        for cell in cells.iter_mut().filter(|cell| !is_read(cell)) {
            cell.read = Access { turn, what };
        }
        return;
    }
    read_each(cells, granule, what);
}

#[inline(never)]
fn read_each(cells: &mut [Cell], granule: usize, what: u32) {
    for (granule, cell) in (granule..).zip(cells) {
        read(cell, granule, what);
    }
}

/// The same, after other accesses of the launch. Calls nothing but at its ends, as most reads of what others read come here.
#[inline(never)]
extern "C" fn read_after(cell: &mut Cell, granule: usize, what: u32) {
    let (start, block) = (NOW.start.load(Ordering::Relaxed), NOW.block.load(Ordering::Relaxed));
    let before = cell.read.turn;
    let is_old = before < NOW.grid.load(Ordering::Relaxed);
    if !is_met(cell.write.turn) || (before < start && !is_old) {
        return read_after_any(cell, granule, what);
    }
    if before == NOW.turn.load(Ordering::Relaxed) {
        return read_again(cell, what);
    }
    // The write was no split's, so that this turn was given; and after the block's start to one of its threads.
    if before >= block {
        let differing = owner(before) ^ NOW.who.load(Ordering::Relaxed);
        if differing >= WARP || (differing != 0 && before >= NOW.warp.load(Ordering::Relaxed)) {
            return keep_two(cell, granule, what);
        }
    }
    replace_read(cell, what);
}

/// Notes a read of a granule some bytes of which were read in this turn, or all of them atomically: what was plain stays so.
#[inline(never)]
extern "C" fn read_again(cell: &mut Cell, what: u32) {
    if what & ATOMIC == 0 || (cell.read.is_atomic() && cell.read.bytes() != ALL) {
        replace_read(cell, what);
    }
}

/// Whether a turn is this one, before the launch, or before the last barrier of the running block that runs alone.
#[inline(always)]
fn is_met(turn: u32) -> bool {
    turn < NOW.grid.load(Ordering::Relaxed)
        || turn == NOW.turn.load(Ordering::Relaxed)
        || (turn >= NOW.start.load(Ordering::Relaxed) && turn < NOW.block.load(Ordering::Relaxed))
}

/// The same, after accesses of any block.
#[inline(never)]
fn read_after_any(cell: &mut Cell, granule: usize, what: u32) {
    if !is_before(cell.write, granule) && split::read_unordered(cell, granule, what) {
        return;
    }
    if cell.read.turn == NOW.turn.load(Ordering::Relaxed) {
        return read_again(cell, what);
    }
    if is_before(cell.read, granule) {
        return replace_read(cell, what);
    }
    keep_two(cell, granule, what);
}

/// Notes a read after one that is ordered before it.
#[inline(always)]
fn replace_read(cell: &mut Cell, what: u32) {
    let kept = cell.read.what & HAS_OTHER;
    cell.read = Access { turn: NOW.turn.load(Ordering::Relaxed), what: what | kept };
}

/// Notes a read after one that nothing orders before it, unless two that are noted stand for it.
///
/// Reads in different warps stand for all others of the block since its last barrier: whatever comes after is of another warp than one
/// of the two, and only a barrier of the block orders it after that. So do reads in different blocks for all others of the grid. No
/// such barrier came after the two were put together, or the later of them would be before the running thread's.
#[inline(always)]
fn keep_two(cell: &mut Cell, granule: usize, what: u32) {
    let stand_for_all = match cell.read.what & APART {
        BLOCKS_APART => true,
        WARPS_APART => cell.read.turn >= NOW.start.load(Ordering::Relaxed),
        _ => false,
    };
    if !stand_for_all {
        keep_farthest(cell, granule, what);
    }
}

/// The same, where what is there does not stand for it.
#[inline(never)]
fn keep_farthest(cell: &mut Cell, granule: usize, what: u32) {
    let who = NOW.who.load(Ordering::Relaxed);
    let read = owner(cell.read.turn) ^ who;
    let kept = other(cell, granule);
    let has_other = cell.read.what & HAS_OTHER != 0 && !is_before(*kept, granule);
    let differing = if has_other { owner(kept.turn) ^ who } else { 0 };
    // What is farther from this one stays.
    let is_other_cluster = |access: Access| super::clocks::are_of_different_clusters(Who(owner(access.turn)), Who(who));
    let is_in_cluster_for_other = NOW.clusters.load(Ordering::Relaxed) != 0
        && read.min(differing) >= BLOCK
        && is_other_cluster(*kept)
        && !is_other_cluster(cell.read);
    if distance(differing) <= distance(read) && !is_in_cluster_for_other {
        *kept = cell.read.alone();
    }
    let apart = match read.max(differing) {
        _ if (what | kept.what) & ATOMIC != 0 => 0,
        ..WARP => 0,
        WARP..BLOCK => WARPS_APART,
        // A barrier of a cluster may order both, and not a third.
        BLOCK.. if NOW.clusters.load(Ordering::Relaxed) != 0 => 0,
        BLOCK.. => BLOCKS_APART,
    };
    cell.read = Access { turn: NOW.turn.load(Ordering::Relaxed), what: what | HAS_OTHER | apart };
}

/// Looks at a store of `N` bytes: 1, 2, 4 or 8. `value` has its bits. As with [`load`], what is rare is elsewhere.
#[inline(always)]
pub(super) fn store<const N: usize>(address: usize, value: u64, place: u32) {
    let offset = address.wrapping_sub(WATCHED.start.load(Ordering::Relaxed));
    if offset >= WATCHED.open.load(Ordering::Relaxed) {
        if offset < WATCHED.reserved.load(Ordering::Relaxed) {
            store_far_out::<N>(offset, value, place);
        }
        return;
    }
    if offset & (N - 1) != 0 {
        return store_unaligned(offset, N, place, Some(value));
    }
    let granule = offset / GRANULE;
    if N < GRANULE {
        let (state, bytes) = (u32::from(state(granule)), bytes_at::<N>(offset));
        if state & bytes != bytes {
            return report::unwritable(offset, N, place);
        }
        set_state(granule, (state | bytes << 4) as u8);
    } else if read_states::<N>(granule) != WHOLE >> (128 - 8 * (N / GRANULE)) {
        return store_first::<N>(offset, value, place);
    }
    note_store::<N>(offset, value, place);
}

#[cold]
#[inline(never)]
fn store_far_out<const N: usize>(offset: usize, value: u64, place: u32) {
    if let Some(offset) = report::far_out(offset) {
        store::<N>(WATCHED.start.load(Ordering::Relaxed) + offset, value, place);
    }
}

/// A store of whole granules to bytes that hold nothing yet, or may not be touched.
#[inline(never)]
fn store_first<const N: usize>(offset: usize, value: u64, place: u32) {
    if initialise(offset, N, place) {
        note_store::<N>(offset, value, place);
    }
}

/// Notes a store of bytes that are watched and aligned.
#[inline(always)]
fn note_store<const N: usize>(offset: usize, value: u64, place: u32) {
    let granule = offset / GRANULE;
    // SAFETY: as for a load.
    let cells = unsafe { std::slice::from_raw_parts_mut(cell(granule), N.div_ceil(GRANULE)) };
    match N {
        0..GRANULE => split::write_some(&mut cells[0], granule, what(place, bytes_at::<N>(offset)), Some(value)),
        GRANULE => write(&mut cells[0], granule, what(place, ALL), Some(value)),
        _ => write_all(cells, granule, what(place, ALL), Some(value)),
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
    if is_written(cell) {
        return;
    }
    if is_written_simply(cell) {
        note_write(cell, what);
        return;
    }
    write_after(cell, granule, what, value);
}

/// Whether the last access was a write of this turn.
#[inline(always)]
fn is_written(cell: &Cell) -> bool {
    cell.write.turn == NOW.turn.load(Ordering::Relaxed) && cell.read.turn == 0
}

/// Whether a write of the whole granule has to look at no access of another thread in this launch.
#[inline(always)]
fn is_written_simply(cell: &Cell) -> bool {
    let (turn, grid) = (NOW.turn.load(Ordering::Relaxed), NOW.grid.load(Ordering::Relaxed));
    let is_old_or_own = |access: Access| access.turn < grid || access.turn == turn;
    is_old_or_own(cell.write) && (cell.read.turn < grid || cell.read.turn == turn && cell.read.what & HAS_OTHER == 0)
}

/// Notes a write of some granules, the first of which is given.
#[inline(always)]
fn write_all(cells: &mut [Cell], granule: usize, what: u32, value: Option<u64>) {
    if cells.iter().all(|cell| is_written(cell) || is_written_simply(cell)) {
        for cell in cells {
            if !is_written(cell) {
                note_write(cell, what);
            }
        }
        return;
    }
    write_each(cells, granule, what, value);
}

#[inline(never)]
fn write_each(cells: &mut [Cell], granule: usize, what: u32, value: Option<u64>) {
    for (granule, cell) in (granule..).zip(cells) {
        write(cell, granule, what, value);
    }
}

/// The same, after other accesses of the launch.
#[inline(never)]
fn write_after(cell: &mut Cell, granule: usize, what: u32, value: Option<u64>) {
    let has_met_other = || cell.read.what & HAS_OTHER == 0 || is_met(other(cell, granule).turn);
    if is_met(cell.write.turn) && is_met(cell.read.turn) && has_met_other() {
        return note_write(cell, what);
    }
    write_after_any(cell, granule, what, value);
}

/// The same, after accesses of any block.
#[inline(never)]
fn write_after_any(cell: &mut Cell, granule: usize, what: u32, value: Option<u64>) {
    let is_other_before = || cell.read.what & HAS_OTHER == 0 || is_before(*other(cell, granule), granule);
    if !(is_before(cell.write, granule) && is_before(cell.read, granule) && is_other_before()) {
        split::write_unordered(cell, granule, what, value);
    }
    note_write(cell, what);
}

#[inline(always)]
fn note_write(cell: &mut Cell, what: u32) {
    *cell = Cell { write: Access { turn: NOW.turn.load(Ordering::Relaxed), what }, read: Access::NONE };
}

/// A load of bytes that do not start where a value of their number does.
#[cold]
#[inline(never)]
extern "C" fn load_unaligned(offset: usize, bytes: usize, place: u32) {
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

/// Looks at the address of part of a value: whether it is the multiple that the whole has to be at.
#[inline(never)]
pub(super) fn align(address: usize, place: u32) {
    let offset = address.wrapping_sub(WATCHED.start.load(Ordering::Relaxed));
    // What lies elsewhere is told when the access itself is looked at.
    if offset < WATCHED.open.load(Ordering::Relaxed) {
        look_at_alignment(offset, place);
    }
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

/// Has other writes of this turn be noted after one that does not stand for all of them: one that is atomic, or of some bytes.
#[inline(always)]
pub(super) fn let_others_follow(cell: &mut Cell) {
    if cell.read.turn == 0 {
        cell.read = Access::NONE_YET;
    }
}

/// Whether other bits than these are at an address now; false where it is none that is watched.
pub(super) fn holds_other(address: usize, bytes: usize, bits: u64) -> bool {
    let is_watched = watched(address).is_some_and(|offset| is_open(offset, bytes));
    let byte = |at: usize| {
        // SAFETY: the byte is open, and nobody but this thread uses the memory of a launch that is checked.
        unsafe { std::ptr::with_exposed_provenance::<u8>(address + at).read_volatile() }
    };
    is_watched && (0..bytes.min(8)).any(|at| byte(at) != (bits >> (8 * at)) as u8)
}

/// Looks at an atomic access, which holds its bytes together: 1, 2, 4, 8 or 16, aligned.
#[inline(never)]
pub(super) fn atomic(address: usize, bytes: usize, place: u32, does: Atomic) {
    let Atomic { reads, writes, in_block, .. } = does;
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
        let what = what(place, bytes) | ATOMIC | if in_block { IN_BLOCK } else { 0 };
        match (writes, bytes == ALL) {
            (true, true) => {
                write(cell, granule, what, None);
                if cell.write.is_atomic() {
                    let_others_follow(cell);
                }
            }
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
