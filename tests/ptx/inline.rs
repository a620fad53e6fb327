//! Inline PTX: every kind of operand in the PTX, and the same results from the CPU executor's side of the macro.

use warpsmith::prelude::*;
use warpsmith::ptx as inline;
use warpsmith_tests::{check_on_devices, ptx};

/// Values of each width, and what instructions make of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, KernelValue)]
struct Scalars {
    byte: u8,
    signed_byte: i8,
    short: i16,
    int: u32,
    long: i64,
    half: u16,
    single: f32,
    double: f64,
}

/// Adds one, two and so on to the fields.
fn add_to_each(s: Scalars) -> Scalars {
    let mut r = s;
    let mut half = half::f16::from_bits(s.half);
    // SAFETY: the instructions only compute.
    unsafe {
        inline!("add.u16 {0}, {0}, 1;", inout(reg) r.byte, options(pure, nomem, nostack);
            else { r.byte = r.byte.wrapping_add(1) });
        inline!("shr.s16 {0}, {1}, 1;", out(reg) r.signed_byte, in(reg) s.signed_byte, options(pure, nomem, nostack);
            else { r.signed_byte = s.signed_byte >> 1 });
        inline!("add.s16 {r}, {s}, 3;", r = lateout(reg) r.short, s = in(reg) s.short, options(pure, nomem, nostack);
            else { r.short = s.short.wrapping_add(3) });
        inline!("add.u32 {}, {}, {};", out(reg) r.int, in(reg) s.int, const 2 + 2, options(pure, nomem, nostack);
            else { r.int = s.int.wrapping_add(4) });
        inline!("add.s64 {0}, {1}, 5;", out(reg) r.long, in(reg) s.long, options(pure, nomem, nostack);
            else { r.long = s.long.wrapping_add(5) });
        inline!("fma.rn.f16 {0}, {0}, {0}, {0};", inlateout(reg) half, options(pure, nomem, nostack);
            else { half = half::f16::from_f32(half.to_f32() * half.to_f32() + half.to_f32()) });
        inline!("add.rn.f32 {0}, {1}, {1};", out(reg) r.single, in(reg) s.single, options(pure, nomem, nostack);
            else { r.single = s.single + s.single });
        inline!("add.rn.f64 {0}, {1}, {1};", out(reg) r.double, in(reg) s.double, options(pure, nomem, nostack);
            else { r.double = s.double + s.double });
    }
    r.half = half.to_bits();
    r
}

/// Every scalar type.
#[kernel]
fn scalars(x: &[Scalars], mut y: GridSliceMut<Scalars>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = add_to_each(x[i.get()]);
    }
}

#[test]
fn scalars_of_every_width_are_operands() {
    let text = ptx::of(module_path!(), "scalars");
    for part in ["add.u16", "shr.s16", "add.s16", "add.s64", "fma.rn.f16", "add.rn.f32", "add.rn.f64"] {
        text.check(part);
    }
    text.check(", 4;").check_not("${").check_not("/*");
    let input = Scalars {
        byte: 255,
        signed_byte: -7,
        short: i16::MAX,
        int: u32::MAX,
        long: -6,
        half: half::f16::from_f32(1.5).to_bits(),
        single: 1.25,
        double: -0.1,
    };
    let expected = Scalars {
        byte: 0,
        signed_byte: -4,
        short: i16::MIN + 2,
        int: 3,
        long: -1,
        half: half::f16::from_f32(3.75).to_bits(),
        single: 2.5,
        double: -0.2,
    };
    check_on_devices(&[expected], |stream| {
        let mut output = stream.filled(input, 1)?;
        scalars::launch(stream, LaunchConfig::for_len(1), &stream.to_device(&[input])?, &mut output)?;
        stream.to_host(&output)
    });
}

/// Guards and results that are predicates; 128 bits; a static's address; labels and declarations; memory through a pointer.
#[kernel]
fn other_operands(x: &[u64], mut y: GridSliceMut<[u64; 5]>) {
    static TABLE: [u32; 4] = [10, 20, 30, 40];
    let i = global_idx();
    let Some(y) = y.get_mut(&i) else { return };
    let (mut less, value) = (i.get() == 1, x[i.get()]);
    let (chosen, sum, from_table, factorial, loaded): (u64, u128, u32, u32, u64);
    let wide = u128::from(value) << 60;
    // SAFETY: what is read lies inside of `x` and of the table; the rest only computes.
    unsafe {
        inline!("@{less} mov.b64 {r}, {value};", "@!{less} mov.b64 {r}, 7;", "setp.lt.u64 {less}, {value}, 3;",
            r = out(reg) chosen, value = in(reg) value, less = inout(pred) less, options(pure, nomem, nostack);
            else { chosen = if less { value } else { 7 }; less = value < 3 });
        inline!(
            "{{ .reg .b64 %a, %b, %c, %d;
                mov.b128 {{%a, %b}}, {x};
                add.cc.u64 %c, %a, %a;
                addc.u64 %d, %b, %b;
                mov.b128 {sum}, {{%c, %d}}; }}",
            x = in(reg128) wide, sum = out(reg128) sum, options(pure, nomem, nostack);
            else { sum = wide + wide });
        inline!("ld.u32 {0}, [{1}+8];", out(reg) from_table, sym TABLE, options(pure, readonly, nostack);
            else { from_table = TABLE[2] });
        inline!(
            ".reg .pred %more;
            .reg .u32 %n;
            mov.u32 %n, 5; // counts down
            mov.u32 {0}, 1;
            AGAIN: mul.lo.u32 {0}, {0}, %n;
            sub.u32 %n, %n, 1;
            setp.ne.u32 %more, %n, 0; /* the last
            factor is 1 */
            @%more bra AGAIN;",
            out(reg) factorial, options(pure, nomem, nostack);
            else { factorial = 120 });
        inline!("ld.b64 {0}, [{1}];", out(reg) loaded, in(reg) &raw const x[i.get()], options(pure, readonly, nostack);
            else { loaded = value });
    }
    *y = [chosen, (sum >> 61) as u64 + u64::from(less), u64::from(from_table), u64::from(factorial), loaded];
}

#[test]
fn predicates_wide_integers_addresses_and_labels() {
    let text = ptx::of(module_path!(), "other_operands");
    text.check("setp.ne.u32 %ws_p").check("selp.u32").check("mov.b128").check("bra AGAIN");
    text.check_not("counts down").check_not("factor is 1");
    let input = [2u64, 1 << 50, 9];
    let expected = [[7, 2 + 1, 30, 120, 2], [1 << 50, 1 << 50, 30, 120, 1 << 50], [7, 9, 30, 120, 9]];
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u64; 5]>(3)?;
        other_operands::launch(stream, LaunchConfig::for_len(3), &stream.to_device(&input)?, &mut output)?;
        stream.to_host(&output)
    });
}

/// As many registers as the largest matrix instruction has in its accumulator.
#[kernel(block = 32)]
fn accumulates(step: f32, mut y: GridSliceMut<f32>) {
    let mut a = [0.0f32; 128];
    for (i, a) in a.iter_mut().enumerate() {
        *a = i as f32;
    }
    macro_rules! add_to_all {
        ($($n:literal)*) => {
            // SAFETY: the instructions only compute.
            unsafe {
                inline!(
                    $(concat!("add.rn.f32 {", $n, "}, {", $n, "}, {step};"),)*
                    $(inout(reg) a[$n],)*
                    step = in(reg) step;
                    else { a.iter_mut().for_each(|a| *a += step) }
                )
            }
        };
    }
    #[no_unroll]
    for _ in 0..3 {
        add_to_all!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
        37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69
        70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101
        102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126
        127
        );
    }
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = a.iter().sum();
    }
}

#[test]
fn a_hundred_and_twenty_eight_registers_go_in_and_out() {
    let text = ptx::of(module_path!(), "accumulates");
    text.check_not(".local");
    check_on_devices(&[(127.0 * 128.0 / 2.0) + 128.0 * 1.5; 2], |stream| {
        let mut output = stream.zeroed::<f32>(2)?;
        accumulates::launch(stream, LaunchConfig::new(1, 32), 0.5, &mut output)?;
        stream.to_host(&output)
    });
}

/// Instructions that only a GPU has.
#[kernel]
fn only_on_a_gpu(mut y: GridSliceMut<u32>) {
    let id: u32;
    // SAFETY: reads a register.
    unsafe { inline!("mov.u32 {0}, %smid;", out(reg) id) };
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = id;
    }
}

#[test]
fn the_place_of_the_macro_is_in_the_ptx_and_the_executor_names_it() {
    let kernels = ptx::kernels();
    let kernel = kernels.iter().find(|kernel| kernel.key.name == "only_on_a_gpu").expect("the program carries it");
    for image in &kernel.images {
        let line = 1 + image.ptx.lines().position(|line| line.contains("%smid")).expect("the instruction is there");
        let site = image.inline_site(line).expect("the line is of a macro");
        assert!(site.contains("inline.rs:") && site.split(':').count() == 3, "{site}");
        assert_eq!(image.inline_site(1), None);
    }
    let stream = warpsmith_tests::cpu().stream().expect("a device gives streams");
    let mut output = stream.zeroed::<u32>(1).expect("a small allocation works");
    let launched = only_on_a_gpu::launch(&stream, LaunchConfig::for_len(1), &mut output);
    let error = launched.and_then(|()| stream.synchronize()).expect_err("there is no PTX on a CPU");
    assert!(error.to_string().contains("inline PTX") && error.to_string().contains("else"), "{error}");
}
