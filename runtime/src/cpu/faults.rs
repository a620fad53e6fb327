//! What the program says when a kernel's thread touches memory that is not there, or overflows its stack: the system ends the program
//! then, and says neither which kernel nor which thread it was.
//!
//! A handler of the system's signals looks whether the thread of the system that they came to runs a kernel, writes what it knows to the
//! standard error, and leaves the rest to the handler before. Other code may be interrupted anywhere: so the handler takes no lock,
//! allocates nothing, and reads only what this thread of the system wrote itself.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, mem, ptr};

use warpsmith_device::host::try_current;

use super::CpuLaunch;
use super::coroutine::MORE_THAN_ASKED;
use crate::check;

/// What the system sends for memory that is not there.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What was there for each of [`SIGNALS`] before.
static BEFORE: [OnceLock<libc::sigaction>; 2] = [OnceLock::new(), OnceLock::new()];

/// Whether the handler has said something: several threads of the system may come to it at once.
static SAID: AtomicBool = AtomicBool::new(false);

/// Bytes of the stack that a thread of the system runs the handler on. The standard library gives its threads the least that the
/// system asks for.
const HANDLERS_STACK_BYTES: usize = 64 << 10;

/// Bytes between the stack's pointer and what is touched first past its end: compilers touch each page of a large frame in turn.
const NEAR: usize = 64 << 10;

/// The launch that a thread of the system runs threads of.
#[derive(Clone, Copy)]
struct Running {
    kernel: *const str, // Invariant: alive while this is in `RUNNING`.
    stack_bytes: usize,
    coroutines: bool,
    checked: bool,
}

thread_local! {
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
    static OWN_STACK: Option<HandlersStack> = HandlersStack::of_this_thread();
}

/// Says, until it is dropped, that this thread of the system runs threads of a launch.
pub(super) struct Entered {
    before: Option<Running>,
}

impl Entered {
    /// For threads that are coroutines if `coroutines`. `request` outlives what this gives.
    pub(super) fn new(request: &CpuLaunch<'_>, coroutines: bool) -> Self {
        // While the thread of the system ends its stack is gone, and the handler runs on the one that it has.
        let _ = OWN_STACK.try_with(|_| ());
        let running = Running {
            kernel: ptr::from_ref(request.kernel),
            stack_bytes: request.stack_bytes,
            coroutines,
            checked: request.checked,
        };
        Self { before: RUNNING.replace(Some(running)) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        RUNNING.set(self.before);
    }
}

/// Puts the handler before the program's, once.
pub(super) fn install_handler() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
            // SAFETY: all zeros are a `sigaction`, with no flags and an empty mask.
            let mut old: libc::sigaction = unsafe { mem::zeroed() };
            // SAFETY: both are, or may be null; asking changes nothing.
            if unsafe { libc::sigaction(signal, ptr::null(), &raw mut old) } != 0 {
                continue;
            }
            before.get_or_init(|| old);
            // SAFETY: as above.
            let mut own: libc::sigaction = unsafe { mem::zeroed() };
            own.sa_sigaction = handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
            own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // SAFETY: the handler has the signature that `SA_SIGINFO` asks for, and does only what handlers may.
            unsafe { libc::sigaction(signal, &raw const own, ptr::null_mut()) };
        }
    });
}

/// The stack for the handler of a thread of the system.
struct HandlersStack(*mut c_void);

impl HandlersStack {
    /// One for the calling thread, unless it has one that is large enough.
    fn of_this_thread() -> Option<Self> {
        // SAFETY: all zeros are a `stack_t`, and asking changes nothing.
        let mut present: libc::stack_t = unsafe { mem::zeroed() };
        // SAFETY: `present` may be written.
        if unsafe { libc::sigaltstack(ptr::null(), &raw mut present) } != 0
            || (present.ss_flags & libc::SS_DISABLE == 0 && present.ss_size >= HANDLERS_STACK_BYTES)
        {
            return None;
        }
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, which nothing else knows.
        let memory = unsafe { libc::mmap(ptr::null_mut(), HANDLERS_STACK_BYTES, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let own = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: HANDLERS_STACK_BYTES };
        // SAFETY: the memory stays until the thread ends, and `drop` takes it back from the system first.
        if unsafe { libc::sigaltstack(&raw const own, ptr::null_mut()) } != 0 {
            // SAFETY: the system did not take it.
            unsafe { libc::munmap(memory, HANDLERS_STACK_BYTES) };
            return None;
        }
        Some(Self(memory))
    }
}

impl Drop for HandlersStack {
    fn drop(&mut self) {
        // SAFETY: as in `of_this_thread`.
        let mut present: libc::stack_t = unsafe { mem::zeroed() };
        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: HANDLERS_STACK_BYTES };
        // SAFETY: both are `stack_t`s; if another has taken this one's place, that one stays.
        unsafe {
            libc::sigaltstack(ptr::null(), &raw mut present);
            if present.ss_sp == self.0 {
                libc::sigaltstack(&raw const none, ptr::null_mut());
            }
        }
        // SAFETY: from `mmap`, with this size, and no longer the thread's.
        unsafe { libc::munmap(self.0, HANDLERS_STACK_BYTES) };
    }
}

/// The handler.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system gives a `siginfo_t`.
    let code = unsafe { (*info).si_code };
    // What another process sends has no address.
    let is_fault = code > 0;
    if is_fault && let Some(running) = RUNNING.get() {
        if SAID.swap(true, Ordering::Relaxed) {
            // Another thread of the system ends the program as soon as it has said why.
            // SAFETY: it only waits, for seconds.
            unsafe { libc::sleep(5) };
        } else {
            // SAFETY: the signals have an address.
            let address = unsafe { (*info).si_addr() }.addr();
            // SAFETY: the system gives the interrupted thread's registers.
            let registers = unsafe { Registers::read(context) };
            let fault = Fault { running, address, is_of_a_page: code != SI_KERNEL, registers };
            let mut out = Out::default();
            let _ = fault.describe(&mut out);
            out.flush();
        }
    }
    pass_on(signal, is_fault, info, context);
}

/// The code of accesses to what no address is.
const SI_KERNEL: c_int = 0x80;

/// Has the handler that was there before do its work, or the system.
fn pass_on(signal: c_int, is_fault: bool, info: *mut libc::siginfo_t, context: *mut c_void) {
    let at = SIGNALS.iter().position(|&own| own == signal);
    let before = at.and_then(|at| BEFORE[at].get());
    match before {
        Some(before) if ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction) => {
            if before.sa_flags & libc::SA_SIGINFO != 0 {
                type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
                // SAFETY: whoever put it there said by the flag that it has this signature.
                let handler = unsafe { mem::transmute::<usize, Handler>(before.sa_sigaction) };
                handler(signal, info, context);
            } else {
                // SAFETY: as above, without the flag.
                let handler = unsafe { mem::transmute::<usize, extern "C" fn(c_int)>(before.sa_sigaction) };
                handler(signal);
            }
        }
        _ => {
            // SAFETY: all zeros are the default action. A fault then comes once more, when the handler returns.
            unsafe {
                let default: libc::sigaction = mem::zeroed();
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
    }
}

/// What is known of where a thread of the system was interrupted.
#[derive(Clone, Copy, Default)]
struct Registers {
    stack_pointer: Option<usize>,
    writes: Option<bool>, // Whether the access was a write.
}

impl Registers {
    /// # Safety
    /// `context` is what a handler was given.
    unsafe fn read(context: *mut c_void) -> Self {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        {
            // SAFETY: the caller promises it.
            let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
            const WRITE: i64 = 2; // Of the page fault's error code.
            Self {
                stack_pointer: Some(registers[libc::REG_RSP as usize] as usize),
                writes: Some(registers[libc::REG_ERR as usize] & WRITE != 0),
            }
        }
        #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
        {
            // SAFETY: the caller promises it.
            let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
            Self { stack_pointer: Some(machine.sp as usize), writes: None }
        }
        #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
        {
            let _ = context;
            Self::default()
        }
    }
}

struct Fault {
    running: Running,
    address: usize,
    is_of_a_page: bool, // Otherwise the address is not known.
    registers: Registers,
}

impl Fault {
    fn describe(&self, out: &mut Out) -> fmt::Result {
        let Running { kernel, stack_bytes, coroutines, checked } = self.running;
        // SAFETY: the launch is not over, since its `Entered` was not dropped.
        let kernel = unsafe { &*kernel };
        write!(out, "\nkernel `{kernel}` on the CPU executor, ")?;
        let known = try_current(|context| (context.block_idx(), context.thread_idx(), ptr::from_ref(context).addr()));
        match known {
            Some((block, thread, _)) => {
                write!(out, "block {block}, thread {thread}")?;
                if !coroutines && !checked && !cfg!(debug_assertions) {
                    // Threads that do not wait are iterations of a loop, in which the compiler moves what says so.
                    out.write_str(" or one that runs after it")?;
                }
            }
            None => out.write_str("one of its first threads")?,
        }
        let own_stack = known.filter(|_| coroutines).map(|(.., context)| context);
        if self.is_overflow(own_stack) {
            if coroutines {
                write!(
                    out,
                    ": the thread's stack of {stack_bytes} bytes overflowed\n  `Device::set_stack_bytes` gives threads that wait for \
                     others more; else recurse less deeply, or keep large arrays in shared memory or a `Box`\n"
                )?;
            } else {
                out.write_str(
                    ": the stack overflowed; a kernel that never waits runs on that of a thread of the system\n  `RUST_MIN_STACK=BYTES` in \
                     the environment gives threads more, but the main thread; else recurse less deeply, or keep large arrays in a `Box`\n",
                )?;
            }
        } else {
            out.write_str(match self.registers.writes {
                Some(true) => " writes to",
                Some(false) if self.is_of_a_page => " reads",
                _ => " reads or writes",
            })?;
            if self.is_of_a_page {
                write!(out, " address {:#x}, which is in no buffer and no other memory of the program", self.address)?;
            } else {
                out.write_str(" an address that no memory can have")?;
            }
            out.write_str(
                "\n  look at what the kernel's `unsafe` code makes pointers of; in a debugger, `run` and `backtrace` show the line\n",
            )?;
        }
        if checked {
            describe_findings(out)?;
        }
        Ok(())
    }

    /// Whether the fault is that of a stack; `top` is an address near the start of the coroutine's.
    fn is_overflow(&self, top: Option<usize>) -> bool {
        if !self.is_of_a_page {
            return false;
        }
        if self.registers.stack_pointer.is_some_and(|pointer| pointer.abs_diff(self.address) <= NEAR) {
            return true;
        }
        // Of its memory only the guard page at its end cannot be touched.
        top.is_some_and(|top| {
            (top.saturating_sub(self.running.stack_bytes + MORE_THAN_ASKED)..=top).contains(&self.address)
        })
    }
}

/// What the checker has found so far in the launch, whose report nobody will see.
fn describe_findings(out: &mut Out) -> fmt::Result {
    let described = check::look_at_findings(|findings| {
        match findings.len() {
            0 => return out.write_str("  the checker had found nothing in this launch so far\n"),
            1 => out.write_str("  the checker had found 1 fault in this launch so far:\n")?,
            len => writeln!(out, "  the checker had found {len} faults in this launch so far:")?,
        }
        findings.iter().try_for_each(|finding| writeln!(out, "  {finding}"))
    });
    described.unwrap_or(Ok(()))
}

/// The standard error, without its lock.
struct Out {
    bytes: [u8; 512],
    len: usize,
}

impl Default for Out {
    fn default() -> Self {
        Self { bytes: [0; 512], len: 0 }
    }
}

impl Out {
    fn flush(&mut self) {
        let mut rest = &self.bytes[..self.len];
        while !rest.is_empty() {
            // SAFETY: `rest` is so many bytes.
            let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                // Nobody listens.
                _ => break,
            }
        }
        self.len = 0;
    }
}

impl fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.len == self.bytes.len() {
                self.flush();
            }
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}
