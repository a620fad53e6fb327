//! Functions of a crate without kernels that print when a kernel calls them.

use warpsmith::{Printable, gpu_dbg, gpu_println};

/// Prints a value of any type.
pub fn print_generic<T: Printable>(value: T) {
    gpu_println!("another crate's {}: {value:?}", core::any::type_name::<T>());
}

/// Prints twice a number, and gives it.
#[inline(never)]
pub fn print_doubled(x: u32) -> u32 {
    gpu_dbg!(x.wrapping_mul(2))
}

/// The place that [`print_doubled`] prints, three lines above.
pub const DOUBLED_AT: &str = concat!("[", file!(), ":13:5]");
