//! What a kernel may call, with one meaning on the GPU and on the CPU executor.
//!
//! Every function here has two bodies. In the nested device build (`cfg(warpsmith_device)`) it is an instruction or a
//! marker that the lowering replaces; in an ordinary build it asks the CPU executor through the `host` module. Called
//! outside a kernel, an ordinary build panics and says so.
//!
//! Programs use this through the crate `warpsmith`, which has what kernels call under the same paths.
#![no_std]

// For the CPU executor's side only; nothing that a kernel calls needs it.
extern crate std;

pub mod abi;
#[doc(hidden)]
pub mod asm;
pub mod atomic;
pub mod bits;
pub mod block;
pub mod cache;
#[doc(hidden)]
pub mod cast;
pub mod cluster;
pub mod collective;
pub mod constant;
pub mod fence;
pub mod grid;
pub mod groups;
#[cfg_attr(
    warpsmith_device,
    allow(dead_code, reason = "the executor is compiled, though never run, in the device build too")
)]
pub mod host;
pub mod index;
#[cfg(warpsmith_device)]
mod intrinsics;
pub mod math;
pub mod mbarrier;
pub mod named;
pub mod print;
pub mod rng;
pub mod shape;
pub mod shared;
pub mod slot;
pub mod strided;
pub mod timing;
pub mod vector;
pub mod view;
pub mod warp;

pub use atomic::{
    AtomicBf16, AtomicBf16x2, AtomicF16, AtomicF16x2, AtomicF32, AtomicF64, AtomicRef, BlockScope, DeviceScope,
    ScopedAtomic, SystemScope, ThreadScope,
};
pub use bits::AnyBits;
pub use block::{sync_threads, sync_threads_and, sync_threads_count, sync_threads_or};
pub use cache::{
    prefetch_l1, prefetch_l2, read_cache_global, read_last_use, read_non_coherent, read_streaming, read_volatile,
    write_cache_global, write_streaming, write_volatile,
};
pub use cluster::{Cluster, cluster_dim, cluster_idx, cluster_rank, this_cluster};
pub use constant::Constant;
pub use fence::{threadfence, threadfence_block, threadfence_system};
pub use grid::{Grid, this_grid};
pub use groups::{Coalesced, LaneGroup, ThreadBlock, Tile, coalesced_threads, this_thread_block};
pub use index::{
    Dim3, GlobalIdx, Idx2, Idx3, RunIdx, block_dim, block_idx, global_idx, global_idx_2d, global_idx_3d, grid_dim,
    grid_stride, grid_stride_2d, grid_stride_3d, run_idx, run_stride, thread_idx,
};
pub use named::NamedBarrier;
pub use shared::{DynamicShared, PaddedRows, Rows, SharedArray, dynamic_shared, dynamic_shared_bytes};
pub use slot::{SlotIdx, block_stride, slot_idx};
pub use strided::{PlaneView, SliceViews, Strided};
pub use timing::{breakpoint, clock, global_timer, nanosleep, trap};
pub use vector::{
    Bf16x2, Bf16x4, Bf16x8, F16x2, F16x4, F16x8, F32x2, F32x4, F64x2, I32x2, I32x4, I64x2, SliceVectors, U8x4, U8x16,
    U16x2, U16x4, U16x8, U32x2, U32x4, U64x2, Vector,
};
pub use view::{
    GridSliceMut, Linear, OwnershipMap, Patches, PerBlock, Plane, Runs, Striped, Tiles, TransposedTiles, Volume,
    block_leader, patch_idx, striped_idx, tile_idx, transposed_tile_idx,
};
pub use warp::{
    FULL_MASK, WARP_SIZE, WarpInteger, WarpNumber, WarpValue, activemask, all, any, ballot, broadcast, elect,
    exclusive_scan, exclusive_scan_add, inclusive_scan, inclusive_scan_add, lane_id, lanemask_eq, lanemask_ge,
    lanemask_gt, lanemask_le, lanemask_lt, match_all, match_any, reduce_add, reduce_and, reduce_max, reduce_min,
    reduce_or, reduce_xor, shfl_down, shfl_down_within, shfl_idx, shfl_idx_within, shfl_up, shfl_up_within, shfl_xor,
    shfl_xor_within, sync_warp, warp_id,
};

const _: () = assert!(usize::BITS == 64, "kernels share their layouts with a 64-bit device");
#[cfg(warpsmith_device)]
pub mod device_runtime;
#[cfg(warpsmith_device)]
pub mod math_table;
