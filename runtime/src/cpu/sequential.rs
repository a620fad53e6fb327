//! Runs a launch under a schedule: block after block on the calling thread, the threads of the blocks that are alive in turns
//! that the schedule decides.

use std::panic::{AssertUnwindSafe, catch_unwind};

use warpsmith_device::host::{Block as _, Context, outside};

use super::block::{Failure, Meeting};
use super::gang::{self, Gang, Reserved, Seat, Verdict, meetings};
use super::grid::Grid;
use super::order::{Sequence, Turns};
use super::panics;
use super::schedule::Schedule;
use super::{coroutine, faults};

/// What sequences of one seed are for; those of a block's threads have 1 and up.
const ORDER_OF_BLOCKS: u64 = 0;

/// Runs the whole grid.
pub(super) fn run(grid: &Grid<'_>, schedule: Schedule) {
    let request = grid.request;
    let coroutines =
        request.cooperative || request.cluster_dim.count() > 1 || (request.needs_coroutines && grid.threads > 1);
    let _entered = faults::Entered::new(request, coroutines);
    if request.cooperative {
        let _stacks = Reserved::take(grid.blocks * u64::from(grid.threads));
        let all: Vec<u64> = (0..grid.clusters()).collect();
        let meetings = meetings(grid, all.len());
        Alive::new(grid, schedule, Gang::new(grid, &meetings)).run(&all, 1);
    } else if coroutines {
        let meetings = meetings(grid, 1);
        let mut alive = Alive::new(grid, schedule, Gang::new(grid, &meetings));
        let order = Sequence::new(schedule, grid.clusters(), ORDER_OF_BLOCKS);
        for index in 0..grid.clusters() {
            if grid.has_panicked() {
                return;
            }
            let cluster = order.at(index);
            alive.run(&[cluster], cluster + 1);
        }
    } else {
        run_calls(grid, schedule);
    }
}

/// Runs a grid whose threads never wait, as plain calls.
fn run_calls(grid: &Grid<'_>, schedule: Schedule) {
    let meeting = Meeting::new(grid.request.block_dim, grid.request.shared_bytes, false).checked(grid.request.checked);
    let mut context = Context::new(&meeting, grid.request.scope());
    if schedule == Schedule::Ascending {
        return outside(|| grid.run_blocks(&mut context, &meeting, 0..grid.blocks));
    }
    let blocks = Sequence::new(schedule, grid.blocks, ORDER_OF_BLOCKS);
    outside(|| {
        for index in 0..grid.blocks {
            if grid.has_panicked() {
                return;
            }
            let block = blocks.at(index);
            context.set_block(block);
            meeting.next_block(block);
            let threads = Sequence::new(schedule, u64::from(grid.threads), block + 1);
            for index in 0..grid.threads {
                let thread = threads.at(u64::from(index)) as u32;
                meeting.turn_to(thread);
                let result = catch_unwind(AssertUnwindSafe(|| (grid.request.body)(&mut context, thread, 1)));
                if let Err(payload) = result {
                    grid.report(panics::caught(&context, &*payload));
                }
            }
        }
    });
}

/// The blocks that are alive, whose threads take turns.
struct Alive<'a> {
    grid: &'a Grid<'a>,
    gang: Gang<'a>,
    turns: Turns,
    able: Vec<u32>, // How many threads of each block can go on.
}

impl<'a> Alive<'a> {
    fn new(grid: &'a Grid<'a>, schedule: Schedule, gang: Gang<'a>) -> Self {
        let turns = Turns::new(schedule, grid.threads);
        Self { grid, gang, turns, able: Vec::new() }
    }

    /// Runs the blocks of these clusters to their end; `purpose` tells their turns from those of others.
    fn run(&mut self, clusters: &[u64], purpose: u64) {
        self.gang.turn_to(clusters);
        self.able.clear();
        self.able.resize(self.gang.blocks.len(), self.grid.threads);
        self.turns.start(self.gang.blocks.len(), purpose);
        loop {
            while let Some(thread) = self.turns.next() {
                self.step((thread / self.grid.threads) as usize, thread % self.grid.threads);
            }
            if self.gang.release_clusters() {
                self.note_woken();
                continue;
            }
            if !self.grid.request.cooperative {
                return;
            }
            match self.gang.tally().verdict(self.grid) {
                Verdict::Over => return,
                Verdict::GoOn => {
                    self.gang.blocks.iter_mut().for_each(gang::Block::release);
                    self.note_woken();
                }
                Verdict::End(failure) => return self.gang.end(failure.as_ref()),
            }
        }
    }

    /// Runs a thread until it waits, lets others go on or has ended.
    fn step(&mut self, at: usize, thread: u32) {
        let Gang { blocks, stacks, .. } = &mut self.gang;
        let block = &mut blocks[at];
        let live = block.meeting.live();
        let ran = coroutine::run_thread(self.grid, &block.context, block.meeting, stacks, &mut block.parked, thread);
        for _ in block.meeting.live()..live {
            self.turns.end();
        }
        self.able[at] -= 1;
        self.take_woken(at);
        let meeting = self.gang.blocks[at].meeting;
        match ran.err().or_else(|| meeting.take_failure()) {
            Some(failure) => self.give_up(at, &failure),
            None if self.able[at] == 0 => self.settle(at),
            None => {}
        }
    }

    /// Decides how a block goes on none of whose threads can go on.
    fn settle(&mut self, at: usize) {
        let block = &mut self.gang.blocks[at];
        if block.meeting.is_over() {
            block.seat = Seat::Over;
            return;
        }
        if let Some((team, place, thread)) = block.meeting.waits_for_team() {
            block.seat = Seat::Waits(team, place, thread);
            return;
        }
        block.meeting.resolve_stall();
        match block.meeting.take_failure() {
            Some(failure) => self.give_up(at, &failure),
            None => self.take_woken(at),
        }
    }

    /// Ends a block that can't go on, and reports why.
    fn give_up(&mut self, at: usize, failure: &Failure) {
        let Gang { blocks, stacks, .. } = &mut self.gang;
        let block = &mut blocks[at];
        let live = block.meeting.live();
        coroutine::give_up(self.grid, &block.context, block.meeting, stacks, &mut block.parked, failure);
        block.seat = Seat::Over;
        self.able[at] = 0;
        self.turns.end_block(at, live as usize);
    }

    /// Gives the threads that other blocks' arrival has woken their turns.
    fn note_woken(&mut self) {
        (0..self.gang.blocks.len()).for_each(|at| self.take_woken(at));
    }

    fn take_woken(&mut self, at: usize) {
        while let Some(thread) = self.gang.blocks[at].meeting.take_ready() {
            self.able[at] += 1;
            self.turns.add(at as u32 * self.grid.threads + thread);
        }
    }
}
