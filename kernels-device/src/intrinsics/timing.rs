//! Clocks, `nanosleep`, `trap` and `brkpt`.

use crate::ptx;

macro_rules! clocks {
    ($($name:ident $template:literal)*) => {$(
        #[inline(always)]
        pub(crate) fn $name() -> u64 {
            let now: u64;
            // SAFETY: reads a counter. It stays volatile: two readings differ.
            unsafe { ptx!($template, out(reg) now, options(nostack)) };
            now
        }
    )*};
}
clocks! {
    clock "mov.u64 {0}, %clock64;"
    global_timer "mov.u64 {0}, %globaltimer;"
}

#[inline(always)]
pub(crate) fn nanosleep(nanoseconds: u32) {
    // SAFETY: only time passes.
    unsafe { ptx!("nanosleep.u32 {0};", in(reg) nanoseconds, options(nostack)) };
}

#[inline(always)]
pub(crate) fn trap() -> ! {
    // SAFETY: ends the launch; nothing after it runs.
    unsafe { core::arch::asm!("/*ptx: trap; */", options(noreturn)) }
}

#[inline(always)]
pub(crate) fn breakpoint() {
    // SAFETY: a debugger may look at memory, and nothing else happens.
    unsafe { ptx!("brkpt;", options(nostack)) };
}
