//! Small kernels made at random from a seed, and what each must give.
//!
//! The build script writes them as Rust; the same seed gives the same programs here, which [`program::Program::run`] interprets.
//! Most are free of races by construction; the others have atomics too, but nothing that depends on the order of threads.

pub mod program;

mod slots;

/// The kernels, as the build script wrote them.
#[allow(warnings, clippy::all, reason = "written by a program")]
pub mod kernels {
    include!("../kernels.rs");
}
