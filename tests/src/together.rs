//! Comparing a whole launch with the host, for kernels that are no map over numbers.

use std::fmt::Debug;

use warpsmith::prelude::*;
use warpsmith::{CheckRule, Error};

use crate::devices::devices;

/// Runs `work` on every device and compares what it gives with `expected`.
///
/// # Panics
/// When an element differs, naming the device and the first one, or when a device fails.
pub fn check_on_devices<T: PartialEq + Debug>(expected: &[T], work: impl Fn(&Stream) -> warpsmith::Result<Vec<T>>) {
    check_but_for(None, expected, work);
}

/// The same for kernels whose warp operations name lanes that are not there, which take no part: on a checked device the checker
/// says that they do, and nothing else.
///
/// # Panics
/// As [`check_on_devices`].
pub fn check_with_absent_lanes<T: PartialEq + Debug>(
    expected: &[T],
    work: impl Fn(&Stream) -> warpsmith::Result<Vec<T>>,
) {
    check_but_for(Some(CheckRule::WarpMask), expected, work);
}

fn check_but_for<T: PartialEq + Debug>(
    allowed: Option<CheckRule>,
    expected: &[T],
    work: impl Fn(&Stream) -> warpsmith::Result<Vec<T>>,
) {
    for device in devices() {
        let results = match device.stream().and_then(|stream| work(&stream)) {
            Err(Error::Check(report)) if report.findings.iter().all(|finding| Some(finding.rule) == allowed) => {
                continue;
            }
            results => results.unwrap_or_else(|error| panic!("on {device}: {error}")),
        };
        assert_eq!(results.len(), expected.len(), "number of results on {device}");
        if let Some(i) = (0..expected.len()).find(|i| results[*i] != expected[*i]) {
            panic!("on {device}, result {i} is {:?}, not {:?}", results[i], expected[i]);
        }
    }
}
