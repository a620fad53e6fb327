//! Views: slices with a shape of two or three dimensions, which the kernel's threads own by place.

use std::fmt;

use warpsmith_device::abi::DeviceElement;
use warpsmith_device::{OwnershipMap, Plane, Volume};

use super::slice::DeviceSliceMut;
use crate::error::{MemoryError, Result};

/// A slice with an ownership map that has a shape: what a kernel takes as `GridSliceMut<T, Plane>`, also with the other maps of
/// a plane (`Tiles<N>`, `TransposedTiles<N>`, `Patches<R, C>`), or as `GridSliceMut<T, Volume>`.
pub struct DeviceViewMut<'a, T: DeviceElement, M: OwnershipMap> {
    slice: DeviceSliceMut<'a, T>,
    map: M,
}

impl<'a, T: DeviceElement> DeviceViewMut<'a, T, Plane> {
    pub(super) fn plane(slice: DeviceSliceMut<'a, T>, width: usize, height: usize, stride: usize) -> Result<Self> {
        if stride < width {
            return Err(MemoryError::StrideTooSmall { axis: "row", stride, extent: width }.into());
        }
        // The last row need not be followed by a gap.
        let needed = match height.checked_sub(1) {
            Some(rows_before_last) if width != 0 => rows_before_last as u128 * stride as u128 + width as u128,
            _ => 0,
        };
        let shape = || format!("{width} x {height}");
        let map = Plane::with_stride(width, height, stride);
        Self::checked(slice, map, needed, shape, stride)
    }
}

impl<'a, T: DeviceElement> DeviceViewMut<'a, T, Volume> {
    pub(super) fn volume(slice: DeviceSliceMut<'a, T>, width: usize, height: usize, depth: usize) -> Result<Self> {
        // Three 64-bit numbers do not fit into 128 bits; what saturates is too large anyway.
        let needed = (width as u128 * height as u128).saturating_mul(depth as u128);
        let shape = || format!("{width} x {height} x {depth}");
        Self::checked(slice, Volume::new(width, height, depth), needed, shape, width)
    }
}

impl<'a, T: DeviceElement, M: OwnershipMap> DeviceViewMut<'a, T, M> {
    fn checked(
        slice: DeviceSliceMut<'a, T>,
        map: Option<M>,
        needed: u128,
        shape: impl FnOnce() -> String,
        stride: usize,
    ) -> Result<Self> {
        match map {
            Some(map) if needed <= slice.len() as u128 => Ok(Self { slice, map }),
            _ => Err(MemoryError::ViewTooLarge { shape: shape(), stride, needed, len: slice.len() }.into()),
        }
    }

    /// The map, with the shape.
    #[must_use]
    pub fn map(&self) -> &M {
        &self.map
    }

    /// The same view for a shorter time, to be passed on and used again.
    #[must_use]
    pub fn reborrow(&mut self) -> DeviceViewMut<'_, T, M> {
        DeviceViewMut { slice: self.slice.reborrow(), map: self.map }
    }

    pub(crate) fn into_parts(self) -> (DeviceSliceMut<'a, T>, M) {
        (self.slice, self.map)
    }
}

impl<T: DeviceElement, M: OwnershipMap + fmt::Debug> fmt::Debug for DeviceViewMut<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceViewMut").field("slice", &self.slice).field("map", &self.map).finish()
    }
}
