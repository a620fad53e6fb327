//! Hints on the shape of a kernel's code: they change speed and size, never a result.
//!
//! Loops are unrolled by the attributes `#[unroll]`, `#[unroll(N)]` and `#[no_unroll]`, which `#[kernel]` and `#[loops]` of the
//! `warpsmith` crate read.

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
