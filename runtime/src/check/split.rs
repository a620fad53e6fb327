//! Accesses to some bytes of a granule, and what is out of line of those to all of them: where accesses meet that barriers do
//! not order.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::launch;
use super::map::Reserved;
use super::report;
use super::shadow::{
    ALL, APART, ATOMIC, Access, Cell, GRANULE, HAS_OTHER, IN_BLOCK, SPLIT, are_of_different_blocks, is_before,
    let_others_follow, other as other_of, read, write,
};
use super::turns::{NOW, owner};

/// Cells of single bytes are kept by fours: most groups, and how many are made writable at once.
const MOST_GROUPS: usize = if cfg!(test) { 1 << 17 } else { 1 << 27 };
const STEP: usize = 1 << 14;
const GROUP_BYTES: usize = size_of::<Group>();
/// Groups whose memory is kept for the next launch: 192 MiB.
const MOST_KEPT: usize = 1 << 21;

/// A granule's bytes, each with a cell of its own and what goes with it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Group {
    cells: [Cell; GRANULE],
    others: [Access; GRANULE],
}

/// Address of the first group.
static GROUPS: AtomicUsize = AtomicUsize::new(0);
static OPEN: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Which launch's the groups are.
static LAUNCH: AtomicU32 = AtomicU32::new(0);
static MEMORY: Mutex<Option<Reserved>> = Mutex::new(None);

/// Voids all groups: a new launch starts.
pub(super) fn start_launch() {
    LAUNCH.store(LAUNCH.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    if NEXT.load(Ordering::Relaxed) > MOST_KEPT
        && let Some(memory) = &*MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
    {
        memory.forget(0, OPEN.load(Ordering::Relaxed) * GROUP_BYTES);
    }
    NEXT.store(0, Ordering::Relaxed);
}

/// The cells of a granule's bytes, where it has such.
fn group<'a>(cell: &Cell) -> Option<&'a mut [Cell; GRANULE]> {
    (cell.write.turn == SPLIT && cell.read.what == LAUNCH.load(Ordering::Relaxed)).then(|| {
        // SAFETY: `take_apart` made the group in this launch; one thread looks at cells, at one at a time.
        unsafe { &mut (*groups().add(cell.write.what as usize)).cells }
    })
}

fn groups() -> *mut Group {
    std::ptr::with_exposed_provenance_mut(GROUPS.load(Ordering::Relaxed))
}

/// Which group a byte's cell is in, and which byte of its granule it is for; `None` for the cell of a whole one.
fn position(cell: &Cell) -> Option<(usize, usize)> {
    let offset = std::ptr::from_ref(cell).addr().wrapping_sub(GROUPS.load(Ordering::Relaxed));
    let is_inside = offset < OPEN.load(Ordering::Relaxed) * GROUP_BYTES;
    is_inside.then(|| (offset / GROUP_BYTES, offset % GROUP_BYTES / size_of::<Cell>()))
}

/// Which byte of its granule a cell is for: 0 for the whole.
fn byte_of(cell: &Cell) -> usize {
    position(cell).map_or(0, |(_, byte)| byte)
}

/// The earlier read of a byte, as [`other`](super::shadow::other) is that of a granule.
#[inline(never)]
pub(super) fn other<'a>(cell: &Cell) -> &'a mut Access {
    let (group, byte) = position(cell).expect("it is no granule's cell, and so a byte's");
    // SAFETY: the cell's group was made; one thread looks at others, at one at a time.
    unsafe { &mut (*groups().add(group)).others[byte] }
}

/// Gives each byte of a granule a cell of its own.
fn take_apart<'a>(cell: &mut Cell, granule: usize) -> &'a mut [Cell; GRANULE] {
    let mut at = NEXT.load(Ordering::Relaxed);
    if at >= OPEN.load(Ordering::Relaxed)
        && let Err(failure) = more()
    {
        launch::fail(failure);
        // Whatever is found from here on counts for nothing.
        at = 0;
    }
    NEXT.store(at + 1, Ordering::Relaxed);
    let of_byte = |access: Access, byte: usize| {
        let touches = access.turn != SPLIT && access.bytes() & (1 << byte) != 0;
        // Whether two reads of the granule are apart says nothing of those of a byte.
        if touches {
            Access { turn: access.turn, what: access.what & !(HAS_OTHER | APART) | ALL }
        } else {
            Access::NONE
        }
    };
    let before = *cell;
    let other = if before.read.what & HAS_OTHER != 0 { *other_of(cell, granule) } else { Access::NONE };
    let made = Group {
        cells: std::array::from_fn(|byte| {
            let (read, other) = (of_byte(before.read, byte), of_byte(other, byte));
            // The other read is the older one, if there are two.
            let read = match (read.turn, other.turn) {
                (0, _) => other,
                (_, 0) => read,
                _ => Access { what: read.what | HAS_OTHER, ..read },
            };
            let mut cell = Cell { write: of_byte(before.write, byte), read };
            if cell.write.is_atomic() {
                let_others_follow(&mut cell);
            }
            cell
        }),
        others: std::array::from_fn(|byte| of_byte(other, byte)),
    };
    cell.write = Access { turn: SPLIT, what: at as u32 };
    cell.read = Access { turn: SPLIT, what: LAUNCH.load(Ordering::Relaxed) };
    // SAFETY: the group is open and nobody else's.
    unsafe { groups().add(at).write(made) };
    group(cell).expect("it was just taken apart")
}

#[cold]
#[inline(never)]
fn more() -> Result<(), String> {
    let open = OPEN.load(Ordering::Relaxed);
    if open >= MOST_GROUPS {
        return Err(format!(
            "the checker keeps track of {MOST_GROUPS} places whose bytes threads access one by one, and this launch has more; check a \
             smaller one"
        ));
    }
    let mut memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = match &mut *memory {
        Some(memory) => memory,
        none => none.insert(
            Reserved::new(MOST_GROUPS * GROUP_BYTES)
                .expect("the system gives the checker addresses for single bytes")
                .in_large_pages(),
        ),
    };
    let opened = memory.open(open * GROUP_BYTES, (open + STEP) * GROUP_BYTES);
    match opened {
        Err(error) if open > 0 => {
            return Err(format!("the checker gets no memory for single bytes from the system: {error}"));
        }
        opened => opened.expect("the system gives the checker memory for the first single bytes"),
    }
    GROUPS.store(memory.start(), Ordering::Relaxed);
    OPEN.store(open + STEP, Ordering::Relaxed);
    Ok(())
}

/// Notes a read of some bytes of a granule.
#[inline(always)]
pub(super) fn read_some(cell: &mut Cell, granule: usize, what: u32) {
    let (turn, grid) = (NOW.turn.load(Ordering::Relaxed), NOW.grid.load(Ordering::Relaxed));
    let is_old_or_own = |access: Access| access.turn < grid || access.turn == turn;
    // Atomic and plain reads of a turn are kept apart.
    let is_mixed = cell.read.turn == turn && (cell.read.what ^ what) & ATOMIC != 0;
    if !is_old_or_own(cell.write) || !is_old_or_own(cell.read) || is_mixed {
        return read_apart(cell, granule, what);
    }
    let others = if cell.read.turn == turn { cell.read.what & (ALL | HAS_OTHER | APART) } else { 0 };
    cell.read = Access { turn, what: what | others };
}

/// Notes a write of some bytes of a granule; `value` has the bits.
#[inline(always)]
pub(super) fn write_some(cell: &mut Cell, granule: usize, what: u32, value: Option<u64>) {
    let (turn, grid) = (NOW.turn.load(Ordering::Relaxed), NOW.grid.load(Ordering::Relaxed));
    let is_old_or_own = |access: Access| access.turn < grid || access.turn == turn;
    let has_new_other = cell.read.what & HAS_OTHER != 0 && cell.read.turn >= grid;
    let is_mixed = cell.write.turn == turn && (cell.write.what ^ what) & ATOMIC != 0;
    if !is_old_or_own(cell.write) || !is_old_or_own(cell.read) || has_new_other || is_mixed {
        return write_apart(cell, granule, what, value);
    }
    let others = if cell.write.turn == turn { cell.write.bytes() } else { 0 };
    cell.write = Access { turn, what: what | others };
    let_others_follow(cell);
}

#[inline(never)]
fn read_apart(cell: &mut Cell, granule: usize, what: u32) {
    void_old(cell);
    let group = group(cell).unwrap_or_else(|| take_apart(cell, granule));
    let mut bytes = what & ALL;
    while bytes != 0 {
        read(&mut group[bytes.trailing_zeros() as usize % GRANULE], granule, what | ALL);
        bytes &= bytes - 1;
    }
}

#[inline(never)]
fn write_apart(cell: &mut Cell, granule: usize, what: u32, value: Option<u64>) {
    void_old(cell);
    let group = group(cell).unwrap_or_else(|| take_apart(cell, granule));
    let mut bytes = what & ALL;
    while bytes != 0 {
        write_byte(&mut group[bytes.trailing_zeros() as usize % GRANULE], granule, what | ALL, value);
        bytes &= bytes - 1;
    }
}

/// Notes a write of a byte that has a cell of its own.
fn write_byte(cell: &mut Cell, granule: usize, what: u32, value: Option<u64>) {
    write(cell, granule, what, value);
    if cell.write.is_atomic() {
        let_others_follow(cell);
    }
}

/// Voids a cell that an earlier launch took apart.
fn void_old(cell: &mut Cell) {
    if cell.write.turn == SPLIT && group(cell).is_none() {
        *cell = Cell::default();
    }
}

/// For a read of a granule after a write that no barrier of its block orders before it: true where the bytes have their own
/// cells, in which it then is noted.
#[inline(never)]
pub(super) fn read_unordered(cell: &mut Cell, granule: usize, what: u32) -> bool {
    if let Some(group) = group(cell) {
        group.iter_mut().for_each(|cell| read(cell, granule, what));
        return true;
    }
    void_old(cell);
    look(cell, cell.write, granule, what, Kind::ReadAfterWrite, None);
    false
}

/// For a write of a granule after accesses that no barrier of its block orders before it.
#[inline(never)]
pub(super) fn write_unordered(cell: &mut Cell, granule: usize, what: u32, value: Option<u64>) {
    if let Some(group) = group(cell) {
        return group.iter_mut().for_each(|cell| write_byte(cell, granule, what, value));
    }
    void_old(cell);
    look(cell, cell.write, granule, what, Kind::WriteAfterWrite, value);
    look(cell, cell.read, granule, what, Kind::WriteAfterRead, value);
    if cell.read.what & HAS_OTHER != 0 {
        look(cell, *other_of(cell, granule), granule, what, Kind::WriteAfterRead, value);
    }
}

/// Which two accesses meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ReadAfterWrite,
    WriteAfterWrite,
    WriteAfterRead,
}

/// Whether two atomic accesses are not atomic for each other: of different blocks, and one of them is for its own alone.
fn is_torn(earlier: Access, what: u32) -> bool {
    (earlier.what | what) & IN_BLOCK != 0
        && are_of_different_blocks(owner(earlier.turn), NOW.who.load(Ordering::Relaxed))
}

/// Reports an earlier access that nothing orders before this one.
fn look(cell: &Cell, earlier: Access, granule: usize, what: u32, kind: Kind, value: Option<u64>) {
    if is_before(earlier, granule)
        || earlier.bytes() & what & ALL == 0
        || (earlier.is_atomic() && what & ATOMIC != 0 && !is_torn(earlier, what))
        || super::clocks::is_known(earlier.turn, granule)
    {
        return;
    }
    let own = Access { turn: NOW.turn.load(Ordering::Relaxed), what };
    let first = (earlier.bytes() & what & ALL).trailing_zeros() as usize;
    report::race(granule * GRANULE + if byte_of(cell) != 0 { byte_of(cell) } else { first }, kind, earlier, own, value);
}
