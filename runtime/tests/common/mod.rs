//! The devices that a test runs on.

use std::io::Write;
use std::sync::Once;

use warpsmith::{Device, DeviceError, Error};

/// As [`devices`], for tests with kernels. This crate has no build script that compiles kernels, so here they run on the
/// CPU executor alone; the package `warpsmith-tests` builds the same files with one, and runs them on a GPU too.
#[allow(dead_code, reason = "not every test has kernels")]
pub(crate) fn kernel_devices() -> Vec<Device> {
    if env!("CARGO_PKG_NAME") == "warpsmith" {
        skipped("their half of these tests runs in the package warpsmith-tests");
        return vec![Device::cpu()];
    }
    devices()
}

/// The CPU executor and, where there is one, the first GPU. `WARPSMITH_REQUIRE_GPU=1` makes its absence a failure.
pub(crate) fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu()];
    devices.extend(gpu());
    devices
}

/// Says aloud, once for each test program, that GPUs are left out; the test harness would keep `eprintln!` to itself.
fn skipped(reason: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let _ = writeln!(std::io::stderr(), "SKIPPED on GPUs: {reason}");
    });
}

/// The first GPU; without one the test says that this half of it is skipped.
pub(crate) fn gpu() -> Option<Device> {
    match Device::gpu(0) {
        Ok(device) => Some(device),
        Err(Error::Device(reason @ (DeviceError::NoDriver { .. } | DeviceError::NoGpu { .. }))) => {
            let required = std::env::var("WARPSMITH_REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "WARPSMITH_REQUIRE_GPU=1, but: {reason}");
            skipped(&reason.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// An error's message with those of its causes.
#[allow(dead_code, reason = "not every test looks at messages")]
#[expect(clippy::needless_pass_by_value, reason = "the tests have it from `unwrap_err`")]
pub(crate) fn text(error: Error) -> String {
    format!("{error:?}")
}
