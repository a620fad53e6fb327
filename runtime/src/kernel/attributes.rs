//! What a kernel's code takes: registers, memory, and the sizes that it was compiled for.

use crate::device::ComputeCapability;

/// What a loaded kernel takes and allows.
///
/// What only a GPU's compiler knows is `None` on the CPU executor.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelAttributes {
    /// Registers of a thread, of 32 bits each.
    pub registers: Option<u32>,
    /// Bytes of shared memory that the kernel declares, for each block.
    pub shared_bytes: u32,
    /// Bytes of constant memory of the kernel's module.
    pub constant_bytes: Option<u32>,
    /// Bytes of local memory of each thread: its stack, and registers that did not fit.
    pub local_bytes: Option<u32>,
    /// Most threads of a block.
    pub max_threads_per_block: u32,
    /// The architecture that the PTX was made for.
    pub ptx_architecture: Option<ComputeCapability>,
    /// The architecture of the machine code that runs.
    pub binary_architecture: Option<ComputeCapability>,
    /// Most bytes of dynamic shared memory of a launch. All that the device has beside [`shared_bytes`](Self::shared_bytes) is asked
    /// for when the kernel is loaded, so launches with more than 48 KiB need nothing else.
    pub max_dynamic_shared_bytes: u32,
    /// How the memory that shared memory and the first-level cache have in common is divided for this kernel.
    pub shared_carveout: Option<SharedCarveout>,
}

/// How a multiprocessor's memory is divided between shared memory and the first-level cache while a kernel runs. A wish: the driver
/// gives at least the shared memory that a launch needs.
///
/// # Source
/// CUDA driver API, `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedCarveout {
    /// The driver chooses.
    #[default]
    Default,
    /// As much cache as can be.
    MaxCache,
    /// As much shared memory as can be.
    MaxShared,
    /// So many hundredths of the most shared memory, up to 100.
    Percent(u8),
}

impl SharedCarveout {
    /// The driver's number.
    pub(super) const fn number(self) -> i32 {
        match self {
            Self::Default => -1,
            Self::MaxCache => 0,
            Self::MaxShared => 100,
            Self::Percent(percent) => percent as i32,
        }
    }

    /// What the driver's number means.
    pub(super) fn from_number(number: i32) -> Self {
        match number {
            0 => Self::MaxCache,
            100 => Self::MaxShared,
            _ => u8::try_from(number).map_or(Self::Default, Self::Percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carveout_is_the_drivers_number_and_back() {
        for carveout in
            [SharedCarveout::Default, SharedCarveout::MaxCache, SharedCarveout::MaxShared, SharedCarveout::Percent(37)]
        {
            assert_eq!(SharedCarveout::from_number(carveout.number()), carveout);
        }
        assert_eq!(SharedCarveout::Percent(100).number(), SharedCarveout::MaxShared.number());
    }
}
