//! Loads and stores that say how they want to be cached, and prefetches.
//!
//! `.ws_space` stands for the state space: the lowering writes `.global` where it can tell that the address is one, and
//! nothing, which takes any address, where it cannot.

use core::mem::MaybeUninit;

/// `ptx!` with a text in parts.
macro_rules! parts {
    (($($part:expr),*), $($operands:tt)*) => {
        #[allow(asm_sub_register, reason = "the lowering takes an operand's width from its type, not from a modifier")]
        let () = core::arch::asm!(concat!("/*ptx: ", $($part,)* " */"), $($operands)*);
    };
}

/// Four registers, which one instruction moves.
pub(crate) type Quad = [MaybeUninit<u32>; 4];

macro_rules! loads {
    ($($name:ident $before:literal $after:literal $options:tt;)*) => {$(
        /// Loads of 1, 2, 4, 8 and 16 bytes.
        pub(crate) mod $name {
            use super::*;

            loads!(one load_8 $before $after $options, u8, u16, "u8");
            loads!(one load_16 $before $after $options, u16, u16, "u16");
            loads!(one load_32 $before $after $options, u32, u32, "b32");
            loads!(one load_64 $before $after $options, u64, u64, "b64");

            /// # Safety
            /// `address` is aligned to 16 and readable for 16 bytes.
            #[inline(always)]
            pub(crate) unsafe fn load_128(address: *const u8) -> Quad {
                let (a, b, c, d): (u32, u32, u32, u32);
                // SAFETY: the caller's promise; what the bytes are does not matter to a register.
                unsafe {
                    parts!(
                        ($before, ".ws_space", $after, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];"),
                        out(reg) a, out(reg) b, out(reg) c, out(reg) d, in(reg) address,
                        options $options
                    );
                }
                [a, b, c, d].map(MaybeUninit::new)
            }
        }
    )*};
    (one $name:ident $before:literal $after:literal $options:tt, $value:ty, $register:ty, $width:literal) => {
        /// # Safety
        /// `address` is aligned to the value's size and readable for as many bytes.
        #[inline(always)]
        pub(crate) unsafe fn $name(address: *const u8) -> MaybeUninit<$value> {
            let value: $register;
            // SAFETY: the caller's promise; what the bytes are does not matter to a register.
            unsafe {
                parts!(
                    ($before, ".ws_space", $after, ".", $width, " {0}, [{1}];"),
                    out(reg) value, in(reg) address,
                    options $options
                );
            }
            MaybeUninit::new(value as $value)
        }
    };
}
loads! {
    streaming "ld" ".cs" (pure, readonly, nostack);
    last_use "ld" ".lu" (pure, readonly, nostack);
    cache_global "ld" ".cg" (pure, readonly, nostack);
    // LLVM makes `ld.global.nc` of a volatile load from memory that it knows to be constant.
    volatile "ld.volatile" "" (nostack);
}

/// Loads through the cache for what no thread writes.
pub(crate) mod non_coherent {
    use super::*;

    macro_rules! one {
        ($name:ident $value:ty, $register:ty, $width:literal) => {
            /// # Safety
            /// `address` is in global memory, aligned to the value's size and readable for as many bytes, which no thread
            /// writes while the kernel runs.
            #[inline(always)]
            pub(crate) unsafe fn $name(address: *const u8) -> MaybeUninit<$value> {
                let value: $register;
                // SAFETY: the caller's promise; what the bytes are does not matter to a register.
                unsafe {
                    parts!(
                        ("{{ .reg .b64 %at; cvta.to.global.u64 %at, {1}; ld.global.nc.", $width, " {0}, [%at]; }}"),
                        out(reg) value, in(reg) address,
                        options(pure, readonly, nostack)
                    );
                }
                MaybeUninit::new(value as $value)
            }
        };
    }
    one!(load_8 u8, u16, "u8");
    one!(load_16 u16, u16, "u16");
    one!(load_32 u32, u32, "b32");
    one!(load_64 u64, u64, "b64");

    /// # Safety
    /// As [`load_32`], for 16 bytes.
    #[inline(always)]
    pub(crate) unsafe fn load_128(address: *const u8) -> Quad {
        let (a, b, c, d): (u32, u32, u32, u32);
        // SAFETY: the caller's promise; what the bytes are does not matter to a register.
        unsafe {
            parts!(
                (
                    "{{ .reg .b64 %at; cvta.to.global.u64 %at, {4}; ",
                    "ld.global.nc.v4.b32 {{{0}, {1}, {2}, {3}}}, [%at]; }}"
                ),
                out(reg) a, out(reg) b, out(reg) c, out(reg) d, in(reg) address,
                options(pure, readonly, nostack)
            );
        }
        [a, b, c, d].map(MaybeUninit::new)
    }
}

macro_rules! stores {
    ($($name:ident $before:literal $after:literal;)*) => {$(
        /// Stores of 1, 2, 4, 8 and 16 bytes.
        pub(crate) mod $name {
            use super::*;

            stores!(one store_16 $before $after, u16, "b16");
            stores!(one store_32 $before $after, u32, "b32");
            stores!(one store_64 $before $after, u64, "b64");

            /// # Safety
            /// `address` is writable for a byte.
            #[inline(always)]
            pub(crate) unsafe fn store_8(address: *mut u8, value: MaybeUninit<u8>) {
                let mut wide = MaybeUninit::<u16>::uninit();
                // SAFETY: a byte inside `wide`. The other one is not stored.
                unsafe { wide.as_mut_ptr().cast::<MaybeUninit<u8>>().write(value) };
                // SAFETY: the caller's promise.
                unsafe {
                    parts!(
                        ($before, ".ws_space", $after, ".b8 [{0}], {1};"),
                        in(reg) address, in(reg) wide,
                        options(nostack)
                    );
                }
            }

            /// # Safety
            /// `address` is aligned to 16 and writable for 16 bytes.
            #[inline(always)]
            pub(crate) unsafe fn store_128(address: *mut u8, value: Quad) {
                let [a, b, c, d] = value;
                // SAFETY: the caller's promise.
                unsafe {
                    parts!(
                        ($before, ".ws_space", $after, ".v4.b32 [{0}], {{{1}, {2}, {3}, {4}}};"),
                        in(reg) address, in(reg) a, in(reg) b, in(reg) c, in(reg) d,
                        options(nostack)
                    );
                }
            }
        }
    )*};
    (one $name:ident $before:literal $after:literal, $value:ty, $width:literal) => {
        /// # Safety
        /// `address` is aligned to the value's size and writable for as many bytes.
        #[inline(always)]
        pub(crate) unsafe fn $name(address: *mut u8, value: MaybeUninit<$value>) {
            // SAFETY: the caller's promise.
            unsafe {
                parts!(
                    ($before, ".ws_space", $after, ".", $width, " [{0}], {1};"),
                    in(reg) address, in(reg) value,
                    options(nostack)
                );
            }
        }
    };
}
stores! {
    write_streaming "st" ".cs";
    write_cache_global "st" ".cg";
    write_volatile "st.volatile" "";
}

macro_rules! prefetches {
    ($($name:ident $level:literal;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(address: *const u8) {
            // SAFETY: a hint, for any address.
            unsafe {
                parts!(("prefetch.ws_space.", $level, " [{0}];"), in(reg) address, options(nostack, readonly));
            }
        }
    )*};
}
prefetches! {
    prefetch_l1 "L1";
    prefetch_l2 "L2";
}
