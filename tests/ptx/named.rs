//! Named barriers in PTX.

use warpsmith::prelude::*;
use warpsmith_tests::ptx;

/// A wait.
#[kernel]
fn waits(mut output: GridSliceMut<u32>) {
    NamedBarrier::<1>::sync(64);
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

/// An arrival.
#[kernel]
fn arrives(mut output: GridSliceMut<u32>) {
    NamedBarrier::<1>::arrive(64);
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn a_named_barrier_is_a_word_that_is_cleared_first() {
    for name in ["waits", "arrives"] {
        ptx::of(module_path!(), name)
            .check("ws_shared_named_barriers[64]")
            .check_count("bar.sync 0", 1)
            .check_count("atom.relaxed.cta.cas.b32", 1)
            .check("fence.acq_rel.cta")
            .check_not("barrier.sync");
    }
    ptx::of(module_path!(), "waits").check("ld.relaxed.sys.u64").check("nanosleep.u32");
    ptx::of(module_path!(), "arrives").check_not("ld.relaxed.sys.u64").check_not("nanosleep.u32");
}
