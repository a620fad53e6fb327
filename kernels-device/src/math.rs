//! Mathematics beyond the methods of `f32` and `f64`: special functions, fast approximations, directed rounding, and what
//! the hardware does with integers.
//!
//! Everything is safe to call, from any thread, and on the CPU executor too.

#[doc(hidden)]
pub mod bodies;
mod special;

pub use special::{Float, cospi, erf, erfc, exp10, lgamma, rcbrt, rsqrt, sinpi, tgamma};

/// Keeps the traits of this module to the types that the hardware knows.
pub(crate) mod sealed {
    /// Implemented for the primitive types alone.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}
