//! Memory of cudarc: its slices as buffers, and lent to kernels for a while.

mod buffer;
mod order;
mod scope;

pub use scope::CudarcScope;
