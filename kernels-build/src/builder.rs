//! The public face: compiles a package's kernels from its build script.

use crate::bundle::Bundle;
use crate::embed::{CheckedObject, EmbedError, Embedder};
use crate::job::{LowerError, LowerJob};
use crate::nested::{self, Bitcode, Kind, NestedError, Site, Unit};
use crate::store::{self, Store};
use crate::toolchain::{Toolchain, ToolchainError};
use crate::{checked, libdevice, llvm, lower, ptxas, targets};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Architectures that PTX is made for when nothing else is said: 90 stands for `sm_90`.
pub const DEFAULT_ARCHITECTURES: [u32; 4] = [75, 80, 90, 100];

/// Architectures that NVIDIA makes, from the oldest that kernels run on.
const KNOWN_ARCHITECTURES: [u32; 13] = [75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121];

/// Compiles the kernels of the package whose build script calls this, with every option left at its default.
///
/// A failure is reported to cargo, which shows it and stops; errors in the kernels' own code are rustc's to report.
///
/// # Examples
/// ```no_run
/// // In `main` of build.rs:
/// warpsmith_build::compile();
/// ```
pub fn compile() {
    Builder::new().compile();
}

/// Options for compiling a package's kernels.
///
/// # Examples
/// ```no_run
/// // In `main` of build.rs:
/// warpsmith_build::Builder::new().architectures([80, 90]).compile();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    architectures: Option<Vec<u32>>,
    libdevice: Option<PathBuf>,
    checked: Option<bool>,
}

/// Why a package's kernels were not compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No compiler, or none of its LLVM.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// The nested build did not run.
    #[error(transparent)]
    Nested(#[from] NestedError),
    /// The kernels could not be put into the program.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// Kernels of a library or program could not be lowered.
    #[error("kernels of {target} {}: {source}", outcome(.source))]
    Lower {
        /// The target.
        target: String,
        /// The cause.
        source: LowerError,
    },
    /// Kernels of more than one library or program could not be lowered.
    #[error("{}", .failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n"))]
    Targets {
        /// What went wrong with each.
        failures: Vec<BuildError>,
    },
    /// `WARPSMITH_ARCHITECTURES` is not a list of architectures.
    #[error("WARPSMITH_ARCHITECTURES is `{value}`; it should be a list such as `80,90` or `sm_80 sm_90`")]
    Architectures {
        /// The value.
        value: String,
    },
    /// An architecture that kernels are not made for.
    #[error("kernels cannot be made for sm_{architecture}; {} are known", list(&KNOWN_ARCHITECTURES))]
    UnknownArchitecture {
        /// The architecture.
        architecture: u32,
    },
    /// What was found or named as libdevice is none.
    #[error(
        "libdevice, {path}, {reason}; WARPSMITH_LIBDEVICE=/path/to/libdevice.10.bc names another, and \
         WARPSMITH_LIBDEVICE=none does without"
    )]
    Libdevice {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The list of architectures is empty.
    #[error("there are no architectures to compile kernels for")]
    NoArchitecture,
}

impl Builder {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes PTX for these architectures: 90 for `sm_90`.
    ///
    /// A GPU runs the newest PTX that is not newer than itself. `WARPSMITH_ARCHITECTURES` overrides the list.
    #[must_use]
    pub fn architectures(mut self, architectures: impl IntoIterator<Item = u32>) -> Self {
        self.architectures = Some(architectures.into_iter().collect());
        self
    }

    /// Takes maths functions from this libdevice instead of looking for one; `WARPSMITH_LIBDEVICE` overrides it.
    #[must_use]
    pub fn libdevice(mut self, path: impl Into<PathBuf>) -> Self {
        self.libdevice = Some(path.into());
        self
    }

    /// Says whether the program carries code for the checker (`Device::cpu_checked`).
    ///
    /// When nothing is said it does if something in the package names `Device::cpu_checked`, and where `WARPSMITH_CHECK` is set
    /// to anything but `0` while it is compiled. A library whose kernels others check says so here. It costs a second nested
    /// build, of what depends on warpsmith alone.
    #[must_use]
    pub fn checked(mut self, checked: bool) -> Self {
        self.checked = Some(checked);
        self
    }

    /// Compiles the kernels, and reports failures to cargo.
    pub fn compile(self) {
        if let Err(error) = self.try_compile() {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                let next = error.to_string();
                if !text.contains(&next) {
                    text.push_str(&format!("\ncaused by: {next}"));
                }
                cause = error.source();
            }
            tell("error", &text);
        }
    }

    /// Compiles the kernels, and leaves failures to the caller.
    ///
    /// # Errors
    /// [`BuildError`] when there is no usable toolchain, or the kernels of a library or program cannot be lowered. An
    /// error in the kernels' own code is none: the build of the program shows it.
    pub fn try_compile(self) -> Result<(), BuildError> {
        println!("cargo::rustc-check-cfg=cfg(warpsmith_device, warpsmith_checked)");
        if std::env::var_os(nested::NESTED).is_some() {
            // One line keeps cargo from running this script for every change in the package.
            println!("cargo::rerun-if-env-changed={}", nested::NESTED);
            return Ok(());
        }
        let own = [
            "WARPSMITH_ARCHITECTURES",
            "WARPSMITH_LLVM",
            llvm::DEBUG_VARIABLE,
            ptxas::VARIABLE,
            nested::TARGET_DIR,
            checked::VARIABLE,
            "RUSTC_WORKSPACE_WRAPPER",
            "DOCS_RS",
        ];
        for variable in own.into_iter().chain(libdevice::VARIABLES) {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        if let Some(out_dir) = std::env::var_os("OUT_DIR") {
            targets::forget(out_dir.as_ref());
        }
        if is_only_checked() {
            return Ok(());
        }
        let architectures = self.chosen_architectures()?;
        let libdevice = self.chosen_libdevice()?;
        let toolchain = Toolchain::find()?;
        if let Some(message) = toolchain.untested() {
            println!("cargo::warning={message}");
        }
        let site = Site::from_env()?;
        eprintln!("warpsmith: compiling kernels with {}", toolchain.version);
        let outcome = site.build()?;
        for file in &outcome.files {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        for variable in &outcome.variables {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        outcome.warnings.iter().for_each(|warning| tell("warning", warning));
        let folder = site.out_dir.join("warpsmith");
        let mut lowering = Lowering {
            target: &site.target,
            toolchain: &toolchain,
            architectures,
            libdevice,
            ptxas: chosen_ptxas(),
            cache: folder.join("ptx"),
            store: Store::open(folder),
        };
        let mut embedder = Embedder::default();
        let mut failures = Vec::new();
        for unit in &outcome.units {
            match lowering.bundle(unit) {
                Ok(bundle) if bundle.kernels.is_empty() && bundle.failure.is_none() => {}
                Ok(bundle) => embedder.add(unit.target.kind, &unit.target.name, unit.is_unit_test, bundle),
                Err(error) => failures.push(error),
            }
        }
        if self.checked.unwrap_or_else(|| checked::is_wanted(&outcome)) {
            let built = site.checked().build()?;
            built.warnings.iter().for_each(|warning| tell("warning", &format!("for the checker: {warning}")));
            // What does not compile for a GPU either is shown by the program's own build.
            let compiles = |unit: &&Unit| {
                let same = |other: &&Unit| other.title() == unit.title();
                outcome.units.iter().find(same).is_none_or(|device| device.outcome.is_ok())
            };
            for unit in built.units.iter().filter(compiles) {
                lowering.checked(unit).into_iter().for_each(|object| embedder.add_checked(object));
            }
        }
        lowering.store.close();
        for line in embedder.write(&site.out_dir, &site.target, &unique_name())? {
            println!("{line}");
        }
        if let Some(known) = &outcome.targets {
            let stamp = targets::remember(&site.out_dir, known)
                .map_err(|source| NestedError::Io { path: site.out_dir.clone(), source })?;
            println!("cargo::rerun-if-changed={}", stamp.display());
        }
        match failures.len() {
            0 => Ok(()),
            1 => Err(failures.remove(0)),
            _ => Err(BuildError::Targets { failures }),
        }
    }

    fn chosen_architectures(&self) -> Result<Vec<u32>, BuildError> {
        let by_variable = std::env::var("WARPSMITH_ARCHITECTURES").ok().filter(|value| !value.is_empty());
        let chosen = match by_variable {
            Some(value) => parse_architectures(&value).ok_or(BuildError::Architectures { value })?,
            None => self.architectures.clone().unwrap_or(DEFAULT_ARCHITECTURES.to_vec()),
        };
        let chosen: BTreeSet<u32> = chosen.into_iter().collect();
        if let Some(&architecture) = chosen.iter().find(|chosen| !KNOWN_ARCHITECTURES.contains(chosen)) {
            return Err(BuildError::UnknownArchitecture { architecture });
        }
        if chosen.is_empty() { Err(BuildError::NoArchitecture) } else { Ok(chosen.into_iter().collect()) }
    }

    fn chosen_libdevice(&self) -> Result<Option<PathBuf>, BuildError> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let chosen = match &self.libdevice {
            Some(path) if variable("WARPSMITH_LIBDEVICE").is_none() => Some(path.clone()),
            _ => libdevice::find(variable),
        };
        match chosen {
            Some(path) => match libdevice::fault(&path) {
                Some(reason) => Err(BuildError::Libdevice { path, reason }),
                None => Ok(Some(path)),
            },
            None => Ok(None),
        }
    }
}

/// The assembler that checks inline PTX; one that is named and is not there is said.
fn chosen_ptxas() -> Option<PathBuf> {
    let found = ptxas::find(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))?;
    if found.is_file() {
        return Some(found);
    }
    tell(
        "warning",
        &format!("{} names {}, which is no file: inline PTX is not assembled", ptxas::VARIABLE, found.display()),
    );
    None
}

/// What became of kernels that were not lowered.
fn outcome(error: &LowerError) -> &'static str {
    if matches!(error, LowerError::Unsupported { .. }) { "cannot run on a GPU" } else { "were not compiled" }
}

fn list(architectures: &[u32]) -> String {
    architectures.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// A list of numbers, each with or without `sm_`, between commas or spaces.
fn parse_architectures(text: &str) -> Option<Vec<u32>> {
    let words = text.split([',', ' ', ';']).filter(|word| !word.is_empty());
    words.map(|word| word.trim_start_matches("sm_").parse().ok()).collect()
}

/// Whether no program is made: under clippy, and on docs.rs, which has no network and no use for kernels.
fn is_only_checked() -> bool {
    let wrapper = std::env::var_os("RUSTC_WORKSPACE_WRAPPER").map(PathBuf::from).unwrap_or_default();
    let is_clippy = wrapper.file_stem().is_some_and(|name| name == "clippy-driver");
    is_clippy || std::env::var_os("DOCS_RS").is_some()
}

/// Lowers the units of one nested build.
struct Lowering<'a> {
    target: &'a str,
    toolchain: &'a Toolchain,
    architectures: Vec<u32>,
    libdevice: Option<PathBuf>,
    ptxas: Option<PathBuf>,
    cache: PathBuf,
    store: Store,
}

impl Lowering<'_> {
    /// The bundle of a unit; an error only for a library or program.
    fn bundle(&mut self, unit: &Unit) -> Result<Bundle, BuildError> {
        let title = unit.title();
        let empty = Bundle { target: title.clone(), compiler: self.toolchain.version.clone(), ..Bundle::default() };
        let bitcode = match &unit.outcome {
            Ok(bitcode) => bitcode,
            // The build of the program shows the same error.
            Err(message) => return Ok(Bundle { failure: Some(message.clone()), ..empty }),
        };
        if !registers_kernels(&bitcode.path) {
            return Ok(empty);
        }
        let job = self.job(title.clone(), bitcode);
        let name = title.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-");
        let key = self.key(&job);
        if let Some(bundle) = self.store.get(&name, key) {
            return Ok(bundle);
        }
        eprintln!("warpsmith: lowering {title}");
        match lower::lower(&job) {
            Ok(kernels) => {
                let bundle = Bundle { kernels, ..empty };
                self.store.put(&name, key, &bundle);
                Ok(bundle)
            }
            Err(source) => {
                let error = BuildError::Lower { target: title, source };
                if matches!(unit.target.kind, Kind::Lib | Kind::Bin) && !unit.is_unit_test {
                    return Err(error);
                }
                tell("warning", &error.to_string());
                Ok(Bundle { failure: Some(error.to_string()), ..empty })
            }
        }
    }

    /// The checker's code of a unit; where it cannot be made, a warning says why.
    fn checked(&mut self, unit: &Unit) -> Vec<CheckedObject> {
        let title = unit.title();
        let bitcode = match &unit.outcome {
            Ok(bitcode) if registers_kernels(&bitcode.path) => bitcode,
            Ok(_) => return Vec::new(),
            Err(message) => {
                tell(
                    "warning",
                    &format!("kernels of {title} cannot be checked, because it does not compile: {message}"),
                );
                return Vec::new();
            }
        };
        let name = title.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-");
        let symbol = format!("__warpsmith_checked_{}_{}", unique_name(), name.replace('-', "_"));
        let job = self.job(title.clone(), bitcode);
        let key = self.key(&job);
        let file = format!("{name}.checked");
        let code = match self.store.get_bytes(&file, key).and_then(|bytes| checked::split(&bytes)) {
            Some(code) => code,
            None => {
                eprintln!("warpsmith: lowering {title} for the checker");
                match lower::lower_checked(&job, self.target, &symbol) {
                    Ok(code) => {
                        self.store.put_bytes(&file, key, &checked::join(&code));
                        code
                    }
                    Err(error) => {
                        tell("warning", &format!("kernels of {title} cannot be checked: {error}"));
                        return Vec::new();
                    }
                }
            }
        };
        let object = |code| CheckedObject {
            kind: unit.target.kind,
            name: unit.target.name.clone(),
            is_unit_test: unit.is_unit_test,
            code,
        };
        code.into_iter().map(object).collect()
    }

    fn job(&self, target: String, bitcode: &Bitcode) -> LowerJob {
        LowerJob {
            target,
            bitcode: bitcode.path.clone(),
            dependencies: bitcode.dependencies.clone(),
            rust_lib: self.toolchain.rust_lib(self.target),
            llvm: self.toolchain.llvm.clone(),
            architectures: self.architectures.clone(),
            libdevice: self.libdevice.clone(),
            ptxas: self.ptxas.clone(),
            cache: Some(self.cache.clone()),
        }
    }

    fn key(&mut self, job: &LowerJob) -> u64 {
        let mut files: Vec<&Path> = vec![&job.bitcode];
        let mut dependencies: Vec<&Path> = job.dependencies.iter().map(PathBuf::as_path).collect();
        dependencies.sort();
        files.extend(dependencies);
        files.extend(job.libdevice.as_deref());
        // The lowering itself is part of this executable.
        let program = std::env::current_exe().ok().and_then(|path| store::stamp(&path));
        let ptxas = job.ptxas.as_deref().map(|path| (path, store::stamp(path)));
        let llvm = (&job.llvm, llvm::debug_arguments());
        self.store.key(&files, (&job.target, &job.architectures, llvm, ptxas, &self.toolchain.version, program))
    }
}

/// Whether bitcode calls the marker that ties entries to kernels; names stand in it as they are.
fn registers_kernels(bitcode: &Path) -> bool {
    const NAME: &[u8] = b"__warpsmith_register";
    let Ok(bytes) = std::fs::read(bitcode) else { return true };
    bytes.windows(NAME.len()).any(|window| window == NAME)
}

/// A name for the package's library of kernels that no other package in the program has.
fn unique_name() -> String {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (name, folder) = (variable("CARGO_PKG_NAME"), variable("CARGO_MANIFEST_DIR"));
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(&(folder, variable("CARGO_PKG_VERSION")), &mut hasher);
    format!("{}_{:016x}", name.replace('-', "_"), std::hash::Hasher::finish(&hasher))
}

/// Says something through cargo, line by line.
fn tell(kind: &str, text: &str) {
    text.lines().for_each(|line| println!("cargo::{kind}={line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_in_every_spelling() {
        assert_eq!(parse_architectures("80,90"), Some(vec![80, 90]));
        assert_eq!(parse_architectures("sm_75 sm_100"), Some(vec![75, 100]));
        assert_eq!(parse_architectures("80; 90,"), Some(vec![80, 90]));
        for wrong in ["newest", "sm_90a", "80,-1"] {
            assert_eq!(parse_architectures(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn options_are_sorted_and_not_empty() {
        let chosen = Builder::new().architectures([90, 80, 90]).chosen_architectures();
        assert_eq!(chosen.expect("a list"), [80, 90]);
        let error = Builder::new().architectures([]).chosen_architectures().expect_err("none");
        assert_eq!(error.to_string(), "there are no architectures to compile kernels for");
    }

    #[test]
    fn architectures_that_do_not_exist_are_named() {
        for wrong in [0, 20, 70, 91, 999] {
            let error = Builder::new().architectures([80, wrong]).chosen_architectures().expect_err("not made");
            assert!(
                error.to_string().starts_with(&format!("kernels cannot be made for sm_{wrong}; 75, 80, 86")),
                "{error}"
            );
        }
        assert!(DEFAULT_ARCHITECTURES.iter().all(|architecture| KNOWN_ARCHITECTURES.contains(architecture)));
    }

    #[test]
    fn only_what_a_gpu_cannot_run_is_called_so() {
        let error = |source| BuildError::Lower { target: "bin a".into(), source }.to_string();
        let refused = LowerError::Unsupported { problems: vec!["one".into(), "two".into()] };
        assert_eq!(error(refused), "kernels of bin a cannot run on a GPU: one\n\ntwo");
        let failed = LowerError::Llvm { path: "/lib.so".into(), reason: "it is text".into() };
        assert_eq!(
            error(failed),
            "kernels of bin a were not compiled: cannot use the LLVM library /lib.so: it is text"
        );
    }
}
