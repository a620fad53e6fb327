//! A module from elsewhere, loaded into a GPU's context.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use warpsmith_device::abi::KernelValue;

use super::elf::Elf;
use super::global::ForeignGlobal;
use super::image::{ForeignImage, ImageKind};
use super::kernel::ForeignKernel;
use super::options::JitOptions;
use super::signature::EntrySignature;
use super::{fatbin, ptx};
use crate::device::Device;
use crate::driver::{GpuModule, code};
use crate::error::{DriverError, ForeignError, Result};
use crate::memory::{Access, Uses};
use crate::module::GpuCode;
use crate::stream::Stream;

/// PTX, a cubin or a fatbin that another compiler made, loaded on a GPU.
///
/// A `ForeignModule` is a handle: clones are the same module. It is unloaded when the last of them, of its kernels and of its
/// variables is dropped, after all work of the GPU's context.
///
/// Its kernels are launched through a type that [`foreign_kernels!`](crate::foreign_kernels!) declares.
///
/// # Examples
/// ```
/// use warpsmith::foreign::ForeignModule;
/// use warpsmith::prelude::*;
///
/// // Code from elsewhere runs on a GPU alone; elsewhere the error says so.
/// let error = ForeignModule::load(&Device::cpu(), ".version 7.0\n.target sm_80\n").unwrap_err();
/// assert!(error.to_string().contains("needs a GPU"));
/// ```
#[derive(Clone)]
pub struct ForeignModule {
    inner: Arc<ModuleInner>,
}

pub(super) struct ModuleInner {
    what: String,
    kind: ImageKind,
    module: Arc<GpuModule>,
    entries: Vec<EntrySignature>,
    /// The names of the module by those that the source has: of templates' instances.
    names: BTreeMap<String, String>,
    /// Launches read the module's variables, the host reads and writes them.
    uses: Mutex<Uses>,
    // After `module`, whose drop still needs the device.
    device: Device,
}

impl ForeignModule {
    /// Loads a module from bytes: the text of PTX, or a cubin or fatbin. Which it is, the bytes say.
    ///
    /// # Errors
    /// [`ForeignError`] when the device is the CPU executor, when the bytes are none of these or were cut short, and when the driver
    /// refuses them, with its compiler's log.
    pub fn load(device: &Device, bytes: impl AsRef<[u8]>) -> Result<Self> {
        Self::load_with(device, bytes, &JitOptions::new())
    }

    /// As [`load`](Self::load), with options of the driver's compiler.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(device: &Device, bytes: impl AsRef<[u8]>, options: &JitOptions) -> Result<Self> {
        needs_gpu(device)?;
        Self::from_image(device, &ForeignImage::new("the module", bytes.as_ref())?, options, BTreeMap::new())
    }

    /// Loads a module from a file.
    ///
    /// # Errors
    /// As [`load`](Self::load), and [`ForeignError::Read`].
    pub fn from_file(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        Self::from_file_with(device, path, &JitOptions::new())
    }

    /// As [`from_file`](Self::from_file), with options of the driver's compiler.
    ///
    /// # Errors
    /// As [`from_file`](Self::from_file).
    pub fn from_file_with(device: &Device, path: impl AsRef<Path>, options: &JitOptions) -> Result<Self> {
        needs_gpu(device)?;
        Self::from_image(device, &ForeignImage::read(path.as_ref())?, options, BTreeMap::new())
    }

    /// Loads bytes that were checked.
    pub(super) fn from_image(
        device: &Device,
        image: &ForeignImage,
        options: &JitOptions,
        names: BTreeMap<String, String>,
    ) -> Result<Self> {
        let Some(parts) = device.parts() else { return Err(needs_gpu(device).unwrap_err().into()) };
        image.check_loadable()?;
        let (what, kind) = (image.what().to_owned(), image.kind());
        // SAFETY: the image was checked when it was made: its sizes lie inside, and a zero byte follows.
        let module = unsafe { GpuModule::load_image(&parts.gpu, image.with_end(), &options.pairs()) };
        let module = module.map_err(|failure| ForeignError::Rejected {
            what: what.clone(),
            kind,
            log: failure.log,
            source: failure.source,
        })?;
        let entries = match kind {
            ImageKind::Ptx => image.text().map(ptx::entries).unwrap_or_default(),
            ImageKind::Cubin => Elf::parse(image.bytes()).map(|elf| elf.entries()).unwrap_or_default(),
            ImageKind::Fatbin => fatbin::entries(image.bytes()),
            ImageKind::Object | ImageKind::Library => Vec::new(),
        };
        let (module, uses) = (Arc::new(module), Mutex::new(Uses::none()));
        Ok(Self { inner: Arc::new(ModuleInner { what, kind, module, entries, names, uses, device: device.clone() }) })
    }

    /// The GPU that it is loaded on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// What its bytes were.
    #[must_use]
    pub fn kind(&self) -> ImageKind {
        self.inner.kind
    }

    /// The names of its kernels, as far as they can be read from its bytes: not from compressed parts of a fatbin.
    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        self.inner.entries.iter().map(|entry| entry.name.as_str())
    }

    /// A kernel of the module, by the name that the module has for it or by the name expression it was compiled with.
    ///
    /// # Errors
    /// [`ForeignError::NoSuchKernel`] with the names that there are.
    pub fn kernel(&self, name: &str) -> Result<ForeignKernel> {
        let inner = &self.inner;
        let entry = inner.names.get(name).map_or(name, String::as_str);
        let text = CString::new(entry).map_err(|_| ForeignError::Name { name: name.to_owned() })?;
        let failed =
            |source: DriverError| ForeignError::Kernel { module: inner.what.clone(), kernel: name.to_owned(), source };
        let function = inner.module.function(&text).map_err(|source| {
            if source.code != code::NOT_FOUND {
                return failed(source);
            }
            let available =
                inner.names.keys().map(String::as_str).chain(self.kernel_names()).map(str::to_owned).collect();
            ForeignError::NoSuchKernel { module: inner.what.clone(), kernel: name.to_owned(), available }
        })?;
        // What the driver says of them goes first; older ones do not tell.
        let read = inner.entries.iter().find(|each| each.name == entry).and_then(EntrySignature::sizes);
        let told = function.parameter_sizes(read.as_ref().map(Vec::len)).map_err(failed)?;
        let sizes = told.or(read);
        let code = GpuCode::new(&inner.device, name, function, None).map_err(failed)?;
        Ok(ForeignKernel::new(self, name, code, sizes))
    }

    /// A variable of the module, by the name that the module has for it: `__device__` and `__constant__` ones of CUDA C++.
    ///
    /// # Safety
    /// Any value of `T` is right for the variable: with it the module's kernels do what the declarations of their launchers promise.
    /// A pointer, or a length that a kernel trusts, is not such a variable.
    ///
    /// # Errors
    /// [`ForeignError::NoSuchVariable`], and [`ForeignError::VariableSize`] when `T` has another size.
    pub unsafe fn global<T: KernelValue>(&self, name: &str) -> Result<ForeignGlobal<T>> {
        let inner = &self.inner;
        let symbol = inner.names.get(name).map_or(name, String::as_str);
        let text = CString::new(symbol).map_err(|_| ForeignError::Name { name: name.to_owned() })?;
        let (address, bytes) = inner.module.global_and_size(&text).map_err(|source| ForeignError::NoSuchVariable {
            module: inner.what.clone(),
            variable: name.to_owned(),
            source,
        })?;
        if bytes != size_of::<T>() {
            return Err(ForeignError::VariableSize {
                module: inner.what.clone(),
                variable: name.to_owned(),
                found: bytes,
                type_name: std::any::type_name::<T>(),
                expected: size_of::<T>(),
            }
            .into());
        }
        Ok(ForeignGlobal::new(self, name, address))
    }

    pub(super) fn what(&self) -> &str {
        &self.inner.what
    }

    /// Orders a use of the module's variables.
    pub(crate) fn order(&self, stream: &Stream, access: Access) -> Result<(), DriverError> {
        self.inner.uses.lock().unwrap_or_else(PoisonError::into_inner).order(stream.inner(), access)
    }

    /// Checks that a stream is of the module's device.
    pub(crate) fn check_stream(&self, stream: &Stream) -> Result<(), ForeignError> {
        if stream.device().is_same(&self.inner.device) {
            return Ok(());
        }
        Err(ForeignError::OtherDevice {
            module: self.inner.what.clone(),
            loaded: self.inner.device.to_string(),
            stream: stream.device().to_string(),
        })
    }
}

/// Says so where the device is the CPU executor.
fn needs_gpu(device: &Device) -> Result<(), ForeignError> {
    if device.is_gpu() {
        return Ok(());
    }
    Err(ForeignError::NeedsGpu { operation: "loading code from elsewhere" })
}

impl fmt::Debug for ForeignModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignModule")
            .field("what", &self.inner.what)
            .field("kind", &self.inner.kind)
            .field("device", &self.inner.device)
            .finish_non_exhaustive()
    }
}
