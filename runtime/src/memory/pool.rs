//! The pool that a device's buffers come from: its limit, its figures, and giving back what is free.

use std::sync::atomic::{AtomicU64, Ordering};

use super::storage::failed;
use crate::device::Device;
use crate::error::{MemoryError, Result};

/// Bytes that a device's buffers take, and how many they may.
#[derive(Debug)]
pub(crate) struct PoolAccount {
    used: AtomicU64,
    used_high: AtomicU64,
    /// `u64::MAX` where there is none.
    limit: AtomicU64,
}

impl Default for PoolAccount {
    fn default() -> Self {
        Self { used: AtomicU64::new(0), used_high: AtomicU64::new(0), limit: AtomicU64::new(u64::MAX) }
    }
}

impl PoolAccount {
    /// Counts an allocation, unless it would pass the limit.
    pub(crate) fn charge(&self, device: &Device, bytes: usize) -> Result<(), MemoryError> {
        let (requested, limit) = (bytes as u64, self.limit.load(Ordering::Relaxed));
        let add = |used: u64| used.checked_add(requested).filter(|&sum| sum <= limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(before) => {
                self.used_high.fetch_max(before + requested, Ordering::Relaxed);
                Ok(())
            }
            Err(used) => Err(MemoryError::PoolLimit { device: device.to_string(), requested, used, limit }),
        }
    }

    /// Takes an allocation off the count.
    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

/// What a device's pool holds, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Bytes that the pool has of the device, in use or kept for later allocations.
    pub reserved: u64,
    /// The most that it had of the device since the marks were last reset.
    pub reserved_high: u64,
    /// Bytes that are in use. On a GPU, memory whose free is still queued counts as used.
    pub used: u64,
    /// The most that were in use since the marks were last reset.
    pub used_high: u64,
}

/// The pool that a device's buffers come from: [`Device::memory_pool`].
///
/// On a GPU it is the driver's stream-ordered pool, one for each device and apart from other libraries' pools. A GPU without
/// pools and the CPU executor allocate each buffer by itself; limit and counts work there too, and nothing is kept.
///
/// # Examples
/// ```
/// use warpsmith::{Error, MemoryError, Schedule, prelude::*};
///
/// let device = Device::cpu_scheduled(Schedule::Reversed);
/// let stream = device.stream()?;
/// let pool = device.memory_pool();
/// pool.set_limit(Some(1000));
/// let first = stream.zeroed::<u8>(600)?;
/// let refused = stream.zeroed::<u8>(600).unwrap_err();
/// assert!(matches!(refused, Error::Memory(MemoryError::PoolLimit { requested: 600, used: 600, limit: 1000, .. })));
/// drop(first);
/// assert_eq!((pool.statistics()?.used, pool.statistics()?.used_high), (0, 600));
/// # Ok::<(), warpsmith::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryPool {
    device: Device,
}

impl Device {
    /// The pool that this device's buffers come from.
    #[must_use]
    pub fn memory_pool(&self) -> MemoryPool {
        MemoryPool { device: self.clone() }
    }
}

impl MemoryPool {
    /// Most bytes that the device's buffers may take together; `None` where only the device's memory is the limit.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        let limit = self.device.pool_account().limit.load(Ordering::Relaxed);
        (limit != u64::MAX).then_some(limit)
    }

    /// Sets the limit: an allocation that would take the device's buffers past it is refused. What there is stays, also where
    /// it is more. It counts the bytes that buffers of this program ask for, as they are made and dropped; mapped, managed and
    /// pinned memory does not count.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.device.pool_account().limit.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What the pool holds now.
    ///
    /// # Errors
    /// [`MemoryError::Driver`] when the driver does not answer.
    pub fn statistics(&self) -> Result<PoolStatistics> {
        let pool = self.device.parts().and_then(|parts| parts.pool.as_ref());
        if let Some(pool) = pool {
            let figures = pool.figures().map_err(|source| failed("asking for a pool's figures", 0, source))?;
            let crate::driver::PoolFigures { reserved, reserved_high, used, used_high } = figures;
            return Ok(PoolStatistics { reserved, reserved_high, used, used_high });
        }
        let account = self.device.pool_account();
        let (used, used_high) = (account.used.load(Ordering::Relaxed), account.used_high.load(Ordering::Relaxed));
        Ok(PoolStatistics { reserved: used, reserved_high: used_high, used, used_high })
    }

    /// Sets the high-water marks to what is reserved and used now.
    ///
    /// # Errors
    /// [`MemoryError::Driver`] when the driver does not answer.
    pub fn reset_high_water_marks(&self) -> Result<()> {
        let account = self.device.pool_account();
        account.used_high.store(account.used.load(Ordering::Relaxed), Ordering::Relaxed);
        if let Some(pool) = self.device.parts().and_then(|parts| parts.pool.as_ref()) {
            let reset = pool.reset_high_water_marks();
            reset.map_err(|source| failed("resetting a pool's high-water marks", 0, source))?;
        }
        Ok(())
    }

    /// Gives memory that is free back to the device, except `keep` bytes of it. Memory whose free is still queued on a stream
    /// is not free yet: synchronise the stream first.
    ///
    /// # Errors
    /// [`MemoryError::Driver`] when the driver refuses.
    pub fn trim(&self, keep: usize) -> Result<()> {
        if let Some(pool) = self.device.parts().and_then(|parts| parts.pool.as_ref()) {
            pool.trim_to(keep).map_err(|source| failed("trimming a pool to a rest", keep, source))?;
        }
        Ok(())
    }
}
