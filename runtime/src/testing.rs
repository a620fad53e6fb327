//! Runs the body of a test under `#[warpsmith::test]` on several devices, and compares what it gives.

mod compare;
mod plan;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

pub use compare::Compare;
use plan::{Plan, Run};

use crate::check::CheckOptions;
use crate::cpu::panics::message;
use crate::device::Device;
use crate::error::{DeviceError, Error};
use crate::registry::Registry;

/// A test, as its attribute describes it; made by the code that `#[warpsmith::test]` writes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// The module that it is in, with the crate's name.
    pub module: &'static str,
    /// The function's name.
    pub name: &'static str,
    /// Under how many schedules it runs beside the plain run.
    pub schedules: u32,
    /// Whether it runs on a GPU: where there is one, unless this says otherwise.
    pub gpu: Option<bool>,
    /// Whether it runs on the checked executor: where the program has code for that, unless this says otherwise.
    pub checked: Option<bool>,
    /// What opens a checked device. Because the test's own crate names it, the build script makes code for the checker.
    pub open_checked: Option<fn(CheckOptions) -> Device>,
}

/// What a test's body gave, on its way to [`ViaResult`] or [`ViaValue`]: a `Result` is looked into, any other value is taken as it
/// is. The compiler finds the former first, since it needs one reference less.
#[doc(hidden)]
pub struct Outcome<T>(Cell<Option<T>>);

impl<T> Outcome<T> {
    /// Of this value.
    pub fn new(value: T) -> Self {
        Self(Cell::new(Some(value)))
    }

    fn take(&self) -> T {
        self.0.take().expect("the test's code asks once")
    }
}

/// See [`Outcome`].
#[doc(hidden)]
pub trait ViaResult {
    /// What is compared.
    type Value;

    /// The value, or the error as it prints itself.
    fn outcome(&self) -> Result<Self::Value, String>;
}

/// See [`Outcome`].
#[doc(hidden)]
pub trait ViaValue {
    /// What is compared.
    type Value;

    /// The value.
    fn outcome(&self) -> Result<Self::Value, String>;
}

impl<T, E: Debug> ViaResult for Outcome<Result<T, E>> {
    type Value = T;

    fn outcome(&self) -> Result<T, String> {
        self.take().map_err(|error| format!("{error:?}"))
    }
}

impl<T> ViaValue for &Outcome<T> {
    type Value = T;

    fn outcome(&self) -> Result<T, String> {
        Ok(self.take())
    }
}

/// Compares exactly, for [`run`]: the text says what differs.
#[doc(hidden)]
pub fn equal<T: PartialEq + Debug>(value: &T, plain: &T) -> Option<String> {
    (value != plain).then(|| compare::difference(value, plain))
}

/// Compares within a tolerance, for [`run`].
#[doc(hidden)]
pub fn close<T: Compare + Debug>(value: &T, plain: &T, tolerance: f64) -> Option<String> {
    (!value.agrees(plain, tolerance)).then(|| compare::difference(value, plain))
}

/// Runs a test.
///
/// # Panics
/// When the body fails on a device, or gives another value than on the plain executor; the message says where and how that run
/// comes again.
#[doc(hidden)]
#[track_caller]
pub fn run<T>(test: &Test, body: impl Fn(&Device) -> Result<T, String>, differs: impl Fn(&T, &T) -> Option<String>) {
    let ran = Plan::from_environment(test).and_then(|plan| run_planned(test, &plan, body, differs));
    // Not in a closure, so that the panic is at the test.
    if let Err(report) = ran {
        panic!("{report}");
    }
}

/// Runs a test as planned; the error is the report.
fn run_planned<T>(
    test: &Test,
    plan: &Plan,
    body: impl Fn(&Device) -> Result<T, String>,
    differs: impl Fn(&T, &T) -> Option<String>,
) -> Result<(), String> {
    let on = |run: Run| Some(run_on(&device(run, plan)?, &body));
    let plain = on(Run::Plain).expect("the plain executor is always there");
    let plain = match plain {
        Ok(plain) => plain,
        Err(reason) => {
            let mut report = format!("`{}` fails on the plain executor: {reason}", test.name);
            // The checker may know why.
            let checked = plan.runs.iter().find(|run| matches!(run, Run::Checked(_)));
            if let Some((run, Err(found))) = checked.and_then(|&run| Some((run, on(run)?))) {
                let _ = write!(report, "\n  on {run}: {found}\n    again: {}", plan.again(test, run));
            }
            return Err(report);
        }
    };
    let mut count = 0;
    let mut failures = Vec::new();
    for &run in &plan.runs {
        let Some(outcome) = on(run) else { continue };
        count += 1;
        match outcome {
            Err(reason) => failures.push((run, reason)),
            Ok(value) => {
                if let Some(difference) = differs(&value, &plain) {
                    failures.push((run, format!("another result than on the plain executor: {difference}")));
                }
            }
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    let mut report = format!("`{}` fails in {} of {count} runs beside the plain one:", test.name, failures.len());
    for (run, reason) in failures {
        let _ = write!(report, "\n  on {run}: {reason}\n    again: {}", plan.again(test, run));
    }
    Err(report)
}

/// Runs the body once. Kernels' panics that it did not ask for are failures too.
fn run_on<T>(device: &Device, body: impl Fn(&Device) -> Result<T, String>) -> Result<T, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| body(device)))
        .unwrap_or_else(|payload| Err(format!("the test panicked: {}", message(&*payload))))?;
    // Each executor is of this run alone. A GPU is not: what it reports may be another test's.
    if device.is_cpu() {
        device.synchronize().map_err(|error| format!("{error:?}"))?;
    }
    Ok(outcome)
}

/// The device of a run, or `None` after saying aloud that it is left out.
fn device(run: Run, plan: &Plan) -> Option<Device> {
    match run {
        Run::Plain => Some(Device::cpu_plain()),
        Run::Scheduled(schedule) => Some(Device::cpu_scheduled(schedule)),
        Run::Checked(schedule) => {
            static SAID: Once = Once::new();
            if plan.requires_checked || Device::can_check() {
                return Some(plan.open_checked?(CheckOptions::new().schedule(schedule)));
            }
            skip(
                &SAID,
                &format!(
                    "on the checked executor: this program has no code for it; build with WARPSMITH_CHECK=1, or call \
                     `warpsmith_build::Builder::new().checked(true).compile()` in the build script of {}",
                    whose(&Registry::get().map(Registry::crates).unwrap_or_default())
                ),
            );
            None
        }
        Run::Gpu => {
            static SAID: Once = Once::new();
            match plan.gpu.open() {
                Ok(device) => Some(device),
                Err(Error::Device(reason @ (DeviceError::NoDriver { .. } | DeviceError::NoGpu { .. })))
                    if !plan.requires_gpu =>
                {
                    skip(&SAID, &format!("on a GPU: {reason}"));
                    None
                }
                Err(error) => panic!("the test needs a GPU: {error:?}"),
            }
        }
    }
}

/// Whose build script is to make code for the checker, by the crates whose kernels the program carries.
fn whose(crates: &BTreeSet<&str>) -> String {
    let names: Vec<String> = crates.iter().map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => "the package that has the kernels (no build script compiled any of this program's)".to_owned(),
        1 => format!("the package of {}, which has the kernels", names[0]),
        _ => format!("the packages of {}, which have the kernels", names.join(", ")),
    }
}

/// Says once in the program that a kind of runs is left out.
fn skip(said: &Once, what: &str) {
    // Not `eprintln!`: the test harness would keep it to itself.
    said.call_once(|| drop(writeln!(std::io::stderr(), "SKIPPED: tests {what}")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::schedule::Schedule;

    #[test]
    fn a_run_without_code_says_whose_build_script_makes_it() {
        assert_eq!(whose(&BTreeSet::from(["kern"])), "the package of `kern`, which has the kernels");
        assert_eq!(whose(&BTreeSet::from(["b", "a"])), "the packages of `a`, `b`, which have the kernels");
        assert!(whose(&BTreeSet::new()).contains("no build script"));
    }

    const TEST: Test = Test {
        module: "lab::sums",
        name: "adds",
        schedules: 4,
        gpu: Some(false),
        checked: Some(false),
        open_checked: None,
    };

    fn report<T: PartialEq + Debug>(body: impl Fn(&Device) -> Result<T, String>) -> Result<(), String> {
        run_planned(&TEST, &Plan::new(&TEST, &|_| None).unwrap(), body, equal)
    }

    #[test]
    fn a_body_that_gives_the_same_everywhere_passes_and_runs_under_each_schedule() {
        let seen = Cell::new(Vec::new());
        report(|device| {
            let mut all = seen.take();
            all.push(device.schedule());
            seen.set(all);
            Ok(7)
        })
        .unwrap();
        let named = ["reversed", "random:1", "adversarial:1", "random:2"].map(|text| Some(text.parse().unwrap()));
        assert_eq!(seen.take(), [vec![None], named.to_vec()].concat());
    }

    #[test]
    fn runs_that_differ_are_told_with_their_schedules() {
        let error =
            report(|device| Ok(vec![1, device.schedule().map_or(2, |s| if s == Schedule::Random(1) { 3 } else { 2 })]));
        assert_eq!(
            error.unwrap_err(),
            "`adds` fails in 1 of 4 runs beside the plain one:\n  on random:1: another result than on the plain executor: \
             [1, 3] instead of [1, 2]\n    again: WARPSMITH_TEST_ONLY=random:1 cargo test sums::adds -- --exact"
        );
    }

    #[test]
    fn a_body_that_fails_or_panics_under_one_schedule_is_told() {
        let error = report(|device| match device.schedule() {
            Some(Schedule::Reversed) => Err("broken".to_owned()),
            Some(Schedule::Adversarial(seed)) => panic!("seed {seed}"),
            _ => Ok(()),
        });
        let error = error.unwrap_err();
        assert!(
            error.starts_with("`adds` fails in 2 of 4 runs beside the plain one:\n  on reversed: broken\n"),
            "{error}"
        );
        assert!(error.contains("\n  on adversarial:1: the test panicked: seed 1\n"), "{error}");
    }

    #[test]
    fn a_body_that_fails_on_the_plain_executor_is_not_compared() {
        let error = report(|_| Err::<(), _>("no".to_owned())).unwrap_err();
        assert_eq!(error, "`adds` fails on the plain executor: no");
    }

    #[expect(clippy::needless_borrow, reason = "as the attribute writes it")]
    #[test]
    fn results_are_looked_into_and_other_values_are_not() {
        assert_eq!((&Outcome::new(Ok::<_, Error>(3))).outcome().unwrap(), 3);
        assert_eq!((&Outcome::new(Err::<(), _>("gone"))).outcome().unwrap_err(), "\"gone\"");
        assert_eq!((&Outcome::new(Some(3))).outcome().unwrap(), Some(3));
        assert!(matches!((&Outcome::new(())).outcome(), Ok(())));
    }
}
