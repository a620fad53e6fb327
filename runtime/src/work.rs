//! How a piece of work that a stream is given is seen: as a span of `tracing`, as a range of NVTX, and in a timeline.
//!
//! Where nobody looks, this costs three comparisons.

use tracing::Level;
use tracing::span::EnteredSpan;

use crate::nvtx;
use crate::stream::Stream;
use crate::timeline::{Timing, WorkKind};
use crate::{Dim3, LaunchConfig};

/// A piece of work, described for those who look.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) kind: WorkKind,
    /// The kernel's path, or what is done.
    pub(crate) name: String,
    pub(crate) shape: Option<Shape>,
    /// Bytes of memory that it is given, each once.
    pub(crate) bytes: u64,
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) shared_bytes: u32,
}

impl Work {
    pub(crate) fn launch(kernel: &str, config: &LaunchConfig, bytes: u64) -> Self {
        let shape = Shape { grid: config.grid_dim(), block: config.block_dim(), shared_bytes: config.shared_bytes() };
        Self { kind: WorkKind::Launch, name: kernel.to_owned(), shape: Some(shape), bytes }
    }

    pub(crate) fn copy(kind: WorkKind, bytes: usize) -> Self {
        Self { kind, name: kind.to_string(), shape: None, bytes: bytes as u64 }
    }

    pub(crate) fn graph(nodes: usize) -> Self {
        Self { kind: WorkKind::Graph, name: format!("graph of {nodes} nodes"), shape: None, bytes: 0 }
    }

    fn span(&self) -> tracing::Span {
        let bytes = self.bytes;
        match &self.shape {
            Some(Shape { grid, block, shared_bytes }) => tracing::debug_span!(
                target: "warpsmith::work", "launch", kernel = self.name, ?grid, ?block, shared_bytes, bytes
            ),
            None if self.kind == WorkKind::Graph => {
                tracing::debug_span!(target: "warpsmith::work", "graph", kind = self.name)
            }
            None => tracing::debug_span!(target: "warpsmith::work", "copy", kind = self.name, bytes),
        }
    }
}

/// Those who look at a piece of work while it is given to a stream.
#[must_use = "the work is seen until this ends"]
pub(crate) struct Seen(Option<Box<Looking>>);

struct Looking {
    timing: Option<Timing>,
    // Ended in this order, as the range began after the span.
    _range: nvtx::Range,
    _span: EnteredSpan,
}

impl Seen {
    /// The work was given: a timeline keeps it. Without this, as when the driver refuses it, there was no work.
    #[inline]
    pub(crate) fn end(self) {
        if let Some(timing) = self.0.and_then(|mut looking| looking.timing.take()) {
            timing.end();
        }
    }
}

impl Stream {
    /// Begins a piece of work for those who look.
    #[inline]
    pub(crate) fn see(&self, work: impl FnOnce() -> Work) -> Seen {
        let spans = tracing::span_enabled!(target: "warpsmith::work", Level::DEBUG);
        if !spans && !nvtx::is_active() && !self.timeline().is_active() {
            return Seen(None);
        }
        self.look_at(work())
    }

    #[cold]
    fn look_at(&self, work: Work) -> Seen {
        let span = work.span().entered();
        let range = nvtx::range(&work.name);
        let timing = self.timeline().begin(self, work);
        Seen(Some(Box::new(Looking { timing, _range: range, _span: span })))
    }
}
