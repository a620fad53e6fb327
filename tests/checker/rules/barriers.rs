//! Barriers that threads miss, and barriers to which all come by whatever way.

use warpsmith::mbarrier::Mbarrier;
use warpsmith::prelude::*;
use warpsmith::{CheckRule, Device, Result};
use warpsmith_checker_tests::{SCHEDULES, always_silent, caught, diverges, findings_under, line_of};

/// A launch of a kernel that writes an element a thread, in two blocks of two warps.
macro_rules! launches {
    ($kernel:ident, $fault:literal) => {
        launches!($kernel, $fault, LaunchConfig::new(2, 64);)
    };
    ($kernel:ident, $fault:literal, $config:expr; $($argument:expr),*) => {
        |stream: &Stream| -> Result<()> {
            let mut output = stream.zeroed::<u32>(128)?;
            $kernel::launch::<$fault>(stream, $config, $($argument,)* &mut output)
        }
    };
}

/// Line of the barrier in `early_return`.
const AFTER_THE_RETURN: u32 = line!() + 10;

/// The threads that have no element are gone before the barrier, or go around their work.
#[kernel]
fn early_return<const RETURNS: bool>(len: usize, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    let is_outside = i.get() >= len;
    if is_outside && RETURNS {
        return;
    }
    sync_threads();
    if !is_outside && let Some(output) = output.get_mut(&i) {
        *output = 1;
    }
}

fn returned<const RETURNS: bool>(stream: &Stream, len: usize) -> Result<()> {
    let mut output = stream.zeroed::<u32>(128)?;
    early_return::launch::<RETURNS>(stream, LaunchConfig::new(2, 64), len, &mut output)
}

#[test]
fn an_early_return_before_a_barrier() {
    diverges("early_return", &["sync_threads();"], &["has ended before it"], |s| returned::<true>(s, 100));
    for schedule in SCHEDULES {
        let findings = findings_under(schedule, |stream| returned::<true>(stream, 100));
        let finding = caught(CheckRule::BarrierDivergence, &findings);
        let other = finding.other.as_ref().expect("a thread that is gone");
        assert_eq!(finding.side.line, AFTER_THE_RETURN, "{finding}");
        assert_eq!((finding.side.block.x, other.block.x), (1, 1), "{finding}");
        assert!(finding.side.thread.x < 36 && other.thread.x >= 36, "{finding}");
    }
    always_silent(|stream| returned::<false>(stream, 100));
    // Whole blocks may leave.
    always_silent(|stream| returned::<true>(stream, 64));
    always_silent(|stream| returned::<true>(stream, 128));
}

/// The halves of a block at barriers of their own, or together at the one after the branches.
#[kernel]
fn branches<const APART: bool>(mut output: GridSliceMut<u32>) {
    let mut value = 1;
    if thread_idx().x < 32 {
        value += 1;
        if APART {
            sync_threads(); // of the first half
        }
    } else if APART {
        sync_threads(); // of the second half
    }
    if !APART {
        sync_threads();
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn halves_of_a_block_at_different_barriers() {
    let lines = ["of the first half", "of the second half"];
    diverges("branches", &lines, &lines, launches!(branches, true));
    always_silent(launches!(branches, false));
}

/// A barrier that half of the block goes around, or all do by what they agreed on.
#[kernel]
fn in_a_branch<const ALONE: bool>(mut output: GridSliceMut<u32>) {
    let wanted = thread_idx().x < 32;
    let wanted = if ALONE { wanted } else { sync_threads_or(wanted) };
    if wanted {
        sync_threads(); // in the branch
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn a_barrier_in_a_branch_that_not_all_take() {
    diverges("in_a_branch", &["in the branch"], &["has ended before it"], launches!(in_a_branch, true));
    always_silent(launches!(in_a_branch, false));
}

/// A barrier in a loop whose length is the thread's own, or the block's.
#[kernel]
fn in_a_loop<const OWN: bool>(mut output: GridSliceMut<u32>) {
    let turns = if OWN { thread_idx().x / 32 + 1 } else { block_idx().x + 2 };
    for _ in 0..turns {
        sync_threads(); // in the loop
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = turns;
    }
}

#[test]
fn a_barrier_in_a_loop_that_takes_some_threads_longer() {
    diverges("in_a_loop", &["in the loop"], &["has ended before it"], launches!(in_a_loop, true));
    always_silent(launches!(in_a_loop, false));
}

/// A thread leaves the loop when it has found something, or when the block has.
#[kernel]
fn search<const ALONE: bool>(mut output: GridSliceMut<u32>) {
    let mut turn = 0;
    while turn < 8 {
        let found = turn == 3 && thread_idx().x == 17;
        if ALONE {
            if found {
                break;
            }
            sync_threads(); // of the search
        } else if sync_threads_or(found) {
            break;
        }
        turn += 1;
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = turn;
    }
}

#[test]
fn a_thread_that_breaks_out_of_a_loop_with_a_barrier() {
    let told = ["of the search", "has ended before it", "thread (17, 0, 0)"];
    diverges("search", &told[..1], &told, launches!(search, true));
    always_silent(launches!(search, false));
}

/// Half of a block votes while the other half waits, or all vote.
#[kernel]
fn votes<const APART: bool>(mut output: GridSliceMut<u32>) {
    let is_first = thread_idx().x < 32;
    let mut value = 0;
    if !APART || is_first {
        value = sync_threads_count(is_first); // the vote
    } else {
        sync_threads(); // the barrier
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn a_vote_of_half_a_block() {
    diverges("votes", &["the vote", "the barrier"], &["the vote", "the barrier"], launches!(votes, true));
    always_silent(launches!(votes, false));
}

/// A sum of the block in a branch that half of it takes, or of zeros from that half.
#[kernel]
fn collective<const ALONE: bool>(mut output: GridSliceMut<u32>) {
    let thread = thread_idx().x;
    let mut sum = 0;
    if !ALONE || thread < 32 {
        sum = block_reduce(if thread < 32 { thread } else { 0 }, u32::wrapping_add); // the sum
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = sum;
    }
}

#[test]
fn a_collective_that_half_a_block_calls() {
    for schedule in SCHEDULES {
        let findings = findings_under(schedule, launches!(collective, true));
        // It also reads what the other half should have written.
        let mut rules = findings.iter().filter(|finding| finding.rule == CheckRule::BarrierDivergence);
        let finding = rules.next().unwrap_or_else(|| panic!("nothing was found under {schedule}"));
        assert!(line_of(&finding.side).contains("the sum"), "under {schedule}: {finding}");
        let other = finding.other.as_ref().expect("a thread that is gone");
        assert!(finding.side.thread.x < 32 && other.thread.x >= 32, "{finding}");
    }
    always_silent(launches!(collective, false));
}

/// Two warps meet at a named barrier; another number of threads than come, or the right one.
#[kernel]
fn named<const TOO_MANY: bool>(mut output: GridSliceMut<u32>) {
    if warp_id() < 2 {
        NamedBarrier::<4>::sync(if TOO_MANY { 96 } else { 64 }); // the meeting
    }
    sync_threads(); // the block's
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = warp_id();
    }
}

#[test]
fn a_named_barrier_to_which_too_few_come() {
    let told = ["the meeting", "the block's"];
    diverges("named", &told, &told[..1], launches!(named, true, LaunchConfig::new(1, 128);));
    always_silent(launches!(named, false, LaunchConfig::new(1, 128);));
}

/// Half of a block arrives at an mbarrier of all, or all do; those of the first warp wait.
#[kernel]
fn arrivals<const HALF: bool>(mut output: GridSliceMut<u32>) {
    let barrier = shared!(Mbarrier);
    if thread_idx().x == 0 {
        // SAFETY: one thread does, before the others come past the barrier.
        unsafe { Mbarrier::init(barrier, 64) };
    }
    sync_threads();
    // SAFETY: initialised above, and there as long as the block.
    let barrier = unsafe { &*barrier };
    if !HALF || thread_idx().x < 32 {
        let phase = barrier.arrive();
        if thread_idx().x < 32 {
            barrier.wait(phase); // for all
        }
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn an_mbarrier_at_which_too_few_arrive() {
    diverges("arrivals", &["for all"], &["in vain"], launches!(arrivals, true));
    always_silent(launches!(arrivals, false));
}

/// Half of a warp waits for all of it, and the other half for the block; or each for those that come.
#[kernel]
fn warps<const FULL: bool>(mut output: GridSliceMut<u32>) {
    if lane_id() < 16 {
        sync_warp(if FULL { FULL_MASK } else { 0xffff }); // of the warp
    } else if FULL {
        sync_threads(); // of the block
    }
    if !FULL {
        sync_threads();
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn half_a_warp_at_the_warps_barrier_and_half_at_the_blocks() {
    diverges("warps", &["of the warp", "of the block"], &["of the warp"], launches!(warps, true));
    always_silent(launches!(warps, false));
}

/// One of the threads panics before the others wait, for the block and at other barriers.
#[kernel]
fn panics<const WHERE: u32>(mut output: GridSliceMut<u32>) {
    let barrier = shared!(Mbarrier);
    if thread_idx().x == 0 {
        // SAFETY: one thread does, before the others come past the barrier.
        unsafe { Mbarrier::init(barrier, 64) };
    }
    sync_threads();
    assert!(global_idx().get() != 3, "the third gives up");
    match WHERE {
        0 => sync_threads(),
        1 => NamedBarrier::<9>::sync(64),
        2 => {
            // SAFETY: initialised above, and there as long as the block.
            let barrier = unsafe { &*barrier };
            let phase = barrier.arrive();
            barrier.wait(phase);
        }
        3 => this_grid().sync(),
        _ => sync_warp(FULL_MASK),
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn case_e5_a_panic_is_told_as_such_and_is_no_divergence() {
    for schedule in SCHEDULES {
        let device = Device::cpu_checked_with(warpsmith::CheckOptions::new().schedule(schedule));
        let stream = device.stream().expect("the executor has streams");
        let config = LaunchConfig::new(2, 64).cooperative();
        let mut output = stream.zeroed::<u32>(128).expect("there is memory");
        for number in 0..5 {
            let launched = match number {
                0 => panics::launch::<0>(&stream, config, &mut output),
                1 => panics::launch::<1>(&stream, config, &mut output),
                2 => panics::launch::<2>(&stream, config, &mut output),
                3 => panics::launch::<3>(&stream, config, &mut output),
                _ => panics::launch::<4>(&stream, config, &mut output),
            };
            let outcome = launched.and_then(|()| stream.synchronize());
            let error = outcome.expect_err("a thread has panicked");
            let panic = error.kernel_panic().unwrap_or_else(|| panic!("under {schedule} at {number}: {error}"));
            assert!(panic.message.contains("the third gives up"), "under {schedule} at {number}: {panic}");
            assert_eq!(panic.thread.x, 3, "under {schedule} at {number}: {panic}");
            if let warpsmith::Error::Check(report) = &error {
                assert!(report.findings.is_empty(), "under {schedule} at {number}: {report}");
            }
        }
    }
}

/// Barriers of one number of threads, by ways that differ: in a function, in nested loops, in a match on what is the same for all.
#[kernel]
fn together(mut output: GridSliceMut<u32>) {
    fn step(value: u32) -> u32 {
        sync_threads();
        value + 1
    }
    let mut value = thread_idx().x;
    for outer in 0..3 {
        // Work that differs among threads, around the barrier.
        for _ in 0..thread_idx().x % 7 {
            value = value.wrapping_mul(3);
        }
        value = match (outer + block_idx().x) % 3 {
            0 => step(value),
            1 => step(step(value)),
            _ => value,
        };
        this_thread_block().sync();
    }
    value += sync_threads_count(value.is_multiple_of(2)) + u32::from(sync_threads_and(value > 0));
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn all_come_together_by_ways_that_differ() {
    always_silent(|stream| {
        let mut output = stream.zeroed::<u32>(3 * 50)?;
        together::launch(stream, LaunchConfig::new(3, 50), &mut output)
    });
}

/// Threads that leave before the barrier of all blocks, or of their cluster: none, a whole block, or one thread.
#[kernel]
fn of_blocks<const LEAVE: u32>(in_clusters: u32, mut output: GridSliceMut<u32>) {
    if block_idx().x == 1 && (LEAVE == 1 || (LEAVE == 2 && thread_idx().x == 5)) {
        return;
    }
    if in_clusters == 0 {
        this_grid().sync(); // of all blocks
    } else {
        this_cluster().sync(); // of the cluster
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn blocks_that_leave_before_the_barriers_of_the_grid_and_of_their_cluster() {
    let grid = LaunchConfig::new(4, 32).cooperative();
    let clusters = grid.with_cluster(2);
    for (config, in_clusters, line) in [(grid, 0, "of all blocks"), (clusters, 1, "of the cluster")] {
        always_silent(launches!(of_blocks, 0, config; in_clusters));
        let gone = if in_clusters == 0 { "block (1, 0, 0) has ended" } else { "of block (1, 0, 0) has ended" };
        diverges("of_blocks", &[line], &[gone], launches!(of_blocks, 1, config; in_clusters));
        let gone = "thread (5, 0, 0) of block (1, 0, 0) has ended";
        diverges("of_blocks", &[line], &[gone], launches!(of_blocks, 2, config; in_clusters));
    }
}
