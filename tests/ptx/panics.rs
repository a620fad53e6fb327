//! What a panic is in PTX: a claim in device memory and stores to the host's, behind the branch that nobody takes.

use warpsmith::prelude::*;
use warpsmith_tests::ptx;

/// May panic at an index.
#[kernel]
fn indexes(x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get()];
    }
}

/// May panic with a message of many values, and prints.
#[kernel]
fn asserts_and_prints(x: &[u32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        assert!(*y < 100, "element {} of block {} is {}, which is too much", i.get(), block_idx().x, *y);
        gpu_println!("{} and {}", *y, x.len());
        *y = x[i.get()];
    }
}

#[test]
fn no_atomic_is_on_the_hosts_memory() {
    for name in ["indexes", "asserts_and_prints"] {
        let text = ptx::of(module_path!(), name);
        text.check("atom.relaxed.gpu.global.max.u64").check("fence.acq_rel.sys;").check("st.volatile.b32");
        for instruction in ["atom", "red"] {
            for order in ["relaxed", "acquire", "release", "acq_rel"] {
                text.check_not(&format!("{instruction}.{order}.sys"));
            }
            text.check_not(&format!("{instruction}.sys"));
        }
    }
    ptx::of(module_path!(), "asserts_and_prints")
        .check("atom.relaxed.gpu.global.add.u64")
        .check("red.relaxed.gpu.global.add.u64");
}

/// What a thread executes that does not panic.
#[test]
fn a_thread_that_does_not_panic_executes_nothing_of_it() {
    let text = ptx::of(module_path!(), "indexes");
    let before = text.before("st.volatile");
    assert!(!before.is_empty(), "{text:?}");
    for before in before {
        // The element was stored and the thread has returned: what follows are the targets of branches that panics take.
        assert!(before.contains("st.global.b32") && before.contains("ret;"), "{before}");
        for part in ["volatile", "fence", "atom", "exit", "call"] {
            assert!(!before.contains(part), "{part}: {before}");
        }
    }
}
