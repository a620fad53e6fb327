//! Chooses the state space of inline PTX that leaves it open: `.ws_space` becomes `.global` where the address is one of
//! global memory, and nothing, which takes any address, where that does not show.

use std::collections::HashSet;

use super::constants::address;
use super::entries::{Entry, flattened};
use crate::llvm::{Context, Module, Value, kind, opcode};

/// Stands for the state space of the one address that the assembly takes.
const OPEN: &str = ".ws_space";
/// A load of what will not be read again, without its state space, and one that is merely streaming. On global memory both do the
/// same; on the thread's own stack the former may throw away what was written there, and a reference may be read again.
const LAST_USE: [&str; 2] = ["ld.lu.", "ld.cs."];
/// PTX's address space of global memory.
const GLOBAL_SPACE: u32 = 1;

/// Rewrites every inline assembly of the module that leaves its state space open.
pub(super) fn choose(context: &Context, module: &Module, entry: &Entry) {
    // Pointers among the kernel's arguments; by-value ones point to the arguments themselves.
    let arguments = module.function(&entry.ptx_name()).map(Value::parameters).unwrap_or_default();
    let plain = arguments.into_iter().zip(flattened(&entry.params)).filter(|(_, by_value)| by_value.is_none());
    let global: HashSet<Value> = plain.map(|(argument, _)| argument).collect();
    for function in module.functions() {
        for call in function.instructions() {
            if call.opcode() != opcode::CALL || !call.called().is_inline_asm() {
                continue;
            }
            let (template, constraints, side_effects) = call.called().asm_parts();
            if !template.contains(OPEN) {
                continue;
            }
            let mut arguments = call.arguments();
            let address = arguments.iter().position(|a| a.ty().kind() == kind::POINTER);
            let ty = call.called_type();
            let (space, ty) = match address {
                Some(at) if is_global(arguments[at], &global, &mut HashSet::new()) => {
                    let builder = context.builder();
                    builder.before(call);
                    let global = context.ptr(GLOBAL_SPACE);
                    arguments[at] = builder.cast(opcode::ADDRSPACECAST, arguments[at], global);
                    let mut types = ty.parameter_types();
                    types[at] = global;
                    (".global", ty.return_type().function(&types))
                }
                _ => ("", ty),
            };
            let mut template = template.replace(OPEN, space);
            if space.is_empty() {
                template = template.replace(LAST_USE[0], LAST_USE[1]);
            }
            let assembly = ty.inline_asm(&template, &constraints, side_effects);
            let builder = context.builder();
            builder.before(call);
            call.replace_with(builder.call(ty, assembly, &arguments));
        }
    }
}

/// Whether a pointer is certainly one of global memory: from an argument of the kernel, or of a static.
fn is_global(pointer: Value, arguments: &HashSet<Value>, seen: &mut HashSet<Value>) -> bool {
    if let Some((target, _)) = address(pointer) {
        // Statics have no space of their own yet; LLVM puts them into global memory.
        return target.as_global().is_some() && matches!(target.ty().address_space(), 0 | GLOBAL_SPACE);
    }
    if arguments.contains(&pointer) || pointer.ty().address_space() == GLOBAL_SPACE {
        return true;
    }
    if !pointer.is_instruction() {
        return false;
    }
    if !seen.insert(pointer) {
        // Around a loop: the other ways in decide.
        return true;
    }
    let mut both = |first: u32, last: u32| (first..last).all(|i| is_global(pointer.operand(i), arguments, seen));
    match pointer.opcode() {
        opcode::GEP | opcode::FREEZE | opcode::BITCAST => both(0, 1),
        // From another space, only global memory's passes.
        opcode::ADDRSPACECAST => both(0, 1),
        opcode::SELECT => both(1, 3),
        opcode::PHI => both(0, pointer.operand_count()),
        _ => false,
    }
}
