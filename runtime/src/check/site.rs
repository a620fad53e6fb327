//! Places in checked code that call the hooks, as the instrumentation numbers them.

/// A place in a kernel's source, or in what it calls, that touches memory or computes something worth a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// Source file, as the compiler names it.
    pub(crate) file: String,
    /// Line, from 1; 0 where the compiler tells none.
    pub(crate) line: u32,
    /// Column, from 1; 0 where the compiler tells none.
    pub(crate) column: u32,
    /// The function that it stands in.
    pub(crate) function: String,
    /// Where in a library that the line calls it happens; empty where the line itself does it.
    pub(crate) inner: String,
    /// What it does.
    pub(crate) kind: SiteKind,
    /// Bytes that it touches; 0 where that differs from call to call.
    pub(crate) bytes: u32,
    /// Alignment in bytes that its address must have.
    pub(crate) align: u32,
    /// How to print what it moves.
    pub(crate) value: ValueKind,
    /// As how many bytes the memory report counts it, where a GPU joins it with its neighbours: 0 where another place counts for it.
    pub(crate) counted: Option<u32>,
}

/// What a place does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SiteKind {
    Load,
    Store,
    /// Moves bytes that nothing looks at.
    Copy,
    Atomic {
        reads: bool,
        writes: bool,
        acquire: bool,
        release: bool,
    },
    Fence {
        acquire: bool,
        release: bool,
    },
    /// Arithmetic on integers, which have as many bytes as the place touches where they are known.
    Overflow {
        operation: String,
        is_signed: bool,
    },
    /// Arithmetic on floats, by its name.
    Float(String),
}

/// How to print a value's bits; their number is the place's `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    F16,
    F32,
    F64,
    Int,
    Pointer,
    /// Bytes without a meaning that the compiler tells.
    Other,
}

/// The places of a module of kernels, by number.
#[derive(Debug, Default)]
pub(crate) struct Sites(Vec<Site>);

impl Sites {
    /// The places, in the order of their numbers.
    pub(crate) fn new(sites: Vec<Site>) -> Self {
        Self(sites)
    }

    /// The place with this number.
    pub(crate) fn get(&self, number: u32) -> Option<&Site> {
        self.0.get(number as usize)
    }
}
