//! What is known of each GPU of the machine, before one is chosen.

use std::ffi::CString;
use std::fmt;

use cudarc::driver::sys::CUdevice;

use super::{ComputeCapability, Device, DeviceAttribute, DeviceUuid};
use crate::driver::Driver;
use crate::error::{DeviceError, DriverError, Result, Version};

/// What the driver tells about a GPU. Asking opens no context, so it takes no memory of the GPU.
///
/// # Examples
/// ```
/// use warpsmith::DeviceInfo;
///
/// for gpu in DeviceInfo::all()? {
///     println!("{gpu}"); // GPU 0: NVIDIA H200, compute capability 9.0, 132 multiprocessors, ..
/// }
/// # Ok::<(), warpsmith::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The GPU's number, from 0, as `CUDA_VISIBLE_DEVICES` orders them.
    pub ordinal: usize,
    /// The name that its maker gives it.
    pub name: String,
    /// The UUID: of the GPU, or of its part where it is divided.
    pub uuid: DeviceUuid,
    /// Where it is on the PCI bus: `0000:3b:00.0`, domain, bus, device and function in hexadecimal digits.
    pub pci_bus_id: String,
    /// The version of its instruction set.
    pub capability: ComputeCapability,
    /// Bytes of memory in all.
    pub total_memory_bytes: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of its second-level cache.
    pub l2_bytes: u32,
    /// Highest clock rate of the multiprocessors in kilohertz.
    pub clock_khz: u32,
    /// Highest clock rate of the memory in kilohertz.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bus_bits: u32,
    /// Which processes may use it.
    pub compute_mode: ComputeMode,
}

/// Which processes may open a context on a GPU, as its administrator has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ComputeMode {
    /// Any number of processes.
    Default,
    /// None: opening it fails.
    Prohibited,
    /// One process at a time.
    ExclusiveProcess,
    /// A mode that this crate does not know, as the driver numbers it.
    Other(i32),
}

impl ComputeMode {
    const fn from_number(number: i32) -> Self {
        match number {
            0 => Self::Default,
            2 => Self::Prohibited,
            3 => Self::ExclusiveProcess,
            other => Self::Other(other),
        }
    }
}

impl DeviceInfo {
    /// Every GPU that the driver sees, in the order of their numbers; none where there is no driver or no GPU.
    ///
    /// # Errors
    /// [`DeviceError`] when a driver is there but does not start, or does not answer.
    pub fn all() -> Result<Vec<Self>> {
        let driver = match Driver::get() {
            Ok(driver) => driver,
            Err(DeviceError::NoDriver { .. } | DeviceError::NoGpu { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        (0..driver.gpu_count()?).map(|ordinal| Self::of_ordinal(driver, ordinal)).collect()
    }

    /// Opens the GPU, as [`Device::gpu`] does.
    ///
    /// # Errors
    /// As for [`Device::gpu`].
    pub fn open(&self) -> Result<Device> {
        Device::gpu(self.ordinal)
    }

    fn of_ordinal(driver: &Driver, ordinal: usize) -> Result<Self> {
        let read = || Self::read(driver, ordinal, driver.device(ordinal)?);
        read().map_err(|source| unread(ordinal, source).into())
    }

    pub(super) fn read(driver: &Driver, ordinal: usize, device: CUdevice) -> Result<Self, DriverError> {
        let get = |attribute: DeviceAttribute| driver.device_attribute(device, attribute.number());
        let count = |attribute| get(attribute).map(|value| u32::try_from(value).unwrap_or(0));
        Ok(Self {
            ordinal,
            name: driver.device_name(device)?,
            uuid: DeviceUuid::from_bytes(driver.device_uuid(device)?),
            pci_bus_id: driver.device_pci_bus_id(device)?.to_ascii_lowercase(),
            capability: ComputeCapability {
                major: count(DeviceAttribute::ComputeCapabilityMajor)?,
                minor: count(DeviceAttribute::ComputeCapabilityMinor)?,
            },
            total_memory_bytes: driver.device_total_memory(device)?,
            multiprocessors: count(DeviceAttribute::MultiprocessorCount)?,
            l2_bytes: count(DeviceAttribute::L2CacheSize)?,
            clock_khz: count(DeviceAttribute::ClockRate)?,
            memory_clock_khz: count(DeviceAttribute::MemoryClockRate)?,
            memory_bus_bits: count(DeviceAttribute::GlobalMemoryBusWidth)?,
            compute_mode: ComputeMode::from_number(get(DeviceAttribute::ComputeMode)?),
        })
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ordinal, name, capability, multiprocessors, pci_bus_id, uuid, .. } = self;
        let gib = self.total_memory_bytes as f64 / (1u64 << 30) as f64;
        write!(
            f,
            "GPU {ordinal}: {name}, compute capability {capability}, {multiprocessors} multiprocessors, {gib:.1} GiB, PCI \
             {pci_bus_id}, {uuid}"
        )
    }
}

impl Device {
    /// Every GPU that the driver sees, opened, in the order of their numbers; none where there is no driver or no GPU.
    ///
    /// [`DeviceInfo::all`] tells about them without opening any.
    ///
    /// # Errors
    /// [`DeviceError`] when one cannot be opened.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let mut devices = Device::all()?;
    /// if devices.is_empty() {
    ///     devices.push(Device::cpu());
    /// }
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn all() -> Result<Vec<Self>> {
        DeviceInfo::all()?.iter().map(DeviceInfo::open).collect()
    }

    /// The GPU with this UUID.
    ///
    /// # Errors
    /// [`DeviceError::NoSuchUuid`] with the UUIDs there are when none has it, and as for [`Device::gpu`].
    pub fn with_uuid(uuid: DeviceUuid) -> Result<Self> {
        let driver = Driver::get()?;
        let mut known = Vec::new();
        for ordinal in 0..driver.gpu_count()? {
            let read = || driver.device_uuid(driver.device(ordinal)?);
            let each = DeviceUuid::from_bytes(read().map_err(|source| unread(ordinal, source))?);
            if each == uuid {
                return Self::gpu(ordinal);
            }
            known.push(each);
        }
        Err(DeviceError::NoSuchUuid { requested: uuid, known }.into())
    }

    /// The GPU at this place on the PCI bus: `0000:3b:00.0`, or any spelling that the driver reads.
    ///
    /// # Errors
    /// [`DeviceError::NoSuchPciBusId`] with the places there are when none is there, and as for [`Device::gpu`].
    pub fn with_pci_bus_id(pci_bus_id: &str) -> Result<Self> {
        let driver = Driver::get()?;
        let missing = |known: &[DeviceInfo]| DeviceError::NoSuchPciBusId {
            requested: pci_bus_id.to_owned(),
            known: known.iter().map(|gpu| gpu.pci_bus_id.clone()).collect(),
        };
        let infos = DeviceInfo::all()?;
        let Ok(text) = CString::new(pci_bus_id.trim()) else { return Err(missing(&infos).into()) };
        let Ok(device) = driver.device_by_pci_bus_id(&text) else { return Err(missing(&infos).into()) };
        for info in &infos {
            if driver.device(info.ordinal).map_err(|source| unread(info.ordinal, source))? == device {
                return info.open();
            }
        }
        Err(missing(&infos).into())
    }

    /// What the driver tells about the GPU; `None` for the CPU executor.
    #[must_use]
    pub fn info(&self) -> Option<&DeviceInfo> {
        self.parts().map(|parts| &*parts.info)
    }

    /// The GPU's UUID, or `None` for the CPU executor.
    #[must_use]
    pub fn uuid(&self) -> Option<DeviceUuid> {
        self.info().map(|info| info.uuid)
    }

    /// Where the GPU is on the PCI bus, as in `0000:3b:00.0`, or `None` for the CPU executor.
    #[must_use]
    pub fn pci_bus_id(&self) -> Option<&str> {
        self.info().map(|info| info.pci_bus_id.as_str())
    }
}

/// The CUDA version that the driver supports.
///
/// # Errors
/// [`DeviceError`] where there is no driver, or it does not start.
///
/// # Examples
/// ```
/// match warpsmith::driver_version() {
///     Ok(version) => println!("the driver supports CUDA {version}"),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub fn driver_version() -> Result<Version> {
    Ok(Driver::get()?.version())
}

fn unread(ordinal: usize, source: DriverError) -> DeviceError {
    DeviceError::Driver { ordinal, operation: "its properties could not be read", source }
}
