//! What can go wrong with modules from elsewhere.

use std::fmt;
use std::path::PathBuf;

use super::{DriverError, log_text};
use crate::foreign::ImageKind;

/// Why code from elsewhere could not be read, compiled, joined, loaded or launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// The device is the CPU executor.
    #[error(
        "{operation} needs a GPU: code from elsewhere is machine code or PTX, which the CPU executor cannot run; open the device \
         with Device::gpu(0), or write the kernel with #[kernel], which runs on both"
    )]
    NeedsGpu {
        /// What was asked for.
        operation: &'static str,
    },
    /// A file could not be read.
    #[error("the module {} could not be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The bytes are no module.
    #[error("{what} is no GPU module: {reason}")]
    NotAModule {
        /// The file or the name it was given.
        what: String,
        /// What is wrong, and what is taken.
        reason: String,
    },
    /// The bytes are what is said, but not of a sort that can be used so.
    #[error("{what} is {kind}, which {reason}")]
    WrongKind {
        /// The file or the name it was given.
        what: String,
        /// What it is.
        kind: ImageKind,
        /// Why that does not do.
        reason: &'static str,
    },
    /// The bytes end early or contradict themselves.
    #[error("{what} is {kind} and is damaged: {reason}")]
    Malformed {
        /// The file or the name it was given.
        what: String,
        /// What its first bytes say it is.
        kind: ImageKind,
        /// What is wrong.
        reason: String,
    },
    /// The driver refused the module.
    #[error("the driver refused {what} ({kind}){}", log_text(log))]
    Rejected {
        /// The file or the name it was given.
        what: String,
        /// What it is.
        kind: ImageKind,
        /// What the driver's compiler said.
        log: String,
        /// The driver's answer.
        source: DriverError,
    },
    /// The driver's linker refused.
    #[error("{what} could not be linked{}", log_text(log))]
    Link {
        /// What was being added, or all that was being joined.
        what: String,
        /// What the linker said.
        log: String,
        /// The driver's answer.
        source: DriverError,
    },
    /// Nothing was given to the linker.
    #[error("there is nothing to link: add a module first")]
    NothingToLink,
    /// A name that holds a zero byte.
    #[error("the name {name:?} holds a zero byte")]
    Name {
        /// The name.
        name: String,
    },
    /// The module has no such kernel.
    #[error("{module} has no kernel `{kernel}`{}", among(available))]
    NoSuchKernel {
        /// The module.
        module: String,
        /// The name that was looked for.
        kernel: String,
        /// The kernels that it has, as far as that can be read.
        available: Vec<String>,
    },
    /// The module has no such variable.
    #[error(
        "{module} has no variable `{variable}` that the host can see; in CUDA C++ declare it `__device__` or `__constant__` at file \
         scope, in PTX `.visible .global` or `.visible .const`, and give the name as the module has it (C++ names are mangled unless \
         declared extern \"C\")"
    )]
    NoSuchVariable {
        /// The module.
        module: String,
        /// The name that was looked for.
        variable: String,
        /// The driver's answer.
        source: DriverError,
    },
    /// A variable's size differs from the type's.
    #[error("variable `{variable}` of {module} has {found} bytes; `{type_name}` has {expected}")]
    VariableSize {
        /// The module.
        module: String,
        /// The variable.
        variable: String,
        /// Its size in bytes.
        found: usize,
        /// The type that was asked for.
        type_name: &'static str,
        /// The type's size in bytes.
        expected: usize,
    },
    /// The kernel takes another number of parameters than declared.
    #[error(
        "kernel `{kernel}` of {module} takes {found} parameters{}; it is declared with {declared}",
        sizes_text(sizes)
    )]
    ParameterCount {
        /// The module.
        module: String,
        /// The kernel.
        kernel: String,
        /// Parameters of the kernel.
        found: usize,
        /// Their sizes in bytes.
        sizes: Vec<usize>,
        /// Parameters of the declaration.
        declared: usize,
    },
    /// A parameter has another size than declared.
    #[error(
        "parameter {index} (`{parameter}`) of kernel `{kernel}` of {module} has {found} bytes; it is declared as `{type_name}`, which \
         takes {declared}"
    )]
    ParameterSize {
        /// The module.
        module: String,
        /// The kernel.
        kernel: String,
        /// Which parameter, from 0.
        index: usize,
        /// Its name in the declaration.
        parameter: &'static str,
        /// Its size in the module, in bytes.
        found: usize,
        /// Its type in the declaration.
        type_name: &'static str,
        /// What that type takes, in bytes.
        declared: usize,
    },
    /// The kernel's parameters cannot be read, so that a declaration cannot be compared with them.
    #[error(
        "the parameters of kernel `{kernel}` of {module} are not known: {reason}; load the PTX or the cubin itself, or use a driver \
         for CUDA 12.4 or newer, which tells them"
    )]
    UnknownSignature {
        /// The module.
        module: String,
        /// The kernel.
        kernel: String,
        /// Why not.
        reason: &'static str,
    },
    /// The stream is of another device than the module.
    #[error("{module} is loaded on {loaded}, the stream runs on {stream}; load it on that device too")]
    OtherDevice {
        /// The module.
        module: String,
        /// Where it is loaded.
        loaded: String,
        /// Where the stream runs.
        stream: String,
    },
    /// The arguments do not meet what the declaration requires.
    #[error("launch of `{kernel}` with arguments that do not meet its condition `{condition}`")]
    Condition {
        /// The kernel.
        kernel: String,
        /// The condition, as it stands in the declaration.
        condition: &'static str,
    },
    /// A copy to or from a variable failed.
    #[error("{operation} variable `{variable}` of {module} failed")]
    Variable {
        /// What was being done.
        operation: &'static str,
        /// The variable.
        variable: String,
        /// The module.
        module: String,
        /// The driver's answer.
        source: DriverError,
    },
    /// The driver did not answer for a loaded kernel.
    #[error("kernel `{kernel}` of {module} could not be made ready")]
    Kernel {
        /// The module.
        module: String,
        /// The kernel.
        kernel: String,
        /// The driver's answer.
        source: DriverError,
    },
    /// NVRTC is not on this machine, or is not where it was said to be.
    #[error(
        "NVRTC, NVIDIA's compiler library for CUDA C++, could not be opened: {reason}; looked for {} in {}; install it with `pip \
         install nvidia-cuda-nvrtc` in a virtual environment, `apt install cuda-nvrtc-13-0` from NVIDIA's repository, or a CUDA \
         toolkit, and where it is in an unusual place set WARPSMITH_NVRTC_DIR to its folder",
        names.join(", "),
        if folders.is_empty() { "no folder".to_owned() } else { folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ") }
    )]
    NvrtcMissing {
        /// Why the last attempt failed.
        reason: String,
        /// Names that were looked for.
        names: Vec<String>,
        /// Folders that were looked through.
        folders: Vec<PathBuf>,
    },
    /// NVRTC was found and lacks a function.
    #[error("NVRTC at {} is too old or damaged: it lacks `{symbol}`, which it has since CUDA 11.2", path.display())]
    NvrtcTooOld {
        /// The library.
        path: PathBuf,
        /// The function.
        symbol: &'static str,
    },
    /// NVRTC refused the source.
    #[error("{name} does not compile for {target} (NVRTC {version}):\n{log}")]
    Compile {
        /// The source's name.
        name: String,
        /// The architecture, as in `sm_90`.
        target: String,
        /// NVRTC's version.
        version: String,
        /// What NVRTC said, with the lines of the source that it is about.
        log: String,
    },
    /// NVRTC failed for another reason than the source.
    #[error("NVRTC failed on {name}: `{call}` answered {answer}{}", log_text(log))]
    Nvrtc {
        /// The source's name.
        name: String,
        /// The function that failed.
        call: &'static str,
        /// Its answer, in its own words.
        answer: String,
        /// What it said beside that.
        log: String,
    },
    /// A name expression was not given before compiling.
    #[error("{name} was compiled without the name expression `{expression}`{}", among(available))]
    NoSuchExpression {
        /// The source's name.
        name: String,
        /// The expression.
        expression: String,
        /// Those that were given.
        available: Vec<String>,
    },
}

fn among(available: &[String]) -> String {
    match available {
        [] => String::new(),
        some => format!("; it has `{}`", some.join("`, `")),
    }
}

fn sizes_text(sizes: &[usize]) -> String {
    match sizes {
        [] => String::new(),
        sizes => {
            let list: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!(" (of {} bytes)", list.join(", "))
        }
    }
}

impl fmt::Display for ImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ptx => "PTX",
            Self::Cubin => "a cubin",
            Self::Fatbin => "a fatbin",
            Self::Object => "an object file",
            Self::Library => "a library",
        })
    }
}
