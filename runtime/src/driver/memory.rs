//! Memory beyond plain device buffers: managed and registered memory, pools' figures, pitched, peer and pattern operations.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null;
use std::sync::{Arc, PoisonError};

use cudarc::driver::sys::CUdeviceptr;

use super::{Functions, Gpu, GpuMemory, GpuPool, GpuStream, check, code, whole_words};
use crate::error::DriverError;

/// `CUmemorytype`: memory of the host.
const HOST: c_uint = 1;
/// `CUmemorytype`: memory of a device.
const DEVICE: c_uint = 2;

/// `CUDA_MEMCPY2D`: a copy of rows, sizes in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Memcpy2d {
    source_x: usize,
    source_y: usize,
    source_type: c_uint,
    source_host: *const c_void,
    source_device: CUdeviceptr,
    source_array: *const c_void,
    source_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_type: c_uint,
    to_host: *const c_void,
    to_device: CUdeviceptr,
    to_array: *const c_void,
    to_pitch: usize,
    width: usize,
    height: usize,
}

impl Memcpy2d {
    /// A copy of `height` rows of `width` bytes, whose two sides are still to be set.
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Self {
            source_x: 0,
            source_y: 0,
            source_type: 0,
            source_host: null(),
            source_device: 0,
            source_array: null(),
            source_pitch: 0,
            to_x: 0,
            to_y: 0,
            to_type: 0,
            to_host: null(),
            to_device: 0,
            to_array: null(),
            to_pitch: 0,
            width,
            height,
        }
    }

    pub(crate) fn with_host_source(self, source: *const u8, pitch: usize) -> Self {
        Self { source_type: HOST, source_host: source.cast(), source_pitch: pitch, ..self }
    }

    pub(crate) fn with_source(self, source: u64, pitch: usize) -> Self {
        Self { source_type: DEVICE, source_device: source, source_pitch: pitch, ..self }
    }

    pub(crate) fn into_host(self, to: *mut u8, pitch: usize) -> Self {
        Self { to_type: HOST, to_host: to.cast_const().cast(), to_pitch: pitch, ..self }
    }

    pub(crate) fn into_device(self, to: u64, pitch: usize) -> Self {
        Self { to_type: DEVICE, to_device: to, to_pitch: pitch, ..self }
    }
}

/// `CUmemAccessDesc`: who may reach a pool's memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PoolAccess {
    location_type: c_uint,
    location_id: c_int,
    flags: c_uint,
}

/// What a pool says about itself, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolFigures {
    pub(crate) reserved: u64,
    pub(crate) reserved_high: u64,
    pub(crate) used: u64,
    pub(crate) used_high: u64,
}

impl GpuPool {
    const RESERVED_CURRENT: c_uint = 5;
    const RESERVED_HIGH: c_uint = 6;
    const USED_CURRENT: c_uint = 7;
    const USED_HIGH: c_uint = 8;

    pub(crate) fn figures(&self) -> Result<PoolFigures, DriverError> {
        self.gpu.bind()?;
        let get = |attribute: c_uint| {
            let mut value = 0u64;
            // SAFETY: the attribute is a `u64`.
            unsafe {
                call!(self.gpu.functions(), cuMemPoolGetAttribute(self.pool, attribute, (&raw mut value).cast()))
            }?;
            Ok::<u64, DriverError>(value)
        };
        Ok(PoolFigures {
            reserved: get(Self::RESERVED_CURRENT)?,
            reserved_high: get(Self::RESERVED_HIGH)?,
            used: get(Self::USED_CURRENT)?,
            used_high: get(Self::USED_HIGH)?,
        })
    }

    /// Sets the high-water marks to what is reserved and used now.
    pub(crate) fn reset_high_water_marks(&self) -> Result<(), DriverError> {
        self.gpu.bind()?;
        for attribute in [Self::RESERVED_HIGH, Self::USED_HIGH] {
            let mut zero = 0u64;
            // SAFETY: the attribute is a `u64`.
            unsafe {
                call!(self.gpu.functions(), cuMemPoolSetAttribute(self.pool, attribute, (&raw mut zero).cast()))
            }?;
        }
        Ok(())
    }

    /// Gives free memory back to the device, except so many bytes.
    pub(crate) fn trim_to(&self, keep: usize) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: the handle is valid.
        unsafe { call!(self.gpu.functions(), cuMemPoolTrimTo(self.pool, keep)) }
    }

    /// Lets another GPU reach the pool's memory.
    pub(crate) fn let_peer_access(&self, peer: &Gpu) -> Result<(), DriverError> {
        const ON_DEVICE: c_uint = 1;
        const READ_WRITE: c_uint = 3;
        self.gpu.bind()?;
        let access = PoolAccess { location_type: ON_DEVICE, location_id: peer.context.cu_device(), flags: READ_WRITE };
        // SAFETY: it reads one description.
        unsafe { call!(self.gpu.functions(), cuMemPoolSetAccess(self.pool, &raw const access, 1)) }
    }
}

impl Gpu {
    /// Whether this GPU can reach the memory of another.
    pub(crate) fn can_access_peer(&self, peer: &Self) -> Result<bool, DriverError> {
        let mut can: c_int = 0;
        let (own, other) = (self.context.cu_device(), peer.context.cu_device());
        // SAFETY: it writes one number.
        unsafe { call!(self.functions(), cuDeviceCanAccessPeer(&raw mut can, own, other)) }?;
        Ok(can != 0)
    }

    /// Lets this GPU reach the memory of another's context.
    pub(crate) fn enable_peer_access(&self, peer: &Self) -> Result<(), DriverError> {
        self.bind()?;
        // Held meanwhile, so that two threads do not both ask.
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        // A context that is gone took the access along, and another one may have its handle now.
        peers.retain(|known| known.strong_count() != 0);
        if peers.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&peer.context))) {
            return Ok(());
        }
        // SAFETY: both contexts are kept valid by their owners.
        match unsafe { call!(self.functions(), cuCtxEnablePeerAccess(peer.context.cu_ctx(), 0)) } {
            // By another library, or before this device was opened anew.
            Err(error) if error.code == code::PEER_ACCESS_ALREADY_ENABLED => {}
            other => other?,
        }
        peers.push(Arc::downgrade(&peer.context));
        Ok(())
    }
}

impl GpuMemory {
    /// Managed memory, which host and GPU reach at one address; at least one byte.
    pub(crate) fn managed(gpu: &Arc<Gpu>, bytes: usize) -> Result<Self, DriverError> {
        const ATTACH_GLOBAL: c_uint = 1;
        gpu.bind()?;
        let mut address: CUdeviceptr = 0;
        // SAFETY: it writes one address.
        unsafe { call!(gpu.functions(), cuMemAllocManaged(&raw mut address, whole_words(bytes), ATTACH_GLOBAL)) }?;
        Ok(Self { gpu: Arc::clone(gpu), address, pool: None, is_foreign: false })
    }
}

/// Page-locks memory of the host for as long as it lives.
#[derive(Debug)]
pub(crate) struct Registration {
    gpu: Arc<Gpu>,
    start: *mut c_void, // Invariant: registered until drop.
}

// SAFETY: the address belongs to no thread, and nothing is read through it here.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers memory of the host, at least one byte.
    ///
    /// # Safety
    /// The memory stays allocated until the registration is dropped.
    pub(crate) unsafe fn new(gpu: &Arc<Gpu>, start: *mut u8, bytes: usize) -> Result<Self, DriverError> {
        const PORTABLE: c_uint = 1;
        gpu.bind()?;
        let start = start.cast::<c_void>();
        // SAFETY: the caller answers for the memory.
        unsafe { call!(gpu.functions(), cuMemHostRegister_v2(start, bytes, PORTABLE)) }?;
        Ok(Self { gpu: Arc::clone(gpu), start })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: the memory was registered and is still allocated.
            let _ = unsafe { call!(self.gpu.functions(), cuMemHostUnregister(self.start)) };
        }
    }
}

impl GpuStream {
    /// Copies rows in stream order.
    ///
    /// # Safety
    /// The rows of the source are readable, those of the destination writable in stream order, host sides until the copy is
    /// done, and they do not overlap.
    pub(crate) unsafe fn copy_rows(&self, copy: &Memcpy2d) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: the caller answers for both sides.
        unsafe { call!(self.functions(), cuMemcpy2DAsync_v2(&raw const *copy, self.stream.cu_stream())) }
    }

    /// Copies from another GPU's memory in this stream's order.
    ///
    /// # Safety
    /// `from` is readable for `bytes` bytes on `peer`, and `to` writable for as many, both in stream order.
    pub(crate) unsafe fn copy_from_peer(
        &self,
        to: u64,
        peer: &Gpu,
        from: u64,
        bytes: usize,
    ) -> Result<(), DriverError> {
        self.gpu.bind()?;
        let (own, other) = (self.gpu.context.cu_ctx(), peer.context.cu_ctx());
        let stream = self.stream.cu_stream();
        // SAFETY: the caller answers for both sides; the contexts are kept valid by their owners.
        unsafe { call!(self.functions(), cuMemcpyPeerAsync(to, own, from, other, bytes, stream)) }
    }

    /// Sets elements of 2 bytes in stream order.
    ///
    /// # Safety
    /// `to` is aligned to 2 bytes and writable for `count` elements in stream order.
    pub(crate) unsafe fn set_halves(&self, to: u64, value: u16, count: usize) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: the caller answers for the memory.
        unsafe { call!(self.functions(), cuMemsetD16Async(to, value, count, self.stream.cu_stream())) }
    }

    /// Sets elements of 4 bytes in stream order.
    ///
    /// # Safety
    /// `to` is aligned to 4 bytes and writable for `count` elements in stream order.
    pub(crate) unsafe fn set_words(&self, to: u64, value: u32, count: usize) -> Result<(), DriverError> {
        self.gpu.bind()?;
        // SAFETY: the caller answers for the memory.
        unsafe { call!(self.functions(), cuMemsetD32Async(to, value, count, self.stream.cu_stream())) }
    }
}
