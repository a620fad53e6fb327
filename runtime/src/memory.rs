//! Device memory: buffers that own it, slices that borrow parts of it, and two- and three-dimensional views.

mod buffer;
mod slice;
mod storage;
mod uses;
mod view;

pub use buffer::DeviceBuffer;
pub use slice::{DeviceSlice, DeviceSliceMut};
pub(crate) use storage::Storage;
pub(crate) use uses::Access;
pub use view::DeviceViewMut;
