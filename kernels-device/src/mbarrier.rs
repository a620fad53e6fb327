//! `mbarrier`s: barriers in shared memory on which arriving and waiting are two steps, with work in between.

use core::cell::UnsafeCell;

/// A barrier in the block's shared memory that counts arrivals, phase after phase: when as many have arrived as it was made
/// for, the phase is over and the next begins.
///
/// Made by [`init`](Self::init) in memory from `shared!`. A thread arrives, does what does not depend on the others, and
/// waits for the phase that it arrived in.
///
/// # Examples
/// ```
/// use warpsmith_device::mbarrier::Mbarrier;
/// use warpsmith_device::{block_dim, shared, sync_threads, thread_idx};
///
/// fn overlap(write: impl Fn(), other_work: impl Fn(), read: impl Fn()) {
///     let barrier = shared!(Mbarrier);
///     if thread_idx().x == 0 {
///         // SAFETY: one thread does, before any other comes past `sync_threads`.
///         unsafe { Mbarrier::init(barrier, block_dim().x) };
///     }
///     sync_threads();
///     // SAFETY: initialised above, and there as long as the block.
///     let barrier = unsafe { &*barrier };
///     write();
///     let phase = barrier.arrive();
///     other_work();
///     barrier.wait(phase);
///     read();
/// }
/// ```
/// # Source
/// PTX ISA, "mbarrier".
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Mbarrier {
    /// On compute capability 8.0 the hardware's. Elsewhere, from bit 0: arrivals to come, arrivals of a phase, phases that are
    /// over.
    word: UnsafeCell<u64>,
}

/// The phase of an [`Mbarrier`] in which a thread arrived.
#[derive(Clone, Copy, Debug)]
pub struct MbarrierPhase(u64);

/// Bits of each count in the word where the hardware has no such barriers.
const COUNT_BITS: u32 = 20;
/// Most arrivals of a phase.
const MAX_COUNT: u32 = (1 << COUNT_BITS) - 1;

impl Mbarrier {
    /// Makes a barrier of `count` arrivals a phase.
    ///
    /// PTX: `mbarrier.init.b64`, compute capability 8.0; below a store.
    ///
    /// # Safety
    /// `barrier` is in the block's shared memory and used by nobody else meanwhile; a block barrier stands between this and
    /// every use by another thread.
    ///
    /// # Panics
    /// When `count` is 0 or above 2^20 - 1.
    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub unsafe fn init(barrier: *mut Self, count: u32) {
        assert!((1..=MAX_COUNT).contains(&count), "an mbarrier of {count} arrivals; it counts 1 to {MAX_COUNT}");
        #[cfg(warpsmith_device)]
        if crate::intrinsics::architecture_at_least(80) {
            return crate::intrinsics::mbarrier::init(barrier.cast(), count);
        }
        let word = u64::from(count) << COUNT_BITS | u64::from(count);
        // SAFETY: the caller promises the memory, and that nobody else uses it.
        unsafe { barrier.write(Self { word: UnsafeCell::new(word) }) };
    }

    /// Arrives, and gives the phase to wait for. What the thread wrote before is visible to those that have waited.
    ///
    /// PTX: `mbarrier.arrive.b64`, compute capability 8.0; below `atom.cas.b64` after `fence.acq_rel.cta`.
    #[inline]
    #[must_use = "the phase is what to wait for"]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn arrive(&self) -> MbarrierPhase {
        #[cfg(warpsmith_device)]
        {
            if crate::intrinsics::architecture_at_least(80) {
                return MbarrierPhase(crate::intrinsics::mbarrier::arrive(self.word.get()));
            }
            MbarrierPhase(crate::intrinsics::mbarrier::change(self.word.get(), one_arrived))
        }
        #[cfg(not(warpsmith_device))]
        {
            // One core runs all threads of the block, in turns, so nobody else uses the word meanwhile.
            let word = self.word.get();
            self.tell_checker();
            let arrive = |before| {
                let word = one_arrived(before);
                crate::host::Arrived { word, completes: phase(word) != phase(before) }
            };
            MbarrierPhase(crate::host::current("Mbarrier::arrive", |context| context.block().arrive_at(word, arrive)))
        }
    }

    /// Whether the phase is over; does not wait for it. When it is, what those wrote who arrived in it is visible.
    ///
    /// `since` is the barrier's present phase or the one before. PTX: `mbarrier.test_wait.b64`, compute capability 8.0;
    /// below `ld.b64` before `fence.acq_rel.cta`.
    ///
    /// On the CPU executor, where the phase is not over, other threads of the block run before this answers, so that a loop around it
    /// ends; one that asks in vain is reported.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn test_wait(&self, since: MbarrierPhase) -> bool {
        #[cfg(warpsmith_device)]
        {
            if crate::intrinsics::architecture_at_least(80) {
                return crate::intrinsics::mbarrier::test_wait(self.word.get(), since.0);
            }
            phase(crate::intrinsics::mbarrier::look(self.word.get())) != phase(since.0)
        }
        #[cfg(not(warpsmith_device))]
        {
            let place = core::panic::Location::caller();
            self.is_over(since) || {
                crate::host::require_waiting("Mbarrier::test_wait");
                let at = self.word.get().addr();
                crate::host::current("Mbarrier::test_wait", |context| {
                    context.block().poll_at(context.thread(), place, at);
                });
                self.is_over(since)
            }
        }
    }

    /// Whether the phase is over now.
    #[cfg(not(warpsmith_device))]
    #[inline(always)]
    fn is_over(&self, since: MbarrierPhase) -> bool {
        self.tell_checker();
        let is_over = |word| phase(word) != phase(since.0);
        crate::host::current("Mbarrier::test_wait", |context| {
            context.block().test_at(context.thread(), self.word.get(), &is_over)
        })
    }

    /// Waits until the phase is over, and makes what those wrote who arrived in it visible.
    ///
    /// As [`test_wait`](Self::test_wait), again and again. Once a thread of the launch has panicked, those that wait in vain
    /// end. On the CPU executor other threads of the block run meanwhile, and a wait in vain is reported.
    #[inline]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn wait(&self, since: MbarrierPhase) {
        #[cfg(warpsmith_device)]
        crate::intrinsics::grid::wait_until(|| self.test_wait(since));
        #[cfg(not(warpsmith_device))]
        {
            let place = core::panic::Location::caller();
            crate::host::require_waiting("Mbarrier::wait");
            if !self.is_over(since) {
                let at = self.word.get().addr();
                let is_over = crate::host::current("Mbarrier::wait", |context| {
                    context.block().wait_at(context.thread(), place, at)
                });
                assert!(is_over, "a thread that is alone in its block waits at an mbarrier for arrivals of others");
            }
        }
    }
}

#[cfg(not(warpsmith_device))]
impl Mbarrier {
    /// In code for the checker, an access to the word that it sees: whoever uses a barrier needs its initialisation before that.
    #[inline(always)]
    fn tell_checker(&self) {
        #[cfg(warpsmith_checked)]
        {
            // SAFETY: the word is there and aligned, and one core runs all threads of a checked launch.
            let word = unsafe { core::sync::atomic::AtomicU64::from_ptr(self.word.get()) };
            let _ = word.load(core::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// The word after one more arrival.
#[inline]
fn one_arrived(word: u64) -> u64 {
    let to_come = word & u64::from(MAX_COUNT);
    if to_come > 1 {
        return word.wrapping_sub(1);
    }
    let count = word >> COUNT_BITS & u64::from(MAX_COUNT);
    (phase(word).wrapping_add(1) << (2 * COUNT_BITS)) | count << COUNT_BITS | count
}

/// How many phases are over, modulo 2^24.
#[inline]
fn phase(word: u64) -> u64 {
    word >> (2 * COUNT_BITS)
}
