//! Slices of cudarc as buffers that own them, and buffers as slices of cudarc.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use warpsmith_device::abi::KernelValue;

use super::order::Order;
use crate::error::{DriverError, Result, StreamError};
use crate::exchange::error::{ExchangeError, Refused};
use crate::exchange::raw::check_address;
use crate::memory::{DeviceBuffer, Keeper, Storage};
use crate::stream::{PER_THREAD_STREAM, Stream};

/// A slice of cudarc that a buffer owns. When it is dropped, the slice's stream, which frees it, waits for ours first; ours
/// comes after all uses of the buffer.
struct OwnedSlice<T> {
    slice: Option<CudaSlice<T>>, // Invariant: there until the slice is given back.
    order: Order,
}

impl<T> Drop for OwnedSlice<T> {
    fn drop(&mut self) {
        let Some(slice) = self.slice.take() else { return };
        if let Err(source) = self.order.give_back_unnoted() {
            if !source.is_end() {
                // Work may still be under way: the memory is rather lost than given to somebody else.
                std::mem::forget(slice);
            }
            self.order.stream().device().defer(give_failed(source).into());
        }
    }
}

/// Whose the memory is that is given to cudarc.
enum Ready {
    /// A slice of cudarc's own.
    Theirs,
    /// This crate's, which becomes a slice of the stream.
    Ours(Arc<CudaStream>),
}

fn give_failed(source: DriverError) -> ExchangeError {
    ExchangeError::Driver { operation: "giving memory to cudarc", source }
}

impl<T: KernelValue> DeviceBuffer<T> {
    /// A slice of cudarc as a buffer, without a copy; [`into_cudarc`](Self::into_cudarc) gives it back.
    ///
    /// `stream` and all that uses the buffer come after what cudarc has done with the slice so far. When the buffer is dropped
    /// instead of given back, cudarc frees the slice in order of the slice's stream, after the last use; the host does not wait.
    ///
    /// The elements are those that the slice's maker promised: cudarc's own calls for memory that holds nothing yet are
    /// `unsafe`, and it must be written before. Where cudarc's tracking by events was turned off
    /// (`CudaContext::disable_event_tracking`, which is `unsafe` too), the order is that of the slice's stream.
    ///
    /// # Errors
    /// [`Refused`] with the slice: [`ExchangeError::NeedsGpu`] on the CPU executor, [`ExchangeError::OtherContext`] when the
    /// slice is of another context than the stream, [`StreamError::PerThreadStream`](crate::StreamError::PerThreadStream) when
    /// it belongs to the default stream of each thread, [`ExchangeError::Driver`] when the driver refuses.
    ///
    /// # Examples
    /// ```no_run
    /// use warpsmith::{cudarc::driver::CudaContext, prelude::*};
    ///
    /// #[kernel]
    /// fn double(mut x: GridSliceMut<f32>) {
    ///     if let Some(x) = x.get_mut(&global_idx()) {
    ///         *x *= 2.0;
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let theirs = CudaContext::new(0)?.new_stream()?;
    /// let slice = theirs.clone_htod(&[1.0f32, 2.0, 3.0])?;
    ///
    /// let stream = Stream::from_cudarc(&theirs)?;
    /// let mut x = DeviceBuffer::from_cudarc(&stream, slice).map_err(warpsmith::Error::from)?;
    /// double::launch(&stream, LaunchConfig::for_len(3), &mut x)?;
    /// let slice = x.into_cudarc(&stream).map_err(warpsmith::Error::from)?;
    ///
    /// assert_eq!(theirs.clone_dtoh(&slice)?, [2.0, 4.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_cudarc(stream: &Stream, mut slice: CudaSlice<T>) -> Result<Self, Box<Refused<CudaSlice<T>>>> {
        let len = slice.len();
        let taken = Order::new(stream, slice.stream()).and_then(|order| {
            let address = order.take(&mut slice)?;
            let address = usize::try_from(address).expect("addresses have 64 bits");
            Ok((order, check_address::<T>(address, len)?))
        });
        let (order, address) = match taken {
            Ok(taken) => taken,
            Err(error) => return Err(Refused::new(error, slice)),
        };
        let keeper = Keeper::new(Box::new(OwnedSlice { slice: Some(slice), order }));
        // SAFETY: the slice has `len` elements until it is dropped, which the keeper does, and nobody else can use it, for it was
        // moved in. The stream has waited for cudarc's uses.
        let storage = unsafe { Storage::foreign(stream, address, len * size_of::<T>(), keeper) };
        // SAFETY: the keeper has the slice's stream wait for this one before the slice is freed.
        unsafe { storage.release_in_order(stream) };
        Ok(Self::from_storage(storage.into_shared(), len))
    }

    /// The buffer as a slice of cudarc, without a copy: the slice that it was made [from](Self::from_cudarc), or the buffer's own
    /// memory as a slice of `stream`'s.
    ///
    /// What cudarc does with the slice comes after all that has used the buffer.
    ///
    /// # Errors
    /// [`Refused`] with the buffer: [`ExchangeError::NeedsGpu`] on the CPU executor, [`MemoryError::OtherDevice`](crate::MemoryError::OtherDevice) for
    /// a stream of another device, [`ExchangeError::InGraph`] when a graph uses the memory, and [`ExchangeError::NotForCudarc`] when the
    /// memory is another library's, has no elements, or comes from a driver without memory pools.
    pub fn into_cudarc(self, stream: &Stream) -> Result<CudaSlice<T>, Box<Refused<Self>>> {
        match self.ready_for_cudarc(stream) {
            Ok(Ready::Theirs) => self.give_slice_back(stream),
            Ok(Ready::Ours(theirs)) => self.give_own_memory(stream, &theirs),
            Err(error) => Err(Refused::new(error, self)),
        }
    }

    /// Checks that the buffer can be given to cudarc in order of `stream`, and has that stream wait for all uses.
    fn ready_for_cudarc(&self, stream: &Stream) -> Result<Ready> {
        stream.not_recording("giving memory to cudarc")?;
        let queue = stream.gpu().ok_or(ExchangeError::NeedsGpu { operation: "memory of cudarc" })?;
        let (storage, theirs) = (self.storage(), queue.stream.cuda());
        stream.check_device(storage)?;
        if theirs.cu_stream().addr() == PER_THREAD_STREAM {
            return Err(StreamError::PerThreadStream.into());
        }
        if storage.is_in_graph() {
            return Err(ExchangeError::InGraph.into());
        }
        let ready = if storage.is_kept_by::<OwnedSlice<T>>() {
            Ready::Theirs
        } else {
            let refuse = |reason| Err(ExchangeError::NotForCudarc { reason }.into());
            if storage.is_foreign() {
                return refuse(
                    "its memory is another library's, or was taken from a slice with another type of elements",
                );
            }
            if self.is_empty() {
                return refuse("it has no elements, and cudarc cannot free what was not allocated");
            }
            if !(storage.is_pooled() && theirs.context().has_async_alloc()) {
                return refuse("its memory is not freed in a stream's order, as cudarc would free it");
            }
            Ready::Ours(Arc::clone(theirs))
        };
        storage.order_before(&queue.stream).map_err(give_failed)?;
        Ok(ready)
    }

    fn give_slice_back(self, stream: &Stream) -> Result<CudaSlice<T>, Box<Refused<Self>>> {
        let len = self.len();
        let unwrapped = Arc::try_unwrap(self.into_storage());
        let mut storage = unwrapped.expect("only graphs share memory, and none has a slice of cudarc");
        let owned = storage.keeper_mut::<OwnedSlice<T>>().expect("it was asked for before");
        let mut slice = owned.slice.take().expect("it is there until it is given back, which ends the buffer");
        let given = Order::new(stream, slice.stream())
            .and_then(|order| Ok(order.give_back(&mut slice).map_err(give_failed)?));
        if let Err(error) = given {
            owned.slice = Some(slice);
            return Err(Refused::new(error, Self::from_storage(storage.into_shared(), len)));
        }
        storage.give_away();
        Ok(slice)
    }

    fn give_own_memory(self, stream: &Stream, theirs: &Arc<CudaStream>) -> Result<CudaSlice<T>, Box<Refused<Self>>> {
        let order = match Order::new(stream, theirs) {
            Ok(order) => order,
            Err(error) => return Err(Refused::new(error, self)),
        };
        let address = self.storage().pointer().addr() as u64;
        // SAFETY: the address is an allocation with `len` elements of `T`, of memory that is freed in a stream's order, as the slice
        // frees it. Below, one of the two owners gives it up.
        let mut slice = unsafe { theirs.upgrade_device_ptr::<T>(address, self.len()) };
        if let Err(source) = order.give_back(&mut slice) {
            slice.leak();
            return Err(Refused::new(give_failed(source), self));
        }
        let unwrapped = Arc::try_unwrap(self.into_storage());
        unwrapped.expect("only graphs share memory, and none has this").give_away();
        Ok(slice)
    }
}
