//! Barriers that threads miss, masks of warp operations, and what named barriers and mbarriers order.

use warpsmith_device::mbarrier::Mbarrier;
use warpsmith_device::warp::FULL_MASK;
use warpsmith_device::{NamedBarrier, ballot, shared, shfl_down, sync_threads, sync_warp, thread_idx};

use super::*;

fn me() -> u32 {
    thread_idx().x
}

fn tile(index: u32) -> Slot {
    Slot(shared!([f32; 256]).addr() + 4 * index as usize)
}

#[test]
fn a_return_before_a_barrier_is_a_divergence() {
    let x = Buffer::new("x", 100, Mark::Init);
    let finding = launch(2, 64).caught(CheckRule::BarrierDivergence, &[&x], || {
        if global() >= 100 {
            return;
        }
        sync_threads();
    });
    assert_eq!((finding.side.block.x, finding.side.thread.x), (1, 0), "{finding}");
    assert_eq!(finding.other.clone().unwrap().thread.x, 36, "{finding}");
    assert_eq!(finding.side.line, line!() - 4, "{finding}");
    launch(2, 64).clean(&[&x], || {
        if global() < 100 {
            x.at(global()).store(1.0);
        }
        sync_threads();
        if global() >= 100 {
            return;
        }
        x.at(global()).load();
    });
}

#[test]
fn a_thread_that_panics_is_no_divergence() {
    let (ran, findings) = launch(1, 64).run(&[], || {
        assert!(me() != 3, "the third");
        sync_threads();
    });
    assert_eq!(ran.unwrap_err().message, "the third");
    assert!(findings.is_empty(), "{}", list(&findings));
}

#[test]
fn threads_at_different_barriers_diverge() {
    let finding = launch(3, 64).caught(CheckRule::BarrierDivergence, &[], || {
        if me() >= 32 {
            return sync_threads();
        }
        sync_threads();
    });
    assert!(finding.message.contains("different barriers"), "{finding}");
    assert!(finding.side.line > 0, "{finding}");
    // One place that both halves come to is one barrier.
    launch(3, 64).clean(&[], || {
        tile(me()).store(if me() < 32 { 1.0 } else { 2.0 });
        sync_threads();
    });
}

#[test]
fn a_barrier_in_a_loop_of_different_length_diverges() {
    launch(1, 64).caught(CheckRule::BarrierDivergence, &[], || {
        for _ in 0..1 + me() / 32 {
            sync_threads();
        }
    });
    launch(1, 64).clean(&[], || {
        for _ in 0..3 {
            sync_threads();
        }
    });
}

#[test]
fn lanes_that_wait_for_others_in_vain_diverge() {
    launch(1, 32).caught(CheckRule::BarrierDivergence, &[], || {
        if me() < 16 {
            sync_warp(FULL_MASK);
        } else {
            sync_threads();
        }
    });
    launch(1, 32).clean(&[], || {
        if me() < 16 {
            sync_warp(0xFFFF);
        }
        sync_threads();
    });
}

#[test]
fn a_mask_with_a_lane_that_has_ended_is_found() {
    let finding = launch(1, 32).caught(CheckRule::WarpMask, &[], || {
        if me() == 31 {
            return;
        }
        if me() == 0 {
            sync_warp(0x8000_0001);
        }
    });
    assert_eq!(finding.message, "lane 31 has ended before");
    launch(1, 32).clean(&[], || {
        if me() == 31 {
            return;
        }
        sync_warp(0x7FFF_FFFF);
    });
}

#[test]
fn a_full_shuffle_after_an_early_return_is_found() {
    let findings = launch(1, 32).find(&[], || {
        if me() < 8 {
            return;
        }
        let _ = shfl_down(FULL_MASK, me(), 1);
    });
    assert!(
        findings.iter().all(|finding| finding.rule == CheckRule::WarpMask) && findings.len() == 1,
        "{}",
        list(&findings)
    );
    launch(1, 32).clean(&[], || {
        let value = if me() < 8 { 0 } else { me() };
        let _ = shfl_down(FULL_MASK, value, 1);
    });
}

#[test]
fn a_mask_with_a_lane_that_never_was_is_found() {
    let finding = launch(1, 40).caught(CheckRule::WarpMask, &[], || {
        let _ = ballot(if me() < 32 { FULL_MASK } else { 0x1FF }, true);
    });
    assert_eq!((finding.message.as_str(), finding.count), ("lane 8 is none of the block's threads", 1));
    // All that there are.
    launch(1, 40).clean(&[], || {
        let _ = ballot(FULL_MASK, true);
    });
    launch(1, 40).clean(&[], || {
        let _ = ballot(if me() < 32 { FULL_MASK } else { 0xFF }, true);
    });
}

#[test]
fn named_barriers_order_those_who_come() {
    let kernel = |arrive: bool, reader: u32| {
        move || {
            if me() < 32 {
                tile(me()).store(1.0);
                if arrive {
                    NamedBarrier::<1>::arrive(64);
                } else {
                    NamedBarrier::<1>::sync(64);
                }
            } else if me() < 64 {
                NamedBarrier::<1>::sync(64);
            }
            if (reader..reader + 32).contains(&me()) {
                tile(me() - reader).load();
            }
        }
    };
    launch(2, 96).clean(&[], kernel(true, 32));
    launch(2, 96).clean(&[], kernel(false, 32));
    let rules = |findings: Vec<Finding>| findings.iter().map(|finding| finding.rule).collect::<Vec<_>>();
    assert_eq!(rules(launch(2, 96).find(&[], kernel(true, 64))), [CheckRule::DataRace]);
}

#[test]
fn who_only_arrives_knows_nothing_of_the_others() {
    let kernel = |waits: bool| {
        move || {
            if me() < 32 {
                tile(me()).store(1.0);
                NamedBarrier::<1>::arrive(64);
            } else {
                tile(me()).store(1.0);
                if waits {
                    NamedBarrier::<1>::sync(64);
                    tile(me() - 32).load();
                } else {
                    NamedBarrier::<1>::arrive(64);
                    tile(me() - 32).load();
                }
            }
        }
    };
    launch(1, 64).clean(&[], kernel(true));
    let findings = launch(1, 64).find(&[], kernel(false));
    assert!(findings.len() == 1 && findings[0].rule == CheckRule::DataRace, "{}", list(&findings));
}

#[test]
fn an_mbarrier_orders_arrivals_before_waits() {
    let kernel = |wait: bool| {
        move || {
            let barrier = shared!(Mbarrier);
            if me() == 0 {
                // SAFETY: one thread does, before any other comes past the barrier.
                unsafe {
                    __warpsmith_check_store_8(barrier.cast(), 0, at::STORE_8);
                    Mbarrier::init(barrier, 64);
                }
            }
            sync_threads();
            // SAFETY: initialised above, and there as long as the block.
            let barrier = unsafe { &*barrier };
            tile(me()).store(1.0);
            let phase = barrier.arrive();
            if wait {
                barrier.wait(phase);
            }
            tile(63 - me()).load();
        }
    };
    launch(2, 64).clean(&[], kernel(true));
    let findings = launch(2, 64).find(&[], kernel(false));
    assert!(findings.iter().any(|finding| finding.rule == CheckRule::DataRace), "{}", list(&findings));
}

#[test]
fn what_comes_after_an_arrival_is_not_ordered_by_it() {
    let findings = launch(1, 64).find(&[], || {
        let barrier = shared!(Mbarrier);
        if me() == 0 {
            // SAFETY: as above.
            unsafe { Mbarrier::init(barrier, 64) };
        }
        sync_threads();
        // SAFETY: as above.
        let barrier = unsafe { &*barrier };
        let phase = barrier.arrive();
        tile(me()).store(1.0);
        barrier.wait(phase);
        tile(me() ^ 1).store_at(2.0, at::OTHER_STORE);
    });
    assert!(findings.iter().all(|finding| finding.rule == CheckRule::ConflictingWrites) && !findings.is_empty());
}
