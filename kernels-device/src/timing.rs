//! Clocks, waiting by time, and ways to stop: for measuring and debugging kernels.

/// The cycle counter of the multiprocessor that the thread runs on.
///
/// Differences between two readings of one thread count clock cycles, those spent on other warps included; the counters
/// of different multiprocessors have nothing to do with each other. Readings are not moved past each other, nor past
/// other effects; arithmetic may be. PTX: `mov.u64 d, %clock64`. Whoever calls it gets its own reading.
///
/// The CPU executor counts nanoseconds of a clock that never goes back.
///
/// # Source
/// PTX ISA, "Special Registers: %clock64"; CUDA C++ Programming Guide, "Time Function".
#[inline(always)]
#[must_use]
pub fn clock() -> u64 {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::timing::clock();
    #[cfg(not(warpsmith_device))]
    executor::nanoseconds()
}

/// A clock in nanoseconds that all threads of the device share. How often it ticks is the GPU's affair: every 32
/// nanoseconds on some, every microsecond on others. PTX: `mov.u64 d, %globaltimer`.
///
/// The CPU executor gives nanoseconds of a clock that never goes back, the same for all threads.
///
/// # Source
/// PTX ISA, "Special Registers: %globaltimer".
#[inline(always)]
#[must_use]
pub fn global_timer() -> u64 {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::timing::global_timer();
    #[cfg(not(warpsmith_device))]
    executor::nanoseconds()
}

/// Suspends the thread for about `nanoseconds`: for anything from no time to twice as much. More than a millisecond is
/// taken for a millisecond. PTX: `nanosleep.u32`; compute capability 7.0.
///
/// It is for the pause between two looks at a variable that another block is to change.
///
/// The CPU executor goes on at once, which the meaning above allows: the threads of a block share a core, so that a pause
/// of one holds all of them up.
///
/// # Source
/// PTX ISA, "Miscellaneous Instructions: nanosleep"; CUDA C++ Programming Guide, "Nanosleep Function".
#[inline(always)]
pub fn nanosleep(nanoseconds: u32) {
    #[cfg(warpsmith_device)]
    crate::intrinsics::timing::nanosleep(nanoseconds.min(1_000_000));
    #[cfg(not(warpsmith_device))]
    let _ = nanoseconds;
}

/// Stops the whole launch, and with it the use of the GPU by this process. PTX: `trap`.
///
/// The next synchronise gives an error whose text says that the context is lost, and so does every call after it: only a
/// new process gets a new context. A `panic!` ends one thread, is reported with its message and leaves the context usable;
/// `trap` is for what must not go on in any thread.
///
/// # Panics
/// On the CPU executor, where the launch is reported as panicked and nothing else is lost.
///
/// # Source
/// PTX ISA, "Miscellaneous Instructions: trap"; CUDA C++ Programming Guide, "Trap function".
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn trap() -> ! {
    #[cfg(warpsmith_device)]
    crate::intrinsics::timing::trap();
    #[cfg(not(warpsmith_device))]
    panic!("`trap` was reached: on a GPU the launch would end here and the context be lost");
}

/// Hands over to a debugger. PTX: `brkpt`.
///
/// Under `cuda-gdb` the GPU stops here. Without a debugger a GPU takes it for a fault, and the context is lost as with
/// [`trap`]: take it out again when done.
///
/// The CPU executor stops under a debugger as well (Linux on x86-64 and AArch64), and goes on where there is none.
///
/// # Source
/// PTX ISA, "Miscellaneous Instructions: brkpt"; CUDA C++ Programming Guide, "Breakpoint Function".
#[inline(always)]
pub fn breakpoint() {
    #[cfg(warpsmith_device)]
    crate::intrinsics::timing::breakpoint();
    #[cfg(not(warpsmith_device))]
    executor::breakpoint();
}

#[cfg(not(warpsmith_device))]
mod executor {
    //! The CPU executor's clock, and its way into a debugger.
    use std::sync::OnceLock;
    use std::time::Instant;

    /// Nanoseconds since the first call, and one more, so that no reading is 0.
    pub(super) fn nanoseconds() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let start = START.get_or_init(Instant::now);
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Whether a debugger has attached itself to this process.
    fn is_debugged() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|pid| pid.trim() != "0")
    }

    pub(super) fn breakpoint() {
        if !is_debugged() {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the debugger takes the trap, and execution goes on behind it.
        unsafe {
            core::arch::asm!("int3", options(nomem, nostack));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            core::arch::asm!("brk #0xf000", options(nomem, nostack));
        }
    }
}
