//! What the tests of the checker's rules have in common.

use std::path::Path;

use warpsmith::{CheckOptions, CheckRule, Device, Finding, FindingSide, Result, Schedule, Stream};

/// The orders of threads and blocks under which a fault is to be found, and none is where there is none.
pub const SCHEDULES: [Schedule; 5] =
    [Schedule::Ascending, Schedule::RoundRobin, Schedule::Reversed, Schedule::Random(11), Schedule::Adversarial(12)];

/// What the checker finds in launches, in the order in which it was found.
pub fn findings(options: CheckOptions, launches: impl FnOnce(&Stream) -> Result<()>) -> Vec<Finding> {
    let device = Device::cpu_checked_with(options);
    let stream = device.stream().expect("an executor's stream");
    launches(&stream).expect("the launches are taken");
    device.take_findings()
}

/// What the checker finds in launches that run in this order.
pub fn findings_under(schedule: Schedule, launches: impl FnOnce(&Stream) -> Result<()>) -> Vec<Finding> {
    findings(CheckOptions::new().schedule(schedule), launches)
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

/// Demands that nothing is found in launches, in whatever order they run.
///
/// # Panics
/// When something is.
#[track_caller]
pub fn always_silent(launches: impl Fn(&Stream) -> Result<()>) {
    for schedule in SCHEDULES {
        if let Some(finding) = findings_under(schedule, &launches).first() {
            panic!("under {schedule} a finding where nothing is wrong: {finding}");
        }
    }
}

/// How far apart the threads of a fault are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Lanes of one warp.
    Lanes,
    /// Threads of different warps of a block.
    Warps,
    /// Threads of one block, of one warp or of two.
    Threads,
    /// Threads of different blocks.
    Blocks,
}

impl Apart {
    fn are(self, a: &FindingSide, b: &FindingSide) -> bool {
        // The blocks of these tests are one-dimensional.
        let (warp_a, warp_b) = (a.thread.x / 32, b.thread.x / 32);
        match self {
            Self::Lanes => a.block == b.block && warp_a == warp_b && a.thread != b.thread,
            Self::Warps => a.block == b.block && warp_a != warp_b,
            Self::Threads => a.block == b.block && a.thread != b.thread,
            Self::Blocks => a.block != b.block,
        }
    }
}

/// What is to be said of two threads that meet in memory.
#[derive(Clone, Copy, Debug)]
pub struct Meeting<'a> {
    /// The rule.
    pub rule: CheckRule,
    /// The kernel's name.
    pub kernel: &'a str,
    /// A part of each side's line in the source, in either order.
    pub lines: [&'a str; 2],
    /// The name of the memory.
    pub memory: &'a str,
    /// How far apart the threads are.
    pub apart: Apart,
}

impl Meeting<'_> {
    /// Demands that it is found in launches, in whatever order they run, and nothing besides but
    /// races and reads that come too early.
    ///
    /// # Panics
    /// When it is not found, or something else is.
    #[track_caller]
    pub fn is_always_found(&self, launches: impl Fn(&Stream) -> Result<()>) {
        for schedule in SCHEDULES {
            println!("under {schedule}: {}", self.is_in(&findings_under(schedule, &launches)));
        }
    }

    /// Demands that it is among the findings, and nothing besides but races and reads that come too early, all of them at
    /// the kernel's lines.
    ///
    /// # Panics
    /// When it is not, or something else is.
    #[track_caller]
    pub fn is_in<'f>(&self, findings: &'f [Finding]) -> &'f Finding {
        for finding in findings {
            // A reader that is too early may also read what nobody has written.
            let is_early = finding.rule == CheckRule::Uninitialised;
            let is_race = matches!(finding.rule, CheckRule::DataRace | CheckRule::ConflictingWrites);
            let is_its = finding.kernel.ends_with(&format!("::{}", self.kernel));
            assert!((is_race || is_early) && is_its, "no finding of its: {finding}");
            assert!(is_early || finding.other.is_some(), "a race of one thread: {finding}");
            for side in std::iter::once(&finding.side).chain(&finding.other) {
                assert_eq!(function_at(side), self.kernel, "no line of the kernel's: {finding}");
            }
        }
        let is_it = |finding: &&Finding| {
            let (Some(other), Some(memory)) = (&finding.other, &finding.memory) else { return false };
            let lines = [line_of(&finding.side), line_of(other)];
            let has = |a: usize, b: usize| lines[a].contains(self.lines[0]) && lines[b].contains(self.lines[1]);
            finding.rule == self.rule
                && memory.name == self.memory
                && self.apart.are(&finding.side, other)
                && (has(0, 1) || has(1, 0))
        };
        findings.iter().find(is_it).unwrap_or_else(|| {
            let list: String = findings.iter().map(|finding| format!("\n  {finding}")).collect();
            panic!("nothing that was found is {self:?}:{list}");
        })
    }
}

/// The source of the tests' module in which a side is.
fn source_of(file: &str) -> Vec<String> {
    let name = Path::new(file).file_name().unwrap_or_else(|| panic!("{file:?} is no file"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules").join(name);
    let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    source.lines().map(str::to_owned).collect()
}

/// The line of the source at which a side is.
///
/// # Panics
/// When there is none.
pub fn line_of(side: &FindingSide) -> String {
    line_at(&side.file, side.line)
}

/// A line of a test's source, counted from 1.
///
/// # Panics
/// When there is none.
pub fn line_at(file: &str, line: u32) -> String {
    let line = (line as usize).checked_sub(1).unwrap_or_else(|| panic!("{file} has no line 0"));
    source_of(file).get(line).cloned().unwrap_or_else(|| panic!("{file} has no line {}", line + 1))
}

/// The name of the function whose lines a side is in.
fn function_at(side: &FindingSide) -> String {
    let source = source_of(&side.file);
    let header = source[..(side.line as usize).min(source.len())].iter().rev().find_map(|line| {
        let line = line.strip_prefix("unsafe ").unwrap_or(line);
        line.strip_prefix("fn ")
    });
    let header = header.unwrap_or_else(|| panic!("{side} is in no function"));
    header.split(['<', '(']).next().unwrap_or(header).to_owned()
}

/// The source lines whose places a message names, as `FILE:LINE:COLUMN` each.
pub fn lines_in(message: &str) -> Vec<String> {
    let of_word = |word: &str| {
        let (file, rest) = word.split_once(".rs:")?;
        let line = rest.split(':').next()?.parse().ok()?;
        Some(line_at(&format!("{file}.rs"), line))
    };
    message.split([' ', ',', ';']).filter_map(of_word).collect()
}

/// Demands that a fault about barriers is found in launches, in whatever order they run: the line at which the thread waits, and the
/// lines or words that are told besides it.
///
/// # Panics
/// When it is not found, or something else is.
#[track_caller]
pub fn diverges(kernel: &str, waits_at: &[&str], told: &[&str], launches: impl Fn(&Stream) -> Result<()>) {
    for schedule in SCHEDULES {
        let findings = findings_under(schedule, &launches);
        let finding = caught(CheckRule::BarrierDivergence, &findings);
        println!("under {schedule}: {finding}");
        assert!(finding.kernel.ends_with(&format!("::{kernel}")), "under {schedule}: {finding}");
        assert_eq!(function_at(&finding.side), kernel, "under {schedule}: {finding}");
        let line = line_of(&finding.side);
        assert!(waits_at.iter().any(|part| line.contains(part)), "under {schedule} at {line:?}: {finding}");
        let mut said = lines_in(&finding.message);
        said.extend([line, finding.to_string()]);
        for part in told {
            assert!(said.iter().any(|line| line.contains(part)), "under {schedule} not {part:?}: {finding}");
        }
    }
}

/// Demands that a warp operation's mask is found to name a lane that is not there, in whatever order launches run: the line, and the
/// lane.
///
/// # Panics
/// When it is not found, or something else is.
#[track_caller]
pub fn names_absent_lane(kernel: &str, line: &str, message: &str, launches: impl Fn(&Stream) -> Result<()>) {
    for schedule in SCHEDULES {
        let findings = findings_under(schedule, &launches);
        let finding = caught(CheckRule::WarpMask, &findings);
        println!("under {schedule}: {finding}");
        assert!(finding.kernel.ends_with(&format!("::{kernel}")), "under {schedule}: {finding}");
        assert_eq!(function_at(&finding.side), kernel, "under {schedule}: {finding}");
        assert!(line_of(&finding.side).contains(line), "under {schedule}: {finding}");
        assert_eq!(finding.message, message, "under {schedule}: {finding}");
    }
}

/// What a finding must say, of a fault that a kernel has only where it is asked to.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The rule.
    pub rule: CheckRule,
    /// The text of the test's file.
    pub source: &'a str,
    /// The line at fault: it ends with a comment of `at ` and this.
    pub place: &'a str,
    /// The block and the thread, along x, at which it is found.
    pub thread: (u32, u32),
    /// What the thread does, with values.
    pub action: &'a str,
    /// The memory's name and the element, where it is about memory.
    pub memory: Option<(&'a str, i128)>,
    /// How often it is found.
    pub count: u64,
}

impl Expected<'_> {
    /// Demands one finding, which says this.
    ///
    /// # Panics
    /// When there is another, or none.
    #[track_caller]
    pub fn only(&self, findings: &[Finding]) {
        self.first(findings);
        assert_eq!(findings.len(), 1, "{} was to be found once: {findings:#?}", self.rule);
    }

    /// Demands that the first finding says this, and that all are of the rule.
    ///
    /// # Panics
    /// When that is not so.
    #[track_caller]
    pub fn first(&self, findings: &[Finding]) {
        let finding = caught(self.rule, findings);
        let marker = format!("// at {}", self.place);
        let line = self.source.lines().position(|line| line.trim_end().ends_with(&marker));
        let line = line.unwrap_or_else(|| panic!("no line ends with `{marker}`")) as u32 + 1;
        assert_eq!(finding.side.line, line, "the line: {finding}");
        assert_eq!((finding.side.block.x, finding.side.thread.x), self.thread, "block and thread: {finding}");
        assert_eq!(finding.side.action, self.action, "{finding}");
        let memory = finding.memory.as_ref().map(|memory| (memory.name.as_str(), memory.element));
        assert_eq!(memory, self.memory, "the memory: {finding}");
        assert_eq!(finding.count, self.count, "how often: {finding}");
    }
}

/// Demands that launches with a fault give the finding, and alone it, and that without the fault nothing is found.
///
/// # Panics
/// When that is not so.
#[track_caller]
pub fn caught_and_silent(
    options: CheckOptions,
    expected: &Expected<'_>,
    launches: impl Fn(&Stream, bool) -> Result<()>,
) {
    silent(&findings(options, |stream| launches(stream, false)));
    expected.only(&findings(options, |stream| launches(stream, true)));
}
