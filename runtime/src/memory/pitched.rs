//! Two-dimensional memory: rows that start at aligned addresses, parts of them, and copies of rows.

use std::fmt;
use std::mem::size_of;
use std::ops::Range;

use bytemuck::Zeroable;
use warpsmith_device::Plane;
use warpsmith_device::abi::KernelValue;

use super::buffer::DeviceBuffer;
use super::pending::CopyScope;
use super::pinned::size_in_bytes;
use super::slice::{DeviceSlice, DeviceSliceMut};
use super::storage::{RowsCopy, failed};
use super::uses::Access;
use super::view::DeviceViewMut;
use crate::device::Device;
use crate::driver::Attribute;
use crate::error::{MemoryError, Result};
use crate::stream::Stream;

/// Bytes to a multiple of which rows start at least: what a warp reads at once begins there.
const ROW_ALIGN: usize = 256;
/// The largest gap between rows is less than this many bytes: elements of odd sizes that would need more lie densely.
const MOST_ALIGN: usize = 4096;

/// Elements in rows, each of which starts at an aligned address of the device: [`Stream::pitched`].
///
/// From one row's start to the next are [`pitch`](Self::pitch) elements. Rows start at multiples of 256 bytes, or of the GPU's
/// pitch for textures where that is more; elements whose size does not divide such a pitch make it longer, and from 4096 bytes on
/// rows lie densely. Kernels take the rows as [`plane_mut`](Self::plane_mut), or all elements with the gaps as
/// [`as_flat`](Self::as_flat), with the pitch as a number beside.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// #[kernel]
/// fn add_rows(pitch: usize, x: &[f32], mut y: GridSliceMut<f32, Plane>) {
///     let i = global_idx_2d();
///     if let Some(y) = y.get_mut(&i) {
///         *y += x[i.y() * pitch + i.x()];
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let stream = Device::cpu().stream()?;
/// let x = stream.to_device_pitched(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], 2, 3)?;
/// let mut y = stream.pitched::<f32>(2, 3)?;
/// add_rows::launch(&stream, LaunchConfig::for_2d(3, 2), x.pitch(), x.as_flat(), y.plane_mut()?)?;
/// assert_eq!(y.to_host(&stream)?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// assert_eq!(y.part(0..2, 1..3).to_host(&stream)?, [2.0, 3.0, 5.0, 6.0]);
/// # Ok(())
/// # }
/// ```
pub struct PitchedBuffer<T: KernelValue> {
    buffer: DeviceBuffer<T>, // Invariant: `rows * pitch` elements.
    rows: usize,
    columns: usize,
    pitch: usize,
}

/// Rows of a device's memory, to be read: a part of a [`PitchedBuffer`], or of any slice with a stride.
pub struct PitchedSlice<'a, T: KernelValue> {
    slice: DeviceSlice<'a, T>, // Invariant: as long as the rows reach.
    rows: usize,
    columns: usize,
    pitch: usize,
}

/// Rows of a device's memory, to be written.
pub struct PitchedSliceMut<'a, T: KernelValue> {
    slice: DeviceSliceMut<'a, T>, // Invariant: as long as the rows reach.
    rows: usize,
    columns: usize,
    pitch: usize,
}

impl<T: KernelValue> Clone for PitchedSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: KernelValue> Copy for PitchedSlice<'_, T> {}

/// Elements from the first of rows to their last.
fn reach(rows: usize, columns: usize, stride: usize) -> u128 {
    match rows.checked_sub(1) {
        Some(before_last) if columns != 0 => before_last as u128 * stride as u128 + columns as u128,
        _ => 0,
    }
}

/// Bytes from one row's start to the next. A single row may have any stride, which then means nothing.
fn stride_bytes<T>(rows: usize, columns: usize, stride: usize) -> usize {
    let elements = if rows <= 1 { columns } else { stride };
    elements.saturating_mul(size_of::<T>())
}

/// Elements from one row's start to the next for an alignment in bytes.
fn pitch_for(columns: usize, element_bytes: usize, align: usize) -> Option<usize> {
    if element_bytes == 0 {
        return Some(columns);
    }
    let step = align / greatest_common_divisor(align, element_bytes);
    if step * element_bytes > MOST_ALIGN.max(align) {
        return Some(columns);
    }
    columns.checked_next_multiple_of(step)
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Start of a part of rows, and how many elements it reaches over.
#[track_caller]
fn part(rows: &Range<usize>, columns: &Range<usize>, of: (usize, usize, usize)) -> Range<usize> {
    let (all_rows, all_columns, pitch) = of;
    for (range, len) in [(rows, all_rows), (columns, all_columns)] {
        if range.start > range.end || range.end > len {
            panic!("{}", MemoryError::Range { start: range.start, end: range.end, len });
        }
    }
    // Inside the rows, whose reach is a `usize`.
    let len =
        usize::try_from(reach(rows.len(), columns.len(), pitch)).expect("a part reaches no further than the whole");
    if len == 0 { 0..0 } else { rows.start * pitch + columns.start..rows.start * pitch + columns.start + len }
}

/// Checks a slice of the host against the rows that are copied from or to it.
fn check_host(rows: usize, columns: usize, stride: usize, len: usize) -> Result<(), MemoryError> {
    if stride < columns {
        return Err(MemoryError::StrideTooSmall { axis: "row", stride, extent: columns });
    }
    let needed = reach(rows, columns, stride);
    if needed > len as u128 {
        return Err(MemoryError::HostPlaneTooShort { rows, columns, stride, needed, len });
    }
    Ok(())
}

impl Stream {
    /// `rows` rows of `columns` elements, all of whose bytes are zero, each row at an aligned address.
    ///
    /// # Errors
    /// [`MemoryError`] when there is not that much memory.
    pub fn pitched<T: KernelValue + Zeroable>(&self, rows: usize, columns: usize) -> Result<PitchedBuffer<T>> {
        let device = self.device();
        let align = match device.parts() {
            None => ROW_ALIGN,
            Some(parts) => {
                let texture = parts.gpu.attribute(Attribute::TexturePitchAlignment);
                let texture = texture.map_err(|source| failed("asking for a pitch's alignment", 0, source))?;
                ROW_ALIGN.max(texture as usize)
            }
        };
        let too_large = MemoryError::SizeOverflow { len: columns, element_bytes: size_of::<T>() };
        let pitch = pitch_for(columns, size_of::<T>(), align).ok_or(too_large)?;
        size_in_bytes::<T>(pitch)?;
        let row_bytes = pitch * size_of::<T>();
        let len = rows.checked_mul(pitch).ok_or(MemoryError::SizeOverflow { len: rows, element_bytes: row_bytes })?;
        Ok(PitchedBuffer { buffer: self.zeroed(len)?, rows, columns, pitch })
    }

    /// Dense rows of the host as rows at aligned addresses.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when there are not `rows * columns` elements, [`MemoryError`] when there is not that much
    /// memory.
    pub fn to_device_pitched<T: KernelValue + Zeroable>(
        &self,
        elements: &[T],
        rows: usize,
        columns: usize,
    ) -> Result<PitchedBuffer<T>> {
        let mut buffer = self.pitched(rows, columns)?;
        buffer.copy_from_host(self, elements)?;
        Ok(buffer)
    }
}

impl<T: KernelValue> PitchedBuffer<T> {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Elements from one row's start to the next.
    #[must_use]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Bytes from one row's start to the next.
    #[must_use]
    pub fn pitch_bytes(&self) -> usize {
        self.pitch * size_of::<T>()
    }

    /// The device whose memory it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    /// All elements in order, those between the rows included: row `r` is at `r * pitch .. r * pitch + columns`.
    #[must_use]
    pub fn as_flat(&self) -> DeviceSlice<'_, T> {
        self.buffer.as_slice()
    }

    /// As [`as_flat`](Self::as_flat), to be written.
    #[must_use]
    pub fn as_flat_mut(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.as_slice_mut()
    }

    /// The rows, for a kernel that takes `GridSliceMut<T, Plane>` or the like.
    ///
    /// # Errors
    /// [`MemoryError::ViewTooLarge`] when a kernel could not count the elements.
    pub fn plane_mut(&mut self) -> Result<DeviceViewMut<'_, T, Plane>> {
        let (columns, rows, pitch) = (self.columns, self.rows, self.pitch);
        self.buffer.plane_mut_with_stride(columns, rows, pitch)
    }

    /// One row.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    #[track_caller]
    pub fn row(&self, row: usize) -> DeviceSlice<'_, T> {
        self.part(row..row.saturating_add(1), 0..self.columns).slice
    }

    /// One row, to be written.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    #[track_caller]
    pub fn row_mut(&mut self, row: usize) -> DeviceSliceMut<'_, T> {
        let columns = self.columns;
        self.part_mut(row..row.saturating_add(1), 0..columns).slice
    }

    /// All rows, borrowed.
    #[must_use]
    pub fn as_rows(&self) -> PitchedSlice<'_, T> {
        self.part(0..self.rows, 0..self.columns)
    }

    /// All rows, borrowed to be written.
    #[must_use]
    pub fn as_rows_mut(&mut self) -> PitchedSliceMut<'_, T> {
        let (rows, columns) = (self.rows, self.columns);
        self.part_mut(0..rows, 0..columns)
    }

    /// A rectangle.
    ///
    /// # Panics
    /// When the ranges are not inside.
    #[must_use]
    #[track_caller]
    pub fn part(&self, rows: Range<usize>, columns: Range<usize>) -> PitchedSlice<'_, T> {
        let range = part(&rows, &columns, (self.rows, self.columns, self.pitch));
        let (rows, columns, pitch) = (rows.len(), columns.len(), self.pitch);
        PitchedSlice { slice: self.buffer.slice(range), rows, columns, pitch }
    }

    /// A rectangle, to be written.
    ///
    /// # Panics
    /// When the ranges are not inside.
    #[must_use]
    #[track_caller]
    pub fn part_mut(&mut self, rows: Range<usize>, columns: Range<usize>) -> PitchedSliceMut<'_, T> {
        let range = part(&rows, &columns, (self.rows, self.columns, self.pitch));
        let (rows, columns, pitch) = (rows.len(), columns.len(), self.pitch);
        PitchedSliceMut { slice: self.buffer.slice_mut(range), rows, columns, pitch }
    }

    /// Copies dense rows from the host.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when there are not `rows * columns` elements.
    pub fn copy_from_host(&mut self, stream: &Stream, elements: &[T]) -> Result<()> {
        self.as_rows_mut().copy_from_host(stream, elements)
    }

    /// The rows without gaps, once the stream's work is done.
    ///
    /// # Errors
    /// What the stream's earlier work did wrong.
    pub fn to_host(&self, stream: &Stream) -> Result<Vec<T>> {
        self.as_rows().to_host(stream)
    }
}

impl<'a, T: KernelValue> DeviceSlice<'a, T> {
    /// The elements as rows whose starts are `pitch` elements apart, to be copied.
    ///
    /// # Errors
    /// [`MemoryError::ViewTooLarge`] when the slice has fewer elements, [`MemoryError::StrideTooSmall`] when `pitch` is less than
    /// `columns`.
    pub fn as_rows(&self, rows: usize, columns: usize, pitch: usize) -> Result<PitchedSlice<'a, T>> {
        let reach = check_rows(rows, columns, pitch, self.len())?;
        Ok(PitchedSlice { slice: self.slice(..reach), rows, columns, pitch })
    }
}

impl<'a, T: KernelValue> DeviceSliceMut<'a, T> {
    /// The elements as rows whose starts are `pitch` elements apart, to be copied to.
    ///
    /// # Errors
    /// As [`DeviceSlice::as_rows`].
    pub fn into_rows(self, rows: usize, columns: usize, pitch: usize) -> Result<PitchedSliceMut<'a, T>> {
        let reach = check_rows(rows, columns, pitch, self.len())?;
        Ok(PitchedSliceMut { slice: self.into_slice(..reach), rows, columns, pitch })
    }
}

/// Checks rows against the slice that they are of, and gives how many elements they reach over.
fn check_rows(rows: usize, columns: usize, pitch: usize, len: usize) -> Result<usize, MemoryError> {
    if pitch < columns {
        return Err(MemoryError::StrideTooSmall { axis: "row", stride: pitch, extent: columns });
    }
    let needed = reach(rows, columns, pitch);
    let fits = usize::try_from(needed).ok().filter(|&needed| needed <= len);
    fits.ok_or_else(|| MemoryError::ViewTooLarge { shape: format!("{rows} x {columns}"), stride: pitch, needed, len })
}

impl<T: KernelValue> PitchedSlice<'_, T> {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Elements from one row's start to the next.
    #[must_use]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Copies the rows to the host, where their starts are `stride` elements apart, once the stream's work is done.
    ///
    /// # Errors
    /// [`MemoryError::HostPlaneTooShort`], [`MemoryError::StrideTooSmall`]; what the stream's earlier work did wrong.
    pub fn copy_to_host_strided(&self, stream: &Stream, elements: &mut [T], stride: usize) -> Result<()> {
        check_host(self.rows, self.columns, stride, elements.len())?;
        // SAFETY: the rows are inside `elements`, as was checked; the wait below ends the copy.
        unsafe { self.start_to_host(stream, elements.as_mut_ptr(), stride) }?;
        self.slice.storage().wait_for_copy(stream)
    }

    /// Starts a copy of the rows to the host.
    ///
    /// # Safety
    /// As many rows with this stride are writable at `to` until the copy is over in stream order.
    unsafe fn start_to_host(&self, stream: &Stream, to: *mut T, stride: usize) -> Result<()> {
        let copy = RowsCopy::new::<T>(self.rows, self.columns);
        let to = (to.cast(), stride_bytes::<T>(self.rows, self.columns, stride));
        let from = (self.slice.offset(), stride_bytes::<T>(self.rows, self.columns, self.pitch));
        // SAFETY: the rows are inside the storage; the caller answers for the host's side.
        unsafe { self.slice.storage().start_rows_to_host(stream, from, to, copy) }
    }

    /// The rows without gaps, once the stream's work is done.
    ///
    /// # Errors
    /// What the stream's earlier work did wrong.
    pub fn to_host(&self, stream: &Stream) -> Result<Vec<T>> {
        // Rows of elements without bytes may be more than their reach.
        let len = self.rows.checked_mul(self.columns);
        let len = len.ok_or(MemoryError::SizeOverflow { len: self.rows, element_bytes: self.columns })?;
        let mut elements: Vec<T> = Vec::new();
        let bytes = len * size_of::<T>();
        elements.try_reserve_exact(len).map_err(|_| super::storage::out_of_memory(&Device::cpu(), bytes))?;
        // SAFETY: there is room for the rows; the wait below ends the copy.
        unsafe { self.start_to_host(stream, elements.as_mut_ptr(), self.columns) }?;
        self.slice.storage().wait_for_copy(stream)?;
        // SAFETY: the copy is done and wrote `len` elements, which are plain data.
        unsafe { elements.set_len(len) };
        Ok(elements)
    }
}

impl<T: KernelValue> PitchedSliceMut<'_, T> {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Elements from one row's start to the next.
    #[must_use]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Copies dense rows from the host.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when there are not `rows * columns` elements.
    pub fn copy_from_host(&mut self, stream: &Stream, elements: &[T]) -> Result<()> {
        let needed = self.rows as u128 * self.columns as u128;
        if needed != elements.len() as u128 {
            let destination_len = usize::try_from(needed).unwrap_or(usize::MAX);
            return Err(MemoryError::LengthMismatch { source_len: elements.len(), destination_len }.into());
        }
        self.copy_from_host_strided(stream, elements, self.columns)
    }

    /// Copies rows from the host, where their starts are `stride` elements apart. The source has been read when this returns.
    ///
    /// # Errors
    /// [`MemoryError::HostPlaneTooShort`], [`MemoryError::StrideTooSmall`].
    pub fn copy_from_host_strided(&mut self, stream: &Stream, elements: &[T], stride: usize) -> Result<()> {
        check_host(self.rows, self.columns, stride, elements.len())?;
        // SAFETY: the rows are inside `elements`, as was checked; the wait below ends the copy.
        unsafe { self.start_from_host(stream, elements.as_ptr(), stride) }?;
        self.slice.storage().wait_for_copy(stream)
    }

    /// Starts a copy of the rows from the host.
    ///
    /// # Safety
    /// As many rows with this stride are readable at `from` until the copy is over in stream order.
    unsafe fn start_from_host(&mut self, stream: &Stream, from: *const T, stride: usize) -> Result<()> {
        let copy = RowsCopy::new::<T>(self.rows, self.columns);
        let from = (from.cast(), stride_bytes::<T>(self.rows, self.columns, stride));
        let to = (self.slice.offset(), stride_bytes::<T>(self.rows, self.columns, self.pitch));
        // SAFETY: the rows are inside the storage and borrowed by nobody else; the caller answers for the host's side.
        unsafe { self.slice.storage().start_rows_from_host(stream, Access::Shared, to, from, copy) }
    }

    /// Copies rows from other rows of the device.
    ///
    /// # Errors
    /// [`MemoryError::ShapeMismatch`] when the shapes differ, [`MemoryError::OtherDevice`] for another device.
    pub fn copy_from_device(&mut self, stream: &Stream, source: &PitchedSlice<'_, T>) -> Result<()> {
        if (source.rows, source.columns) != (self.rows, self.columns) {
            return Err(MemoryError::ShapeMismatch {
                source_rows: source.rows,
                source_columns: source.columns,
                destination_rows: self.rows,
                destination_columns: self.columns,
            }
            .into());
        }
        let copy = RowsCopy::new::<T>(self.rows, self.columns);
        let to = (self.slice.offset(), stride_bytes::<T>(self.rows, self.columns, self.pitch));
        let source_pitch = stride_bytes::<T>(source.rows, source.columns, source.pitch);
        let from = (source.slice.storage(), source.slice.offset(), source_pitch);
        // SAFETY: both are inside their storages; this is borrowed by nobody else, so they do not overlap.
        unsafe { self.slice.storage().copy_rows_on_device(stream, Access::Shared, to, from, copy) }
    }
}

impl<'scope> CopyScope<'scope, '_> {
    /// Starts a copy of rows of the host, whose starts are `stride` elements apart, to rows of a device.
    ///
    /// # Errors
    /// [`MemoryError::HostPlaneTooShort`], [`MemoryError::StrideTooSmall`], and as
    /// [`copy_to_device`](Self::copy_to_device).
    pub fn copy_rows_to_device<T: KernelValue>(
        &'scope self,
        source: &'scope [T],
        stride: usize,
        destination: &mut PitchedSliceMut<'_, T>,
    ) -> Result<()> {
        check_host(destination.rows, destination.columns, stride, source.len())?;
        // SAFETY: the rows are inside `source`, as was checked, which is borrowed until the scope has waited.
        self.start_checked(size_of_val(source), || unsafe {
            destination.start_from_host(self.stream(), source.as_ptr(), stride)
        })
    }

    /// Starts a copy of rows of a device to rows of the host, whose starts are `stride` elements apart.
    ///
    /// # Errors
    /// As [`copy_rows_to_device`](Self::copy_rows_to_device).
    pub fn copy_rows_to_host<T: KernelValue>(
        &'scope self,
        source: &PitchedSlice<'_, T>,
        destination: &'scope mut [T],
        stride: usize,
    ) -> Result<()> {
        check_host(source.rows, source.columns, stride, destination.len())?;
        self.note_read(source.slice.storage());
        // SAFETY: the rows are inside `destination`, as was checked, which is borrowed until the scope has waited.
        self.start_checked(size_of_val(destination), || unsafe {
            source.start_to_host(self.stream(), destination.as_mut_ptr(), stride)
        })
    }
}

macro_rules! debug {
    ($($name:ident$(<$lifetime:lifetime>)?),*) => {$(
        impl<T: KernelValue> fmt::Debug for $name<$($lifetime,)? T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("element", &std::any::type_name::<T>())
                    .field("rows", &self.rows)
                    .field("columns", &self.columns)
                    .field("pitch", &self.pitch)
                    .finish_non_exhaustive()
            }
        }
    )*};
}
debug!(PitchedBuffer, PitchedSlice<'_>, PitchedSliceMut<'_>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitches_are_aligned_and_waste_less_than_their_alignment() {
        for align in [256, 512] {
            for bytes in [1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 100, 256, 1000, 4096, 5000] {
                for columns in [0, 1, 2, 31, 64, 65, 1000] {
                    let pitch = pitch_for(columns, bytes, align).unwrap();
                    let gap = (pitch - columns) * bytes;
                    assert!(gap == 0 || (pitch * bytes).is_multiple_of(align), "{bytes}, {columns}: {pitch}");
                    assert!(gap < MOST_ALIGN, "{bytes}, {columns}: {pitch}");
                }
                assert_eq!(pitch_for(usize::MAX, 1, align), None);
            }
        }
        assert_eq!(pitch_for(5, 0, 256), Some(5));
    }
}
