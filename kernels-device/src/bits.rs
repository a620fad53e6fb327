//! Types of which every bit pattern is a value.

use crate::abi::KernelValue;

/// Plain data without padding, of which every bit pattern is a value.
///
/// Whatever bytes arrive are then a valid value: another lane's in a shuffle, another thread's in shared memory. So are
/// integers, floats, `half`'s floats, and arrays of them, and structs with `#[derive(AnyBits)]`; `bool`, `char`, `Option` and
/// most enums are not.
///
/// # Safety
/// Every one of the type's bytes belongs to a value, so it has no padding, and every pattern of all its bits is a valid
/// value that upholds what the type promises.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be plain data of which every bit pattern is a value",
    label = "some bit patterns are no value of this type, or it is not known that all are",
    note = "integers, `f32`, `f64`, `f16`, `bf16` and arrays of them take any bits, and so do structs of such with \
            `#[derive(AnyBits)]`; `bool`, `char`, `Option`, tuples and enums do not",
    note = "atomics are not `Copy`, which this asks for too: in shared memory, `shared!([AtomicU32; N])` holds them"
)]
pub unsafe trait AnyBits: KernelValue {}

macro_rules! any_bits {
    ($($scalar:ty),*) => {$(
        // SAFETY: a number takes any bits, and has no padding.
        unsafe impl AnyBits for $scalar {}
    )*};
}
any_bits!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, half::f16, half::bf16);

// SAFETY: an array has no bytes but those of its elements.
unsafe impl<T: AnyBits, const N: usize> AnyBits for [T; N] {}
