//! Results that depend on the order in which threads run: the same launch, from the same memory, under several schedules.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use warpsmith::prelude::*;
use warpsmith::{CheckOptions, CheckRule, Device, Finding, Result, Schedule};
use warpsmith_checker_tests::{Expected, findings, silent};

const SOURCE: &str = include_str!("schedules.rs");

fn under_six() -> CheckOptions {
    CheckOptions::new().schedules(6)
}

#[track_caller]
fn depends<'a>(
    found: &'a [Finding],
    place: &str,
    thread: (u32, u32),
    action: &str,
    memory: (&str, i128),
    count: u64,
) -> &'a Finding {
    let rule = CheckRule::OrderDependent;
    Expected { rule, source: SOURCE, place, thread, action, memory: Some(memory), count }.only(found);
    &found[0]
}

/// Puts the numbers that are large enough one after another, at places that are taken as threads come.
#[kernel]
fn compacted(x: &[u32], count: &AtomicU32, y: &[AtomicU32]) {
    let i = global_idx().get();
    if i < x.len() && x[i] >= 8 {
        let at = count.fetch_add(1, Relaxed);
        y[at as usize].store(x[i], Relaxed); // at compacted
    }
}

#[test]
fn places_that_are_taken_as_threads_come() {
    let launches = |x: [u32; 64]| {
        findings(under_six(), |stream| {
            let (x, mut count, mut y) = (stream.to_device(&x)?, stream.zeroed(1)?, stream.zeroed::<u32>(64)?);
            compacted::launch(stream, LaunchConfig::new(2, 32), &x, &mut count, &mut y)
        })
    };
    let found = launches(std::array::from_fn(|i| i as u32));
    let finding = found.first().expect("the places differ");
    assert_eq!(finding.rule, CheckRule::OrderDependent, "{finding}");
    let [side, other] = [&finding.side, finding.other.as_ref().expect("both runs write it")];
    assert!(
        side.action.starts_with("writes ") && side.action.ends_with(" last under the schedule ascending"),
        "{side}"
    );
    assert!(other.action.ends_with(" last under the schedule random:1"), "{other}");
    let memory = finding.memory.as_ref().expect("it is about memory");
    // In ascending order the numbers stay sorted, from 8 on.
    assert_eq!(
        (memory.name.as_str(), format!("writes {} last under the schedule ascending", memory.element + 8)),
        ("`y`", side.action.clone())
    );
    // Equal numbers may change places.
    silent(&launches([9; 64]));
}

/// Adds floats in the order in which threads come.
#[kernel]
fn added(x: &[f32], sum: &AtomicF32) {
    sum.fetch_add(x[global_idx().get()], Relaxed); // at added
}

#[test]
fn a_sum_of_floats() {
    let launches = |x: [f32; 64]| {
        findings(under_six(), |stream| {
            let (x, mut sum) = (stream.to_device(&x)?, stream.zeroed::<f32>(1)?);
            added::launch(stream, LaunchConfig::new(2, 32), &x, &mut sum)
        })
    };
    let found = launches(std::array::from_fn(|i| 1.0 / (i as f32 + 1.0)));
    let finding = found.first().expect("the sums differ");
    assert_eq!((finding.rule, found.len()), (CheckRule::OrderDependent, 1), "{found:#?}");
    assert!(finding.side.file.ends_with(".rs") && finding.side.line > 0, "{finding}");
    let memory = finding.memory.as_ref().expect("it is about memory");
    assert_eq!((memory.name.as_str(), memory.element), ("`sum`", 0), "{finding}");
    // Whole numbers that fit have one sum.
    silent(&launches(std::array::from_fn(|i| i as f32)));
}

/// Each block says that it was the last; with the fault the number stays, without it the greatest wins.
#[kernel]
fn last_block(winner: &AtomicU32, fault: bool) {
    if thread_idx().x == 0 {
        let block = block_idx().x + 1;
        if fault {
            winner.store(block, Relaxed); // at last block
        } else {
            winner.fetch_max(block, Relaxed);
        }
    }
}

#[test]
fn the_block_that_comes_last() {
    let launches = |fault| {
        findings(under_six(), |stream| {
            let mut winner = stream.zeroed::<u32>(1)?;
            last_block::launch(stream, LaunchConfig::new(16, 32), &mut winner, fault)?;
            if !fault {
                assert_eq!(stream.to_host(&winner)?, [16]);
            }
            Ok(())
        })
    };
    let found = launches(true);
    // In ascending order the last of 16 blocks wins; five others are compared with it.
    let action = "writes 16 last under the schedule ascending";
    let finding = depends(&found, "last block", (15, 0), action, ("`winner`", 0), found[0].count);
    assert!((1..=5).contains(&finding.count), "{finding}");
    let other = finding.other.as_ref().expect("another block wins under another schedule");
    assert_ne!(other.block.x, 15, "{finding}");
    assert!(finding.message.starts_with("the launch leaves 16 there under the schedule ascending and "), "{finding}");
    silent(&launches(false));
}

/// Keeps the first value that comes, or all that were.
#[kernel]
fn first_come(slots: &[AtomicU64], fault: bool) {
    let i = global_idx().get() as u64;
    let slot = &slots[i as usize % 4];
    if fault {
        let _ = slot.compare_exchange(0, i + 1, Relaxed, Relaxed); // at first come
    } else {
        slot.fetch_or(1 << i, Relaxed);
    }
}

#[test]
fn the_value_that_comes_first() {
    let launches = |fault| {
        findings(under_six(), |stream| {
            let mut slots = stream.zeroed::<u64>(4)?;
            first_come::launch(stream, LaunchConfig::new(2, 32), &mut slots, fault)
        })
    };
    let found = launches(true);
    let finding = found.first().expect("another thread is first");
    assert_eq!((finding.rule, found.len()), (CheckRule::OrderDependent, 1), "{found:#?}");
    let memory = finding.memory.as_ref().expect("it is about memory");
    assert_eq!((memory.name.as_str(), memory.element), ("`slots`", 0), "{finding}");
    assert!(finding.message.starts_with("the launch leaves 1 there under the schedule ascending and "), "{finding}");
    silent(&launches(false));
}

/// Gives out tickets; with the fault each thread keeps its own, without it what is kept is how many there are.
#[kernel]
fn tickets(next: &AtomicU32, mut y: GridSliceMut<u32>, fault: bool) {
    let i = global_idx();
    let ticket = next.fetch_add(1, Relaxed);
    if let Some(y) = y.get_mut(&i) {
        *y += if fault { ticket } else { ticket / 1000 + 1 }; // at ticket
    }
}

#[test]
fn tickets_that_are_kept() {
    let launches = |fault| {
        findings(under_six(), |stream| {
            let (mut next, mut y) = (stream.zeroed::<u32>(1)?, stream.filled(100u32, 96)?);
            tickets::launch(stream, LaunchConfig::new(3, 32), &mut next, &mut y, fault)?;
            if !fault {
                // Each of the six runs began with 100, and the last that counts is the first.
                assert_eq!((stream.to_host(&next)?, stream.to_host(&y)?), (vec![96], vec![101; 96]));
            }
            Ok(())
        })
    };
    let found = launches(true);
    let finding = found.first().expect("tickets differ");
    assert_eq!((finding.rule, found.len()), (CheckRule::OrderDependent, 1), "{found:#?}");
    let (side, memory) = (&finding.side, finding.memory.as_ref().expect("it is about memory"));
    let own = side.block.x * 32 + side.thread.x;
    assert_eq!((memory.name.as_str(), memory.element), ("`y`", i128::from(own)), "{finding}");
    assert_eq!(side.action, format!("writes {} last under the schedule ascending", 100 + own), "{finding}");
    silent(&launches(false));
}

/// Sums what is in shared memory in the order of the threads' numbers, whichever comes first.
#[kernel(block = 64)]
fn ordered_sum(x: &[f32], mut sums: GridSliceMut<f32, PerBlock>) {
    let sum = warpsmith::block_reduce(x[global_idx().get()], |a, b| a + b);
    if let Some(leader) = block_leader()
        && let Some(total) = sums.get_mut(&leader)
    {
        *total = sum;
    }
}

#[test]
fn sums_in_an_order_of_their_own_agree() {
    silent(&findings(under_six(), |stream| {
        let x: Vec<f32> = (0..256).map(|i| 1.0 / (i as f32 + 1.0)).collect();
        let (x, mut sums) = (stream.to_device(&x)?, stream.zeroed::<f32>(4)?);
        ordered_sum::launch(stream, LaunchConfig::new(4, 64), &x, &mut sums)
    }));
}

/// Panics where its thread comes before the first one of its block.
#[kernel]
fn impatient(count: &AtomicU32, fault: bool) {
    let came = count.fetch_add(1, Relaxed);
    if fault && block_idx().x == 0 && thread_idx().x == 0 {
        assert!(came == 0, "the first thread came as number {came}");
    }
}

#[test]
fn a_panic_under_another_schedule() {
    let launches = |fault| {
        findings(under_six(), |stream| {
            let mut count = stream.zeroed::<u32>(1)?;
            impatient::launch(stream, LaunchConfig::new(4, 32), &mut count, fault)
        })
    };
    let found = launches(true);
    let finding = found.first().expect("another thread comes first under one of five seeds");
    assert_eq!(
        (finding.rule, finding.side.file.ends_with("schedules.rs")),
        (CheckRule::OrderDependent, true),
        "{finding}"
    );
    assert!(finding.side.action.starts_with("panics under the schedule random:"), "{finding}");
    assert!(finding.message.starts_with("under the schedule ascending no thread panics"), "{finding}");
    silent(&launches(false));
}

#[test]
fn a_finding_names_a_schedule_that_gives_its_value() {
    let run = |options: CheckOptions| -> Result<(Vec<Finding>, u32)> {
        let device = Device::cpu_checked_with(options);
        let stream = device.stream()?;
        let mut winner = stream.zeroed::<u32>(1)?;
        last_block::launch(&stream, LaunchConfig::new(16, 32), &mut winner, true)?;
        let found = device.take_findings();
        Ok((found, stream.to_host(&winner)?[0]))
    };
    let (found, first) = run(CheckOptions::new().schedule(Schedule::Reversed).schedules(2)).expect("it runs");
    // What the first schedule left stays.
    assert_eq!((first, found.len()), (1, 1), "{found:#?}");
    let other = found[0].other.as_ref().expect("another block wins");
    let (_, second) = run(CheckOptions::new().schedule(Schedule::Random(1))).expect("it runs");
    assert_eq!(other.action, format!("writes {second} last under the schedule random:1"), "{}", found[0]);
}

#[test]
fn kernels_print_once() {
    #[kernel]
    fn chatty(count: &AtomicU32) {
        gpu_println!("thread {}", thread_idx().x);
        count.fetch_add(1, Relaxed);
    }
    let lines = std::sync::Arc::new(AtomicU32::new(0));
    let device = Device::cpu_checked_with(under_six());
    let counted = std::sync::Arc::clone(&lines);
    device.set_output_sink(move |_| {
        counted.fetch_add(1, Relaxed);
    });
    let stream = device.stream().expect("the executor has streams");
    let mut count = stream.zeroed::<u32>(1).expect("there is memory");
    chatty::launch(&stream, LaunchConfig::new(1, 4), &mut count).expect("it is taken");
    assert_eq!(stream.to_host(&count).expect("nothing is wrong"), [4]);
    assert_eq!(lines.load(Relaxed), 4);
}
