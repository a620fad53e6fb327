//! The grid's barrier in PTX, and what kernels without one are spared.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use warpsmith::prelude::*;
use warpsmith_tests::ptx;

/// One barrier for the whole grid.
#[kernel]
fn syncs(places: &[AtomicU32], mut output: GridSliceMut<u32>) {
    places[block_idx().x as usize].store(1, Relaxed);
    this_grid().sync();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = places[0].load(Relaxed);
    }
}

/// None.
#[kernel]
fn does_not_sync(places: &[AtomicU32], mut output: GridSliceMut<u32>) {
    places[block_idx().x as usize].store(1, Relaxed);
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = this_grid().block_rank() as u32;
    }
}

#[test]
fn a_grid_sync_counts_blocks_between_fences() {
    ptx::of(module_path!(), "syncs")
        .check_count("atom.relaxed.gpu.global.add.u64", 1)
        .check_count("fence.acq_rel.gpu", 2)
        .check("ld.relaxed.gpu.global.u64")
        .check("ld.relaxed.sys.u64")
        .check("barrier.red.or.pred")
        .check("nanosleep.u32");
    ptx::of(module_path!(), "does_not_sync")
        .check_not("fence.acq_rel.gpu")
        .check_not("fence.sc")
        .check_not("bar.")
        .check_not("barrier.")
        .check_not("ld.relaxed.sys");
}

#[test]
fn a_kernels_record_says_whether_it_syncs_the_grid() {
    let syncs = |name: &str| {
        let of_this_file = |kernel: &&warpsmith::KernelRecord| kernel.key.module_path == module_path!();
        let kernel = ptx::kernels().into_iter().filter(of_this_file).find(|kernel| kernel.key.name == name);
        kernel.expect("the kernel is in this program").syncs_grid
    };
    assert!(syncs("syncs") && !syncs("does_not_sync"));
    // Three hidden arguments end every entry; the barrier's address is the fourth where it is needed.
    ptx::of(module_path!(), "syncs").check("_param_7").check_not("_param_8");
    ptx::of(module_path!(), "does_not_sync").check("_param_6").check_not("_param_7");
}

/// Each thread's own element, whichever block it is in.
#[kernel]
fn asks_for_a_number(mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = 1;
    }
}

#[kernel]
fn asks_for_a_place_in_the_plane(mut y: GridSliceMut<u32, Plane>) {
    let place = global_idx_2d();
    if let Some(y) = y.get_mut(&place) {
        *y = 1;
    }
}

#[kernel]
fn asks_for_a_block(mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = block_idx().x;
    }
}

#[kernel]
fn asks_for_a_lane(mut y: GridSliceMut<u32, Plane>) {
    let place = global_idx_2d();
    if let Some(y) = y.get_mut(&place) {
        *y = lane_id();
    }
}

#[kernel]
fn has_shared_memory(mut y: GridSliceMut<u32>) {
    let own = shared!(u32);
    // SAFETY: it is never launched.
    let value = unsafe {
        own.write_volatile(1);
        own.read_volatile()
    };
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = value;
    }
}

/// What a panic leaves for the host lies in shared memory, but is not the kernel's own.
#[kernel]
fn may_panic_in_the_plane(x: &[u32], mut y: GridSliceMut<u32, Plane>) {
    let place = global_idx_2d();
    let row = &x[place.y()..];
    let part = &row[..place.x() + 1];
    if let Some(y) = y.get_mut(&place) {
        *y = part[place.x()];
    }
}

#[test]
fn a_kernels_record_says_what_it_asks_of_a_threads_place() {
    let asks = |name: &str| {
        let of_this_file = |kernel: &&warpsmith::KernelRecord| kernel.key.module_path == module_path!();
        let kernel = ptx::kernels().into_iter().filter(of_this_file).find(|kernel| kernel.key.name == name);
        let record = kernel.expect("the kernel is in this program");
        (record.asks_place_in_block, record.asks_number_in_grid)
    };
    assert_eq!(asks("asks_for_a_number"), (false, true));
    assert_eq!(asks("asks_for_a_place_in_the_plane"), (false, false));
    assert_eq!(asks("asks_for_a_block"), (true, true));
    assert_eq!(asks("asks_for_a_lane"), (true, false));
    assert_eq!(asks("has_shared_memory"), (true, true));
    assert_eq!(asks("may_panic_in_the_plane"), (false, false));
}
