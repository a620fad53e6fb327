//! A block of memory that a GPU reaches, of one of three kinds, and how each is freed.

use crate::driver::{GpuMemory, GpuStream, PinnedMemory};
use crate::error::DriverError;

/// A block of memory that a GPU reaches.
#[derive(Debug)]
pub(super) enum GpuBlock {
    /// The GPU's own memory.
    Device(GpuMemory),
    /// Page-locked memory of the host, which the GPU reaches over the bus.
    Mapped(PinnedMemory),
    /// Memory that moves to whoever uses it.
    Managed(GpuMemory),
}

impl GpuBlock {
    /// Where the GPU finds it.
    #[inline]
    pub(super) fn address(&self) -> u64 {
        match self {
            Self::Device(memory) | Self::Managed(memory) => memory.address(),
            Self::Mapped(memory) => memory.device(),
        }
    }

    /// Where the host finds it, where it does.
    pub(super) fn host_pointer(&self) -> Option<*mut u8> {
        match self {
            Self::Device(_) => None,
            Self::Mapped(memory) => Some(memory.host().as_ptr()),
            Self::Managed(memory) => {
                let address = usize::try_from(memory.address()).expect("addresses have 64 bits");
                Some(std::ptr::with_exposed_provenance_mut(address))
            }
        }
    }

    /// Leaves the memory to its owner.
    pub(super) fn forget(self) {
        match self {
            Self::Device(memory) | Self::Managed(memory) => memory.forget(),
            Self::Mapped(memory) => std::mem::forget(memory),
        }
    }

    /// Frees the memory after the work that `stream` has now.
    pub(super) fn free(self, stream: &GpuStream) -> Result<(), DriverError> {
        match self {
            Self::Device(memory) | Self::Managed(memory) => memory.free(stream),
            Self::Mapped(memory) => {
                let waited = stream.synchronize();
                if waited.as_ref().is_err_and(|error| !error.is_end()) {
                    // Work may still be under way: the memory is rather lost than given to somebody else.
                    std::mem::forget(memory);
                }
                waited
            }
        }
    }
}
