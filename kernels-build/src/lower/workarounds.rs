//! Faults of LLVM's PTX backend and of ptxas, avoided in the optimised code just before PTX is written.

use super::atomics;
use crate::llvm::{Context, Module, Value, kind, opcode};

/// Rewrites what later tools get wrong.
pub(super) fn apply(context: &Context, module: &Module) {
    for function in module.functions() {
        for instruction in function.instructions() {
            match instruction.opcode() {
                opcode::STORE => unaligned_float(context, instruction),
                opcode::ATOMICRMW | opcode::CMPXCHG => atomic_on_stack(context, instruction),
                opcode::SUB => negated_short(context, instruction),
                opcode::CALL => absolute_short(context, instruction),
                // A fence of one thread orders what the optimiser does, and that is over.
                opcode::FENCE if instruction.is_single_thread() => instruction.erase(),
                _ => {}
            }
        }
    }
}

/// LLVM stores an unaligned float byte by byte, straight from the register that arithmetic wrote; ptxas then takes the
/// byte store for a conversion. Moving the value through an integer register first keeps its bits.
fn unaligned_float(context: &Context, store: Value) {
    let value = store.operand(0);
    let ty = value.ty();
    let (bytes, int, template, constraints) = match ty.kind() {
        kind::FLOAT => (4, context.int(32), "/*ws*/mov.b32 $0, $1;", "=r,f"),
        kind::DOUBLE => (8, context.int(64), "/*ws*/mov.b64 $0, $1;", "=l,d"),
        _ => return,
    };
    if store.alignment() >= bytes || value.is_constant() {
        return;
    }
    let builder = context.builder();
    builder.before(store);
    let ty = int.function(&[ty]);
    let bits = builder.call(ty, ty.inline_asm(template, constraints, false), &[value]);
    store.set_operand(0, bits);
}

/// ptxas and the driver keep 32 bits of a negated 16-bit value that is widened afterwards; an opaque move of the low half
/// cuts it.
fn negated_short(context: &Context, sub: Value) {
    if !sub.ty().is_int(16) || sub.operand(0).as_int() != Some(0) {
        return;
    }
    let i16 = context.int(16);
    let builder = context.builder();
    builder.before(sub);
    let ty = i16.function(&[i16]);
    let template = "/*ws*/{ .reg .b32 %t; cvt.s32.s16 %t, $1; neg.s32 %t, %t; cvt.u16.u32 $0, %t; }";
    let value = builder.call(ty, ty.inline_asm(template, "=h,h", false), &[sub.operand(1)]);
    sub.replace_with(value);
}

/// The same fault in `abs.s16`: the absolute value of the least number is that number, not one past the greatest.
fn absolute_short(context: &Context, call: Value) {
    let name = call.called().as_function().map(Value::name).unwrap_or_default();
    if name != "llvm.abs.i16" && name != "llvm.abs.i8" {
        return;
    }
    let builder = context.builder();
    builder.before(call);
    let i16 = context.int(16);
    let narrow = call.ty();
    let wide = if narrow.is_int(8) { builder.cast(opcode::SEXT, call.operand(0), i16) } else { call.operand(0) };
    let ty = i16.function(&[i16]);
    let template = "/*ws*/{ .reg .b32 %t; cvt.s32.s16 %t, $1; abs.s32 %t, %t; cvt.u16.u32 $0, %t; }";
    let value = builder.call(ty, ty.inline_asm(template, "=h,h", false), &[wide]);
    call.replace_with(if narrow.is_int(8) { builder.cast(opcode::TRUNC, value, narrow) } else { value });
}

/// An atomic on the thread's own stack is not PTX; nobody else can see it, so a plain access is the same.
fn atomic_on_stack(context: &Context, instruction: Value) {
    let pointer = instruction.operand(0);
    if !is_local(pointer) {
        return;
    }
    let builder = context.builder();
    builder.before(instruction);
    if let Some(before) = atomics::plainly(&builder, instruction, &instruction.operands()) {
        instruction.replace_with(before);
    }
}

/// Whether a pointer comes from a stack slot of this function.
fn is_local(pointer: Value) -> bool {
    if pointer.is_alloca() {
        return true;
    }
    pointer.is_instruction()
        && matches!(pointer.opcode(), opcode::GEP | opcode::ADDRSPACECAST | opcode::BITCAST)
        && is_local(pointer.operand(0))
}
