//! Where the threads of one block meet: barriers, warp operations, shared memory.
//!
//! All threads of a block run on one core, so the state needs no lock. A thread that has to wait notes what for and
//! suspends its coroutine; the last to arrive wakes the others and goes on without suspending.

mod operations;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use warpsmith_device::Dim3;
use warpsmith_device::host::{
    self, Arrived, BarrierVotes, Gathered, Met, Place, SharedKey, WARP_SIZE, WarpOperation, lanes,
};

use super::named::{Arrival, NamedBarriers};
use super::shared::SharedMemory;
use crate::check::{self, BlockClocks};

/// The block that runs on a core.
pub(super) struct Meeting {
    threads: u32,
    block_dim: Dim3,
    shared_bytes: usize,
    coroutines: bool, // Whether the threads are such, and so can wait.
    syncs_grid: bool,
    scheduled: bool, // Whether a thread suspends wherever others may go on, also where it need not wait.
    clocks: Option<BlockClocks>, // In a checked launch.
    cluster: OnceCell<Vec<Weak<Self>>>, // By rank; unset where the block is alone in its cluster.
    shared: RefCell<SharedMemory>,
    suspended: Cell<u32>, // The thread that was last told to suspend.
    aborting: Cell<bool>,
    failed: Cell<bool>,    // Whether `State::failure` may hold one.
    state: RefCell<State>, // Never borrowed while a thread suspends.
}

#[derive(Default)]
struct State {
    next: u32,
    live: u32,
    barrier: Barrier,
    at_team: u32, // Threads with `Wait::Team`.
    named: NamedBarriers,
    woken: Woken, // Before those in `ready`.
    ready: VecDeque<u32>,
    threads: Vec<Thread>,
    warps: Vec<Warp>,
    failure: Option<Failure>,
    rounds: u32,           // How often in a row those that poll went on because no other could.
    arriving: Option<u32>, // The thread whose arrival is being worked out: it runs and needs no waking.
}

/// The block's barrier. All that is done at each arrival is to count.
#[derive(Default)]
struct Barrier {
    come: u32,
    votes: u32,
    first: Option<Place>, // Where the first of those that have come is.
    elsewhere: bool,      // Whether some other may be elsewhere.
    over: BarrierVotes,   // Of the barrier that was over last.
}

/// The threads that the block's barrier let go on and that have not done so yet: those with `Wait::Barrier` from this one on. Nobody
/// passes the next barrier before they all have, so that none of them waits there.
#[derive(Default)]
struct Woken {
    next: u32,
    /// The thread that came last: it went on at once, and may wait at the next barrier already.
    last_to_come: Option<u32>,
}

#[derive(Clone, Copy, Default)]
struct Thread {
    wait: Wait,
    frame: usize, // An address near the end of the stack's used part, where the thread suspended last.
}

#[derive(Clone)]
struct Warp {
    existing: u32,
    exited: u32,
    meeting: u32,       // Lanes with `Wait::Lanes`.
    reads_outside: u32, // Lanes whose shuffle's source was not among those that met; the result is their own value.
    lanes: [Lane; WARP_SIZE as usize],
    gathered: [Option<Rc<Gathered>>; WARP_SIZE as usize], // What lanes were woken with from an operation that gathers, until they take it.
}

/// What a lane brought to the warp operation that it came to last, and what it got.
#[derive(Clone, Copy)]
struct Lane {
    operation: WarpOperation,
    value: u128,
    result: u128,
}

/// What a thread waits for.
#[derive(Clone, Copy, Default)]
enum Wait {
    #[default]
    Nothing,
    Barrier(Place),
    Lanes {
        place: Place,
        mask: u32,
    },
    Activemask(Place),
    Named {
        place: Place,
        id: u32,
    },
    Address {
        place: Place,
        address: usize,
    },
    /// For others to go on, or for the mbarrier.
    Poll {
        place: Place,
        address: usize,
    },
    Team(Team, Place),
}

/// Most rounds in which every thread of a block that can go on polls: it may have something else to do after so many looks.
const MOST_ROUNDS: u32 = 20_000;

/// Several blocks that meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Team {
    /// All blocks of a cooperative launch.
    Grid,
    /// Those of a cluster.
    Cluster,
}

impl Team {
    /// How a message names its barrier.
    pub(super) fn barrier(self) -> &'static str {
        match self {
            Self::Grid => "grid sync",
            Self::Cluster => "cluster sync",
        }
    }
}

impl Wait {
    fn place(self) -> Option<Place> {
        match self {
            Self::Nothing => None,
            Self::Barrier(place) | Self::Lanes { place, .. } | Self::Activemask(place) => Some(place),
            Self::Named { place, .. }
            | Self::Address { place, .. }
            | Self::Poll { place, .. }
            | Self::Team(_, place) => Some(place),
        }
    }
}

/// Why the threads of a block can't go on, seen from one of them.
#[derive(Clone)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) place: Option<Place>,
    pub(super) thread: u32,
}

/// Bytes of a suspended thread's stack that it is about to use, below and above where it suspended.
const FRAMES_BELOW: usize = 128;
const FRAMES_ABOVE: usize = 448;
/// Bytes of a page of memory, on the systems that have the smallest.
const PAGE: usize = 4096;

/// Has the caches fetch what a thread that suspended with its stack near this address reads first when it goes on.
fn prefetch_stack(frame: usize) {
    #[cfg(target_arch = "x86_64")]
    if frame != 0 {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // Beyond the page may be the stack's end, and to look up what is not there takes longest.
        let end = (frame + FRAMES_ABOVE).min(frame.next_multiple_of(PAGE));
        for line in (frame - FRAMES_BELOW..end).step_by(64) {
            // SAFETY: a prefetch of any address does nothing but that; every x86-64 has it.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = frame;
}

/// One place may have several addresses, but mostly has one.
fn same(a: Place, b: Place) -> bool {
    std::ptr::eq(a, b) || a == b
}

impl Meeting {
    /// For blocks of this shape, whose threads are coroutines if `coroutines`.
    pub(super) fn new(block_dim: Dim3, shared_bytes: usize, coroutines: bool) -> Self {
        let threads = u32::try_from(block_dim.count()).expect("a block's size was checked before the launch");
        Self {
            threads,
            block_dim,
            shared_bytes,
            coroutines,
            syncs_grid: false,
            scheduled: false,
            clocks: None,
            cluster: OnceCell::new(),
            shared: RefCell::default(),
            suspended: Cell::new(0),
            aborting: Cell::new(false),
            failed: Cell::new(false),
            state: RefCell::default(),
        }
    }

    /// The same, where threads may wait for the whole grid if `syncs_grid`, which whoever runs the block sees to.
    pub(super) fn syncing_grid(mut self, syncs_grid: bool) -> Self {
        self.syncs_grid = syncs_grid;
        self
    }

    /// The same, where whoever runs the block decides each time which of the threads that can go on does.
    pub(super) fn scheduled(mut self, scheduled: bool) -> Self {
        self.scheduled = scheduled;
        self
    }

    /// The same, for a launch that is checked if `checked`.
    pub(super) fn checked(mut self, checked: bool) -> Self {
        if checked {
            self.clocks = Some(BlockClocks::new());
            self.shared = RefCell::new(SharedMemory::checked());
        }
        self
    }

    /// Makes the block one of a cluster, of which it knows the others by rank.
    pub(super) fn join_cluster(&self, cluster: &[Rc<Self>]) {
        if cluster.len() > 1 {
            self.cluster.get_or_init(|| cluster.iter().map(Rc::downgrade).collect());
        }
    }

    /// The next thread that has not started, for the calling coroutine to run.
    pub(super) fn start(&self) -> Option<u32> {
        let mut state = self.state.borrow_mut();
        let thread = state.next;
        (thread < self.threads).then(|| {
            state.next += 1;
            thread
        })
    }

    /// Whether some thread has not started.
    pub(super) fn has_unstarted(&self) -> bool {
        self.state.borrow().next < self.threads
    }

    /// How many threads have not ended.
    pub(super) fn live(&self) -> u32 {
        self.state.borrow().live
    }

    /// Whether every thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.state.borrow().live == 0
    }

    /// Turns to a thread that starts or goes on now.
    #[inline]
    pub(super) fn turn_to(&self, thread: u32) {
        if let Some(clocks) = &self.clocks {
            clocks.turn_to(thread);
        }
    }

    /// In a checked launch, notes why its threads can't go on, unless one of them has panicked, which says it all; and says that it
    /// has.
    pub(super) fn note_stuck(&self, failure: &Failure) -> bool {
        let Some(clocks) = &self.clocks else { return false };
        if clocks.has_panicked() {
            return true;
        }
        check::stuck(clocks.number(), failure.thread, failure.place, &failure.message);
        true
    }

    /// In a checked launch, notes that a block of the cluster has ended while this one waits at the cluster's barrier.
    pub(super) fn note_ended(&self, ended: &Self, place: Place, waiting: u32) {
        if let (Some(clocks), Some(of_ended)) = (&self.clocks, &ended.clocks)
            && !of_ended.has_panicked()
        {
            clocks.look_at_ended(of_ended, place, waiting);
        }
    }

    /// The next thread that was woken. The stack of one that comes soon after it is fetched into the caches meanwhile: a block's stacks
    /// together are larger than the first of them.
    pub(super) fn take_ready(&self) -> Option<u32> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(thread) = state.woken.take(&mut state.threads) {
            if let Some(soon) = state.threads.get(thread as usize + 2) {
                prefetch_stack(soon.frame);
            }
            return Some(thread);
        }
        let thread = state.ready.pop_front();
        if let Some(&soon) = state.ready.get(1) {
            prefetch_stack(state.threads[soon as usize].frame);
        }
        thread
    }

    /// Why the block can't go on, if it can't.
    #[inline]
    pub(super) fn take_failure(&self) -> Option<Failure> {
        if !self.failed.get() {
            return None;
        }
        self.failed.set(false);
        self.state.borrow_mut().failure.take()
    }

    /// Notes why the block can't go on.
    fn fail(&self, state: &mut State, failure: Failure) {
        state.failure = Some(failure);
        self.failed.set(true);
    }

    /// From here on, suspended threads are only unwound.
    pub(super) fn abort(&self) {
        self.aborting.set(true);
    }

    /// Whether suspended threads are being unwound.
    pub(super) fn is_aborting(&self) -> bool {
        self.aborting.get()
    }

    /// The thread that suspended last.
    pub(super) fn suspended(&self) -> u32 {
        self.suspended.get()
    }

    /// Notes that a thread has ended, by a panic or not, which may be what others wait for.
    pub(super) fn finish(&self, thread: u32, panicked: bool) {
        if let Some(clocks) = &self.clocks {
            clocks.end(thread, panicked);
        }
        let mut state = self.state.borrow_mut();
        let warp = (thread / WARP_SIZE) as usize;
        state.live -= 1;
        state.rounds = 0;
        state.warps[warp].exited |= 1 << (thread % WARP_SIZE);
        if state.barrier.come > 0 && state.barrier.come == state.live {
            self.release_barrier(&mut state);
        }
        // Each round looks at the group of the lowest lane not looked at yet.
        let mut open = state.warps[warp].meeting;
        while open != 0 {
            let lane = open.trailing_zeros();
            let Wait::Lanes { mask, .. } = state.threads[warp * WARP_SIZE as usize + lane as usize].wait else {
                unreachable!("`meeting` names lanes that wait for lanes")
            };
            self.try_release_lanes(&mut state, warp, mask);
            open &= !mask & !(1 << lane);
        }
    }

    /// Called when all live threads wait: if all wait for other blocks, which and where. Notes it when they do so at
    /// different places.
    pub(super) fn waits_for_team(&self) -> Option<(Team, Place, u32)> {
        let mut state = self.state.borrow_mut();
        if state.at_team == 0 || state.at_team != state.live {
            return None;
        }
        let mut waiting = (0_u32..).zip(&state.threads).filter_map(|(thread, t)| match t.wait {
            Wait::Team(team, place) => Some((thread, team, place)),
            _ => None,
        });
        let (thread, team, place) = waiting.next().expect("`at_team` counts such threads");
        if let Some((other, other_team, other_place)) = waiting.find(|w| w.1 != team || !same(w.2, place)) {
            let message = format!(
                "threads of the block are at different barriers of several blocks: thread {} at the {} at {place}, thread \
                 {} at the {} at {other_place}",
                self.position(thread),
                team.barrier(),
                self.position(other),
                other_team.barrier()
            );
            self.fail(&mut state, Failure { message, place: Some(place), thread });
            return None;
        }
        Some((team, place, thread))
    }

    /// Wakes the threads that wait for other blocks.
    pub(super) fn release_team(&self) {
        let mut state = self.state.borrow_mut();
        state.at_team = 0;
        let waiting = (0..).zip(&state.threads).find_map(|(thread, t)| match t.wait {
            Wait::Team(team, place) => Some((team, place, thread)),
            _ => None,
        });
        if let (Some(clocks), Some((team, place, thread))) = (&self.clocks, waiting) {
            clocks.sync_blocks(team == Team::Grid, place, thread);
        }
        for thread in 0..state.threads.len() {
            if let Wait::Team(..) = state.threads[thread].wait {
                wake(&mut state, thread);
            }
        }
    }

    /// Called when all live threads wait: lets those that asked for the active mask go on, the last to be decided.
    pub(super) fn resolve_stall(&self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        for warp in 0..state.warps.len() {
            let first = warp * WARP_SIZE as usize;
            let asking = |state: &State, lane: u32| match state.threads[first + lane as usize].wait {
                Wait::Activemask(place) => Some(place),
                _ => None,
            };
            let mut open = lanes(state.warps[warp].existing)
                .filter(|&lane| asking(state, lane).is_some())
                .fold(0_u32, |mask, lane| mask | 1 << lane);
            while open != 0 {
                let place = asking(state, open.trailing_zeros());
                let together =
                    lanes(open).filter(|&lane| asking(state, lane) == place).fold(0_u32, |mask, lane| mask | 1 << lane);
                for lane in lanes(together) {
                    state.warps[warp].lanes[lane as usize].result = u128::from(together);
                    wake(state, first + lane as usize);
                }
                open &= !together;
            }
        }
        if state.ready.is_empty() && state.rounds < MOST_ROUNDS {
            let rounds = state.rounds + 1;
            for thread in 0..state.threads.len() {
                if let Wait::Poll { .. } = state.threads[thread].wait {
                    wake(state, thread);
                }
            }
            state.rounds = rounds;
        }
        if state.ready.is_empty() {
            let failure = self.describe_stall(state);
            self.fail(state, failure);
        }
    }

    fn describe_stall(&self, state: &State) -> Failure {
        let mut waiting =
            (0_u32..).zip(&state.threads).filter_map(|(thread, t)| Some((thread, t.wait, t.wait.place()?)));
        let (thread, wait, place) = waiting.next().expect("a stalled block has waiting threads");
        let other = waiting.find(|&(_, _, other)| !same(other, place));
        let describe = |thread, wait| self.describe(state, thread, wait);
        let other = other.map_or_else(String::new, |(other, wait, _)| format!("; {}", describe(other, wait)));
        let message = format!("threads of the block wait for each other in vain: {}{other}", describe(thread, wait));
        Failure { message, place: Some(place), thread }
    }

    fn describe(&self, state: &State, thread: u32, wait: Wait) -> String {
        let position = self.position(thread);
        match wait {
            Wait::Nothing => format!("thread {position} runs"),
            Wait::Barrier(place) => format!("thread {position} waits at the barrier at {place}"),
            Wait::Lanes { place, mask } => {
                let name = state.lane(thread).operation.name();
                format!("thread {position} waits in `{name}` for the lanes {mask:#010x} at {place}")
            }
            Wait::Activemask(place) => format!("thread {position} waits in `activemask` at {place}"),
            Wait::Named { place, id } => {
                let (come, expected) = state.named.progress(id);
                format!(
                    "thread {position} waits at named barrier {id} at {place}, to which {come} of {expected} threads have come"
                )
            }
            Wait::Address { place, .. } => format!("thread {position} waits at the mbarrier at {place}"),
            Wait::Poll { place, .. } => format!("thread {position} asks for the mbarrier again and again at {place}"),
            Wait::Team(team, place) => format!("thread {position} waits at the {} at {place}", team.barrier()),
        }
    }

    pub(super) fn position(&self, thread: u32) -> Dim3 {
        let Dim3 { x, y, .. } = self.block_dim;
        Dim3 { x: thread % x, y: thread / x % y, z: thread / x / y }
    }

    /// Notes that a thread, which has noted what it waits for, suspends right now.
    #[inline(always)]
    fn note_suspending(&self, state: &mut State, thread: u32) {
        self.suspended.set(thread);
        let here = 0_u8;
        state.threads[thread as usize].frame = (&raw const here).addr();
    }

    /// Wakes all threads from a barrier that all live ones have reached, or notes that they are at different ones.
    fn release_barrier(&self, state: &mut State) {
        if (state.barrier.elsewhere || self.clocks.is_some()) && !self.look_at_places(state) {
            return;
        }
        let Barrier { come, votes, .. } = state.barrier;
        state.barrier = Barrier { over: BarrierVotes { count: votes, total: come }, ..Barrier::default() };
        state.rounds = 0;
        state.woken = Woken { next: 0, last_to_come: state.arriving };
        if let Some(arriving) = state.arriving {
            state.threads[arriving as usize].wait = Wait::Nothing;
        }
    }

    /// Whether all threads that wait at the block's barrier are at one place, which the checker is then told; notes it when they are
    /// not.
    #[cold]
    fn look_at_places(&self, state: &mut State) -> bool {
        let mut waiting = (0_u32..).zip(&state.threads).filter_map(|(thread, t)| match t.wait {
            Wait::Barrier(place) => Some((thread, place)),
            _ => None,
        });
        let (thread, place) = waiting.next().expect("called when threads wait at a barrier");
        if let Some((other, other_place)) = waiting.find(|&(_, other)| !same(other, place)) {
            let message = format!(
                "threads of the block are at different barriers: thread {} at {place}, thread {} at {other_place}",
                self.position(thread),
                self.position(other)
            );
            self.fail(state, Failure { message, place: Some(place), thread });
            return false;
        }
        if let Some(clocks) = &self.clocks {
            clocks.sync_threads(place, thread);
        }
        true
    }

    /// Counts a thread in at a named barrier, and wakes those that wait there if it is the last.
    fn come_to_named(&self, state: &mut State, thread: u32, place: Place, id: u32, threads: u32, waits: bool) {
        if let Some(clocks) = &self.clocks {
            clocks.arrive_at_named(thread, id);
        }
        let message = match state.named.arrive(thread, place, id, threads, self.threads) {
            Arrival::Counted => {
                if waits {
                    state.threads[thread as usize].wait = Wait::Named { place, id };
                }
                return;
            }
            Arrival::Complete => {
                if let Some(clocks) = self.clocks.as_ref().filter(|_| waits) {
                    clocks.leave_named(thread, id);
                }
                for other in 0..state.threads.len() {
                    if matches!(state.threads[other].wait, Wait::Named { id: own, .. } if own == id) {
                        if let Some(clocks) = &self.clocks {
                            clocks.leave_named(other as u32, id);
                        }
                        wake(state, other);
                    }
                }
                return;
            }
            Arrival::Disagrees(first, first_place, expected) => format!(
                "threads count differently at named barrier {id}: thread {} to {expected} at {first_place}, thread {} to \
                 {threads} at {place}",
                self.position(first),
                self.position(thread)
            ),
            Arrival::TooMany(all) => {
                format!("{all} threads came to named barrier {id}, which waits for {threads}")
            }
        };
        self.fail(state, Failure { message, place: Some(place), thread });
        // Whoever runs the block sees the failure when this thread suspends.
        state.threads[thread as usize].wait = Wait::Named { place, id };
    }

    /// Wakes the lanes of `mask` if all live ones wait with that mask, or notes that they do different things.
    fn try_release_lanes(&self, state: &mut State, number: usize, mask: u32) {
        let warp = &mut state.warps[number];
        let members = mask & warp.existing & !warp.exited;
        if members & !warp.meeting != 0 {
            return;
        }
        let first = number * WARP_SIZE as usize;
        let threads = &state.threads[first..];
        let mut values = [0_u128; WARP_SIZE as usize];
        let mut leader: Option<(u32, Place, WarpOperation)> = None;
        for lane in lanes(members) {
            let Wait::Lanes { place, mask: own_mask } = threads[lane as usize].wait else {
                unreachable!("`meeting` names lanes that wait for lanes")
            };
            if own_mask != mask {
                return;
            }
            let Lane { operation, value, .. } = warp.lanes[lane as usize];
            values[lane as usize] = value;
            let (leading, leading_place, leading_operation) = *leader.get_or_insert((lane, place, operation));
            if !operation.is_like(leading_operation) {
                let (a, b) = (leading_operation.name(), operation.name());
                let (leading, own) = (first as u32 + leading, first as u32 + lane);
                let message = format!(
                    "lanes of one mask do different things: thread {} is in `{a}` at {leading_place}, thread {} in `{b}` at {place}",
                    self.position(leading),
                    self.position(own)
                );
                self.fail(state, Failure { message, place: Some(leading_place), thread: leading });
                return;
            }
        }
        if let (Some(clocks), Some((lane, place, operation))) = (&self.clocks, leader) {
            clocks.look_at_mask(first as u32 + lane, place, operation.name(), mask, warp.existing, warp.exited);
            if operation == WarpOperation::Sync {
                clocks.sync_lanes(number as u32, members, members == warp.existing);
            }
        }
        warp.meeting &= !members;
        warp.reads_outside &= !members;
        let gathers = leader.is_some_and(|(.., operation)| matches!(operation, WarpOperation::Gather(_)));
        let gathered = gathers.then(|| Rc::new(Gathered { members, values }));
        for lane in lanes(members) {
            let own = &mut warp.lanes[lane as usize];
            let result = own.operation.result(lane, members, &values);
            own.result = result.unwrap_or(own.value);
            warp.reads_outside |= u32::from(result.is_none()) << lane;
            if gathers {
                warp.gathered[lane as usize].clone_from(&gathered);
            }
        }
        for lane in lanes(members) {
            wake(state, first + lane as usize);
        }
    }

    /// Whether a thread has no one to meet: it unwinds, or it is alone in its block.
    #[inline]
    fn is_alone(&self) -> bool {
        // A thread that panicked has left the block; what its destructors call must not suspend it.
        self.threads == 1 || std::thread::panicking()
    }

    /// Notes that a thread has come to something, as `arrive` does. Says whether it goes on at once, which it does when what it would
    /// wait for has come about by that; else it has to suspend.
    #[inline(always)]
    fn come(&self, thread: u32, arrive: impl FnOnce(&Self, &mut State)) -> bool {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        // A thread that has caught its own unwinding is unwound again from where it suspends.
        if !self.is_aborting() {
            state.arriving = Some(thread);
            arrive(self, state);
            state.arriving = None;
            if let Wait::Nothing = state.threads[thread as usize].wait {
                if !self.scheduled {
                    return true;
                }
                state.ready.push_back(thread);
            }
        }
        self.note_suspending(state, thread);
        false
    }

    /// Lets a thread wait as `arrive` notes, unless what it waits for has come about by its arrival.
    fn wait(&self, thread: u32, arrive: impl FnOnce(&Self, &mut State)) {
        if !self.come(thread, arrive) {
            suspend_current();
        }
    }

    /// Lets a thread come to the lanes of `mask`; says whether they have all come, so that its result is there.
    #[inline(always)]
    fn come_to_lanes(&self, thread: u32, place: Place, mask: u32, operation: WarpOperation, value: u128) -> bool {
        self.come(thread, |meeting, state| {
            let (warp, lane) = ((thread / WARP_SIZE) as usize, thread % WARP_SIZE);
            state.threads[thread as usize].wait = Wait::Lanes { place, mask };
            let own = &mut state.warps[warp];
            own.lanes[lane as usize] = Lane { operation, value, result: 0 };
            own.meeting |= 1 << lane;
            meeting.try_release_lanes(state, warp, mask);
        })
    }
}

/// Suspends the thread that runs.
fn suspend_current() {
    host::try_current(|context| context.suspend()).expect("a thread that waits has a context");
}

impl Warp {
    /// So many lanes, none of which has come to anything.
    fn new(lanes: u32) -> Self {
        let lane = Lane { operation: WarpOperation::Sync, value: 0, result: 0 };
        Self {
            existing: u32::MAX >> (WARP_SIZE - lanes),
            exited: 0,
            meeting: 0,
            reads_outside: 0,
            lanes: [lane; WARP_SIZE as usize],
            gathered: Default::default(),
        }
    }

    /// Turns to a new block. What lanes brought and got before stays, since none asks for it before it has come to something.
    fn next_block(&mut self) {
        self.exited = 0;
        self.meeting = 0;
        self.reads_outside = 0;
    }
}

impl State {
    fn lane(&self, thread: u32) -> &Lane {
        &self.warps[(thread / WARP_SIZE) as usize].lanes[(thread % WARP_SIZE) as usize]
    }
}

impl Woken {
    /// The next of these threads, which then waits for nothing.
    #[inline]
    fn take(&mut self, threads: &mut [Thread]) -> Option<u32> {
        while let Some(thread) = threads.get_mut(self.next as usize) {
            let number = self.next;
            self.next += 1;
            if let Wait::Barrier(_) = thread.wait
                && self.last_to_come != Some(number)
            {
                thread.wait = Wait::Nothing;
                return Some(number);
            }
        }
        None
    }

    fn is_empty(&self, threads: &[Thread]) -> bool {
        (self.next..)
            .zip(threads.iter().skip(self.next as usize))
            .all(|(number, thread)| !matches!(thread.wait, Wait::Barrier(_)) || self.last_to_come == Some(number))
    }
}

fn wake(state: &mut State, thread: usize) {
    state.rounds = 0;
    state.threads[thread].wait = Wait::Nothing;
    if state.arriving != Some(thread as u32) {
        state.ready.push_back(thread as u32);
    }
}

impl Meeting {
    /// Lets the threads go on that wait for the mbarrier at the address.
    fn wake_at(&self, address: usize) {
        let mut state = self.state.borrow_mut();
        for thread in 0..state.threads.len() {
            let (Wait::Address { address: own, .. } | Wait::Poll { address: own, .. }) = state.threads[thread].wait
            else {
                continue;
            };
            if own == address {
                wake(&mut state, thread);
            }
        }
        // One that has caught its own unwinding goes on to where it is unwound again.
        let others_can = !state.ready.is_empty() || !state.woken.is_empty(&state.threads);
        if self.scheduled && self.coroutines && others_can && !self.is_aborting() && !self.is_alone() {
            let Some(thread) = host::try_current(|context| context.thread()) else { return };
            state.ready.push_back(thread);
            self.note_suspending(&mut state, thread);
            drop(state);
            suspend_current();
        }
    }
}
