//! What looks on at a checked launch's accesses without judging them: the memory report, and watched elements.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::arena::{SHARED_BYTES, WATCHED};
use super::finding::{FindingMemory, FindingSide};
use super::launch::{self, State};
use super::traffic::{MemoryReport, Traffic};
use super::turns::{NOW, Who};
use super::{order, report};

/// Writes that a watch keeps; later ones are traced alone.
const MOST_WRITES: usize = 10_000;

/// Who looks on at a launch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Observers<'a> {
    /// Takes the launch's memory report.
    pub(crate) traffic: Option<&'a Mutex<MemoryReport>>,
    /// Elements that are watched.
    pub(crate) watches: &'a [Arc<Watched>],
}

impl fmt::Debug for Observers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers")
            .field("traffic", &self.traffic.is_some())
            .field("watches", &self.watches.len())
            .finish()
    }
}

impl Observers<'_> {
    /// Whether there is none.
    pub(super) fn are_none(&self) -> bool {
        self.traffic.is_none() && self.watches.is_empty()
    }
}

/// An element that is watched, and who wrote it.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) writes: Mutex<Vec<WatchedWrite>>,
}

/// One write to an element that is watched.
///
/// `Display` says it in a line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WatchedWrite {
    /// The kernel's path.
    pub kernel: String,
    /// The thread, what it wrote over what, and where in the source.
    pub side: FindingSide,
    /// The element, under the name that the kernel's parameter has.
    pub memory: Option<FindingMemory>,
    /// What was there before.
    pub old: String,
    /// What the thread wrote.
    pub new: String,
}

impl fmt::Display for WatchedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: {}", self.kernel, self.side)?;
        self.memory.as_ref().map_or(Ok(()), |memory| write!(f, "; {memory}"))
    }
}

/// What was seen so far in the launch.
#[derive(Default)]
pub(super) struct Seen {
    /// The block whose accesses `traffic` takes.
    block: u64,
    traffic: Option<Traffic>,
    /// Of other blocks that have begun and not ended.
    parked: HashMap<u64, Traffic>,
    /// Counts of blocks that have ended, for others to add to.
    ended: Vec<Traffic>,
    /// Writes that were announced, and are done once anything else happens.
    pending: Vec<Pending>,
}

struct Pending {
    watched: Arc<Watched>,
    write: WatchedWrite,
    offset: usize,
    place: u32,
}

/// Whether someone looks on.
#[inline(always)]
pub(super) fn is_on() -> bool {
    NOW.observed.load(Ordering::Relaxed) != 0
}

/// Before a read.
#[inline(always)]
pub(super) fn read(address: usize, bytes: usize, place: u32) {
    if is_on() {
        note(address, bytes, place, false);
    }
}

/// Before a write.
#[inline(always)]
pub(super) fn write(address: usize, bytes: usize, place: u32) {
    if is_on() {
        note(address, bytes, place, true);
    }
}

#[inline(never)]
fn note(address: usize, bytes: usize, place: u32, is_write: bool) {
    let offset = address.wrapping_sub(WATCHED.start.load(Ordering::Relaxed));
    if offset >= WATCHED.open.load(Ordering::Relaxed) {
        return;
    }
    launch::with(|state| {
        let mut seen = state.seen.borrow_mut();
        seen.finish_writes();
        let who = Who(NOW.who.load(Ordering::Relaxed));
        if state.request.observers.traffic.is_some() {
            // Neighbours that a GPU joins count once, as what they are together.
            let counted =
                state.request.sites.get(place).and_then(|site| site.counted).map_or(bytes, |bytes| bytes as usize);
            if counted > 0 {
                let traffic = seen.traffic_of(who.block(), state);
                traffic.record(place, who.thread(), address, counted, offset < SHARED_BYTES, is_write);
            }
        }
        if is_write {
            order::note(state, offset, bytes, who, place);
            let touches = |watched: &&Arc<Watched>| {
                address < watched.address + watched.bytes && watched.address < address + bytes
            };
            for watched in state.request.observers.watches.iter().filter(touches) {
                let first = offset + watched.address.saturating_sub(address);
                let memory = report::memory(state, first, place);
                let write = WatchedWrite {
                    kernel: state.request.kernel.to_owned(),
                    side: report::side(state, who, place, String::new()),
                    old: report::value_or_bytes(first, place, watched.bytes, memory.as_ref()),
                    memory,
                    new: String::new(),
                };
                seen.pending.push(Pending { watched: Arc::clone(watched), write, offset: first, place });
            }
        }
    });
}

/// A block's threads have all ended.
pub(super) fn end_of_block(block: u64) {
    if !is_on() {
        return;
    }
    launch::with(|state| {
        let mut seen = state.seen.borrow_mut();
        let ended = if seen.block == block { seen.traffic.take() } else { seen.parked.remove(&block) };
        if let Some(mut traffic) = ended {
            traffic.end_of_block();
            seen.ended.push(traffic);
        }
    });
}

/// Hands over what was seen. The launch has ended.
pub(super) fn finish(state: &State<'_>) {
    let mut seen = state.seen.take();
    seen.finish_writes();
    let Some(report) = state.request.observers.traffic else { return };
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    for traffic in seen.traffic.into_iter().chain(seen.parked.into_values()).chain(seen.ended) {
        report.merge(traffic.finish(state.request.kernel, |place| match state.request.sites.get(place) {
            Some(site) => (site.file.as_str(), site.line),
            None => ("", 0),
        }));
    }
}

impl Seen {
    /// The counts of a block, with those of the one before put away.
    fn traffic_of(&mut self, block: u64, state: &State<'_>) -> &mut Traffic {
        if self.block != block {
            if let Some(traffic) = self.traffic.take() {
                self.parked.insert(self.block, traffic);
            }
            self.block = block;
            self.traffic = self.parked.remove(&block);
        }
        let new = || {
            let threads = u32::try_from(state.request.block_dim.count()).expect("a block has 1024 threads at most");
            self.ended.pop().unwrap_or_else(|| Traffic::new(threads))
        };
        self.traffic.get_or_insert_with(new)
    }

    /// Looks at what writes that are done by now have left.
    fn finish_writes(&mut self) {
        for Pending { watched, mut write, offset, place } in self.pending.drain(..) {
            write.new = report::value_or_bytes(offset, place, watched.bytes, write.memory.as_ref());
            write.side.action = format!("writes {} over {}", write.new, write.old);
            tracing::info!(target: "warpsmith::watch", "{write}");
            let mut writes = watched.writes.lock().unwrap_or_else(PoisonError::into_inner);
            if writes.len() < MOST_WRITES {
                writes.push(write);
            }
        }
    }
}
