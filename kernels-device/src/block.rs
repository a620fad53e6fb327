//! The block's barrier, alone and with a vote.

#[cfg(not(warpsmith_device))]
use crate::host::{BarrierVotes, Met, cannot_wait, own_context};

/// Waits until every thread of the block has come here, and makes their earlier writes visible to each other.
///
/// Every thread of the block that has not ended must call it, at the same place. PTX: `barrier.sync 0`.
///
/// # Panics
/// The CPU executor reports threads that wait at different places.
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn sync_threads() {
    #[cfg(warpsmith_device)]
    crate::intrinsics::bar_sync();
    #[cfg(not(warpsmith_device))]
    {
        // SAFETY: it is used up to the end of this function.
        let context = unsafe { own_context("sync_threads") };
        match context.block().sync_threads(context.thread(), core::panic::Location::caller(), false) {
            Met::Now(_) => {}
            Met::Later => context.suspend(),
            Met::Never => cannot_wait("sync_threads"),
        }
    }
}

/// [`sync_threads`], and gives the number of threads whose `predicate` is true. PTX: `barrier.red.popc.u32`.
#[inline(always)]
#[must_use = "`sync_threads` waits without a vote"]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn sync_threads_count(predicate: bool) -> u32 {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::bar_red_popc(u32::from(predicate));
    #[cfg(not(warpsmith_device))]
    vote("sync_threads_count", predicate).count
}

/// [`sync_threads`], and says whether `predicate` is true in all threads. PTX: `barrier.red.and.pred`.
#[inline(always)]
#[must_use = "`sync_threads` waits without a vote"]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn sync_threads_and(predicate: bool) -> bool {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::bar_red_and(u32::from(predicate)) != 0;
    #[cfg(not(warpsmith_device))]
    {
        let votes = vote("sync_threads_and", predicate);
        votes.count == votes.total
    }
}

/// [`sync_threads`], and says whether `predicate` is true in any thread. PTX: `barrier.red.or.pred`.
#[inline(always)]
#[must_use = "`sync_threads` waits without a vote"]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn sync_threads_or(predicate: bool) -> bool {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::bar_red_or(u32::from(predicate)) != 0;
    #[cfg(not(warpsmith_device))]
    {
        vote("sync_threads_or", predicate).count > 0
    }
}

#[cfg(not(warpsmith_device))]
#[inline(always)]
#[track_caller]
fn vote(name: &str, predicate: bool) -> BarrierVotes {
    // SAFETY: it is used up to the end of this function.
    let context = unsafe { own_context(name) };
    match context.block().sync_threads(context.thread(), core::panic::Location::caller(), predicate) {
        Met::Now(votes) => votes,
        Met::Later => {
            context.suspend();
            context.block().barrier_votes(context.thread())
        }
        Met::Never => cannot_wait(name),
    }
}
