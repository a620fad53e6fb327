//! Published vectors, places in streams, accuracy against the host's functions, and statistics with fixed seeds.
//!
//! The statistics are of fixed numbers, so they pass always or never. Each bound is four standard deviations of what is
//! measured, and so the chance of a good generator to fail one, for another seed, is 1 in 16 000.

use std::vec::Vec;

use super::{Philox4x32, philox4x32_10};

#[test]
fn published_vectors() {
    let known = [
        ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];
    for (counter, key, numbers) in known {
        assert_eq!(philox4x32_10(counter, key), numbers);
    }
}

#[test]
fn a_stream_is_its_counters_in_order() {
    let (seed, stream) = (0x299f_31d0_a409_3822, 0x0370_7344_1319_8a2e);
    let mut rng = Philox4x32::new(seed, stream, 4 * 0x85a3_08d3);
    for block in 0x85a3_08d3..0x85a3_08d6 {
        let counter = [block, 0, stream as u32, (stream >> 32) as u32];
        let numbers = philox4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
        assert_eq!([(); 4].map(|()| rng.next_u32()), numbers);
    }
    // The last block of a stream, then the first of the next.
    let mut rng = Philox4x32::new(1, u64::from(u32::MAX), 0);
    for _ in 0..4 {
        rng.skip(u64::MAX);
    }
    let end = [(); 4].map(|()| rng.next_u32());
    assert_eq!(end, philox4x32_10([u32::MAX, u32::MAX, u32::MAX, 0], [1, 0]));
    assert_eq!(rng.next_u32(), philox4x32_10([0, 0, 0, 1], [1, 0])[0]);
}

#[test]
fn skipping_is_drawing_and_looking_away() {
    let numbers: Vec<u32> = {
        let mut rng = Philox4x32::new(11, 5, 0);
        (0..60).map(|_| rng.next_u32()).collect()
    };
    for offset in 0..12 {
        for drawn in 0..6 {
            for skipped in 0..20 {
                let mut rng = Philox4x32::new(11, 5, offset);
                for _ in 0..drawn {
                    rng.next_u32();
                }
                rng.skip(skipped);
                let place = (offset + drawn + skipped) as usize;
                let rest = [(); 6].map(|()| rng.next_u32());
                assert_eq!(rest, numbers[place..place + 6], "{offset} + {drawn} + {skipped}");
            }
        }
    }
    // Across the end of a stream, in both directions of the carry.
    let mut long = Philox4x32::new(3, 8, u64::MAX);
    long.skip(u64::MAX);
    long.skip(u64::MAX);
    long.skip(u64::MAX);
    long.skip(7);
    let mut next = Philox4x32::new(3, 9, 3);
    assert_eq!([(); 9].map(|()| long.next_u32()), [(); 9].map(|()| next.next_u32()));
}

#[test]
fn integers_are_those_of_curand() {
    // What `curand` of cuRAND 10.4.5 gives after `curand_init` with these, and then after `skipahead` by 1001.
    let known = [
        ([0, 0, 0], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8, 0xf8e4_cca4, 0x5cb2_00db], 0x66a1_9452),
        (
            [0x0123_4567_89ab_cdef, 42, 7],
            [0x05e7_cce2, 0x1423_ad26, 0x2254_2408, 0xf135_1dec, 0xa4ac_ca78, 0xfc2a_65fe],
            0x9522_d3c0,
        ),
        (
            [u64::MAX, 0x1_0000_0001, 0x4_0000_0005],
            [0x5ff7_a6ca, 0x632b_f19f, 0xbf7f_7d6f, 0x10ce_e5f2, 0x50c3_d36a, 0x6315_7af9],
            0xbfae_396a,
        ),
        ([5, 1 << 40, 3], [0xd385_2af5, 0x2698_d668, 0x53bf_26ed, 0x0894_e0b7, 0x199a_54d3, 0x1dc5_a640], 0xaf6e_a140),
    ];
    for ([seed, subsequence, offset], numbers, after) in known {
        let mut rng = Philox4x32::new(seed, subsequence, offset);
        assert_eq!([(); 6].map(|()| rng.next_u32()), numbers);
        rng.skip(1001);
        assert_eq!(rng.next_u32(), after);
    }
}

#[test]
fn wide_numbers_have_the_first_in_their_low_half() {
    let (mut narrow, mut wide) = (Philox4x32::new(1, 2, 3), Philox4x32::new(1, 2, 3));
    for _ in 0..10 {
        let (low, high) = (narrow.next_u32(), narrow.next_u32());
        assert_eq!(wide.next_u64(), u64::from(low) | u64::from(high) << 32);
    }
}

#[test]
fn uniform_floats_take_their_documented_bits() {
    let mut rng = Philox4x32::new(2, 0, 0);
    for _ in 0..1000 {
        let (mut a, mut b, mut c, mut d) = (rng, rng, rng, rng);
        let (narrow, wide) = (rng.next_u32() >> 8, { rng }.next_u32());
        let wide = u64::from(wide) << 32 | u64::from({ a }.next_u32());
        assert_eq!(a.uniform_f32(), narrow as f32 / 2f32.powi(24));
        assert_eq!(b.uniform_positive_f32(), (narrow + 1) as f32 / 2f32.powi(24));
        assert_eq!(c.uniform_f64(), (wide >> 11) as f64 / 2f64.powi(53));
        assert_eq!(d.uniform_positive_f64(), ((wide >> 11) + 1) as f64 / 2f64.powi(53));
        rng.next_u32();
    }
}

/// Bits at and around every place where the transforms change their way, and drawn ones.
fn words() -> Vec<u64> {
    let mut rng = Philox4x32::new(4, 0, 0);
    let edges = (0..64).flat_map(|bit| (-3i64..=3).map(move |d| (1u64 << bit).wrapping_add(d as u64)));
    let roots = (-300i64..300).map(|d| 0xb504_f333_f9de_6485u64.wrapping_add((d as u64) << 24 | d.unsigned_abs()));
    let tops = (0..300).map(|d: u64| u64::MAX - (d << 32) - d);
    let drawn = (0..50_000).map(|_| rng.next_u64());
    edges.chain(roots).chain(tops).chain(drawn).collect()
}

#[test]
fn transforms_are_as_accurate_as_documented() {
    let relative = |value: f64, exact: f64| if value == exact { 0.0 } else { ((value - exact) / exact).abs() };
    let (mut single, mut double): (f64, f64) = (0.0, 0.0);
    let (mut single_turn, mut double_turn): (f64, f64) = (0.0, 0.0);
    for word in words() {
        let short = (word >> 32) as u32;
        // What is missing to 1 is exact as an integer; `ln_1p` keeps its digits.
        let missing = f64::from((short | 1).wrapping_neg()) / 2f64.powi(32);
        let exact = if short >= 1 << 31 { (-missing).ln_1p() } else { (f64::from(short | 1) / 2f64.powi(32)).ln() };
        single = single.max(relative(super::single::ln_of_fraction(short).into(), exact));
        let missing = (word | 1).wrapping_neg() as f64 / 2f64.powi(64);
        let exact = if word >= 1 << 63 { (-missing).ln_1p() } else { ((word | 1) as f64 / 2f64.powi(64)).ln() };
        double = double.max(relative(super::double::ln_of_fraction(word), exact));

        // In double precision the reference's own angle may be off by 4.5e-16, and is.
        let (sin, cos) = super::single::sin_cos_of_turn(short);
        let angle = f64::from(short as i32) * std::f64::consts::PI / 2f64.powi(31);
        single_turn = single_turn.max((f64::from(sin) - angle.sin()).abs()).max((f64::from(cos) - angle.cos()).abs());
        let (sin, cos) = super::double::sin_cos_of_turn(word);
        let angle = word as i64 as f64 * std::f64::consts::PI / 2f64.powi(63);
        double_turn = double_turn.max((sin - angle.sin()).abs()).max((cos - angle.cos()).abs());
    }
    std::println!("ln {single:e} {double:e}, sin and cos {single_turn:e} {double_turn:e}");
    assert!(single < 4e-7 && double < 1e-15, "logarithms: {single:e} {double:e}");
    assert!(single_turn < 1.2e-7 && double_turn < 8e-16, "sines and cosines: {single_turn:e} {double_turn:e}");
}

#[test]
fn normal_numbers_are_those_of_real_arithmetic() {
    let mut rng = Philox4x32::new(6, 1, 0);
    let (mut single, mut double, mut largest): (f64, f64, f32) = (0.0, 0.0, 0.0);
    for _ in 0..50_000 {
        let mut bits = rng;
        let (a, b) = rng.normal_pair_f32();
        let (u, turn) = (f64::from(bits.next_u32() | 1) / 2f64.powi(32), bits.next_u32());
        let (radius, angle) = ((-2.0 * u.ln()).sqrt(), f64::from(turn as i32) * std::f64::consts::PI / 2f64.powi(31));
        single = single.max((f64::from(a) - radius * angle.cos()).abs() / radius);
        single = single.max((f64::from(b) - radius * angle.sin()).abs() / radius);
        largest = largest.max(a.abs()).max(b.abs());
        let mut bits = rng;
        let (a, b) = rng.normal_pair_f64();
        let (u, turn) = ((bits.next_u64() | 1) as f64 / 2f64.powi(64), bits.next_u64());
        let (radius, angle) = ((-2.0 * u.ln()).sqrt(), turn as i64 as f64 * std::f64::consts::PI / 2f64.powi(63));
        // Close to 1 the reference's own logarithm has lost its digits.
        if u < 0.9 {
            double =
                double.max((a - radius * angle.cos()).abs() / radius).max((b - radius * angle.sin()).abs() / radius);
        }
    }
    std::println!("normal {single:e} {double:e}, largest {largest}");
    assert!(single < 4e-7 && double < 1e-15, "{single:e} {double:e}");
    assert!((4.0..=6.67).contains(&largest), "{largest}");
    let extreme = (-2.0 * super::single::ln_of_fraction(0)).sqrt();
    assert!((6.66..6.67).contains(&extreme), "{extreme}");
    let extreme = (-2.0 * super::double::ln_of_fraction(0)).sqrt();
    assert!((9.41..9.42).contains(&extreme), "{extreme}");
}

/// How far `counts` are from `expected` of each kind, in standard deviations of the chi-square statistic.
fn chi_square(counts: &[u64], expected: f64) -> f64 {
    let sum: f64 = counts.iter().map(|n| (*n as f64 - expected).powi(2) / expected).sum();
    let freedom = (counts.len() - 1) as f64;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

/// Mean and variance in standard deviations from what they should be, for the fourth central moment of the distribution.
fn moments(values: &[f64], mean: f64, variance: f64, fourth: f64) -> (f64, f64) {
    let n = values.len() as f64;
    let found = values.iter().sum::<f64>() / n;
    let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    ((found - mean) / (variance / n).sqrt(), (spread - variance) / ((fourth - variance.powi(2)) / n).sqrt())
}

const COUNT: usize = 100_000;

#[test]
fn uniform_numbers_have_their_mean_their_variance_and_no_favourites() {
    let mut rng = Philox4x32::new(100, 0, 0);
    let single: Vec<f64> = (0..COUNT).map(|_| rng.uniform_f32().into()).collect();
    let double: Vec<f64> = (0..COUNT).map(|_| rng.uniform_positive_f64()).collect();
    for values in [single, double] {
        assert!(values.iter().all(|v| (0.0..=1.0).contains(v)));
        let (mean, variance) = moments(&values, 0.5, 1.0 / 12.0, 1.0 / 80.0);
        assert!(mean.abs() < 4.0 && variance.abs() < 4.0, "{mean} {variance}");
        let mut counts = [0; 256];
        values.iter().for_each(|v| counts[((v * 256.0) as usize).min(255)] += 1);
        let far = chi_square(&counts, COUNT as f64 / 256.0);
        assert!(far.abs() < 4.0, "{far}");
        // Neighbours have nothing to do with each other.
        let mut pairs = [0; 256];
        values.chunks_exact(2).for_each(|p| pairs[(p[0] * 15.999) as usize * 16 + (p[1] * 15.999) as usize] += 1);
        let far = chi_square(&pairs, COUNT as f64 / 512.0);
        assert!(far.abs() < 4.0, "{far}");
    }
}

#[test]
fn streams_have_nothing_to_do_with_each_other() {
    // The first numbers of many streams are as good as those of one.
    let values: Vec<f64> = (0..COUNT as u64).map(|i| Philox4x32::new(7, i, 0).uniform_f64()).collect();
    let (mean, variance) = moments(&values, 0.5, 1.0 / 12.0, 1.0 / 80.0);
    assert!(mean.abs() < 4.0 && variance.abs() < 4.0, "{mean} {variance}");
    let mut pairs = [0; 256];
    values.chunks_exact(2).for_each(|p| pairs[(p[0] * 16.0) as usize * 16 + (p[1] * 16.0) as usize] += 1);
    let far = chi_square(&pairs, COUNT as f64 / 512.0);
    assert!(far.abs() < 4.0, "{far}");
}

#[test]
fn normal_numbers_have_their_moments_and_their_shape() {
    let mut rng = Philox4x32::new(200, 0, 0);
    let single: Vec<f64> =
        (0..COUNT / 2).flat_map(|_| <[f32; 2]>::from(rng.normal_pair_f32())).map(f64::from).collect();
    let double: Vec<f64> = (0..COUNT / 2).flat_map(|_| <[f64; 2]>::from(rng.normal_pair_f64())).collect();
    for values in [single, double] {
        let (mean, variance) = moments(&values, 0.0, 1.0, 3.0);
        assert!(mean.abs() < 4.0 && variance.abs() < 4.0, "{mean} {variance}");
        // The distribution function makes uniform numbers of them.
        let mut counts = [0; 100];
        let uniform = |v: f64| 0.5 * (1.0 + libm::erf(v / 2f64.sqrt()));
        values.iter().for_each(|v| counts[((uniform(*v) * 100.0) as usize).min(99)] += 1);
        let far = chi_square(&counts, COUNT as f64 / 100.0);
        assert!(far.abs() < 4.0, "{far}");
        // The two of a pair have nothing to do with each other.
        let product = values.chunks_exact(2).map(|p| p[0] * p[1]).sum::<f64>() / (COUNT as f64 / 2.0).sqrt();
        assert!(product.abs() < 4.0, "{product}");
    }
}

#[test]
fn exponential_numbers_have_their_moments_and_their_shape() {
    let mut rng = Philox4x32::new(300, 0, 0);
    let single: Vec<f64> = (0..COUNT).map(|_| rng.exponential_f32().into()).collect();
    let double: Vec<f64> = (0..COUNT).map(|_| rng.exponential_f64()).collect();
    for values in [single, double] {
        assert!(values.iter().all(|v| (0.0..=44.4).contains(v)));
        let (mean, variance) = moments(&values, 1.0, 1.0, 9.0);
        assert!(mean.abs() < 4.0 && variance.abs() < 4.0, "{mean} {variance}");
        let mut counts = [0; 100];
        values.iter().for_each(|v| counts[(((-v).exp() * 100.0) as usize).min(99)] += 1);
        let far = chi_square(&counts, COUNT as f64 / 100.0);
        assert!(far.abs() < 4.0, "{far}");
    }
}

#[test]
fn ranges_have_no_favourites_and_keep_their_ends() {
    let mut rng = Philox4x32::new(400, 0, 0);
    // A width of 3 * 2^30 takes two thirds of what multiplying alone gives twice.
    let mut thirds = [0; 3];
    (0..COUNT).for_each(|_| thirds[(rng.range(0..3u32 << 30) >> 30) as usize] += 1);
    let mut wide = [0; 3];
    (0..COUNT).for_each(|_| wide[(rng.range(0..3u64 << 62) >> 62) as usize] += 1);
    let mut signed = [0; 7];
    (0..COUNT).for_each(|_| signed[(rng.range(-3..=3i32) + 3) as usize] += 1);
    let mut odd = [0; 7];
    (0..COUNT).for_each(|_| odd[(rng.range(0..(u32::MAX / 7 + 1) * 5) / (u32::MAX / 7 + 1)) as usize] += 1);
    for counts in [&thirds[..], &wide, &signed, &odd[..5]] {
        let far = chi_square(counts, COUNT as f64 / counts.len() as f64);
        assert!(far.abs() < 4.0, "{counts:?}: {far}");
    }
    assert_eq!(odd[5..], [0, 0]);
    assert!((0..100).all(|_| rng.range(5..6u8) == 5 && rng.range(i64::MIN..=i64::MIN) == i64::MIN));
    assert!((0..1000).any(|_| rng.range(i8::MIN..=i8::MAX) == i8::MIN));
    assert!(
        (0..1000).any(|_| rng.range(0..=u32::MAX) > 1 << 31) && (0..100).any(|_| rng.range(0..=u64::MAX) > 1 << 63)
    );
    assert!((0..1000).all(|_| (-1000..1000).contains(&rng.range(-1000..1000isize)) && rng.range(1..9usize) < 9));
}

#[test]
#[should_panic(expected = "the range 4..4 is empty")]
fn an_empty_range_is_refused() {
    Philox4x32::new(0, 0, 0).range(4..4u32);
}

#[test]
fn shuffles_give_each_order_as_often() {
    let mut rng = Philox4x32::new(500, 0, 0);
    let mut counts = [0; 24];
    for _ in 0..COUNT {
        let mut order = [0, 1, 2, 3];
        rng.shuffle(&mut order);
        let place = order.iter().fold(0, |place, n| place * 4 + n);
        let number = (0..256)
            .filter(|p: &usize| (0..4).all(|i| (0..i).all(|j| p >> (2 * i) & 3 != p >> (2 * j) & 3)))
            .position(|p| p == place);
        counts[number.expect("a shuffle keeps the elements")] += 1;
    }
    let far = chi_square(&counts, COUNT as f64 / 24.0);
    assert!(far.abs() < 4.0, "{far}");
    let mut nothing: [u8; 0] = [];
    rng.shuffle(&mut nothing);
}

#[test]
fn bernoulli_happens_as_often_as_it_should() {
    let mut rng = Philox4x32::new(600, 0, 0);
    let count = (0..COUNT).filter(|_| rng.bernoulli(0.3)).count() as f64;
    let far = (count - 0.3 * COUNT as f64) / (0.21 * COUNT as f64).sqrt();
    assert!(far.abs() < 4.0, "{far}");
    assert!((0..1000).all(|_| rng.bernoulli(1.0) && !rng.bernoulli(0.0)));
}
