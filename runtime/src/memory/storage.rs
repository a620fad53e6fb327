//! A piece of memory of a device, untyped: allocation, copies, and freeing after the last use.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::block::GpuBlock;
use super::pattern::Pattern;
use super::pending::finish_borrowed;
use super::uses::{Access, Uses};
use crate::check::{Mark, Piece, Purpose};
use crate::device::Device;
use crate::driver::{Gpu, GpuMemory, GpuStream, Memcpy2d, code};
use crate::error::{DriverError, Error, MemoryError, Result};
use crate::outside::Kept;
use crate::stream::{Stream, StreamInner};
use crate::timeline::WorkKind;
use crate::work::Work;

/// Alignment in bytes of every piece of memory of this crate's own, on the executor as on a GPU.
pub(crate) const ALIGN: usize = 256;

/// A piece of memory of a device.
#[derive(Debug)]
pub(crate) struct Storage {
    device: Device,
    bytes: usize, // Invariant: bytes behind `place`, alive until drop; 0 exactly for `Place::Empty`.
    front: Front,
    place: Place,
    uses: Mutex<Uses>,
    /// Whether the device's pool counts the bytes.
    counted: bool,
    /// Whether the host may hold references into the memory while a device could use it.
    host_reaches: bool,
    /// For memory of another library: dropped when no work uses the memory any more. After the memory.
    keeper: Option<Keeper>,
    /// Itself, where several may own it: what a graph needs.
    me: OnceLock<Weak<Storage>>,
    /// Whether a graph uses it, so that uses keep to the device's [gate](Device::graph_gate).
    in_graph: AtomicBool,
    /// Whether another library was given the memory.
    exported: AtomicBool,
}

/// What each use looks at, in one cache line.
#[derive(Debug)]
#[repr(align(16))]
struct Front {
    /// Where kernels find the memory: see [`Storage::pointer`].
    pointer: AtomicPtr<u8>, // Invariant: the start of `place`; never changed.
    /// The id of the one stream whose next uses change nothing in [`Storage::uses`], so that they take no lock; else 0, as for memory
    /// of graphs.
    sole: AtomicU64,
}

/// What keeps another library's memory alive.
pub(crate) struct Keeper {
    /// Only dropped or taken, so nobody waits for the lock; with it, a storage may be shared between threads.
    value: Mutex<Box<dyn Any + Send>>,
    /// Whether the owner uses the memory again only in order of the stream that it came with.
    in_order: Mutex<Option<Arc<StreamInner>>>,
}

impl Keeper {
    pub(crate) fn new(value: Box<dyn Any + Send>) -> Self {
        Self { value: Mutex::new(value), in_order: Mutex::new(None) }
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Place {
    /// No bytes, so no memory.
    Empty,
    Host(HostMemory),
    /// `None` only while the storage is dropped.
    Gpu(Option<GpuBlock>),
}

impl Place {
    fn pointer(&self) -> *mut u8 {
        match self {
            Self::Empty => std::ptr::without_provenance_mut(ALIGN),
            Self::Host(memory) => memory.ptr.as_ptr(),
            Self::Gpu(memory) => {
                let address = memory.as_ref().map_or(0, GpuBlock::address);
                std::ptr::without_provenance_mut(usize::try_from(address).expect("addresses have 64 bits"))
            }
        }
    }
}

/// What the bytes of fresh memory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fresh {
    Uninit,
    Zeroed,
}

/// What memory is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    /// The elements' type.
    pub(crate) type_name: &'static str,
    /// Size of one in bytes.
    pub(crate) bytes: usize,
}

/// Rows to copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowsCopy {
    rows: usize,
    row_bytes: usize,
}

impl RowsCopy {
    /// Rows of so many elements, which are inside a storage or without bytes.
    pub(super) fn new<T>(rows: usize, columns: usize) -> Self {
        // Where there are no rows, columns may be any number.
        Self { rows, row_bytes: columns.saturating_mul(size_of::<T>()) }
    }

    fn bytes(self) -> usize {
        self.rows.saturating_mul(self.row_bytes)
    }

    fn memcpy(self) -> Memcpy2d {
        Memcpy2d::new(self.row_bytes, self.rows)
    }
}

/// Memory of the host, for the CPU executor.
#[derive(Debug)]
struct HostMemory {
    ptr: NonNull<u8>, // Invariant: allocated with `layout`, freed only by drop; or the start of `watched`; or foreign.
    /// `None` for another library's memory, which its keeper frees.
    layout: Option<Layout>,
    /// The same memory, where the checker watches it.
    watched: Option<Piece>,
    /// Held by a launch that writes through shared borrows (atomics), and by every copy.
    access: Arc<Mutex<()>>,
}

// SAFETY: memory that belongs to no thread; `Storage` and the borrows above it say who may touch it when.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let (None, Some(layout)) = (&self.watched, self.layout) {
            // SAFETY: allocated with this layout, and freed nowhere else. Launches on the executor are over when they return.
            unsafe { dealloc(self.ptr.as_ptr(), layout) };
        }
    }
}

impl Storage {
    /// Memory on the stream's device for elements of a type, there in stream order.
    pub(crate) fn new(stream: &Stream, bytes: usize, fresh: Fresh, elements: Elements) -> Result<Self> {
        stream.not_recording("an allocation")?;
        let device = stream.device().clone();
        let place = if bytes == 0 {
            Place::Empty
        } else if let Some(queue) = stream.gpu() {
            let parts = device.parts().expect("a stream with a GPU's queue is of a GPU");
            let allocate = || GpuMemory::new(&queue.stream, bytes, parts.pool.as_ref());
            device.pool_account().charge(&device, bytes)?;
            let memory = match allocate() {
                Err(error) if error.code == code::OUT_OF_MEMORY => {
                    // Freed memory may wait in the pool, or for work that is under way.
                    let waited = parts.gpu.synchronize();
                    let trimmed = waited.and_then(|()| parts.pool.as_ref().map_or(Ok(()), |pool| pool.trim()));
                    trimmed.and_then(|()| allocate())
                }
                other => other,
            };
            let memory = memory.map_err(|source| {
                device.pool_account().release(bytes);
                allocation_failed(&device, bytes, source)
            })?;
            // From here on the storage itself frees and accounts for the memory.
            let storage = Self::of(stream, bytes, Place::Gpu(Some(GpuBlock::Device(memory))), true);
            if fresh == Fresh::Zeroed {
                let to = storage.pointer().addr() as u64;
                let seen = stream.see(|| Work::copy(WorkKind::Fill, bytes));
                // SAFETY: the memory was allocated just now with these bytes, in this stream's order.
                unsafe { queue.stream.set_bytes(to, 0, bytes) }.map_err(|source| failed("zeroing", bytes, source))?;
                seen.end();
            }
            return Ok(storage);
        } else {
            device.pool_account().charge(&device, bytes)?;
            let memory = HostMemory::new(&device, bytes, fresh, elements);
            Place::Host(memory.inspect_err(|_| device.pool_account().release(bytes))?)
        };
        let counted = bytes != 0;
        Ok(Self::of(stream, bytes, place, counted))
    }

    /// Memory that the host reaches too: on a GPU a block that is made by `allocate`, on the executor its own, zeroed. The
    /// device's pool does not count it.
    pub(super) fn shared_with_host(
        stream: &Stream,
        bytes: usize,
        elements: Elements,
        allocate: impl FnOnce(&Arc<Gpu>) -> Result<GpuBlock>,
    ) -> Result<Self> {
        let device = stream.device();
        if bytes == 0 {
            return Ok(Self::of(stream, 0, Place::Empty, false).reached_by_host());
        }
        let Some(parts) = device.parts() else {
            let memory = HostMemory::new(device, bytes, Fresh::Zeroed, elements)?;
            return Ok(Self::of(stream, bytes, Place::Host(memory), false).reached_by_host());
        };
        let block = Place::Gpu(Some(allocate(&parts.gpu)?));
        let storage = Self::of(stream, bytes, block, false).reached_by_host();
        let start = storage.host_pointer().expect("the block is one that the host reaches");
        // SAFETY: the block has these bytes, the host reaches it, and nobody else knows it yet.
        unsafe { start.write_bytes(0, bytes) };
        Ok(storage)
    }

    fn reached_by_host(mut self) -> Self {
        self.host_reaches = true;
        self
    }

    fn of(stream: &Stream, bytes: usize, place: Place, counted: bool) -> Self {
        Self {
            device: stream.device().clone(),
            bytes,
            front: Front { pointer: AtomicPtr::new(place.pointer()), sole: AtomicU64::new(stream.inner().id()) },
            place,
            uses: Mutex::new(Uses::new(stream.inner())),
            counted,
            keeper: None,
            host_reaches: false,
            me: OnceLock::new(),
            in_graph: AtomicBool::new(false),
            exported: AtomicBool::new(false),
        }
    }

    /// Where the host finds the memory, where it reaches it.
    pub(super) fn host_pointer(&self) -> Option<*mut u8> {
        match &self.place {
            Place::Empty => Some(std::ptr::without_provenance_mut(ALIGN)),
            Place::Host(memory) => Some(memory.ptr.as_ptr()),
            Place::Gpu(block) => block.as_ref().and_then(GpuBlock::host_pointer),
        }
    }

    /// Waits until the host may use the memory: for what writes it, and before it is written for all that uses it. Reports
    /// what the work that wrote it did wrong.
    pub(super) fn wait_on_host(&self, access: Access) -> Result<()> {
        let (streams, writers) = {
            let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            (uses.before(access), uses.before(Access::Read))
        };
        for stream in &streams {
            if let Some(queue) = stream.gpu() {
                queue
                    .stream
                    .synchronize()
                    .map_err(|source| failed("waiting for the work on memory", self.bytes, source))?;
            }
        }
        writers.iter().find_map(|stream| stream.take_fault()).map_or(Ok(()), Err)
    }

    /// The other streams whose work has written the memory.
    pub(super) fn other_writers(&self, stream: &Stream) -> Vec<Arc<StreamInner>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).other_writers(stream.inner())
    }

    /// Lets graphs own it too.
    pub(crate) fn into_shared(self) -> Arc<Self> {
        let shared = Arc::new(self);
        shared.me.get_or_init(|| Arc::downgrade(&shared));
        shared
    }

    /// For a graph, which keeps the memory alive and uses it later: from here on uses keep to the device's gate. `None` for memory that
    /// a graph cannot have.
    pub(crate) fn for_graph(&self) -> Option<Kept<Arc<Self>>> {
        // Memory that the host may hold references into is not for graphs, whose replays borrow nothing.
        // Nor is another library's, whose owner is told when no work uses it any more.
        if self.host_reaches || self.keeper.is_some() || self.exported.load(Ordering::Acquire) {
            return None;
        }
        let shared = self.me.get()?.upgrade()?;
        // Under the lock, so that no use that is being ordered sets it again.
        let _uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        self.in_graph.store(true, Ordering::Release);
        self.front.sole.store(0, Ordering::Release);
        Some(Kept::new(shared))
    }

    /// What a use holds from the time that it is ordered until the device has it, where a graph uses the memory too.
    #[inline]
    pub(crate) fn gate<'s>(&self, stream: &'s Stream) -> Option<MutexGuard<'s, ()>> {
        // What a host task asks for is refused by `order`, and must not wait for the gate before.
        let is_gated = self.in_graph.load(Ordering::Acquire) && stream.inner().check_outside().is_ok();
        is_gated.then(|| stream.device().graph_gate())
    }

    /// As [`Self::gate`], of a copy between two GPUs: the gates of both, always in the same order.
    fn gates<'s>(&'s self, stream: &'s Stream, source: &'s Self) -> [Option<MutexGuard<'s, ()>>; 2] {
        if stream.inner().check_outside().is_err() {
            return [None, None];
        }
        let gate = |storage: &'s Self| storage.is_in_graph().then(|| storage.device.graph_gate());
        if self.device.ordinal() <= source.device.ordinal() {
            let first = gate(self);
            [first, gate(source)]
        } else {
            let first = gate(source);
            [first, gate(self)]
        }
    }

    /// Whether a graph uses the memory, whose launches borrow nothing.
    pub(crate) fn is_in_graph(&self) -> bool {
        self.in_graph.load(Ordering::Acquire)
    }

    /// Lets another library have the memory, from where on graphs cannot; false when one has it already.
    pub(crate) fn export(&self) -> bool {
        self.exported.store(true, Ordering::Release);
        !self.is_in_graph()
    }

    /// Another library's memory, which is there in order of the stream and until the keeper is dropped.
    ///
    /// # Safety
    /// `address` has `bytes` bytes on the stream's device as long as `keeper` lives; nobody else uses them meanwhile except in
    /// order with what this crate does with them.
    pub(crate) unsafe fn foreign(stream: &Stream, address: NonNull<u8>, bytes: usize, keeper: Keeper) -> Self {
        let place = match stream.gpu() {
            _ if bytes == 0 => Place::Empty,
            Some(queue) => {
                let address = address.as_ptr().expose_provenance() as u64;
                Place::Gpu(Some(GpuBlock::Device(GpuMemory::foreign(queue.stream.gpu(), address))))
            }
            None => Place::Host(HostMemory { ptr: address, layout: None, watched: None, access: Arc::default() }),
        };
        let mut storage = Self::of(stream, bytes, place, false);
        storage.keeper = Some(keeper);
        storage
    }

    /// Lets the keeper go without a wait when the storage is dropped; false when the memory is this crate's own.
    ///
    /// # Safety
    /// The owner uses the memory again only in order of the stream that it was taken with.
    pub(crate) unsafe fn release_in_order(&self, stream: &Stream) -> bool {
        let Some(keeper) = &self.keeper else { return false };
        *keeper.in_order.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(stream.inner()));
        true
    }

    /// What keeps another library's memory alive, where it is a `K`.
    pub(crate) fn keeper_mut<K: 'static>(&mut self) -> Option<&mut K> {
        let value = self.keeper.as_mut()?.value.get_mut().unwrap_or_else(PoisonError::into_inner);
        value.downcast_mut()
    }

    /// Whether a `K` keeps another library's memory alive.
    pub(crate) fn is_kept_by<K: 'static>(&self) -> bool {
        let keeper = self.keeper.as_ref();
        keeper.is_some_and(|keeper| keeper.value.lock().unwrap_or_else(PoisonError::into_inner).is::<K>())
    }

    /// Whether the memory is another library's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.keeper.is_some()
    }

    /// Whether the memory is a GPU's own, and freed in a stream's order.
    pub(crate) fn is_pooled(&self) -> bool {
        matches!(&self.place, Place::Gpu(Some(GpuBlock::Device(memory))) if memory.is_pooled())
    }

    /// Leaves the memory to whoever frees it from here on.
    pub(crate) fn give_away(mut self) {
        if let Place::Gpu(memory) = &mut self.place
            && let Some(memory) = memory.take()
        {
            memory.forget();
        }
    }

    /// Orders another library's later work on `stream` after all uses so far.
    pub(crate) fn order_before(&self, stream: &GpuStream) -> Result<(), DriverError> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).order_before(stream)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where kernels on the storage's device find the memory, not to be read elsewhere: aligned to [`ALIGN`], but for other
    /// libraries' memory.
    #[inline]
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.front.pointer.load(Ordering::Relaxed)
    }

    /// Whether a use on the stream with this id needs no order: no other has used the memory, and no graph does. The memory is then of
    /// the stream's device.
    #[inline]
    pub(crate) fn is_only_of(&self, stream: u64) -> bool {
        self.front.sole.load(Ordering::Acquire) == stream
    }

    /// The lock of memory that a launch on the executor writes through shared borrows.
    pub(crate) fn shared_lock(&self) -> Option<&Arc<Mutex<()>>> {
        match &self.place {
            Place::Host(memory) => Some(&memory.access),
            Place::Empty | Place::Gpu(_) => None,
        }
    }

    /// Orders a use on `stream` after the uses that it must come after.
    #[inline]
    pub(crate) fn order(&self, stream: &Stream, access: Access) -> Result<(), DriverError> {
        stream.inner().check_outside().map_err(|_| DriverError::in_host_task())?;
        if self.is_only_of(stream.inner().id()) {
            return Ok(());
        }
        self.order_slowly(stream, access)
    }

    #[cold]
    fn order_slowly(&self, stream: &Stream, access: Access) -> Result<(), DriverError> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        // Before anything is noted, so that no other use passes by the lock meanwhile.
        self.front.sole.store(0, Ordering::Release);
        let ordered = uses.order(stream.inner(), access);
        if !self.is_in_graph() {
            self.front.sole.store(uses.sole(), Ordering::Release);
        }
        ordered
    }

    /// Copies from the host to `offset`; the source has been read when the call returns.
    ///
    /// # Safety
    /// `offset + bytes` is inside the storage, `from` is readable for `bytes` bytes, and nobody else uses that part of the
    /// storage in this process, except in stream order.
    pub(crate) unsafe fn copy_from_host(
        &self,
        stream: &Stream,
        access: Access,
        offset: usize,
        from: *const u8,
        bytes: usize,
    ) -> Result<()> {
        debug_assert!(offset + bytes <= self.bytes);
        stream.check_device(self)?;
        if bytes == 0 {
            return Ok(());
        }
        if let Some(recorder) = stream.recorder() {
            // SAFETY: the caller's promise.
            return unsafe { recorder.upload(self, offset, from, bytes) };
        }
        let gate = self.gate(stream);
        self.order(stream, access).map_err(|source| failed("ordering a copy", bytes, source))?;
        // SAFETY: the caller's promise.
        unsafe { self.copy_from_host_ordered(stream, offset, from, bytes) }?;
        drop(gate);
        if let Some(queue) = stream.gpu()
            && queue.stream.gpu().is_page_locked(from, bytes)
        {
            // The driver reads such memory later, and the source is only borrowed for this call.
            finish_borrowed(stream)?;
            stream.report()?;
        }
        Ok(())
    }

    /// As [`Self::copy_from_host`], of a use that was ordered.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn copy_from_host_ordered(
        &self,
        stream: &Stream,
        offset: usize,
        from: *const u8,
        bytes: usize,
    ) -> Result<()> {
        let seen = stream.see(|| Work::copy(WorkKind::CopyToDevice, bytes));
        match (&self.place, stream.gpu()) {
            (Place::Host(memory), _) => {
                let _held = memory.access.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the caller answers for both sides.
                unsafe { memory.ptr.as_ptr().add(offset).copy_from_nonoverlapping(from, bytes) };
                if let Some(watched) = &memory.watched {
                    watched.mark(offset, bytes, Mark::Init);
                }
                seen.end();
            }
            (Place::Gpu(Some(memory)), Some(queue)) => {
                // SAFETY: the caller answers for both sides; `copy_from_host` or the wait has read the source.
                unsafe { queue.stream.copy_from_host(memory.address() + offset as u64, from, bytes) }
                    .map_err(|source| failed("a copy to the device", bytes, source))?;
                seen.end();
            }
            _ => unreachable!("the stream is of the storage's device"),
        }
        Ok(())
    }

    /// Copies from `offset` to the host, once the stream's work is done, and reports what that work did wrong.
    ///
    /// # Safety
    /// `offset + bytes` is inside the storage, and `to` is writable for `bytes` bytes.
    pub(crate) unsafe fn copy_to_host(&self, stream: &Stream, offset: usize, to: *mut u8, bytes: usize) -> Result<()> {
        debug_assert!(offset + bytes <= self.bytes);
        stream.check_device(self)?;
        stream.not_recording("a copy to the host")?;
        let gate = self.gate(stream);
        self.order(stream, Access::Read).map_err(|source| failed("ordering a copy", bytes, source))?;
        let seen = stream.see(|| Work::copy(WorkKind::CopyToHost, bytes));
        match (&self.place, stream.gpu()) {
            (Place::Host(memory), _) => {
                let _held = memory.access.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the caller answers for both sides.
                unsafe { to.copy_from_nonoverlapping(memory.ptr.as_ptr().add(offset), bytes) };
                seen.end();
            }
            (Place::Gpu(Some(memory)), Some(queue)) if bytes != 0 => {
                // SAFETY: the caller answers for both sides; the wait below comes before it may use the destination.
                unsafe { queue.stream.copy_to_host(to, memory.address() + offset as u64, bytes) }
                    .map_err(|source| stream.work_failed(source))?;
                seen.end();
            }
            _ => {}
        }
        drop(gate);
        self.wait_for_copy(stream)
    }

    /// Starts a copy from the host to `offset`; on the executor it is over when this returns.
    ///
    /// # Safety
    /// As [`Self::copy_from_host`], and `from` is readable until the copy is over in stream order.
    pub(super) unsafe fn start_from_host(
        &self,
        stream: &Stream,
        access: Access,
        offset: usize,
        from: *const u8,
        bytes: usize,
    ) -> Result<()> {
        debug_assert!(offset + bytes <= self.bytes);
        stream.check_device(self)?;
        stream.not_recording("a copy with page-locked memory")?;
        let (Place::Gpu(Some(memory)), Some(queue)) = (&self.place, stream.gpu()) else {
            // SAFETY: the caller answers for both sides.
            return unsafe { self.copy_from_host(stream, access, offset, from, bytes) };
        };
        if bytes == 0 {
            return Ok(());
        }
        let _gate = self.gate(stream);
        self.order(stream, access).map_err(|source| failed("ordering a copy", bytes, source))?;
        let seen = stream.see(|| Work::copy(WorkKind::CopyToDevice, bytes));
        // SAFETY: the caller answers for both sides.
        let started = unsafe { queue.stream.copy_from_host(memory.address() + offset as u64, from, bytes) };
        started.map_err(|source| failed("a copy to the device", bytes, source))?;
        seen.end();
        Ok(())
    }

    /// Starts a copy from `offset` to the host; on the executor it is over when this returns.
    ///
    /// # Safety
    /// `offset + bytes` is inside the storage, and `to` is writable until the copy is over in stream order.
    pub(super) unsafe fn start_to_host(&self, stream: &Stream, offset: usize, to: *mut u8, bytes: usize) -> Result<()> {
        debug_assert!(offset + bytes <= self.bytes);
        stream.check_device(self)?;
        stream.not_recording("a copy with page-locked memory")?;
        if bytes == 0 {
            return Ok(());
        }
        let _gate = self.gate(stream);
        self.order(stream, Access::Read).map_err(|source| failed("ordering a copy", bytes, source))?;
        let seen = stream.see(|| Work::copy(WorkKind::CopyToHost, bytes));
        match (&self.place, stream.gpu()) {
            (Place::Host(memory), _) => {
                let _held = memory.access.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the caller answers for both sides.
                unsafe { to.copy_from_nonoverlapping(memory.ptr.as_ptr().add(offset), bytes) };
            }
            (Place::Gpu(Some(memory)), Some(queue)) => {
                // SAFETY: the caller answers for both sides.
                unsafe { queue.stream.copy_to_host(to, memory.address() + offset as u64, bytes) }
                    .map_err(|source| failed("a copy to the host", bytes, source))?;
            }
            _ => unreachable!("the stream is of the storage's device"),
        }
        seen.end();
        Ok(())
    }

    /// Waits for copies from or to borrowed memory that were started on the stream, and reports what its work did wrong.
    pub(super) fn wait_for_copy(&self, stream: &Stream) -> Result<()> {
        finish_borrowed(stream)?;
        stream.synchronize()?;
        // What another stream's kernel left unfinished must not pass as its result.
        self.other_writers(stream).iter().find_map(|writer| writer.take_fault()).map_or(Ok(()), Err)
    }

    /// Fills elements with a pattern.
    ///
    /// # Safety
    /// `offset` is aligned to the pattern, `count` of which are inside the storage from there; nobody else uses that part,
    /// except in stream order; and the pattern is an element's bits.
    pub(super) unsafe fn fill(
        &self,
        stream: &Stream,
        access: Access,
        offset: usize,
        pattern: Pattern,
        count: usize,
    ) -> Result<()> {
        let bytes = count * pattern.bytes();
        debug_assert!(offset + bytes <= self.bytes);
        stream.check_device(self)?;
        if bytes == 0 {
            return Ok(());
        }
        if let Some(recorder) = stream.recorder() {
            return recorder.fill(self, offset, pattern, count);
        }
        let _gate = self.gate(stream);
        self.order(stream, access).map_err(|source| failed("ordering a fill", bytes, source))?;
        // SAFETY: the caller's promise.
        unsafe { self.fill_ordered(stream, offset, pattern, count) }
    }

    /// As [`Self::fill`], of a use that was ordered.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn fill_ordered(
        &self,
        stream: &Stream,
        offset: usize,
        pattern: Pattern,
        count: usize,
    ) -> Result<()> {
        let bytes = count * pattern.bytes();
        let seen = stream.see(|| Work::copy(WorkKind::Fill, bytes));
        match (&self.place, stream.gpu()) {
            (Place::Host(memory), _) => {
                let _held = memory.access.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the caller answers for the memory.
                unsafe {
                    let to = memory.ptr.as_ptr().add(offset);
                    match pattern {
                        Pattern::Byte(value) => to.write_bytes(value, bytes),
                        Pattern::Half(value) => (0..count).for_each(|at| to.cast::<u16>().add(at).write(value)),
                        Pattern::Word(value) => (0..count).for_each(|at| to.cast::<u32>().add(at).write(value)),
                    }
                }
                if let Some(watched) = &memory.watched {
                    watched.mark(offset, bytes, Mark::Init);
                }
            }
            (Place::Gpu(Some(memory)), Some(queue)) => {
                let to = memory.address() + offset as u64;
                // SAFETY: the caller answers for the memory.
                let filled = unsafe {
                    match pattern {
                        Pattern::Byte(value) => queue.stream.set_bytes(to, value, count),
                        Pattern::Half(value) => queue.stream.set_halves(to, value, count),
                        Pattern::Word(value) => queue.stream.set_words(to, value, count),
                    }
                };
                filled.map_err(|source| failed("a fill", bytes, source))?;
            }
            _ => unreachable!("the stream is of the storage's device"),
        }
        seen.end();
        Ok(())
    }

    /// Copies from another GPU's storage.
    ///
    /// # Safety
    /// As [`Self::copy_on_device`].
    pub(super) unsafe fn copy_from_peer(
        &self,
        stream: &Stream,
        access: Access,
        offset: usize,
        from: (&Self, usize),
        bytes: usize,
    ) -> Result<()> {
        let (source, source_offset) = from;
        debug_assert!(offset + bytes <= self.bytes && source_offset + bytes <= source.bytes);
        stream.check_device(self)?;
        stream.not_recording("a copy between devices")?;
        if bytes == 0 {
            return Ok(());
        }
        let _gates = self.gates(stream, source);
        self.order(stream, access).map_err(|source| failed("ordering a copy", bytes, source))?;
        let (Place::Gpu(Some(to)), Place::Gpu(Some(from)), Some(queue), Some(peer)) =
            (&self.place, &source.place, stream.gpu(), source.device.parts())
        else {
            unreachable!("both storages are of GPUs")
        };
        let (to, from) = (to.address() + offset as u64, from.address() + source_offset as u64);
        let mut uses = source.uses.lock().unwrap_or_else(PoisonError::into_inner);
        source.front.sole.store(0, Ordering::Release);
        let seen = stream.see(|| Work::copy(WorkKind::CopyOnDevice, bytes));
        // SAFETY: the caller answers for both sides; `lend` orders the source's.
        let copied = uses.lend(stream.inner(), || unsafe { queue.stream.copy_from_peer(to, &peer.gpu, from, bytes) });
        copied.map_err(|source| failed("a copy between devices", bytes, source))?;
        seen.end();
        Ok(())
    }

    /// Starts a copy of rows from the host: offset and pitch in bytes of this side, address and pitch of the host's. On the
    /// executor it is over when this returns.
    ///
    /// # Safety
    /// The rows are inside the storage and used by nobody else except in stream order; the host's are readable until the copy
    /// is over in stream order.
    pub(super) unsafe fn start_rows_from_host(
        &self,
        stream: &Stream,
        access: Access,
        to: (usize, usize),
        from: (*const u8, usize),
        copy: RowsCopy,
    ) -> Result<()> {
        stream.check_device(self)?;
        stream.not_recording("a copy of rows")?;
        let (bytes, ((offset, pitch), (host, host_pitch))) = (copy.bytes(), (to, from));
        if bytes == 0 {
            return Ok(());
        }
        let _gate = self.gate(stream);
        self.order(stream, access).map_err(|source| failed("ordering a copy", bytes, source))?;
        let seen = stream.see(|| Work::copy(WorkKind::CopyToDevice, bytes));
        match (&self.place, stream.gpu()) {
            (Place::Host(memory), _) => {
                let _held = memory.access.lock().unwrap_or_else(PoisonError::into_inner);
                for row in 0..copy.rows {
                    let start = offset + row * pitch;
                    // SAFETY: the caller answers for both sides.
                    unsafe {
                        let to = memory.ptr.as_ptr().add(start);
                        to.copy_from_nonoverlapping(host.add(row * host_pitch), copy.row_bytes);
                    }
                    if let Some(watched) = &memory.watched {
                        watched.mark(start, copy.row_bytes, Mark::Init);
                    }
                }
            }
            (Place::Gpu(Some(memory)), Some(queue)) => {
                let rows = copy.memcpy().with_host_source(host, host_pitch);
                let rows = rows.into_device(memory.address() + offset as u64, pitch);
                // SAFETY: the caller answers for both sides.
                let started = unsafe { queue.stream.copy_rows(&rows) };
                started.map_err(|source| failed("a copy of rows to the device", bytes, source))?;
            }
            _ => unreachable!("the stream is of the storage's device"),
        }
        seen.end();
        Ok(())
    }

    /// As [`Self::start_rows_from_host`], to the host.
    ///
    /// # Safety
    /// The rows are inside the storage; the host's are writable until the copy is over in stream order.
    pub(super) unsafe fn start_rows_to_host(
        &self,
        stream: &Stream,
        from: (usize, usize),
        to: (*mut u8, usize),
        copy: RowsCopy,
    ) -> Result<()> {
        stream.check_device(self)?;
        stream.not_recording("a copy of rows")?;
        let (bytes, ((offset, pitch), (host, host_pitch))) = (copy.bytes(), (from, to));
        if bytes == 0 {
            return Ok(());
        }
        let _gate = self.gate(stream);
        self.order(stream, Access::Read).map_err(|source| failed("ordering a copy", bytes, source))?;
        let seen = stream.see(|| Work::copy(WorkKind::CopyToHost, bytes));
        match (&self.place, stream.gpu()) {
            (Place::Host(memory), _) => {
                let _held = memory.access.lock().unwrap_or_else(PoisonError::into_inner);
                for row in 0..copy.rows {
                    // SAFETY: the caller answers for both sides.
                    unsafe {
                        let from = memory.ptr.as_ptr().add(offset + row * pitch);
                        host.add(row * host_pitch).copy_from_nonoverlapping(from, copy.row_bytes);
                    }
                }
            }
            (Place::Gpu(Some(memory)), Some(queue)) => {
                let rows = copy.memcpy().with_source(memory.address() + offset as u64, pitch);
                // SAFETY: the caller answers for both sides.
                let started = unsafe { queue.stream.copy_rows(&rows.into_host(host, host_pitch)) };
                started.map_err(|source| stream.work_failed(source))?;
            }
            _ => unreachable!("the stream is of the storage's device"),
        }
        seen.end();
        Ok(())
    }

    /// Copies rows within a device: offset and pitch in bytes of both sides.
    ///
    /// # Safety
    /// Both sides' rows are inside their storages and do not overlap; nobody else uses the destination's, except in stream
    /// order.
    pub(super) unsafe fn copy_rows_on_device(
        &self,
        stream: &Stream,
        access: Access,
        to: (usize, usize),
        from: (&Self, usize, usize),
        copy: RowsCopy,
    ) -> Result<()> {
        let (bytes, (source, source_offset, source_pitch), (offset, pitch)) = (copy.bytes(), from, to);
        stream.check_device(self)?;
        stream.not_recording("a copy of rows")?;
        stream.check_device(source)?;
        let (Some(queue), true) = (stream.gpu(), bytes != 0) else {
            for row in 0..if bytes == 0 { 0 } else { copy.rows } {
                let (to, from) = (offset + row * pitch, (source, source_offset + row * source_pitch));
                // SAFETY: the caller answers for both sides.
                unsafe { self.copy_on_device(stream, access, to, from, copy.row_bytes) }?;
            }
            return Ok(());
        };
        let _gate = self.gate(stream).or_else(|| source.gate(stream));
        let ordered = source.order(stream, Access::Read).and_then(|()| self.order(stream, access));
        ordered.map_err(|source| failed("ordering a copy", bytes, source))?;
        let (Place::Gpu(Some(to)), Place::Gpu(Some(from))) = (&self.place, &source.place) else {
            unreachable!("the stream is of both storages' device")
        };
        let seen = stream.see(|| Work::copy(WorkKind::CopyOnDevice, bytes));
        let rows = copy.memcpy().with_source(from.address() + source_offset as u64, source_pitch);
        let rows = rows.into_device(to.address() + offset as u64, pitch);
        // SAFETY: the caller answers for both sides.
        let copied = unsafe { queue.stream.copy_rows(&rows) };
        copied.map_err(|source| failed("a copy of rows on the device", bytes, source))?;
        seen.end();
        Ok(())
    }

    /// Copies within a device.
    ///
    /// # Safety
    /// Both ranges are inside their storages and do not overlap; nobody else uses the destination's part, except in stream
    /// order.
    pub(crate) unsafe fn copy_on_device(
        &self,
        stream: &Stream,
        access: Access,
        offset: usize,
        from: (&Self, usize),
        bytes: usize,
    ) -> Result<()> {
        let (source, source_offset) = from;
        debug_assert!(offset + bytes <= self.bytes && source_offset + bytes <= source.bytes);
        stream.check_device(self)?;
        stream.check_device(source)?;
        if bytes == 0 {
            return Ok(());
        }
        if let Some(recorder) = stream.recorder() {
            return recorder.copy((self, offset), (source, source_offset), bytes);
        }
        let _gate = self.gate(stream).or_else(|| source.gate(stream));
        let ordered = source.order(stream, Access::Read).and_then(|()| self.order(stream, access));
        ordered.map_err(|source| failed("ordering a copy", bytes, source))?;
        // SAFETY: the caller's promise.
        unsafe { self.copy_on_device_ordered(stream, offset, from, bytes) }
    }

    /// As [`Self::copy_on_device`], of a use that was ordered.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn copy_on_device_ordered(
        &self,
        stream: &Stream,
        offset: usize,
        from: (&Self, usize),
        bytes: usize,
    ) -> Result<()> {
        let (source, source_offset) = from;
        let seen = stream.see(|| Work::copy(WorkKind::CopyOnDevice, bytes));
        match (&self.place, &source.place, stream.gpu()) {
            (Place::Host(to), Place::Host(from), _) => {
                let same = Arc::ptr_eq(&to.access, &from.access);
                // By address, so that two copies in opposite directions do not wait for each other.
                let (first, second) = if to.ptr <= from.ptr { (to, from) } else { (from, to) };
                let _first = first.access.lock().unwrap_or_else(PoisonError::into_inner);
                let _second = (!same).then(|| second.access.lock().unwrap_or_else(PoisonError::into_inner));
                // SAFETY: the caller answers for both sides.
                unsafe {
                    to.ptr.as_ptr().add(offset).copy_from_nonoverlapping(from.ptr.as_ptr().add(source_offset), bytes)
                };
                if let (Some(to), Some(from)) = (&to.watched, &from.watched) {
                    to.mark_copied(offset, (from, source_offset), bytes);
                }
            }
            (Place::Gpu(Some(to)), Place::Gpu(Some(from)), Some(queue)) => {
                let (to, from) = (to.address() + offset as u64, from.address() + source_offset as u64);
                // SAFETY: the caller answers for both sides.
                unsafe { queue.stream.copy_on_device(to, from, bytes) }
                    .map_err(|source| failed("a copy on the device", bytes, source))?;
            }
            _ => unreachable!("the stream is of both storages' device"),
        }
        seen.end();
        Ok(())
    }
}

impl HostMemory {
    fn new(device: &Device, bytes: usize, fresh: Fresh, elements: Elements) -> Result<Self> {
        let too_large = || MemoryError::SizeOverflow { len: bytes, element_bytes: 1 };
        let layout = Layout::from_size_align(bytes, ALIGN).map_err(|_| too_large())?;
        if device.check_options().is_some() {
            let Elements { type_name: element, bytes: element_bytes } = elements;
            let piece = Piece::new(bytes, ALIGN, Purpose::Buffer { element, element_bytes });
            let (piece, is_zero) = piece.map_err(|_| out_of_memory(device, bytes))?;
            let ptr = NonNull::new(piece.address()).expect("a piece has an address");
            if fresh == Fresh::Zeroed && !is_zero {
                // SAFETY: the piece has these bytes, and nobody else knows it yet.
                unsafe { ptr.as_ptr().write_bytes(0, bytes) };
            }
            piece.mark(0, bytes, if fresh == Fresh::Zeroed { Mark::Init } else { Mark::Uninit });
            return Ok(Self { ptr, layout: Some(layout), watched: Some(piece), access: Arc::default() });
        }
        let ptr = match fresh {
            // SAFETY: `bytes` is not 0: such storage has no memory.
            Fresh::Zeroed => unsafe { alloc_zeroed(layout) },
            // SAFETY: as above.
            Fresh::Uninit => unsafe { alloc(layout) },
        };
        let ptr = NonNull::new(ptr).ok_or_else(|| out_of_memory(device, bytes))?;
        Ok(Self { ptr, layout: Some(layout), watched: None, access: Arc::default() })
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.counted {
            self.device.pool_account().release(self.bytes);
        }
        let Place::Gpu(memory) = &mut self.place else { return };
        let Some(memory) = memory.take() else { return };
        let uses = self.uses.get_mut().unwrap_or_else(PoisonError::into_inner);
        let in_order = self.keeper.as_mut();
        let in_order =
            in_order.and_then(|keeper| keeper.in_order.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let freed = match uses.last() {
            Ok(Some(stream)) if let Some(home) = &in_order => {
                memory.forget();
                let ordered = if home.id() == stream.id() { Ok(()) } else { home.wait_for(stream) };
                // What cannot be ordered is waited for.
                ordered.or_else(|_| self.device.parts().map_or(Ok(()), |parts| parts.gpu.synchronize()))
            }
            Ok(Some(stream)) => match stream.gpu() {
                Some(queue) => memory.free(&queue.stream),
                None => unreachable!("a GPU's memory is used by its streams only"),
            },
            // Dropping the memory itself waits for the whole context.
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(source) = freed {
            self.device.defer(failed("freeing", self.bytes, source).into());
        }
    }
}

pub(super) fn failed(operation: &'static str, bytes: usize, source: DriverError) -> MemoryError {
    MemoryError::Driver { operation, bytes: bytes as u64, source }
}

pub(super) fn out_of_memory(device: &Device, bytes: usize) -> Error {
    let info = device.memory_info().map_or((0, 0), |info| (info.free, info.total));
    let (free, total) = info;
    MemoryError::OutOfMemory { device: device.to_string(), requested: bytes as u64, free, total }.into()
}

pub(super) fn allocation_failed(device: &Device, bytes: usize, source: DriverError) -> Error {
    if source.code == code::OUT_OF_MEMORY {
        return out_of_memory(device, bytes);
    }
    failed("an allocation", bytes, source).into()
}
