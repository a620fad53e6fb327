//! Shared memory: one allocation for the threads of a block.
//!
//! [`shared_array!`](macro@crate::shared_array) gives arrays that are filled and read in phases, without `unsafe`.
//! [`shared!`](macro@crate::shared) and [`dynamic_shared`] hand out raw pointers: who writes what between which barriers is
//! the kernel's business, and so the accesses are `unsafe`.

mod carve;
mod phases;
mod shape;

pub use carve::DynamicShared;
pub use phases::{Reading, SharedArray, Writing};
pub use shape::{PaddedRows, Rows, Shape, StaticShape};

/// A place that allocates shared memory; a static made by [`shared!`](macro@crate::shared).
#[doc(hidden)]
#[derive(Debug)]
#[repr(C)]
pub struct SharedSite {
    _own_address: u8,
}

impl SharedSite {
    /// A place of its own: two statics never share an address.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "only for statics, which `Default` can't make")]
    pub const fn new() -> Self {
        Self { _own_address: 0 }
    }
}

/// Allocates shared memory for a value of the given type and gives its address, a `*mut T`: the same for all threads
/// of the block.
///
/// Each place in the source is one allocation a block, for each instance of the generic function around it; a place in
/// a loop or in a function called twice gives the same address again. The memory is not initialised and is never
/// dropped, so the type should be plain data. It lives as long as the block.
///
/// Static shared memory of a kernel is limited to 48 KiB.
///
/// # Examples
/// ```
/// use warpsmith_device::{shared, sync_threads, thread_idx};
///
/// /// Reverses 64 values within the block.
/// fn reverse(value: f32) -> f32 {
///     let tile = shared!([f32; 64]).cast::<f32>();
///     let i = thread_idx().x as usize;
///     // SAFETY: `i` is below 64, and each thread writes its own slot before the barrier.
///     unsafe { tile.add(i).write(value) };
///     sync_threads();
///     // SAFETY: every slot was written before the barrier.
///     unsafe { tile.add(63 - i).read() }
/// }
/// ```
#[macro_export]
macro_rules! shared {
    ($type:ty) => {{
        static SITE: $crate::shared::SharedSite = $crate::shared::SharedSite::new();
        $crate::shared::allocate::<$type, _, { ::core::line!() }, { ::core::column!() }>(&|| (), &SITE)
    }};
}

/// Makes a type name that holds an instance and a position.
#[cfg(warpsmith_device)]
struct At<F, const LINE: u32, const COLUMN: u32>(core::marker::PhantomData<F>);

/// The allocation of a place: its key is the type name of a closure made there, its position, and its static.
#[doc(hidden)]
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn allocate<T, F: Fn(), const LINE: u32, const COLUMN: u32>(_instance: &F, site: &'static SharedSite) -> *mut T {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::shared::<T, At<F, LINE, COLUMN>>(site);
    #[cfg(not(warpsmith_device))]
    {
        use crate::host::{SharedKey, current};
        let key = SharedKey { instance: core::any::type_name::<F>(), site };
        current("shared!", |context| context.block().shared(key, size_of::<T>(), align_of::<T>()).cast())
    }
}

/// The block's dynamic shared memory, whose size the launch gives: its address, aligned to 16 bytes. Every call gives
/// the same.
///
/// # Panics
/// Does not compile for a type with an alignment above 16.
#[inline(always)]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn dynamic_shared<T>() -> *mut T {
    const { assert!(align_of::<T>() <= 16, "dynamic shared memory is aligned to 16 bytes") };
    #[cfg(warpsmith_device)]
    return crate::intrinsics::dynamic_shared().cast();
    #[cfg(not(warpsmith_device))]
    crate::host::current("dynamic_shared", |context| context.block().dynamic_shared().0.cast())
}

/// Size of the block's dynamic shared memory, in bytes. PTX: `%dynamic_smem_size`.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn dynamic_shared_bytes() -> usize {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::dynamic_shared_bytes() as usize;
    #[cfg(not(warpsmith_device))]
    crate::host::current("dynamic_shared_bytes", |context| context.block().dynamic_shared().1)
}
