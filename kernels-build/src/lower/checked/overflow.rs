//! Overflow checks in a profile that wraps: the checker is told, and the code goes on as the profile has it.

use std::collections::HashMap;

use super::sites::{Sites, of_kind};
use crate::bundle::{CheckedSite, SiteFlags, SiteKind};
use crate::llvm::{Block, Builder, Context, FUNCTION, Module, Value, is_call, kind, opcode};
use crate::lower::names::demangle;

/// Declared by the device crate where the profile's arithmetic wraps.
const WRAPS: &str = "__warpsmith_wraps";

const HOOK: &str = "__warpsmith_check_overflow";

/// `icmp ult` of LLVM's C API.
const BELOW: i32 = 36;

/// Whether arithmetic wraps in the profile that the target's code is compiled under.
pub(super) fn wraps(target: &Module) -> bool {
    target.function(WRAPS).is_some()
}

/// Puts a call of the checker, after which the code goes on with the wrapped result, in the place of each overflow's panic.
/// Divisions keep theirs, which every profile has.
pub(super) fn report_and_go_on(context: &Context, module: &Module, sites: &mut Sites) {
    let hook = module.declare(HOOK, context.void().function(&[context.int(32), context.int(64), context.int(64)]));
    let no_merge = context.enum_attribute("nomerge", 0);
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
            let operands = operands(&operation, before, rest);
            let (bytes, flags) = operands.as_ref().map_or((0, 0), Operands::described);
            let site = CheckedSite { operation: operation.clone(), bytes, flags, ..of_kind(SiteKind::Overflow) };
            let number = sites.number(call, site);
            let old: Vec<Value> = panicking.instructions().collect();
            if let Some(number) = number {
                builder.before(call);
                let [a, b] = match &operands {
                    Some(operands) => operands.widened(context, &builder),
                    None => [context.int(64).int_value(0); 2],
                };
                let call = builder.call_function(hook, &[context.int(32).int_value(u64::from(number)), a, b]);
                // One call stays one line's.
                call.add_call_attribute(FUNCTION, no_merge);
            }
            old.into_iter().rev().for_each(Value::erase);
            builder.at_end(panicking);
            builder.branch(rest);
        }
    }
}

/// Names the places again once functions are inlined: of arithmetic in a library's function that is the line that calls it.
pub(super) fn place_again(context: &Context, module: &Module, sites: &mut Sites) {
    let Some(hook) = module.function(HOOK) else { return };
    for call in hook.users().into_iter().filter(|user| user.is_instruction() && is_call(*user)) {
        let number = call.operand(0).as_int().and_then(|number| u32::try_from(number).ok());
        let Some(CheckedSite { operation, bytes, flags, .. }) = number.and_then(|number| sites.get(number)) else {
            continue;
        };
        let site =
            CheckedSite { operation: operation.clone(), bytes: *bytes, flags: *flags, ..of_kind(SiteKind::Overflow) };
        if let Some(number) = sites.number(call, site) {
            call.set_operand(0, context.int(32).int_value(u64::from(number)));
        }
    }
}

/// What was to be computed: integers of up to 64 bits.
struct Operands {
    first: Value,
    /// None for a negation.
    second: Option<Value>,
    is_signed: bool,
}

impl Operands {
    /// Bytes of the first operand, and flags.
    fn described(&self) -> (u32, u32) {
        (self.first.ty().int_bits() / 8, if self.is_signed { SiteFlags::SIGNED } else { 0 })
    }

    /// Both as 64 bits.
    fn widened(&self, context: &Context, builder: &Builder) -> [Value; 2] {
        let word = context.int(64);
        let wide = |value: Value| if value.ty() == word { value } else { builder.cast(opcode::ZEXT, value, word) };
        [wide(self.first), self.second.map_or_else(|| word.int_value(0), wide)]
    }
}

/// The operands of arithmetic, from the condition under which a block goes on to the rest; nothing where they can't be told.
fn operands(operation: &str, before: &Block, rest: Block) -> Option<Operands> {
    let written = before.terminator().operand(0);
    let mut condition = written;
    while condition.is_instruction() {
        let is_expected = is_call(condition)
            && condition.called().as_function().is_some_and(|callee| callee.name().starts_with("llvm.expect"));
        if !is_expected && !matches!(condition.opcode(), opcode::XOR | opcode::FREEZE) {
            break;
        }
        condition = condition.operand(0);
    }
    if !condition.is_instruction() {
        return None;
    }
    let found = match condition.opcode() {
        opcode::EXTRACT_VALUE => {
            let call = condition.operand(0);
            if !call.is_instruction() || !is_call(call) {
                return None;
            }
            let name = call.called().as_function()?.name();
            let kind = name.strip_prefix("llvm.")?.split_once(".with.overflow.")?.0.to_owned();
            let [first, second] = call.arguments()[..] else { return None };
            Operands { first, second: Some(second), is_signed: kind.starts_with('s') }
        }
        opcode::ICMP => match operation {
            "neg" => Operands { first: condition.operand(0), second: None, is_signed: true },
            // It may also be turned around, with operands that are not these.
            "sub" if condition == written && condition.icmp_predicate() == BELOW && before.successors()[1] == rest => {
                Operands { first: condition.operand(0), second: Some(condition.operand(1)), is_signed: false }
            }
            "shl" | "shr" => {
                let is_shift = |value: &Value| matches!(value.opcode(), opcode::SHL | opcode::LSHR | opcode::ASHR);
                let shift = rest.instructions().find(is_shift)?;
                let first = shift.operand(0);
                if first.is_instruction() && first.block() == rest {
                    return None;
                }
                let is_signed = shift.opcode() == opcode::ASHR;
                Operands { first, second: Some(condition.operand(0)), is_signed }
            }
            _ => return None,
        },
        _ => return None,
    };
    let fits = |value: Value| value.ty().kind() == kind::INTEGER && value.ty().int_bits() <= 64;
    (fits(found.first) && found.second.is_none_or(fits)).then_some(found)
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
