//! Short vectors, which a thread reads and writes with one instruction: `F32x4` and its like.
//!
//! A vector is aligned to its size, so that a load or store of 8 or 16 bytes is one `ld.global.v4.f32` and not four
//! loads. [`SliceVectors`] looks at a slice of scalars as vectors, where its address and length allow. A kernel that takes
//! `&[F32x4]` or `GridSliceMut<F32x4>` is launched with `x.as_vectors()?` or `y.as_vectors_mut()?` of a `DeviceBuffer<f32>`.

use core::ops::{Add, AddAssign, Div, DivAssign, Index, IndexMut, Mul, MulAssign, Neg, Sub, SubAssign};

use bytemuck::{Pod, Zeroable};

use crate::abi::{KernelValue, fold_layout, leaf_layout};
use crate::bits::AnyBits;

/// A vector: as many scalars as its name says, aligned to its size.
///
/// # Safety
/// `Self` has the size of `LANES` scalars, is aligned to that size, and its bytes are those of `[Self::Lane; LANES]`.
pub unsafe trait Vector: AnyBits + Pod {
    /// What it consists of.
    type Lane: AnyBits;
    /// How many of them.
    const LANES: usize;
}

macro_rules! vectors {
    ($($(#[$docs:meta])* $name:ident $lane:ty, $lanes:literal, $align:literal, $kind:ident;)*) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[repr(C, align($align))]
        pub struct $name(pub [$lane; $lanes]);

        const _: () = assert!(size_of::<$name>() == $align && size_of::<[$lane; $lanes]>() == $align);

        // SAFETY: an array of numbers, which the alignment does not extend, as was just asserted.
        unsafe impl KernelValue for $name {
            const LAYOUT: u64 = fold_layout(leaf_layout::<Self>(stringify!($name)), <$lane>::LAYOUT);
        }
        // SAFETY: as above: every byte is one of a number.
        unsafe impl AnyBits for $name {}
        // SAFETY: numbers, and no padding.
        unsafe impl Zeroable for $name {}
        // SAFETY: as above.
        unsafe impl Pod for $name {}
        // SAFETY: the size was just asserted, and is the alignment.
        unsafe impl Vector for $name {
            type Lane = $lane;
            const LANES: usize = $lanes;
        }

        impl $name {
            /// The same number in every lane.
            #[inline]
            #[must_use]
            pub const fn splat(value: $lane) -> Self {
                Self([value; $lanes])
            }

            /// The lanes, first to last.
            #[inline]
            #[must_use]
            pub const fn to_array(self) -> [$lane; $lanes] {
                self.0
            }

            /// A vector of these lanes.
            #[inline]
            #[must_use]
            pub const fn from_array(lanes: [$lane; $lanes]) -> Self {
                Self(lanes)
            }

            /// What `f` makes of each lane.
            #[inline]
            #[must_use]
            pub fn map(self, f: impl FnMut($lane) -> $lane) -> Self {
                Self(self.0.map(f))
            }

            /// What `f` makes of each lane and the other vector's lane beside it.
            #[inline]
            #[must_use]
            pub fn zip_with(self, other: Self, mut f: impl FnMut($lane, $lane) -> $lane) -> Self {
                Self(core::array::from_fn(|i| f(self.0[i], other.0[i])))
            }

            /// The sum of all lanes, added from the first to the last.
            #[inline]
            #[must_use]
            pub fn reduce_sum(self) -> $lane {
                self.reduce(|sum, lane| sum + lane)
            }

            /// The sum of the products of both vectors' lanes, each product rounded, added from the first to the last.
            #[inline]
            #[must_use]
            pub fn dot(self, other: Self) -> $lane {
                (self * other).reduce_sum()
            }

            /// What `f` makes of the first two lanes, of that and the third, and so on.
            #[inline]
            #[must_use]
            pub fn reduce(self, mut f: impl FnMut($lane, $lane) -> $lane) -> $lane {
                let mut result = self.0[0];
                let mut i = 1;
                while i < $lanes {
                    result = f(result, self.0[i]);
                    i += 1;
                }
                result
            }
        }

        impl From<[$lane; $lanes]> for $name {
            #[inline]
            fn from(lanes: [$lane; $lanes]) -> Self {
                Self(lanes)
            }
        }

        impl From<$name> for [$lane; $lanes] {
            #[inline]
            fn from(vector: $name) -> Self {
                vector.0
            }
        }

        impl Index<usize> for $name {
            type Output = $lane;

            /// The lane. A number that is not constant puts the vector into local memory.
            #[inline]
            #[cfg_attr(not(warpsmith_device), track_caller)]
            fn index(&self, lane: usize) -> &$lane {
                &self.0[lane]
            }
        }

        impl IndexMut<usize> for $name {
            #[inline]
            #[cfg_attr(not(warpsmith_device), track_caller)]
            fn index_mut(&mut self, lane: usize) -> &mut $lane {
                &mut self.0[lane]
            }
        }

        elementwise!($name $lane, Add add AddAssign add_assign);
        elementwise!($name $lane, Sub sub SubAssign sub_assign);
        elementwise!($name $lane, Mul mul MulAssign mul_assign);
        elementwise!($name $lane, Div div DivAssign div_assign);
        $kind!($name $lane);
    )*};
}

macro_rules! elementwise {
    ($name:ident $lane:ty, $operator:ident $method:ident $assign:ident $assign_method:ident) => {
        impl $operator for $name {
            type Output = Self;

            #[inline]
            #[cfg_attr(not(warpsmith_device), track_caller)]
            fn $method(self, other: Self) -> Self {
                self.zip_with(other, |a, b| a.$method(b))
            }
        }

        impl $operator<$lane> for $name {
            type Output = Self;

            #[inline]
            #[cfg_attr(not(warpsmith_device), track_caller)]
            fn $method(self, other: $lane) -> Self {
                self.map(|a| a.$method(other))
            }
        }

        impl $operator<$name> for $lane {
            type Output = $name;

            #[inline]
            #[cfg_attr(not(warpsmith_device), track_caller)]
            fn $method(self, other: $name) -> $name {
                other.map(|b| self.$method(b))
            }
        }

        impl $assign for $name {
            #[inline]
            #[cfg_attr(not(warpsmith_device), track_caller)]
            fn $assign_method(&mut self, other: Self) {
                *self = (*self).$method(other);
            }
        }

        impl $assign<$lane> for $name {
            #[inline]
            #[cfg_attr(not(warpsmith_device), track_caller)]
            fn $assign_method(&mut self, other: $lane) {
                *self = (*self).$method(other);
            }
        }
    };
}

/// The smaller and the larger of two numbers, as the scalar's own `min` and `max` have it.
macro_rules! extremes {
    ($name:ident $lane:ty) => {
        impl $name {
            /// The smaller of both vectors' lanes, by the scalar's own `min`: of a number and a NaN, the number.
            #[inline]
            #[must_use]
            pub fn min(self, other: Self) -> Self {
                self.zip_with(other, |a, b| a.min(b))
            }

            /// The larger of both vectors' lanes, by the scalar's own `max`: of a number and a NaN, the number.
            #[inline]
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                self.zip_with(other, |a, b| a.max(b))
            }

            /// The smallest lane; NaN only when all lanes are.
            #[inline]
            #[must_use]
            pub fn reduce_min(self) -> $lane {
                self.reduce(|a, b| a.min(b))
            }

            /// The largest lane; NaN only when all lanes are.
            #[inline]
            #[must_use]
            pub fn reduce_max(self) -> $lane {
                self.reduce(|a, b| a.max(b))
            }
        }
    };
}

macro_rules! negation {
    ($name:ident) => {
        impl Neg for $name {
            type Output = Self;

            #[inline]
            #[cfg_attr(not(warpsmith_device), track_caller)]
            fn neg(self) -> Self {
                self.map(|a| -a)
            }
        }
    };
}

macro_rules! float {
    ($name:ident $lane:ty) => {
        extremes!($name $lane);
        negation!($name);

        impl $name {
            /// `self * factor + summand` in each lane, rounded once. PTX: `fma.rn`.
            #[inline]
            #[must_use]
            pub fn mul_add(self, factor: Self, summand: Self) -> Self {
                Self(core::array::from_fn(|i| self.0[i].mul_add(factor.0[i], summand.0[i])))
            }

            /// Each lane without its sign.
            #[inline]
            #[must_use]
            pub fn abs(self) -> Self {
                self.map(<$lane>::abs)
            }
        }
    };
}

macro_rules! half {
    ($name:ident $lane:ty) => {
        extremes!($name $lane);
        negation!($name);
    };
}

macro_rules! unsigned {
    ($name:ident $lane:ty) => {
        extremes!($name $lane);
    };
}

macro_rules! signed {
    ($name:ident $lane:ty) => {
        extremes!($name $lane);
        negation!($name);
    };
}

vectors! {
    /// Two `f32` in 8 bytes: CUDA's `float2`.
    F32x2 f32, 2, 8, float;
    /// Four `f32` in 16 bytes: CUDA's `float4`.
    ///
    /// # Examples
    /// ```
    /// use warpsmith_device::F32x4;
    ///
    /// let x = F32x4([1.0, 2.0, 3.0, 4.0]);
    /// let y = 2.0 * x + F32x4::splat(1.0);
    /// assert_eq!(y, x.mul_add(F32x4::splat(2.0), F32x4::splat(1.0)));
    /// assert_eq!((y[3], y.reduce_sum(), x.dot(y)), (9.0, 24.0, 70.0));
    /// ```
    F32x4 f32, 4, 16, float;
    /// Two `f64` in 16 bytes: CUDA's `double2`.
    F64x2 f64, 2, 16, float;
    /// Two `i32` in 8 bytes: CUDA's `int2`.
    I32x2 i32, 2, 8, signed;
    /// Four `i32` in 16 bytes: CUDA's `int4`.
    I32x4 i32, 4, 16, signed;
    /// Two `u32` in 8 bytes: CUDA's `uint2`.
    U32x2 u32, 2, 8, unsigned;
    /// Four `u32` in 16 bytes: CUDA's `uint4`.
    U32x4 u32, 4, 16, unsigned;
    /// Two `i64` in 16 bytes: CUDA's `longlong2`.
    I64x2 i64, 2, 16, signed;
    /// Two `u64` in 16 bytes: CUDA's `ulonglong2`.
    U64x2 u64, 2, 16, unsigned;
    /// Four `u8` in 4 bytes: CUDA's `uchar4`.
    U8x4 u8, 4, 4, unsigned;
    /// Sixteen `u8` in 16 bytes.
    U8x16 u8, 16, 16, unsigned;
    /// Two `u16` in 4 bytes: CUDA's `ushort2`.
    U16x2 u16, 2, 4, unsigned;
    /// Four `u16` in 8 bytes: CUDA's `ushort4`.
    U16x4 u16, 4, 8, unsigned;
    /// Eight `u16` in 16 bytes.
    U16x8 u16, 8, 16, unsigned;
    /// Two `f16` in 4 bytes: CUDA's `half2`.
    F16x2 half::f16, 2, 4, half;
    /// Four `f16` in 8 bytes.
    F16x4 half::f16, 4, 8, half;
    /// Eight `f16` in 16 bytes.
    F16x8 half::f16, 8, 16, half;
    /// Two `bf16` in 4 bytes: CUDA's `__nv_bfloat162`.
    Bf16x2 half::bf16, 2, 4, half;
    /// Four `bf16` in 8 bytes.
    Bf16x4 half::bf16, 4, 8, half;
    /// Eight `bf16` in 16 bytes.
    Bf16x8 half::bf16, 8, 16, half;
}

/// A slice of scalars seen as vectors, where its address and its length allow.
///
/// The address is looked at once per slice; what comes out are slices, so every further access costs what a slice of
/// vectors costs. A slice that a launch passed whole starts at a multiple of 256 bytes, a part of a buffer anywhere.
///
/// PTX of a `F32x4` that is read from a `&[f32]` parameter: `ld.global.nc.v4.f32`.
///
/// # Examples
/// ```
/// use warpsmith_device::{F32x4, SliceVectors};
///
/// /// The sum of a slice, four elements at a time where they lie right for that.
/// fn sum(x: &[f32]) -> f32 {
///     let (head, vectors, tail) = x.as_vectors::<F32x4>();
///     let middle = vectors.iter().fold(F32x4::splat(0.0), |sum, v| sum + *v).reduce_sum();
///     head.iter().sum::<f32>() + middle + tail.iter().sum::<f32>()
/// }
/// assert_eq!(sum(&[1.0; 70][3..]), 67.0);
/// ```
/// # Source
/// CUDA C++ Programming Guide, "Built-in Vector Types" and "Device Memory Accesses".
pub trait SliceVectors<T> {
    /// The elements before the first that is aligned for a vector, the vectors, and the elements that are left.
    ///
    /// The first and last part have less than a vector's elements each. In a slice that is shorter than what is missing to
    /// the next aligned element, all elements are in the first part.
    fn as_vectors<V: Vector<Lane = T>>(&self) -> (&[T], &[V], &[T]);

    /// As [`as_vectors`](Self::as_vectors), to be written.
    fn as_vectors_mut<V: Vector<Lane = T>>(&mut self) -> (&mut [T], &mut [V], &mut [T]);

    /// The slice as vectors and nothing else; `None` when it does not start at an aligned element or its length is no
    /// multiple of a vector's. A slice without elements is one without vectors.
    fn as_exact_vectors<V: Vector<Lane = T>>(&self) -> Option<&[V]>;

    /// As [`as_exact_vectors`](Self::as_exact_vectors), to be written.
    fn as_exact_vectors_mut<V: Vector<Lane = T>>(&mut self) -> Option<&mut [V]>;
}

/// Where vectors lie in a slice.
struct Split {
    /// Elements to the first aligned address, which may be past the slice's end.
    missing: usize,
    /// Elements before the vectors.
    head: usize,
    /// How many vectors there are.
    count: usize,
    /// Elements after the vectors.
    tail: usize,
}

impl Split {
    #[inline(always)]
    fn of<V: Vector>(address: usize, len: usize) -> Self {
        // An element's size divides a vector's, and both are powers of two.
        let missing = address.wrapping_neg() % size_of::<V>() / size_of::<V::Lane>();
        let head = if missing < len { missing } else { len };
        let rest = len.wrapping_sub(head);
        // An empty slice may have any aligned address, the very last one too.
        #[cfg(not(warpsmith_device))]
        assert!(address.checked_add(size_of::<V>()).is_some(), "a slice at the end of the address space");
        Self { missing, head, count: rest / V::LANES, tail: rest % V::LANES }
    }
}

impl<T> SliceVectors<T> for [T] {
    #[inline(always)]
    fn as_vectors<V: Vector<Lane = T>>(&self) -> (&[T], &[V], &[T]) {
        let start = self.as_ptr();
        let Split { missing, head, count, tail } = Split::of::<V>(start.addr(), self.len());
        let vectors = start.wrapping_add(missing).cast::<V>();
        // SAFETY: head, `count` times a vector's lanes and tail make up the length, so each part lies inside the slice.
        // `vectors` is aligned and not null; where there are vectors, `missing` is `head`. A vector's bytes are its
        // lanes'.
        unsafe {
            (
                core::slice::from_raw_parts(start, head),
                core::slice::from_raw_parts(vectors, count),
                core::slice::from_raw_parts(start.add(self.len().wrapping_sub(tail)), tail),
            )
        }
    }

    #[inline(always)]
    fn as_vectors_mut<V: Vector<Lane = T>>(&mut self) -> (&mut [T], &mut [V], &mut [T]) {
        let (start, len) = (self.as_mut_ptr(), self.len());
        let Split { missing, head, count, tail } = Split::of::<V>(start.addr(), len);
        let vectors = start.wrapping_add(missing).cast::<V>();
        // SAFETY: as in `as_vectors`. The parts do not overlap, and all bits are values of both types.
        unsafe {
            (
                core::slice::from_raw_parts_mut(start, head),
                core::slice::from_raw_parts_mut(vectors, count),
                core::slice::from_raw_parts_mut(start.add(len.wrapping_sub(tail)), tail),
            )
        }
    }

    #[inline(always)]
    fn as_exact_vectors<V: Vector<Lane = T>>(&self) -> Option<&[V]> {
        let (head, vectors, tail) = self.as_vectors();
        (head.is_empty() && tail.is_empty()).then_some(vectors)
    }

    #[inline(always)]
    fn as_exact_vectors_mut<V: Vector<Lane = T>>(&mut self) -> Option<&mut [V]> {
        let (head, vectors, tail) = self.as_vectors_mut();
        (head.is_empty() && tail.is_empty()).then_some(vectors)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_slice_is_split_at_aligned_elements() {
        let vectors: [F32x4; 20] = core::array::from_fn(|i| F32x4(core::array::from_fn(|lane| (4 * i + lane) as f32)));
        let all = vectors.as_flattened_lanes();
        for start in 0..8 {
            for len in 0..=70 {
                let part = &all[start..start + len];
                let (head, middle, tail) = part.as_vectors::<F32x4>();
                assert_eq!(head.len(), ((4 - start % 4) % 4).min(len), "{start} {len}");
                assert_eq!(middle.len(), (len - head.len()) / 4, "{start} {len}");
                let mut joined = head.to_vec();
                joined.extend(middle.iter().flat_map(|v| v.to_array()));
                joined.extend(tail);
                assert_eq!(joined, part, "{start} {len}");
                let exact = part.as_exact_vectors::<F32x4>();
                assert_eq!(exact.is_some(), len == 0 || start % 4 == 0 && len % 4 == 0, "{start} {len}");
            }
        }
    }

    #[test]
    fn a_slice_of_another_alignment_is_written_through_vectors() {
        let mut bytes: Vec<u8> = (0..100).collect();
        for start in 0..20 {
            let (head, middle, tail) = bytes[start..].as_vectors_mut::<U8x16>();
            head.iter_mut().chain(tail).for_each(|b| *b = b.wrapping_add(1));
            middle.iter_mut().for_each(|v| *v = v.map(|b| b.wrapping_add(1)));
        }
        let expected: Vec<u8> = (0..100).map(|i: u8| i + 20.min(i + 1)).collect();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn lanes_are_computed_one_by_one() {
        let (a, b) = (I32x4([1, -2, 3, -4]), I32x4([5, 6, -7, 8]));
        assert_eq!(a + b, I32x4([6, 4, -4, 4]));
        assert_eq!(10 - a * 2, I32x4([8, 14, 4, 18]));
        assert_eq!(-(b / 2), I32x4([-2, -3, 3, -4]));
        assert_eq!((a.min(b), a.max(b)), (I32x4([1, -2, -7, -4]), I32x4([5, 6, 3, 8])));
        assert_eq!((a.reduce_min(), a.reduce_max(), a.reduce_sum(), a.dot(b)), (-4, 3, -2, -60));
        let x = F64x2([f64::NAN, 2.0]);
        assert_eq!((x.reduce_min(), x.min(F64x2::splat(1.0))), (2.0, F64x2([1.0, 1.0])));
        let mut h = F16x4::splat(half::f16::from_f32(1.5));
        h[2] += half::f16::ONE;
        h *= half::f16::from_f32(2.0);
        assert_eq!(h.reduce_sum().to_f32(), 14.0);
        assert_eq!((h.reduce_max().to_f32(), h.reduce_min().to_f32()), (5.0, 3.0));
    }

    trait Lanes {
        fn as_flattened_lanes(&self) -> &[f32];
    }

    impl Lanes for [F32x4] {
        fn as_flattened_lanes(&self) -> &[f32] {
            bytemuck::cast_slice(self)
        }
    }
}
