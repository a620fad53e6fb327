//! What the threads of a block know of earlier accesses: by barriers, which are cheap to ask, and by atomics, named barriers and
//! barriers of some lanes, which are looked up.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use warpsmith_device::abi::Scope;
use warpsmith_device::host::{Context, Place, WARP_SIZE, lanes};

use super::shadow::Atomic;
use super::turns::{self, NOW, Who, owner};
use super::{arena, launch};

/// Warps of the largest block.
const WARPS: usize = 32;

/// A block's part of what orders accesses. It belongs to whoever runs the block.
#[derive(Debug)]
pub(crate) struct BlockClocks {
    number: Cell<u64>,
    /// The thread that runs, or ran last.
    thread: Cell<u32>,
    /// Turns of the block below it are before its last barrier.
    floor: Cell<u32>,
    /// Turns of the cluster below it are before its last barrier.
    cluster: Cell<u32>,
    warps: [Cell<u32>; WARPS],
    /// What threads know of single lanes of their warps, by barriers of some lanes.
    lanes: RefCell<HashMap<u32, [u32; WARP_SIZE as usize]>>,
    /// What all threads of the block know of others by releases.
    known: RefCell<Vec<Seen>>,
    /// What single threads know beyond it.
    threads: RefCell<HashMap<u32, Known>>,
    /// The logs of its named barriers.
    named: RefCell<HashMap<u32, u32>>,
    /// The shared memory that it was given: where it starts in the watched range, and its bytes.
    shared: RefCell<Vec<(usize, usize)>>,
    /// The first thread that ended without a panic.
    ended: Cell<Option<u32>>,
    /// Whether one ended by a panic.
    panicked: Cell<bool>,
}

/// What a thread knows by atomics.
#[derive(Clone, Debug, Default)]
struct Known {
    seen: Vec<Seen>,
    /// What it has read without acquiring it; its next acquiring fence does.
    pending: Vec<Seen>,
    /// The part of it that its block released, which a fence for the block acquires.
    pending_of_block: Vec<Seen>,
    /// What it knew at its last releasing fence, and when that was: what it writes without releasing releases that.
    fence: Option<(u32, Vec<Seen>)>,
    /// The same of fences for the block, too: what it writes releases that to its block.
    fence_of_block: Option<(u32, Vec<Seen>)>,
}

/// Whether the next atomic access or fence is for the threads of its block alone.
static IN_BLOCK: AtomicBool = AtomicBool::new(false);

pub(super) fn is_in_block() -> bool {
    IN_BLOCK.load(Ordering::Relaxed)
}

pub(super) fn set_in_block(is: bool) {
    IN_BLOCK.store(is, Ordering::Relaxed);
}

/// The first so many entries of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    log: u32,
    len: u32,
}

fn add(list: &mut Vec<Seen>, seen: Seen) {
    match list.iter_mut().find(|own| own.log == seen.log) {
        Some(own) => own.len = own.len.max(seen.len),
        None => list.push(seen),
    }
}

/// Everything that was released in a launch.
#[derive(Debug, Default)]
pub(super) struct Logs {
    logs: Vec<Log>,
    by_address: HashMap<usize, Released>,
}

/// What was released at an address.
#[derive(Debug, Default)]
struct Released {
    /// The log of what was released to all threads, and how much of it a wait at a barrier there gives.
    to_all: Option<(u32, u32)>,
    /// The logs of what threads of a block released to it at least, by the block's number.
    to_blocks: HashMap<u64, u32>,
    /// Whether something was released to a block alone.
    has_private: bool,
}

/// What was released at one place, in order.
#[derive(Debug, Default)]
struct Log {
    len: u32,
    /// Up to which turns a group's accesses are known, each from an entry on.
    groups: HashMap<Group, Vec<(u32, u32)>>,
    /// How much of other logs is known, each from an entry on.
    seen: HashMap<u32, Vec<(u32, u32)>>,
}

/// Threads whose accesses are known together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    Thread(u64),
    Warp(u64),
    Block(u64),
    Cluster(u64),
}

impl Logs {
    fn new_log(&mut self) -> u32 {
        self.logs.push(Log::default());
        u32::try_from(self.logs.len() - 1).expect("a launch has fewer atomics than four billion")
    }

    /// The log of an address.
    fn log_of(&mut self, address: usize) -> u32 {
        if let Some((log, _)) = self.by_address.get(&address).and_then(|released| released.to_all) {
            return log;
        }
        let log = self.new_log();
        self.by_address.entry(address).or_default().to_all = Some((log, 0));
        log
    }

    /// The log of an address for what a block has released.
    fn log_of_block(&mut self, address: usize, block: u64) -> u32 {
        if let Some(&log) = self.by_address.get(&address).and_then(|released| released.to_blocks.get(&block)) {
            return log;
        }
        let log = self.new_log();
        self.by_address.entry(address).or_default().to_blocks.insert(block, log);
        log
    }

    /// All of a log up to now.
    fn all_of(&self, log: u32) -> Seen {
        Seen { log, len: self.logs[log as usize].len }
    }

    fn append(&mut self, log: u32, groups: &[(Group, u32)], seen: &[Seen]) {
        let own = &mut self.logs[log as usize];
        let at = own.len;
        own.len += 1;
        for &(group, turn) in groups {
            raise(own.groups.entry(group).or_default(), at, turn);
        }
        // A log that knows itself says nothing new.
        for seen in seen.iter().filter(|seen| seen.log != log) {
            raise(own.seen.entry(seen.log).or_default(), at, seen.len);
        }
    }

    /// Whether what was seen says that a turn of a thread is past.
    fn say(&self, seen: impl IntoIterator<Item = Seen>, turn: u32, who: Who) -> bool {
        let block = who.block();
        let groups = [
            Group::Thread(who.0),
            Group::Warp(who.0 / u64::from(WARP_SIZE)),
            Group::Block(block),
            Group::Cluster(launch::with(|launch| launch.cluster_of(block)).flatten().unwrap_or(block)),
        ];
        let mut open: Vec<Seen> = seen.into_iter().collect();
        let mut looked_at: HashMap<u32, u32> = HashMap::new();
        while let Some(Seen { log, len }) = open.pop() {
            let before = looked_at.entry(log).or_default();
            if *before >= len {
                continue;
            }
            *before = len;
            let log = &self.logs[log as usize];
            if groups.iter().filter_map(|group| log.groups.get(group)).any(|entries| turn < before_entry(entries, len))
            {
                return true;
            }
            let others = log.seen.iter().map(|(&log, entries)| Seen { log, len: before_entry(entries, len) });
            open.extend(others.filter(|seen| seen.len > 0));
        }
        false
    }
}

/// Notes a number that holds from an entry of a log on, unless one as high holds already.
fn raise(entries: &mut Vec<(u32, u32)>, at: u32, number: u32) {
    if entries.last().is_none_or(|&(_, known)| known < number) {
        entries.push((at, number));
    }
}

/// The number that holds after the first `len` entries of a log; 0 where none does.
fn before_entry(entries: &[(u32, u32)], len: u32) -> u32 {
    let count = entries.partition_point(|&(at, _)| at < len);
    entries[..count].last().map_or(0, |&(_, number)| number)
}

/// The next turn: everything that was done has one below it.
fn now() -> u32 {
    NOW.next.load(Ordering::Relaxed)
}

impl BlockClocks {
    /// For the blocks that one place of the executor runs, one after another.
    pub(crate) fn new() -> Self {
        Self {
            number: Cell::new(0),
            thread: Cell::new(0),
            floor: Cell::new(0),
            cluster: Cell::new(0),
            warps: Default::default(),
            lanes: RefCell::default(),
            known: RefCell::default(),
            threads: RefCell::default(),
            named: RefCell::default(),
            shared: RefCell::default(),
            ended: Cell::new(None),
            panicked: Cell::new(false),
        }
    }

    /// Turns to the block with this linear number, no thread of which has run.
    pub(crate) fn next_block(&self, number: u64) {
        super::observe::end_of_block(self.number.get());
        self.number.set(number);
        self.thread.set(0);
        self.floor.set(now());
        let takes_turns = launch::with(|launch| launch.blocks_take_turns()).unwrap_or(true);
        NOW.start.store(if takes_turns { u32::MAX } else { now() }, Ordering::Relaxed);
        self.cluster.set(0);
        self.warps.iter().for_each(|warp| warp.set(0));
        self.lanes.borrow_mut().clear();
        self.known.borrow_mut().clear();
        self.threads.borrow_mut().clear();
        self.named.borrow_mut().clear();
        self.shared.borrow_mut().clear();
        self.ended.set(None);
        self.panicked.set(false);
    }

    /// A thread starts or goes on.
    #[inline]
    pub(crate) fn turn_to(&self, thread: u32) {
        self.thread.set(thread);
        turns::give(Who::new(self.number.get(), thread));
        let block = self.floor.get().max(NOW.grid.load(Ordering::Relaxed));
        NOW.block.store(block, Ordering::Relaxed);
        NOW.warp.store(self.warps[(thread / WARP_SIZE) as usize].get().max(block), Ordering::Relaxed);
        if !std::ptr::eq(NOW.clocks.load(Ordering::Relaxed), self) {
            self.turn_from_another();
        }
    }

    /// Another block, or none, has run. Where blocks take turns and are of no cluster, each sees its own shared memory alone.
    #[cold]
    fn turn_from_another(&self) {
        let takes_turns = launch::with(|launch| launch.blocks_take_turns()) == Some(true);
        if takes_turns && NOW.clusters.load(Ordering::Relaxed) == 0 {
            running(|before| before.shared.borrow().iter().for_each(|&(start, bytes)| arena::hide(start, bytes)));
            self.shared.borrow().iter().for_each(|&(start, bytes)| arena::show(start, bytes));
        }
        NOW.clocks.store(std::ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
    }

    /// The thread that runs goes on after something from which on others know what it did.
    fn go_on(&self) {
        self.turn_to(self.thread.get());
    }

    /// A thread has ended, by a panic or not.
    pub(crate) fn end(&self, thread: u32, panicked: bool) {
        if panicked {
            self.panicked.set(true);
        } else if self.ended.get().is_none() {
            self.ended.set(Some(thread));
        }
    }

    /// All threads that are left have met at the block's barrier.
    pub(crate) fn sync_threads(&self, place: Place, waiting: u32) {
        self.look_at_ended(self, place, waiting);
        self.meet_as_block(now());
    }

    /// Threads of the block wait at a barrier: reports a thread of a block, which is this one or another of its cluster, that has ended
    /// before.
    pub(crate) fn look_at_ended(&self, of: &Self, place: Place, waiting: u32) {
        if let Some(ended) = of.ended.get() {
            super::report::left_out(self.who(waiting), place, of.who(ended));
        }
    }

    fn meet_as_block(&self, now: u32) {
        self.floor.set(now);
        self.lanes.borrow_mut().clear();
        let mut known = self.known.borrow_mut();
        for thread in self.threads.borrow_mut().values_mut() {
            thread.seen.drain(..).for_each(|seen| add(&mut known, seen));
        }
        drop(known);
        self.go_on();
    }

    /// All blocks of the cluster, or of the grid, have met; the given thread is one that waits at the place.
    pub(crate) fn sync_blocks(&self, grid: bool, place: Place, waiting: u32) {
        self.look_at_ended(self, place, waiting);
        if grid {
            NOW.grid.store(now(), Ordering::Relaxed);
        } else {
            self.cluster.set(now());
        }
        self.meet_as_block(now());
    }

    /// Lanes of a warp have met in `sync_warp`; all that it ever had if `all`.
    pub(crate) fn sync_lanes(&self, warp: u32, members: u32, all: bool) {
        let first = warp * WARP_SIZE;
        if all {
            self.warps[warp as usize].set(now());
        } else {
            let mut known = self.lanes.borrow_mut();
            let mut joined = [0; WARP_SIZE as usize];
            for lane in lanes(members) {
                if let Some(own) = known.get(&(first + lane)) {
                    joined.iter_mut().zip(own).for_each(|(joined, &own)| *joined = own.max(*joined));
                }
            }
            for lane in lanes(members) {
                joined[lane as usize] = now();
            }
            for lane in lanes(members) {
                known.insert(first + lane, joined);
            }
        }
        let mut threads = self.threads.borrow_mut();
        if !threads.is_empty() {
            let mut joined = Vec::new();
            for lane in lanes(members) {
                let seen = threads.get(&(first + lane)).map_or(&[][..], |known| &known.seen);
                seen.iter().for_each(|&seen| add(&mut joined, seen));
            }
            if !joined.is_empty() {
                for lane in lanes(members) {
                    threads.entry(first + lane).or_default().seen.clone_from(&joined);
                }
            }
        }
        drop(threads);
        self.go_on();
    }

    /// A thread comes to a named barrier.
    pub(crate) fn arrive_at_named(&self, thread: u32, id: u32) {
        launch::with(|launch| {
            let mut logs = launch.logs.borrow_mut();
            let log = *self.named.borrow_mut().entry(id).or_insert_with(|| logs.new_log());
            let (groups, seen) = self.knowledge(thread, now());
            logs.append(log, &groups, &seen);
        });
        self.go_on();
    }

    /// A thread that waits at a named barrier goes on: all have come.
    pub(crate) fn leave_named(&self, thread: u32, id: u32) {
        let Some(&log) = self.named.borrow().get(&id) else { return };
        launch::with(|launch| {
            let len = launch.logs.borrow().logs[log as usize].len;
            add(&mut self.threads.borrow_mut().entry(thread).or_default().seen, Seen { log, len });
        });
    }

    /// The running thread arrives at an mbarrier; a phase of it is over with that if `completes`.
    pub(crate) fn arrive_at_address(&self, address: usize, completes: bool) {
        launch::with(|launch| {
            let mut logs = launch.logs.borrow_mut();
            let (groups, seen) = self.knowledge(self.thread.get(), now());
            let log = logs.log_of(address);
            logs.append(log, &groups, &seen);
            if completes {
                let len = logs.all_of(log).len;
                logs.by_address.entry(address).or_default().to_all = Some((log, len));
            }
        });
        self.go_on();
    }

    /// A thread finds that a phase of an mbarrier is over.
    pub(crate) fn leave_address(&self, thread: u32, address: usize) {
        launch::with(|launch| {
            if let Some((log, len)) = launch.logs.borrow().by_address.get(&address).and_then(|released| released.to_all)
            {
                add(&mut self.threads.borrow_mut().entry(thread).or_default().seen, Seen { log, len });
            }
        });
    }

    /// What a thread lets others know: turns of its groups up to now, and what it knows of others.
    fn knowledge(&self, thread: u32, now: u32) -> (Vec<(Group, u32)>, Vec<Seen>) {
        let who = self.who(thread);
        let mut groups = vec![(Group::Thread(who.0), now)];
        let floor = self.floor.get();
        let warp = self.warps[(thread / WARP_SIZE) as usize].get();
        if warp > floor {
            groups.push((Group::Warp(who.0 / u64::from(WARP_SIZE)), warp));
        }
        groups.push((Group::Block(who.block()), floor));
        if self.cluster.get() > 0
            && let Some(cluster) = launch::with(|launch| launch.cluster_of(who.block())).flatten()
        {
            groups.push((Group::Cluster(cluster), self.cluster.get()));
        }
        if let Some(own) = self.lanes.borrow().get(&thread) {
            let first = who.0 / u64::from(WARP_SIZE) * u64::from(WARP_SIZE);
            let others = (first..).zip(own).filter(|&(lane, &turn)| turn > 0 && lane != who.0);
            groups.extend(others.map(|(lane, &turn)| (Group::Thread(lane), turn)));
        }
        let mut seen = self.known.borrow().clone();
        if let Some(own) = self.threads.borrow().get(&thread) {
            own.seen.iter().for_each(|&own| add(&mut seen, own));
        }
        (groups, seen)
    }

    /// The running thread makes an atomic access.
    fn atomic(&self, address: usize, does: Atomic) {
        let Atomic { reads, writes, acquires, releases, in_block } = does;
        let thread = self.thread.get();
        launch::with(|launch| {
            let mut logs = launch.logs.borrow_mut();
            if !acquires && !releases && logs.by_address.is_empty() && self.threads.borrow().is_empty() {
                return;
            }
            if reads && let Some(released) = logs.by_address.get(&address) {
                let to_all = released.to_all.filter(|_| !in_block).map(|(log, _)| logs.all_of(log));
                let to_block = released.to_blocks.get(&self.number.get()).filter(|_| in_block || released.has_private);
                let to_block = to_block.map(|&log| logs.all_of(log));
                let mut threads = self.threads.borrow_mut();
                let known = threads.entry(thread).or_default();
                if acquires {
                    to_all.into_iter().chain(to_block).for_each(|seen| add(&mut known.seen, seen));
                } else {
                    // A fence for the block may come, whose part of it what all may know is kept twice for.
                    let to_block = released.to_blocks.get(&self.number.get()).map(|&log| logs.all_of(log));
                    to_all.into_iter().for_each(|seen| add(&mut known.pending, seen));
                    to_block.into_iter().for_each(|seen| add(&mut known.pending_of_block, seen));
                }
            }
            if !writes {
                return;
            }
            // A store ends what was released there before; what reads and writes carries it on.
            if !reads {
                logs.by_address.remove(&address);
            }
            let now = releases.then(|| self.knowledge(thread, now()));
            let at_fence = |fence: &Option<(u32, Vec<Seen>)>| {
                fence.clone().map(|(turn, seen)| (self.knowledge(thread, turn).0, seen))
            };
            let threads = self.threads.borrow();
            let known = threads.get(&thread);
            let to_block = now.clone().or_else(|| known.and_then(|known| at_fence(&known.fence_of_block)));
            let to_all = now.or_else(|| known.and_then(|known| at_fence(&known.fence))).filter(|_| !in_block);
            drop(threads);
            if let Some((groups, seen)) = to_block {
                let log = logs.log_of_block(address, self.number.get());
                logs.append(log, &groups, &seen);
                if to_all.is_none() {
                    logs.by_address.entry(address).or_default().has_private = true;
                }
            }
            if let Some((groups, seen)) = to_all {
                let log = logs.log_of(address);
                logs.append(log, &groups, &seen);
            }
        });
        if writes && releases {
            self.go_on();
        }
    }

    /// The running thread makes a fence, for all or for the threads of its block.
    fn fence(&self, acquires: bool, releases: bool, in_block: bool) {
        let thread = self.thread.get();
        if acquires && let Some(known) = self.threads.borrow_mut().get_mut(&thread) {
            for seen in std::mem::take(&mut known.pending_of_block) {
                add(&mut known.seen, seen);
            }
            let rest = if in_block { Vec::new() } else { std::mem::take(&mut known.pending) };
            for seen in rest {
                add(&mut known.seen, seen);
            }
        }
        if releases {
            let (_, seen) = self.knowledge(thread, now());
            let fence = Some((now(), seen));
            let mut threads = self.threads.borrow_mut();
            let known = threads.entry(thread).or_default();
            if !in_block {
                known.fence.clone_from(&fence);
            }
            known.fence_of_block = fence;
            drop(threads);
            self.go_on();
        }
    }

    /// Lanes of a warp have met, the given thread as the first of them: reports a mask that names lanes which have ended, or which the warp does not have. The
    /// full mask is all that there are.
    pub(crate) fn look_at_mask(&self, thread: u32, place: Place, name: &str, mask: u32, existing: u32, exited: u32) {
        let missing = if mask == u32::MAX { 0 } else { mask & !existing };
        // A lane that panicked is reported as such.
        if !self.panicked.get() && (mask & exited != 0 || missing != 0) {
            super::report::mask(self.who(thread), place, name, mask, mask & exited, missing);
        }
    }

    /// Whether a thread of the block has panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        self.panicked.get()
    }

    /// The linear number of the block.
    pub(crate) fn number(&self) -> u64 {
        self.number.get()
    }

    fn who(&self, thread: u32) -> Who {
        Who::new(self.number.get(), thread)
    }

    /// Whether the running thread knows that a turn of a thread is past, other than by its block's and warp's last meetings.
    fn knows(&self, turn: u32, who: Who, granule: usize) -> bool {
        let own = self.who(self.thread.get());
        if who.block() == own.block() {
            if who.0 / u64::from(WARP_SIZE) == own.0 / u64::from(WARP_SIZE)
                && let Some(lanes) = self.lanes.borrow().get(&own.thread())
                && turn < lanes[(who.thread() % WARP_SIZE) as usize]
            {
                return true;
            }
        } else {
            let of_cluster = launch::with(|launch| launch.cluster_of(who.block()) == launch.cluster_of(own.block()));
            if of_cluster == Some(true) {
                if turn < self.cluster.get() {
                    return true;
                }
            } else if super::shadow::is_shared(granule) {
                // Of a cluster whose shared memory had been there before.
                return true;
            }
        }
        let known = self.known.borrow();
        let threads = self.threads.borrow();
        let seen = threads.get(&own.thread()).map_or(&[][..], |known| &known.seen);
        if known.is_empty() && seen.is_empty() {
            return false;
        }
        let all = known.iter().chain(seen).copied();
        launch::with(|launch| launch.logs.borrow().say(all, turn, who)).unwrap_or(false)
    }
}

/// The block whose thread runs.
fn running<R>(f: impl FnOnce(&BlockClocks) -> R) -> Option<R> {
    let clocks = NOW.clocks.load(Ordering::Relaxed);
    // SAFETY: a block that runs is kept by whoever runs it, and when the launch ends there is none.
    (!clocks.is_null()).then(|| f(unsafe { &*clocks }))
}

/// Runs threads of the context's block as [`Context::run_threads`] does, each in a turn of its own. The executor has turned to the
/// first.
///
/// # Safety
/// As there; all of them are of one block, in a checked launch.
pub(crate) unsafe fn run_threads(context: &mut Context<'_>, first: u32, count: u64, thread: impl Fn(&Scope)) {
    let next = Cell::new(first);
    let in_turn = |scope: &Scope| {
        let number = next.replace(next.get() + 1);
        if number != first {
            running(|clocks| clocks.turn_to(number));
        }
        thread(scope);
    };
    // SAFETY: the caller promises it.
    unsafe { context.run_threads(first, count, &in_turn) }
}

/// Whether the running thread knows that a turn is past, other than by its block's and warp's last meetings.
#[inline(never)]
pub(super) fn is_known(turn: u32, granule: usize) -> bool {
    let who = Who(owner(turn));
    running(|clocks| clocks.knows(turn, who, granule)).unwrap_or(false)
}

/// The running block is given shared memory.
pub(super) fn give_shared(start: usize, bytes: usize) {
    running(|clocks| clocks.shared.borrow_mut().push((start, bytes)));
}

/// Whether two threads are of different clusters.
pub(super) fn are_of_different_clusters(one: Who, other: Who) -> bool {
    let differ = launch::with(|launch| launch.cluster_of(one.block()) != launch.cluster_of(other.block()));
    differ.unwrap_or(false)
}

/// The running thread makes an atomic access.
pub(super) fn atomic(address: usize, does: Atomic) {
    running(|clocks| clocks.atomic(address, does));
}

/// The running thread makes a fence.
pub(super) fn fence(acquires: bool, releases: bool, in_block: bool) {
    running(|clocks| clocks.fence(acquires, releases, in_block));
}
