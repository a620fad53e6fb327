//! Mbarriers in PTX.

use warpsmith::mbarrier::Mbarrier;
use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::ptx;

/// One of each instruction.
#[kernel]
fn waits(mut output: GridSliceMut<u32>) {
    let barrier = shared!(Mbarrier);
    if thread_idx().x == 0 {
        // SAFETY: one thread does, before the others come past the barrier.
        unsafe { Mbarrier::init(barrier, 32) };
    }
    sync_threads();
    // SAFETY: initialised above, and there as long as the block.
    let barrier = unsafe { &*barrier };
    barrier.wait(barrier.arrive());
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn mbarriers_are_the_hardwares() {
    ptx::of(module_path!(), "waits")
        .check_count("mbarrier.init.b64", 1)
        .check_count("mbarrier.arrive.b64", 1)
        .check_count("mbarrier.test_wait.b64", 1)
        .check("nanosleep.u32")
        .check("ld.relaxed.sys.u64")
        .check_not("atom.relaxed.cta");
}
