//! Spreads a grid's blocks over the cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;
use warpsmith_device::abi::Scope;
use warpsmith_device::host::Context;

use super::block::Meeting;
use super::coroutine::{self, Stacks};
use super::{CpuLaunch, CpuPanic, panics};

/// Threads that are worth one trip to the common counter.
const THREADS_PER_CHUNK: u64 = 4096;

/// Each core takes at least this many chunks, so that unequal blocks even out.
const CHUNKS_PER_CORE: u64 = 8;

/// Thread runs get their stamps from here, a launch at a time; 0 is never one.
static NEXT_STAMP: AtomicU64 = AtomicU64::new(1);

/// What the cores that run one launch share.
pub(super) struct Grid<'a> {
    pub(super) request: &'a CpuLaunch<'a>,
    blocks: u64,
    threads: u32,
    chunk: u64,
    first_stamp: u64,
    next_block: AtomicU64,
    stop: AtomicBool,
    first_panic: Mutex<Option<CpuPanic>>,
}

/// Runs the whole grid.
pub(super) fn run(request: &CpuLaunch<'_>) -> Result<(), CpuPanic> {
    let blocks = request.grid_dim.count();
    let threads = u32::try_from(request.block_dim.count()).expect("a block's size was checked before the launch");
    let most = rayon::current_num_threads() as u64;
    let most = if request.needs_coroutines { most.min(coroutine::blocks_at_once(threads)) } else { most };
    let tasks = blocks.min(most);
    let grid = Grid {
        request,
        blocks,
        threads,
        chunk: (blocks / (tasks * CHUNKS_PER_CORE)).min(THREADS_PER_CHUNK / u64::from(threads)).max(1),
        first_stamp: NEXT_STAMP.fetch_add(blocks.wrapping_mul(u64::from(threads)), Ordering::Relaxed),
        next_block: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        first_panic: Mutex::new(None),
    };
    if tasks == 1 {
        grid.work();
    } else {
        (0..tasks as usize).into_par_iter().with_max_len(1).for_each(|_| grid.work());
    }
    match grid.first_panic.into_inner().expect("no code panics while it holds this lock") {
        Some(panic) => Err(panic),
        None => Ok(()),
    }
}

impl Grid<'_> {
    /// One core's part: chunks of blocks, in ascending order, until none is left or a block has panicked.
    fn work(&self) {
        let CpuLaunch { grid_dim, block_dim, shared_bytes, needs_coroutines, output, .. } = *self.request;
        let cooperative = needs_coroutines && self.threads > 1;
        let meeting = Meeting::new(block_dim, shared_bytes, cooperative);
        let context = Context::new(&meeting, grid_dim, block_dim, self.first_stamp).with_output(output);
        let mut stacks = Stacks::new(self.request.stack_bytes);
        context.enter(|| {
            while let Some(chunk) = self.take_chunk() {
                for block in chunk {
                    if self.stop.load(Ordering::Relaxed) {
                        return;
                    }
                    context.set_block(block);
                    meeting.next_block();
                    if cooperative {
                        coroutine::run_block(self, &context, &meeting, &mut stacks);
                    } else {
                        self.run_block(&context);
                    }
                }
            }
        });
    }

    fn take_chunk(&self) -> Option<std::ops::Range<u64>> {
        let start = self.next_block.fetch_add(self.chunk, Ordering::Relaxed);
        (start < self.blocks).then(|| start..self.blocks.min(start + self.chunk))
    }

    /// Runs a block's threads one after another, to the end of each.
    fn run_block(&self, context: &Context<'_>) {
        let mut from = 0;
        while from < self.threads {
            context.set_running(true);
            let result = catch_unwind(AssertUnwindSafe(|| {
                for thread in from..self.threads {
                    context.set_thread(thread);
                    self.run_thread();
                }
            }));
            context.set_running(false);
            match result {
                Ok(()) => return,
                Err(payload) => self.report(panics::caught(context, &*payload)),
            }
            from = context.thread() + 1;
        }
    }

    /// Runs the thread that the core's context stands at.
    #[inline]
    pub(super) fn run_thread(&self) {
        // SAFETY: this is a thread's run, and the scope ends with it.
        let scope = unsafe { Scope::new() };
        (self.request.body)(&scope);
    }

    /// Keeps a panic if it is the launch's first, and starts no more blocks.
    pub(super) fn report(&self, panic: CpuPanic) {
        self.stop.store(true, Ordering::Relaxed);
        self.first_panic.lock().expect("no code panics while it holds this lock").get_or_insert(panic);
    }
}
