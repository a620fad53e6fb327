//! Cooperative groups within a block: the block itself, tiles of a warp, and the threads that run together.
//!
//! A group is a value that its threads hold, each its own: it says who they are, and what they do together are its methods.
//! All threads of the group must call such a method, at the same place; threads outside do not take part, so other tiles
//! of the same warp may do something else at the same time. A group cannot be sent to another thread.
//!
//! # Examples
//! ```
//! use warpsmith_device::groups::{LaneGroup, this_thread_block};
//!
//! /// The sum over each 8 neighbours of a block.
//! fn sum_of_8(value: f32) -> f32 {
//!     this_thread_block().tiled_partition::<8>().reduce_add(value)
//! }
//! ```

use core::marker::PhantomData;

use crate::index::{Dim3, block_dim, block_idx, thread_idx, thread_in_block, threads_in_block};
use crate::warp::collective::{
    Lanes, Operation, WarpInteger, WarpNumber, exclusive_scan_lanes, reduce_lanes, reduce_numbers, scan_lanes,
};
use crate::warp::{
    FULL_MASK, WARP_SIZE, WarpValue, activemask, all, any, ballot, lane_id, lanemask_lt, match_all, match_any,
    shfl_idx, sync_warp,
};

/// Keeps a group with its thread: it is neither `Send` nor `Sync`.
type OfThisThread = PhantomData<*const ()>;

/// All threads of the block that run the same kernel.
///
/// # Source
/// CUDA C++ Programming Guide, "Thread Block Group".
#[derive(Clone, Copy, Debug)]
pub struct ThreadBlock {
    _of_this_thread: OfThisThread,
}

/// The calling thread's block. PTX: none.
///
/// # Source
/// CUDA C++ Programming Guide, "Thread Block Group".
#[inline(always)]
#[must_use]
pub fn this_thread_block() -> ThreadBlock {
    ThreadBlock { _of_this_thread: PhantomData }
}

impl ThreadBlock {
    /// How many threads the block has, over all dimensions. PTX: `%ntid`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn num_threads(&self) -> u32 {
        threads_in_block()
    }

    /// The thread's number in the block, with x varying fastest. PTX: `%tid`, `%ntid`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn thread_rank(&self) -> u32 {
        thread_in_block()
    }

    /// The thread's index in the block, as [`thread_idx`]. PTX: `%tid`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn thread_index(&self) -> Dim3 {
        thread_idx()
    }

    /// The block's index in the grid, as [`block_idx`]. PTX: `%ctaid`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn group_index(&self) -> Dim3 {
        block_idx()
    }

    /// The block's size in each dimension, as [`block_dim`]. PTX: `%ntid`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn dim_threads(&self) -> Dim3 {
        block_dim()
    }

    /// Waits for all threads of the block, as [`sync_threads`](crate::sync_threads). PTX: `barrier.sync 0`.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn sync(&self) {
        crate::sync_threads();
    }

    /// The calling thread's tile, when the block is cut into tiles of `N` threads by their rank: 1, 2, 4, 8, 16 or 32.
    ///
    /// Where `N` does not divide the block, the last tile has the threads that are left, and its
    /// [`num_threads`](LaneGroup::num_threads) says how many. Each thread finds this out by itself, so not all need to
    /// call it. PTX: `%tid`, `%ntid`.
    ///
    /// # Panics
    /// When the block has fewer than `N` threads.
    ///
    /// # Source
    /// CUDA C++ Programming Guide, "Thread Block Tile".
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn tiled_partition<const N: u32>(&self) -> Tile<N>
    where
        Tile<N>: TileSize,
    {
        let threads = self.num_threads();
        assert!(N <= threads, "a tile of {N} threads is larger than its block of {threads}");
        Tile::of_block()
    }
}

/// The lowest `count` lanes, 1 to 32.
#[inline(always)]
const fn mask_of(count: u32) -> u32 {
    u32::MAX >> (WARP_SIZE - count)
}

/// The sizes that a [`Tile`] may have: 1, 2, 4, 8, 16 and 32 threads.
#[diagnostic::on_unimplemented(
    message = "a tile has 1, 2, 4, 8, 16 or 32 threads, not as many as `{Self}`",
    label = "not the size of a tile"
)]
pub trait TileSize: sealed::Size {}

/// `N` neighbouring threads of one warp; fewer at the end of a block that `N` does not divide.
///
/// From [`ThreadBlock::tiled_partition`].
///
/// # Source
/// CUDA C++ Programming Guide, "Thread Block Tile".
#[derive(Clone, Copy, Debug)]
pub struct Tile<const N: u32> {
    mask: u32,  // Invariant: `count` lanes from a multiple of `N` on, the calling one among them.
    count: u32, // Invariant: how many of the `N` the block has; with the mask alone LLVM would not see when it is `N`.
    _of_this_thread: OfThisThread,
}

impl<const N: u32> Tile<N> {
    /// The calling thread's tile; not whole where its block has fewer threads.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub(crate) fn of_block() -> Self {
        let first = thread_in_block() & !(N - 1);
        let count = (threads_in_block() - first).min(N);
        Self { mask: mask_of(count) << (first % WARP_SIZE), count, _of_this_thread: PhantomData }
    }

    /// The tile's number in its block. PTX: `%tid`, `%ntid`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn meta_group_rank(&self) -> u32 {
        thread_in_block() / N
    }

    /// How many tiles the block has, one that is not whole included. PTX: `%ntid`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn meta_group_size(&self) -> u32 {
        this_thread_block().num_threads().div_ceil(N)
    }

    /// The calling thread's part when the tile is cut into smaller ones of `M` threads, which must be `N` at most.
    ///
    /// As [`ThreadBlock::tiled_partition`] does. PTX: `%laneid`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn tiled_partition<const M: u32>(&self) -> Tile<M>
    where
        Tile<M>: TileSize,
    {
        const { assert!(M <= N, "a part of a tile is larger than the tile") };
        let before = sealed::Group::rank(self) & !(M - 1);
        let count = (self.count - before).min(M);
        Tile { mask: mask_of(count) << (lane_id() & !(M - 1)), count, _of_this_thread: PhantomData }
    }
}

/// Threads of one warp that came together to one place.
///
/// From [`coalesced_threads`], or a part of another group.
///
/// # Source
/// CUDA C++ Programming Guide, "Coalesced Groups".
#[derive(Clone, Copy, Debug)]
pub struct Coalesced {
    mask: u32, // Invariant: the calling lane is in it.
    _of_this_thread: OfThisThread,
}

/// The threads of the warp that run this together with the calling one.
///
/// Which those are is the hardware's choice, as for [`activemask`]: only use it where any answer is right, such as one
/// atomic operation for all that happen to be there. The CPU executor gives those that come to the same place before
/// they wait for others. PTX: `activemask.b32`.
///
/// # Source
/// CUDA C++ Programming Guide, "Coalesced Groups".
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn coalesced_threads() -> Coalesced {
    Coalesced { mask: activemask(), _of_this_thread: PhantomData }
}

mod sealed {
    use crate::warp::collective::Lanes;

    pub trait Size {}

    pub trait Group {
        /// The group's lanes, the calling one among them.
        fn lanes(&self) -> Lanes;
        /// The lane of a rank that the group has.
        fn lane_of(&self, rank: u32) -> u32;
        /// A mask of the group's lanes as one of their ranks.
        fn by_rank(&self, mask: u32) -> u32;
        /// The calling thread's rank.
        fn rank(&self) -> u32;
        /// How many lanes the group has.
        fn count(&self) -> u32;
    }
}

macro_rules! sizes {
    ($($size:literal)*) => {$(
        impl sealed::Size for Tile<$size> {}
        impl TileSize for Tile<$size> {}
    )*};
}
sizes!(1 2 4 8 16 32);

impl<const N: u32> sealed::Group for Tile<N> {
    #[inline(always)]
    fn lanes(&self) -> Lanes {
        let whole = if self.count == N { N } else { 0 };
        Lanes { mask: self.mask, whole, all_there: true }
    }

    #[inline(always)]
    fn lane_of(&self, rank: u32) -> u32 {
        (lane_id() & !(N - 1)) + rank
    }

    #[inline(always)]
    fn by_rank(&self, mask: u32) -> u32 {
        mask >> (lane_id() & !(N - 1))
    }

    #[inline(always)]
    fn rank(&self) -> u32 {
        lane_id() & (N - 1)
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        self.count
    }
}

impl sealed::Group for Coalesced {
    #[inline(always)]
    fn lanes(&self) -> Lanes {
        Lanes { mask: self.mask, whole: if self.mask == FULL_MASK { WARP_SIZE } else { 0 }, all_there: true }
    }

    #[inline(always)]
    fn lane_of(&self, rank: u32) -> u32 {
        let (mut lane, mut left) = (0, rank);
        for width in [16, 8, 4, 2, 1] {
            let below = (self.mask >> lane & mask_of(width)).count_ones();
            if left >= below {
                left -= below;
                lane += width;
            }
        }
        lane
    }

    #[inline(always)]
    fn by_rank(&self, mask: u32) -> u32 {
        if self.mask == FULL_MASK {
            return mask;
        }
        let (mut rest, mut ranks) = (mask & self.mask, 0);
        while rest != 0 {
            let below = self.mask & ((rest & rest.wrapping_neg()) - 1);
            ranks |= 1 << below.count_ones();
            rest &= rest - 1;
        }
        ranks
    }

    #[inline(always)]
    fn rank(&self) -> u32 {
        (self.mask & lanemask_lt()).count_ones()
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        self.mask.count_ones()
    }
}

macro_rules! reductions {
    ($($(#[$docs:meta])* $name:ident, $number:ident, $operation:ident, $method:ident, $ptx:literal;)*) => {$(
        $(#[$docs])*
        ///
        #[doc = concat!("PTX: `redux.sync.", $ptx, "` for integers of up to 32 bits in a whole warp or any threads of it, compute capability 8.0; else `shfl.sync`, as [`Self::reduce`].")]
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(warpsmith_device), track_caller)]
        fn $name<T: $number>(&self, value: T) -> T {
            reduce_numbers(stringify!($name), self.lanes(), value, Operation::$operation, T::$method)
        }
    )*};
}

/// What the threads of a [`Tile`] or of [`Coalesced`] threads do together.
///
/// Threads count by rank, from 0 on; so do masks, in which bit 0 is the thread of rank 0. All threads of the group must
/// call each of these methods except those that only ask. A thread that has ended is missing for good: the CPU executor
/// panics where its value is asked for, on a GPU the value is unspecified.
///
/// # Source
/// CUDA C++ Programming Guide, "Cooperative Groups".
pub trait LaneGroup: sealed::Group {
    /// How many threads the group has. Asks only. PTX: `popc.b32`.
    #[inline(always)]
    #[must_use]
    fn num_threads(&self) -> u32 {
        self.count()
    }

    /// The calling thread's rank. Asks only. PTX: `%laneid` or `%lanemask_lt`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn thread_rank(&self) -> u32 {
        self.rank()
    }

    /// The lanes of the warp that are the group's, as the functions in [`warp`](crate::warp) take them. Asks only.
    #[inline(always)]
    #[must_use]
    fn lane_mask(&self) -> u32 {
        self.lanes().mask
    }

    /// Waits for all threads of the group, and makes their earlier writes visible to each other. PTX: `bar.warp.sync`.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn sync(&self) {
        sync_warp(self.lanes().mask);
    }

    /// The value of the thread of rank `rank`. PTX: `shfl.sync.idx.b32`, once for each 32 bits.
    ///
    /// # Panics
    /// When the group has no thread of that rank, and as [`shfl_idx`].
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn shfl<T: WarpValue>(&self, value: T, rank: u32) -> T {
        let threads = self.num_threads();
        assert!(rank < threads, "the thread of rank {rank} is asked for in a group of {threads}");
        shfl_idx(self.lanes().mask, value, self.lane_of(rank))
    }

    /// The value of the thread whose rank is `delta` less; a thread that has none there keeps its own. PTX:
    /// `shfl.sync.idx.b32`, once for each 32 bits.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn shfl_up<T: WarpValue>(&self, value: T, delta: u32) -> T {
        let rank = self.rank();
        let source = if delta <= rank { rank - delta } else { rank };
        shfl_idx(self.lanes().mask, value, self.lane_of(source))
    }

    /// The value of the thread whose rank is `delta` more; a thread that has none there keeps its own. PTX:
    /// `shfl.sync.idx.b32`, once for each 32 bits.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn shfl_down<T: WarpValue>(&self, value: T, delta: u32) -> T {
        let rank = self.rank();
        let source = if delta < self.num_threads() - rank { rank + delta } else { rank };
        shfl_idx(self.lanes().mask, value, self.lane_of(source))
    }

    /// The value of the thread whose rank differs in the bits of `bits`; a thread that has none there keeps its own. PTX:
    /// `shfl.sync.idx.b32`, once for each 32 bits.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn shfl_xor<T: WarpValue>(&self, value: T, bits: u32) -> T {
        let rank = self.rank();
        let source = if rank ^ bits < self.num_threads() { rank ^ bits } else { rank };
        shfl_idx(self.lanes().mask, value, self.lane_of(source))
    }

    /// Whether `predicate` is true in any thread of the group. PTX: `vote.sync.any.pred`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn any(&self, predicate: bool) -> bool {
        any(self.lanes().mask, predicate)
    }

    /// Whether `predicate` is true in all threads of the group. PTX: `vote.sync.all.pred`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn all(&self, predicate: bool) -> bool {
        all(self.lanes().mask, predicate)
    }

    /// The mask, by rank, of the threads whose `predicate` is true. PTX: `vote.sync.ballot.b32`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn ballot(&self, predicate: bool) -> u32 {
        self.by_rank(ballot(self.lanes().mask, predicate))
    }

    /// The mask, by rank, of the threads whose `value` has the same bits as the calling one's. PTX: `match.any.sync`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn match_any<T: WarpValue>(&self, value: T) -> u32 {
        self.by_rank(match_any(self.lanes().mask, value))
    }

    /// The mask, by rank, of all threads when `value` has the same bits in all of them, else 0. PTX: `match.all.sync`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn match_all<T: WarpValue>(&self, value: T) -> u32 {
        self.by_rank(match_all(self.lanes().mask, value))
    }

    /// Joins the values of all threads in the order of [`warp::reduce`](crate::warp::reduce), by rank; each thread gets the
    /// result.
    ///
    /// PTX: for a whole tile of 2^k threads k times `shfl.sync.bfly.b32` for each 32 bits, else up to eleven
    /// `shfl.sync.idx.b32`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn reduce<T: WarpValue>(&self, value: T, operation: impl Fn(T, T) -> T) -> T {
        reduce_lanes("reduce", self.lanes(), value, true, operation)
    }

    reductions! {
        /// The sum of the threads' values; integers wrap, floats are added in the order of [`Self::reduce`].
        reduce_add, WarpNumber, Add, plus, "add";
        /// The least of the threads' values; a NaN yields to numbers, and which zero is less is not specified.
        reduce_min, WarpNumber, Min, least, "min";
        /// The greatest of the threads' values; a NaN yields to numbers, and which zero is greater is not specified.
        reduce_max, WarpNumber, Max, greatest, "max";
        /// The bits that are set in all of the threads' values.
        reduce_and, WarpInteger, And, and, "and";
        /// The bits that are set in any of the threads' values.
        reduce_or, WarpInteger, Or, or, "or";
        /// The bits that are set in an odd number of the threads' values.
        reduce_xor, WarpInteger, Xor, xor, "xor";
    }

    /// Joins the values up to the calling thread's, its own included, in the order of
    /// [`warp::inclusive_scan`](crate::warp::inclusive_scan), by rank.
    ///
    /// PTX: for a whole tile of 2^k threads k times `shfl.sync.up.b32` for each 32 bits, else up to ten
    /// `shfl.sync.idx.b32`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn inclusive_scan<T: WarpValue>(&self, value: T, operation: impl Fn(T, T) -> T) -> T {
        scan_lanes("inclusive_scan", self.lanes(), value, operation)
    }

    /// Joins the values of the threads of lower rank, as [`Self::inclusive_scan`]; `first` in the thread of rank 0, and
    /// there only. PTX: one `shfl.sync.idx.b32` more for each 32 bits.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn exclusive_scan<T: WarpValue>(&self, first: T, value: T, operation: impl Fn(T, T) -> T) -> T {
        exclusive_scan_lanes("exclusive_scan", self.lanes(), first, value, operation)
    }

    /// The sum of the values up to the calling thread's, as [`Self::inclusive_scan`]; integers wrap. PTX: `shfl.sync`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn inclusive_scan_add<T: WarpNumber>(&self, value: T) -> T {
        scan_lanes("inclusive_scan_add", self.lanes(), value, T::plus)
    }

    /// The sum of the values of the threads of lower rank, as [`Self::exclusive_scan`]; integers wrap. PTX: `shfl.sync`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn exclusive_scan_add<T: WarpNumber>(&self, value: T) -> T {
        exclusive_scan_lanes("exclusive_scan_add", self.lanes(), T::ZERO, value, T::plus)
    }

    /// The threads whose `label` has the same bits as the calling one's. PTX: `match.any.sync`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn labeled_partition<T: WarpValue>(&self, label: T) -> Coalesced {
        Coalesced { mask: match_any(self.lanes().mask, label), _of_this_thread: PhantomData }
    }

    /// The threads whose `side` is the same as the calling one's. PTX: `vote.sync.ballot.b32`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn binary_partition(&self, side: bool) -> Coalesced {
        let mask = self.lanes().mask;
        let ours = ballot(mask, side);
        Coalesced { mask: if side { ours } else { mask & !ours }, _of_this_thread: PhantomData }
    }
}

impl<const N: u32> LaneGroup for Tile<N> {}
impl LaneGroup for Coalesced {}
