//! Warp operations whose masks name lanes that are not there, and masks that are right.

use warpsmith::Result;
use warpsmith::prelude::*;
use warpsmith_checker_tests::{always_silent, names_absent_lane};

/// A launch of a kernel that writes an element a thread.
macro_rules! launches {
    ($kernel:ident, $fault:literal, $threads:literal) => {
        |stream: &Stream| -> Result<()> {
            let mut output = stream.zeroed::<u32>(2 * $threads)?;
            $kernel::launch::<$fault>(stream, LaunchConfig::new(2, $threads), &mut output)
        }
    };
}

/// A sum of a warp after some lanes have returned, or of zeros from them.
#[kernel]
fn sum_after_return<const RETURNS: bool>(mut output: GridSliceMut<u32>) {
    let i = global_idx();
    let is_outside = i.get() >= 50;
    if is_outside && RETURNS {
        return;
    }
    let sum = reduce_add(FULL_MASK, if is_outside { 0 } else { i.get() as u32 }); // the sum
    if let Some(output) = output.get_mut(&i) {
        *output = sum;
    }
}

#[test]
fn a_sum_of_lanes_that_have_returned() {
    names_absent_lane("sum_after_return", "the sum", "lane 18 has ended before", launches!(sum_after_return, true, 64));
    always_silent(launches!(sum_after_return, false, 64));
}

/// A ballot of all lanes of a full warp in a last warp that is not full, by a mask that is spelled out.
#[kernel]
fn ballot_of_a_short_warp<const TOO_MANY: bool>(mut output: GridSliceMut<u32>) {
    let full = warp_id() == 0;
    let mask = if full {
        FULL_MASK
    } else if TOO_MANY {
        0x0fff
    } else {
        0x00ff
    };
    let votes = ballot(mask, thread_idx().x.is_multiple_of(2)); // the ballot
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = votes;
    }
}

#[test]
fn a_mask_of_more_lanes_than_the_last_warp_has() {
    let message = "lane 8 is none of the block's threads";
    names_absent_lane("ballot_of_a_short_warp", "the ballot", message, launches!(ballot_of_a_short_warp, true, 40));
    always_silent(launches!(ballot_of_a_short_warp, false, 40));
}

/// A shuffle among the first half of a warp, whose second has ended, with the mask of all or of that half.
#[kernel]
fn shuffle_of_a_half<const FULL: bool>(mut output: GridSliceMut<u32>) {
    if lane_id() >= 16 {
        return;
    }
    let mask = if FULL { 0xffff_ffff } else { 0x0000_ffff };
    let value = shfl_down_within(mask, thread_idx().x, 1, 16); // the shuffle
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn a_shuffle_with_lanes_that_have_ended() {
    let message = "lane 16 has ended before";
    names_absent_lane("shuffle_of_a_half", "the shuffle", message, launches!(shuffle_of_a_half, true, 64));
    always_silent(launches!(shuffle_of_a_half, false, 64));
}

/// The odd lanes are gone; `sync_warp` of all, or of those that `activemask` gave before.
#[kernel]
fn barrier_of_the_even<const FULL: bool>(mut output: GridSliceMut<u32>) {
    if lane_id() % 2 == 1 {
        return;
    }
    sync_warp(if FULL { FULL_MASK } else { 0x5555_5555 }); // the barrier
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn a_barrier_of_a_warp_whose_odd_lanes_have_ended() {
    let message = "lane 1 has ended before";
    names_absent_lane("barrier_of_the_even", "the barrier", message, launches!(barrier_of_the_even, true, 32));
    always_silent(launches!(barrier_of_the_even, false, 32));
}

/// A mask from a ballot of long ago: some of its lanes have ended since. Or a new one, of those that are left.
#[kernel]
fn stale_mask<const STALE: bool>(mut output: GridSliceMut<u32>) {
    let thread = thread_idx().x;
    let before = ballot(FULL_MASK, thread % 32 < 20);
    if thread % 32 >= 20 {
        return;
    }
    let now = ballot(before, thread % 32 < 10);
    if thread % 32 >= 10 {
        return;
    }
    let group = match_any(if STALE { before } else { now }, thread % 3); // the match
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = group;
    }
}

#[test]
fn a_mask_that_was_right_before_some_lanes_ended() {
    names_absent_lane("stale_mask", "the match", "lane 10 has ended before", launches!(stale_mask, true, 64));
    always_silent(launches!(stale_mask, false, 64));
}

/// A scan in a loop from which lanes go one by one: with the mask of all, or of those that go on.
#[kernel]
fn scan_in_a_loop<const FULL: bool>(mut output: GridSliceMut<u32>) {
    let lane = lane_id();
    let mut sum = 0;
    let mut mask = FULL_MASK;
    for turn in 0..4 {
        let goes_on = lane >= turn;
        mask = ballot(mask, goes_on);
        if !goes_on {
            return;
        }
        sum += inclusive_scan_add(if FULL { FULL_MASK } else { mask }, lane); // the scan
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = sum;
    }
}

#[test]
fn a_scan_in_a_loop_that_lanes_leave() {
    names_absent_lane("scan_in_a_loop", "the scan", "lane 0 has ended before", launches!(scan_in_a_loop, true, 32));
    always_silent(launches!(scan_in_a_loop, false, 32));
}

/// A tile of eight lanes of which one has ended, or of which all are there.
#[kernel]
fn tile_with_a_gap<const GAP: bool>(mut output: GridSliceMut<u32>) {
    let eight = this_thread_block().tiled_partition::<8>();
    if GAP && thread_idx().x == 13 {
        return;
    }
    eight.sync(); // of the tile
    let sum = eight.reduce_add(thread_idx().x);
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = sum;
    }
}

#[test]
fn a_tile_that_has_lost_a_lane() {
    use warpsmith::CheckRule::WarpMask;
    use warpsmith_checker_tests::{SCHEDULES, findings_under, line_of};
    for schedule in SCHEDULES {
        let findings = findings_under(schedule, launches!(tile_with_a_gap, true, 32));
        let finding = findings.iter().find(|finding| line_of(&finding.side).contains("of the tile"));
        let finding = finding.unwrap_or_else(|| panic!("nothing was found under {schedule}: {findings:#?}"));
        assert_eq!((finding.rule, finding.message.as_str()), (WarpMask, "lane 13 has ended before"), "{finding}");
        assert!((8..16).contains(&finding.side.thread.x), "{finding}");
    }
    always_silent(launches!(tile_with_a_gap, false, 32));
}

/// Masks that are right: of a branch, of both its sides, of coalesced lanes, of a short last warp, of those that `match_any` put together.
#[kernel]
fn right_masks(mut output: GridSliceMut<u32>) {
    let (lane, warp) = (lane_id(), warp_id());
    // The full mask stands for all lanes that the warp has.
    let mut value = ballot(FULL_MASK, true) ^ reduce_max(FULL_MASK, lane);
    let low = ballot(FULL_MASK, lane < 5);
    if lane < 5 {
        value += shfl_xor(low, value, 1) + coalesced_threads().reduce_add(1);
    } else {
        value += broadcast(activemask(), value, 6);
    }
    let alike = match_any(FULL_MASK, lane % 3);
    value += reduce_add(alike, lane) + u32::from(elect(alike));
    sync_warp(alike);
    value += u32::from(all(FULL_MASK, warp < 9)) + exclusive_scan_add(FULL_MASK, lane);
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn masks_of_the_lanes_that_are_there() {
    for threads in [8, 32, 40, 64, 71] {
        always_silent(|stream| {
            let mut output = stream.zeroed::<u32>(2 * threads as usize)?;
            right_masks::launch(stream, LaunchConfig::new(2, threads), &mut output)
        });
    }
}
