//! LLVM as rustc ships it, behind thin wrappers.
//!
//! The wrappers are copyable, as LLVM's own handles are. What keeps them sound is a discipline of the callers, all in this
//! crate: a [`Context`] and what belongs to it stay on one thread, and nothing is used after it was deleted.

mod api;
mod atomics;
mod builder;
mod context;
mod module;
mod types;
mod value;

pub(crate) use api::{DEBUG_VARIABLE, debug_arguments, load, set_context_of_errors, version};
pub(crate) use atomics::{operation, ordering};
pub(crate) use builder::Builder;
pub(crate) use context::{Attribute, Context, Metadata};
pub(crate) use module::{Machine, Module};
pub(crate) use types::Type;
pub(crate) use value::{Block, SourceFile, SourcePlace, Value};

/// Whether an instruction is a call, with or without a place to go on at when the callee unwinds.
pub(crate) fn is_call(instruction: Value) -> bool {
    matches!(instruction.opcode(), opcode::CALL | opcode::INVOKE)
}

/// Linkages of LLVM's C API that are used here.
pub(crate) mod linkage {
    pub(crate) const EXTERNAL: i32 = 0;
    pub(crate) const AVAILABLE_EXTERNALLY: i32 = 1;
    pub(crate) const LINK_ONCE_ODR: i32 = 3;
    pub(crate) const APPENDING: i32 = 7;
    pub(crate) const INTERNAL: i32 = 8;
    pub(crate) const PRIVATE: i32 = 9;
    pub(crate) const EXTERN_WEAK: i32 = 12;
}

/// Instruction opcodes of LLVM's C API that are used here.
pub(crate) mod opcode {
    pub(crate) const INVOKE: i32 = 5;
    pub(crate) const ADD: i32 = 8;
    pub(crate) const FADD: i32 = 9;
    pub(crate) const FSUB: i32 = 11;
    pub(crate) const FMUL: i32 = 13;
    pub(crate) const FDIV: i32 = 16;
    pub(crate) const FREM: i32 = 19;
    pub(crate) const SHL: i32 = 20;
    pub(crate) const LSHR: i32 = 21;
    pub(crate) const ASHR: i32 = 22;
    pub(crate) const AND: i32 = 23;
    pub(crate) const OR: i32 = 24;
    pub(crate) const XOR: i32 = 25;
    pub(crate) const LOAD: i32 = 27;
    pub(crate) const STORE: i32 = 28;
    pub(crate) const GEP: i32 = 29;
    pub(crate) const TRUNC: i32 = 30;
    pub(crate) const ZEXT: i32 = 31;
    pub(crate) const SEXT: i32 = 32;
    pub(crate) const FPTOUI: i32 = 33;
    pub(crate) const FPTOSI: i32 = 34;
    pub(crate) const UITOFP: i32 = 35;
    pub(crate) const SITOFP: i32 = 36;
    pub(crate) const FPTRUNC: i32 = 37;
    pub(crate) const FPEXT: i32 = 38;
    pub(crate) const PTRTOINT: i32 = 39;
    pub(crate) const INTTOPTR: i32 = 40;
    pub(crate) const BITCAST: i32 = 41;
    pub(crate) const ADDRSPACECAST: i32 = 60;
    pub(crate) const ICMP: i32 = 42;
    pub(crate) const PHI: i32 = 44;
    pub(crate) const CALL: i32 = 45;
    pub(crate) const SELECT: i32 = 46;
    pub(crate) const SUB: i32 = 10;
    pub(crate) const EXTRACT_VALUE: i32 = 53;
    pub(crate) const FENCE: i32 = 55;
    pub(crate) const CMPXCHG: i32 = 56;
    pub(crate) const ATOMICRMW: i32 = 57;
    pub(crate) const FREEZE: i32 = 68;
}

/// Type kinds of LLVM's C API that are used here.
pub(crate) mod kind {
    pub(crate) const VOID: i32 = 0;
    pub(crate) const HALF: i32 = 1;
    pub(crate) const FLOAT: i32 = 2;
    pub(crate) const DOUBLE: i32 = 3;
    pub(crate) const INTEGER: i32 = 8;
    pub(crate) const STRUCT: i32 = 10;
    pub(crate) const ARRAY: i32 = 11;
    pub(crate) const POINTER: i32 = 12;
    pub(crate) const VECTOR: i32 = 13;
    pub(crate) const BFLOAT: i32 = 18;
}

/// The position of a function's own attributes.
pub(crate) const FUNCTION: u32 = u32::MAX;
