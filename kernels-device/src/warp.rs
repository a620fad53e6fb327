//! What the 32 threads of a warp do together: shuffles, votes, matches.
//!
//! Each takes the mask of lanes that meet, [`FULL_MASK`] where the whole warp comes by. The calling lane must be in it,
//! every lane of it that has not ended must come, with the same mask, and they must do the same operation. Lanes that
//! ended, or that a last, partly full warp never had, are not waited for.
//!
//! The CPU executor panics when a lane is not in its own mask, and reports lanes that wait for each other in vain.
//! Compute capability 7.0 for the matches; all else everywhere.

pub use value::WarpValue;

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// The mask of all lanes of a warp.
pub const FULL_MASK: u32 = u32::MAX;

mod value {
    //! What fits a shuffle: 8 to 64 bits, any of which are a valid value.

    /// A value that moves between lanes: integers, floats and `half`'s floats of up to 64 bits.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot move between the lanes of a warp",
        note = "integers of 8 to 64 bits, `f32`, `f64`, `f16` and `bf16` can; send a struct field by field"
    )]
    pub trait WarpValue: Copy + Bits {}

    #[doc(hidden)]
    pub trait Bits {
        fn to_bits(self) -> u64;
        fn from_bits(bits: u64) -> Self;
    }

    macro_rules! ints {
        ($($int:ty as $unsigned:ty),*) => {$(
            impl WarpValue for $int {}
            impl Bits for $int {
                #[inline(always)]
                fn to_bits(self) -> u64 {
                    self as $unsigned as u64
                }
                #[inline(always)]
                fn from_bits(bits: u64) -> Self {
                    bits as $unsigned as $int
                }
            }
        )*};
    }
    ints!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, usize as usize);
    ints!(i8 as u8, i16 as u16, i32 as u32, i64 as u64, isize as usize);

    macro_rules! floats {
        ($($float:ty as $unsigned:ty),*) => {$(
            impl WarpValue for $float {}
            impl Bits for $float {
                #[inline(always)]
                fn to_bits(self) -> u64 {
                    u64::from(<$float>::to_bits(self))
                }
                #[inline(always)]
                fn from_bits(bits: u64) -> Self {
                    <$float>::from_bits(bits as $unsigned)
                }
            }
        )*};
    }
    floats!(f32 as u32, f64 as u64, half::f16 as u16, half::bf16 as u16);
}

/// The thread's lane in its warp: its number in the block modulo 32. PTX: `%laneid`.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn lane_id() -> u32 {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::lane_id();
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

#[cfg(not(warpsmith_device))]
mod meet {
    //! One meeting of lanes, by way of the executor.
    use core::panic::Location;

    use crate::host::{ShuffleMode, WarpOperation, current, require_waiting};

    #[track_caller]
    pub(super) fn meet(mask: u32, operation: WarpOperation, value: u64) -> u64 {
        let place = Location::caller();
        let lane = super::lane_id();
        assert!(
            mask & (1 << lane) != 0,
            "lane {lane} calls `{}` with the mask {mask:#010x}, in which it is not",
            operation.name()
        );
        require_waiting(operation.name());
        current(operation.name(), |context| context.block().warp(context.thread(), place, mask, operation, value))
    }

    #[track_caller]
    pub(super) fn shuffle(mode: ShuffleMode, mask: u32, value: u64, operand: u32, width: u32) -> u64 {
        meet(mask, WarpOperation::Shuffle { mode, operand, width }, value)
    }
}

macro_rules! shuffles {
    ($(
        $(#[$docs:meta])* $name:ident($operand:ident), $within:ident, $mode:ident, clamp $clamp:literal;
    )*) => {$(
        $(#[$docs])*
        ///
        #[doc = concat!("PTX: `shfl.sync`; two of them for 64 bits. See [`", stringify!($within), "`] for groups inside a warp.")]
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(warpsmith_device), track_caller)]
        pub fn $name<T: WarpValue>(mask: u32, value: T, $operand: u32) -> T {
            $within(mask, value, $operand, WARP_SIZE)
        }

        #[doc = concat!("[`", stringify!($name), "`] inside groups of `width` lanes: a power of two up to 32.")]
        ///
        /// # Panics
        /// When `width` is not a power of two or above 32.
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(warpsmith_device), track_caller)]
        pub fn $within<T: WarpValue>(mask: u32, value: T, $operand: u32, width: u32) -> T {
            assert!(width.is_power_of_two() && width <= WARP_SIZE, "a group of {width} lanes");
            #[cfg(warpsmith_device)]
            {
                let control = (WARP_SIZE.wrapping_sub(width) << 8) | $clamp;
                let bits = value.to_bits();
                let low = crate::intrinsics::$name(mask, bits as u32, $operand, control);
                if size_of::<T>() <= 4 {
                    return T::from_bits(u64::from(low));
                }
                let high = crate::intrinsics::$name(mask, (bits >> 32) as u32, $operand, control);
                T::from_bits(u64::from(high) << 32 | u64::from(low))
            }
            #[cfg(not(warpsmith_device))]
            T::from_bits(meet::shuffle(crate::host::ShuffleMode::$mode, mask, value.to_bits(), $operand, width))
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

/// The mask of lanes whose `predicate` is true. PTX: `vote.sync.ballot.b32`.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::vote_ballot(mask, u32::from(predicate));
    #[cfg(not(warpsmith_device))]
    {
        meet::meet(mask, crate::host::WarpOperation::Ballot, u64::from(predicate)) as u32
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
        meet::meet(mask, crate::host::WarpOperation::Ballot, u64::from(!predicate)) == 0
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
        meet::meet(mask, crate::host::WarpOperation::Ballot, u64::from(predicate)) != 0
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

/// The mask of lanes whose `value` has the same bits as the calling lane's. PTX: `match.any.sync`, compute capability
/// 7.0.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn match_any<T: WarpValue>(mask: u32, value: T) -> u32 {
    #[cfg(warpsmith_device)]
    {
        if size_of::<T>() <= 4 {
            crate::intrinsics::match_any_32(mask, value.to_bits() as u32)
        } else {
            crate::intrinsics::match_any_64(mask, value.to_bits())
        }
    }
    #[cfg(not(warpsmith_device))]
    {
        meet::meet(mask, crate::host::WarpOperation::MatchAny, value.to_bits()) as u32
    }
}

/// The mask of lanes when `value` has the same bits in all of them, else 0. PTX: `match.all.sync`, compute capability
/// 7.0.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn match_all<T: WarpValue>(mask: u32, value: T) -> u32 {
    #[cfg(warpsmith_device)]
    {
        if size_of::<T>() <= 4 {
            crate::intrinsics::match_all_32(mask, value.to_bits() as u32)
        } else {
            crate::intrinsics::match_all_64(mask, value.to_bits())
        }
    }
    #[cfg(not(warpsmith_device))]
    {
        meet::meet(mask, crate::host::WarpOperation::MatchAll, value.to_bits()) as u32
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
