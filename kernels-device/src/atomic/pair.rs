//! Two 16-bit floats in one word.

use half::{bf16, f16};

use crate::abi::{KernelValue, fold_layout, leaf_layout};
use crate::bits::AnyBits;

macro_rules! pairs {
    ($($(#[$docs:meta])* $name:ident $float:ident;)*) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[repr(C, align(4))]
        pub struct $name {
            /// The first, in the word's low half.
            pub x: $float,
            /// The second, in the word's high half.
            pub y: $float,
        }

        // SAFETY: two floats hold no address.
        unsafe impl KernelValue for $name {
            const LAYOUT: u64 = fold_layout(leaf_layout::<Self>(stringify!($name)), <$float as KernelValue>::LAYOUT);
        }
        // SAFETY: two floats of two bytes fill the four bytes.
        unsafe impl AnyBits for $name {}
        const _: () = assert!(size_of::<$name>() == 4 && align_of::<$name>() == 4);

        impl $name {
            /// A pair of these.
            #[inline]
            #[must_use]
            pub const fn new(x: $float, y: $float) -> Self {
                Self { x, y }
            }

            /// The word of both, the first in its low half.
            #[inline]
            #[must_use]
            pub const fn to_bits(self) -> u32 {
                self.x.to_bits() as u32 | (self.y.to_bits() as u32) << 16
            }

            /// The pair in a word.
            #[inline]
            #[must_use]
            pub const fn from_bits(bits: u32) -> Self {
                Self { x: $float::from_bits(bits as u16), y: $float::from_bits((bits >> 16) as u16) }
            }
        }

        impl From<[$float; 2]> for $name {
            fn from([x, y]: [$float; 2]) -> Self {
                Self { x, y }
            }
        }

        impl From<$name> for [$float; 2] {
            fn from($name { x, y }: $name) -> Self {
                [x, y]
            }
        }
    )*};
}
pairs! {
    /// Two `f16` in four bytes; CUDA's `half2`.
    F16x2 f16;
    /// Two `bf16` in four bytes; CUDA's `nv_bfloat162`.
    Bf16x2 bf16;
}
