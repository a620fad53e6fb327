//! Inline PTX on stable Rust.

/// Writes PTX instructions into a kernel, with `asm!`'s operands and options; an `unsafe` operation.
///
/// The first argument is the PTX text as one literal. Operands are written `{0}`, `{1}` or by name and may be 16, 32
/// and 64-bit integers and floats in `reg`; braces that PTX itself needs are doubled. Predicates live inside the
/// text: `"{{ .reg .pred p; setp.ne.u32 p, {1}, 0; selp.u32 {0}, 1, 2, p; }}"`. Give `options(pure, nomem, nostack)`
/// where the instruction only computes; leave it off for everything that other threads can notice.
///
/// rustc checks operands and options but never reads the text: a mistake in it is reported by the lowering or by
/// `ptxas`. On the CPU executor there is no PTX, so reaching this macro panics.
///
/// # Examples
/// ```
/// use warpsmith_device::ptx;
///
/// /// The position of the highest set bit, or `u32::MAX` for 0.
/// fn find_highest(value: u32) -> u32 {
///     let position: u32;
///     // SAFETY: `bfind` only computes.
///     unsafe { ptx!("bfind.u32 {0}, {1};", out(reg) position, in(reg) value, options(pure, nomem, nostack)) };
///     position
/// }
/// ```
/// # Source
/// PTX ISA, "Instruction Set"; Rust reference, "Inline assembly".
#[macro_export]
macro_rules! ptx {
    ($template:literal $($operands:tt)*) => {{
        $crate::asm::begin();
        #[allow(asm_sub_register, reason = "the lowering takes an operand's width from its type, not from a modifier")]
        let () = ::core::arch::asm!(::core::concat!("/*ptx: ", $template, " */") $($operands)*);
    }};
}

/// What [`ptx!`](crate::ptx) runs first: nothing on the device, a panic on the CPU executor.
#[doc(hidden)]
#[inline(always)]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn begin() {
    #[cfg(not(warpsmith_device))]
    panic!("inline PTX runs only on a GPU; the CPU executor has no meaning for it");
}
