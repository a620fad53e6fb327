//! The checker's rules, each with kernels that must be caught and look-alikes that must stay silent.

mod barriers;
mod global_races;
mod observed;
mod races;
mod shared_races;
mod unsafe_indices;
mod warp_masks;
