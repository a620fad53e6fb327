//! GPUs whose limits the CPU executor can take on.

use std::fmt;
use std::str::FromStr;

use warpsmith_device::Dim3;

use crate::device::{ComputeCapability, DeviceLimits};
use crate::kernel::Multiprocessor;

/// A GPU whose limits a launch on the CPU executor is held to: see [`Device::cpu_as`](crate::Device::cpu_as).
///
/// Each stands for its compute capability; what differs among the GPUs of one, the number of multiprocessors, is that of the GPU
/// named with it.
///
/// | profile | GPU | multiprocessors | threads and blocks on each | shared memory on each, of a block | clusters |
/// | --- | --- | --- | --- | --- | --- |
/// | `sm_75` | T4 | 40 | 1024, 16 | 64 KiB, 64 KiB | no |
/// | `sm_80` | A100 | 108 | 2048, 32 | 164 KiB, 163 KiB | no |
/// | `sm_86` | A10 | 72 | 1536, 16 | 100 KiB, 99 KiB | no |
/// | `sm_89` | L4 | 58 | 1536, 24 | 100 KiB, 99 KiB | no |
/// | `sm_90` | H200 | 132 | 2048, 32 | 228 KiB, 227 KiB | yes |
/// | `sm_100` | B200 | 148 | 2048, 32 | 228 KiB, 227 KiB | yes |
/// | `sm_120` | RTX 5090 | 170 | 1536, 24 | 100 KiB, 99 KiB | yes |
///
/// # Examples
/// ```
/// use warpsmith::GpuProfile;
///
/// let profile: GpuProfile = "sm_86".parse()?;
/// assert_eq!(profile, GpuProfile::SM_86);
/// assert_eq!(profile.capability().to_string(), "8.6");
/// # Ok::<(), warpsmith::ParseProfileError>(())
/// ```
/// # Source
/// CUDA C++ Programming Guide, "Compute Capabilities", the table of technical specifications. The rows of 7.5, 8.0, 8.6 and 9.0 were
/// compared with NVIDIA's CCCL, `cudax/__device/arch_traits.cuh`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GpuProfile {
    architecture: u32, // As in `sm_90`.
    gpu: &'static str,
    multiprocessors: u32,
    resident_threads: u32,
    resident_blocks: u32,
    /// Of a multiprocessor, in KiB; a block has one less where that is below the multiprocessor's.
    shared_kib: u32,
    block_shared_kib: u32,
}

/// A text that names no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no GPU; it can be {}", GpuProfile::ALL.map(|profile| format!("`{profile}`")).join(", "))]
pub struct ParseProfileError {
    text: String,
}

const fn profile(
    architecture: u32,
    gpu: &'static str,
    multiprocessors: u32,
    [resident_threads, resident_blocks]: [u32; 2],
    [shared_kib, block_shared_kib]: [u32; 2],
) -> GpuProfile {
    GpuProfile { architecture, gpu, multiprocessors, resident_threads, resident_blocks, shared_kib, block_shared_kib }
}

impl GpuProfile {
    /// Turing.
    pub const SM_75: Self = profile(75, "T4", 40, [1024, 16], [64, 64]);
    /// Ampere, for data centres.
    pub const SM_80: Self = profile(80, "A100", 108, [2048, 32], [164, 163]);
    /// Ampere.
    pub const SM_86: Self = profile(86, "A10", 72, [1536, 16], [100, 99]);
    /// Ada.
    pub const SM_89: Self = profile(89, "L4", 58, [1536, 24], [100, 99]);
    /// Hopper.
    pub const SM_90: Self = profile(90, "H200", 132, [2048, 32], [228, 227]);
    /// Blackwell, for data centres.
    pub const SM_100: Self = profile(100, "B200", 148, [2048, 32], [228, 227]);
    /// Blackwell.
    pub const SM_120: Self = profile(120, "RTX 5090", 170, [1536, 24], [100, 99]);

    /// All of them, the oldest first.
    pub const ALL: [Self; 7] =
        [Self::SM_75, Self::SM_80, Self::SM_86, Self::SM_89, Self::SM_90, Self::SM_100, Self::SM_120];

    /// The compute capability.
    #[must_use]
    pub const fn capability(&self) -> ComputeCapability {
        ComputeCapability { major: self.architecture / 10, minor: self.architecture % 10 }
    }

    /// What the GPU allows in a launch.
    #[must_use]
    pub const fn limits(&self) -> DeviceLimits {
        DeviceLimits {
            max_threads_per_block: 1024,
            max_block_dim: Dim3 { x: 1024, y: 1024, z: 64 },
            max_grid_dim: Dim3 { x: i32::MAX.unsigned_abs(), y: 65_535, z: 65_535 },
            max_shared_bytes: self.block_shared_kib << 10,
            max_registers: 65_536,
            warp_size: 32,
            multiprocessors: self.multiprocessors,
            max_threads_per_multiprocessor: self.resident_threads,
        }
    }

    /// What one of its multiprocessors has; registers bound nothing, as no kernel's are known.
    pub(crate) fn multiprocessor(&self) -> Multiprocessor {
        Multiprocessor {
            threads: self.resident_threads,
            blocks: self.resident_blocks,
            registers: u32::MAX,
            shared_bytes: self.shared_kib << 10,
            reserved_shared_bytes: self.reserved_shared_bytes(),
        }
    }

    /// What the system keeps of each block's shared memory, on GPUs where a block may not have all of it.
    fn reserved_shared_bytes(&self) -> u32 {
        if self.block_shared_kib < self.shared_kib { 1 << 10 } else { 0 }
    }

    /// How many blocks of so many threads and bytes of shared memory the GPU has room for at once.
    /// What registers take is not known here.
    pub(crate) fn resident_blocks(&self, threads: u32, shared_bytes: u64) -> u64 {
        let reserved = u64::from(self.reserved_shared_bytes());
        let by_threads = self.resident_threads / threads.next_multiple_of(32);
        let by_shared = match shared_bytes + reserved {
            0 => u64::MAX,
            each => (u64::from(self.shared_kib) << 10) / each,
        };
        u64::from(self.multiprocessors) * u64::from(by_threads.min(self.resident_blocks)).min(by_shared)
    }
}

/// As in `sm_90`.
impl fmt::Display for GpuProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.architecture)
    }
}

impl fmt::Debug for GpuProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.gpu)
    }
}

impl FromStr for GpuProfile {
    type Err = ParseProfileError;

    fn from_str(text: &str) -> Result<Self, ParseProfileError> {
        let found = Self::ALL.into_iter().find(|profile| profile.to_string() == text.trim().to_lowercase());
        found.ok_or_else(|| ParseProfileError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_is_printed_and_others_are_shown_what_there_is() {
        for profile in GpuProfile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert_eq!(" SM_75\n".parse(), Ok(GpuProfile::SM_75));
        let error = "sm_70".parse::<GpuProfile>().unwrap_err().to_string();
        assert!(error.starts_with("\"sm_70\" names no GPU; it can be `sm_75`, `sm_80`"), "{error}");
    }

    #[test]
    fn what_is_resident_is_bounded_by_threads_blocks_and_shared_memory() {
        // By hand from the table.
        assert_eq!(GpuProfile::SM_75.resident_blocks(256, 0), 40 * 4);
        assert_eq!(GpuProfile::SM_75.resident_blocks(32, 0), 40 * 16);
        assert_eq!(GpuProfile::SM_75.resident_blocks(32, 64 << 10), 40);
        assert_eq!(GpuProfile::SM_86.resident_blocks(1024, 0), 72);
        assert_eq!(GpuProfile::SM_86.resident_blocks(33, 24 << 10), 72 * 4);
        assert_eq!(GpuProfile::SM_90.resident_blocks(1, 0), 132 * 32);
        assert_eq!(GpuProfile::SM_90.resident_blocks(64, 227 << 10), 132);
    }
}
