//! What the driver tells about GPUs before a context is opened on them.

use std::ffi::{CStr, c_char, c_int};

use cudarc::driver::sys::{CUdevice, CUuuid};

use super::{Driver, check};
use crate::driver::Functions;
use crate::error::DriverError;

/// Bytes for a PCI bus id with its NUL: `domain:bus:device.function`, of which drivers write 12 or 16.
const PCI_BUS_ID_BYTES: usize = 32;

impl Driver {
    /// The driver's handle of a GPU.
    pub(crate) fn device(&self, ordinal: usize) -> Result<CUdevice, DriverError> {
        let mut device: CUdevice = 0;
        // A number that does not fit is one that no GPU has, as -1 is.
        let ordinal = c_int::try_from(ordinal).unwrap_or(-1);
        // SAFETY: it writes one number.
        unsafe { call!(&self.functions, cuDeviceGet(&raw mut device, ordinal)) }?;
        Ok(device)
    }

    /// The GPU with a PCI bus id, in the driver's own spelling or any that it reads.
    pub(crate) fn device_by_pci_bus_id(&self, id: &CStr) -> Result<CUdevice, DriverError> {
        let mut device: CUdevice = 0;
        // SAFETY: it reads a NUL-terminated text and writes one number.
        unsafe { call!(&self.functions, cuDeviceGetByPCIBusId(&raw mut device, id.as_ptr())) }?;
        Ok(device)
    }

    pub(crate) fn device_name(&self, device: CUdevice) -> Result<String, DriverError> {
        let mut text = [0u8; 256];
        // SAFETY: the driver writes at most 256 bytes, with a NUL.
        unsafe { call!(&self.functions, cuDeviceGetName(text.as_mut_ptr().cast(), 256, device)) }?;
        Ok(until_nul(&text))
    }

    /// The attribute with this number in `cuda.h`.
    pub(crate) fn device_attribute(&self, device: CUdevice, number: u32) -> Result<i32, DriverError> {
        let mut value: c_int = 0;
        // SAFETY: it writes one number; the driver answers numbers that it does not know with an error.
        unsafe { call!(&self.functions, cuDeviceGetAttribute(&raw mut value, number, device)) }?;
        Ok(value)
    }

    pub(crate) fn device_uuid(&self, device: CUdevice) -> Result<[u8; 16], DriverError> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: it writes 16 bytes.
        unsafe { call!(&self.functions, cuDeviceGetUuid_v2(&raw mut uuid, device)) }?;
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    pub(crate) fn device_pci_bus_id(&self, device: CUdevice) -> Result<String, DriverError> {
        let mut text = [0u8; PCI_BUS_ID_BYTES];
        let (start, bytes) = (text.as_mut_ptr().cast::<c_char>(), PCI_BUS_ID_BYTES as c_int);
        // SAFETY: the driver writes at most that many bytes, with a NUL.
        unsafe { call!(&self.functions, cuDeviceGetPCIBusId(start, bytes, device)) }?;
        Ok(until_nul(&text))
    }

    /// Bytes of memory in all.
    pub(crate) fn device_total_memory(&self, device: CUdevice) -> Result<u64, DriverError> {
        let mut bytes = 0usize;
        // SAFETY: it writes one number.
        unsafe { call!(&self.functions, cuDeviceTotalMem_v2(&raw mut bytes, device)) }?;
        Ok(bytes as u64)
    }
}

fn until_nul(text: &[u8]) -> String {
    CStr::from_bytes_until_nul(text).map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}
