//! Who owns modules, types and constants; and attributes, which belong to a context too.

use std::ffi::c_uint;
use std::ptr::null_mut;

use super::api::{Raw, api, bytes_of, c, take_message};
use super::{Builder, Module, Type, Value};

/// Who owns modules, types and constants; one thread's.
pub(crate) struct Context(pub(super) Raw);

extern "C" fn on_diagnostic(info: Raw, sink: Raw) {
    // SAFETY: `sink` is the `Vec` that `Context::new` leaked for this context.
    let sink = unsafe { &mut *sink.cast::<Vec<String>>() };
    // SAFETY: LLVM passes the diagnostic.
    if unsafe { (api().LLVMGetDiagInfoSeverity)(info) } == 0 {
        // SAFETY: as above.
        sink.push(take_message(unsafe { (api().LLVMGetDiagInfoDescription)(info) }));
    }
}

impl Context {
    pub(crate) fn new() -> Self {
        // SAFETY: no precondition.
        let raw = unsafe { (api().LLVMContextCreate)() };
        let sink: &'static mut Vec<String> = Box::leak(Box::default());
        // SAFETY: the sink lives for the rest of the process.
        unsafe { (api().LLVMContextSetDiagnosticHandler)(raw, Some(on_diagnostic), (&raw mut *sink).cast()) };
        Self(raw)
    }

    pub(crate) fn int(&self, bits: u32) -> Type {
        // SAFETY: a live context.
        Type(unsafe { (api().LLVMIntTypeInContext)(self.0, bits) })
    }

    pub(crate) fn f16(&self) -> Type {
        // SAFETY: a live context.
        Type(unsafe { (api().LLVMHalfTypeInContext)(self.0) })
    }

    pub(crate) fn bf16(&self) -> Type {
        // SAFETY: a live context.
        Type(unsafe { (api().LLVMBFloatTypeInContext)(self.0) })
    }

    pub(crate) fn f32(&self) -> Type {
        // SAFETY: a live context.
        Type(unsafe { (api().LLVMFloatTypeInContext)(self.0) })
    }

    pub(crate) fn f64(&self) -> Type {
        // SAFETY: a live context.
        Type(unsafe { (api().LLVMDoubleTypeInContext)(self.0) })
    }

    pub(crate) fn void(&self) -> Type {
        // SAFETY: a live context.
        Type(unsafe { (api().LLVMVoidTypeInContext)(self.0) })
    }

    pub(crate) fn ptr(&self, address_space: u32) -> Type {
        // SAFETY: a live context.
        Type(unsafe { (api().LLVMPointerTypeInContext)(self.0, address_space) })
    }

    /// Reads bitcode in full.
    pub(crate) fn parse(&self, bitcode: &[u8], name: &str) -> Result<Module, String> {
        let buffer = memory_buffer(bitcode, name);
        let mut module = null_mut();
        // SAFETY: context and buffer are alive; the buffer stays ours.
        let failed = unsafe { (api().LLVMParseBitcodeInContext2)(self.0, buffer, &mut module) } != 0;
        // SAFETY: it is not used again.
        unsafe { (api().LLVMDisposeMemoryBuffer)(buffer) };
        if failed { Err(format!("{name} is no bitcode that this LLVM reads")) } else { Ok(Module(module)) }
    }

    /// Reads bitcode's symbols now and each function's body when it is first needed.
    pub(crate) fn parse_lazily(&self, bitcode: &[u8], name: &str) -> Result<Module, String> {
        let buffer = memory_buffer(bitcode, name);
        let mut module = null_mut();
        // SAFETY: context and buffer are alive; on success the module owns the buffer.
        let failed = unsafe { (api().LLVMGetBitcodeModuleInContext2)(self.0, buffer, &mut module) } != 0;
        if failed { Err(format!("{name} is no bitcode that this LLVM reads")) } else { Ok(Module(module)) }
    }

    /// A constant array of bytes.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Value {
        // SAFETY: a live context; pointer and length belong together, and LLVM copies.
        Value(unsafe { (api().LLVMConstStringInContext2)(self.0, bytes.as_ptr().cast(), bytes.len(), 1) })
    }

    /// A constant struct without a name, of these fields.
    pub(crate) fn structure(&self, fields: &[Value]) -> Value {
        // SAFETY: a live context and constants of it; `Value` is a transparent handle.
        Value(unsafe { (api().LLVMConstStructInContext)(self.0, fields.as_ptr().cast(), fields.len() as c_uint, 0) })
    }

    /// A constant array of these constants, all of type `element`.
    pub(crate) fn array(&self, element: Type, values: &[Value]) -> Value {
        // SAFETY: a live type and constants of it; `Value` is a transparent handle.
        Value(unsafe { (api().LLVMConstArray2)(element.0, values.as_ptr().cast(), values.len() as u64) })
    }

    pub(crate) fn builder(&self) -> Builder {
        // SAFETY: a live context.
        Builder(unsafe { (api().LLVMCreateBuilderInContext)(self.0) })
    }

    pub(crate) fn enum_attribute(&self, name: &str, value: u64) -> Attribute {
        // SAFETY: a live context and a kind that LLVM knows.
        Attribute(unsafe { (api().LLVMCreateEnumAttribute)(self.0, attribute_kind(name), value) })
    }

    pub(crate) fn type_attribute(&self, name: &str, ty: Type) -> Attribute {
        // SAFETY: a live context and a kind that LLVM knows.
        Attribute(unsafe { (api().LLVMCreateTypeAttribute)(self.0, attribute_kind(name), ty.0) })
    }

    pub(crate) fn string_attribute(&self, name: &str, value: &str) -> Attribute {
        // SAFETY: a live context; pointers and lengths belong together.
        Attribute(unsafe {
            (api().LLVMCreateStringAttribute)(
                self.0,
                name.as_ptr().cast(),
                name.len() as c_uint,
                value.as_ptr().cast(),
                value.len() as c_uint,
            )
        })
    }

    /// A node that says which 32-bit numbers a value may be: those below `end`.
    pub(crate) fn below_node(&self, end: u32) -> Metadata {
        let bound = |number: u32| self.int(32).int_value(u64::from(number)).0;
        // SAFETY: a live context and constants of it; the length belongs to the pointer.
        unsafe {
            let bounds = [(api().LLVMValueAsMetadata)(bound(0)), (api().LLVMValueAsMetadata)(bound(end))];
            Metadata((api().LLVMMDNodeInContext2)(self.0, bounds.as_ptr(), bounds.len()))
        }
    }

    /// A node that stands for one loop and carries one hint: a name, and a number where the hint has one.
    pub(crate) fn loop_node(&self, hint: &str, number: Option<u32>) -> Metadata {
        // SAFETY: a live context; lengths belong to their pointers. The first operand stands in for the node itself, which
        // is how LLVM tells one loop's node from another's, and is replaced by it before anyone looks.
        unsafe {
            let text = (api().LLVMMDStringInContext2)(self.0, hint.as_ptr().cast(), hint.len());
            let mut parts = vec![text];
            if let Some(number) = number {
                parts.push((api().LLVMValueAsMetadata)(self.int(32).int_value(u64::from(number)).0));
            }
            let hint = (api().LLVMMDNodeInContext2)(self.0, parts.as_ptr(), parts.len());
            let stand_in = (api().LLVMTemporaryMDNode)(self.0, std::ptr::null(), 0);
            let operands = [stand_in, hint];
            let node = (api().LLVMMDNodeInContext2)(self.0, operands.as_ptr(), operands.len());
            (api().LLVMMetadataReplaceAllUsesWith)(stand_in, node);
            Metadata(node)
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `new`; modules are dropped before their context by the order of declaration.
        unsafe { (api().LLVMContextDispose)(self.0) };
    }
}

pub(super) fn memory_buffer(bytes: &[u8], name: &str) -> Raw {
    let name = c(name);
    // SAFETY: pointer and length belong together; LLVM copies.
    unsafe { (api().LLVMCreateMemoryBufferWithMemoryRangeCopy)(bytes.as_ptr().cast(), bytes.len(), name.as_ptr()) }
}

pub(super) fn take_buffer(buffer: Raw) -> Vec<u8> {
    // SAFETY: a live buffer of LLVM's.
    let (start, len) = unsafe { ((api().LLVMGetBufferStart)(buffer), (api().LLVMGetBufferSize)(buffer)) };
    let bytes = bytes_of(start, len).to_vec();
    // SAFETY: it is not used again.
    unsafe { (api().LLVMDisposeMemoryBuffer)(buffer) };
    bytes
}

pub(super) fn attribute_kind(name: &str) -> c_uint {
    // SAFETY: pointer and length belong together.
    let kind = unsafe { (api().LLVMGetEnumAttributeKindForName)(name.as_ptr().cast(), name.len()) };
    assert_ne!(kind, 0, "LLVM knows the attribute {name}");
    kind
}

/// A node of metadata.
#[derive(Clone, Copy)]
pub(crate) struct Metadata(pub(super) Raw);

/// An attribute of a function, parameter or call.
#[derive(Clone, Copy)]
pub(crate) struct Attribute(pub(super) Raw);

impl Attribute {
    /// The name of a string attribute.
    pub(crate) fn string_kind(self) -> Option<String> {
        // SAFETY: a live attribute.
        if unsafe { (api().LLVMIsStringAttribute)(self.0) } == 0 {
            return None;
        }
        let mut len = 0;
        // SAFETY: a live string attribute.
        let pointer = unsafe { (api().LLVMGetStringAttributeKind)(self.0, &mut len) };
        Some(String::from_utf8_lossy(bytes_of(pointer, len as usize)).into_owned())
    }
}
