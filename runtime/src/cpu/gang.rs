//! Runs blocks that wait for each other: those of a cluster, or all of a cooperative launch, alive at once.
//!
//! Each core keeps its own blocks to the end, because code that was suspended on one thread of the operating system may
//! remember that thread; a cluster is one core's as a whole. The core runs its blocks one after another until each has ended
//! or waits for others. For the grid it then waits for the other cores, and the last of them decides how it goes on. A
//! cooperative launch has threads of its own for that: those of rayon's pool may be busy with another launch that waits
//! likewise.

use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::{Condvar, Mutex, PoisonError};

use warpsmith_device::host::{Block as _, Context, Place, try_current};

use super::block::{Failure, Meeting, Team};
use super::cores::on_cores;
use super::coroutine::{self, Parked, Progress, Stacks, stacks_at_once};
use super::faults;
use super::grid::Grid;

/// Runs a launch in clusters on so many cores, a cluster at a time on each.
pub(super) fn run_clusters(grid: &Grid<'_>, cores: u64) {
    let work = |_| {
        let _entered = faults::Entered::new(grid.request, true);
        let meetings = meetings(grid, 1);
        let mut gang = Gang::new(grid, &meetings);
        while let Some(cluster) = grid.take_cluster() {
            if grid.runs(cluster) {
                gang.turn_to(&[cluster]);
                gang.advance();
            }
        }
    };
    on_cores(cores, &work);
}

/// Runs a cooperative launch on so many cores.
pub(super) fn run_cooperative(grid: &Grid<'_>, cores: u64) {
    let _stacks = Reserved::take(grid.blocks * u64::from(grid.threads));
    let rendezvous = Rendezvous { cores, state: Mutex::default(), bell: Condvar::new() };
    let work = |core: u64| {
        // A core that panics, which would be a fault of the executor's, must not leave the others waiting.
        let _leave = Leave(&rendezvous);
        work(grid, &rendezvous, core);
    };
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = (1..cores).map(|core| scope.spawn(move || work(core))).collect();
        work(0);
        for other in others {
            if let Err(payload) = other.join() {
                resume_unwind(payload);
            }
        }
    });
}

/// The stacks that cooperative launches have reserved.
static RESERVED: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());

/// One launch's stacks. None of its blocks can be put off until others have ended, so the launch as a whole is.
pub(super) struct Reserved(u64);

impl Reserved {
    /// Waits until other cooperative launches leave enough.
    pub(super) fn take(stacks: u64) -> Self {
        let mut reserved = RESERVED.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A launch from inside a kernel might wait for the launch that it is part of.
        let may_wait = try_current(|_| ()).is_none();
        while may_wait && *reserved > 0 && *reserved + stacks > stacks_at_once() {
            reserved = RESERVED.1.wait(reserved).unwrap_or_else(PoisonError::into_inner);
        }
        *reserved += stacks;
        Self(stacks)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        *RESERVED.0.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        RESERVED.1.notify_all();
    }
}

/// One core's part of a cooperative launch: every `cores`-th cluster.
fn work(grid: &Grid<'_>, rendezvous: &Rendezvous, core: u64) {
    let _entered = faults::Entered::new(grid.request, true);
    let clusters: Vec<u64> = (core..grid.clusters()).step_by(rendezvous.cores as usize).collect();
    let meetings = meetings(grid, clusters.len());
    let mut gang = Gang::new(grid, &meetings);
    gang.turn_to(&clusters);
    loop {
        gang.advance();
        match rendezvous.meet(gang.tally(), grid) {
            Verdict::Over => return,
            Verdict::GoOn => gang.blocks.iter_mut().for_each(Block::release),
            Verdict::End(failure) => return gang.end(failure.as_ref()),
        }
    }
}

/// Meetings for the blocks of so many clusters, those of a cluster one after another.
pub(super) fn meetings(grid: &Grid<'_>, clusters: usize) -> Vec<Rc<Meeting>> {
    let request = grid.request;
    let mut all = Vec::new();
    for _ in 0..clusters {
        let new = || {
            let meeting = Meeting::new(request.block_dim, request.shared_bytes, true).checked(request.checked);
            Rc::new(meeting.syncing_grid(request.cooperative).scheduled(request.schedule.is_some()))
        };
        let cluster: Vec<_> = (0..request.cluster_dim.count()).map(|_| new()).collect();
        for meeting in &cluster {
            meeting.join_cluster(&cluster);
        }
        all.extend(cluster);
    }
    all
}

/// The blocks that are alive on a core.
pub(super) struct Gang<'a> {
    grid: &'a Grid<'a>,
    pub(super) blocks: Vec<Block<'a>>, // Those of a cluster one after another, by rank.
    pub(super) stacks: Stacks,
}

impl<'a> Gang<'a> {
    pub(super) fn new(grid: &'a Grid<'a>, meetings: &'a [Rc<Meeting>]) -> Self {
        let request = grid.request;
        let block = |meeting: &'a Rc<Meeting>| Block {
            number: 0,
            parked: Parked::default(),
            context: Context::new(&**meeting, request.scope()),
            meeting,
            seat: Seat::Over,
        };
        Self { grid, blocks: meetings.iter().map(block).collect(), stacks: Stacks::new(request.stack_bytes) }
    }

    /// Turns to new blocks: those of the clusters with these numbers.
    pub(super) fn turn_to(&mut self, clusters: &[u64]) {
        let numbers = clusters.iter().flat_map(|&cluster| self.grid.blocks_of(cluster));
        for (block, number) in self.blocks.iter_mut().zip(numbers) {
            block.number = number;
            block.context.set_block(number);
            block.meeting.next_block(number);
            block.seat = Seat::Runs;
        }
    }

    /// Runs the blocks until each has ended or waits for the grid.
    fn advance(&mut self) {
        loop {
            for block in &mut self.blocks {
                block.advance(self.grid, &mut self.stacks);
            }
            if !self.release_clusters() {
                return;
            }
        }
    }

    /// Once no block can go on alone: lets those of clusters that have met go on, and says whether there were any.
    pub(super) fn release_clusters(&mut self) -> bool {
        let mut goes_on = false;
        for cluster in self.blocks.chunks_mut(self.grid.request.cluster_dim.count() as usize) {
            match at_cluster_sync(cluster) {
                None => {}
                Some(Ok(())) => {
                    note_ended(cluster);
                    cluster.iter_mut().for_each(Block::release);
                    goes_on = true;
                }
                Some(Err(failure)) => {
                    for block in cluster {
                        block.end(self.grid, &mut self.stacks, Some(&failure));
                    }
                }
            }
        }
        goes_on
    }

    /// What the blocks do, once none of them runs.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for block in &self.blocks {
            tally.count(block);
        }
        tally
    }

    /// Ends all blocks; the failure is reported as its block's.
    pub(super) fn end(&mut self, failure: Option<&(u64, Failure)>) {
        for block in &mut self.blocks {
            block.end(self.grid, &mut self.stacks, failure);
        }
    }
}

/// Notes the blocks of a cluster that have ended before its barrier, where others wait.
fn note_ended(cluster: &[Block<'_>]) {
    let waiting = cluster.iter().find_map(|block| match block.seat {
        Seat::Waits(_, place, thread) => Some((block.meeting, place, thread)),
        Seat::Runs | Seat::Over => None,
    });
    let Some((meeting, place, thread)) = waiting else { return };
    for block in cluster.iter().filter(|block| matches!(block.seat, Seat::Over)) {
        meeting.note_ended(block.meeting, place, thread);
    }
}

/// Whether the blocks of a cluster, none of which can go on alone, are at its barrier: `None` when none is, and a failure, with
/// its block, when they are at different ones.
fn at_cluster_sync(cluster: &[Block<'_>]) -> Option<Result<(), (u64, Failure)>> {
    let mut waiting = cluster.iter().filter_map(|block| match block.seat {
        Seat::Waits(team, place, thread) => Some((block, team, place, thread)),
        Seat::Runs | Seat::Over => None,
    });
    let (block, team, place, thread) = waiting.clone().find(|(_, team, ..)| *team == Team::Cluster)?;
    let Some((other, other_team, other_place, _)) = waiting.find(|w| w.1 != team || w.2 != place) else {
        return Some(Ok(()));
    };
    let message = format!(
        "blocks of a cluster are at different barriers: block {} at the {} at {place}, block {} at the {} at {other_place}",
        block.context.block_idx(),
        team.barrier(),
        other.context.block_idx(),
        other_team.barrier()
    );
    Some(Err((block.number, Failure { message, place: Some(place), thread })))
}

/// One of a core's blocks.
pub(super) struct Block<'a> {
    number: u64,
    pub(super) parked: Parked, // Before what its threads borrow, in the order of drops.
    pub(super) context: Context<'a>,
    pub(super) meeting: &'a Meeting,
    pub(super) seat: Seat,
}

/// What a block does.
#[derive(Clone, Copy)]
pub(super) enum Seat {
    Runs,
    Waits(Team, Place, u32),
    Over,
}

impl Block<'_> {
    /// Runs the block as far as it comes alone.
    fn advance(&mut self, grid: &Grid<'_>, stacks: &mut Stacks) {
        if let Seat::Runs = self.seat {
            let Self { context, meeting, parked, .. } = self;
            let progress = coroutine::run_block(grid, context, meeting, stacks, parked);
            self.seat = match progress {
                Progress::Over => Seat::Over,
                Progress::Waits(team, place, thread) => Seat::Waits(team, place, thread),
            };
        }
    }

    /// Lets the threads that wait for other blocks go on.
    pub(super) fn release(&mut self) {
        if let Seat::Waits(..) = self.seat {
            self.meeting.release_team();
            self.seat = Seat::Runs;
        }
    }

    /// Ends the block, with a report if the failure is its own.
    fn end(&mut self, grid: &Grid<'_>, stacks: &mut Stacks, failure: Option<&(u64, Failure)>) {
        if let Seat::Over = self.seat {
            return;
        }
        let Self { context, meeting, parked, .. } = self;
        match failure {
            Some((block, failure)) if *block == self.number => {
                coroutine::give_up(grid, context, meeting, stacks, parked, failure)
            }
            _ => coroutine::end(meeting, stacks, parked),
        };
        self.seat = Seat::Over;
    }
}

/// What the blocks of some cores do, once none of them runs.
#[derive(Default)]
pub(super) struct Tally {
    /// The first block that waits, where, and in which of its threads.
    waiting: Option<(u64, Place, u32)>,
    /// The first block that waits elsewhere than some other, and where.
    elsewhere: Option<(u64, Place)>,
    /// The first block that has ended.
    ended: Option<u64>,
}

impl Tally {
    fn count(&mut self, block: &Block<'_>) {
        match block.seat {
            Seat::Runs => unreachable!("a block runs until it waits or has ended"),
            Seat::Waits(_, place, thread) => self.count_waiting(block.number, place, thread),
            Seat::Over => self.ended = first(self.ended, Some(block.number)),
        }
    }

    fn count_waiting(&mut self, block: u64, place: Place, thread: u32) {
        match self.waiting {
            Some((number, own, _)) if own != place => {
                let other = if number < block { (block, place) } else { (number, own) };
                if self.elsewhere.is_none_or(|(number, _)| other.0 < number) {
                    self.elsewhere = Some(other);
                }
            }
            _ => {}
        }
        if self.waiting.is_none_or(|(number, ..)| block < number) {
            self.waiting = Some((block, place, thread));
        }
    }

    /// Takes another core's blocks in.
    fn add(&mut self, other: Self) {
        if let Some((block, place, thread)) = other.waiting {
            self.count_waiting(block, place, thread);
        }
        if let Some(elsewhere) = other.elsewhere
            && self.elsewhere.is_none_or(|(number, _)| elsewhere.0 < number)
        {
            self.elsewhere = Some(elsewhere);
        }
        self.ended = first(self.ended, other.ended);
    }

    /// How it goes on, now that every block is counted.
    pub(super) fn verdict(&self, grid: &Grid<'_>) -> Verdict {
        let Some((block, place, thread)) = self.waiting else { return Verdict::Over };
        // Who has panicked does not come, and what it should have written is not there.
        if grid.has_panicked() {
            return Verdict::End(None);
        }
        let name = |block: u64| grid.position(block);
        let message = if let Some(ended) = self.ended {
            format!(
                "block {} has ended and does not come to the grid sync at {place}, where block {} waits",
                name(ended),
                name(block)
            )
        } else if let Some((other, other_place)) = self.elsewhere {
            format!(
                "blocks are at different grid syncs: block {} at {place}, block {} at {other_place}",
                name(block),
                name(other)
            )
        } else {
            return Verdict::GoOn;
        };
        Verdict::End(Some((block, Failure { message, place: Some(place), thread })))
    }
}

fn first(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// How a launch goes on once no block can go on alone.
#[derive(Clone)]
pub(super) enum Verdict {
    /// Every block has ended.
    Over,
    /// The blocks that wait go on.
    GoOn,
    /// The blocks that wait end; the failure, if there is one, is the given block's.
    End(Option<(u64, Failure)>),
}

/// Where the cores of a launch meet.
struct Rendezvous {
    cores: u64,
    state: Mutex<Round>,
    bell: Condvar,
}

#[derive(Default)]
struct Round {
    number: u64,
    arrived: u64,
    left: u64, // Cores that do not come any more.
    tally: Tally,
    verdict: Option<Verdict>,
}

impl Rendezvous {
    /// Waits for the other cores, and gives how all go on.
    fn meet(&self, tally: Tally, grid: &Grid<'_>) -> Verdict {
        let mut round = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        round.tally.add(tally);
        round.arrived += 1;
        let own = round.number;
        loop {
            if round.number != own {
                return round.verdict.clone().expect("a round that is over has a verdict");
            }
            if round.arrived + round.left == self.cores {
                let verdict = if round.left > 0 { Verdict::End(None) } else { round.tally.verdict(grid) };
                *round =
                    Round { number: own + 1, verdict: Some(verdict.clone()), left: round.left, ..Round::default() };
                self.bell.notify_all();
                return verdict;
            }
            round = self.bell.wait(round).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A core's presence at the rendezvous.
struct Leave<'a>(&'a Rendezvous);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.lock().unwrap_or_else(PoisonError::into_inner).left += 1;
            self.0.bell.notify_all();
        }
    }
}
