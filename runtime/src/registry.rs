//! The kernels that the program carries: every bundle that build scripts linked in, found by section and read once.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use warpsmith_build::bundle::{Bundle, KernelKey, KernelRecord, entries};

use crate::error::ModuleError;

/// A section that a test wants read in place of the program's.
#[cfg(test)]
pub(crate) static INSTEAD: OnceLock<Vec<u8>> = OnceLock::new();

/// All kernels of the program, by key.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    kernels: HashMap<KernelKey, KernelRecord>,
    failures: Vec<Failure>,
}

/// A target whose device build failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) target: String,
    pub(crate) message: String,
}

impl Registry {
    /// The program's kernels, read at the first call.
    pub(crate) fn get() -> Result<&'static Self, ModuleError> {
        static REGISTRY: OnceLock<Result<Registry, String>> = OnceLock::new();
        let registry = REGISTRY.get_or_init(|| {
            #[cfg(test)]
            if let Some(bytes) = INSTEAD.get() {
                return Registry::read(bytes);
            }
            Registry::read(section::bytes())
        });
        registry.as_ref().map_err(|reason| ModuleError::Corrupt { reason: reason.clone() })
    }

    pub(crate) fn read(section: &[u8]) -> Result<Self, String> {
        let mut registry = Self::default();
        for entry in entries(section) {
            let bytes = entry.map_err(|error| error.to_string())?;
            // The anchor below is an entry without a bundle.
            if !bytes.is_empty() {
                registry.add(Bundle::decode(bytes).map_err(|error| error.to_string())?);
            }
        }
        Ok(registry)
    }

    fn add(&mut self, bundle: Bundle) {
        if let Some(message) = bundle.failure {
            self.failures.push(Failure { target: bundle.target.clone(), message });
        }
        for kernel in bundle.kernels {
            // The same instance may come from two targets: a generic kernel that a library and a program both launch. It
            // was compiled from the same source, so either serves.
            self.kernels.entry(kernel.key.clone()).or_insert(kernel);
        }
    }

    pub(crate) fn find(&self, key: &KernelKey) -> Option<&KernelRecord> {
        self.kernels.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.kernels.len()
    }

    /// The crates that define its kernels.
    pub(crate) fn crates(&self) -> BTreeSet<&str> {
        self.kernels.keys().map(|key| key.module_path.split("::").next().unwrap_or_default()).collect()
    }

    pub(crate) fn failures(&self) -> &[Failure] {
        &self.failures
    }
}

/// Every kernel instance that this program carries, with its PTX and metadata; order has no meaning.
///
/// # Errors
/// [`ModuleError::Corrupt`] when what the linker put into the program cannot be read.
pub fn compiled_kernels() -> Result<Vec<&'static KernelRecord>, ModuleError> {
    Ok(Registry::get()?.kernels.values().collect())
}

/// The targets whose device build failed, each with the compiler's message: their kernels run on the CPU executor only.
///
/// # Errors
/// As [`compiled_kernels`].
pub fn failed_targets() -> Result<Vec<(&'static str, &'static str)>, ModuleError> {
    let failures = Registry::get()?.failures.iter();
    Ok(failures.map(|failure| (failure.target.as_str(), failure.message.as_str())).collect())
}

#[cfg(target_os = "linux")]
mod section {
    //! The section itself, between the symbols that the linker puts around it.

    use warpsmith_build::bundle::ENTRY_MAGIC;

    /// An entry without a bundle: with it the section exists in every program, so that its two symbols do.
    #[repr(C, align(16))]
    struct Anchor {
        magic: u64,
        len: u64,
    }

    #[used]
    #[unsafe(link_section = "warpsmith_bundles")]
    static ANCHOR: Anchor = Anchor { magic: ENTRY_MAGIC, len: 0 };

    unsafe extern "C" {
        #[link_name = "__start_warpsmith_bundles"]
        static START: u8;
        #[link_name = "__stop_warpsmith_bundles"]
        static STOP: u8;
    }

    pub(super) fn bytes() -> &'static [u8] {
        // Naming the anchor keeps a linker that collects garbage from taking it away.
        std::hint::black_box(&ANCHOR);
        let start = &raw const START;
        let len = (&raw const STOP).addr() - start.addr();
        // SAFETY: the linker puts the two symbols around the section, which is mapped for the program's whole life and
        // never written.
        unsafe { std::slice::from_raw_parts(start, len) }
    }
}

#[cfg(not(target_os = "linux"))]
mod section {
    //! Other systems have no such section yet: kernels run on the CPU executor.

    pub(super) fn bytes() -> &'static [u8] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use warpsmith_build::bundle::{ENTRY_ALIGN, frame};

    use super::*;

    #[test]
    fn a_damaged_section_is_an_error() {
        assert!(Registry::read(&frame(b"no bundle at all")).is_err());
        assert!(Registry::read(&[1; 16]).is_err());
        let mut short = frame(&Bundle::default().encode());
        short.pop();
        short.truncate(short.len() - 16);
        assert!(Registry::read(&short).is_err());
    }

    #[test]
    fn entries_without_a_bundle_are_skipped() {
        let section = [frame(&[]), vec![0; 32], frame(&Bundle::default().encode()), frame(&[])].concat();
        assert_eq!(Registry::read(&section).unwrap().len(), 0);
        assert_eq!(Registry::read(&[]).unwrap().len(), 0);
    }

    #[test]
    fn bundles_bring_their_kernels_and_their_failures() {
        let key = KernelKey { name: "saxpy".to_owned(), ..KernelKey::default() };
        let kernel = KernelRecord { key: key.clone(), entry: "entry".to_owned(), ..KernelRecord::default() };
        let good = Bundle { target: "bin good".to_owned(), kernels: vec![kernel.clone()], ..Bundle::default() };
        let failed = Bundle {
            target: "test bad".to_owned(),
            failure: Some("error[E0308]: mismatched types".to_owned()),
            ..Bundle::default()
        };
        let section = [frame(&good.encode()), frame(&failed.encode())].concat();
        let registry = Registry::read(&section).unwrap();
        assert_eq!(registry.find(&key), Some(&kernel));
        assert_eq!(registry.len(), 1);
        let failure = &registry.failures()[0];
        assert_eq!((failure.target.as_str(), failure.message.contains("E0308")), ("test bad", true));
    }

    #[test]
    fn this_program_has_a_section() {
        assert!(Registry::get().is_ok());
        if cfg!(target_os = "linux") {
            assert!(section::bytes().len() >= ENTRY_ALIGN);
        }
    }
}
