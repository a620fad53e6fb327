//! Clusters in PTX.

use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::ptx;

/// A barrier, and a word of another block.
#[kernel]
fn reaches(mut output: GridSliceMut<u32>) {
    let slot = shared!(u32);
    // SAFETY: all threads write the same, and nobody reads before the barrier.
    unsafe { slot.write(block_idx().x) };
    this_cluster().sync();
    // SAFETY: the other block wrote before the barrier and does not end before the next.
    let other = unsafe { this_cluster().map_shared_rank(slot, cluster_rank() ^ 1).read() };
    this_cluster().sync();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = other + cluster_idx().x;
    }
}

#[test]
fn clusters_have_instructions_of_their_own() {
    ptx::of(module_path!(), "reaches")
        .check_count("barrier.cluster.arrive.aligned", 2)
        .check_count("barrier.cluster.wait.aligned", 2)
        .check("mapa.u64")
        .check("%cluster_ctarank")
        .check("%cluster_nctaid.x")
        .check("%clusterid.x");
}
