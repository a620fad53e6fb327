//! What a launcher takes for its shape: a configuration, or a launch that was prepared.

use std::fmt;
use std::sync::Arc;

use super::config::{self, LaunchConfig};
use crate::device::Device;
use crate::error::{LaunchError, Result};
use crate::kernel::KernelIdentity;
use crate::module::{LoadedKernel, kernel_path};
use crate::stream::Stream;

/// The shape of a launch: a [`LaunchConfig`], which is checked at each launch, or a [`PreparedLaunch`], which was checked when it was made.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the shape of a launch",
    note = "pass a `LaunchConfig`, or a `PreparedLaunch` that `Kernel::prepare` made"
)]
pub trait LaunchPlan: Plan {}

impl LaunchPlan for LaunchConfig {}
impl LaunchPlan for &LaunchConfig {}
impl LaunchPlan for PreparedLaunch {}
impl LaunchPlan for &PreparedLaunch {}

/// How a plan becomes a launch; outside of this crate nobody can name it.
pub trait Plan {
    /// The shape, checked, and the kernel's code for it.
    ///
    /// # Errors
    /// When the code can't be had, or the shape is refused.
    #[doc(hidden)]
    fn resolve<'a>(self, stream: &'a Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)>
    where
        Self: 'a;
}

/// A kernel's code: borrowed from the device's table or from what was prepared, or owned.
#[derive(Debug)]
pub struct KernelCode<'a>(Code<'a>);

#[derive(Debug)]
enum Code<'a> {
    Borrowed(&'a Arc<LoadedKernel>),
    Owned(Arc<LoadedKernel>),
}

impl<'a> KernelCode<'a> {
    #[inline]
    pub(crate) fn borrowed(kernel: &'a Arc<LoadedKernel>) -> Self {
        Self(Code::Borrowed(kernel))
    }

    pub(crate) fn owned(kernel: Arc<LoadedKernel>) -> Self {
        Self(Code::Owned(kernel))
    }

    /// The code, to be kept.
    pub(crate) fn to_owned(&self) -> Arc<LoadedKernel> {
        match &self.0 {
            Code::Owned(kernel) => Arc::clone(kernel),
            Code::Borrowed(kernel) => Arc::clone(kernel),
        }
    }

    #[inline]
    pub(super) fn get(&self) -> &LoadedKernel {
        match &self.0 {
            Code::Owned(kernel) => kernel,
            Code::Borrowed(kernel) => kernel,
        }
    }
}

impl Plan for LaunchConfig {
    #[inline]
    fn resolve<'a>(self, stream: &'a Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)>
    where
        Self: 'a,
    {
        let device = stream.device();
        let along_x = self.is_along_x() && stream.gpu().is_some();
        let code = device.kernels().get(device, kernel.desc, kernel.instance, along_x)?;
        let is_usual = code.get().gpu().is_some_and(|gpu| gpu.usual.contain(&self));
        if !is_usual && !self.is_empty() {
            config::check(&self, code.get(), device)?;
        }
        Ok((self, code))
    }
}

impl Plan for &LaunchConfig {
    #[inline]
    fn resolve<'a>(self, stream: &'a Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)>
    where
        Self: 'a,
    {
        (*self).resolve(stream, kernel)
    }
}

impl Plan for &PreparedLaunch {
    #[inline]
    fn resolve<'a>(self, stream: &'a Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)>
    where
        Self: 'a,
    {
        self.check(stream, kernel)?;
        Ok((self.config, KernelCode::borrowed(&self.kernel)))
    }
}

impl Plan for PreparedLaunch {
    #[inline]
    fn resolve<'a>(self, stream: &'a Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)>
    where
        Self: 'a,
    {
        self.check(stream, kernel)?;
        Ok((self.config, KernelCode::owned(self.kernel)))
    }
}

/// A launch of one kernel on one device, whose shape was checked once: [`Kernel::prepare`](crate::Kernel::prepare) makes it, and the
/// kernel's `launch` takes it in place of a [`LaunchConfig`].
///
/// Arguments are bound at each launch, with all their checks.
#[derive(Clone)]
pub struct PreparedLaunch {
    device: Device,
    identity: KernelIdentity,
    kernel: Arc<LoadedKernel>,
    config: LaunchConfig, // Invariant: checked for `kernel` on `device`.
}

impl PreparedLaunch {
    /// The caller has checked the shape.
    pub(crate) fn new(
        device: Device,
        identity: KernelIdentity,
        kernel: Arc<LoadedKernel>,
        config: LaunchConfig,
    ) -> Self {
        Self { device, identity, kernel, config }
    }

    /// The shape.
    #[must_use]
    pub fn config(&self) -> &LaunchConfig {
        &self.config
    }

    /// The device that it was checked for.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    #[inline]
    fn check(&self, stream: &Stream, kernel: &KernelIdentity) -> Result<(), LaunchError> {
        if !self.identity.is_same(kernel) {
            return Err(self.other_kernel(kernel));
        }
        if !self.device.is_same(stream.device()) {
            return Err(self.other_device(stream));
        }
        Ok(())
    }

    #[cold]
    fn other_kernel(&self, kernel: &KernelIdentity) -> LaunchError {
        LaunchError::PreparedForOtherKernel {
            kernel: kernel_path(kernel.desc),
            prepared: self.kernel.path().to_owned(),
            instance: self.identity.instance.to_owned(),
        }
    }

    #[cold]
    fn other_device(&self, stream: &Stream) -> LaunchError {
        LaunchError::PreparedForOtherDevice {
            kernel: self.kernel.path().to_owned(),
            prepared: self.device.to_string(),
            stream: stream.device().to_string(),
        }
    }
}

impl fmt::Debug for PreparedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedLaunch")
            .field("kernel", &self.kernel.path())
            .field("config", &self.config)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
