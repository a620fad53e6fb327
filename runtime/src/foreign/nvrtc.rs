//! NVRTC, NVIDIA's compiler library for CUDA C++, found and opened at run time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use crate::error::{ForeignError, Result};

/// The environment variable with the folder of the library.
const FOLDER_VARIABLE: &str = "WARPSMITH_NVRTC_DIR";

/// `nvrtcProgram`.
pub(super) type Program = *mut c_void;

macro_rules! nvrtc_functions {
    ($($symbol:ident($($argument:ty),*);)*) => {
        /// NVRTC's functions.
        #[allow(non_snake_case, reason = "the fields are named as NVRTC's functions are")]
        pub(super) struct Functions {
            $(pub(super) $symbol: unsafe extern "C" fn($($argument),*) -> c_int,)*
            pub(super) nvrtcGetErrorString: unsafe extern "C" fn(c_int) -> *const c_char,
            /// Last, so that it is closed after all else.
            _library: Library,
        }

        impl Functions {
            fn find(library: Library, path: &Path) -> Result<Self, ForeignError> {
                let too_old = |symbol| ForeignError::NvrtcTooOld { path: path.to_owned(), symbol };
                Ok(Self {
                    $($symbol: {
                        type Function = unsafe extern "C" fn($($argument),*) -> c_int;
                        // SAFETY: the type is the function's in `nvrtc.h`, with enums as their numbers.
                        let found = unsafe { library.get::<Function>(concat!(stringify!($symbol), "\0").as_bytes()) };
                        *found.map_err(|_| too_old(stringify!($symbol)))?
                    },)*
                    nvrtcGetErrorString: {
                        type Function = unsafe extern "C" fn(c_int) -> *const c_char;
                        // SAFETY: as above.
                        let found = unsafe { library.get::<Function>(b"nvrtcGetErrorString\0") };
                        *found.map_err(|_| too_old("nvrtcGetErrorString"))?
                    },
                    _library: library,
                })
            }
        }
    };
}

nvrtc_functions! {
    nvrtcVersion(*mut c_int, *mut c_int);
    nvrtcCreateProgram(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
    nvrtcDestroyProgram(*mut Program);
    nvrtcCompileProgram(Program, c_int, *const *const c_char);
    nvrtcAddNameExpression(Program, *const c_char);
    nvrtcGetLoweredName(Program, *const c_char, *mut *const c_char);
    nvrtcGetProgramLogSize(Program, *mut usize);
    nvrtcGetProgramLog(Program, *mut c_char);
    nvrtcGetPTXSize(Program, *mut usize);
    nvrtcGetPTX(Program, *mut c_char);
    nvrtcGetCUBINSize(Program, *mut usize);
    nvrtcGetCUBIN(Program, *mut c_char);
}

/// The opened library. A handle: clones are the same.
///
/// It compiles without a GPU and without a driver.
#[derive(Clone)]
pub struct Nvrtc {
    pub(super) functions: Arc<Functions>,
    path: PathBuf,
    version: (u32, u32),
}

impl Nvrtc {
    /// Opens the library: in the folder that `WARPSMITH_NVRTC_DIR` names and nowhere else where that is set; otherwise in the folders of
    /// `LD_LIBRARY_PATH`, of a CUDA toolkit (`CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda`), of the Python packages of `VIRTUAL_ENV` and
    /// `CONDA_PREFIX`, and of the system.
    ///
    /// # Errors
    /// [`ForeignError::NvrtcMissing`] with where was looked and what to do, [`ForeignError::NvrtcTooOld`].
    pub fn open() -> Result<Self> {
        Ok(Self::open_in(&folders(|name| std::env::var_os(name)), names())?)
    }

    /// Opens the library in one folder.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_from(folder: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::open_in(&[folder.as_ref().to_owned()], names())?)
    }

    fn open_in(folders: &[PathBuf], names: Vec<String>) -> Result<Self, ForeignError> {
        let mut reason = "no such file".to_owned();
        for folder in folders {
            for path in names.iter().map(|name| folder.join(name)).filter(|path| path.is_file()) {
                // Its second half, which it looks for by name alone; opened first, it is found. Kept open for the process.
                for builtins in builtins(folder) {
                    // SAFETY: NVIDIA's library has no initialisers but those of the C++ library.
                    if let Ok(library) = unsafe { Library::new(&builtins) } {
                        std::mem::forget(library);
                    }
                }
                // SAFETY: as above.
                match unsafe { Library::new(&path) } {
                    Ok(library) => return Self::from_library(library, path),
                    Err(error) => reason = error.to_string(),
                }
            }
        }
        Err(ForeignError::NvrtcMissing { reason, names, folders: folders.to_vec() })
    }

    fn from_library(library: Library, path: PathBuf) -> Result<Self, ForeignError> {
        let functions = Functions::find(library, &path)?;
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: it writes two numbers.
        let answer = unsafe { (functions.nvrtcVersion)(&raw mut major, &raw mut minor) };
        let nvrtc =
            Self { functions: Arc::new(functions), path, version: (major.unsigned_abs(), minor.unsigned_abs()) };
        nvrtc.check("the library", "nvrtcVersion", answer)?;
        Ok(nvrtc)
    }

    /// Its version, as that of the CUDA toolkit it is of.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Turns an answer about a source into a `Result`.
    pub(super) fn check(&self, name: &str, call: &'static str, answer: c_int) -> Result<(), ForeignError> {
        if answer == 0 {
            return Ok(());
        }
        // SAFETY: NVRTC takes any number and answers with a static string.
        let text = unsafe { CStr::from_ptr((self.functions.nvrtcGetErrorString)(answer)) };
        let answer = text.to_string_lossy().into_owned();
        Err(ForeignError::Nvrtc { name: name.to_owned(), call, answer, log: String::new() })
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvrtc").field("path", &self.path).field("version", &self.version).finish_non_exhaustive()
    }
}

/// The names that releases give the library, newest first.
fn names() -> Vec<String> {
    let names: &[&str] = if cfg!(windows) {
        &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"]
    } else {
        &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"]
    };
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The files of the folder that are NVRTC's second half.
fn builtins(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_builtins = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc-builtins.so."))
    };
    files.filter(is_builtins).collect()
}

/// The folders to look through, in order.
fn folders(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Vec<PathBuf> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(folder) = variable(FOLDER_VARIABLE) {
        return vec![folder.into()];
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    let search_path = if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" };
    folders.extend(variable(search_path).iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute()));
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(&variable).map(PathBuf::from);
    let toolkits = toolkits.chain((!cfg!(windows)).then(|| PathBuf::from("/usr/local/cuda")));
    let within: &[&str] =
        if cfg!(windows) { &["bin", "bin/x64"] } else { &["lib64", "targets/x86_64-linux/lib", "lib"] };
    folders.extend(toolkits.flat_map(|toolkit| within.iter().map(move |inner| toolkit.join(inner))));
    for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(&variable).map(PathBuf::from) {
        folders.push(environment.join("lib"));
        let entries = |folder: &Path| -> Vec<PathBuf> {
            let mut paths: Vec<PathBuf> =
                std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            paths.sort();
            paths
        };
        for python in entries(&environment.join("lib")) {
            for package in entries(&python.join("site-packages/nvidia")).into_iter().rev() {
                folders.extend([package.join("lib"), package.join("bin")].into_iter().filter(|folder| folder.is_dir()));
            }
        }
    }
    if !cfg!(windows) {
        folders.extend(["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_the_only_folder_where_it_is_set() {
        let set = |name: &str| (name == FOLDER_VARIABLE || name == "CUDA_HOME").then(|| format!("/{name}").into());
        assert_eq!(folders(set), [PathBuf::from("/WARPSMITH_NVRTC_DIR")]);
        let toolkit = folders(|name| (name == "CUDA_HOME").then(|| "/toolkit".into()));
        assert!(toolkit.contains(&PathBuf::from("/toolkit/lib64")), "{toolkit:?}");
    }

    #[test]
    fn a_missing_library_says_where_was_looked_and_what_helps() {
        let error = Nvrtc::open_from("/nowhere/at/all").unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all") && error.contains("pip install nvidia-cuda-nvrtc"), "{error}");
        assert!(error.contains(FOLDER_VARIABLE), "{error}");
    }
}
