//! What the device functions ask of the CPU executor, which provides it block by block.
//!
//! The executor makes a [`Context`] for what runs threads one after another, a core or a coroutine, which moves from thread to
//! thread, and implements [`Block`] for what the threads of a block do together. Kernels never name this module.
//!
//! # Threads as iterations of a loop
//! [`Context::run_threads`] is inlined into the function that `#[kernel]` writes, and the kernel into it: so the threads of a
//! row of a block are iterations of a loop. What a kernel asks about its place then costs nothing: the loop stores the
//! address of its context in a thread-local, the question loads it, and since the context is an exclusive reference that the
//! function was given, and the kernel's buffers are other arguments of it, the compiler knows that no store of the kernel
//! changes the context. It follows the answers back to the loop's counter, and may vectorise the loop.
//!
//! A row of threads costs a vectorised loop's beginning and end, which for the rows of usual blocks is more than the loop. So the
//! rows of neighbouring blocks run as one, where the kernel never asks which of its threads stands in which block: what build
//! scripts say of it. A kernel that asks in spite of that is told right, by a division.
//!
//! # Threads that wait
//! A processor predicts where a return leads by the calls before it, which after a switch of stacks were another thread's: each
//! return between the switch and the kernel would cost more than the switch. So barriers and warp operations come in two
//! parts. [`Block`] notes that the thread has come, a call that returns as any other, and says whether the thread has to wait;
//! the switch to what runs next is inlined into the kernel.

use core::cell::Cell;
use core::cmp::Ordering::{Equal, Greater, Less};
use core::fmt;
use core::hint::assert_unchecked;
use core::ops::Range;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(warpsmith_checked))]
use std::thread_local;

use corosensei::Yielder;

use crate::abi::Scope;
use crate::constant::ConstantDesc;
use crate::index::{Dim3, along, layered_y};

/// Where a call stands in the source.
pub type Place = &'static Location<'static>;

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// What the threads of a block do together.
pub trait Block {
    /// Turns to a new block, by its linear number in the grid: no thread has started, and shared memory holds nothing.
    fn next_block(&self, number: u64);

    /// Whether threads can wait for each other: not when the kernel was launched as one that never does.
    fn can_wait(&self) -> bool;

    /// Comes to the barrier that every live thread of the block comes to, and gives what they voted.
    fn sync_threads(&self, thread: u32, place: Place, predicate: bool) -> Met<BarrierVotes>;

    /// What the threads voted at the barrier for which this one waited last.
    fn barrier_votes(&self, thread: u32) -> BarrierVotes;

    /// Comes to where every live lane of `mask` comes with the same mask and kind of operation, and gives this lane's result, or
    /// `None` for a shuffle from a lane that was not among them.
    fn warp(&self, thread: u32, place: Place, mask: u32, operation: WarpOperation, value: u128) -> Met<Option<u128>>;

    /// The result of the operation for which this lane waited last.
    fn warp_result(&self, thread: u32) -> Option<u128>;

    /// As [`Self::warp`], for an operation of this name that needs the values of all the lanes.
    fn warp_gather(&self, thread: u32, place: Place, mask: u32, name: &'static str, value: u128) -> Met<Gathered>;

    /// What the lanes brought to the operation of that kind for which this one waited last.
    fn gathered(&self, thread: u32) -> Gathered;

    /// Suspends the calling thread, which has to wait, until it is woken: for code that was not compiled to do it itself.
    fn suspend(&self);

    /// The lanes of this warp that are at this place together; it holds at least the calling lane.
    fn activemask(&self, thread: u32, place: Place) -> u32;

    /// Comes to a named barrier as one of `threads` threads, and waits for the others if it `waits`.
    fn named_barrier(&self, thread: u32, place: Place, id: u32, threads: u32, waits: bool);

    /// Waits until a phase of the mbarrier at the address is over; false when no other thread is there to arrive.
    fn wait_at(&self, thread: u32, place: Place, address: usize) -> bool;

    /// Changes the word of an mbarrier, which is in the block's shared memory and used by no thread meanwhile, as `arrive` says,
    /// and lets the threads go on that wait for it if a phase is over with that. Gives the word before.
    fn arrive_at(&self, word: *mut u64, arrive: fn(u64) -> Arrived) -> u64;

    /// Whether `is_over` says so of the word of an mbarrier.
    fn test_at(&self, thread: u32, word: *const u64, is_over: &dyn Fn(u64) -> bool) -> bool;

    /// Lets others go on, for a thread that asks for an mbarrier whose phase is not over, and may do so again and again. It goes on
    /// when a phase is over, or when no other can.
    fn poll_at(&self, thread: u32, place: Place, address: usize);

    /// Whether the launch is cooperative, so that its threads may wait for the whole grid.
    fn can_sync_grid(&self) -> bool;

    /// Waits until every live thread of the grid has called this.
    fn sync_grid(&self, thread: u32, place: Place);

    /// Waits until every live thread of the block's cluster has called this.
    fn sync_cluster(&self, thread: u32, place: Place);

    /// Where the block of this rank in the cluster has what this block has at `own`; `None` when that is not its shared
    /// memory.
    fn map_shared(&self, own: *mut u8, rank: u32) -> Option<*mut u8>;

    /// The block's allocation for `key`: the same for all its threads, distinct for each key.
    fn shared(&self, key: SharedKey, size: usize, align: usize) -> *mut u8;

    /// The block's dynamic shared memory, aligned to at least 16 bytes, and its size in bytes.
    fn dynamic_shared(&self) -> (*mut u8, usize);
}

/// What comes of a thread's coming to where others come too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met<T> {
    /// All have come.
    Now(T),
    /// Others are to come: the thread suspends, and asks for the result once it goes on.
    Later,
    /// Nobody can wait, because the kernel was launched as one that never does.
    Never,
}

/// What an arrival makes of an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its word from then on.
    pub word: u64,
    /// Whether a phase is over with it.
    pub completes: bool,
}

/// Takes what a launch's threads print.
pub trait Output: Sync {
    /// Takes what one thread printed, whole lines or parts of one.
    fn print(&self, block: Dim3, thread: Dim3, text: fmt::Arguments<'_>);
}

/// What the threads at a barrier voted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarrierVotes {
    /// Threads that voted true.
    pub count: u32,
    /// Threads at the barrier.
    pub total: u32,
}

/// The values that the lanes of a warp brought.
#[derive(Clone, Copy, Debug)]
pub struct Gathered {
    /// The lanes that met.
    pub members: u32,
    /// The value of each; 0 for lanes that are none.
    pub values: [u128; WARP_SIZE as usize],
}

/// What the lanes of a warp do with their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpOperation {
    /// Each lane receives another lane's value.
    Shuffle {
        /// How the other lane is found.
        mode: ShuffleMode,
        /// Lane, distance or bits, as the mode has it; the low five bits count.
        operand: u32,
        /// Lanes of a group: a power of two, 32 at most.
        width: u32,
    },
    /// Each lane receives the mask of lanes whose value is not 0.
    Ballot,
    /// Each lane receives the mask of lanes whose value equals its own.
    MatchAny,
    /// Each lane receives the whole mask when all values are equal, else 0.
    MatchAll,
    /// The lanes only meet.
    Sync,
    /// Each lane receives all values, for an operation of this name.
    Gather(&'static str),
}

impl WarpOperation {
    /// The operation's name, and what must be the same in all lanes that meet.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shuffle { mode: ShuffleMode::Idx, .. } => "shfl_idx",
            Self::Shuffle { mode: ShuffleMode::Up, .. } => "shfl_up",
            Self::Shuffle { mode: ShuffleMode::Down, .. } => "shfl_down",
            Self::Shuffle { mode: ShuffleMode::Xor, .. } => "shfl_xor",
            Self::Ballot => "vote",
            Self::MatchAny => "match_any",
            Self::MatchAll => "match_all",
            Self::Sync => "sync_warp",
            Self::Gather(name) => name,
        }
    }

    /// Whether lanes with these operations can meet: that both have the same name.
    #[inline]
    #[must_use]
    pub fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Shuffle { mode, .. }, Self::Shuffle { mode: other, .. }) => mode == other,
            (Self::Gather(name), Self::Gather(other)) => ptr::eq(name, other) || name == other,
            _ => core::mem::discriminant(&self) == core::mem::discriminant(&other),
        }
    }

    /// The result for `lane`, when the lanes of `members` brought `values`; `None` for a shuffle from a lane that is not
    /// among them, of which PTX says nothing. What a gathering gives is not made here.
    #[must_use]
    pub fn result(self, lane: u32, members: u32, values: &[u128; WARP_SIZE as usize]) -> Option<u128> {
        let own = values[lane as usize];
        let equal =
            |expected: u128| lanes(members).filter(|&l| values[l as usize] == expected).fold(0, |m, l| m | 1 << l);
        Some(match self {
            Self::Shuffle { mode, operand, width } => {
                let source = mode.source(lane, operand, width);
                if members & (1 << source) == 0 {
                    return None;
                }
                values[source as usize]
            }
            Self::Ballot => u128::from(members & !equal(0)),
            Self::MatchAny => u128::from(equal(own)),
            Self::MatchAll => u128::from(if equal(own) == members { members } else { 0 }),
            Self::Sync | Self::Gather(_) => 0,
        })
    }
}

/// How a shuffle finds the lane to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShuffleMode {
    /// A lane of the group by its number.
    Idx,
    /// A lower lane.
    Up,
    /// A higher lane.
    Down,
    /// The lane whose number differs in the given bits.
    Xor,
}

impl ShuffleMode {
    /// The lane that `lane` reads; itself where the other lies outside its group.
    ///
    /// # Source
    /// PTX ISA, "shfl.sync", the pseudocode.
    #[must_use]
    pub fn source(self, lane: u32, operand: u32, width: u32) -> u32 {
        let operand = operand & (WARP_SIZE - 1);
        let group_start = lane & !(width - 1);
        let group_end = group_start + width - 1;
        match self {
            Self::Idx => group_start | (operand & (width - 1)),
            Self::Up if lane >= group_start + operand => lane - operand,
            Self::Down if lane + operand <= group_end => lane + operand,
            Self::Xor if (lane ^ operand) <= group_end => lane ^ operand,
            Self::Up | Self::Down | Self::Xor => lane,
        }
    }
}

/// The lanes of a mask, in order.
pub fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    (0..WARP_SIZE).filter(move |lane| mask & (1 << lane) != 0)
}

/// Which static shared allocation is meant: a place in the source, once for each instance of a generic function.
#[derive(Clone, Copy, Debug)]
pub struct SharedKey {
    /// Type name of a closure made at the place: it prints the generic arguments of the function around it.
    pub instance: &'static str,
    /// A static made at the place: its address tells apart what has one position in the source, as in a macro.
    pub site: &'static SharedSite,
}

impl PartialEq for SharedKey {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.site, other.site) && (ptr::eq(self.instance, other.instance) || self.instance == other.instance)
    }
}
impl Eq for SharedKey {}

pub use crate::shared::SharedSite;

/// The constants that were set before a launch.
pub trait ConstantValues: Sync {
    /// Where the value that was set for a constant lies until the launch ends; `None` when none was set. A constant is
    /// known by its description's address.
    fn find(&self, constant: &ConstantDesc) -> Option<*const u8>;
}

/// What is the same for all threads of a launch.
#[derive(Clone, Copy)]
pub struct LaunchScope<'a> {
    /// Blocks of the grid.
    pub grid_dim: Dim3,
    /// Threads of a block.
    pub block_dim: Dim3,
    /// Blocks of a cluster; one where the launch has none.
    pub cluster_dim: Dim3,
    /// Takes what the threads print.
    pub output: &'a dyn Output,
    /// The constants that the threads see.
    pub constants: &'a dyn ConstantValues,
    /// Which blocks may run as one.
    pub joins: Joins,
}

/// Which blocks may run as one: only those of a kernel whose threads do nothing together, and ask for nothing by block.
///
/// No answer depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joins {
    /// Blocks of one row: the kernel seldom asks for places in a block.
    pub lines: bool,
    /// Blocks of many rows too: it asks seldom for a thread's number in the grid as well.
    pub planes: bool,
}

/// What the threads of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joined {
    /// They are of one block.
    No,
    /// They are of neighbouring blocks of one row each: their numbers in the grid follow each other.
    Lines,
    /// They are of neighbouring blocks, with the same y and z in each.
    Planes,
}

/// What runs threads one after another: which thread of which block it is at.
///
/// What a thread asks most is in one cache line: a block's coroutines have a context each.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Context<'a> {
    block: &'a dyn Block,
    yielder: Cell<*const Yielder<(), ()>>, // Invariant: null, or of the coroutine that alone uses this context.
    row_thread: Cell<u32>,                 // These are a `Row`.
    row_index: [Cell<u32>; 3],             // Apart, because a whole `Dim3` would be copied from memory to memory.
    nth: Cell<u32>, // The thread, counted from that. Invariant: they are in one row, and no number wraps around between.
    joined: Cell<Joined>, // Whether that row goes on in the blocks after `block_idx`.
    row_place: Cell<ThreadPlace>,
    row_stamp: Cell<u64>,
    first_stamp: Cell<u64>, // Of the block's first thread.
    launch: LaunchScope<'a>,
    threads_per_block: u64,
    next_stamp: Cell<u64>, // From here to `end_of_stamps` nobody has had any.
    end_of_stamps: Cell<u64>,
    number: Cell<u64>,        // Of the block in the grid.
    first_joined: Cell<u64>,  // The blocks that run as one: from the one with this number on,
    joined_blocks: Cell<u32>, // so many.
    block_idx: Cell<Dim3>,
    first_global: Cell<u64>,
}

/// A thread, and implicitly those after it in its row: of each number that a thread has, the others' differ from its by how many
/// threads lie between.
///
/// A loop over a row stores that count alone. Were all numbers stored, the compiler would have to know each of them after the
/// loop, and carry them along in a vectorised one.
#[derive(Clone, Copy)]
struct Row {
    thread: u32,
    index: Dim3,
    place: ThreadPlace,
    stamp: u64,
}

/// A block some of whose threads have run.
#[derive(Clone, Copy, Debug)]
pub struct BegunBlock {
    /// The block's linear number in the grid.
    pub number: u64,
    /// The thread where it goes on, by its linear number; those before have run.
    pub next_thread: u32,
}

/// Inner threads of a row of joined blocks.
pub struct JoinedThreads {
    begin: u32, // Counted from the first of the row, where the context stands.
    end: u32,
}

/// Where a thread is in its grid, in the numbers that index witnesses hold.
#[derive(Clone, Copy, Debug)]
pub struct ThreadPlace {
    /// Its number.
    pub global: u64,
    /// Its place along x.
    pub x: u64,
    /// Its place along y, layer after layer.
    pub y: u64,
}

impl ThreadPlace {
    /// The place of the thread that is so many after this one in a row, or would be in a longer one.
    ///
    /// # Safety
    /// Its number is below 2^64.
    #[inline(always)]
    unsafe fn after(&self, threads: u32) -> Self {
        let threads = u64::from(threads);
        // SAFETY: the caller's promise; a place along x is below 2^64 - 2^33, as the product of two 32-bit numbers is.
        let (global, x) = unsafe { (self.global.unchecked_add(threads), self.x.unchecked_add(threads)) };
        Self { global, x, y: self.y }
    }
}

/// A kernel with its arguments, as `#[kernel]` writes it; a function of the scope alone is one too.
///
/// It is no closure, because a trait's functions can be inlined always, and no loop with a call in it is vectorised.
///
/// # Safety
/// `reaches` is true of a place only if it is of those none of whose numbers is larger. `run_joined` gives what it was given to
/// [`Context::run_joined`], with a kernel that is the same.
pub unsafe trait BoundKernel {
    /// Whether the kernel is one of two dimensions: then blocks of many rows are joined, if any.
    const IS_PLANE: bool;

    /// Whether the kernel's memory holds the element of the thread at a place, and of all whose numbers are not larger.
    fn reaches(&self, place: &ThreadPlace) -> bool;

    /// One thread's run.
    fn run(&self, scope: &Scope);

    /// Calls [`Context::run_joined`], in a function of its own.
    fn run_joined(&self, context: &mut Context<'_>, threads: JoinedThreads);
}

// SAFETY: `reaches` is true of no place.
unsafe impl<F: Fn(&Scope)> BoundKernel for F {
    const IS_PLANE: bool = false;

    fn reaches(&self, _: &ThreadPlace) -> bool {
        false
    }

    #[inline]
    fn run(&self, scope: &Scope) {
        self(scope);
    }

    fn run_joined(&self, _: &mut Context<'_>, _: JoinedThreads) {
        unreachable!("blocks are joined where the kernel's memory reaches to their end")
    }
}

/// One thread's run.
#[cfg(not(debug_assertions))]
#[inline(always)]
fn kernel_thread(_: u32, _: u32, _: u32, _: u32, _: u32, _: u32, kernel: &impl BoundKernel) {
    // SAFETY: this is a thread's run, and the scope ends with it.
    let scope = unsafe { Scope::new() };
    kernel.run(&scope);
}

/// One thread's run, in a frame of its own, so that a debugger shows block and thread: in numbers, because debuggers print no
/// structs in a list of frames. It is not generic, because debuggers do not find functions that are by their name alone.
#[cfg(debug_assertions)]
#[inline(never)]
fn kernel_thread(
    block_x: u32,
    block_y: u32,
    block_z: u32,
    thread_x: u32,
    thread_y: u32,
    thread_z: u32,
    run: &dyn Fn(&Scope),
) {
    let _ = (block_x, block_y, block_z, thread_x, thread_y, thread_z);
    // SAFETY: as above.
    let scope = unsafe { Scope::new() };
    run(&scope);
}

/// Thread runs get their stamps from here; 0 is never one.
static NEXT_STAMP: AtomicU64 = AtomicU64::new(1);

/// Which threads of a row of `count`, whose first is at `begin`, have neighbours on both sides in the kernel's memory: an empty range at
/// its start where the memory does not reach to the row's end.
#[inline(always)]
fn inner_threads(begin: &ThreadPlace, count: u32, kernel: &impl BoundKernel) -> Range<u32> {
    // SAFETY: the caller saw that the numbers do not wrap around.
    let (end, after) = unsafe { (begin.after(count - 1), begin.after(count)) };
    if !kernel.reaches(&end) {
        return 0..0;
    }
    let first = u32::from(begin.x == 0);
    let has_next = kernel.reaches(&after);
    first..(if has_next { count } else { count - 1 }).max(first)
}

/// Tells the compiler what an inner thread knows of its place.
///
/// # Safety
/// It is an inner one.
#[inline(always)]
unsafe fn assume_inner(place: &ThreadPlace, kernel: &impl BoundKernel) {
    let next = ThreadPlace { global: place.global.wrapping_add(1), x: place.x.wrapping_add(1), ..*place };
    // SAFETY: the caller's promise.
    unsafe {
        // First what follows from the rest: the kernel's own comparisons are the same as these.
        assert_unchecked(kernel.reaches(place));
        assert_unchecked(place.x > 0);
        assert_unchecked(kernel.reaches(&next));
    }
}

/// The start of the row after the one of an index in a box of this shape.
#[inline(always)]
fn next_row(index: Dim3, shape: Dim3) -> Dim3 {
    if index.y + 1 < shape.y { Dim3 { x: 0, y: index.y + 1, z: index.z } } else { Dim3 { x: 0, y: 0, z: index.z + 1 } }
}

/// Stamps that are worth one trip to the common counter.
const STAMPS_AT_ONCE: u64 = 1 << 16;

impl<'a> Context<'a> {
    /// A context for the threads of a launch.
    #[must_use]
    pub fn new(block: &'a dyn Block, launch: LaunchScope<'a>) -> Self {
        let zero = Dim3 { x: 0, y: 0, z: 0 };
        Self {
            block,
            launch,
            threads_per_block: launch.block_dim.count(),
            first_stamp: Cell::new(0),
            next_stamp: Cell::new(0),
            end_of_stamps: Cell::new(0),
            number: Cell::new(0),
            first_joined: Cell::new(0),
            joined_blocks: Cell::new(1),
            block_idx: Cell::new(zero),
            first_global: Cell::new(0),
            nth: Cell::new(0),
            row_thread: Cell::new(0),
            row_index: [const { Cell::new(0) }; 3],
            joined: Cell::new(Joined::No),
            row_place: Cell::new(ThreadPlace { global: 0, x: 0, y: 0 }),
            row_stamp: Cell::new(0),
            yielder: Cell::new(ptr::null()),
        }
    }

    /// A context that stands where this one does, for the coroutine that suspends through `yielder`.
    ///
    /// # Safety
    /// Only code that runs on that coroutine uses the context and its clones.
    #[inline]
    #[must_use]
    pub unsafe fn for_coroutine(&self, yielder: &Yielder<(), ()>) -> Self {
        let context = self.clone();
        context.yielder.set(yielder);
        context
    }

    /// Where the value that was set for a constant lies; `None` when none was set.
    pub(crate) fn constant(&self, constant: &ConstantDesc) -> Option<*const u8> {
        self.launch.constants.find(constant)
    }

    /// Runs `count` threads, from the one of the context's block that has the linear number `first`, each to its end; where the
    /// block ends, the next one begins. After a panic the context stands at the thread that panicked, and is still the calling OS
    /// thread's: see [`outside`].
    ///
    /// What the kernel's memory reaches to changes nothing but the speed: for rows that lie inside, the kernel is compiled once
    /// more, where its comparisons with the ends of that memory are known.
    ///
    /// # Safety
    /// `first` is a thread of the block. The caller is inside [`outside`], or ends the borrow of `self` not before
    /// it has called [`run_threads`](Self::run_threads) for another context or left.
    #[inline(always)]
    pub unsafe fn run_threads<K: BoundKernel>(&mut self, first: u32, count: u64, kernel: &K) {
        let context = &raw mut *self;
        // SAFETY: `self` is borrowed until this function returns, and used through this pointer alone.
        let mut this = unsafe { &*context };
        let width = this.launch.block_dim.x;
        let (mut thread, mut left) = (first, count);
        let mut index = this.position(first);
        let mut blocks = 1; // That run as one: of each row of threads those of all of them, then of the next.
        while left > 0 {
            if u64::from(thread) == this.threads_per_block {
                this.move_by(blocks as i32 - 1);
                this.next_block();
                (thread, index) = (0, Dim3 { x: 0, y: 0, z: 0 });
                blocks = 1;
            }
            if thread == 0 {
                blocks = this.join(left, kernel);
                this.first_joined.set(this.number.get());
                this.joined_blocks.set(blocks);
            }
            let is_joined = blocks > 1;
            let stamp = this.first_stamp.get() + u64::from(thread) * u64::from(blocks);
            let row = this.row_at(thread, index, stamp);
            let count = left.min(u64::from(width - row.index.x)) as u32;
            // A grid may have so many threads that their numbers start again from 0. There a thread is a row of its own.
            let wraps = row.place.global.checked_add(u64::from(count)).is_none();
            let count = if is_joined {
                blocks * width
            } else if wraps {
                1
            } else {
                count
            };
            let inner = if wraps { 0..0 } else { inner_threads(&row.place, count, kernel) };
            let mut at = 0;
            // Two bodies are compiled: the ends of the row share theirs with the rows that have no inner threads.
            while at < count {
                if is_joined && inner.contains(&at) {
                    this.set_row(row, Joined::No);
                    // SAFETY: `this` is not used again.
                    kernel.run_joined(unsafe { &mut *context }, JoinedThreads { begin: at, end: inner.end });
                    // SAFETY: as above.
                    this = unsafe { &*context };
                    set_current_context(context.cast());
                    at = inner.end;
                } else if inner.contains(&at) {
                    for nth in at..inner.end {
                        // SAFETY: `count` threads after the row's first, numbers are still below 2^64.
                        let place = unsafe { row.place.after(nth) };
                        // SAFETY: an inner thread is neither the first of its row nor the last that the memory reaches to.
                        unsafe { assume_inner(&place, kernel) };
                        this.run_thread(context, row, nth, Joined::No, kernel);
                    }
                    at = inner.end;
                } else {
                    let end = if at < inner.start { inner.start } else { count };
                    // Of joined blocks these are the first thread or the last, and each is its own block's.
                    let (row, nths) = if is_joined && at > 0 {
                        this.move_by(blocks as i32 - 1);
                        (this.row_at(thread + width - 1, Dim3 { x: width - 1, ..index }, stamp + u64::from(at)), 0..1)
                    } else {
                        (row, at..end)
                    };
                    for nth in nths {
                        this.run_thread(context, row, nth, Joined::No, kernel);
                    }
                    if is_joined && at > 0 {
                        this.move_by(1 - blocks as i32);
                    }
                    at = end;
                }
            }
            let of_block = if is_joined { width } else { count };
            thread += of_block;
            index.x += of_block;
            if index.x == width {
                index = next_row(index, this.launch.block_dim);
            }
            left -= u64::from(count);
        }
        this.move_by(blocks as i32 - 1);
    }

    /// Runs threads of a row of joined blocks, for [`run_threads`](Self::run_threads), which gives them.
    ///
    /// # Safety
    /// As there; and that gave these threads to the same kernel.
    #[inline(always)]
    pub unsafe fn run_joined<K: BoundKernel>(&mut self, threads: JoinedThreads, kernel: &K) {
        let context = &raw const *self;
        // SAFETY: `self` is borrowed until this function returns, and used through this pointer alone.
        let this = unsafe { &*context };
        let joining = if K::IS_PLANE { Joined::Planes } else { Joined::Lines };
        // From the context, of which the compiler knows that no store of the kernel changes it.
        let row = this.row();
        for nth in threads.begin..threads.end {
            // SAFETY: the joined rows' numbers are below 2^64. Where blocks have many rows, the threads' own numbers in the grid are
            // larger than these.
            let place = unsafe { row.place.after(nth) };
            // SAFETY: by the caller's promise.
            unsafe { assume_inner(&place, kernel) };
            this.run_thread(context, row, nth, joining, kernel);
        }
    }

    /// How many blocks from this one on run as one, of the `left` threads that are to run.
    #[inline(always)]
    fn join<K: BoundKernel>(&self, left: u64, kernel: &K) -> u32 {
        let Dim3 { x: width, y: rows, z: layers } = self.launch.block_dim;
        let may =
            if K::IS_PLANE { self.launch.joins.planes } else { self.launch.joins.lines && rows == 1 && layers == 1 };
        if !may {
            return 1;
        }
        let along = u64::from(self.launch.grid_dim.x - self.block_idx.get().x);
        // So many that no number of a thread in the row, or of a block in it, is 2^31.
        let most = (left / self.threads_per_block).min(along).min(u64::from(i32::MAX as u32 / width)) as u32;
        // The last block along x mostly holds the memory's end.
        for blocks in [most, most.saturating_sub(1)] {
            let threads = u64::from(blocks) * self.threads_per_block;
            let Some(end) = self.first_global.get().checked_add(threads).filter(|_| blocks > 1) else { continue };
            let place = self.place_of(0, Dim3 { x: 0, y: rows - 1, z: layers - 1 });
            let last = ThreadPlace { global: end - 1, x: place.x + u64::from(blocks * width) - 1, y: place.y };
            if kernel.reaches(&last) {
                self.first_stamp.set(self.stamps(threads));
                return blocks;
            }
        }
        1
    }

    /// Moves by so many blocks in a row of the grid, none of which runs by itself.
    #[inline(always)]
    fn move_by(&self, blocks: i32) {
        let Dim3 { x, y, z } = self.block_idx.get();
        self.block_idx.set(Dim3 { x: x.wrapping_add_signed(blocks), y, z });
        self.number.set(self.number.get().wrapping_add_signed(i64::from(blocks)));
        let threads = i64::from(blocks).wrapping_mul(self.threads_per_block as i64);
        self.first_global.set(self.first_global.get().wrapping_add_signed(threads));
        self.joined.set(Joined::No);
    }

    /// Whether the block runs as one with others.
    #[must_use]
    pub fn is_among_joined(&self) -> bool {
        self.joined_blocks.get() > 1
    }

    /// After a panic: the blocks that have begun, of those that run as one with the block where it was, and where each goes on.
    pub fn begun(&self) -> impl Iterator<Item = BegunBlock> + use<> {
        let (thread, width) = (self.thread(), self.launch.block_dim.x);
        let own = self.number.get() + u64::from(self.in_row().0);
        let row = thread - thread % width;
        let next_thread = move |number: u64| match number.cmp(&own) {
            Less => row + width,
            Equal => thread + 1,
            Greater => row,
        };
        let first = self.first_joined.get();
        (first..first + u64::from(self.joined_blocks.get()))
            .map(move |number| BegunBlock { number, next_thread: next_thread(number) })
            .filter(|begun| begun.next_thread > 0)
    }

    /// Runs one thread of a row; `context` is this context's address.
    ///
    /// It is called in three loops: left to itself, LLVM makes a larger kernel a function of its own, and then each thread
    /// costs a call and no check leaves the loop.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn run_thread(&self, context: *const Self, row: Row, nth: u32, joined: Joined, kernel: &impl BoundKernel) {
        set_current_context(context.cast());
        // Stored anew, so that the compiler sees early on what the kernel's questions load.
        self.set_row(row, joined);
        self.nth.set(nth);
        let (block, index) = (self.block_idx(), self.thread_idx());
        #[cfg(debug_assertions)]
        let kernel = &|scope: &Scope| kernel.run(scope);
        kernel_thread(block.x, block.y, block.z, index.x, index.y, index.z, kernel);
    }

    /// A row from a thread of the block on.
    #[inline(always)]
    fn row_at(&self, thread: u32, index: Dim3, stamp: u64) -> Row {
        Row { thread, index, place: self.place_of(thread, index), stamp }
    }

    /// Where a thread of the block is in the grid.
    #[inline(always)]
    fn place_of(&self, thread: u32, index: Dim3) -> ThreadPlace {
        let (block, dim) = (self.block_idx.get(), self.launch.block_dim);
        ThreadPlace {
            global: self.first_global.get().wrapping_add(u64::from(thread)),
            x: along(block.x, dim.x, index.x),
            y: layered_y(index, block, dim, self.launch.grid_dim),
        }
    }

    /// A thread's index in its block, by its linear number.
    #[inline]
    fn position(&self, thread: u32) -> Dim3 {
        let Dim3 { x, y, .. } = self.launch.block_dim;
        if thread < x {
            Dim3 { x: thread, y: 0, z: 0 }
        } else {
            Dim3 { x: thread % x, y: thread / x % y, z: thread / x / y }
        }
    }

    /// Moves to a block, by its linear number in the grid, whose threads get stamps that no other had.
    #[inline]
    pub fn set_block(&self, block: u64) {
        let (x, y) = (u64::from(self.launch.grid_dim.x), u64::from(self.launch.grid_dim.y));
        let position = if block < x {
            Dim3 { x: block as u32, y: 0, z: 0 }
        } else {
            Dim3 { x: (block % x) as u32, y: (block / x % y) as u32, z: (block / x / y) as u32 }
        };
        self.joined.set(Joined::No);
        self.first_joined.set(block);
        self.joined_blocks.set(1);
        self.number.set(block);
        self.block_idx.set(position);
        self.first_global.set(block.wrapping_mul(self.threads_per_block));
        self.take_stamps();
    }

    /// Moves to the block after this.
    fn next_block(&self) {
        let number = self.number.get() + 1;
        self.block.next_block(number);
        let (mut position, dim) = (self.block_idx.get(), self.launch.grid_dim);
        position.x += 1;
        if position.x == dim.x {
            position = next_row(position, dim);
        }
        self.number.set(number);
        self.block_idx.set(position);
        self.first_global.set(self.first_global.get().wrapping_add(self.threads_per_block));
        self.take_stamps();
    }

    /// Takes stamps for a block that starts. Blocks that never start take none: a grid may have more threads than there are
    /// stamps, and ends early when one of them panics.
    #[inline]
    fn take_stamps(&self) {
        self.first_stamp.set(self.stamps(self.threads_per_block));
    }

    /// The first of so many stamps in a row that no other thread has.
    #[inline]
    fn stamps(&self, count: u64) -> u64 {
        let mut first = self.next_stamp.get();
        if self.end_of_stamps.get() - first < count {
            let at_once = count.max(STAMPS_AT_ONCE);
            first = NEXT_STAMP.fetch_add(at_once, Ordering::Relaxed);
            self.end_of_stamps.set(first + at_once);
        }
        self.next_stamp.set(first + count);
        first
    }

    /// Moves to a thread of the block, by its linear number.
    #[inline]
    pub fn set_thread(&self, thread: u32) {
        self.nth.set(0);
        let index = self.position(thread);
        let stamp = self.first_stamp.get() + u64::from(thread);
        self.set_row(self.row_at(thread, index, stamp), Joined::No);
    }

    #[inline(always)]
    fn set_row(&self, row: Row, joined: Joined) {
        self.row_thread.set(row.thread);
        let Dim3 { x, y, z } = row.index;
        self.row_index[0].set(x);
        self.row_index[1].set(y);
        self.row_index[2].set(z);
        self.row_place.set(row.place);
        self.row_stamp.set(row.stamp);
        self.joined.set(joined);
    }

    #[inline(always)]
    fn row_index(&self) -> Dim3 {
        let [x, y, z] = &self.row_index;
        Dim3 { x: x.get(), y: y.get(), z: z.get() }
    }

    #[inline(always)]
    fn row(&self) -> Row {
        Row {
            thread: self.row_thread.get(),
            index: self.row_index(),
            place: self.row_place.get(),
            stamp: self.row_stamp.get(),
        }
    }

    /// In which block the thread is, counted from the row's first, and how many threads after the one where the row meets that
    /// block.
    #[inline(always)]
    fn in_row(&self) -> (u32, u32) {
        let nth = self.nth.get();
        if self.joined.get() == Joined::No {
            return (0, nth);
        }
        let width = self.launch.block_dim.x;
        (nth / width, nth % width)
    }

    /// Makes this the context of the calling OS thread while `f` runs; the one before comes back after it.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        outside(|| {
            set_current_context(ptr::from_ref(self).cast());
            f()
        })
    }

    /// The thread's linear number in its block.
    #[inline]
    #[must_use]
    pub fn thread(&self) -> u32 {
        // SAFETY: by the fields' invariant this is the number of a thread of the block.
        unsafe { self.row_thread.get().unchecked_add(self.in_row().1) }
    }

    /// The thread's index in its block.
    #[inline]
    #[must_use]
    pub fn thread_idx(&self) -> Dim3 {
        let first = self.row_index();
        // SAFETY: by the fields' invariant this is below the block's width.
        Dim3 { x: unsafe { first.x.unchecked_add(self.in_row().1) }, ..first }
    }

    /// The block's index in the grid.
    #[inline]
    #[must_use]
    pub fn block_idx(&self) -> Dim3 {
        let first = self.block_idx.get();
        // SAFETY: by the fields' invariant this is below the grid's width.
        Dim3 { x: unsafe { first.x.unchecked_add(self.in_row().0) }, ..first }
    }

    #[inline]
    pub(crate) fn block_dim(&self) -> Dim3 {
        self.launch.block_dim
    }

    #[inline]
    pub(crate) fn grid_dim(&self) -> Dim3 {
        self.launch.grid_dim
    }

    #[inline]
    pub(crate) fn cluster_dim(&self) -> Dim3 {
        self.launch.cluster_dim
    }

    /// The index of the block's cluster in the grid of clusters.
    pub(crate) fn cluster_idx(&self) -> Dim3 {
        let (block, dim) = (self.block_idx(), self.launch.cluster_dim);
        Dim3 { x: block.x / dim.x, y: block.y / dim.y, z: block.z / dim.z }
    }

    /// The block's index in its cluster.
    pub(crate) fn block_in_cluster(&self) -> Dim3 {
        let (block, dim) = (self.block_idx(), self.launch.cluster_dim);
        Dim3 { x: block.x % dim.x, y: block.y % dim.y, z: block.z % dim.z }
    }

    #[inline]
    pub(crate) fn place(&self) -> ThreadPlace {
        // SAFETY: by the field's invariant no number between wraps around.
        let mut place = unsafe { self.row_place.get().after(self.nth.get()) };
        if self.joined.get() == Joined::Planes {
            let (block, nth) = self.in_row();
            let first = self.row_place.get().global;
            place.global = first.wrapping_add(u64::from(block) * self.threads_per_block).wrapping_add(u64::from(nth));
        }
        place
    }

    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.row_stamp.get() + u64::from(self.nth.get())
    }

    #[inline]
    pub(crate) fn block(&self) -> &dyn Block {
        self.block
    }

    /// Suspends the coroutine whose thread the context is at, until it is resumed.
    ///
    /// # Panics
    /// When the context is no coroutine's.
    #[inline(always)]
    pub fn suspend(&self) {
        #[cfg(any(warpsmith_device, warpsmith_checked))]
        // The program's own code does it: here are no instructions that a checker could not follow.
        self.block.suspend();
        #[cfg(not(any(warpsmith_device, warpsmith_checked)))]
        {
            /// What runs meanwhile has contexts of its own.
            struct Return<'a, 'b>(&'a Context<'b>);
            impl Drop for Return<'_, '_> {
                #[inline(always)]
                fn drop(&mut self) {
                    set_current_context(ptr::from_ref(self.0).cast());
                }
            }
            let yielder = self.yielder.get();
            if yielder.is_null() {
                not_a_coroutine();
            }
            let _return = Return(self);
            // SAFETY: it is the running coroutine's own (the field's invariant), and so alive.
            unsafe { (*yielder).suspend(()) };
        }
    }
}

#[cfg(not(warpsmith_checked))]
thread_local! {
    static CURRENT: Cell<*const Context<'static>> = const { Cell::new(ptr::null()) };
}

#[cfg(not(warpsmith_checked))]
#[inline(always)]
fn current_context() -> *const Context<'static> {
    // Of `LocalKey`'s functions this one alone is `#[inline]`, so that it can be seen through wherever a kernel is compiled.
    CURRENT.try_with(Cell::get).unwrap_or(ptr::null())
}

#[cfg(not(warpsmith_checked))]
#[inline(always)]
fn set_current_context(context: *const Context<'static>) {
    // It is no error: what needs no drop is there as long as its thread.
    let _ = CURRENT.try_with(|current| current.set(context));
}

/// Kernels never call it.
#[cfg(warpsmith_checked)]
fn set_current_context(_: *const Context<'static>) {
    unreachable!("the executor is the program's own")
}

/// The program's own answer, for code that the checker runs in its place: there is one context for both.
#[cfg(not(any(warpsmith_device, warpsmith_checked)))]
#[unsafe(no_mangle)]
extern "C" fn __warpsmith_current_context() -> *const Context<'static> {
    CURRENT.get()
}

/// Keeps the function that code for the checker asks for the context in every program that looks for such code.
pub fn keep_for_checker() {
    #[cfg(not(any(warpsmith_device, warpsmith_checked)))]
    core::hint::black_box(__warpsmith_current_context as extern "C" fn() -> _);
}

/// Code for the checker is compiled once more, and linked into the program beside its own: it asks that for the context.
#[cfg(warpsmith_checked)]
#[inline]
fn current_context() -> *const Context<'static> {
    #[allow(improper_ctypes, reason = "both sides are this file, compiled by one compiler")]
    unsafe extern "C" {
        safe fn __warpsmith_current_context() -> *const Context<'static>;
    }
    __warpsmith_current_context()
}

/// Runs `f`, which may change the calling OS thread's context; the one before comes back after it.
#[inline]
pub fn outside<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(*const Context<'static>);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            set_current_context(self.0);
        }
    }
    let _restore = Restore(current_context());
    f()
}

/// Runs `f` on the calling thread's context, or gives `None` outside a kernel.
#[inline]
pub fn try_current<R>(f: impl FnOnce(&Context<'_>) -> R) -> Option<R> {
    let context = current_context();
    if context.is_null() {
        return None;
    }
    // SAFETY: `enter` and `run_threads` put the address of a context there that they borrow; whoever calls them puts the earlier
    // one back, or stands in another context, before that borrow ends.
    Some(f(unsafe { &*context }))
}

/// Runs `f` on the calling thread's context.
///
/// # Panics
/// Outside a kernel.
#[inline]
#[track_caller]
pub(crate) fn current<R>(name: &str, f: impl FnOnce(&Context<'_>) -> R) -> R {
    match try_current(f) {
        Some(result) => result,
        None => outside_a_kernel(name),
    }
}

/// The context of the calling thread, without a closure that the compiler might leave a function of its own: for what suspends.
///
/// # Safety
/// The reference is used in the current run of the kernel's thread alone.
///
/// # Panics
/// Outside a kernel.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn own_context<'a>(name: &str) -> &'a Context<'a> {
    let context = current_context();
    if context.is_null() {
        outside_a_kernel(name);
    }
    // SAFETY: as in `try_current`; a thread's context is borrowed for its whole run.
    unsafe { &*context }
}

/// Prints what a kernel's thread prints; outside a kernel it goes to the standard output.
pub(crate) fn print(text: fmt::Arguments<'_>) {
    let printed = try_current(|context| context.launch.output.print(context.block_idx(), context.thread_idx(), text));
    if printed.is_none() {
        std::print!("{text}");
    }
}

/// Panics when `name`, which waits for other threads, was reached in a launch that was said not to wait.
#[inline]
#[track_caller]
pub(crate) fn require_waiting(name: &str) {
    if !current(name, |context| context.block().can_wait()) {
        cannot_wait(name);
    }
}

/// Panics because `name` waits for other threads in a launch that was said not to wait.
#[cold]
#[track_caller]
pub(crate) fn cannot_wait(name: &str) -> ! {
    panic!("`{name}` was reached in a kernel that was launched as one without barriers and warp operations")
}

#[cold]
#[cfg(not(any(warpsmith_device, warpsmith_checked)))]
fn not_a_coroutine() -> ! {
    panic!("a thread that is no coroutine was told to wait; this is a fault of the executor, please report it")
}

#[cold]
#[track_caller]
fn outside_a_kernel(name: &str) -> ! {
    panic!("`{name}` was called outside a kernel; only the threads of a launch have it")
}
