//! What may be passed for each kind of kernel parameter.

use super::{Access, Binder, GridExtent, GridSliceMut, KernelParam, OwnershipMap, RawGridSlice, RawPtr, RawSlice};
use crate::error::LaunchError;
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut, DeviceViewMut};
use warpsmith_device::abi::{AtomicElement, DeviceElement};
use warpsmith_device::{Linear, Patches, PerBlock, Plane, Runs, Striped, Tiles, TransposedTiles};

/// A value that may be passed for a kernel's parameter of type `P`.
///
/// | parameter of the kernel | argument of the launch |
/// | --- | --- |
/// | `&[T]` | `&DeviceBuffer<T>`, `DeviceSlice<T>` |
/// | `&T` | `&DeviceBuffer<T>` or `DeviceSlice<T>` with at least one element |
/// | `GridSliceMut<T>`, also with `Runs<N>`, `Striped<N>`, `PerBlock` | `&mut DeviceBuffer<T>`, `DeviceSliceMut<T>` |
/// | `&[F32x4]`, `GridSliceMut<F32x4>` and the like | of a buffer of `f32`, `x.as_vectors()?` and `y.as_vectors_mut()?` |
/// | `GridSliceMut<T, Plane>`, also with `Tiles<N>`, `TransposedTiles<N>`, `Patches<R, C>` | `buffer.plane_mut(width, height)?` |
/// | `GridSliceMut<T, Volume>` | `buffer.volume_mut(width, height, depth)?` |
/// | `&[AtomicU32]`, `&AtomicU32` and so on | `&DeviceBuffer<AtomicU32>`, or `&mut DeviceBuffer<u32>` |
/// | `*const T`, `*mut T` | the pointer itself: an address of the stream's device |
///
/// # Safety
/// The value that `bind` returns may be used by the kernel as `P` says, from the launch until the stream's later work: the
/// memory behind it is of the stream's device, its use was noted with the binder, and the borrow that the argument holds
/// covers what `P` does with it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for the kernel's parameter of type `{P}`",
    label = "not an argument for a parameter of type `{P}`",
    note = "`&[T]` takes `&DeviceBuffer<T>` or a `DeviceSlice<T>`; `GridSliceMut<T>` takes `&mut DeviceBuffer<T>` or a \
            `DeviceSliceMut<T>`, with `Plane`, `Tiles` and the like or `Volume` the view that `plane_mut` or `volume_mut` \
            makes; `&[F32x4]` and `GridSliceMut<F32x4>` take `x.as_vectors()?` and `y.as_vectors_mut()?` of buffers of `f32`; \
            `&[AtomicU32]` takes `&DeviceBuffer<AtomicU32>` or `&mut DeviceBuffer<u32>`; a host slice must be copied first, \
            with `stream.to_device(..)`"
)]
pub unsafe trait LaunchArg<P: KernelParam> {
    /// Notes the use and gives what the kernel receives.
    ///
    /// # Errors
    /// [`LaunchError`] when the argument lives on another device or has too few elements.
    fn bind(self, binder: &mut Binder<'_>) -> Result<P::Raw, LaunchError>;
}

/// An ownership map that a buffer's length is enough for: [`Linear`], [`Runs`], [`Striped`] and [`PerBlock`], not the maps
/// that have a shape.
#[diagnostic::on_unimplemented(
    message = "the ownership map `{Self}` has a shape, which a buffer or slice alone does not have",
    label = "a view with a shape is needed here",
    note = "pass `buffer.plane_mut(width, height)?` for `Plane`, `Tiles<N>`, `TransposedTiles<N>` and `Patches<ROWS, COLUMNS>`, \
            and `buffer.volume_mut(width, height, depth)?` for `Volume`"
)]
pub trait ShapelessMap: OwnershipMap + Default {}

impl ShapelessMap for Linear {}
impl ShapelessMap for PerBlock {}
impl<const N: usize> ShapelessMap for Runs<N> {}
impl<const N: usize> ShapelessMap for Striped<N> {}

/// An ownership map that divides a [`Plane`] in another way: what `plane_mut` makes may be passed for it.
#[diagnostic::on_unimplemented(
    message = "a plane cannot be passed for the ownership map `{Self}`",
    label = "`{Self}` is not a way to divide a plane",
    note = "`plane_mut` is for `Plane`, `Tiles<N>`, `TransposedTiles<N>` and `Patches<ROWS, COLUMNS>`"
)]
pub trait PlaneMap: OwnershipMap + From<Plane> {}

impl<const N: usize> PlaneMap for Tiles<N> {}
impl<const N: usize> PlaneMap for TransposedTiles<N> {}
impl<const ROWS: usize, const COLUMNS: usize> PlaneMap for Patches<ROWS, COLUMNS> {}

/// Binds elements that the kernel reads, or shares when they are atomics.
#[inline]
fn bind_shared<T: DeviceElement>(slice: DeviceSlice<'_, T>, binder: &mut Binder<'_>) -> Result<(), LaunchError> {
    if T::INTERIOR_MUTABLE {
        binder.note(slice.storage(), Access::Shared, slice.size_bytes())?;
        binder.hold(slice.storage());
        Ok(())
    } else {
        binder.note(slice.storage(), Access::Read, slice.size_bytes())
    }
}

#[inline]
fn bind_element<T: DeviceElement>(
    slice: DeviceSlice<'_, T>,
    binder: &mut Binder<'_>,
) -> Result<RawPtr<T>, LaunchError> {
    if slice.is_empty() {
        return Err(LaunchError::EmptyReference { kernel: binder.kernel(), argument: binder.argument() });
    }
    bind_shared(slice, binder)?;
    Ok(RawPtr { ptr: slice.pointer() })
}

// SAFETY: the slice is inside memory of the device that `bind_shared` checks, its use is noted, and it is borrowed shared,
// which covers reads and, for atomics, shared writes.
unsafe impl<T: DeviceElement> LaunchArg<&'static [T]> for DeviceSlice<'_, T> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawSlice<T>, LaunchError> {
        bind_shared(self, binder)?;
        Ok(RawSlice { ptr: self.pointer(), len: self.len() })
    }
}

// SAFETY: as above, with one element at least.
unsafe impl<T: DeviceElement> LaunchArg<&'static T> for DeviceSlice<'_, T> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawPtr<T>, LaunchError> {
        bind_element(self, binder)
    }
}

macro_rules! shared_arguments {
    ($($argument:ty, $argument_of:ident => $slice:expr;)*) => {$(
        // SAFETY: as for the `DeviceSlice` of the same elements.
        unsafe impl<T: DeviceElement> LaunchArg<&'static [T]> for $argument {
            #[inline]
            fn bind(self, binder: &mut Binder<'_>) -> Result<RawSlice<T>, LaunchError> {
                let $argument_of = self;
                LaunchArg::<&'static [T]>::bind($slice, binder)
            }
        }

        // SAFETY: as for the `DeviceSlice` of the same elements.
        unsafe impl<T: DeviceElement> LaunchArg<&'static T> for $argument {
            #[inline]
            fn bind(self, binder: &mut Binder<'_>) -> Result<RawPtr<T>, LaunchError> {
                let $argument_of = self;
                LaunchArg::<&'static T>::bind($slice, binder)
            }
        }
    )*};
}
shared_arguments! {
    &DeviceBuffer<T>, buffer => buffer.as_slice();
    &&DeviceBuffer<T>, buffer => buffer.as_slice();
    &&mut DeviceBuffer<T>, buffer => buffer.as_slice();
    &DeviceSlice<'_, T>, slice => *slice;
    &DeviceSliceMut<'_, T>, slice => slice.as_slice();
}

/// Binds elements that the launch holds the only borrow of.
#[inline]
fn bind_exclusive<T: DeviceElement, M: OwnershipMap>(
    slice: DeviceSliceMut<'_, T>,
    map: M,
    access: Access,
    binder: &mut Binder<'_>,
) -> Result<RawGridSlice<T, M>, LaunchError> {
    binder.note(slice.storage(), access, slice.size_bytes())?;
    Ok(RawGridSlice { ptr: slice.pointer(), extent: GridExtent { len: slice.len(), map } })
}

// SAFETY: memory of the device that `note` checks; its use is noted, and the exclusive borrow covers the writes.
unsafe impl<T: DeviceElement, M: ShapelessMap> LaunchArg<GridSliceMut<'static, T, M>> for DeviceSliceMut<'_, T> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, M>, LaunchError> {
        bind_exclusive(self, M::default(), Access::Shared, binder)
    }
}

// SAFETY: as above; the borrow is of the whole buffer.
unsafe impl<T: DeviceElement, M: ShapelessMap> LaunchArg<GridSliceMut<'static, T, M>> for &mut DeviceBuffer<T> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, M>, LaunchError> {
        bind_exclusive(self.as_slice_mut(), M::default(), Access::Exclusive, binder)
    }
}

// SAFETY: as above.
unsafe impl<T: DeviceElement, M: ShapelessMap> LaunchArg<GridSliceMut<'static, T, M>> for &mut &mut DeviceBuffer<T> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, M>, LaunchError> {
        LaunchArg::<GridSliceMut<'static, T, M>>::bind(&mut **self, binder)
    }
}

// SAFETY: as above.
unsafe impl<T: DeviceElement, M: ShapelessMap> LaunchArg<GridSliceMut<'static, T, M>> for &mut DeviceSliceMut<'_, T> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, M>, LaunchError> {
        LaunchArg::<GridSliceMut<'static, T, M>>::bind(self.reborrow(), binder)
    }
}

// SAFETY: as above; the view's shape was checked against the slice when it was made.
unsafe impl<T: DeviceElement, M: OwnershipMap> LaunchArg<GridSliceMut<'static, T, M>> for DeviceViewMut<'_, T, M> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, M>, LaunchError> {
        let (slice, map) = self.into_parts();
        bind_exclusive(slice, map, Access::Shared, binder)
    }
}

// SAFETY: as above.
unsafe impl<T: DeviceElement, M: OwnershipMap> LaunchArg<GridSliceMut<'static, T, M>> for &mut DeviceViewMut<'_, T, M> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, M>, LaunchError> {
        self.reborrow().bind(binder)
    }
}

// SAFETY: as above; the same shape, divided in another way.
unsafe impl<T: DeviceElement, M: PlaneMap> LaunchArg<GridSliceMut<'static, T, M>> for DeviceViewMut<'_, T, Plane> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, M>, LaunchError> {
        let (slice, plane) = self.into_parts();
        bind_exclusive(slice, M::from(plane), Access::Shared, binder)
    }
}

// SAFETY: as above.
unsafe impl<T: DeviceElement, M: PlaneMap> LaunchArg<GridSliceMut<'static, T, M>> for &mut DeviceViewMut<'_, T, Plane> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, M>, LaunchError> {
        LaunchArg::<GridSliceMut<'static, T, M>>::bind(self.reborrow(), binder)
    }
}

// SAFETY: the launch holds the only borrow of the plain elements, so that for its time they may be atomics, which have
// the same bytes.
unsafe impl<A: AtomicElement> LaunchArg<&'static [A]> for &mut DeviceBuffer<A::Plain> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawSlice<A>, LaunchError> {
        let slice = self.as_slice_mut();
        binder.note(slice.storage(), Access::Exclusive, slice.size_bytes())?;
        Ok(RawSlice { ptr: slice.pointer().cast_const().cast(), len: slice.len() })
    }
}

// SAFETY: as above, of a part of the buffer.
unsafe impl<A: AtomicElement> LaunchArg<&'static [A]> for DeviceSliceMut<'_, A::Plain> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawSlice<A>, LaunchError> {
        binder.note(self.storage(), Access::Shared, self.size_bytes())?;
        Ok(RawSlice { ptr: self.pointer().cast_const().cast(), len: self.len() })
    }
}

// SAFETY: as above, with one element at least.
unsafe impl<A: AtomicElement> LaunchArg<&'static A> for &mut DeviceBuffer<A::Plain> {
    #[inline]
    fn bind(self, binder: &mut Binder<'_>) -> Result<RawPtr<A>, LaunchError> {
        if self.is_empty() {
            return Err(LaunchError::EmptyReference { kernel: binder.kernel(), argument: binder.argument() });
        }
        let slice: RawSlice<A> = LaunchArg::<&'static [A]>::bind(self, binder)?;
        Ok(RawPtr { ptr: slice.ptr })
    }
}

// SAFETY: a raw pointer promises nothing; the kernel that takes one is `unsafe`, and so is its launch.
unsafe impl<T: 'static> LaunchArg<*const T> for *const T {
    #[inline]
    fn bind(self, _binder: &mut Binder<'_>) -> Result<RawPtr<T>, LaunchError> {
        Ok(RawPtr { ptr: self })
    }
}

// SAFETY: as above.
unsafe impl<T: 'static> LaunchArg<*mut T> for *mut T {
    #[inline]
    fn bind(self, _binder: &mut Binder<'_>) -> Result<RawPtr<T>, LaunchError> {
        Ok(RawPtr { ptr: self.cast_const() })
    }
}
