//! Which kernel a launcher is for: what `#[kernel]` tells the runtime about one instance of a function.

use std::fmt;

use warpsmith_device::abi::KernelDesc;

/// One instance of a kernel, as the code that `#[kernel]` writes describes it; `F` is the function that runs threads of it on the host.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct KernelInstance<F> {
    identity: KernelIdentity,
    threads: F,
}

impl<F: Copy> KernelInstance<F> {
    /// Puts the parts together; `parameters` are the names of the kernel's parameters.
    #[inline]
    #[must_use]
    pub const fn new(
        desc: &'static KernelDesc,
        instance: &'static str,
        parameters: &'static [&'static str],
        threads: F,
    ) -> Self {
        Self { identity: KernelIdentity { desc, instance, parameters }, threads }
    }

    /// The function that runs threads on the host.
    #[inline]
    #[must_use]
    pub const fn threads(&self) -> F {
        self.threads
    }

    #[inline]
    pub(crate) const fn identity(&self) -> KernelIdentity {
        self.identity
    }
}

impl<F> fmt::Debug for KernelInstance<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.identity.fmt(f)
    }
}

/// What tells one instance of a kernel from all others.
#[derive(Clone, Copy)]
pub struct KernelIdentity {
    pub(crate) desc: &'static KernelDesc,
    /// The type name of the instance.
    pub(crate) instance: &'static str,
    /// Names of the parameters, for messages.
    pub(crate) parameters: &'static [&'static str],
}

impl KernelIdentity {
    /// Whether both are the same instance of the same kernel.
    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // The description of one kernel may lie at several addresses.
        (std::ptr::eq(self.desc, other.desc) && std::ptr::eq(self.instance, other.instance)) || self.reads_same(other)
    }

    #[cold]
    fn reads_same(&self, other: &Self) -> bool {
        let place = |desc: &'static KernelDesc| {
            (desc.module_path.get(), desc.name.get(), desc.file.get(), desc.line, desc.column)
        };
        self.instance == other.instance && place(self.desc) == place(other.desc)
    }
}

impl fmt::Debug for KernelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelInstance")
            .field("kernel", &crate::module::kernel_path(self.desc))
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}
