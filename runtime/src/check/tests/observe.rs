//! Those who look on: the memory report and watched elements, and casts that are told of.

use std::sync::{Arc, Mutex};

use warpsmith_device::cast::Number;
use warpsmith_device::{block_idx, sync_threads, thread_idx};

use super::*;
use crate::check::{MemoryReport, MemorySpace, Watch};

fn observed(shape: &Launch, buffers: &[&Buffer], watches: &[&Watch], body: impl Fn() + Sync) -> MemoryReport {
    let arguments: Vec<_> = buffers.iter().map(|buffer| buffer.argument()).collect();
    let watches: Vec<_> = watches.iter().map(|watch| Arc::clone(watch.watched())).collect();
    let report = Mutex::default();
    let observers = Observers { traffic: Some(&report), watches: &watches };
    let (ran, findings) = shape.run_observed(&arguments, observers, body);
    assert!(ran.is_ok(), "{ran:?}");
    assert!(findings.is_empty(), "{findings:#?}");
    report.into_inner().unwrap()
}

/// Line, whether a write, requests, sectors: of device memory.
fn global_lines(report: &MemoryReport) -> Vec<(u32, bool, u64, u64)> {
    let global = report.lines().filter(|line| line.space == MemorySpace::Global);
    global.map(|line| (line.line, line.is_write, line.requests, line.transactions)).collect()
}

#[test]
fn a_report_counts_each_block_by_warps_under_every_schedule() {
    let (x, y) = (Buffer::new("x", 8192, Mark::Init), Buffer::new("y", 4096, Mark::Init));
    for schedule in [Schedule::Ascending, Schedule::Reversed, Schedule::Random(3), Schedule::Adversarial(5)] {
        let shape = Launch { schedule, ..launch(3, 64) };
        let report = observed(&shape, &[&x, &y], &[], || {
            let value = x.at(2 * global()).load();
            sync_threads();
            y.at(global()).store(value);
        });
        assert_eq!(global_lines(&report), [(100, false, 6, 48), (101, true, 6, 24)], "under {schedule}");
    }
}

#[test]
fn what_a_gpu_joins_is_one_request_and_checked_by_itself() {
    let x = Buffer::new("x", 128, Mark::Init);
    let report = observed(&launch(1, 32), &[&x], &[], || {
        for part in 0..4 {
            x.at(4 * global() + part).load_at(if part == 0 { at::JOINED } else { at::FOLLOWING });
        }
    });
    assert_eq!(global_lines(&report), [(121, false, 1, 16)], "{report}");
    assert_eq!(report.lines().map(|line| (line.accesses, line.fewest)).collect::<Vec<_>>(), [(32, 16)]);
    // One of those that are not counted races with a write.
    let findings = launch(1, 2).find(&[&x], || match thread_idx().x {
        0 => x.at(1).store(1.0),
        _ => drop(x.at(1).load_at(at::FOLLOWING)),
    });
    let [finding] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!(finding.rule, CheckRule::DataRace);
}

#[test]
fn blocks_that_are_alive_together_are_counted_apart() {
    let x = Buffer::new("x", 4096, Mark::Init);
    for cooperative in [false, true] {
        let shape = Launch { cooperative, cluster: if cooperative { 1 } else { 2 }.into(), ..launch(4, 32) };
        let report = observed(&shape, &[&x], &[], || {
            // Every other block comes twice, and all meet in between.
            x.at(global()).load();
            if cooperative {
                warpsmith_device::this_grid().sync()
            } else {
                warpsmith_device::this_cluster().sync()
            }
            if block_idx().x.is_multiple_of(2) {
                x.at(global()).load();
            }
        });
        assert_eq!(global_lines(&report), [(100, false, 6, 24)], "cooperative: {cooperative}");
    }
}

#[test]
fn without_anyone_who_looks_on_nothing_is_counted() {
    let x = Buffer::new("x", 64, Mark::Init);
    let watch = Watch::new(x.at(3).0, 4);
    launch(1, 64).clean(&[&x], || x.at(global()).store(1.0));
    assert_eq!(watch.take_writes(), []);
}

#[test]
fn a_watch_tells_who_wrote_in_order() {
    let x = Buffer::new("x", 64, Mark::Init);
    let watch = Watch::new(x.at(37).0, 4);
    let shape = launch(2, 32);
    observed(&shape, &[&x], &[&watch], || {
        x.at(global()).store(0.5);
        x.at(global()).store_at(global() as f32, at::OTHER_STORE);
    });
    let writes = watch.take_writes();
    let texts: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "kernel `test::kernel`: thread (5, 0, 0) of block (1, 0, 0) writes 0.5 over 0.0 at kernel.rs:101:5 in `kernel`; \
             element 37 of `x` (64 elements of `f32`)",
            "kernel `test::kernel`: thread (5, 0, 0) of block (1, 0, 0) writes 37.0 over 0.5 at kernel.rs:103:5 in `kernel`; \
             element 37 of `x` (64 elements of `f32`)",
        ]
    );
    assert_eq!((writes[1].old.as_str(), writes[1].new.as_str()), ("0.5", "37.0"));
    assert_eq!(watch.take_writes(), []);
}

#[test]
fn a_watch_sees_atomics_copies_and_launches_one_after_another() {
    let (x, y) = (Buffer::new("x", 8, Mark::Init), Buffer::new("y", 8, Mark::Init));
    let watch = Watch::new(x.at(2).0, 4);
    let add = |by: u32| {
        observed(&launch(1, 3), &[&x], &[&watch], || {
            x.at(2).add(by, at::RELAXED_ADD);
        });
    };
    add(2);
    add(5);
    observed(&launch(1, 1), &[&x, &y], &[&watch], || {
        y.at(1).store(1.0);
        // SAFETY: two elements of each buffer, which the test keeps.
        unsafe {
            __warpsmith_check_copy(x.at(1).ptr().cast(), y.at(0).ptr().cast(), 8, at::COPY);
            x.at(1).ptr().copy_from(y.at(0).ptr(), 2);
        }
    });
    let writes = watch.take_writes();
    let values: Vec<_> = writes.iter().map(|write| (write.old.clone(), write.new.clone())).collect();
    // The buffer's elements are floats, and so their bits are printed, whatever an atomic takes them for.
    let float = |bits| format!("{:?}", f32::from_bits(bits));
    let added = [0, 2, 4, 6, 11, 16, 21].map(float);
    let mut expected: Vec<_> = added.windows(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    expected.push(("the bytes 15 00 00 00".to_owned(), "the bytes 00 00 80 3f".to_owned()));
    assert_eq!(values, expected);
    assert_eq!(writes[1].side.thread, Dim3 { x: 1, y: 0, z: 0 });
}

#[test]
fn elements_beside_a_watched_one_are_not_told_of() {
    let x = Buffer::new("x", 64, Mark::Init);
    let (first, last) = (Watch::new(x.at(0).0, 4), Watch::new(x.at(63).0, 4));
    observed(&launch(1, 62), &[&x], &[&first, &last], || x.at(thread_idx().x as usize + 1).store(1.0));
    assert_eq!((first.take_writes(), last.take_writes()), (vec![], vec![]));
}

fn cast_in_all_threads(options: CheckOptions) -> Vec<Finding> {
    Launch { options, ..launch(1, 4) }.find(&[], || {
        let (from, to) = (Number::of(&300_u32).unwrap(), Number::of(&44_u8).unwrap());
        let loss = from.loss_as(to).unwrap();
        __warpsmith_check_lossy_cast(std::panic::Location::caller(), from, to, loss);
    })
}

#[test]
fn casts_that_lose_are_findings_where_asked() {
    let findings = cast_in_all_threads(CheckOptions::new().lossy_casts(true));
    let [finding] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!((finding.rule, finding.count), (CheckRule::LossyCast, 4));
    assert_eq!(finding.side.action, "casts 300u32 and gets 44u8");
    assert!(finding.side.file.ends_with("observe.rs"), "{finding}");
    assert_eq!(finding.message, "its upper bits are cut off");
    assert!(cast_in_all_threads(CheckOptions::new()).is_empty());
}
