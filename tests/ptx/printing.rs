//! What printing costs in PTX: stores of values, no formatting, and nothing at all where a kernel does not print.

use warpsmith::prelude::*;
use warpsmith_tests::ptx;

/// Prints two values.
#[kernel]
fn prints(x: f32) {
    let i = thread_idx().x;
    gpu_println!("x[{i:>4}] = {x:08.3}");
}

#[test]
fn a_line_is_a_reservation_and_a_store_a_word() {
    let text = ptx::of(module_path!(), "prints");
    text.check_count("atom.relaxed.gpu.global.add.u64", 1).check_count("st.release.sys.b64", 1);
    // Four words of the record's head, the values, and that a line was lost.
    text.check_count("st.volatile.b64", 7).check_count("red.relaxed.gpu.global.add.u64", 1);
    text.check_not("vprintf").check_not("fmt").check_not(".local").check_not("x[");
}

/// Does not print.
#[kernel]
fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y += a * x[i.get()];
    }
}

/// As `saxpy`, with a line that is never reached.
#[kernel]
fn saxpy_that_never_prints(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        if i.get() > usize::MAX - 1 && i.get() < 5 {
            gpu_println!("never {a}");
        }
        *y += a * x[i.get()];
    }
}

#[test]
fn a_kernel_that_does_not_print_pays_nothing() {
    for name in ["saxpy", "saxpy_that_never_prints"] {
        let text = ptx::of(module_path!(), name);
        text.check_not(".global.add.u64").check_not("st.release").check_not("call").check_not(".shared");
        // The entry's parameters: the kernel's own, and the three that every kernel has.
        text.check("_param_7").check_not("_param_8");
    }
    let count = |name: &str| ptx::of(module_path!(), name).counts(";");
    assert_eq!(count("saxpy"), count("saxpy_that_never_prints"));
}
