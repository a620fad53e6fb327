//! What the tests of warpsmith share: the devices to run on, the inputs, and the helpers that compare them with the host.

mod devices;
mod inputs;

mod equality;
mod fault;
mod printing;
mod together;

pub mod ptx;

pub use devices::{cpu, devices, gpu};
pub use equality::check;
pub use fault::{Fault, check_fault, check_overflow};
pub use inputs::{inputs, mix, random, zero};
pub use printing::{DOUBLED_AT, print_doubled, print_generic};
pub use together::{check_on_devices, check_with_absent_lanes};
