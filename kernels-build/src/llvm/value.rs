//! Values: constants, globals, functions, blocks and instructions.

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;

use super::api::{Raw, api, bytes_of, c, take_message};
use super::context::attribute_kind;
use super::{Attribute, Context, Metadata, Type, kind};

/// A place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourcePlace {
    pub(crate) file: SourceFile,
    /// From 1; 0 when not known.
    pub(crate) line: u32,
    /// From 1.
    pub(crate) column: u32,
}

/// A source file of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SourceFile(Raw);

impl SourceFile {
    /// Where the compiler ran (of the sysroot's crates, where they were compiled), and the file as it was told of it, mostly
    /// relative to that.
    pub(crate) fn folder_and_name(self) -> (String, String) {
        let text = |get: unsafe extern "C" fn(Raw, *mut c_uint) -> *const c_char| {
            if self.0.is_null() {
                return String::new();
            }
            let mut len = 0;
            // SAFETY: a file of a live module.
            let text = unsafe { get(self.0, &mut len) };
            String::from_utf8_lossy(bytes_of(text, len as usize)).into_owned()
        };
        (text(api().LLVMDIFileGetDirectory), text(api().LLVMDIFileGetFilename))
    }
}

/// A basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block(pub(super) Raw);

impl Block {
    pub(crate) fn instructions(self) -> impl Iterator<Item = Value> {
        // SAFETY: a live block.
        let mut next = unsafe { (api().LLVMGetFirstInstruction)(self.0) };
        std::iter::from_fn(move || {
            if next.is_null() {
                return None;
            }
            let this = next;
            // SAFETY: callers erase at most the instruction they were just given, and the next was read before.
            next = unsafe { (api().LLVMGetNextInstruction)(this) };
            Some(Value(this))
        })
    }

    pub(crate) fn first(self) -> Value {
        // SAFETY: a live block with at least its terminator.
        Value(unsafe { (api().LLVMGetFirstInstruction)(self.0) })
    }

    pub(crate) fn terminator(self) -> Value {
        // SAFETY: a live block that is complete.
        Value(unsafe { (api().LLVMGetBasicBlockTerminator)(self.0) })
    }

    /// Where the block may go on to.
    pub(crate) fn successors(self) -> Vec<Self> {
        let end = self.terminator();
        // SAFETY: a terminator; the index is below the count.
        unsafe { (0..(api().LLVMGetNumSuccessors)(end.0)).map(|i| Self((api().LLVMGetSuccessor)(end.0, i))).collect() }
    }

    /// Sends the block to `new` where it went to `old`.
    pub(crate) fn redirect(self, old: Self, new: Self) {
        let end = self.terminator();
        for (index, _) in self.successors().iter().enumerate().filter(|(_, to)| **to == old) {
            // SAFETY: a terminator; the index is below the count.
            unsafe { (api().LLVMSetSuccessor)(end.0, index as c_uint, new.0) };
        }
    }

    pub(crate) fn parent(self) -> Value {
        // SAFETY: a live block inside a function.
        Value(unsafe { (api().LLVMGetBasicBlockParent)(self.0) })
    }
}

/// A value: constant, global, function, instruction or parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Value(pub(super) Raw);

impl Value {
    pub(super) fn some(raw: Raw) -> Option<Self> {
        if raw.is_null() { None } else { Some(Self(raw)) }
    }

    pub(crate) fn name(self) -> String {
        let mut len = 0;
        // SAFETY: a live value.
        let pointer = unsafe { (api().LLVMGetValueName2)(self.0, &mut len) };
        String::from_utf8_lossy(bytes_of(pointer, len)).into_owned()
    }

    pub(crate) fn set_name(self, name: &str) {
        // SAFETY: a live value; pointer and length belong together.
        unsafe { (api().LLVMSetValueName2)(self.0, name.as_ptr().cast(), name.len()) };
    }

    pub(crate) fn ty(self) -> Type {
        // SAFETY: a live value.
        Type(unsafe { (api().LLVMTypeOf)(self.0) })
    }

    /// Type of what a global or function holds, not of its address.
    pub(crate) fn value_type(self) -> Type {
        // SAFETY: callers ask this of globals only.
        Type(unsafe { (api().LLVMGlobalGetValueType)(self.0) })
    }

    pub(crate) fn is_declaration(self) -> bool {
        // SAFETY: callers ask this of globals only.
        unsafe { (api().LLVMIsDeclaration)(self.0) != 0 }
    }

    pub(crate) fn linkage(self) -> i32 {
        // SAFETY: callers ask this of globals only.
        unsafe { (api().LLVMGetLinkage)(self.0) }
    }

    pub(crate) fn set_linkage(self, linkage: i32) {
        // SAFETY: callers ask this of globals only; default visibility suits every linkage.
        unsafe {
            (api().LLVMSetVisibility)(self.0, 0);
            (api().LLVMSetLinkage)(self.0, linkage);
        }
    }

    pub(crate) fn clear_comdat(self) {
        // SAFETY: callers ask this of functions and variables only.
        unsafe { (api().LLVMSetComdat)(self.0, null_mut()) };
    }

    pub(crate) fn set_section(self, name: &str) {
        let name = c(name);
        // SAFETY: callers ask this of globals only; LLVM copies.
        unsafe { (api().LLVMSetSection)(self.0, name.as_ptr()) };
    }

    pub(crate) fn clear_section(self) {
        // SAFETY: callers ask this of globals only.
        unsafe { (api().LLVMSetSection)(self.0, c"".as_ptr()) };
    }

    pub(crate) fn is_thread_local(self) -> bool {
        // SAFETY: callers ask this of variables only.
        unsafe { (api().LLVMIsThreadLocal)(self.0) != 0 }
    }

    pub(crate) fn is_global_constant(self) -> bool {
        // SAFETY: callers ask this of variables only.
        unsafe { (api().LLVMIsGlobalConstant)(self.0) != 0 }
    }

    pub(crate) fn set_global_constant(self, constant: bool) {
        // SAFETY: callers ask this of variables only.
        unsafe { (api().LLVMSetGlobalConstant)(self.0, c_int::from(constant)) };
    }

    pub(crate) fn initializer(self) -> Option<Self> {
        // SAFETY: callers ask this of variables only.
        Self::some(unsafe { (api().LLVMGetInitializer)(self.0) })
    }

    pub(crate) fn set_initializer(self, value: Self) {
        // SAFETY: a variable and a constant of its type.
        unsafe { (api().LLVMSetInitializer)(self.0, value.0) };
    }

    pub(crate) fn alignment(self) -> u32 {
        // SAFETY: callers ask this of globals, allocas, loads and stores only.
        unsafe { (api().LLVMGetAlignment)(self.0) }
    }

    pub(crate) fn set_alignment(self, bytes: u32) {
        // SAFETY: callers ask this of globals, allocas, loads and stores only.
        unsafe { (api().LLVMSetAlignment)(self.0, bytes) };
    }

    pub(crate) fn set_call_conv(self, convention: u32) {
        // SAFETY: callers ask this of functions only.
        unsafe { (api().LLVMSetFunctionCallConv)(self.0, convention) };
    }

    pub(crate) fn set_instruction_call_conv(self, convention: u32) {
        // SAFETY: callers ask this of calls only.
        unsafe { (api().LLVMSetInstructionCallConv)(self.0, convention) };
    }

    pub(crate) fn clear_personality(self) {
        // SAFETY: callers ask this of functions only; LLVM takes null for "none".
        unsafe {
            if (api().LLVMHasPersonalityFn)(self.0) != 0 {
                (api().LLVMSetPersonalityFn)(self.0, null_mut());
            }
        }
    }

    pub(crate) fn replace_uses(self, with: Self) {
        // SAFETY: live values of one type.
        unsafe { (api().LLVMReplaceAllUsesWith)(self.0, with.0) };
    }

    pub(crate) fn users(self) -> Vec<Self> {
        let mut all = Vec::new();
        // SAFETY: a live value.
        let mut next = unsafe { (api().LLVMGetFirstUse)(self.0) };
        while !next.is_null() {
            // SAFETY: a live use.
            all.push(Self(unsafe { (api().LLVMGetUser)(next) }));
            // SAFETY: a live use.
            next = unsafe { (api().LLVMGetNextUse)(next) };
        }
        all
    }

    pub(crate) fn has_uses(self) -> bool {
        // SAFETY: a live value.
        unsafe { !(api().LLVMGetFirstUse)(self.0).is_null() }
    }

    pub(crate) fn operand_count(self) -> u32 {
        // SAFETY: a live value.
        u32::try_from(unsafe { (api().LLVMGetNumOperands)(self.0) }).unwrap_or(0)
    }

    pub(crate) fn operand(self, index: u32) -> Self {
        // SAFETY: callers stay below the operand count.
        Self(unsafe { (api().LLVMGetOperand)(self.0, index) })
    }

    pub(crate) fn operands(self) -> Vec<Self> {
        // SAFETY: the index is below the count; block operands come as null-safe handles and are skipped by callers.
        (0..self.operand_count()).filter_map(|i| Self::some(unsafe { (api().LLVMGetOperand)(self.0, i) })).collect()
    }

    pub(crate) fn set_operand(self, index: u32, value: Self) {
        // SAFETY: callers stay below the operand count and keep the type.
        unsafe { (api().LLVMSetOperand)(self.0, index, value.0) };
    }

    pub(crate) fn is_constant(self) -> bool {
        // SAFETY: a live value.
        unsafe { (api().LLVMIsConstant)(self.0) != 0 }
    }

    pub(crate) fn is_null(self) -> bool {
        // SAFETY: a live value.
        unsafe { (api().LLVMIsNull)(self.0) != 0 }
    }

    pub(crate) fn is_undef(self) -> bool {
        // SAFETY: a live value.
        unsafe { (api().LLVMIsUndef)(self.0) != 0 }
    }

    pub(crate) fn as_function(self) -> Option<Self> {
        // SAFETY: a live value.
        Self::some(unsafe { (api().LLVMIsAFunction)(self.0) })
    }

    pub(crate) fn as_global(self) -> Option<Self> {
        // SAFETY: a live value.
        Self::some(unsafe { (api().LLVMIsAGlobalVariable)(self.0) })
    }

    pub(crate) fn is_instruction(self) -> bool {
        // SAFETY: a live value.
        unsafe { !(api().LLVMIsAInstruction)(self.0).is_null() }
    }

    pub(crate) fn is_alloca(self) -> bool {
        // SAFETY: a live value.
        unsafe { !(api().LLVMIsAAllocaInst)(self.0).is_null() }
    }

    pub(crate) fn is_inline_asm(self) -> bool {
        // SAFETY: a live value.
        unsafe { !(api().LLVMIsAInlineAsm)(self.0).is_null() }
    }

    /// The opcode of a constant expression, or nothing for other values.
    pub(crate) fn constant_opcode(self) -> Option<i32> {
        // SAFETY: a live value; the opcode is asked of constant expressions only.
        unsafe {
            if (api().LLVMIsAConstantExpr)(self.0).is_null() { None } else { Some((api().LLVMGetConstOpcode)(self.0)) }
        }
    }

    /// An integer constant of at most 64 bits.
    pub(crate) fn as_int(self) -> Option<u64> {
        if !self.is_constant() || self.ty().kind() != kind::INTEGER || self.ty().int_bits() > 64 {
            return None;
        }
        if self.is_undef() || self.constant_opcode().is_some() {
            return None;
        }
        // SAFETY: an integer constant.
        Some(unsafe { (api().LLVMConstIntGetZExtValue)(self.0) })
    }

    /// The bytes of a constant array of bytes.
    pub(crate) fn as_bytes(self) -> Vec<u8> {
        let mut len = 0;
        // SAFETY: callers ask this of constant data arrays only.
        let pointer = unsafe { (api().LLVMGetAsString)(self.0, &mut len) };
        bytes_of(pointer, len).to_vec()
    }

    pub(crate) fn aggregate_element(self, index: u32) -> Option<Self> {
        // SAFETY: callers ask this of constant aggregates only.
        Self::some(unsafe { (api().LLVMGetAggregateElement)(self.0, index) })
    }

    pub(crate) fn text(self) -> String {
        // SAFETY: a live value.
        take_message(unsafe { (api().LLVMPrintValueToString)(self.0) })
    }

    pub(crate) fn parameters(self) -> Vec<Self> {
        // SAFETY: callers ask this of functions only.
        let count = unsafe { (api().LLVMCountParams)(self.0) };
        // SAFETY: the index is below the count.
        (0..count).map(|i| Self(unsafe { (api().LLVMGetParam)(self.0, i) })).collect()
    }

    pub(crate) fn blocks(self) -> Vec<Block> {
        let mut all = Vec::new();
        // SAFETY: callers ask this of functions only.
        let mut next = unsafe { (api().LLVMGetFirstBasicBlock)(self.0) };
        while !next.is_null() {
            all.push(Block(next));
            // SAFETY: a live block.
            next = unsafe { (api().LLVMGetNextBasicBlock)(next) };
        }
        all
    }

    /// Every instruction of a function. Erasing the one just given is allowed.
    pub(crate) fn instructions(self) -> impl Iterator<Item = Self> {
        self.blocks().into_iter().flat_map(Block::instructions)
    }

    pub(crate) fn append_block(self, context: &Context, name: &str) -> Block {
        let name = c(name);
        // SAFETY: a live function of this context.
        Block(unsafe { (api().LLVMAppendBasicBlockInContext)(context.0, self.0, name.as_ptr()) })
    }

    pub(crate) fn delete_function(self) {
        // SAFETY: callers replaced all uses.
        unsafe { (api().LLVMDeleteFunction)(self.0) };
    }

    pub(crate) fn delete_global(self) {
        // SAFETY: callers replaced all uses.
        unsafe { (api().LLVMDeleteGlobal)(self.0) };
    }

    /// Says that the value at run time may differ from the initializer.
    pub(crate) fn set_externally_initialized(self) {
        // SAFETY: a live global variable.
        unsafe { (api().LLVMSetExternallyInitialized)(self.0, 1) };
    }

    pub(crate) fn alias_target(self) -> Self {
        // SAFETY: callers ask this of aliases only.
        Self(unsafe { (api().LLVMAliasGetAliasee)(self.0) })
    }

    pub(crate) fn opcode(self) -> i32 {
        // SAFETY: callers ask this of instructions only.
        unsafe { (api().LLVMGetInstructionOpcode)(self.0) }
    }

    /// The predicate of a comparison of integers.
    pub(crate) fn icmp_predicate(self) -> i32 {
        // SAFETY: callers ask this of `icmp` only.
        unsafe { (api().LLVMGetICmpPredicate)(self.0) }
    }

    pub(crate) fn block(self) -> Block {
        // SAFETY: callers ask this of instructions only.
        Block(unsafe { (api().LLVMGetInstructionParent)(self.0) })
    }

    /// The function that an instruction stands in.
    pub(crate) fn parent_function(self) -> Self {
        self.block().parent()
    }

    pub(crate) fn erase(self) {
        // SAFETY: callers replaced all uses.
        unsafe { (api().LLVMInstructionEraseFromParent)(self.0) };
    }

    /// Replaces an instruction's value and removes it.
    pub(crate) fn replace_with(self, value: Self) {
        if self.has_uses() {
            self.replace_uses(value);
        }
        self.erase();
    }

    pub(crate) fn called(self) -> Self {
        // SAFETY: callers ask this of calls and invokes only.
        Self(unsafe { (api().LLVMGetCalledValue)(self.0) })
    }

    pub(crate) fn called_type(self) -> Type {
        // SAFETY: callers ask this of calls and invokes only.
        Type(unsafe { (api().LLVMGetCalledFunctionType)(self.0) })
    }

    pub(crate) fn arguments(self) -> Vec<Self> {
        // SAFETY: callers ask this of calls and invokes only.
        let count = unsafe { (api().LLVMGetNumArgOperands)(self.0) };
        (0..count).map(|i| self.operand(i)).collect()
    }

    /// Takes a function's source lines away.
    pub(crate) fn forget_lines(self) {
        // SAFETY: a live function and its instructions; null is "none" to both.
        unsafe {
            for instruction in self.instructions() {
                (api().LLVMInstructionSetDebugLoc)(instruction.0, null_mut());
            }
            (api().LLVMSetSubprogram)(self.0, null_mut());
        }
    }

    /// Source line of an instruction: file and line, where known.
    pub(crate) fn source_line(self) -> Option<(String, u32)> {
        // SAFETY: callers ask this of instructions only.
        let line = unsafe { (api().LLVMGetDebugLocLine)(self.0) };
        let mut len = 0;
        // SAFETY: as above.
        let pointer = unsafe { (api().LLVMGetDebugLocFilename)(self.0, &mut len) };
        if line == 0 || len == 0 {
            return None;
        }
        Some((String::from_utf8_lossy(bytes_of(pointer, len as usize)).into_owned(), line))
    }

    /// Where an instruction comes from: the place itself, then each call that it was inlined at.
    pub(crate) fn source_chain(self) -> Vec<SourcePlace> {
        let mut chain = Vec::new();
        // SAFETY: callers ask this of instructions only; every handle is LLVM's own, and null ends the chain.
        unsafe {
            let mut location = (api().LLVMInstructionGetDebugLoc)(self.0);
            while !location.is_null() {
                chain.push(SourcePlace {
                    file: SourceFile((api().LLVMDIScopeGetFile)((api().LLVMDILocationGetScope)(location))),
                    line: (api().LLVMDILocationGetLine)(location),
                    column: (api().LLVMDILocationGetColumn)(location),
                });
                location = (api().LLVMDILocationGetInlinedAt)(location);
            }
        }
        chain
    }

    /// The instruction after one that does not end its block.
    pub(crate) fn next(self) -> Option<Self> {
        // SAFETY: callers ask this of instructions only.
        Self::some(unsafe { (api().LLVMGetNextInstruction)(self.0) })
    }

    /// Whether exactly one operand of some instruction is this value.
    pub(crate) fn has_one_use(self) -> bool {
        // SAFETY: a live value, and a use of it.
        unsafe {
            let first = (api().LLVMGetFirstUse)(self.0);
            !first.is_null() && (api().LLVMGetNextUse)(first).is_null()
        }
    }

    /// The values of a phi and the blocks that they come from; nothing for other instructions.
    pub(crate) fn incoming(self) -> Option<Vec<(Self, Block)>> {
        // SAFETY: a live instruction; the index is below the count.
        unsafe {
            if (api().LLVMIsAPHINode)(self.0).is_null() {
                return None;
            }
            let pair =
                |i| (Self((api().LLVMGetIncomingValue)(self.0, i)), Block((api().LLVMGetIncomingBlock)(self.0, i)));
            Some((0..(api().LLVMCountIncoming)(self.0)).map(pair).collect())
        }
    }

    /// Whether an instruction has metadata of a kind.
    pub(crate) fn has_metadata(self, context: &Context, kind: &str) -> bool {
        // SAFETY: a live instruction of the context; the kind's name has the length that is said.
        unsafe {
            let kind = (api().LLVMGetMDKindIDInContext)(context.0, kind.as_ptr().cast(), kind.len() as c_uint);
            !(api().LLVMGetMetadata)(self.0, kind).is_null()
        }
    }

    /// Puts a loop's node on one of the branches that close it.
    pub(crate) fn set_loop(self, context: &Context, node: Metadata) {
        self.set_metadata(context, "llvm.loop", node);
    }

    /// Puts what is known of a call's result on it.
    pub(crate) fn set_range(self, context: &Context, node: Metadata) {
        self.set_metadata(context, "range", node);
    }

    fn set_metadata(self, context: &Context, kind: &str, node: Metadata) {
        // SAFETY: a live instruction and a node of its context; the length belongs to the pointer.
        unsafe {
            let kind = (api().LLVMGetMDKindIDInContext)(context.0, kind.as_ptr().cast(), kind.len() as c_uint);
            (api().LLVMSetMetadata)(self.0, kind, (api().LLVMMetadataAsValue)(context.0, node.0));
        }
    }

    pub(crate) fn fast_math_flags(self) -> Option<u32> {
        // SAFETY: a live instruction.
        unsafe { ((api().LLVMCanValueUseFastMathFlags)(self.0) != 0).then(|| (api().LLVMGetFastMathFlags)(self.0)) }
    }

    pub(crate) fn set_fast_math_flags(self, flags: u32) {
        // SAFETY: callers asked `fast_math_flags` first.
        unsafe { (api().LLVMSetFastMathFlags)(self.0, flags) };
    }

    pub(crate) fn add_attribute(self, index: u32, attribute: Attribute) {
        // SAFETY: a live function and an attribute that fits the place.
        unsafe { (api().LLVMAddAttributeAtIndex)(self.0, index, attribute.0) };
    }

    pub(crate) fn attributes(self, index: u32) -> Vec<Attribute> {
        // SAFETY: a live function.
        let count = unsafe { (api().LLVMGetAttributeCountAtIndex)(self.0, index) } as usize;
        let mut all = vec![null_mut(); count];
        // SAFETY: there is room for `count` handles.
        unsafe { (api().LLVMGetAttributesAtIndex)(self.0, index, all.as_mut_ptr()) };
        all.into_iter().map(Attribute).collect()
    }

    pub(crate) fn remove_attribute(self, index: u32, name: &str) {
        // SAFETY: a live function; removing what is not there does nothing.
        unsafe { (api().LLVMRemoveEnumAttributeAtIndex)(self.0, index, attribute_kind(name)) };
    }

    pub(crate) fn remove_string_attribute(self, index: u32, name: &str) {
        // SAFETY: a live function; pointer and length belong together.
        unsafe {
            (api().LLVMRemoveStringAttributeAtIndex)(self.0, index, name.as_ptr().cast(), name.len() as c_uint);
        }
    }

    pub(crate) fn add_call_attribute(self, index: u32, attribute: Attribute) {
        // SAFETY: a live call.
        unsafe { (api().LLVMAddCallSiteAttribute)(self.0, index, attribute.0) };
    }

    /// The alignment that a call promises for an argument, counted from 1.
    pub(crate) fn call_alignment(self, index: u32) -> u64 {
        // SAFETY: callers ask this of calls only.
        unsafe {
            let attribute = (api().LLVMGetCallSiteEnumAttribute)(self.0, index, attribute_kind("align"));
            if attribute.is_null() { 1 } else { (api().LLVMGetEnumAttributeValue)(attribute).max(1) }
        }
    }

    pub(crate) fn remove_call_attribute(self, index: u32, name: &str) {
        // SAFETY: a live call; removing what is not there does nothing.
        unsafe { (api().LLVMRemoveCallSiteEnumAttribute)(self.0, index, attribute_kind(name)) };
    }

    pub(crate) fn address_space_cast(self, to: Type) -> Self {
        // SAFETY: a constant pointer and a pointer type.
        Self(unsafe { (api().LLVMConstAddrSpaceCast)(self.0, to.0) })
    }

    /// Template, constraints and whether it has side effects, of inline assembly.
    pub(crate) fn asm_parts(self) -> (String, String, bool) {
        let mut len = 0;
        // SAFETY: callers ask this of inline assembly only.
        let pointer = unsafe { (api().LLVMGetInlineAsmAsmString)(self.0, &mut len) };
        let template = String::from_utf8_lossy(bytes_of(pointer, len)).into_owned();
        // SAFETY: as above.
        let pointer = unsafe { (api().LLVMGetInlineAsmConstraintString)(self.0, &mut len) };
        let constraints = String::from_utf8_lossy(bytes_of(pointer, len)).into_owned();
        // SAFETY: as above.
        (template, constraints, unsafe { (api().LLVMGetInlineAsmHasSideEffects)(self.0) } != 0)
    }

    /// The type that a `getelementptr` counts its first index in.
    pub(crate) fn gep_element(self) -> Type {
        // SAFETY: callers ask this of `getelementptr` only, instruction or constant.
        Type(unsafe { (api().LLVMGetGEPSourceElementType)(self.0) })
    }

    /// Whether this is one of LLVM's own functions.
    pub(crate) fn is_intrinsic(self) -> bool {
        // SAFETY: callers ask this of functions only.
        unsafe { (api().LLVMGetIntrinsicID)(self.0) != 0 }
    }
}
