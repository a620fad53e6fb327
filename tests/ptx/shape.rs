//! Hints on loops and branches in the PTX.

use warpsmith::prelude::*;
use warpsmith::shape::{assume, likely, unlikely};
use warpsmith_tests::{check_on_devices, ptx};

/// One step of a hash that LLVM cannot compute in advance: one multiplication by this constant a copy.
const FACTOR: u32 = 739_982_445;

fn step(state: u32) -> u32 {
    (state ^ (state >> 15)).wrapping_mul(FACTOR)
}

/// Sixteen steps of a row, as a loop.
#[kernel]
fn full(x: &[[f32; 16]], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    let mut sum = 0.0;
    #[unroll]
    for k in 0..16 {
        sum += x[i.get()][k] * x[i.get()][15 - k];
    }
    if let Some(y) = y.get_mut(&i) {
        *y = sum;
    }
}

/// More than LLVM unrolls by itself, by far.
#[kernel]
fn full_and_long(seed: u32, mut y: GridSliceMut<u32>) {
    let mut state = seed;
    #[unroll]
    for _ in 0..5000 {
        state = step(state);
    }
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = state;
    }
}

/// A number of steps that the launch gives.
#[kernel]
fn by_four(count: u32, seed: u32, mut y: GridSliceMut<u32>) {
    let mut state = seed;
    #[unroll(4)]
    for _ in 0..count {
        state = step(state);
    }
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = state;
    }
}

/// A loop that LLVM would unroll in full.
#[kernel]
fn never(seed: u32, mut y: GridSliceMut<u32>) {
    let mut state = seed;
    #[no_unroll]
    for _ in 0..16 {
        state = step(state);
    }
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = state;
    }
}

/// The same without a hint.
#[kernel]
fn without_hint(seed: u32, mut y: GridSliceMut<u32>) {
    let mut state = seed;
    for _ in 0..16 {
        state = step(state);
    }
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = state;
    }
}

#[test]
fn loops_unroll_as_asked() {
    let factor = FACTOR.to_string();
    let is = |text: &ptx::Text, count: usize| assert!(text.loops().iter().all(|loops| *loops == count), "{text:?}");
    // The products of the second half are those of the first.
    let text = ptx::of(module_path!(), "full");
    text.check_count("mul.rn.f32", 8).check_not(".pragma");
    is(&text, 0);
    let text = ptx::of(module_path!(), "full_and_long");
    text.check_count(&factor, 5000);
    is(&text, 0);
    // Four copies in the loop, and one in the loop for what is left over.
    let text = ptx::of(module_path!(), "by_four");
    text.check_count(&factor, 5).check(".pragma \"nounroll\"");
    is(&text, 2);
    let text = ptx::of(module_path!(), "never");
    text.check_count(&factor, 1).check_count(".pragma \"nounroll\"", 1);
    is(&text, 1);
    let text = ptx::of(module_path!(), "without_hint");
    text.check_count(&factor, 16);
    is(&text, 0);
}

/// A dot product over iterators, by eight.
#[loops]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sum = 0.0;
    #[unroll(8)]
    for (a, b) in a.iter().zip(b) {
        sum += a * b;
    }
    sum
}

/// The hint belongs to a loop over calls that are inlined later.
#[kernel]
fn by_eight(a: &[f32], b: &[f32], mut y: GridSliceMut<f32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = dot(a, b);
    }
}

#[test]
fn loops_over_iterators_unroll() {
    ptx::of(module_path!(), "by_eight").check_count("mul.rn.f32", 8 + 1);
}

/// Copies by a constant generic, in a function outside of any kernel, with every way to leave or go on.
#[loops]
fn walk<const COPIES: u32>(count: u32, mut state: u32) -> u32 {
    let mut done = 0;
    'outer: loop {
        #[unroll(COPIES)]
        while done < count {
            done += 1;
            if state & 3 == 1 {
                state = state.wrapping_add(7);
                continue;
            }
            state = step(state);
            if state & 0xff == 5 {
                break 'outer;
            }
            if state == 77 {
                return 3;
            }
        }
        state ^= done;
        if state & 0xfff == 8 {
            break;
        }
    }
    state
}

/// Three copies of a loop with two ways to go on.
#[kernel]
fn three_of_walk(count: u32, seed: u32, mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = walk::<3>(count, seed);
    }
}

/// The loop as it is: one copy is none.
#[kernel]
fn one_of_walk(count: u32, seed: u32, mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = walk::<1>(count, seed);
    }
}

#[test]
fn loops_of_helpers_unroll_by_a_generic() {
    let factor = FACTOR.to_string();
    ptx::of(module_path!(), "three_of_walk").check_count(&factor, 3);
    ptx::of(module_path!(), "one_of_walk").check_count(&factor, 1);
}

/// Iterators by hand, a loop with a value, and labels.
#[kernel]
fn other_forms(count: u32, mut y: GridSliceMut<u32>) {
    let mut state = count;
    let mut numbers = (0..count).step_by(3);
    #[unroll(2)]
    #[expect(clippy::while_let_on_iterator, reason = "this form is what the test is about")]
    while let Some(number) = numbers.next() {
        state = step(state) ^ number;
    }
    #[no_unroll]
    'outer: for _ in 0..2 {
        #[unroll]
        for k in 0..3 {
            state = step(state) ^ k;
            if state == 5 {
                break 'outer;
            }
        }
    }
    let last = #[no_unroll]
    loop {
        state = step(state).wrapping_add(1);
        if state & 15 == 0 {
            break state;
        }
    };
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = last;
    }
}

/// The inner loop never goes round, so its hint has no loop: it must not reach the outer one.
#[kernel]
fn leaves_at_once(count: u32, mut y: GridSliceMut<u32>) {
    let mut state = count;
    #[no_unroll]
    for k in 0..8 {
        #[unroll]
        #[expect(clippy::never_loop, reason = "this is what the test is about")]
        for j in k..count {
            state = step(state) ^ j;
            break;
        }
    }
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = state;
    }
}

#[test]
fn hints_find_their_own_loop() {
    let factor = FACTOR.to_string();
    // Two copies and one left over; the inner loop's three, once; one.
    ptx::of(module_path!(), "other_forms").check_count(&factor, 3 + 3 + 1);
    ptx::of(module_path!(), "leaves_at_once").check_count(&factor, 1).check_count(".pragma \"nounroll\"", 1);
}

/// Barriers in a loop of known length.
#[kernel(block = 64)]
fn with_barriers(mut y: GridSliceMut<u32>) {
    let tile = shared!([u32; 64]).cast::<u32>();
    let i = thread_idx().x as usize;
    let mut sum = 0;
    #[unroll]
    for k in 0..5 {
        // SAFETY: each thread writes its own slot of 64, and barriers stand between writes and reads.
        unsafe { tile.add(i).write(sum ^ k) };
        sync_threads();
        // SAFETY: as above.
        sum ^= unsafe { tile.add(63 - i).read() };
        sync_threads();
    }
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = sum;
    }
}

#[test]
fn loops_with_barriers_unroll_in_full() {
    ptx::of(module_path!(), "with_barriers").check_count("barrier.sync", 10);
}

/// Code that is not often needed.
fn rare(value: u32) -> u32 {
    let (mut value, mut left) = (value, value);
    while left > 3 {
        value = step(value) ^ left;
        left /= 3;
    }
    value
}

/// The long way is the likely one.
#[kernel]
fn expects_it(x: &[u32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    let x = x[i.get()];
    if let Some(y) = y.get_mut(&i) {
        *y = if likely(x > 100) { rare(x) } else { x ^ 4444 };
    }
}

/// The long way is the unlikely one.
#[kernel]
fn does_not_expect_it(x: &[u32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    let x = x[i.get()];
    if let Some(y) = y.get_mut(&i) {
        *y = if unlikely(x > 100) { rare(x) } else { x ^ 4444 };
    }
}

#[test]
fn unlikely_code_stands_out_of_the_way() {
    // The store stands where the likely way ends: after one of the two, before the other.
    let (expected, unexpected) = ["expects_it", "does_not_expect_it"].map(|name| ptx::of(module_path!(), name)).into();
    for text in expected.before("st.global") {
        assert!(text.contains(&FACTOR.to_string()) && !text.contains("4444"), "{text}");
    }
    for text in unexpected.before("st.global") {
        assert!(text.contains("4444") && !text.contains(&FACTOR.to_string()), "{text}");
    }
}

/// An element that is there.
///
/// # Safety
/// `x` has more than 64 elements, and `n` is at most 64.
#[kernel]
unsafe fn assumes(n: u64, x: &[u32], mut y: GridSliceMut<u32>) {
    // SAFETY: the caller's promise.
    unsafe { assume(x.len() > 64 && n <= 64) };
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = x[n as usize];
    }
}

/// The same, unknown.
#[kernel]
fn checks(n: u64, x: &[u32], mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = x[n as usize];
    }
}

#[test]
fn assumptions_remove_checks() {
    // A panic ends in `exit`; with debug assertions the assumption itself is checked.
    ptx::of(module_path!(), "checks").check("exit;");
    if cfg!(debug_assertions) {
        ptx::of(module_path!(), "assumes").check("exit;");
    } else {
        ptx::of(module_path!(), "assumes").check_not("exit;");
    }
    check_on_devices(&[7; 3], |stream| {
        let mut output = stream.zeroed::<u32>(3)?;
        let input = stream.filled(7, 65)?;
        // SAFETY: there are 65 elements.
        unsafe { assumes::launch(stream, LaunchConfig::for_len(3), 64, &input, &mut output)? };
        checks::launch(stream, LaunchConfig::for_len(3), 64, &input, &mut output)?;
        stream.to_host(&output)
    });
    let stream = warpsmith_tests::cpu().stream().expect("a device gives streams");
    let mut output = stream.zeroed::<u32>(3).expect("a small allocation works");
    let input = stream.filled(7, 65).expect("a small allocation works");
    // SAFETY: the executor checks the promise, which is what this is about.
    let launched = unsafe { assumes::launch(&stream, LaunchConfig::for_len(3), 65, &input, &mut output) };
    let error = launched.and_then(|()| stream.synchronize()).expect_err("65 is more than 64");
    assert!(error.to_string().contains("`assume` was given a condition that is false"), "{error}");
}
