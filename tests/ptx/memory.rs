//! Loads, stores and index checks.

use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::{check_on_devices, ptx};

/// The smallest kernel there is a use for.
#[kernel]
fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y += a * x[i.get()];
    }
}

#[test]
fn saxpy_is_lean() {
    // A read-only load of `x`, a load and a store of `y`; nothing on the stack, nothing called, nothing in double precision.
    ptx::of(module_path!(), "saxpy")
        .check_not(".local")
        .check_not("call")
        .check_not(".f64")
        .check_not(".shared")
        .check_any(&["ld.global.nc.f32", "ld.global.nc.b32"])
        .check_any(&["st.global.f32", "st.global.b32"])
        .check("mul.rn.f32")
        .check("add.rn.f32")
        .check_not("fma");
    let expected: Vec<f32> = (0..100u8).map(|i| 1.0 + 2.5 * f32::from(i)).collect();
    check_on_devices(&expected, |stream| {
        let x: Vec<f32> = (0..100u8).map(f32::from).collect();
        let mut y = stream.filled(1.0f32, 100)?;
        saxpy::launch(stream, LaunchConfig::for_len(100), 2.5, &stream.to_device(&x)?, &mut y)?;
        stream.to_host(&y)
    });
}

/// An index that comes from memory.
#[kernel]
fn gather(source: &[u32], places: &[u32], mut output: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = source[places[i.get()] as usize];
    }
}

/// The same without checks.
///
/// # Safety
/// Every place is below `source`'s length, and there are as many places as outputs.
#[kernel(unchecked)]
unsafe fn gather_unchecked(source: &[u32], places: &[u32], mut output: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = source[places[i.get()] as usize];
    }
}

#[test]
fn a_checked_access_keeps_its_check() {
    let checked = ptx::of(module_path!(), "gather");
    let unchecked = ptx::of(module_path!(), "gather_unchecked");
    // The end of `output`, of `places` and of `source`; of these the unchecked form keeps the first, which is no panic.
    for (with, without) in checked.counts("setp.").into_iter().zip(unchecked.counts("setp.")) {
        assert!(with >= without + 2, "{with} comparisons with checks, {without} without: {checked:?}");
    }
    checked.check("exit;");
    let expected: Vec<u32> = (0..50).map(|i| i * 7 % 10 * 11).collect();
    check_on_devices(&expected, |stream| {
        let source = stream.to_device(&(0..10).map(|i| i * 11).collect::<Vec<u32>>())?;
        let places = stream.to_device(&(0..50).map(|i| i * 7 % 10).collect::<Vec<u32>>())?;
        let mut output = stream.zeroed::<u32>(50)?;
        // SAFETY: every place is below 10, and there are 50 of each.
        unsafe { gather_unchecked::launch(stream, LaunchConfig::for_len(50), &source, &places, &mut output)? };
        let unchecked = stream.to_host(&output)?;
        gather::launch(stream, LaunchConfig::for_len(50), &source, &places, &mut output)?;
        assert_eq!(stream.to_host(&output)?, unchecked);
        Ok(unchecked)
    });
}

/// Four floats that are read and written as one.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue)]
#[repr(C, align(16))]
struct Float4([f32; 4]);

/// A copy with a detour through shared memory, so that each memory has a load and a store.
#[kernel]
fn wide(input: &[Float4], mut output: GridSliceMut<Float4>) {
    let slots = shared!([Float4; 64]).cast::<Float4>();
    let i = global_idx();
    let thread = thread_idx().x as usize % 64;
    // SAFETY: each of the block's 64 threads writes its own slot.
    unsafe { slots.add(thread).write(input[i.get()]) };
    sync_threads();
    if let Some(output) = output.get_mut(&i) {
        // SAFETY: 63 - thread is below 64, and its slot was written before the barrier.
        *output = unsafe { slots.add(63 - thread).read() };
    }
}

#[test]
fn sixteen_bytes_are_one_load_and_one_store() {
    let wide_forms = |operation: &str| {
        ["v4.f32", "v4.b32", "v4.u32", "v2.f64", "v2.b64", "v2.u64"].map(|form| format!("{operation}.{form}"))
    };
    let text = ptx::of(module_path!(), "wide");
    for operation in ["ld.global.nc", "st.global", "ld.shared", "st.shared"] {
        let forms = wide_forms(operation);
        text.check_any(&forms.each_ref().map(String::as_str));
    }
    let input: Vec<Float4> = (0..64u8).map(|i| Float4([0.0, 1.0, 2.0, 3.0].map(|v| v + f32::from(i)))).collect();
    let expected: Vec<Float4> = input.iter().rev().copied().collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.filled(Float4([0.0; 4]), 64)?;
        wide::launch(stream, LaunchConfig::new(1, 64), &stream.to_device(&input)?, &mut output)?;
        stream.to_host(&output)
    });
}

/// Arithmetic in single precision, with everything that single operations give.
#[kernel]
fn single_precision(x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let v = x[i.get()];
        *y = (v.abs().sqrt() / 3.0).floor().max(v.mul_add(v, 1.0)).min(v.round_ties_even() as i32 as f32) - v;
    }
}

#[test]
fn case_d5_an_f32_kernel_has_no_f64_instruction() {
    ptx::of(module_path!(), "single_precision")
        .check_not(".f64")
        .check("sqrt.rn.f32")
        .check("div.rn.f32")
        .check("fma.rn.f32");
    let x: Vec<f32> = (0..50u8).map(|i| f32::from(i) * 1.3 - 20.0).collect();
    let expected: Vec<f32> = x
        .iter()
        .map(|v| (v.abs().sqrt() / 3.0).floor().max(v.mul_add(*v, 1.0)).min(v.round_ties_even() as i32 as f32) - v)
        .collect();
    check_on_devices(&expected, |stream| {
        let mut y = stream.zeroed::<f32>(50)?;
        single_precision::launch(stream, LaunchConfig::for_len(50), &stream.to_device(&x)?, &mut y)?;
        stream.to_host(&y)
    });
}

/// A table that all threads read.
#[kernel]
fn table(x: &[u8], mut y: GridSliceMut<u32>) {
    const SQUARES: [u32; 256] = {
        let mut squares = [0; 256];
        let mut i = 0;
        while i < 256 {
            squares[i] = (i * i) as u32;
            i += 1;
        }
        squares
    };
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = SQUARES[usize::from(x[i.get()])];
    }
}

#[test]
fn case_e7_a_const_table_is_not_copied_to_every_thread() {
    ptx::of(module_path!(), "table").check_not(".local");
    let x: Vec<u8> = (0..=255).rev().collect();
    let expected: Vec<u32> = x.iter().map(|v| u32::from(*v) * u32::from(*v)).collect();
    check_on_devices(&expected, |stream| {
        let mut y = stream.zeroed::<u32>(256)?;
        table::launch(stream, LaunchConfig::for_len(256), &stream.to_device(&x)?, &mut y)?;
        stream.to_host(&y)
    });
}

/// What the thread across the block has, for any type: the instances for local types of one name print alike.
fn across<T: AnyBits>(value: T) -> T {
    let mut slots = shared_array!([T; 32]);
    slots.put(value);
    slots.sync().at(31 - slot_idx().get())
}

/// Exchanges values of two local types of one name, the smaller first.
#[kernel]
fn two_of_one_name(mut output: GridSliceMut<[u32; 5]>) {
    let thread = thread_idx().x;
    let [small] = {
        #[derive(Clone, Copy, KernelValue, AnyBits)]
        struct Item([u32; 1]);
        across(Item([thread])).0
    };
    let [a, b, c, d] = {
        #[derive(Clone, Copy, KernelValue, AnyBits)]
        struct Item([u32; 4]);
        across(Item([thread, 1, 2, 3])).0
    };
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = [small, a, b, c, d];
    }
}

#[test]
fn shared_arrays_of_types_that_print_alike_have_room_each() {
    ptx::of(module_path!(), "two_of_one_name").check("[128];").check("[512];");
    let expected: Vec<[u32; 5]> = (0..32).map(|thread| [31 - thread, 31 - thread, 1, 2, 3]).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 5]>(32)?;
        two_of_one_name::launch(stream, LaunchConfig::new(1, 32), &mut output)?;
        stream.to_host(&output)
    });
}
