//! Clocks, waiting and stopping are the instructions that they name.

use warpsmith::prelude::*;
use warpsmith::{breakpoint, clock, global_timer, nanosleep, trap};
use warpsmith_tests::ptx;

/// Reads the clock before and after what it does.
#[kernel]
fn timed(stop: u64, mut output: GridSliceMut<u64>) {
    let i = global_idx();
    let start = clock();
    nanosleep(100);
    let end = clock();
    if let Some(output) = output.get_mut(&i) {
        *output = end.wrapping_sub(start) ^ global_timer();
    }
    if start == stop {
        breakpoint();
    }
    if end == stop {
        trap();
    }
}

#[test]
fn clocks_and_stops_are_instructions() {
    ptx::of(module_path!(), "timed")
        .check_count("%clock64", 2)
        .check_count("%globaltimer", 1)
        .check_count("nanosleep.u32", 1)
        .check_count("brkpt", 1)
        .check_count("trap", 1);
}
