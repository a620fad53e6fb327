//! Hints on the shape of a kernel's code: they change speed and size, never a result.
//!
//! Loops are unrolled by the attributes `#[unroll]`, `#[unroll(N)]` and `#[no_unroll]`, which `#[kernel]` and `#[loops]` of the
//! `warpsmith` crate read.

/// Lets the compiler count on `condition`: CUDA's `__builtin_assume`. PTX: none, it only changes what other code becomes.
///
/// Where a shape is known to whoever launches, this removes checks: `assume(n % 4 == 0)` before a loop by fours. The CPU
/// executor checks it, and so does the GPU in a build with debug assertions.
///
/// # Safety
/// `condition` is true: on a GPU, without debug assertions, the program's behaviour is undefined where it is not.
/// # Panics
/// When `condition` is false, on the CPU executor or with debug assertions.
/// # Examples
/// ```
/// use warpsmith_device::shape::assume;
///
/// /// The sum of the first `count` of 64 values.
/// ///
/// /// # Safety
/// /// `count` is at most 64.
/// unsafe fn sum(values: &[u32; 64], count: usize) -> u32 {
///     // SAFETY: the caller's promise; the slice below then needs no check.
///     unsafe { assume(count <= 64) };
///     values[..count].iter().sum()
/// }
///
/// // SAFETY: 3 is at most 64.
/// assert_eq!(unsafe { sum(&[1; 64], 3) }, 3);
/// ```
/// # Source
/// CUDA C++ Programming Guide, "__builtin_assume()".
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub unsafe fn assume(condition: bool) {
    #[cfg(not(warpsmith_device))]
    assert!(
        condition,
        "`assume` was given a condition that is false: on a GPU the behaviour is undefined from here on"
    );
    // SAFETY: the caller's promise.
    unsafe { core::hint::assert_unchecked(condition) };
}

/// `condition`, of which the compiler expects that it is true: CUDA's `__builtin_expect`. PTX: none, it places the code for
/// the other case out of the way.
///
/// # Source
/// CUDA C++ Programming Guide, "__builtin_expect()".
#[inline(always)]
#[must_use]
pub fn likely(condition: bool) -> bool {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::shape::__warpsmith_expect(condition, true);
    #[cfg(not(warpsmith_device))]
    condition
}

/// `condition`, of which the compiler expects that it is false; see [`likely`].
///
/// # Examples
/// ```
/// use warpsmith_device::shape::unlikely;
///
/// fn inverse(x: f32) -> f32 {
///     if unlikely(x == 0.0) { f32::MAX } else { 1.0 / x }
/// }
///
/// assert_eq!(inverse(4.0), 0.25);
/// ```
/// # Source
/// CUDA C++ Programming Guide, "__builtin_expect()".
#[inline(always)]
#[must_use]
pub fn unlikely(condition: bool) -> bool {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::shape::__warpsmith_expect(condition, false);
    #[cfg(not(warpsmith_device))]
    condition
}

/// What stands before a loop that carries a hint: names the loop to [`unroll_loop`], so that the hint of a loop which
/// turns out to be none never reaches the loop around it.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub fn before_loop() -> u32 {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::shape::__warpsmith_loop_before();
    #[cfg(not(warpsmith_device))]
    0
}

/// Stands first in the loop's body: [`FULLY`], 1 for "never", or the number of copies.
#[doc(hidden)]
#[inline(always)]
pub fn unroll_loop(before: u32, count: u32) {
    #[cfg(warpsmith_device)]
    crate::intrinsics::shape::__warpsmith_loop_unroll(before, count);
    #[cfg(not(warpsmith_device))]
    let _ = (before, count);
}

/// The count that stands for as many copies as the loop has steps.
#[doc(hidden)]
pub const FULLY: u32 = 0;

/// Checks the number of copies while the kernel is compiled.
///
/// # Panics
/// When it is 0.
#[doc(hidden)]
#[must_use]
pub const fn unroll_count(count: u32) -> u32 {
    assert!(
        count > 0,
        "`#[unroll(N)]` asks for 0 copies of the loop's body; N is at least 1, and 1 means `#[no_unroll]`"
    );
    count
}
