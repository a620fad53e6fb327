//! Patterns: values of 1, 2 or 4 bytes, of which the driver fills memory in one operation.

use std::any::{Any, TypeId};

use half::{bf16, f16};
use warpsmith_device::abi::KernelValue;

/// The bits of a value that memory is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Byte(u8),
    Half(u16),
    Word(u32),
}

impl Pattern {
    /// The bits of a value, of those types of which all bits are known to be written: others may have gaps between fields.
    pub(super) fn of<T: KernelValue>(value: &T) -> Option<Self> {
        let value: &dyn Any = value;
        macro_rules! of_types {
            ($($kind:ident($($element:ty => $bits:expr),*);)*) => {
                match value.type_id() {
                    $($(id if id == TypeId::of::<$element>() => {
                        let bits: fn($element) -> _ = $bits;
                        value.downcast_ref::<$element>().map(|&value| Self::$kind(bits(value)))
                    })*)*
                    _ => None,
                }
            };
        }
        of_types! {
            Byte(u8 => |x| x, i8 => |x| x as u8, bool => |x| u8::from(x));
            Half(u16 => |x| x, i16 => |x| x as u16, f16 => |x| x.to_bits(), bf16 => |x| x.to_bits());
            Word(u32 => |x| x, i32 => |x| x as u32, f32 => |x| x.to_bits(), char => |x| u32::from(x));
        }
    }

    /// Bytes of one.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Byte(_) => 1,
            Self::Half(_) => 2,
            Self::Word(_) => 4,
        }
    }

    /// The bits in a word, with zeros above them.
    pub(crate) fn word(self) -> u32 {
        match self {
            Self::Byte(value) => value.into(),
            Self::Half(value) => value.into(),
            Self::Word(value) => value,
        }
    }
}
