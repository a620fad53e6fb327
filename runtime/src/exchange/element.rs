//! The types of elements that can be exchanged, and how DLPack and the CUDA array interface name them.

use std::fmt;

use bytemuck::{Pod, Zeroable};
use warpsmith_device::abi::{KernelValue, fold_layout, leaf_layout};
use warpsmith_device::{
    Bf16x2, Bf16x4, Bf16x8, F16x2, F16x4, F16x8, F32x2, F32x4, F64x2, I32x2, I32x4, I64x2, U8x4, U8x16, U16x2, U16x4,
    U16x8, U32x2, U32x4, U64x2, Vector,
};

use super::error::ExchangeError;

/// A type of elements as DLPack writes it (`DLDataType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct DataType {
    /// Kind of number: one of the constants here.
    pub code: u8,
    /// Bits of one lane: 32 for `f32`, 64 for a complex number of two `f32`.
    pub bits: u8,
    /// Numbers in an element; 1 but for vectors.
    pub lanes: u16,
}

impl DataType {
    /// Signed integers.
    pub const INT: u8 = 0;
    /// Unsigned integers.
    pub const UINT: u8 = 1;
    /// IEEE floats.
    pub const FLOAT: u8 = 2;
    /// `bf16`.
    pub const BFLOAT: u8 = 4;
    /// Complex numbers, real part first.
    pub const COMPLEX: u8 = 5;
    /// Booleans, a byte each.
    pub const BOOL: u8 = 6;

    const fn scalar(code: u8, bits: u8) -> Self {
        Self { code, bits, lanes: 1 }
    }

    /// The type's name in the CUDA array interface: `<f4` for `f32`.
    ///
    /// # Errors
    /// [`ExchangeError::NoTypeString`] for `bf16`, vectors and unknown types.
    pub fn type_string(self) -> Result<String, ExchangeError> {
        let kind = match self.code {
            Self::INT => 'i',
            Self::UINT => 'u',
            Self::FLOAT => 'f',
            Self::COMPLEX => 'c',
            Self::BOOL => 'b',
            _ => return Err(ExchangeError::NoTypeString { found: self.to_string() }),
        };
        if self.lanes != 1 || !self.bits.is_multiple_of(8) {
            return Err(ExchangeError::NoTypeString { found: self.to_string() });
        }
        let order = if self.bits == 8 { '|' } else { '<' };
        Ok(format!("{order}{kind}{}", self.bits / 8))
    }

    /// The type behind a type string of this machine's byte order; `None` for others.
    #[must_use]
    pub fn from_type_string(text: &str) -> Option<Self> {
        let mut characters = text.chars();
        let order = characters.next()?;
        let code = match characters.next()? {
            'i' => Self::INT,
            'u' => Self::UINT,
            'f' => Self::FLOAT,
            'c' => Self::COMPLEX,
            'b' => Self::BOOL,
            _ => return None,
        };
        let digits = characters.as_str();
        let bytes: u8 = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        let native = order == if cfg!(target_endian = "little") { '<' } else { '>' };
        let bits = bytes.checked_mul(8)?;
        (native || order == '=' || bytes == 1 && matches!(order, '|' | '<' | '>')).then_some(Self::scalar(code, bits))
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Self::INT => write!(f, "int{}", self.bits),
            Self::UINT => write!(f, "uint{}", self.bits),
            Self::FLOAT => write!(f, "float{}", self.bits),
            Self::BFLOAT => write!(f, "bfloat{}", self.bits),
            Self::COMPLEX => write!(f, "complex{}", self.bits),
            Self::BOOL => write!(f, "bool{}", self.bits),
            code => write!(f, "DLPack's type code {code} of {} bits", self.bits),
        }?;
        if self.lanes == 1 { Ok(()) } else { write!(f, " in {} lanes", self.lanes) }
    }
}

/// A type whose elements other libraries know.
///
/// # Safety
/// `DATA_TYPE` describes `Self`: its size is `bits * lanes / 8` bytes, every value of the described type that other libraries
/// write is one of `Self`, and it has no padding.
pub unsafe trait ExchangeElement: KernelValue {
    /// How DLPack describes it.
    const DATA_TYPE: DataType;
}

macro_rules! scalars {
    ($($type:ty, $code:ident, $bits:literal;)*) => {$(
        const _: () = assert!(size_of::<$type>() * 8 == $bits);
        // SAFETY: the kind is the type's own and the size was just asserted. A `bool` is a byte of 0 or 1 on both sides.
        unsafe impl ExchangeElement for $type {
            const DATA_TYPE: DataType = DataType::scalar(DataType::$code, $bits);
        }
    )*};
}
scalars! {
    i8, INT, 8;
    i16, INT, 16;
    i32, INT, 32;
    i64, INT, 64;
    u8, UINT, 8;
    u16, UINT, 16;
    u32, UINT, 32;
    u64, UINT, 64;
    half::f16, FLOAT, 16;
    f32, FLOAT, 32;
    f64, FLOAT, 64;
    half::bf16, BFLOAT, 16;
    bool, BOOL, 8;
    Complex32, COMPLEX, 64;
    Complex64, COMPLEX, 128;
}

macro_rules! vectors {
    ($($type:ident)*) => {$(
        // SAFETY: a vector is its lanes without padding.
        unsafe impl ExchangeElement for $type {
            const DATA_TYPE: DataType = {
                let lane = <<$type as Vector>::Lane as ExchangeElement>::DATA_TYPE;
                DataType { lanes: <$type as Vector>::LANES as u16, ..lane }
            };
        }
    )*};
}
vectors! {
    Bf16x2 Bf16x4 Bf16x8 F16x2 F16x4 F16x8 F32x2 F32x4 F64x2 I32x2 I32x4 I64x2 U8x4 U8x16 U16x2 U16x4 U16x8 U32x2 U32x4
    U64x2
}

macro_rules! complex {
    ($($(#[$docs:meta])* $name:ident $part:ty;)*) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[repr(C)]
        pub struct $name {
            /// Real part.
            pub re: $part,
            /// Imaginary part.
            pub im: $part,
        }

        // SAFETY: two floats, which name nothing of the host.
        unsafe impl KernelValue for $name {
            const LAYOUT: u64 = fold_layout(leaf_layout::<Self>(stringify!($name)), <$part>::LAYOUT);
        }
        // SAFETY: zero bytes are zeros.
        unsafe impl Zeroable for $name {}
        // SAFETY: two floats, without padding.
        unsafe impl Pod for $name {}
    )*};
}
complex! {
    /// A complex number of two `f32`, as other libraries lay it out (`complex64`). A type of another crate with this layout can
    /// be exchanged too: implement [`ExchangeElement`] for a wrapper of it.
    Complex32 f32;
    /// A complex number of two `f64`, as other libraries lay it out (`complex128`).
    Complex64 f64;
}
