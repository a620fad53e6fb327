//! Launches under schedules: what they keep, what they change, and that they are the same again.

use super::*;

const SCHEDULES: [Schedule; 9] = [
    Schedule::Ascending,
    Schedule::RoundRobin,
    Schedule::Reversed,
    Schedule::Random(1),
    Schedule::Random(2),
    Schedule::Random(3),
    Schedule::Adversarial(1),
    Schedule::Adversarial(2),
    Schedule::Adversarial(3),
];

/// The order in which the threads of a launch come by, by their numbers in the grid.
fn trace(launch: &Launch, body: impl Fn(&dyn Fn(&str)) + Sync) -> Vec<(usize, String)> {
    let seen = Mutex::new(Vec::new());
    let note = |what: &str| seen.lock().unwrap().push((global_idx().get(), what.to_owned()));
    launch.run(|| body(&note)).unwrap();
    seen.into_inner().unwrap()
}

/// Meets at all kinds of places.
fn busy(note: &dyn Fn(&str)) {
    note("starts");
    sync_threads();
    note("after the barrier");
    if thread_idx().x % 2 == 0 {
        sync_warp(0x5555_5555);
        note("after the warp's");
    }
    let sum = shfl_xor(FULL_MASK, thread_idx().x, 1);
    note(&format!("has {sum}"));
    NamedBarrier::<3>::sync(block_dim().x);
    note("ends");
}

#[test]
fn a_launch_under_a_schedule_is_the_same_again() {
    let launches = [launch(3, 64), launch(4, 32).cluster(2), launch(3, 32).cooperative()];
    let mut traces = HashSet::new();
    for base in launches {
        for schedule in SCHEDULES {
            let launch = base.under(schedule);
            let first = trace(&launch, busy);
            assert_eq!(first, trace(&launch, busy), "{schedule}");
            traces.insert(first);
        }
    }
    assert_eq!(traces.len(), 3 * SCHEDULES.len(), "each schedule has an order of its own");
}

#[test]
fn barriers_and_warps_mean_the_same_under_every_schedule() {
    for schedule in SCHEDULES {
        for threads in BLOCK_SIZES {
            let sums = collect(&launch(2, threads).under(schedule), || {
                let mut all = shared_array!([u32; 1024]);
                all.put(thread_idx().x);
                let all = all.sync();
                let neighbour = all.at(((thread_idx().x + 1) % block_dim().x) as usize);
                let votes = sync_threads_count(thread_idx().x % 3 == 0);
                (neighbour, votes, ballot(activemask(), true).count_ones())
            });
            for (i, sum) in (0..).zip(sums) {
                let thread = i % threads;
                let warp = (threads - thread / 32 * 32).min(32);
                assert_eq!(sum, ((thread + 1) % threads, threads.div_ceil(3), warp), "{schedule}, {threads} threads");
            }
        }
    }
}

#[test]
fn threads_that_never_wait_run_in_the_schedules_order_too() {
    let order = |schedule| {
        let launch = launch(2, 3).plain().under(schedule);
        trace(&launch, |note| note("")).into_iter().map(|(thread, _)| thread).collect::<Vec<_>>()
    };
    assert_eq!(order(Schedule::Ascending), [0, 1, 2, 3, 4, 5]);
    assert_eq!(order(Schedule::Reversed), [5, 4, 3, 2, 1, 0]);
    let mut random: Vec<_> = (0..20).map(|seed| order(Schedule::Random(seed))).collect();
    random.sort();
    random.dedup();
    assert!(random.len() > 10, "{random:?}");
}

/// The last to come to a barrier may see the others go first.
#[test]
fn the_last_at_a_barrier_is_not_the_first_to_leave_it() {
    let order = |schedule| {
        let seen = trace(&launch(1, 4).under(schedule), |note| {
            sync_threads();
            note("");
        });
        seen.into_iter().map(|(thread, _)| thread).collect::<Vec<_>>()
    };
    assert_eq!(order(Schedule::Ascending), [0, 1, 2, 3]);
    assert_eq!(order(Schedule::Reversed), [3, 2, 1, 0]);
    assert_eq!(order(Schedule::RoundRobin), [0, 1, 2, 3]);
}

/// How many of the first seeds of a kind show a fault: give another result than the right one.
fn exposed(kind: fn(u64) -> Schedule, fault: impl Fn(Schedule) -> bool) -> usize {
    (0..20).filter(|&seed| fault(kind(seed))).count()
}

/// Checks that a fault is shown by at least half of the seeds of both kinds, so that ten seeds nearly always do.
fn is_exposed(fault: impl Fn(Schedule) -> bool) {
    for (name, kind) in [("random", Schedule::Random as fn(u64) -> Schedule), ("adversarial", Schedule::Adversarial)] {
        let count = exposed(kind, &fault);
        println!("{count} of 20 {name} seeds show it");
        assert!(count >= 10, "{count} of 20 {name} seeds show it");
    }
}

/// The sum of a block's values, by halves; `barrier` says before which steps there is a barrier.
fn reduce(schedule: Schedule, barrier: impl Fn(u32) -> bool + Sync) -> bool {
    let sum = AtomicU32::new(0);
    let expected = 256 * 255 / 2;
    launch(1, 256)
        .under(schedule)
        .run(|| {
            let t = thread_idx().x;
            let sums = shared_words();
            sums[t as usize].store(t, Relaxed);
            let mut step = 128;
            while step > 0 {
                if barrier(step) {
                    sync_threads();
                }
                if t < step {
                    let other = sums[(t + step) as usize].load(Relaxed);
                    sums[t as usize].store(sums[t as usize].load(Relaxed).wrapping_add(other), Relaxed);
                }
                step /= 2;
            }
            if t == 0 {
                sum.store(sums[0].load(Relaxed), Relaxed);
            }
        })
        .unwrap();
    sum.into_inner() != expected
}

/// 256 words of shared memory.
fn shared_words() -> &'static [AtomicU32; 256] {
    let array = shared!([u32; 256]);
    // SAFETY: the array lives until the block ends, and its words are reached as atomics only.
    unsafe { &*array.cast() }
}

#[test]
fn a_barrier_missing_in_a_reduction_shows() {
    SCHEDULES.into_iter().for_each(|schedule| assert!(!reduce(schedule, |_| true), "{schedule}"));
    is_exposed(|schedule| reduce(schedule, |_| false));
    is_exposed(|schedule| reduce(schedule, |step| step != 64));
    // Of one warp's last steps, too.
    is_exposed(|schedule| reduce(schedule, |step| step > 16));
}

/// Two tiles, each written and read; `after` says whether there is a barrier between reading one and writing the next.
fn tiles(schedule: Schedule, after: bool) -> bool {
    let results = collect(&launch(1, 128).under(schedule), || {
        let t = thread_idx().x as usize;
        let tile = shared_words();
        let mut sum = 0;
        for round in 0..2 {
            tile[t].store(1000 * round + t as u32, Relaxed);
            sync_threads();
            sum += tile[(t + 1) % 128].load(Relaxed);
            if after {
                sync_threads();
            }
        }
        sum
    });
    results != (0..128).map(|t| 1000 + 2 * ((t + 1) % 128)).collect::<Vec<u32>>()
}

#[test]
fn a_barrier_missing_after_a_tiles_reads_shows() {
    SCHEDULES.into_iter().for_each(|schedule| assert!(!tiles(schedule, true), "{schedule}"));
    is_exposed(|schedule| tiles(schedule, false));
}

/// Only lane 0 of each warp reads what the warp before wrote, with a barrier of its warp in between.
fn warps(schedule: Schedule, block_wide: bool) -> bool {
    let results = collect(&launch(1, 128).under(schedule), || {
        let t = thread_idx().x as usize;
        let words = shared_words();
        words[t].store(t as u32, Relaxed);
        if block_wide {
            sync_threads()
        } else {
            sync_warp(FULL_MASK)
        }
        if t > 0 && t % 32 == 0 { words[t - 1].load(Relaxed) } else { t as u32 }
    });
    results != (0..128).map(|t| if t > 0 && t % 32 == 0 { t - 1 } else { t }).collect::<Vec<u32>>()
}

#[test]
fn a_race_between_warps_shows() {
    SCHEDULES.into_iter().for_each(|schedule| assert!(!warps(schedule, true), "{schedule}"));
    assert!(!warps(Schedule::Ascending, false), "the usual order hides it");
    is_exposed(|schedule| warps(schedule, false));
}

/// A grid sync that is missing between blocks; they are alive at once, and so can overtake each other.
fn neighbours(schedule: Schedule, synced: bool) -> bool {
    let words: Vec<AtomicU32> = (0..4).map(|_| AtomicU32::new(0)).collect();
    let results = collect(&launch(4, 1).cooperative().under(schedule), || {
        let b = block_idx().x as usize;
        words[b].store(b as u32 + 1, Relaxed);
        if synced {
            grid::this_grid().sync();
        }
        let before = if b > 0 { words[b - 1].load(Relaxed) } else { 0 };
        grid::this_grid().sync();
        before
    });
    results != [0, 1, 2, 3]
}

#[test]
fn a_missing_grid_sync_shows() {
    SCHEDULES.into_iter().for_each(|schedule| assert!(!neighbours(schedule, true), "{schedule}"));
    assert!(!neighbours(Schedule::Ascending, false), "the usual order hides it");
    assert!(neighbours(Schedule::Reversed, false));
    is_exposed(|schedule| neighbours(schedule, false));
}

#[test]
fn a_producer_that_waits_for_its_consumer_is_right_under_every_schedule() {
    for schedule in SCHEDULES {
        let results = collect(&launch(1, 64).under(schedule), || {
            let words = shared_words();
            let mut sum = 0;
            for round in 0..4 {
                if warp_id() == 0 {
                    if round > 0 {
                        NamedBarrier::<2>::sync(64);
                    }
                    words[lane_id() as usize].store(round + 1, Relaxed);
                    NamedBarrier::<1>::arrive(64);
                } else {
                    NamedBarrier::<1>::sync(64);
                    sum += words[lane_id() as usize].load(Relaxed);
                    if round < 3 {
                        NamedBarrier::<2>::arrive(64);
                    }
                }
            }
            sum
        });
        assert_eq!(results[32..], [10; 32], "{schedule}");
    }
}

#[test]
fn an_arrival_that_ends_an_mbarriers_phase_may_be_overtaken_by_those_that_waited() {
    let order = |schedule| {
        let seen = trace(&launch(1, 4).under(schedule), |note| {
            let barrier = shared!(Mbarrier);
            if thread_idx().x == 0 {
                // SAFETY: the others wait below until it is made.
                unsafe { Mbarrier::init(barrier, block_dim().x) };
            }
            sync_threads();
            // SAFETY: made above, and alive until the block ends.
            let barrier = unsafe { &*barrier };
            let phase = barrier.arrive();
            note("");
            barrier.wait(phase);
        });
        seen.into_iter().map(|(thread, _)| thread).collect::<Vec<_>>()
    };
    // The thread that arrives last is behind those that it wakes; under the others it is the one to go on.
    assert_eq!(order(Schedule::Ascending), [0, 1, 2, 3]);
    assert_eq!(order(Schedule::Reversed), [3, 2, 1, 0]);
    let ends = (0..20).map(|seed| order(Schedule::Random(seed))).filter(|order| order.len() == 4).count();
    assert_eq!(ends, 20);
}

#[test]
fn a_panic_and_a_stall_are_told_under_every_schedule_and_the_next_launch_runs() {
    for schedule in SCHEDULES {
        for base in [launch(4, 64), launch(4, 64).cluster(2), launch(4, 64).cooperative()] {
            let launch = base.under(schedule);
            let error = launch
                .run(|| {
                    if global_idx().get() == 77 {
                        panic!("thread 77");
                    }
                    sync_threads();
                })
                .unwrap_err();
            assert_eq!((error.message.as_str(), error.block.x, error.thread.x), ("thread 77", 1, 13), "{schedule}");
            let error = launch.run(|| if thread_idx().x < 32 { sync_threads() } else { sync_threads() }).unwrap_err();
            assert!(error.message.starts_with("threads of the block are at different barriers: "), "{error:?}");
            launch.run(sync_threads).unwrap();
        }
    }
}
