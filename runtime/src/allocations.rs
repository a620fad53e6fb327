//! Counts what this crate's own tests allocate, to show that a launch allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has no counter any more, and is none that a test counts on.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: all of it is the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// How often the calling thread allocates while `work` runs.
pub(crate) fn counted(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

#[test]
fn what_allocates_is_counted() {
    assert_eq!(counted(|| drop(std::hint::black_box(Box::new(1u64)))), 1);
    assert_eq!(counted(|| assert_eq!(std::hint::black_box([1u64; 4])[3], 1)), 0);
    let mut list = Vec::with_capacity(1);
    assert_eq!(counted(|| list.extend_from_slice(std::hint::black_box(&[1u8; 64]))), 1);
}
