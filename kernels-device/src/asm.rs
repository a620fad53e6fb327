//! Inline PTX on stable Rust: the plain form that this crate uses, and what `warpsmith::ptx!` is made of.

/// Writes PTX instructions into a kernel, with `asm!`'s operands and options; an `unsafe` operation.
///
/// This is the plain form for this crate's own functions. Programs use `warpsmith::ptx!`, which checks the text.
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
    panic!("inline PTX runs only on a GPU; say what the CPU executor does instead: `ptx!(..; else {{ .. }})`");
}

/// What a register of PTX holds.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand of PTX",
    label = "not a number, a `char` or a pointer",
    note = "`in(reg)` and `out(reg)` take integers of 8 to 64 bits, floats, `char` and pointers; a `bool` is passed as `(pred)`, \
            128-bit integers as `(reg128)`, and values of several numbers one by one"
)]
#[doc(hidden)]
pub trait Operand: Copy {
    /// As `asm!` takes it.
    type Register;

    /// The value in a register.
    fn into_register(self) -> Self::Register;

    /// The value from a register.
    fn from_register(register: Self::Register) -> Self;
}

macro_rules! plain_operands {
    ($($type:ty)*) => {$(
        impl Operand for $type {
            type Register = Self;

            #[inline(always)]
            fn into_register(self) -> Self {
                self
            }

            #[inline(always)]
            fn from_register(register: Self) -> Self {
                register
            }
        }
    )*};
}
plain_operands!(u16 i16 u32 i32 u64 i64 usize isize f32 f64);

macro_rules! converted_operands {
    ($($type:ty, $register:ty, |$value:ident| $into:expr, |$from:ident| $back:expr;)*) => {$(
        impl Operand for $type {
            type Register = $register;

            #[inline(always)]
            fn into_register(self) -> $register {
                let $value = self;
                $into
            }

            #[inline(always)]
            fn from_register($from: $register) -> Self {
                $back
            }
        }
    )*};
}
converted_operands! {
    u8, u16, |value| u16::from(value), |register| register as Self;
    i8, i16, |value| i16::from(value), |register| register as Self;
    char, u32, |value| value as u32, |register| Self::from_u32(register).unwrap_or(Self::REPLACEMENT_CHARACTER);
    half::f16, u16, |value| value.to_bits(), |register| Self::from_bits(register);
    half::bf16, u16, |value| value.to_bits(), |register| Self::from_bits(register);
}

macro_rules! pointer_operands {
    ($($pointer:ty)*) => {$(
        impl<T> Operand for $pointer {
            type Register = Self;

            #[inline(always)]
            fn into_register(self) -> Self {
                self
            }

            #[inline(always)]
            fn from_register(register: Self) -> Self {
                register
            }
        }
    )*};
}
pointer_operands!(*const T *mut T);

/// The value in a register.
#[doc(hidden)]
#[inline(always)]
pub fn into_register<T: Operand>(value: T) -> T::Register {
    value.into_register()
}

/// The value from a register.
#[doc(hidden)]
#[inline(always)]
pub fn from_register<T: Operand>(register: T::Register) -> T {
    T::from_register(register)
}

/// A predicate as a number.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub const fn from_bool(value: bool) -> u32 {
    value as u32
}

/// A 128-bit integer.
#[doc(hidden)]
pub trait Wide: Copy {
    /// The same bits, without a sign.
    fn into_bits(self) -> u128;

    /// The value of these bits.
    fn from_bits(bits: u128) -> Self;
}

macro_rules! wide_operands {
    ($($type:ty)*) => {$(
        impl Wide for $type {
            #[inline(always)]
            fn into_bits(self) -> u128 {
                self as u128
            }

            #[inline(always)]
            fn from_bits(bits: u128) -> Self {
                bits as Self
            }
        }
    )*};
}
wide_operands!(u128 i128);

/// The low and the high half.
#[doc(hidden)]
#[inline(always)]
pub fn into_halves<T: Wide>(value: T) -> (u64, u64) {
    let bits = value.into_bits();
    (bits as u64, (bits >> 64) as u64)
}

/// The value of both halves.
#[doc(hidden)]
#[inline(always)]
pub fn from_halves<T: Wide>(low: u64, high: u64) -> T {
    T::from_bits(u128::from(low) | u128::from(high) << 64)
}
