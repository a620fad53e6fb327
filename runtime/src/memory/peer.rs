//! Copies between devices: two GPUs over the bus between them, and the CPU executor's memory and a GPU's.

use std::mem::size_of;

use warpsmith_device::abi::KernelValue;

use super::slice::{DeviceSlice, DeviceSliceMut, check_lengths};
use super::storage::failed;
use super::uses::Access;
use crate::device::Device;
use crate::error::{MemoryError, Result};
use crate::stream::Stream;

impl Device {
    /// Whether this GPU can reach another's memory, so that copies between them go directly; false for the CPU executor and for
    /// one and the same device.
    ///
    /// # Errors
    /// [`MemoryError::Driver`] when the driver does not answer.
    pub fn can_access_peer(&self, peer: &Self) -> Result<bool> {
        let (Some(own), Some(other)) = (self.parts(), peer.parts()) else { return Ok(false) };
        if self == peer {
            return Ok(false);
        }
        Ok(own.gpu.can_access_peer(&other.gpu).map_err(|source| failed("asking for access to a peer", 0, source))?)
    }

    /// Lets this GPU reach the memory of another's context and pool, so that copies between them need no detour over the host.
    /// Without it [`Stream::copy_from_peer`] copies all the same.
    ///
    /// # Errors
    /// [`MemoryError::Unsupported`] where [`can_access_peer`](Self::can_access_peer) says that it cannot, and
    /// [`MemoryError::Driver`] when the driver refuses.
    pub fn enable_peer_access(&self, peer: &Self) -> Result<()> {
        let (Some(own), Some(other)) = (self.parts(), peer.parts()) else {
            return Err(self.no_peer(peer, "only two GPUs reach each other; copy with `Stream::copy_from_peer`"));
        };
        if !self.can_access_peer(peer)? {
            return Err(
                self.no_peer(peer, "these two do not reach each other; `Stream::copy_from_peer` copies all the same")
            );
        }
        let enabled = own.gpu.enable_peer_access(&other.gpu);
        let enabled = enabled.and_then(|()| other.pool.as_ref().map_or(Ok(()), |pool| pool.let_peer_access(&own.gpu)));
        Ok(enabled.map_err(|source| failed("enabling access to a peer", 0, source))?)
    }

    fn no_peer(&self, peer: &Self, reason: &'static str) -> crate::Error {
        MemoryError::Unsupported { what: "access to a peer's memory", device: format!("{self} for {peer}"), reason }
            .into()
    }
}

impl Stream {
    /// Copies elements from another device's memory to a buffer of this stream's device, or a part of one.
    ///
    /// Between two GPUs the copy is work of this stream: it waits for what wrote the source, and later work on the source's
    /// device that writes it waits for the copy. Between the CPU executor and a GPU, and between two executors, it goes through
    /// the host and is over when this returns. Within one device it is a copy as any other.
    ///
    /// # Errors
    /// [`MemoryError::LengthMismatch`] when the lengths differ, [`MemoryError::OtherDevice`] when the destination is not of this
    /// stream's device; through the host also what the source's work did wrong.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::{Schedule, prelude::*};
    ///
    /// let (one, other) = (Device::cpu().stream()?, Device::cpu_scheduled(Schedule::Reversed).stream()?);
    /// let source = one.to_device(&[1u32, 2, 3])?;
    /// let mut copy = other.zeroed::<u32>(3)?;
    /// other.copy_from_peer(&source, &mut copy)?;
    /// assert_eq!(other.to_host(&copy)?, [1, 2, 3]);
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn copy_from_peer<'a, 'b, T: KernelValue>(
        &self,
        source: impl Into<DeviceSlice<'a, T>>,
        destination: impl Into<DeviceSliceMut<'b, T>>,
    ) -> Result<()> {
        let (source, mut destination) = (source.into(), destination.into());
        check_lengths(source.len(), destination.len())?;
        self.check_device(destination.storage())?;
        if source.device() == self.device() {
            return destination.copy_from_device(self, source);
        }
        if source.device().is_gpu() && self.device().is_gpu() {
            let (to, bytes) = (destination.offset(), source.len() * size_of::<T>());
            let from = (source.storage(), source.offset());
            // SAFETY: both slices are inside their storages and of one length, the destination borrowed by nobody else.
            return unsafe { destination.storage().copy_from_peer(self, Access::Shared, to, from, bytes) };
        }
        let elements = source.to_host(&source.device().stream()?)?;
        destination.copy_from_host(self, &elements)
    }
}
