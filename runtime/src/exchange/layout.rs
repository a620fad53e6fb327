//! Where the elements of a tensor lie: its shape and strides.

use super::error::ExchangeError;

/// Shape and strides of a tensor, in elements. No stride is negative; one of 0 repeats the same elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorLayout {
    shape: Vec<usize>,
    strides: Vec<usize>, // Invariant: as many as `shape` has; extents and strides do not overflow `len` and `span`.
    len: usize,
    span: usize,
}

impl TensorLayout {
    /// Row-major and without gaps: the last dimension's elements are neighbours.
    ///
    /// # Errors
    /// [`ExchangeError::TooLarge`] when that is more elements than can be counted.
    pub fn contiguous(shape: &[usize]) -> Result<Self, ExchangeError> {
        let mut strides = vec![1usize; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = match strides[axis].checked_mul(shape[axis].max(1)) {
                Some(stride) => stride,
                // Without elements no stride is ever used.
                None if shape.contains(&0) => 1,
                None => return Err(too_large(shape, &strides)),
            };
        }
        Self::strided(shape, &strides)
    }

    /// Column-major and without gaps: the first dimension's elements are neighbours.
    ///
    /// # Errors
    /// [`ExchangeError::TooLarge`] when that is more elements than can be counted.
    pub fn column_major(shape: &[usize]) -> Result<Self, ExchangeError> {
        let reversed: Vec<usize> = shape.iter().rev().copied().collect();
        let mut layout = Self::contiguous(&reversed)?;
        layout.shape.reverse();
        layout.strides.reverse();
        Ok(layout)
    }

    /// With these strides, in elements.
    ///
    /// # Errors
    /// [`ExchangeError::StrideCount`] when the lengths differ, [`ExchangeError::TooLarge`] when that is more than can be addressed.
    pub fn strided(shape: &[usize], strides: &[usize]) -> Result<Self, ExchangeError> {
        if shape.len() != strides.len() {
            return Err(ExchangeError::StrideCount { shape: shape.len(), strides: strides.len() });
        }
        let fits = |count: &usize| isize::try_from(*count).is_ok();
        let mut len = if shape.contains(&0) { Some(0) } else { Some(1usize) };
        let mut span = Some(1usize);
        if len != Some(0) {
            for (&extent, &stride) in shape.iter().zip(strides) {
                len = len.and_then(|len| len.checked_mul(extent)).filter(fits);
                let reach = (extent - 1).checked_mul(stride);
                span = span.zip(reach).and_then(|(span, reach)| span.checked_add(reach)).filter(fits);
            }
        }
        let (Some(len), Some(span)) = (len, span) else { return Err(too_large(shape, strides)) };
        let span = if len == 0 { 0 } else { span };
        Ok(Self { shape: shape.to_vec(), strides: strides.to_vec(), len, span })
    }

    /// From another library's numbers; `units` of a stride are one element. Strides of dimensions that have one element
    /// or none are not looked at: they lead nowhere, and libraries write what they like there.
    pub(super) fn from_foreign(shape: &[i64], strides: Option<&[i64]>, units: usize) -> Result<Self, ExchangeError> {
        let mut extents = Vec::with_capacity(shape.len());
        for (axis, &extent) in shape.iter().enumerate() {
            extents.push(usize::try_from(extent).map_err(|_| ExchangeError::NegativeExtent { axis, extent })?);
        }
        let Some(strides) = strides else { return Self::contiguous(&extents) };
        if strides.len() != extents.len() {
            return Err(ExchangeError::StrideCount { shape: extents.len(), strides: strides.len() });
        }
        let is_empty = extents.contains(&0);
        let mut in_elements = Vec::with_capacity(strides.len());
        for (axis, (&stride, &extent)) in strides.iter().zip(&extents).enumerate() {
            let stride = if extent <= 1 || is_empty { 0 } else { stride };
            let positive = usize::try_from(stride).map_err(|_| ExchangeError::NegativeStride { axis, stride })?;
            if !positive.is_multiple_of(units) {
                return Err(ExchangeError::PartialStride { axis, stride, element_bytes: units });
            }
            in_elements.push(positive / units);
        }
        Self::strided(&extents, &in_elements)
    }

    /// Extents, the slowest dimension first by convention; none for a single number.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements from one to the next along each dimension. Of a dimension with at most one element it means nothing.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Number of elements: the product of the extents, 1 for a single number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Elements of memory from the first to the last; 0 without elements.
    #[must_use]
    pub fn span(&self) -> usize {
        self.span
    }

    /// Whether the elements are row-major and without gaps. Dimensions of one element may have any stride.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.is_dense_in(self.shape.iter().zip(&self.strides).rev())
    }

    /// Whether the elements are column-major and without gaps.
    #[must_use]
    pub fn is_column_major(&self) -> bool {
        self.is_dense_in(self.shape.iter().zip(&self.strides))
    }

    fn is_dense_in<'a>(&self, axes: impl Iterator<Item = (&'a usize, &'a usize)>) -> bool {
        let mut expected = 1;
        self.is_empty()
            || axes.filter(|(extent, _)| **extent != 1).all(|(extent, stride)| {
                let fits = *stride == expected;
                expected *= extent;
                fits
            })
    }

    /// The places of all elements in row-major order, counted from the first.
    pub fn offsets(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len).map(|mut index| {
            let mut offset = 0;
            for (extent, stride) in self.shape.iter().zip(&self.strides).rev() {
                offset += index % extent * stride;
                index /= extent;
            }
            offset
        })
    }
}

fn too_large(shape: &[usize], strides: &[usize]) -> ExchangeError {
    ExchangeError::TooLarge { shape: shape.to_vec(), strides: strides.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_are_dense_and_shapes_that_are_not() {
        let layout = |shape: &[usize], strides: &[usize]| TensorLayout::strided(shape, strides).unwrap();
        for (shape, strides, row, column, span) in [
            (&[][..], &[][..], true, true, 1),
            (&[5], &[1], true, true, 5),
            (&[5], &[2], false, false, 9),
            (&[2, 3], &[3, 1], true, false, 6),
            (&[2, 3], &[1, 2], false, true, 6),
            (&[2, 3], &[4, 1], false, false, 7),
            (&[1, 3], &[77, 1], true, true, 3),
            (&[3, 1], &[1, 99], true, true, 3),
            (&[0, 3], &[9, 9], true, true, 0),
            (&[4], &[0], false, false, 1),
        ] {
            let layout = layout(shape, strides);
            assert_eq!(
                (layout.is_contiguous(), layout.is_column_major(), layout.span()),
                (row, column, span),
                "{layout:?}"
            );
        }
        assert_eq!(layout(&[2, 3], &[1, 2]).offsets().collect::<Vec<_>>(), [0, 2, 4, 1, 3, 5]);
        assert_eq!(TensorLayout::column_major(&[2, 3, 4]).unwrap().strides(), [1, 2, 6]);
        assert_eq!(TensorLayout::contiguous(&[2, 3, 4]).unwrap().strides(), [12, 4, 1]);
    }

    #[test]
    fn sizes_past_the_address_space_are_refused() {
        for shape in [&[usize::MAX, 2][..], &[2, usize::MAX], &[1 << 40, 1 << 40, 1 << 40], &[usize::MAX]] {
            assert!(matches!(TensorLayout::contiguous(shape), Err(ExchangeError::TooLarge { .. })), "{shape:?}");
        }
        assert!(matches!(TensorLayout::strided(&[3], &[usize::MAX]), Err(ExchangeError::TooLarge { .. })));
        assert!(matches!(TensorLayout::strided(&[3], &[]), Err(ExchangeError::StrideCount { .. })));
        // An extent of 0 makes all others harmless.
        assert_eq!(TensorLayout::strided(&[usize::MAX, 0], &[usize::MAX, 1]).unwrap().len(), 0);
    }
}
