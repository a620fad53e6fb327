//! Random numbers that a counter and a key make: Philox4x32-10, the same on GPU and CPU.
//!
//! A generator holds no state that threads would have to share: each thread makes its own, with the launch's seed and a
//! stream of its own, its global index, say. The same seed, stream and position give the same numbers on every device,
//! down to the last bit, also through [`Philox4x32::normal_f32`] and its like, whose arithmetic is made of single IEEE
//! operations. (A kernel with `fast_math` or `approx` takes liberties with those, and so with its normal numbers.)
//!
//! With the feature `rand_core` the generator takes the distributions of `rand` and of others that build on `rand_core`.
//!
//! The integers are those of cuRAND's Philox generator for the same seed, subsequence and offset; the floats are not.

use core::ops::{Range, RangeInclusive};

use crate::abi::{KernelValue, fold_layout, leaf_layout};

/// The four numbers that Philox4x32-10 makes of a counter and a key: ten rounds of multiplication and exclusive or.
///
/// PTX: `mul.wide.u32`, twice a round.
///
/// # Examples
/// ```
/// use warpsmith_device::rng::philox4x32_10;
///
/// assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
/// ```
/// # Source
/// Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
#[inline]
#[must_use]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
    const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    let [mut a, mut b, mut c, mut d] = counter;
    let [mut k, mut l] = key;
    for _ in 0..10 {
        let (first, second) = (mul_wide(MULTIPLIERS[0], a), mul_wide(MULTIPLIERS[1], c));
        (a, b, c, d) = ((second >> 32) as u32 ^ b ^ k, second as u32, (first >> 32) as u32 ^ d ^ l, first as u32);
        k = k.wrapping_add(WEYL[0]);
        l = l.wrapping_add(WEYL[1]);
    }
    [a, b, c, d]
}

#[inline(always)]
fn mul_wide(a: u32, b: u32) -> u64 {
    #[cfg(warpsmith_device)]
    return crate::intrinsics::rng::mul_wide(a, b);
    #[cfg(not(warpsmith_device))]
    {
        u64::from(a) * u64::from(b)
    }
}

/// A stream of random numbers that one thread draws from.
///
/// Of each seed there are 2^64 streams of 2^66 numbers of 32 bits, none of which has to do with another. A stream that ends
/// goes on with the next one. Every method says how many numbers it draws; [`Self::skip`] counts in these.
///
/// # Examples
/// ```
/// use warpsmith_device::rng::Philox4x32;
///
/// /// Throws two dice in each of `count` rounds, for the thread with this index.
/// fn throw(seed: u64, thread: u64, count: usize) -> u32 {
///     let mut rng = Philox4x32::new(seed, thread, 0);
///     (0..count).map(|_| rng.range(1..=6u32) + rng.range(1..=6)).sum()
/// }
/// assert!((2000..=12000).contains(&throw(7, 0, 1000)));
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Philox4x32 {
    key: u64,
    /// What makes the next four numbers: their place in the stream, and the stream.
    next: u64,
    stream: u64,
    numbers: [u32; 4],
    /// How many of `numbers` were given; with 4, none is left.
    used: u64,
}

// SAFETY: integers hold no address.
unsafe impl KernelValue for Philox4x32 {
    const LAYOUT: u64 = fold_layout(leaf_layout::<Self>("Philox4x32"), 1);
}

impl Philox4x32 {
    /// The numbers of a seed's stream from a position on; takes what `curand_init` takes.
    #[inline]
    #[must_use]
    pub fn new(seed: u64, subsequence: u64, offset: u64) -> Self {
        let mut rng = Self { key: seed, next: offset / 4, stream: subsequence, numbers: [0; 4], used: 4 };
        if !offset.is_multiple_of(4) {
            rng.refill();
            rng.used = offset % 4;
        }
        rng
    }

    #[inline(always)]
    fn refill(&mut self) {
        let counter = [self.next as u32, (self.next >> 32) as u32, self.stream as u32, (self.stream >> 32) as u32];
        self.numbers = philox4x32_10(counter, [self.key as u32, (self.key >> 32) as u32]);
        self.used = 0;
        self.advance(1);
    }

    #[inline(always)]
    fn advance(&mut self, blocks: u64) {
        let (next, carry) = self.next.overflowing_add(blocks);
        self.next = next;
        self.stream = self.stream.wrapping_add(u64::from(carry));
    }

    /// 32 random bits: one number.
    #[doc(alias = "curand")]
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.refill();
        }
        // An index that is not constant would put the numbers into memory.
        let [a, b, c, d] = self.numbers;
        let number = match self.used {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        };
        self.used += 1;
        number
    }

    /// 64 random bits: two numbers, the first of which is the low half.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let low = self.next_u32();
        let high = self.next_u32();
        u64::from(low) | u64::from(high) << 32
    }

    /// Goes past this many numbers, in no more time than one takes.
    #[doc(alias = "skipahead")]
    #[inline]
    pub fn skip(&mut self, numbers: u64) {
        if self.used < 4 {
            // Back to the block that is under way.
            let (next, borrow) = self.next.overflowing_sub(1);
            self.next = next;
            self.stream = self.stream.wrapping_sub(u64::from(borrow));
        }
        let within = self.used % 4 + numbers % 4;
        self.advance(numbers / 4);
        self.advance(within / 4);
        self.used = 4;
        if !within.is_multiple_of(4) {
            self.refill();
            self.used = within % 4;
        }
    }

    /// A float in `[0, 1)`: a multiple of 2^-24, the top 24 bits of one number.
    #[inline]
    pub fn uniform_f32(&mut self) -> f32 {
        (self.next_u32() >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    /// A float in `(0, 1]`, whose logarithm is finite: a multiple of 2^-24, the top 24 bits of one number and one more.
    #[doc(alias = "curand_uniform")]
    #[inline]
    pub fn uniform_positive_f32(&mut self) -> f32 {
        ((self.next_u32() >> 8) + 1) as f32 * (1.0 / 16_777_216.0)
    }

    /// A float in `[0, 1)`: a multiple of 2^-53, the top 53 bits of [`Self::next_u64`], two numbers.
    #[inline]
    pub fn uniform_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// A float in `(0, 1]`, whose logarithm is finite: a multiple of 2^-53, the top 53 bits of [`Self::next_u64`] and one
    /// more; two numbers.
    #[doc(alias = "curand_uniform_double")]
    #[inline]
    pub fn uniform_positive_f64(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Two independent numbers of mean 0 and variance 1, after Box and Muller: two numbers.
    ///
    /// The largest has the size 6.66. The error against real arithmetic on the same bits is below 4e-7 times the
    /// pair's length.
    #[doc(alias = "curand_normal2")]
    #[inline]
    pub fn normal_pair_f32(&mut self) -> (f32, f32) {
        let radius = (-2.0 * single::ln_of_fraction(self.next_u32())).sqrt();
        let (sin, cos) = single::sin_cos_of_turn(self.next_u32());
        (radius * cos, radius * sin)
    }

    /// A number of mean 0 and variance 1: the first of [`Self::normal_pair_f32`], and two numbers too.
    #[doc(alias = "curand_normal")]
    #[inline]
    pub fn normal_f32(&mut self) -> f32 {
        self.normal_pair_f32().0
    }

    /// Two independent numbers of mean 0 and variance 1, after Box and Muller: four numbers.
    ///
    /// The largest has the size 9.42. The error against real arithmetic on the same bits is below 1e-15 times the
    /// pair's length.
    #[doc(alias = "curand_normal2_double")]
    #[inline]
    pub fn normal_pair_f64(&mut self) -> (f64, f64) {
        let radius = (-2.0 * double::ln_of_fraction(self.next_u64())).sqrt();
        let (sin, cos) = double::sin_cos_of_turn(self.next_u64());
        (radius * cos, radius * sin)
    }

    /// A number of mean 0 and variance 1: the first of [`Self::normal_pair_f64`], and four numbers too.
    #[doc(alias = "curand_normal_double")]
    #[inline]
    pub fn normal_f64(&mut self) -> f64 {
        self.normal_pair_f64().0
    }

    /// A waiting time of mean 1, from 0 to 22.2: one number. The relative error against real arithmetic on the same bits
    /// is below 4e-7.
    #[inline]
    pub fn exponential_f32(&mut self) -> f32 {
        -single::ln_of_fraction(self.next_u32())
    }

    /// A waiting time of mean 1, from 0 to 44.4: two numbers. The relative error against real arithmetic on the same bits
    /// is below 1e-15.
    #[inline]
    pub fn exponential_f64(&mut self) -> f64 {
        -double::ln_of_fraction(self.next_u64())
    }

    /// Whether something of this probability happens: one number, of which the top 24 bits count.
    ///
    /// # Panics
    /// When `probability` is not between 0 and 1.
    #[inline]
    #[track_caller]
    pub fn bernoulli(&mut self, probability: f32) -> bool {
        assert!((0.0..=1.0).contains(&probability), "a probability of {probability}");
        self.uniform_f32() < probability
    }

    /// An integer of a range, each with the same probability, without bias: `rng.range(1..=6u32)`.
    ///
    /// One number for integers of up to 32 bits, two for wider ones; again as many with a probability of at most the
    /// range's width through 2^32 or 2^64, after Lemire's method of multiplying and rejecting.
    ///
    /// # Panics
    /// When the range is empty.
    /// # Source
    /// Lemire, "Fast Random Integer Generation in an Interval", 2019.
    #[inline]
    #[track_caller]
    pub fn range<T: UniformInteger, R: UniformRange<T>>(&mut self, range: R) -> T {
        range.draw(self)
    }

    /// Puts the elements into an order of which each has the same probability; draws an integer below `i` for each `i`
    /// from the length down to 2.
    #[inline]
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for i in (1..elements.len()).rev() {
            let other = self.range(0..=i);
            elements.swap(i, other);
        }
    }
}

#[cfg(feature = "rand_core")]
impl rand_core::TryRng for Philox4x32 {
    type Error = core::convert::Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.next_u32())
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.next_u64())
    }

    /// Four bytes a number, the lowest first.
    #[inline]
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for part in bytes.chunks_mut(4) {
            let number = self.next_u32().to_le_bytes();
            part.copy_from_slice(&number[..part.len()]);
        }
        Ok(())
    }
}

/// An integer that [`Philox4x32::range`] draws: of 8 to 64 bits.
#[diagnostic::on_unimplemented(message = "random integers of the type `{Self}` cannot be drawn")]
pub trait UniformInteger: Copy {
    #[doc(hidden)]
    #[track_caller]
    fn draw_below(rng: &mut Philox4x32, start: Self, end: Self) -> Self;
    #[doc(hidden)]
    #[track_caller]
    fn draw_up_to(rng: &mut Philox4x32, start: Self, end: Self) -> Self;
}

/// A range that [`Philox4x32::range`] draws from: `a..b` and `a..=b`.
#[diagnostic::on_unimplemented(
    message = "random integers cannot be drawn from `{Self}`",
    note = "`a..b` and `a..=b` of integers of 8 to 64 bits work"
)]
pub trait UniformRange<T> {
    #[doc(hidden)]
    #[track_caller]
    fn draw(self, rng: &mut Philox4x32) -> T;
}

impl<T: UniformInteger> UniformRange<T> for Range<T> {
    #[inline]
    fn draw(self, rng: &mut Philox4x32) -> T {
        T::draw_below(rng, self.start, self.end)
    }
}

impl<T: UniformInteger> UniformRange<T> for RangeInclusive<T> {
    #[inline]
    fn draw(self, rng: &mut Philox4x32) -> T {
        let (start, end) = self.into_inner();
        T::draw_up_to(rng, start, end)
    }
}

macro_rules! below {
    ($($name:ident $next:ident $word:ident $wide:ident;)*) => {$(
        /// An integer below `bound`, which is not 0.
        #[inline]
        fn $name(rng: &mut Philox4x32, bound: $word) -> $word {
            let mut product = $wide::from(rng.$next()) * $wide::from(bound);
            if (product as $word) < bound {
                // So many products stand for no integer, else some integers would have one more than others.
                let surplus = bound.wrapping_neg() % bound;
                while (product as $word) < surplus {
                    product = $wide::from(rng.$next()) * $wide::from(bound);
                }
            }
            (product >> $word::BITS) as $word
        }
    )*};
}
below! {
    below_u32 next_u32 u32 u64;
    below_u64 next_u64 u64 u128;
}

macro_rules! ranges {
    ($($int:ident as $unsigned:ident: $word:ident $below:ident $next:ident;)*) => {$(
        impl UniformInteger for $int {
            #[inline]
            fn draw_below(rng: &mut Philox4x32, start: $int, end: $int) -> $int {
                assert!(start < end, "the range {start}..{end} is empty");
                let width = (end as $unsigned).wrapping_sub(start as $unsigned);
                start.wrapping_add($below(rng, width as $word) as $int)
            }

            #[inline]
            fn draw_up_to(rng: &mut Philox4x32, start: $int, end: $int) -> $int {
                assert!(start <= end, "the range {start}..={end} is empty");
                let width = (end as $unsigned).wrapping_sub(start as $unsigned) as $word;
                let offset = if width == $word::MAX { rng.$next() } else { $below(rng, width + 1) };
                start.wrapping_add(offset as $int)
            }
        }
    )*};
}
ranges! {
    u8 as u8: u32 below_u32 next_u32;
    i8 as u8: u32 below_u32 next_u32;
    u16 as u16: u32 below_u32 next_u32;
    i16 as u16: u32 below_u32 next_u32;
    u32 as u32: u32 below_u32 next_u32;
    i32 as u32: u32 below_u32 next_u32;
    u64 as u64: u64 below_u64 next_u64;
    i64 as u64: u64 below_u64 next_u64;
    usize as usize: u64 below_u64 next_u64;
    isize as usize: u64 below_u64 next_u64;
}

// Every product is a factor of a fused multiplication and addition or of another product, or the last term of one, never a
// term of a plain sum (but for a power of 2, where that changes nothing), so that a kernel with `contract` computes the
// same. The division, the square root and the fused operations round once everywhere. The series are Taylor's.
macro_rules! transforms {
    (
        $module:ident $float:ident $word:ident $signed:ident
        mantissa $mantissa:literal, root $root:literal, root of words $root_of_words:literal,
        logarithm of 2 $ln2_high:literal $ln2_low:literal, artanh [$artanh_first:expr, $($artanh:expr),*],
        sine [$sin_first:expr, $($sin:expr),*], cosine [$cos_first:expr, $($cos:expr),*]
    ) => {
        mod $module {
            /// Half of the words.
            const HALF: $float = ((1 as $word) << ($word::BITS - 1)) as $float;

            /// The natural logarithm of the word as a fraction, in `(0, 1]`; its lowest bit counts as set.
            #[inline]
            pub(super) fn ln_of_fraction(word: $word) -> $float {
                let word = word | 1;
                // The word is (1 + rest) * 2^power, with 1 + rest between the square roots of 1/2 and of 2.
                let bits = (word as $float).to_bits();
                let power = (bits.wrapping_sub($root) as $signed) >> $mantissa;
                let rest = $float::from_bits(bits.wrapping_sub((power << $mantissa) as $word)) - 1.0;
                // What a fraction near 1 lacks of 1 has more digits as a float than the fraction.
                let is_near = word >= $root_of_words;
                let rest = if is_near { word.wrapping_neg() as $float * (-0.5 / HALF) } else { rest };
                let power = if is_near { 0 } else { power - $word::BITS as $signed } as $float;
                // ln(1 + rest) = 2 artanh(s).
                let s = rest / (2.0 + rest);
                let square = s * s;
                let sum: $float = 2.0 * $artanh_first;
                $(let sum = sum.mul_add(square, 2.0 * $artanh);)*
                power.mul_add($ln2_high, power.mul_add($ln2_low, (s * square).mul_add(sum, 2.0 * s)))
            }

            /// Sine and cosine of the word as a fraction of a full turn.
            #[inline]
            pub(super) fn sin_cos_of_turn(word: $word) -> ($float, $float) {
                // The nearest quarter, and a rest of at most an eighth to either side.
                let quarter = word.wrapping_add(1 << ($word::BITS - 3)) >> ($word::BITS - 2);
                let rest = word.wrapping_sub(quarter << ($word::BITS - 2)) as $signed;
                let angle = rest as $float * (core::$float::consts::PI / HALF);
                let square = angle * angle;
                let sum: $float = $sin_first;
                $(let sum = sum.mul_add(square, $sin);)*
                let sin = (angle * square).mul_add(sum, angle);
                let sum: $float = $cos_first;
                $(let sum = sum.mul_add(square, $cos);)*
                let cos = square.mul_add(sum, 1.0);
                match quarter {
                    0 => (sin, cos),
                    1 => (cos, -sin),
                    2 => (-sin, -cos),
                    _ => (-cos, sin),
                }
            }
        }
    };
}
transforms! {
    single f32 u32 i32
    mantissa 23, root 0x3f35_04f3, root of words 0xb504_f334,
    logarithm of 2 0.693_115_23 3.194_618_3e-5, artanh [1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0],
    sine [1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0],
    cosine [-1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -1.0 / 2.0]
}
transforms! {
    double f64 u64 i64
    mantissa 52, root 0x3fe6_a09e_667f_3bcd, root of words 0xb504_f333_f9de_6485,
    logarithm of 2 0.693_147_180_369_123_8 1.908_214_929_270_587_7e-10,
    artanh [
        1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0
    ],
    sine [
        1.0 / 355_687_428_096_000.0, -1.0 / 1_307_674_368_000.0, 1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0,
        1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0
    ],
    cosine [
        1.0 / 20_922_789_888_000.0, -1.0 / 87_178_291_200.0, 1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0,
        -1.0 / 720.0, 1.0 / 24.0, -1.0 / 2.0
    ]
}

#[cfg(test)]
mod tests;
