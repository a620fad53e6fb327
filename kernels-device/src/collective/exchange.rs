//! Values that change threads.

use crate::bits::AnyBits;
use crate::index::{thread_in_block, threads_in_block};
use crate::shared::Rows;
use crate::shared_array;

/// Gives every thread the value of thread number `from`.
///
/// PTX: a trip through shared memory and two `barrier.sync`. All threads of the block must call it with the same `from`.
///
/// # Panics
/// When the block has no thread `from`.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn block_broadcast<T: AnyBits>(value: T, from: u32) -> T {
    let threads = threads_in_block();
    assert!(from < threads, "a broadcast from thread {from} of {threads}");
    let mut slot = shared_array!([T; 1]);
    if thread_in_block() == from {
        slot.scatter(0, value);
    }
    let slot = slot.sync();
    let value = slot.at(0);
    let _next = slot.sync();
    value
}

/// Panics in a block that has not as many threads as its kernel says.
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
fn check_threads(expected: usize) {
    let threads = threads_in_block();
    assert!(threads as usize == expected, "an exchange among {expected} threads in a block of {threads}");
}

/// Turns `N` items a thread that lie striped over the block (item `j` of thread `t` is number `j * THREADS + t`, as
/// [`Striped`](crate::Striped) has it) into blocked ones: number `t * N + j`. A transpose in shared memory.
///
/// PTX: `N` stores, `N` loads, two `barrier.sync`. All threads of the block must call it.
///
/// # Panics
/// When the block has not `THREADS` threads.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn striped_to_blocked<T: AnyBits, const N: usize, const THREADS: usize>(items: [T; N]) -> [T; N] {
    check_threads(THREADS);
    let thread = thread_in_block() as usize;
    let mut slots = shared_array!(Rows<T, N, THREADS>);
    let mut j = 0;
    while j < N {
        slots.scatter([j, thread], items[j]);
        j = j.wrapping_add(1);
    }
    let slots = slots.sync();
    let blocked = core::array::from_fn(|j| {
        let number = thread.wrapping_mul(N).wrapping_add(j);
        slots.at([number / THREADS, number % THREADS])
    });
    let _next = slots.sync();
    blocked
}

/// Turns `N` items a thread that lie blocked (item `j` of thread `t` is number `t * N + j`) into striped ones: number
/// `j * THREADS + t`. The other way of [`striped_to_blocked`], with the same PTX, callers and panics.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn blocked_to_striped<T: AnyBits, const N: usize, const THREADS: usize>(items: [T; N]) -> [T; N] {
    check_threads(THREADS);
    let thread = thread_in_block() as usize;
    let mut slots = shared_array!(Rows<T, N, THREADS>);
    let mut j = 0;
    while j < N {
        let number = thread.wrapping_mul(N).wrapping_add(j);
        slots.scatter([number / THREADS, number % THREADS], items[j]);
        j = j.wrapping_add(1);
    }
    let slots = slots.sync();
    let striped = core::array::from_fn(|j| slots.at([j, thread]));
    let _next = slots.sync();
    striped
}
