//! Types, and constants made from them.

use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;

use super::api::{Raw, api, take_message};
use super::{Value, kind};

/// A type; equal handles are equal types within a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Type(pub(super) Raw);

impl Type {
    pub(crate) fn kind(self) -> i32 {
        // SAFETY: a live type.
        unsafe { (api().LLVMGetTypeKind)(self.0) }
    }

    pub(crate) fn int_bits(self) -> u32 {
        // SAFETY: callers ask this of integers only.
        unsafe { (api().LLVMGetIntTypeWidth)(self.0) }
    }

    pub(crate) fn is_int(self, bits: u32) -> bool {
        self.kind() == kind::INTEGER && self.int_bits() == bits
    }

    pub(crate) fn address_space(self) -> u32 {
        // SAFETY: callers ask this of pointers only.
        unsafe { (api().LLVMGetPointerAddressSpace)(self.0) }
    }

    pub(crate) fn array(self, len: u64) -> Self {
        // SAFETY: a live sized type.
        Self(unsafe { (api().LLVMArrayType2)(self.0, len) })
    }

    pub(crate) fn vector(self, len: u32) -> Self {
        // SAFETY: a live scalar type.
        Self(unsafe { (api().LLVMVectorType)(self.0, len) })
    }

    pub(crate) fn function(self, parameters: &[Self]) -> Self {
        // SAFETY: live types; `Type` is a transparent handle.
        Self(unsafe { (api().LLVMFunctionType)(self.0, parameters.as_ptr().cast(), parameters.len() as c_uint, 0) })
    }

    pub(crate) fn return_type(self) -> Self {
        // SAFETY: callers ask this of function types only.
        Self(unsafe { (api().LLVMGetReturnType)(self.0) })
    }

    pub(crate) fn parameter_types(self) -> Vec<Self> {
        // SAFETY: callers ask this of function types only.
        let count = unsafe { (api().LLVMCountParamTypes)(self.0) } as usize;
        let mut types = vec![Self(null_mut()); count];
        // SAFETY: there is room for `count` handles.
        unsafe { (api().LLVMGetParamTypes)(self.0, types.as_mut_ptr().cast()) };
        types
    }

    pub(crate) fn element(self) -> Self {
        // SAFETY: callers ask this of arrays and vectors only.
        Self(unsafe { (api().LLVMGetElementType)(self.0) })
    }

    pub(crate) fn array_len(self) -> u64 {
        // SAFETY: callers ask this of arrays only.
        unsafe { (api().LLVMGetArrayLength2)(self.0) }
    }

    pub(crate) fn vector_len(self) -> u32 {
        // SAFETY: callers ask this of vectors only.
        unsafe { (api().LLVMGetVectorSize)(self.0) }
    }

    pub(crate) fn fields(self) -> Vec<Self> {
        // SAFETY: callers ask this of structs only.
        let count = unsafe { (api().LLVMCountStructElementTypes)(self.0) };
        // SAFETY: the index is below the count.
        (0..count).map(|i| Self(unsafe { (api().LLVMStructGetTypeAtIndex)(self.0, i) })).collect()
    }

    pub(crate) fn int_value(self, value: u64) -> Value {
        // SAFETY: callers ask this of integers only.
        Value(unsafe { (api().LLVMConstInt)(self.0, value, 0) })
    }

    pub(crate) fn null(self) -> Value {
        // SAFETY: a live type that has a zero.
        Value(unsafe { (api().LLVMConstNull)(self.0) })
    }

    pub(crate) fn undef(self) -> Value {
        // SAFETY: a live first-class type.
        Value(unsafe { (api().LLVMGetUndef)(self.0) })
    }

    pub(crate) fn poison(self) -> Value {
        // SAFETY: a live first-class type.
        Value(unsafe { (api().LLVMGetPoison)(self.0) })
    }

    /// A constant of this struct type, which has no name.
    pub(crate) fn structure_value(self, fields: &[Value]) -> Value {
        // SAFETY: a live struct type and constants of its fields' types; `Value` is a transparent handle.
        Value(unsafe {
            (api().LLVMConstStructInContext)(
                (api().LLVMGetTypeContext)(self.0),
                fields.as_ptr().cast(),
                fields.len() as c_uint,
                (api().LLVMIsPackedStruct)(self.0),
            )
        })
    }

    /// A constant of this float type.
    pub(crate) fn real(self, value: f64) -> Value {
        // SAFETY: callers ask this of float types only.
        Value(unsafe { (api().LLVMConstReal)(self.0, value) })
    }

    pub(crate) fn text(self) -> String {
        // SAFETY: a live type.
        take_message(unsafe { (api().LLVMPrintTypeToString)(self.0) })
    }

    /// Inline assembly as a callee of this function type.
    pub(crate) fn inline_asm(self, template: &str, constraints: &str, side_effects: bool) -> Value {
        // SAFETY: a live function type; pointers and lengths belong together.
        Value(unsafe {
            (api().LLVMGetInlineAsm)(
                self.0,
                template.as_ptr().cast(),
                template.len(),
                constraints.as_ptr().cast(),
                constraints.len(),
                c_int::from(side_effects),
                0,
                0,
                0,
            )
        })
    }
}
