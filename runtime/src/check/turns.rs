//! The count by which accesses are ordered: each time a thread starts or goes on it has its turn, with a number above all
//! before it.
//!
//! One thread runs at a time. So whatever some threads did before they met has a turn below that of the meeting, and what they
//! do after it has one above: an access is ordered before a thread's present one when its turn is below the last meeting of the
//! smallest group that both threads are of.

use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::clocks::BlockClocks;
use super::launch;
use super::map::Reserved;

/// Most turns of a launch.
const MOST_TURNS: u32 = 1 << 31;
/// A launch that starts past this has the count started again.
const ENOUGH_FOR_A_LAUNCH: u32 = 1 << 30;
/// Turns whose owners' places are made writable at once.
const STEP: u32 = 1 << 18;
/// Turns whose owners' places are kept for the next launch: 64 MiB.
const MOST_KEPT: u32 = 1 << 23;

/// What an access looks at: whose turn it is, and which earlier turns are ordered before it. Written and read by the thread of
/// the operating system that runs a checked launch; the atomics make it a static without `unsafe`.
#[repr(align(64))]
pub(super) struct Now {
    /// The turn.
    pub(super) turn: AtomicU32,
    /// The next turn.
    pub(super) next: AtomicU32,
    /// Turns below it are before the launch, or before its last meeting of all blocks.
    pub(super) grid: AtomicU32,
    /// From this turn on all were the running block's, where blocks run one after another; above all turns where several take
    /// turns.
    pub(super) start: AtomicU32,
    /// Turns of the block below it are before the block's last meeting, or before its start.
    pub(super) block: AtomicU32,
    /// Turns of the warp below it are before the warp's last meeting.
    pub(super) warp: AtomicU32,
    /// The next turn that has no place yet for its owner.
    end: AtomicU32,
    /// Blocks of a cluster, where the launch has clusters, else 0.
    pub(super) clusters: AtomicU32,
    /// Not 0 where accesses are observed.
    pub(super) observed: AtomicU32,
    /// Whose turn it is.
    pub(super) who: AtomicU64,
    /// Where the owner of turn 0 would be: those of the launch's turns are of eight bytes each from their number on.
    owners: AtomicUsize,
    /// The block whose thread runs.
    pub(super) clocks: AtomicPtr<BlockClocks>,
}

pub(super) static NOW: Now = Now {
    turn: AtomicU32::new(0),
    next: AtomicU32::new(FIRST_TURN),
    grid: AtomicU32::new(FIRST_TURN),
    start: AtomicU32::new(u32::MAX),
    block: AtomicU32::new(FIRST_TURN),
    warp: AtomicU32::new(FIRST_TURN),
    end: AtomicU32::new(0),
    clusters: AtomicU32::new(0),
    observed: AtomicU32::new(0),
    who: AtomicU64::new(0),
    owners: AtomicUsize::new(0),
    clocks: AtomicPtr::new(std::ptr::null_mut()),
};

/// A turn that is nobody's and before all others.
pub(super) const NOBODYS_TURN: u32 = 1;
/// The first that is given.
const FIRST_TURN: u32 = NOBODYS_TURN + 1;

/// The owners of a launch's turns, the first of which is `FIRST`.
static OWNERS: Mutex<Option<Reserved>> = Mutex::new(None);
static FIRST: AtomicU32 = AtomicU32::new(0);

/// A thread of the grid: its block's linear number above ten bits for its own in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Who(pub(super) u64);

impl Who {
    pub(super) const THREAD_BITS: u32 = 10;

    pub(super) fn new(block: u64, thread: u32) -> Self {
        Self(block << Self::THREAD_BITS | u64::from(thread))
    }

    pub(super) fn block(self) -> u64 {
        self.0 >> Self::THREAD_BITS
    }

    pub(super) fn thread(self) -> u32 {
        self.0 as u32 & ((1 << Self::THREAD_BITS) - 1)
    }
}

/// Whose turn it was. `turn` was given.
#[inline]
pub(super) fn owner(turn: u32) -> u64 {
    debug_assert!(turn < NOW.next.load(Ordering::Relaxed), "turn {turn} was not given yet");
    let owners = std::ptr::with_exposed_provenance::<u64>(NOW.owners.load(Ordering::Relaxed));
    // SAFETY: a turn that was given has its place, and this is the thread that gives turns.
    unsafe { owners.add(turn as usize).read() }
}

/// Gives the thread a turn.
#[inline]
pub(super) fn give(who: Who) {
    let mut turn = NOW.next.load(Ordering::Relaxed);
    if turn >= NOW.end.load(Ordering::Relaxed)
        && let Err(failure) = more()
    {
        launch::fail(failure);
        // The last is given again; whatever is found from here on counts for nothing.
        turn -= 1;
    }
    NOW.next.store(turn + 1, Ordering::Relaxed);
    let owners = std::ptr::with_exposed_provenance_mut::<u64>(NOW.owners.load(Ordering::Relaxed));
    // SAFETY: `turn` is below `end`, so there is a place for it.
    unsafe { owners.add(turn as usize).write(who.0) };
    NOW.turn.store(turn, Ordering::Relaxed);
    NOW.who.store(who.0, Ordering::Relaxed);
}

/// Makes places for more turns.
#[cold]
#[inline(never)]
fn more() -> Result<(), String> {
    let first = FIRST.load(Ordering::Relaxed);
    let count = NOW.end.load(Ordering::Relaxed) - first;
    if count >= MOST_TURNS {
        return Err(format!(
            "the checker has counted {MOST_TURNS} turns of threads in one launch and has no more; check a smaller one"
        ));
    }
    open(first, count + STEP)
        .map_err(|error| format!("the checker gets no memory for the turns of threads from the system: {error}"))
}

/// Makes places for so many turns from the first of the launch on.
fn open(first: u32, count: u32) -> io::Result<()> {
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let owners = match &mut *owners {
        Some(owners) => owners,
        none => none.insert(Reserved::new(MOST_TURNS as usize * size_of::<u64>())?.in_large_pages()),
    };
    owners.open((count - STEP) as usize * size_of::<u64>(), count as usize * size_of::<u64>())?;
    NOW.owners.store(owners.start().wrapping_sub(first as usize * size_of::<u64>()), Ordering::Relaxed);
    NOW.end.store(first + count, Ordering::Relaxed);
    Ok(())
}

/// Starts a launch: every turn before it is ordered before all of it.
pub(super) fn start_launch() -> io::Result<()> {
    if NOW.next.load(Ordering::Relaxed) > ENOUGH_FOR_A_LAUNCH {
        super::arena::forget_accesses();
        NOW.next.store(FIRST_TURN, Ordering::Relaxed);
    }
    let next = NOW.next.load(Ordering::Relaxed);
    FIRST.store(next, Ordering::Relaxed);
    open(next, STEP)?;
    for floor in [&NOW.grid, &NOW.block, &NOW.warp] {
        floor.store(next, Ordering::Relaxed);
    }
    Ok(())
}

/// Ends a launch: whose its turns were is forgotten.
pub(super) fn end_launch() {
    NOW.clocks.store(std::ptr::null_mut(), Ordering::Relaxed);
    NOW.turn.store(0, Ordering::Relaxed);
    let count = NOW.end.load(Ordering::Relaxed) - FIRST.load(Ordering::Relaxed);
    if count > MOST_KEPT
        && let Some(owners) = &*OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
    {
        owners.forget(0, count as usize * size_of::<u64>());
    }
}
