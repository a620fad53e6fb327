//! Accesses to some bytes of a granule, and to more than one.

use warpsmith_device::{sync_threads, thread_idx};

use super::*;

fn me() -> usize {
    thread_idx().x as usize
}

/// A byte of a buffer, accessed as checked code does.
fn load_byte(x: &Buffer, at: usize) {
    // SAFETY: the tests keep to the buffer.
    unsafe { __warpsmith_check_load_1((x.address() + at) as *const u8, at::LOAD_1) };
}

fn store_byte(x: &Buffer, at: usize) {
    // SAFETY: as above.
    unsafe { __warpsmith_check_store_1((x.address() + at) as *const u8, 7, at::STORE_1) };
}

fn load_8(x: &Buffer, at: usize) {
    // SAFETY: as above.
    unsafe { __warpsmith_check_load_8((x.address() + at) as *const u8, at::LOAD_8) };
}

fn store_8(x: &Buffer, at: usize) {
    // SAFETY: as above.
    unsafe { __warpsmith_check_store_8((x.address() + at) as *const u8, 7, at::STORE_8) };
}

#[test]
fn bytes_of_one_word_do_not_conflict() {
    let x = Buffer::new("x", 64, Mark::Init);
    launch(2, 64).clean(&[&x], || {
        store_byte(&x, global());
        load_byte(&x, global());
        store_byte(&x, global());
    });
    launch(1, 64).clean(&[&x], || {
        store_byte(&x, me());
        sync_threads();
        load_byte(&x, me() ^ 3);
        sync_threads();
        x.at(me()).store(1.0);
        sync_threads();
        load_byte(&x, (4 * me() + 7) % 256);
    });
}

#[test]
fn a_byte_written_twice_conflicts() {
    let x = Buffer::new("x", 64, Mark::Init);
    let finding = launch(1, 64).caught(CheckRule::ConflictingWrites, &[&x], || store_byte(&x, me() / 2));
    assert_eq!((finding.count, finding.memory.clone().unwrap().byte), (32, 0), "{finding}");
    let finding = launch(1, 64).caught(CheckRule::DataRace, &[&x], || {
        if me() == 10 {
            store_byte(&x, 13);
        } else {
            load_byte(&x, 8 + me() % 16 % 8);
        }
    });
    assert_eq!(finding.memory.clone().unwrap().byte, 13, "{finding}");
}

#[test]
fn a_word_and_one_of_its_bytes_conflict() {
    let x = Buffer::new("x", 64, Mark::Init);
    for byte in 0..4 {
        for word_first in [true, false] {
            launch(1, 64).caught(CheckRule::ConflictingWrites, &[&x], || {
                if (me() == 3) == word_first {
                    if me() == 3 || me() == 40 {
                        x.at(5).store(1.0);
                    }
                } else if me() == 3 || me() == 40 {
                    store_byte(&x, 20 + byte);
                }
            });
        }
    }
    launch(1, 64).clean(&[&x], || {
        if me() == 3 {
            x.at(5).store(1.0);
        } else if me() == 40 {
            store_byte(&x, 19);
            store_byte(&x, 24);
        }
    });
}

#[test]
fn wide_accesses_touch_all_their_words() {
    let x = Buffer::new("x", 64, Mark::Init);
    for word in [6, 7] {
        launch(1, 64).caught(CheckRule::DataRace, &[&x], || {
            if me() == 3 {
                x.at(word).store(1.0);
            } else if me() == 40 {
                load_8(&x, 24);
            }
        });
        launch(1, 64).caught(CheckRule::ConflictingWrites, &[&x], || {
            if me() == 3 {
                x.at(word).store(1.0);
            } else if me() == 40 {
                store_8(&x, 24);
            }
        });
    }
    launch(1, 32).clean(&[&x], || {
        store_8(&x, 8 * me());
        load_8(&x, 8 * me());
    });
}

#[test]
fn bytes_hold_something_one_by_one() {
    let x = Buffer::new("x", 64, Mark::Uninit);
    let finding = launch(1, 1).caught(CheckRule::Uninitialised, &[&x], || {
        store_byte(&x, 4);
        store_byte(&x, 5);
        store_byte(&x, 7);
        load_byte(&x, 5);
        x.at(1).load();
    });
    assert_eq!(finding.memory.clone().unwrap().byte, 6, "{finding}");
    launch(1, 1).clean(&[&x], || {
        store_byte(&x, 6);
        x.at(1).load();
    });
}

#[test]
fn more_single_bytes_than_are_followed_are_an_error() {
    let x = Buffer::new("x", (1 << 17) + 1, Mark::Init);
    let launch = launch(2, 1);
    let all = |count: usize| {
        let x = &x;
        move || {
            for i in 0..count {
                // SAFETY: the tests keep what they touch, and one thread of the system runs a checked launch.
                unsafe { __warpsmith_check_store_1(x.at(i).ptr().cast::<u8>().wrapping_add(global()), 1, at::STORE_1) };
            }
        }
    };
    launch.clean(&[&x], all(1 << 17));
    let error = launch.try_run(&[x.argument()], Observers::default(), all((1 << 17) + 1)).unwrap_err();
    assert!(error.starts_with("the checker keeps track of 131072 places"), "{error}");
    launch.clean(&[&x], all(10));
}
