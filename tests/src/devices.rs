//! The devices that the tests run on.

use std::io::Write;
use std::sync::OnceLock;

use warpsmith::Device;

/// The CPU executor.
pub fn cpu() -> &'static Device {
    static CPU: OnceLock<Device> = OnceLock::new();
    CPU.get_or_init(Device::cpu)
}

/// The first GPU, or `None` after saying so aloud, once for each test binary.
///
/// # Panics
/// When there is none and `WARPSMITH_REQUIRE_GPU` is 1.
pub fn gpu() -> Option<&'static Device> {
    static GPU: OnceLock<Option<Device>> = OnceLock::new();
    GPU.get_or_init(|| match Device::gpu(0) {
        Ok(device) => Some(device),
        Err(error) if std::env::var_os("WARPSMITH_REQUIRE_GPU").is_some_and(|value| value == "1") => {
            panic!("WARPSMITH_REQUIRE_GPU is 1 and there is no GPU to test on: {error}")
        }
        Err(error) => {
            // Not `eprintln!`: the test harness would keep it to itself.
            let _ = writeln!(std::io::stderr(), "SKIPPED: the GPU half of these tests: {error}");
            None
        }
    })
    .as_ref()
}

/// Every device to test on: the CPU executor, and the first GPU where there is one.
pub fn devices() -> impl Iterator<Item = &'static Device> {
    std::iter::once(cpu()).chain(gpu())
}
