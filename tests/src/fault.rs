//! Panics in kernels: the `fault!` and `overflow!` macros and what they call.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

use warpsmith::prelude::*;

use crate::devices::devices;

/// What the output holds before a launch; a thread that panics leaves it there.
const UNTOUCHED: u64 = 0xdead_dead_dead_dead;
/// Threads in a block.
const BLOCK: u32 = 32;
/// The thread that panics: block 1, thread 5.
const CULPRIT: usize = 37;

/// How a launch is to fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The input at which the function panics.
    pub trips_on: u64,
    /// An input at which it does not.
    pub passes: u64,
    /// The message on the device, where it differs from the host's: values that a GPU does not record print as `_`.
    pub gpu_message: Option<&'static str>,
}

/// A function that panics for one input, as a test: the launch comes back as an error with the host's own message,
/// place, block and thread, the other threads' results stand, and the launch after it works.
#[macro_export]
macro_rules! fault {
    (
        $(#[$meta:meta])*
        fn $name:ident($x:ident: u64) -> u64 $body:block
        trips on: $trips_on:expr, passes: $passes:expr $(, on a GPU says: $message:expr)?
    ) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            fn value($x: u64) -> u64 $body

            #[::warpsmith::kernel]
            fn $name(input: &[u64], mut output: ::warpsmith::prelude::GridSliceMut<u64>) {
                let i = ::warpsmith::prelude::global_idx();
                if let Some(output) = output.get_mut(&i) {
                    *output = value(input[i.get()]);
                }
            }

            let fault = $crate::Fault {
                trips_on: $trips_on,
                passes: $passes,
                gpu_message: None$(.or(Some($message)))?,
            };
            $crate::check_fault(fault, value, |stream, config, input, output| {
                $name::launch(stream, config, input, output)
            });
        }
    };
}

/// A function that may overflow, as a test: for each input every device gives the host's number, or panics where the host
/// panics.
#[macro_export]
macro_rules! overflow {
    ($(#[$meta:meta])* fn $name:ident($x:ident: u64) -> u64 $body:block inputs: $inputs:expr) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            fn value($x: u64) -> u64 $body

            #[::warpsmith::kernel]
            fn $name(input: &[u64], mut output: ::warpsmith::prelude::GridSliceMut<u64>) {
                let i = ::warpsmith::prelude::global_idx();
                if let Some(output) = output.get_mut(&i) {
                    *output = value(input[i.get()]);
                }
            }

            let inputs: ::std::vec::Vec<u64> = $inputs.into_iter().collect();
            $crate::check_overflow(&inputs, value, |stream, config, input, output| {
                $name::launch(stream, config, input, output)
            });
        }
    };
}

/// A panic as the host reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPanic {
    message: String,
    file: String,
    line: u32,
    column: u32,
}

thread_local! {
    static CAPTURED: RefCell<Option<Option<HostPanic>>> = const { RefCell::new(None) };
}

/// Evaluates `host` and keeps its panic, without a word on the terminal.
fn evaluate(host: fn(u64) -> u64, x: u64) -> Result<u64, HostPanic> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let taken = CAPTURED.with_borrow_mut(|captured| captured.as_mut().map(|slot| *slot = Some(describe(info))));
            if taken.is_none() {
                previous(info);
            }
        }));
    });
    CAPTURED.set(Some(None));
    let result = catch_unwind(AssertUnwindSafe(|| host(x)));
    let captured = CAPTURED.take().flatten();
    result.map_err(|_| captured.expect("the hook runs for every panic of this thread"))
}

fn describe(info: &PanicHookInfo<'_>) -> HostPanic {
    let location = info.location().expect("std gives every panic a location");
    HostPanic {
        message: info.payload_as_str().unwrap_or("").to_owned(),
        file: location.file().to_owned(),
        line: location.line(),
        column: location.column(),
    }
}

/// Launches with one input that panics, and once more with none, on every device.
///
/// # Panics
/// When the error is not the host's panic, or the launch after it does not work.
pub fn check_fault(
    fault: Fault,
    host: fn(u64) -> u64,
    launch: impl Fn(&Stream, LaunchConfig, &DeviceBuffer<u64>, &mut DeviceBuffer<u64>) -> warpsmith::Result<()>,
) {
    let expected = evaluate(host, fault.trips_on).expect_err("the host must panic for this input");
    let good = evaluate(host, fault.passes).expect("the host must not panic for this input");
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let config = LaunchConfig::new(3u32, BLOCK);
        let mut inputs = vec![fault.passes; 3 * BLOCK as usize];
        inputs[CULPRIT] = fault.trips_on;
        let input = stream.to_device(&inputs).expect("a small copy works");
        let mut output = stream.to_device(&vec![UNTOUCHED; inputs.len()]).expect("a small copy works");

        let error = launch(&stream, config, &input, &mut output)
            .and_then(|()| stream.synchronize())
            .expect_err("the panic must come back as an error");
        let panic = error.kernel_panic().unwrap_or_else(|| panic!("on {device}: not a panic of the kernel: {error}"));
        let wanted = if device.is_gpu() { fault.gpu_message.unwrap_or(&expected.message) } else { &expected.message };
        assert_eq!(panic.message, wanted, "message on {device}");
        assert_eq!(
            (panic.file.as_str(), panic.line, panic.column),
            (expected.file.as_str(), expected.line, expected.column),
            "place on {device}"
        );
        assert_eq!((panic.block.x, panic.thread.x), (1, 5), "block and thread on {device}");
        let text = error.to_string();
        for part in [wanted, &format!("{}:{}", expected.file, expected.line)] {
            assert!(text.contains(part), "on {device}, the error does not say {part:?}: {text}");
        }

        let results = stream.to_host(&output).expect("the panic was reported once, and the stream goes on");
        assert_eq!(results[CULPRIT], UNTOUCHED, "the thread that panicked on {device} stored something");
        for (i, result) in results.iter().enumerate() {
            // The executor may leave out blocks after the one that panicked.
            let skipped = !device.is_gpu() && i / BLOCK as usize > CULPRIT / BLOCK as usize && *result == UNTOUCHED;
            assert!(
                i == CULPRIT || *result == good || skipped,
                "thread {i} on {device} gave {result:#x}, not {good:#x}"
            );
        }

        let input = stream.to_device(&vec![fault.passes; inputs.len()]).expect("a small copy works");
        launch(&stream, config, &input, &mut output).expect("the launch after a panic works");
        let results = stream.to_host(&output).expect("the launch after a panic works");
        assert!(
            results.iter().all(|result| *result == good),
            "the launch after the panic on {device} gave {results:?}"
        );
    }
}

/// Launches once for each input on every device and compares with the host, panics included.
///
/// # Panics
/// When a result differs, or only one side panics.
pub fn check_overflow(
    inputs: &[u64],
    host: fn(u64) -> u64,
    launch: impl Fn(&Stream, LaunchConfig, &DeviceBuffer<u64>, &mut DeviceBuffer<u64>) -> warpsmith::Result<()>,
) {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        for x in inputs {
            let expected = evaluate(host, *x);
            let input = stream.to_device(&[*x]).expect("a small copy works");
            let mut output = stream.to_device(&[UNTOUCHED]).expect("a small copy works");
            let result = launch(&stream, LaunchConfig::for_len(1), &input, &mut output)
                .and_then(|()| stream.to_host(&output))
                .map(|output| output[0]);
            match (&expected, &result) {
                (Ok(expected), Ok(result)) => assert_eq!(result, expected, "input {x:#x} on {device}"),
                (Err(expected), Err(error)) => {
                    let panic = error.kernel_panic().unwrap_or_else(|| panic!("input {x:#x} on {device}: {error}"));
                    assert_eq!(
                        (&panic.message, &panic.file, panic.line),
                        (&expected.message, &expected.file, expected.line),
                        "input {x:#x} on {device}"
                    );
                }
                _ => panic!("input {x:#x} on {device}: the host gives {expected:?}, the device {result:?}"),
            }
        }
    }
}
