//! What checked launches asked of memory, by source line.

use std::collections::BTreeMap;
use std::fmt;

use super::{html, listing};

/// What checked launches asked of memory, for each source line of each kernel.
///
/// A GPU serves the lanes of a warp together. Global memory comes in sectors of 32 bytes: the fewer of them a warp's request
/// touches, the less is moved. Shared memory has 32 banks of 4 bytes, each of which gives one word a turn (a *wavefront*), to
/// all lanes that ask for it; lanes that want different words of one bank wait for each other. Lanes that access 8 bytes go in
/// two halves, those that access 16 in four quarters. For each line the report counts sectors or wavefronts against the fewest
/// that accesses of this size by as many lanes can take.
///
/// `Display` prints a table, [`annotated_source`](Self::annotated_source) the source with the figures beside it, and
/// [`to_html`](Self::to_html) makes a page of both.
///
/// # What it does not see
/// Caches: a sector that several requests touch counts for each of them. Several atomics on one address, which a GPU
/// does one after another. Which instructions the GPU's own compiler makes of a line: an access of more than 16 bytes counts as
/// several, as wide as its addresses allow. Lanes that part and meet again are put together by how often each came to the line.
/// Of a lane that runs thousands of executions ahead of its warp, later ones are left out and counted as such.
///
/// # Source
/// CUDA C++ Programming Guide, "Shared Memory" and "Device Memory Accesses".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    lines: BTreeMap<Key, Totals>,
}

/// Where accesses are counted; it orders the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kernel: String,
    file: String,
    line: u32,
    space: MemorySpace,
    is_write: bool,
}

/// A [`Key`] that borrows.
pub(super) struct Place<'a> {
    pub(super) kernel: &'a str,
    pub(super) file: &'a str,
    pub(super) line: u32,
    pub(super) space: MemorySpace,
    pub(super) is_write: bool,
}

/// Which memory a line accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MemorySpace {
    /// Device memory; counted in sectors of 32 bytes.
    Global,
    /// A block's shared memory; counted in wavefronts.
    Shared,
}

impl MemorySpace {
    /// What it is counted in.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Global => "sectors",
            Self::Shared => "wavefronts",
        }
    }
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Global => "global",
            Self::Shared => "shared",
        })
    }
}

/// Counts of requests and what they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) accesses: u64,
    pub(super) requests: u64,
    pub(super) transactions: u64,
    pub(super) fewest: u64,
    pub(super) left_out: u64,
}

impl Totals {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn add(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.requests += other.requests;
        self.transactions += other.transactions;
        self.fewest += other.fewest;
        self.left_out += other.left_out;
    }
}

/// Accesses of one kind by one source line.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LineTraffic<'a> {
    /// The kernel's path.
    pub kernel: &'a str,
    /// Source file, as rustc was given it.
    pub file: &'a str,
    /// Line, from 1.
    pub line: u32,
    /// The memory that is accessed.
    pub space: MemorySpace,
    /// Whether it is written, as opposed to read.
    pub is_write: bool,
    /// Accesses, counted by thread.
    pub accesses: u64,
    /// Requests, in which the lanes of a warp access memory together.
    pub requests: u64,
    /// Sectors of global memory, or wavefronts of shared memory, that the requests took.
    pub transactions: u64,
    /// The fewest that could have been.
    pub fewest: u64,
    /// Accesses, counted by thread, of lanes too far ahead of their warp; they are in none of the other numbers.
    pub left_out: u64,
}

impl LineTraffic<'_> {
    /// The fewest possible sectors or wavefronts, divided by those that were taken: 1 is best.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        if self.transactions == 0 { 1.0 } else { self.fewest as f64 / self.transactions as f64 }
    }

    /// `reads` or `writes`.
    pub(super) fn kind(&self) -> &'static str {
        if self.is_write { "writes" } else { "reads" }
    }
}

impl MemoryReport {
    /// Lines with traffic, ordered by kernel, file and line.
    pub fn lines(&self) -> impl Iterator<Item = LineTraffic<'_>> {
        self.lines.iter().map(|(key, totals)| {
            let Totals { accesses, requests, transactions, fewest, left_out } = *totals;
            let Key { kernel, file, line, space, is_write } = key;
            LineTraffic {
                kernel,
                file,
                line: *line,
                space: *space,
                is_write: *is_write,
                accesses,
                requests,
                transactions,
                fewest,
                left_out,
            }
        })
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The source files that have lines here, with the figures at the end of each line, all kernels together.
    ///
    /// A file that can't be read has its lines with traffic alone. Paths are looked for from the working directory, its parents
    /// and the package of a `cargo run` or `cargo test`.
    #[must_use]
    pub fn annotated_source(&self) -> String {
        listing::text(self)
    }

    /// The table and the annotated source as an HTML page that needs nothing else.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    pub(super) fn add(&mut self, place: Place<'_>, totals: Totals) {
        if totals.is_empty() {
            return;
        }
        let Place { kernel, file, line, space, is_write } = place;
        let key = Key { kernel: kernel.to_owned(), file: file.to_owned(), line, space, is_write };
        self.lines.entry(key).or_default().add(totals);
    }

    /// Adds what another report counted.
    pub(crate) fn merge(&mut self, other: Self) {
        for (key, totals) in other.lines {
            self.lines.entry(key).or_default().add(totals);
        }
    }

    /// The same lines as if there were one kernel.
    pub(super) fn of_all_kernels(&self) -> Self {
        let mut all = Self::default();
        for (Key { file, line, space, is_write, .. }, totals) in &self.lines {
            all.add(Place { kernel: "", file, line: *line, space: *space, is_write: *is_write }, *totals);
        }
        all
    }
}

/// A table for each kernel.
impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return writeln!(f, "no accesses of device or shared memory were counted");
        }
        let place = |line: &LineTraffic<'_>| format!("{}:{}", line.file, line.line);
        let width = self.lines().map(|line| place(&line).chars().count()).max().unwrap_or(0);
        let mut kernel = None;
        for line in self.lines() {
            if kernel != Some(line.kernel) {
                kernel = Some(line.kernel);
                writeln!(f, "kernel `{}`", line.kernel)?;
                let titles = ["accesses", "requests", "taken", "fewest"].map(|title| format!("{title:>12}")).concat();
                writeln!(f, "  {:width$}  {:6}  {:6}{titles}              efficiency", "line", "memory", "kind")?;
            }
            let LineTraffic { accesses, requests, transactions, fewest, left_out, .. } = line;
            write!(f, "  {:width$}  {:6}  {:6}", place(&line), line.space, line.kind())?;
            write!(f, "{accesses:>12}{requests:>12}{transactions:>12}{fewest:>12}  {:10}", line.space.unit())?;
            write!(f, "{:>10.1} %", line.efficiency() * 100.0)?;
            if left_out > 0 {
                write!(f, "  ({left_out} accesses of lanes far ahead of their warp left out)")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
