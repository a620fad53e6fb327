//! The checker's rules, each with kernels that must be caught and look-alikes that must stay silent.

mod barriers;
mod bounds;
mod chains;
mod global_races;
mod misaligned;
mod numbers;
mod observed;
mod races;
mod schedules;
mod shared_races;
mod uninitialised;
mod unsafe_indices;
mod warp_masks;
