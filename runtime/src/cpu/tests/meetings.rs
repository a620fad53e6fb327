//! Where more than a block's own barrier is waited for: the grid, clusters, named barriers, mbarriers.

use super::*;

#[test]
fn case_g3_the_grid_waits_for_a_neighbour_blocks_write() {
    for (blocks, size) in [(1, 1), (1, 64), (2, 1), (7, 33), (24, 256), (100, 32), (301, 3)] {
        let (first, second): (Vec<AtomicU32>, Vec<AtomicU32>) =
            (0..blocks).map(|_| (AtomicU32::new(0), AtomicU32::new(0))).unzip();
        let rounds = 6;
        let results = collect(&launch(blocks, size).cooperative(), || {
            let (own, next) = (block_idx().x as usize, ((block_idx().x + 1) % blocks) as usize);
            let mut value = own as u32;
            for round in 0..rounds {
                let slots = if round % 2 == 0 { &first } else { &second };
                if thread_idx().x == size - 1 {
                    slots[own].store(value * 3 + round, Relaxed);
                }
                this_grid().sync();
                value = slots[next].load(Relaxed);
                sync_threads();
            }
            value
        });
        let mut expected: Vec<u32> = (0..blocks).collect();
        for round in 0..rounds {
            let written: Vec<u32> = expected.iter().map(|value| value * 3 + round).collect();
            expected = (0..blocks as usize).map(|block| written[(block + 1) % blocks as usize]).collect();
        }
        for (i, value) in results.into_iter().enumerate() {
            assert_eq!(value, expected[i / size as usize], "thread {i} of {blocks} blocks of {size}");
        }
    }
}

#[test]
fn ranks_in_the_grid_count_in_all_dimensions() {
    for (grid, block) in [((3, 2, 2), (4, 3, 2)), ((1, 1, 5), (2, 2, 2)), ((5, 1, 1), (7, 1, 1))] {
        let launch = launch(grid, block).cooperative();
        let ranks = collect(&launch, || {
            let grid = this_grid();
            assert_eq!(
                (grid.num_blocks(), grid.num_threads()),
                (launch.grid.count(), launch.grid.count() * launch.block.count())
            );
            (grid.block_rank(), grid.thread_rank())
        });
        for (i, (block, thread)) in (0..).zip(ranks) {
            assert_eq!((block, thread), (i / launch.block.count(), i));
        }
    }
}

#[test]
fn case_e5_a_panic_before_a_grid_sync_ends_what_waits() {
    for (panicking, size) in [(3, 64), (0, 64), (u32::MAX, 64), (0, 1)] {
        let passed = AtomicU32::new(0);
        let error = launch(40, size)
            .cooperative()
            .run(|| {
                this_grid().sync();
                // Of block 5 the one thread, or all.
                if block_idx().x == 5 && (thread_idx().x == panicking || panicking == u32::MAX) {
                    panic!("gone");
                }
                this_grid().sync();
                passed.fetch_add(1, Relaxed);
            })
            .unwrap_err();
        assert_eq!((error.message.as_str(), error.block), ("gone", Dim3::new(5, 0, 0)));
        assert_eq!(error.thread, Dim3::new(if panicking == u32::MAX { 0 } else { panicking }, 0, 0));
        assert_eq!(passed.into_inner(), 0, "what comes after the barrier needs what was not written");
    }
}

#[test]
fn blocks_that_do_not_come_to_a_grid_sync_are_reported() {
    let line = line!() + 7;
    let error = launch(30, 4)
        .cooperative()
        .run(|| {
            if block_idx().x == 20 {
                return;
            }
            this_grid().sync();
        })
        .unwrap_err();
    assert_eq!((error.line, error.block), (line, Dim3::new(0, 0, 0)));
    assert!(
        error.message.starts_with("block (20, 0, 0) has ended and does not come to the grid sync at "),
        "{error:?}"
    );
    assert!(error.message.ends_with(", where block (0, 0, 0) waits"), "{error:?}");

    let line = line!() + 7;
    let error = launch(30, 4)
        .cooperative()
        .run(|| {
            if block_idx().x == 20 {
                this_grid().sync();
            } else {
                this_grid().sync();
            }
        })
        .unwrap_err();
    assert!(error.message.starts_with("blocks are at different grid syncs: block (0, 0, 0) at "), "{error:?}");
    assert!(error.message.contains(&format!("{}:{line}:", file!())), "{error:?}");
    assert!(error.message.contains(&format!("block (20, 0, 0) at {}:{}:", file!(), line - 2)), "{error:?}");

    let error = launch(3, 4)
        .cooperative()
        .run(|| if thread_idx().x == 0 { this_grid().sync() } else { sync_threads() })
        .unwrap_err();
    assert!(error.message.contains("thread (0, 0, 0) waits at the grid sync at "), "{error:?}");
    assert!(error.message.contains("thread (1, 0, 0) waits at the barrier at "), "{error:?}");
}

#[test]
fn threads_that_ended_are_not_waited_for_by_the_grid() {
    let passed = AtomicU32::new(0);
    launch(20, 10)
        .cooperative()
        .run(|| {
            if thread_idx().x % 2 == 0 {
                return;
            }
            this_grid().sync();
            passed.fetch_add(1, Relaxed);
        })
        .unwrap();
    assert_eq!(passed.into_inner(), 100);
}

#[test]
fn a_grid_sync_in_an_ordinary_launch_says_so() {
    let error = launch(2, 2).run(|| this_grid().sync()).unwrap_err();
    assert_eq!(error.message, "`Grid::sync` needs a cooperative launch: `LaunchConfig::cooperative()`");
    assert!(error.file.ends_with(file!()));
}

#[test]
fn cooperative_launches_run_beside_each_other() {
    let total = AtomicU32::new(0);
    let body = || {
        for _ in 0..3 {
            this_grid().sync();
            total.fetch_add(1, Relaxed);
        }
    };
    rayon::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|_| launch(9, 5).cooperative().run(body).unwrap());
        }
    });
    assert_eq!(total.into_inner(), 6 * 9 * 5 * 3);
}

#[test]
fn a_cooperative_launch_may_be_as_large_as_it_is_said() {
    let blocks = resident_blocks(1024) as u32;
    assert!((1..1 << 20).contains(&blocks));
    let passed = AtomicU32::new(0);
    // All at once would map more stacks than a system allows by default: they take turns.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let body = || {
                    this_grid().sync();
                    passed.fetch_add(1, Relaxed);
                };
                launch(blocks, 1024).cooperative().run(body).unwrap();
            });
        }
    });
    assert_eq!(passed.into_inner(), 3 * blocks * 1024);
}

#[test]
fn a_block_of_one_thread_completes_a_named_barrier_alone() {
    let results = collect(&launch(3, 1), || {
        NamedBarrier::<1>::sync(32);
        NamedBarrier::<2>::arrive(32);
        7
    });
    assert_eq!(results, [7; 3]);
}

#[test]
fn named_barriers_are_for_some_warps_of_a_block() {
    for size in [64_u32, 96, 128, 100] {
        // The first two warps exchange among themselves, round after round; the next produces for the last.
        let results = collect(&launch(3, size), || {
            let slots = shared!([u32; 128]).cast::<u32>();
            let t = thread_idx().x;
            let mut value = t;
            match warp_id() {
                0 | 1 => {
                    for _ in 0..5 {
                        // SAFETY: each thread writes its own slot, and barriers part the writes from the reads.
                        unsafe { slots.add(t as usize).write(value) };
                        NamedBarrier::<1>::sync(64);
                        // SAFETY: as above.
                        value = unsafe { slots.add((t as usize + 32) % 64).read() } + 1;
                        NamedBarrier::<2>::sync(64);
                    }
                }
                2 if size > 96 => {
                    // SAFETY: as above.
                    unsafe { slots.add(t as usize).write(t) };
                    NamedBarrier::<15>::arrive(64);
                }
                2 => {}
                _ => {
                    NamedBarrier::<15>::sync(64);
                    // SAFETY: the slots were written before their threads came to the barrier.
                    value = (64..96).map(|t| unsafe { slots.add(t).read() }).sum();
                }
            }
            value
        });
        for (i, value) in (0..).zip(results) {
            let t = i % size;
            let expected = match t {
                0..64 => (t + 32) % 64 + 5,
                64..96 => t,
                _ => (64..96).sum(),
            };
            assert_eq!(value, expected, "thread {t} of {size}");
        }
    }
}

#[test]
fn case_g5_threads_that_disagree_at_a_named_barrier_are_reported_with_both_places() {
    let line = line!() + 4;
    let error = launch(1, 96)
        .run(|| {
            if thread_idx().x < 32 {
                NamedBarrier::<3>::sync(64);
            } else {
                NamedBarrier::<3>::sync(96);
            }
        })
        .unwrap_err();
    assert!(error.message.starts_with("threads count differently at named barrier 3: thread (0, 0, 0) to 64 at "));
    assert!(error.message.contains(&format!("{}:{line}:", file!())), "{error:?}");
    assert!(error.message.contains("thread (32, 0, 0) to 96 at "), "{error:?}");
    assert!(error.message.contains(&format!("{}:{}:", file!(), line + 2)), "{error:?}");
    assert_eq!((error.line, error.thread.x), (line + 2, 32));

    // Two halves wait at two barriers, each for all.
    let error = launch(1, 64)
        .run(|| if thread_idx().x < 32 { NamedBarrier::<3>::sync(64) } else { sync_threads() })
        .unwrap_err();
    let start = "threads of the block wait for each other in vain: thread (0, 0, 0) waits at named barrier 3 at ";
    assert!(error.message.starts_with(start), "{error:?}");
    assert!(
        error.message.contains(", to which 32 of 64 threads have come; thread (32, 0, 0) waits at the barrier at ")
    );

    let error = launch(1, 40).run(|| NamedBarrier::<1>::sync(96)).unwrap_err();
    assert_eq!(
        error.message,
        "96 threads at named barrier 1: whole warps meet there, so 32 to 64 threads of this block"
    );
    for wrong in [0, 33] {
        let error = launch(1, 40).run(|| NamedBarrier::<1>::arrive(wrong)).unwrap_err();
        assert!(error.message.starts_with(&format!("{wrong} threads at named barrier 1")), "{error:?}");
    }
}

#[test]
fn case_e5_a_panic_before_a_named_barrier_ends_what_waits() {
    let passed = AtomicU32::new(0);
    let error = launch(1, 96)
        .run(|| {
            NamedBarrier::<1>::sync(96);
            assert!(thread_idx().x != 3, "gone");
            if thread_idx().x < 64 {
                NamedBarrier::<1>::sync(64);
            }
            passed.fetch_add(1, Relaxed);
        })
        .unwrap_err();
    assert_eq!((error.message.as_str(), error.thread.x), ("gone", 3));
    assert_eq!(passed.into_inner(), 32, "only those that do not wait go on");
}

#[test]
fn blocks_know_their_place_in_their_cluster() {
    for (grid, cluster) in
        [((6, 4, 2), (2, 2, 1)), ((8, 1, 1), (8, 1, 1)), ((3, 6, 4), (1, 3, 2)), ((5, 1, 1), (1, 1, 1))]
    {
        for cooperative in [false, true] {
            let launch = Launch { cooperative, ..launch(grid, (2, 2)).cluster(cluster) };
            let dim = launch.cluster;
            let places = collect(&launch, || {
                assert_eq!((cluster_dim(), this_cluster().num_blocks()), (dim, dim.count() as u32));
                let (block, cluster) = (block_idx(), cluster_idx());
                assert_eq!((block.x / dim.x, block.y / dim.y, block.z / dim.z), (cluster.x, cluster.y, cluster.z));
                assert_eq!(this_cluster().block_rank(), cluster_rank());
                (cluster.x, cluster.y, cluster.z, cluster_rank())
            });
            let distinct: HashSet<_> = places.iter().collect();
            assert_eq!(distinct.len() as u64, launch.grid.count());
            assert!(places.iter().all(|place| u64::from(place.3) < dim.count()));
        }
    }
}

#[test]
fn blocks_of_a_cluster_exchange_through_each_others_shared_memory() {
    for (blocks, cluster, size) in [(8, 4, 32), (6, 2, 33), (16, 8, 1), (3, 1, 64), (4, 4, 256)] {
        for cooperative in [false, true] {
            let launch = Launch { cooperative, ..launch(blocks, size).cluster(cluster).shared(4 * size as usize) };
            let results = collect(&launch, || {
                let (slot, dynamic) = (shared!(u64).cast::<u32>(), dynamic_shared::<u32>());
                let t = thread_idx().x as usize;
                let mut value = block_idx().x;
                for round in 0..4 {
                    // SAFETY: the first thread writes its block's slot and each thread its own, between two barriers of the
                    // cluster, and all blocks are alive until the last.
                    unsafe {
                        if t == 0 {
                            slot.add(1).write(value + 1);
                        }
                        dynamic.add(t).write(value * 10);
                    }
                    this_cluster().sync();
                    let next = (cluster_rank() + 1) % cluster;
                    // SAFETY: as above.
                    unsafe {
                        let other = this_cluster().map_shared_rank(slot.add(1), next).read();
                        assert_eq!(this_cluster().map_shared_rank(dynamic.add(t), next).read(), (other - 1) * 10);
                        value = other + round;
                    }
                    this_cluster().sync();
                }
                value
            });
            let mut expected: Vec<u32> = (0..blocks).collect();
            for round in 0..4 {
                let before = expected.clone();
                for (block, value) in expected.iter_mut().enumerate() {
                    let (first, rank) = (block as u32 / cluster * cluster, block as u32 % cluster);
                    *value = before[(first + (rank + 1) % cluster) as usize] + 1 + round;
                }
            }
            for (i, value) in results.into_iter().enumerate() {
                assert_eq!(
                    value,
                    expected[i / size as usize],
                    "thread {i} of {blocks} blocks in clusters of {cluster}"
                );
            }
        }
    }
}

#[test]
fn blocks_of_a_cluster_at_different_barriers_are_reported() {
    let line = line!() + 5;
    let error = launch(4, 2)
        .cluster(2)
        .run(|| {
            if block_idx().x == 3 {
                this_cluster().sync();
            } else {
                this_cluster().sync();
            }
        })
        .unwrap_err();
    let start = "blocks of a cluster are at different barriers: block (2, 0, 0) at the cluster sync at ";
    assert!(error.message.starts_with(start), "{error:?}");
    let other = format!("block (3, 0, 0) at the cluster sync at {}:{line}:", file!());
    assert!(error.message.contains(&other), "{error:?}");
    let error = launch(4, 2)
        .cluster(2)
        .cooperative()
        .run(|| if block_idx().x == 3 { this_cluster().sync() } else { this_grid().sync() })
        .unwrap_err();
    assert!(error.message.contains("block (3, 0, 0) at the cluster sync at "), "{error:?}");
    assert!(error.message.contains("block (2, 0, 0) at the grid sync at "), "{error:?}");
}

#[test]
fn case_e5_blocks_and_threads_that_are_gone_are_not_waited_for_by_a_cluster() {
    for cooperative in [false, true] {
        let passed = AtomicU32::new(0);
        let launch = Launch { cooperative, ..launch(4, 40).cluster(4) };
        let error = launch
            .run(|| {
                this_cluster().sync();
                if block_idx().x == 1 {
                    return;
                }
                assert!(block_idx().x != 2 || thread_idx().x != 3, "gone");
                this_cluster().sync();
                passed.fetch_add(1, Relaxed);
            })
            .unwrap_err();
        assert_eq!((error.message.as_str(), error.block.x, error.thread.x), ("gone", 2, 3));
        assert_eq!(passed.into_inner(), 3 * 40 - 1);
    }
}

#[test]
fn addresses_that_cannot_be_mapped_are_told() {
    let error = launch(2, 1).cluster(2).run(|| _ = this_cluster().map_shared_rank(shared!(u32), 2)).unwrap_err();
    assert_eq!(error.message, "block 2 of a cluster of 2");
    let error =
        launch(2, 1).cluster(2).run(|| _ = this_cluster().map_shared_rank(&raw mut *Box::new(1), 1)).unwrap_err();
    assert!(error.message.ends_with("is not an address of the block's shared memory"), "{error:?}");
    assert!(error.file.ends_with(file!()));
}

/// The block's mbarrier of `count` arrivals, ready for all threads.
fn mbarrier<'a>(count: u32) -> &'a Mbarrier {
    let barrier = shared!(Mbarrier);
    if thread_idx() == Dim3::new(0, 0, 0) {
        // SAFETY: one thread does, before the others come past the barrier.
        unsafe { Mbarrier::init(barrier, count) };
    }
    sync_threads();
    // SAFETY: initialised above, and there as long as the block.
    unsafe { &*barrier }
}

#[test]
fn mbarriers_part_writes_from_reads() {
    for size in BLOCK_SIZES {
        let values = collect(&launch(3, size), || {
            let (barrier, slots) = (mbarrier(size), shared!([[u32; 1024]; 2]).cast::<u32>());
            let t = thread_idx().x as usize;
            let mut value = t as u32;
            for round in 0..6 {
                let half = round % 2 * 1024;
                // SAFETY: each thread writes its own slot; what it overwrites was read before the phase in between.
                unsafe { slots.add(half + t).write(value) };
                let phase = barrier.arrive();
                assert!(size > 1 || barrier.test_wait(phase));
                barrier.wait(phase);
                assert!(barrier.test_wait(phase));
                // SAFETY: written before its thread arrived.
                value = unsafe { slots.add(half + (t + 1) % size as usize).read() } + 1;
            }
            value
        });
        for (i, value) in (0..).zip(values) {
            assert_eq!(value, (i % size + 6) % size + 6, "thread {i} in blocks of {size}");
        }
    }
}

#[test]
fn a_loop_that_asks_for_an_mbarrier_lets_those_run_that_arrive() {
    for size in [2, 33, 256] {
        for schedule in [None, Some(Schedule::Ascending), Some(Schedule::Reversed), Some(Schedule::Random(5))] {
            let launch = Launch { schedule, ..launch(3, size) };
            let values = collect(&launch, || {
                let (barrier, slots) = (mbarrier(size), shared!([u32; 256]).cast::<u32>());
                let t = thread_idx().x as usize;
                // SAFETY: each thread writes its own slot, before any reads it.
                unsafe { slots.add(t).write(t as u32 + 1) };
                let phase = barrier.arrive();
                while !barrier.test_wait(phase) {}
                // SAFETY: written before its thread arrived.
                unsafe { slots.add((t + 1) % size as usize).read() }
            });
            for (i, value) in (0..).zip(values) {
                assert_eq!(value, (i % size + 1) % size + 1, "thread {i} in blocks of {size} under {schedule:?}");
            }
        }
    }
}

#[test]
fn a_thread_that_asks_so_often_and_then_arrives_is_not_in_vain() {
    let looks = collect(&launch(1, 3), || {
        let barrier = mbarrier(6);
        let phase = barrier.arrive();
        let looks = (0..500).filter(|_| !barrier.test_wait(phase)).count();
        barrier.wait(barrier.arrive());
        assert!(barrier.test_wait(phase));
        looks as u32
    });
    assert_eq!(looks, [500; 3]);
}

#[test]
fn who_asks_for_an_mbarrier_in_vain_is_reported() {
    let error = launch(1, 3)
        .run(|| {
            let barrier = mbarrier(4);
            let phase = barrier.arrive();
            while !barrier.test_wait(phase) {}
        })
        .unwrap_err();
    let expected =
        "threads of the block wait for each other in vain: thread (0, 0, 0) asks for the mbarrier again and again at ";
    assert!(error.message.starts_with(expected) && error.message.contains("meetings.rs:"), "{error:?}");
    let error = launch(1, 2).plain().run(|| {
        let barrier = shared!(Mbarrier);
        // SAFETY: it is made anew by each thread, and none waits.
        let barrier = unsafe {
            Mbarrier::init(barrier, 2);
            &*barrier
        };
        let phase = barrier.arrive();
        let _ = barrier.test_wait(phase);
    });
    let message = error.unwrap_err().message;
    assert!(message.starts_with("`Mbarrier::test_wait` was reached in a kernel that was launched as one"), "{message}");
}

#[test]
fn waits_in_vain_at_an_mbarrier_are_reported() {
    let error = launch(1, 40).run(|| mbarrier(41).wait(mbarrier(41).arrive())).unwrap_err();
    assert!(
        error.message.starts_with(
            "threads of the block wait for each other in vain: thread (0, 0, 0) waits at the mbarrier at "
        ),
        "{error:?}"
    );
    let error = launch(1, 1).run(|| mbarrier(2).wait(mbarrier(2).arrive())).unwrap_err();
    assert!(error.message.starts_with("a thread that is alone in its block waits at an mbarrier"), "{error:?}");
    for count in [0, 1 << 20] {
        let error = launch(1, 2).run(|| _ = mbarrier(count)).unwrap_err();
        assert_eq!(error.message, format!("an mbarrier of {count} arrivals; it counts 1 to 1048575"));
    }
}

#[test]
fn case_e5_a_panic_before_an_mbarrier_ends_what_waits() {
    let passed = AtomicU32::new(0);
    let error = launch(1, 64)
        .run(|| {
            let barrier = mbarrier(64);
            assert!(thread_idx().x != 3, "gone");
            barrier.wait(barrier.arrive());
            passed.fetch_add(1, Relaxed);
        })
        .unwrap_err();
    assert_eq!((error.message.as_str(), error.thread.x, passed.into_inner()), ("gone", 3, 0));
}
