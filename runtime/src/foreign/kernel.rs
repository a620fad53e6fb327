//! A kernel of a module from elsewhere.

use std::fmt;
use std::sync::Arc;

use super::module::ForeignModule;
use super::params::{ForeignParam, ForeignParamDesc};
use crate::error::{ForeignError, Result};
use crate::module::{GpuCode, LoadedKernel};

/// A kernel of a [`ForeignModule`], with what the driver says about it.
///
/// It is launched through a type that [`foreign_kernels!`](crate::foreign_kernels!) declares.
#[derive(Clone)]
pub struct ForeignKernel {
    module: ForeignModule,
    kernel: Arc<LoadedKernel>,
    /// Sizes of the parameters in bytes, where they are known.
    sizes: Option<Arc<[usize]>>,
}

impl ForeignKernel {
    pub(super) fn new(module: &ForeignModule, name: &str, code: GpuCode, sizes: Option<Vec<usize>>) -> Self {
        let number = module.device().kernels().foreign_number(name);
        let kernel = Arc::new(LoadedKernel::foreign(number, name, Some(code)));
        Self { module: module.clone(), kernel, sizes: sizes.map(Arc::from) }
    }

    /// The name by which it was asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        self.kernel.path()
    }

    /// The module that it is in.
    #[must_use]
    pub fn module(&self) -> &ForeignModule {
        &self.module
    }

    /// The sizes of its parameters in bytes, where the driver tells them or they can be read from the module.
    #[must_use]
    pub fn parameter_sizes(&self) -> Option<&[usize]> {
        self.sizes.as_deref()
    }

    /// Registers that each thread has.
    #[must_use]
    pub fn registers(&self) -> u32 {
        self.kernel.gpu().map_or(0, |code| code.registers)
    }

    /// Most threads that a block may have.
    #[must_use]
    pub fn max_threads_per_block(&self) -> u32 {
        self.kernel.gpu().map_or(0, |code| code.max_threads)
    }

    /// Bytes of shared memory that it declares.
    #[must_use]
    pub fn shared_bytes(&self) -> u64 {
        self.kernel.fixed_shared_bytes()
    }

    pub(crate) fn loaded(&self) -> &Arc<LoadedKernel> {
        &self.kernel
    }

    /// Compares a declaration with what the kernel takes.
    ///
    /// # Errors
    /// [`ForeignError::ParameterCount`], [`ForeignError::ParameterSize`], [`ForeignError::UnknownSignature`].
    #[doc(hidden)]
    pub fn check(&self, declared: &[ForeignParamDesc]) -> Result<()> {
        let (module, kernel) = (self.module.what().to_owned(), self.name().to_owned());
        let Some(sizes) = &self.sizes else {
            let reason = "its driver does not tell them, and the module does not show them (a compressed or mixed fatbin, or PTX \
                          whose parameters are of an unknown type)";
            return Err(ForeignError::UnknownSignature { module, kernel, reason }.into());
        };
        if sizes.len() != declared.len() {
            let (found, sizes) = (sizes.len(), sizes.to_vec());
            return Err(ForeignError::ParameterCount { module, kernel, found, sizes, declared: declared.len() }.into());
        }
        for (index, (&found, declared)) in sizes.iter().zip(declared).enumerate() {
            if found != declared.bytes {
                return Err(ForeignError::ParameterSize {
                    module,
                    kernel,
                    index,
                    parameter: declared.name,
                    found,
                    type_name: declared.type_name,
                    declared: declared.bytes,
                }
                .into());
            }
        }
        Ok(())
    }

    /// A parameter of a declaration.
    #[doc(hidden)]
    #[must_use]
    pub fn describe<P: ForeignParam>(name: &'static str) -> ForeignParamDesc {
        ForeignParamDesc { name, type_name: std::any::type_name::<P>(), bytes: P::BYTES }
    }
}

impl fmt::Debug for ForeignKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignKernel")
            .field("name", &self.name())
            .field("parameter_sizes", &self.sizes)
            .field("module", &self.module)
            .finish()
    }
}
