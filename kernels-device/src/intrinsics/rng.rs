//! The product that random numbers are made of.

use crate::ptx;

/// The whole product. LLVM has an instruction for it too, but loses sight of the factors' width between two rounds.
#[inline(always)]
pub(crate) fn mul_wide(a: u32, b: u32) -> u64 {
    let product: u64;
    // SAFETY: it only computes.
    unsafe {
        ptx!(
            "mul.wide.u32 {0}, {1}, {2};",
            out(reg) product,
            in(reg) a,
            in(reg) b,
            options(pure, nomem, nostack)
        )
    };
    product
}
