//! What the checker reports.

use std::fmt;

use warpsmith_device::Dim3;

use crate::error::KernelPanic;

/// A kind of fault that the checker finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckRule {
    /// A read and a write of one place in memory by two threads, which nothing orders.
    DataRace,
    /// Two writes to one place in memory by two threads, which nothing orders.
    ConflictingWrites,
    /// A read of memory that holds nothing yet.
    Uninitialised,
    /// An access outside of every buffer and every piece of shared memory.
    OutOfBounds,
    /// An access to a buffer that was freed, or to another block's shared memory after its end.
    UseAfterFree,
    /// An access at an address that is no multiple of its type's alignment.
    Misaligned,
    /// Threads of a block that are at different barriers, or have ended when others wait at one.
    BarrierDivergence,
    /// A warp operation whose mask names a lane that has ended or that its warp does not have.
    WarpMask,
    /// A NaN or an infinity that came of finite operands.
    NonFinite,
    /// Integer arithmetic that wrapped.
    Overflow,
    /// An `as` that changed the value.
    LossyCast,
    /// A value that depends on the order in which threads ran.
    OrderDependent,
}

impl fmt::Display for CheckRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DataRace => "data race",
            Self::ConflictingWrites => "conflicting writes",
            Self::Uninitialised => "uninitialised read",
            Self::OutOfBounds => "access out of bounds",
            Self::UseAfterFree => "use after free",
            Self::Misaligned => "misaligned access",
            Self::BarrierDivergence => "barrier divergence",
            Self::WarpMask => "warp mask",
            Self::NonFinite => "number that is not finite",
            Self::Overflow => "overflow",
            Self::LossyCast => "lossy cast",
            Self::OrderDependent => "order-dependent result",
        })
    }
}

/// A thread, what it did, and where.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FindingSide {
    /// The thread's block.
    pub block: Dim3,
    /// The thread in its block.
    pub thread: Dim3,
    /// What it did, with the value where that is known: "writes 3.5".
    pub action: String,
    /// Source file; empty where it is not known.
    pub file: String,
    /// Line, from 1; 0 where it is not known.
    pub line: u32,
    /// Column, from 1; 0 where it is not known.
    pub column: u32,
    /// The function at the place; empty where it is not known.
    pub function: String,
    /// Where in a library that the place calls it happened, as `core/src/num/mod.rs:394`; empty where it is the place itself, or
    /// not known.
    pub inner: String,
}

impl fmt::Display for FindingSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} of block {} {}", self.thread, self.block, self.action)?;
        if !self.file.is_empty() {
            write!(f, " at {}:{}:{}", self.file, self.line, self.column)?;
        }
        if !self.inner.is_empty() {
            write!(f, " (in {})", self.inner)?;
        }
        if !self.function.is_empty() {
            write!(f, " in `{}`", self.function)?;
        }
        Ok(())
    }
}

/// A place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindingMemory {
    /// The kernel's parameter, or what else the memory is: "`x`", "shared memory".
    pub name: String,
    /// The type of an element.
    pub element_type: String,
    /// Elements.
    pub len: usize,
    /// The element that was touched; past the end or before the start where that was the fault.
    pub element: i128,
    /// Bytes from the start.
    pub byte: i128,
}

impl fmt::Display for FindingMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, element_type, len, element, .. } = self;
        write!(f, "element {element} of {name} ({})", elements(*len, element_type))
    }
}

/// How many elements of which type.
pub(super) fn elements(len: usize, element_type: &str) -> String {
    let unit = if len == 1 { "element" } else { "elements" };
    format!("{len} {unit} of `{element_type}`")
}

/// A fault in a launch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// What kind of fault it is.
    pub rule: CheckRule,
    /// The kernel's path.
    pub kernel: String,
    /// The thread at which it was found.
    pub side: FindingSide,
    /// The other thread, where two are at fault.
    pub other: Option<FindingSide>,
    /// The memory, where it is about memory; an address far from every buffer is in none.
    pub memory: Option<FindingMemory>,
    /// What is wrong, and what to do where that is known.
    pub message: String,
    /// How often it was found at these places in the launch.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in kernel `{}`: {}", self.rule, self.kernel, self.side)?;
        if let Some(other) = &self.other {
            write!(f, "; {other}")?;
        }
        if let Some(memory) = &self.memory {
            write!(f, "; {memory}")?;
        }
        if !self.message.is_empty() {
            write!(f, "; {}", self.message)?;
        }
        match self.count {
            0 | 1 => Ok(()),
            count => write!(f, " ({count} times)"),
        }
    }
}

/// What the checker found in the launches since the last report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckReport {
    /// The findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    /// The first panic of the launches, where there was one.
    pub panic: Option<Box<KernelPanic>>,
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = if self.findings.len() == 1 { "1 fault" } else { &format!("{} faults", self.findings.len()) };
        write!(f, "the checker found {faults}:")?;
        for finding in &self.findings {
            write!(f, "\n  {finding}")?;
        }
        match &self.panic {
            Some(panic) => write!(f, "\n  also, {panic}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CheckReport {}
