//! The record that a panicking kernel leaves for the host, with the pool of page-locked memory that records live in.

use std::mem::{offset_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use warpsmith_device::Dim3;
use warpsmith_device::print::layout;

use crate::driver::{DeviceWords, Gpu, GpuEvent, GpuStream, PinnedMemory};
use crate::error::{DriverError, KernelPanic};
use crate::module::LoadedKernel;
use crate::output;

/// What a kernel's panic path writes: `warpsmith_device`'s panic record begins with it.
///
/// The first thread to panic claims the record's round in device memory, fills the record, sets `done` and exits.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct PanicRecord {
    done: u32,
    site: u32,
    launch: u64,
    block: [u32; 3],
    thread: [u32; 3],
    location: u64,
    values: [u64; 8],
}

/// A record, and what else kernels find beside it.
#[repr(C)]
struct Slot {
    record: PanicRecord,
    /// Which panic the record is for, from 1 on: kernels only read it. A thread that has read an earlier round comes too late for this one.
    round: u64,
    /// The id of the launch that panicked last. Not cleared with the record: a later launch may have written it meanwhile,
    /// and its threads must learn that some of them do not come.
    panicked: u64,
    /// Where the stream's kernels print, or 0.
    output: u64,
    /// Address of the word in device memory that says which round was claimed.
    claimed: u64,
}

/// No launch has this id.
const NO_LAUNCH: u64 = u64::MAX;

const _: () = {
    assert!(offset_of!(PanicRecord, site) == 4 && offset_of!(PanicRecord, launch) == 8);
    assert!(offset_of!(PanicRecord, block) == 16 && offset_of!(PanicRecord, thread) == 28);
    assert!(offset_of!(PanicRecord, location) == 40 && offset_of!(PanicRecord, values) == 48);
    assert!(offset_of!(Slot, round) == 112 && offset_of!(Slot, panicked) == 120);
    assert!(offset_of!(Slot, output) == layout::OUTPUT_ADDRESS && offset_of!(Slot, claimed) == 136);
    assert!(size_of::<Slot>() <= RECORD_BYTES);
};

/// Bytes set aside for a record: two cache lines of the GPU.
const RECORD_BYTES: usize = 256;
/// Records in one allocation.
const RECORDS_PER_PAGE: usize = 32;

/// Page-locked memory for the records of a GPU's streams.
#[derive(Debug)]
pub(crate) struct RecordPool {
    gpu: Arc<Gpu>,
    /// How many records rest, so that nobody locks when none does.
    resting: AtomicUsize,
    state: Mutex<PoolState>,
}

/// Memory of some records.
#[derive(Debug)]
struct Page {
    records: PinnedMemory,
    /// For each record the round that was claimed last.
    claimed: DeviceWords,
}

#[derive(Debug, Default)]
struct PoolState {
    pages: Vec<Page>,
    free: Vec<(usize, usize)>,
    /// Records of dropped streams whose work was not done; each is free once its event has passed.
    resting: Vec<(GpuEvent, RecordSlot)>,
}

impl RecordPool {
    pub(crate) fn new(gpu: Arc<Gpu>) -> Self {
        Self { gpu, resting: AtomicUsize::new(0), state: Mutex::new(PoolState::default()) }
    }

    /// A cleared record for a stream.
    pub(crate) fn take(&self) -> Result<RecordSlot, DriverError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.free.is_empty() {
            let records = PinnedMemory::new(&self.gpu, RECORD_BYTES * RECORDS_PER_PAGE)?;
            let claimed = DeviceWords::zeroed(&self.gpu, RECORDS_PER_PAGE)?;
            let number = state.pages.len();
            state.pages.push(Page { records, claimed });
            state.free.extend((0..RECORDS_PER_PAGE).rev().map(|slot| (number, slot)));
        }
        let (page, slot) = state.free.pop().expect("a page of free records was just added");
        let Page { records, claimed } = &state.pages[page];
        let offset = slot * RECORD_BYTES;
        // SAFETY: the offset is inside the page.
        let host = unsafe { records.host().add(offset) }.cast::<Slot>();
        let device = records.device() + offset as u64;
        let record = RecordSlot { page, slot, host, device, taking: Mutex::new(()) };
        // SAFETY: the slot is inside its page, and nobody else has it.
        unsafe {
            (&raw mut (*host.as_ptr()).claimed).write_volatile(claimed.address() + (slot * size_of::<u64>()) as u64)
        };
        record.set_output(0);
        record.forget_launches();
        record.clear();
        Ok(record)
    }

    /// Takes back the record of a dropped stream, for use once the work that it has under way is done.
    pub(crate) fn give_back(&self, record: RecordSlot, stream: &GpuStream) {
        let event = GpuEvent::new(&self.gpu, false).and_then(|event| event.record(stream).map(|()| event));
        // Without an event nobody knows when the record is free, so it is never used again.
        let Ok(event) = event else { return };
        self.state.lock().unwrap_or_else(PoisonError::into_inner).resting.push((event, record));
        self.resting.fetch_add(1, Ordering::Release);
    }

    /// Frees the records of dropped streams whose work is done by now, and gives the first panic among them.
    pub(crate) fn collect(&self, find: impl Fn(u64) -> Option<Arc<LoadedKernel>>) -> Option<Box<KernelPanic>> {
        if self.resting.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, resting): (Vec<_>, Vec<_>) =
            state.resting.drain(..).partition(|(event, _)| event.is_done().unwrap_or(false));
        self.resting.fetch_sub(done.len(), Ordering::Release);
        state.resting = resting;
        let mut first = None;
        for (_, record) in done {
            first = first.or(record.take_panic(&self.gpu, &find));
            state.free.push((record.page, record.slot));
        }
        first
    }
}

impl Drop for RecordPool {
    fn drop(&mut self) {
        if self.resting.load(Ordering::Acquire) != 0 {
            // Kernels that are under way may still write their records.
            let _ = self.gpu.synchronize();
        }
    }
}

/// A stream's own record.
#[derive(Debug)]
pub(crate) struct RecordSlot {
    page: usize,
    slot: usize,
    host: NonNull<Slot>, // Invariant: inside a page of the device's pool, given to nobody else.
    device: u64,
    /// Held while a panic is taken out: each is reported once, and each round begun once.
    taking: Mutex<()>,
}

// SAFETY: the record is read and written as volatile memory that a GPU shares; no thread owns it.
unsafe impl Send for RecordSlot {}
// SAFETY: as above.
unsafe impl Sync for RecordSlot {}

impl RecordSlot {
    /// Where kernels find it.
    #[inline]
    pub(crate) fn device_address(&self) -> u64 {
        self.device
    }

    /// Tells kernels that are launched from here on where they print.
    pub(crate) fn set_output(&self, address: u64) {
        // SAFETY: the slot is inside its page; the GPU may read it meanwhile, hence volatile.
        unsafe { (&raw mut (*self.host.as_ptr()).output).write_volatile(address) }
    }

    /// Whether a kernel has panicked, and written so, since the record was cleared: one load, no call of the driver.
    #[inline]
    pub(crate) fn has_panic(&self) -> bool {
        // SAFETY: the record is inside its page; the GPU may write it meanwhile, hence volatile.
        unsafe { (&raw const (*self.host.as_ptr()).record.done).read_volatile() != 0 }
    }

    /// Whether a launch has panicked since launches were forgotten.
    pub(crate) fn has_marked_launch(&self) -> bool {
        // SAFETY: as above.
        unsafe { (&raw const (*self.host.as_ptr()).panicked).read_volatile() != NO_LAUNCH }
    }

    /// For a new stream, which counts its launches from the start, and for a graph, whose launches have the same number each time.
    pub(crate) fn forget_launches(&self) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.host.as_ptr()).panicked).write_volatile(NO_LAUNCH) };
    }

    /// Makes the record ready for the next panic. No kernel writes it: the last round, if there was one, is claimed and its record written.
    fn clear(&self) {
        let slot = self.host.as_ptr();
        // SAFETY: as above. The next round goes last: until then no kernel writes here.
        unsafe {
            (&raw mut (*slot).record).write_volatile(PanicRecord::default());
            fence(Ordering::SeqCst);
            let round = (&raw const (*slot).round).read_volatile();
            (&raw mut (*slot).round).write_volatile(round + 1);
        }
    }

    /// The panic in the record, if there is one, and clears it. The stream's work is done when this is called.
    pub(crate) fn take_panic(
        &self,
        gpu: &Gpu,
        find: impl Fn(u64) -> Option<Arc<LoadedKernel>>,
    ) -> Option<Box<KernelPanic>> {
        if !self.has_panic() {
            return None;
        }
        let _held = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have taken it meanwhile.
        if !self.has_panic() {
            return None;
        }
        // `done` is written last.
        fence(Ordering::Acquire);
        // SAFETY: as above; nobody writes the record any more.
        let record = unsafe { (&raw const (*self.host.as_ptr()).record).read_volatile() };
        let kernel = find(record.launch);
        let panic = report(gpu, &record, kernel.as_deref());
        self.clear();
        Some(Box::new(panic))
    }
}

/// Makes the report from a record.
fn report(gpu: &Gpu, record: &PanicRecord, kernel: Option<&LoadedKernel>) -> KernelPanic {
    let site = kernel.and_then(|kernel| kernel.site(record.site));
    let message = match site.and_then(|site| output::text(site, &record.values)) {
        Some(message) => message,
        None => format!("explicit panic (site {}, of which this program knows no message)", record.site),
    };
    let (file, line, column) = read_location(gpu, record.location)
        .or_else(|| kernel.map(LoadedKernel::place))
        .unwrap_or_else(|| ("<unknown>".to_owned(), 0, 0));
    let dim = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
    KernelPanic {
        kernel: kernel.map_or_else(|| "<unknown>".to_owned(), |kernel| kernel.path().to_owned()),
        message,
        file,
        line,
        column,
        block: dim(record.block),
        thread: dim(record.thread),
        schedule: None,
        backtrace: None,
    }
}

/// `core::panic::Location` as the device has it: the file's address and length, line and column.
fn read_location(gpu: &Gpu, address: u64) -> Option<(String, u32, u32)> {
    const LONGEST_PATH: u64 = 4096;
    if address == 0 {
        return None;
    }
    let mut bytes = [0u8; 24];
    // SAFETY: the kernel wrote the address of one of its constants, which stays while its module is loaded.
    unsafe { gpu.read(address, &mut bytes) }.ok()?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (file, mut len) = (word(0), word(8));
    // `Location` counts a closing NUL byte in some releases; it is cut off below.
    if len > LONGEST_PATH {
        return None;
    }
    let mut text = vec![0u8; usize::try_from(len).ok()?];
    // SAFETY: as above: the string that the location points to is a constant too.
    unsafe { gpu.read(file, &mut text) }.ok()?;
    if text.last() == Some(&0) {
        len -= 1;
        text.truncate(usize::try_from(len).ok()?);
    }
    Some((String::from_utf8_lossy(&text).into_owned(), half(16), half(20)))
}
