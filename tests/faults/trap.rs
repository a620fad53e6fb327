//! `trap` stops everything on a GPU, so it runs in a process of its own; the executor reports it like a panic.

use std::process::Command;

use warpsmith::prelude::*;
use warpsmith::trap;
use warpsmith_tests::gpu;

/// One thread traps, the others write.
#[kernel]
fn trap_at(place: u32, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    if i.get() as u32 == place {
        trap();
    }
    if let Some(output) = output.get_mut(&i) {
        *output = 1;
    }
}

/// The error of a launch in which thread 3 traps.
fn trapped(stream: &Stream) -> warpsmith::Error {
    let mut output = stream.zeroed::<u32>(64).expect("there is memory");
    trap_at::launch(stream, LaunchConfig::for_len(64), u32::MAX, &mut output).expect("a launch works");
    assert_eq!(stream.to_host(&output).expect("nobody traps"), [1; 64]);
    let launched = trap_at::launch(stream, LaunchConfig::for_len(64), 3, &mut output);
    launched.and_then(|()| stream.synchronize()).expect_err("thread 3 traps")
}

#[test]
fn the_executor_reports_a_trap_and_goes_on() {
    let stream = Device::cpu().stream().expect("the executor gives streams");
    let error = trapped(&stream);
    let panic = error.kernel_panic().unwrap_or_else(|| panic!("{error}"));
    assert!(panic.message.contains("`trap`"), "{panic}");
    assert!(panic.file.ends_with("trap.rs") && panic.thread.x == 3, "{panic}");
    let mut output = stream.zeroed::<u32>(64).expect("there is memory");
    trap_at::launch(&stream, LaunchConfig::for_len(64), u32::MAX, &mut output).expect("a launch works");
    assert_eq!(stream.to_host(&output).expect("nobody traps"), [1; 64]);
}

#[test]
fn a_trap_on_a_gpu_loses_the_context() {
    const CHILD: &str = "WARPSMITH_TEST_TRAP";
    let Some(gpu) = gpu() else { return };
    if std::env::var_os(CHILD).is_none() {
        let output = Command::new(std::env::current_exe().expect("this test's own program"))
            .args(["--exact", "trap::a_trap_on_a_gpu_loses_the_context", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .output()
            .expect("this test's own program runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
        return;
    }
    let stream = gpu.stream().expect("a device gives streams");
    let error = trapped(&stream);
    assert!(error.kernel_panic().is_none(), "{error}");
    assert!(error.to_string().contains("the GPU's context was lost"), "{error}");
    // It stays so.
    let again = stream.synchronize().expect_err("the context is lost");
    assert!(again.to_string().contains("the GPU's context was lost"), "{again}");
    assert!(stream.zeroed::<u32>(64).is_err());
}
