//! How much of a multiprocessor a kernel's blocks fill, and what keeps more of them out.

use std::fmt;

/// How many blocks of a launch a multiprocessor holds at once, and what keeps more out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Blocks that a multiprocessor holds at once; 0 when it does not hold one.
    pub blocks_per_multiprocessor: u32,
    /// Warps of these blocks.
    pub warps_per_multiprocessor: u32,
    /// Warps that a multiprocessor can hold.
    pub max_warps_per_multiprocessor: u32,
    /// What keeps one more block out.
    pub bound: OccupancyBound,
}

impl Occupancy {
    /// The share of the warps that a multiprocessor can hold, from 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        f64::from(self.warps_per_multiprocessor) / f64::from(self.max_warps_per_multiprocessor.max(1))
    }
}

impl fmt::Display for Occupancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} blocks, {} of {} warps ({:.0} %), bounded by {}",
            self.blocks_per_multiprocessor,
            self.warps_per_multiprocessor,
            self.max_warps_per_multiprocessor,
            100.0 * self.fraction(),
            self.bound
        )
    }
}

/// What bounds the number of blocks on a multiprocessor. Where several do alike, the first in this order is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OccupancyBound {
    /// The threads that may be resident: nothing more is to be had.
    Threads,
    /// The blocks that may be resident: larger blocks would fill more.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory, static and dynamic.
    SharedMemory,
}

impl fmt::Display for OccupancyBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Threads => "threads",
            Self::Blocks => "blocks",
            Self::Registers => "registers",
            Self::SharedMemory => "shared memory",
        })
    }
}

/// What a multiprocessor has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Multiprocessor {
    pub(crate) threads: u32,
    pub(crate) blocks: u32,
    pub(crate) registers: u32,
    pub(crate) shared_bytes: u32,
    /// What the system keeps of each block's shared memory.
    pub(crate) reserved_shared_bytes: u32,
}

/// What a block takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) threads: u32,
    /// 0 where it is not known.
    pub(super) registers_per_thread: u32,
    pub(super) shared_bytes: u32,
}

const WARP: u32 = 32;

impl Multiprocessor {
    /// How many blocks there is room for by each of the things that bound them.
    fn room(&self, block: Block) -> [(OccupancyBound, u32); 4] {
        /// Registers are given to a warp in such steps, and warps run on four parts that have registers of their own, on all GPUs that
        /// are supported.
        const REGISTER_STEP: u32 = 256;
        const PARTS: u32 = 4;
        const SHARED_STEP: u32 = 128;
        let warps = block.threads.div_ceil(WARP).max(1);
        let registers = (block.registers_per_thread * WARP).next_multiple_of(REGISTER_STEP);
        let shared = (block.shared_bytes + self.reserved_shared_bytes).next_multiple_of(SHARED_STEP);
        let over = |all: u32, each: u32| all.checked_div(each).unwrap_or(u32::MAX);
        let warps_with_registers = over(self.registers, registers) / PARTS * PARTS;
        [
            (OccupancyBound::Threads, self.threads / WARP / warps),
            (OccupancyBound::Blocks, self.blocks),
            (OccupancyBound::Registers, warps_with_registers / warps),
            (OccupancyBound::SharedMemory, over(self.shared_bytes, shared)),
        ]
    }

    /// The report, with as many blocks as `counted` says or, where nobody counted, as there is room for.
    pub(super) fn occupancy(&self, block: Block, counted: Option<u32>) -> Occupancy {
        let room = self.room(block);
        // `min_by_key` gives the first of several.
        let (bound, least) = room.into_iter().min_by_key(|(_, blocks)| *blocks).expect("there are four bounds");
        let blocks = counted.unwrap_or(least);
        Occupancy {
            blocks_per_multiprocessor: blocks,
            warps_per_multiprocessor: blocks * block.threads.div_ceil(WARP),
            max_warps_per_multiprocessor: self.threads / WARP,
            bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOPPER: Multiprocessor = Multiprocessor {
        threads: 2048,
        blocks: 32,
        registers: 65_536,
        shared_bytes: 228 << 10,
        reserved_shared_bytes: 1 << 10,
    };

    #[test]
    fn the_bound_is_the_scarcest() {
        let of = |threads, registers_per_thread, shared_bytes| {
            let occupancy = HOPPER.occupancy(Block { threads, registers_per_thread, shared_bytes }, None);
            (occupancy.blocks_per_multiprocessor, occupancy.bound)
        };
        assert_eq!(of(256, 32, 0), (8, OccupancyBound::Threads));
        assert_eq!(of(32, 32, 0), (32, OccupancyBound::Blocks));
        assert_eq!(of(256, 128, 0), (2, OccupancyBound::Registers));
        assert_eq!(of(256, 32, 100 << 10), (2, OccupancyBound::SharedMemory));
        // 65 threads are three warps, of which there are registers for 32.
        assert_eq!(of(65, 64, 0), (10, OccupancyBound::Registers));
        // For 17 warps there are registers, which are 16 on four parts.
        assert_eq!(of(32, 120, 0), (16, OccupancyBound::Registers));
        assert_eq!(of(1024, 255, 0), (0, OccupancyBound::Registers));
    }

    #[test]
    fn the_report_reads_well() {
        let block = Block { threads: 256, registers_per_thread: 128, shared_bytes: 0 };
        let occupancy = HOPPER.occupancy(block, Some(2));
        assert!((occupancy.fraction() - 0.25).abs() < 1e-9);
        assert_eq!(occupancy.to_string(), "2 blocks, 16 of 64 warps (25 %), bounded by registers");
    }
}
