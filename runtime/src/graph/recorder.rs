//! What a graph's recording stream is given: pieces of work with the memory that they use.

use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use warpsmith_device::abi::KernelDesc;

use crate::cpu::panics::message;
use crate::device::Device;
use crate::error::{GraphError, Result};
use crate::launch::{Launch, LaunchConfig, OwnedArguments, OwnedBody};
use crate::memory::{Access, Pattern, Storage};
use crate::module::LoadedKernel;
use crate::outside::{self, Inside, Kept};
use crate::stream::Stream;

/// A use of memory by a piece of work.
#[derive(Clone, Debug)]
pub(crate) struct MemoryUse {
    pub(crate) storage: Kept<Arc<Storage>>,
    pub(crate) access: Access,
}

impl MemoryUse {
    /// Whether two uses need an order: the same memory, which one of them writes.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.storage, &other.storage) && (self.access != Access::Read || other.access != Access::Read)
    }
}

/// A launch with its arguments; what they point to is kept alive by the node's [`MemoryUse`]s.
pub(crate) struct RecordedKernel {
    pub(crate) config: LaunchConfig,
    pub(crate) kernel: Arc<LoadedKernel>,
    pub(crate) desc: &'static KernelDesc,
    pub(crate) parameters: &'static [&'static str],
    /// Locks of memory that the launch writes through shared borrows; on the CPU executor only.
    pub(crate) shared: Vec<Arc<Mutex<()>>>,
    /// Bytes of stack, as the kernel gets them.
    pub(crate) stack: u64,
    pub(crate) arguments: Box<OwnedArguments>,
    pub(crate) body: Box<OwnedBody>,
}

/// A place in memory: the memory, and bytes from its start.
type Place = (Kept<Arc<Storage>>, usize);

/// One piece of work.
pub(super) enum Work {
    Kernel { launch: RecordedKernel, id: u64 },
    Copy { to: Place, from: Place, bytes: usize },
    Upload { to: Place, from: Box<[MaybeUninit<u8>]> },
    Fill { to: Place, pattern: Pattern, count: usize },
    Host(Box<HostWork>),
}

/// A function of the host's in a graph.
pub(super) struct HostWork {
    function: Box<dyn Fn() + Send + Sync>,
    device: Device,
}

impl HostWork {
    pub(super) fn new(device: &Device, function: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { function, device: device.clone() }
    }

    /// Calls it; a panic is kept for the device's next synchronise.
    pub(super) fn run(&self, inside: Inside) {
        let call = || outside::run_inside(inside, || (self.function)());
        if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
            self.device.defer(GraphError::HostPanic { message: message(&*payload) }.into());
            // Its own `drop` may call the driver, or panic.
            outside::discard(payload);
        }
    }
}

impl Work {
    /// Does it on the CPU executor. The uses of its memory were ordered, and the device's gate is held.
    pub(super) fn run(&self, stream: &Stream) -> Result<()> {
        match self {
            Self::Kernel { launch, .. } => Launch::replayed(stream, launch).start(&launch.arguments, &launch.body),
            Self::Copy { to, from, bytes } => {
                // SAFETY: the ranges were inside their storages, which live, and did not overlap when they were recorded; the gate
                // keeps all other uses away.
                unsafe { to.0.copy_on_device_ordered(stream, to.1, (&from.0, from.1), *bytes) }
            }
            Self::Upload { to, from } => {
                // SAFETY: as above; the source is this node's own.
                unsafe { to.0.copy_from_host_ordered(stream, to.1, from.as_ptr().cast(), from.len()) }
            }
            Self::Fill { to, pattern, count } => {
                // SAFETY: as above.
                unsafe { to.0.fill_ordered(stream, to.1, *pattern, *count) }
            }
            Self::Host(work) => {
                work.run(Inside::Cpu);
                Ok(())
            }
        }
    }
}

/// What the work is, in a few words.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel { launch: RecordedKernel { config, kernel, .. }, .. } => {
                write!(f, "kernel `{}`, grid {}, block {}", kernel.path(), config.grid_dim(), config.block_dim())
            }
            Self::Copy { bytes, .. } => write!(f, "copy of {bytes} bytes"),
            Self::Upload { from, .. } => write!(f, "copy of {} bytes from the host", from.len()),
            Self::Fill { pattern, count, .. } => write!(f, "fill of {} bytes", count * pattern.bytes()),
            Self::Host(_) => f.write_str("host function"),
        }
    }
}

/// What a recording stream has been given since it was opened.
#[derive(Default)]
pub(crate) struct Recorder {
    /// `None` while nothing is recorded.
    state: Mutex<Option<Recorded>>,
}

/// Pieces of work in order, each with its uses.
pub(super) type Recorded = Vec<(Work, Vec<MemoryUse>)>;

impl Recorder {
    /// Begins anew.
    pub(super) fn open(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// Ends, and gives what came.
    pub(super) fn close(&self) -> Recorded {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    fn push(&self, work: Work, uses: Vec<MemoryUse>) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_mut().ok_or(GraphError::Ended)?.push((work, uses));
        Ok(())
    }

    /// A launch that starts nothing.
    pub(crate) fn nothing(&self) -> Result<()> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(state.as_ref().map(drop).ok_or(GraphError::Ended)?)
    }

    /// A launch.
    pub(crate) fn kernel(&self, stream: &Stream, launch: RecordedKernel, uses: Vec<MemoryUse>) -> Result<()> {
        let refused = |reason| GraphError::Kernel { kernel: launch.kernel.path().to_owned(), reason };
        if launch.kernel.prints() {
            return Err(refused(
                "it prints, and what it prints could not be told from one launch of the graph to the next",
            )
            .into());
        }
        if launch.config.is_cooperative() || launch.config.shape().is_clustered() {
            return Err(refused("it is cooperative or in clusters, which nodes of graphs are not here").into());
        }
        let id = stream.gpu().map_or(0, |queue| queue.next_launch(&launch.kernel));
        self.push(Work::Kernel { launch, id }, uses)
    }

    /// A copy within the device.
    pub(crate) fn copy(&self, to: (&Storage, usize), from: (&Storage, usize), bytes: usize) -> Result<()> {
        let shared = |storage: &Storage| storage.for_graph().ok_or(GraphError::Memory);
        let (to, from) = ((shared(to.0)?, to.1), (shared(from.0)?, from.1));
        let uses = vec![
            MemoryUse { storage: from.0.clone(), access: Access::Read },
            MemoryUse { storage: to.0.clone(), access: Access::Shared },
        ];
        self.push(Work::Copy { to, from, bytes }, uses)
    }

    /// Memory filled with a pattern.
    pub(crate) fn fill(&self, to: &Storage, offset: usize, pattern: Pattern, count: usize) -> Result<()> {
        let storage = to.for_graph().ok_or(GraphError::Memory)?;
        let uses = vec![MemoryUse { storage: storage.clone(), access: Access::Shared }];
        self.push(Work::Fill { to: (storage, offset), pattern, count }, uses)
    }

    /// A copy from the host, whose bytes are kept.
    ///
    /// # Safety
    /// `from` is readable for `bytes` bytes, which are inside the storage from `offset` on.
    pub(crate) unsafe fn upload(&self, to: &Storage, offset: usize, from: *const u8, bytes: usize) -> Result<()> {
        let storage = to.for_graph().ok_or(GraphError::Memory)?;
        // SAFETY: the caller's promise; padding may be among the bytes, so they are not looked at.
        let from = unsafe { std::slice::from_raw_parts(from.cast::<MaybeUninit<u8>>(), bytes) };
        let uses = vec![MemoryUse { storage: storage.clone(), access: Access::Shared }];
        self.push(Work::Upload { to: (storage, offset), from: from.into() }, uses)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}
