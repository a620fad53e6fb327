//! Panics in kernels come back as errors that say what the host would say, and leave the context usable.
#![allow(
    clippy::style,
    clippy::complexity,
    clippy::correctness,
    reason = "the cases spell constructs out in the form that is under test"
)]

mod overflow;
mod panics;
mod trap;
