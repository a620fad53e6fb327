//! GPU kernels in ordinary Rust: the host side.
//!
//! A function under [`#[kernel]`](kernel) is compiled for the GPU by the crate's build script and by rustc for the host,
//! and gets a typed `launch` beside it. The same program runs on a GPU, or on the CPU executor where there is none.
//!
//! ```
//! use warpsmith::prelude::*;
//!
//! #[kernel]
//! fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
//!     let i = global_idx();
//!     if let Some(y) = y.get_mut(&i) {
//!         *y += a * x[i.get()];
//!     }
//! }
//!
//! # fn main() -> warpsmith::Result<()> {
//! let device = Device::cpu(); // `Device::new()` takes the first GPU where there is one.
//! let stream = device.stream()?;
//! let x = stream.to_device(&[1.0f32; 1000])?;
//! let mut y = stream.to_device(&[2.0f32; 1000])?;
//! saxpy::launch(&stream, LaunchConfig::for_len(x.len()), 3.0, &x, &mut y)?;
//! assert_eq!(stream.to_host(&y)?, [5.0; 1000]);
//! # Ok(())
//! # }
//! ```
//!
//! What kernels call is defined in the crate `warpsmith_device`, which the examples there name. A program needs only this
//! crate: `use warpsmith_device::rng::Philox4x32` is `use warpsmith::rng::Philox4x32` in it.

// Lets the code that `#[kernel]` writes name this crate from inside it, in its own tests.
extern crate self as warpsmith;

mod completion;
mod device;
mod error;
mod event;
mod graph;
mod kernel;
mod launch;
mod memory;
mod output;
mod stream;
mod timeline;

pub mod exchange;
pub mod foreign;
pub mod nvtx;
pub mod prelude;
pub mod testing;

#[cfg(test)]
mod allocations;
mod check;
mod constants;
mod cpu;
mod driver;
mod module;
mod outside;
mod panic_report;
mod profile;
mod registry;
#[cfg(test)]
mod simulated;
mod work;

pub use check::{
    CheckOptions, CheckReport, CheckRule, Finding, FindingMemory, FindingSide, LineTraffic, MemoryReport, MemorySpace,
    Watch, WatchedWrite,
};
pub use completion::{EventCompleted, StreamCompleted};
pub use cpu::schedule::{ParseScheduleError, Schedule};
pub use device::{
    ComputeCapability, ComputeMode, ContextLimit, Device, DeviceAttribute, DeviceInfo, DeviceLimits, DeviceUuid,
    MemoryInfo, ParseUuidError, driver_version,
};
pub use error::{
    DeviceError, DriverError, Error, ForeignError, GraphError, KernelPanic, LaunchError, MemoryError, ModuleError,
    ParamShape, Result, StreamError, Version,
};
pub use event::{Event, EventOptions};
pub use graph::{ExecutableGraph, Graph, GraphNode};
pub use kernel::{Kernel, KernelAttributes, Occupancy, OccupancyBound, SharedCarveout};
pub use launch::{Binder, LaunchArg, LaunchConfig, LaunchPlan, PlaneMap, PreparedLaunch, ShapelessMap};
pub use memory::{
    BufferError, CopyScope, DeviceBuffer, DeviceSlice, DeviceSliceMut, DeviceViewMut, HostBuffer, ManagedBuffer,
    MappedBuffer, MemoryPool, Pending, PinnedBuffer, PitchedBuffer, PitchedSlice, PitchedSliceMut, PoolStatistics,
    RegisteredBuffer, StagingOptions, StagingRing,
};
pub use output::OutputLine;
pub use profile::{GpuProfile, ParseProfileError};
pub use registry::{compiled_kernels, failed_targets};
pub use stream::{Stream, StreamOptions};
pub use timeline::{KernelTimes, Timeline, TimelineEntry, TimelineReport, WorkKind};

pub use cudarc;
pub use warpsmith_build::bundle::{Image, KernelKey, KernelRecord, MessageFormat, ParamRecord};
pub use warpsmith_device::abi::{AtomicElement, DeviceElement, KernelValue};
pub use warpsmith_device::atomic::{AtomicBf16, AtomicBf16x2, AtomicF16, AtomicF16x2, AtomicRef, ScopedAtomic};
pub use warpsmith_device::cluster::{Cluster, cluster_dim, cluster_idx, cluster_rank, this_cluster};
pub use warpsmith_device::collective::{
    block_broadcast, block_exclusive_scan, block_inclusive_scan, block_reduce, block_sort,
};
pub use warpsmith_device::grid::{Grid, this_grid};
pub use warpsmith_device::index::{grid_stride_2d, grid_stride_3d};
pub use warpsmith_device::named::NamedBarrier;
pub use warpsmith_device::print::Printable;
pub use warpsmith_device::rng;
pub use warpsmith_device::shared_array;
pub use warpsmith_device::{
    AnyBits, AtomicF32, AtomicF64, Coalesced, Dim3, FULL_MASK, GlobalIdx, GridSliceMut, Idx2, Idx3, LaneGroup, Linear,
    OwnershipMap, Plane, RunIdx, Runs, ThreadBlock, Tile, Volume, WARP_SIZE, WarpInteger, WarpNumber, WarpValue,
    activemask, all, any, ballot, block_dim, block_idx, broadcast, coalesced_threads, dynamic_shared,
    dynamic_shared_bytes, elect, exclusive_scan, exclusive_scan_add, global_idx, global_idx_2d, global_idx_3d,
    grid_dim, grid_stride, inclusive_scan, inclusive_scan_add, lane_id, lanemask_eq, lanemask_ge, lanemask_gt,
    lanemask_le, lanemask_lt, match_all, match_any, reduce_add, reduce_and, reduce_max, reduce_min, reduce_or,
    reduce_xor, run_idx, run_stride, shfl_down, shfl_down_within, shfl_idx, shfl_idx_within, shfl_up, shfl_up_within,
    shfl_xor, shfl_xor_within, sync_threads, sync_threads_and, sync_threads_count, sync_threads_or, sync_warp,
    this_thread_block, thread_idx, threadfence, threadfence_block, threadfence_system, warp_id,
};
pub use warpsmith_device::{
    Bf16x2, Bf16x4, Bf16x8, Constant, F16x2, F16x4, F16x8, F32x2, F32x4, F64x2, I32x2, I32x4, I64x2, SliceVectors,
    U8x4, U8x16, U16x2, U16x4, U16x8, U32x2, U32x4, U64x2, Vector,
};
pub use warpsmith_device::{
    DynamicShared, PaddedRows, Patches, PerBlock, Rows, SharedArray, SliceViews, SlotIdx, Striped, Tiles,
    TransposedTiles, block_leader, block_stride, patch_idx, slot_idx, striped_idx, tile_idx, transposed_tile_idx,
};
pub use warpsmith_device::{
    atomic, bits, block, collective, fence, groups, index, math, shape, shared, slot, strided, view, warp,
};
pub use warpsmith_device::{
    breakpoint, clock, global_timer, nanosleep, prefetch_l1, prefetch_l2, read_cache_global, read_last_use,
    read_non_coherent, read_streaming, read_volatile, trap, write_cache_global, write_streaming, write_volatile,
};
pub use warpsmith_device::{cache, constant, timing, vector};
pub use warpsmith_device::{cluster, grid, mbarrier, named};
pub use warpsmith_macro::{
    AnyBits, KernelValue, WarpValue, foreign_kernels, gpu_print, gpu_println, kernel, loops, ptx, test,
};

/// Prints the place in the source, an expression and its value, and gives the value: `dbg!` for kernels.
///
/// The value is one that `gpu_println!` prints with `{:#?}`. Several values give a tuple, none prints the place alone.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// #[kernel]
/// fn squares(mut y: GridSliceMut<u32>) {
///     let i = global_idx();
///     if let Some(y) = y.get_mut(&i) {
///         *y = gpu_dbg!(*y * *y) + 1; // prints "[src/main.rs:7:14] *y * *y = 9"
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// # let stream = Device::cpu().stream()?;
/// let mut y = stream.to_device(&[3u32])?;
/// squares::launch(&stream, LaunchConfig::for_len(1), &mut y)?;
/// assert_eq!(stream.to_host(&y)?, [10]);
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! gpu_dbg {
    () => {
        $crate::__private::gpu_dbg_line!()
    };
    ($value:expr $(,)?) => {
        match $value {
            value => {
                $crate::__private::gpu_dbg_line!(::core::stringify!($value), value);
                value
            }
        }
    };
    ($($value:expr),+ $(,)?) => {
        ($($crate::gpu_dbg!($value)),+,)
    };
}

/// What the code that `#[kernel]` writes is made of; not for other code, and without promises between versions.
#[doc(hidden)]
pub mod __private {
    pub use warpsmith_device::abi::*;
    pub use warpsmith_device::bits::AnyBits;
    pub use warpsmith_device::warp::{LaneBits, WarpValue};
    pub use warpsmith_device::{asm, cast, print, shape};
    pub use warpsmith_macro::gpu_dbg_line;

    pub use crate::kernel::KernelInstance;
    pub use crate::launch::{ForeignLaunch, Launch};
    pub use crate::testing;
}
