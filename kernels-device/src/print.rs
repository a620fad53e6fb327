//! Printing from kernels: what can be printed, and how a line leaves the thread that prints it.
//!
//! The format stays on the host. On a GPU a thread writes a record into the stream's buffer: which place prints, which
//! thread it is, and the values as 64-bit words ([`Printable`]). On the CPU executor the line is formatted at once.

use core::fmt;

use crate::abi::CStrRef;
use crate::index::Dim3;

/// What the words of a record's value are, before the dimensions of arrays around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the type of its name")]
pub enum Scalar {
    I8 = 1,
    I16,
    I32,
    I64,
    I128,
    Isize,
    U8,
    U16,
    U32,
    U64,
    U128,
    Usize,
    F16,
    Bf16,
    F32,
    F64,
    Bool,
    Char,
    Pointer,
    /// Its length in bytes, then the bytes, eight a word.
    Text,
    Dim3,
    Unit,
}

impl Scalar {
    /// Every scalar, in the order of their numbers.
    pub const ALL: &'static [Self] = &[
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::I128,
        Self::Isize,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::U128,
        Self::Usize,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
        Self::Bool,
        Self::Char,
        Self::Pointer,
        Self::Text,
        Self::Dim3,
        Self::Unit,
    ];
}

/// A value's type as a number: the scalar in the low byte, above it 16 bits for each dimension, the outermost first. A
/// dimension is the length of an array plus 1, or [`TypeCode::SLICE`] where the length comes first among the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct TypeCode(pub u64);

impl TypeCode {
    /// The dimension of a slice.
    pub const SLICE: u64 = 0xffff;

    /// The type of one scalar.
    #[must_use]
    pub const fn of(scalar: Scalar) -> Self {
        Self(scalar as u64)
    }

    const fn array(self, len: usize) -> Self {
        assert!(len < 65_534, "a kernel can print arrays of fewer than 65534 elements");
        self.with(len as u64 + 1)
    }

    const fn slice(self) -> Self {
        self.with(Self::SLICE)
    }

    const fn with(self, dimension: u64) -> Self {
        assert!(self.0 >> 40 == 0, "a kernel can print arrays of at most three dimensions");
        Self(self.0 & 0xff | dimension << 8 | (self.0 >> 8) << 24)
    }
}

/// Takes the words of a record's values.
#[derive(Debug)]
pub struct Writer<'a> {
    #[cfg(warpsmith_device)]
    address: u64,
    #[cfg(not(warpsmith_device))]
    words: &'a mut std::vec::Vec<u64>,
    _bound: core::marker::PhantomData<&'a ()>,
}

impl<'a> Writer<'a> {
    /// Writes to the words from this address on.
    #[cfg(warpsmith_device)]
    #[inline(always)]
    pub(crate) fn at(address: u64) -> Self {
        Self { address, _bound: core::marker::PhantomData }
    }

    /// Appends to a vector.
    #[cfg(not(warpsmith_device))]
    #[must_use]
    pub fn new(words: &'a mut std::vec::Vec<u64>) -> Self {
        Self { words, _bound: core::marker::PhantomData }
    }

    /// Adds a word.
    #[inline(always)]
    pub fn word(&mut self, word: u64) {
        #[cfg(warpsmith_device)]
        {
            crate::intrinsics::print::store(self.address, word);
            self.address = self.address.wrapping_add(8);
        }
        #[cfg(not(warpsmith_device))]
        self.words.push(word);
    }
}

mod sealed {
    //! What is written must take as many words as were asked for, so the types are those of this module.

    pub trait Printed {}
}

/// A value that a kernel can print with `gpu_println!`, by the formats that its type has on the host.
///
/// The types are those of this crate and the standard library; print the fields of a struct one by one:
/// ```compile_fail,E0277
/// use warpsmith_device::print::{Printable, TypeCode, Writer};
///
/// #[derive(Debug)]
/// struct Mine;
///
/// impl Printable for Mine {
///     const TYPE: TypeCode = u32::TYPE;
///     fn words(&self) -> u64 {
///         0
///     }
///     fn write(&self, writer: &mut Writer<'_>) {
///         writer.word(1);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a kernel cannot print `{Self}`",
    label = "not a value that a kernel can print",
    note = "integers, floats (`f16` and `bf16` too), `bool`, `char`, pointers, text, `Dim3`, and arrays, slices and \
            references of these can be printed; print the fields of a struct one by one"
)]
pub trait Printable: fmt::Debug + sealed::Printed {
    /// What [`Self::write`] writes.
    #[doc(hidden)]
    const TYPE: TypeCode;

    /// How many words it writes.
    #[doc(hidden)]
    fn words(&self) -> u64;

    /// Writes the value.
    #[doc(hidden)]
    fn write(&self, writer: &mut Writer<'_>);
}

macro_rules! one_word {
    ($($type:ty, $scalar:ident, $value:ident => $word:expr;)*) => {$(
        impl sealed::Printed for $type {}
        impl Printable for $type {
            const TYPE: TypeCode = TypeCode::of(Scalar::$scalar);

            #[inline(always)]
            fn words(&self) -> u64 {
                1
            }

            #[inline(always)]
            fn write(&self, writer: &mut Writer<'_>) {
                let $value = *self;
                writer.word($word);
            }
        }
    )*};
}
one_word! {
    i8, I8, x => x as u64;
    i16, I16, x => x as u64;
    i32, I32, x => x as u64;
    i64, I64, x => x as u64;
    isize, Isize, x => x as u64;
    u8, U8, x => u64::from(x);
    u16, U16, x => u64::from(x);
    u32, U32, x => u64::from(x);
    u64, U64, x => x;
    usize, Usize, x => x as u64;
    half::f16, F16, x => u64::from(x.to_bits());
    half::bf16, Bf16, x => u64::from(x.to_bits());
    f32, F32, x => u64::from(x.to_bits());
    f64, F64, x => x.to_bits();
    bool, Bool, x => u64::from(x);
    char, Char, x => u64::from(x);
}

macro_rules! two_words {
    ($($type:ty, $scalar:ident;)*) => {$(
        impl sealed::Printed for $type {}
        impl Printable for $type {
            const TYPE: TypeCode = TypeCode::of(Scalar::$scalar);

            #[inline(always)]
            fn words(&self) -> u64 {
                2
            }

            #[inline(always)]
            fn write(&self, writer: &mut Writer<'_>) {
                writer.word(*self as u64);
                writer.word((*self >> 64) as u64);
            }
        }
    )*};
}
two_words! {
    i128, I128;
    u128, U128;
}

impl sealed::Printed for () {}

impl Printable for () {
    const TYPE: TypeCode = TypeCode::of(Scalar::Unit);

    #[inline(always)]
    fn words(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn write(&self, _writer: &mut Writer<'_>) {}
}

impl sealed::Printed for Dim3 {}

impl Printable for Dim3 {
    const TYPE: TypeCode = TypeCode::of(Scalar::Dim3);

    #[inline(always)]
    fn words(&self) -> u64 {
        2
    }

    #[inline(always)]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.word(u64::from(self.x) | u64::from(self.y) << 32);
        writer.word(u64::from(self.z));
    }
}

impl sealed::Printed for str {}

impl Printable for str {
    const TYPE: TypeCode = TypeCode::of(Scalar::Text);

    #[inline]
    fn words(&self) -> u64 {
        (self.len().div_ceil(8) as u64).wrapping_add(1)
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.word(self.len() as u64);
        for eight in self.as_bytes().chunks(8) {
            let word = eight.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            writer.word(word);
        }
    }
}

impl<T: Printable, const N: usize> sealed::Printed for [T; N] {}

impl<T: Printable, const N: usize> Printable for [T; N] {
    const TYPE: TypeCode = T::TYPE.array(N);

    #[inline]
    fn words(&self) -> u64 {
        self.iter().fold(0, |words: u64, element| words.wrapping_add(element.words()))
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        self.iter().for_each(|element| element.write(writer));
    }
}

impl<T: Printable> sealed::Printed for [T] {}

impl<T: Printable> Printable for [T] {
    const TYPE: TypeCode = T::TYPE.slice();

    #[inline]
    fn words(&self) -> u64 {
        self.iter().fold(1, |words: u64, element| words.wrapping_add(element.words()))
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.word(self.len() as u64);
        self.iter().for_each(|element| element.write(writer));
    }
}

macro_rules! references {
    ($($reference:ty),*) => {$(
        impl<T: Printable + ?Sized> sealed::Printed for $reference {}
        impl<T: Printable + ?Sized> Printable for $reference {
            const TYPE: TypeCode = T::TYPE;

            #[inline(always)]
            fn words(&self) -> u64 {
                (**self).words()
            }

            #[inline(always)]
            fn write(&self, writer: &mut Writer<'_>) {
                (**self).write(writer);
            }
        }
    )*};
}
references!(&T, &mut T);

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<T> sealed::Printed for $pointer {}
        impl<T> Printable for $pointer {
            const TYPE: TypeCode = TypeCode::of(Scalar::Pointer);

            #[inline(always)]
            fn words(&self) -> u64 {
                1
            }

            #[inline(always)]
            fn write(&self, writer: &mut Writer<'_>) {
                writer.word(self.addr() as u64);
            }
        }
    )*};
}
pointers!(*const T, *mut T);

/// What `{:p}` prints: the address in a pointer or reference.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a kernel cannot print `{Self}` as a pointer",
    label = "not a pointer or reference",
    note = "`{{:p}}` prints `*const T`, `*mut T`, `&T` and `&mut T`"
)]
pub trait Address {
    /// The address.
    fn address(&self) -> u64;
}

macro_rules! addresses {
    ($($pointer:ty, $value:ident => $address:expr;)*) => {$(
        impl<T> Address for $pointer {
            #[inline(always)]
            fn address(&self) -> u64 {
                let $value = self;
                ($address).addr() as u64
            }
        }
    )*};
}
addresses! {
    *const T, x => *x;
    *mut T, x => *x;
    &T, x => &raw const **x;
    &mut T, x => &raw const **x;
}

/// A value of which `{:p}` prints the address it holds.
#[doc(hidden)]
#[derive(Debug)]
pub struct AddressIn<'a, P>(&'a P);

/// Makes [`AddressIn`].
#[doc(hidden)]
#[inline(always)]
pub fn address_in<P: Address>(pointer: &P) -> AddressIn<'_, P> {
    AddressIn(pointer)
}

impl<P: Address + fmt::Debug> sealed::Printed for AddressIn<'_, P> {}

impl<P: Address + fmt::Debug> Printable for AddressIn<'_, P> {
    const TYPE: TypeCode = TypeCode::of(Scalar::Pointer);

    #[inline(always)]
    fn words(&self) -> u64 {
        1
    }

    #[inline(always)]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.word(self.0.address());
    }
}

/// The types of a place's values, one after another, as constants that the lowering reads.
#[doc(hidden)]
#[derive(Debug)]
#[repr(C)]
pub struct TypeList {
    /// The first.
    pub first: TypeCode,
    /// The others.
    pub rest: Option<&'static TypeList>,
}

/// The values that one place prints.
#[doc(hidden)]
pub trait Values: sealed::Printed {
    /// Their types.
    const TYPES: Option<&'static TypeList>;

    /// How many words they take.
    fn words(&self) -> u64;

    /// Writes them.
    fn write(&self, writer: &mut Writer<'_>);
}

/// No value.
#[doc(hidden)]
#[derive(Debug)]
pub struct None;

impl sealed::Printed for None {}

impl Values for None {
    const TYPES: Option<&'static TypeList> = Option::None;

    #[inline(always)]
    fn words(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn write(&self, _writer: &mut Writer<'_>) {}
}

/// A value and those after it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Then<'a, A: ?Sized, R>(&'a A, R);

/// Puts a value before others.
#[doc(hidden)]
#[inline(always)]
pub fn then<A: Printable + ?Sized, R>(value: &A, rest: R) -> Then<'_, A, R> {
    Then(value, rest)
}

impl<A: Printable + ?Sized, R: Values> sealed::Printed for Then<'_, A, R> {}

impl<A: Printable + ?Sized, R: Values> Values for Then<'_, A, R> {
    const TYPES: Option<&'static TypeList> = Some(&TypeList { first: A::TYPE, rest: R::TYPES });

    #[inline(always)]
    fn words(&self) -> u64 {
        self.0.words().wrapping_add(self.1.words())
    }

    #[inline(always)]
    fn write(&self, writer: &mut Writer<'_>) {
        self.0.write(writer);
        self.1.write(writer);
    }
}

/// A place that prints, as the lowering reads it.
#[doc(hidden)]
#[derive(Debug)]
#[repr(C)]
pub struct Site {
    /// Text that comes first as it is.
    pub prefix: CStrRef,
    /// The format: every placeholder says which value it prints, by number.
    pub format: CStrRef,
    /// 1 when the line ends here.
    pub newline: u32,
}

// SAFETY: it points to immutable static data only.
unsafe impl Sync for Site {}

impl Site {
    /// Describes a place; for statics that `gpu_println!` writes.
    #[must_use]
    pub const fn new(prefix: &'static str, format: &'static str, newline: bool) -> Self {
        Self { prefix: CStrRef::new(prefix), format: CStrRef::new(format), newline: newline as u32 }
    }
}

/// Prints at a place. `on_host` hands over what `format_args!` makes of the same values; it runs on the host only.
#[doc(hidden)]
#[inline(always)]
pub fn print<V: Values>(site: &'static Site, values: V, on_host: impl FnOnce(&mut dyn FnMut(fmt::Arguments<'_>))) {
    #[cfg(warpsmith_device)]
    {
        let _ = on_host;
        crate::intrinsics::print::print(site, &values);
    }
    #[cfg(not(warpsmith_device))]
    {
        let _ = values;
        let end = if site.newline == 0 { "" } else { "\n" };
        on_host(&mut |text| crate::host::print(format_args!("{}{text}{end}", site.prefix.get())));
    }
}

/// Where things stand in a stream's output buffer and among its counters, in bytes, and in a record, in words.
pub mod layout {
    /// Offset from a stream's panic record to the address of its output buffer.
    pub const OUTPUT_ADDRESS: usize = 128;

    /// In the buffer: address of the counters, which are in device memory, where the GPU has atomics.
    pub const COUNTERS: usize = 0;
    /// In the buffer: how many words had been asked for when it was emptied last.
    pub const BEGIN: usize = 8;
    /// In the buffer: how many will have been when it is full.
    pub const END: usize = 16;
    /// In the buffer: 1 once a record found no room.
    pub const HAS_LOST: usize = 24;
    /// In the buffer: the records.
    pub const DATA: usize = 64;

    /// Among the counters: words that threads have asked for, granted or not.
    pub const RESERVED: usize = 0;
    /// Among the counters: records that found no room, by the kernel's number modulo [`LOST_COUNTERS`].
    pub const LOST: usize = 64;
    /// How many of the latter there are: a power of two.
    pub const LOST_COUNTERS: usize = 1024;
    /// Bytes of all counters.
    pub const COUNTERS_BYTES: usize = LOST + 8 * LOST_COUNTERS;

    /// Bits of a launch's id below its kernel's number.
    pub const LAUNCH_COUNT_BITS: u32 = 40;

    /// Words of a record before its values: its length in words and, above 32 bits, its place's number, written last; the
    /// launch's id; block and thread as six 32-bit numbers.
    pub const HEADER_WORDS: usize = 5;
}
