//! How a kernel's parameters cross from host to device, as the macro, the lowering and the launcher agree on it.
//!
//! A parameter of type `P` is described by [`KernelParam`]. The host keeps it as `P::Raw`. The device entry receives it
//! as one or two C arguments, `P::Abi0` and `P::Abi1` (`()` where there is no second), which are pointers and `usize`
//! only, so that no C ABI coerces them. A by-value parameter arrives as a pointer that the lowering turns into a
//! `byval` kernel parameter of the value's size and alignment.

use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, align_of, size_of};

pub use crate::host::{BoundKernel, Context, JoinedThreads, ThreadPlace};

/// Version of the agreement in this file; part of every [`KernelDesc`].
pub const ABI_VERSION: u32 = 2;

/// What kind of argument a kernel parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ParamKind {
    /// A value: one `byval` argument of `size` bytes (a plain, ignored pointer when `size` is 0).
    Value = 0,
    /// `&[T]`: a pointer and a length in elements.
    Slice = 1,
    /// `&T`: a pointer.
    Ref = 2,
    /// `GridSliceMut<T, M>`: a pointer and a `byval` argument of `extent_size` bytes (length and ownership map).
    GridSliceMut = 3,
    /// `*const T` or `*mut T`: a pointer without promises.
    Pointer = 4,
}

/// Shape of one kernel parameter, compared between host and device before the first launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ParamDesc {
    /// Kind of the argument.
    pub kind: ParamKind,
    /// Alignment in bytes of the value or of one element.
    pub align: u32,
    /// Size in bytes of the value or of one element.
    pub size: u64,
    /// Size in bytes of the second, `byval`, argument of a [`ParamKind::GridSliceMut`]; 0 otherwise. Its alignment is 8.
    pub extent_size: u64,
    /// Hash of the type's fields, from [`KernelValue::LAYOUT`].
    pub layout: u64,
}

/// Options of a kernel, as given to `#[kernel(...)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct KernelOptions {
    /// Exact block shape the kernel is compiled for, or zeros when any block may be launched.
    pub block: [u32; 3],
    /// Most threads a block of this kernel may have; 0 when not given.
    pub max_threads: u32,
    /// Least blocks that should be resident on a multiprocessor; 0 when not given.
    pub min_blocks: u32,
    /// Most registers a thread may use; 0 when not given.
    pub max_registers: u32,
    /// Whether `a * b + c` may be fused (1) or keeps its two roundings (0).
    pub contract: u32,
    /// Whether float maths may be reassociated and approximated (1).
    pub fast_math: u32,
    /// Whether index checks are removed (1): only for `unsafe` kernels.
    pub unchecked: u32,
    /// How much is optimised, plus 1: 1 to 4 for `0` to `3`, 5 for `"s"`; 0 when not given.
    pub opt_level: u32,
    /// Whether subnormal `f32` operands and results are taken for zero (1).
    pub ftz: u32,
    /// Whether `f32` division and square root may be approximated (1).
    pub approx: u32,
}

impl KernelOptions {
    /// No option given.
    pub const NONE: Self = Self {
        block: [0; 3],
        max_threads: 0,
        min_blocks: 0,
        max_registers: 0,
        contract: 0,
        fast_math: 0,
        unchecked: 0,
        opt_level: 0,
        ftz: 0,
        approx: 0,
    };
}

/// One kernel instance, as the macro describes it to the lowering and to the launcher.
///
/// The lowering reads it out of the bitcode, so the layout is fixed: `repr(C)`, strings as pointer and length.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelDesc {
    /// [`ABI_VERSION`].
    pub abi_version: u32,
    /// Line of the kernel's definition, from 1.
    pub line: u32,
    /// Column of the kernel's definition, from 1.
    pub column: u32,
    /// Options given to the attribute.
    pub options: KernelOptions,
    /// `module_path!()` of the definition.
    pub module_path: CStrRef,
    /// The function's name.
    pub name: CStrRef,
    /// `file!()` of the definition.
    pub file: CStrRef,
    /// The parameters, in order.
    pub params: *const ParamDesc,
    /// Number of parameters.
    pub param_count: usize,
}

// SAFETY: every pointer in a `KernelDesc` is to immutable static data.
unsafe impl Sync for KernelDesc {}
// SAFETY: as above.
unsafe impl Send for KernelDesc {}

impl KernelDesc {
    /// Describes a kernel; evaluated in a constant by the macro's expansion.
    #[must_use]
    pub const fn new(
        name: &'static str,
        module_path: &'static str,
        file: &'static str,
        line: u32,
        column: u32,
        options: KernelOptions,
        params: &'static [ParamDesc],
    ) -> Self {
        Self {
            abi_version: ABI_VERSION,
            line,
            column,
            options,
            module_path: CStrRef::new(module_path),
            name: CStrRef::new(name),
            file: CStrRef::new(file),
            params: params.as_ptr(),
            param_count: params.len(),
        }
    }

    /// The parameters, in order.
    #[must_use]
    pub const fn params(&self) -> &'static [ParamDesc] {
        // SAFETY: `new` is the only constructor and took both from one static slice.
        unsafe { core::slice::from_raw_parts(self.params, self.param_count) }
    }
}

/// A static string with a fixed layout: pointer, then length in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CStrRef {
    ptr: *const u8,
    len: usize,
}

// SAFETY: it stands for a `&'static str`.
unsafe impl Send for CStrRef {}
// SAFETY: as above.
unsafe impl Sync for CStrRef {}

impl CStrRef {
    /// Takes a static string apart.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self { ptr: text.as_ptr(), len: text.len() }
    }

    /// The string.
    #[must_use]
    pub const fn get(&self) -> &'static str {
        // SAFETY: `new` is the only constructor and took both from one static string.
        unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(self.ptr, self.len)) }
    }
}

/// Bounds the life of everything a kernel's thread receives: borrowed for one thread's run, never `'static`.
#[derive(Debug)]
pub struct Scope {
    _private: (),
}

impl Scope {
    /// A scope for one thread's run of a kernel.
    ///
    /// # Safety
    /// Only for the code that runs a kernel's thread: it must drop the scope when that thread's run ends.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self { _private: () }
    }
}

/// A pointer to a by-value kernel parameter; the lowering makes it a `byval` argument.
#[derive(Debug)]
#[repr(transparent)]
pub struct ByVal<T>(*const T);

impl<T: Copy> ByVal<T> {
    /// Reads the parameter.
    ///
    /// # Safety
    /// Only in a kernel entry, on the argument it was called with.
    pub unsafe fn read(self) -> T {
        if size_of::<T>() == 0 {
            // SAFETY: a value without size needs no memory, only an aligned pointer.
            return unsafe { core::ptr::NonNull::<T>::dangling().as_ptr().read() };
        }
        // SAFETY: the launcher put a `T` there.
        unsafe { self.0.read() }
    }
}

/// A type that crosses to the device by value: plain data that holds no address and is the same bytes on both sides.
///
/// Derive it with `#[derive(KernelValue)]`; implemented for scalars, arrays, tuples and `Option`.
///
/// # Safety
/// The type holds no reference, no pointer and nothing that names a host resource, in any value; [`Self::LAYOUT`]
/// changes when the order, offset or type of a field changes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a kernel by value",
    label = "not plain data that may cross to the device",
    note = "scalars, arrays, tuples and `Option` of such types cross, and so do `Copy` structs and enums with \
            `#[derive(KernelValue)]`; slices are written `&[T]` and outputs `GridSliceMut<T>` in the kernel's own signature"
)]
pub unsafe trait KernelValue: Copy + Send + Sync + 'static {
    /// A hash of the type's layout: size, alignment and, for structs and enums, fields with their offsets.
    const LAYOUT: u64;
}

/// Folds one number into a layout hash (FNV-1a over 64-bit words).
#[must_use]
pub const fn fold_layout(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3)
}

/// The layout hash of a type without fields: its size, alignment and a name that tells scalars of one size apart.
#[must_use]
pub const fn leaf_layout<T>(name: &str) -> u64 {
    let mut hash = fold_layout(0xcbf2_9ce4_8422_2325, size_of::<T>() as u64);
    hash = fold_layout(hash, align_of::<T>() as u64);
    let bytes = name.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        hash = fold_layout(hash, bytes[i] as u64);
        i += 1;
    }
    hash
}

macro_rules! scalar_values {
    ($($scalar:ty),* $(,)?) => {$(
        // SAFETY: a scalar holds no address.
        unsafe impl KernelValue for $scalar {
            const LAYOUT: u64 = leaf_layout::<$scalar>(stringify!($scalar));
        }
    )*};
}
scalar_values!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64, bool, char, ());
scalar_values!(half::f16, half::bf16);

// SAFETY: an array holds what its elements hold.
unsafe impl<T: KernelValue, const N: usize> KernelValue for [T; N] {
    const LAYOUT: u64 = fold_layout(fold_layout(leaf_layout::<Self>("array"), N as u64), T::LAYOUT);
}

// SAFETY: an option holds what its value holds.
unsafe impl<T: KernelValue> KernelValue for Option<T> {
    const LAYOUT: u64 = fold_layout(leaf_layout::<Self>("Option"), T::LAYOUT);
}

// SAFETY: it holds at most what its value holds.
unsafe impl<T: KernelValue> KernelValue for MaybeUninit<T> {
    const LAYOUT: u64 = fold_layout(leaf_layout::<Self>("MaybeUninit"), T::LAYOUT);
}

// SAFETY: it holds nothing.
unsafe impl<T: ?Sized + 'static> KernelValue for PhantomData<T>
where
    PhantomData<T>: Send + Sync,
{
    const LAYOUT: u64 = leaf_layout::<Self>("PhantomData");
}

macro_rules! tuple_values {
    ($($name:ident $index:tt),*) => {
        // SAFETY: a tuple holds what its fields hold.
        unsafe impl<$($name: KernelValue),*> KernelValue for ($($name,)*) {
            const LAYOUT: u64 = {
                let mut hash = leaf_layout::<Self>("tuple");
                $(
                    hash = fold_layout(hash, core::mem::offset_of!(Self, $index) as u64);
                    hash = fold_layout(hash, $name::LAYOUT);
                )*
                hash
            };
        }
    };
}
tuple_values!(A 0);
tuple_values!(A 0, B 1);
tuple_values!(A 0, B 1, C 2);
tuple_values!(A 0, B 1, C 2, D 3);
tuple_values!(A 0, B 1, C 2, D 3, E 4);
tuple_values!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple_values!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple_values!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// A type that a device buffer may hold: every [`KernelValue`], and the atomics.
///
/// # Safety
/// As for [`KernelValue`], except that it need not be `Copy`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of device memory",
    label = "not plain data that may live in device memory",
    note = "elements are scalars, arrays, tuples, `Option`, atomics and `Copy` structs and enums with \
            `#[derive(KernelValue)]`; `Cell` and other unsynchronised interior mutability would be a race"
)]
pub unsafe trait DeviceElement: Send + Sync + 'static {
    /// As [`KernelValue::LAYOUT`].
    const LAYOUT: u64;
    /// Whether a shared reference may write, as an atomic's does: passing one then counts as a write.
    const INTERIOR_MUTABLE: bool = true;
}

// SAFETY: asks less than `KernelValue`.
unsafe impl<T: KernelValue> DeviceElement for T {
    const LAYOUT: u64 = T::LAYOUT;
    // It is `Copy`, and `UnsafeCell` is not.
    const INTERIOR_MUTABLE: bool = false;
}

macro_rules! atomic_elements {
    ($($atomic:ident $plain:ty),* $(,)?) => {$(
        // SAFETY: an atomic integer holds no address.
        unsafe impl DeviceElement for core::sync::atomic::$atomic {
            const LAYOUT: u64 = leaf_layout::<Self>(stringify!($atomic));
        }
        // SAFETY: the standard library promises the same size and bit validity.
        unsafe impl AtomicElement for core::sync::atomic::$atomic {
            type Plain = $plain;
        }
    )*};
}
atomic_elements!(AtomicI32 i32, AtomicU32 u32, AtomicI64 i64, AtomicU64 u64, AtomicIsize isize, AtomicUsize usize,
    AtomicI8 i8, AtomicU8 u8, AtomicI16 i16, AtomicU16 u16, AtomicBool bool);

/// An atomic type and the plain type with the same bytes.
///
/// # Safety
/// `Self` and `Plain` have the same size, alignment and valid bytes.
pub unsafe trait AtomicElement: DeviceElement {
    /// The type without atomic access.
    type Plain: KernelValue;
}

/// How a parameter of a kernel crosses. The macro names each parameter's type with `'static` in place of its
/// lifetimes; [`Self::Bound`] is what the function receives, bound to one thread's run.
///
/// # Safety
/// `DESC` describes `Raw`, `Abi0` and `Abi1` as [`ParamKind`] says.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot take `{Self}`",
    label = "cannot cross to the device",
    note = "what slices and references give access to, and what is passed by value, is plain data: scalars, arrays, \
            tuples, `Option`, and `Copy` structs and enums with `#[derive(KernelValue)]`; atomics only behind a reference",
    note = "a generic `T` needs the bound `T: KernelValue`, or `T: DeviceElement` where it is only behind a reference"
)]
pub unsafe trait KernelParam: 'static {
    /// The parameter as the host keeps it between launch and run.
    type Raw: Copy + Send + Sync + 'static;
    /// First argument of the device entry.
    type Abi0;
    /// Second argument of the device entry, or `()`.
    type Abi1;
    /// What [`Self::memory`] gives: a reference without elements, or `()`.
    type Memory;
    /// What the kernel's function receives.
    type Bound<'s>;
    /// Shape of the parameter.
    const DESC: ParamDesc;
    /// Whether its elements are owned by place along x and y.
    const IS_PLANE: bool = false;

    /// Makes the parameter from what the host kept: the CPU executor's way.
    ///
    /// # Safety
    /// `raw` comes from a launch that is running, and no other thread's run uses the same index witness.
    unsafe fn from_raw<'s>(raw: Self::Raw, scope: &'s Scope) -> Self::Bound<'s>;

    /// The memory behind `raw` as the function that runs threads on the host receives it: a reference, so that the compiler knows
    /// it to be apart from what the executor itself writes.
    ///
    /// # Safety
    /// As [`Self::from_raw`].
    unsafe fn memory(raw: &Self::Raw) -> Self::Memory;

    /// `raw`, with the address of the reference that [`Self::memory`] gave.
    #[must_use]
    fn with_memory(raw: Self::Raw, memory: Self::Memory) -> Self::Raw;

    /// Whether the thread at a place finds its own element inside, as far as the parameter has such: true of a place only if it
    /// is of those none of whose numbers is larger.
    #[must_use]
    fn reaches(_raw: &Self::Raw, _place: &ThreadPlace) -> bool {
        true
    }

    /// Makes the parameter from the device entry's arguments.
    ///
    /// # Safety
    /// Only in a kernel entry, on the arguments it was called with.
    unsafe fn from_abi<'s>(abi0: Self::Abi0, abi1: Self::Abi1, scope: &'s Scope) -> Self::Bound<'s>;

    /// Lists the addresses of the entry's arguments inside `raw`, in order, as a driver's launch call takes them.
    fn arguments(raw: &Self::Raw, sink: &mut ArgumentSink<'_>);
}

/// Takes the addresses of an entry's arguments, in order.
pub struct ArgumentSink<'a> {
    slots: &'a mut [MaybeUninit<*mut c_void>], // Invariant: the first `len` are written.
    len: usize,
    beyond: &'a mut dyn FnMut(*const u8),
}

impl<'a> ArgumentSink<'a> {
    /// A sink that writes `slots`, from the first on, and passes on to `beyond` what comes after them.
    #[inline]
    pub fn new(slots: &'a mut [MaybeUninit<*mut c_void>], beyond: &'a mut dyn FnMut(*const u8)) -> Self {
        Self { slots, len: 0, beyond }
    }

    /// Takes the next address.
    #[inline]
    pub fn push(&mut self, address: *const u8) {
        match self.slots.get_mut(self.len) {
            Some(slot) => _ = slot.write(address.cast_mut().cast()),
            None => (self.beyond)(address),
        }
        self.len += 1;
    }

    /// How many addresses there were.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there was none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for ArgumentSink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgumentSink").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The [`KernelParam`] of a by-value parameter of type `T`.
#[derive(Debug)]
pub struct Value<T>(PhantomData<T>);

static DUMMY_ARGUMENT: u64 = 0;

// SAFETY: one `byval` argument, as `ParamKind::Value` says.
unsafe impl<T: KernelValue> KernelParam for Value<T> {
    type Raw = T;
    type Abi0 = ByVal<T>;
    type Abi1 = ();
    type Memory = ();
    type Bound<'s> = T;
    const DESC: ParamDesc = ParamDesc {
        kind: ParamKind::Value,
        align: align_of::<T>() as u32,
        size: size_of::<T>() as u64,
        extent_size: 0,
        layout: T::LAYOUT,
    };

    unsafe fn from_raw(raw: T, _scope: &Scope) -> T {
        raw
    }

    unsafe fn memory(_raw: &Self::Raw) {}

    fn with_memory(raw: Self::Raw, (): ()) -> Self::Raw {
        raw
    }

    unsafe fn from_abi(abi0: ByVal<T>, (): (), _scope: &Scope) -> T {
        // SAFETY: the caller promises an entry's argument.
        unsafe { abi0.read() }
    }

    #[inline]
    fn arguments(raw: &T, sink: &mut ArgumentSink<'_>) {
        if size_of::<T>() == 0 {
            sink.push((&raw const DUMMY_ARGUMENT).cast());
        } else {
            sink.push((&raw const *raw).cast());
        }
    }
}

/// A slice as the host keeps it: an address of the device and a length in elements.
#[derive(Debug)]
#[repr(C)]
pub struct RawSlice<T> {
    /// Address of the first element on the device that runs the kernel.
    pub ptr: *const T,
    /// Length in elements.
    pub len: usize,
}

impl<T> Clone for RawSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for RawSlice<T> {}
// SAFETY: an address; whoever makes a parameter of it answers for the access.
unsafe impl<T> Send for RawSlice<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for RawSlice<T> {}

// SAFETY: a pointer and a length, as `ParamKind::Slice` says. The empty array keeps `noalias` and `readonly`.
unsafe impl<T: DeviceElement> KernelParam for &'static [T] {
    type Raw = RawSlice<T>;
    type Abi0 = &'static [T; 0];
    type Abi1 = usize;
    type Memory = &'static [T; 0];
    type Bound<'s> = &'s [T];
    const DESC: ParamDesc = ParamDesc {
        kind: ParamKind::Slice,
        align: align_of::<T>() as u32,
        size: size_of::<T>() as u64,
        extent_size: 0,
        layout: T::LAYOUT,
    };

    unsafe fn from_raw(raw: RawSlice<T>, _scope: &Scope) -> &[T] {
        // SAFETY: the launch borrowed `len` elements at `ptr` from a buffer for its whole run.
        unsafe { core::slice::from_raw_parts(raw.ptr, raw.len) }
    }

    #[inline]
    unsafe fn memory(raw: &RawSlice<T>) -> &'static [T; 0] {
        // SAFETY: the address of borrowed elements, aligned and not null; there are no elements in the array.
        unsafe { &*raw.ptr.cast::<[T; 0]>() }
    }

    #[inline]
    fn with_memory(raw: RawSlice<T>, memory: &'static [T; 0]) -> RawSlice<T> {
        RawSlice { ptr: (&raw const *memory).cast(), ..raw }
    }

    #[inline]
    fn reaches(raw: &RawSlice<T>, place: &ThreadPlace) -> bool {
        place.global < raw.len as u64
    }

    unsafe fn from_abi<'s>(abi0: &'static [T; 0], abi1: usize, _scope: &'s Scope) -> &'s [T] {
        // SAFETY: the launcher passed a buffer's address and length, borrowed for the launch.
        unsafe { core::slice::from_raw_parts((&raw const *abi0).cast::<T>(), abi1) }
    }

    #[inline]
    fn arguments(raw: &RawSlice<T>, sink: &mut ArgumentSink<'_>) {
        sink.push((&raw const raw.ptr).cast());
        sink.push((&raw const raw.len).cast());
    }
}

/// A pointer as the host keeps it.
#[derive(Debug)]
#[repr(C)]
pub struct RawPtr<T> {
    /// Address on the device that runs the kernel.
    pub ptr: *const T,
}

impl<T> Clone for RawPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for RawPtr<T> {}
// SAFETY: an address; whoever makes a parameter of it answers for the access.
unsafe impl<T> Send for RawPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for RawPtr<T> {}

// SAFETY: one pointer, as `ParamKind::Ref` says.
unsafe impl<T: DeviceElement> KernelParam for &'static T {
    type Raw = RawPtr<T>;
    type Abi0 = &'static T;
    type Abi1 = ();
    type Memory = &'static T;
    type Bound<'s> = &'s T;
    const DESC: ParamDesc = ParamDesc {
        kind: ParamKind::Ref,
        align: align_of::<T>() as u32,
        size: size_of::<T>() as u64,
        extent_size: 0,
        layout: T::LAYOUT,
    };

    unsafe fn from_raw(raw: RawPtr<T>, _scope: &Scope) -> &T {
        // SAFETY: the launch borrowed one element at `ptr` from a buffer for its whole run.
        unsafe { &*raw.ptr }
    }

    #[inline]
    unsafe fn memory(raw: &RawPtr<T>) -> &'static T {
        // SAFETY: as in `from_raw`.
        unsafe { &*raw.ptr }
    }

    #[inline]
    fn with_memory(_raw: RawPtr<T>, memory: &'static T) -> RawPtr<T> {
        RawPtr { ptr: memory }
    }

    unsafe fn from_abi<'s>(abi0: &'static T, (): (), _scope: &'s Scope) -> &'s T {
        abi0
    }

    #[inline]
    fn arguments(raw: &RawPtr<T>, sink: &mut ArgumentSink<'_>) {
        sink.push((&raw const raw.ptr).cast());
    }
}

macro_rules! wrapped_params {
    ($($wrapper:ident, $param:ty, $written:literal);* $(;)?) => {$(
        #[doc = concat!("The [`KernelParam`] of a parameter of type `", $written, "`, under a name of its own.")]
        ///
        /// What `&'static [T]` implements may also come from the implementation for `&'static U`, so an error about it
        /// cannot say which `T` is at fault; here there is one implementation, and the error names `T`.
        #[derive(Debug)]
        pub struct $wrapper<T>(PhantomData<T>);

        // SAFETY: the same as the wrapped parameter in everything.
        unsafe impl<T: DeviceElement> KernelParam for $wrapper<T> {
            type Raw = <$param as KernelParam>::Raw;
            type Abi0 = <$param as KernelParam>::Abi0;
            type Abi1 = <$param as KernelParam>::Abi1;
            type Memory = <$param as KernelParam>::Memory;
            type Bound<'s> = <$param as KernelParam>::Bound<'s>;
            const DESC: ParamDesc = <$param as KernelParam>::DESC;
            const IS_PLANE: bool = <$param as KernelParam>::IS_PLANE;

            unsafe fn from_raw<'s>(raw: Self::Raw, scope: &'s Scope) -> Self::Bound<'s> {
                // SAFETY: the caller promises the same.
                unsafe { <$param as KernelParam>::from_raw(raw, scope) }
            }

            #[inline]
            unsafe fn memory(raw: &Self::Raw) -> Self::Memory {
                // SAFETY: the caller promises the same.
                unsafe { <$param as KernelParam>::memory(raw) }
            }

            #[inline]
            fn with_memory(raw: Self::Raw, memory: Self::Memory) -> Self::Raw {
                <$param as KernelParam>::with_memory(raw, memory)
            }

            #[inline]
            fn reaches(raw: &Self::Raw, place: &ThreadPlace) -> bool {
                <$param as KernelParam>::reaches(raw, place)
            }

            unsafe fn from_abi<'s>(abi0: Self::Abi0, abi1: Self::Abi1, scope: &'s Scope) -> Self::Bound<'s> {
                // SAFETY: the caller promises the same.
                unsafe { <$param as KernelParam>::from_abi(abi0, abi1, scope) }
            }

            #[inline]
            fn arguments(raw: &Self::Raw, sink: &mut ArgumentSink<'_>) {
                <$param as KernelParam>::arguments(raw, sink);
            }
        }
    )*};
}
wrapped_params!(Slice, &'static [T], "&[T]"; Ref, &'static T, "&T");

macro_rules! pointer_params {
    ($($pointer:ty, $cast:ident);* $(;)?) => {$(
        // SAFETY: one pointer, as `ParamKind::Pointer` says.
        unsafe impl<T: 'static> KernelParam for $pointer {
            type Raw = RawPtr<T>;
            type Abi0 = $pointer;
            type Abi1 = ();
            type Memory = ();
            type Bound<'s> = $pointer;
            const DESC: ParamDesc = ParamDesc {
                kind: ParamKind::Pointer,
                align: align_of::<T>() as u32,
                size: size_of::<T>() as u64,
                extent_size: 0,
                layout: 0,
            };

            unsafe fn from_raw(raw: RawPtr<T>, _scope: &Scope) -> $pointer {
                raw.ptr.$cast()
            }

            unsafe fn memory(_raw: &Self::Raw) {}

            fn with_memory(raw: Self::Raw, (): ()) -> Self::Raw {
                raw
            }

            unsafe fn from_abi(abi0: $pointer, (): (), _scope: &Scope) -> $pointer {
                abi0
            }

            #[inline]
            fn arguments(raw: &RawPtr<T>, sink: &mut ArgumentSink<'_>) {
                sink.push((&raw const raw.ptr).cast());
            }
        }
    )*};
}
pointer_params!(*const T, cast; *mut T, cast_mut);

/// Whether this crate was compiled for the device: true only in the nested build.
pub const IS_DEVICE_BUILD: bool = cfg!(warpsmith_device);

/// Whether this crate was compiled by a nested build, for the device or for the checker.
pub const IS_NESTED_BUILD: bool = cfg!(any(warpsmith_device, warpsmith_checked));

/// Ties an entry to its description and to the type name of its generic arguments; called by every launch function.
///
/// In a nested build this is a call that the lowering looks for; on the host it is never reached.
#[inline(always)]
pub fn register_entry(entry: *const (), desc: &'static KernelDesc, instance: &'static str) {
    #[cfg(any(warpsmith_device, warpsmith_checked))]
    // SAFETY: the lowering removes the call; the function has no body and no effect.
    unsafe {
        unsafe extern "C" {
            fn __warpsmith_register(
                entry: *const (),
                desc: *const KernelDesc,
                instance: *const u8,
                instance_len: usize,
            );
        }
        __warpsmith_register(entry, desc, instance.as_ptr(), instance.len());
        // The profile's arithmetic wraps: the checker, whose code has overflow checks, then goes on after it has seen one.
        #[cfg(warpsmith_wraps)]
        {
            unsafe extern "C" {
                fn __warpsmith_wraps();
            }
            __warpsmith_wraps();
        }
        // What the checker's code calls of the standard library may be gone from the program by the time it is linked.
        #[cfg(warpsmith_lto)]
        {
            unsafe extern "C" {
                fn __warpsmith_lto();
            }
            __warpsmith_lto();
        }
    }
    #[cfg(not(any(warpsmith_device, warpsmith_checked)))]
    let _ = (entry, desc, instance);
}
