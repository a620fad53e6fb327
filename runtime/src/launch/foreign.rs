//! A launch of a kernel from elsewhere: the same checks and the same order of uses as for this crate's own.

use std::ffi::c_void;
use std::fmt;

use super::{ArgumentList, Binder, KernelName, LaunchConfig, config};
use crate::error::{ForeignError, LaunchError, Result};
use crate::foreign::{ForeignArg, ForeignKernel, ForeignParam};
use crate::memory::Access;
use crate::stream::Stream;
use crate::work::Work;

/// One launch of a kernel from elsewhere, from its shape to its start; used by the code that `foreign_kernels!` writes.
#[doc(hidden)]
pub struct ForeignLaunch<'a> {
    config: LaunchConfig,
    kernel: &'a ForeignKernel,
    binder: Binder<'a>,
}

impl<'a> ForeignLaunch<'a> {
    /// Checks the stream and the launch's shape.
    ///
    /// # Errors
    /// [`ForeignError::OtherDevice`], and [`LaunchError`] when the shape is refused.
    pub fn new(kernel: &'a ForeignKernel, stream: &'a Stream, config: LaunchConfig) -> Result<Self> {
        stream.inner().check_outside()?;
        stream.not_recording("a launch of a kernel from elsewhere")?;
        kernel.module().check_stream(stream)?;
        if !config.is_empty() {
            config::check(&config, kernel.loaded(), stream.device())?;
        }
        let binder = Binder::new(stream, KernelName::Foreign(kernel.name()));
        Ok(Self { config, kernel, binder })
    }

    /// Binds an argument.
    ///
    /// # Errors
    /// [`LaunchError`] when the argument is another device's.
    pub fn bind<P: ForeignParam, A: ForeignArg<P>>(&mut self, argument: A) -> Result<P::Raw> {
        self.binder.argument += 1;
        Ok(argument.bind(&mut self.binder)?)
    }

    /// Refuses a launch whose arguments do not meet the declaration's condition.
    ///
    /// # Errors
    /// [`ForeignError::Condition`] unless `met`.
    pub fn require(&self, met: bool, condition: &'static str) -> Result<()> {
        if met {
            return Ok(());
        }
        Err(ForeignError::Condition { kernel: self.kernel.name().to_owned(), condition }.into())
    }

    /// Starts the kernel with the arguments at these addresses.
    ///
    /// # Safety
    /// They are the addresses of the declared parameters, in order, of which the kernel was found to have as many and of the same
    /// sizes; they were bound by this launch. The kernel does with them only what the declaration says.
    ///
    /// # Errors
    /// [`LaunchError`] when the driver refuses.
    pub unsafe fn run(self, arguments: &[*const u8]) -> Result<()> {
        if self.config.is_empty() {
            return Ok(());
        }
        let (stream, kernel) = (self.binder.stream, self.kernel.loaded());
        let (Some(queue), Some(code)) = (stream.gpu(), kernel.gpu()) else {
            unreachable!("a module from elsewhere is on a GPU, and so is the stream");
        };
        let refused = |source| LaunchError::Driver {
            kernel: self.kernel.name().to_owned(),
            config: Box::new(self.config),
            source,
        };
        self.kernel.module().order(stream, Access::Read).map_err(refused)?;
        stream.note_launch(kernel);
        let mut list = ArgumentList::new();
        arguments.iter().for_each(|&address| list.push(address));
        let list: &mut [*mut c_void] = list.as_mut_slice();
        let seen = stream.see(|| Work::launch(self.kernel.name(), &self.config, self.binder.bytes));
        // SAFETY: the caller answers for the arguments; memory was bound, so that it outlives the launch in stream order.
        unsafe { queue.stream.launch(&code.function, &self.config.shape(), list) }.map_err(refused)?;
        seen.end();
        if !stream.device().is_launch_blocking() {
            return Ok(());
        }
        let (name, config) = (self.kernel.name().to_owned(), self.config);
        // With it goes the gate of graphs, which nobody holds while waiting.
        drop(self);
        stream.finish_launch(name, &config)
    }
}

impl fmt::Debug for ForeignLaunch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignLaunch")
            .field("kernel", &self.kernel.name())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
