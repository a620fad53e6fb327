//! The kinds of module, told apart by their bytes, and what is checked before the driver sees them.
//!
//! The driver is given an address without a length, and trusts the sizes inside: a file that was cut short must not reach it.

use super::elf::Elf;
use super::fatbin;
use crate::error::ForeignError;

/// What a module's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageKind {
    /// Text of the PTX instruction set, compiled by the driver when it is loaded.
    Ptx,
    /// Machine code for one architecture: a 64-bit ELF file for NVIDIA's GPUs.
    Cubin,
    /// Several of these in one file.
    Fatbin,
    /// An object file of the host's with GPU code in it, for the [`Linker`](super::Linker).
    Object,
    /// An archive of such files, for the [`Linker`](super::Linker).
    Library,
}

const ELF_MAGIC: &[u8] = b"\x7fELF";
const FATBIN_MAGIC: &[u8] = &[0x50, 0xed, 0x55, 0xba];
const ARCHIVE_MAGIC: &[u8] = b"!<arch>\n";
const BITCODE_MAGIC: &[u8] = b"BC\xc0\xde";

/// A module's bytes, whose sizes agree with each other.
#[derive(Clone, Debug)]
pub(crate) struct ForeignImage {
    what: String,
    kind: ImageKind,
    /// In words, so that the driver finds them aligned; zeros follow the bytes.
    words: Vec<u64>,
    len: usize,
}

impl ForeignImage {
    /// Recognises bytes and checks them; `what` names them in messages.
    pub(crate) fn new(what: &str, bytes: &[u8]) -> Result<Self, ForeignError> {
        let kind = recognise(what, bytes)?;
        let malformed = |reason: String| ForeignError::Malformed { what: what.to_owned(), kind, reason };
        match kind {
            ImageKind::Ptx => check_ptx(bytes).map_err(malformed)?,
            ImageKind::Cubin => drop(Elf::parse(bytes).map_err(malformed)?),
            ImageKind::Fatbin => {
                for member in fatbin::members(bytes).map_err(malformed)? {
                    if let Some(bytes) = member.plain_elf() {
                        Elf::parse(bytes)
                            .map_err(|reason| malformed(format!("its cubin {}: {reason}", member.name())))?;
                    }
                }
            }
            ImageKind::Object | ImageKind::Library => {}
        }
        // At least eight zero bytes end the text of PTX.
        let mut words = vec![0u64; bytes.len() / 8 + 2];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Ok(Self { what: what.to_owned(), kind, words, len: bytes.len() })
    }

    /// Reads a file.
    pub(crate) fn read(path: &std::path::Path) -> Result<Self, ForeignError> {
        let bytes = std::fs::read(path).map_err(|source| ForeignError::Read { path: path.to_owned(), source })?;
        Self::new(&path.display().to_string(), &bytes)
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn kind(&self) -> ImageKind {
        self.kind
    }

    /// The bytes as they were given.
    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    /// The bytes, aligned to 8, and a zero after them.
    pub(crate) fn with_end(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..=self.len]
    }

    /// The text of PTX.
    pub(crate) fn text(&self) -> Option<&str> {
        (self.kind == ImageKind::Ptx).then(|| std::str::from_utf8(self.bytes()).unwrap_or_default())
    }

    /// Refuses what can be linked but not loaded.
    pub(crate) fn check_loadable(&self) -> Result<(), ForeignError> {
        let refused = |reason| Err(ForeignError::WrongKind { what: self.what.clone(), kind: self.kind, reason });
        match self.kind {
            ImageKind::Object | ImageKind::Library => refused("cannot be loaded by itself; give it to a `Linker`"),
            ImageKind::Cubin if Elf::parse(self.bytes()).is_ok_and(|elf| elf.is_relocatable()) => {
                refused("is relocatable (compiled with -rdc=true or ptxas -c); give it to a `Linker`")
            }
            _ => Ok(()),
        }
    }
}

/// What the first bytes say.
fn recognise(what: &str, bytes: &[u8]) -> Result<ImageKind, ForeignError> {
    const TAKEN: &str = "PTX, a 64-bit cubin or a fatbin is taken, and by the linker also an object file or a library";
    let no_module =
        |reason: &str| Err(ForeignError::NotAModule { what: what.to_owned(), reason: format!("{reason}; {TAKEN}") });
    if bytes.is_empty() {
        return no_module("it is empty");
    }
    if bytes.starts_with(ELF_MAGIC) {
        const CUDA: [u8; 2] = [190, 0];
        return match (bytes.get(4), bytes.get(18..20)) {
            (Some(2), Some(machine)) if machine == CUDA => Ok(ImageKind::Cubin),
            (Some(1), Some(machine)) if machine == CUDA => {
                no_module("it is a 32-bit cubin, which no driver that is supported loads: compile it with -m64")
            }
            (Some(1 | 2), Some(_)) => Ok(ImageKind::Object),
            _ => no_module("it begins as an ELF file does, and ends inside the header"),
        };
    }
    if bytes.starts_with(FATBIN_MAGIC) {
        return Ok(ImageKind::Fatbin);
    }
    if bytes.starts_with(ARCHIVE_MAGIC) {
        return Ok(ImageKind::Library);
    }
    if bytes.starts_with(BITCODE_MAGIC) {
        return no_module("it is LLVM bitcode, which has to be compiled to PTX first");
    }
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let Ok(text) = std::str::from_utf8(&bytes[..end]) else {
        return no_module("its first bytes are of no kind that is known");
    };
    let text = super::ptx::without_comments(text);
    let first = text.trim_start();
    if first.starts_with(".version") || first.starts_with(".file") {
        return Ok(ImageKind::Ptx);
    }
    if ["__global__", "#include", "extern \"C\""].iter().any(|word| text.contains(word)) {
        return no_module("it looks like CUDA C++ source, which `CudaSource` compiles");
    }
    no_module("its text does not begin with `.version`, as PTX does")
}

fn check_ptx(bytes: &[u8]) -> Result<(), String> {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    if let Some(at) = bytes[..end].iter().position(|&byte| byte == 0) {
        return Err(format!("a zero byte at {at} would end it there"));
    }
    let text = std::str::from_utf8(&bytes[..end]).map_err(|error| error.to_string())?;
    let text = super::ptx::without_comments(text);
    if let Some(size) = super::ptx::directive(&text, ".address_size")
        && size != "64"
    {
        return Err(format!("its .address_size is {size}; only 64 is supported"));
    }
    Ok(())
}
