//! The driver's linker.

use std::ffi::{CStr, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::CUlinkState;

use super::module::{JitCall, LoadFailure};
use super::{Functions, Gpu, check};

/// A link under way.
pub(crate) struct GpuLinker {
    gpu: Arc<Gpu>,
    state: CUlinkState, // Invariant: valid until drop.
    /// Written by the driver in every call until the link is dropped.
    options: JitCall,
}

// SAFETY: the driver's handle belongs to no thread, and each call goes through `&mut self`.
unsafe impl Send for GpuLinker {}

impl std::fmt::Debug for GpuLinker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuLinker").finish_non_exhaustive()
    }
}

impl GpuLinker {
    /// Begins to link, with options of the driver's compiler and their numbers.
    pub(crate) fn new(gpu: &Arc<Gpu>, options: &[(c_uint, usize)]) -> Result<Self, LoadFailure> {
        gpu.bind().map_err(|source| LoadFailure { source, log: String::new() })?;
        let mut options = JitCall::new(options);
        let mut state: CUlinkState = null_mut();
        let (count, keys, values) = options.arguments();
        // SAFETY: each option has a value of the kind that `cuda.h` gives it. Keys, values and the logs' buffers lie on the heap
        // and stay where they are until the link is destroyed.
        let answer = unsafe { call!(gpu.functions(), cuLinkCreate_v2(count, keys, values, &raw mut state)) };
        answer.map_err(|source| LoadFailure { source, log: options.errors() })?;
        Ok(Self { gpu: Arc::clone(gpu), state, options })
    }

    /// Adds a module of a kind of `CUjitInputType`; text ends with a zero byte, which counts.
    pub(crate) fn add(&mut self, kind: c_uint, data: &[u8], name: &CStr) -> Result<(), LoadFailure> {
        self.gpu.bind().map_err(|source| LoadFailure { source, log: String::new() })?;
        let start = data.as_ptr().cast_mut().cast::<c_void>();
        let (none, nothing) = (null_mut(), null_mut());
        // SAFETY: the driver reads the data, as long as it is, and copies what it keeps; the name is NUL-terminated.
        let answer = unsafe {
            call!(
                self.gpu.functions(),
                cuLinkAddData_v2(self.state, kind, start, data.len(), name.as_ptr(), 0, none, nothing)
            )
        };
        answer.map_err(|source| LoadFailure { source, log: self.options.errors() })
    }

    /// Joins what was added: a cubin.
    pub(crate) fn complete(self) -> Result<Vec<u8>, LoadFailure> {
        self.gpu.bind().map_err(|source| LoadFailure { source, log: String::new() })?;
        let (mut start, mut bytes): (*mut c_void, usize) = (null_mut(), 0);
        // SAFETY: it writes an address and a size.
        let answer = unsafe { call!(self.gpu.functions(), cuLinkComplete(self.state, &raw mut start, &raw mut bytes)) };
        answer.map_err(|source| LoadFailure { source, log: self.options.errors() })?;
        if start.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the driver answered success, so the cubin has that many bytes; it lives until the link is destroyed below.
        Ok(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), bytes) }.to_vec())
    }
}

impl Drop for GpuLinker {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: the handle is valid and not used again.
            let _ = unsafe { call!(self.gpu.functions(), cuLinkDestroy(self.state)) };
        }
    }
}
