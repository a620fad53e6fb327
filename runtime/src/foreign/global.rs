//! A variable of a module from elsewhere.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use warpsmith_device::AnyBits;
use warpsmith_device::abi::KernelValue;

use super::module::ForeignModule;
use crate::error::{DriverError, ForeignError, Result};
use crate::memory::{Access, finish_borrowed};
use crate::stream::Stream;

/// A variable of a [`ForeignModule`] that the host reads and writes: a `__device__` or `__constant__` one.
///
/// Reads and writes keep the order of the stream they are made on, and come after earlier launches of the module's kernels on
/// other streams; later launches on other streams wait for them.
pub struct ForeignGlobal<T> {
    module: ForeignModule,
    name: String,
    address: u64, // Invariant: a variable of the module with the size of a `T`.
    _value: PhantomData<fn(T) -> T>,
}

impl<T: KernelValue> ForeignGlobal<T> {
    /// Of a variable whose size was compared.
    pub(super) fn new(module: &ForeignModule, name: &str, address: u64) -> Self {
        Self { module: module.clone(), name: name.to_owned(), address, _value: PhantomData }
    }

    /// The variable's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The module whose variable it is.
    #[must_use]
    pub fn module(&self) -> &ForeignModule {
        &self.module
    }

    /// Writes the variable, in the stream's order.
    ///
    /// # Errors
    /// [`ForeignError`] for a stream of another device, and when the driver refuses.
    pub fn write(&self, stream: &Stream, value: &T) -> Result<()> {
        stream.not_recording("a write of a module's variable")?;
        self.module.check_stream(stream)?;
        let Some(queue) = stream.gpu() else { unreachable!("the module's device is a GPU") };
        if size_of::<T>() == 0 {
            return Ok(());
        }
        self.module.order(stream, Access::Shared).map_err(|source| self.failed("ordering a write of", source))?;
        // The driver reads page-locked memory later; this copy of the value is none, unless its pages were locked by somebody.
        let value = *value;
        let from = (&raw const value).cast::<u8>();
        // SAFETY: the variable has the size of a `T` and lives as long as the module, whose unloading waits for the context; the
        // source is read during the call, or before the wait below ends.
        unsafe { queue.stream.copy_from_host(self.address, from, size_of::<T>()) }
            .map_err(|source| self.failed("writing", source))?;
        if queue.stream.gpu().is_page_locked(from, size_of::<T>()) {
            finish_borrowed(stream)?;
        }
        Ok(())
    }

    /// The variable's value, once the stream's work is done.
    ///
    /// # Errors
    /// [`ForeignError`] for a stream of another device; what the stream's earlier work did wrong.
    pub fn read(&self, stream: &Stream) -> Result<T>
    where
        T: AnyBits,
    {
        stream.not_recording("a read of a module's variable")?;
        self.module.check_stream(stream)?;
        // On the heap and forgotten where the wait fails, so that a copy that may still be under way finds it.
        let mut value = Box::new(MaybeUninit::<T>::zeroed());
        let Some(queue) = stream.gpu() else { unreachable!("the module's device is a GPU") };
        if size_of::<T>() != 0 {
            self.module.order(stream, Access::Shared).map_err(|source| self.failed("ordering a read of", source))?;
            let to = value.as_mut_ptr().cast::<u8>();
            // SAFETY: the variable has the size of a `T` and lives as long as the module; the destination does until the copy ends.
            unsafe { queue.stream.copy_to_host(to, self.address, size_of::<T>()) }
                .map_err(|source| self.failed("reading", source))?;
        }
        if let Err(error) = stream.synchronize() {
            Box::leak(value);
            return Err(error);
        }
        // SAFETY: it holds the variable's bytes, or zeros, and any bits are a `T`.
        Ok(unsafe { *value.assume_init() })
    }

    fn failed(&self, operation: &'static str, source: DriverError) -> ForeignError {
        let (variable, module) = (self.name.clone(), self.module.what().to_owned());
        ForeignError::Variable { operation, variable, module, source }
    }
}

impl<T> Clone for ForeignGlobal<T> {
    fn clone(&self) -> Self {
        Self { module: self.module.clone(), name: self.name.clone(), address: self.address, _value: PhantomData }
    }
}

impl<T> fmt::Debug for ForeignGlobal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignGlobal")
            .field("name", &self.name)
            .field("type", &std::any::type_name::<T>())
            .field("module", &self.module)
            .finish()
    }
}
