//! What the lanes of a warp do together, and what is said of those that do not keep to the rules.

use super::*;

/// Whose value lane `lane` should get, as PTX's pseudocode computes it.
fn source(mode: &str, lane: u32, operand: u32, width: u32) -> u32 {
    let clamp = if mode == "up" { 0 } else { 0x1f };
    let segment_mask = 32 - width;
    let max_lane = (lane & segment_mask) | (clamp & !segment_mask);
    let min_lane = lane & segment_mask;
    let operand = operand & 0x1f;
    let (source, valid) = match mode {
        "up" => (lane.wrapping_sub(operand), lane as i32 - operand as i32 >= max_lane as i32),
        "down" => (lane + operand, lane + operand <= max_lane),
        "xor" => (lane ^ operand, lane ^ operand <= max_lane),
        "idx" => (min_lane | (operand & !segment_mask), true),
        _ => unreachable!(),
    };
    if valid { source } else { lane }
}

#[test]
fn case_g1_shuffles_move_values_as_ptx_says() {
    fn check(mode: &str, size: u32, width: u32, operand: u32, shuffle: impl Fn(u32) -> u32 + Sync) {
        let lanes = |thread: u32| (size - thread / 32 * 32).min(32);
        let outside = |thread: &u32| source(mode, *thread % 32, operand, width) >= lanes(*thread);
        let about = format!("{mode} {operand} within {width}, block of {size}");
        if (0..size).any(|thread| outside(&thread)) {
            let error = launch(1, size).run(|| _ = shuffle(thread_idx().x)).unwrap_err();
            assert!(outside(&error.thread.x), "{about}: {error:?}");
            let expected = format!(
                "lane {} reads lane {} with `shfl_{mode}` and the mask 0xffffffff, but its warp is the last of a block of \
                 {size} threads and has {} lanes",
                error.thread.x % 32,
                source(mode, error.thread.x % 32, operand, width),
                lanes(error.thread.x)
            );
            assert_eq!(error.message, expected, "{about}");
            return;
        }
        let results = collect(&launch(1, size), || shuffle(thread_idx().x));
        for (thread, result) in (0..).zip(results) {
            let expected = thread / 32 * 32 + source(mode, thread % 32, operand, width);
            assert_eq!(result, expected, "{about}, thread {thread}");
        }
    }
    for size in [1_u32, 16, 31, 32, 40, 64] {
        for width in [1, 2, 4, 8, 16, 32] {
            for operand in [0, 1, 2, 5, 16, 31, 33] {
                let m = FULL_MASK;
                check("idx", size, width, operand, |own| shfl_idx_within(m, own, operand, width));
                check("up", size, width, operand, |own| {
                    (shfl_up_within(m, i64::from(own) << 33, operand, width) >> 33) as u32
                });
                check("down", size, width, operand, |own| {
                    shfl_down_within(m, [f64::from(own), -1.0], operand, width)[0] as u32
                });
                check("xor", size, width, operand, |own| shfl_xor_within(m, own as f32, operand, width) as u32);
            }
        }
    }
}

#[test]
fn a_shuffle_from_a_lane_that_takes_no_part_names_the_rule() {
    let error = launch(1, 32)
        .run(|| {
            if lane_id() < 4 {
                _ = shfl_down(0xf, 1, 1)
            }
        })
        .unwrap_err();
    assert_eq!(error.thread.x, 3);
    assert_eq!(error.message, "lane 3 reads lane 4 with `shfl_down`, but the mask 0x0000000f leaves lane 4 out");
    assert!(error.file.ends_with(file!()), "{error:?}");
    let error = launch(1, 32)
        .run(|| {
            if lane_id() != 7 {
                _ = shfl_idx(FULL_MASK, 1, 7)
            }
        })
        .unwrap_err();
    let (_, rule) = error.message.split_once(" reads ").expect("a lane reads");
    assert_eq!(rule, "lane 7 with `shfl_idx` and the mask 0xffffffff, but lane 7 has ended and sends nothing");
    let error = launch(1, 32).run(|| _ = broadcast(0xffff_ffff, 1, 32)).unwrap_err();
    assert_eq!(error.message, "lane 32 is not in the mask 0xffffffff to send a value");
    let error = launch(1, 1).run(|| _ = shfl_xor(1, true, 1)).unwrap_err();
    assert!(error.message.starts_with("lane 0 reads lane 1 with `shfl_xor`, but the mask"), "{error:?}");
}

#[test]
fn a_shuffle_in_a_destructor_ends_no_process() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            assert_eq!(shfl_xor(FULL_MASK, 5, 1), 5);
        }
    }
    let error = launch(1, 2)
        .run(|| {
            let _late = Late;
            assert!(thread_idx().x == 1, "enough");
            std::mem::forget(_late);
        })
        .unwrap_err();
    assert_eq!(error.message, "enough");
}

#[test]
fn shuffles_carry_every_type() {
    fn check<T: WarpValue + PartialEq + std::fmt::Debug + Send + Sync>(values: [T; 2]) {
        let got = collect(&launch(1, 2), || Some(shfl_xor(0b11, values[thread_idx().x as usize], 1)));
        assert_eq!(got, [Some(values[1]), Some(values[0])]);
    }
    check([i8::MIN, 1]);
    check([u8::MAX, 1]);
    check([i16::MIN, 1]);
    check([u16::MAX, 1]);
    check([i32::MIN, 1]);
    check([u32::MAX, 1]);
    check([i64::MIN, 1]);
    check([u64::MAX, 1]);
    check([isize::MIN, 1]);
    check([usize::MAX, 1]);
    check([f32::MIN_POSITIVE, -0.0]);
    check([f64::INFINITY, 1e-320]);
    check([half::f16::MAX, half::f16::EPSILON]);
    check([half::bf16::MAX, half::bf16::EPSILON]);
    check([u128::MAX - 7, 1 << 100]);
    check([i128::MIN, -1]);
    check([[1_u8, 2, 3], [255, 254, 253]]);
    check([[1_u16; 7], [u16::MAX; 7]]);
    check([[1.5_f32, -0.0, f32::MAX, 3.0], [0.0; 4]]);
    check([[1_u64, 2], [3, u64::MAX]]);
    check([true, false]);
    check(['\u{10ffff}', 'a']);
    check([std::cmp::Ordering::Less, std::cmp::Ordering::Greater]);
    check([std::num::NonZeroU64::MAX, std::num::NonZeroU64::MIN]);
    check([None, Some(u64::MAX)]);
    check([Some('x'), None]);
    check([(true, 7_u8, -3_i64, 'q'), (false, 255, i64::MIN, '\0')]);
    check([Dim3::new(1, 2, 3), Dim3::new(u32::MAX, 0, 9)]);
    check([((), (true, Some(false)), 1.5_f64), ((), (false, None), -0.0)]);
}

#[test]
fn bits_that_are_no_value_panic_or_become_one() {
    assert!(bool::from_lane_bits(u128::MAX) && !bool::from_lane_bits(u128::MAX - 1));
    assert_eq!(std::cmp::Ordering::from_lane_bits(0x7f), std::cmp::Ordering::Greater);
    for bad in [0xd800_u128, 0x11_0000, u128::MAX] {
        assert!(catch_unwind(|| char::from_lane_bits(bad)).is_err());
        assert!(catch_unwind(|| Option::<char>::from_lane_bits(bad << 1 | 1)).is_err());
    }
    assert!(catch_unwind(|| std::num::NonZeroU8::from_lane_bits(0x100)).is_err());
}

/// The tree and the scan of the docs, over the values of the lanes that are there.
fn expected_reduction(values: &[String]) -> (String, Vec<String>) {
    let join = |a: &String, b: &String| format!("({a} {b})");
    let mut tree = values.to_vec();
    while tree.len() > 1 {
        tree = tree.chunks(2).map(|pair| if let [a, b] = pair { join(a, b) } else { pair[0].clone() }).collect();
    }
    let mut scan = values.to_vec();
    for reach in [1, 2, 4, 8, 16] {
        let before = scan.clone();
        for rank in reach..scan.len() {
            scan[rank] = join(&before[rank - reach], &before[rank]);
        }
    }
    (tree.swap_remove(0), scan)
}

#[test]
fn reductions_and_scans_join_in_the_order_of_the_docs() {
    // The texts lie in a table; what moves between lanes are their numbers.
    let table = Mutex::new(Vec::<String>::new());
    let number = |text: String| {
        let mut table = table.lock().unwrap();
        table.push(text);
        table.len() as u32 - 1
    };
    let text = |number: u32| table.lock().unwrap()[number as usize].clone();
    let join = |a: u32, b: u32| {
        let joined = format!("({} {})", text(a), text(b));
        number(joined)
    };
    for (size, mask) in [(32, FULL_MASK), (32, 0x8421_00f1), (21, FULL_MASK), (1, 1), (32, 1 << 31), (19, 0xfff0_fff0)]
    {
        let results = collect(&launch(1, size), || {
            if mask & lanemask_eq() == 0 {
                return None;
            }
            let own = number(lane_id().to_string());
            let first = number("first".to_owned());
            let reduced = text(warp::reduce(mask, own, join));
            let scanned = text(inclusive_scan(mask, own, join));
            Some((reduced, scanned, text(exclusive_scan(mask, first, own, join))))
        });
        let ranks: Vec<u32> = (0..size).filter(|lane| mask & 1 << lane != 0).collect();
        let values: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let (reduced, scanned) = expected_reduction(&values);
        for (rank, lane) in ranks.iter().enumerate() {
            let before = if rank == 0 { "first".to_owned() } else { scanned[rank - 1].clone() };
            let expected = Some((reduced.clone(), scanned[rank].clone(), before));
            assert_eq!(results[*lane as usize], expected, "lane {lane} of {mask:#x} in a block of {size}");
        }
    }
}

#[test]
fn a_group_misses_its_threads_that_have_ended() {
    let error = launch(1, 32)
        .run(|| {
            let tile = this_thread_block().tiled_partition::<8>();
            if lane_id() != 13 {
                _ = tile.reduce_add(1);
            }
        })
        .unwrap_err();
    assert_eq!(
        error.message,
        "`reduce_add` needs all threads of its group, the lanes 0x0000ff00 of the warp, but lane 13 has ended"
    );
    assert!((8..16).contains(&error.thread.x) && error.file.ends_with(file!()), "{error:?}");
    let error = launch(1, 32)
        .run(|| {
            let tile = this_thread_block().tiled_partition::<8>();
            if lane_id() != 13 {
                _ = tile.shfl(1, 5);
            }
        })
        .unwrap_err();
    assert!(error.message.ends_with("but lane 13 has ended and sends nothing"), "{error:?}");
    let error = launch(1, (5, 3)).run(|| _ = this_thread_block().tiled_partition::<16>()).unwrap_err();
    assert_eq!(error.message, "a tile of 16 threads is larger than its block of 15");
}

#[test]
fn one_lane_is_elected_and_lane_masks_split_the_warp() {
    let results = collect(&launch(1, 40), || {
        let lane = lane_id();
        assert_eq!(lanemask_lt() | lanemask_eq() | lanemask_gt(), u32::MAX);
        assert_eq!((lanemask_le(), lanemask_ge()), (lanemask_lt() | 1 << lane, lanemask_gt() | 1 << lane));
        assert_eq!(
            (lanemask_eq(), lanemask_lt().count_ones(), lanemask_gt().count_ones()),
            (1 << lane, lane, 31 - lane)
        );
        if lane < 3 {
            return false;
        }
        elect(FULL_MASK)
    });
    let elected: Vec<usize> = (0..40).filter(|thread| results[*thread]).collect();
    assert_eq!(elected, [3, 35]);
}

#[test]
fn a_warp_reduces_with_shuffles_alone_and_in_groups() {
    let sums = collect(&launch(3, 64), || {
        let (mut warp, mut group) = (thread_idx().x, thread_idx().x);
        for delta in [16, 8, 4, 2, 1] {
            warp += shfl_down(FULL_MASK, warp, delta);
        }
        for bits in [8, 4, 2, 1] {
            group += shfl_xor_within(FULL_MASK, group, bits, 16);
        }
        (shfl_idx(FULL_MASK, warp, 0), group)
    });
    for (t, (warp, group)) in (0..).zip(sums) {
        let t = t % 64;
        let sum_from = |first: u32, count: u32| (first..first + count).sum::<u32>();
        assert_eq!(warp, sum_from(t / 32 * 32, 32));
        assert_eq!(group, sum_from(t / 16 * 16, 16));
    }
}

#[test]
fn case_g6_half_a_warp_meets_alone() {
    let results = collect(&launch(1, 32), || {
        let lane = lane_id();
        if lane < 16 {
            let mut sum = lane;
            for bits in [8, 4, 2, 1] {
                sum += shfl_xor(0xffff, sum, bits);
            }
            sum
        } else {
            ballot(0xffff_0000, lane % 2 == 0)
        }
    });
    assert!(results[..16].iter().all(|&sum| sum == 120));
    assert!(results[16..].iter().all(|&mask| mask == 0x5555_0000));
}

#[test]
fn votes_and_matches_see_the_lanes_that_are_there() {
    for size in [1_u32, 5, 31, 32, 33, 70] {
        let results = collect(&launch(1, size), || {
            let t = thread_idx().x;
            let m = FULL_MASK;
            let votes = (ballot(m, t % 3 == 0), all(m, true), all(m, t % 32 != 0), any(m, t % 32 == 0), any(m, false));
            let matches =
                (match_any(m, t % 4), match_any(m, u64::from(t % 2) << 40), match_all(m, 7_i64), match_all(m, t));
            (votes, matches)
        });
        for (t, (votes, matches)) in (0..).zip(results) {
            let first = t / 32 * 32;
            let members: Vec<u32> = (first..size.min(first + 32)).collect();
            let mask = |test: &dyn Fn(u32) -> bool| {
                members.iter().filter(|&&other| test(other)).fold(0_u32, |mask, other| mask | 1 << (other - first))
            };
            assert_eq!(votes, (mask(&|o| o % 3 == 0), true, false, true, false), "thread {t} of {size}");
            let alone = if members.len() == 1 { 1 } else { 0 };
            let expected = (mask(&|o| o % 4 == t % 4), mask(&|o| o % 2 == t % 2), mask(&|_| true), alone);
            assert_eq!(matches, expected, "thread {t} of {size}");
        }
    }
}

#[test]
fn lanes_that_ended_do_not_hold_up_a_warp() {
    let results = collect(&launch(1, 64), || {
        let lane = lane_id();
        if lane >= 20 {
            return 0;
        }
        let first = ballot(FULL_MASK, true);
        if lane < 7 {
            return first;
        }
        first & ballot(FULL_MASK, true)
    });
    for (t, mask) in results.into_iter().enumerate() {
        let expected = match t % 32 {
            0..7 => 0xf_ffff,
            7..20 => 0xf_ff80,
            _ => 0,
        };
        assert_eq!(mask, expected, "thread {t}");
    }
}

#[test]
fn activemask_gives_the_lanes_of_the_same_branch() {
    let results = collect(&launch(1, 48), || {
        let lane = lane_id();
        let mask = if lane % 2 == 0 { activemask() } else { activemask() };
        // What activemask gives can be used as a mask at once.
        assert_eq!(ballot(mask, true), mask);
        mask
    });
    for (t, mask) in results.into_iter().enumerate() {
        let there = if t < 32 { FULL_MASK } else { 0xffff };
        assert_eq!(mask, there & if t % 2 == 0 { 0x5555_5555 } else { 0xaaaa_aaaa });
    }
}

#[test]
fn misused_masks_are_reported() {
    let error = launch(1, 32).run(|| _ = ballot(0xff, true)).unwrap_err();
    assert_eq!(error.message, "lane 8 calls `vote` with the mask 0x000000ff, in which it is not");
    assert!(error.file.ends_with(file!()));
    let error =
        launch(1, 2).run(|| if thread_idx().x == 0 { _ = ballot(0b11, true) } else { sync_warp(0b11) }).unwrap_err();
    assert!(
        error.message.starts_with("lanes of one mask do different things: thread (0, 0, 0) is in `vote` at "),
        "{error:?}"
    );
    let error = launch(1, 1).run(|| _ = shfl_down_within(1, 1, 1, 12)).unwrap_err();
    assert_eq!(error.message, "a group of 12 lanes");
}
