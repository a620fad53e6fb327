//! Spreads a grid's blocks over the cores.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpsmith_device::Dim3;
use warpsmith_device::host::{Block as _, Context, outside};

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
    stop: AtomicBool, // Some thread has panicked, or can't go on.
    first_panic: Mutex<Option<CpuPanic>>,
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
        stop: AtomicBool::new(false),
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
        Some(panic) => Err(panic),
        None => Ok(()),
    }
}

impl Grid<'_> {
    /// One core's work: chunks of blocks, until none is left or a block has panicked.
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
                    for block in chunk {
                        if self.has_panicked() {
                            return;
                        }
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
        self.stop.load(Ordering::Relaxed)
    }

    /// The next blocks for a core: of its own part of the grid, then of the others'.
    fn take_chunk(&self, core: usize) -> Option<Range<u64>> {
        let (before, from) = self.parts.split_at(core);
        from.iter().chain(before).find_map(Part::take_chunk)
    }

    /// Runs blocks one after another, and their threads, to the end of each. After a panic the block's other threads go on, and
    /// blocks that have not started are left out.
    pub(super) fn run_blocks(&self, context: &mut Context<'_>, meeting: &Meeting, blocks: Range<u64>) {
        let threads = u64::from(self.threads);
        // The checker is told of each block.
        let at_once = if self.request.checked { 1 } else { (THREADS_AT_ONCE / threads).max(1) };
        let mut next = blocks.start;
        while next < blocks.end && !self.has_panicked() {
            let end = blocks.end.min(next + at_once);
            context.set_block(next);
            meeting.next_block(next);
            let mut from = 0;
            let mut left = (end - next) * threads;
            while left > 0 {
                meeting.turn_to(from);
                match catch_unwind(AssertUnwindSafe(|| (self.request.body)(context, from, left))) {
                    Ok(()) => break,
                    Err(payload) => self.report(panics::caught(context, &*payload)),
                }
                from = context.thread() + 1;
                left = threads - u64::from(from);
            }
            next = end;
        }
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
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Keeps a panic if it is the launch's first, and starts no more blocks.
    pub(super) fn report(&self, panic: CpuPanic) {
        self.stop();
        self.first_panic.lock().expect("no code panics while it holds this lock").get_or_insert(panic);
    }
}
