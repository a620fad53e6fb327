//! Atomic instructions: their ordering, and the threads that they are atomic for.

use std::ffi::{c_char, c_uint};

use super::api::{api, c};
use super::{Builder, Context, Value, opcode};

/// Orderings of LLVM's C API.
pub(crate) mod ordering {
    pub(crate) const NOT_ATOMIC: i32 = 0;
    pub(crate) const RELAXED: i32 = 2;
    pub(crate) const ACQUIRE: i32 = 4;
    pub(crate) const RELEASE: i32 = 5;
    pub(crate) const ACQUIRE_RELEASE: i32 = 6;
    pub(crate) const SEQUENTIAL: i32 = 7;
}

/// Operations of `atomicrmw` in LLVM's C API.
pub(crate) mod operation {
    pub(crate) const EXCHANGE: i32 = 0;
    pub(crate) const ADD: i32 = 1;
    pub(crate) const SUB: i32 = 2;
    pub(crate) const AND: i32 = 3;
    pub(crate) const NAND: i32 = 4;
    pub(crate) const OR: i32 = 5;
    pub(crate) const XOR: i32 = 6;
    pub(crate) const MAX: i32 = 7;
    pub(crate) const MIN: i32 = 8;
    pub(crate) const UNSIGNED_MAX: i32 = 9;
    pub(crate) const UNSIGNED_MIN: i32 = 10;
    pub(crate) const FLOAT_ADD: i32 = 11;
    pub(crate) const WRAPPING_INCREMENT: i32 = 15;
    pub(crate) const WRAPPING_DECREMENT: i32 = 16;
}

impl Context {
    /// The scope that the backend knows by this name; the empty name is the whole system.
    pub(crate) fn sync_scope(&self, name: &str) -> u32 {
        if name.is_empty() {
            // LLVM's own number: asked for by its name, the whole system would be a scope that no backend knows.
            return 1;
        }
        let text = c(name);
        // SAFETY: a live context and a string of this length.
        unsafe { (api().LLVMGetSyncScopeID)(self.0, text.as_ptr(), name.len()) }
    }
}

const NO_NAME: *const c_char = c"".as_ptr();

impl Builder {
    pub(crate) fn atomic_rmw(&self, operation: i32, pointer: Value, value: Value, order: i32, scope: c_uint) -> Value {
        // SAFETY: a pointer, and a value of a type that the operation takes.
        Value(unsafe { (api().LLVMBuildAtomicRMWSyncScope)(self.0, operation, pointer.0, value.0, order, scope) })
    }

    /// Gives the value before and whether it was the expected one.
    pub(crate) fn compare_exchange(
        &self,
        pointer: Value,
        [expected, new]: [Value; 2],
        [success, failure]: [i32; 2],
        scope: c_uint,
    ) -> Value {
        // SAFETY: a pointer and two integers of one type.
        Value(unsafe {
            (api().LLVMBuildAtomicCmpXchgSyncScope)(self.0, pointer.0, expected.0, new.0, success, failure, scope)
        })
    }

    pub(crate) fn extract_value(&self, aggregate: Value, index: u32) -> Value {
        // SAFETY: an aggregate that has this field.
        Value(unsafe { (api().LLVMBuildExtractValue)(self.0, aggregate.0, index, NO_NAME) })
    }
}

impl Value {
    /// Whether an atomic or a fence concerns its own thread alone.
    pub(crate) fn is_single_thread(self) -> bool {
        // SAFETY: callers ask this of atomics and fences only.
        unsafe { (api().LLVMIsAtomicSingleThread)(self.0) != 0 }
    }

    pub(crate) fn atomic_operation(self) -> i32 {
        // SAFETY: callers ask this of `atomicrmw` only.
        unsafe { (api().LLVMGetAtomicRMWBinOp)(self.0) }
    }

    /// The ordering; of a compare-exchange, the one that serves both its ends.
    pub(crate) fn ordering(self) -> i32 {
        if self.opcode() != opcode::CMPXCHG {
            // SAFETY: callers ask this of atomics only.
            return unsafe { (api().LLVMGetOrdering)(self.0) };
        }
        match self.exchange_orderings() {
            [ordering::SEQUENTIAL, _] | [_, ordering::SEQUENTIAL] => ordering::SEQUENTIAL,
            [ordering::RELEASE, ordering::ACQUIRE] => ordering::ACQUIRE_RELEASE,
            [ordering::RELAXED, ordering::ACQUIRE] => ordering::ACQUIRE,
            [success, _] => success,
        }
    }

    /// The orderings of a compare-exchange that succeeds, and of one that fails.
    pub(crate) fn exchange_orderings(self) -> [i32; 2] {
        // SAFETY: callers ask this of compare-exchanges only.
        unsafe { [(api().LLVMGetCmpXchgSuccessOrdering)(self.0), (api().LLVMGetCmpXchgFailureOrdering)(self.0)] }
    }

    pub(crate) fn sync_scope(self) -> u32 {
        // SAFETY: callers ask this of atomics only.
        unsafe { (api().LLVMGetAtomicSyncScopeID)(self.0) }
    }

    /// Makes a plain load or store an atomic one.
    pub(crate) fn make_atomic(self, order: i32, scope: u32) {
        // SAFETY: callers pass loads and stores of integers only, which are aligned to their size.
        unsafe {
            (api().LLVMSetOrdering)(self.0, order);
            (api().LLVMSetAtomicSyncScopeID)(self.0, scope);
        }
    }
}
