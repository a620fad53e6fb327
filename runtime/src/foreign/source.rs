//! Where the code of a declared type comes from.

use super::module::ForeignModule;
use crate::device::Device;
use crate::error::Result;

/// What may stand in the `from (..)` of [`foreign_kernels!`](crate::foreign_kernels!): bytes or text of a module, or a closure that
/// gives one for a device.
pub trait ForeignSource {
    /// Loads the module.
    ///
    /// # Errors
    /// As [`ForeignModule::load`], or those of the closure.
    fn load(self, device: &Device) -> Result<ForeignModule>;
}

impl ForeignSource for &str {
    fn load(self, device: &Device) -> Result<ForeignModule> {
        ForeignModule::load(device, self)
    }
}

impl ForeignSource for &[u8] {
    fn load(self, device: &Device) -> Result<ForeignModule> {
        ForeignModule::load(device, self)
    }
}

impl<const N: usize> ForeignSource for &[u8; N] {
    fn load(self, device: &Device) -> Result<ForeignModule> {
        ForeignModule::load(device, self)
    }
}

impl<F: FnOnce(&Device) -> Result<ForeignModule>> ForeignSource for F {
    fn load(self, device: &Device) -> Result<ForeignModule> {
        self(device)
    }
}
