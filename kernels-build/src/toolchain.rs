//! Finds rustc and the LLVM that belongs to it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Minor versions of rustc 1 that this crate's tests have run with.
const TESTED: std::ops::RangeInclusive<u32> = 95..=97;

/// A Rust toolchain and its LLVM library.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// First line of `rustc -vV`.
    pub version: String,
    /// The triple the compiler itself runs on.
    pub host: String,
    /// The toolchain's root.
    pub sysroot: PathBuf,
    /// The LLVM library that the compiler uses.
    pub llvm: PathBuf,
}

/// Why no usable toolchain was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolchainError {
    /// A program could not be started.
    #[error("cannot start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The compiler refused to describe itself.
    #[error("`{command}` failed with {status}:\n{stderr}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// The compiler's description lacks a line.
    #[error("`{command}` printed no `{line}` line:\n{stdout}")]
    Version {
        /// The command line.
        command: String,
        /// The line.
        line: &'static str,
        /// What it printed.
        stdout: String,
    },
    /// `WARPSMITH_LLVM` names no file.
    #[error("WARPSMITH_LLVM names `{path}`, which is no file; it should be a libLLVM shared library")]
    Override {
        /// The path.
        path: PathBuf,
    },
    /// The compiler's LLVM is nowhere.
    #[error(
        "no LLVM library of {version} was found; looked for libLLVM*.so* in {}, and for one that librustc_driver-*.so \
         there needs; WARPSMITH_LLVM=/path/to/libLLVM.so names it",
        list(.folders)
    )]
    NoLlvm {
        /// The compiler's version.
        version: String,
        /// Folders that were searched.
        folders: Vec<PathBuf>,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Toolchain {
    /// The compiler of the cargo that runs the build script (`RUSTC`), else the one in `PATH`.
    ///
    /// # Errors
    /// [`ToolchainError`] when there is no compiler, or none of its LLVM.
    pub fn find() -> Result<Self, ToolchainError> {
        Self::at(std::env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from))
    }

    /// The toolchain of a given compiler.
    ///
    /// # Errors
    /// As for [`Toolchain::find`].
    pub fn at(rustc: PathBuf) -> Result<Self, ToolchainError> {
        let mut command = Command::new(&rustc);
        command.arg("-vV");
        let description = output(&mut command)?;
        let line = |name: &'static str| {
            let found = description.lines().find_map(|line| line.strip_prefix(name)).map(|line| line.trim().to_owned());
            found.ok_or_else(|| ToolchainError::Version {
                command: format!("{command:?}"),
                line: name,
                stdout: description.clone(),
            })
        };
        let host = line("host:")?;
        let version = format!("rustc {}", line("rustc ")?);
        let sysroot = PathBuf::from(output(Command::new(&rustc).args(["--print", "sysroot"]))?.trim_end());
        let llvm = match std::env::var_os("WARPSMITH_LLVM").filter(|path| !path.is_empty()).map(PathBuf::from) {
            Some(path) if path.is_file() => path,
            Some(path) => return Err(ToolchainError::Override { path }),
            None => find_llvm(&sysroot, &host, &version)?,
        };
        Ok(Self { rustc, version, host, sysroot, llvm })
    }

    /// What to tell users of a compiler that was never tried; nothing for the others.
    #[must_use]
    pub fn untested(&self) -> Option<String> {
        let minor = self.version.split(['.', ' ']).nth(2).and_then(|text| text.parse().ok());
        if minor.is_some_and(|minor: u32| TESTED.contains(&minor)) {
            return None;
        }
        Some(format!(
            "kernels are tested with rustc 1.{} to 1.{}, and this is {}: should they not compile or go wrong, try one of \
             those, and report it",
            TESTED.start(),
            TESTED.end(),
            self.version
        ))
    }

    /// The folder of the compiled standard library for a target.
    #[must_use]
    pub fn rust_lib(&self, target: &str) -> PathBuf {
        self.sysroot.join("lib/rustlib").join(target).join("lib")
    }
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String, ToolchainError> {
    let line = format!("{command:?}");
    let output = command.output().map_err(|source| ToolchainError::Start { command: line.clone(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ToolchainError::Failed { command: line, status: output.status, stderr })
}

/// rustup's toolchains carry their own LLVM beside the compiler; a distribution's compiler needs the system's.
fn find_llvm(sysroot: &Path, host: &str, version: &str) -> Result<PathBuf, ToolchainError> {
    let own = [sysroot.join("lib"), sysroot.join("lib/rustlib").join(host).join("lib")];
    let shipped = own.iter().flat_map(|folder| files(folder, "libLLVM"));
    // Beside the library lies a linker script of nearly the same name.
    if let Some(path) = shipped.into_iter().find(|path| name_of(path).contains("-rust-") && is_elf(path)) {
        return Ok(path);
    }
    let architecture = host.split('-').next().unwrap_or_default();
    let mut folders = own.to_vec();
    folders.push(sysroot.join("lib64"));
    folders.push(sysroot.join(format!("lib/{architecture}-linux-gnu")));
    let drivers = folders.iter().flat_map(|folder| files(folder, "librustc_driver-")).collect::<Vec<_>>();
    folders.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    for folder in ["/usr/lib64", "/usr/lib", "/lib64", "/lib"] {
        folders.push(folder.into());
        folders.push(Path::new(folder).join(format!("{architecture}-linux-gnu")));
    }
    let mut needed = drivers.iter().flat_map(|driver| needed_libraries(driver));
    if let Some(name) = needed.find(|name| name.starts_with("libLLVM")) {
        let found = folders.iter().map(|folder| folder.join(&name)).find(|path| path.is_file());
        // The loader knows more places than we do, so a name alone will do.
        return Ok(found.unwrap_or_else(|| name.into()));
    }
    folders.retain(|folder| folder.is_dir());
    Err(ToolchainError::NoLlvm { version: version.to_owned(), folders })
}

fn name_of(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Files of a folder whose name starts with a prefix, in order of their names.
fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| name_of(path).starts_with(prefix));
    paths.sort();
    paths
}

fn is_elf(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

/// Names of the shared libraries that a shared library asks for.
fn needed_libraries(path: &Path) -> Vec<String> {
    use object::read::elf::{Dyn, FileHeader, SectionHeader};
    let Ok(data) = std::fs::read(path) else { return Vec::new() };
    let names = || -> object::Result<Vec<String>> {
        let header = object::elf::FileHeader64::<object::Endianness>::parse(&*data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, &*data)?;
        let Some((entries, link)) = sections.dynamic(endian, &*data)? else { return Ok(Vec::new()) };
        let strings = sections.section(link)?.strings(endian, &*data)?.unwrap_or_default();
        let needed = entries.iter().filter(|entry| entry.tag(endian) == object::elf::DT_NEEDED);
        let names = needed.filter_map(|entry| strings.get(u32::try_from(entry.val(endian)).ok()?).ok());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    };
    names().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_was_never_tried_is_named() {
        let mut toolchain = Toolchain::find().expect("the tests are compiled by a toolchain");
        for (version, tested) in [("1.95.0 (1 2026-04-14)", true), ("1.97.0-nightly (1)", true), ("1.94.1 (1)", false)]
        {
            toolchain.version = format!("rustc {version}");
            assert_eq!(toolchain.untested().is_none(), tested, "{version}");
        }
        toolchain.version = "rustc 1.120.0 (1)".to_owned();
        let message = toolchain.untested().expect("1.120 was never tried");
        assert!(message.contains("rustc 1.95 to 1.97") && message.contains("1.120.0"), "{message}");
    }

    #[test]
    fn this_toolchain_is_found() {
        let found = Toolchain::find().expect("the tests are compiled by a toolchain");
        assert!(found.version.starts_with("rustc 1."), "{}", found.version);
        assert!(found.rust_lib(&found.host).is_dir(), "{found:?}");
        assert!(is_elf(&found.llvm), "{found:?}");
    }

    #[test]
    fn drivers_needs_are_read() {
        let found = Toolchain::find().expect("the tests are compiled by a toolchain");
        let driver = files(&found.sysroot.join("lib"), "librustc_driver-").pop().expect("the compiler's library");
        let needed = needed_libraries(&driver);
        assert!(needed.iter().any(|name| name.starts_with("libLLVM")), "{needed:?}");
    }

    #[test]
    fn a_missing_compiler_is_named() {
        let error = Toolchain::at("/nowhere/rustc".into()).expect_err("there is none");
        assert_eq!(error.to_string(), "cannot start `\"/nowhere/rustc\" \"-vV\"`");
    }

    #[test]
    fn a_missing_llvm_lists_what_was_searched() {
        let error = find_llvm(Path::new("/nowhere"), "x86_64-unknown-linux-gnu", "rustc 1.0.0").expect_err("none");
        let text = error.to_string();
        assert!(text.starts_with("no LLVM library of rustc 1.0.0 was found; looked for libLLVM*.so* in "), "{text}");
        assert!(text.contains("WARPSMITH_LLVM"), "{text}");
    }
}
