//! Tables are read from where they lie, and constants that the host sets from the `.const` space.

use warpsmith::prelude::*;
use warpsmith_tests::ptx;

/// A table of structs.
static TABLE: [(u8, u32); 300] = {
    let mut table = [(0, 0); 300];
    let mut i = 0;
    while i < table.len() {
        table[i] = (i as u8, (i * i) as u32);
        i += 1;
    }
    table
};

/// A large table.
static LARGE: [f64; 5000] = {
    let mut table = [0.0; 5000];
    let mut i = 0;
    while i < table.len() {
        table[i] = i as f64;
        i += 1;
    }
    table
};

/// Looks up what the data says.
#[kernel]
fn look_up(places: &[u32], mut output: GridSliceMut<f64>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let (a, b) = TABLE[places[i.get()] as usize];
        *output = LARGE[b as usize] + f64::from(a);
    }
}

#[test]
fn case_e7_tables_lie_in_read_only_memory_once() {
    ptx::of(module_path!(), "look_up")
        .check_not(".local")
        .check_any(&[".global .align 4 .b8", ".const .align 4 .b8", ".global .align 4 .u"])
        .check_any(&["ld.global.nc.f64", "ld.global.nc.b64", "ld.const.b64", "ld.const.f64"])
        .check_any(&["ld.global.nc.u8", "ld.global.nc.b8", "ld.const.u8"]);
}

constant! {
    static WEIGHTS: [f32; 64] = [0.5; 64];
    static CENTRE: F32x4 = F32x4([1.0, 2.0, 3.0, 4.0]);
}

/// Reads at a place that the data gives, and a vector.
#[kernel]
fn weigh(places: &[u32], mut output: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = WEIGHTS.at(places[i.get()] as usize) * CENTRE.with(|v| v.reduce_sum());
    }
}

#[test]
fn constants_of_the_host_are_in_the_const_space() {
    ptx::of(module_path!(), "weigh")
        .check_count(".visible .const .align 16 .b8 ws_constant_", 2)
        .check_any(&["ld.const.f32", "ld.const.b32"])
        .check_any(&["ld.const.v4.f32", "ld.const.v4.b32", "ld.const.v2.b64"])
        // What was declared is not what was set: nothing may be folded.
        .check("add.rn.f32")
        .check_not(".local");
    let kernels = ptx::kernels();
    let of = |name: &str| {
        let found = kernels.iter().find(|k| k.key.module_path == module_path!() && k.key.name == name);
        found.expect("the kernel is in the program").constants.clone()
    };
    let mut constants: Vec<(String, u64, u64)> =
        of("weigh").into_iter().map(|constant| (constant.key.name, constant.size, constant.align)).collect();
    constants.sort();
    assert_eq!(constants, [("CENTRE".to_owned(), 16, 16), ("WEIGHTS".to_owned(), 256, 4)]);
    assert_eq!(of("look_up"), []);
}
