//! The grid's barrier, and what every wait of ours looks at: whether a thread of the launch has panicked.

use core::mem::offset_of;

use super::{__warpsmith_hidden, bar_red_or};
use crate::device_runtime::PanicRecord;
use crate::index::thread_in_block;
use crate::ptx;

/// Whether a thread of this launch has panicked: it will not come where others wait for it.
///
/// This reads the host's memory, some microseconds away: look now and then, not at every turn.
#[inline(always)]
pub(crate) fn launch_has_panicked() -> bool {
    let place = __warpsmith_hidden(0).wrapping_add(const { offset_of!(PanicRecord, panicked) as u64 });
    let latest: u64;
    // SAFETY: the launcher passes the address of a record that lives as long as the stream.
    unsafe { ptx!("ld.relaxed.sys.u64 {0}, [{1}];", out(reg) latest, in(reg) place) };
    latest == __warpsmith_hidden(1)
}

/// Ends the thread.
#[inline(always)]
pub(crate) fn exit() -> ! {
    // SAFETY: nothing of the thread is used after its end, and no destructor is owed: memory is the launch's.
    unsafe { core::arch::asm!("/*ptx: exit; */", options(noreturn)) }
}

/// Waits until `is_over`. Ends the thread when one of the launch has panicked, which it may wait for.
#[inline(always)]
pub(crate) fn wait_until(is_over: impl Fn() -> bool) {
    /// Questions before a look at the panic flag: some ten microseconds of waiting.
    const LOOKS: u32 = 256;
    let mut looks = 0_u32;
    while !is_over() {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) && launch_has_panicked() {
            exit();
        }
        if looks > 32 {
            // SAFETY: only time passes.
            unsafe { ptx!("nanosleep.u32 32;") };
        }
    }
}

/// Waits until every block has come here as often as this one. Looks at the panic flag while it does.
#[inline(always)]
pub(crate) fn sync_grid(blocks: u64) {
    // One thread speaks for its block: the first, unless it has ended.
    let is_first = thread_in_block() == 0;
    let speaks = if bar_red_or(u32::from(is_first)) != 0 { is_first } else { is_first_alive() };
    let mut in_vain = false;
    if speaks {
        in_vain = !meet_other_blocks(__warpsmith_hidden(5), blocks);
    }
    // All threads of the block go on, or none.
    if bar_red_or(u32::from(in_vain)) != 0 {
        exit();
    }
}

/// Whether the calling thread is the first of its block that has not ended; all those must ask.
#[inline(always)]
fn is_first_alive() -> bool {
    if bar_red_or(u32::from(launch_has_panicked())) != 0 {
        exit();
    }
    let own = thread_in_block();
    let mut first = 0_u32;
    let mut size: u32; // The first one alive is among twice as many from `first` on.
    // SAFETY: only a number, of which the optimiser knows nothing: it would write the rare loop out.
    unsafe { ptx!("mov.u32 {0}, 512;", out(reg) size) };
    while size != 0 {
        let is_there = own.wrapping_sub(first) < size;
        if bar_red_or(u32::from(is_there)) == 0 {
            first = first.wrapping_add(size);
        }
        size >>= 1;
    }
    own == first
}

/// Counts this block in, and waits until all others have been too; false when the launch has panicked.
///
/// The count only grows, so that a barrier that one launch left halfway is told from a new one by clearing it.
#[inline(always)]
fn meet_other_blocks(count: u64, blocks: u64) -> bool {
    /// Looks at the count before one at the panic flag: some ten microseconds of waiting.
    const LOOKS: u32 = 32;
    let before: u64;
    // SAFETY: the launcher passes the address of a count that is this launch's alone. The fences order what the block's
    // threads wrote before their barrier, and what they read after the next one.
    unsafe {
        ptx!("fence.acq_rel.gpu;");
        ptx!("atom.relaxed.gpu.global.add.u64 {0}, [{1}], 1;", out(reg) before, in(reg) count);
    }
    let rounds = before.checked_div(blocks).unwrap_or(0);
    let goal = rounds.wrapping_add(1).wrapping_mul(blocks);
    let mut looks = 0_u32;
    loop {
        let now: u64;
        // SAFETY: as above.
        unsafe { ptx!("ld.relaxed.gpu.global.u64 {0}, [{1}];", out(reg) now, in(reg) count) };
        if now >= goal {
            break;
        }
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) {
            if launch_has_panicked() {
                return false;
            }
            // SAFETY: only time passes.
            unsafe { ptx!("nanosleep.u32 100;") };
        }
    }
    // SAFETY: a fence writes no memory.
    unsafe { ptx!("fence.acq_rel.gpu;") };
    true
}
