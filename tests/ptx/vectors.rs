//! Vectors move with one instruction.

use warpsmith::prelude::*;
use warpsmith_tests::ptx;

/// The ways to write 16 bytes at once.
fn wide(operation: &str) -> Vec<String> {
    ["v4.f32", "v4.b32", "v4.u32", "v2.f64", "v2.b64", "v2.u64"].map(|form| format!("{operation}.{form}")).to_vec()
}

/// Multiplies and adds four elements a thread.
#[kernel]
fn multiply_add(x: &[F32x4], mut y: GridSliceMut<F32x4>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get()].mul_add(F32x4::splat(2.5), *y);
    }
}

#[test]
fn case_f2_sixteen_bytes_are_one_load_and_one_store() {
    let text = ptx::of(module_path!(), "multiply_add");
    text.check_not(".local").check_not("ld.global.b").check_not("st.global.b").check_count("fma.rn.f32", 4);
    for operation in ["ld.global.nc", "ld.global", "st.global"] {
        let forms = wide(operation);
        text.check_any(&forms.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// A slice of scalars, read and written four at a time.
#[kernel]
fn scalars(x: &[f32], mut y: GridSliceMut<f32, Runs<4>>) {
    let i = run_idx::<4>();
    if let (Some(x), Some([y])) = (x.as_exact_vectors::<F32x4>(), y.run_mut(&i).as_exact_vectors_mut::<F32x4>()) {
        *y = x[i.get() / 4] * 3.0;
    }
}

#[test]
fn scalars_are_read_and_written_as_vectors() {
    let text = ptx::of(module_path!(), "scalars");
    text.check_not(".local").check_count("mul.rn.f32", 4);
    for operation in ["ld.global.nc", "st.global"] {
        let forms = wide(operation);
        text.check_any(&forms.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
