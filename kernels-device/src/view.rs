//! `GridSliceMut`: a slice that all threads of a grid write, each its own elements.
//!
//! # Why this is safe
//! A `&mut [T]` in every thread would be many exclusive borrows of one memory. A [`GridSliceMut`] gives out an element
//! only against an index witness (see [`crate::index`]), through an [`OwnershipMap`] that is part of its type:
//!
//! - a map sends the witnesses of different threads of one launch to different elements, under every launch shape;
//! - the map cannot be chosen per call, so two threads can't reach one element through two maps;
//! - the view is neither `Copy` nor `Clone` and is borrowed for one thread's run, so it can't be kept for later, and
//!   its launch holds the only exclusive borrow of the buffer;
//! - within a thread, `get_mut` borrows the view mutably, so only one element (or run) is out at a time;
//! - a witness is not `Send`, can't be made for another thread, and does not work after its thread's run: on the
//!   device nothing could have kept it, in an ordinary build its stamp is compared with the running thread's.

use core::marker::PhantomData;
use core::mem::{MaybeUninit, align_of, offset_of, size_of};

use crate::abi::{
    ArgumentSink, ByVal, DeviceElement, KernelParam, KernelValue, ParamDesc, ParamKind, Scope, ThreadPlace,
    fold_layout, leaf_layout,
};
use crate::index::{GlobalIdx, Idx2, Idx3, RunIdx, Stamp};

mod leader;
mod patches;
mod striped;
mod tiles;

pub use leader::{BlockLeader, PerBlock, block_leader};
pub use patches::{PatchIdx, Patches, patch_idx};
pub use striped::{Striped, StripedIdx, striped_idx};
pub use tiles::{TileIdx, Tiles, TransposedTileIdx, TransposedTiles, tile_idx, transposed_tile_idx};

mod sealed {
    //! Only the witnesses of this crate can prove ownership.
    use super::Stamp;

    pub trait Witness {
        fn stamp(&self) -> Stamp;
    }
}
use sealed::Witness;

impl Witness for GlobalIdx {
    #[inline]
    fn stamp(&self) -> Stamp {
        self.stamp()
    }
}
impl<const N: usize> Witness for RunIdx<N> {
    #[inline]
    fn stamp(&self) -> Stamp {
        self.stamp()
    }
}
impl Witness for Idx2 {
    #[inline]
    fn stamp(&self) -> Stamp {
        self.stamp()
    }
}
impl Witness for Idx3 {
    #[inline]
    fn stamp(&self) -> Stamp {
        self.stamp()
    }
}

/// How the elements of a [`GridSliceMut`] are divided among the threads of a grid.
///
/// # Safety
/// [`Self::element`] gives different elements for the witnesses of different threads of one launch, whatever the
/// launch's shape. Size is at most 56 bytes and alignment at most 8. [`Self::FITS`] is true only where a map reaches a
/// launch in no way but with a slice that holds every element it gives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which thread owns which element",
    note = "the maps are `Linear` (one element a thread), `Runs<N>`, `Striped<N>`, `PerBlock`, `Plane` (2-D), `Tiles<N>`, \
            `TransposedTiles<N>`, `Patches<ROWS, COLUMNS>` and `Volume` (3-D)"
)]
pub unsafe trait OwnershipMap: KernelValue {
    /// The witness that proves an element to be the calling thread's.
    type Index: Witness;

    /// Whether every element that the map gives lies inside the slice: a launch takes such a map only from a view that was
    /// checked when it was made, so that the kernel need not.
    const FITS: bool = false;

    /// The witness's element; `None` when it lies outside the map's shape.
    fn element(&self, index: &Self::Index) -> Option<usize>;

    /// Whether elements are owned by place along x and y.
    #[doc(hidden)]
    const IS_PLANE: bool = false;

    /// Whether the thread at a place finds its own element in a slice of `len`, as far as the map can say it at a glance: true of
    /// a place only if it is of those none of whose numbers is larger. It makes the executor faster, and no access relies on it.
    #[doc(hidden)]
    #[must_use]
    fn reaches(&self, _len: usize, _place: &ThreadPlace) -> bool {
        true
    }
}

/// Thread `t` of the grid owns element `t`, and by grid strides every element that is a multiple of the number of
/// threads further. Witness: [`crate::index::global_idx`], [`crate::index::grid_stride`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Linear;

// SAFETY: it holds nothing.
unsafe impl KernelValue for Linear {
    const LAYOUT: u64 = leaf_layout::<Self>("Linear");
}

// SAFETY: the witness is congruent to its thread's number modulo the number of threads.
unsafe impl OwnershipMap for Linear {
    type Index = GlobalIdx;

    #[inline]
    fn element(&self, index: &GlobalIdx) -> Option<usize> {
        Some(index.get())
    }

    #[inline]
    fn reaches(&self, len: usize, place: &ThreadPlace) -> bool {
        place.global < len as u64
    }
}

/// Thread `t` of the grid owns the `N` elements from `t * N`, and by strides the runs that are whole grids of runs
/// further. Witness: [`crate::index::run_idx`], [`crate::index::run_stride`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Runs<const N: usize>;

// SAFETY: it holds nothing.
unsafe impl<const N: usize> KernelValue for Runs<N> {
    const LAYOUT: u64 = fold_layout(leaf_layout::<Self>("Runs"), N as u64);
}

// SAFETY: a run's number is congruent to its thread's modulo the number of threads, and runs do not overlap.
unsafe impl<const N: usize> OwnershipMap for Runs<N> {
    type Index = RunIdx<N>;

    #[inline]
    fn element(&self, index: &RunIdx<N>) -> Option<usize> {
        Some(index.get())
    }
}

/// The thread at column `x` and row `y` owns element `y * stride + x`, where `x < width` and `y < height`, and by grid strides
/// those that are whole grids away. Witness: [`crate::index::global_idx_2d`], [`crate::index::grid_stride_2d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Plane {
    width: usize,
    height: usize,
    stride: usize, // Invariant: at least `width`, and `stride * height` does not pass isize::MAX.
}

impl Plane {
    /// Rows of `width` elements without gaps; `None` when the elements can't be counted in an `isize`.
    #[must_use]
    pub const fn new(width: usize, height: usize) -> Option<Self> {
        Self::with_stride(width, height, width)
    }

    /// Rows of `width` elements whose starts are `stride` elements apart; `None` when `stride < width` or the
    /// elements can't be counted in an `isize`.
    #[must_use]
    pub const fn with_stride(width: usize, height: usize, stride: usize) -> Option<Self> {
        match stride.checked_mul(height) {
            Some(len) if len <= isize::MAX as usize && width <= stride => Some(Self { width, height, stride }),
            _ => None,
        }
    }

    /// Elements of a row.
    #[inline]
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    #[inline]
    #[must_use]
    pub const fn height(&self) -> usize {
        self.height
    }

    /// Elements from the start of a row to the start of the next.
    #[inline]
    #[must_use]
    pub const fn stride(&self) -> usize {
        self.stride
    }

    /// The element in column `x` and row `y`; `None` outside the shape. Different places are different elements.
    #[inline]
    #[must_use]
    pub fn place(&self, x: usize, y: usize) -> Option<usize> {
        (x < self.width && y < self.height).then(|| y.wrapping_mul(self.stride).wrapping_add(x))
    }
}

// SAFETY: three lengths, no address.
unsafe impl KernelValue for Plane {
    const LAYOUT: u64 = {
        let hash = fold_layout(leaf_layout::<Self>("Plane"), offset_of!(Self, width) as u64);
        fold_layout(fold_layout(hash, offset_of!(Self, height) as u64), offset_of!(Self, stride) as u64)
    };
}

// SAFETY: the witnesses of different threads are different places, in one dimension at least by the remainder modulo the number
// of threads along it; and different places are different elements, because `x < width <= stride` and nothing wraps around.
unsafe impl OwnershipMap for Plane {
    type Index = Idx2;
    const FITS: bool = true;

    #[inline]
    fn element(&self, index: &Idx2) -> Option<usize> {
        self.place(index.x(), index.y())
    }

    const IS_PLANE: bool = true;

    #[inline]
    fn reaches(&self, _len: usize, place: &ThreadPlace) -> bool {
        place.x < self.width as u64 && place.y < self.height as u64
    }
}

/// The thread at `x`, `y`, `z` owns element `(z * height + y) * width + x`, inside the shape, and by grid strides those that are
/// whole grids away. Witness: [`crate::index::global_idx_3d`], [`crate::index::grid_stride_3d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Volume {
    width: usize,
    height: usize,
    depth: usize, // Invariant: the product of the three does not pass isize::MAX.
}

impl Volume {
    /// Dense, x fastest; `None` when the elements can't be counted in an `isize`.
    #[must_use]
    pub const fn new(width: usize, height: usize, depth: usize) -> Option<Self> {
        let Some(plane) = width.checked_mul(height) else { return None };
        match plane.checked_mul(depth) {
            Some(len) if len <= isize::MAX as usize => Some(Self { width, height, depth }),
            _ => None,
        }
    }

    /// Elements along x.
    #[inline]
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Elements along y.
    #[inline]
    #[must_use]
    pub const fn height(&self) -> usize {
        self.height
    }

    /// Elements along z.
    #[inline]
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.depth
    }
}

// SAFETY: three lengths, no address.
unsafe impl KernelValue for Volume {
    const LAYOUT: u64 = {
        let hash = fold_layout(leaf_layout::<Self>("Volume"), offset_of!(Self, width) as u64);
        fold_layout(fold_layout(hash, offset_of!(Self, height) as u64), offset_of!(Self, depth) as u64)
    };
}

// SAFETY: the witnesses of different threads are different places, as for `Plane`; and different places inside the shape are
// different elements, and nothing wraps around.
unsafe impl OwnershipMap for Volume {
    type Index = Idx3;
    const FITS: bool = true;

    #[inline]
    fn element(&self, index: &Idx3) -> Option<usize> {
        let (x, y, z) = (index.x(), index.y(), index.z());
        let inside = x < self.width && y < self.height && z < self.depth;
        inside.then(|| z.wrapping_mul(self.height).wrapping_add(y).wrapping_mul(self.width).wrapping_add(x))
    }
}

/// Length and ownership map of a [`GridSliceMut`], as they cross to the device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GridExtent<M> {
    /// Length in elements.
    pub len: usize,
    /// Which thread owns which element.
    pub map: M,
}

/// A [`GridSliceMut`] as the host keeps it between launch and run.
#[derive(Debug)]
#[repr(C)]
pub struct RawGridSlice<T, M> {
    /// Address of the first element on the device that runs the kernel.
    pub ptr: *mut T,
    /// Length and map.
    pub extent: GridExtent<M>,
}

impl<T, M: Copy> Clone for RawGridSlice<T, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, M: Copy> Copy for RawGridSlice<T, M> {}
// SAFETY: an address and plain data; whoever makes a parameter of it answers for the access.
unsafe impl<T, M: Send> Send for RawGridSlice<T, M> {}
// SAFETY: as above.
unsafe impl<T, M: Sync> Sync for RawGridSlice<T, M> {}

/// A slice of device memory that the whole grid writes, each thread its own elements.
///
/// `M` says which thread owns which element: [`Linear`] (one each), [`Runs<N>`], [`Striped<N>`], [`PerBlock`], [`Plane`],
/// [`Tiles<N>`], [`TransposedTiles<N>`], [`Patches`], [`Volume`]. An element is
/// reached with the map's witness only, so that no two threads hold the same one.
///
/// # Examples
/// ```
/// use warpsmith_device::{GridSliceMut, global_idx};
///
/// fn double(x: &[f32], mut y: GridSliceMut<f32>) {
///     let i = global_idx();
///     if let Some(y) = y.get_mut(&i) {
///         *y = 2.0 * x[i.get()];
///     }
/// }
/// ```
pub struct GridSliceMut<'s, T, M: OwnershipMap = Linear> {
    ptr: *mut T, // Invariant: `len` elements, of which this thread's run may touch those that `map` gives it.
    len: usize,
    map: M,
    _scope: PhantomData<&'s mut [T]>,
}

impl<T, M: OwnershipMap> GridSliceMut<'_, T, M> {
    /// Length of the whole slice, in elements.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the slice has no elements.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The ownership map, with its shape.
    #[inline]
    #[must_use]
    pub fn map(&self) -> &M {
        &self.map
    }

    /// The witness's element, to write; `None` past the end of the slice or outside the map's shape.
    ///
    /// # Panics
    /// In an ordinary build, when the witness was made by another thread's run.
    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn get_mut(&mut self, index: &M::Index) -> Option<&mut T> {
        let element = self.own_element(index)?;
        // SAFETY: `own_element` gives an element inside the slice, which no other thread reaches (see the module's
        // text), and this thread's earlier borrow ended with `&mut self`.
        Some(unsafe { &mut *element })
    }

    /// The witness's element, to read; `None` past the end of the slice or outside the map's shape.
    ///
    /// # Panics
    /// As [`Self::get_mut`].
    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn get(&self, index: &M::Index) -> Option<&T> {
        let element = self.own_element(index)?;
        // SAFETY: as in `get_mut`; this thread writes no element while it borrows the view shared.
        Some(unsafe { &*element })
    }

    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn own_element(&self, index: &M::Index) -> Option<*mut T> {
        index.stamp().check();
        let element = self.map.element(index)?;
        // The check comes before the address, so that one comparison serves both.
        if !M::FITS && element >= self.len {
            return None;
        }
        // SAFETY: `element < len` was just checked, here or, for the map's whole shape, before the launch.
        Some(unsafe { self.ptr.add(element) })
    }
}

impl<T, const N: usize> GridSliceMut<'_, T, Runs<N>> {
    /// The part of the witness's run that lies inside the slice: `N` elements, fewer at the end, none past it.
    ///
    /// # Panics
    /// As [`Self::get_mut`].
    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn run_mut(&mut self, index: &RunIdx<N>) -> &mut [T] {
        index.stamp().check();
        let start = index.start().min(self.len);
        let count = N.min(self.len.wrapping_sub(start));
        // SAFETY: `start <= len` and `start + count <= len`; the run is this thread's own (see the module's text), and
        // its earlier borrow ended with `&mut self`.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.add(start), count) }
    }

    /// The witness's run when all of it lies inside the slice.
    ///
    /// # Panics
    /// As [`Self::get_mut`].
    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn whole_run_mut(&mut self, index: &RunIdx<N>) -> Option<&mut [T; N]> {
        index.stamp().check();
        let start = index.start();
        if start >= self.len || N > self.len.wrapping_sub(start) {
            return None;
        }
        // SAFETY: `start + N <= len` was just checked; the run is this thread's own, as in `run_mut`.
        Some(unsafe { &mut *self.ptr.add(start).cast::<[T; N]>() })
    }
}

impl<T, M: OwnershipMap> core::fmt::Debug for GridSliceMut<'_, T, M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GridSliceMut").field("len", &self.len).finish_non_exhaustive()
    }
}

// SAFETY: a pointer and a `byval` extent, as `ParamKind::GridSliceMut` says. The empty array keeps `noalias`.
unsafe impl<T: DeviceElement, M: OwnershipMap> KernelParam for GridSliceMut<'static, T, M> {
    type Raw = RawGridSlice<T, M>;
    type Abi0 = &'static mut [MaybeUninit<T>; 0];
    type Abi1 = ByVal<GridExtent<M>>;
    type Memory = &'static mut [MaybeUninit<T>; 0];
    type Bound<'s> = GridSliceMut<'s, T, M>;
    const DESC: ParamDesc = {
        assert!(align_of::<GridExtent<M>>() == 8, "an ownership map is aligned to at most 8 bytes");
        ParamDesc {
            kind: ParamKind::GridSliceMut,
            align: align_of::<T>() as u32,
            size: size_of::<T>() as u64,
            extent_size: size_of::<GridExtent<M>>() as u64,
            layout: fold_layout(T::LAYOUT, M::LAYOUT),
        }
    };

    unsafe fn from_raw<'s>(raw: RawGridSlice<T, M>, _scope: &'s Scope) -> GridSliceMut<'s, T, M> {
        GridSliceMut { ptr: raw.ptr, len: raw.extent.len, map: raw.extent.map, _scope: PhantomData }
    }

    #[inline]
    unsafe fn memory(raw: &RawGridSlice<T, M>) -> &'static mut [MaybeUninit<T>; 0] {
        // SAFETY: the address of a buffer's elements, aligned and not null; there are no elements in the array. What the
        // function that receives it reaches through it are the elements of its own threads, which nobody else reaches meanwhile.
        unsafe { &mut *raw.ptr.cast::<[MaybeUninit<T>; 0]>() }
    }

    #[inline]
    fn with_memory(raw: RawGridSlice<T, M>, memory: &'static mut [MaybeUninit<T>; 0]) -> RawGridSlice<T, M> {
        RawGridSlice { ptr: (&raw mut *memory).cast(), ..raw }
    }

    const IS_PLANE: bool = M::IS_PLANE;

    #[inline]
    fn reaches(raw: &RawGridSlice<T, M>, place: &ThreadPlace) -> bool {
        raw.extent.map.reaches(raw.extent.len, place)
    }

    unsafe fn from_abi<'s>(
        abi0: &'static mut [MaybeUninit<T>; 0],
        abi1: ByVal<GridExtent<M>>,
        _scope: &'s Scope,
    ) -> GridSliceMut<'s, T, M> {
        // SAFETY: the caller promises an entry's argument.
        let extent = unsafe { abi1.read() };
        GridSliceMut { ptr: (&raw mut *abi0).cast::<T>(), len: extent.len, map: extent.map, _scope: PhantomData }
    }

    #[inline]
    fn arguments(raw: &RawGridSlice<T, M>, sink: &mut ArgumentSink<'_>) {
        sink.push((&raw const raw.ptr).cast());
        sink.push((&raw const raw.extent).cast());
    }
}
