//! Compiles kernels: rustc's bitcode in, PTX out, embedded into the program that launches them.
pub mod bundle;
