//! Overflow checks in a profile that wraps: the checker is told, and the code goes on as the profile has it.

use std::collections::HashMap;

use super::sites::{Sites, of_kind};
use crate::bundle::{CheckedSite, SiteKind};
use crate::llvm::{Block, Context, Module, Value, is_call};
use crate::lower::names::demangle;

/// Declared by the device crate where the profile's arithmetic wraps.
const WRAPS: &str = "__warpsmith_wraps";

const HOOK: &str = "__warpsmith_check_overflow";

/// Whether arithmetic wraps in the profile that the target's code is compiled under.
pub(super) fn wraps(target: &Module) -> bool {
    target.function(WRAPS).is_some()
}

/// Puts a call of the checker, after which the code goes on with the wrapped result, in the place of each overflow's panic.
/// Divisions keep theirs, which every profile has.
pub(super) fn report_and_go_on(context: &Context, module: &Module, sites: &mut Sites) {
    let hook = module.declare(HOOK, context.void().function(&[context.int(32)]));
    let builder = context.builder();
    for function in module.functions() {
        let Some(operation) = operation(&function.name()) else { continue };
        let calls: Vec<Value> = function.users().into_iter().filter(|user| user.is_instruction()).collect();
        let mut predecessors: HashMap<Value, HashMap<Block, Vec<Block>>> = HashMap::new();
        for call in calls.into_iter().filter(|call| is_call(*call)) {
            let panicking = call.block();
            let parent = call.parent_function();
            let of_parent = predecessors.entry(parent).or_insert_with(|| predecessors_of(parent));
            let Some([before]) = of_parent.get(&panicking).map(Vec::as_slice) else { continue };
            let others: Vec<Block> = before.successors().into_iter().filter(|block| *block != panicking).collect();
            let [rest] = others[..] else { continue };
            // A value that depends on where control comes from would need one for the new way; rustc writes none here.
            if panicking.first() != call || rest.first().incoming().is_some() {
                continue;
            }
            let site = CheckedSite { operation: operation.clone(), ..of_kind(SiteKind::Overflow) };
            let number = sites.number(call, site);
            let old: Vec<Value> = panicking.instructions().collect();
            if let Some(number) = number {
                builder.before(call);
                builder.call_function(hook, &[context.int(32).int_value(u64::from(number))]);
            }
            old.into_iter().rev().for_each(Value::erase);
            builder.at_end(panicking);
            builder.branch(rest);
        }
    }
}

/// What overflowed, where a function is the panic of that.
fn operation(symbol: &str) -> Option<String> {
    let name = demangle(symbol);
    let name = name.strip_prefix("core::panicking::panic_const::panic_const_")?.strip_suffix("_overflow")?;
    matches!(name, "add" | "sub" | "mul" | "neg" | "shl" | "shr").then(|| name.to_owned())
}

fn predecessors_of(function: Value) -> HashMap<Block, Vec<Block>> {
    let mut all: HashMap<Block, Vec<Block>> = HashMap::new();
    for block in function.blocks() {
        for successor in block.successors() {
            all.entry(successor).or_default().push(block);
        }
    }
    all
}
