//! Words in a GPU's own memory that kernels change by atomics.
//!
//! Over the bus a GPU has no atomics on the host's memory that hold for the host too, and tools that watch memory report those that say so.
//! What threads of kernels must agree on is therefore here, and what the host is to read of it goes into page-locked memory by stores.

use std::ffi::c_uint;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;

use super::{CUstream, DriverError, Functions, Gpu, check};
use crate::outside::{self, Inside};

/// Words in a GPU's own memory.
#[derive(Debug)]
pub(crate) struct DeviceWords {
    gpu: Arc<Gpu>,
    address: u64, // Invariant: an allocation of `count` words of the context.
    count: usize,
}

impl DeviceWords {
    /// So many words, one at least, all of them zero.
    pub(crate) fn zeroed(gpu: &Arc<Gpu>, count: usize) -> Result<Self, DriverError> {
        gpu.bind()?;
        let mut address: CUdeviceptr = 0;
        // SAFETY: it writes one address.
        unsafe { call!(gpu.functions(), cuMemAlloc_v2(&raw mut address, count * size_of::<u64>())) }?;
        let words = Self { gpu: Arc::clone(gpu), address, count };
        let stream = OwnStream::new(gpu)?;
        // SAFETY: the allocation has that many bytes.
        unsafe { call!(gpu.functions(), cuMemsetD8Async(address, 0, count * size_of::<u64>(), stream.stream)) }?;
        stream.finish(words)
    }

    /// Where kernels find them.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The words as they are. No kernel changes them meanwhile.
    pub(crate) fn read(&self) -> Result<Vec<u64>, DriverError> {
        self.gpu.bind()?;
        let mut found = vec![0u64; self.count];
        let stream = OwnStream::new(&self.gpu)?;
        let (to, bytes) = (found.as_mut_ptr().cast(), size_of_val(found.as_slice()));
        // SAFETY: both sides have that many bytes, and `finish` keeps the destination until the copy is over.
        unsafe { call!(self.gpu.functions(), cuMemcpyDtoHAsync_v2(to, self.address, bytes, stream.stream)) }?;
        stream.finish(found)
    }
}

impl Drop for DeviceWords {
    fn drop(&mut self) {
        if outside::inside() == Inside::Gpu {
            return outside::discard(Self { gpu: Arc::clone(&self.gpu), address: self.address, count: self.count });
        }
        if self.gpu.bind().is_ok() {
            // SAFETY: the memory was allocated so and is not used again.
            let _ = unsafe { call!(self.gpu.functions(), cuMemFree_v2(self.address)) };
        }
    }
}

/// A stream for a moment, which waits for no other and for which no other waits.
struct OwnStream<'a> {
    gpu: &'a Gpu,
    stream: CUstream, // Invariant: valid until drop.
}

impl<'a> OwnStream<'a> {
    /// Of a context that is current.
    fn new(gpu: &'a Gpu) -> Result<Self, DriverError> {
        const NON_BLOCKING: c_uint = 1;
        let mut stream: CUstream = null_mut();
        // SAFETY: it writes one handle.
        unsafe { call!(gpu.functions(), cuStreamCreate(&raw mut stream, NON_BLOCKING)) }?;
        Ok(Self { gpu, stream })
    }

    /// Waits until its work is over, and gives back what that uses; where the driver does not say whether it is, that stays for good.
    fn finish<T>(&self, used: T) -> Result<T, DriverError> {
        // SAFETY: the handle is valid.
        let waited = unsafe { call!(self.gpu.functions(), cuStreamSynchronize(self.stream)) };
        let Err(error) = waited else { return Ok(used) };
        if error.is_end() {
            return Err(error);
        }
        // It may be the stream that the driver objects to.
        match self.gpu.synchronize() {
            Ok(()) => Ok(used),
            Err(all) if all.is_end() => Err(error),
            Err(_) => {
                std::mem::forget(used);
                Err(error)
            }
        }
    }
}

impl Drop for OwnStream<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is valid and not used again. The driver ends what was given to it.
        let _ = unsafe { call!(self.gpu.functions(), cuStreamDestroy_v2(self.stream)) };
    }
}
