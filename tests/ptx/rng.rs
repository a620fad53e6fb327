//! The instructions of random numbers: no memory, no calls, nothing in double precision that was not asked for.

use warpsmith::prelude::*;
use warpsmith::rng::{Philox4x32, philox4x32_10};
use warpsmith_tests::ptx;

/// Four numbers of a counter.
#[kernel]
fn of_a_counter(seed: u64, mut output: GridSliceMut<[u32; 4]>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = philox4x32_10([i.get() as u32, 1, 2, 3], [seed as u32, (seed >> 32) as u32]);
    }
}

/// Numbers that are drawn one after the other.
#[kernel]
fn drawn(seed: u64, count: u32, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let mut rng = Philox4x32::new(seed, i.get() as u64, 0);
        *output = (0..count).fold(0, |sum, _| sum ^ rng.next_u32());
    }
}

/// Normal, uniform and exponential numbers in single precision.
#[kernel]
fn in_single_precision(seed: u64, mut output: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let mut rng = Philox4x32::new(seed, i.get() as u64, 0);
        let (a, b) = rng.normal_pair_f32();
        *output = a + b + rng.uniform_f32() + rng.exponential_f32();
    }
}

/// The same in a kernel that may contract; the sum of the results apart, which is the kernel's own.
#[kernel(contract)]
fn contracted(seed: u64, mut output: GridSliceMut<[f32; 4]>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let mut rng = Philox4x32::new(seed, i.get() as u64, 0);
        let (a, b) = rng.normal_pair_f32();
        *output = [a, b, rng.uniform_f32(), rng.exponential_f32()];
    }
}

#[test]
fn random_numbers_stay_in_registers() {
    for kernel in ["of_a_counter", "drawn", "in_single_precision", "contracted"] {
        ptx::of(module_path!(), kernel)
            .check_not(".local")
            .check_not("call")
            .check_not(".f64")
            .check_not("ld.const")
            .check("mul.wide.u32");
    }
    // Ten rounds of two products, and no wide ones beside them but for addresses.
    let text = ptx::of(module_path!(), "of_a_counter");
    for (products, form) in text.counts("mul.wide.u32").into_iter().zip(text.counts("mul.lo.s64")) {
        assert!((20..24).contains(&products) && form < 4, "{products} and {form} products: {text:?}");
    }
}

#[test]
fn the_transforms_round_alike_with_and_without_contraction() {
    let plain = ptx::of(module_path!(), "in_single_precision");
    let contracted = ptx::of(module_path!(), "contracted");
    plain.check("sqrt.rn.f32").check("div.rn.f32").check_not("approx");
    contracted.check("sqrt.rn.f32").check("div.rn.f32").check_not("approx");
    assert_eq!(plain.counts("fma.rn.f32"), contracted.counts("fma.rn.f32"));
}
