//! Panics: which is reported, with what, and who goes on.

use super::*;

#[test]
fn case_e5_a_panic_in_one_thread_leaves_the_barriers_to_the_others() {
    for size in [32_u32, 33, 256] {
        let passed = AtomicU32::new(0);
        let line = line!() + 5;
        let error = launch(1, (size, 1, 1))
            .run(|| {
                sync_threads();
                if thread_idx().x == 3 {
                    panic!("thread {} has had enough", thread_idx().x);
                }
                for _ in 0..3 {
                    sync_threads();
                }
                let lanes = ballot(FULL_MASK, true);
                let existing = u32::MAX >> (32 - (size - warp_id() * 32).min(32));
                assert_eq!(lanes, if warp_id() == 0 { existing & !(1 << 3) } else { existing });
                passed.fetch_add(1, Relaxed);
            })
            .unwrap_err();
        assert_eq!(error.message, "thread 3 has had enough");
        assert_eq!((error.line, error.thread, error.block), (line, Dim3::new(3, 0, 0), Dim3::new(0, 0, 0)));
        assert!(error.file.ends_with(file!()) && error.column > 0);
        assert_eq!(passed.into_inner(), size - 1);
    }
}

#[test]
fn the_first_panic_of_a_block_is_reported_and_the_other_threads_go_on() {
    let ran = AtomicU32::new(0);
    let values = [1, 2, 3];
    let error = launch(1, 100)
        .plain()
        .run(|| {
            ran.fetch_add(1, Relaxed);
            let t = thread_idx().x as usize;
            if t % 10 == 7 {
                std::hint::black_box(values[t]);
            }
        })
        .unwrap_err();
    assert_eq!(error.message, "index out of bounds: the len is 3 but the index is 7");
    assert_eq!((error.thread.x, ran.into_inner()), (7, 100));
}

#[test]
fn the_panic_of_the_lowest_block_is_reported_and_all_before_it_run() {
    let grid = Dim3::new(12, 9, 2);
    type As = fn(Launch) -> Launch;
    let ways: [(&str, u32, As); 6] = [
        ("plain", 1, Launch::plain),
        ("joined", 1, |launch| launch.joined(false)),
        ("joined planes", 2, |launch| launch.joined(true)),
        ("coroutines", 2, |launch| launch),
        ("clusters", 2, |launch| launch.cluster(Dim3::new(2, 3, 1))),
        ("cooperative", 2, Launch::cooperative),
    ];
    for (way, rows, of) in ways {
        let block = Dim3::new(4, rows, 1);
        // In which order clusters start, and how far blocks do.
        let unit = |block: u64| {
            let [x, y, z] = [block % 12, block / 12 % 9, block / 108];
            match way {
                "clusters" => (z * 3 + y / 3) * 6 + x / 2,
                _ => block,
            }
        };
        for first in (0..grid.count()).step_by(7) {
            // Every third block from there on panics, in its last thread.
            let panics = |block: u64| unit(block) >= unit(first) && unit(block) % 3 == unit(first) % 3;
            let ran: Vec<AtomicU32> = (0..grid.count()).map(|_| AtomicU32::new(0)).collect();
            let last = block.count() - 1;
            let error = of(launch(grid, block))
                .run(|| {
                    let (at, thread) =
                        ((global_idx().get() as u64) / block.count(), global_idx().get() as u64 % block.count());
                    ran[at as usize].fetch_add(1, Relaxed);
                    assert!(thread != last || !panics(at), "block {at}");
                })
                .unwrap_err();
            let lowest = u64::from(error.block.z) * 108 + u64::from(error.block.y) * 12 + u64::from(error.block.x);
            assert_eq!(error.message, format!("block {lowest}"), "{way}");
            if way != "cooperative" {
                assert_eq!(unit(lowest), unit(first), "{way}: the panic of block {lowest}, not of {first}");
            }
            for (at, ran) in (0..).zip(&ran) {
                let ran = u64::from(ran.load(Relaxed));
                let may_be_left_out = way != "cooperative" && unit(at) > unit(first);
                let whole = ran == block.count() || (ran == 0 && may_be_left_out);
                assert!(whole, "{way}: {ran} threads of block {at} ran, for panics from block {first} on");
            }
        }
    }
}

#[test]
fn a_panic_reports_block_and_thread_in_three_dimensions() {
    for coroutines in [false, true] {
        let launch = Launch { coroutines, ..launch((2, 3, 4), (5, 3, 2)) };
        let error = launch
            .run(|| assert!(block_idx() != Dim3::new(1, 2, 3) || thread_idx() != Dim3::new(4, 1, 1), "there"))
            .unwrap_err();
        assert_eq!((error.block, error.thread), (Dim3::new(1, 2, 3), Dim3::new(4, 1, 1)));
    }
}

#[test]
fn panics_outside_kernels_keep_their_hook() {
    launch(1, 1).plain().run(|| ()).unwrap();
    // The message is what our hook takes inside a kernel; outside it only reaches `catch_unwind`.
    assert!(catch_unwind(|| panic!("outside")).is_err());
    let error = launch(1, 1).plain().run(|| std::panic::panic_any(5_u32)).unwrap_err();
    assert_eq!(error.message, "a panic whose payload is not text");
    launch(1, 1).plain().run(|| ()).unwrap();
}

#[test]
fn a_panic_that_a_kernel_has_caught_is_not_taken_for_a_later_one() {
    let raise = |text: String| std::panic::resume_unwind(Box::new(text));
    let error = launch(4, 8)
        .plain()
        .run(|| match global_idx().get() {
            3 => assert!(catch_unwind(|| panic!("caught")).is_err()),
            // The hook hears of no such panic.
            20 => raise("raised".to_owned()),
            _ => {}
        })
        .unwrap_err();
    assert_eq!((&*error.message, error.block.x, error.thread.x), ("raised", 2, 4));
    let error = launch(1, 1)
        .run(|| {
            let caught = catch_unwind(|| panic!("one")).unwrap_err();
            assert!(catch_unwind(|| panic!("two")).is_err());
            std::panic::resume_unwind(caught);
        })
        .unwrap_err();
    assert_eq!((&*error.message, error.line), ("one", 0), "the place of the other is not its");
    let error = launch(1, 1)
        .run(|| {
            let caught = catch_unwind(|| panic!("again")).unwrap_err();
            std::panic::resume_unwind(caught);
        })
        .unwrap_err();
    assert!(error.message == "again" && error.file.ends_with("panics.rs") && error.line > 0, "{error:?}");
}

#[test]
fn a_kernel_may_catch_its_own_panic() {
    launch(1, 33)
        .run(|| {
            let caught = catch_unwind(AssertUnwindSafe(|| assert!(thread_idx().x % 2 == 0)));
            sync_threads();
            assert_eq!(caught.is_ok(), thread_idx().x % 2 == 0);
        })
        .unwrap();
}

#[test]
fn a_panic_among_joined_blocks_names_its_thread_and_those_that_have_begun_go_on() {
    thread_local!(static BEFORE: Cell<(Dim3, Dim3)> = const { Cell::new((Dim3::new(0, 0, 0), Dim3::new(0, 0, 0))) });
    for (planes, block) in [(false, Dim3::new(4, 1, 1)), (true, Dim3::new(4, 2, 1))] {
        let blocks = 40;
        let joined = AtomicU32::new(0);
        // Each thread once, those at the ends of the joined rows too.
        for number in 0..blocks * block.count() {
            let ran: Vec<AtomicU32> = (0..blocks).map(|_| AtomicU32::new(0)).collect();
            let panic = launch(blocks as u32, block)
                .joined(planes)
                .run(|| {
                    let (b, t) = (block_idx(), thread_idx());
                    let before = BEFORE.replace((b, t));
                    let follows_in_its_row = b.x == before.0.x + 1 && t.y == before.1.y && (t.x, before.1.x) == (0, 3);
                    joined.fetch_add(u32::from(follows_in_its_row && t.y == 0), Relaxed);
                    ran[b.x as usize].fetch_add(1, Relaxed);
                    assert!(global_idx().get() as u64 != number, "thread {number}");
                })
                .unwrap_err();
            let (at, thread) = (number / block.count(), (number % block.count()) as u32);
            assert_eq!(panic.message, format!("thread {number}"));
            assert_eq!(panic.block, Dim3::new(at as u32, 0, 0), "of {number}");
            assert_eq!(panic.thread, Dim3::new(thread % 4, thread / 4, 0), "of {number}");
            for (other, ran) in (0..).zip(&ran) {
                let ran = u64::from(ran.load(Relaxed));
                let whole = ran == block.count() || (ran == 0 && other > at);
                assert!(whole, "{ran} threads of block {other} ran, for a panic of thread {number}");
            }
        }
        assert!(joined.into_inner() > 0, "no blocks were joined");
    }
}

#[test]
fn what_a_block_has_in_shared_memory_stays_for_the_threads_after_a_panic() {
    for schedule in [None, Some(Schedule::Ascending)] {
        let seen = AtomicU32::new(0);
        let error = Launch { schedule, ..launch(3, 8) }
            .plain()
            .run(|| {
                let slots = shared_of::<u32>();
                let thread = thread_idx().x;
                match thread {
                    // SAFETY: the threads of a kernel without barriers run one after another.
                    0 => unsafe { (*slots)[0] = 77 + block_idx().x },
                    3 if block_idx().x == 1 => panic!("in the middle"),
                    // SAFETY: as above.
                    7 => drop(seen.fetch_add(unsafe { (*slots)[0] }, Relaxed)),
                    _ => {}
                }
            })
            .unwrap_err();
        assert_eq!((&*error.message, error.block.x, error.thread.x), ("in the middle", 1, 3));
        let seen = seen.into_inner();
        // The last block may have run or not.
        assert!([77 + 78, 77 + 78 + 79].contains(&seen), "{seen}");
    }
}
