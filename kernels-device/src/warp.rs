//! What the 32 threads of a warp do together: shuffles, votes, matches, reductions, scans.
//!
//! Each takes the mask of lanes that meet, [`FULL_MASK`] where the whole warp comes by. The calling lane must be in it,
//! every lane of it that has not ended must come, with the same mask, and they must do the same operation. Lanes that
//! ended, or that a last, partly full warp never had, are not waited for.
//!
//! The CPU executor panics when a lane is not in its own mask or reads a lane that takes no part, and reports lanes that
//! wait for each other in vain. Compute capability 7.0 for the matches; all else everywhere. The tiles of
//! [`groups`](crate::groups) do the same without masks.

pub use collective::{
    WarpInteger, WarpNumber, exclusive_scan, exclusive_scan_add, inclusive_scan, inclusive_scan_add, reduce,
    reduce_add, reduce_and, reduce_max, reduce_min, reduce_or, reduce_xor,
};
#[doc(hidden)]
pub use value::LaneBits;
pub use value::WarpValue;

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// The mask of all lanes of a warp.
pub const FULL_MASK: u32 = u32::MAX;

pub(crate) mod collective;
mod value;

/// The thread's lane in its warp: its number in the block modulo 32. PTX: `%laneid`.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn lane_id() -> u32 {
    #[cfg(warpsmith_device)]
    {
        crate::intrinsics::asks_place_in_block();
        crate::intrinsics::lane_id()
    }
    #[cfg(not(warpsmith_device))]
    crate::host::current("lane_id", |context| context.thread() % WARP_SIZE)
}

/// The thread's warp in its block: its number in the block divided by 32.
///
/// Computed from the thread index: PTX's `%warpid` may change while a thread runs.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn warp_id() -> u32 {
    crate::index::thread_in_block() / WARP_SIZE
}

macro_rules! lane_masks {
    ($($(#[$docs:meta])* $name:ident, $lane:ident => $mask:expr;)*) => {$(
        $(#[$docs])*
        #[doc = concat!(" PTX: `%", stringify!($name), "`.")]
        ///
        /// # Source
        #[doc = concat!("PTX ISA, \"Special Registers: %", stringify!($name), "\".")]
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(warpsmith_device), track_caller)]
        pub fn $name() -> u32 {
            #[cfg(warpsmith_device)]
            return crate::intrinsics::warp::$name();
            #[cfg(not(warpsmith_device))]
            {
                let $lane = lane_id();
                $mask
            }
        }
    )*};
}
lane_masks! {
    /// The mask with the calling thread's lane alone.
    lanemask_eq, lane => 1 << lane;
    /// The mask of the lanes below the calling thread's, whether they are there or not.
    lanemask_lt, lane => !(u32::MAX << lane);
    /// The mask of the calling thread's lane and those below it, whether they are there or not.
    lanemask_le, lane => u32::MAX >> (31 - lane);
    /// The mask of the lanes above the calling thread's, whether they are there or not.
    lanemask_gt, lane => !(u32::MAX >> (31 - lane));
    /// The mask of the calling thread's lane and those above it, whether they are there or not.
    lanemask_ge, lane => u32::MAX << lane;
}

#[cfg(not(warpsmith_device))]
mod meet {
    //! One meeting of lanes, by way of the executor.
    use core::panic::Location;

    use crate::host::{Gathered, Met, Place, ShuffleMode, WarpOperation, cannot_wait, current, own_context};

    /// Checks what a lane may do wrong by itself, and gives the place of the call.
    #[inline(always)]
    #[track_caller]
    fn begin(name: &'static str, mask: u32) -> Place {
        let lane = super::lane_id();
        assert!(mask & (1 << lane) != 0, "lane {lane} calls `{name}` with the mask {mask:#010x}, in which it is not");
        Location::caller()
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn meet(mask: u32, operation: WarpOperation, value: u128) -> u128 {
        let place = begin(operation.name(), mask);
        // SAFETY: it is used up to the end of this function.
        let context = unsafe { own_context(operation.name()) };
        let result = match context.block().warp(context.thread(), place, mask, operation, value) {
            Met::Now(result) => result,
            Met::Later => {
                context.suspend();
                context.block().warp_result(context.thread())
            }
            Met::Never => cannot_wait(operation.name()),
        };
        match (result, operation) {
            (Some(result), _) => result,
            (None, WarpOperation::Shuffle { mode, operand, width }) => {
                from_outside(operation.name(), mask, mode.source(super::lane_id(), operand, width))
            }
            (None, _) => unreachable!("only a shuffle has a source"),
        }
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn shuffle(mode: ShuffleMode, mask: u32, value: u128, operand: u32, width: u32) -> u128 {
        meet(mask, WarpOperation::Shuffle { mode, operand, width }, value)
    }

    /// What each lane of `mask` brought to the operation of this name.
    #[inline(always)]
    #[track_caller]
    pub(super) fn gather(name: &'static str, mask: u32, value: u128) -> Gathered {
        let place = begin(name, mask);
        // SAFETY: it is used up to the end of this function.
        let context = unsafe { own_context(name) };
        match context.block().warp_gather(context.thread(), place, mask, name, value) {
            Met::Now(gathered) => gathered,
            Met::Later => {
                context.suspend();
                context.block().gathered(context.thread())
            }
            Met::Never => cannot_wait(name),
        }
    }

    /// Says that lanes of a group have ended which it cannot do without.
    #[cold]
    #[track_caller]
    pub(super) fn absent(name: &str, mask: u32, members: u32) -> ! {
        let gone = (mask & !members).trailing_zeros();
        panic!(
            "`{name}` needs all threads of its group, the lanes {mask:#010x} of the warp, but lane {gone} has ended"
        );
    }

    /// Says which rule a shuffle broke.
    #[cold]
    #[track_caller]
    fn from_outside(name: &str, mask: u32, source: u32) -> ! {
        let lane = super::lane_id();
        let threads = current(name, |context| context.block_dim().count());
        let first = u64::from(super::warp_id() * super::WARP_SIZE);
        if mask & (1 << source) == 0 {
            panic!("lane {lane} reads lane {source} with `{name}`, but the mask {mask:#010x} leaves lane {source} out");
        } else if first + u64::from(source) >= threads {
            let lanes = threads - first;
            panic!(
                "lane {lane} reads lane {source} with `{name}` and the mask {mask:#010x}, but its warp is the last of a \
                 block of {threads} threads and has {lanes} lanes"
            );
        }
        panic!(
            "lane {lane} reads lane {source} with `{name}` and the mask {mask:#010x}, but lane {source} has ended and \
             sends nothing"
        );
    }
}

macro_rules! shuffles {
    ($(
        $(#[$docs:meta])* $name:ident($operand:ident), $within:ident, $mode:ident, clamp $clamp:literal;
    )*) => {$(
        $(#[$docs])*
        ///
        #[doc = concat!("PTX: `shfl.sync`, once for each 32 bits. See [`", stringify!($within), "`] for groups inside a warp.")]
        ///
        /// # Panics
        /// On the CPU executor, when the lane to read is not in the mask, has ended, or was never there; on a GPU what
        /// comes from it is unspecified. On both, when what comes is no value of `T`.
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(warpsmith_device), track_caller)]
        pub fn $name<T: WarpValue>(mask: u32, value: T, $operand: u32) -> T {
            $within(mask, value, $operand, WARP_SIZE)
        }

        #[doc = concat!("[`", stringify!($name), "`] inside groups of `width` lanes: a power of two up to 32.")]
        ///
        /// # Panics
        #[doc = concat!("As [`", stringify!($name), "`], and when `width` is not a power of two or above 32.")]
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(warpsmith_device), track_caller)]
        pub fn $within<T: WarpValue>(mask: u32, value: T, $operand: u32, width: u32) -> T {
            assert!(width.is_power_of_two() && width <= WARP_SIZE, "a group of {width} lanes");
            const { assert!(T::LANE_BITS <= 128, "a value of more than 128 bits cannot move between lanes") };
            #[cfg(warpsmith_device)]
            {
                let control = (WARP_SIZE.wrapping_sub(width) << 8) | $clamp;
                let bits = value.to_lane_bits();
                let word = |shift: u32| {
                    u128::from(crate::intrinsics::$name(mask, (bits >> shift) as u32, $operand, control)) << shift
                };
                let mut moved = word(0);
                if T::LANE_BITS > 32 {
                    moved |= word(32);
                }
                if T::LANE_BITS > 64 {
                    moved |= word(64);
                }
                if T::LANE_BITS > 96 {
                    moved |= word(96);
                }
                T::from_lane_bits(moved)
            }
            #[cfg(not(warpsmith_device))]
            T::from_lane_bits(meet::shuffle(crate::host::ShuffleMode::$mode, mask, value.to_lane_bits(), $operand, width))
        }
    )*};
}

shuffles! {
    /// The value of lane `lane`, modulo 32.
    shfl_idx(lane), shfl_idx_within, Idx, clamp 0x1f;
    /// The value of the lane `delta` below; a lane that has none there keeps its own.
    shfl_up(delta), shfl_up_within, Up, clamp 0;
    /// The value of the lane `delta` above; a lane that has none there keeps its own.
    shfl_down(delta), shfl_down_within, Down, clamp 0x1f;
    /// The value of the lane whose number differs in the bits of `bits`: the butterfly of reductions.
    shfl_xor(bits), shfl_xor_within, Xor, clamp 0x1f;
}

/// The value of lane `lane`, which must be one of the mask's. PTX: `shfl.sync.idx.b32`, once for each 32 bits.
///
/// Every lane of the mask that has not ended must come.
///
/// # Panics
/// When `lane` is not in the mask, and as [`shfl_idx`].
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn broadcast<T: WarpValue>(mask: u32, value: T, lane: u32) -> T {
    assert!(lane < WARP_SIZE && mask & (1 << lane) != 0, "lane {lane} is not in the mask {mask:#x} to send a value");
    shfl_idx(mask, value, lane)
}

/// Whether the calling lane is the lowest of the mask that has not ended: true in exactly one lane.
///
/// Every lane of the mask that has not ended must come. PTX: `vote.sync.ballot.b32`; `elect.sync` of compute capability 9.0
/// is not used, since it may choose any lane.
///
/// # Source
/// CUDA C++ Programming Guide, "Warp Vote Functions".
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn elect(mask: u32) -> bool {
    ballot(mask, true) & lanemask_lt() == 0
}

/// The mask of lanes whose `predicate` is true. PTX: `vote.sync.ballot.b32`.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::vote_ballot(mask, u32::from(predicate));
    #[cfg(not(warpsmith_device))]
    {
        meet::meet(mask, crate::host::WarpOperation::Ballot, u128::from(predicate)) as u32
    }
}

/// Whether `predicate` is true in all lanes of the mask. PTX: `vote.sync.all.pred`.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn all(mask: u32, predicate: bool) -> bool {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::vote_all(mask, u32::from(predicate)) != 0;
    // A ballot of those against it: lanes that have ended have no vote.
    #[cfg(not(warpsmith_device))]
    {
        meet::meet(mask, crate::host::WarpOperation::Ballot, u128::from(!predicate)) == 0
    }
}

/// Whether `predicate` is true in any lane of the mask. PTX: `vote.sync.any.pred`.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn any(mask: u32, predicate: bool) -> bool {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::vote_any(mask, u32::from(predicate)) != 0;
    #[cfg(not(warpsmith_device))]
    {
        meet::meet(mask, crate::host::WarpOperation::Ballot, u128::from(predicate)) != 0
    }
}

/// The mask of lanes that run this together with the calling one, which is among them.
///
/// Which lanes those are is the hardware's choice; only use it where any answer is right. PTX: `activemask.b32`.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn activemask() -> u32 {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::activemask();
    #[cfg(not(warpsmith_device))]
    {
        let place = core::panic::Location::caller();
        crate::host::require_waiting("activemask");
        crate::host::current("activemask", |context| context.block().activemask(context.thread(), place))
    }
}

/// The mask of lanes whose `value` has the same bits as the calling lane's. PTX: `match.any.sync`, two of
/// them above 64 bits; compute capability 7.0.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn match_any<T: WarpValue>(mask: u32, value: T) -> u32 {
    #[cfg(warpsmith_device)]
    {
        let bits = value.to_lane_bits();
        if T::LANE_BITS <= 32 {
            crate::intrinsics::match_any_32(mask, bits as u32)
        } else if T::LANE_BITS <= 64 {
            crate::intrinsics::match_any_64(mask, bits as u64)
        } else {
            let low = crate::intrinsics::match_any_64(mask, bits as u64);
            low & crate::intrinsics::match_any_64(mask, (bits >> 64) as u64)
        }
    }
    #[cfg(not(warpsmith_device))]
    {
        meet::meet(mask, crate::host::WarpOperation::MatchAny, value.to_lane_bits()) as u32
    }
}

/// The mask of lanes when `value` has the same bits in all of them, else 0. PTX: `match.all.sync`, two of
/// them above 64 bits; compute capability 7.0.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn match_all<T: WarpValue>(mask: u32, value: T) -> u32 {
    #[cfg(warpsmith_device)]
    {
        let bits = value.to_lane_bits();
        if T::LANE_BITS <= 32 {
            crate::intrinsics::match_all_32(mask, bits as u32)
        } else if T::LANE_BITS <= 64 {
            crate::intrinsics::match_all_64(mask, bits as u64)
        } else {
            let low = crate::intrinsics::match_all_64(mask, bits as u64);
            low & crate::intrinsics::match_all_64(mask, (bits >> 64) as u64)
        }
    }
    #[cfg(not(warpsmith_device))]
    {
        meet::meet(mask, crate::host::WarpOperation::MatchAll, value.to_lane_bits()) as u32
    }
}

/// Waits until every lane of the mask has come here, and makes their earlier writes visible to each other. PTX:
/// `bar.warp.sync`.
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn sync_warp(mask: u32) {
    #[cfg(warpsmith_device)]
    crate::intrinsics::bar_warp_sync(mask);
    #[cfg(not(warpsmith_device))]
    meet::meet(mask, crate::host::WarpOperation::Sync, 0);
}
