//! Views of a slice whose bounds are checked once, for loops that step through it.

/// `count` runs of `N` neighbouring elements that start `stride` elements apart, all inside the slice.
///
/// Made by [`SliceViews::strided`], which checks the whole: [`at`](Self::at) then only compares a run's number with the
/// count, and in a loop over `0..count` that comparison vanishes too.
#[derive(Debug)]
pub struct Strided<'a, T, const N: usize> {
    slice: &'a [T], // Invariant: with `count` runs, `start + (count - 1) * stride + N <= slice.len()`.
    start: usize,
    stride: usize,
    count: usize,
}

impl<T, const N: usize> Clone for Strided<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const N: usize> Copy for Strided<'_, T, N> {}

impl<'a, T, const N: usize> Strided<'a, T, N> {
    /// Number of runs.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no run.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A run.
    ///
    /// # Panics
    /// When `number` is not below the count.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn at(&self, number: usize) -> &'a [T; N] {
        assert!(number < self.count, "run {number} of {}", self.count);
        let first = self.start.wrapping_add(number.wrapping_mul(self.stride));
        // SAFETY: `number < count`, so that the invariant says that `first + N <= len` and that nothing wraps around.
        unsafe { &*self.slice.as_ptr().add(first).cast::<[T; N]>() }
    }

    /// The runs, in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = &'a [T; N]> {
        (0..self.count).map(move |number| self.at(number))
    }
}

/// A slice seen as rows of `width` elements: made by [`SliceViews::plane`], which checks the whole.
#[derive(Debug)]
pub struct PlaneView<'a, T> {
    slice: &'a [T], // Invariant: at least `width * height` elements.
    width: i32,     // Invariant: above 0.
    height: i32,    // Invariant: above 0.
}

impl<T> Clone for PlaneView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for PlaneView<'_, T> {}

impl<'a, T> PlaneView<'a, T> {
    /// The element in column `x` and row `y`, or `None` outside.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, x: i32, y: i32) -> Option<&'a T> {
        let inside = x >= 0 && x < self.width && y >= 0 && y < self.height;
        // SAFETY: the place is inside.
        inside.then(|| unsafe { self.element(x, y) })
    }

    /// The element in column `x` and row `y`, or the nearest one where that is outside: past its edges the plane goes on
    /// as at the edge, as a texture does that is clamped.
    #[inline(always)]
    #[must_use]
    pub fn clamped(&self, x: i32, y: i32) -> &'a T {
        // The lower bound last: it is below the other, so this is a clamp. Neither subtraction wraps around.
        let x = x.min(self.width.wrapping_sub(1)).max(0);
        let y = y.min(self.height.wrapping_sub(1)).max(0);
        // SAFETY: both are from 0 to one less than the shape's extent.
        unsafe { self.element(x, y) }
    }

    /// # Safety
    /// `0 <= x < width` and `0 <= y < height`.
    #[inline(always)]
    unsafe fn element(&self, x: i32, y: i32) -> &'a T {
        let place = multiply_add(y as u32, self.width as u32, x as u32);
        // SAFETY: the caller's promise, and the slice has all of the plane.
        unsafe { &*self.slice.as_ptr().add(place) }
    }
}

/// `a * b + c` in 64 bits, as one instruction: the optimiser, which knows that the numbers once had 64 bits, takes three.
#[inline(always)]
fn multiply_add(a: u32, b: u32, c: u32) -> usize {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::mad_wide(a, b, u64::from(c)) as usize;
    #[cfg(not(warpsmith_device))]
    {
        (a as usize) * (b as usize) + c as usize
    }
}

/// Views of slices with one check for many accesses.
pub trait SliceViews<T> {
    /// `count` runs of `N` elements, the first at `start`, each `stride` elements after the one before. What a loop would
    /// check in each step is checked here, once.
    ///
    /// # Panics
    /// When a run reaches past the slice's end.
    ///
    /// # Examples
    /// ```
    /// use warpsmith_device::SliceViews;
    ///
    /// // The pairs at the start of each row of a matrix of 4 columns.
    /// let matrix = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    /// let pairs = matrix.strided::<2>(0, 4, 3);
    /// assert_eq!(pairs.at(2), &[9, 10]);
    /// assert_eq!(pairs.iter().map(|pair| pair[1]).sum::<i32>(), 18);
    /// ```
    fn strided<const N: usize>(&self, start: usize, stride: usize, count: usize) -> Strided<'_, T, N>;

    /// The slice as `height` rows of `width` elements, one after another; what follows them is left out.
    ///
    /// # Panics
    /// When the slice is shorter than that, or an extent is 0 or above 2^31 - 1.
    ///
    /// # Examples
    /// ```
    /// use warpsmith_device::SliceViews;
    ///
    /// let plane = [1, 2, 3, 4, 5, 6].plane(3, 2);
    /// assert_eq!(plane.get(2, 1), Some(&6));
    /// assert_eq!((plane.get(3, 1), plane.clamped(3, -7)), (None, &3));
    /// ```
    fn plane(&self, width: usize, height: usize) -> PlaneView<'_, T>;
}

impl<T> SliceViews<T> for [T] {
    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn strided<const N: usize>(&self, start: usize, stride: usize, count: usize) -> Strided<'_, T, N> {
        let end = match count {
            0 => Some(0),
            _ => count.wrapping_sub(1).checked_mul(stride).and_then(|last| last.checked_add(start)?.checked_add(N)),
        };
        if end.is_none_or(|end| end > self.len()) {
            past_the_end(N, start, stride, count, self.len());
        }
        Strided { slice: self, start, stride, count }
    }

    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn plane(&self, width: usize, height: usize) -> PlaneView<'_, T> {
        // Both below 2^31, so that one multiplication gives the whole product; which is neither 0 nor above the length.
        let product = u64::from(width as u32).wrapping_mul(u64::from(height as u32));
        if (width | height) >> 31 != 0 || product.wrapping_sub(1) >= self.len() as u64 {
            no_plane(width, height, self.len());
        }
        PlaneView { slice: self, width: width as i32, height: height as i32 }
    }
}

#[cfg_attr(warpsmith_device, inline(always))]
#[cfg_attr(not(warpsmith_device), cold, inline(never), track_caller)]
fn no_plane(width: usize, height: usize, len: usize) -> ! {
    panic!("a slice of {len} is no plane of {height} rows of {width}: extents are from 1 to 2147483647")
}

#[cfg_attr(warpsmith_device, inline(always))]
#[cfg_attr(not(warpsmith_device), cold, inline(never), track_caller)]
fn past_the_end(run: usize, start: usize, stride: usize, count: usize, len: usize) -> ! {
    panic!("{count} runs of {run} from {start} in steps of {stride} do not fit into a slice of {len}")
}

#[cfg(test)]
mod tests {
    use super::SliceViews;

    extern crate std;
    use std::vec::Vec;

    #[test]
    fn only_what_is_inside_is_viewed() {
        let values: Vec<usize> = (0..20).collect();
        let fits =
            |start, stride, count| std::panic::catch_unwind(|| values.strided::<3>(start, stride, count)).is_ok();
        for (start, stride, count) in [(0, 0, 5), (17, 1, 1), (0, 17, 2), (2, 5, 4), (99, 99, 0), (17, usize::MAX, 1)] {
            assert!(fits(start, stride, count), "{start} {stride} {count}");
            for number in 0..count {
                let first = start + number * stride;
                assert_eq!(values.strided::<3>(start, stride, count).at(number), &[first, first + 1, first + 2]);
            }
        }
        for (start, stride, count) in
            [(18, 1, 1), (0, 18, 2), (3, 5, 4), (usize::MAX, 0, 1), (1, usize::MAX, 2), (0, usize::MAX / 2 + 1, 3)]
        {
            assert!(!fits(start, stride, count), "{start} {stride} {count}");
        }
        assert!(std::panic::catch_unwind(|| *values.strided::<3>(0, 1, 4).at(4)).is_err());
    }

    #[test]
    fn planes_clamp_to_their_edges_and_no_further() {
        let values: Vec<i32> = (0..20).collect();
        let plane = values.plane(3, 5);
        for y in [i32::MIN, -1, 0, 2, 4, 5, i32::MAX] {
            for x in [i32::MIN, -1, 0, 1, 2, 3, i32::MAX] {
                let nearest = y.clamp(0, 4) * 3 + x.clamp(0, 2);
                assert_eq!(*plane.clamped(x, y), nearest, "{x}, {y}");
                let inside = (0..3).contains(&x) && (0..5).contains(&y);
                assert_eq!(plane.get(x, y).copied(), inside.then_some(nearest), "{x}, {y}");
            }
        }
        for (width, height) in [(0, 5), (5, 0), (3, 7), (21, 1), (usize::MAX, 1), (1 << 31, 1 << 33), (1 << 31, 0)] {
            assert!(std::panic::catch_unwind(|| values.plane(width, height).width).is_err(), "{width}, {height}");
        }
    }
}
