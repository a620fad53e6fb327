//! Atomics by scope and order, for all types that the hardware has them for.
//!
//! A kernel takes `&[AtomicU32]`, `&[AtomicF32]` and the like, and the host passes a buffer of plain values. The integers
//! are those of `core::sync::atomic`, as they are; the floats are here. Their own methods are atomic for the whole system:
//! all threads of all devices, and the host's. [`ScopedAtomic`] narrows that: `bins[0].block()` is the same value with
//! operations that are atomic and ordered for the threads of the block.
//!
//! In shared memory, [`shared!`](macro@crate::shared) holds atomics; each is written before the first barrier, and shared from then on:
//! ```
//! use core::sync::atomic::{AtomicU32, Ordering};
//! use warpsmith_device::{ScopedAtomic, block_stride, grid_stride, shared, sync_threads};
//!
//! /// How often each byte occurs: counted by block, then added to `counts`, which has 256 elements.
//! fn histogram(bytes: &[u8], counts: &[AtomicU32]) {
//!     let own = shared!([AtomicU32; 256]);
//!     for slot in block_stride(256) {
//!         // SAFETY: the slot is inside the array, and this thread's alone until the barrier.
//!         unsafe { own.cast::<AtomicU32>().add(slot.get()).write(AtomicU32::new(0)) };
//!     }
//!     sync_threads();
//!     // SAFETY: all slots were written before the barrier, and are accessed as atomics only from here on.
//!     let own = unsafe { &*own };
//!     for i in grid_stride(bytes.len()) {
//!         own[usize::from(bytes[i.get()])].block().fetch_add(1, Ordering::Relaxed);
//!     }
//!     sync_threads();
//!     for slot in block_stride(256) {
//!         let count = own[slot.get()].block().load(Ordering::Relaxed);
//!         counts[slot.get()].device().fetch_add(count, Ordering::Relaxed);
//!     }
//! }
//! ```
//!
//! In PTX an operation is `atom.ORDER.SCOPE`, or `red.ORDER.SCOPE` where nothing looks at the value before; a load is
//! `ld.ORDER.SCOPE` and a store `st.ORDER.SCOPE`. Sequential consistency is a `fence.sc.SCOPE` before an acquiring (for
//! stores, releasing) operation. What an address is known to point into stands there too: `.global` or `.shared`. Integers
//! of 8 and 16 bits and what the hardware lacks for a type are loops around `atom.cas`, of the same scope and order.
//!
//! The CPU executor uses the host's atomics with the same order; to it, every scope is the whole system, unless it checks the
//! launch. There the threads of a block take turns where they meet, at barriers and warp operations: a loop that waits for an atomic that another thread of
//! the same block will write does not end.

mod float;
mod pair;
pub(crate) mod scope;
mod value;
mod word;

#[doc(hidden)]
pub mod code;

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use self::word::{Word, order_number};
use crate::abi::AtomicElement;

pub use self::float::{AtomicBf16, AtomicBf16x2, AtomicF16, AtomicF16x2, AtomicF32, AtomicF64};
pub use self::scope::{BlockScope, DeviceScope, SystemScope, ThreadScope};
pub use self::value::{AtomicInteger, AtomicValue};

/// Narrows an atomic to the threads that it is shared by; in the prelude.
///
/// # Examples
/// ```
/// use core::sync::atomic::{AtomicU32, Ordering};
/// use warpsmith_device::{AtomicF32, ScopedAtomic};
///
/// let (count, sum) = (AtomicU32::new(4), AtomicF32::new(1.0));
/// assert_eq!(count.block().fetch_add(3, Ordering::Relaxed), 4);
/// assert_eq!(count.device().fetch_inc(7, Ordering::AcqRel), 7);
/// assert_eq!(count.system().load(Ordering::Acquire), 0);
/// sum.block().fetch_max(2.5, Ordering::Relaxed);
/// assert_eq!(sum.load(Ordering::Relaxed), 2.5);
/// ```
/// # Source
/// libcu++, "cuda::atomic_ref".
pub trait ScopedAtomic: AtomicElement<Plain: AtomicValue> + Sized {
    /// For the threads of a block.
    #[inline(always)]
    fn block(&self) -> AtomicRef<'_, Self, BlockScope> {
        AtomicRef::new(self)
    }

    /// For the threads of a device.
    #[inline(always)]
    fn device(&self) -> AtomicRef<'_, Self, DeviceScope> {
        AtomicRef::new(self)
    }

    /// For all threads of all devices and of the host, as the atomic's own methods are.
    #[inline(always)]
    fn system(&self) -> AtomicRef<'_, Self, SystemScope> {
        AtomicRef::new(self)
    }
}
impl<A: AtomicElement<Plain: AtomicValue>> ScopedAtomic for A {}

/// An atomic `A` whose operations are atomic and ordered for the threads of the scope `S`; CUDA's `atomic_ref`.
///
/// [`ScopedAtomic`] makes one. Every `fetch_` and `swap` gives the value before. See [`ThreadScope`] for what a scope
/// asks for, and the [module](self) for the PTX of an operation.
pub struct AtomicRef<'a, A, S = SystemScope> {
    atomic: &'a A,
    scope: PhantomData<S>,
}

impl<A, S> Clone for AtomicRef<'_, A, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A, S> Copy for AtomicRef<'_, A, S> {}

impl<A: fmt::Debug, S: ThreadScope> fmt::Debug for AtomicRef<'_, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtomicRef").field("atomic", self.atomic).field("scope", &S::NAME).finish()
    }
}

/// The word of an atomic's value.
type WordOf<A> = <<A as AtomicElement>::Plain as value::Operations>::Word;

impl<'a, A: AtomicElement<Plain: AtomicValue>, S: ThreadScope> AtomicRef<'a, A, S> {
    /// The same atomic, for the threads of the scope.
    #[inline(always)]
    #[must_use]
    pub const fn new(atomic: &'a A) -> Self {
        Self { atomic, scope: PhantomData }
    }

    /// A plain value as an atomic.
    ///
    /// # Safety
    /// For the lifetime `'a`, `pointer` is valid for reads and writes, aligned, and accessed atomically only, or in ways
    /// that do not happen at the same time.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn from_ptr(pointer: *mut A::Plain) -> Self {
        // SAFETY: an atomic has the size, alignment and bytes of its plain value.
        Self::new(unsafe { &*pointer.cast_const().cast::<A>() })
    }

    #[inline(always)]
    fn pointer(self) -> *mut WordOf<A> {
        const { assert!(size_of::<A>() == size_of::<WordOf<A>>() && align_of::<A>() == align_of::<WordOf<A>>()) };
        core::ptr::from_ref(self.atomic).cast_mut().cast()
    }

    /// Reads. PTX: `ld`.
    ///
    /// # Panics
    /// With `Release` and `AcqRel`, which say nothing about a load.
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn load(self, order: Ordering) -> A::Plain {
        // SAFETY: a reference to an atomic is valid and aligned, and accessed atomically only.
        let word = unsafe { load::<WordOf<A>, S>(self.pointer(), order) };
        value::Operations::from_word(word)
    }

    /// Writes. PTX: `st`.
    ///
    /// # Panics
    /// With `Acquire` and `AcqRel`, which say nothing about a store.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, value: A::Plain, order: Ordering) {
        // SAFETY: as for `load`.
        unsafe { store::<WordOf<A>, S>(self.pointer(), value::Operations::to_word(value), order) };
    }

    /// Writes, and gives the value before. PTX: `atom.exch`.
    #[doc(alias("exchange", "atomicExch"))]
    #[inline(always)]
    pub fn swap(self, value: A::Plain, order: Ordering) -> A::Plain {
        self.rmw(value, code::EXCHANGE, order)
    }

    /// Writes `new` where the value has the bits of `current`, and gives the value before. PTX: `atom.cas`.
    ///
    /// Bits are compared: for floats, `-0.0` differs from `0.0`, and a NaN can be found.
    ///
    /// # Errors
    /// The value found, when it was another.
    /// # Panics
    /// With the failure order `Release` or `AcqRel`, which say nothing about a load.
    #[doc(alias = "atomicCAS")]
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(
        self,
        current: A::Plain,
        new: A::Plain,
        success: Ordering,
        failure: Ordering,
    ) -> Result<A::Plain, A::Plain> {
        let (current, new) = (value::Operations::to_word(current), value::Operations::to_word(new));
        // SAFETY: as for `load`.
        let before = unsafe { cas::<WordOf<A>, S>(self.pointer(), current, new, success, failure) };
        let value = value::Operations::from_word(before);
        if before == current { Ok(value) } else { Err(value) }
    }

    /// [`Self::compare_exchange`]: no hardware of ours fails where the value is the expected one.
    ///
    /// # Errors
    /// The value found, when it was another.
    /// # Panics
    /// As [`Self::compare_exchange`].
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange_weak(
        self,
        current: A::Plain,
        new: A::Plain,
        success: Ordering,
        failure: Ordering,
    ) -> Result<A::Plain, A::Plain> {
        self.compare_exchange(current, new, success, failure)
    }

    /// Adds. PTX: `atom.add`; `bf16` and its pair from compute capability 9.0 on, below a loop around `atom.cas`.
    ///
    /// Integers wrap around. Floats round to nearest; the order in which threads add is open, and so is the rounding of a
    /// sum of many. Of a pair, each half is added atomically on its own. A GPU takes subnormal `f32` numbers in global memory,
    /// terms and sum, for zeros of their sign; it keeps those in shared memory and of every other type, as the CPU executor
    /// keeps all.
    ///
    /// # Source
    /// PTX ISA, "atom".
    #[doc(alias = "atomicAdd")]
    #[inline(always)]
    pub fn fetch_add(self, value: A::Plain, order: Ordering) -> A::Plain {
        self.rmw(value, <A::Plain as value::Operations>::ADD, order)
    }

    /// Subtracts: [`Self::fetch_add`] of the negated value.
    #[doc(alias = "atomicSub")]
    #[inline(always)]
    pub fn fetch_sub(self, value: A::Plain, order: Ordering) -> A::Plain {
        // SAFETY: as for `load`.
        let before = unsafe { <A::Plain as value::Operations>::fetch_sub::<S>(self.pointer(), value, order) };
        value::Operations::from_word(before)
    }

    /// Keeps the smaller of both. PTX: `atom.min`; on floats of 16 bits a loop around `atom.cas`.
    ///
    /// As with a float's own `min`, a NaN on one side yields the other; `-0.0` is below `0.0`.
    #[doc(alias = "atomicMin")]
    #[inline(always)]
    pub fn fetch_min(self, value: A::Plain, order: Ordering) -> A::Plain {
        // SAFETY: as for `load`.
        let before = unsafe { <A::Plain as value::Operations>::fetch_min::<S>(self.pointer(), value, order) };
        value::Operations::from_word(before)
    }

    /// Keeps the larger of both. PTX: `atom.max`; on floats of 16 bits a loop around `atom.cas`.
    ///
    /// As with a float's own `max`, a NaN on one side yields the other; `-0.0` is below `0.0`.
    #[doc(alias = "atomicMax")]
    #[inline(always)]
    pub fn fetch_max(self, value: A::Plain, order: Ordering) -> A::Plain {
        // SAFETY: as for `load`.
        let before = unsafe { <A::Plain as value::Operations>::fetch_max::<S>(self.pointer(), value, order) };
        value::Operations::from_word(before)
    }

    /// Replaces the value by what `change` makes of it, until no other thread comes in between; ends when `change` gives
    /// `None`. PTX: a loop around `atom.cas`.
    ///
    /// Bits are compared, so that the loop ends with a NaN in memory too.
    ///
    /// # Errors
    /// The value for which `change` gave `None`.
    /// # Panics
    /// With the order of loads `Release` or `AcqRel`, which say nothing about a load.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_update(
        self,
        success: Ordering,
        failure: Ordering,
        mut change: impl FnMut(A::Plain) -> Option<A::Plain>,
    ) -> Result<A::Plain, A::Plain> {
        let mut before = self.load(failure);
        while let Some(after) = change(before) {
            match self.compare_exchange_weak(before, after, success, failure) {
                Ok(before) => return Ok(before),
                Err(found) => before = found,
            }
        }
        Err(before)
    }

    #[inline(always)]
    fn rmw(self, value: A::Plain, operation: u32, order: Ordering) -> A::Plain {
        // SAFETY: as for `load`.
        let before =
            unsafe { rmw::<WordOf<A>, S>(self.pointer(), value::Operations::to_word(value), operation, order) };
        value::Operations::from_word(before)
    }
}

impl<A: AtomicElement<Plain: AtomicInteger>, S: ThreadScope> AtomicRef<'_, A, S> {
    /// Keeps the bits that both have. PTX: `atom.and`.
    #[doc(alias = "atomicAnd")]
    #[inline(always)]
    pub fn fetch_and(self, value: A::Plain, order: Ordering) -> A::Plain {
        self.rmw(value, code::AND, order)
    }

    /// Sets the bits of `value`. PTX: `atom.or`.
    #[doc(alias = "atomicOr")]
    #[inline(always)]
    pub fn fetch_or(self, value: A::Plain, order: Ordering) -> A::Plain {
        self.rmw(value, code::OR, order)
    }

    /// Flips the bits of `value`. PTX: `atom.xor`.
    #[doc(alias = "atomicXor")]
    #[inline(always)]
    pub fn fetch_xor(self, value: A::Plain, order: Ordering) -> A::Plain {
        self.rmw(value, code::XOR, order)
    }
}

impl<A: AtomicElement<Plain = u32>, S: ThreadScope> AtomicRef<'_, A, S> {
    /// Adds 1 below `limit`, and writes 0 from `limit` on: counts round and round from 0 to `limit`. PTX: `atom.inc`.
    #[doc(alias = "atomicInc")]
    #[inline(always)]
    pub fn fetch_inc(self, limit: u32, order: Ordering) -> u32 {
        self.rmw(limit, code::INC, order)
    }

    /// Subtracts 1 from 1 to `limit`, and writes `limit` at 0 and beyond `limit`: counts round and round from `limit` to 0.
    /// PTX: `atom.dec`.
    #[doc(alias = "atomicDec")]
    #[inline(always)]
    pub fn fetch_dec(self, limit: u32, order: Ordering) -> u32 {
        self.rmw(limit, code::DEC, order)
    }
}

/// Orders the thread's accesses before and after it, as the threads of the scope see them; CUDA's `atomic_thread_fence`.
///
/// PTX: `fence.acq_rel.SCOPE`, with `SeqCst` `fence.sc.SCOPE`. It waits for no one.
///
/// # Panics
/// With `Relaxed`, which orders nothing.
/// # Examples
/// ```
/// use core::sync::atomic::Ordering;
/// use warpsmith_device::atomic::{DeviceScope, fence};
///
/// fence::<DeviceScope>(Ordering::AcqRel);
/// ```
/// # Source
/// PTX ISA, "membar / fence".
#[inline(always)]
#[track_caller]
pub fn fence<S: ThreadScope>(order: Ordering) {
    assert!(order != Ordering::Relaxed, "a fence in relaxed order orders nothing: use `AcqRel` or `SeqCst`");
    #[cfg(warpsmith_device)]
    {
        use crate::intrinsics::atomic as raw;
        match (order == Ordering::SeqCst, S::NUMBER) {
            (false, code::BLOCK) => raw::fence_acq_rel_cta(),
            (false, code::DEVICE) => raw::fence_acq_rel_gpu(),
            (false, _) => raw::fence_acq_rel_sys(),
            (true, code::BLOCK) => raw::fence_sc_cta(),
            (true, code::DEVICE) => raw::fence_sc_gpu(),
            (true, _) => raw::fence_sc_sys(),
        }
    }
    #[cfg(not(warpsmith_device))]
    {
        let _scope = scope::Scoped::new(S::NUMBER);
        core::sync::atomic::fence(order);
    }
}

/// One branch for each order, so that the order's number is a constant in each.
macro_rules! by_order {
    ($order:expr, $operation:expr, $scope:ident, |$how:ident| $body:expr) => {
        match $order {
            Ordering::Relaxed => {
                let $how = code::encode($operation, code::RELAXED, $scope::NUMBER);
                $body
            }
            Ordering::Acquire => {
                let $how = code::encode($operation, code::ACQUIRE, $scope::NUMBER);
                $body
            }
            Ordering::Release => {
                let $how = code::encode($operation, code::RELEASE, $scope::NUMBER);
                $body
            }
            Ordering::AcqRel => {
                let $how = code::encode($operation, code::ACQUIRE_RELEASE, $scope::NUMBER);
                $body
            }
            _ => {
                let $how = code::encode($operation, code::SEQUENTIAL, $scope::NUMBER);
                $body
            }
        }
    };
}

#[inline(always)]
#[track_caller]
unsafe fn load<W: Word, S: ThreadScope>(pointer: *mut W, order: Ordering) -> W {
    assert!(
        !matches!(order, Ordering::Release | Ordering::AcqRel),
        "a load cannot release: use `Relaxed`, `Acquire` or `SeqCst`"
    );
    // SAFETY: the caller's promise.
    by_order!(order, 0, S, |how| unsafe { W::load(pointer, how) })
}

#[inline(always)]
#[track_caller]
unsafe fn store<W: Word, S: ThreadScope>(pointer: *mut W, value: W, order: Ordering) {
    assert!(
        !matches!(order, Ordering::Acquire | Ordering::AcqRel),
        "a store cannot acquire: use `Relaxed`, `Release` or `SeqCst`"
    );
    // SAFETY: the caller's promise.
    by_order!(order, 0, S, |how| unsafe { W::store(pointer, value, how) });
}

/// `operation` must be a constant at every call.
#[inline(always)]
unsafe fn rmw<W: Word, S: ThreadScope>(pointer: *mut W, value: W, operation: u32, order: Ordering) -> W {
    // SAFETY: the caller's promise.
    by_order!(order, operation, S, |how| unsafe { W::rmw(pointer, value, how) })
}

#[inline(always)]
#[track_caller]
unsafe fn cas<W: Word, S: ThreadScope>(pointer: *mut W, current: W, new: W, success: Ordering, failure: Ordering) -> W {
    assert!(
        !matches!(failure, Ordering::Release | Ordering::AcqRel),
        "a failed exchange only loads, and a load cannot release: use `Relaxed`, `Acquire` or `SeqCst`"
    );
    // One instruction serves both ends.
    let order = match (order_number(success), order_number(failure)) {
        (code::SEQUENTIAL, _) | (_, code::SEQUENTIAL) => Ordering::SeqCst,
        (code::RELEASE, code::ACQUIRE) => Ordering::AcqRel,
        (code::RELAXED, code::ACQUIRE) => Ordering::Acquire,
        _ => success,
    };
    // SAFETY: the caller's promise.
    by_order!(order, 0, S, |how| unsafe { W::cas(pointer, current, new, how) })
}

/// Replaces the word by what `change` makes of it, and gives the word before.
#[inline(always)]
unsafe fn replace<W: Word, S: ThreadScope>(pointer: *mut W, order: Ordering, change: impl Fn(W) -> W) -> W {
    // SAFETY: the caller's promise.
    let mut before = unsafe { load::<W, S>(pointer, Ordering::Relaxed) };
    loop {
        // SAFETY: the caller's promise.
        let found = unsafe { cas::<W, S>(pointer, before, change(before), order, Ordering::Relaxed) };
        if found == before {
            return before;
        }
        before = found;
    }
}
