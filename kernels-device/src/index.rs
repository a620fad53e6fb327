//! Where a thread stands in its launch, and the index witnesses that prove an element to be its own.
//!
//! A witness is made from the calling thread's own position only, is neither `Copy` nor `Send`, and is unique under
//! every launch shape, whichever dimensions the grid and the block have. An ordinary build also stamps it with the
//! run of its thread, so that one kept past that run (in a thread-local, say) is refused.

use core::marker::PhantomData;

/// Sizes or a position along x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Dim3 {
    /// Along x, the fastest.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z, the slowest.
    pub z: u32,
}

impl Dim3 {
    /// Three sizes.
    #[must_use]
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// The product of the three, modulo 2^64.
    #[must_use]
    pub const fn count(self) -> u64 {
        (self.x as u64).wrapping_mul(self.y as u64).wrapping_mul(self.z as u64)
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self { x, y, z: 1 }
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self { x, y, z }
    }
}

impl core::fmt::Display for Dim3 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "({}, {}, {})", self.x, self.y, self.z)
    }
}

#[cfg(warpsmith_device)]
use crate::intrinsics as position;

#[cfg(not(warpsmith_device))]
mod position {
    //! The same questions, asked of the CPU executor.
    use super::{Dim3, Stamp};
    use crate::host::current;

    macro_rules! ask {
        ($($name:ident)*) => {$(
            #[inline]
            #[track_caller]
            pub(super) fn $name() -> Dim3 {
                current(stringify!($name), |context| context.$name())
            }
        )*};
    }
    ask!(thread_idx block_idx block_dim grid_dim);

    #[inline]
    #[track_caller]
    pub(super) fn thread_in_grid() -> (u64, Stamp) {
        current("global_idx", |context| (context.place().global, Stamp::of(context)))
    }

    /// Places along x and y, and the thread's run.
    #[inline]
    #[track_caller]
    pub(super) fn thread_in_plane() -> (u64, u64, Stamp) {
        current("global_idx_2d", |context| {
            let place = context.place();
            (place.x, place.y, Stamp::of(context))
        })
    }
}

/// The thread's index in its block. PTX: `%tid`.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn thread_idx() -> Dim3 {
    #[cfg(warpsmith_device)]
    position::asks_place_in_block();
    position::thread_idx()
}

/// The block's index in the grid. PTX: `%ctaid`.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn block_idx() -> Dim3 {
    #[cfg(warpsmith_device)]
    position::asks_place_in_block();
    position::block_idx()
}

/// Threads of a block. PTX: `%ntid`.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn block_dim() -> Dim3 {
    position::block_dim()
}

/// Blocks of the grid. PTX: `%nctaid`.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn grid_dim() -> Dim3 {
    position::grid_dim()
}

/// The thread's number in its block, x fastest: what warps and lanes are counted by.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub(crate) fn thread_in_block() -> u32 {
    number_in_block(thread_idx())
}

#[inline]
#[cfg_attr(not(warpsmith_device), track_caller)]
fn number_in_block(thread: Dim3) -> u32 {
    let block = block_dim();
    thread.z.wrapping_mul(block.y).wrapping_add(thread.y).wrapping_mul(block.x).wrapping_add(thread.x)
}

/// Threads of a block, over all dimensions.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub(crate) fn threads_in_block() -> u32 {
    let block = block_dim();
    block.x.wrapping_mul(block.y).wrapping_mul(block.z)
}

/// The block's number in the grid, x fastest. Along y and z together there are fewer than 2^32 blocks.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub(crate) fn block_in_grid() -> u64 {
    number_of_block(block_idx())
}

#[inline]
#[cfg_attr(not(warpsmith_device), track_caller)]
fn number_of_block(block: Dim3) -> u64 {
    #[cfg(warpsmith_device)]
    position::differs_along_x();
    let grid = grid_dim();
    let row = block.z.wrapping_mul(grid.y).wrapping_add(block.y);
    u64::from(row).wrapping_mul(u64::from(grid.x)).wrapping_add(u64::from(block.x))
}

/// The thread's number in the whole grid, exact in 64 bits, blocks before threads, x fastest in both; and its run.
#[inline]
#[cfg_attr(not(warpsmith_device), track_caller)]
fn thread_in_grid() -> (u64, Stamp) {
    #[cfg(warpsmith_device)]
    {
        position::asks_number_in_grid();
        let (thread, block) = (position::thread_idx(), position::block_idx());
        let first = number_of_block(block).wrapping_mul(u64::from(threads_in_block()));
        (first.wrapping_add(u64::from(number_in_block(thread))), Stamp::EMPTY)
    }
    #[cfg(not(warpsmith_device))]
    position::thread_in_grid()
}

/// Threads of the whole grid.
#[inline]
#[cfg_attr(not(warpsmith_device), track_caller)]
fn threads_in_grid() -> u64 {
    grid_dim().count().wrapping_mul(block_dim().count())
}

/// Which run of which thread made a witness. Empty on the device, where nothing can outlive its thread's run.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    #[cfg(not(warpsmith_device))]
    run: u64,
    _bound_to_its_thread: PhantomData<*const ()>,
}

impl Stamp {
    /// No run at all.
    const EMPTY: Self = Self {
        #[cfg(not(warpsmith_device))]
        run: 0,
        _bound_to_its_thread: PhantomData,
    };

    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub(crate) fn now() -> Self {
        #[cfg(warpsmith_device)]
        return Self::EMPTY;
        #[cfg(not(warpsmith_device))]
        crate::host::current("an index witness", Self::of)
    }

    /// The run of the thread that a context is at.
    #[cfg(not(warpsmith_device))]
    #[inline]
    fn of(context: &crate::host::Context<'_>) -> Self {
        Self { run: context.stamp(), ..Self::EMPTY }
    }

    /// Panics when the witness was made by another run.
    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub(crate) fn check(self) {
        #[cfg(not(warpsmith_device))]
        if self != Self::now() {
            stale_witness();
        }
    }
}

#[cfg(not(warpsmith_device))]
#[cold]
#[track_caller]
fn stale_witness() -> ! {
    panic!("an index witness was used outside the run of the thread that made it")
}

/// A witness of one thread's own number in the grid, or of a grid-stride step from it: an index congruent to the
/// thread's number modulo the number of threads.
///
/// It can be neither copied nor sent to another thread:
/// ```compile_fail,E0382
/// let i = warpsmith_device::global_idx();
/// drop(i);
/// i.get();
/// ```
/// ```compile_fail,E0277
/// let i = warpsmith_device::global_idx();
/// std::thread::spawn(move || i.get());
/// ```
pub struct GlobalIdx {
    index: usize, // Invariant: congruent to the thread's number modulo the number of threads of the grid.
    stamp: Stamp,
}

impl GlobalIdx {
    /// The index, for reading other memory with.
    #[inline]
    #[must_use]
    pub fn get(&self) -> usize {
        self.index
    }

    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }
}

impl core::fmt::Debug for GlobalIdx {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("GlobalIdx").field(&self.index).finish()
    }
}

/// The thread's number in the grid, counted over all its dimensions in 64 bits: blocks before threads, x fastest in
/// both. In a one-dimensional launch this is `block_idx().x * block_dim().x + thread_idx().x`.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn global_idx() -> GlobalIdx {
    let (index, stamp) = thread_in_grid();
    GlobalIdx { index: index as usize, stamp }
}

/// The thread's share of `0..len`: its number in the grid, then every further index that is as many threads away.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn grid_stride(len: usize) -> GridStride {
    let (next, stamp) = thread_in_grid();
    GridStride { next: next as usize, step: threads_in_grid() as usize, len: clamp(len), stamp }
}

/// No slice is longer, and up to here a step can't wrap around.
#[inline]
fn clamp(len: usize) -> usize {
    len.min(isize::MAX as usize)
}

/// The witnesses of [`grid_stride`].
#[derive(Clone)]
pub struct GridStride {
    next: usize,
    step: usize, // Invariant: the number of threads of the grid.
    len: usize,  // Invariant: at most isize::MAX, so that `next + step` does not wrap before `next` passes it.
    stamp: Stamp,
}

impl Iterator for GridStride {
    type Item = GlobalIdx;

    #[inline]
    fn next(&mut self) -> Option<GlobalIdx> {
        if self.next >= self.len {
            return None;
        }
        let index = self.next;
        self.next = index.wrapping_add(self.step);
        Some(GlobalIdx { index, stamp: self.stamp })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.len.saturating_sub(self.next).div_ceil(self.step.max(1));
        (count, Some(count))
    }
}

impl ExactSizeIterator for GridStride {}

impl core::fmt::Debug for GridStride {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GridStride")
            .field("next", &self.next)
            .field("step", &self.step)
            .field("len", &self.len)
            .finish()
    }
}

/// A witness of one element in the thread's own run of `N` elements, or in a run that is a whole grid of runs further.
pub struct RunIdx<const N: usize> {
    start: usize,  // Invariant: N times a number congruent to the thread's, or usize::MAX for no run.
    offset: usize, // Invariant: below N.
    stamp: Stamp,
}

impl<const N: usize> RunIdx<N> {
    /// The element's index; `usize::MAX` or just below for a run that lies past every slice.
    #[inline]
    #[must_use]
    pub fn get(&self) -> usize {
        self.start.saturating_add(self.offset)
    }

    /// Index of the run's first element.
    #[inline]
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// A witness of the run's element number `offset`.
    ///
    /// # Panics
    /// When `offset` is not below `N`.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn nth(&self, offset: usize) -> Self {
        assert!(offset < N, "element {offset} of a run of {N}");
        Self { start: self.start, offset, stamp: self.stamp }
    }

    /// Witnesses of the run's elements, in order.
    #[inline]
    pub fn elements(&self) -> impl Iterator<Item = Self> + use<N> {
        let (start, stamp) = (self.start, self.stamp);
        (0..N).map(move |offset| Self { start, offset, stamp })
    }

    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }
}

impl<const N: usize> core::fmt::Debug for RunIdx<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RunIdx").field("start", &self.start).field("offset", &self.offset).finish()
    }
}

/// Start of run number `run`, or `usize::MAX` where it lies past every slice.
#[inline]
fn run_start<const N: usize>(run: usize) -> usize {
    const { assert!(N > 0, "a run has at least one element") };
    if run <= isize::MAX as usize / N { run.wrapping_mul(N) } else { usize::MAX }
}

/// A witness of the thread's own run of `N` elements, at the run's first: thread `t` of the grid owns
/// `t * N .. (t + 1) * N`.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn run_idx<const N: usize>() -> RunIdx<N> {
    let (run, stamp) = thread_in_grid();
    RunIdx { start: run_start::<N>(run as usize), offset: 0, stamp }
}

/// The thread's runs of `N` elements in `0..len`: its own, then every further one that is a whole grid of runs away.
/// The last may reach past `len`.
#[inline]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn run_stride<const N: usize>(len: usize) -> impl Iterator<Item = RunIdx<N>> {
    grid_stride(clamp(len).div_ceil(N)).map(|run| RunIdx {
        start: run_start::<N>(run.index),
        offset: 0,
        stamp: run.stamp,
    })
}

/// A witness of one thread's own place in two dimensions, or of one that is whole grids away from it.
///
/// `x` and `y` count over the grid. A grid or block with more than one layer along z continues along y, layer after
/// layer, so that no two threads have the same place.
pub struct Idx2 {
    // Invariant: each is congruent to the thread's own modulo the number of threads along it.
    x: usize,
    y: usize,
    stamp: Stamp,
}

impl Idx2 {
    /// Column.
    #[inline]
    #[must_use]
    pub fn x(&self) -> usize {
        self.x
    }

    /// Row.
    #[inline]
    #[must_use]
    pub fn y(&self) -> usize {
        self.y
    }

    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }
}

impl core::fmt::Debug for Idx2 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Idx2").field("x", &self.x).field("y", &self.y).finish()
    }
}

/// `block * dim + thread` in 64 bits.
#[inline]
pub(crate) fn along(block: u32, dim: u32, thread: u32) -> u64 {
    u64::from(block).wrapping_mul(u64::from(dim)).wrapping_add(u64::from(thread))
}

/// The thread's place in two dimensions; see [`Idx2`].
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn global_idx_2d() -> Idx2 {
    #[cfg(warpsmith_device)]
    let (x, y, stamp) = {
        let (thread, block, dim, grid) = (position::thread_idx(), position::block_idx(), block_dim(), grid_dim());
        (along(block.x, dim.x, thread.x), layered_y(thread, block, dim, grid), Stamp::EMPTY)
    };
    #[cfg(not(warpsmith_device))]
    let (x, y, stamp) = position::thread_in_plane();
    Idx2 { x: x as usize, y: y as usize, stamp }
}

/// The place along y of [`Idx2`], layer after layer.
#[inline]
pub(crate) fn layered_y(thread: Dim3, block: Dim3, dim: Dim3, grid: Dim3) -> u64 {
    let rows = u64::from(grid.y).wrapping_mul(u64::from(dim.y));
    let layer = along(block.z, dim.z, thread.z);
    layer.wrapping_mul(rows).wrapping_add(along(block.y, dim.y, thread.y))
}

/// One dimension of a grid-stride walk.
#[derive(Clone, Copy, Debug)]
struct Walk {
    first: usize, // Invariant: the thread's own place.
    step: usize,  // Invariant: the number of threads of the grid along the dimension; below 2^62.
    len: usize,   // Invariant: at most isize::MAX, so that a step from below it does not wrap.
}

impl Walk {
    #[inline]
    fn new(first: usize, threads: u64, len: usize) -> Self {
        Self { first, step: threads as usize, len: clamp(len) }
    }

    /// The place after `at`; back at the first, and true, when there is none.
    #[inline]
    fn after(&self, at: usize) -> (usize, bool) {
        let next = at.wrapping_add(self.step);
        if next < self.len { (next, false) } else { (self.first, true) }
    }
}

/// The thread's share of a plane of `width` by `height`, row by row: its own place in the grid, then every further one that is
/// as many threads away along x or y.
///
/// # Examples
/// ```
/// use warpsmith_device::{GridSliceMut, Plane, grid_stride_2d};
///
/// /// Inverts a picture of any size, under a grid of any shape.
/// fn invert(mut picture: GridSliceMut<u8, Plane>) {
///     let (width, height) = (picture.map().width(), picture.map().height());
///     for i in grid_stride_2d(width, height) {
///         if let Some(pixel) = picture.get_mut(&i) {
///             *pixel = 255 - *pixel;
///         }
///     }
/// }
/// ```
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn grid_stride_2d(width: usize, height: usize) -> GridStride2d {
    let (own, dim, grid) = (global_idx_2d(), block_dim(), grid_dim());
    let layers = u64::from(grid.z).wrapping_mul(u64::from(dim.z));
    let rows = u64::from(grid.y).wrapping_mul(u64::from(dim.y)).wrapping_mul(layers);
    let x = Walk::new(own.x, u64::from(grid.x).wrapping_mul(u64::from(dim.x)), width);
    let y = Walk::new(own.y, rows, height);
    let is_over = own.x >= x.len || own.y >= y.len;
    GridStride2d { x, y, at: [own.x, own.y], is_over, stamp: own.stamp }
}

/// The witnesses of [`grid_stride_2d`].
#[derive(Clone, Debug)]
pub struct GridStride2d {
    x: Walk,
    y: Walk,
    at: [usize; 2], // Invariant: congruent to the thread's own place modulo the walks' steps.
    is_over: bool,
    stamp: Stamp,
}

impl Iterator for GridStride2d {
    type Item = Idx2;

    #[inline]
    fn next(&mut self) -> Option<Idx2> {
        if self.is_over {
            return None;
        }
        let [x, y] = self.at;
        let (next_x, row_ends) = self.x.after(x);
        self.at[0] = next_x;
        if row_ends {
            (self.at[1], self.is_over) = self.y.after(y);
        }
        Some(Idx2 { x, y, stamp: self.stamp })
    }
}

/// A witness of one thread's own place in three dimensions, or of one that is whole grids away from it.
pub struct Idx3 {
    // Invariant: each is congruent to the thread's own modulo the number of threads along it.
    x: usize,
    y: usize,
    z: usize,
    stamp: Stamp,
}

impl Idx3 {
    /// Along x.
    #[inline]
    #[must_use]
    pub fn x(&self) -> usize {
        self.x
    }

    /// Along y.
    #[inline]
    #[must_use]
    pub fn y(&self) -> usize {
        self.y
    }

    /// Along z.
    #[inline]
    #[must_use]
    pub fn z(&self) -> usize {
        self.z
    }

    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }
}

impl core::fmt::Debug for Idx3 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Idx3").field("x", &self.x).field("y", &self.y).field("z", &self.z).finish()
    }
}

/// The thread's place in three dimensions, each `block_idx * block_dim + thread_idx` in 64 bits.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn global_idx_3d() -> Idx3 {
    let (thread, block, dim) = (thread_idx(), block_idx(), block_dim());
    Idx3 {
        x: along(block.x, dim.x, thread.x) as usize,
        y: along(block.y, dim.y, thread.y) as usize,
        z: along(block.z, dim.z, thread.z) as usize,
        stamp: Stamp::now(),
    }
}

/// The thread's share of a volume of `width` by `height` by `depth`, layer by layer: its own place in the grid, then every
/// further one that is as many threads away along x, y or z.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn grid_stride_3d(width: usize, height: usize, depth: usize) -> GridStride3d {
    let (own, dim, grid) = (global_idx_3d(), block_dim(), grid_dim());
    let walk = |first, blocks: u32, threads: u32, len| {
        Walk::new(first, u64::from(blocks).wrapping_mul(u64::from(threads)), len)
    };
    let (x, y, z) =
        (walk(own.x, grid.x, dim.x, width), walk(own.y, grid.y, dim.y, height), walk(own.z, grid.z, dim.z, depth));
    let is_over = own.x >= x.len || own.y >= y.len || own.z >= z.len;
    GridStride3d { x, y, z, at: [own.x, own.y, own.z], is_over, stamp: own.stamp }
}

/// The witnesses of [`grid_stride_3d`].
#[derive(Clone, Debug)]
pub struct GridStride3d {
    x: Walk,
    y: Walk,
    z: Walk,
    at: [usize; 3], // Invariant: congruent to the thread's own place modulo the walks' steps.
    is_over: bool,
    stamp: Stamp,
}

impl Iterator for GridStride3d {
    type Item = Idx3;

    #[inline]
    fn next(&mut self) -> Option<Idx3> {
        if self.is_over {
            return None;
        }
        let [x, y, z] = self.at;
        let (next_x, row_ends) = self.x.after(x);
        self.at[0] = next_x;
        if row_ends {
            let (next_y, layer_ends) = self.y.after(y);
            self.at[1] = next_y;
            if layer_ends {
                (self.at[2], self.is_over) = self.z.after(z);
            }
        }
        Some(Idx3 { x, y, z, stamp: self.stamp })
    }
}
