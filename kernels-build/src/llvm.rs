//! The LLVM C API, opened at run time from the library that rustc itself uses: the one file with its raw names.
//!
//! The wrappers are thin and copyable, as LLVM's own handles are. What keeps them sound is a discipline of the callers,
//! all in this crate: a [`Context`] and what belongs to it stay on one thread, and nothing is used after it was deleted.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;

type Raw = *mut c_void;

macro_rules! api {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case, reason = "the names are LLVM's")]
        struct Api {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            fn load(library: &libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the signature is the one of LLVM's C headers.
                    $($name: unsafe { *library.get(stringify!($name).as_bytes())? },)*
                })
            }
        }
    };
}

api! {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMParseCommandLineOptions(c_int, *const *const c_char, *const c_char);
    LLVMInstallFatalErrorHandler(extern "C" fn(*const c_char));
    LLVMGetVersion(*mut c_uint, *mut c_uint, *mut c_uint);
    LLVMDisposeMessage(*mut c_char);
    LLVMContextCreate() -> Raw;
    LLVMContextDispose(Raw);
    LLVMContextSetDiagnosticHandler(Raw, Option<extern "C" fn(Raw, Raw)>, Raw);
    LLVMGetDiagInfoDescription(Raw) -> *mut c_char;
    LLVMGetDiagInfoSeverity(Raw) -> c_int;
    LLVMCreateMemoryBufferWithMemoryRangeCopy(*const c_char, usize, *const c_char) -> Raw;
    LLVMDisposeMemoryBuffer(Raw);
    LLVMGetBufferStart(Raw) -> *const c_char;
    LLVMGetBufferSize(Raw) -> usize;
    LLVMParseBitcodeInContext2(Raw, Raw, *mut Raw) -> c_int;
    LLVMGetBitcodeModuleInContext2(Raw, Raw, *mut Raw) -> c_int;
    LLVMWriteBitcodeToMemoryBuffer(Raw) -> Raw;
    LLVMDisposeModule(Raw);
    LLVMCloneModule(Raw) -> Raw;
    LLVMConstStructInContext(Raw, *const Raw, c_uint, c_int) -> Raw;
    LLVMIsPackedStruct(Raw) -> c_int;
    LLVMGetTypeContext(Raw) -> Raw;
    LLVMLinkModules2(Raw, Raw) -> c_int;
    LLVMStripModuleDebugInfo(Raw) -> c_int;
    LLVMSetTarget(Raw, *const c_char);
    LLVMPrintModuleToString(Raw) -> *mut c_char;
    LLVMVerifyModule(Raw, c_int, *mut *mut c_char) -> c_int;
    LLVMGetNamedFunction(Raw, *const c_char) -> Raw;
    LLVMGetNamedGlobal(Raw, *const c_char) -> Raw;
    LLVMGetFirstFunction(Raw) -> Raw;
    LLVMGetNextFunction(Raw) -> Raw;
    LLVMGetFirstGlobal(Raw) -> Raw;
    LLVMGetNextGlobal(Raw) -> Raw;
    LLVMGetFirstGlobalAlias(Raw) -> Raw;
    LLVMGetNextGlobalAlias(Raw) -> Raw;
    LLVMAliasGetAliasee(Raw) -> Raw;
    LLVMAddFunction(Raw, *const c_char, Raw) -> Raw;
    LLVMAddGlobalInAddressSpace(Raw, Raw, *const c_char, c_uint) -> Raw;
    LLVMDeleteFunction(Raw);
    LLVMDeleteGlobal(Raw);
    LLVMGetValueName2(Raw, *mut usize) -> *const c_char;
    LLVMSetValueName2(Raw, *const c_char, usize);
    LLVMIsDeclaration(Raw) -> c_int;
    LLVMGetLinkage(Raw) -> c_int;
    LLVMSetLinkage(Raw, c_int);
    LLVMSetVisibility(Raw, c_int);
    LLVMSetComdat(Raw, Raw);
    LLVMSetSection(Raw, *const c_char);
    LLVMIsThreadLocal(Raw) -> c_int;
    LLVMIsGlobalConstant(Raw) -> c_int;
    LLVMSetGlobalConstant(Raw, c_int);
    LLVMGetInitializer(Raw) -> Raw;
    LLVMSetInitializer(Raw, Raw);
    LLVMGetAlignment(Raw) -> c_uint;
    LLVMSetAlignment(Raw, c_uint);
    LLVMGlobalGetValueType(Raw) -> Raw;
    LLVMSetFunctionCallConv(Raw, c_uint);
    LLVMSetInstructionCallConv(Raw, c_uint);
    LLVMHasPersonalityFn(Raw) -> c_int;
    LLVMSetPersonalityFn(Raw, Raw);
    LLVMReplaceAllUsesWith(Raw, Raw);
    LLVMGetFirstUse(Raw) -> Raw;
    LLVMGetNextUse(Raw) -> Raw;
    LLVMGetUser(Raw) -> Raw;
    LLVMGetOperand(Raw, c_uint) -> Raw;
    LLVMSetOperand(Raw, c_uint, Raw);
    LLVMGetNumOperands(Raw) -> c_int;
    LLVMTypeOf(Raw) -> Raw;
    LLVMIsConstant(Raw) -> c_int;
    LLVMIsAInstruction(Raw) -> Raw;
    LLVMIsAInlineAsm(Raw) -> Raw;
    LLVMIsAFunction(Raw) -> Raw;
    LLVMIsAGlobalVariable(Raw) -> Raw;
    LLVMIsAConstantExpr(Raw) -> Raw;
    LLVMIsAAllocaInst(Raw) -> Raw;
    LLVMIsNull(Raw) -> c_int;
    LLVMIsUndef(Raw) -> c_int;
    LLVMGetConstOpcode(Raw) -> c_int;
    LLVMConstIntGetZExtValue(Raw) -> u64;
    LLVMGetAsString(Raw, *mut usize) -> *const c_char;
    LLVMGetAggregateElement(Raw, c_uint) -> Raw;
    LLVMPrintValueToString(Raw) -> *mut c_char;
    LLVMCountParams(Raw) -> c_uint;
    LLVMGetParam(Raw, c_uint) -> Raw;
    LLVMGetFirstBasicBlock(Raw) -> Raw;
    LLVMGetNextBasicBlock(Raw) -> Raw;
    LLVMGetFirstInstruction(Raw) -> Raw;
    LLVMGetNextInstruction(Raw) -> Raw;
    LLVMGetInstructionParent(Raw) -> Raw;
    LLVMGetBasicBlockParent(Raw) -> Raw;
    LLVMGetInstructionOpcode(Raw) -> c_int;
    LLVMInstructionEraseFromParent(Raw);
    LLVMGetCalledValue(Raw) -> Raw;
    LLVMGetCalledFunctionType(Raw) -> Raw;
    LLVMGetNumArgOperands(Raw) -> c_uint;
    LLVMGetDebugLocLine(Raw) -> c_uint;
    LLVMSetSubprogram(Raw, Raw);
    LLVMInstructionSetDebugLoc(Raw, Raw);
    LLVMGetDebugLocFilename(Raw, *mut c_uint) -> *const c_char;
    LLVMGetAtomicRMWBinOp(Raw) -> c_int;
    LLVMIsAtomicSingleThread(Raw) -> c_int;
    LLVMSetFastMathFlags(Raw, c_uint);
    LLVMGetFastMathFlags(Raw) -> c_uint;
    LLVMCanValueUseFastMathFlags(Raw) -> c_int;
    LLVMGetEnumAttributeKindForName(*const c_char, usize) -> c_uint;
    LLVMCreateEnumAttribute(Raw, c_uint, u64) -> Raw;
    LLVMCreateTypeAttribute(Raw, c_uint, Raw) -> Raw;
    LLVMCreateStringAttribute(Raw, *const c_char, c_uint, *const c_char, c_uint) -> Raw;
    LLVMAddAttributeAtIndex(Raw, c_uint, Raw);
    LLVMGetAttributeCountAtIndex(Raw, c_uint) -> c_uint;
    LLVMGetAttributesAtIndex(Raw, c_uint, *mut Raw);
    LLVMRemoveEnumAttributeAtIndex(Raw, c_uint, c_uint);
    LLVMRemoveStringAttributeAtIndex(Raw, c_uint, *const c_char, c_uint);
    LLVMIsStringAttribute(Raw) -> c_int;
    LLVMGetStringAttributeKind(Raw, *mut c_uint) -> *const c_char;
    LLVMAddCallSiteAttribute(Raw, c_uint, Raw);
    LLVMGetCallSiteEnumAttribute(Raw, c_uint, c_uint) -> Raw;
    LLVMGetEnumAttributeValue(Raw) -> u64;
    LLVMRemoveCallSiteEnumAttribute(Raw, c_uint, c_uint);
    LLVMIntTypeInContext(Raw, c_uint) -> Raw;
    LLVMFloatTypeInContext(Raw) -> Raw;
    LLVMDoubleTypeInContext(Raw) -> Raw;
    LLVMVoidTypeInContext(Raw) -> Raw;
    LLVMPointerTypeInContext(Raw, c_uint) -> Raw;
    LLVMArrayType2(Raw, u64) -> Raw;
    LLVMGetArrayLength2(Raw) -> u64;
    LLVMGetElementType(Raw) -> Raw;
    LLVMGetVectorSize(Raw) -> c_uint;
    LLVMVectorType(Raw, c_uint) -> Raw;
    LLVMCountStructElementTypes(Raw) -> c_uint;
    LLVMStructGetTypeAtIndex(Raw, c_uint) -> Raw;
    LLVMFunctionType(Raw, *const Raw, c_uint, c_int) -> Raw;
    LLVMGetReturnType(Raw) -> Raw;
    LLVMCountParamTypes(Raw) -> c_uint;
    LLVMGetParamTypes(Raw, *mut Raw);
    LLVMGetTypeKind(Raw) -> c_int;
    LLVMGetIntTypeWidth(Raw) -> c_uint;
    LLVMPrintTypeToString(Raw) -> *mut c_char;
    LLVMGetModuleDataLayout(Raw) -> Raw;
    LLVMCreateTargetDataLayout(Raw) -> Raw;
    LLVMDisposeTargetData(Raw);
    LLVMSetModuleDataLayout(Raw, Raw);
    LLVMGetGEPSourceElementType(Raw) -> Raw;
    LLVMGetIntrinsicID(Raw) -> c_uint;
    LLVMABISizeOfType(Raw, Raw) -> u64;
    LLVMConstInt(Raw, u64, c_int) -> Raw;
    LLVMConstReal(Raw, f64) -> Raw;
    LLVMConstNull(Raw) -> Raw;
    LLVMGetUndef(Raw) -> Raw;
    LLVMGetPoison(Raw) -> Raw;
    LLVMConstAddrSpaceCast(Raw, Raw) -> Raw;
    LLVMAppendBasicBlockInContext(Raw, Raw, *const c_char) -> Raw;
    LLVMCreateBuilderInContext(Raw) -> Raw;
    LLVMDisposeBuilder(Raw);
    LLVMPositionBuilderAtEnd(Raw, Raw);
    LLVMPositionBuilderBefore(Raw, Raw);
    LLVMBuildCall2(Raw, Raw, Raw, *const Raw, c_uint, *const c_char) -> Raw;
    LLVMBuildRet(Raw, Raw) -> Raw;
    LLVMBuildRetVoid(Raw) -> Raw;
    LLVMBuildUnreachable(Raw) -> Raw;
    LLVMBuildLoad2(Raw, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildStore(Raw, Raw, Raw) -> Raw;
    LLVMBuildBinOp(Raw, c_int, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildICmp(Raw, c_int, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildFCmp(Raw, c_int, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildSelect(Raw, Raw, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildCast(Raw, c_int, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildFreeze(Raw, Raw, *const c_char) -> Raw;
    LLVMBuildExtractElement(Raw, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildInsertElement(Raw, Raw, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildInsertValue(Raw, Raw, Raw, c_uint, *const c_char) -> Raw;
    LLVMBuildGEP2(Raw, Raw, Raw, *const Raw, c_uint, *const c_char) -> Raw;
    LLVMGetInlineAsm(Raw, *const c_char, usize, *const c_char, usize, c_int, c_int, c_int, c_int) -> Raw;
    LLVMGetInlineAsmAsmString(Raw, *mut usize) -> *const c_char;
    LLVMGetInlineAsmConstraintString(Raw, *mut usize) -> *const c_char;
    LLVMGetInlineAsmHasSideEffects(Raw) -> c_int;
    LLVMGetTargetFromTriple(*const c_char, *mut Raw, *mut *mut c_char) -> c_int;
    LLVMCreateTargetMachine(Raw, *const c_char, *const c_char, *const c_char, c_int, c_int, c_int) -> Raw;
    LLVMDisposeTargetMachine(Raw);
    LLVMTargetMachineEmitToMemoryBuffer(Raw, Raw, c_int, *mut *mut c_char, *mut Raw) -> c_int;
    LLVMCreatePassBuilderOptions() -> Raw;
    LLVMDisposePassBuilderOptions(Raw);
    LLVMRunPasses(Raw, *const c_char, Raw, Raw) -> Raw;
    LLVMGetErrorMessage(Raw) -> *mut c_char;
}

static API: OnceLock<Result<Api, String>> = OnceLock::new();

fn api() -> &'static Api {
    match API.get() {
        Some(Ok(api)) => api,
        _ => unreachable!("LLVM is used only after `load` succeeded"),
    }
}

thread_local! {
    /// What this thread is lowering, for the message of a fatal error.
    static LOWERING: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}

/// Names what this thread is about to lower: LLVM's fatal errors end the process, and their message then says where.
pub(crate) fn set_context_of_errors(what: &str) {
    LOWERING.with_borrow_mut(|text| what.clone_into(text));
}

unsafe extern "C" {
    fn _exit(status: c_int) -> !;
}

extern "C" fn on_fatal_error(reason: *const c_char) {
    // SAFETY: LLVM passes a string that ends in zero.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy();
    let what = LOWERING.try_with(|text| text.borrow().clone()).unwrap_or_default();
    eprintln!("warpsmith: LLVM gave up while lowering {what}: {reason}");
    println!("cargo::error=LLVM gave up while lowering {what}: {reason}");
    let _ = std::io::Write::flush(&mut std::io::stdout());
    // Other threads may be inside LLVM: nothing of the process may be torn down under them.
    // SAFETY: ends the process; both streams were flushed.
    unsafe { _exit(1) }
}

/// An error's text with those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Opens LLVM's library; later calls must name the same one, since a process has one LLVM.
pub(crate) fn load(path: &Path) -> Result<(), String> {
    let loaded = API.get_or_init(|| {
        // SAFETY: this is rustc's own LLVM; its constructors are what rustc runs at every start.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| with_causes(&error))?;
        let api = Api::load(&library).map_err(|error| with_causes(&error))?;
        std::mem::forget(library);
        // `slsr` miscompiles in LLVM 22.1 (a stable quicksort of 43 u64 panics inside core). The unroll threshold is
        // what lets inner loops of constant length unroll in full, as nvcc does.
        let more = std::env::var("WARPSMITH_LLVM_ARGS").unwrap_or_default();
        let options: Vec<CString> = ["warpsmith", "-opt-disable=slsr", "-unroll-threshold=4000"]
            .into_iter()
            .chain(more.split_whitespace())
            .map(c)
            .collect();
        let pointers: Vec<*const c_char> = options.iter().map(|text| text.as_ptr()).collect();
        // SAFETY: plain registration calls, made once, before any context exists.
        unsafe {
            (api.LLVMInstallFatalErrorHandler)(on_fatal_error);
            (api.LLVMInitializeNVPTXTargetInfo)();
            (api.LLVMInitializeNVPTXTarget)();
            (api.LLVMInitializeNVPTXTargetMC)();
            (api.LLVMInitializeNVPTXAsmPrinter)();
            (api.LLVMParseCommandLineOptions)(pointers.len() as c_int, pointers.as_ptr(), c"".as_ptr());
        }
        Ok(api)
    });
    loaded.as_ref().map(|_| ()).map_err(Clone::clone)
}

/// LLVM's version: major and minor.
pub(crate) fn version() -> (u32, u32) {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: three places to write to.
    unsafe { (api().LLVMGetVersion)(&mut major, &mut minor, &mut patch) };
    (major, minor)
}

fn c(text: &str) -> CString {
    CString::new(text.replace('\0', "")).expect("zero bytes were just removed")
}

fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: LLVM gave a string of its own that ends in zero.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: it came from LLVM and is not used again.
    unsafe { (api().LLVMDisposeMessage)(message) };
    text
}

fn bytes_of<'a>(pointer: *const c_char, len: usize) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: LLVM gave the pointer with this length; callers copy before they change the value it belongs to.
    unsafe { std::slice::from_raw_parts(pointer.cast(), len) }
}

/// Linkages of LLVM's C API that are used here.
pub(crate) mod linkage {
    pub(crate) const EXTERNAL: i32 = 0;
    pub(crate) const AVAILABLE_EXTERNALLY: i32 = 1;
    pub(crate) const LINK_ONCE_ODR: i32 = 3;
    pub(crate) const APPENDING: i32 = 7;
    pub(crate) const INTERNAL: i32 = 8;
    pub(crate) const PRIVATE: i32 = 9;
}

/// Instruction opcodes of LLVM's C API that are used here.
pub(crate) mod opcode {
    pub(crate) const ADD: i32 = 8;
    pub(crate) const FREM: i32 = 19;
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
    pub(crate) const PTRTOINT: i32 = 39;
    pub(crate) const INTTOPTR: i32 = 40;
    pub(crate) const BITCAST: i32 = 41;
    pub(crate) const ADDRSPACECAST: i32 = 60;
    pub(crate) const CALL: i32 = 45;
    pub(crate) const SUB: i32 = 10;
    pub(crate) const EXTRACT_VALUE: i32 = 53;
    pub(crate) const FENCE: i32 = 55;
    pub(crate) const CMPXCHG: i32 = 56;
    pub(crate) const ATOMICRMW: i32 = 57;
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
}

/// The position of a function's own attributes.
pub(crate) const FUNCTION: u32 = u32::MAX;

/// Who owns modules, types and constants; one thread's.
pub(crate) struct Context(Raw);

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
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `new`; modules are dropped before their context by the order of declaration.
        unsafe { (api().LLVMContextDispose)(self.0) };
    }
}

fn memory_buffer(bytes: &[u8], name: &str) -> Raw {
    let name = c(name);
    // SAFETY: pointer and length belong together; LLVM copies.
    unsafe { (api().LLVMCreateMemoryBufferWithMemoryRangeCopy)(bytes.as_ptr().cast(), bytes.len(), name.as_ptr()) }
}

fn take_buffer(buffer: Raw) -> Vec<u8> {
    // SAFETY: a live buffer of LLVM's.
    let (start, len) = unsafe { ((api().LLVMGetBufferStart)(buffer), (api().LLVMGetBufferSize)(buffer)) };
    let bytes = bytes_of(start, len).to_vec();
    // SAFETY: it is not used again.
    unsafe { (api().LLVMDisposeMemoryBuffer)(buffer) };
    bytes
}

fn attribute_kind(name: &str) -> c_uint {
    // SAFETY: pointer and length belong together.
    let kind = unsafe { (api().LLVMGetEnumAttributeKindForName)(name.as_ptr().cast(), name.len()) };
    assert_ne!(kind, 0, "LLVM knows the attribute {name}");
    kind
}

/// An attribute of a function, parameter or call.
#[derive(Clone, Copy)]
pub(crate) struct Attribute(Raw);

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

/// A module: functions and globals.
pub(crate) struct Module(Raw);

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: alive until here; linking forgets the module that LLVM consumes.
        unsafe { (api().LLVMDisposeModule)(self.0) };
    }
}

impl Module {
    pub(crate) fn functions(&self) -> impl Iterator<Item = Value> + use<> {
        // SAFETY: a live module.
        let mut next = unsafe { (api().LLVMGetFirstFunction)(self.0) };
        std::iter::from_fn(move || {
            if next.is_null() {
                return None;
            }
            let this = next;
            // SAFETY: callers delete at most the function they were just given, and the next was read before.
            next = unsafe { (api().LLVMGetNextFunction)(this) };
            Some(Value(this))
        })
    }

    pub(crate) fn globals(&self) -> impl Iterator<Item = Value> + use<> {
        // SAFETY: a live module.
        let mut next = unsafe { (api().LLVMGetFirstGlobal)(self.0) };
        std::iter::from_fn(move || {
            if next.is_null() {
                return None;
            }
            let this = next;
            // SAFETY: as for functions.
            next = unsafe { (api().LLVMGetNextGlobal)(this) };
            Some(Value(this))
        })
    }

    pub(crate) fn aliases(&self) -> Vec<Value> {
        let mut all = Vec::new();
        // SAFETY: a live module.
        let mut next = unsafe { (api().LLVMGetFirstGlobalAlias)(self.0) };
        while !next.is_null() {
            all.push(Value(next));
            // SAFETY: a live alias.
            next = unsafe { (api().LLVMGetNextGlobalAlias)(next) };
        }
        all
    }

    pub(crate) fn function(&self, name: &str) -> Option<Value> {
        let name = c(name);
        // SAFETY: a live module and a string that ends in zero.
        Value::some(unsafe { (api().LLVMGetNamedFunction)(self.0, name.as_ptr()) })
    }

    pub(crate) fn global(&self, name: &str) -> Option<Value> {
        let name = c(name);
        // SAFETY: a live module and a string that ends in zero.
        Value::some(unsafe { (api().LLVMGetNamedGlobal)(self.0, name.as_ptr()) })
    }

    pub(crate) fn add_function(&self, name: &str, ty: Type) -> Value {
        let name = c(name);
        // SAFETY: a live module, a function type of its context.
        Value(unsafe { (api().LLVMAddFunction)(self.0, name.as_ptr(), ty.0) })
    }

    /// The function of this name, declared if it is not there yet.
    pub(crate) fn declare(&self, name: &str, ty: Type) -> Value {
        self.function(name).unwrap_or_else(|| self.add_function(name, ty))
    }

    pub(crate) fn add_global(&self, name: &str, ty: Type, address_space: u32) -> Value {
        let name = c(name);
        // SAFETY: a live module, a type of its context.
        Value(unsafe { (api().LLVMAddGlobalInAddressSpace)(self.0, ty.0, name.as_ptr(), address_space) })
    }

    /// Makes this a module for `machine`: its triple and its data layout.
    pub(crate) fn set_target(&self, triple: &str, machine: &Machine) {
        let triple = c(triple);
        // SAFETY: a live module, a live machine; the layout is copied before it is disposed of.
        unsafe {
            (api().LLVMSetTarget)(self.0, triple.as_ptr());
            let layout = (api().LLVMCreateTargetDataLayout)(machine.0);
            (api().LLVMSetModuleDataLayout)(self.0, layout);
            (api().LLVMDisposeTargetData)(layout);
        }
    }

    /// Puts a declaration without attributes in a function's place, under its name, and removes the function.
    pub(crate) fn redeclare(&self, function: Value) -> Value {
        let name = function.name();
        let ty = function.value_type();
        function.set_name("");
        let declaration = self.add_function(&name, ty);
        function.replace_uses(declaration);
        function.delete_function();
        declaration
    }

    pub(crate) fn strip_debug_info(&self) {
        // SAFETY: a live module.
        unsafe { (api().LLVMStripModuleDebugInfo)(self.0) };
    }

    /// Moves what `source` has into this module.
    pub(crate) fn link(&self, source: Self) -> Result<(), String> {
        let raw = source.0;
        std::mem::forget(source);
        // SAFETY: both belong to one context; LLVM consumes the source.
        if unsafe { (api().LLVMLinkModules2)(self.0, raw) } != 0 {
            return Err("LLVM could not link two modules".to_owned());
        }
        Ok(())
    }

    pub(crate) fn duplicate(&self) -> Self {
        // SAFETY: a live module; the copy is ours.
        Self(unsafe { (api().LLVMCloneModule)(self.0) })
    }

    pub(crate) fn to_bitcode(&self) -> Vec<u8> {
        // SAFETY: a live module.
        take_buffer(unsafe { (api().LLVMWriteBitcodeToMemoryBuffer)(self.0) })
    }

    pub(crate) fn to_text(&self) -> String {
        // SAFETY: a live module.
        take_message(unsafe { (api().LLVMPrintModuleToString)(self.0) })
    }

    pub(crate) fn verify(&self) -> Result<(), String> {
        let mut message = null_mut();
        // SAFETY: a live module; 2 is "return the status".
        let broken = unsafe { (api().LLVMVerifyModule)(self.0, 2, &mut message) } != 0;
        let text = take_message(message);
        if broken { Err(text) } else { Ok(()) }
    }

    /// Runs passes, named as `opt -passes=` names them.
    pub(crate) fn run(&self, passes: &str, machine: Option<&Machine>) -> Result<(), String> {
        let text = c(passes);
        // SAFETY: module and machine are alive; the options are ours.
        unsafe {
            let options = (api().LLVMCreatePassBuilderOptions)();
            let error = (api().LLVMRunPasses)(self.0, text.as_ptr(), machine.map_or(null_mut(), |m| m.0), options);
            (api().LLVMDisposePassBuilderOptions)(options);
            if error.is_null() {
                return Ok(());
            }
            let message = (api().LLVMGetErrorMessage)(error);
            Err(CStr::from_ptr(message).to_string_lossy().into_owned())
        }
    }

    pub(crate) fn size_of(&self, ty: Type) -> u64 {
        // SAFETY: a live module and a sized type of its context.
        unsafe { (api().LLVMABISizeOfType)((api().LLVMGetModuleDataLayout)(self.0), ty.0) }
    }
}

/// A code generator for one architecture.
pub(crate) struct Machine(Raw);

impl Machine {
    pub(crate) fn new(triple: &str, cpu: &str, features: &str) -> Result<Self, String> {
        let (triple, cpu, features) = (c(triple), c(cpu), c(features));
        let (mut target, mut message) = (null_mut(), null_mut());
        // SAFETY: places to write to and strings that end in zero.
        if unsafe { (api().LLVMGetTargetFromTriple)(triple.as_ptr(), &mut target, &mut message) } != 0 {
            return Err(take_message(message));
        }
        // SAFETY: a target that LLVM gave; 3 is the highest optimisation level, 0 the default relocation and code model.
        let raw = unsafe {
            (api().LLVMCreateTargetMachine)(target, triple.as_ptr(), cpu.as_ptr(), features.as_ptr(), 3, 0, 0)
        };
        if raw.is_null() { Err("LLVM has no code generator for this target".to_owned()) } else { Ok(Self(raw)) }
    }

    pub(crate) fn emit(&self, module: &Module) -> Result<String, String> {
        let (mut message, mut buffer) = (null_mut(), null_mut());
        // SAFETY: both are alive; 0 asks for assembly text.
        let failed =
            unsafe { (api().LLVMTargetMachineEmitToMemoryBuffer)(self.0, module.0, 0, &mut message, &mut buffer) } != 0;
        if failed {
            return Err(take_message(message));
        }
        String::from_utf8(take_buffer(buffer)).map_err(|error| error.to_string())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { (api().LLVMDisposeTargetMachine)(self.0) };
    }
}

/// A type; equal handles are equal types within a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Type(Raw);

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

/// A basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block(Raw);

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

    pub(crate) fn parent(self) -> Value {
        // SAFETY: a live block inside a function.
        Value(unsafe { (api().LLVMGetBasicBlockParent)(self.0) })
    }
}

/// A value: constant, global, function, instruction or parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Value(Raw);

impl Value {
    fn some(raw: Raw) -> Option<Self> {
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
        // 13 is LLVMConstantIntValueKind... asked by type and constness instead, which does not depend on the number.
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

    pub(crate) fn alias_target(self) -> Self {
        // SAFETY: callers ask this of aliases only.
        Self(unsafe { (api().LLVMAliasGetAliasee)(self.0) })
    }

    pub(crate) fn opcode(self) -> i32 {
        // SAFETY: callers ask this of instructions only.
        unsafe { (api().LLVMGetInstructionOpcode)(self.0) }
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

    pub(crate) fn fast_math_flags(self) -> Option<u32> {
        // SAFETY: a live instruction.
        unsafe { ((api().LLVMCanValueUseFastMathFlags)(self.0) != 0).then(|| (api().LLVMGetFastMathFlags)(self.0)) }
    }

    pub(crate) fn set_fast_math_flags(self, flags: u32) {
        // SAFETY: callers asked `fast_math_flags` first.
        unsafe { (api().LLVMSetFastMathFlags)(self.0, flags) };
    }

    /// Whether an atomic or a fence concerns its own thread alone.
    pub(crate) fn is_single_thread(self) -> bool {
        // SAFETY: callers ask this of atomics and fences only.
        unsafe { (api().LLVMIsAtomicSingleThread)(self.0) != 0 }
    }

    pub(crate) fn atomic_operation(self) -> i32 {
        // SAFETY: callers ask this of `atomicrmw` only.
        unsafe { (api().LLVMGetAtomicRMWBinOp)(self.0) }
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

/// Writes instructions.
pub(crate) struct Builder(Raw);

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
