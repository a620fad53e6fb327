//! `mbarrier` instructions, and what stands in for them where the hardware has none.

use crate::ptx;

#[inline(always)]
pub(crate) fn init(word: *mut u64, count: u32) {
    // SAFETY: the caller's promise about the word.
    unsafe { ptx!("mbarrier.init.b64 [{0}], {1};", in(reg) word, in(reg) count) };
}

#[inline(always)]
pub(crate) fn arrive(word: *mut u64) -> u64 {
    let state: u64;
    // SAFETY: the word is an initialised barrier.
    unsafe { ptx!("mbarrier.arrive.b64 {0}, [{1}];", out(reg) state, in(reg) word) };
    state
}

#[inline(always)]
pub(crate) fn test_wait(word: *mut u64, state: u64) -> bool {
    let is_over: u32;
    // SAFETY: the word is an initialised barrier.
    unsafe {
        ptx!("{{ .reg .pred %over; mbarrier.test_wait.b64 %over, [{1}], {2}; selp.u32 {0}, 1, 0, %over; }}",
            out(reg) is_over, in(reg) word, in(reg) state);
    }
    is_over != 0
}

/// Changes a word of shared memory, with what the thread wrote before visible to whoever sees it; gives what it was.
#[inline(always)]
pub(crate) fn change(word: *mut u64, after: impl Fn(u64) -> u64) -> u64 {
    // SAFETY: a fence writes no memory.
    unsafe { ptx!("fence.acq_rel.cta;") };
    let mut before: u64;
    // SAFETY: the word is an initialised barrier.
    unsafe { ptx!("ld.relaxed.cta.b64 {0}, [{1}];", out(reg) before, in(reg) word) };
    loop {
        let found: u64;
        // SAFETY: as above.
        unsafe {
            ptx!("atom.relaxed.cta.cas.b64 {0}, [{1}], {2}, {3};",
                out(reg) found, in(reg) word, in(reg) before, in(reg) after(before));
        }
        if found == before {
            return before;
        }
        before = found;
    }
}

/// A word of shared memory, with what was written before it visible.
#[inline(always)]
pub(crate) fn look(word: *mut u64) -> u64 {
    let now: u64;
    // SAFETY: the word is an initialised barrier; a fence writes no memory.
    unsafe {
        ptx!("ld.relaxed.cta.b64 {0}, [{1}];", out(reg) now, in(reg) word);
        ptx!("fence.acq_rel.cta;");
    }
    now
}
