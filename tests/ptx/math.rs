//! Each function of `math` is the instruction that its documentation names, and `f32` stays `f32`.

use warpsmith::math::*;
use warpsmith::prelude::*;
use warpsmith_tests::ptx;

macro_rules! instructions {
    ($test:ident: $($kernel:ident($($argument:ident: $ty:ty),*) -> $result:ty = $body:expr, $($instruction:literal)*;)*) => {
        $(
            #[kernel]
            #[allow(clippy::too_many_arguments, reason = "some instructions have many")]
            fn $kernel($($argument: $ty,)* mut output: GridSliceMut<$result>) {
                if let Some(output) = output.get_mut(&global_idx()) {
                    *output = $body;
                }
            }
        )*

        #[test]
        fn $test() {
            // Launched, so that the kernels are compiled; what they compute others test.
            let stream = Device::cpu().stream().expect("the executor gives streams");
            $({
                let mut output = stream.zeroed::<$result>(1).expect("a small allocation works");
                $(let $argument: $ty = Default::default();)*
                $kernel::launch(&stream, LaunchConfig::for_len(1), $($argument,)* &mut output).expect("a launch works");
                let text = ptx::of(module_path!(), stringify!($kernel));
                $(text.check($instruction);)*
            })*
        }
    };
}

instructions! { fast_functions_are_their_instructions:
    sin_fast(x: f32) -> f32 = fast_sin(x), "sin.approx.f32";
    cos_fast(x: f32) -> f32 = fast_cos(x), "cos.approx.f32";
    tan_fast(x: f32) -> f32 = fast_tan(x), "sin.approx.f32" "cos.approx.f32" "div.approx.f32";
    exp_fast(x: f32) -> f32 = fast_exp(x), "ex2.approx.f32" "mul.rn.f32";
    exp2_fast(x: f32) -> f32 = fast_exp2(x), "ex2.approx.f32";
    exp10_fast(x: f32) -> f32 = fast_exp10(x), "ex2.approx.f32" "mul.rn.f32";
    ln_fast(x: f32) -> f32 = fast_ln(x), "lg2.approx.f32" "mul.rn.f32";
    log2_fast(x: f32) -> f32 = fast_log2(x), "lg2.approx.f32";
    log10_fast(x: f32) -> f32 = fast_log10(x), "lg2.approx.f32" "mul.rn.f32";
    pow_fast(x: f32, y: f32) -> f32 = fast_pow(x, y), "lg2.approx.f32" "mul.rn.f32" "ex2.approx.f32";
    tanh_fast(x: f32) -> f32 = fast_tanh(x), "tanh.approx.f32";
    div_fast(x: f32, y: f32) -> f32 = fast_div(x, y), "div.approx.f32";
    rcp_fast(x: f32) -> f32 = rcp(x), "rcp.approx.f32";
    sqrt_fast(x: f32) -> f32 = fast_sqrt(x), "sqrt.approx.f32";
    rsqrt_single(x: f32) -> f32 = rsqrt(x), "rsqrt.approx.f32";
    rsqrt_double(x: f64) -> f64 = rsqrt(x), "rsqrt.approx.f64";
}

instructions! { rounding_is_in_the_instruction:
    directed_single(a: f32, b: f32, c: f32) -> [f32; 28] = [
        add_rn(a, b), add_rz(a, b), add_ru(a, b), add_rd(a, b), sub_rn(a, c), sub_rz(a, c), sub_ru(a, c), sub_rd(a, c),
        mul_rn(a, b), mul_rz(a, b), mul_ru(a, b), mul_rd(a, b), div_rn(a, b), div_rz(a, b), div_ru(a, b), div_rd(a, b),
        fma_rn(a, b, c), fma_rz(a, b, c), fma_ru(a, b, c), fma_rd(a, b, c),
        sqrt_rn(a), sqrt_rz(a), sqrt_ru(a), sqrt_rd(a), rcp_rn(a), rcp_rz(a), rcp_ru(a), rcp_rd(a),
    ],
        "add.rn.f32" "add.rz.f32" "add.rp.f32" "add.rm.f32" "mul.rn.f32" "mul.rz.f32" "mul.rp.f32" "mul.rm.f32"
        "div.rn.f32" "div.rz.f32" "div.rp.f32" "div.rm.f32" "fma.rn.f32" "fma.rz.f32" "fma.rp.f32" "fma.rm.f32"
        "sqrt.rn.f32" "sqrt.rz.f32" "sqrt.rp.f32" "sqrt.rm.f32" "rcp.rn.f32" "rcp.rz.f32" "rcp.rp.f32" "rcp.rm.f32";
    directed_double(a: f64, b: f64, c: f64) -> [f64; 24] = [
        add_rn(a, b), add_rz(a, b), add_ru(a, b), add_rd(a, b),
        mul_rn(a, b), mul_rz(a, b), mul_ru(a, b), mul_rd(a, b), div_rn(a, b), div_rz(a, b), div_ru(a, b), div_rd(a, b),
        fma_rn(a, b, c), fma_rz(a, b, c), fma_ru(a, b, c), fma_rd(a, b, c),
        sqrt_rn(a), sqrt_rz(a), sqrt_ru(a), sqrt_rd(a), rcp_rn(a), rcp_rz(a), rcp_ru(a), rcp_rd(a),
    ],
        "add.rn.f64" "add.rz.f64" "add.rp.f64" "add.rm.f64" "mul.rn.f64" "mul.rz.f64" "mul.rp.f64" "mul.rm.f64"
        "div.rn.f64" "div.rz.f64" "div.rp.f64" "div.rm.f64" "fma.rn.f64" "fma.rz.f64" "fma.rp.f64" "fma.rm.f64"
        "sqrt.rn.f64" "sqrt.rz.f64" "sqrt.rp.f64" "sqrt.rm.f64" "rcp.rn.f64" "rcp.rz.f64" "rcp.rp.f64" "rcp.rm.f64";
    saturated(a: f32, b: f64) -> f64 = f64::from(saturate(a)) + saturate(b), "cvt.sat.f32.f32" "cvt.sat.f64.f64";
    to_integers(a: f32) -> [i64; 16] = [
        to_i8_rn(a) as i64, to_u8_rn(a) as i64, to_i16_rn(a) as i64, to_u16_rn(a) as i64,
        to_i32_rn(a) as i64, to_i32_ru(a) as i64, to_i32_rd(a) as i64, to_u32_rn(a) as i64, to_u32_ru(a) as i64,
        to_u32_rd(a) as i64, to_i64_rn(a), to_i64_ru(a), to_i64_rd(a), to_u64_rn(a) as i64, to_u64_ru(a) as i64,
        to_u64_rd(a) as i64,
    ],
        "cvt.rni.sat.s8.f32" "cvt.rni.sat.u8.f32" "cvt.rni.sat.s16.f32" "cvt.rni.sat.u16.f32" "cvt.rni.s32.f32"
        "cvt.rpi.s32.f32" "cvt.rmi.s32.f32" "cvt.rni.u32.f32" "cvt.rpi.u32.f32" "cvt.rmi.u32.f32" "cvt.rni.s64.f32"
        "cvt.rpi.s64.f32" "cvt.rmi.s64.f32" "cvt.rni.u64.f32" "cvt.rpi.u64.f32" "cvt.rmi.u64.f32";
    to_floats(a: f32, b: f64, i: i32, j: u64) -> [f64; 8] = [
        to_f16_rz(a).to_f64(), to_f16_ru(b).to_f64(), to_f32_rd(b).into(), to_f32_rz(i).into(), to_f32_ru(j).into(),
        to_f64_rz(j), to_f64_rd(j as i64), to_f16_rn(a).to_f64(),
    ],
        "cvt.rz.f16.f32" "cvt.rp.f16.f64" "cvt.rm.f32.f64" "cvt.rz.f32.s32" "cvt.rp.f32.u64" "cvt.rz.f64.u64"
        "cvt.rm.f64.s64" "cvt.rn.f16.f32";
}

instructions! { integers_are_their_instructions:
    high_products(a: u32, b: i32, c: u64, d: i64) -> [u64; 4] =
        [mul_hi(a, a + 1).into(), mul_hi(b, b + 1) as u64, mul_hi(c, c + 1), mul_hi(d, d + 1) as u64],
        "mul.hi.u32" "mul.hi.s32" "mul.hi.u64" "mul.hi.s64";
    bit_fields(a: u32, b: i32, c: u64, d: i64) -> [u64; 13] = [
        brev(a).into(), brev(c), bfind(a).into(), bfind(b).into(), bfind(c).into(), bfind(d).into(),
        bfe(a, a, 3).into(), bfe(b, a, 3) as u64, bfe(c, a, 3), bfe(d, a, 3) as u64, bfi(a, 7, a, 4).into(), bfi(c, 7, a, 4),
        byte_perm(a, a + 1, 0x1234).into(),
    ],
        "brev.b32" "brev.b64" "bfind.u32" "bfind.s32" "bfind.u64" "bfind.s64" "bfe.u32" "bfe.s32" "bfe.u64" "bfe.s64"
        "bfi.b32" "bfi.b64" "prmt.b32";
    shifts_and_sums(a: u32, b: u32, c: u32) -> [u32; 6] = [
        funnel_shift_l(a, b, c), funnel_shift_lc(a, b, c), funnel_shift_r(a, b, c), funnel_shift_rc(a, b, c),
        sad(a as i32, b as i32, c), usad(a, b, c),
    ],
        "shf.l.wrap.b32" "shf.l.clamp.b32" "shf.r.wrap.b32" "shf.r.clamp.b32" "sad.s32" "sad.u32";
    dot_products(a: i32, b: i32, c: i32) -> [i32; 8] = [
        dp4a(a, b, c), dp4a_u32(a as u32, b as u32, c as u32) as i32, dp4a_us(a as u32, b, c), dp4a_su(a, b as u32, c),
        dp2a_lo(a, b, c), dp2a_hi(a, b, c), dp2a_lo_u32(a as u32, b as u32, c as u32) as i32,
        dp2a_hi_u32(a as u32, b as u32, c as u32) as i32,
    ],
        "dp4a.s32.s32" "dp4a.u32.u32" "dp4a.u32.s32" "dp4a.s32.u32" "dp2a.lo.s32.s32" "dp2a.hi.s32.s32" "dp2a.lo.u32.u32"
        "dp2a.hi.u32.u32";
    halves(a: u16, b: f32, c: f64) -> [f32; 4] = {
        let (x, y) = (half::f16::from_bits(a), half::f16::from_f32(b));
        [x.to_f32(), (x * y).to_f32(), half::f16::from_f64(c).to_f32(), (x + y).to_f32()]
    },
        "cvt.rn.f16.f32" "cvt.f32.f16" "cvt.rn.f32.f64" "mul.rn.f32";
}

macro_rules! single_only {
    ($($kernel:ident |$x:ident| $body:expr;)*) => {
        $(
            #[kernel]
            fn $kernel(x: &[f32], mut output: GridSliceMut<f32>) {
                let i = global_idx();
                if let Some(output) = output.get_mut(&i) {
                    let $x = x[i.get()];
                    *output = $body;
                }
            }
        )*

        /// The kernels' names.
        const SINGLE: &[&str] = &[$(stringify!($kernel)),*];

        fn launch_all(stream: &Stream) -> warpsmith::Result<()> {
            let x = stream.to_device(&[0.5f32])?;
            let mut output = stream.zeroed::<f32>(1)?;
            $($kernel::launch(stream, LaunchConfig::for_len(1), &x, &mut output)?;)*
            Ok(())
        }
    };
}

single_only! {
    f32_arithmetic |x| (x + 1.5) * x - x / 3.0 + x % 0.7 + x.mul_add(2.0, 1.0) + x.sqrt() + x.recip();
    f32_rounding |x| x.floor() + x.ceil() + x.round() + x.round_ties_even() + x.trunc() + x.fract();
    // `midpoint` is not among them: std computes it in `f64`.
    f32_signs |x| x.abs().copysign(-x) + x.signum() + x.max(1.0) + x.min(2.0) + x.clamp(0.1, 0.9);
    f32_euclid |x| x.rem_euclid(0.7) + x.div_euclid(0.7) + x.next_up() + x.to_degrees() + x.to_radians();
    f32_exp |x| x.exp() + x.exp_m1();
    f32_ln |x| x.ln() + x.log2() + x.log10() + x.ln_1p();
    f32_powf |x| x.powf(1.7);
    f32_powi |x| x.powi(5);
    f32_inverse |x| x.asin() + x.acos() + x.atan() + x.atan2(2.0);
    f32_hyperbolic |x| x.sinh() + x.cosh() + x.tanh() + x.asinh() + x.acosh() + x.atanh();
    f32_trigonometric |x| x.sin() + x.cos() + x.tan();
    f32_roots |x| x.cbrt() + x.hypot(2.0);
    f32_exp2 |x| x.exp2();
    f32_special |x| erf(x) + erfc(x) + sinpi(x) + cospi(x) + rcbrt(x);
    f32_wide |x| lgamma(x) + exp10(x) + tgamma(x);
}

/// Of the `libm` crate, what computes in `f64` whatever the argument.
const WIDE_WITHOUT_LIBDEVICE: [&str; 1] = ["f32_wide"];

/// Of libdevice, what multiplies once in `f64` when it reduces a large angle; so it does for nvcc.
const WIDE_WITH_LIBDEVICE: [&str; 1] = ["f32_trigonometric"];

/// Shows whose functions are called.
#[kernel]
fn f64_sine(x: f64, mut output: GridSliceMut<f64>) {
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = x.sin();
    }
}

#[test]
fn case_d5_an_f32_kernel_has_no_f64_instruction() {
    let stream = Device::cpu().stream().expect("the executor gives streams");
    launch_all(&stream).expect("launches work");
    let mut output = stream.zeroed::<f64>(1).expect("a small allocation works");
    f64_sine::launch(&stream, LaunchConfig::for_len(1), 0.5, &mut output).expect("a launch works");
    // libdevice's sine of `f64` reads a table.
    let with_libdevice = ptx::of(module_path!(), "f64_sine").counts("__cudart_").iter().all(|count| *count > 0);
    let wide = if with_libdevice { &WIDE_WITH_LIBDEVICE[..] } else { &WIDE_WITHOUT_LIBDEVICE[..] };
    for kernel in SINGLE {
        let text = ptx::of(module_path!(), kernel);
        if !wide.contains(kernel) {
            text.check_not(".f64");
        } else if with_libdevice {
            // One multiplication for each of sine, cosine and tangent.
            text.check_count("mul.rn.f64", 3).check_not("fma.rn.f64").check_not("add.rn.f64");
        }
    }
}

/// As `f32_exp2`, with sums that may be taken apart.
#[kernel(fast_math)]
fn f32_exp2_with_fast_math(x: &[f32], mut output: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = x[i.get()].exp2();
    }
}

#[test]
fn fast_math_leaves_the_bodies_of_functions_alone() {
    let stream = Device::cpu().stream().expect("the executor gives streams");
    let x = stream.to_device(&[3.5f32]).expect("a small copy works");
    let mut output = stream.zeroed::<f32>(1).expect("a small allocation works");
    f32_exp2_with_fast_math::launch(&stream, LaunchConfig::for_len(1), &x, &mut output).expect("a launch works");
    assert!((stream.to_host(&output).expect("a small copy works")[0] - 3.5f32.exp2()).abs() < 1e-5);
    // Where the body rounds by adding 2^23 and taking it away again, both steps stand.
    let [plain, fast] = ["f32_exp2", "f32_exp2_with_fast_math"].map(|kernel| ptx::of(module_path!(), kernel));
    for step in ["0f4B000000", "0fCB000000"] {
        assert_eq!(fast.counts(step), plain.counts(step), "{step}");
    }
}
