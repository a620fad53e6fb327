//! Ordinary Rust in kernels: each case runs on the CPU executor and on a GPU, and must equal plain host evaluation.
#![allow(
    clippy::style,
    clippy::complexity,
    clippy::correctness,
    while_true,
    reason = "the cases spell constructs out in the form that is under test"
)]

mod casts;
mod collections;
mod control_flow;
mod floats;
mod integers;
mod iterators;
mod math;
mod types;
