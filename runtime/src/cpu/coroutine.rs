//! Runs the threads of a block as coroutines on one core.
//!
//! A coroutine runs one thread after another until one of them has to wait; then it keeps that thread, and another
//! coroutine goes on. So a block whose threads never wait needs a single stack, and one that meets at a barrier needs
//! one for each thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult};
use warpsmith_device::host::{Context, Place, outside};

use super::block::{Failure, Meeting, Team};
use super::grid::Grid;
use super::{CpuPanic, panics};

type ThreadCoroutine = Coroutine<(), (), (), ThreadStack>;

/// Most stacks that are kept for later launches.
const POOLED_STACKS: usize = 4096;

/// Stacks of finished launches, with their sizes in bytes.
static POOL: Mutex<Vec<(usize, ThreadStack)>> = Mutex::new(Vec::new());

/// Most stacks of a launch, whatever the system maps: making more takes longer than any kernel that needs them.
const MOST_STACKS: u64 = 16_384;

/// How many stacks a launch may have at once, so that they stay within what the system maps: a stack with its guard page
/// takes two mappings. As many again are for cooperative launches, and a quarter of all mappings for everything else in
/// the process.
pub(super) fn stacks_at_once() -> u64 {
    stacks_within(mappings()).min(MOST_STACKS)
}

/// How many mappings the system allows a process: `vm.max_map_count`.
fn mappings() -> u64 {
    static MAPPINGS: LazyLock<u64> = LazyLock::new(|| {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        limit.and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
    });
    *MAPPINGS
}

/// The stacks for which so many mappings leave room.
fn stacks_within(mappings: u64) -> u64 {
    mappings / 8 * 3 / 2
}

/// Why no more blocks may run at once than [`blocks_at_once`] says, and what helps to have `blocks` of `threads` each.
pub(super) fn why_no_more(blocks: u64, threads: u32) -> String {
    no_more_text(blocks.saturating_mul(u64::from(threads)), mappings())
}

fn no_more_text(wanted: u64, mappings: u64) -> String {
    let stacks = stacks_within(mappings).min(MOST_STACKS);
    let start = format!(
        "this is a limit of the executor, not of a GPU: each thread of theirs waits on a stack of its own, and it keeps {stacks} stacks"
    );
    // As much as `stacks_within` takes `wanted` from, in round numbers.
    let needed = (wanted.min(MOST_STACKS).div_ceil(3) * 16).next_multiple_of(1024);
    match (stacks < MOST_STACKS, wanted <= MOST_STACKS) {
        (true, true) => format!(
            "{start}, for which the system's vm.max_map_count = {mappings} leaves room; launch fewer blocks, or let the system map \
             more: `sysctl vm.max_map_count={needed}`"
        ),
        (true, false) => format!(
            "{start}, for which the system's vm.max_map_count = {mappings} leaves room; launch fewer blocks (`sysctl \
             vm.max_map_count={needed}` gives room for {MOST_STACKS} stacks, the most that it keeps)"
        ),
        (false, _) => format!("{start} at most; launch fewer blocks"),
    }
}

/// How many blocks of this many threads may run at once.
pub(super) fn blocks_at_once(threads: u32) -> u64 {
    (stacks_at_once() / u64::from(threads)).max(1)
}

/// Most bytes of a stack; no system has so many addresses.
const MOST_STACK_BYTES: usize = usize::MAX / 4;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes after which addresses share a set of a core's first cache again, on most processors.
const SETS: usize = 4096;
/// Bytes by which a stack's memory, its guard page included, exceeds what was asked for, at most: the guard page is among so many
/// bytes below the ones that were.
pub(super) const MORE_THAN_ASKED: usize = SETS + 4 * (16 << 10);

/// A stack that starts some cache lines below its memory's end.
///
/// All stacks end at a page's end, so that what their threads use most would share a few sets of the caches, and be thrown out by
/// the next threads'. With different starts they spread over all sets.
struct ThreadStack {
    memory: DefaultStack,
    base: StackPointer, // Invariant: less than `SETS` below the memory's end, which is a page's, in whole lines.
}

impl ThreadStack {
    /// At least `bytes` for a thread, starting at the next of the places in turn.
    fn new(bytes: usize) -> std::io::Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        if bytes > MOST_STACK_BYTES {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        let memory = DefaultStack::new(bytes + SETS)?;
        let below = NEXT.fetch_add(LINE, Ordering::Relaxed) % SETS;
        let base = StackPointer::new(memory.base().get() - below).expect("the stack's memory is below its base");
        Ok(Self { memory, base })
    }
}

// SAFETY: the part of a `DefaultStack` from its guard page on, which has `SETS` bytes more than asked for: so the least size stays.
unsafe impl Stack for ThreadStack {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.memory.limit()
    }
}

/// One core's stacks that no thread is on.
pub(super) struct Stacks {
    bytes: usize,
    free: Vec<ThreadStack>,
}

/// The threads of a block that wait, by number, each on its stack.
#[derive(Default)]
pub(super) struct Parked(Vec<Option<ThreadCoroutine>>);

/// How far a block came.
pub(super) enum Progress {
    /// Every thread has ended.
    Over,
    /// Every live thread waits for other blocks, the given one at the given place.
    Waits(Team, Place, u32),
}

impl Parked {
    fn put(&mut self, thread: u32, coroutine: Option<ThreadCoroutine>) {
        let thread = thread as usize;
        if self.0.len() <= thread {
            self.0.resize_with(thread + 1, || None);
        }
        self.0[thread] = coroutine;
    }
}

impl Stacks {
    /// No stack yet; each will have at least `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, free: Vec::new() }
    }

    fn take(&mut self) -> std::io::Result<ThreadStack> {
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
            None => ThreadStack::new(self.bytes),
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

/// Runs the block that `context` and `meeting` stand at, until it has ended or can't go on alone.
pub(super) fn run_block(
    grid: &Grid<'_>,
    context: &Context<'_>,
    meeting: &Meeting,
    stacks: &mut Stacks,
    parked: &mut Parked,
) -> Progress {
    outside(|| {
        loop {
            if let Some(thread) = meeting.take_ready() {
                meeting.turn_to(thread);
                go_on(meeting, stacks, parked, thread);
            } else if meeting.has_unstarted() {
                let coroutine = match stacks.take() {
                    Ok(stack) => new_coroutine(stack, grid, context, meeting, || meeting.start()),
                    Err(error) => {
                        let failure = no_stack(grid, stacks.bytes, &error);
                        return give_up(grid, context, meeting, stacks, parked, &failure);
                    }
                };
                // Which thread it starts with, it finds out itself.
                run_first(meeting, stacks, parked, coroutine);
            } else if meeting.is_over() {
                return Progress::Over;
            } else if let Some((team, place, thread)) = meeting.waits_for_team() {
                return Progress::Waits(team, place, thread);
            } else {
                meeting.resolve_stall();
            }
            if let Some(failure) = meeting.take_failure() {
                return give_up(grid, context, meeting, stacks, parked, &failure);
            }
        }
    })
}

/// Lets a parked thread go on until its coroutine suspends or ends.
#[inline(always)]
fn go_on(meeting: &Meeting, stacks: &mut Stacks, parked: &mut Parked, thread: u32) {
    let place = &mut parked.0[thread as usize];
    // It is resumed where it lies: to move it out and in again would take as long as the switch.
    match place.as_mut().expect("a thread that was woken had been parked").resume(()) {
        // It may have gone on to another thread than it was resumed for.
        CoroutineResult::Yield(()) if meeting.suspended() != thread => {
            let coroutine = place.take();
            parked.put(meeting.suspended(), coroutine);
        }
        CoroutineResult::Yield(()) => {}
        CoroutineResult::Return(()) => stacks.free.extend(place.take().map(Coroutine::into_stack)),
    }
}

/// Runs a new coroutine until it suspends or ends.
fn run_first(meeting: &Meeting, stacks: &mut Stacks, parked: &mut Parked, mut coroutine: ThreadCoroutine) {
    match coroutine.resume(()) {
        CoroutineResult::Yield(()) => parked.put(meeting.suspended(), Some(coroutine)),
        CoroutineResult::Return(()) => stacks.free.push(coroutine.into_stack()),
    }
}

/// Runs a thread that starts or was woken until it waits or has ended.
pub(super) fn run_thread(
    grid: &Grid<'_>,
    context: &Context<'_>,
    meeting: &Meeting,
    stacks: &mut Stacks,
    Parked(parked): &mut Parked,
    thread: u32,
) -> Result<(), Failure> {
    let at = thread as usize;
    if parked.len() <= at {
        parked.resize_with(at + 1, || None);
    }
    let mut coroutine = match parked[at].take() {
        Some(coroutine) => coroutine,
        None => {
            let stack = stacks.take().map_err(|error| no_stack(grid, stacks.bytes, &error))?;
            let mut own = Some(thread);
            new_coroutine(stack, grid, context, meeting, move || own.take())
        }
    };
    meeting.turn_to(thread);
    match outside(|| coroutine.resume(())) {
        CoroutineResult::Return(()) => stacks.free.push(coroutine.into_stack()),
        CoroutineResult::Yield(()) => parked[at] = Some(coroutine),
    }
    Ok(())
}

/// A coroutine that runs one thread after another, as `next` gives them.
fn new_coroutine(
    stack: ThreadStack,
    grid: &Grid<'_>,
    context: &Context<'_>,
    meeting: &Meeting,
    mut next: impl FnMut() -> Option<u32>,
) -> ThreadCoroutine {
    // SAFETY: what the closure borrows outlives the coroutine: it is kept in a `Parked`, and whoever has one drops it
    // before grid, context and meeting.
    unsafe {
        Coroutine::with_stack_unchecked(stack, move |yielder, ()| {
            // Its own, so that a thread which goes on after a wait finds its place as it was. This closure alone uses it, and what it
            // calls.
            let mut context = context.for_coroutine(yielder);
            while let Some(thread) = next() {
                meeting.turn_to(thread);
                let run = || (grid.request.body)(&mut context, thread, 1);
                let result = catch_unwind(AssertUnwindSafe(run));
                if meeting.is_aborting() {
                    // What was caught is the coroutine's own unwinding, and its root is here.
                    return;
                }
                let panicked = result.is_err();
                if let Err(payload) = result {
                    grid.report(panics::caught(&context, &*payload));
                }
                meeting.finish(thread, panicked);
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
pub(super) fn give_up(
    grid: &Grid<'_>,
    context: &Context<'_>,
    meeting: &Meeting,
    stacks: &mut Stacks,
    parked: &mut Parked,
    failure: &Failure,
) -> Progress {
    context.set_thread(failure.thread);
    if meeting.note_stuck(failure) {
        grid.stop();
        return end(meeting, stacks, parked);
    }
    grid.report(CpuPanic {
        message: failure.message.clone(),
        file: failure.place.map(|place| place.file().to_owned()).unwrap_or_default(),
        line: failure.place.map_or(0, |place| place.line()),
        column: failure.place.map_or(0, |place| place.column()),
        block: context.block_idx(),
        thread: context.thread_idx(),
        backtrace: None,
    });
    end(meeting, stacks, parked)
}

/// Ends a block whose threads wait for what won't come, by unwinding them.
pub(super) fn end(meeting: &Meeting, stacks: &mut Stacks, Parked(parked): &mut Parked) -> Progress {
    meeting.abort();
    for (thread, parked) in parked.iter_mut().enumerate() {
        let Some(mut coroutine) = parked.take() else { continue };
        if cfg!(panic = "abort") {
            // Nothing can unwind: the threads' memory is lost, as it is on a GPU.
            std::mem::forget(coroutine);
            continue;
        }
        meeting.turn_to(thread as u32);
        outside(|| coroutine.force_unwind());
        stacks.free.push(coroutine.into_stack());
    }
    Progress::Over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_more_stacks_hears_how_many_mappings_they_take() {
        // The limit that systems come with, and 1000 blocks of 32: more than a GPU's worth of stacks, whatever is mapped.
        let text = no_more_text(32_000, 65_530);
        assert!(
            text.contains("it keeps 12286 stacks, for which the system's vm.max_map_count = 65530 leaves room"),
            "{text}"
        );
        assert!(text.contains("gives room for 16384 stacks, the most"), "{text}");
        for wanted in [12_287, 13_000, 16_383, 16_384] {
            let text = no_more_text(wanted, 65_530);
            let (_, count) = text.split_once("`sysctl vm.max_map_count=").expect("the remedy");
            let count: u64 = count.trim_end_matches('`').parse().expect("a number");
            assert!(stacks_within(count) >= wanted, "{wanted}: {text}");
            assert!(stacks_within(count - 2048) < wanted, "{wanted}: {text}");
        }
        let text = no_more_text(20_000, 1 << 20);
        assert!(text.ends_with("it keeps 16384 stacks at most; launch fewer blocks"), "{text}");
    }
}
