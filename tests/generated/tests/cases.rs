//! Cases of the list that need the checker: barriers that threads miss, and old contents of shared memory.
#![expect(clippy::if_same_then_else, reason = "a call in two branches is two places, which is what is tested")]

use warpsmith::prelude::*;
use warpsmith::{CheckRule, Error, Finding, Schedule, shared_array};

/// Line of the barrier of a block's first half; that of the other half is two below.
const FIRST_BARRIER: u32 = line!() + 6;

/// The two halves of a block wait at barriers of their own.
#[kernel]
fn wait_apart(mut output: GridSliceMut<u32>) {
    if thread_idx().x < 32 {
        sync_threads();
    } else {
        sync_threads();
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

/// Line of the barrier that half of the block does not come to.
const LONELY_BARRIER: u32 = line!() + 8;

/// Half of the block is gone before the barrier.
#[kernel]
fn leave_early(mut output: GridSliceMut<u32>) {
    if thread_idx().x >= 32 {
        return;
    }
    sync_threads();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

/// Line of the read that comes before any write of its block.
const EARLY_READ: u32 = line!() + 8;

/// Reads what the block before may have left, and leaves something for the next.
#[kernel]
fn read_old_contents(mut output: GridSliceMut<u32>) {
    let i = global_idx();
    let tile = shared_array!([u32; 32]).without_sync();
    if let Some(output) = output.get_mut(&i) {
        *output = tile.at(thread_idx().x as usize);
    }
    let mut tile = tile.sync();
    tile.put(i.get() as u32);
}

/// The executors that run kernels as they are: on all cores, and under schedules.
fn plain_devices() -> Vec<Device> {
    let schedules = [Schedule::Ascending, Schedule::Reversed, Schedule::Random(5), Schedule::Adversarial(5)];
    std::iter::once(Device::cpu()).chain(schedules.map(Device::cpu_scheduled)).collect()
}

/// What the checker finds in a launch, under each of some schedules.
fn findings(launch: impl Fn(&Stream) -> warpsmith::Result<()>) -> Vec<Vec<Finding>> {
    let schedules = [Schedule::Ascending, Schedule::Reversed, Schedule::Random(5), Schedule::Adversarial(5)];
    let under = |schedule| {
        let device = Device::cpu_checked_with(warpsmith::CheckOptions::new().schedule(schedule));
        let stream = device.stream().expect("the checked executor gives streams");
        let error = launch(&stream).and_then(|()| stream.synchronize()).expect_err("the launch has a fault");
        let Error::Check(report) = error else { panic!("under {schedule}: {error}") };
        println!("under {schedule}: {report}");
        report.findings
    };
    schedules.map(under).into()
}

fn launch(
    kernel: fn(&Stream, LaunchConfig, &mut DeviceBuffer<u32>) -> warpsmith::Result<()>,
    config: LaunchConfig,
) -> impl Fn(&Stream) -> warpsmith::Result<()> {
    move |stream| {
        let threads = config.grid_dim().count() * config.block_dim().count();
        let mut output = stream.zeroed(threads as usize)?;
        kernel(stream, config, &mut output)
    }
}

#[test]
fn case_g5_halves_that_wait_at_barriers_of_their_own_are_told_with_both_places() {
    let run = launch(|stream, config, output| wait_apart::launch(stream, config, output), LaunchConfig::new(2, 64));
    let places = [FIRST_BARRIER, FIRST_BARRIER + 2].map(|line| format!("{}:{line}:", file!()));
    for device in plain_devices() {
        let stream = device.stream().expect("an executor gives streams");
        let error = run(&stream).and_then(|()| stream.synchronize()).expect_err("they never meet");
        let message = &error.kernel_panic().unwrap_or_else(|| panic!("on {device}: {error}")).message;
        assert!(message.starts_with("threads of the block are at different barriers: "), "on {device}: {message}");
        assert!(places.iter().all(|place| message.contains(place)), "on {device}: {message}");
    }
    for found in findings(&run) {
        let finding = found.iter().find(|finding| finding.rule == CheckRule::BarrierDivergence).expect("the rule");
        assert!([FIRST_BARRIER, FIRST_BARRIER + 2].contains(&finding.side.line), "{finding}");
        assert!(places.iter().all(|place| finding.message.contains(place)), "{finding}");
    }
}

#[test]
fn case_g5_a_barrier_that_half_the_threads_skip_is_found() {
    let run = launch(|stream, config, output| leave_early::launch(stream, config, output), LaunchConfig::new(2, 64));
    // As on a GPU, the barrier does not wait for threads that have ended.
    for device in plain_devices() {
        let stream = device.stream().expect("an executor gives streams");
        run(&stream).and_then(|()| stream.synchronize()).unwrap_or_else(|error| panic!("on {device}: {error}"));
    }
    for found in findings(&run) {
        let finding = found.iter().find(|finding| finding.rule == CheckRule::BarrierDivergence).expect("the rule");
        assert_eq!(finding.side.line, LONELY_BARRIER, "{finding}");
        let other = finding.other.as_ref().expect("a thread that is gone");
        assert!(finding.side.thread.x < 32 && other.thread.x >= 32, "{finding}");
    }
}

#[test]
fn case_f5_a_new_block_sees_poison_and_a_read_before_a_write_is_found() {
    let config = LaunchConfig::new(6, 32);
    for device in plain_devices() {
        let stream = device.stream().expect("an executor gives streams");
        let run = || {
            let mut output = stream.zeroed::<u32>(6 * 32)?;
            read_old_contents::launch(&stream, config, &mut output)?;
            stream.to_host(&output)
        };
        let seen = run().unwrap_or_else(|error| panic!("on {device}: {error}"));
        assert_eq!(seen, [0xd3d3_d3d3; 6 * 32], "on {device}");
    }
    let run = launch(|stream, config, output| read_old_contents::launch(stream, config, output), config);
    for found in findings(run) {
        let finding = found.iter().find(|finding| finding.rule == CheckRule::Uninitialised).expect("the rule");
        assert_eq!(finding.side.line, EARLY_READ, "{finding}");
        let memory = finding.memory.as_ref().expect("it is about memory");
        assert_eq!((memory.name.as_str(), memory.len), ("shared memory", 32), "{finding}");
        assert_eq!(memory.element, i128::from(finding.side.thread.x), "{finding}");
    }
}
