//! Cache hints, prefetches and volatile accesses are the instructions that they name.

use warpsmith::prelude::*;
use warpsmith::{
    F16x2, U64x2, prefetch_l1, prefetch_l2, read_cache_global, read_last_use, read_non_coherent, read_streaming,
    read_volatile, shared, write_cache_global, write_streaming, write_volatile,
};
use warpsmith_tests::ptx;

/// One load and one store of each width.
#[kernel]
fn streaming(
    bytes: &[u8],
    shorts: &[F16x2],
    words: &[f32],
    doubles: &[f64],
    vectors: &[F32x4],
    mut output: GridSliceMut<(f32, u8)>,
    mut wide: GridSliceMut<U64x2>,
) {
    let i = global_idx();
    let sum = read_streaming(&vectors[i.get()]).reduce_sum() + read_streaming(&words[i.get()]);
    let short = read_streaming(&shorts[i.get()])[1];
    if let (Some(output), Some(wide)) = (output.get_mut(&i), wide.get_mut(&i)) {
        write_streaming(output, (sum, read_streaming(&bytes[i.get()])));
        let double = read_streaming(&doubles[i.get()]).to_bits();
        write_streaming(wide, U64x2([double, u64::from(short.to_bits())]));
    }
}

#[test]
fn streaming_accesses_say_so_in_every_width() {
    ptx::of(module_path!(), "streaming")
        .check_count("ld.global.cs.u8", 1)
        .check_count("ld.global.cs.b32", 2)
        .check_count("ld.global.cs.b64", 1)
        .check_count("ld.global.cs.v4.b32", 1)
        .check_count("st.global.cs.b32", 2)
        .check_count("st.global.cs.v4.b32", 1)
        .check_not("ws_space")
        .check_not(".local");
}

/// Stores below a word.
#[kernel]
fn narrow(x: u16, mut shorts: GridSliceMut<u16>, mut bytes: GridSliceMut<[u8; 3]>) {
    let i = global_idx();
    if let (Some(short), Some(bytes)) = (shorts.get_mut(&i), bytes.get_mut(&i)) {
        write_streaming(short, x);
        write_streaming(bytes, [1, 2, x as u8]);
    }
}

#[test]
fn what_is_smaller_than_a_word_is_stored_alone() {
    ptx::of(module_path!(), "narrow").check_count("st.global.cs.b16", 1).check_count("st.global.cs.b8", 3);
}

/// The other hints.
#[kernel]
unsafe fn hints(x: &[u32], table: *const u32, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    let x = &x[i.get()];
    prefetch_l1(x);
    prefetch_l2(x);
    // SAFETY: the launch gives a table of as many elements that nobody writes.
    let table = unsafe { read_non_coherent(&*table.add(i.get())) };
    let sum = read_last_use(x) ^ read_cache_global(x) ^ table ^ read_volatile(x);
    if let Some(output) = output.get_mut(&i) {
        write_cache_global(output, sum);
        write_volatile(output, sum + 1);
    }
}

#[test]
fn every_hint_is_its_instruction() {
    ptx::of(module_path!(), "hints")
        .check_count("ld.global.lu.b32", 1)
        .check_count("ld.global.cg.b32", 1)
        .check_count("ld.global.nc.b32", 1)
        .check_count("prefetch.global.L1", 1)
        .check_count("prefetch.global.L2", 1)
        .check_count("st.global.cg.b32", 1)
        .check_any(&["ld.volatile.global.b32", "ld.volatile.global.u32"])
        .check_any(&["st.volatile.global.b32", "st.volatile.global.u32"]);
}

/// A reference that may be to either memory.
#[kernel]
fn either(x: &[u32], choose: u32, mut output: GridSliceMut<u32>) {
    let slots = shared!([u32; 64]).cast::<u32>();
    let thread = thread_idx().x as usize % 64;
    // SAFETY: each of the block's 64 threads has its own slot, which it writes and then reads.
    let slot = unsafe { &mut *slots.add(thread) };
    write_streaming(slot, choose);
    let i = global_idx();
    let value = if choose > 3 { slot } else { &x[i.get()] };
    if let Some(output) = output.get_mut(&i) {
        *output = read_streaming(value);
    }
}

#[test]
fn an_address_of_unknown_space_is_taken_as_it_is() {
    ptx::of(module_path!(), "either").check("st.cs.b32").check("ld.cs.b32").check_not("ws_space");
}

/// A last use of a place on the thread's own stack, which is read again.
#[kernel]
fn last_use_of_own(x: &[u32], mut output: GridSliceMut<u32>) {
    let i = global_idx();
    let mut own = [0; 64];
    for (own, x) in own.iter_mut().zip(x) {
        *own = x ^ 5;
    }
    let place = &own[x[i.get()] as usize % 64];
    if let Some(output) = output.get_mut(&i) {
        *output = read_last_use(place) ^ own[x[1] as usize % 64];
    }
}

#[test]
fn a_last_use_leaves_the_stack_as_it_is() {
    ptx::of(module_path!(), "last_use_of_own").check_not(".lu").check("ld.cs.b32");
}
