//! Statics that refer to each other in a ring: LLVM's PTX printer cannot order them, so the ring is cut and closed again
//! by a store at the kernel's start.

use std::collections::HashMap;

use super::constants::address;
use crate::llvm::{Context, Module, Value, kind};

/// Cuts every ring of statics in a kernel's module.
///
/// # Errors
/// A ring through a constant whose form rustc does not write.
pub(super) fn break_rings(context: &Context, module: &Module, entry: &str) -> Result<(), String> {
    let mut cut: Vec<(Value, u64, Value, u64)> = Vec::new();
    while let Some((from, to)) = ring(module) {
        let initializer = from.initializer().ok_or("a static in a ring has no value")?;
        let mut stores = Vec::new();
        let without = remove(module, initializer, to, 0, &mut stores)?;
        from.set_initializer(without);
        from.set_global_constant(false);
        cut.extend(stores.into_iter().map(|(offset, into)| (from, offset, to, into)));
    }
    if cut.is_empty() {
        return Ok(());
    }
    let function = module.function(entry).ok_or("the entry vanished")?;
    let builder = context.builder();
    builder.before(function.blocks()[0].first());
    for (from, offset, to, into) in &cut {
        let place = builder.offset(context, *from, context.int(64).int_value(*offset));
        let target = builder.offset(context, *to, context.int(64).int_value(*into));
        builder.store(target, place);
    }
    Ok(())
}

/// The globals that an initializer refers to.
fn references(value: Value, found: &mut Vec<Value>) {
    if let Some((target, _)) = address(value) {
        if target.as_global().is_some() {
            found.push(target);
        }
        return;
    }
    for operand in value.operands() {
        if operand.is_constant() {
            references(operand, found);
        }
    }
}

/// A static and another that it refers to, where the second leads back to the first.
fn ring(module: &Module) -> Option<(Value, Value)> {
    let mut edges: HashMap<Value, Vec<Value>> = HashMap::new();
    for global in module.globals() {
        if let Some(initializer) = global.initializer() {
            let mut found = Vec::new();
            references(initializer, &mut found);
            edges.insert(global, found);
        }
    }
    // 1: on the path, 2: done.
    let mut state: HashMap<Value, u8> = HashMap::new();
    for start in edges.keys() {
        let mut path = vec![(*start, 0)];
        if state.contains_key(start) {
            continue;
        }
        state.insert(*start, 1);
        while let Some((node, next)) = path.last_mut() {
            let Some(target) = edges.get(node).and_then(|all| all.get(*next)).copied() else {
                state.insert(*node, 2);
                path.pop();
                continue;
            };
            *next += 1;
            match state.get(&target) {
                Some(1) => return Some((*node, target)),
                Some(_) => {}
                None => {
                    state.insert(target, 1);
                    path.push((target, 0));
                }
            }
        }
    }
    None
}

/// The initializer with every address inside `target` replaced by null; notes where they stood.
fn remove(
    module: &Module,
    value: Value,
    target: Value,
    offset: u64,
    stores: &mut Vec<(u64, u64)>,
) -> Result<Value, String> {
    let ty = value.ty();
    match ty.kind() {
        kind::POINTER => match address(value) {
            Some((global, into)) if global == target => {
                stores.push((offset, into));
                Ok(ty.null())
            }
            _ => Ok(value),
        },
        kind::STRUCT => {
            let mut at = offset;
            let mut fields = Vec::new();
            for (i, field) in ty.fields().into_iter().enumerate() {
                let element = value.aggregate_element(i as u32).ok_or("a static's value has no such field")?;
                fields.push(remove(module, element, target, at, stores)?);
                // rustc's constants are packed.
                at += module.size_of(field);
            }
            Ok(ty.structure_value(&fields))
        }
        _ => Ok(value),
    }
}
