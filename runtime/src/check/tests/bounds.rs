//! Accesses out of bounds, after a free, of what holds nothing, and misaligned ones.

use warpsmith_device::{block_idx, dynamic_shared, shared, sync_threads, thread_idx};

use super::*;

fn me() -> usize {
    thread_idx().x as usize
}

#[test]
fn one_element_past_the_end_is_found_and_the_last_is_not() {
    let x = Buffer::new("x", 63, Mark::Init);
    for store in [true, false] {
        let finding = launch(1, 64).caught(CheckRule::OutOfBounds, &[&x], || {
            if store {
                x.at(me()).store(1.0);
            } else {
                x.at(me()).load();
            }
        });
        let memory = finding.memory.clone().unwrap();
        assert_eq!((memory.name.as_str(), memory.element, memory.len, memory.byte), ("`x`", 63, 63, 252), "{finding}");
        assert_eq!(finding.message, "these are bytes 252 to 256 of `x`, which has 252");
        assert_eq!(finding.side.thread.x, 63);
    }
    launch(1, 63).clean(&[&x], || x.at(me()).store(1.0));
}

#[test]
fn a_halo_read_before_the_start_is_found() {
    let (x, y) = (Buffer::new("x", 64, Mark::Init), Buffer::new("y", 64, Mark::Init));
    let stencil = |guard: bool| {
        let (x, y) = (&x, &y);
        move || {
            let i = me();
            let left = if guard && i == 0 { 0.0 } else { x.at(i.wrapping_sub(1)).load() };
            y.at(i).store(left);
        }
    };
    launch(1, 64).clean(&[&x, &y], stencil(true));
    let finding = launch(1, 64).caught(CheckRule::OutOfBounds, &[&x, &y], stencil(false));
    let memory = finding.memory.clone().unwrap();
    assert_eq!((memory.name.as_str(), memory.element), ("`x`", -1), "{finding}");
    assert_eq!(finding.message, "these are bytes -4 to 0 of `x`, which has 256");
}

#[test]
fn far_off_accesses_are_found_and_do_not_end_the_process() {
    let x = Buffer::new("x", 64, Mark::Init);
    for far in [100, 5000, 1 << 20, 1 << 24] {
        let finding = launch(1, 1).caught(CheckRule::OutOfBounds, &[&x], || x.at(64 + far).store(1.0));
        assert!(finding.side.action.contains("writes 4 bytes"), "{finding}");
        let message = format!(
            "the address is in no buffer; the nearest is `x` (64 elements of `f32`), {} bytes after its end",
            4 * far
        );
        // Other tests' buffers may lie nearer to what is far away.
        assert!(finding.memory.is_none() && (far > 1000 || finding.message == message), "{finding}");
    }
    let before = launch(1, 1).caught(CheckRule::OutOfBounds, &[&x], || x.at(100usize.wrapping_neg()).store(1.0));
    assert!(before.message.ends_with("`x` (64 elements of `f32`), 400 bytes before its start"), "{before}");
    launch(1, 1).clean(&[&x], || x.at(63).store(1.0));
}

#[test]
fn past_the_end_of_shared_memory() {
    launch(2, 64).caught(CheckRule::OutOfBounds, &[], || {
        Slot(shared!([f32; 64]).addr() + 4 * (me() + 1)).store(1.0);
    });
    launch(2, 64).clean(&[], || Slot(shared!([f32; 64]).addr() + 4 * me()).store(1.0));
    // The launch gives 1024 bytes.
    launch(2, 64).caught(CheckRule::OutOfBounds, &[], || {
        if me() == 0 {
            Slot(dynamic_shared::<f32>().addr() + 1024).store(1.0);
        }
    });
    launch(2, 64).clean(&[], || Slot(dynamic_shared::<f32>().addr() + 1020 - 4 * me()).store(1.0));
}

#[test]
fn a_freed_buffer_is_told_from_one_that_is_there() {
    let (x, y) = (Buffer::new("x", 64, Mark::Init), Buffer::new("y", 64, Mark::Init));
    let gone = x.at(0);
    drop(x);
    for store in [true, false] {
        let finding = launch(1, 1).caught(CheckRule::UseAfterFree, &[&y], || {
            if store {
                gone.store(1.0);
            } else {
                gone.load();
            }
        });
        assert!(finding.message.contains("freed before the launch"), "{finding}");
    }
    // A buffer made since is not at the same place.
    let z = Buffer::new("z", 64, Mark::Init);
    assert!(z.at(0) != gone);
    launch(1, 64).clean(&[&y, &z], || z.at(me()).store(y.at(me()).load()));
}

#[test]
fn reads_of_what_nobody_wrote_are_found() {
    let (x, y) = (Buffer::new("x", 64, Mark::Uninit), Buffer::new("y", 64, Mark::Init));
    let finding = launch(1, 64).caught(CheckRule::Uninitialised, &[&x, &y], || y.at(me()).store(x.at(me()).load()));
    assert_eq!((finding.count, finding.memory.clone().unwrap().element), (64, 0), "{finding}");
    launch(1, 64).clean(&[&x, &y], || x.at(me()).store(y.at(me()).load()));
    // From here on it holds something.
    launch(1, 64).clean(&[&x, &y], || y.at(me()).store(x.at(me()).load()));
}

#[test]
fn shared_memory_holds_nothing_at_a_blocks_start() {
    let tile = |i: usize| Slot(shared!([f32; 64]).addr() + 4 * i);
    launch(3, 32).caught(CheckRule::Uninitialised, &[], || {
        // Only the first block writes the upper half.
        tile(me()).store(1.0);
        if block_idx().x == 0 {
            tile(me() + 32).store_at(1.0, at::OTHER_STORE);
        }
        tile(me() + 32).load();
    });
    launch(3, 32).clean(&[], || {
        tile(me() + 32).store(1.0);
        sync_threads();
        tile(63 - me()).load();
    });
}

#[test]
fn copies_take_along_what_holds_nothing() {
    let (x, y) = (Buffer::new("x", 8, Mark::Uninit), Buffer::new("y", 8, Mark::Uninit));
    let copy = || {
        // SAFETY: both buffers have 32 bytes.
        unsafe {
            let (to, from) = (y.at(0).ptr().cast::<u8>(), x.at(0).ptr().cast::<u8>());
            __warpsmith_check_copy(to, from, 32, at::COPY);
            to.copy_from_nonoverlapping(from, 32);
        }
    };
    launch(1, 1).clean(&[&x, &y], || {
        x.at(3).store(1.0);
        copy();
        y.at(3).load();
    });
    let finding = launch(1, 1).caught(CheckRule::Uninitialised, &[&x, &y], || {
        copy();
        y.at(4).load();
    });
    assert_eq!(finding.memory.clone().unwrap().element, 4, "{finding}");
    launch(1, 1).caught(CheckRule::OutOfBounds, &[&x, &y], || {
        // SAFETY: what lies behind is the checker's margin.
        unsafe { __warpsmith_check_copy(y.at(1).ptr().cast(), x.at(0).ptr().cast(), 32, at::COPY) };
    });
}

#[test]
fn a_copy_that_overruns_both_sides_is_two_findings() {
    let (x, y) = (Buffer::new("x", 8, Mark::Init), Buffer::new("y", 8, Mark::Init));
    let found = launch(1, 1).find(&[&x, &y], || {
        // SAFETY: what lies behind is the checker's margin.
        unsafe { __warpsmith_check_copy(y.at(0).ptr().cast(), x.at(0).ptr().cast(), 33, at::COPY) };
    });
    let told: Vec<_> = found.iter().map(|finding| (finding.side.action.as_str(), finding.message.as_str())).collect();
    let expected = [
        ("reads 33 bytes", "these are bytes 0 to 33 of `x`, which has 32"),
        ("writes 33 bytes", "these are bytes 0 to 33 of `y`, which has 32"),
    ];
    assert_eq!(told, expected);
    let finding = launch(1, 1).caught(CheckRule::OutOfBounds, &[&x], || {
        // SAFETY: as above.
        unsafe { __warpsmith_check_load_1((x.address() + 32) as *const u8, at::LOAD_1) };
    });
    assert_eq!(finding.side.action, "reads 1 byte");
}

#[test]
fn padding_that_the_host_wrote_may_be_read() {
    let x = Buffer::new("x", 64, Mark::Uninit);
    // Five bytes of eight, as a field and a byte leave them, then the whole from the host.
    x.piece.mark(0, 5, Mark::Init);
    let load = || {
        // SAFETY: the buffer has the bytes.
        unsafe { __warpsmith_check_load_8(x.at(0).ptr().cast(), at::LOAD_8) };
    };
    launch(1, 1).caught(CheckRule::Uninitialised, &[&x], load);
    x.piece.mark(0, 8, Mark::Init);
    launch(1, 1).clean(&[&x], load);
}

#[test]
fn a_misaligned_address_is_found() {
    let x = Buffer::new("x", 64, Mark::Init);
    let load = |offset: usize| {
        let x = &x;
        move || {
            // SAFETY: the buffer has the bytes.
            unsafe { __warpsmith_check_load_8((x.address() + offset) as *const u8, at::LOAD_8) };
        }
    };
    let finding = launch(1, 1).caught(CheckRule::Misaligned, &[&x], load(12));
    assert!(finding.message.contains("4 bytes past a multiple of 8"), "{finding}");
    launch(1, 1).caught(CheckRule::Misaligned, &[&x], load(1));
    launch(1, 1).clean(&[&x], load(8));
    // Bytes may lie anywhere.
    launch(1, 1).clean(&[&x], || {
        // SAFETY: as above.
        unsafe { __warpsmith_check_load_1((x.address() + 13) as *const u8, at::LOAD_1) };
    });
}
