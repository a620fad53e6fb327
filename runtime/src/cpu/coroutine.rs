//! Runs the threads of a block as coroutines on one core.
//!
//! A coroutine runs one thread after another until one of them has to wait; then it keeps that thread, and another
//! coroutine goes on. So a block whose threads never wait needs a single stack, and one that meets at a barrier needs
//! one for each thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, PoisonError};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use warpsmith_device::host::Context;

use super::block::{Failure, Meeting};
use super::grid::Grid;
use super::{CpuPanic, panics};

type ThreadCoroutine = Coroutine<(), (), (), DefaultStack>;

/// Most stacks that are kept for later launches.
const POOLED_STACKS: usize = 4096;

/// Stacks of finished launches, with their sizes in bytes.
static POOL: Mutex<Vec<(usize, DefaultStack)>> = Mutex::new(Vec::new());

/// How many blocks of this many threads may run at once, so that their stacks stay within what the system maps: a
/// stack with its guard page takes two mappings.
pub(super) fn blocks_at_once(threads: u32) -> u64 {
    static MAPPINGS: LazyLock<u64> = LazyLock::new(|| {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        limit.and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
    });
    // A quarter is left for everything else in the process.
    (*MAPPINGS / 4 * 3 / (2 * u64::from(threads))).max(1)
}

/// One core's stacks, and the threads that wait on some of them.
pub(super) struct Stacks {
    bytes: usize,
    free: Vec<DefaultStack>,
    parked: Vec<Option<ThreadCoroutine>>, // By thread number.
}

impl Stacks {
    /// No stack yet; each will have at least `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, free: Vec::new(), parked: Vec::new() }
    }

    fn take(&mut self) -> std::io::Result<DefaultStack> {
        if let Some(stack) = self.free.pop() {
            return Ok(stack);
        }
        let pooled = {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            let at = pool.iter().rposition(|&(bytes, _)| bytes == self.bytes);
            at.map(|at| pool.swap_remove(at))
        };
        match pooled {
            Some((_, stack)) => Ok(stack),
            None => DefaultStack::new(self.bytes),
        }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let room = POOLED_STACKS.saturating_sub(pool.len());
        pool.extend(self.free.drain(..).take(room).map(|stack| (self.bytes, stack)));
    }
}

/// Runs the block that `context` and `meeting` stand at.
pub(super) fn run_block(grid: &Grid<'_>, context: &Context<'_>, meeting: &Meeting, stacks: &mut Stacks) {
    loop {
        let mut coroutine = if let Some(thread) = meeting.take_ready() {
            context.set_thread(thread);
            stacks.parked[thread as usize].take().expect("a thread that was woken had been parked")
        } else if meeting.has_unstarted() {
            match stacks.take() {
                Ok(stack) => new_coroutine(stack, grid, context, meeting),
                Err(error) => return give_up(grid, context, meeting, stacks, &no_stack(grid, stacks.bytes, &error)),
            }
        } else if meeting.is_over() {
            return;
        } else {
            meeting.resolve_stall();
            match meeting.take_failure() {
                Some(failure) => return give_up(grid, context, meeting, stacks, &failure),
                None => continue,
            }
        };
        context.set_running(true);
        let result = coroutine.resume(());
        context.set_running(false);
        match result {
            CoroutineResult::Return(()) => stacks.free.push(coroutine.into_stack()),
            CoroutineResult::Yield(()) => {
                // It may have gone on to another thread than it was resumed for.
                let thread = context.thread() as usize;
                if stacks.parked.len() <= thread {
                    stacks.parked.resize_with(thread + 1, || None);
                }
                stacks.parked[thread] = Some(coroutine);
            }
        }
        if let Some(failure) = meeting.take_failure() {
            return give_up(grid, context, meeting, stacks, &failure);
        }
    }
}

fn new_coroutine(stack: DefaultStack, grid: &Grid<'_>, context: &Context<'_>, meeting: &Meeting) -> ThreadCoroutine {
    // SAFETY: what the closure borrows outlives the coroutine: `run_block` returns only when each has ended or was
    // unwound, and should it panic, `Stacks` is dropped before all that.
    unsafe {
        Coroutine::with_stack_unchecked(stack, move |yielder, ()| {
            meeting.set_yielder(yielder);
            while let Some(thread) = meeting.start() {
                context.set_thread(thread);
                let result = catch_unwind(AssertUnwindSafe(|| grid.run_thread()));
                if meeting.is_aborting() {
                    // What was caught is the coroutine's own unwinding, and its root is here.
                    return;
                }
                if let Err(payload) = result {
                    grid.report(panics::caught(context, &*payload));
                }
                meeting.finish(thread);
            }
        })
    }
}

/// Why the launch can't go on for want of a stack.
fn no_stack(grid: &Grid<'_>, bytes: usize, error: &std::io::Error) -> Failure {
    Failure {
        message: format!("no stack of {bytes} bytes for a thread of `{}`: {error}", grid.request.kernel),
        place: None,
        thread: 0,
    }
}

/// Reports why the block can't go on, and unwinds its suspended threads.
fn give_up(grid: &Grid<'_>, context: &Context<'_>, meeting: &Meeting, stacks: &mut Stacks, failure: &Failure) {
    context.set_thread(failure.thread);
    grid.report(CpuPanic {
        message: failure.message.clone(),
        file: failure.place.map(|place| place.file().to_owned()).unwrap_or_default(),
        line: failure.place.map_or(0, |place| place.line()),
        column: failure.place.map_or(0, |place| place.column()),
        block: context.block_idx(),
        thread: context.thread_idx(),
    });
    meeting.abort();
    for thread in 0..stacks.parked.len() {
        let Some(mut coroutine) = stacks.parked[thread].take() else { continue };
        if cfg!(panic = "abort") {
            // Nothing can unwind: the threads' memory is lost, as it is on a GPU.
            std::mem::forget(coroutine);
            continue;
        }
        context.set_thread(thread as u32);
        context.set_running(true);
        coroutine.force_unwind();
        context.set_running(false);
        stacks.free.push(coroutine.into_stack());
    }
}
