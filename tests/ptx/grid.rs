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
        .check_not("fence.")
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
