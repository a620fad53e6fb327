//! The memory that the checker watches: all buffers of checked devices and all shared memory of their blocks, in one range of
//! addresses, so that an address is watched or not by one subtraction.
//!
//! Each piece lies between margins that no one may touch. A piece that was freed is kept as such for as long as there are
//! addresses that were never used.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::map::{PAGE, Reserved};
use super::shadow::{Access, Cell, GRANULE};

/// Bytes at the start of the range that are for shared memory.
pub(super) const SHARED_BYTES: usize = 128 << 20;
/// Bytes that are asked for at first; halved until the system gives them.
const MOST_BYTES: usize = 256 << 30;
/// Alignment of every piece.
const ALIGN: usize = 256;
/// Bytes on each side of a piece: as many as it has, within these limits.
const LEAST_MARGIN: usize = 4 << 10;
const MOST_MARGIN: usize = 1 << 20;
/// Bytes that are made writable at once, at least.
const STEP: usize = 4 << 20;

/// What the state of a granule of four bytes says: a bit for each byte that may be touched, and above them a bit for each
/// that was written.
pub(super) const ADDRESSABLE: u8 = 0x0F;
pub(super) const INITIALISED: u8 = 0xFF;

/// Where the range and what is known of it lie; zeros until the first piece is made.
#[repr(align(64))]
pub(super) struct Watched {
    /// Address of the range's start.
    pub(super) start: AtomicUsize,
    /// Bytes of it that can be touched.
    pub(super) open: AtomicUsize,
    /// Bytes of it in all.
    pub(super) reserved: AtomicUsize,
    /// Address of the granules' cells.
    pub(super) cells: AtomicUsize,
    /// Address of what some cells need beside: an earlier read.
    pub(super) others: AtomicUsize,
    /// Address of the granules' states.
    pub(super) states: AtomicUsize,
}

pub(super) static WATCHED: Watched = Watched {
    start: AtomicUsize::new(0),
    open: AtomicUsize::new(0),
    reserved: AtomicUsize::new(0),
    cells: AtomicUsize::new(0),
    others: AtomicUsize::new(0),
    states: AtomicUsize::new(0),
};

static ARENA: Mutex<Option<Arena>> = Mutex::new(None);

struct Arena {
    memory: Reserved,
    cells: Reserved,
    others: Reserved,
    states: Reserved,
    /// Everything from here on was never used.
    fresh: usize,
    /// Shared memory is taken from the start on, until none is left in use.
    shared_fresh: usize,
    shared_pieces: usize,
    /// By where they start; those that were freed too.
    regions: BTreeMap<usize, Region>,
    /// Starts and lengths of ranges that may be used again.
    free: BTreeMap<usize, usize>,
    freed: u64,
}

/// What a piece of watched memory is.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) start: usize,
    pub(super) bytes: usize,
    pub(super) purpose: Purpose,
    /// When it was freed, by a count; `None` while it is in use.
    freed: Option<u64>,
    /// Where the range that it takes starts, and that range's length.
    taken: (usize, usize),
}

impl Region {
    pub(super) fn is_freed(&self) -> bool {
        self.freed.is_some()
    }
}

/// What a piece of watched memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A buffer of elements of the named type, of so many bytes each.
    Buffer { element: &'static str, element_bytes: usize },
    /// Shared memory of a block.
    Shared,
}

/// A piece of watched memory; freed when dropped.
#[derive(Debug)]
pub(crate) struct Piece {
    start: usize, // Invariant: `bytes` bytes from here are a region in use.
    bytes: usize,
    shared: bool,
}

/// What is said of bytes when the host or the executor touches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// They may not be touched.
    Closed,
    /// They may be touched, and hold nothing yet.
    Uninit,
    /// They may be touched, and hold something.
    Init,
}

impl Arena {
    fn new() -> io::Result<Self> {
        let mut bytes = MOST_BYTES;
        loop {
            let parts = || {
                let memory = Reserved::new(bytes)?;
                let cells = Reserved::new(bytes / GRANULE * size_of::<Cell>())?.in_large_pages();
                let others = Reserved::new(bytes / GRANULE * size_of::<Access>())?.in_large_pages();
                Ok((memory, cells, others, Reserved::new(bytes / GRANULE)?))
            };
            match parts() {
                Ok((memory, cells, others, states)) => {
                    let arena = Self {
                        memory,
                        cells,
                        others,
                        states,
                        fresh: SHARED_BYTES,
                        shared_fresh: 0,
                        shared_pieces: 0,
                        regions: BTreeMap::new(),
                        free: BTreeMap::new(),
                        freed: 0,
                    };
                    arena.open(SHARED_BYTES + STEP)?;
                    WATCHED.cells.store(arena.cells.start(), Ordering::Relaxed);
                    WATCHED.others.store(arena.others.start(), Ordering::Relaxed);
                    WATCHED.states.store(arena.states.start(), Ordering::Relaxed);
                    WATCHED.start.store(arena.memory.start(), Ordering::Relaxed);
                    WATCHED.reserved.store(bytes, Ordering::Relaxed);
                    return Ok(arena);
                }
                Err(error) if bytes <= 4 * SHARED_BYTES => return Err(error),
                Err(_) => bytes /= 2,
            }
        }
    }

    /// Makes everything up to `to` something that can be touched.
    fn open(&self, to: usize) -> io::Result<()> {
        let from = WATCHED.open.load(Ordering::Relaxed);
        if to <= from {
            return Ok(());
        }
        let to = to.max(from + STEP).next_multiple_of(GRANULE * PAGE).min(self.memory.bytes());
        self.memory.open(from, to)?;
        self.states.open(from / GRANULE, to / GRANULE)?;
        self.cells.open(from / GRANULE * size_of::<Cell>(), to / GRANULE * size_of::<Cell>())?;
        self.others.open(from / GRANULE * size_of::<Access>(), to / GRANULE * size_of::<Access>())?;
        WATCHED.open.store(to, Ordering::Release);
        Ok(())
    }

    fn allocate(&mut self, bytes: usize, align: usize, purpose: Purpose) -> io::Result<(usize, bool)> {
        let align = align.max(ALIGN);
        let padded = bytes.checked_next_multiple_of(ALIGN).ok_or(io::ErrorKind::OutOfMemory)?;
        let shared = purpose == Purpose::Shared;
        let margin = if shared { LEAST_MARGIN } else { padded.clamp(LEAST_MARGIN, MOST_MARGIN) };
        let (start, taken, is_fresh) = if shared {
            let start = (self.shared_fresh + margin).next_multiple_of(align);
            if start + padded + margin > SHARED_BYTES {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            if self.shared_pieces == 0 {
                self.regions.retain(|&start, _| start >= SHARED_BYTES);
            }
            self.shared_pieces += 1;
            self.shared_fresh = start + padded + margin;
            (start, (start, padded), true)
        } else {
            let start = (self.fresh + margin).next_multiple_of(align);
            match start.checked_add(padded + margin) {
                Some(end) if end <= self.memory.bytes() => {
                    self.open(end)?;
                    let taken = (self.fresh, start + padded - self.fresh);
                    self.fresh = start + padded;
                    (start, taken, true)
                }
                _ => {
                    let needed = padded + 2 * margin + align;
                    let from = self.reuse(needed)?;
                    ((from + margin).next_multiple_of(align), (from, needed), false)
                }
            }
        };
        self.regions.insert(start, Region { start, bytes, purpose, freed: None, taken });
        Ok((start, is_fresh))
    }

    /// A range of so many bytes that was used before, the longest unused first.
    fn reuse(&mut self, bytes: usize) -> io::Result<usize> {
        loop {
            if let Some((&start, &len)) = self.free.iter().find(|&(_, &len)| len >= bytes) {
                self.free.remove(&start);
                if len > bytes {
                    self.free.insert(start + bytes, len - bytes);
                }
                return Ok(start);
            }
            let mut freed: Vec<(u64, usize)> =
                self.regions.values().filter_map(|region| Some((region.freed?, region.start))).collect();
            if freed.is_empty() {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            freed.sort_unstable();
            for (_, start) in &freed[..freed.len().div_ceil(2)] {
                let region = self.regions.remove(start).expect("listed just now");
                self.join(region.taken.0, region.taken.1);
            }
        }
    }

    fn join(&mut self, mut start: usize, mut bytes: usize) {
        if let Some((&before, &len)) = self.free.range(..start).next_back()
            && before + len >= start
        {
            self.free.remove(&before);
            bytes = (start + bytes).max(before + len) - before;
            start = before;
        }
        if let Some((&after, &len)) = self.free.range(start..).next()
            && after <= start + bytes
        {
            self.free.remove(&after);
            bytes = (start + bytes).max(after + len) - start;
        }
        self.free.insert(start, bytes);
    }

    fn free(&mut self, piece: &Piece) {
        mark(piece.start, piece.bytes, Mark::Closed);
        let (start, end) = (piece.start, piece.start + piece.bytes);
        self.memory.forget(start, end);
        self.states.forget(start / GRANULE, end / GRANULE);
        self.cells.forget(start / GRANULE * size_of::<Cell>(), end / GRANULE * size_of::<Cell>());
        self.others.forget(start / GRANULE * size_of::<Access>(), end / GRANULE * size_of::<Access>());
        self.freed += 1;
        if let Some(region) = self.regions.get_mut(&start) {
            region.freed = Some(self.freed);
        }
        if piece.shared {
            self.shared_pieces -= 1;
            if self.shared_pieces == 0 {
                self.shared_fresh = 0;
            }
        }
    }

    /// The region that the byte at `offset` lies in, or the one nearest to it.
    fn nearest(&self, offset: usize) -> Option<&Region> {
        let before = self.regions.range(..=offset).next_back().map(|(_, region)| region);
        let after = self.regions.range(offset + 1..).next().map(|(_, region)| region);
        match (before, after) {
            (Some(before), Some(after)) => {
                let past = (offset + 1).saturating_sub(before.start + before.bytes);
                Some(if past <= after.start - offset { before } else { after })
            }
            (one, other) => one.or(other),
        }
    }
}

fn lock() -> MutexGuard<'static, Option<Arena>> {
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What lies at, or nearest to, an offset in the watched range.
pub(super) fn nearest(offset: usize) -> Option<Region> {
    lock().as_ref()?.nearest(offset).cloned()
}

/// Makes far-off bytes something that can be touched, so that an access which was reported does not end the process.
pub(super) fn open_up_to(offset: usize) {
    if let Some(arena) = lock().as_ref() {
        // Where the system refuses, the access fails as it would have without the checker.
        let _ = arena.open(offset);
    }
}

/// Voids what is known of past accesses to all memory. No launch runs.
pub(super) fn forget_accesses() {
    if let Some(arena) = lock().as_ref() {
        // What cells need beside is not looked at before a cell says so again.
        arena.cells.forget(0, WATCHED.open.load(Ordering::Relaxed) / GRANULE * size_of::<Cell>());
    }
}

/// Says of bytes in the watched range what they are.
pub(super) fn mark(start: usize, bytes: usize, what: Mark) {
    let states = WATCHED.states.load(Ordering::Relaxed);
    let bits = |mask: u8| match what {
        Mark::Closed => 0,
        Mark::Uninit => mask,
        Mark::Init => mask | mask << 4,
    };
    let at = |granule: usize| std::ptr::with_exposed_provenance_mut::<u8>(states + granule);
    let edge = |granule: usize, mask: u8| {
        let both = mask | mask << 4;
        // SAFETY: the granule is of a piece that the caller has, whose states are open.
        unsafe { *at(granule) = *at(granule) & !both | bits(mask) };
    };
    if bytes == 0 {
        return;
    }
    let (first, last) = (start / GRANULE, (start + bytes - 1) / GRANULE);
    let first_mask = ADDRESSABLE << (start % GRANULE) & ADDRESSABLE;
    let last_mask = ADDRESSABLE >> (GRANULE - 1 - (start + bytes - 1) % GRANULE);
    if first == last {
        return edge(first, first_mask & last_mask);
    }
    edge(first, first_mask);
    edge(last, last_mask);
    // SAFETY: as above, for the granules in between.
    unsafe { at(first + 1).write_bytes(bits(ADDRESSABLE), last - first - 1) };
}

/// Has nobody touch bytes of shared memory until they are [shown](show) again; what they hold is kept.
pub(super) fn hide(start: usize, bytes: usize) {
    for (granule, _) in super::shadow::granules(start, bytes) {
        super::shadow::set_state(granule, super::shadow::state(granule) & !ADDRESSABLE);
    }
}

/// Undoes [`hide`].
pub(super) fn show(start: usize, bytes: usize) {
    for (granule, bytes) in super::shadow::granules(start, bytes) {
        super::shadow::set_state(granule, super::shadow::state(granule) | bytes as u8);
    }
}

impl Piece {
    /// Memory that may be touched when it was [marked](Self::mark) so; and whether it holds zeros.
    ///
    /// # Errors
    /// When the system gives no more.
    pub(crate) fn new(bytes: usize, align: usize, purpose: Purpose) -> io::Result<(Self, bool)> {
        let mut arena = lock();
        let arena = match &mut *arena {
            Some(arena) => arena,
            none => none.insert(Arena::new()?),
        };
        let (start, is_fresh) = arena.allocate(bytes, align, purpose)?;
        Ok((Self { start, bytes, shared: purpose == Purpose::Shared }, is_fresh))
    }

    /// Address of its first byte.
    pub(crate) fn address(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(WATCHED.start.load(Ordering::Relaxed) + self.start)
    }

    /// Says of some of its bytes what they are.
    pub(crate) fn mark(&self, offset: usize, bytes: usize, what: Mark) {
        debug_assert!(offset + bytes <= self.bytes);
        mark(self.start + offset, bytes, what);
    }

    /// Gives the running block so many of its bytes, which hold nothing.
    pub(crate) fn give_to_block(&self, bytes: usize) {
        self.mark(0, bytes, Mark::Uninit);
        super::clocks::give_shared(self.start, bytes);
    }

    /// Notes that bytes of another piece were copied into this: what held nothing there holds nothing here.
    pub(crate) fn mark_copied(&self, offset: usize, from: (&Self, usize), bytes: usize) {
        super::shadow::copy_marks(self.start + offset, from.0.start + from.1, bytes);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(arena) = lock().as_mut() {
            arena.free(self);
        }
    }
}
