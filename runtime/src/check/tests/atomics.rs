//! What atomics and fences order, and what not.

use std::sync::atomic::{AtomicU32, Ordering};

use warpsmith_device::{block_idx, sync_threads, thread_idx};

use super::*;

#[test]
fn atomics_do_not_race_with_each_other() {
    let x = Buffer::new("x", 64, Mark::Init);
    launch(4, 64).clean(&[&x], || {
        x.at(0).add(1, at::RELAXED_ADD);
        x.at(1).atomic_load(at::RELAXED_LOAD);
        x.at(1).atomic_store(7, at::RELAXED_STORE);
    });
}

#[test]
fn an_atomic_and_a_plain_access_race() {
    let x = Buffer::new("x", 64, Mark::Init);
    for plain in [true, false] {
        launch(2, 32).caught(CheckRule::DataRace, &[&x], || {
            let reads = (block_idx().x == 0) == plain;
            if thread_idx().x == 3 && reads {
                x.at(5).load();
            } else if thread_idx().x == 3 {
                x.at(5).add(1, at::RELAXED_ADD);
            }
        });
    }
    launch(2, 32).caught(CheckRule::ConflictingWrites, &[&x], || {
        if thread_idx().x == 3 && block_idx().x == 0 {
            x.at(5).store(1.0);
        } else if thread_idx().x == 3 {
            x.at(5).add(1, at::RELAXED_ADD);
        }
    });
}

/// Each block leaves a part; the last to count adds them up.
fn last_block(count: u32, x: &Buffer, fence: bool) {
    let i = thread_idx().x as usize;
    let blocks = 4;
    x.at(1 + i + 32 * block_idx().x as usize).store(1.0);
    sync_threads();
    if i != 0 {
        return;
    }
    if fence {
        // SAFETY: a checked launch runs.
        unsafe { __warpsmith_check_fence(at::FENCE) };
    }
    let before = x.at(0).add(1, count);
    if fence {
        // SAFETY: as above.
        unsafe { __warpsmith_check_fence(at::FENCE) };
    }
    if before == blocks - 1 {
        for i in 0..32 * blocks as usize {
            x.at(1 + i).load();
        }
        x.at(0).atomic_store(0, at::RELAXED_STORE);
    }
}

#[test]
fn the_last_block_may_read_what_all_released() {
    let x = Buffer::new("x", 200, Mark::Init);
    launch(4, 32).clean(&[&x], || last_block(at::ADD, &x, false));
    launch(4, 32).clean(&[&x], || last_block(at::RELAXED_ADD, &x, true));
}

#[test]
fn a_relaxed_count_releases_nothing() {
    let x = Buffer::new("x", 200, Mark::Init);
    launch(4, 32).caught(CheckRule::DataRace, &[&x], || last_block(at::RELAXED_ADD, &x, false));
}

/// Block 0 writes and then sets the flag; later blocks read if it is set.
fn message(x: &Buffer, set: u32, look: u32, order: &AtomicU32) {
    if thread_idx().x != 0 {
        return;
    }
    if block_idx().x == 0 {
        x.at(1).store(1.0);
        x.at(0).atomic_store(1, set);
        order.store(1, Ordering::Relaxed);
    } else if order.load(Ordering::Relaxed) == 1 {
        x.at(0).atomic_load(look);
        x.at(1).load();
    }
}

#[test]
fn a_release_store_and_an_acquire_load_order_and_less_does_not() {
    let x = Buffer::new("x", 64, Mark::Init);
    let found = |set, look| {
        let order = AtomicU32::new(0);
        let findings = launch(2, 32).find(&[&x], || message(&x, set, look, &order));
        findings.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(found(at::RELEASE_STORE, at::ACQUIRE_LOAD), []);
    assert_eq!(found(at::RELAXED_STORE, at::ACQUIRE_LOAD), [CheckRule::DataRace]);
    assert_eq!(found(at::RELEASE_STORE, at::RELAXED_LOAD), [CheckRule::DataRace]);
}

#[test]
fn what_is_written_after_a_release_is_not_released() {
    let x = Buffer::new("x", 64, Mark::Init);
    let findings = launch(2, 32).find(&[&x], || {
        if global() == 0 {
            x.at(0).atomic_store(1, at::RELEASE_STORE);
            x.at(1).store(1.0);
        } else if global() == 32 {
            x.at(0).atomic_load(at::ACQUIRE_LOAD);
            x.at(1).load();
        }
    });
    assert!(findings.len() == 1 && findings[0].rule == CheckRule::DataRace, "{}", list(&findings));
}

#[test]
fn what_was_acquired_is_released_on() {
    // Each block acquires from the one before and releases to the next; the last reads what the first wrote.
    let x = Buffer::new("x", 64, Mark::Init);
    let chain = |gap: Option<u32>| {
        let findings = launch(8, 32).find(&[&x], || {
            let block = block_idx().x as usize;
            if block == 0 {
                x.at(20 + thread_idx().x as usize).store(1.0);
            }
            sync_threads();
            if thread_idx().x == 0 {
                if block > 0 {
                    x.at(block - 1).atomic_load(at::ACQUIRE_LOAD);
                }
                let set = if gap == Some(block as u32) { at::RELAXED_STORE } else { at::RELEASE_STORE };
                x.at(block).atomic_store(1, set);
            }
            sync_threads();
            if block == 7 {
                x.at(20 + 31 - thread_idx().x as usize).load();
            }
        });
        findings.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(chain(None), []);
    assert_eq!(chain(Some(3)), [CheckRule::DataRace]);
}
