//! Memory: buffers that own it on a device, slices that borrow parts of it, views with a shape, and what the host shares.

mod block;
mod buffer;
mod cast;
mod pattern;
mod peer;
mod pending;
mod pinned;
mod pitched;
mod pool;
mod shared;
mod slice;
mod staging;
mod storage;
mod uses;
mod view;

pub use buffer::DeviceBuffer;
pub(crate) use pattern::Pattern;
pub use pending::{CopyScope, Pending};
pub(crate) use pending::{finish_borrowed, finish_context};
pub use pinned::{BufferError, HostBuffer, PinnedBuffer, RegisteredBuffer};
pub use pitched::{PitchedBuffer, PitchedSlice, PitchedSliceMut};
pub(crate) use pool::PoolAccount;
pub use pool::{MemoryPool, PoolStatistics};
pub use shared::{ManagedBuffer, MappedBuffer};
pub use slice::{DeviceSlice, DeviceSliceMut};
pub use staging::{StagingOptions, StagingRing};
pub(crate) use storage::{Keeper, Storage};
pub(crate) use uses::{Access, Uses};
pub use view::DeviceViewMut;
