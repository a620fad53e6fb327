//! The PTX that kernels become: what must be in it, and what must not.

mod atomics;
mod barriers;
mod dump;
mod memory;
mod options;
mod printing;
mod shape;
mod warps;
