//! Markers on loops and branches.

unsafe extern "C" {
    pub(crate) safe fn __warpsmith_loop_before() -> u32;
    pub(crate) safe fn __warpsmith_loop_unroll(before: u32, count: u32);
    pub(crate) safe fn __warpsmith_expect(condition: bool, expected: bool) -> bool;
}
