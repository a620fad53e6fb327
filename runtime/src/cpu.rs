//! The CPU executor: runs a kernel's grid on the host's cores.
//!
//! Blocks run in parallel on the calling thread and rayon's pool, in ascending order, so that a block may wait for what lower blocks do. The
//! threads of a block run one after another on one core: as plain calls when the kernel has no barrier and no warp
//! operation, else as coroutines that change places where threads meet. Because one core runs the whole block, a
//! thread that spins until another thread of its block writes something never gets it; barriers and warp operations
//! are the way to wait.
//!
//! The blocks of a cluster are alive at once, on one core, and so are those of a cooperative launch: each core has its share
//! of them and turns from one to the next where they wait for others. So there, a thread that spins for what another block writes may never get it either.

use std::backtrace::Backtrace;
use std::sync::Arc;

use warpsmith_device::Dim3;
use warpsmith_device::host::{ConstantValues, Context, Joins, LaunchScope, Output};

use self::schedule::Schedule;

mod block;
mod cores;
mod coroutine;
mod faults;
mod gang;
mod grid;
mod named;
mod order;
pub(crate) mod panics;
pub(crate) mod schedule;
mod sequential;
mod shared;
#[cfg(test)]
mod tests;

/// Stack of a thread that runs as a coroutine, in bytes, unless the launch says otherwise. Only touched pages count.
pub(crate) const DEFAULT_STACK_BYTES: usize = 256 * 1024;

/// One launch on the CPU executor. Geometry was checked before: no dimension is 0, and the block has at most 1024
/// threads.
pub(crate) struct CpuLaunch<'a> {
    /// The kernel's name, for messages.
    pub(crate) kernel: &'a str,
    /// Blocks of the grid.
    pub(crate) grid_dim: Dim3,
    /// Threads of a block.
    pub(crate) block_dim: Dim3,
    /// Dynamic shared memory of a block, in bytes.
    pub(crate) shared_bytes: usize,
    /// Whether the kernel may use a barrier or a warp operation. Saying so where it does not costs little; the other
    /// way round such an operation panics.
    pub(crate) needs_coroutines: bool,
    /// Which blocks may run as one where they run on all cores.
    pub(crate) joins: Joins,
    /// Blocks of a cluster, which the grid is a multiple of in each dimension.
    pub(crate) cluster_dim: Dim3,
    /// Whether its threads may wait for the whole grid, so that all of its blocks, at most [`resident_blocks`], are alive at
    /// once.
    pub(crate) cooperative: bool,
    /// Stack of a coroutine in bytes, [`DEFAULT_STACK_BYTES`] or more where a kernel asks for more.
    pub(crate) stack_bytes: usize,
    /// The order in which its blocks and threads go on, one after another on the calling thread; `None` where blocks run on
    /// all cores.
    pub(crate) schedule: Option<Schedule>,
    /// Whether it is checked: on the calling thread alone, inside of [`check::run`](crate::check::run).
    pub(crate) checked: bool,
    /// Takes what the threads print.
    pub(crate) output: &'a dyn Output,
    /// The constants that its threads see.
    pub(crate) constants: &'a dyn ConstantValues,
    /// Runs threads of blocks.
    pub(crate) body: &'a Body<'a>,
}

/// Runs so many threads from a thread of the context's block on, as [`Context::run_threads`] does.
pub(crate) type Body<'a> = dyn Fn(&mut Context<'_>, u32, u64) + Sync + 'a;

impl<'a> CpuLaunch<'a> {
    /// What its threads see of it.
    fn scope(&self) -> LaunchScope<'a> {
        // Others run block by block, or in an order that was asked for, or each with its own shared memory.
        let alone = self.schedule.is_some()
            || self.checked
            || self.cooperative
            || self.cluster_dim.count() > 1
            || self.shared_bytes > 0;
        LaunchScope {
            grid_dim: self.grid_dim,
            block_dim: self.block_dim,
            cluster_dim: self.cluster_dim,
            output: self.output,
            constants: self.constants,
            joins: if alone { Joins::default() } else { self.joins },
        }
    }
}

/// The first panic of a launch, or the first place where its threads could not go on.
#[derive(Clone, Debug)]
pub(crate) struct CpuPanic {
    /// What the panic said.
    pub(crate) message: String,
    /// Source file, empty when it is not known.
    pub(crate) file: String,
    /// Line, from 1.
    pub(crate) line: u32,
    /// Column, from 1.
    pub(crate) column: u32,
    /// The block.
    pub(crate) block: Dim3,
    /// The thread in its block.
    pub(crate) thread: Dim3,
    /// The calls that led there, where the environment asks for them. What they are called is looked up when they are printed.
    pub(crate) backtrace: Option<Arc<Backtrace>>,
}

/// How many blocks of so many threads a cooperative launch may have.
pub(crate) fn resident_blocks(threads: u32) -> u64 {
    coroutine::blocks_at_once(threads)
}

/// Why a cooperative launch may not have more than [`resident_blocks`], and what helps.
pub(crate) fn why_no_more(blocks: u64, threads: u32) -> String {
    coroutine::why_no_more(blocks, threads)
}

/// Runs a launch to its end and reports the panic of the lowest block, or the lowest cluster. Threads of blocks that have
/// started go on after one, and blocks with lower numbers run; blocks with higher numbers may be left out.
pub(crate) fn run(request: &CpuLaunch<'_>) -> Result<(), CpuPanic> {
    panics::install_hook();
    faults::install_handler();
    grid::run(request)
}
