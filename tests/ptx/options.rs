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
