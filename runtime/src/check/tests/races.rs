//! Data races and conflicting writes on buffers and shared memory.

use warpsmith_device::warp::FULL_MASK;
use warpsmith_device::{block_idx, shared, shfl_xor, sync_threads, sync_warp, thread_idx};

use super::*;

fn me() -> usize {
    thread_idx().x as usize
}

/// The block's tile.
fn tile(index: usize) -> Slot {
    Slot(shared!([f32; 256]).addr() + 4 * index)
}

#[test]
fn a_reduction_without_its_barrier_is_a_race() {
    let x = Buffer::new("x", 64, Mark::Init);
    let reduce = |barrier: bool| {
        move || {
            tile(me()).store(me() as f32);
            let mut half = 32;
            while half > 0 {
                if barrier {
                    sync_threads();
                }
                if me() < half {
                    let sum = tile(me()).load() + tile(me() + half).load_at(at::OTHER_LOAD);
                    tile(me()).store_at(sum, at::OTHER_STORE);
                }
                half /= 2;
            }
        }
    };
    launch(3, 64).clean(&[&x], reduce(true));
    let findings = launch(3, 64).find(&[], reduce(false));
    assert!(findings.iter().any(|finding| finding.rule == CheckRule::DataRace), "{}", list(&findings));
}

#[test]
fn a_neighbours_slot_read_without_a_barrier_names_both_sides() {
    let finding = launch(2, 64).caught(CheckRule::DataRace, &[], || {
        if me() == 0 {
            tile(63).store(0.0);
        }
        sync_threads();
        if me() < 63 {
            tile(me()).store(me() as f32 + 0.5);
        }
        if me() == 40 {
            tile(3).load_at(at::OTHER_LOAD);
        }
    });
    assert_eq!((finding.side.thread.x, finding.side.line), (40, 102), "{finding}");
    let other = finding.other.clone().unwrap();
    assert_eq!((other.thread.x, other.line), (3, 101), "{finding}");
    assert_eq!((finding.side.block, other.block), (Dim3 { x: 0, y: 0, z: 0 }, Dim3 { x: 0, y: 0, z: 0 }));
    let memory = finding.memory.clone().unwrap();
    assert_eq!((memory.name.as_str(), memory.element, memory.element_type.as_str()), ("shared memory", 3, "f32"));
    assert_eq!(
        finding.to_string(),
        "data race in kernel `test::kernel`: thread (40, 0, 0) of block (0, 0, 0) reads 3.5 at kernel.rs:102:5 in `kernel`; thread \
         (3, 0, 0) of block (0, 0, 0) wrote it at kernel.rs:101:5 in `kernel`; element 3 of shared memory (256 elements of \
         `f32`); nothing orders the two: no `sync_threads()` stands between them (2 times)"
    );
}

#[test]
fn a_tile_filled_again_before_all_have_read_it_is_a_race() {
    let kernel = |second: bool| {
        move || {
            for step in 0..3 {
                tile(me()).store(step as f32);
                sync_threads();
                tile((me() + 1) % 64).load();
                if second {
                    sync_threads();
                }
            }
        }
    };
    launch(2, 64).clean(&[], kernel(true));
    let finding = launch(2, 64).find(&[], kernel(false)).remove(0);
    assert_eq!(finding.rule, CheckRule::DataRace);
}

#[test]
fn shuffles_do_not_order_memory_and_sync_warp_does() {
    let kernel = |meet: fn()| {
        move || {
            tile(me()).store(1.0);
            meet();
            tile(me() ^ 1).load();
        }
    };
    launch(2, 64).clean(&[], kernel(|| sync_warp(FULL_MASK)));
    let shuffled = kernel(|| {
        let _ = shfl_xor(FULL_MASK, 1u32, 1);
    });
    let finding = launch(2, 64).find(&[], shuffled).remove(0);
    assert_eq!(finding.rule, CheckRule::DataRace);
    assert!(finding.message.contains("shuffles, votes and matches do not order memory"), "{finding}");
}

#[test]
fn a_warp_barrier_does_not_reach_other_warps() {
    launch(1, 64).caught(CheckRule::ConflictingWrites, &[], || {
        tile(me()).store(1.0);
        sync_warp(FULL_MASK);
        if me() < 32 {
            tile(me() + 32).store_at(1.0, at::OTHER_STORE);
        }
    });
}

#[test]
fn barriers_of_some_lanes_order_those() {
    // Two halves of each warp, each of which meets alone.
    let kernel = |distance: usize| {
        move || {
            let mask = if me() % 32 < 16 { 0xFFFF } else { 0xFFFF_0000 };
            tile(me()).store(1.0);
            sync_warp(mask);
            tile(me() ^ distance).load();
        }
    };
    launch(2, 64).clean(&[], kernel(1));
    launch(2, 64).clean(&[], kernel(15));
    let findings = launch(2, 64).find(&[], kernel(16));
    assert!(findings.iter().any(|finding| finding.rule == CheckRule::DataRace), "{}", list(&findings));
}

#[test]
fn barriers_of_some_lanes_hand_on_what_was_known() {
    // Lane 0 with 1, then 1 with 2: so 2 knows what 0 did.
    let kernel = |chain: bool| {
        move || {
            if me() == 0 {
                tile(9).store(1.0);
            }
            if me() < 2 {
                sync_warp(0b11);
            }
            if chain && (me() == 1 || me() == 2) {
                sync_warp(0b110);
            }
            if me() == 2 {
                tile(9).load();
            }
        }
    };
    launch(1, 32).clean(&[], kernel(true));
    let findings = launch(1, 32).find(&[], kernel(false));
    assert!(findings.len() == 1 && findings[0].rule == CheckRule::DataRace, "{}", list(&findings));
}

#[test]
fn blocks_that_write_one_element_conflict() {
    let x = Buffer::new("x", 64, Mark::Init);
    let finding = launch(4, 32).caught(CheckRule::ConflictingWrites, &[&x], || {
        if me() == 5 {
            x.at(17).store(block_idx().x as f32);
        }
    });
    assert_eq!((finding.side.block.x, finding.other.clone().unwrap().block.x, finding.count), (1, 0, 3), "{finding}");
    assert_eq!(finding.side.action, "writes 1.0");
    assert_eq!(finding.other.clone().unwrap().action, "wrote 0.0");
    let memory = finding.memory.unwrap();
    assert_eq!((memory.name.as_str(), memory.element, memory.len), ("`x`", 17, 64));
}

#[test]
fn threads_that_share_an_index_conflict() {
    let x = Buffer::new("x", 64, Mark::Init);
    launch(1, 64).caught(CheckRule::ConflictingWrites, &[&x], || x.at(me() / 2).store(me() as f32));
    launch(1, 64).clean(&[&x], || {
        if me().is_multiple_of(2) {
            x.at(me() / 2).store(me() as f32);
        }
    });
}

#[test]
fn a_block_that_reads_what_another_writes_races() {
    let x = Buffer::new("x", 64, Mark::Init);
    launch(2, 32).caught(CheckRule::DataRace, &[&x], || {
        if block_idx().x == 0 {
            x.at(me()).store(1.0);
        } else {
            x.at(me()).load();
        }
    });
    // The other way round the read comes first.
    launch(2, 32).caught(CheckRule::DataRace, &[&x], || {
        if block_idx().x == 0 {
            x.at(me()).load();
        } else {
            x.at(me()).store(1.0);
        }
    });
    launch(2, 32).clean(&[&x], || {
        let i = global();
        x.at(i).store(x.at(i).load() + 1.0);
    });
}

#[test]
fn many_readers_and_one_writer_race_and_readers_alone_do_not() {
    let x = Buffer::new("x", 64, Mark::Init);
    launch(8, 64).clean(&[&x], || {
        for i in 0..64 {
            x.at(i).load();
        }
    });
    for writer in [0, 1, 31, 32, 100, 255] {
        launch(4, 64).caught(CheckRule::DataRace, &[&x], || {
            if global() == writer {
                x.at(7).store(1.0);
            } else {
                x.at(7).load();
            }
        });
    }
}

#[test]
fn launches_are_ordered() {
    let x = Buffer::new("x", 64, Mark::Init);
    for _ in 0..3 {
        launch(1, 64).clean(&[&x], || x.at(me()).store(1.0));
        launch(1, 64).clean(&[&x], || {
            x.at(63 - me()).load();
        });
    }
}

#[test]
fn a_block_does_not_race_with_the_block_before_it_in_shared_memory() {
    launch(16, 64).clean(&[], || {
        tile(me()).store(1.0);
        sync_threads();
        tile(63 - me()).load();
    });
}

#[test]
fn a_finding_is_told_once_and_counted() {
    let x = Buffer::new("x", 64, Mark::Init);
    let finding = launch(1, 64).find(&[&x], || x.at(0).store(1.0)).remove(0);
    assert_eq!(finding.count, 63);
    // The next launch tells it again.
    assert_eq!(launch(1, 64).find(&[&x], || x.at(0).store(1.0)).len(), 1);
}

#[test]
fn an_update_in_one_place_is_told_to_take_an_atomic() {
    let x = Buffer::new("x", 4, Mark::Init);
    let found = launch(2, 64).find(&[&x], || {
        let value = x.at(0).load_at(at::UPDATE_LOAD);
        x.at(0).store_at(value + 1.0, at::UPDATE_STORE);
    });
    for (rule, told) in [(CheckRule::DataRace, "`fetch_add`"), (CheckRule::ConflictingWrites, "it is an atomic")] {
        assert!(found.iter().any(|finding| finding.rule == rule && finding.message.contains(told)), "{}", list(&found));
    }
    // Blocks that meet elsewhere are told of atomics, too.
    let finding = launch(2, 1).caught(CheckRule::DataRace, &[&x], || {
        if warpsmith_device::block_idx().x == 0 {
            x.at(0).store(1.0);
        } else {
            x.at(0).load();
        }
    });
    assert!(finding.message.contains("atomics"), "{finding}");
}
