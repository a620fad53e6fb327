//! Runs a launch again from the same memory under other schedules, and compares what it leaves there.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread::ThreadId;

use super::arena::{SHARED_BYTES, WATCHED};
use super::finding::{CheckRule, Finding, FindingSide};
use super::launch::{CheckedLaunch, Entered, Once, State, once};
use super::observe::Observers;
use super::report;
use super::shadow::{self, GRANULE};
use super::turns::Who;
use crate::cpu::CpuPanic;
use crate::cpu::schedule::Schedule;

/// What a launch wrote to buffers, by granule: what was there before, and who wrote last.
#[derive(Debug, Default)]
pub(super) struct Log(BTreeMap<usize, Written>);

#[derive(Clone, Copy, Debug)]
struct Written {
    before: Granule,
    who: Who,
    place: u32,
}

/// What a granule holds, and which of its bytes hold something.
#[derive(Clone, Copy, Debug)]
struct Granule {
    bytes: [u8; GRANULE],
    state: u8,
}

impl Log {
    /// Notes a write that is about to be made.
    pub(super) fn note(&mut self, offset: usize, bytes: usize, who: Who, place: u32) {
        let end = WATCHED.open.load(Ordering::Relaxed).min(offset.saturating_add(bytes));
        if offset < SHARED_BYTES || offset >= end {
            return;
        }
        for granule in offset / GRANULE..end.div_ceil(GRANULE) {
            let now = || Written { before: Granule::read(granule), who, place };
            let written = self.0.entry(granule).or_insert_with(now);
            (written.who, written.place) = (who, place);
        }
    }
}

impl Granule {
    /// What is there. The granule is open, and the launch that writes it runs on this thread.
    fn read(granule: usize) -> Self {
        let address = WATCHED.start.load(Ordering::Relaxed) + granule * GRANULE;
        // SAFETY: the granule is open, and nobody else uses the memory that a launch writes.
        let bytes = unsafe { std::ptr::with_exposed_provenance::<[u8; GRANULE]>(address).read_volatile() };
        Self { bytes, state: shadow::state(granule) }
    }

    /// Puts it there; as for reading.
    fn write(self, granule: usize) {
        let address = WATCHED.start.load(Ordering::Relaxed) + granule * GRANULE;
        // SAFETY: as above.
        unsafe { std::ptr::with_exposed_provenance_mut::<[u8; GRANULE]>(address).write_volatile(self.bytes) };
        shadow::set_state(granule, self.state);
    }

    /// The first byte that differs where both hold something.
    fn differs(self, other: Self) -> Option<usize> {
        let holds = (self.state & other.state) >> GRANULE;
        (0..GRANULE).find(|&byte| holds & (1 << byte) != 0 && self.bytes[byte] != other.bytes[byte])
    }
}

/// What a launch leaves, with memory as it was before the launch.
struct Outcome(BTreeMap<usize, (Written, Granule)>);

impl Outcome {
    /// Takes what a launch has left, and undoes it.
    fn take(log: Log) -> Self {
        let all = log.0.into_iter().map(|(granule, written)| {
            let after = Granule::read(granule);
            written.before.write(granule);
            (granule, (written, after))
        });
        Self(all.collect())
    }

    /// Does again what was undone.
    fn redo(&self) {
        for (&granule, (_, after)) in &self.0 {
            after.write(granule);
        }
    }

    /// What it leaves in a granule.
    fn get(&self, granule: usize) -> Granule {
        self.0.get(&granule).map_or_else(|| Granule::read(granule), |(_, after)| *after)
    }

    fn byte(&self, offset: usize) -> u8 {
        self.get(offset / GRANULE).bytes[offset % GRANULE]
    }
}

/// Runs a launch that went well again under so many schedules as its options say, less one. What it left the first time is what
/// is there in the end.
pub(super) fn compare(
    request: CheckedLaunch<'_>,
    own: ThreadId,
    log: Log,
    findings: &mut Vec<Finding>,
    run: &mut dyn FnMut(Option<Schedule>) -> Result<(), CpuPanic>,
) -> Result<(), String> {
    let request = CheckedLaunch { observers: Observers::default(), ..request };
    let first = request.options.run_under();
    let outcome = Outcome::take(log);
    let others = (1..).map(Schedule::Random).filter(|schedule| *schedule != first);
    let state = State::new(request);
    for schedule in others.take(request.options.schedule_count() as usize - 1) {
        let again = once(request, own, true, || run(Some(schedule)))?;
        let Once { result, findings: more, log } = again;
        let is_new = |finding: &Finding| !findings.iter().any(|known| is_same_fault(known, finding));
        let more: Vec<Finding> = more.into_iter().filter(is_new).collect();
        findings.extend(more);
        let other = Outcome::take(log);
        let _entered = Entered::new(&state, own);
        match result {
            Ok(()) => difference(&state, (first, &outcome), (schedule, &other)),
            Err(panic) => panicked(&state, first, schedule, &panic),
        }
    }
    outcome.redo();
    findings.extend(state.found.into_inner().findings);
    Ok(())
}

/// Whether two findings are of one rule at the same places.
fn is_same_fault(a: &Finding, b: &Finding) -> bool {
    let place = |side: &FindingSide| (side.file.clone(), side.line, side.column);
    let places = |finding: &Finding| {
        let mut places = [Some(place(&finding.side)), finding.other.as_ref().map(place)];
        places.sort();
        places
    };
    a.rule == b.rule && places(a) == places(b)
}

/// Reports where two outcomes differ; memory is as it was before both.
fn difference(state: &State<'_>, (first, one): (Schedule, &Outcome), (second, two): (Schedule, &Outcome)) {
    let mut granules: Vec<usize> = one.0.keys().chain(two.0.keys()).copied().collect();
    granules.sort_unstable();
    granules.dedup();
    let mut last = None;
    for granule in granules {
        let Some(byte) = one.get(granule).differs(two.get(granule)) else { continue };
        let offset = granule * GRANULE + byte;
        let writers =
            [one, two].map(|outcome| outcome.0.get(&granule).map(|(written, _)| (written.who, written.place)));
        let Some((_, place)) = writers[0].or(writers[1]) else { continue };
        // Elements of more than one granule are told once.
        let memory = report::memory(state, offset, place);
        let element = memory.as_ref().map(|memory| (memory.name.clone(), memory.element));
        if element.is_some() && element == last {
            continue;
        }
        last = element;
        let places = writers.map(|writer| writer.map_or(u64::MAX, |(_, place)| u64::from(place)));
        let key = (places[0].min(places[1]), places[0].max(places[1]));
        state.found.borrow_mut().count(CheckRule::OrderDependent, key, || {
            let values = [one, two]
                .map(|outcome| report::value_of(offset, place, memory.as_ref(), &|offset| outcome.byte(offset)));
            let side = |i: usize, schedule: Schedule| {
                let (who, place) = writers[i]?;
                let action = format!("writes {} last under the schedule {schedule}", values[i]);
                Some(report::side(state, who, place, action))
            };
            let (one, two) = (side(0, first), side(1, second));
            let (side, other) = match (one, two) {
                (Some(one), two) => (one, two),
                (None, two) => (two.expect("one of the two wrote"), None),
            };
            let message = format!(
                "the launch leaves {} there under the schedule {first} and {} under {second}, from the same memory; \
                 {}",
                values[0],
                values[1],
                again(second)
            );
            Finding { other, memory, ..report::finding(state, CheckRule::OrderDependent, side, message) }
        });
    }
}

/// How to have a schedule again.
fn again(schedule: Schedule) -> String {
    format!(
        "`WARPSMITH_CHECK=1 WARPSMITH_SCHEDULE={schedule}`, or `CheckOptions::schedule`, runs the program under the latter"
    )
}

/// Reports a launch that panics under one schedule and not under another.
fn panicked(state: &State<'_>, first: Schedule, second: Schedule, panic: &CpuPanic) {
    let places = (u64::from(panic.line) << 32 | u64::from(panic.column), u64::MAX - 1);
    state.found.borrow_mut().count(CheckRule::OrderDependent, places, || {
        let side = FindingSide {
            block: panic.block,
            thread: panic.thread,
            action: format!("panics under the schedule {second}: {}", panic.message),
            file: panic.file.clone(),
            line: panic.line,
            column: panic.column,
            function: String::new(),
            inner: String::new(),
        };
        let message = format!("under the schedule {first} no thread panics, from the same memory; {}", again(second));
        report::finding(state, CheckRule::OrderDependent, side, message)
    });
}

/// Notes a write for the launch that is checked now, where its outcome is to be compared.
pub(super) fn note(state: &State<'_>, offset: usize, bytes: usize, who: Who, place: u32) {
    if let Some(log) = &mut *state.log.borrow_mut() {
        log.note(offset, bytes, who, place);
    }
}
