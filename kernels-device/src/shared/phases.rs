//! Shared arrays without `unsafe`: a phase in which threads write, a barrier, a phase in which all read.
//!
//! # Why this is safe
//! The handle's type says which phase the array is in, but no type can keep threads from taking different ways to
//! different barriers, from ending early, or from holding two handles of one array. So the accesses themselves are such
//! that nothing worse than another value comes of it: a slot's type takes every bit pattern, indices are checked, and on
//! the device each access is a plain load or store of whole scalars, a load's value being fixed by LLVM's `freeze` (see
//! the lowering). A slot that another thread writes in the same phase, or that nobody wrote, reads as some value.

use core::marker::PhantomData;

use super::{Shape, SharedSite};
use crate::bits::AnyBits;
use crate::block::sync_threads;
use crate::index::Stamp;
use crate::slot::{SlotIdx, block_stride, slot_idx};

/// The phase in which threads write.
#[derive(Debug)]
pub enum Writing {}

/// The phase in which threads read.
#[derive(Debug)]
pub enum Reading {}

/// An array in shared memory that the threads of a block fill and read in turns; made by
/// [`shared_array!`](crate::shared_array).
///
/// Every thread of the block has its own handle of the one array. In the phase [`Writing`] it writes, each thread its
/// own slots; [`sync`](Self::sync) waits for all threads and gives the phase [`Reading`], in which every slot can be
/// read; `sync` there leads back to writing.
///
/// All threads of the block that have not ended must sync together, as at any barrier. What a slot holds that nobody
/// wrote in this block, or that is read in the phase in which another thread writes it, is unspecified: some value of
/// its type. The CPU executor reports threads that wait at different barriers.
///
/// # Examples
/// ```
/// use warpsmith_device::{shared_array, thread_idx};
///
/// /// Reverses 64 values within the block.
/// fn reverse(value: f32) -> f32 {
///     let mut tile = shared_array!([f32; 64]);
///     tile.put(value);
///     tile.sync().at(63 - thread_idx().x as usize)
/// }
/// ```
pub struct SharedArray<S: Shape, Phase> {
    first: *mut S::Item, // Invariant: the storage of a shape `S`, alive as long as the run that `stamp` names.
    stamp: Stamp,
    _phase: PhantomData<Phase>,
}

/// Allocates an array in shared memory for the block, of a [`Shape`]: `[T; N]`, `Rows<T, ROWS, COLUMNS>` or
/// `PaddedRows<T, ROWS, COLUMNS>`. Gives a [`SharedArray`](crate::shared::SharedArray) in the phase of writing.
///
/// Each place in the source is one array a block, for each instance of the generic function around it; a place that is
/// passed twice gives the same array again, so a barrier must lie between the last reads and the next writes.
#[macro_export]
macro_rules! shared_array {
    ($shape:ty) => {{
        static SITE: $crate::shared::SharedSite = $crate::shared::SharedSite::new();
        $crate::shared::SharedArray::<$shape, $crate::shared::Writing>::__new::<
            _,
            { ::core::line!() },
            { ::core::column!() },
        >(&|| (), &SITE)
    }};
}

impl<S: Shape, Phase> SharedArray<S, Phase> {
    /// Number of slots.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "the length is part of the type")]
    pub const fn len(&self) -> usize {
        S::LEN
    }

    #[inline(always)]
    fn turn<Next>(self) -> SharedArray<S, Next> {
        SharedArray { first: self.first, stamp: self.stamp, _phase: PhantomData }
    }

    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn load<T: AnyBits>(&self, place: usize) -> T {
        self.stamp.check();
        // SAFETY: callers pass places that the shape gave for `T`'s items, and any bytes are a `T`.
        unsafe { access::load(self.first.add(place).cast::<T>()) }
    }

    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn store(&mut self, place: usize, value: S::Item) {
        self.stamp.check();
        // SAFETY: callers pass places that the shape gave.
        unsafe { access::store(self.first.add(place), value) };
    }
}

impl<S: Shape> SharedArray<S, Writing> {
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn __new<F: Fn(), const LINE: u32, const COLUMN: u32>(instance: &F, site: &'static SharedSite) -> Self {
        let storage = super::allocate::<S::Storage, F, LINE, COLUMN>(instance, site);
        Self { first: storage.cast(), stamp: Stamp::now(), _phase: PhantomData }
    }

    /// Writes the slot with the calling thread's number in the block.
    ///
    /// # Panics
    /// When the array has no such slot: give it one for each thread of the block.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn put(&mut self, value: S::Item) {
        self.put_at(&slot_idx(), value);
    }

    /// Writes a slot of the calling thread's, counted row by row.
    ///
    /// # Panics
    /// When the array has no such slot.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn put_at(&mut self, slot: &SlotIdx, value: S::Item) {
        slot.stamp().check();
        self.scatter(S::index(slot.get()), value);
    }

    /// Writes every slot of the calling thread's: all slots, once all threads have done so.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn fill_with(&mut self, mut value: impl FnMut(S::Index) -> S::Item) {
        for slot in block_stride(S::LEN) {
            let index = S::index(slot.get());
            self.scatter(index, value(index));
        }
    }

    /// Writes any slot. Where two threads write one slot in one phase, either's value stays, for values of more than 8
    /// bytes a mixture of both.
    ///
    /// # Panics
    /// When the array has no such slot.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn scatter(&mut self, index: S::Index, value: S::Item) {
        match S::slot(index) {
            Some(place) => self.store(place, value),
            None => S::outside(index, 1),
        }
    }

    /// Writes `N` neighbouring slots of one row, as [`scatter`](Self::scatter).
    ///
    /// # Panics
    /// When they do not all exist.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn scatter_run<const N: usize>(&mut self, index: S::Index, values: [S::Item; N]) {
        let Some(place) = S::run(index, N) else { S::outside(index, N) };
        let mut i = 0;
        while i < N {
            self.store(place.wrapping_add(i), values[i]);
            i = i.wrapping_add(1);
        }
    }

    /// Waits for all threads of the block and turns to reading. PTX: `bar.sync 0`.
    #[inline(always)]
    #[must_use = "`sync_threads` waits without turning to reading"]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn sync(self) -> SharedArray<S, Reading> {
        sync_threads();
        self.turn()
    }

    /// Turns to reading without waiting: for a thread that reads only what it wrote itself, or where another array's
    /// [`sync`](Self::sync) has just waited for all threads.
    #[inline(always)]
    #[must_use]
    pub fn without_sync(self) -> SharedArray<S, Reading> {
        self.turn()
    }
}

impl<S: Shape> SharedArray<S, Reading> {
    /// Reads a slot.
    ///
    /// # Panics
    /// When the array has no such slot.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn at(&self, index: S::Index) -> S::Item {
        match S::slot(index) {
            Some(place) => self.load(place),
            None => S::outside(index, 1),
        }
    }

    /// Reads a slot, or gives `None` where the array has none.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn get(&self, index: S::Index) -> Option<S::Item> {
        S::slot(index).map(|place| self.load(place))
    }

    /// Reads `N` neighbouring slots of one row, in pieces of 16 bytes where their place is known to be aligned.
    ///
    /// # Panics
    /// When they do not all exist.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn run<const N: usize>(&self, index: S::Index) -> [S::Item; N] {
        match S::run(index, N) {
            Some(place) => core::array::from_fn(|i| self.load(place.wrapping_add(i))),
            None => S::outside(index, N),
        }
    }

    /// Waits for all threads of the block and turns to writing again. PTX: `bar.sync 0`.
    #[inline(always)]
    #[must_use = "`sync_threads` waits without turning to writing"]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn sync(self) -> SharedArray<S, Writing> {
        sync_threads();
        self.turn()
    }

    /// Turns to writing without waiting: right where no thread writes a slot in the coming phase that another may still
    /// be reading in this one, as in the steps of a reduction tree.
    #[inline(always)]
    #[must_use]
    pub fn without_sync(self) -> SharedArray<S, Writing> {
        self.turn()
    }
}

impl<S: Shape, Phase> core::fmt::Debug for SharedArray<S, Phase> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedArray").field("len", &S::LEN).finish_non_exhaustive()
    }
}

#[cfg(warpsmith_device)]
use crate::intrinsics::shared as access;

#[cfg(not(warpsmith_device))]
pub(super) mod access {
    //! On the CPU executor one core runs a whole block, so that plain accesses never race.

    /// Reads.
    ///
    /// # Safety
    /// `from` is aligned and good for reads of initialised bytes, which are a `T`.
    pub(crate) unsafe fn load<T>(from: *const T) -> T {
        // SAFETY: the caller's promise.
        unsafe { from.read() }
    }

    /// Writes.
    ///
    /// # Safety
    /// `to` is aligned and good for writes.
    pub(crate) unsafe fn store<T>(to: *mut T, value: T) {
        // SAFETY: the caller's promise.
        unsafe { to.write(value) };
    }
}
