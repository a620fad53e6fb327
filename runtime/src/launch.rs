//! The launch: a kernel's shape checked, its arguments bound to the stream, and the kernel started.

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpsmith_device::abi::{ArgumentSink, KernelDesc, KernelParam, ParamKind, RawPtr, RawSlice, Scope};
use warpsmith_device::host::{ConstantValues, Context};
use warpsmith_device::view::{GridExtent, RawGridSlice};
use warpsmith_device::{GridSliceMut, OwnershipMap};

mod args;
mod config;
mod foreign;
mod plan;
mod shared_args;

pub use args::{LaunchArg, PlaneMap, ShapelessMap};
pub use config::LaunchConfig;
pub(crate) use config::{UsualShapes, check as check_launch, check_block};
pub use foreign::ForeignLaunch;
pub(crate) use plan::KernelCode;
pub use plan::{LaunchPlan, PreparedLaunch};

use crate::check::{self, Argument, CheckedLaunch, Observers};
use crate::constants::ByPlace;
use crate::cpu::{self, CpuLaunch, CpuPanic};
use crate::error::{DriverError, Error, KernelPanic, LaunchError, Result};
use crate::graph::{MemoryUse, RecordedKernel};
use crate::kernel::{KernelIdentity, KernelInstance};
use crate::memory::{Access, Storage};
use crate::module::{GpuCode, LoadedKernel, kernel_path};
use crate::output::LaunchOutput;
use crate::stream::{GpuQueue, Stream};
use crate::work::{Seen, Work};

/// Lists the addresses of an entry's arguments, in order.
type Arguments<'a> = dyn Fn(&mut ArgumentSink<'_>) + 'a;

/// As [`Arguments`], with the arguments in it.
pub(crate) type OwnedArguments = dyn Fn(&mut ArgumentSink<'_>) + Send + Sync;

/// As [`cpu::Body`], with the arguments in it.
pub(crate) type OwnedBody = dyn Fn(&mut Context<'_>, u32, u64) + Send + Sync;

/// One launch, from its shape to its start; used by the code that `#[kernel]` writes.
#[doc(hidden)]
pub struct Launch<'a> {
    config: LaunchConfig,
    code: KernelCode<'a>,
    parameters: &'static [&'static str],
    binder: Binder<'a>,
}

/// What an argument of a launch is bound to: the stream, its device, and the order of uses of memory.
pub struct Binder<'a> {
    stream: &'a Stream,
    /// The stream's.
    id: u64,
    kernel: KernelName<'a>,
    /// Which argument that is not a plain value is being bound, from 1.
    argument: usize,
    /// Bytes of memory behind the arguments so far.
    bytes: u64,
    held: Option<Box<Held<'a>>>,
}

/// What few launches have to hold on to.
#[derive(Default)]
struct Held<'a> {
    /// Locks of memory that the launch writes through shared borrows; on the CPU executor only.
    shared: Vec<Arc<Mutex<()>>>,
    /// Held until the device has the launch, where it uses memory that a graph uses too.
    gate: Option<MutexGuard<'a, ()>>,
    /// The uses of memory so far, where a graph records the launch.
    recorded: Vec<MemoryUse>,
}

/// What messages call the kernel of a launch.
#[derive(Clone, Copy)]
enum KernelName<'a> {
    Own(&'static KernelDesc),
    Foreign(&'a str),
}

impl<'a> Launch<'a> {
    /// Finds the kernel and checks the launch's shape.
    ///
    /// # Errors
    /// [`ModuleError`](crate::ModuleError) when the kernel's code can't be had, [`LaunchError`] when the shape is refused.
    #[inline]
    pub fn new<P: LaunchPlan + 'a, F: Copy>(stream: &'a Stream, plan: P, kernel: &KernelInstance<F>) -> Result<Self> {
        stream.inner().check_outside()?;
        let kernel = kernel.identity();
        let (config, code) = plan.resolve(stream, &kernel)?;
        let KernelIdentity { desc, parameters, .. } = kernel;
        Ok(Self { config, code, parameters, binder: Binder::new(stream, KernelName::Own(desc)) })
    }

    #[inline]
    fn kernel(&self) -> &LoadedKernel {
        self.code.get()
    }

    /// Binds an argument.
    ///
    /// # Errors
    /// [`LaunchError`] when the argument is another device's, or can't be what the parameter wants.
    #[inline]
    pub fn bind<P: KernelParam, A: LaunchArg<P>>(&mut self, argument: A) -> Result<P::Raw> {
        self.binder.argument += 1;
        match argument.bind(&mut self.binder) {
            Ok(raw) => Ok(raw),
            Err(error) => Err(not_bound(error)),
        }
    }

    /// Starts the kernel, or records it where the stream is a graph's recording: with what was bound, `arguments` lists the addresses of
    /// the entry's arguments, in there, and `body` runs some threads of a block on the host.
    ///
    /// # Safety
    /// `bound` is what [`Self::bind`] gave, values of parameters and functions: what any thread may have. Nothing asks the compiler for that,
    /// as its answer for a parameter's type that lacks a bound would come before the one that says what is missing.
    ///
    /// # Errors
    /// [`LaunchError`] when the driver refuses.
    #[inline]
    pub unsafe fn launch<R, A, B>(&mut self, bound: R, arguments: A, body: B) -> Result<()>
    where
        R: Copy + 'static,
        A: Fn(&R, &mut ArgumentSink<'_>) + Send + Sync + 'static,
        B: Fn(&R, &mut Context<'_>, u32, u64) + Send + Sync + 'static,
    {
        let bound = ForAnyThread(bound);
        if self.binder.stream.is_recording() {
            return self.record(
                Box::new(move |sink: &mut ArgumentSink<'_>| arguments(bound.get(), sink)),
                Box::new(move |context: &mut Context<'_>, first, count| body(bound.get(), context, first, count)),
            );
        }
        self.run(&|sink| arguments(bound.get(), sink), &|context, first, count| {
            body(bound.get(), context, first, count);
        })
    }

    #[cold]
    fn record(&mut self, arguments: Box<OwnedArguments>, body: Box<OwnedBody>) -> Result<()> {
        let Some(recorder) = self.binder.stream.recorder() else {
            unreachable!("only launches on a recording are recorded");
        };
        if self.config.is_empty() {
            return recorder.nothing();
        }
        let stack = self.stack_bytes()?;
        let Self { config, parameters, .. } = *self;
        let Held { shared, recorded, .. } = self.binder.held.take().map_or_else(Held::default, |held| *held);
        let kernel = self.code.to_owned();
        let desc = kernel.desc();
        recorder.kernel(
            self.binder.stream,
            RecordedKernel { config, kernel, desc, parameters, shared, stack, arguments, body },
            recorded,
        )
    }

    /// A launch that was recorded, to be done on `stream`; its memory was ordered.
    pub(crate) fn replayed(stream: &'a Stream, recorded: &'a RecordedKernel) -> Self {
        let RecordedKernel { config, kernel, desc, parameters, shared, .. } = recorded;
        let mut binder = Binder::new(stream, KernelName::Own(desc));
        binder.held().shared.clone_from(shared);
        Self { config: *config, code: KernelCode::borrowed(kernel), parameters, binder }
    }

    /// Starts the kernel: `arguments` lists the addresses of the entry's arguments, `body` runs some threads of a block on the host.
    ///
    /// # Errors
    /// [`LaunchError`] when the driver refuses.
    pub fn run(&mut self, arguments: &Arguments<'_>, body: &cpu::Body<'_>) -> Result<()> {
        if self.config.is_empty() {
            return Ok(());
        }
        let stream = self.binder.stream;
        stream.not_recording("this launch")?;
        stream.note_launch(self.kernel());
        self.start(arguments, body)?;
        if stream.device().is_launch_blocking() { self.finish() } else { Ok(()) }
    }

    /// Waits for the launch.
    #[cold]
    fn finish(&mut self) -> Result<()> {
        // With it goes the gate of graphs, which nobody holds while waiting.
        self.binder.held = None;
        self.binder.stream.finish_launch(self.kernel().path().to_owned(), &self.config)
    }

    #[inline]
    pub(crate) fn start(&mut self, arguments: &Arguments<'_>, body: &cpu::Body<'_>) -> Result<()> {
        match (self.binder.stream.gpu(), self.kernel().gpu()) {
            (Some(queue), Some(code)) => self.run_on_gpu(queue, code, arguments),
            _ => self.start_on_cpu(arguments, body),
        }
    }

    fn start_on_cpu(&mut self, arguments: &Arguments<'_>, body: &cpu::Body<'_>) -> Result<()> {
        let Some(code) = self.kernel().checked() else { return self.run_on_cpu(body, &[]) };
        let run = code.run;
        let mut list = ArgumentList::new();
        list.fill(arguments);
        let named = self.named_arguments(&list);
        let list = CheckedArguments(list.as_mut_slice().as_ptr().cast());
        // SAFETY: the macro lists the entry's own arguments from the parameters' descriptions, which were compared
        // with the code's; what they point to was bound and outlives the launch.
        let thread = move |_: &Scope| unsafe { run(list.get()) };
        self.run_on_cpu(
            &move |context, first, count| {
                // SAFETY: the executor gives threads of the context's block, of no other in a checked launch, and
                // sees to the rest.
                unsafe { check::run_threads(context, first, count, thread) }
            },
            &named,
        )
    }

    #[inline]
    fn run_on_gpu(&self, queue: &GpuQueue, code: &GpuCode, arguments: &Arguments<'_>) -> Result<()> {
        let (record, launch) = (queue.record_address(), queue.next_launch(self.kernel()));
        let stack = if code.is_plain { 0 } else { self.stack_bytes()? };
        let mut list = ArgumentList::new();
        list.fill(arguments);
        list.push((&raw const record).cast());
        list.push((&raw const launch).cast());
        list.push((&raw const stack).cast());
        if code.is_plain {
            self.queue(queue, code, list.as_mut_slice())
        } else {
            self.queue_prepared(queue, code, &mut list)
        }
    }

    /// As [`Self::queue`], of a kernel for which the stream has to be prepared.
    #[cold]
    fn queue_prepared(&self, queue: &GpuQueue, code: &GpuCode, list: &mut ArgumentList) -> Result<()> {
        let stream = self.binder.stream;
        let _printing = if self.kernel().prints() {
            stream.prepare_output(self.kernel()).map_err(|source| self.refused(source))?
        } else {
            None
        };
        // Held until the launch is queued: no other launch may come between it and the clearing of its barrier.
        let mut barrier = None;
        if self.kernel().syncs_grid() {
            let held = barrier.insert(queue.cleared_barrier().map_err(|source| self.refused(source))?);
            list.push((&raw const held.address).cast());
        }
        let constants = code.constants.as_ref();
        let _constants =
            constants.map(|constants| constants.prepare(stream, queue, self.kernel().path())).transpose()?;
        self.queue(queue, code, list.as_mut_slice())
    }

    /// Gives the launch to the driver.
    #[inline]
    fn queue(&self, queue: &GpuQueue, code: &GpuCode, list: &mut [*mut c_void]) -> Result<()> {
        let seen = self.see();
        // SAFETY: the macro lists the entry's own arguments from the parameters' descriptions, which were compared with
        // the code's; the three hidden ones end every entry, and a grid barrier's address that of kernels which sync the
        // grid. Memory was bound: it outlives the launch, in stream order.
        let launched = unsafe { queue.stream.launch(&code.function, &self.config.shape(), list) };
        if let Err(source) = launched {
            return Err(self.refused(source).into());
        }
        seen.end();
        Ok(())
    }

    /// Begins the launch for those who look.
    #[inline]
    fn see(&self) -> Seen {
        self.binder.stream.see(|| Work::launch(self.kernel().path(), &self.config, self.binder.bytes))
    }

    /// Bytes of stack that a thread has, where the kernel may recurse and so looks at it.
    fn stack_bytes(&self) -> Result<u64> {
        if !self.kernel().has_unbounded_stack() {
            return Ok(0);
        }
        Ok(self.binder.stream.device().stack_bytes()?.unwrap_or(0) as u64)
    }

    #[cold]
    fn refused(&self, source: DriverError) -> LaunchError {
        LaunchError::Driver { kernel: self.kernel().path().to_owned(), config: Box::new(self.config), source }
    }

    /// The arguments that point to memory, by the names of their parameters.
    fn named_arguments(&self, list: &ArgumentList) -> Vec<Argument> {
        let mut entries = list.as_slice().iter();
        let mut named = Vec::new();
        for (index, param) in self.kernel().desc().params().iter().enumerate() {
            let first = entries.next();
            match param.kind {
                ParamKind::Value => continue,
                ParamKind::Slice | ParamKind::GridSliceMut => drop(entries.next()),
                ParamKind::Ref | ParamKind::Pointer => {}
            }
            let Some(first) = first else { break };
            // SAFETY: such a parameter's first argument is a pointer, as its kind says.
            let address = unsafe { first.cast::<*const u8>().read() }.addr();
            let name =
                self.parameters.get(index).map_or_else(|| format!("argument {}", index + 1), |&name| name.to_owned());
            named.push(Argument { name, address });
        }
        named
    }

    fn run_on_cpu(&mut self, body: &cpu::Body<'_>, arguments: &[Argument]) -> Result<()> {
        // By address and once each, so that two launches never wait for each other.
        let mut locks = self.binder.held.as_mut().map(|held| std::mem::take(&mut held.shared)).unwrap_or_default();
        locks.sort_by_key(|lock| Arc::as_ptr(lock).addr());
        locks.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let _held: Vec<_> = locks.iter().map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let output = LaunchOutput::new(self.kernel().path(), self.binder.stream.output_sink());
        let constants = self.binder.stream.device().constants().current();
        let by_place = ByPlace(&constants);
        let constants: &dyn ConstantValues = if self.kernel().checked().is_some() { &by_place } else { &*constants };
        let schedule = self.binder.stream.device().schedule();
        let request = CpuLaunch {
            kernel: self.kernel().path(),
            grid_dim: self.config.grid_dim(),
            block_dim: self.config.block_dim(),
            shared_bytes: self.config.shared_bytes() as usize,
            needs_coroutines: self.kernel().needs_coroutines(),
            joins: self.kernel().joins(),
            cooperative: self.config.is_cooperative(),
            cluster_dim: self.config.cluster_dim(),
            stack_bytes: self.binder.stream.device().stack_bytes()?.unwrap_or(cpu::DEFAULT_STACK_BYTES),
            schedule,
            checked: self.kernel().checked().is_some(),
            output: &output,
            constants,
            body,
        };
        let seen = self.see();
        let ran = self.run_request(&request, arguments)?;
        seen.end();
        output.finish();
        if let Err(panic) = ran {
            // As on a GPU, it is the next synchronise that reports it.
            let (file, line, column) =
                if panic.file.is_empty() { self.kernel().place() } else { (panic.file, panic.line, panic.column) };
            self.binder.stream.note_panic(Box::new(KernelPanic {
                kernel: self.kernel().path().to_owned(),
                message: panic.message,
                file,
                line,
                column,
                block: panic.block,
                thread: panic.thread,
                schedule,
                backtrace: panic.backtrace.map(|backtrace| cpu::panics::kernels_own(&backtrace.to_string())),
            }));
        }
        Ok(())
    }
}

impl Launch<'_> {
    fn run_request(&self, request: &CpuLaunch<'_>, arguments: &[Argument]) -> Result<Result<(), CpuPanic>> {
        let stream = self.binder.stream;
        let (Some(code), Some(options)) = (self.kernel().checked(), stream.device().check_options()) else {
            return Ok(cpu::run(request));
        };
        let watches = stream.device().watches();
        let traffic = options.counts_memory().then(|| stream.device().traffic());
        let checked = CheckedLaunch {
            kernel: request.kernel,
            grid_dim: request.grid_dim,
            block_dim: request.block_dim,
            cluster_dim: request.cluster_dim,
            cooperative: request.cooperative,
            options: *options,
            sites: code.sites,
            arguments,
            observers: Observers { traffic, watches: &watches },
        };
        let (ran, findings) = check::run(checked, |other| match other {
            None => cpu::run(request),
            // What it prints was printed the first time.
            Some(schedule) => {
                let silent = LaunchOutput::new(self.kernel().path(), Arc::new(|_| {}));
                cpu::run(&CpuLaunch { schedule: Some(schedule), output: &silent, ..*request })
            }
        })
        .map_err(|reason| LaunchError::Executor { kernel: self.kernel().path().to_owned(), reason })?;
        if !findings.is_empty() {
            stream.note_findings(findings);
        }
        Ok(ran)
    }
}

impl fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("kernel", &self.kernel().path())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// What was bound, in a launch that is recorded.
#[derive(Clone, Copy)]
struct ForAnyThread<R>(R);

// SAFETY: `Launch::launch` is promised that any thread may have it.
unsafe impl<R> Send for ForAnyThread<R> {}
// SAFETY: as above.
unsafe impl<R> Sync for ForAnyThread<R> {}

impl<R> ForAnyThread<R> {
    #[inline]
    fn get(&self) -> &R {
        &self.0
    }
}

/// Where a checked launch's arguments lie: the list of [`ArgumentList`].
#[derive(Clone, Copy)]
struct CheckedArguments(*const *const u8);

// SAFETY: the list and what it names are only read while the launch runs.
unsafe impl Sync for CheckedArguments {}

impl CheckedArguments {
    fn get(self) -> *const *const u8 {
        self.0
    }
}

/// Addresses of a launch's arguments; on the stack unless there are many.
pub(crate) struct ArgumentList {
    inline: [MaybeUninit<*mut c_void>; ArgumentList::INLINE], // Invariant: the first `len` are written, unless there are more.
    len: usize,
    spilled: Vec<*mut c_void>, // Invariant: all of them, when they are more than `INLINE`.
}

impl ArgumentList {
    /// Enough for sixteen slices and what every kernel takes besides.
    const INLINE: usize = 40;

    #[inline]
    pub(crate) fn new() -> Self {
        Self { inline: [MaybeUninit::uninit(); Self::INLINE], len: 0, spilled: Vec::new() }
    }

    /// Becomes the list of a launch's arguments.
    #[inline]
    pub(crate) fn fill(&mut self, arguments: &Arguments<'_>) {
        self.spilled.clear();
        let Self { inline, len, spilled } = self;
        let mut beyond = |address: *const u8| spilled.push(address.cast_mut().cast());
        let mut sink = ArgumentSink::new(inline, &mut beyond);
        arguments(&mut sink);
        *len = sink.len();
        if *len > Self::INLINE {
            spilled.splice(..0, Self::written(inline));
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, address: *const u8) {
        let address = address.cast_mut().cast::<c_void>();
        if let Some(slot) = self.inline.get_mut(self.len) {
            slot.write(address);
        } else {
            self.spill(address);
        }
        self.len += 1;
    }

    #[cold]
    fn spill(&mut self, address: *mut c_void) {
        if self.len == Self::INLINE {
            self.spilled.extend(Self::written(&self.inline));
        }
        self.spilled.push(address);
    }

    /// All of the list's first part, whose end the caller has passed.
    fn written(inline: &[MaybeUninit<*mut c_void>; Self::INLINE]) -> [*mut c_void; Self::INLINE] {
        // SAFETY: they are all written, as the list is at least as long.
        inline.map(|slot| unsafe { slot.assume_init() })
    }

    fn as_slice(&self) -> &[*mut c_void] {
        match self.inline.get(..self.len) {
            // SAFETY: the first `len` are written.
            Some(written) => unsafe { &*(&raw const *written as *const [*mut c_void]) },
            None => &self.spilled,
        }
    }

    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [*mut c_void] {
        match self.inline.get_mut(..self.len) {
            // SAFETY: the first `len` are written.
            Some(written) => unsafe { &mut *(&raw mut *written as *mut [*mut c_void]) },
            None => &mut self.spilled,
        }
    }
}

#[cold]
fn not_bound(error: LaunchError) -> Error {
    error.into()
}

impl<'a> Binder<'a> {
    #[inline]
    fn new(stream: &'a Stream, kernel: KernelName<'a>) -> Self {
        Self { stream, id: stream.inner().id(), kernel, argument: 0, bytes: 0, held: None }
    }

    fn held(&mut self) -> &mut Held<'a> {
        self.held.get_or_insert_default()
    }
}

impl Binder<'_> {
    /// Which argument that is not a plain value is being bound, from 1.
    pub(crate) fn argument(&self) -> usize {
        self.argument
    }

    pub(crate) fn kernel(&self) -> String {
        match self.kernel {
            KernelName::Own(desc) => kernel_path(desc),
            KernelName::Foreign(name) => name.to_owned(),
        }
    }

    /// Orders the launch after earlier uses of the memory, of which the kernel is given `bytes`.
    #[inline]
    pub(crate) fn note(&mut self, storage: &Storage, access: Access, bytes: usize) -> Result<(), LaunchError> {
        self.bytes += bytes as u64;
        if storage.is_only_of(self.id) { Ok(()) } else { self.note_slowly(storage, access) }
    }

    #[cold]
    fn note_slowly(&mut self, storage: &Storage, access: Access) -> Result<(), LaunchError> {
        if !storage.device().is_same(self.stream.device()) {
            return Err(self.other_device(storage));
        }
        if self.stream.is_recording() {
            let storage = storage.for_graph().ok_or_else(|| self.not_for_graphs())?;
            self.held().recorded.push(MemoryUse { storage, access });
            return Ok(());
        }
        let has_gate = self.held.as_ref().is_some_and(|held| held.gate.is_some());
        if !has_gate && let Some(gate) = storage.gate(self.stream) {
            self.held().gate = Some(gate);
        }
        storage.order(self.stream, access).map_err(|source| self.not_ordered(source))
    }

    /// Keeps other launches and copies on the executor away from memory that this launch writes through shared borrows.
    #[inline]
    pub(crate) fn hold(&mut self, storage: &Storage) {
        if let Some(lock) = storage.shared_lock() {
            let lock = Arc::clone(lock);
            self.held().shared.push(lock);
        }
    }

    #[cold]
    fn other_device(&self, storage: &Storage) -> LaunchError {
        LaunchError::OtherDevice {
            kernel: self.kernel(),
            argument: self.argument,
            buffer: storage.device().to_string(),
            stream: self.stream.device().to_string(),
        }
    }

    #[cold]
    fn not_for_graphs(&self) -> LaunchError {
        LaunchError::NotForGraphs { kernel: self.kernel(), argument: self.argument }
    }

    #[cold]
    fn not_ordered(&self, source: DriverError) -> LaunchError {
        LaunchError::Ordering { kernel: self.kernel(), argument: self.argument, source }
    }
}

impl fmt::Debug for Binder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binder").field("kernel", &self.kernel()).field("stream", self.stream).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_lists_of_every_length_keep_their_order() {
        let bytes = [0u8; 100];
        for len in [0, 1, ArgumentList::INLINE - 1, ArgumentList::INLINE, ArgumentList::INLINE + 1, 100] {
            let mut list = ArgumentList::new();
            for byte in &bytes[..len] {
                list.push(byte);
            }
            let mut listed = ArgumentList::new();
            listed.fill(&|sink| bytes[..len].iter().for_each(|byte| sink.push(byte)));
            let expected: Vec<*mut c_void> = bytes[..len].iter().map(|b| (&raw const *b).cast_mut().cast()).collect();
            assert_eq!(list.as_mut_slice(), expected, "{len}");
            assert_eq!(listed.as_mut_slice(), expected, "{len}");
            listed.push(&bytes[0]);
            assert_eq!(listed.as_slice().len(), len + 1);
        }
    }
}
