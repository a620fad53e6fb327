//! What the attribute's options change.

use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, ptx};

/// A product and a sum, each rounded.
#[kernel]
fn rounded_twice(x: &[f64], mut y: GridSliceMut<f64>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y += x[i.get()] * x[i.get()];
    }
}

/// The same, rounded once.
#[kernel(contract)]
fn contracted(x: &[f64], mut y: GridSliceMut<f64>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y += x[i.get()] * x[i.get()];
    }
}

#[test]
fn case_d4_contraction_only_where_a_kernel_asks() {
    ptx::of(module_path!(), "rounded_twice").check_not("fma").check("mul.rn.f64").check("add.rn.f64");
    ptx::of(module_path!(), "contracted").check("fma.rn.f64").check_not("mul.rn.f64");
    // 1 + 2^-30 squared minus 1 + 2^-29 is 2^-60 when it is rounded once, and 0 when twice.
    let (x, y) = (1.0 + 2f64.powi(-30), -(1.0 + 2f64.powi(-29)));
    check_on_devices(&[0.0], |stream| {
        let mut output = stream.filled(y, 1)?;
        rounded_twice::launch(stream, LaunchConfig::for_len(1), &stream.to_device(&[x])?, &mut output)?;
        stream.to_host(&output)
    });
    if let Some(gpu) = warpsmith_tests::gpu() {
        let stream = gpu.stream().expect("a device gives streams");
        let mut output = stream.filled(y, 1).expect("a small copy works");
        let input = stream.to_device(&[x]).expect("a small copy works");
        contracted::launch(&stream, LaunchConfig::for_len(1), &input, &mut output).expect("a launch works");
        assert_eq!(stream.to_host(&output).expect("a small copy works"), [2f64.powi(-60)]);
    }
}

/// Compiled for one block shape.
#[kernel(block = (64, 2))]
fn exact_block(mut output: GridSliceMut<u32>) {
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = block_dim().x + thread_idx().y;
    }
}

/// Compiled for blocks up to a size, and for few registers.
#[kernel(max_threads = 128, min_blocks = 2, max_registers = 40)]
fn bounded(mut output: GridSliceMut<u32>) {
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = block_dim().x;
    }
}

#[test]
fn launch_bounds_reach_the_ptx() {
    ptx::of(module_path!(), "exact_block").check(".reqntid 64, 2").check_not(".maxntid");
    ptx::of(module_path!(), "bounded").check(".maxntid 128").check(".minnctapersm 2").check(".maxnreg 40");
    let expected: Vec<u32> = (0..128).map(|i| 64 + i / 64).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u32>(128)?;
        exact_block::launch(stream, LaunchConfig::new(1, (64, 2)), &mut output)?;
        for wrong in [Dim3::new(2, 64, 1), Dim3::new(128, 1, 1)] {
            let error =
                exact_block::launch(stream, LaunchConfig::new(1, wrong), &mut output).expect_err("another shape");
            assert!(error.to_string().contains("(64, 2, 1)"), "{error}");
        }
        stream.to_host(&output)
    });
    check_on_devices(&[100; 100], |stream| {
        let mut output = stream.zeroed::<u32>(100)?;
        bounded::launch(stream, LaunchConfig::new(1, 100), &mut output)?;
        let error = bounded::launch(stream, LaunchConfig::new(1, 129), &mut output).expect_err("more than 128 threads");
        assert!(error.to_string().contains("129") && error.to_string().contains("128"), "{error}");
        stream.to_host(&output)
    });
}

/// A quotient and a root.
#[kernel]
fn exact(x: &[[f32; 2]], mut y: GridSliceMut<[f32; 3]>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let [a, b] = x[i.get()];
        *y = [a / b, b.sqrt(), a + b];
    }
}

/// The same, approximated.
#[kernel(approx)]
fn approximated(x: &[[f32; 2]], mut y: GridSliceMut<[f32; 3]>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let [a, b] = x[i.get()];
        *y = [a / b, b.sqrt(), a + b];
    }
}

/// The same, without subnormals.
#[kernel(ftz)]
fn flushed(x: &[[f32; 2]], mut y: GridSliceMut<[f32; 3]>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let [a, b] = x[i.get()];
        *y = [a / b, b.sqrt(), a + b];
    }
}

/// Both.
#[kernel(approx, ftz)]
fn approximated_and_flushed(x: &[[f32; 2]], mut y: GridSliceMut<[f32; 3]>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let [a, b] = x[i.get()];
        *y = [a / b, b.sqrt(), a + b];
    }
}

#[test]
fn division_roots_and_subnormals_are_exact_unless_a_kernel_says_otherwise() {
    let of = |name| ptx::of(module_path!(), name);
    of("exact").check("div.rn.f32").check("sqrt.rn.f32").check("add.rn.f32").check_not(".approx").check_not(".ftz");
    of("approximated").check("div.approx.f32").check("sqrt.approx.f32").check("add.rn.f32").check_not(".ftz");
    of("flushed").check("div.rn.ftz.f32").check("sqrt.rn.ftz.f32").check("add.rn.ftz.f32").check_not(".approx");
    of("approximated_and_flushed").check("div.approx.ftz.f32").check("sqrt.approx.ftz.f32").check("add.rn.ftz.f32");
    // 2^-127 is subnormal; the other numbers are exact whatever the rounding.
    let (input, tiny) = ([[6.0f32, 4.0], [2f32.powi(-127), 0.0]], 2f32.powi(-127));
    check_on_devices(&[[1.5f32, 2.0, 10.0], [f32::INFINITY, 0.0, tiny]], |stream| {
        let mut output = stream.zeroed::<[f32; 3]>(2)?;
        exact::launch(stream, LaunchConfig::for_len(2), &stream.to_device(&input)?, &mut output)?;
        stream.to_host(&output)
    });
    if let Some(gpu) = warpsmith_tests::gpu() {
        let stream = gpu.stream().expect("a device gives streams");
        let input = stream.to_device(&input).expect("a small copy works");
        let mut output = stream.zeroed::<[f32; 3]>(2).expect("a small allocation works");
        flushed::launch(&stream, LaunchConfig::for_len(2), &input, &mut output).expect("a launch works");
        let flushed = stream.to_host(&output).expect("a small copy works");
        assert_eq!(flushed[0], [1.5, 2.0, 10.0]);
        assert!(flushed[1][0].is_nan() && flushed[1][1..] == [0.0, 0.0], "{flushed:?}");
        approximated::launch(&stream, LaunchConfig::for_len(2), &input, &mut output).expect("a launch works");
        let near = stream.to_host(&output).expect("a small copy works")[0];
        let errors = [(near[0] - 1.5).abs() / 1.5, (near[1] - 2.0).abs() / 2.0];
        assert!(errors.iter().all(|error| *error <= 2f32.powi(-22)) && near[2] == 10.0, "{near:?}");
    }
}

/// A loop and a call that only optimisation removes.
fn sum_of(x: &[u32]) -> u32 {
    x.iter().fold(0, |sum, x| sum ^ x.rotate_left(sum & 7))
}

macro_rules! at_levels {
    ($($name:ident $level:literal)*) => {$(
        /// The same at another level.
        #[kernel(opt_level = $level)]
        fn $name(x: &[u32], mut y: GridSliceMut<u32>) {
            if let Some(y) = y.get_mut(&global_idx()) {
                *y = sum_of(x);
            }
        }
    )*};
}
at_levels!(level_0 0 level_1 1 level_2 2 level_3 3 level_s "s");

#[test]
fn levels_of_optimisation_change_the_code_and_not_the_result() {
    // What stands in functions of their own without optimisation is one function with it.
    ptx::of(module_path!(), "level_0").check("call.uni").check(".func");
    for name in ["level_1", "level_2", "level_3", "level_s"] {
        ptx::of(module_path!(), name).check_not("call.uni");
    }
    // Copies of the loop's body are for speed alone.
    let copies = |name| ptx::of(module_path!(), name).counts("shf.l.wrap").into_iter().max();
    assert!(copies("level_s") < copies("level_3"), "{:?} {:?}", copies("level_s"), copies("level_3"));
    let input: Vec<u32> = (0..37).map(|i| i * 0x0101_0307).collect();
    let expected = [sum_of(&input); 3];
    check_on_devices(&[expected; 5], |stream| {
        let input = stream.to_device(&input)?;
        let mut outputs = Vec::new();
        macro_rules! launch {
            ($($name:ident)*) => {$(
                let mut output = stream.zeroed::<u32>(3)?;
                $name::launch(stream, LaunchConfig::for_len(3), &input, &mut output)?;
                outputs.push(stream.to_host(&output)?.try_into().expect("three values"));
            )*};
        }
        launch!(level_0 level_1 level_2 level_3 level_s);
        Ok(outputs)
    });
}
