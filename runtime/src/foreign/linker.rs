//! Joins modules from elsewhere, so that one calls functions of another.

use std::collections::BTreeMap;
use std::ffi::{CString, c_uint};
use std::path::Path;

use super::image::{ForeignImage, ImageKind};
use super::module::ForeignModule;
use super::options::JitOptions;
use crate::device::Device;
use crate::driver::{GpuLinker, LoadFailure};
use crate::error::{ForeignError, Result};

/// Joins PTX, relocatable cubins, fatbins, object files and libraries into one module, by the driver's linker.
///
/// # Examples
/// ```no_run
/// use warpsmith::foreign::{JitOptions, Linker};
/// use warpsmith::prelude::*;
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::gpu(0)?;
/// let mut linker = Linker::new(&device, &JitOptions::new())?;
/// linker.add("kernels", std::fs::read("kernels.ptx").unwrap())?;
/// linker.add_file("helpers.cubin")?;
/// let module = linker.load()?;
/// # let _ = module;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Linker {
    linker: GpuLinker,
    names: Vec<String>,
    // After `linker`, whose drop still needs the device.
    device: Device,
}

impl Linker {
    /// Begins to link for a device.
    ///
    /// # Errors
    /// [`ForeignError::NeedsGpu`] on the CPU executor, [`ForeignError::Link`] when the driver refuses the options.
    pub fn new(device: &Device, options: &JitOptions) -> Result<Self> {
        let Some(parts) = device.parts() else {
            return Err(ForeignError::NeedsGpu { operation: "linking code from elsewhere" }.into());
        };
        let linker = GpuLinker::new(&parts.gpu, &options.pairs()).map_err(|failure| refused("the module", failure))?;
        Ok(Self { linker, names: Vec::new(), device: device.clone() })
    }

    /// Adds a module, whose kind its bytes say; `name` is what the linker's messages call it.
    ///
    /// # Errors
    /// [`ForeignError`] when the bytes are no module or were cut short, and [`ForeignError::Link`] with the linker's log. What was added
    /// before stays.
    pub fn add(&mut self, name: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.add_image(&ForeignImage::new(name, bytes.as_ref())?)?)
    }

    /// Adds a file.
    ///
    /// # Errors
    /// As [`add`](Self::add), and [`ForeignError::Read`].
    pub fn add_file(&mut self, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.add_image(&ForeignImage::read(path.as_ref())?)?)
    }

    fn add_image(&mut self, image: &ForeignImage) -> Result<(), ForeignError> {
        // Numbers of `CUjitInputType`.
        let kind: c_uint = match image.kind() {
            ImageKind::Cubin => 0,
            ImageKind::Ptx => 1,
            ImageKind::Fatbin => 2,
            ImageKind::Object => 3,
            ImageKind::Library => 4,
        };
        let name = CString::new(image.what()).map_err(|_| ForeignError::Name { name: image.what().to_owned() })?;
        let bytes = if image.kind() == ImageKind::Ptx { image.with_end() } else { image.bytes() };
        self.linker.add(kind, bytes, &name).map_err(|failure| refused(image.what(), failure))?;
        self.names.push(image.what().to_owned());
        Ok(())
    }

    /// Joins what was added, and gives the cubin.
    ///
    /// # Errors
    /// [`ForeignError::NothingToLink`], and [`ForeignError::Link`] with the linker's log: functions that no module has, or that two have.
    pub fn link(self) -> Result<Vec<u8>> {
        Ok(self.link_named()?.1)
    }

    /// Joins what was added, and loads it.
    ///
    /// # Errors
    /// As [`link`](Self::link) and [`ForeignModule::load`].
    pub fn load(self) -> Result<ForeignModule> {
        let device = self.device.clone();
        let (name, bytes) = self.link_named()?;
        let image = ForeignImage::new(&name, &bytes)?;
        ForeignModule::from_image(&device, &image, &JitOptions::new(), BTreeMap::new())
    }

    fn link_named(self) -> Result<(String, Vec<u8>), ForeignError> {
        if self.names.is_empty() {
            return Err(ForeignError::NothingToLink);
        }
        let name = self.names.join(" with ");
        let bytes = self.linker.complete().map_err(|failure| refused(&name, failure))?;
        Ok((name, bytes))
    }
}

fn refused(what: &str, LoadFailure { source, log }: LoadFailure) -> ForeignError {
    ForeignError::Link { what: what.to_owned(), log, source }
}
