//! Named barriers: some warps of a block wait for each other while the others go on.

/// A barrier of a block's own for `ID` from 1 to 15, which a given number of threads meet at.
///
/// Threads come by [`sync`](Self::sync), which waits, or by [`arrive`](Self::arrive), which does not: producers arrive, and
/// consumers wait for them. When as many threads have come as each of them says, the barrier starts again from none.
/// Whole warps come: a last warp that is not full counts as 32 threads.
///
/// PTX: what `barrier.sync` and `barrier.arrive` do, on a word in shared memory, by one thread of each warp:
/// `atom.cas` between `fence.acq_rel.cta`, and `ld`; because the instructions themselves wait for a thread that has
/// panicked without end. The first use in a kernel costs a `bar.sync` at its start.
///
/// # Examples
/// ```
/// use warpsmith_device::{NamedBarrier, thread_idx};
///
/// /// Of 128 threads the first 64 fill a tile, and the others work on it.
/// fn pipeline(fill: impl Fn(), work: impl Fn()) {
///     if thread_idx().x < 64 {
///         fill();
///         NamedBarrier::<1>::arrive(128);
///     } else {
///         NamedBarrier::<1>::sync(128);
///         work();
///     }
/// }
/// ```
/// # Source
/// PTX ISA, "bar, barrier".
#[derive(Debug)]
pub struct NamedBarrier<const ID: u32>;

impl<const ID: u32> NamedBarrier<ID> {
    /// Waits until `threads` threads have come, the calling one among them, and makes what they wrote before visible to those
    /// that wait.
    ///
    /// All threads of the warp must call it or [`arrive`](Self::arrive), and all that come must give the same number. A thread
    /// that has ended does not come; once one of the launch has panicked, those that wait in vain end too.
    ///
    /// # Panics
    /// When `threads` is no multiple of 32, or more than the block's warps have, and when threads that come to one meeting give
    /// different numbers. The CPU executor also reports threads that wait in vain, and how many have come.
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn sync(threads: u32) {
        Self::check(threads);
        #[cfg(warpsmith_device)]
        crate::intrinsics::named::sync(ID, threads);
        #[cfg(not(warpsmith_device))]
        come("NamedBarrier::sync", ID, threads, true);
    }

    /// Comes to the barrier as one of `threads` threads, and goes on: what the thread wrote before is visible to those that
    /// wait there.
    ///
    /// As for [`sync`](Self::sync). Before the warp may come again, something else must have told it that the meeting is over.
    ///
    /// # Panics
    /// As [`sync`](Self::sync).
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn arrive(threads: u32) {
        Self::check(threads);
        #[cfg(warpsmith_device)]
        crate::intrinsics::named::arrive(ID, threads);
        #[cfg(not(warpsmith_device))]
        come("NamedBarrier::arrive", ID, threads, false);
    }

    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    fn check(threads: u32) {
        const { assert!(ID >= 1 && ID <= 15, "named barriers are numbered from 1 to 15; 0 is `sync_threads`") };
        let most = crate::index::threads_in_block().wrapping_add(31) & !31;
        assert!(
            threads != 0 && threads.is_multiple_of(32) && threads <= most,
            "{threads} threads at named barrier {ID}: whole warps meet there, so 32 to {most} threads of this block"
        );
    }
}

#[cfg(not(warpsmith_device))]
#[track_caller]
fn come(name: &str, id: u32, threads: u32, waits: bool) {
    let place = core::panic::Location::caller();
    crate::host::require_waiting(name);
    crate::host::current(name, |context| {
        context.block().named_barrier(context.thread(), place, id, threads, waits);
    });
}
