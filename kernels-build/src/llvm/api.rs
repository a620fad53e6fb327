//! LLVM's C API, opened at run time: the one file with its raw names.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::sync::OnceLock;

pub(super) type Raw = *mut c_void;

macro_rules! api {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case, reason = "the names are LLVM's")]
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
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
    LLVMConstArray2(Raw, *const Raw, u64) -> Raw;
    LLVMConstStructInContext(Raw, *const Raw, c_uint, c_int) -> Raw;
    LLVMIsPackedStruct(Raw) -> c_int;
    LLVMGetTypeContext(Raw) -> Raw;
    LLVMLinkModules2(Raw, Raw) -> c_int;
    LLVMStripModuleDebugInfo(Raw) -> c_int;
    LLVMAddModuleFlag(Raw, c_int, *const c_char, usize, Raw);
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
    LLVMSetExternallyInitialized(Raw, c_int);
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
    LLVMGetBasicBlockTerminator(Raw) -> Raw;
    LLVMGetNumSuccessors(Raw) -> c_uint;
    LLVMGetSuccessor(Raw, c_uint) -> Raw;
    LLVMSetSuccessor(Raw, c_uint, Raw);
    LLVMIsAPHINode(Raw) -> Raw;
    LLVMCountIncoming(Raw) -> c_uint;
    LLVMGetIncomingValue(Raw, c_uint) -> Raw;
    LLVMGetIncomingBlock(Raw, c_uint) -> Raw;
    LLVMGetMDKindIDInContext(Raw, *const c_char, c_uint) -> c_uint;
    LLVMSetMetadata(Raw, c_uint, Raw);
    LLVMGetMetadata(Raw, c_uint) -> Raw;
    LLVMMDStringInContext2(Raw, *const c_char, usize) -> Raw;
    LLVMMDNodeInContext2(Raw, *const Raw, usize) -> Raw;
    LLVMTemporaryMDNode(Raw, *const Raw, usize) -> Raw;
    LLVMMetadataReplaceAllUsesWith(Raw, Raw);
    LLVMMetadataAsValue(Raw, Raw) -> Raw;
    LLVMValueAsMetadata(Raw) -> Raw;
    LLVMGetInstructionOpcode(Raw) -> c_int;
    LLVMGetICmpPredicate(Raw) -> c_int;
    LLVMInstructionEraseFromParent(Raw);
    LLVMGetCalledValue(Raw) -> Raw;
    LLVMGetCalledFunctionType(Raw) -> Raw;
    LLVMGetNumArgOperands(Raw) -> c_uint;
    LLVMGetDebugLocLine(Raw) -> c_uint;
    LLVMInstructionGetDebugLoc(Raw) -> Raw;
    LLVMDILocationGetLine(Raw) -> c_uint;
    LLVMDILocationGetColumn(Raw) -> c_uint;
    LLVMDILocationGetScope(Raw) -> Raw;
    LLVMDILocationGetInlinedAt(Raw) -> Raw;
    LLVMDIScopeGetFile(Raw) -> Raw;
    LLVMDIFileGetDirectory(Raw, *mut c_uint) -> *const c_char;
    LLVMDIFileGetFilename(Raw, *mut c_uint) -> *const c_char;
    LLVMSetSubprogram(Raw, Raw);
    LLVMInstructionSetDebugLoc(Raw, Raw);
    LLVMGetDebugLocFilename(Raw, *mut c_uint) -> *const c_char;
    LLVMGetAtomicRMWBinOp(Raw) -> c_int;
    LLVMGetOrdering(Raw) -> c_int;
    LLVMSetOrdering(Raw, c_int);
    LLVMGetCmpXchgSuccessOrdering(Raw) -> c_int;
    LLVMGetCmpXchgFailureOrdering(Raw) -> c_int;
    LLVMGetSyncScopeID(Raw, *const c_char, usize) -> c_uint;
    LLVMGetAtomicSyncScopeID(Raw) -> c_uint;
    LLVMSetAtomicSyncScopeID(Raw, c_uint);
    LLVMBuildAtomicRMWSyncScope(Raw, c_int, Raw, Raw, c_int, c_uint) -> Raw;
    LLVMBuildAtomicCmpXchgSyncScope(Raw, Raw, Raw, Raw, c_int, c_int, c_uint) -> Raw;
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
    LLVMHalfTypeInContext(Raw) -> Raw;
    LLVMBFloatTypeInContext(Raw) -> Raw;
    LLVMFloatTypeInContext(Raw) -> Raw;
    LLVMDoubleTypeInContext(Raw) -> Raw;
    LLVMVoidTypeInContext(Raw) -> Raw;
    LLVMPointerTypeInContext(Raw, c_uint) -> Raw;
    LLVMGetPointerAddressSpace(Raw) -> c_uint;
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
    LLVMStoreSizeOfType(Raw, Raw) -> u64;
    LLVMConstInt(Raw, u64, c_int) -> Raw;
    LLVMConstReal(Raw, f64) -> Raw;
    LLVMConstNull(Raw) -> Raw;
    LLVMConstStringInContext2(Raw, *const c_char, usize, c_int) -> Raw;
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
    LLVMBuildBr(Raw, Raw) -> Raw;
    LLVMBuildPhi(Raw, Raw, *const c_char) -> Raw;
    LLVMAddIncoming(Raw, *const Raw, *const Raw, c_uint);
    LLVMBuildLoad2(Raw, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildStore(Raw, Raw, Raw) -> Raw;
    LLVMBuildBinOp(Raw, c_int, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildICmp(Raw, c_int, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildFCmp(Raw, c_int, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildCondBr(Raw, Raw, Raw, Raw) -> Raw;
    LLVMBuildSelect(Raw, Raw, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildCast(Raw, c_int, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildFreeze(Raw, Raw, *const c_char) -> Raw;
    LLVMBuildExtractElement(Raw, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildInsertElement(Raw, Raw, Raw, Raw, *const c_char) -> Raw;
    LLVMBuildExtractValue(Raw, Raw, c_uint, *const c_char) -> Raw;
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

/// Functions that register the code generator of the host's own processor, for the checker's code; an LLVM may lack them.
const HOST_TARGETS: [&str; 5] = if cfg!(target_arch = "aarch64") {
    [
        "LLVMInitializeAArch64TargetInfo",
        "LLVMInitializeAArch64Target",
        "LLVMInitializeAArch64TargetMC",
        "LLVMInitializeAArch64AsmPrinter",
        "LLVMInitializeAArch64AsmParser",
    ]
} else {
    [
        "LLVMInitializeX86TargetInfo",
        "LLVMInitializeX86Target",
        "LLVMInitializeX86TargetMC",
        "LLVMInitializeX86AsmPrinter",
        "LLVMInitializeX86AsmParser",
    ]
};

static API: OnceLock<Result<Api, String>> = OnceLock::new();

pub(super) fn api() -> &'static Api {
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

/// The variable with options for LLVM, for whoever debugs the lowering.
pub(crate) const DEBUG_VARIABLE: &str = "WARPSMITH_LLVM_ARGS";

/// Its value: PTX depends on it.
pub(crate) fn debug_arguments() -> String {
    std::env::var(DEBUG_VARIABLE).unwrap_or_default()
}

/// Opens LLVM's library; later calls must name the same one, since a process has one LLVM.
pub(crate) fn load(path: &Path) -> Result<(), String> {
    let loaded = API.get_or_init(|| {
        // SAFETY: this is rustc's own LLVM; its constructors are what rustc runs at every start.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| with_causes(&error))?;
        let api = Api::load(&library).map_err(|error| with_causes(&error))?;
        // `slsr` miscompiles in LLVM 22.1 (a stable quicksort of 43 u64 panics inside core). The unroll threshold is
        // what lets inner loops of constant length unroll in full, as nvcc does; loops that ask for it have another.
        let more = debug_arguments();
        let options: Vec<CString> =
            ["warpsmith", "-opt-disable=slsr", "-unroll-threshold=4000", "-pragma-unroll-threshold=262144"]
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
            for name in HOST_TARGETS {
                if let Ok(initialize) = library.get::<unsafe extern "C" fn()>(name.as_bytes()) {
                    initialize();
                }
            }
            (api.LLVMParseCommandLineOptions)(pointers.len() as c_int, pointers.as_ptr(), c"".as_ptr());
        }
        std::mem::forget(library);
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

pub(super) fn c(text: &str) -> CString {
    CString::new(text.replace('\0', "")).expect("zero bytes were just removed")
}

pub(super) fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: LLVM gave a string of its own that ends in zero.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: it came from LLVM and is not used again.
    unsafe { (api().LLVMDisposeMessage)(message) };
    text
}

pub(super) fn bytes_of<'a>(pointer: *const c_char, len: usize) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: LLVM gave the pointer with this length; callers copy before they change the value it belongs to.
    unsafe { std::slice::from_raw_parts(pointer.cast(), len) }
}
