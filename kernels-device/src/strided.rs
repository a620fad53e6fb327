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
}
