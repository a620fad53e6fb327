//! What a kernel may call, with one meaning on the GPU and on the CPU executor.
pub mod abi;
