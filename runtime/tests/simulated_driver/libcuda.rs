//! A simulated `libcuda.so`: the driver functions that this crate calls, on host memory, as lazy as the real one may be.
//!
//! Work waits in its stream's queue until something waits for it, so that missing order shows: a copy that should come
//! after another stream's kernel finds the old bytes, and memory freed too early is poisoned. Every access is checked
//! against what is allocated, and a wrong one is the sticky error 700. Built by the tests with `rustc`, as a `cdylib`.
//!
//! `SIMULATED_CUDA` sets it up: `key=value` pairs with commas between; see [`setting`].

#![allow(non_snake_case, reason = "the functions are named as the driver's are")]
#![allow(clippy::missing_safety_doc, reason = "the functions are the driver's")]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

const SUCCESS: u32 = 0;
const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const INVALID_PTX: u32 = 218;
const UNSUPPORTED_PTX_VERSION: u32 = 222;
const INVALID_DEVICE: u32 = 101;
const NOT_FOUND: u32 = 500;
const NOT_READY: u32 = 600;
const ILLEGAL_ADDRESS: u32 = 700;
const NOT_PERMITTED: u32 = 800;

/// Bytes of a block that are overwritten when it is made and freed; of huge ones the host then never gives all.
const MARKED: usize = 16 << 20;

/// `init` (answer of `cuInit`), `version`, `gpus`, `mode` (compute mode), `major`, `minor`, `pools`, `memory` (bytes), `lenient` (whether kernels
/// that the simulation does not know do nothing), `pinned` (bytes of page-locked memory), `concurrent` (whether the host may
/// touch managed memory while kernels run), `peer` (whether GPUs reach each other), `reuse` (whether the pool gives a freed
/// block out again: at once on the stream that freed it, elsewhere once that free was passed), `tells` (whether it tells kernels'
/// parameters).
fn setting(key: &str, default: u64) -> u64 {
    let all = std::env::var("SIMULATED_CUDA").unwrap_or_default();
    let found = all.split(',').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key);
    found.map_or(default, |(_, value)| value.parse().expect("settings are numbers"))
}

fn is_device(device: c_int) -> bool {
    (0..setting("gpus", 1) as c_int).contains(&device)
}

fn pci_bus_id(device: c_int) -> String {
    format!("0000:{:02X}:00.0", 0x1a + device)
}

#[derive(Clone)]
enum Op {
    CopyIn { to: u64, bytes: Vec<u8> },
    /// From page-locked memory, which is read when the copy's turn comes.
    CopyInLate { to: u64, from: usize, bytes: usize },
    Copy { to: u64, from: u64, bytes: usize },
    /// `locked`: to page-locked memory, which must still be there then.
    CopyOut { to: usize, from: u64, bytes: usize, locked: bool },
    Rows(Memcpy2d),
    Set { to: u64, value: u32, width: usize, count: usize },
    Free { address: u64 },
    Wait { stream: usize, position: u64 },
    Launch { entry: String, grid: u64, memory: u64, len: u64, record: u64, launch: u64, barrier: u64 },
    /// A function of the host, called on a thread of its own; then whether it has returned.
    Host { function: extern "C" fn(*mut c_void), data: usize, returned: Option<Arc<AtomicBool>> },
    /// A kernel without hidden arguments: `add_foreign` adds two slices of `f32`, `scale_foreign` multiplies by the module's
    /// variable.
    Foreign { entry: String, slices: [u64; 3], len: u32 },
    /// Keeps the stream busy until the test lets it go.
    Hold,
}

/// A graph's node: what it does, after which others.
#[derive(Clone)]
struct Node {
    op: Op,
    after: Vec<usize>,
}

/// A graph that is ready: its nodes, and where its last launch ends.
#[derive(Clone, Default)]
struct Exec {
    nodes: Vec<Node>,
    last: Event,
}

/// `CUDA_MEMCPY2D`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Memcpy2d {
    source_x: usize,
    source_y: usize,
    source_type: u32,
    source_host: usize,
    source_device: u64,
    source_array: usize,
    source_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_type: u32,
    to_host: usize,
    to_device: u64,
    to_array: usize,
    to_pitch: usize,
    width: usize,
    height: usize,
}

/// A block that was freed on a stream, at a position of its queue.
struct Freed {
    address: u64,
    bytes: usize,
    stream: usize,
    position: u64,
}

#[derive(Default)]
struct Stream {
    queue: VecDeque<Op>,
    done: u64,
    priority: c_int,
    capturing: bool,
}

impl Stream {
    fn given(&self) -> u64 {
        self.done + self.queue.len() as u64
    }
}

#[derive(Clone, Copy, Default)]
struct Event {
    stream: usize,
    position: u64,
}

#[derive(Default)]
struct State {
    streams: BTreeMap<usize, Stream>,
    events: BTreeMap<usize, Event>,
    /// Address and size of what is allocated.
    memory: BTreeMap<u64, usize>,
    /// Address and size of what is page-locked.
    host: BTreeMap<usize, usize>,
    /// What of `memory` is the pool's.
    pooled: BTreeMap<u64, usize>,
    pool_used_high: u64,
    pool_reserved: u64,
    pool_reserved_high: u64,
    freed: Vec<Freed>,
    /// Frees that are still to be passed of blocks that were given out again.
    given_again: Vec<u64>,
    /// Which GPU's it is, by address.
    ordinals: BTreeMap<u64, c_int>,
    entries: Vec<String>,
    /// What was given to the linker, and where its log goes.
    linked: Vec<u8>,
    link_log: usize,
    /// The address of the one variable that modules have, a `u32`; 0 until somebody asks for it.
    variable: u64,
    limits: BTreeMap<u32, usize>,
    /// What was set of functions' attributes.
    attributes: BTreeMap<(usize, u32), c_int>,
    next: usize,
    graphs: BTreeMap<usize, Vec<Node>>,
    execs: BTreeMap<usize, Exec>,
    sticky: u32,
    hold: bool,
    /// Whether work was held up by a function of the host that has not returned.
    waits_for_host: bool,
    calls: Vec<String>,
    fail: Failure,
}

/// Which calls fail: after `skip` more calls, `times` of them answer `code`.
#[derive(Default)]
struct Failure {
    skip: u64,
    times: u64,
    code: u32,
    /// Only calls whose names have this in them; all for "".
    part: &'static str,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Does work until no function of the host holds it up, without the lock while one does.
fn settle(work: impl Fn(&mut State)) -> u32 {
    loop {
        let mut state = state();
        state.waits_for_host = false;
        work(&mut state);
        if !state.waits_for_host {
            return state.sticky;
        }
        drop(state);
        std::thread::sleep(std::time::Duration::from_micros(20));
    }
}

thread_local! {
    /// Whether the thread runs a function of the host, which must not call the driver.
    static IN_HOST_FUNCTION: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static CURRENT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl State {
    /// Bytes that are allocated, without [`Self::words`]: the tests reckon with what programs ask for.
    fn used(&self) -> u64 {
        self.memory.values().map(|&bytes| bytes as u64).sum::<u64>() - self.words()
    }

    /// Bytes of the words that the library itself keeps for panics and for printing, known by their sizes: 32 words, and 8 and 1024.
    fn words(&self) -> u64 {
        let own = self.memory.iter().filter(|(address, bytes)| {
            [8 * 32, 8 * (8 + 1024)].contains(*bytes) && !self.pooled.contains_key(address)
        });
        own.map(|(_, &bytes)| bytes as u64).sum()
    }

    fn check(&mut self, address: u64, bytes: usize) -> bool {
        let block = self.memory.range(..=address).next_back();
        let inside = block.is_some_and(|(&start, &size)| address + bytes as u64 <= start + size as u64);
        // Kernels reach page-locked memory of the host too.
        let inside = inside || self.is_locked(address as usize, bytes);
        if !inside {
            self.sticky = ILLEGAL_ADDRESS;
            self.calls.push(format!("illegal address: {bytes} bytes"));
        }
        inside
    }

    /// As [`Self::check`], of what kernels use by atomics: on the host's memory a GPU has none.
    fn is_on_device(&mut self, address: u64, bytes: usize) -> bool {
        if self.is_locked(address as usize, bytes) {
            self.sticky = ILLEGAL_ADDRESS;
            self.calls.push("atomic on the host's memory".to_owned());
            return false;
        }
        self.check(address, bytes)
    }

    /// Raises a word to a value, and gives what it was.
    unsafe fn raise(&mut self, address: u64, value: u64) -> u64 {
        let word = address as *mut u64;
        // SAFETY: the caller's promise.
        unsafe {
            let before = *word;
            *word = before.max(value);
            before
        }
    }

    /// A thread's panic, as the device runtime writes it; `late` is by how many rounds its first look at the record is too old.
    fn panic(&mut self, record: u64, launch: u64, [block, thread]: [u32; 2], len: u64, late: u64) {
        static FILE: &str = "src/simulated.rs";
        static LOCATION: LazyLock<[u64; 3]> = LazyLock::new(|| [FILE.as_ptr() as u64, FILE.len() as u64, 12 | 34 << 32]);
        let record = record as *mut u64;
        // SAFETY: the record is this driver's own page-locked memory, laid out as the contract says.
        let round_now = || unsafe { record.add(14).read_volatile() };
        // SAFETY: as above.
        let claimed = unsafe {
            record.add(15).write_volatile(launch);
            record.add(17).read_volatile()
        };
        let mut round = round_now() - late;
        loop {
            if !self.is_on_device(claimed, 8) {
                return;
            }
            // SAFETY: the word is inside device memory, which is where a GPU has atomics.
            if unsafe { self.raise(claimed, round) } < round {
                break;
            }
            if round_now() == round {
                return;
            }
            round = round_now();
        }
        // SAFETY: as above.
        unsafe {
            if record.cast::<[u64; 14]>().read_volatile() != [0; 14] {
                self.calls.push("a record that is not clear".to_owned());
            }
            record.cast::<u32>().add(1).write_volatile(1);
            record.add(1).write_volatile(launch);
            record.add(2).cast::<[u32; 6]>().write_volatile([block, 0, 0, thread, 0, 0]);
            record.add(5).write_volatile(LOCATION.as_ptr() as u64);
            record.add(6).cast::<[u64; 2]>().write_volatile([3, len]);
            record.cast::<u32>().write_volatile(1);
        }
    }

    /// Whether a range of the host is page-locked.
    fn is_locked(&self, start: usize, bytes: usize) -> bool {
        let block = self.host.range(..=start).next_back();
        block.is_some_and(|(&first, &size)| start + bytes <= first + size)
    }

    /// Notes a late access to page-locked memory that is not there any more.
    fn check_host(&mut self, start: usize, bytes: usize) -> bool {
        let inside = self.is_locked(start, bytes);
        if !inside {
            self.sticky = ILLEGAL_ADDRESS;
            self.calls.push("late access to host memory".to_owned());
        }
        inside
    }

    fn pool_used(&self) -> u64 {
        self.pooled.values().map(|&bytes| bytes as u64).sum()
    }

    /// Gives a block of the pool out, one that was freed where that is allowed.
    fn allocate_pooled(&mut self, bytes: usize, stream: usize) -> Result<u64, u32> {
        let passed = |freed: &Freed, streams: &BTreeMap<usize, Stream>| {
            freed.stream == stream || streams.get(&freed.stream).is_none_or(|queue| queue.done >= freed.position)
        };
        let again = self.freed.iter().position(|freed| freed.bytes == bytes && passed(freed, &self.streams));
        let block = match again.filter(|_| setting("reuse", 0) != 0) {
            Some(at) => {
                let freed = self.freed.swap_remove(at);
                if self.memory.insert(freed.address, bytes).is_some() {
                    self.given_again.push(freed.address);
                }
                self.calls.push("reuse".to_owned());
                freed.address
            }
            None => self.allocate(bytes)?,
        };
        self.pooled.insert(block, bytes);
        let used = self.pool_used();
        self.pool_used_high = self.pool_used_high.max(used);
        self.pool_reserved = self.pool_reserved.max(used);
        self.pool_reserved_high = self.pool_reserved_high.max(self.pool_reserved);
        Ok(block)
    }

    fn rows(&mut self, copy: &Memcpy2d) {
        for row in 0..copy.height {
            let (from, to) = (row * copy.source_pitch, row * copy.to_pitch);
            let mut side = |kind: u32, host: usize, device: u64, offset: usize| match kind {
                1 => Some(host + offset),
                _ => self.check(device + offset as u64, copy.width).then_some(device as usize + offset),
            };
            let from = side(copy.source_type, copy.source_host, copy.source_device, from);
            let to = side(copy.to_type, copy.to_host, copy.to_device, to);
            let (Some(from), Some(to)) = (from, to) else { return };
            // SAFETY: device sides were checked just now; host sides are the caller's promise.
            unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, copy.width) };
        }
    }

    /// Does a stream's work up to a position; false when it is held up.
    fn run(&mut self, stream: usize, position: u64) -> bool {
        while self.streams.entry(stream).or_default().done < position {
            if !self.step(stream) {
                return false;
            }
        }
        true
    }

    fn step(&mut self, stream: usize) -> bool {
        let hold = self.hold;
        let queue = &mut self.streams.entry(stream).or_default().queue;
        let Some(op) = queue.pop_front() else { return true };
        match op {
            Op::Hold if hold => {
                queue.push_front(Op::Hold);
                return false;
            }
            Op::Host { function, data, returned: None } => {
                // As the driver does, which calls no more of them once the context is lost.
                if self.sticky == 0 {
                    let returned = Arc::new(AtomicBool::new(false));
                    queue.push_front(Op::Host { function, data, returned: Some(Arc::clone(&returned)) });
                    self.waits_for_host = true;
                    std::thread::spawn(move || {
                        IN_HOST_FUNCTION.set(true);
                        function(data as *mut c_void);
                        returned.store(true, Ordering::Release);
                    });
                    return false;
                }
            }
            Op::Host { function, data, returned: Some(returned) } => {
                if !returned.load(Ordering::Acquire) {
                    queue.push_front(Op::Host { function, data, returned: Some(returned) });
                    self.waits_for_host = true;
                    return false;
                }
            }
            Op::Wait { stream: other, position } => {
                if !self.run(other, position) {
                    self.streams.entry(stream).or_default().queue.push_front(Op::Wait { stream: other, position });
                    return false;
                }
            }
            op => self.execute(op),
        }
        self.streams.entry(stream).or_default().done += 1;
        true
    }

    fn execute(&mut self, op: Op) {
        // SAFETY: `check` finds the range inside an allocation of this driver; host sides are the caller's promise.
        unsafe {
            match op {
                Op::CopyIn { to, bytes } if self.check(to, bytes.len()) => {
                    (to as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                }
                Op::CopyInLate { to, from, bytes } if self.check(to, bytes) && self.check_host(from, bytes) => {
                    (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes);
                }
                Op::Rows(copy) => self.rows(&copy),
                Op::Copy { to, from, bytes } if self.check(to, bytes) && self.check(from, bytes) => {
                    (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes);
                }
                Op::CopyOut { to, from, bytes, locked }
                    if self.check(from, bytes) && (!locked || self.check_host(to, bytes)) =>
                {
                    (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes);
                }
                Op::Set { to, value, width, count } if self.check(to, width * count) => {
                    for at in 0..count {
                        let to = (to as *mut u8).add(at * width);
                        to.copy_from_nonoverlapping(value.to_le_bytes().as_ptr(), width);
                    }
                }
                Op::Free { address } => self.free(address),
                Op::Foreign { entry, slices, len } => self.foreign(&entry, slices, len),
                Op::Launch { entry, grid, memory, len, record, launch, barrier } => {
                    if entry == "sync" && !self.sync(barrier, grid) {
                        return;
                    }
                    self.kernel(&entry, grid, memory, len, record, launch);
                }
                _ => {}
            }
        }
    }

    unsafe fn free(&mut self, address: u64) {
        if let Some(at) = self.given_again.iter().position(|&given| given == address) {
            self.given_again.swap_remove(at);
            let bytes = self.memory[&address];
            // SAFETY: as below; whoever has the block now writes it after this.
            unsafe { (address as *mut u8).write_bytes(0xdd, bytes.min(MARKED)) };
        } else if let Some(bytes) = self.memory.remove(&address) {
            self.pooled.remove(&address);
            // Kept, so that a late access finds poison instead of somebody else's memory.
            // SAFETY: the block was allocated with this size and is never given back to the host.
            unsafe { (address as *mut u8).write_bytes(0xdd, bytes.min(MARKED)) };
        }
    }

    unsafe fn foreign(&mut self, entry: &str, [a, b, c]: [u64; 3], len: u32) {
        let bytes = len as usize * 4;
        let used: &[u64] = if entry == "add_foreign" { &[a, b, c] } else { &[a] };
        if !used.iter().all(|&slice| self.check(slice, bytes)) {
            return;
        }
        for at in 0..len as usize {
            // SAFETY: inside the blocks that were just checked; the variable was allocated for the module.
            unsafe {
                let element = |slice: u64| (slice as *mut f32).add(at);
                if entry == "add_foreign" {
                    *element(c) = *element(a) + *element(b);
                } else {
                    *element(a) *= (self.variable as *const u32).read() as f32;
                }
            }
        }
    }

    /// Leaves a grid barrier as kernels do, in the middle of its second round; false when it was not clear before.
    unsafe fn sync(&mut self, barrier: u64, grid: u64) -> bool {
        if !self.check(barrier, 8) {
            return false;
        }
        let count = barrier as *mut u64;
        // SAFETY: inside the block that was just checked.
        unsafe {
            if *count != 0 {
                self.calls.push("a grid barrier that is not clear".to_owned());
                return false;
            }
            *count = grid + 1;
        }
        true
    }

    /// The kernels: `count` and `sync` add 1 to each `u32`, `add_variable` adds the module's variable; `panic` panics in
    /// thread 5 of block 1 and in others; `panic_late` has looked at the record before the host began another round; `panic_lost` loses the
    /// context between its claim and its report; in `meet` one thread waits for others, which have panicked where the first `u32` is 0,
    /// and counts it up when they come; `print` prints each `u32` in a line, by the first place that prints; `print_half` ends before
    /// its lines are complete.
    unsafe fn kernel(&mut self, entry: &str, grid: u64, memory: u64, len: u64, record: u64, launch: u64) {
        if !self.check(memory, len as usize * 4) {
            return;
        }
        match entry {
            "count" | "sync" => {
                for at in 0..len {
                    let element = (memory as *mut u32).wrapping_add(at as usize);
                    // SAFETY: inside the block that was just checked.
                    unsafe { *element += 1 };
                }
            }
            "add_variable" => {
                for at in 0..len {
                    let element = (memory as *mut u32).wrapping_add(at as usize);
                    // SAFETY: inside the block that was just checked; the variable was allocated for the module.
                    unsafe { *element += (self.variable as *const u32).read() };
                }
            }
            // Three threads of a block at once: the first of them is told of.
            "panic" => {
                for thread in 5..8 {
                    self.panic(record, launch, [grid as u32 - 1, thread], len, 0);
                }
            }
            "panic_late" => self.panic(record, launch, [0, 9], len, 1),
            "panic_lost" => {
                let word = |at: usize| (record as *const u64).wrapping_add(at);
                // SAFETY: the record is this driver's own page-locked memory, laid out as the contract says.
                let (round, claimed) = unsafe { (word(14).read_volatile(), word(17).read_volatile()) };
                if self.is_on_device(claimed, 8) {
                    // SAFETY: the word is inside device memory.
                    unsafe { self.raise(claimed, round) };
                }
                self.sticky = ILLEGAL_ADDRESS;
            }
            "meet" => {
                let element = memory as *mut u32;
                // SAFETY: inside the block that was just checked, which is not empty; the record as above.
                unsafe {
                    if *element == 0 {
                        self.panic(record, launch, [0, 1], len, 0);
                    } else if (record as *const u64).add(15).read_volatile() != launch {
                        *element += 1;
                    }
                }
            }
            "print" | "print_half" => {
                // SAFETY: the record and the buffer are this driver's own page-locked memory, laid out as the contract says.
                unsafe {
                    let output = *(record as *const u64).add(16) as *mut u64;
                    let (counters, begin, end) = (*output, *output.add(1), *output.add(2));
                    if !self.is_on_device(counters, 64 + 8 * 1024) {
                        return;
                    }
                    let counters = counters as *mut u64;
                    for at in 0..len {
                        let reserved = *counters;
                        // As when others came between the look and the count.
                        *counters += 6;
                        if reserved + 6 > end {
                            *counters.add(8 + (launch >> 40 & 1023) as usize) += 1;
                            *output.add(3) = 1;
                            continue;
                        }
                        let line = output.add(8 + (reserved - begin) as usize);
                        line.add(1).write_volatile(launch);
                        line.add(2).cast::<[u32; 6]>().write_unaligned([at as u32 / 256, 0, 0, at as u32 % 256, 0, 0]);
                        line.add(5).write_volatile(u64::from(*(memory as *const u32).add(at as usize)));
                        line.write_volatile(if entry == "print" { 6 } else { 0 });
                    }
                }
            }
            _ => self.sticky = ILLEGAL_ADDRESS,
        }
    }

    fn push(&mut self, stream: usize, op: Op) -> u32 {
        self.streams.entry(stream).or_default().queue.push_back(op);
        self.sticky
    }

    /// What a launch does, from its arguments: every kernel here takes one writable slice, a pointer and an extent that begins with the
    /// length, and the three hidden arguments; one that syncs the grid has a barrier besides.
    unsafe fn launch_op(&self, function: usize, grid_x: u32, arguments: *mut *mut c_void) -> Op {
        let entry = self.entries[function - 1].clone();
        // SAFETY: the caller passes the addresses of as many arguments as the kernel has.
        let word = |at: usize| unsafe { (*arguments.add(at)).cast::<u64>().read_unaligned() };
        let (memory, len, record, launch) = (word(0), word(1), word(2), word(3));
        let barrier = if entry == "sync" { word(5) } else { 0 };
        Op::Launch { entry, grid: u64::from(grid_x), memory, len, record, launch, barrier }
    }

    fn add_node(&mut self, node: *mut usize, graph: usize, after: *const usize, count: usize, op: Op) -> u32 {
        let Some(nodes) = self.graphs.get_mut(&graph) else { return INVALID_VALUE };
        // SAFETY: the caller passes as many handles as it says; a node's handle is its place, from 1.
        let after: Vec<usize> = (0..count).map(|at| unsafe { *after.add(at) } - 1).collect();
        if after.iter().any(|&before| before >= nodes.len()) { return INVALID_VALUE; }
        nodes.push(Node { op, after });
        // SAFETY: the caller wants one handle.
        unsafe { *node = nodes.len() };
        SUCCESS
    }

    /// A graph's work in an order that its nodes allow and that is as far from theirs as can be, so that a missing one shows.
    fn graph_order(nodes: &[Node]) -> Vec<usize> {
        let mut order = Vec::new();
        while order.len() < nodes.len() {
            let ready = |at: &usize| !order.contains(at) && nodes[*at].after.iter().all(|before| order.contains(before));
            let next = (0..nodes.len()).rev().find(ready).expect("nodes come after earlier ones only");
            order.push(next);
        }
        order
    }

    fn allocate(&mut self, bytes: usize) -> Result<u64, u32> {
        if self.used() + bytes as u64 > setting("memory", 1 << 30) {
            return Err(OUT_OF_MEMORY);
        }
        let layout = std::alloc::Layout::from_size_align(bytes, 256).expect("a size that the host can allocate");
        // SAFETY: the callers ask for at least one byte.
        let block = unsafe { std::alloc::alloc(layout) };
        // SAFETY: allocated just now.
        unsafe { block.write_bytes(0xa5, bytes.min(MARKED)) };
        self.memory.insert(block as u64, bytes);
        self.ordinals.insert(block as u64, CURRENT.get().saturating_sub(4096) as c_int);
        Ok(block as u64)
    }

    fn run_all(&mut self) -> u32 {
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            let position = self.streams[&stream].given();
            self.run(stream, position);
        }
        self.sticky
    }
}

/// The answer of a call that the test wants to fail. Calls that only give something back are left alone.
fn injected(name: &str) -> Option<u32> {
    if ["GetErrorName", "Free", "Destroy", "Unload", "Release"].iter().any(|part| name.contains(part)) {
        return None;
    }
    let fail = &mut state().fail;
    if fail.times == 0 || !name.contains(fail.part) {
        return None;
    }
    if fail.skip > 0 {
        fail.skip -= 1;
        return None;
    }
    fail.times -= 1;
    Some(fail.code)
}

macro_rules! driver {
    ($($name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> u32 {
            #[allow(unused_unsafe, reason = "some functions touch no pointer")]
            // SAFETY: the caller keeps the driver's contract: pointers are valid for what the function reads and writes.
            unsafe {
                if IN_HOST_FUNCTION.get() {
                    state().calls.push("call in a host function".to_owned());
                    return NOT_PERMITTED;
                }
                if let Some(code) = injected(stringify!($name)) {
                    return code;
                }
                $body
            }
        }
    )*};
}

driver! {
    cuInit(_flags: c_uint) { setting("init", 0) as u32 }
    cuDriverGetVersion(version: *mut c_int) { *version = setting("version", 13000) as c_int; SUCCESS }
    cuGetErrorName(code: c_uint, name: *mut *const c_char) {
        let text: &CStr = match code {
            1 => c"CUDA_ERROR_INVALID_VALUE",
            2 => c"CUDA_ERROR_OUT_OF_MEMORY",
            34 => c"CUDA_ERROR_STUB_LIBRARY",
            101 => c"CUDA_ERROR_INVALID_DEVICE",
            218 => c"CUDA_ERROR_INVALID_PTX",
            222 => c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            500 => c"CUDA_ERROR_NOT_FOUND",
            700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
            800 => c"CUDA_ERROR_NOT_PERMITTED",
            803 => c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            _ => return INVALID_VALUE,
        };
        *name = text.as_ptr();
        SUCCESS
    }
    cuGetErrorString(code: c_uint, text: *mut *const c_char) { cuGetErrorName(code, text) }
    cuDeviceGetCount(count: *mut c_int) { *count = setting("gpus", 1) as c_int; SUCCESS }
    cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        if !is_device(ordinal) { return INVALID_DEVICE; }
        *device = ordinal;
        SUCCESS
    }
    cuDeviceGetByPCIBusId(device: *mut c_int, id: *const c_char) {
        let wanted = CStr::from_ptr(id).to_string_lossy().to_ascii_uppercase();
        let count = setting("gpus", 1) as c_int;
        let found = (0..count).find(|&each| wanted == pci_bus_id(each) || format!("0000:{wanted}") == pci_bus_id(each));
        let Some(found) = found else { return INVALID_VALUE };
        *device = found;
        SUCCESS
    }
    cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: c_int) {
        if !is_device(device) { return INVALID_DEVICE; }
        let id = pci_bus_id(device) + "\0";
        if (len as usize) < id.len() { return INVALID_VALUE; }
        text.copy_from_nonoverlapping(id.as_ptr().cast(), id.len());
        SUCCESS
    }
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        if !is_device(device) { return INVALID_DEVICE; }
        *uuid = [0xc0 + device as u8; 16];
        SUCCESS
    }
    cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        if !is_device(device) { return INVALID_DEVICE; }
        *bytes = setting("memory", 1 << 30) as usize;
        SUCCESS
    }
    cuDeviceGetName(name: *mut c_char, _len: c_int, device: c_int) {
        if !is_device(device) { return INVALID_DEVICE; }
        name.copy_from_nonoverlapping(c"Simulated GPU".as_ptr(), 14);
        SUCCESS
    }
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) {
        if !is_device(device) { return INVALID_DEVICE; }
        *value = match attribute {
            1 | 2 | 3 => 1024,
            4 => 64,
            51 => 32,
            89 => setting("concurrent", 1) as c_int,
            5 => i32::MAX,
            6 | 7 => 65_535,
            8 => 48 << 10,
            10 => 32,
            12 => 65_536,
            13 => 1_980_000,
            16 => 4,
            20 => setting("mode", 0) as c_int,
            36 => 2_619_000,
            37 => 5120,
            38 => 50 << 20,
            39 => 2048,
            81 => 228 << 10,
            82 => 65_536,
            106 => 32,
            111 => 1024,
            75 => setting("major", 9) as c_int,
            76 => setting("minor", 0) as c_int,
            97 => 227 << 10,
            115 => setting("pools", 1) as c_int,
            _ => return INVALID_VALUE,
        };
        SUCCESS
    }
    cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        if !is_device(device) { return INVALID_DEVICE; }
        *context = 4096 + device as usize;
        state().calls.push("retain".to_owned());
        SUCCESS
    }
    cuDevicePrimaryCtxRelease_v2(_device: c_int) { state().calls.push("release".to_owned()); SUCCESS }
    cuCtxGetCurrent(context: *mut usize) { *context = CURRENT.get(); SUCCESS }
    cuCtxSetCurrent(context: usize) { CURRENT.set(context); SUCCESS }
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        *least = 0;
        *greatest = -5;
        SUCCESS
    }
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        if *mode > 2 { return INVALID_VALUE; }
        state().calls.push(format!("capture mode {}", *mode));
        *mode = 0;
        SUCCESS
    }
    cuCtxGetLimit(value: *mut usize, limit: c_uint) {
        *value = state().limits.get(&limit).copied().unwrap_or(1024);
        SUCCESS
    }
    cuCtxSetLimit(limit: c_uint, value: usize) { state().limits.insert(limit, value); SUCCESS }
    cuCtxSynchronize() { settle(|state| drop(state.run_all())) }
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let all = setting("memory", 1 << 30);
        *total = all as usize;
        *free = (all - state().used()) as usize;
        SUCCESS
    }
    cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        match state().allocate(bytes) {
            Ok(block) => { *address = block; SUCCESS }
            Err(code) => code,
        }
    }
    cuMemFree_v2(address: u64) { state().free(address); SUCCESS }
    cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint) {
        if flags != 1 { return INVALID_VALUE; }
        state().calls.push("allocate managed".to_owned());
        cuMemAlloc_v2(address, bytes)
    }
    cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize) {
        let mut state = state();
        state.streams.entry(stream).or_default();
        match state.allocate(bytes) {
            Ok(block) => { *address = block; SUCCESS }
            Err(code) => code,
        }
    }
    cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: usize, stream: usize) {
        if pool != 64 { return INVALID_VALUE; }
        match state().allocate_pooled(bytes, stream) {
            Ok(block) => { *address = block; SUCCESS }
            Err(code) => code,
        }
    }
    cuMemPoolCreate(pool: *mut usize, props: *const u32) {
        // Pinned memory, no export, on one of the devices.
        if !matches!(props.cast::<[u32; 4]>().read(), [1, 0, 1, 0 | 1]) { return INVALID_VALUE; }
        *pool = 64;
        SUCCESS
    }
    cuMemPoolDestroy(_pool: usize) { state().calls.push("destroy pool".to_owned()); SUCCESS }
    cuMemPoolSetAttribute(_pool: usize, attribute: c_uint, value: *mut u64) {
        let mut state = state();
        match (attribute, *value) {
            (4, u64::MAX) => {}
            (6, 0) => state.pool_reserved_high = state.pool_reserved,
            (8, 0) => state.pool_used_high = state.pool_used(),
            _ => return INVALID_VALUE,
        }
        SUCCESS
    }
    cuMemPoolGetAttribute(pool: usize, attribute: c_uint, value: *mut u64) {
        if pool != 64 { return INVALID_VALUE; }
        let state = state();
        *value = match attribute {
            5 => state.pool_reserved,
            6 => state.pool_reserved_high,
            7 => state.pool_used(),
            8 => state.pool_used_high,
            _ => return INVALID_VALUE,
        };
        SUCCESS
    }
    cuMemPoolSetAccess(pool: usize, access: *const [u32; 3], count: usize) {
        if pool != 64 || count != 1 { return INVALID_VALUE; }
        let [kind, device, flags] = *access;
        state().calls.push(format!("pool access of {kind}, {device}: {flags}"));
        SUCCESS
    }
    cuMemFreeAsync(address: u64, stream: usize) {
        let mut state = state();
        let Some(&bytes) = state.memory.get(&address) else { return INVALID_VALUE };
        let answer = state.push(stream, Op::Free { address });
        let position = state.streams[&stream].given();
        state.freed.push(Freed { address, bytes, stream, position });
        answer
    }
    cuMemPoolTrimTo(_pool: *mut c_void, keep: usize) {
        let mut state = state();
        state.calls.push("trim".to_owned());
        state.pool_reserved = state.pool_used().max(state.pool_reserved.min(keep as u64));
        SUCCESS
    }
    cuMemHostAlloc(host: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        let mut state = state();
        let used: usize = state.host.values().sum();
        if (used + bytes) as u64 > setting("pinned", 1 << 40) { return OUT_OF_MEMORY; }
        // Zeroed, so that a large block takes memory of the host only where it is touched.
        let block = std::alloc::alloc_zeroed(std::alloc::Layout::from_size_align(bytes, 4096).expect("a small size"));
        *host = block.cast();
        state.host.insert(block as usize, bytes);
        state.calls.push("allocate host".to_owned());
        SUCCESS
    }
    cuMemFreeHost(host: *mut c_void) {
        let mut state = state();
        let Some(bytes) = state.host.remove(&(host as usize)) else { return INVALID_VALUE };
        // Kept, so that a late read finds poison.
        host.cast::<u8>().write_bytes(0xdd, bytes.min(MARKED));
        state.calls.push("free host".to_owned());
        SUCCESS
    }
    cuMemHostRegister_v2(host: *mut c_void, bytes: usize, flags: c_uint) {
        let mut state = state();
        if flags != 1 { return INVALID_VALUE; }
        let used: usize = state.host.values().sum();
        if (used + bytes) as u64 > setting("pinned", 1 << 40) { return OUT_OF_MEMORY; }
        state.host.insert(host as usize, bytes);
        state.calls.push("register host".to_owned());
        SUCCESS
    }
    cuMemHostUnregister(host: *mut c_void) {
        let mut state = state();
        if state.host.remove(&(host as usize)).is_none() { return INVALID_VALUE; }
        state.calls.push("unregister host".to_owned());
        SUCCESS
    }
    cuMemHostGetDevicePointer_v2(address: *mut u64, host: *mut c_void, _flags: c_uint) { *address = host as u64; SUCCESS }
    cuPointerGetAttributes(count: c_uint, attributes: *const c_uint, values: *const *mut c_void, address: u64) {
        const HOST_MEMORY: c_uint = 1;
        const DEVICE_MEMORY: c_uint = 2;
        const NO_DEVICE: c_int = -2;
        let state = state();
        // All other addresses are as those of pageable memory, of which the driver knows nothing.
        let (memory_type, device_address, ordinal) = if state.is_locked(address as usize, 1) {
            (HOST_MEMORY, address, 0)
        } else {
            let block = state.memory.range(..=address).next_back();
            match block.filter(|&(&start, &size)| address < start + size as u64) {
                Some((start, _)) => (DEVICE_MEMORY, address, state.ordinals[start]),
                None => (0, 0, NO_DEVICE),
            }
        };
        for index in 0..count as usize {
            let value = *values.add(index);
            match *attributes.add(index) {
                2 => value.cast::<c_uint>().write(memory_type),
                3 => value.cast::<u64>().write(device_address),
                9 => value.cast::<c_int>().write(ordinal),
                _ => return INVALID_VALUE,
            }
        }
        SUCCESS
    }
    cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: usize) {
        let mut state_now = state();
        if state_now.is_locked(from as usize, bytes) {
            return state_now.push(stream, Op::CopyInLate { to, from: from as usize, bytes });
        }
        drop(state_now);
        let bytes = std::slice::from_raw_parts(from, bytes).to_vec();
        state().push(stream, Op::CopyIn { to, bytes })
    }
    cuMemcpyDtoHAsync_v2(to: usize, from: u64, bytes: usize, stream: usize) {
        let mut state = state();
        let locked = state.is_locked(to, bytes);
        state.push(stream, Op::CopyOut { to, from, bytes, locked })
    }
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        state().push(stream, Op::Copy { to, from, bytes })
    }
    cuMemcpy2DAsync_v2(copy: *const Memcpy2d, stream: usize) {
        let copy = *copy;
        if copy.width > copy.source_pitch || copy.width > copy.to_pitch { return INVALID_VALUE; }
        state().calls.push("copy rows".to_owned());
        state().push(stream, Op::Rows(copy))
    }
    cuMemcpyPeerAsync(to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, stream: usize) {
        let mut state = state();
        if to_context == from_context || to_context < 4096 || from_context < 4096 { return INVALID_VALUE; }
        state.calls.push("peer copy".to_owned());
        state.push(stream, Op::Copy { to, from, bytes })
    }
    cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        *can = c_int::from(device != peer && setting("peer", 1) != 0);
        SUCCESS
    }
    cuCtxEnablePeerAccess(peer: usize, flags: c_uint) {
        if flags != 0 || peer == CURRENT.get() { return INVALID_VALUE; }
        let call = format!("peer access of {} to {}", CURRENT.get() - 4096, peer - 4096);
        let mut state = state();
        if state.calls.contains(&call) {
            state.calls.push("peer access once more".to_owned());
            return 704;
        }
        state.calls.push(call);
        SUCCESS
    }
    cuMemcpyDtoH_v2(to: *mut u8, from: u64, bytes: usize) {
        // Of constants of a module only, which are not in `memory`.
        to.copy_from_nonoverlapping(from as *const u8, bytes);
        SUCCESS
    }
    cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: usize) {
        state().push(stream, Op::Set { to, value: value.into(), width: 1, count: bytes })
    }
    cuMemsetD16Async(to: u64, value: u16, count: usize, stream: usize) {
        if to % 2 != 0 { return INVALID_VALUE; }
        state().calls.push("set".to_owned());
        state().push(stream, Op::Set { to, value: value.into(), width: 2, count })
    }
    cuMemsetD32Async(to: u64, value: u32, count: usize, stream: usize) {
        if to % 4 != 0 { return INVALID_VALUE; }
        state().calls.push("set".to_owned());
        state().push(stream, Op::Set { to, value, width: 4, count })
    }
    cuStreamCreate(stream: *mut usize, flags: c_uint) {
        let mut state = state();
        state.calls.push(format!("stream of flags {flags}"));
        state.next += 16;
        *stream = 1 << 20 | state.next;
        state.streams.insert(*stream, Stream::default());
        SUCCESS
    }
    cuStreamCreateWithPriority(stream: *mut usize, flags: c_uint, priority: c_int) {
        let code = cuStreamCreate(stream, flags);
        // Out of the range is not refused but brought into it.
        state().streams.entry(*stream).or_default().priority = priority.clamp(-5, 0);
        code
    }
    cuStreamGetPriority(stream: usize, priority: *mut c_int) {
        *priority = state().streams.entry(stream).or_default().priority;
        SUCCESS
    }
    cuStreamIsCapturing(stream: usize, status: *mut c_uint) {
        *status = c_uint::from(state().streams.entry(stream).or_default().capturing);
        SUCCESS
    }
    cuLaunchHostFunc(stream: usize, function: extern "C" fn(*mut c_void), data: *mut c_void) {
        if setting("host_functions", 1) == 0 { return NOT_PERMITTED; }
        state().push(stream, Op::Host { function, data: data as usize, returned: None })
    }
    cuStreamDestroy_v2(_stream: usize) { state().calls.push("destroy stream".to_owned()); SUCCESS }
    cuStreamSynchronize(stream: usize) {
        let position = state().streams.entry(stream).or_default().given();
        settle(|state| drop(state.run(stream, position)))
    }
    cuStreamQuery(stream: usize) {
        let mut state = state();
        if state.sticky != 0 { return state.sticky; }
        if state.streams.entry(stream).or_default().queue.is_empty() { return SUCCESS; }
        state.step(stream);
        NOT_READY
    }
    cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) {
        let mut state = state();
        let Event { stream: other, position } = state.events.get(&event).copied().unwrap_or_default();
        state.calls.push("wait".to_owned());
        state.push(stream, Op::Wait { stream: other, position })
    }
    cuEventCreate(event: *mut usize, flags: c_uint) {
        let mut state = state();
        state.calls.push(format!("event of flags {flags}"));
        state.next += 16;
        *event = 1 << 24 | state.next;
        state.calls.push("event".to_owned());
        SUCCESS
    }
    cuEventRecord(event: usize, stream: usize) {
        let mut state = state();
        let position = state.streams.entry(stream).or_default().given();
        state.events.insert(event, Event { stream, position });
        SUCCESS
    }
    cuEventQuery(event: usize) {
        let mut state = state();
        let Event { stream, position } = state.events.get(&event).copied().unwrap_or_default();
        state.calls.push("query".to_owned());
        if state.sticky != 0 { return state.sticky; }
        if state.streams.entry(stream).or_default().done >= position { return state.sticky; }
        state.step(stream);
        NOT_READY
    }
    cuEventSynchronize(event: usize) {
        let Event { stream, position } = state().events.get(&event).copied().unwrap_or_default();
        settle(|state| drop(state.run(stream, position)))
    }
    cuEventElapsedTime(milliseconds: *mut f32, _start: usize, _end: usize) { *milliseconds = 1.5; SUCCESS }
    cuEventDestroy_v2(_event: usize) { state().calls.push("destroy event".to_owned()); SUCCESS }
    cuModuleLoadDataEx(
        module: *mut usize, image: *const c_char, count: c_uint, options: *mut c_uint, values: *mut *mut c_void,
    ) {
        let text = CStr::from_ptr(image).to_string_lossy().into_owned();
        for at in 0..count as usize {
            if !(3..=6).contains(&*options.add(at)) {
                let call = format!("load option {} = {}", *options.add(at), *values.add(at) as usize);
                state().calls.push(call);
            }
        }
        if text.contains("too new") { return UNSUPPORTED_PTX_VERSION; }
        if text.contains("broken") {
            for at in 0..count as usize {
                // The error log's buffer.
                if *options.add(at) == 5 {
                    let log = c"ptxas application ptx input, line 7; error: simulated";
                    (*values.add(at)).cast::<c_char>().copy_from_nonoverlapping(log.as_ptr(), log.count_bytes() + 1);
                }
            }
            return INVALID_PTX;
        }
        state().calls.push("load".to_owned());
        *module = 1;
        SUCCESS
    }
    cuLinkCreate_v2(count: c_uint, options: *mut c_uint, values: *mut *mut c_void, link: *mut usize) {
        let mut state = state();
        for at in 0..count as usize {
            if *options.add(at) == 5 { state.link_log = *values.add(at) as usize; }
            else if !(3..=6).contains(&*options.add(at)) {
                let call = format!("link option {} = {}", *options.add(at), *values.add(at) as usize);
                state.calls.push(call);
            }
        }
        *link = 5 << 20;
        SUCCESS
    }
    cuLinkAddData_v2(
        link: usize, kind: c_uint, data: *const u8, bytes: usize, name: *const c_char, _count: c_uint, _options: *mut c_uint,
        _values: *mut *mut c_void,
    ) {
        if link != 5 << 20 { return INVALID_VALUE; }
        let data = std::slice::from_raw_parts(data, bytes);
        let mut state = state();
        if kind == 1 && data.last() != Some(&0) { return INVALID_VALUE; }
        if data.windows(6).any(|window| window == b"broken") {
            let log = c"error   : simulated, in the linker";
            (state.link_log as *mut c_char).copy_from_nonoverlapping(log.as_ptr(), log.count_bytes() + 1);
            return INVALID_PTX;
        }
        let call = format!("link {kind} {}", CStr::from_ptr(name).to_string_lossy());
        state.calls.push(call);
        state.linked.extend_from_slice(data.strip_suffix(&[0]).unwrap_or(data));
        SUCCESS
    }
    cuLinkComplete(link: usize, image: *mut *const c_void, bytes: *mut usize) {
        if link != 5 << 20 { return INVALID_VALUE; }
        // The text of what was added stands for the cubin; it lives until the link is destroyed.
        let state = state();
        *image = state.linked.as_ptr().cast();
        *bytes = state.linked.len();
        SUCCESS
    }
    cuLinkDestroy(_link: usize) {
        let mut state = state();
        state.linked.fill(0xdd);
        state.linked.clear();
        state.calls.push("destroy link".to_owned());
        SUCCESS
    }
    cuFuncGetParamInfo(function: usize, index: usize, offset: *mut usize, size: *mut usize) {
        if setting("tells", 1) == 0 { return NOT_FOUND; }
        let sizes: &[usize] = match state().entries[function - 1].as_str() {
            "add_foreign" => &[8, 8, 8, 4],
            "scale_foreign" => &[8, 4],
            _ => &[],
        };
        let Some(&bytes) = sizes.get(index) else {
            state().calls.push("question for a parameter that is not there".to_owned());
            return INVALID_VALUE;
        };
        *offset = index * 8;
        *size = bytes;
        SUCCESS
    }
    cuModuleUnload(_module: usize) { state().calls.push("unload".to_owned()); SUCCESS }
    cuModuleGetFunction(function: *mut usize, _module: usize, name: *const c_char) {
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        if name == "missing" { return NOT_FOUND; }
        let mut state = state();
        state.entries.push(name);
        *function = state.entries.len();
        SUCCESS
    }
    cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, _module: usize, name: *const c_char) {
        if CStr::from_ptr(name).to_string_lossy() != "variable" { return NOT_FOUND; }
        let mut state = state();
        if state.variable == 0 {
            match state.allocate(4) {
                Ok(block) => state.variable = block,
                Err(code) => return code,
            }
            // What was declared.
            (state.variable as *mut u32).write(1);
        }
        *address = state.variable;
        *bytes = 4;
        SUCCESS
    }
    cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: usize) {
        if let Some(set) = state().attributes.get(&(function, attribute)) {
            *value = *set;
            return SUCCESS;
        }
        // Registers that allow 512 threads, and 1 KiB of shared memory.
        *value = match attribute {
            0 => 512,
            1 => 1024,
            2 => 64,
            3 => 40,
            4 => 128,
            5 => 80,
            6 => 90,
            8 => 48 << 10,
            9 => -1,
            _ => return INVALID_VALUE,
        };
        SUCCESS
    }
    cuFuncSetAttribute(function: usize, attribute: c_uint, value: c_int) {
        // Only dynamic shared memory and the carve-out can be set.
        let fits = match attribute { 8 => (0..=226 << 10).contains(&value), 9 => (-1..=100).contains(&value), _ => false };
        if !fits { return INVALID_VALUE; }
        state().attributes.insert((function, attribute), value);
        state().calls.push(format!("function attribute {attribute} = {value}"));
        SUCCESS
    }
    cuOccupancyMaxActiveBlocksPerMultiprocessor(count: *mut c_int, _function: usize, threads: c_int, shared: usize) {
        // Three blocks by their registers, unless threads or shared memory allow fewer.
        *count = 3.min(2048 / threads).min(((228 << 10) / (shared + 2048)) as c_int);
        SUCCESS
    }
    cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, _function: usize, callback: usize, shared: usize, most: c_int,
    ) {
        if callback != 0 || most < 0 { return INVALID_VALUE; }
        state().calls.push(format!("block size with {shared} bytes, at most {most}"));
        *block = if most == 0 { 384 } else { most.min(384) };
        *grid = 8;
        SUCCESS
    }
    cuLaunchCooperativeKernel(
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: usize, arguments: *mut *mut c_void,
    ) {
        state().calls.push(format!("cooperative launch of {grid_x}"));
        cuLaunchKernel(
            function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, std::ptr::null_mut(),
        )
    }
    cuOccupancyMaxActiveClusters(count: *mut c_int, _function: usize, config: *const u32) {
        // Clusters of two blocks, the first attribute.
        let attributes = *config.add(8).cast::<*const u32>().add(1);
        if *attributes != 4 { return INVALID_VALUE; }
        *count = (12 / *attributes.add(2) / *attributes.add(3) / *attributes.add(4)) as c_int;
        SUCCESS
    }
    cuLaunchKernelEx(config: *const u32, function: usize, arguments: *mut *mut c_void, _extra: *mut *mut c_void) {
        let dims: [u32; 7] = config.cast::<[u32; 7]>().read();
        let (stream, attributes) = (*config.add(8).cast::<usize>(), *config.add(8).cast::<*const u32>().add(1));
        let count = *config.add(12);
        for at in 0..count as usize {
            let attribute = attributes.byte_add(72 * at);
            let (id, value) = (*attribute, attribute.add(2).cast::<[u32; 3]>().read());
            state().calls.push(format!("attribute {id} = {value:?}"));
        }
        let [grid_x, grid_y, grid_z, block_x, block_y, block_z, shared] = dims;
        cuLaunchKernel(
            function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, std::ptr::null_mut(),
        )
    }
    cuLaunchKernel(
        function: usize, grid_x: c_uint, _grid_y: c_uint, _grid_z: c_uint, _block_x: c_uint, _block_y: c_uint,
        _block_z: c_uint, _shared: c_uint, stream: usize, arguments: *mut *mut c_void, _extra: *mut *mut c_void,
    ) {
        let word = |at: usize| (*arguments.add(at)).cast::<u64>().read_unaligned();
        let mut state = state();
        let entry = state.entries[function - 1].clone();
        if state.hold {
            state.push(stream, Op::Hold);
        }
        if entry.ends_with("_foreign") {
            let slices = if entry == "add_foreign" { [word(0), word(1), word(2)] } else { [word(0), 0, 0] };
            let last = *arguments.add(if entry == "add_foreign" { 3 } else { 1 });
            let len = last.cast::<u32>().read_unaligned();
            return state.push(stream, Op::Foreign { entry, slices, len });
        }
        if setting("lenient", 0) != 0 && !["count", "panic", "add_variable"].contains(&entry.as_str()) {
            return state.sticky;
        }
        let op = state.launch_op(function, grid_x, arguments);
        state.push(stream, op)
    }
    cuGraphCreate(graph: *mut usize, flags: c_uint) {
        if flags != 0 { return INVALID_VALUE; }
        let mut state = state();
        state.next += 16;
        *graph = 1 << 26 | state.next;
        let key = *graph;
        state.graphs.insert(key, Vec::new());
        SUCCESS
    }
    cuGraphDestroy(graph: usize) {
        if state().graphs.remove(&graph).is_some() { SUCCESS } else { INVALID_VALUE }
    }
    cuGraphAddKernelNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const c_void) {
        let function = params.cast::<usize>().read();
        let grid_x = params.cast::<u32>().add(2).read();
        let arguments = params.cast::<*mut *mut c_void>().add(5).read();
        let mut state = state();
        let op = state.launch_op(function, grid_x, arguments);
        state.add_node(node, graph, after, count, op)
    }
    cuGraphAddMemcpyNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, copy: *const u64, context: usize,
    ) {
        // `CUDA_MEMCPY3D` in words: kinds of memory are 1 for the host and 2 for the device.
        let word = |at: usize| *copy.add(at);
        let (from_kind, from_host, from_device) = (word(4) as u32, word(5), word(6));
        let (to_kind, to) = (word(15) as u32, word(17));
        let (bytes, height, depth) = (word(22) as usize, word(23), word(24));
        if context < 4096 || to_kind != 2 || height != 1 || depth != 1 { return INVALID_VALUE; }
        let op = match from_kind {
            1 => Op::CopyInLate { to, from: from_host as usize, bytes },
            2 => Op::Copy { to, from: from_device, bytes },
            _ => return INVALID_VALUE,
        };
        state().add_node(node, graph, after, count, op)
    }
    cuGraphAddMemsetNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, fill: *const u64, context: usize,
    ) {
        // `CUDA_MEMSET_NODE_PARAMS` in words.
        let word = |at: usize| *fill.add(at);
        let (value, width) = (word(2) as u32, (word(2) >> 32) as usize);
        if context < 4096 || !matches!(width, 1 | 2 | 4) || word(4) != 1 { return INVALID_VALUE; }
        let op = Op::Set { to: word(0), value, width, count: word(3) as usize };
        state().add_node(node, graph, after, count, op)
    }
    cuGraphAddHostNode(node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const usize) {
        let function = std::mem::transmute::<usize, extern "C" fn(*mut c_void)>(*params);
        let op = Op::Host { function, data: *params.add(1), returned: None };
        state().add_node(node, graph, after, count, op)
    }
    cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: u64) {
        let mut state = state();
        let Some(nodes) = state.graphs.get(&graph).cloned() else { return INVALID_VALUE };
        if flags != 0 { return INVALID_VALUE; }
        state.next += 16;
        *exec = 1 << 28 | state.next;
        let key = *exec;
        state.execs.insert(key, Exec { nodes, ..Exec::default() });
        state.calls.push("instantiate".to_owned());
        SUCCESS
    }
    cuGraphExecKernelNodeSetParams(exec: usize, node: usize, params: *const c_void) {
        let function = params.cast::<usize>().read();
        let grid_x = params.cast::<u32>().add(2).read();
        let arguments = params.cast::<*mut *mut c_void>().add(5).read();
        let mut state = state();
        let op = state.launch_op(function, grid_x, arguments);
        let Some(exec) = state.execs.get_mut(&exec) else { return INVALID_VALUE };
        match exec.nodes.get_mut(node - 1) {
            Some(node) if matches!(node.op, Op::Launch { .. }) => { node.op = op; SUCCESS }
            _ => INVALID_VALUE,
        }
    }
    cuGraphExecDestroy(exec: usize) {
        let mut state = state();
        let Some(Exec { last, .. }) = state.execs.remove(&exec) else { return INVALID_VALUE };
        if state.streams.entry(last.stream).or_default().done < last.position {
            state.calls.push("a graph destroyed while it runs".to_owned());
        }
        SUCCESS
    }
    cuGraphUpload(exec: usize, _stream: usize) {
        let mut state = state();
        if !state.execs.contains_key(&exec) { return INVALID_VALUE; }
        state.calls.push("upload".to_owned());
        SUCCESS
    }
    cuGraphLaunch(exec: usize, stream: usize) {
        let mut state = state();
        let Some(Exec { nodes, last }) = state.execs.get(&exec).cloned() else { return INVALID_VALUE };
        // Launches of one graph run one after the other.
        if last.position != 0 && last.stream != stream {
            state.push(stream, Op::Wait { stream: last.stream, position: last.position });
        }
        if state.hold {
            state.push(stream, Op::Hold);
        }
        for at in State::graph_order(&nodes) {
            state.push(stream, nodes[at].op.clone());
        }
        let position = state.streams.entry(stream).or_default().given();
        state.execs.get_mut(&exec).expect("it was found above").last = Event { stream, position };
        state.calls.push("graph launch".to_owned());
        state.sticky
    }
}

/// For the tests: a stream's work goes into a graph while `on` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_capturing(stream: usize, on: c_uint) {
    state().streams.entry(stream).or_default().capturing = on != 0;
}

/// For the tests: kernels wait while `on` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_hold(on: c_uint) {
    state().hold = on != 0;
}

/// For the tests: after `skip` more calls, or only calls that allocate, `times` of them fail with `code`. Gives how many were
/// still to fail.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_fail(skip: u64, times: u64, code: c_uint, only_allocations: bool) -> u64 {
    let part = if only_allocations { "Alloc" } else { "" };
    std::mem::replace(&mut state().fail, Failure { skip, times, code, part }).times
    }

/// For the tests: how many calls of a kind were made, and what they were; see the pushes to `calls`.
///
/// # Safety
/// `kind` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simulated_calls(kind: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    let kind = unsafe { CStr::from_ptr(kind) }.to_string_lossy();
    state().calls.iter().filter(|call| **call == *kind).count() as u64
}

/// For the tests: bytes that are allocated.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_bytes() -> u64 {
    state().used()
}

/// For the tests: bytes of the words that the library keeps for panics and for printing.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_words() -> u64 {
    state().words()
}
