//! Which runs a test has.

use std::fmt;

use super::Test;
use crate::check::CheckOptions;
use crate::cpu::schedule::Schedule;
use crate::device::{Choice, Device, GpuChoice, parse_choice};

/// Names the run that alone is made beside the plain one.
const ONLY: &str = "WARPSMITH_TEST_ONLY";

/// The first seed.
const SEED: &str = "WARPSMITH_TEST_SEED";

/// The seed of tests without that variable.
const FIRST_SEED: u64 = 1;

/// A run of a test's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// On the CPU executor as it is without a schedule.
    Plain,
    /// Under a schedule.
    Scheduled(Schedule),
    /// Under a schedule and the checker.
    Checked(Schedule),
    /// On a GPU.
    Gpu,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("plain"),
            Self::Scheduled(schedule) => write!(f, "{schedule}"),
            Self::Checked(schedule) => write!(f, "checked:{schedule}"),
            Self::Gpu => f.write_str("gpu"),
        }
    }
}

impl Run {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text {
            "plain" => return Ok(Self::Plain),
            "gpu" => return Ok(Self::Gpu),
            _ => {}
        }
        let (make, schedule): (fn(_) -> _, _) = match text.strip_prefix("checked:") {
            Some(schedule) => (Self::Checked, schedule),
            None => (Self::Scheduled, text),
        };
        schedule.parse().map(make).map_err(|_| {
            format!(
                "{ONLY} is {text:?}; it can be `plain`, `gpu`, a schedule (`ascending`, `round-robin`, `reversed`, `random:SEED`, \
                 `adversarial:SEED`), or `checked:` and a schedule"
            )
        })
    }
}

/// The runs of a test beside the plain one, and what must be there for them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) runs: Vec<Run>,
    pub(super) requires_gpu: bool,
    pub(super) requires_checked: bool,
    pub(super) open_checked: Option<fn(CheckOptions) -> Device>,
    pub(super) gpu: GpuChoice,
}

impl Plan {
    pub(super) fn from_environment(test: &Test) -> Result<Self, String> {
        Self::new(test, &|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// The runs that a test asks for, and variables, which `variable` gives by name.
    pub(super) fn new(test: &Test, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name| variable(name).filter(|value| !value.trim().is_empty());
        let is_set = |name| set(name).is_some_and(|value| value.trim() != "0");
        let seed = match set(SEED) {
            None => FIRST_SEED,
            Some(text) => {
                text.trim().parse().map_err(|_| format!("{SEED} is {text:?}; it is a number from 0 to 2^64 - 1"))?
            }
        };
        let choice = match set("WARPSMITH_DEVICE") {
            None => Choice::Unset,
            Some(text) => parse_choice(&text).map_err(|error| error.to_string())?,
        };
        let requires_gpu =
            test.gpu == Some(true) || set("WARPSMITH_REQUIRE_GPU").is_some_and(|value| value.trim() == "1");
        let (on_gpu, gpu) = match choice {
            Choice::Unset => (true, GpuChoice::Ordinal(0)),
            Choice::Gpu(choice) => (true, choice),
            // The GPU is left out on purpose, except where it is asked for as well.
            Choice::Cpu => (requires_gpu, GpuChoice::Ordinal(0)),
        };
        let mut plan = Self {
            runs: Vec::new(),
            requires_gpu,
            requires_checked: test.checked == Some(true) || is_set("WARPSMITH_CHECK"),
            open_checked: test.open_checked,
            gpu,
        };
        if let Some(only) = set(ONLY) {
            let run = Run::parse(&only)?;
            if matches!(run, Run::Checked(_)) && test.open_checked.is_none() {
                return Err(format!("{ONLY} is {only:?}, and `{}` says `checked = false`", test.name));
            }
            plan.requires_gpu |= run == Run::Gpu;
            plan.requires_checked |= matches!(run, Run::Checked(_));
            plan.runs.extend((run != Run::Plain).then_some(run));
            return Ok(plan);
        }
        plan.runs.extend(schedules(seed).take(test.schedules as usize).map(Run::Scheduled));
        if test.checked != Some(false) {
            let seeded = [Schedule::Random(seed), Schedule::Adversarial(seed)];
            let seeded = seeded.into_iter().take(test.schedules as usize);
            plan.runs.extend(std::iter::once(Schedule::Ascending).chain(seeded).map(Run::Checked));
        }
        if test.gpu != Some(false) && on_gpu {
            plan.runs.push(Run::Gpu);
        }
        Ok(plan)
    }

    /// How a run comes again.
    pub(super) fn again(&self, test: &Test, run: Run) -> String {
        // The harness does not name the crate.
        let module = test.module.split_once("::").map_or(String::new(), |(_, module)| format!("{module}::"));
        format!("{ONLY}={run} cargo test {module}{} -- --exact", test.name)
    }
}

/// Schedules without end: those without a seed among the first.
fn schedules(seed: u64) -> impl Iterator<Item = Schedule> {
    let seeded = move |n: u64| [Schedule::Random(seed.wrapping_add(n)), Schedule::Adversarial(seed.wrapping_add(n))];
    let first = std::iter::once(Schedule::Reversed).chain(seeded(0)).chain(seeded(1));
    first.chain([Schedule::RoundRobin]).chain((2..).flat_map(seeded))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Test = Test {
        module: "lab",
        name: "adds",
        schedules: 6,
        gpu: None,
        checked: None,
        open_checked: Some(Device::cpu_checked_with),
    };

    fn runs(test: &Test, variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let variable = |name: &str| Some(variables.iter().find(|(own, _)| *own == name)?.1.to_owned());
        Plan::new(test, &variable).map(|plan| plan.runs.iter().map(Run::to_string).collect())
    }

    #[test]
    fn a_test_runs_under_schedules_checked_and_on_a_gpu() {
        let all = [
            "reversed",
            "random:1",
            "adversarial:1",
            "random:2",
            "adversarial:2",
            "round-robin",
            "checked:ascending",
            "checked:random:1",
            "checked:adversarial:1",
            "gpu",
        ];
        assert_eq!(runs(&TEST, &[]).unwrap(), all);
        assert_eq!(runs(&TEST, &[("WARPSMITH_DEVICE", "cpu")]).unwrap(), all[..9]);
        assert_eq!(runs(&TEST, &[("WARPSMITH_DEVICE", "cpu"), ("WARPSMITH_REQUIRE_GPU", "1")]).unwrap(), all);
        let bare = Test { schedules: 0, gpu: Some(false), checked: Some(false), ..TEST };
        assert_eq!(runs(&bare, &[]).unwrap(), [""; 0]);
        assert_eq!(runs(&Test { schedules: 0, ..TEST }, &[]).unwrap(), ["checked:ascending", "gpu"]);
    }

    #[test]
    fn a_variable_moves_the_seeds() {
        let moved = runs(&Test { schedules: 8, ..TEST }, &[("WARPSMITH_TEST_SEED", "18446744073709551615")]).unwrap();
        assert_eq!(
            moved[..8],
            [
                "reversed",
                "random:18446744073709551615",
                "adversarial:18446744073709551615",
                "random:0",
                "adversarial:0",
                "round-robin",
                "random:1",
                "adversarial:1"
            ]
        );
        let error = runs(&TEST, &[("WARPSMITH_TEST_SEED", "x")]).unwrap_err();
        assert_eq!(error, "WARPSMITH_TEST_SEED is \"x\"; it is a number from 0 to 2^64 - 1");
    }

    #[test]
    fn a_variable_names_the_one_run() {
        for name in ["gpu", "random:42", "checked:adversarial:7", "checked:ascending", "round-robin"] {
            assert_eq!(runs(&TEST, &[("WARPSMITH_TEST_ONLY", name)]).unwrap(), [name]);
        }
        assert_eq!(runs(&TEST, &[("WARPSMITH_TEST_ONLY", "plain")]).unwrap(), [""; 0]);
        let unchecked = Test { checked: Some(false), open_checked: None, ..TEST };
        let error = runs(&unchecked, &[("WARPSMITH_TEST_ONLY", "checked:reversed")]).unwrap_err();
        assert_eq!(error, "WARPSMITH_TEST_ONLY is \"checked:reversed\", and `adds` says `checked = false`");
        for wrong in ["random", "checked", "checked:gpu", "cpu"] {
            let error = runs(&TEST, &[("WARPSMITH_TEST_ONLY", wrong)]).unwrap_err();
            assert!(error.starts_with(&format!("WARPSMITH_TEST_ONLY is {wrong:?}; it can be `plain`")), "{error}");
        }
    }

    #[test]
    fn a_run_that_is_asked_for_is_required() {
        let plan = |test: &Test, name: &str, value: &str| {
            let value = value.to_owned();
            let plan = Plan::new(test, &|own| (own == name).then(|| value.clone())).unwrap();
            (plan.requires_gpu, plan.requires_checked, plan.gpu)
        };
        assert_eq!(plan(&TEST, "", ""), (false, false, GpuChoice::Ordinal(0)));
        assert_eq!(plan(&TEST, "WARPSMITH_REQUIRE_GPU", "1"), (true, false, GpuChoice::Ordinal(0)));
        assert_eq!(plan(&TEST, "WARPSMITH_CHECK", "1"), (false, true, GpuChoice::Ordinal(0)));
        assert_eq!(plan(&TEST, "WARPSMITH_CHECK", "0"), (false, false, GpuChoice::Ordinal(0)));
        assert_eq!(plan(&TEST, "WARPSMITH_DEVICE", "gpu:2"), (false, false, GpuChoice::Ordinal(2)));
        assert_eq!(plan(&TEST, "WARPSMITH_TEST_ONLY", "gpu"), (true, false, GpuChoice::Ordinal(0)));
        assert_eq!(
            plan(&Test { gpu: Some(true), checked: Some(true), ..TEST }, "", ""),
            (true, true, GpuChoice::Ordinal(0))
        );
    }
}
