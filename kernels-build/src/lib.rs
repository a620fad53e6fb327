//! Compiles kernels: rustc's bitcode in, PTX out, embedded into the program that launches them.

pub mod bundle;

#[cfg(feature = "lower")]
mod builder;
#[cfg(feature = "lower")]
mod checked;
#[cfg(feature = "lower")]
mod embed;
#[cfg(feature = "lower")]
pub mod job;
#[cfg(feature = "lower")]
mod json;
#[cfg(feature = "lower")]
mod libdevice;
#[cfg(feature = "lower")]
mod llvm;
#[cfg(feature = "lower")]
mod lower;
#[cfg(feature = "lower")]
mod nested;
#[cfg(feature = "lower")]
mod ptxas;
#[cfg(feature = "lower")]
mod store;
#[cfg(feature = "lower")]
mod targets;
#[cfg(feature = "lower")]
mod toolchain;
#[cfg(feature = "lower")]
mod wrapper;

#[cfg(feature = "lower")]
pub use builder::{BuildError, Builder, DEFAULT_ARCHITECTURES, compile};
#[cfg(feature = "lower")]
pub use embed::EmbedError;
#[cfg(feature = "lower")]
pub use lower::lower;
#[cfg(feature = "lower")]
pub use nested::NestedError;
#[cfg(feature = "lower")]
pub use toolchain::{Toolchain, ToolchainError};
