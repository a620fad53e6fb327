//! Small copies of memory become loads and stores before optimisation.
//!
//! rustc moves aggregates with `memcpy`. LLVM keeps a stack slot that is only copied into and out of, which costs nothing
//! on a processor with a cache and a trip to local memory on a GPU. As loads and stores the slot dissolves into registers.

use crate::llvm::{Context, Module, Type, Value, opcode};

/// Most loads that one copy becomes.
const MOST: u64 = 16;

/// Expands every small copy of known length.
pub(super) fn expand(context: &Context, module: &Module) {
    for function in module.functions() {
        for call in function.instructions() {
            if call.opcode() == opcode::CALL && is_copy(call) {
                expand_copy(context, call);
            }
        }
    }
}

fn is_copy(call: Value) -> bool {
    call.called().as_function().is_some_and(|callee| {
        let name = callee.name();
        name.starts_with("llvm.memcpy.") || name.starts_with("llvm.memmove.")
    })
}

/// The units of a copy: offset and type of each. A unit never is larger than the alignment of both sides, so that no
/// field is cut and each load is one instruction.
fn units(context: &Context, bytes: u64, align: u64) -> Option<Vec<(u64, Type)>> {
    let mut all = Vec::new();
    let mut offset = 0;
    while offset < bytes {
        let mut size = align.min(8);
        while size > bytes - offset {
            size /= 2;
        }
        all.push((offset, context.int(8 * u32::try_from(size).ok()?)));
        offset += size;
        if all.len() as u64 > MOST {
            return None;
        }
    }
    Some(all)
}

fn expand_copy(context: &Context, call: Value) {
    let arguments = call.arguments();
    let (Some(bytes), Some(0)) = (arguments[2].as_int(), arguments[3].as_int()) else { return };
    let align = call.call_alignment(1).min(call.call_alignment(2));
    let Some(units) = units(context, bytes, align) else { return };
    let builder = context.builder();
    builder.before(call);
    let at = |pointer: Value, offset: u64| {
        if offset == 0 { pointer } else { builder.offset(context, pointer, context.int(64).int_value(offset)) }
    };
    let aligned = |access: Value, side: u32, offset: u64| {
        let known = call.call_alignment(side);
        let here = if offset == 0 { known } else { known.min(1 << offset.trailing_zeros()) };
        access.set_alignment(u32::try_from(here.min(1 << 16)).unwrap_or(1));
    };
    // All loads stand before all stores: a `memmove`'s sides may overlap.
    let loaded: Vec<Value> = units
        .iter()
        .map(|(offset, ty)| {
            let value = builder.load(*ty, at(arguments[1], *offset));
            aligned(value, 2, *offset);
            value
        })
        .collect();
    for ((offset, _), value) in units.iter().zip(loaded) {
        aligned(builder.store(value, at(arguments[0], *offset)), 1, *offset);
    }
    call.erase();
}
