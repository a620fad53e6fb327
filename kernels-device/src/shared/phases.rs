//! Shared arrays without `unsafe`: a phase in which threads write, a barrier, a phase in which all read.
//!
//! # Why this is safe
//! The handle's type says which phase the array is in, but no type can keep threads from taking different ways to
//! different barriers, from ending early, or from holding two handles of one array. So the accesses themselves are such
//! that nothing worse than another value comes of it: a slot's type takes every bit pattern, indices are checked, and on
//! the device each access is a plain load or store of whole scalars, a load's value being fixed by LLVM's `freeze` (see
//! the lowering). A slot that another thread writes in the same phase, or that nobody wrote, reads as some value.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use super::{Shape, SharedSite, StaticShape};
use crate::bits::AnyBits;
use crate::block::sync_threads;
use crate::index::{Stamp, threads_in_block};
use crate::slot::{SlotIdx, slot_idx};

/// The phase in which threads write.
#[derive(Debug)]
pub enum Writing {}

/// The phase in which threads read.
#[derive(Debug)]
pub enum Reading {}

/// An array in shared memory that the threads of a block fill and read in turns; made by
/// [`shared_array!`](macro@crate::shared_array).
///
/// Every thread of the block has its own handle of the one array. In the phase [`Writing`] it writes, each thread its
/// own slots; [`sync`](Self::sync) waits for all threads and gives the phase [`Reading`], in which every slot can be
/// read; `sync` there leads back to writing.
///
/// All threads of the block that have not ended must sync together, as at any barrier. What a slot holds that nobody
/// wrote in this block, or that is read in the phase in which another thread writes it, is unspecified: some value of
/// its type. The CPU executor reports threads that wait at different barriers, and gives each block shared memory full of the
/// byte 0xd3: an `f32` of -1.8e12 is one that nobody had written.
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
pub struct SharedArray<S: Shape + ?Sized, Phase> {
    first: *mut S::Item, // Invariant: storage of a shape `S` and this extent, alive as long as the run that `stamp` names.
    extent: S::Extent,
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

impl<S: Shape + ?Sized, Phase> SharedArray<S, Phase> {
    /// Number of slots.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        S::len(self.extent)
    }

    /// Whether the array has no slots.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    fn turn<Next>(self) -> SharedArray<S, Next> {
        SharedArray { first: self.first, extent: self.extent, stamp: self.stamp, _phase: PhantomData }
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

impl<S: StaticShape> SharedArray<S, Writing> {
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn __new<F: Fn(), const LINE: u32, const COLUMN: u32>(instance: &F, site: &'static SharedSite) -> Self {
        let storage = super::allocate::<S::Storage, F, LINE, COLUMN>(instance, site);
        Self { first: storage.cast(), extent: (), stamp: Stamp::now(), _phase: PhantomData }
    }
}

impl<T: AnyBits> SharedArray<[T], Writing> {
    /// An array of `len` items.
    ///
    /// # Safety
    /// `first` is aligned and to memory of the block for so many.
    #[inline(always)]
    pub(super) unsafe fn of_length(first: *mut T, len: usize, stamp: Stamp) -> Self {
        Self { first, extent: len, stamp, _phase: PhantomData }
    }
}

impl<S: Shape + ?Sized> SharedArray<S, Writing> {
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
    ///
    /// Up to eight values are made before the first is written, so that the loads which they come from overlap.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn fill_with(&mut self, mut value: impl FnMut(S::Index) -> S::Item) {
        const TOGETHER: usize = 8;
        let (own, threads, len) = (slot_idx().get(), threads_in_block() as usize, self.len());
        let mut first = own;
        // Nothing wraps around: a length is far below `usize::MAX`, and a block has 1024 threads at most.
        let step = threads.wrapping_mul(TOGETHER);
        while first < len {
            let mut values = [const { MaybeUninit::<S::Item>::uninit() }; TOGETHER];
            let mut i = 0;
            while i < TOGETHER {
                let number = first.wrapping_add(i.wrapping_mul(threads));
                if number < len {
                    values[i] = MaybeUninit::new(value(S::index(number)));
                }
                i = i.wrapping_add(1);
            }
            let mut i = 0;
            while i < TOGETHER {
                let number = first.wrapping_add(i.wrapping_mul(threads));
                if number < len {
                    // SAFETY: the value was made for this number just above.
                    self.store(S::place(number), unsafe { values[i].assume_init() });
                }
                i = i.wrapping_add(1);
            }
            // Mostly known when the kernel is compiled: then there is no loop.
            if step >= len {
                break;
            }
            first = first.wrapping_add(step);
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
        match S::slot(self.extent, index) {
            Some(place) => self.store(place, value),
            None => S::outside(self.extent, index, 1),
        }
    }

    /// Writes `N` neighbouring slots of one row, as [`scatter`](Self::scatter).
    ///
    /// # Panics
    /// When they do not all exist.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn scatter_run<const N: usize>(&mut self, index: S::Index, values: [S::Item; N]) {
        let Some(place) = S::run(self.extent, index, N) else { S::outside(self.extent, index, N) };
        let mut i = 0;
        while i < N {
            self.store(place.wrapping_add(i), values[i]);
            i = i.wrapping_add(1);
        }
    }

    /// Waits for all threads of the block and turns to reading. PTX: `barrier.sync 0`.
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

impl<S: Shape + ?Sized> SharedArray<S, Reading> {
    /// Reads a slot.
    ///
    /// # Panics
    /// When the array has no such slot.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn at(&self, index: S::Index) -> S::Item {
        match S::slot(self.extent, index) {
            Some(place) => self.load(place),
            None => S::outside(self.extent, index, 1),
        }
    }

    /// Reads a slot, or gives `None` where the array has none.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn get(&self, index: S::Index) -> Option<S::Item> {
        S::slot(self.extent, index).map(|place| self.load(place))
    }

    /// Reads `N` neighbouring slots of one row, in pieces of 16 bytes where their place is known to be aligned.
    ///
    /// # Panics
    /// When they do not all exist.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn run<const N: usize>(&self, index: S::Index) -> [S::Item; N] {
        match S::run(self.extent, index, N) {
            Some(place) => core::array::from_fn(|i| self.load(place.wrapping_add(i))),
            None => S::outside(self.extent, index, N),
        }
    }

    /// Waits for all threads of the block and turns to writing again. PTX: `barrier.sync 0`.
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

impl<S: Shape + ?Sized, Phase> core::fmt::Debug for SharedArray<S, Phase> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedArray").field("len", &self.len()).finish_non_exhaustive()
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
