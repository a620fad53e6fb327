//! What threads do together, and what a launch does with its arguments: CPU executor and GPU against plain host code.

mod atomics;
mod barriers;
mod cache;
mod clusters;
mod collectives;
mod constants;
mod grid;
mod groups;
mod kernels;
mod math;
mod mbarriers;
mod named;
mod printing;
mod rng;
mod safety;
mod scoped_atomics;
mod shape;
mod shared_memory;
mod shared_phases;
mod testing;
mod timing;
mod vectors;
mod views;
mod warp_reductions;
mod warp_values;
mod warps;
