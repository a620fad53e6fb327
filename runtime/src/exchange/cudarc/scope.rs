//! Memory of cudarc that is lent to kernels while a closure runs.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DeviceSlice as _};
use warpsmith_device::abi::KernelValue;

use super::order::{Order, Tracked};
use crate::error::Result;
use crate::exchange::error::ExchangeError;
use crate::exchange::raw::check_address;
use crate::memory::{DeviceSlice, DeviceSliceMut, Keeper, Storage};
use crate::stream::Stream;

impl Stream {
    /// Lends memory of cudarc to what is called on this stream and others in `body`, without a copy and without a wait of the
    /// host.
    ///
    /// What `body` gives its streams comes after what cudarc has done with the memory so far, and before what cudarc does with it
    /// later: when `body` returns or panics, the uses are noted in cudarc's events, and the memory's own stream waits for them.
    /// cudarc itself remembers the last reader only: where it reads a slice on two streams of its own and then writes it on a
    /// third, that order is the caller's matter, here as there.
    ///
    /// # Errors
    /// What `body` returns; [`ExchangeError::Driver`] when the memory could not be given back in order.
    ///
    /// # Examples
    /// ```no_run
    /// use warpsmith::{cudarc::driver::CudaContext, prelude::*};
    ///
    /// #[kernel]
    /// fn double(x: &[f32], mut y: GridSliceMut<f32>) {
    ///     let i = global_idx();
    ///     if let Some(y) = y.get_mut(&i) {
    ///         *y = 2.0 * x[i.get()];
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let theirs = CudaContext::new(0)?.new_stream()?;
    /// let x = theirs.clone_htod(&[1.0f32, 2.0, 3.0])?;
    /// let mut y = theirs.alloc_zeros::<f32>(3)?;
    ///
    /// let stream = Stream::from_cudarc(&theirs)?;
    /// stream.cudarc_scope(|scope| {
    ///     let (x, y) = (scope.read(x.as_view())?, scope.write(y.as_view_mut())?);
    ///     double::launch(&stream, LaunchConfig::for_len(3), x, y)
    /// })?;
    ///
    /// assert_eq!(theirs.clone_dtoh(&y)?, [2.0, 4.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// What is lent does not leave the scope:
    /// ```compile_fail
    /// # use warpsmith::{cudarc::driver::CudaSlice, prelude::*};
    /// # fn lend(stream: &Stream, x: &CudaSlice<f32>) {
    /// let kept = stream.cudarc_scope(|scope| scope.read(x.as_view()));
    /// # }
    /// ```
    pub fn cudarc_scope<'env, R, F>(&self, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope CudarcScope<'scope, 'env>) -> Result<R>,
    {
        let scope = CudarcScope {
            stream: self.clone(),
            lent: RefCell::default(),
            scope: PhantomData,
            environment: PhantomData,
        };
        // Nothing between the first use and the order after it may unwind past this frame.
        let ran: Result<Result<R>, Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        let given_back = scope.give_back();
        match ran {
            Ok(Ok(value)) => given_back.map(|()| value),
            Ok(Err(error)) => {
                self.keep(given_back);
                Err(error)
            }
            Err(panic) => {
                self.keep(given_back);
                resume_unwind(panic)
            }
        }
    }

    /// Of two failures the closure's comes back, and the other from the device's next `synchronize`.
    fn keep(&self, given_back: Result<()>) {
        if let Err(error) = given_back {
            self.device().defer(error);
        }
    }
}

/// Lends memory of cudarc until the scope ends: [`Stream::cudarc_scope`].
pub struct CudarcScope<'scope, 'env: 'scope> {
    stream: Stream,
    /// Emptied by [`Self::give_back`].
    lent: RefCell<ManuallyDrop<Vec<Lent<'scope>>>>,
    // Neither may be shortened or lengthened, as in `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    environment: PhantomData<&'env mut &'env ()>,
}

struct Lent<'scope> {
    storage: Arc<Storage>,
    view: Box<dyn Tracked + 'scope>,
    order: Order,
}

impl<'scope> CudarcScope<'scope, '_> {
    /// The scope's stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// A slice of cudarc or a part of one, to be read.
    ///
    /// # Errors
    /// As [`DeviceBuffer::from_cudarc`](crate::DeviceBuffer::from_cudarc).
    pub fn read<T: KernelValue>(&'scope self, view: CudaView<'scope, T>) -> Result<DeviceSlice<'scope, T>> {
        let (len, theirs) = (view.len(), Arc::clone(view.stream()));
        let storage = self.lend::<T>(len, &theirs, Box::new(view))?;
        Ok(DeviceSlice::new(storage, 0, len))
    }

    /// A slice of cudarc or a part of one, to be written.
    ///
    /// # Errors
    /// As [`DeviceBuffer::from_cudarc`](crate::DeviceBuffer::from_cudarc).
    pub fn write<T: KernelValue>(&'scope self, view: CudaViewMut<'scope, T>) -> Result<DeviceSliceMut<'scope, T>> {
        let (len, theirs) = (view.len(), Arc::clone(view.stream()));
        let storage = self.lend::<T>(len, &theirs, Box::new(view))?;
        Ok(DeviceSliceMut::new(storage, 0, len))
    }

    fn lend<T>(
        &'scope self,
        len: usize,
        theirs: &Arc<CudaStream>,
        mut view: Box<dyn Tracked + 'scope>,
    ) -> Result<&'scope Storage> {
        let order = Order::new(&self.stream, theirs)?;
        let address = usize::try_from(order.take(&mut *view)?).expect("addresses have 64 bits");
        let (address, bytes) = (check_address::<T>(address, len)?, len * size_of::<T>());
        // SAFETY: the view has `len` elements, and borrows them until the scope has given them back; the stream has waited for
        // cudarc's uses, and cudarc's later ones come after the stream's.
        let storage = unsafe { Storage::foreign(&self.stream, address, bytes, Keeper::new(Box::new(()))) };
        // SAFETY: `give_back` has cudarc's later uses come after this stream.
        unsafe { storage.release_in_order(&self.stream) };
        let storage = Arc::new(storage);
        let lent: *const Storage = Arc::as_ptr(&storage);
        self.lent.borrow_mut().push(Lent { storage, view, order });
        // SAFETY: the storage is kept until `give_back`, which comes after all of `'scope`: the closure that knows it has
        // returned by then.
        Ok(unsafe { &*lent })
    }

    /// Orders cudarc's later uses after those in the scope.
    fn give_back(&self) -> Result<()> {
        let lent = ManuallyDrop::into_inner(self.lent.take());
        let mut result = Ok(());
        for Lent { storage, mut view, order } in lent {
            // The scope's stream waits for the uses of others.
            drop(storage);
            let given = order.give_back(&mut *view).or_else(|_| order.wait_or_end());
            if let Err(source) = given {
                result = Err(ExchangeError::Driver { operation: "giving memory to cudarc", source }.into());
            }
        }
        result
    }
}

impl fmt::Debug for CudarcScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudarcScope").field("stream", &self.stream).finish_non_exhaustive()
    }
}
