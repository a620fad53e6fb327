//! What ends the program: each test runs itself once more in a process of its own, and looks at what that says.

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use super::*;
use crate::cpu::panics::kernels_own;

/// Says to the process what it is there for.
const VARIABLE: &str = "WARPSMITH_TEST_FAULT";

/// Runs `faulty` in a process of its own, which is to end by a signal, and gives what that wrote to the standard error.
#[track_caller]
fn in_a_process(test: &str, signals: &[i32], faulty: impl FnOnce()) -> String {
    if std::env::var_os(VARIABLE).is_some() {
        faulty();
        panic!("nothing ended the process");
    }
    let output = again(test).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.signal().is_some_and(|signal| signals.contains(&signal)), "{:?}: {said}", output.status);
    said
}

/// The command that runs a test of this file once more.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("cpu::tests::faults::{test}"), "--nocapture", "--test-threads=1"]);
    command.env(VARIABLE, "1");
    command
}

/// Recurses so often, with some hundred bytes each time.
fn deep(times: u64, of: u64) -> u64 {
    let frame = black_box([of; 32]);
    if times == 0 { of } else { deep(times - 1, of) + frame[7] }
}

fn read(address: usize) {
    // SAFETY: none; it ends the process.
    black_box(unsafe { std::ptr::with_exposed_provenance::<u32>(address).read_volatile() });
}

#[test]
fn a_wild_address_is_said_with_kernel_block_and_thread() {
    let kernel = || {
        if block_idx().x == 1 && thread_idx().x == 3 {
            read(0x1234_5000);
        }
    };
    let one_core = || launch(2, 8).under(Schedule::Ascending);
    let said = in_a_process("a_wild_address_is_said_with_kernel_block_and_thread", &[libc::SIGSEGV], || {
        let _ = one_core().plain().run(kernel);
    });
    assert!(said.contains("kernel `test` on the CPU executor, block (1, 0, 0), thread (3, 0, 0)"), "{said}");
    assert!(said.contains("address 0x12345000, which is in no buffer"), "{said}");
    assert!(!said.contains("overflow"), "{said}");
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    assert!(said.contains(" reads address"), "{said}");
}

#[test]
fn a_wild_address_in_a_coroutine_is_said_on_any_core() {
    let said = in_a_process("a_wild_address_in_a_coroutine_is_said_on_any_core", &[libc::SIGSEGV], || {
        let _ = launch(64, 8).run(|| {
            sync_threads();
            if block_idx().x == 63 && thread_idx().x == 5 {
                // SAFETY: none; it ends the process.
                unsafe { std::ptr::with_exposed_provenance_mut::<u32>(0x1234_5000).write_volatile(7) };
            }
        });
    });
    assert!(said.contains("kernel `test` on the CPU executor, block (63, 0, 0), thread (5, 0, 0)"), "{said}");
    assert!(said.contains("address 0x12345000, which is in no buffer") && !said.contains("overflow"), "{said}");
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    assert!(said.contains(" writes to address"), "{said}");
}

#[test]
fn a_coroutines_overflow_is_said_with_its_size_and_what_gives_more() {
    let said = in_a_process(
        "a_coroutines_overflow_is_said_with_its_size_and_what_gives_more",
        &[libc::SIGSEGV, libc::SIGBUS],
        || {
            let _ = launch(1, 8).run(|| {
                sync_threads();
                black_box(deep(if thread_idx().x == 6 { 100_000 } else { 3 }, 1));
            });
        },
    );
    assert!(
        said.contains("block (0, 0, 0), thread (6, 0, 0): the thread's stack of 262144 bytes overflowed"),
        "{said}"
    );
    assert!(said.contains("`Device::set_stack_bytes`"), "{said}");
}

#[test]
fn a_larger_stack_holds_what_overflows_the_usual_one() {
    let kernel = || {
        sync_threads();
        black_box(deep(4000, 1));
    };
    launch(1, 8).stack(64 << 20).run(kernel).unwrap();
}

#[test]
fn an_overflow_of_the_systems_own_stack_is_said_too() {
    let said = in_a_process(
        "an_overflow_of_the_systems_own_stack_is_said_too",
        &[libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS],
        || {
            let _ = launch(1, 8).under(Schedule::Ascending).plain().run(|| {
                black_box(deep(if thread_idx().x == 2 { 10_000_000 } else { 3 }, 1));
            });
        },
    );
    assert!(said.contains("block (0, 0, 0), thread (2, 0, 0)") && said.contains(": the stack overflowed"), "{said}");
}

#[test]
fn a_fault_outside_kernels_is_left_to_the_program() {
    let said = in_a_process("a_fault_outside_kernels_is_left_to_the_program", &[libc::SIGSEGV], || {
        launch(1, 8).run(sync_threads).unwrap();
        read(0x1234_5000);
    });
    assert!(!said.contains("kernel `"), "{said}");
}

#[test]
fn in_a_harness_the_calls_of_a_panic_are_the_kernels() {
    #[inline(never)]
    fn fails(thread: u32) {
        assert!(black_box(thread) < 4, "too far");
    }
    if std::env::var_os(VARIABLE).is_some() {
        let panic = launch(1, 8).run(|| fails(thread_idx().x)).unwrap_err();
        let calls = kernels_own(&panic.backtrace.expect("the environment asks for it").to_string());
        println!("<<<{calls}>>>");
        return;
    }
    let output =
        again("in_a_harness_the_calls_of_a_panic_are_the_kernels").env("RUST_BACKTRACE", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let calls =
        said.split_once("<<<").and_then(|(_, rest)| rest.split_once(">>>")).unwrap_or_else(|| panic!("{said}")).0;
    let first = calls.lines().next().unwrap_or_default();
    assert!(first.ends_with("in_a_harness_the_calls_of_a_panic_are_the_kernels::fails"), "{calls}");
    for other in ["run_test", "warpsmith_device::host::", "panics::", "core::panicking"] {
        assert!(!calls.contains(other), "{calls}");
    }
}
