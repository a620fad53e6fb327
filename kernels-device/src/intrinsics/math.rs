//! PTX instructions that compute, each on its operands alone.

use crate::ptx;

macro_rules! compute {
    ($($(#[$meta:meta])* $name:ident($($argument:ident: $ty:ty),*) -> $result:ty = $template:literal;)*) => {$(
        $(#[$meta])*
        #[inline(always)]
        pub(crate) fn $name($($argument: $ty),*) -> $result {
            let result: $result;
            // SAFETY: the instruction reads and writes registers alone.
            unsafe { ptx!($template, out(reg) result, $(in(reg) $argument,)* options(pure, nomem, nostack)) };
            result
        }
    )*};
}

pub(crate) mod rsqrt {
    use super::ptx;

    compute! {
        f32(x: f32) -> f32 = "rsqrt.approx.f32 {0}, {1};";
        f64(x: f64) -> f64 = "rsqrt.approx.f64 {0}, {1};";
    }
}
