//! Floats: section D of the case list, each single operation bit for bit as the host has it.

use warpsmith_tests::{case, mix, zero};

/// Floats that end up at every edge: signs, halves, subnormals, infinities, and `x`'s own bits.
fn edges(x: u64) -> [f64; 16] {
    [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        12.3,
        -12.3,
        1e300,
        5e-324,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::from_bits(x),
        x as f64,
    ]
    // Else what is done with the first ones is computed when it is compiled.
    .map(|v: f64| f64::from_bits(v.to_bits() ^ zero(x)))
}

/// The bits of a float, with one pattern for every NaN: which NaN an operation makes is open.
fn bits(value: f64) -> u64 {
    if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() }
}

fn bits32(value: f32) -> u64 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits().into() }
}

case! {
    fn case_d1_casts_from_f64(x: u64) -> u64 {
        let mut total = 0;
        for v in edges(x) {
            total = mix(total, v as u8 as u64);
            total = mix(total, v as i8 as u64);
            total = mix(total, v as u16 as u64);
            total = mix(total, v as i16 as u64);
            total = mix(total, v as u32 as u64);
            total = mix(total, v as i32 as u64);
            total = mix(total, v as u64);
            total = mix(total, v as i64 as u64);
            total = mix(total, v as usize as u64);
            total = mix(total, bits32(v as f32));
        }
        total
    }
}

case! {
    fn case_d1_casts_from_f32(x: u64) -> u64 {
        let mut total = 0;
        for v in edges(x) {
            let v = v as f32;
            total = mix(total, v as u8 as u64);
            total = mix(total, v as i8 as u64);
            total = mix(total, v as u16 as u64);
            total = mix(total, v as i16 as u64);
            total = mix(total, v as u32 as u64);
            total = mix(total, v as i32 as u64);
            total = mix(total, v as u64);
            total = mix(total, v as i64 as u64);
            total = mix(total, bits(v.into()));
        }
        let bits = f32::from_bits(x as u32);
        mix(total, bits as i32 as u64)
    }
}

case! {
    fn case_d1_casts_to_floats(x: u64) -> u64 {
        let mut total = 0;
        total = mix(total, bits(x as f64));
        total = mix(total, bits(x as i64 as f64));
        total = mix(total, bits(x as u32 as f64));
        total = mix(total, bits(x as i32 as f64));
        total = mix(total, bits32(x as f32));
        total = mix(total, bits32(x as i64 as f32));
        total = mix(total, bits32(x as u32 as f32));
        total = mix(total, bits32(x as i32 as f32));
        total = mix(total, bits32(x as i16 as f32));
        total = mix(total, bits32(x as u8 as f32));
        mix(total, bits32(f64::from_bits(x) as f32))
    }
}

case! {
    fn case_d1_casts_from_half(x: u64) -> u64 {
        use half::{bf16, f16};
        let mut total = 0;
        let zero = zero(x) as u16;
        for v in [f16::from_f32(12.3), f16::from_f32(-12.3), f16::from_bits(x as u16), f16::MAX] {
            let wide = f16::from_bits(v.to_bits() ^ zero).to_f32();
            total = mix(total, bits32(wide));
            total = mix(total, wide as i8 as u64 ^ (wide as u16 as u64) << 32);
            total = mix(total, wide as u8 as u64 ^ (wide as i16 as u64) << 32);
            total = mix(total, u64::from(wide as u32) ^ (wide as i32 as u64) << 32);
            total = mix(mix(total, wide as u64), wide as i64 as u64);
        }
        for v in [bf16::from_f32(12.3), bf16::from_f32(-12.3), bf16::from_bits(x as u16), bf16::MIN_POSITIVE] {
            total = mix(total, bits(bf16::from_bits(v.to_bits() ^ zero).to_f64()));
        }
        total = mix(total, f16::from_f64(x as f64).to_bits().into());
        total = mix(total, f16::from_f32(x as u16 as f32 / 3.0).to_bits().into());
        mix(total, bf16::from_f32(x as u32 as f32 / 3.0).to_bits().into())
    }
}

case! {
    /// `1 + 2^-30` squared minus `1 + 2^-29`: 0 with two roundings, `2^-60` fused.
    fn case_d4_no_contraction(x: u64) -> u64 {
        let a = 1.0 + 2f64.powi(-30) + zero(x) as f64;
        let c = -(1.0 + 2f64.powi(-29)) + zero(x) as f64;
        let apart = a * a + c;
        let fused = a.mul_add(a, c);
        u64::from(apart == 0.0) | u64::from(fused == 2f64.powi(-60)) << 1
    }
}

case! {
    fn case_d4_arithmetic(x: u64) -> u64 {
        let mut total = 0;
        let y = f64::from_bits(x.rotate_left(20));
        for v in edges(x) {
            total = mix(total, bits(v + y));
            total = mix(total, bits(v - y));
            total = mix(total, bits(v * y));
            total = mix(total, bits(v / y));
            total = mix(total, bits(v * y + v));
            total = mix(total, bits(-v));
            total = mix(total, bits(v.mul_add(y, -v)));
            total = mix(total, bits(v.sqrt()));
            let (v, y) = (v as f32, y as f32);
            total = mix(total, bits32(v + y));
            total = mix(total, bits32(v * y - v));
            total = mix(total, bits32(v / y));
            total = mix(total, bits32(v.sqrt()));
            total = mix(total, bits32(v.mul_add(v, y)));
        }
        total
    }
}

case! {
    fn case_d4_subnormals_are_kept(x: u64) -> u64 {
        let tiny = f32::from_bits(x as u32 & 0x7f_ffff);
        let low = f64::from_bits(x & 0xf_ffff_ffff_ffff);
        let mut total = bits32(tiny + tiny);
        total = mix(total, bits32(tiny * 0.5));
        total = mix(total, bits32(tiny / 3.0));
        total = mix(total, bits32(tiny.sqrt()));
        total = mix(total, bits32(f32::MIN_POSITIVE * tiny.max(0.75)));
        total = mix(total, bits(low * 0.25 + low));
        mix(total, bits(f64::from(tiny) / 7.0))
    }
}

case! {
    fn case_d_rounding(x: u64) -> u64 {
        let mut total = 0;
        for v in edges(x) {
            total = mix(total, bits(v.floor()));
            total = mix(total, bits(v.ceil()));
            total = mix(total, bits(v.trunc()));
            total = mix(total, bits(v.round()));
            total = mix(total, bits(v.round_ties_even()));
            total = mix(total, bits(v.fract()));
            let v = v as f32;
            total = mix(total, bits32(v.floor()));
            total = mix(total, bits32(v.ceil()));
            total = mix(total, bits32(v.trunc()));
            total = mix(total, bits32(v.round()));
            total = mix(total, bits32(v.round_ties_even()));
        }
        total
    }
}

case! {
    fn case_d2_min_max_and_nan(x: u64) -> u64 {
        let mut total = 0;
        for a in edges(x) {
            for b in edges(!x) {
                // The sign of a zero is open when both are zeros.
                total = mix(total, bits(a.max(b) + 0.0));
                total = mix(total, bits(a.min(b) + 0.0));
                let order = a.total_cmp(&b) as i8 as u64;
                total = mix(total, if a.is_nan() || b.is_nan() { 5 } else { order });
                total = mix(total, a.partial_cmp(&b).map_or(9, |v| v as i8 as u64));
            }
            total = mix(total, bits(a.clamp(-1.0, 100.0)));
        }
        total
    }
}

case! {
    fn case_d7_signs_and_classes(x: u64) -> u64 {
        let mut total = 0;
        for v in edges(x) {
            total = mix(total, bits(v.abs()));
            total = mix(total, bits(v.signum()));
            total = mix(total, bits(v.copysign(-3.0)));
            total = mix(total, u64::from(v.is_nan()) | u64::from(v.is_finite()) << 1 | u64::from(v.is_infinite()) << 2);
            total = mix(total, v.classify() as u64);
            total = mix(total, u64::from(!v.is_nan() && v.is_sign_negative()));
            let v = v as f32;
            total = mix(total, bits32(v.abs()) ^ bits32(v.signum()) ^ u64::from(v.is_normal()));
        }
        total
    }
}

case! {
    fn case_d7_infinities(x: u64) -> u64 {
        let zero = zero(x) as f64;
        let mut total = bits(2.0 / zero);
        total = mix(total, bits(-2.0 / zero));
        total = mix(total, bits(zero / zero));
        total = mix(total, bits(zero.ln()));
        total = mix(total, bits((800.0 + zero).exp()));
        total = mix(total, bits((-800.0 + zero).exp()));
        total = mix(total, bits((-1.0 + zero).sqrt()));
        total = mix(total, bits((f64::INFINITY + zero) - f64::INFINITY));
        mix(total, bits32((zero as f32).ln()) ^ bits32((100.0 + zero as f32).exp()))
    }
}

case! {
    /// `%` is exact; also where quotient and operands are far apart.
    fn case_l1_remainder_of_floats(x: u64) -> u64 {
        let mut total = 0;
        let far = [1e300, 3e-300, 5e-324, 1.0, -7.5, 0.1, f64::MAX, f64::MIN_POSITIVE, f64::from_bits(x), x as f64];
        for a in far {
            for b in far {
                total = mix(total, bits(a % b));
                total = mix(total, bits32(a as f32 % b as f32));
            }
            total = mix(total, bits(a.rem_euclid(3.7)));
            total = mix(total, bits(a.div_euclid(3.7)));
        }
        total
    }
}

/// How far apart two floats may be for a function that is not correctly rounded on either side.
fn close(a: f64, b: f64, ulps: i64) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    let key =
        |v: f64| if v.to_bits() >> 63 == 0 { v.to_bits() as i64 } else { i64::MIN.wrapping_sub(v.to_bits() as i64) };
    a == b || key(a).abs_diff(key(b)) <= ulps as u64
}

case! {
    /// Identities, with room for a few units in the last place of each function on each side.
    fn case_d_math_identities(x: u64) -> u64 {
        let v = (x % 1000) as f64 / 37.0 + 0.01;
        let mut flags = 0u64;
        for good in [
            close(v.sin().mul_add(v.sin(), v.cos() * v.cos()), 1.0, 8),
            close(v.ln().exp(), v, 40),
            close(v.exp2().log2(), v, 1 << 16),
            close(v.cbrt().powi(3), v, 16),
            close(v.powf(0.5), v.sqrt(), 4),
            close(v.tan(), v.sin() / v.cos(), 16),
            close((v / 30.0).asin().sin(), v / 30.0, 16),
            close(v.atan().tan(), v, 256),
            close(v.hypot(2.0 * v), v * 5f64.sqrt(), 4),
            close(v.tanh(), v.sinh() / v.cosh(), 16),
            close(v.ln_1p(), (1.0 + v).ln(), 1 << 8),
            close(v.exp_m1() + 1.0, v.exp(), 8),
            close(v.atan2(3.0), (v / 3.0).atan(), 4),
            close(v.log10(), v.ln() / 10f64.ln(), 64),
            close(v.powi(-3), 1.0 / (v * v * v), 8),
            close(v.asinh().sinh(), v, 64),
            close(v.to_degrees().to_radians(), v, 4),
            (f64::from((v as f32).sin()) - v.sin()).abs() < 1e-5,
            (f64::from((v as f32).exp()) / v.exp() - 1.0).abs() < 1e-5,
            (f64::from((v as f32).powf(1.5)) / v.powf(1.5) - 1.0).abs() < 1e-5,
        ] {
            flags = flags << 1 | u64::from(good);
        }
        flags
    }
}

case! {
    fn case_d_bits_and_steps(x: u64) -> u64 {
        let v = f64::from_bits(x);
        let mut total = bits(v.next_up());
        total = mix(total, bits(v.next_down()));
        total = mix(total, bits(f64::from_be_bytes(x.to_be_bytes())));
        total = mix(total, bits32(f32::from_bits(x as u32).next_up()));
        total = mix(total, bits(v.midpoint(3.0)));
        mix(total, bits(v.recip()))
    }
}

case! {
    fn case_d_sums_in_order(x: u64) -> u64 {
        let values: [f32; 20] = std::array::from_fn(|i| (x >> (i % 40)) as u16 as f32 * 0.1);
        let mean = values.iter().sum::<f32>() / 20.0;
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / 19.0;
        let product: f64 = values.iter().map(|v| f64::from(*v) + 0.5).product();
        mix(bits32(variance), bits(product) ^ bits32(values.iter().copied().fold(f32::NEG_INFINITY, f32::max)))
    }
}
