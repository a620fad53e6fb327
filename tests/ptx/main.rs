//! The PTX that kernels become: what must be in it, and what must not.

mod atomics;
mod barriers;
mod cache;
mod clusters;
mod constants;
mod dump;
mod grid;
mod inline;
mod math;
mod mbarriers;
mod memory;
mod named;
mod options;
mod panics;
mod printing;
mod rng;
mod shape;
mod timing;
mod vectors;
mod warps;
