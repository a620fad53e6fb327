//! Two 16-bit floats in one word.

use half::{bf16, f16};

use crate::vector::{Bf16x2, F16x2};

macro_rules! pairs {
    ($($name:ident $float:ident;)*) => {$(
        impl $name {
            /// A pair of these.
            #[inline]
            #[must_use]
            pub const fn new(x: $float, y: $float) -> Self {
                Self([x, y])
            }

            /// The word of both, the first in its low half.
            #[inline]
            #[must_use]
            pub const fn to_bits(self) -> u32 {
                self.0[0].to_bits() as u32 | (self.0[1].to_bits() as u32) << 16
            }

            /// The pair in a word.
            #[inline]
            #[must_use]
            pub const fn from_bits(bits: u32) -> Self {
                Self([$float::from_bits(bits as u16), $float::from_bits((bits >> 16) as u16)])
            }
        }
    )*};
}
pairs! {
    F16x2 f16;
    Bf16x2 bf16;
}
