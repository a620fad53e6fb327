//! The CUDA C++ kernels of a cubin, launched on our stream and our buffers through cudarc.

use std::error::Error;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::sync::Arc;

use warpsmith::cudarc::driver::{CudaStream, result, sys};
use warpsmith::prelude::*;

/// What everything here returns.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The kernels of a cubin.
pub(crate) struct Twins {
    stream: Arc<CudaStream>,
    module: sys::CUmodule, // Invariant: loaded, and never unloaded: the process ends with it.
}

/// An argument of a CUDA C++ kernel: its bytes, of which the kernel takes as many as its parameter has.
#[derive(Clone, Copy)]
pub(crate) struct Argument(u64);

impl Argument {
    /// A buffer's address.
    pub(crate) fn buffer<T: DeviceElement>(buffer: &DeviceBuffer<T>) -> Self {
        Self(buffer.cuda_address().expect("the benchmarks run on a GPU, with buffers that are not empty"))
    }

    /// A `size_t`.
    pub(crate) fn usize(value: usize) -> Self {
        Self(value as u64)
    }

    /// A `float`.
    pub(crate) fn f32(value: f32) -> Self {
        Self(value.to_bits().into())
    }
}

impl Twins {
    /// Loads a cubin that nvcc made.
    pub(crate) fn load(stream: &Stream, cubin: &Path) -> Outcome<Self> {
        let image = std::fs::read(cubin).map_err(|error| format!("cannot read {}: {error}", cubin.display()))?;
        let stream = Arc::clone(stream.as_cudarc().ok_or("CUDA C++ needs a GPU")?);
        stream.context().bind_to_thread()?;
        // SAFETY: the image is a whole file, which the driver checks, and the context is this thread's.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) }?;
        Ok(Self { stream, module })
    }

    /// A closure that launches a kernel.
    pub(crate) fn launcher(
        &self,
        name: &str,
        config: LaunchConfig,
        arguments: &[Argument],
    ) -> Outcome<impl FnMut() -> Outcome> {
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(self.module, CString::new(name)?) }?;
        let stream = Arc::clone(&self.stream);
        let mut values = arguments.to_vec();
        let (grid, block) = (config.grid_dim(), config.block_dim());
        Ok(move || {
            let mut addresses: Vec<*mut c_void> = values.iter_mut().map(|value| (&raw mut value.0).cast()).collect();
            // SAFETY: the callers list the kernel's parameters in order, and their buffers outlive the launches.
            unsafe {
                result::launch_kernel(
                    function,
                    (grid.x, grid.y, grid.z),
                    (block.x, block.y, block.z),
                    config.shared_bytes(),
                    stream.cu_stream(),
                    &mut addresses,
                )
            }?;
            Ok(())
        })
    }
}
