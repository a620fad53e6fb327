//! Equality of host, CPU executor and GPU: the `case!` macro and what it calls.

use warpsmith::prelude::*;

use crate::devices::devices;

/// A function of one number as a test: it runs in a kernel on every device, and must give what the host gives.
///
/// The body is an ordinary function's. `inputs:` after it names the inputs; without it they are [`inputs`](crate::inputs).
#[macro_export]
macro_rules! case {
    ($(#[$meta:meta])* fn $name:ident($x:ident: u64) -> u64 $body:block) => {
        $crate::case! { $(#[$meta])* fn $name($x: u64) -> u64 $body inputs: $crate::inputs() }
    };
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

            let inputs: ::std::vec::Vec<u64> = $inputs;
            $crate::check(&inputs, value, |stream, config, input, output| $name::launch(stream, config, input, output));
        }
    };
}

/// Launches on every device over `inputs` and compares each result with `host`'s.
///
/// # Panics
/// When a result differs, naming the device and the first input at fault, or when a device fails.
pub fn check(
    inputs: &[u64],
    host: fn(u64) -> u64,
    launch: impl Fn(&Stream, LaunchConfig, &DeviceBuffer<u64>, &mut DeviceBuffer<u64>) -> warpsmith::Result<()>,
) {
    let expected: Vec<u64> = inputs.iter().map(|x| host(*x)).collect();
    for device in devices() {
        let run = || {
            let stream = device.stream()?;
            let input = stream.to_device(inputs)?;
            // Not what any case is likely to give, so that a thread that did not run shows.
            let mut output = stream.to_device(&vec![0xdead_dead_dead_dead; inputs.len()])?;
            launch(&stream, LaunchConfig::for_len(inputs.len()), &input, &mut output)?;
            stream.to_host(&output)
        };
        let results = run().unwrap_or_else(|error| panic!("on {device}: {error}"));
        let differing: Vec<usize> = (0..inputs.len()).filter(|i| results[*i] != expected[*i]).collect();
        if let Some(first) = differing.first() {
            panic!(
                "on {device}, {} of {} results differ from the host's; the first is for input {:#x}: {:#x}, on the host {:#x}",
                differing.len(),
                inputs.len(),
                inputs[*first],
                results[*first],
                expected[*first],
            );
        }
    }
}
