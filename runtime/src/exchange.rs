//! Memory shared with other libraries of the process without a copy: DLPack, the CUDA array interface and plain addresses.
//!
//! - [`ManagedTensor`] takes a DLPack tensor from its producer, and [`Tensor::into_dlpack`] gives one to a consumer, in the
//!   versioned and in the legacy form.
//! - [`CudaArrayInterface`] is what Python's `__cuda_array_interface__` says, in both directions.
//! - [`DeviceBuffer::from_raw_parts`](crate::DeviceBuffer::from_raw_parts) takes memory at an address.
//! - [`DeviceBuffer::from_cudarc`](crate::DeviceBuffer::from_cudarc) and [`Stream::cudarc_scope`](crate::Stream::cudarc_scope) take slices
//!   of cudarc, [`DeviceBuffer::into_cudarc`](crate::DeviceBuffer::into_cudarc) gives them.
//! - [`ExchangeStream`] is the other library's stream, which [`Stream::wait_for_exchange`](crate::Stream::wait_for_exchange) and
//!   [`Stream::exchange_waits`](crate::Stream::exchange_waits) order this crate's work with.

mod array_interface;
mod cudarc;
pub mod dlpack;
mod element;
mod error;
mod layout;
mod order;
mod raw;
mod tensor;

pub use array_interface::CudaArrayInterface;
pub use cudarc::CudarcScope;
pub use dlpack::{Form, ManagedTensor};
pub use element::{Complex32, Complex64, DataType, ExchangeElement};
pub use error::{ExchangeError, Refused};
pub use layout::TensorLayout;
pub use order::ExchangeStream;
pub use tensor::Tensor;
