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
    fn resolve<'a>(self, stream: &Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)>
    where
        Self: 'a;
}

/// A kernel's code, owned or borrowed from what was prepared.
#[derive(Debug)]
pub struct KernelCode<'a>(Code<'a>);

#[derive(Debug)]
enum Code<'a> {
    Found(Arc<LoadedKernel>),
    Prepared(&'a Arc<LoadedKernel>),
}

impl<'a> KernelCode<'a> {
    /// Of a launch that was checked before.
    pub(super) fn prepared(kernel: &'a Arc<LoadedKernel>) -> Self {
        Self(Code::Prepared(kernel))
    }

    /// The code, to be kept.
    pub(super) fn into_found(self) -> Arc<LoadedKernel> {
        match self.0 {
            Code::Found(kernel) => kernel,
            Code::Prepared(kernel) => Arc::clone(kernel),
        }
    }

    #[inline]
    pub(super) fn get(&self) -> &LoadedKernel {
        match &self.0 {
            Code::Found(kernel) => kernel,
            Code::Prepared(kernel) => kernel,
        }
    }
}

impl Plan for LaunchConfig {
    #[inline]
    fn resolve<'a>(self, stream: &Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)> {
        let device = stream.device();
        let along_x = self.is_along_x() && device.is_gpu();
        let kernel = device.kernels().get(device, kernel.desc, kernel.instance, along_x)?;
        if !self.is_empty() {
            config::check(&self, &kernel, device)?;
        }
        Ok((self, KernelCode(Code::Found(kernel))))
    }
}

impl Plan for &LaunchConfig {
    #[inline]
    fn resolve<'a>(self, stream: &Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)>
    where
        Self: 'a,
    {
        (*self).resolve(stream, kernel)
    }
}

impl Plan for &PreparedLaunch {
    #[inline]
    fn resolve<'a>(self, stream: &Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)>
    where
        Self: 'a,
    {
        self.check(stream, kernel)?;
        Ok((self.config, KernelCode(Code::Prepared(&self.kernel))))
    }
}

impl Plan for PreparedLaunch {
    #[inline]
    fn resolve<'a>(self, stream: &Stream, kernel: &KernelIdentity) -> Result<(LaunchConfig, KernelCode<'a>)> {
        self.check(stream, kernel)?;
        Ok((self.config, KernelCode(Code::Found(self.kernel))))
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
