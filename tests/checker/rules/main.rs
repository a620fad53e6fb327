//! The checker's rules, each with kernels that must be caught and look-alikes that must stay silent.

mod observed;
mod races;
