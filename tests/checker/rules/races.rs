//! Two threads at one place, with nothing that orders them.

use warpsmith::CheckOptions;
use warpsmith::CheckRule::DataRace;
use warpsmith::prelude::*;
use warpsmith_checker_tests::{caught, findings, silent};

/// Sums a block's numbers as a tree in shared memory; without `BARRIER` its levels are not apart.
#[kernel]
fn tree_sum<const BARRIER: bool>(numbers: &[f32], mut sums: GridSliceMut<f32, PerBlock>) {
    let tile = shared!([f32; 256]).cast::<f32>();
    let thread = thread_idx().x as usize;
    // SAFETY: 256 elements, as many as the block has threads.
    unsafe { *tile.add(thread) = numbers[global_idx().get()] };
    sync_threads();
    let mut stride = 128;
    while stride > 0 {
        if thread < stride {
            // SAFETY: both are below 256.
            unsafe { *tile.add(thread) += *tile.add(thread + stride) };
        }
        if BARRIER {
            sync_threads();
        }
        stride /= 2;
    }
    if let Some(leader) = block_leader()
        && let Some(sum) = sums.get_mut(&leader)
    {
        // SAFETY: the first element.
        *sum = unsafe { *tile };
    }
}

fn tree_sums<const BARRIER: bool>() -> Vec<warpsmith::Finding> {
    findings(CheckOptions::new(), |stream| {
        let numbers = stream.to_device(&[1.0f32; 512])?;
        let mut sums = stream.zeroed::<f32>(2)?;
        tree_sum::launch::<BARRIER>(stream, LaunchConfig::new(2, 256), &numbers, &mut sums)
    })
}

#[test]
fn a_tree_sum_without_its_barrier_is_caught() {
    let findings = tree_sums::<false>();
    let finding = caught(DataRace, &findings);
    assert!(finding.side.file.ends_with("races.rs") && finding.other.is_some(), "{finding}");
    silent(&tree_sums::<true>());
}
