//! Each rule: what must be found, and look-alikes that must not. The kernels are closures that call the hooks by hand, as checked
//! code does before each access.

mod atomics;
mod barriers;
mod bounds;
mod clusters;
mod narrow;
mod observe;
mod races;
mod random;
mod speed;
mod values;

use std::fmt;
use std::sync::LazyLock;

use warpsmith_device::abi::Scope;
use warpsmith_device::host::{Joins, Output};
use warpsmith_device::{Dim3, global_idx};

use super::arena::{Mark, Piece, Purpose};
use super::finding::{CheckRule, Finding};
use super::hooks::*;
use super::launch::{Argument, CheckedLaunch};
use super::observe::Observers;
use super::options::CheckOptions;
use super::site::{Site, SiteKind, Sites, ValueKind};
use crate::constants::Values;
use crate::cpu::schedule::Schedule;
use crate::cpu::{self, CpuLaunch, CpuPanic};

/// Numbers of places in [`SITES`].
mod at {
    pub(super) const LOAD: u32 = 0;
    pub(super) const STORE: u32 = 1;
    pub(super) const OTHER_LOAD: u32 = 2;
    pub(super) const OTHER_STORE: u32 = 3;
    pub(super) const COPY: u32 = 4;
    pub(super) const RELAXED_ADD: u32 = 5;
    pub(super) const ADD: u32 = 6;
    pub(super) const ACQUIRE_LOAD: u32 = 7;
    pub(super) const RELEASE_STORE: u32 = 8;
    pub(super) const RELAXED_LOAD: u32 = 9;
    pub(super) const RELAXED_STORE: u32 = 10;
    pub(super) const FENCE: u32 = 11;
    pub(super) const SUM: u32 = 12;
    pub(super) const DIVISION: u32 = 13;
    pub(super) const PRODUCT: u32 = 14;
    pub(super) const LOAD_8: u32 = 15;
    pub(super) const STORE_8: u32 = 16;
    pub(super) const LOAD_1: u32 = 17;
    pub(super) const STORE_1: u32 = 18;
    /// Two at one place in the source, as `+=` has them.
    pub(super) const UPDATE_LOAD: u32 = 19;
    pub(super) const UPDATE_STORE: u32 = 20;
    /// As the first of an aligned vector's four floats, and as the others, which count with it.
    pub(super) const JOINED: u32 = 21;
    pub(super) const FOLLOWING: u32 = 22;
}

static SITES: LazyLock<Sites> = LazyLock::new(|| {
    let atomic = |reads, writes, acquire, release| SiteKind::Atomic { reads, writes, acquire, release };
    let kinds = vec![
        (SiteKind::Load, 4, ValueKind::F32),
        (SiteKind::Store, 4, ValueKind::F32),
        (SiteKind::Load, 4, ValueKind::F32),
        (SiteKind::Store, 4, ValueKind::F32),
        (SiteKind::Copy, 0, ValueKind::Other),
        (atomic(true, true, false, false), 4, ValueKind::Int),
        (atomic(true, true, true, true), 4, ValueKind::Int),
        (atomic(true, false, true, false), 4, ValueKind::Int),
        (atomic(false, true, false, true), 4, ValueKind::Int),
        (atomic(true, false, false, false), 4, ValueKind::Int),
        (atomic(false, true, false, false), 4, ValueKind::Int),
        (SiteKind::Fence { acquire: true, release: true }, 0, ValueKind::Other),
        (SiteKind::Overflow { operation: "add".to_owned(), is_signed: true }, 4, ValueKind::Int),
        (SiteKind::Float("a division".to_owned()), 0, ValueKind::F32),
        (SiteKind::Overflow { operation: "mul".to_owned(), is_signed: false }, 0, ValueKind::Int),
        (SiteKind::Load, 8, ValueKind::F64),
        (SiteKind::Store, 8, ValueKind::F64),
        (SiteKind::Load, 1, ValueKind::Int),
        (SiteKind::Store, 1, ValueKind::Int),
        (SiteKind::Load, 4, ValueKind::F32),
        (SiteKind::Store, 4, ValueKind::F32),
        (SiteKind::Load, 4, ValueKind::F32),
        (SiteKind::Load, 4, ValueKind::F32),
    ];
    let site = |(line, (kind, bytes, value)): (u32, _)| Site {
        file: "kernel.rs".to_owned(),
        line: if line == 100 + at::UPDATE_STORE { line - 1 } else { line },
        column: 5,
        function: "kernel".to_owned(),
        inner: if matches!(kind, SiteKind::Overflow { .. }) {
            "core/src/num/mod.rs:3".to_owned()
        } else {
            String::new()
        },
        kind,
        bytes,
        align: bytes.max(1),
        value,
        counted: match line - 100 {
            at::JOINED => Some(16),
            at::FOLLOWING => Some(0),
            _ => None,
        },
    };
    Sites::new((100..).zip(kinds).map(site).collect())
});

struct Silent;

impl Output for Silent {
    fn print(&self, _: Dim3, _: Dim3, _: fmt::Arguments<'_>) {}
}

/// A shape to launch, as [`launch`] makes it.
#[derive(Clone, Copy)]
struct Launch {
    grid: Dim3,
    block: Dim3,
    cluster: Dim3,
    cooperative: bool,
    options: CheckOptions,
    schedule: Schedule,
}

fn launch(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Launch {
    let (grid, block, cluster) = (grid.into(), block.into(), 1.into());
    let options = CheckOptions::new().overflow(true).lossy_casts(true).non_finite(true);
    Launch { grid, block, cluster, cooperative: false, options, schedule: Schedule::Ascending }
}

impl Launch {
    /// Runs the kernel, and gives what it panicked with and what was found.
    fn run(&self, arguments: &[Argument], body: impl Fn() + Sync) -> (Result<(), CpuPanic>, Vec<Finding>) {
        self.run_observed(arguments, Observers::default(), body)
    }

    /// As `run`, with someone who looks on.
    fn run_observed(
        &self,
        arguments: &[Argument],
        observers: Observers<'_>,
        body: impl Fn() + Sync,
    ) -> (Result<(), CpuPanic>, Vec<Finding>) {
        self.try_run(arguments, observers, body).expect("the system gives the checker memory")
    }

    /// As `run_observed`, where the checker may fail.
    fn try_run(
        &self,
        arguments: &[Argument],
        observers: Observers<'_>,
        body: impl Fn() + Sync,
    ) -> Result<(Result<(), CpuPanic>, Vec<Finding>), String> {
        let thread = |_: &Scope| body();
        let request = CpuLaunch {
            kernel: "test::kernel",
            grid_dim: self.grid,
            block_dim: self.block,
            shared_bytes: 1024,
            needs_coroutines: true,
            joins: Joins::default(),
            cooperative: self.cooperative,
            cluster_dim: self.cluster,
            stack_bytes: cpu::DEFAULT_STACK_BYTES,
            schedule: Some(self.schedule),
            checked: true,
            output: &Silent,
            constants: &Values::default(),
            body: &|context, first, count| {
                // SAFETY: the executor gives threads of the context's block, and sees to the rest.
                unsafe { super::run_threads(context, first, count, thread) }
            },
        };
        let checked = CheckedLaunch {
            kernel: request.kernel,
            grid_dim: self.grid,
            block_dim: self.block,
            cluster_dim: self.cluster,
            cooperative: self.cooperative,
            options: self.options,
            sites: &SITES,
            arguments,
            observers,
        };
        let run = |other: Option<Schedule>| cpu::run(&CpuLaunch { schedule: other.or(Some(self.schedule)), ..request });
        super::run(checked, run)
    }

    /// What the kernel is found to do wrong.
    fn find(&self, buffers: &[&Buffer], body: impl Fn() + Sync) -> Vec<Finding> {
        let arguments: Vec<_> = buffers.iter().map(|buffer| buffer.argument()).collect();
        let (ran, findings) = self.run(&arguments, body);
        assert!(ran.is_ok(), "{ran:?}: {findings:#?}");
        findings
    }

    /// Runs a kernel that does nothing wrong, under several schedules.
    #[track_caller]
    fn clean(&self, buffers: &[&Buffer], body: impl Fn() + Sync) {
        for schedule in [Schedule::Ascending, Schedule::Reversed, Schedule::RoundRobin, Schedule::Random(7)] {
            let findings = Self { schedule, ..*self }.find(buffers, &body);
            assert!(findings.is_empty(), "under {schedule}:\n{}", list(&findings));
        }
    }

    /// Runs a kernel that breaks exactly this rule, at one pair of places, under several schedules, and gives the finding of the
    /// ascending one.
    #[track_caller]
    fn caught(&self, rule: CheckRule, buffers: &[&Buffer], body: impl Fn() + Sync) -> Finding {
        for schedule in [Schedule::Reversed, Schedule::RoundRobin, Schedule::Random(7)] {
            let findings = Self { schedule, ..*self }.find(buffers, &body);
            assert!(findings.iter().any(|finding| finding.rule == rule), "under {schedule}:\n{}", list(&findings));
        }
        let mut findings = self.find(buffers, &body);
        assert!(findings.len() == 1 && findings[0].rule == rule, "{rule}:\n{}", list(&findings));
        findings.remove(0)
    }
}

fn list(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

/// A buffer of the checker's memory, as a checked device makes it.
struct Buffer {
    piece: Piece,
    name: &'static str,
}

impl Buffer {
    fn new(name: &'static str, len: usize, what: Mark) -> Self {
        let purpose = Purpose::Buffer { element: "f32", element_bytes: 4 };
        let (piece, _) = Piece::new(len * 4, 256, purpose).unwrap();
        piece.mark(0, len * 4, what);
        Self { piece, name }
    }

    fn argument(&self) -> Argument {
        Argument { name: self.name.to_owned(), address: self.address() }
    }

    fn address(&self) -> usize {
        self.piece.address().addr()
    }

    /// The address of an element.
    fn at(&self, index: usize) -> Slot {
        Slot(self.address().wrapping_add(index.wrapping_mul(4)))
    }
}

/// Where an `f32` lies, accessed as checked code does.
#[derive(Clone, Copy, PartialEq)]
struct Slot(usize);

impl Slot {
    fn ptr(self) -> *mut f32 {
        std::ptr::with_exposed_provenance_mut(self.0)
    }

    fn load_at(self, site: u32) -> f32 {
        // SAFETY: the tests keep what they touch, and one thread of the system runs a checked launch.
        unsafe {
            __warpsmith_check_load_4(self.ptr().cast(), site);
            self.ptr().read()
        }
    }

    fn load(self) -> f32 {
        self.load_at(at::LOAD)
    }

    fn store_at(self, value: f32, site: u32) {
        // SAFETY: as above.
        unsafe {
            __warpsmith_check_store_4(self.ptr().cast(), value.to_bits().into(), site);
            self.ptr().write(value);
        }
    }

    fn store(self, value: f32) {
        self.store_at(value, at::STORE);
    }

    fn add(self, value: u32, site: u32) -> u32 {
        let ptr = self.ptr().cast::<u32>();
        // SAFETY: as above.
        unsafe {
            __warpsmith_check_atomic(ptr.cast(), site);
            let before = ptr.read();
            ptr.write(before + value);
            before
        }
    }

    fn atomic_store(self, value: u32, site: u32) {
        let ptr = self.ptr().cast::<u32>();
        // SAFETY: as above.
        unsafe {
            __warpsmith_check_atomic(ptr.cast(), site);
            ptr.write(value);
        }
    }

    fn atomic_load(self, site: u32) -> u32 {
        let ptr = self.ptr().cast::<u32>();
        // SAFETY: as above.
        unsafe {
            __warpsmith_check_atomic(ptr.cast(), site);
            ptr.read()
        }
    }
}

/// The thread's number in the grid.
fn global() -> usize {
    global_idx().get()
}
