//! Values read back from a record, and printed by the implementations that their own types have.

use std::fmt::{self, Binary, Debug, Display, LowerExp, LowerHex, Octal, Pointer, UpperExp, UpperHex};

use half::{bf16, f16};
use warpsmith_device::Dim3;
use warpsmith_device::print::{Scalar, TypeCode};

/// A value as its record has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Leaf(Leaf),
    List(Vec<Value>),
}

macro_rules! leaves {
    ($($name:ident $type:ty: $($format:ident)*;)*) => {
        /// A value that is not made of others.
        #[derive(Clone, PartialEq)]
        pub(super) enum Leaf {
            $($name($type),)*
        }

        leaves!(@formats Display $($name: $($format)*;)*);
        leaves!(@formats Debug $($name: $($format)*;)*);
        leaves!(@formats LowerHex $($name: $($format)*;)*);
        leaves!(@formats UpperHex $($name: $($format)*;)*);
        leaves!(@formats Octal $($name: $($format)*;)*);
        leaves!(@formats Binary $($name: $($format)*;)*);
        leaves!(@formats LowerExp $($name: $($format)*;)*);
        leaves!(@formats UpperExp $($name: $($format)*;)*);
        leaves!(@formats Pointer $($name: $($format)*;)*);
    };
    (@formats $trait:ident $($name:ident: $($format:ident)*;)*) => {
        impl $trait for Leaf {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(_value) => leaves!(@arm $trait f _value $($format)*),)*
                }
            }
        }
    };
    (@arm $trait:ident $f:ident $value:ident $first:ident $($format:ident)*) => {{
        // Names are the same or not when the macro is expanded, which `macro_rules` can't ask: a table does.
        leaves!(@same $trait $first $f $value { leaves!(@arm $trait $f $value $($format)*) })
    }};
    (@arm $trait:ident $f:ident $value:ident) => {
        // The compiler has refused such a format in the kernel.
        Err(fmt::Error)
    };
    (@same Display Display $f:ident $value:ident $else:block) => { Display::fmt($value, $f) };
    (@same Debug Debug $f:ident $value:ident $else:block) => { Debug::fmt($value, $f) };
    (@same LowerHex Hex $f:ident $value:ident $else:block) => { LowerHex::fmt($value, $f) };
    (@same UpperHex Hex $f:ident $value:ident $else:block) => { UpperHex::fmt($value, $f) };
    (@same Octal Hex $f:ident $value:ident $else:block) => { Octal::fmt($value, $f) };
    (@same Binary Hex $f:ident $value:ident $else:block) => { Binary::fmt($value, $f) };
    (@same LowerExp Exp $f:ident $value:ident $else:block) => { LowerExp::fmt($value, $f) };
    (@same UpperExp Exp $f:ident $value:ident $else:block) => { UpperExp::fmt($value, $f) };
    (@same Pointer Pointer $f:ident $value:ident $else:block) => { Pointer::fmt($value, $f) };
    (@same $trait:ident $other:ident $f:ident $value:ident $else:block) => { $else };
}
leaves! {
    I8 i8: Display Debug Hex Exp;
    I16 i16: Display Debug Hex Exp;
    I32 i32: Display Debug Hex Exp;
    I64 i64: Display Debug Hex Exp;
    I128 i128: Display Debug Hex Exp;
    Isize isize: Display Debug Hex Exp;
    U8 u8: Display Debug Hex Exp;
    U16 u16: Display Debug Hex Exp;
    U32 u32: Display Debug Hex Exp;
    U64 u64: Display Debug Hex Exp;
    U128 u128: Display Debug Hex Exp;
    Usize usize: Display Debug Hex Exp;
    F16 f16: Display Debug Hex Exp;
    Bf16 bf16: Display Debug Hex Exp;
    F32 f32: Display Debug Exp;
    F64 f64: Display Debug Exp;
    Bool bool: Display Debug;
    Char char: Display Debug;
    Pointer *const (): Debug Pointer;
    Text String: Display Debug;
    Dim3 Dim3: Display Debug;
    Unit (): Debug;
}

/// Takes values out of a record's words.
pub(super) struct Reader<'a> {
    pub(super) words: &'a [u64],
}

impl Reader<'_> {
    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(*first)
    }

    /// The next value, of this type; nothing when the words end before it does.
    pub(super) fn value(&mut self, code: TypeCode) -> Option<Value> {
        let dimension = code.0 >> 8 & 0xffff;
        if dimension == 0 {
            return Some(Value::Leaf(self.leaf(code)?));
        }
        let element = TypeCode(code.0 & 0xff | (code.0 >> 24) << 8);
        let len = if dimension == TypeCode::SLICE { self.word()? } else { dimension - 1 };
        // Nothing is set aside for a length that no record can have.
        let mut list = Vec::new();
        for _ in 0..len {
            list.push(self.value(element)?);
        }
        Some(Value::List(list))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the record keeps every value as 64 bits")]
    fn leaf(&mut self, code: TypeCode) -> Option<Leaf> {
        let scalar = *Scalar::ALL.iter().find(|scalar| **scalar as u64 == code.0 & 0xff)?;
        Some(match scalar {
            Scalar::I8 => Leaf::I8(self.word()? as i8),
            Scalar::I16 => Leaf::I16(self.word()? as i16),
            Scalar::I32 => Leaf::I32(self.word()? as i32),
            Scalar::I64 => Leaf::I64(self.word()?.cast_signed()),
            Scalar::I128 => Leaf::I128(self.two_words()?.cast_signed()),
            Scalar::Isize => Leaf::Isize(self.word()? as isize),
            Scalar::U8 => Leaf::U8(self.word()? as u8),
            Scalar::U16 => Leaf::U16(self.word()? as u16),
            Scalar::U32 => Leaf::U32(self.word()? as u32),
            Scalar::U64 => Leaf::U64(self.word()?),
            Scalar::U128 => Leaf::U128(self.two_words()?),
            Scalar::Usize => Leaf::Usize(self.word()? as usize),
            Scalar::F16 => Leaf::F16(f16::from_bits(self.word()? as u16)),
            Scalar::Bf16 => Leaf::Bf16(bf16::from_bits(self.word()? as u16)),
            Scalar::F32 => Leaf::F32(f32::from_bits(self.word()? as u32)),
            Scalar::F64 => Leaf::F64(f64::from_bits(self.word()?)),
            Scalar::Bool => Leaf::Bool(self.word()? & 1 != 0),
            Scalar::Char => Leaf::Char(char::from_u32(self.word()? as u32).unwrap_or(char::REPLACEMENT_CHARACTER)),
            Scalar::Pointer => Leaf::Pointer(std::ptr::without_provenance(self.word()? as usize)),
            Scalar::Text => Leaf::Text(self.text()?),
            Scalar::Dim3 => {
                let (xy, z) = (self.word()?, self.word()?);
                Leaf::Dim3(Dim3 { x: xy as u32, y: (xy >> 32) as u32, z: z as u32 })
            }
            Scalar::Unit => Leaf::Unit(()),
        })
    }

    fn two_words(&mut self) -> Option<u128> {
        Some(u128::from(self.word()?) | u128::from(self.word()?) << 64)
    }

    fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.word()?).ok()?;
        let (text, rest) = self.words.split_at_checked(len.div_ceil(8))?;
        self.words = rest;
        let mut bytes: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(len);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
