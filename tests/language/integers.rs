//! Integers: section C of the case list, 128 bits, and the operations std promises exactly.

use warpsmith_tests::{case, mix, zero};

/// Operands around every edge of a signed type of `bits` bits.
fn edges(bits: u32) -> [i64; 10] {
    let max = i64::MAX >> (64 - bits);
    [0, 1, -1, 2, -2, 5, -5, max, -max - 1, max / 3]
}

case! {
    fn case_c1_division_truncates(x: u64) -> u64 {
        let mut total = 0;
        // Else all of it is computed when it is compiled.
        let zero = zero(x) as i32;
        for a in [-6i32, -5, -4, -3, -2, -1, 0, 1, 6, i32::MIN, i32::MAX] {
            for b in [5i32, -5, x as i32 | 1] {
                let (a, b) = (a ^ zero, b ^ zero);
                total = mix(total, a.wrapping_div(b) as u64);
                total = mix(total, a.wrapping_rem(b) as u64);
                total = mix(total, a.wrapping_div_euclid(b) as u64);
                total = mix(total, a.wrapping_rem_euclid(b) as u64);
            }
        }
        total
    }
}

case! {
    fn case_c1_wide_and_unsigned_division(x: u64) -> u64 {
        let zero = zero(x);
        let big = (-(1i64 << 40) - 3) + zero as i64;
        let unsigned = 4_294_967_290u32 + zero as u32;
        let mut total = mix((big / 7) as u64, (big % 7) as u64);
        total = mix(total, u64::from(unsigned % 5) << 32 | u64::from(unsigned / 5));
        mix(total, (i32::MIN + zero as i32) as i64 as u64 ^ ((i32::MIN + zero as i32) % 5) as u64)
    }
}

case! {
    fn case_c1_division_by_every_width(x: u64) -> u64 {
        let y = x.rotate_left(23) | 1;
        let mut total = 0;
        total = mix(total, u64::from(x as u8 / (y as u8)) | u64::from(x as u8 % (y as u8)) << 8);
        total = mix(total, u64::from(x as u16 / (y as u16)) | u64::from(x as u16 % (y as u16)) << 16);
        total = mix(total, (x as i8).wrapping_div(y as i8) as u64);
        total = mix(total, (x as i8).wrapping_rem(y as i8) as u64);
        total = mix(total, (x as i16).wrapping_div(y as i16) as u64);
        total = mix(total, (x as i16).wrapping_rem(y as i16) as u64);
        total = mix(total, (x as i64).wrapping_div(y as i64) as u64);
        total = mix(total, (x as i64).wrapping_rem(y as i64) as u64);
        mix(total, (x / y) ^ (x % y))
    }
}

case! {
    /// Quotient and remainder of the same operands, together and apart.
    fn case_c2_quotient_and_remainder_together(x: u64) -> u64 {
        let a = x as i32;
        let b = (x >> 32) as i32 | 3;
        let (q, r) = (a.wrapping_div(b), a.wrapping_rem(b));
        let back = q.wrapping_mul(b).wrapping_add(r);
        let (c, d) = (x, x.rotate_right(40) | 1);
        u64::from(back == a) | u64::from((c / d) * d + c % d == c) << 1 | (q as u32 as u64) << 2 ^ (r as u32 as u64) << 30
    }
}

case! {
    fn case_c3_unsigned_compares(x: u64) -> u64 {
        let zero = zero(x);
        let mut flags = 0;
        for flag in [
            2_147_483_648u32 + zero as u32 > 0,
            9_223_372_036_854_775_808u64 + zero > 0,
            (zero as u8).wrapping_sub(1) > 127,
            x > u64::MAX / 2,
            (x as i64) > (u64::MAX / 2) as i64,
            x as u16 > 0x8000,
            (x as i16) < -1,
            (x as u8) < x as u8 ^ 0x80,
        ] {
            flags = flags << 1 | u64::from(flag);
        }
        flags
    }
}

case! {
    fn case_c3_bool_to_integer(x: u64) -> u64 {
        let yes = x & 1 == 0;
        let no = !yes;
        (yes as i32 as u64) | (no as u8 as u64) << 8 | u64::from(yes ^ no) << 16 | u64::from(yes & no | yes) << 24
    }
}

case! {
    fn case_c4_bit_operations(x: u64) -> u64 {
        let mut total = 0;
        macro_rules! all {
            ($($int:ty),*) => {$(
                for v in [x as $int, 0, <$int>::MAX, !0, <$int>::MIN, 1, <$int>::MAX ^ 1] {
                    let v = v ^ zero(x) as $int;
                    total = mix(total, v.count_ones().into());
                    total = mix(total, v.count_zeros().into());
                    total = mix(total, v.leading_zeros().into());
                    total = mix(total, v.trailing_zeros().into());
                    total = mix(total, v.leading_ones().into());
                    total = mix(total, v.trailing_ones().into());
                    total = mix(total, v.reverse_bits() as u64);
                    total = mix(total, v.swap_bytes() as u64);
                    total = mix(total, v.rotate_left(3) as u64);
                    total = mix(total, v.rotate_right((x % 70) as u32) as u64);
                }
            )*};
        }
        all!(u8, u16, u32, u64, i8, i16, i32, i64);
        total
    }
}

case! {
    fn case_c5_mixed_width_index(x: u64) -> u64 {
        let values: [u64; 32] = std::array::from_fn(|i| i as u64 * 3 + 1);
        let block = (x % 4) as i32;
        let mut total = 0;
        let mut i: i64 = -8;
        while i < 8 {
            let at = i + i64::from(block) * 8;
            if at >= 0 {
                total = mix(total, values[at as usize]);
            }
            i += 1;
        }
        total
    }
}

case! {
    fn case_c6_wide_constants(x: u64) -> u64 {
        const C: i64 = 0x1234_5678_9abc;
        let signed = (x & 0xffff) as i64;
        let exact = 9_007_199_254_740_993u64 + zero(x);
        mix((-C * signed) as u64, exact).wrapping_add((-C).wrapping_mul(x as i64) as u64)
    }
}

case! {
    fn case_c6_u128(x: u64) -> u64 {
        let a = u128::from(x) << 64 | u128::from(!x);
        let b = u128::from(x.rotate_left(13)) << 32 | 1;
        let mut total = 0;
        for v in [
            a.wrapping_add(b),
            a.wrapping_sub(b),
            a.wrapping_mul(b),
            a / b,
            a % b,
            a >> (x % 128),
            a << (x % 128),
            a & b | a ^ b,
            u128::from(x) * u128::from(!x),
            a.rotate_left((x % 200) as u32),
            a.saturating_add(b << 60),
            a.checked_mul(b).unwrap_or(77),
        ] {
            total = mix(mix(total, v as u64), (v >> 64) as u64);
        }
        mix(total, u64::from(a.leading_zeros() * 1000 + a.trailing_zeros() + b.count_ones()) << 1 | u64::from(a < b))
    }
}

case! {
    fn case_c6_i128(x: u64) -> u64 {
        let a = i128::from(x as i64) * i128::from(x.rotate_left(29) as i64);
        let b = i128::from(x.swap_bytes() as i64) | 1;
        let mut total = 0;
        for v in [
            a.wrapping_div(b),
            a.wrapping_rem(b),
            a.wrapping_neg(),
            a >> 3,
            a >> (x % 128),
            a.wrapping_div_euclid(b),
            a.wrapping_rem_euclid(b),
            a.wrapping_mul(b),
            a.signum(),
        ] {
            total = mix(mix(total, v as u64), (v >> 64) as u64);
        }
        mix(total, u64::from(a < b) | u64::from(a.is_negative()) << 1)
    }
}

case! {
    fn case_c6_u128_and_floats(x: u64) -> u64 {
        let a = u128::from(x) << (x % 65) | u128::from(x >> 7);
        let mut total = 0;
        total = mix(total, (a as f64).to_bits());
        total = mix(total, u64::from((a as f32).to_bits()));
        total = mix(total, ((a as i128).wrapping_neg() as f64).to_bits());
        for float in [f64::from_bits(x), x as f64 * 1e15, -1.5, f64::NAN, f64::INFINITY, -f64::INFINITY, 1e38] {
            let unsigned = float as u128;
            let signed = float as i128;
            total = mix(mix(total, unsigned as u64), (unsigned >> 64) as u64);
            total = mix(mix(total, signed as u64), (signed >> 64) as u64);
            let single = float as f32;
            total = mix(mix(total, single as u128 as u64), (single as i128 >> 64) as u64);
        }
        total
    }
}

case! {
    fn case_c_checked_family(x: u64) -> u64 {
        let mut total = 0;
        macro_rules! all {
            ($($int:ty),*) => {$({
                let a = x as $int;
                let b = x.rotate_left(31) as $int;
                for v in [
                    a.checked_add(b),
                    a.checked_sub(b),
                    a.checked_mul(b),
                    a.checked_div(b),
                    a.checked_rem(b),
                    a.checked_shl(b as u32),
                    a.checked_shr(b as u32),
                    a.checked_neg(),
                    a.checked_pow(3),
                    Some(a.saturating_add(b)),
                    Some(a.saturating_sub(b)),
                    Some(a.saturating_mul(b)),
                    Some(a.wrapping_add(b)),
                    Some(a.wrapping_sub(b)),
                    Some(a.wrapping_mul(b)),
                    Some(a.wrapping_shl(b as u32)),
                    Some(a.wrapping_shr(b as u32)),
                    Some(a.wrapping_neg()),
                    Some(a.wrapping_pow(7)),
                    Some(a.abs_diff(b) as $int),
                    Some(a.isqrt_or_zero()),
                ] {
                    total = mix(total, v.map_or(0x5555, |v| v as u64));
                }
            })*};
        }
        /// `isqrt` panics for negative values, which other cases have.
        trait IsqrtOrZero {
            fn isqrt_or_zero(self) -> Self;
        }
        macro_rules! isqrt {
            ($($int:ty),*) => {$(
                impl IsqrtOrZero for $int {
                    fn isqrt_or_zero(self) -> $int {
                        #[allow(unused_comparisons, reason = "unsigned types pass here too")]
                        if self < 0 { 0 } else { self.isqrt() }
                    }
                }
            )*};
        }
        isqrt!(u8, u16, u32, u64, i8, i16, i32, i64);
        all!(u8, u16, u32, u64, i8, i16, i32, i64);
        total
    }
}

case! {
    fn case_c_edge_pairs_i8_i16(x: u64) -> u64 {
        let mut total = x;
        for a in edges(8) {
            for b in edges(8) {
                let (a, b) = (a as i8 ^ (x & 1) as i8, b as i8);
                total = mix(total, a.wrapping_add(b) as i64 as u64);
                total = mix(total, a.wrapping_sub(b) as i64 as u64);
                total = mix(total, a.wrapping_mul(b) as i32 as u64);
                total = mix(total, a.wrapping_neg() as i64 as u64);
            }
        }
        for a in edges(16) {
            for b in edges(16) {
                let (a, b) = (a as i16 ^ (x & 1) as i16, b as i16);
                total = mix(total, a.wrapping_add(b) as i64 as u64);
                total = mix(total, a.wrapping_sub(b) as i64 as u64);
                total = mix(total, a.wrapping_mul(b) as i32 as u64);
                total = mix(total, a.wrapping_neg() as i64 as u64);
            }
        }
        total
    }
}

case! {
    fn case_c_edge_pairs_i32_i64(x: u64) -> u64 {
        let mut total = x;
        for a in edges(32) {
            for b in edges(64) {
                let (narrow, other) = (a as i32 ^ (x & 1) as i32, b as i32);
                total = mix(total, narrow.wrapping_add(other) as i64 as u64);
                total = mix(total, narrow.wrapping_mul(other) as i64 as u64);
                total = mix(total, narrow.wrapping_sub(other) as u32 as u64);
                let wide = a ^ (x & 1) as i64;
                total = mix(total, wide.wrapping_mul(b) as u64);
                total = mix(total, wide.wrapping_sub(b).wrapping_abs() as u64);
                total = mix(total, wide.max(b) as u64 ^ wide.min(b) as u64);
                total = mix(total, wide.clamp(-5, 1000) as u64);
            }
        }
        total
    }
}

case! {
    fn case_c_conversions(x: u64) -> u64 {
        let mut total = 0;
        total = mix(total, u8::try_from(x).map_or(1, u64::from));
        total = mix(total, i8::try_from(x as i64).map_or(1, |v| v as u64));
        total = mix(total, u32::try_from(x as i64).map_or(1, u64::from));
        total = mix(total, i32::try_from(x).map_or(1, |v| v as u64));
        total = mix(total, u64::try_from(x as i64).unwrap_or(3));
        total = mix(total, char::try_from(x as u32).map_or(1, u64::from));
        total = mix(total, u64::from_be_bytes(x.to_le_bytes()));
        total = mix(total, x as i8 as i64 as u64);
        total = mix(total, x as i16 as u32 as u64);
        mix(total, x as u8 as char as u64)
    }
}

case! {
    fn case_c_parse_and_print(x: u64) -> u64 {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = x;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let text = std::str::from_utf8(&digits[at..]).unwrap_or("");
        let back: u64 = text.parse().unwrap_or(1);
        let signed: Result<i32, _> = text.parse();
        mix(back, signed.map_or(7, |v| v as u64) ^ u64::from(back == x))
    }
}
