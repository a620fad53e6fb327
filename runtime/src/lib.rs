//! GPU kernels in ordinary Rust: the host side.

#[allow(dead_code, reason = "the launcher is being connected")]
mod cpu;
