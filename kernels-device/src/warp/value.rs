//! What moves between the lanes of a warp: up to 128 bits, checked where not all patterns are values.

use core::cmp::Ordering;
use core::marker::PhantomData;
use core::num::NonZero;

use crate::bits::AnyBits;
use crate::index::Dim3;

/// A value that moves between lanes: up to 128 bits that are taken apart and put together again.
///
/// Every [`AnyBits`] of up to 16 bytes is one, and so are `bool`, `char`, `Ordering`, `NonZero`, and `Option` and tuples
/// of such. For a struct, `#[derive(WarpValue)]` does it field by field. The bits are packed: a value costs one 32-bit
/// instruction for each 32 bits that it has begun.
///
/// On a GPU a lane that was not there gives unspecified bits, so [`Self::from_lane_bits`] takes any: it makes a valid
/// value of them, or panics.
///
/// # Examples
/// ```
/// use warpsmith_device::WarpValue;
///
/// #[derive(Clone, Copy)]
/// struct Percent(u8); // At most 100.
///
/// impl WarpValue for Percent {
///     const LANE_BITS: u32 = u8::LANE_BITS;
///
///     fn to_lane_bits(self) -> u128 {
///         self.0.to_lane_bits()
///     }
///
///     fn from_lane_bits(bits: u128) -> Self {
///         let number = u8::from_lane_bits(bits);
///         assert!(number <= 100, "{number} percent came from another lane");
///         Self(number)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot move between the lanes of a warp",
    note = "numbers, arrays of numbers, `bool`, `char`, `Option` and tuples of up to 16 bytes can, and so can `Copy` \
            structs with `#[derive(WarpValue)]`"
)]
pub trait WarpValue: Copy {
    /// How many bits the value takes: 128 at most.
    const LANE_BITS: u32;

    /// The value in the lowest [`Self::LANE_BITS`]; the rest is 0. Equal values have equal bits.
    #[must_use]
    fn to_lane_bits(self) -> u128;

    /// The value back, whatever lies above its [`Self::LANE_BITS`].
    ///
    /// # Panics
    /// When the bits are no value of the type.
    #[must_use]
    fn from_lane_bits(bits: u128) -> Self;
}

impl<T: AnyBits> WarpValue for T {
    const LANE_BITS: u32 = {
        assert!(size_of::<T>() <= 16, "a value of more than 16 bytes cannot move between lanes");
        size_of::<T>() as u32 * 8
    };

    #[inline(always)]
    fn to_lane_bits(self) -> u128 {
        const { assert!(T::LANE_BITS <= 128) };
        let mut both = Either { bits: 0 };
        both.value = self;
        // SAFETY: all 16 bytes are initialised: those of the value, which has no padding, and the zeros behind them.
        unsafe { both.bits }
    }

    #[inline(always)]
    fn from_lane_bits(bits: u128) -> Self {
        const { assert!(T::LANE_BITS <= 128) };
        // SAFETY: the value's bytes fit the 16 that are initialised, and any bits are a value.
        unsafe { Either { bits }.value }
    }
}

/// A value of up to 16 bytes in the lowest of 128 bits.
#[repr(C)]
union Either<T: Copy> {
    value: T,
    bits: u128,
}

impl WarpValue for bool {
    const LANE_BITS: u32 = 1;

    #[inline(always)]
    fn to_lane_bits(self) -> u128 {
        u128::from(self)
    }

    #[inline(always)]
    fn from_lane_bits(bits: u128) -> Self {
        bits & 1 != 0
    }
}

impl WarpValue for char {
    const LANE_BITS: u32 = 32;

    #[inline(always)]
    fn to_lane_bits(self) -> u128 {
        u128::from(u32::from(self))
    }

    #[inline(always)]
    fn from_lane_bits(bits: u128) -> Self {
        let number = bits as u32;
        match Self::from_u32(number) {
            Some(char) => char,
            None => panic!("{number:#x} came from another lane, which is no char"),
        }
    }
}

impl WarpValue for Ordering {
    const LANE_BITS: u32 = 8;

    #[inline(always)]
    fn to_lane_bits(self) -> u128 {
        u128::from(self as i8 as u8)
    }

    #[inline(always)]
    fn from_lane_bits(bits: u128) -> Self {
        (bits as u8 as i8).cmp(&0)
    }
}

impl WarpValue for () {
    const LANE_BITS: u32 = 0;

    #[inline(always)]
    fn to_lane_bits(self) -> u128 {
        0
    }

    #[inline(always)]
    fn from_lane_bits(_: u128) -> Self {}
}

impl<T: ?Sized> WarpValue for PhantomData<T> {
    const LANE_BITS: u32 = 0;

    #[inline(always)]
    fn to_lane_bits(self) -> u128 {
        0
    }

    #[inline(always)]
    fn from_lane_bits(_: u128) -> Self {
        Self
    }
}

macro_rules! non_zero {
    ($($int:ty),*) => {$(
        impl WarpValue for NonZero<$int> {
            const LANE_BITS: u32 = <$int>::BITS;

            #[inline(always)]
            fn to_lane_bits(self) -> u128 {
                self.get().to_lane_bits()
            }

            #[inline(always)]
            fn from_lane_bits(bits: u128) -> Self {
                Self::new(<$int>::from_lane_bits(bits)).expect("a lane that takes part sends no zero")
            }
        }
    )*};
}
non_zero!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

/// One bit says whether there is a value.
impl<T: WarpValue> WarpValue for Option<T> {
    const LANE_BITS: u32 = 1 + T::LANE_BITS;

    #[inline(always)]
    fn to_lane_bits(self) -> u128 {
        match self {
            Some(value) => 1 | value.to_lane_bits() << 1,
            None => 0,
        }
    }

    #[inline(always)]
    fn from_lane_bits(bits: u128) -> Self {
        (bits & 1 != 0).then(|| T::from_lane_bits(bits >> 1))
    }
}

impl WarpValue for Dim3 {
    const LANE_BITS: u32 = <[u32; 3]>::LANE_BITS;

    #[inline(always)]
    fn to_lane_bits(self) -> u128 {
        [self.x, self.y, self.z].to_lane_bits()
    }

    #[inline(always)]
    fn from_lane_bits(bits: u128) -> Self {
        let [x, y, z] = WarpValue::from_lane_bits(bits);
        Self { x, y, z }
    }
}

/// Values behind each other in 128 bits, the first the lowest; what `#[derive(WarpValue)]` and the tuples are made of.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct LaneBits {
    bits: u128,
    used: u32,
}

impl LaneBits {
    /// The values' bits, to be taken apart.
    #[inline(always)]
    #[must_use]
    pub fn new(bits: u128) -> Self {
        Self { bits, used: 0 }
    }

    /// Puts a value behind the ones before.
    #[inline(always)]
    #[must_use]
    pub fn push<T: WarpValue>(self, value: T) -> Self {
        let bits = self.bits | value.to_lane_bits().unbounded_shl(self.used);
        Self { bits, used: self.used + T::LANE_BITS }
    }

    /// Takes the next value.
    #[inline(always)]
    #[must_use]
    pub fn take<T: WarpValue>(&mut self) -> T {
        let value = T::from_lane_bits(self.bits.unbounded_shr(self.used));
        self.used += T::LANE_BITS;
        value
    }

    /// All that was pushed.
    #[inline(always)]
    #[must_use]
    pub fn bits(self) -> u128 {
        self.bits
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: WarpValue),*> WarpValue for ($($name,)*) {
            const LANE_BITS: u32 = 0 $(+ $name::LANE_BITS)*;

            #[inline(always)]
            #[expect(non_snake_case, reason = "the fields are named after their types")]
            fn to_lane_bits(self) -> u128 {
                let ($($name,)*) = self;
                LaneBits::new(0)$(.push($name))*.bits()
            }

            #[inline(always)]
            fn from_lane_bits(bits: u128) -> Self {
                let mut all = LaneBits::new(bits);
                ($(all.take::<$name>(),)*)
            }
        }
    };
}
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
