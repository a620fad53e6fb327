//! What a program with kernels uses: `use warpsmith::prelude::*;`.

pub use crate::{
    AnyBits, AtomicElement, AtomicF32, AtomicF64, Coalesced, Constant, Device, DeviceBuffer, DeviceElement,
    DeviceSlice, DeviceSliceMut, Dim3, Event, F32x2, F32x4, F64x2, FULL_MASK, GlobalIdx, GridSliceMut, Idx2, Idx3,
    KernelValue, LaneGroup, LaunchConfig, Linear, OwnershipMap, Plane, Printable, RunIdx, Runs, SliceVectors, Stream,
    ThreadBlock, Tile, U32x4, Volume, WARP_SIZE, WarpInteger, WarpNumber, WarpValue, activemask, all, any, ballot,
    block_dim, block_idx, broadcast, coalesced_threads, constant, dynamic_shared, dynamic_shared_bytes, elect,
    exclusive_scan, exclusive_scan_add, global_idx, global_idx_2d, global_idx_3d, gpu_dbg, gpu_print, gpu_println,
    grid_dim, grid_stride, inclusive_scan, inclusive_scan_add, kernel, lane_id, lanemask_eq, lanemask_ge, lanemask_gt,
    lanemask_le, lanemask_lt, loops, match_all, match_any, reduce_add, reduce_and, reduce_max, reduce_min, reduce_or,
    reduce_xor, run_idx, run_stride, shared, shfl_down, shfl_down_within, shfl_idx, shfl_idx_within, shfl_up,
    shfl_up_within, shfl_xor, shfl_xor_within, sync_threads, sync_threads_and, sync_threads_count, sync_threads_or,
    sync_warp, this_thread_block, thread_idx, threadfence, threadfence_block, threadfence_system, warp_id,
};
pub use crate::{AtomicBf16, AtomicBf16x2, AtomicF16, AtomicF16x2, AtomicRef, Bf16x2, F16x2, ScopedAtomic};
pub use crate::{
    DynamicShared, PaddedRows, Patches, PerBlock, Rows, SharedArray, SliceViews, SlotIdx, Striped, Tiles,
    TransposedTiles, block_broadcast, block_exclusive_scan, block_inclusive_scan, block_leader, block_reduce,
    block_sort, block_stride, patch_idx, shared_array, slot_idx, striped_idx, tile_idx, transposed_tile_idx,
};
pub use crate::{Kernel, LaunchPlan, PreparedLaunch};
pub use crate::{
    NamedBarrier, cluster_dim, cluster_idx, cluster_rank, grid_stride_2d, grid_stride_3d, this_cluster, this_grid,
};
