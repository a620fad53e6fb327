//! Writes instructions.

use std::ffi::{c_char, c_uint};

use super::api::{Raw, api};
use super::{Block, Context, Type, Value};

/// Writes instructions.
pub(crate) struct Builder(pub(super) Raw);

impl Drop for Builder {
    fn drop(&mut self) {
        // SAFETY: made by a context that is still alive.
        unsafe { (api().LLVMDisposeBuilder)(self.0) };
    }
}

const NO_NAME: *const c_char = c"".as_ptr();

impl Builder {
    pub(crate) fn at_end(&self, block: Block) {
        // SAFETY: a live block.
        unsafe { (api().LLVMPositionBuilderAtEnd)(self.0, block.0) };
    }

    pub(crate) fn before(&self, instruction: Value) {
        // SAFETY: a live instruction.
        unsafe { (api().LLVMPositionBuilderBefore)(self.0, instruction.0) };
    }

    pub(crate) fn call(&self, ty: Type, callee: Value, arguments: &[Value]) -> Value {
        // SAFETY: callers pass arguments of the function type's parameter types.
        Value(unsafe {
            (api().LLVMBuildCall2)(
                self.0,
                ty.0,
                callee.0,
                arguments.as_ptr().cast(),
                arguments.len() as c_uint,
                NO_NAME,
            )
        })
    }

    /// Calls a function by its own type.
    pub(crate) fn call_function(&self, callee: Value, arguments: &[Value]) -> Value {
        self.call(callee.value_type(), callee, arguments)
    }

    pub(crate) fn ret(&self, value: Option<Value>) {
        // SAFETY: the builder stands at the end of a block.
        unsafe {
            match value {
                Some(value) => (api().LLVMBuildRet)(self.0, value.0),
                None => (api().LLVMBuildRetVoid)(self.0),
            };
        }
    }

    pub(crate) fn unreachable(&self) {
        // SAFETY: the builder stands at the end of a block.
        unsafe { (api().LLVMBuildUnreachable)(self.0) };
    }

    pub(crate) fn branch_if(&self, condition: Value, yes: Block, no: Block) {
        // SAFETY: the builder stands at the end of a block, and both are blocks of its function.
        unsafe { (api().LLVMBuildCondBr)(self.0, condition.0, yes.0, no.0) };
    }

    pub(crate) fn branch(&self, to: Block) -> Value {
        // SAFETY: the builder stands at the end of a block of the same function.
        Value(unsafe { (api().LLVMBuildBr)(self.0, to.0) })
    }

    /// A value by the block that control came from.
    pub(crate) fn phi(&self, ty: Type, incoming: &[(Value, Block)]) -> Value {
        let (values, blocks): (Vec<Raw>, Vec<Raw>) = incoming.iter().map(|(value, block)| (value.0, block.0)).unzip();
        // SAFETY: the builder stands among a block's first instructions; both lists have one length.
        unsafe {
            let phi = (api().LLVMBuildPhi)(self.0, ty.0, NO_NAME);
            (api().LLVMAddIncoming)(phi, values.as_ptr(), blocks.as_ptr(), values.len() as c_uint);
            Value(phi)
        }
    }

    pub(crate) fn load(&self, ty: Type, pointer: Value) -> Value {
        // SAFETY: a pointer and a sized type.
        Value(unsafe { (api().LLVMBuildLoad2)(self.0, ty.0, pointer.0, NO_NAME) })
    }

    pub(crate) fn store(&self, value: Value, pointer: Value) -> Value {
        // SAFETY: a value and a pointer.
        Value(unsafe { (api().LLVMBuildStore)(self.0, value.0, pointer.0) })
    }

    pub(crate) fn binary(&self, opcode: i32, left: Value, right: Value) -> Value {
        // SAFETY: two values of one type and a binary opcode.
        Value(unsafe { (api().LLVMBuildBinOp)(self.0, opcode, left.0, right.0, NO_NAME) })
    }

    pub(crate) fn icmp(&self, predicate: i32, left: Value, right: Value) -> Value {
        // SAFETY: two values of one integer type.
        Value(unsafe { (api().LLVMBuildICmp)(self.0, predicate, left.0, right.0, NO_NAME) })
    }

    pub(crate) fn fcmp(&self, predicate: i32, left: Value, right: Value) -> Value {
        // SAFETY: two values of one float type.
        Value(unsafe { (api().LLVMBuildFCmp)(self.0, predicate, left.0, right.0, NO_NAME) })
    }

    pub(crate) fn select(&self, condition: Value, yes: Value, no: Value) -> Value {
        // SAFETY: a truth value and two values of one type.
        Value(unsafe { (api().LLVMBuildSelect)(self.0, condition.0, yes.0, no.0, NO_NAME) })
    }

    pub(crate) fn cast(&self, opcode: i32, value: Value, to: Type) -> Value {
        // SAFETY: callers pick an opcode that fits the types.
        Value(unsafe { (api().LLVMBuildCast)(self.0, opcode, value.0, to.0, NO_NAME) })
    }

    pub(crate) fn freeze(&self, value: Value) -> Value {
        // SAFETY: any value.
        Value(unsafe { (api().LLVMBuildFreeze)(self.0, value.0, NO_NAME) })
    }

    pub(crate) fn extract_element(&self, vector: Value, index: Value) -> Value {
        // SAFETY: a vector and an integer.
        Value(unsafe { (api().LLVMBuildExtractElement)(self.0, vector.0, index.0, NO_NAME) })
    }

    pub(crate) fn insert_element(&self, vector: Value, element: Value, index: Value) -> Value {
        // SAFETY: a vector, one of its elements and an integer.
        Value(unsafe { (api().LLVMBuildInsertElement)(self.0, vector.0, element.0, index.0, NO_NAME) })
    }

    pub(crate) fn insert_value(&self, aggregate: Value, element: Value, index: u32) -> Value {
        // SAFETY: an aggregate that has this field.
        Value(unsafe { (api().LLVMBuildInsertValue)(self.0, aggregate.0, element.0, index, NO_NAME) })
    }

    /// The address `bytes` after `pointer`.
    pub(crate) fn offset(&self, context: &Context, pointer: Value, bytes: Value) -> Value {
        let indices = [bytes.0];
        // SAFETY: a pointer and an integer.
        Value(unsafe { (api().LLVMBuildGEP2)(self.0, context.int(8).0, pointer.0, indices.as_ptr(), 1, NO_NAME) })
    }
}
