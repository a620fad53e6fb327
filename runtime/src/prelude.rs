//! What a program with kernels uses: `use warpsmith::prelude::*;`.

pub use warpsmith_device::abi::{AtomicElement, DeviceElement, KernelValue};
pub use warpsmith_device::{
    AtomicF32, AtomicF64, Dim3, FULL_MASK, GlobalIdx, GridSliceMut, Idx2, Idx3, Linear, OwnershipMap, Plane, RunIdx,
    Runs, Volume, WARP_SIZE, activemask, all, any, ballot, block_dim, block_idx, dynamic_shared, global_idx,
    global_idx_2d, global_idx_3d, grid_dim, grid_stride, lane_id, match_all, match_any, run_idx, run_stride, shfl_down,
    shfl_idx, shfl_up, shfl_xor, sync_threads, sync_threads_and, sync_threads_count, sync_threads_or, sync_warp,
    thread_idx, threadfence, threadfence_block, threadfence_system, warp_id,
};
pub use warpsmith_macro::{KernelValue, kernel};

pub use crate::{Device, DeviceBuffer, DeviceSlice, DeviceSliceMut, Event, LaunchConfig, Stream};
