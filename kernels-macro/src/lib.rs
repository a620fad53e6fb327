//! The `#[kernel]` attribute and `#[derive(KernelValue)]`.
