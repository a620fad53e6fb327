//! A checked launch: what it looks for, and what it has found.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

use warpsmith_device::Dim3;

use super::clocks::Logs;
use super::finding::{CheckRule, Finding};
use super::observe::{self, Observers, Seen};
use super::options::CheckOptions;
use super::order::{self, Log};
use super::site::{Site, Sites};
use super::turns::NOW;
use super::{split, turns};
use crate::cpu::CpuPanic;
use crate::cpu::schedule::Schedule;

/// A launch that is to be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedLaunch<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) grid_dim: Dim3,
    pub(crate) block_dim: Dim3,
    pub(crate) cluster_dim: Dim3,
    /// Whether all of its blocks are alive at once.
    pub(crate) cooperative: bool,
    pub(crate) options: CheckOptions,
    /// The places of the checked code's module.
    pub(crate) sites: &'a Sites,
    /// The buffers that its arguments are of.
    pub(crate) arguments: &'a [Argument],
    /// Who looks on.
    pub(crate) observers: Observers<'a>,
}

/// An argument of a launch that points to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    /// The parameter's name.
    pub(crate) name: String,
    /// Address of its first element.
    pub(crate) address: usize,
}

/// The launch that is checked now.
pub(super) struct State<'a> {
    pub(super) request: CheckedLaunch<'a>,
    pub(super) logs: RefCell<Logs>,
    pub(super) found: RefCell<Found>,
    pub(super) seen: RefCell<Seen>,
    /// Why what was found counts for nothing, where the checker could not follow the launch to its end.
    failure: RefCell<Option<String>>,
    /// What the launch wrote, where that is to be compared.
    pub(super) log: RefCell<Option<Log>>,
}

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) findings: Vec<Finding>,
    /// By rule and both places.
    known: HashMap<(CheckRule, u64, u64), usize>,
}

/// Most findings of a launch; more are not told apart from the last.
const MOST_FINDINGS: usize = 1000;

impl Found {
    /// Counts a finding, which is made if it is the first of its kind at these places.
    pub(super) fn count(&mut self, rule: CheckRule, places: (u64, u64), make: impl FnOnce() -> Finding) {
        let at = *self.known.entry((rule, places.0, places.1)).or_insert_with(|| {
            if self.findings.len() < MOST_FINDINGS {
                self.findings.push(make());
            }
            self.findings.len() - 1
        });
        self.findings[at].count += 1;
    }
}

static CURRENT: AtomicPtr<State<'static>> = AtomicPtr::new(ptr::null_mut());

/// Held by the launch that is checked, with the thread that it runs on: the checker's state is one for the process.
static LAUNCH: Mutex<()> = Mutex::new(());
static OWNER: Mutex<Option<ThreadId>> = Mutex::new(None);

/// Runs `f` on the launch that is checked now.
#[inline]
pub(super) fn with<R>(f: impl FnOnce(&State<'_>) -> R) -> Option<R> {
    let state = CURRENT.load(Ordering::Relaxed);
    // SAFETY: `run` put the address of a state there that it keeps until it has taken it away; only the thread that it runs on
    // calls hooks.
    (!state.is_null()).then(|| f(unsafe { &*state }))
}

/// Runs `f` on what was found so far in the launch that is checked now, unless the calling thread, which runs it, is about to change
/// that. It takes no lock and allocates nothing.
pub(crate) fn look_at_findings<R>(f: impl FnOnce(&[Finding]) -> R) -> Option<R> {
    with(|state| state.found.try_borrow().ok().map(|found| f(&found.findings))).flatten()
}

/// Notes that the checker cannot follow the launch any further; its hooks may not panic.
#[cold]
pub(super) fn fail(failure: String) {
    with(|state| {
        state.failure.borrow_mut().get_or_insert(failure);
    });
}

/// The place with this number in the module of the launch.
#[inline]
pub(super) fn site<'a>(number: u32) -> Option<&'a Site> {
    let state = CURRENT.load(Ordering::Relaxed);
    // SAFETY: as in `with`; the places outlive the launch, and what is given here is used in one hook only.
    (!state.is_null()).then(|| unsafe { &*state })?.request.sites.get(number)
}

impl<'a> State<'a> {
    pub(super) fn new(request: CheckedLaunch<'a>) -> Self {
        Self {
            request,
            logs: RefCell::default(),
            found: RefCell::default(),
            seen: RefCell::default(),
            failure: RefCell::default(),
            log: RefCell::default(),
        }
    }
}

impl State<'_> {
    /// The number of the cluster of a block; `None` where the launch has no clusters.
    pub(super) fn cluster_of(&self, block: u64) -> Option<u64> {
        let (grid, dim) = (self.request.grid_dim, self.request.cluster_dim);
        if dim.count() <= 1 {
            return None;
        }
        let Dim3 { x, y, z } = self.block_idx(block);
        let (x, y, z) = (u64::from(x / dim.x), u64::from(y / dim.y), u64::from(z / dim.z));
        Some((z * u64::from(grid.y / dim.y) + y) * u64::from(grid.x / dim.x) + x)
    }

    /// Whether a block may go on before another has ended.
    pub(super) fn blocks_take_turns(&self) -> bool {
        self.request.cooperative || self.request.cluster_dim.count() > 1
    }

    /// A block's place, by its linear number.
    pub(super) fn block_idx(&self, block: u64) -> Dim3 {
        position(block, self.request.grid_dim)
    }

    /// A thread's place in its block, by its linear number.
    pub(super) fn thread_idx(&self, thread: u32) -> Dim3 {
        position(thread.into(), self.request.block_dim)
    }
}

fn position(number: u64, dim: Dim3) -> Dim3 {
    let (x, y) = (u64::from(dim.x), u64::from(dim.y));
    Dim3 { x: (number % x) as u32, y: (number / x % y) as u32, z: (number / x / y) as u32 }
}

/// Runs a launch whose code calls the hooks, on the calling thread alone, and gives what was found. `run` runs it under its own
/// schedule for `None`; where outcomes are to be compared it is called for other schedules, too.
///
/// # Errors
/// When the system gives the checker no memory, when the launch does more than it can follow, and for a launch from a kernel that is checked itself.
pub(crate) fn run(
    request: CheckedLaunch<'_>,
    mut run: impl FnMut(Option<Schedule>) -> Result<(), CpuPanic>,
) -> Result<(Result<(), CpuPanic>, Vec<Finding>), String> {
    let own = std::thread::current().id();
    if *OWNER.lock().unwrap_or_else(PoisonError::into_inner) == Some(own) {
        return Err(
            "a kernel that is checked launches another one, and the checker follows one launch at a time".to_owned()
        );
    }
    let _one_at_a_time = LAUNCH.lock().unwrap_or_else(PoisonError::into_inner);
    let compares = request.options.schedule_count() > 1;
    let Once { result, mut findings, log } = once(request, own, compares, || run(None))?;
    if compares && result.is_ok() {
        order::compare(request, own, log, &mut findings, &mut run)?;
    }
    Ok((result, findings))
}

/// What came of running a launch once.
pub(super) struct Once {
    pub(super) result: Result<(), CpuPanic>,
    pub(super) findings: Vec<Finding>,
    /// What it wrote, where that was asked for.
    pub(super) log: Log,
}

/// Runs a launch once. The caller holds [`LAUNCH`].
pub(super) fn once(
    request: CheckedLaunch<'_>,
    own: ThreadId,
    logs: bool,
    run: impl FnOnce() -> Result<(), CpuPanic>,
) -> Result<Once, String> {
    let state = State::new(request);
    state.log.replace(logs.then(Log::default));
    turns::start_launch().map_err(|error| format!("the checker gets no memory from the system: {error}"))?;
    split::start_launch();
    let clusters = request.cluster_dim.count();
    NOW.clusters.store(if clusters > 1 { clusters as u32 } else { 0 }, Ordering::Relaxed);
    NOW.observed.store(u32::from(logs || !request.observers.are_none()), Ordering::Relaxed);
    let result = {
        let _entered = Entered::new(&state, own);
        let result = run();
        observe::finish(&state);
        result
    };
    if let Some(failure) = state.failure.take() {
        return Err(failure);
    }
    Ok(Once { result, findings: state.found.into_inner().findings, log: state.log.take().unwrap_or_default() })
}

/// Takes the launch away again, also when it panics.
pub(super) struct Entered;

impl Entered {
    pub(super) fn new(state: &State<'_>, own: ThreadId) -> Self {
        *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
        CURRENT.store(ptr::from_ref(state).cast_mut().cast(), Ordering::Relaxed);
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.store(ptr::null_mut(), Ordering::Relaxed);
        NOW.observed.store(0, Ordering::Relaxed);
        turns::end_launch();
        *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
