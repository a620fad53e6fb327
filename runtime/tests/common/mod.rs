//! The devices that a test runs on.

use warpsmith::{Device, DeviceError, Error};

/// The CPU executor and, where there is one, the first GPU. `WARPSMITH_REQUIRE_GPU=1` makes its absence a failure.
pub(crate) fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu()];
    devices.extend(gpu());
    devices
}

/// The first GPU; without one the test says that this half of it is skipped.
pub(crate) fn gpu() -> Option<Device> {
    match Device::gpu(0) {
        Ok(device) => Some(device),
        Err(Error::Device(reason @ (DeviceError::NoDriver { .. } | DeviceError::NoGpu { .. }))) => {
            let required = std::env::var("WARPSMITH_REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "WARPSMITH_REQUIRE_GPU=1, but: {reason}");
            eprintln!("skipped on a GPU: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
