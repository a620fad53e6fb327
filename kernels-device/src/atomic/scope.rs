//! The threads that an atomic operation is atomic for.

use super::code;

mod sealed {
    pub trait Sealed {}
}

/// The threads that an atomic operation is atomic and ordered for; CUDA's `thread_scope`.
///
/// All operations on a value at the same time must name a scope that holds the threads of all of them, else they are no
/// more atomic for each other than plain accesses. A narrower scope makes acquiring and releasing cheaper, not an
/// operation in relaxed order. To the CPU executor all scopes are the widest; where it
/// checks a launch, atomics whose scopes do not hold each other are reported.
///
/// # Source
/// PTX ISA, "Scope"; libcu++, "Thread Scopes".
pub trait ThreadScope: sealed::Sealed + Copy {
    #[doc(hidden)]
    const NUMBER: u32;
    #[doc(hidden)]
    const NAME: &'static str;
}

macro_rules! scopes {
    ($($(#[$docs:meta])* $name:ident $number:ident;)*) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl sealed::Sealed for $name {}
        impl ThreadScope for $name {
            const NUMBER: u32 = code::$number;
            const NAME: &'static str = stringify!($name);
        }
    )*};
}
scopes! {
    /// The threads of a block: `.cta`, CUDA's `thread_scope_block`.
    BlockScope BLOCK;
    /// The threads of a device: `.gpu`, CUDA's `thread_scope_device`.
    DeviceScope DEVICE;
    /// All threads of all devices and of the host: `.sys`, CUDA's `thread_scope_system`.
    SystemScope SYSTEM;
}

/// Tells the checker, while it lives, that what happens is for the threads of the block alone. Code that is not for the checker
/// tells nobody.
#[cfg(not(warpsmith_device))]
pub(crate) struct Scoped {
    #[cfg(warpsmith_checked)]
    is_block: bool,
}

#[cfg(not(warpsmith_device))]
impl Scoped {
    /// For a scope by its number.
    #[inline(always)]
    pub(crate) fn new(scope: u32) -> Self {
        #[cfg(not(warpsmith_checked))]
        let _ = scope;
        #[cfg(warpsmith_checked)]
        if scope == code::BLOCK {
            __warpsmith_check_in_block(true);
        }
        Self {
            #[cfg(warpsmith_checked)]
            is_block: scope == code::BLOCK,
        }
    }
}

#[cfg(all(warpsmith_checked, not(warpsmith_device)))]
impl Drop for Scoped {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_block {
            __warpsmith_check_in_block(false);
        }
    }
}

#[cfg(all(warpsmith_checked, not(warpsmith_device)))]
unsafe extern "Rust" {
    // The program's own; this code is compiled once more and linked beside it.
    safe fn __warpsmith_check_in_block(starts: bool);
}
