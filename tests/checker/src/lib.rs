//! What the tests of the checker's rules have in common.

use warpsmith::{CheckOptions, CheckRule, Device, Finding, Result, Stream};

/// What the checker finds in launches, in the order in which it was found.
pub fn findings(options: CheckOptions, launches: impl FnOnce(&Stream) -> Result<()>) -> Vec<Finding> {
    let device = Device::cpu_checked_with(options);
    let stream = device.stream().expect("an executor's stream");
    launches(&stream).expect("the launches are taken");
    device.take_findings()
}

/// Demands that every finding is of this rule and that there is one.
///
/// # Panics
/// When there is none, or one of another rule.
#[track_caller]
pub fn caught(rule: CheckRule, findings: &[Finding]) -> &Finding {
    let Some(first) = findings.first() else { panic!("{rule}: nothing was found") };
    if let Some(other) = findings.iter().find(|finding| finding.rule != rule) {
        panic!("{rule} was to be found, and not: {other}");
    }
    first
}

/// Demands that nothing was found.
///
/// # Panics
/// When something was.
#[track_caller]
pub fn silent(findings: &[Finding]) {
    if let Some(finding) = findings.first() {
        panic!("{} findings where nothing is wrong, the first: {finding}", findings.len());
    }
}
