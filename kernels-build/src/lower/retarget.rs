//! Makes the linked module one for the device: attributes, calling conventions, special registers, shared memory.

use super::device_memory::{place_racing_accesses, place_shared};
use super::entries::{Entry, fits};
use super::names::SPECIAL_REGISTER;
use crate::llvm::{Context, FUNCTION, Module, Value, opcode};

/// Prepares the module for optimisation.
///
/// # Errors
/// What contradicts what the device crate and the macro promise.
pub(super) fn prepare(context: &Context, module: &Module, entries: &[Entry]) -> Result<(), String> {
    for entry in entries {
        let function = module.function(&entry.symbol).ok_or_else(|| format!("entry `{}` vanished", entry.symbol))?;
        fits(entry, function)?;
    }
    special_registers(module);
    place_shared(context, module)?;
    place_racing_accesses(context, module);
    let convergent = context.enum_attribute("convergent", 0);
    let no_unwind = context.enum_attribute("nounwind", 0);
    for function in module.functions() {
        function.set_call_conv(0);
        if function.is_intrinsic() {
            continue;
        }
        clean_attributes(function);
        function.clear_personality();
        function.clear_section();
        function.add_attribute(FUNCTION, convergent);
        function.add_attribute(FUNCTION, no_unwind);
        for instruction in function.instructions() {
            if instruction.opcode() != opcode::CALL {
                continue;
            }
            instruction.set_instruction_call_conv(0);
            // Every call may reach a barrier until LLVM has shown that it does not.
            let callee = instruction.called();
            if !callee.as_function().is_some_and(Value::is_intrinsic) {
                instruction.add_call_attribute(FUNCTION, convergent);
            }
        }
    }
    for global in module.globals() {
        global.clear_section();
    }
    module.verify()
}

/// Drops what speaks of the host's processor and of its stack.
fn clean_attributes(function: Value) {
    for attribute in function.attributes(FUNCTION) {
        if let Some(name) = attribute.string_kind() {
            function.remove_string_attribute(FUNCTION, &name);
        }
    }
    for name in ["uwtable", "nonlazybind", "ssp", "sspreq", "sspstrong", "naked", "noredzone"] {
        function.remove_attribute(FUNCTION, name);
    }
}

/// Thread and block indices and the like become LLVM's intrinsics.
fn special_registers(module: &Module) {
    for function in module.functions() {
        let name = function.name();
        if let Some(register) = name.strip_prefix(SPECIAL_REGISTER) {
            let intrinsic = format!("llvm.nvvm.read.ptx.sreg.{}", register.replace('_', "."));
            let intrinsic = module.declare(&intrinsic, function.value_type());
            function.replace_uses(intrinsic);
        }
    }
}
