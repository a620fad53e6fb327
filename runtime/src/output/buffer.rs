//! The buffer in page-locked memory that a stream's kernels print into, and the counters of it in device memory.

use std::fmt;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpsmith_device::Dim3;
use warpsmith_device::print::layout;

use super::{Lines, OutputLine, Sink};
use crate::driver::{DeviceWords, Gpu, PinnedMemory};
use crate::error::DriverError;
use crate::module::LoadedKernel;
use crate::panic_report::RecordSlot;

/// What the kernels of one stream of a GPU print.
#[derive(Debug, Default)]
pub(crate) struct GpuOutput {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    buffer: Option<Buffer>,
    /// The launch, the block and the thread that printed the beginning of a line.
    lines: Lines<(u64, Dim3, Dim3)>,
    /// Kernels launched since the buffer was last emptied that may have printed.
    printing: Vec<u32>,
}

/// Memory laid out as `warpsmith_device::print::layout` says.
struct Buffer {
    memory: PinnedMemory,
    counters: DeviceWords,
    /// What the kernels had counted of words when the buffer was emptied last: counters only grow, so that the host never writes them.
    begin: u64,
    /// What they had counted of lost lines; empty as long as nothing was lost.
    lost: Vec<u64>,
    /// Words of records.
    words: usize,
    /// Words of records that were printed already.
    read: usize,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("words", &self.words).field("read", &self.read).finish_non_exhaustive()
    }
}

/// Held from before a launch until the driver has it.
pub(crate) struct Printing<'a> {
    _state: MutexGuard<'a, State>,
}

impl GpuOutput {
    /// Gets the buffer ready for a launch of a kernel that prints, of `bytes` if there is none yet.
    pub(crate) fn prepare(
        &self,
        gpu: &Arc<Gpu>,
        record: &RecordSlot,
        kernel: &LoadedKernel,
        bytes: usize,
    ) -> Result<Printing<'_>, DriverError> {
        let mut state = self.lock();
        let words = words_in(bytes);
        // A buffer of another size goes once nothing is in it and nobody can write it.
        if state.printing.is_empty() && state.buffer.as_ref().is_some_and(|buffer| buffer.words != words) {
            state.buffer = None;
        }
        if state.buffer.is_none() {
            let buffer = Buffer::new(gpu, words)?;
            record.set_output(buffer.memory.device());
            state.buffer = Some(buffer);
        }
        if !state.printing.contains(&kernel.number()) {
            state.printing.push(kernel.number());
        }
        Ok(Printing { _state: state })
    }

    /// Whether kernels were launched that may have printed what was not handed over.
    pub(crate) fn is_pending(&self) -> bool {
        !self.lock().printing.is_empty()
    }

    /// Hands over what was printed: all of it where `is_done` says that the stream has nothing under way, else what is
    /// there so far.
    pub(crate) fn hand_over(
        &self,
        sink: impl FnOnce() -> Sink,
        find: impl Fn(u32) -> Option<Arc<LoadedKernel>>,
        is_done: impl FnOnce() -> bool,
    ) {
        // Held to the end: no kernel that prints is launched meanwhile, and lines stay in order.
        let mut state = self.lock();
        let State { buffer: Some(buffer), lines, printing } = &mut *state else { return };
        if printing.is_empty() {
            return;
        }
        let is_done = is_done();
        let sink = sink();
        let path = |number: u32| find(number).map_or_else(|| "<unknown>".to_owned(), |kernel| kernel.path().to_owned());
        let of_launch = |launch: u64| u32::try_from(launch >> layout::LAUNCH_COUNT_BITS).unwrap_or(u32::MAX);
        while let Some(record) = buffer.next() {
            let kernel = find(of_launch(record.launch));
            let site = kernel.as_ref().and_then(|kernel| kernel.print_site(record.site));
            let text = site.and_then(|site| super::text(site, &record.values));
            let text = text.unwrap_or_else(|| format!("(a line that could not be read, of site {})\n", record.site));
            let kernel = kernel.as_ref().map_or("<unknown>", |kernel| kernel.path());
            let (block, thread) = (record.block, record.thread);
            lines.add((record.launch, block, thread), &text, |text| {
                sink(&OutputLine { kernel, text, block, thread, lost: 0 });
            });
        }
        if !is_done {
            return;
        }
        lines.finish(|(launch, block, thread), text| {
            sink(&OutputLine { kernel: &path(of_launch(launch)), text, block, thread, lost: 0 });
        });
        // Where the driver does not answer all is left as it is, for the next time.
        let Ok(lost) = buffer.empty() else { return };
        let mut counters: Vec<usize> = printing.iter().map(|number| counter(*number)).collect();
        counters.sort_unstable();
        counters.dedup();
        for counter_of_kernels in counters {
            let lost = lost.get(counter_of_kernels).copied().unwrap_or(0);
            if lost != 0 {
                // Kernels share a counter only in programs with very many.
                let of = printing.iter().filter(|number| counter(**number) == counter_of_kernels);
                let kernel = of.map(|number| path(*number)).collect::<Vec<_>>().join("` or `");
                let text = format!(
                    "warpsmith: {lost} lines that the kernel `{kernel}` printed are lost: the stream's buffer of {} bytes \
                     was full; `Device::set_output_bytes` gives a larger one, and each synchronise empties it",
                    8 * buffer.words
                );
                let none = Dim3 { x: 0, y: 0, z: 0 };
                sink(&OutputLine { kernel: &kernel, text: &text, block: none, thread: none, lost });
            }
        }
        printing.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Words of records in so many bytes. A record's length has 32 bits.
pub(super) fn words_in(bytes: usize) -> usize {
    (bytes / 8).clamp(layout::HEADER_WORDS + 1, u32::MAX as usize)
}

fn counter(kernel: u32) -> usize {
    kernel as usize & (layout::LOST_COUNTERS - 1)
}

/// A record as it was found.
struct Record {
    site: u32,
    launch: u64,
    block: Dim3,
    thread: Dim3,
    values: Vec<u64>,
}

impl Buffer {
    fn new(gpu: &Arc<Gpu>, words: usize) -> Result<Self, DriverError> {
        let memory = PinnedMemory::new(gpu, layout::DATA + 8 * words)?;
        let counters = DeviceWords::zeroed(gpu, layout::COUNTERS_BYTES / 8)?;
        let buffer = Self { memory, counters, begin: 0, lost: Vec::new(), words, read: 0 };
        buffer.write(layout::COUNTERS, buffer.counters.address());
        buffer.tell_bounds();
        Ok(buffer)
    }

    /// A word at this offset in bytes. Kernels may write it meanwhile.
    fn load(&self, offset: usize) -> u64 {
        assert!(offset + 8 <= layout::DATA + 8 * self.words);
        // SAFETY: inside the memory, as was just checked, and aligned: offsets are multiples of 8.
        unsafe { self.memory.host().cast::<u64>().add(offset / 8).read_volatile() }
    }

    fn write(&self, offset: usize, word: u64) {
        assert!(offset + 8 <= layout::DATA + 8 * self.words);
        // SAFETY: as above.
        unsafe { self.memory.host().cast::<u64>().add(offset / 8).write_volatile(word) }
    }

    /// Takes the next record that is complete.
    fn next(&mut self) -> Option<Record> {
        let word = |at: usize| self.load(layout::DATA + 8 * (self.read + at));
        if self.read >= self.words {
            return None;
        }
        let head = word(0);
        // Its length was written last.
        fence(Ordering::Acquire);
        let len = head as u32 as usize;
        if len < layout::HEADER_WORDS || len > self.words - self.read {
            return None;
        }
        let pair = |at: usize| (word(at) as u32, (word(at) >> 32) as u32);
        let ((block_x, block_y), (block_z, thread_x), (thread_y, thread_z)) = (pair(2), pair(3), pair(4));
        let record = Record {
            site: (head >> 32) as u32,
            launch: word(1),
            block: Dim3 { x: block_x, y: block_y, z: block_z },
            thread: Dim3 { x: thread_x, y: thread_y, z: thread_z },
            values: (layout::HEADER_WORDS..len).map(word).collect(),
        };
        self.read += len;
        Some(record)
    }

    /// Tells kernels what the counter of words says when the buffer is empty, and when it is full.
    fn tell_bounds(&self) {
        self.write(layout::BEGIN, self.begin);
        self.write(layout::END, self.begin + self.words as u64);
    }

    /// Whether records found no room, or one was begun and not ended.
    fn has_lost(&self) -> bool {
        let mut rest = (self.read..self.words).take(layout::HEADER_WORDS);
        self.load(layout::HAS_LOST) != 0 || rest.any(|at| self.load(layout::DATA + 8 * at) != 0)
    }

    /// Makes the buffer empty, all of which was read, and gives how many lines each counter says were lost, or nothing where none was. No
    /// kernel writes meanwhile.
    fn empty(&mut self) -> Result<Vec<u64>, DriverError> {
        let (mut used, mut lost) = (self.read, Vec::new());
        if self.has_lost() {
            let mut counters = self.counters.read()?;
            let reserved = counters[layout::RESERVED / 8];
            used = usize::try_from(reserved - self.begin).unwrap_or(usize::MAX).min(self.words);
            self.begin = reserved;
            let counted = counters.split_off(layout::LOST / 8);
            self.lost.resize(counted.len(), 0);
            lost = counted.iter().zip(&self.lost).map(|(now, before)| now - before).collect();
            self.lost = counted;
        } else {
            self.begin += used as u64;
        }
        (0..used).for_each(|at| self.write(layout::DATA + 8 * at, 0));
        self.write(layout::HAS_LOST, 0);
        self.read = 0;
        self.tell_bounds();
        Ok(lost)
    }
}
