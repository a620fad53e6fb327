//! Kernels from elsewhere: PTX, cubins, fatbins and CUDA C++ source, loaded on a GPU and launched with typed arguments.

mod cuda;
mod elf;
mod fatbin;
mod global;
mod image;
mod kernel;
mod linker;
mod module;
mod nvrtc;
mod options;
mod params;
mod ptx;
mod signature;
mod source;

pub use cuda::{CompiledCuda, CudaSource, CudaTarget};
pub use global::ForeignGlobal;
pub use image::ImageKind;
pub use kernel::ForeignKernel;
pub use linker::Linker;
pub use module::ForeignModule;
pub use nvrtc::Nvrtc;
pub use options::JitOptions;
#[doc(hidden)]
pub use params::ForeignParamDesc;
pub use params::{ByValue, ForeignArg, ForeignParam, SeenSlice};
pub use source::ForeignSource;

#[cfg(test)]
mod tests;
