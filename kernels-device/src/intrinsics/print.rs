//! How a line leaves a thread on a GPU: a record in page-locked host memory, for which room is counted in device memory.

use super::__warpsmith_hidden;
use super::{block_idx, thread_idx};
use crate::print::layout::{
    BEGIN, COUNTERS, DATA, END, HAS_LOST, HEADER_WORDS, LAUNCH_COUNT_BITS, LOST, LOST_COUNTERS, OUTPUT_ADDRESS,
    RESERVED,
};
use crate::print::{Site, TypeList, Values, Writer};
use crate::ptx;

unsafe extern "C" {
    /// The place's number in its kernel: a constant once the kernel is lowered.
    safe fn __warpsmith_print_site(site: &'static Site, types: Option<&'static TypeList>) -> u32;
}

/// Stores a word of a record.
#[inline(always)]
pub(crate) fn store(address: u64, word: u64) {
    // SAFETY: only `print` makes the addresses, inside what it has reserved.
    unsafe { ptx!("st.volatile.b64 [{0}], {1};", in(reg) address, in(reg) word, options(nostack)) }
}

/// Loads a word of a buffer's head.
#[inline(always)]
fn load(address: u64) -> u64 {
    let word: u64;
    // SAFETY: the launcher gave the buffer's address, and its head is larger than the offsets that are asked for.
    unsafe { ptx!("ld.volatile.b64 {0}, [{1}];", out(reg) word, in(reg) address, options(nostack)) };
    word
}

/// Prints the values at a place, or counts the line as lost.
#[inline(always)]
pub(crate) fn print<V: Values>(site: &'static Site, values: &V) {
    let number = __warpsmith_print_site(site, V::TYPES);
    let words = (HEADER_WORDS as u64).wrapping_add(values.words());
    let address = reserve(__warpsmith_hidden(0), __warpsmith_hidden(1), words);
    if address != 0 {
        values.write(&mut Writer::at(address.wrapping_add(8 * HEADER_WORDS as u64)));
        let head = words | u64::from(number) << 32;
        // The host takes a record whose first word it sees for written.
        // SAFETY: the record's first word is inside what was reserved.
        unsafe { ptx!("st.release.sys.b64 [{0}], {1};", in(reg) address, in(reg) head, options(nostack)) }
    }
}

/// Takes room for a record and writes its head but for the first word. Gives its address, or 0 when there is no room.
#[cold]
#[inline(never)]
fn reserve(panic_record: u64, launch: u64, words: u64) -> u64 {
    let output = load(panic_record.wrapping_add(OUTPUT_ADDRESS as u64));
    let counters = load(output.wrapping_add(COUNTERS as u64));
    let begin = load(output.wrapping_add(BEGIN as u64));
    let end = load(output.wrapping_add(END as u64));
    let reserved = counters.wrapping_add(RESERVED as u64);
    let before: u64;
    // SAFETY: the launcher gave the counters' address, and leaves them alone while kernels run.
    unsafe { ptx!("ld.relaxed.gpu.global.u64 {0}, [{1}];", out(reg) before, in(reg) reserved, options(nostack)) };
    // Once the buffer is full the atomic would be in vain. What was asked for in vain stays counted, so that the records
    // that were written are the first ones without a gap.
    if before.wrapping_add(words) <= end {
        let start: u64;
        // SAFETY: as above.
        unsafe {
            ptx!("atom.relaxed.gpu.global.add.u64 {0}, [{1}], {2};", out(reg) start, in(reg) reserved, in(reg) words,
                options(nostack));
        }
        if start.wrapping_add(words) <= end {
            let address = output.wrapping_add(DATA as u64).wrapping_add(start.wrapping_sub(begin).wrapping_mul(8));
            let (block, thread) = (block_idx(), thread_idx());
            let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            store(address.wrapping_add(8), launch);
            store(address.wrapping_add(16), pair(block.x, block.y));
            store(address.wrapping_add(24), pair(block.z, thread.x));
            store(address.wrapping_add(32), pair(thread.y, thread.z));
            return address;
        }
    }
    // So that the host need not ask for the counters where nothing was lost.
    store(output.wrapping_add(HAS_LOST as u64), 1);
    let counter = (launch >> LAUNCH_COUNT_BITS) & (LOST_COUNTERS as u64 - 1);
    let counter = counters.wrapping_add(LOST as u64).wrapping_add(counter.wrapping_mul(8));
    // SAFETY: as above; the counter is one of them.
    unsafe { ptx!("red.relaxed.gpu.global.add.u64 [{0}], 1;", in(reg) counter, options(nostack)) };
    0
}
