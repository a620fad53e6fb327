//! GPU kernels in ordinary Rust: the host side.
