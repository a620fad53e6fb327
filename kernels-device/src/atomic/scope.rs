//! The threads that an atomic operation is atomic for.

use super::code;

mod sealed {
    pub trait Sealed {}
}

/// The threads that an atomic operation is atomic and ordered for; CUDA's `thread_scope`.
///
/// All operations on a value at the same time must name a scope that holds the threads of all of them, else they are no
/// more atomic for each other than plain accesses. A narrower scope makes acquiring and releasing cheaper, not an
/// operation in relaxed order. To the CPU executor all scopes are the widest.
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
