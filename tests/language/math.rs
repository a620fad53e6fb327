//! What `warpsmith::math` computes exactly: the same bits on the host, the CPU executor and a GPU.

use warpsmith::math::*;
use warpsmith_tests::{case, mix};

/// The bits of a float, with one pattern for every NaN.
fn bits(value: f64) -> u64 {
    if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() }
}

fn bits32(value: f32) -> u64 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits().into() }
}

/// Operands at every edge, and some made of `x`'s bits.
fn operands(x: u64) -> [f64; 14] {
    let near_one = f64::from_bits(x >> 12 | 1023 << 52);
    [
        0.0,
        -0.0,
        1.0,
        -near_one,
        near_one * 3.0,
        5e-324,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
        f64::from_bits(x),
        f64::from_bits(x.rotate_left(32)),
        x as f64,
        near_one * 1e-300,
    ]
}

fn operands32(x: u64) -> [f32; 14] {
    let near_one = f32::from_bits(x as u32 >> 9 | 127 << 23);
    [
        0.0,
        -0.0,
        1.0,
        -near_one,
        near_one * 3.0,
        1e-45,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::from_bits(x as u32),
        f32::from_bits((x >> 32) as u32),
        x as f32,
        near_one * 1e-38,
    ]
}

macro_rules! fold {
    ($total:ident $bits:ident: $($value:expr),* $(,)?) => { $( $total = mix($total, $bits($value)); )* };
}

case! {
    fn directed_f32(x: u64) -> u64 {
        let mut total = 0;
        let all = operands32(x);
        for (i, &a) in all.iter().enumerate() {
            fold!(total bits32: sqrt_rn(a), sqrt_rz(a), sqrt_ru(a), sqrt_rd(a), rcp_rn(a), rcp_rz(a), rcp_ru(a), rcp_rd(a));
            for &b in &all {
                fold!(total bits32:
                    add_rn(a, b), add_rz(a, b), add_ru(a, b), add_rd(a, b),
                    sub_rn(a, b), sub_rz(a, b), sub_ru(a, b), sub_rd(a, b),
                    mul_rn(a, b), mul_rz(a, b), mul_ru(a, b), mul_rd(a, b),
                    div_rn(a, b), div_rz(a, b), div_ru(a, b), div_rd(a, b),
                );
                for c in [all[(i + 3) % 14], -a * b, 1.0] {
                    fold!(total bits32: fma_rn(a, b, c), fma_rz(a, b, c), fma_ru(a, b, c), fma_rd(a, b, c));
                }
            }
        }
        total
    }
}

case! {
    fn directed_f64(x: u64) -> u64 {
        let mut total = 0;
        let all = operands(x);
        for (i, &a) in all.iter().enumerate() {
            fold!(total bits: sqrt_rn(a), sqrt_rz(a), sqrt_ru(a), sqrt_rd(a), rcp_rn(a), rcp_rz(a), rcp_ru(a), rcp_rd(a));
            for &b in &all {
                fold!(total bits:
                    add_rn(a, b), add_rz(a, b), add_ru(a, b), add_rd(a, b),
                    sub_rn(a, b), sub_rz(a, b), sub_ru(a, b), sub_rd(a, b),
                    mul_rn(a, b), mul_rz(a, b), mul_ru(a, b), mul_rd(a, b),
                    div_rn(a, b), div_rz(a, b), div_ru(a, b), div_rd(a, b),
                );
                for c in [all[(i + 3) % 14], -a * b, 1.0] {
                    fold!(total bits: fma_rn(a, b, c), fma_rz(a, b, c), fma_ru(a, b, c), fma_rd(a, b, c));
                }
            }
        }
        total
    }
}

/// Floats around every place where a conversion changes its answer.
fn to_convert(x: u64) -> [f64; 20] {
    let fraction = (x % 1000) as f64 / 1000.0;
    [
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        126.5,
        127.5,
        255.5,
        -128.5,
        65535.5,
        32767.5,
        2_147_483_647.5,
        4_294_967_295.5,
        9.3e18,
        -9.3e18,
        1.9e19,
        f64::NAN,
        f64::INFINITY,
        f64::from_bits(x),
        (x % 70000) as f64 - 35000.0 + fraction,
    ]
}

case! {
    fn case_d1_conversions_with_rounding(x: u64) -> u64 {
        let mut total = 0;
        for a in to_convert(x) {
            let s = a as f32;
            macro_rules! integers {
                ($($name:ident)*) => { $( total = mix(total, $name(a) as u64); total = mix(total, $name(s) as u64); )* };
            }
            integers! {
                to_i8_rn to_u8_rn to_i16_rn to_u16_rn to_i32_rn to_i32_ru to_i32_rd to_u32_rn to_u32_ru to_u32_rd
                to_i64_rn to_i64_ru to_i64_rd to_u64_rn to_u64_ru to_u64_rd
            }
            fold!(total bits32: to_f32_rz(a), to_f32_ru(a), to_f32_rd(a), saturate(s));
            fold!(total bits: saturate(a));
            fold!(total bits32:
                to_f16_rn(a).to_f32(), to_f16_rz(a).to_f32(), to_f16_ru(a).to_f32(), to_f16_rd(a).to_f32(),
                to_f16_rn(s).to_f32(), to_f16_rz(s).to_f32(), to_f16_ru(s).to_f32(), to_f16_rd(s).to_f32(),
            );
        }
        let (i, j) = (x as i32, x as i64);
        fold!(total bits32: to_f32_rz(i), to_f32_ru(i), to_f32_rd(i), to_f32_rz(j), to_f32_ru(j), to_f32_rd(j));
        fold!(total bits32: to_f32_rz(x as u32), to_f32_ru(x as u32), to_f32_rd(x as u32), to_f32_rz(x), to_f32_ru(x), to_f32_rd(x));
        fold!(total bits: to_f64_rz(j), to_f64_ru(j), to_f64_rd(j), to_f64_rz(x), to_f64_ru(x), to_f64_rd(x));
        total
    }
}

case! {
    fn integer_instructions(x: u64) -> u64 {
        let (a, b) = (x as u32, (x >> 32) as u32);
        let y = x.rotate_left(27) ^ 0x1234_5678_9abc_def0;
        let (i, j, c) = (a as i32, y as i32, y as u32);
        let mut total = mix(u64::from(mul_hi(a, c)), mul_hi(i, j) as u64);
        total = mix(total, mul_hi(x, y));
        total = mix(total, mul_hi(x as i64, y as i64) as u64);
        total = mix(total, u64::from(brev(a)) ^ brev(x));
        for found in [bfind(a), bfind(i), bfind(x), bfind(x as i64), bfind(0u32), bfind(-1i64)] {
            total = mix(total, found.into());
        }
        for position in [0, 1, 5, 31, 32, 33, 63, 64, 200, 255, 256, 300] {
            for len in [0, 1, 4, 8, 31, 32, 33, 63, 64, 65, 255, 256] {
                total = mix(total, u64::from(bfe(a, position, len)) ^ bfe(i, position, len) as u64);
                total = mix(total, bfe(x, position, len));
                total = mix(total, bfe(x as i64, position, len) as u64);
                total = mix(total, u64::from(bfi(a, c, position, len)) ^ bfi(i, j, position, len) as u64);
                total = mix(total, bfi(x, y, position, len));
            }
        }
        for shift in [0, 1, 7, 31, 32, 33, 40, u32::MAX] {
            total = mix(total, funnel_shift_l(a, b, shift).into());
            total = mix(total, funnel_shift_lc(a, b, shift).into());
            total = mix(total, funnel_shift_r(a, b, shift).into());
            total = mix(total, funnel_shift_rc(a, b, shift).into());
        }
        for selector in [0x3210, 0x7654, 0x0123, 0x8f1a, b] {
            total = mix(total, byte_perm(a, c, selector).into());
        }
        total = mix(total, u64::from(sad(i, j, b)) ^ u64::from(usad(a, c, b)) << 32);
        total = mix(total, dp4a(i, j, b as i32) as u64);
        total = mix(total, dp4a_u32(a, c, b).into());
        total = mix(total, dp4a_us(a, j, b as i32) as u64);
        total = mix(total, dp4a_su(i, c, b as i32) as u64);
        total = mix(total, dp2a_lo(i, j, b as i32) as u64 ^ (dp2a_hi(i, j, b as i32) as u64) << 32);
        mix(total, u64::from(dp2a_lo_u32(a, c, b)) ^ u64::from(dp2a_hi_u32(a, c, b)) << 32)
    }
}

#[test]
fn integer_instructions_do_what_their_names_say() {
    assert_eq!(mul_hi(i32::MIN, i32::MIN), 1 << 30);
    assert_eq!(byte_perm(0x3322_1100, 0x7766_5544, 0x7410), 0x7744_1100);
    assert_eq!(funnel_shift_l(0x8000_0000, 1, 1), 3);
    assert_eq!(funnel_shift_r(0, 1, 1), 0x8000_0000);
    assert_eq!([funnel_shift_lc(7, 9, 40), funnel_shift_rc(7, 9, 40)], [7, 9]);
    assert_eq!([bfind(0u32), bfind(1u32), bfind(-1i32), bfind(-2i64), bfind(u64::MAX)], [u32::MAX, 0, u32::MAX, 0, 63]);
    assert_eq!([bfe(0xabcdu32, 4, 8), bfi(0xff_u32, 0, 4, 4)], [0xbc, 0xf0]);
    assert_eq!([bfe(-1i32, 28, 8), bfe(0x80i32, 4, 4)], [-1, -8]);
    assert_eq!(dp4a(0x0102_03ff, 0x0101_0101, 10), 15);
    assert_eq!(dp4a_u32(0x0102_03ff, 0x0101_0101, 10), 271);
    assert_eq!([dp4a_us(0xff, 0xff, 0), dp4a_su(0xff, 0xff, 0)], [-255, -255]);
    assert_eq!([dp2a_lo(0x0001_ffff, 0x0403_0201, 0), dp2a_hi(0x0001_ffff, 0x0403_0201, 0)], [1, 1]);
    assert_eq!([sad(-3, 4, 1), usad(3, 4, 1)], [8, 2]);
    assert_eq!([to_i32_rn(2.5f32), to_i32_rn(-3.5f64), to_i32_ru(2.1f32), to_i32_rd(-2.1f32)], [2, -4, 3, -3]);
    assert_eq!([to_u8_rn(300.0f32), to_u8_rn(-5.0f32), to_u8_rn(f32::NAN), to_u8_rn(2.5f64)], [255, 0, 0, 2]);
    assert_eq!([saturate(1.5f32), saturate(-2.0f32), saturate(f32::NAN), saturate(0.25f32)], [1.0, 0.0, 0.0, 0.25]);
}

case! {
    /// Arithmetic and conversions of `half`: software on some hosts, instructions on a GPU.
    fn case_d6_half_arithmetic(x: u64) -> u64 {
        use half::{bf16, f16};
        let half = |v: f16| bits32(v.to_f32());
        let brain = |v: bf16| bits32(v.to_f32());
        let mut total = 0;
        for a in [x as u16, (x >> 16) as u16, 1, 0x8001, 0x03ff, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x0080] {
            for b in [(x >> 32) as u16, (x >> 48) as u16, 0x3c00, 0x0001, 0x7bff, 0x3f80] {
                let (p, q) = (f16::from_bits(a), f16::from_bits(b));
                fold!(total half: p + q, p - q, p * q, p / q, p % q, -p, p.max(q), p.min(q), p.copysign(q), p.signum());
                total = mix(total, p.partial_cmp(&q).map_or(9, |order| order as i8 as u64));
                total = mix(total, bits(p.to_f64()) ^ u64::from(p.is_normal()) ^ p.classify() as u64);
                let (p, q) = (bf16::from_bits(a), bf16::from_bits(b));
                fold!(total brain: p + q, p - q, p * q, p / q, p % q, -p, p.max(q), p.min(q), p.copysign(q), p.signum());
                total = mix(total, p.partial_cmp(&q).map_or(9, |order| order as i8 as u64));
                total = mix(total, bits(p.to_f64()) ^ u64::from(p.is_normal()) ^ p.classify() as u64);
            }
        }
        for wide in [f64::from_bits(x), x as f64, (x % 100_000) as f64 / 3.0, 65520.0, 65519.99, 6e-8, 2.9e-8, 1e-40] {
            fold!(total half: f16::from_f64(wide), f16::from_f32(wide as f32));
            fold!(total brain: bf16::from_f64(wide), bf16::from_f32(wide as f32));
        }
        total
    }
}

case! {
    /// Sums of ones in `f32`: 2048, where `f16` would stick, is passed; in `f16` it is not.
    fn case_d6_sums_of_ones(x: u64) -> u64 {
        use half::{bf16, f16};
        let count = 3000 + x % 7;
        let ones = (0..count).map(|i| f16::from_f32(if i > x % 3 { 1.0 } else { 1.0 }));
        let wide: f32 = ones.clone().map(f16::to_f32).sum();
        let narrow = ones.clone().fold(f16::ZERO, |sum, one| sum + one);
        let total: f16 = ones.sum();
        let brain = (0..count).fold(bf16::ZERO, |sum, _| sum + bf16::ONE);
        mix(mix(bits32(wide), bits32(narrow.to_f32())), bits32(brain.to_f32()) ^ bits32(total.to_f32()) << 32)
    }
}

#[test]
fn half_sums_stick_where_they_must() {
    use half::{bf16, f16};
    let sum = (0..3000).fold(f16::ZERO, |sum, _| sum + f16::ONE);
    assert_eq!(sum.to_f32(), 2048.0);
    assert_eq!((0..3000).map(|_| f16::ONE.to_f32()).sum::<f32>(), 3000.0);
    assert!(bf16::from_f32(f32::NAN).is_nan());
    assert_eq!(bf16::from_f32(1e-40).to_f32(), bf16::from_bits(1).to_f32());
    assert_eq!(bf16::from_f32(1.0 + 2f32.powi(-8)).to_f32(), 1.0, "ties go to even");
}
