//! Spreads a grid's blocks over the cores.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use warpsmith_device::Dim3;
use warpsmith_device::host::{BegunBlock, Block as _, Context, outside};

use super::block::Meeting;
use super::cores::on_cores;
use super::coroutine::{self, Parked, Stacks, blocks_at_once};
use super::{CpuLaunch, CpuPanic, faults, gang, panics, sequential};

/// Threads that run without a look at whether another core's have panicked, unless a block has more.
const THREADS_AT_ONCE: u64 = 1 << 16;

/// A core takes one of so many chunks of what is left of a part, so that unequal blocks even out.
const CHUNKS: u64 = 4;

/// Blocks that one core begins with, so that it walks through long stretches of memory, the same in each launch. Others help it
/// when they have no more of their own.
#[repr(align(128))] // Cores change these at the same time.
struct Part {
    next: AtomicU64,
    end: u64,
    chunks: u64, // Into which what is left is divided.
}

impl Part {
    /// A grid in so many parts.
    fn all(blocks: u64, parts: u64) -> Vec<Self> {
        let start = |part: u64| blocks / parts * part + part.min(blocks % parts);
        let chunks = if parts == 1 { 1 } else { CHUNKS };
        (0..parts).map(|part| Self { next: AtomicU64::new(start(part)), end: start(part + 1), chunks }).collect()
    }

    /// The next blocks.
    fn take_chunk(&self) -> Option<Range<u64>> {
        let after = |start: u64| start + ((self.end - start) / self.chunks).max(1);
        let taken = self
            .next
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |start| (start < self.end).then(|| after(start)));
        taken.ok().map(|start| start..after(start))
    }
}

/// What the cores that run one launch share.
pub(super) struct Grid<'a> {
    pub(super) request: &'a CpuLaunch<'a>,
    pub(super) blocks: u64,
    pub(super) threads: u32,
    parts: Vec<Part>, // One for each core.
    next_cluster: AtomicU64,
    end: AtomicU64, // Units from this one on do not start: a thread has panicked, or can't go on.
    first_panic: Mutex<Option<(u64, CpuPanic)>>, // By unit, and in it by time.
}

/// Runs the whole grid.
pub(super) fn run(request: &CpuLaunch<'_>) -> Result<(), CpuPanic> {
    let blocks = request.grid_dim.count();
    let threads = u32::try_from(request.block_dim.count()).expect("a block's size was checked before the launch");
    let most = if request.checked { 1 } else { rayon::current_num_threads() as u64 };
    let most = if request.needs_coroutines { most.min(blocks_at_once(threads)) } else { most };
    let of_a_cluster = request.cluster_dim.count();
    let most = if of_a_cluster > 1 { (most.min(blocks_at_once(threads) / of_a_cluster)).max(1) } else { most };
    let tasks = (blocks / of_a_cluster).min(most);
    let grid = Grid {
        request,
        blocks,
        threads,
        parts: Part::all(blocks, tasks),
        next_cluster: AtomicU64::new(0),
        end: AtomicU64::new(u64::MAX),
        first_panic: Mutex::new(None),
    };
    if let Some(schedule) = request.schedule {
        sequential::run(&grid, schedule);
    } else if request.cooperative {
        gang::run_cooperative(&grid, tasks);
    } else if of_a_cluster > 1 {
        gang::run_clusters(&grid, tasks);
    } else {
        on_cores(tasks, &|core| grid.work(core as usize));
    }
    match grid.first_panic.into_inner().expect("no code panics while it holds this lock") {
        Some((_, panic)) => Err(panic),
        None => Ok(()),
    }
}

impl Grid<'_> {
    /// One core's work: chunks of blocks, until none is left that runs.
    fn work(&self, core: usize) {
        let CpuLaunch { block_dim, shared_bytes, needs_coroutines, .. } = *self.request;
        let coroutines = needs_coroutines && self.threads > 1;
        let _entered = faults::Entered::new(self.request, coroutines);
        let meeting = Meeting::new(block_dim, shared_bytes, coroutines).checked(self.request.checked);
        let mut context = Context::new(&meeting, self.request.scope());
        let mut stacks = Stacks::new(self.request.stack_bytes);
        let mut parked = Parked::default();
        outside(|| {
            while let Some(chunk) = self.take_chunk(core) {
                if coroutines {
                    for block in chunk.take_while(|&block| self.runs(block)) {
                        context.set_block(block);
                        meeting.next_block(block);
                        // Such a block waits for no other.
                        coroutine::run_block(self, &context, &meeting, &mut stacks, &mut parked);
                    }
                } else {
                    self.run_blocks(&mut context, &meeting, chunk);
                }
            }
        });
    }

    /// Whether a thread has panicked, or could not go on.
    pub(super) fn has_panicked(&self) -> bool {
        self.end.load(Ordering::Relaxed) < u64::MAX
    }

    /// The next blocks for a core: of its own part of the grid, then of the others'.
    fn take_chunk(&self, core: usize) -> Option<Range<u64>> {
        let (before, from) = self.parts.split_at(core);
        from.iter().chain(before).find_map(Part::take_chunk)
    }

    /// Whether a unit starts: a panic leaves out those after its own, but none before, so that the first panic of a launch is
    /// the same in each run.
    pub(super) fn runs(&self, unit: u64) -> bool {
        unit < self.end.load(Ordering::Relaxed)
    }

    /// The number of what starts as one: a block, a cluster, or all of a cooperative launch.
    fn unit(&self, block: Dim3) -> u64 {
        let CpuLaunch { grid_dim, cluster_dim, cooperative, .. } = *self.request;
        if cooperative {
            return 0;
        }
        let [x, y, z] = [block.x / cluster_dim.x, block.y / cluster_dim.y, block.z / cluster_dim.z].map(u64::from);
        let (along_x, along_y) = (grid_dim.x / cluster_dim.x, grid_dim.y / cluster_dim.y);
        (z * u64::from(along_y) + y) * u64::from(along_x) + x
    }

    /// Runs blocks one after another, and their threads, to the end of each. After a panic the threads of blocks that have
    /// started go on.
    pub(super) fn run_blocks(&self, context: &mut Context<'_>, meeting: &Meeting, blocks: Range<u64>) {
        let threads = u64::from(self.threads);
        // The checker is told of each block.
        let at_once = if self.request.checked { 1 } else { (THREADS_AT_ONCE / threads).max(1) };
        let mut next = blocks.start;
        while next < blocks.end && self.runs(next) {
            let end = blocks.end.min(next + at_once);
            context.set_block(next);
            meeting.next_block(next);
            if !self.run_threads(context, meeting, 0, (end - next) * threads) {
                let ran_as_one = context.is_among_joined();
                for BegunBlock { number, next_thread } in context.begun() {
                    // Such blocks have nothing in shared memory. One that ran by itself goes on with what it has there.
                    if ran_as_one {
                        context.set_block(number);
                        meeting.next_block(number);
                    }
                    self.run_rest(context, meeting, next_thread);
                }
            }
            next = end;
        }
    }

    /// Runs what a panic has left of the context's block.
    fn run_rest(&self, context: &mut Context<'_>, meeting: &Meeting, next_thread: u32) {
        let mut from = next_thread;
        while from < self.threads && !self.run_threads(context, meeting, from, u64::from(self.threads - from)) {
            from = context.thread() + 1;
        }
    }

    /// Runs threads from one of the context's block on, and reports a panic; whether there was none.
    fn run_threads(&self, context: &mut Context<'_>, meeting: &Meeting, from: u32, count: u64) -> bool {
        meeting.turn_to(from);
        let result = catch_unwind(AssertUnwindSafe(|| (self.request.body)(context, from, count)));
        if let Err(payload) = &result {
            self.report(panics::caught(context, &**payload));
        }
        result.is_ok()
    }

    /// Clusters of the grid.
    pub(super) fn clusters(&self) -> u64 {
        self.blocks / self.request.cluster_dim.count()
    }

    /// The next cluster that no core has taken.
    pub(super) fn take_cluster(&self) -> Option<u64> {
        let cluster = self.next_cluster.fetch_add(1, Ordering::Relaxed);
        (cluster < self.clusters()).then_some(cluster)
    }

    /// The numbers of a cluster's blocks, by rank.
    pub(super) fn blocks_of(&self, cluster: u64) -> impl Iterator<Item = u64> + use<> {
        let (grid, dim) = (self.request.grid_dim, self.request.cluster_dim);
        let at = |number: u64, along_x: u32, along_y: u32| {
            let (x, y) = (u64::from(along_x), u64::from(along_y));
            [number % x, number / x % y, number / x / y]
        };
        let first = at(cluster, grid.x / dim.x, grid.y / dim.y);
        (0..dim.count()).map(move |rank| {
            let [x, y, z] = at(rank, dim.x, dim.y);
            let row = (first[2] * u64::from(dim.z) + z) * u64::from(grid.y) + first[1] * u64::from(dim.y) + y;
            row * u64::from(grid.x) + first[0] * u64::from(dim.x) + x
        })
    }

    /// A block's place, by its linear number.
    pub(super) fn position(&self, block: u64) -> Dim3 {
        let (x, y) = (u64::from(self.request.grid_dim.x), u64::from(self.request.grid_dim.y));
        Dim3 { x: (block % x) as u32, y: (block / x % y) as u32, z: (block / x / y) as u32 }
    }

    /// Starts no more blocks.
    pub(super) fn stop(&self) {
        self.end.store(0, Ordering::Relaxed);
    }

    /// Keeps a panic if it is the launch's first, and starts nothing that comes after it.
    pub(super) fn report(&self, panic: CpuPanic) {
        let unit = self.unit(panic.block);
        self.end.fetch_min(unit, Ordering::Relaxed);
        let mut first = self.first_panic.lock().expect("no code panics while it holds this lock");
        if first.as_ref().is_none_or(|(before, _)| unit < *before) {
            *first = Some((unit, panic));
        }
    }
}
