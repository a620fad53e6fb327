//! Modules, and the code generator that writes them as PTX.

use std::ffi::CStr;
use std::ptr::null_mut;

use super::api::{Raw, api, c, take_message};
use super::context::take_buffer;
use super::{Context, Type, Value};

/// A module: functions and globals.
pub(crate) struct Module(pub(super) Raw);

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

    /// Sets a flag of the whole module; it overrides what was set before.
    pub(crate) fn set_flag(&self, context: &Context, name: &str, value: u32) {
        // SAFETY: a live module of this context; the length belongs to the pointer; 3 is "override".
        unsafe {
            let value = (api().LLVMValueAsMetadata)(context.int(32).int_value(u64::from(value)).0);
            (api().LLVMAddModuleFlag)(self.0, 3, name.as_ptr().cast(), name.len(), value);
        }
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

    /// Bytes that a load or a store of this type touches; those of an array's element may be more.
    pub(crate) fn store_size(&self, ty: Type) -> u64 {
        // SAFETY: a live module and a sized type of its context.
        unsafe { (api().LLVMStoreSizeOfType)((api().LLVMGetModuleDataLayout)(self.0), ty.0) }
    }

    pub(crate) fn size_of(&self, ty: Type) -> u64 {
        // SAFETY: a live module and a sized type of its context.
        unsafe { (api().LLVMABISizeOfType)((api().LLVMGetModuleDataLayout)(self.0), ty.0) }
    }
}

/// A code generator for one architecture.
pub(crate) struct Machine(pub(super) Raw);

impl Machine {
    pub(crate) fn new(triple: &str, cpu: &str, features: &str, level: i32) -> Result<Self, String> {
        Self::with_relocation(triple, cpu, features, level, 0)
    }

    /// For code that may be loaded at any address.
    pub(crate) fn position_independent(triple: &str, cpu: &str, level: i32) -> Result<Self, String> {
        Self::with_relocation(triple, cpu, "", level, 2)
    }

    fn with_relocation(triple: &str, cpu: &str, features: &str, level: i32, relocation: i32) -> Result<Self, String> {
        let (triple, cpu, features) = (c(triple), c(cpu), c(features));
        let (mut target, mut message) = (null_mut(), null_mut());
        // SAFETY: places to write to and strings that end in zero.
        if unsafe { (api().LLVMGetTargetFromTriple)(triple.as_ptr(), &mut target, &mut message) } != 0 {
            return Err(take_message(message));
        }
        // SAFETY: a target that LLVM gave; levels are 0 to 3; relocation 0 is the default and 2 is PIC; code model 0 is the default.
        let raw = unsafe {
            (api().LLVMCreateTargetMachine)(
                target,
                triple.as_ptr(),
                cpu.as_ptr(),
                features.as_ptr(),
                level,
                relocation,
                0,
            )
        };
        if raw.is_null() { Err("LLVM has no code generator for this target".to_owned()) } else { Ok(Self(raw)) }
    }

    /// Assembly text.
    pub(crate) fn emit(&self, module: &Module) -> Result<String, String> {
        String::from_utf8(self.emit_file(module, 0)?).map_err(|error| error.to_string())
    }

    /// An object file.
    pub(crate) fn emit_object(&self, module: &Module) -> Result<Vec<u8>, String> {
        self.emit_file(module, 1)
    }

    fn emit_file(&self, module: &Module, kind: i32) -> Result<Vec<u8>, String> {
        let (mut message, mut buffer) = (null_mut(), null_mut());
        // SAFETY: both are alive; 0 is assembly text, 1 an object file.
        let failed =
            unsafe { (api().LLVMTargetMachineEmitToMemoryBuffer)(self.0, module.0, kind, &mut message, &mut buffer) }
                != 0;
        if failed { Err(take_message(message)) } else { Ok(take_buffer(buffer)) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { (api().LLVMDisposeTargetMachine)(self.0) };
    }
}
