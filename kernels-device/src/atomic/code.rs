//! How an atomic operation is named to the lowering and to the executor: operation, ordering and scope in one number.

/// Writes the value.
pub const EXCHANGE: u32 = 0;
/// Adds integers.
pub const ADD: u32 = 1;
/// Subtracts integers.
pub const SUB: u32 = 2;
/// Takes the bits that both have.
pub const AND: u32 = 3;
/// Takes the bits that one has.
pub const OR: u32 = 4;
/// Takes the bits that only one has.
pub const XOR: u32 = 5;
/// Keeps the smaller signed integer.
pub const MIN: u32 = 6;
/// Keeps the larger signed integer.
pub const MAX: u32 = 7;
/// Keeps the smaller unsigned integer.
pub const UNSIGNED_MIN: u32 = 8;
/// Keeps the larger unsigned integer.
pub const UNSIGNED_MAX: u32 = 9;
/// Adds one, from the limit on to 0.
pub const INC: u32 = 10;
/// Subtracts one, from 0 and from beyond the limit to the limit.
pub const DEC: u32 = 11;
/// Adds the floats of a word's size.
pub const ADD_FLOAT: u32 = 12;
/// Adds `bf16` numbers.
pub const ADD_BF16: u32 = 13;
/// Adds pairs of `f16` numbers.
pub const ADD_F16X2: u32 = 14;
/// Adds pairs of `bf16` numbers.
pub const ADD_BF16X2: u32 = 15;

/// No order between this and other accesses.
pub const RELAXED: u32 = 0;
/// Later accesses stay after it.
pub const ACQUIRE: u32 = 1;
/// Earlier accesses stay before it.
pub const RELEASE: u32 = 2;
/// Both.
pub const ACQUIRE_RELEASE: u32 = 3;
/// Both, and one order for all such operations.
pub const SEQUENTIAL: u32 = 4;

/// The threads of a block.
pub const BLOCK: u32 = 0;
/// The threads of a device.
pub const DEVICE: u32 = 1;
/// All threads of all devices and of the host.
pub const SYSTEM: u32 = 2;

/// The number for an operation.
#[inline(always)]
#[must_use]
pub const fn encode(operation: u32, order: u32, scope: u32) -> u32 {
    operation | order << 8 | scope << 16
}

/// Operation, ordering and scope of a number.
#[inline(always)]
#[must_use]
pub const fn decode(how: u32) -> (u32, u32, u32) {
    (how & 0xff, how >> 8 & 0xff, how >> 16)
}
