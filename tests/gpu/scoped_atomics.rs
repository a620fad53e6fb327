//! Atomics by scope and order: what each operation does to a value, what many threads do together, and what floats do
//! with NaN, signed zeros and mixed signs.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use half::{bf16, f16};
use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::{check_on_devices, random};

/// Every operation of an integer, one after the other, by one thread: the values before, and the last.
macro_rules! each_integer {
    ($($name:ident $case:ident $atomic:ident $int:ident;)*) => {$(
        #[kernel]
        fn $name(word: &$atomic, operands: &[$int], mut seen: GridSliceMut<$int, Runs<16>>) {
            let seen = seen.run_mut(&run_idx::<16>());
            let (word, mut at) = (word.device(), 0);
            let mut note = |value: $int| {
                seen[at] = value;
                at += 1;
            };
            note(word.fetch_add(operands[0], Ordering::Relaxed));
            note(word.fetch_sub(operands[1], Ordering::Acquire));
            note(word.fetch_min(operands[2], Ordering::Release));
            note(word.fetch_max(operands[3], Ordering::AcqRel));
            note(word.fetch_and(operands[4], Ordering::SeqCst));
            note(word.fetch_or(operands[5], Ordering::Relaxed));
            note(word.fetch_xor(operands[6], Ordering::Relaxed));
            note(word.swap(operands[7], Ordering::AcqRel));
            note(word.compare_exchange(operands[7], operands[8], Ordering::AcqRel, Ordering::Acquire).unwrap_or(1));
            note(word.compare_exchange(!operands[8], 0, Ordering::SeqCst, Ordering::Relaxed).unwrap_err());
            note(word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |v| Some(v.rotate_left(3))).unwrap_or(2));
            note(word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |_| None).unwrap_err());
            note(word.load(Ordering::Acquire));
            word.store(operands[9], Ordering::Release);
            note(word.load(Ordering::SeqCst));
        }

        #[test]
        fn $case() {
            for round in 0..20 {
                let start = random(41, round) as $int;
                let edges = [0, 1, $int::MAX, $int::MIN];
                let operands: Vec<$int> = (0..10)
                    .map(|i| {
                        let drawn = random(42 + round, i);
                        if drawn % 3 == 0 { edges[drawn as usize / 3 % 4] } else { random(43 + round, i) as $int }
                    })
                    .collect();
                let mut value = start;
                let mut expected = Vec::new();
                let mut step = |after: &dyn Fn($int) -> $int| {
                    expected.push(value);
                    value = after(value);
                };
                step(&|v| v.wrapping_add(operands[0]));
                step(&|v| v.wrapping_sub(operands[1]));
                step(&|v| v.min(operands[2]));
                step(&|v| v.max(operands[3]));
                step(&|v| v & operands[4]);
                step(&|v| v | operands[5]);
                step(&|v| v ^ operands[6]);
                step(&|_| operands[7]);
                step(&|_| operands[8]);
                step(&|v| v);
                step(&|v| v.rotate_left(3));
                step(&|v| v);
                step(&|_| operands[9]);
                step(&|v| v);
                expected.extend([0, 0]);
                check_on_devices(&expected, |stream| {
                    let mut seen = stream.zeroed::<$int>(16)?;
                    let operands = stream.to_device(&operands)?;
                    $name::launch(stream, LaunchConfig::new(1, 1), &mut stream.to_device(&[start])?, &operands, &mut seen)?;
                    stream.to_host(&seen)
                });
            }
        }
    )*};
}
each_integer! {
    each_of_i32 operations_on_i32_give_the_value_before AtomicI32 i32;
    each_of_u32 operations_on_u32_give_the_value_before AtomicU32 u32;
    each_of_i64 operations_on_i64_give_the_value_before AtomicI64 i64;
    each_of_u64 operations_on_u64_give_the_value_before AtomicU64 u64;
}

/// Counts up and down in a ring, in global and in shared memory.
#[kernel]
fn rings(start: u32, limit: u32, up: &AtomicU32, down: &AtomicU32, mut seen: GridSliceMut<u32, Runs<4>>) {
    let own = shared!(AtomicU32);
    // SAFETY: the block has one thread.
    let own = unsafe {
        own.write(AtomicU32::new(start));
        &*own
    };
    let seen = seen.run_mut(&run_idx::<4>());
    seen[0] = up.device().fetch_inc(limit, Ordering::Relaxed);
    seen[1] = down.device().fetch_dec(limit, Ordering::Relaxed);
    seen[2] = own.block().fetch_inc(limit, Ordering::AcqRel);
    seen[3] = own.block().fetch_dec(limit, Ordering::AcqRel);
    up.device().store(up.load(Ordering::Relaxed), Ordering::Relaxed);
}

#[test]
fn increments_and_decrements_wrap_at_their_limit() {
    let up = |v: u32, limit: u32| if v >= limit { 0 } else { v + 1 };
    let down = |v: u32, limit: u32| if v == 0 || v > limit { limit } else { v - 1 };
    for start in [0, 1, 6, 7, 8, u32::MAX] {
        for limit in [0, 1, 7, u32::MAX] {
            let expected = [start, start, start, up(start, limit), up(start, limit), down(start, limit)];
            check_on_devices(&expected, |stream| {
                let (mut a, mut b) = (stream.to_device(&[start])?, stream.to_device(&[start])?);
                let mut seen = stream.zeroed::<u32>(4)?;
                rings::launch(stream, LaunchConfig::new(1, 1), start, limit, &mut a, &mut b, &mut seen)?;
                let mut all = stream.to_host(&seen)?;
                all.extend(stream.to_host(&a)?);
                all.extend(stream.to_host(&b)?);
                Ok(all)
            });
        }
    }
}

/// Everyone counts round and round.
#[kernel]
fn count_round(up: &AtomicU32, down: &AtomicU32, visits: &[AtomicU32]) {
    let place = up.device().fetch_inc(6, Ordering::Relaxed);
    visits[place as usize].device().fetch_add(1, Ordering::Relaxed);
    down.block().fetch_dec(6, Ordering::Relaxed);
}

#[test]
fn a_ring_gives_each_place_to_as_many_threads() {
    check_on_devices(&[100, 100, 100, 100, 100, 100, 100, 0, 0], |stream| {
        let (mut up, mut down) = (stream.zeroed::<u32>(1)?, stream.zeroed::<u32>(1)?);
        let mut visits = stream.zeroed::<u32>(7)?;
        count_round::launch(stream, LaunchConfig::new(1, 700), &mut up, &mut down, &mut visits)?;
        let mut all = stream.to_host(&visits)?;
        all.extend(stream.to_host(&up)?);
        all.extend(stream.to_host(&down)?);
        Ok(all)
    });
}

/// Floats whose pairs are the hard cases.
const EDGES: [f64; 14] = [
    f64::NEG_INFINITY,
    -3.5,
    -1.0,
    -f32::MIN_POSITIVE as f64,
    -1e-40,
    -0.0,
    0.0,
    1e-40,
    f32::MIN_POSITIVE as f64,
    1.0,
    3.5,
    f64::INFINITY,
    f64::NAN,
    -f64::NAN,
];

/// The bits of a float where every NaN counts as the same one, and signed zeros differ.
macro_rules! comparable {
    ($value:expr) => {{
        let value = $value;
        if value.is_nan() { u64::MAX } else { u64::from(value.to_bits()) }
    }};
}

/// What the documentation says of the smaller and the larger one.
macro_rules! extreme {
    ($before:expr, $value:expr, $better:tt) => {{
        let (before, value) = ($before, $value);
        if before.is_nan() {
            value
        } else if value.is_nan() {
            before
        } else if value $better before
            || (value == before && value.is_sign_positive() $better before.is_sign_positive())
        {
            value
        } else {
            before
        }
    }};
}

/// Each pair of the edges: the float in memory and the other, their smaller and larger one, and the values before.
macro_rules! float_extremes {
    ($($name:ident $case:ident $atomic:ident $float:ident $of:expr;)*) => {$(
        #[kernel]
        fn $name(values: &[$float], smallest: &[$atomic], largest: &[$atomic], before: &[$atomic]) {
            let i = global_idx().get();
            if i < smallest.len() {
                let value = values[i % values.len()];
                let seen = smallest[i].device().fetch_min(value, Ordering::Relaxed);
                let other = largest[i].fetch_max(value, Ordering::AcqRel);
                before[2 * i].store(seen, Ordering::Relaxed);
                before[2 * i + 1].store(other, Ordering::Relaxed);
            }
        }

        #[test]
        fn $case() {
            let of: fn(f64) -> $float = $of;
            let values: Vec<$float> = EDGES.iter().map(|v| of(*v)).collect();
            let memory: Vec<$float> = (0..values.len() * values.len()).map(|i| values[i / values.len()]).collect();
            let mut expected = Vec::new();
            for (i, before) in memory.iter().enumerate() {
                let value = values[i % values.len()];
                expected.push(comparable!(extreme!(*before, value, <)));
                expected.push(comparable!(extreme!(*before, value, >)));
                expected.push(comparable!(*before));
                expected.push(comparable!(*before));
            }
            check_on_devices(&expected, |stream| {
                let (mut smallest, mut largest) = (stream.to_device(&memory)?, stream.to_device(&memory)?);
                let mut before = stream.to_device(&vec![of(7.0); 2 * memory.len()])?;
                let config = LaunchConfig::for_len(memory.len());
                $name::launch(stream, config, &stream.to_device(&values)?, &mut smallest, &mut largest, &mut before)?;
                let (smallest, largest) = (stream.to_host(&smallest)?, stream.to_host(&largest)?);
                let before = stream.to_host(&before)?;
                let row = |i: usize| {
                    [
                        comparable!(smallest[i]),
                        comparable!(largest[i]),
                        comparable!(before[2 * i]),
                        comparable!(before[2 * i + 1]),
                    ]
                };
                Ok((0..memory.len()).flat_map(row).collect())
            });
        }
    )*};
}
float_extremes! {
    extremes_of_f32 case_d3_extremes_of_f32_by_the_rule_for_nan_and_signed_zeros AtomicF32 f32 |v| v as f32;
    extremes_of_f64 case_d3_extremes_of_f64_by_the_rule_for_nan_and_signed_zeros AtomicF64 f64 |v| v;
    extremes_of_f16 case_d3_extremes_of_f16_by_the_rule_for_nan_and_signed_zeros AtomicF16 f16 f16::from_f64;
    extremes_of_bf16 case_d3_extremes_of_bf16_by_the_rule_for_nan_and_signed_zeros AtomicBf16 bf16 bf16::from_f64;
}

/// Extremes of numbers of both signs, of which some are NaN, in memory that holds NaN at first.
#[kernel]
fn mixed_signs(values: &[f32], single: &[AtomicF32], double: &[AtomicF64], pairs: &[AtomicF16x2]) {
    if let Some(value) = values.get(global_idx().get()).copied() {
        single[0].device().fetch_min(value, Ordering::Relaxed);
        single[1].device().fetch_max(value, Ordering::Relaxed);
        // A loop of the kernel's own ends too: it compares bits.
        let larger = |before: f32| Some(if before > value || value.is_nan() { before } else { value });
        let _ = single[2].device().fetch_update(Ordering::AcqRel, Ordering::Relaxed, larger);
        double[0].fetch_min(value.into(), Ordering::Relaxed);
        double[1].fetch_max(value.into(), Ordering::Relaxed);
        let pair = F16x2::new(f16::from_f32(value), f16::from_f32(-value));
        pairs[0].device().fetch_min(pair, Ordering::Relaxed);
        pairs[1].device().fetch_max(pair, Ordering::Relaxed);
    }
}

#[test]
fn case_d3_extremes_of_mixed_signs_with_nan_in_memory() {
    // Whole numbers below 2^11 are exact in every type.
    let values: Vec<f32> =
        (0..3000).map(|i| if i % 7 == 3 { f32::NAN } else { (random(44, i) % 2001) as f32 - 1000.0 }).collect();
    let least = values.iter().copied().fold(f32::NAN, f32::min);
    let most = values.iter().copied().fold(f32::NAN, f32::max);
    assert!(least < 0.0 && most > 0.0);
    let expected = [least, most, most, least, most, least, -most, most, -least].map(f32::to_bits);
    check_on_devices(&expected, |stream| {
        for nan in [f32::NAN, -f32::NAN] {
            let mut single = stream.to_device(&[nan; 3])?;
            let mut double = stream.to_device(&[f64::from(nan); 2])?;
            let mut pairs = stream.to_device(&[F16x2::new(f16::from_f32(nan), f16::from_f32(nan)); 2])?;
            let input = stream.to_device(&values)?;
            mixed_signs::launch(
                stream,
                LaunchConfig::for_len(values.len()),
                &input,
                &mut single,
                &mut double,
                &mut pairs,
            )?;
            let mut all = stream.to_host(&single)?;
            all.extend(stream.to_host(&double)?.into_iter().map(|v| v as f32));
            all.extend(stream.to_host(&pairs)?.into_iter().flat_map(|p| [p[0].to_f32(), p[1].to_f32()]));
            let bits: Vec<u32> = all.into_iter().map(f32::to_bits).collect();
            if nan.is_sign_negative() {
                return Ok(bits);
            }
            assert_eq!(bits, expected, "with a positive NaN");
        }
        unreachable!("the second NaN is negative");
    });
}

/// Exact sums in every float, in global memory and in shared memory.
#[kernel]
fn float_sums(
    values: &[u32],
    single: &[AtomicF32],
    double: &[AtomicF64],
    short: &[AtomicF16],
    brain: &[AtomicBf16],
    pairs: &[AtomicF16x2],
    brain_pairs: &[AtomicBf16x2],
) {
    let own = shared!([AtomicF16x2; 2]).cast::<AtomicF16x2>();
    let thread = thread_idx().x as usize;
    if thread < 2 {
        // SAFETY: each of two threads writes its own slot, before the barrier.
        unsafe { own.add(thread).write(AtomicF16x2::default()) };
    }
    sync_threads();
    // SAFETY: both slots were written before the barrier, and are atomics from here on.
    let own = unsafe { &*own.cast::<[AtomicF16x2; 2]>() };
    if let Some(value) = values.get(global_idx().get()).copied() {
        let (f, h, b) = (value as f32, f16::from_f32(value as f32), bf16::from_f32(value as f32));
        single[0].device().fetch_add(f, Ordering::Relaxed);
        double[0].device().fetch_add(f.into(), Ordering::AcqRel);
        double[1].fetch_sub(f.into(), Ordering::Relaxed);
        short[1].device().fetch_add(h, Ordering::Relaxed);
        short[2].device().fetch_sub(h, Ordering::Relaxed);
        brain[1].device().fetch_add(b, Ordering::Relaxed);
        brain[2].device().fetch_sub(b, Ordering::Release);
        pairs[0].device().fetch_add(F16x2::new(h, -h), Ordering::Relaxed);
        brain_pairs[0].device().fetch_add(Bf16x2::new(b, -b), Ordering::Relaxed);
        own[1].block().fetch_add(F16x2::new(-h, h), Ordering::Relaxed);
    }
    sync_threads();
    if thread == 0 {
        pairs[1].device().fetch_add(own[1].block().load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[test]
fn float_sums_are_exact_where_their_type_is() {
    // The sum stays below 2^8, to which all whole numbers are exact in `bf16`.
    let values: Vec<u32> = (0..500).map(|i| u32::from(random(45, i).is_multiple_of(3))).collect();
    let sum = values.iter().sum::<u32>() as f32;
    assert!(sum > 100.0 && sum < 256.0);
    let expected = [sum, sum, -sum, 9.0, sum, -sum, 9.0, sum, -sum, sum, -sum, -sum, sum, sum, -sum];
    check_on_devices(&expected, |stream| {
        let (nine_h, nine_b) = (f16::from_f32(9.0), bf16::from_f32(9.0));
        let input = stream.to_device(&values)?;
        let (mut single, mut double) = (stream.zeroed::<f32>(1)?, stream.zeroed::<f64>(2)?);
        // The first of three halves has a neighbour in its word, which must stay as it is.
        let mut short = stream.to_device(&[nine_h, f16::ZERO, f16::ZERO])?;
        let mut brain = stream.to_device(&[nine_b, bf16::ZERO, bf16::ZERO])?;
        let mut pairs = stream.to_device(&[F16x2::default(); 2])?;
        let mut brain_pairs = stream.to_device(&[Bf16x2::default()])?;
        float_sums::launch(
            stream,
            LaunchConfig::new(5, 128),
            &input,
            &mut single,
            &mut double,
            &mut short,
            &mut brain,
            &mut pairs,
            &mut brain_pairs,
        )?;
        let mut all = stream.to_host(&single)?;
        all.extend(stream.to_host(&double)?.into_iter().map(|v| v as f32));
        all.extend(stream.to_host(&short)?.into_iter().map(f16::to_f32));
        all.extend(stream.to_host(&brain)?.into_iter().map(bf16::to_f32));
        all.extend(stream.to_host(&pairs)?.into_iter().flat_map(|p| [p[0].to_f32(), p[1].to_f32()]));
        all.extend(stream.to_host(&brain_pairs)?.into_iter().flat_map(|p| [p[0].to_f32(), p[1].to_f32()]));
        Ok(all)
    });
}

/// One rounding: every pair of edges, added once.
#[kernel]
fn short_sums(values: &[f16], brain_values: &[bf16], short: &[AtomicF16], brain: &[AtomicBf16]) {
    let i = global_idx().get();
    if i < short.len() {
        short[i].device().fetch_add(values[i % values.len()], Ordering::Relaxed);
        brain[i].device().fetch_add(brain_values[i % values.len()], Ordering::Relaxed);
    }
}

#[test]
fn case_d6_short_floats_round_once_and_keep_subnormals_and_nan() {
    let single: Vec<f32> =
        (0..40u8).map(|i| (random(46, i.into()) as i32 as f32) * (f32::from(i) - 56.0).exp2()).collect();
    let edges = [6e-8f32, -6e-8, 6e-5, 65504.0, 1.0, -0.0, f32::NAN, f32::INFINITY, 1e-40, 3e38];
    let single: Vec<f32> = single.into_iter().chain(edges).collect();
    let values: Vec<f16> = single.iter().map(|v| f16::from_f32(*v)).collect();
    let brain_values: Vec<bf16> = single.iter().map(|v| bf16::from_f32(*v)).collect();
    let count = single.len() * single.len();
    let memory: Vec<f16> = (0..count).map(|i| values[i / values.len()]).collect();
    let brain_memory: Vec<bf16> = (0..count).map(|i| brain_values[i / values.len()]).collect();
    // An f64 holds every sum of two `f16` exactly, and all but the last bits of two `bf16` far apart.
    let expected: Vec<u64> = (0..count)
        .map(|i| comparable!(f16::from_f64(memory[i].to_f64() + values[i % values.len()].to_f64())))
        .chain((0..count).map(|i| comparable!(brain_memory[i] + brain_values[i % values.len()])))
        .collect();
    check_on_devices(&expected, |stream| {
        let (mut short, mut brain) = (stream.to_device(&memory)?, stream.to_device(&brain_memory)?);
        let config = LaunchConfig::for_len(count);
        let (values, brain_values) = (stream.to_device(&values)?, stream.to_device(&brain_values)?);
        short_sums::launch(stream, config, &values, &brain_values, &mut short, &mut brain)?;
        let short = stream.to_host(&short)?.into_iter().map(|v| comparable!(v));
        let brain = stream.to_host(&brain)?.into_iter().map(|v| comparable!(v));
        Ok(short.chain(brain).collect())
    });
}

/// Each block writes plainly and then counts itself; the last one adds up what all wrote.
#[kernel]
fn last_block_adds(parts: &[AtomicU64], done: &AtomicU32, total: &AtomicU64) {
    if thread_idx().x != 0 {
        return;
    }
    let block = u64::from(block_idx().x);
    // SAFETY: the slot is the block's own until it counted itself.
    unsafe { parts[block as usize].as_ptr().write(block * block) };
    if done.device().fetch_add(1, Ordering::AcqRel) + 1 == grid_dim().x {
        // SAFETY: every block released its slot before it counted itself, and this one acquired them all.
        let sum = parts.iter().map(|part| unsafe { part.as_ptr().read() }).sum();
        total.device().store(sum, Ordering::Relaxed);
    }
}

#[test]
fn releasing_and_acquiring_carries_plain_writes_between_blocks() {
    for blocks in [1u32, 2, 33, 1000] {
        let expected = (0..u64::from(blocks)).map(|b| b * b).sum();
        check_on_devices(&[expected], |stream| {
            let mut parts = stream.zeroed::<u64>(blocks as usize)?;
            let (mut done, mut total) = (stream.zeroed::<u32>(1)?, stream.zeroed::<u64>(1)?);
            let config = LaunchConfig::new(blocks, 64);
            last_block_adds::launch(stream, config, &mut parts, &mut done, &mut total)?;
            stream.to_host(&total)
        });
    }
}

/// A lock around plain arithmetic, taken by one thread of each block.
#[kernel]
fn locked_count(lock: &AtomicU32, count: &AtomicU64) {
    let lock = lock.device();
    while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {}
    let count = count.as_ptr();
    // SAFETY: the lock lets one thread in at a time.
    unsafe { count.write(count.read() * 3 % 1_000_003 + 1) };
    lock.store(0, Ordering::Release);
}

#[test]
fn a_lock_lets_one_block_in_at_a_time() {
    let expected = (0..500).fold(0, |count: u64, _| count * 3 % 1_000_003 + 1);
    check_on_devices(&[expected], |stream| {
        let (mut lock, mut count) = (stream.zeroed::<u32>(1)?, stream.zeroed::<u64>(1)?);
        locked_count::launch(stream, LaunchConfig::new(500, 1), &mut lock, &mut count)?;
        stream.to_host(&count)
    });
}

/// The standard library's bytes and pairs of bytes, whose neighbours others change at the same time.
#[kernel]
fn narrow(bytes: &[AtomicU8], shorts: &[AtomicU16], seen: &AtomicU32) {
    let i = global_idx().get();
    let (byte, short) = (&bytes[i % bytes.len()], &shorts[i % shorts.len()]);
    match i / bytes.len() {
        0 => byte.fetch_add(200, Ordering::Relaxed),
        1 => byte.fetch_add(59, Ordering::AcqRel),
        2 => byte.fetch_or(0, Ordering::Acquire),
        _ => byte.fetch_xor(0, Ordering::SeqCst),
    };
    short.fetch_max(i as u16, Ordering::Relaxed);
    short.fetch_or(0x8000, Ordering::Release);
    let _ = short.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
    seen.fetch_add(u32::from(byte.fetch_and(0xff, Ordering::AcqRel) == 3), Ordering::Relaxed);
}

#[test]
fn bytes_and_shorts_leave_their_neighbours_alone() {
    let expected: Vec<u32> = (0..37).map(|_| 3).chain((0..21).map(|_| 0xffff)).collect();
    check_on_devices(&expected, |stream| {
        let (mut bytes, mut shorts) = (stream.zeroed::<u8>(37)?, stream.zeroed::<u16>(21)?);
        let mut seen = stream.zeroed::<u32>(1)?;
        narrow::launch(stream, LaunchConfig::new(4, 37), &mut bytes, &mut shorts, &mut seen)?;
        // Of the two that add to a byte, the later one sees both additions, and the earlier one may.
        let seen = stream.to_host(&seen)?[0];
        assert!((37..=4 * 37).contains(&seen), "{seen}");
        // After the first `or`, the largest is that with the bit, whatever came before.
        let shorts = stream.to_host(&shorts)?.into_iter().map(|v| u32::from(v) | 0x7fff);
        Ok(stream.to_host(&bytes)?.into_iter().map(u32::from).chain(shorts).collect())
    });
}

/// Atomics of a thread's own, which are not in device memory.
#[kernel]
fn on_the_stack(mut output: GridSliceMut<f32>) {
    let i = global_idx();
    let Some(output) = output.get_mut(&i) else { return };
    let (sum, largest, count) = (AtomicF32::new(0.5), AtomicF64::new(-1.0), AtomicU32::new(3));
    let slots = [&sum, &sum];
    for step in 0..=i.get() {
        slots[step % 2].fetch_add(step as f32, Ordering::Relaxed);
        largest.fetch_max(step as f64, Ordering::Relaxed);
        count.block().fetch_inc(5, Ordering::AcqRel);
        count.block().fetch_dec(9, Ordering::AcqRel);
    }
    *output =
        sum.load(Ordering::Relaxed) + largest.load(Ordering::Relaxed) as f32 + count.load(Ordering::Relaxed) as f32;
}

#[test]
fn atomics_on_the_stack_are_plain_values() {
    let expected: Vec<f32> = (0..50u16).map(|i| f32::from(i * (i + 1) / 2) + 0.5 + f32::from(i) + 3.0).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<f32>(50)?;
        on_the_stack::launch(stream, LaunchConfig::for_len(50), &mut output)?;
        stream.to_host(&output)
    });
}

/// Atomics of which only the run tells whether they are the thread's own or everyone's.
#[kernel]
fn here_or_there(places: &[u32], counts: &[AtomicU64], mut output: GridSliceMut<u64>) {
    let i = global_idx();
    let (Some(output), Some(place)) = (output.get_mut(&i), places.get(i.get()).copied()) else { return };
    let own = [const { AtomicU64::new(5) }; 4];
    let mut all: [&AtomicU64; 8] = [&own[0]; 8];
    for (n, slot) in all.iter_mut().enumerate() {
        *slot = if (place >> n) & 1 == 0 { &own[n % 4] } else { &counts[n % 4] };
    }
    let chosen = all[place as usize % 8];
    chosen.fetch_add(7, Ordering::Relaxed);
    let mut before = chosen.load(Ordering::Acquire);
    while let Err(found) = chosen.compare_exchange(before, before + 4, Ordering::AcqRel, Ordering::Relaxed) {
        before = found;
    }
    chosen.device().fetch_max(1, Ordering::Relaxed);
    *output = own.iter().map(|count| count.load(Ordering::Relaxed)).sum();
}

#[test]
fn atomics_work_wherever_a_reference_points() {
    let places: Vec<u32> = (0..500).map(|i| random(47, i) as u32 % 256).collect();
    let is_there = |place: u32| (place >> (place % 8)) & 1 == 1;
    let own = places.iter().map(|place| if is_there(*place) { 20 } else { 31 });
    let mut there = [0u64; 4];
    places.iter().filter(|place| is_there(**place)).for_each(|place| there[(place % 4) as usize] += 11);
    let expected: Vec<u64> = own.chain(there).collect();
    check_on_devices(&expected, |stream| {
        let mut counts = stream.zeroed::<u64>(4)?;
        let mut output = stream.zeroed::<u64>(places.len())?;
        let config = LaunchConfig::for_len(places.len());
        here_or_there::launch(stream, config, &stream.to_device(&places)?, &mut counts, &mut output)?;
        let mut all = stream.to_host(&output)?;
        all.extend(stream.to_host(&counts)?);
        Ok(all)
    });
}
