//! What the lowering is asked to do, and why it refuses.

use std::path::PathBuf;

/// One target's bitcode to be lowered: complete, printable, and carried by every error about it.
#[derive(Clone, Debug)]
pub struct LowerJob {
    /// The target as cargo names it, with its kind: `bin photo`.
    pub target: String,
    /// The target's own bitcode; its kernels are lowered.
    pub bitcode: PathBuf,
    /// Bitcode of the crates that it may call into, from the same nested build. Order has no meaning.
    pub dependencies: Vec<PathBuf>,
    /// The sysroot's `lib/rustlib/HOST/lib`, with the bitcode of core, alloc and std in its rlibs.
    pub rust_lib: PathBuf,
    /// The LLVM that made the bitcode: rustc's own shared library.
    pub llvm: PathBuf,
    /// Architectures to make PTX for: 90 for `sm_90`.
    pub architectures: Vec<u32>,
    /// NVIDIA's maths library as bitcode, where one was found; otherwise the `libm` crate's code is used.
    pub libdevice: Option<PathBuf>,
    /// NVIDIA's assembler, where one was found: it checks the kernels that hold `ptx!`.
    pub ptxas: Option<PathBuf>,
    /// Folder of PTX already made, keyed by a hash of the kernel's bitcode and of this job's options.
    pub cache: Option<PathBuf>,
}

/// Why a target was not lowered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// LLVM's library could not be opened or lacks a function.
    #[error("cannot use the LLVM library {path}: {reason}")]
    Llvm {
        /// The library.
        path: PathBuf,
        /// What was missing.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("cannot access {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Kernels reach what a GPU cannot run.
    #[error("{}", list(.problems))]
    Unsupported {
        /// One message for each, with the call path from the kernel and what to do.
        problems: Vec<String>,
    },
    /// Two kernels have one key.
    #[error(
        "two kernels are both named `{key}`: the types in their generic arguments print alike; \
         give one of the types another name or another place"
    )]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The lowering itself went wrong.
    #[error("warpsmith has a bug, please report it with this text: {reason}\n{job:#?}")]
    Internal {
        /// What went wrong.
        reason: String,
        /// The job.
        job: Box<LowerJob>,
    },
}

fn list(problems: &[String]) -> String {
    problems.join("\n\n")
}
