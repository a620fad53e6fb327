//! What the tests of warpsmith share: the devices to run on, the inputs, and the helpers that compare them with the host.

mod devices;
mod inputs;

mod equality;
mod fault;
mod together;

pub mod ptx;

pub use devices::{cpu, devices, gpu};
pub use equality::check;
pub use fault::{Fault, check_fault, check_overflow};
pub use inputs::{inputs, mix, random, zero};
pub use together::check_on_devices;
