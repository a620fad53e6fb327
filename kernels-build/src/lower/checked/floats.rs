//! A look at each result of arithmetic on floats: what is not finite goes to the checker, with what it was made from.

use super::sites::{Sites, of_kind};
use crate::bundle::{CheckedSite, SiteKind, SiteValue};
use crate::llvm::{Context, FUNCTION, Module, Type, Value, is_call, kind, opcode};

const HOOK: &str = "__warpsmith_check_non_finite";

/// `icmp eq` of LLVM's C API.
const EQUAL: i32 = 32;

/// Puts the looks in.
pub(super) fn announce(context: &Context, module: &Module, sites: &mut Sites) {
    let functions: Vec<Value> = module.functions().filter(|function| !function.is_declaration()).collect();
    let (f32, f64) = (context.f32(), context.f64());
    let looks = [(f32, f32), (f64, f64), (f32, f64)].map(|(result, from)| Look::new(context, module, result, from));
    for function in functions {
        let all: Vec<Value> = function.instructions().collect();
        for instruction in all {
            let Some((operation, operands)) = operation(instruction) else { continue };
            for look in &looks {
                look.at(context, instruction, &operation, &operands, sites);
            }
        }
    }
    for look in looks {
        if !look.function.has_uses() {
            look.function.delete_function();
        }
    }
}

/// What an instruction computes and from which floats; nothing for those that give no float.
fn operation(instruction: Value) -> Option<(String, Vec<Value>)> {
    let name = match instruction.opcode() {
        opcode::FADD => "+",
        opcode::FSUB => "-",
        opcode::FMUL => "*",
        opcode::FDIV => "/",
        opcode::FREM => "%",
        opcode::FPTRUNC => "as f32",
        _ if is_call(instruction) => {
            let callee = instruction.called().as_function().filter(|callee| callee.is_declaration())?;
            let name = callee.name();
            let name = name.strip_prefix("llvm.").unwrap_or(&name);
            let name = name.split('.').next().unwrap_or_default().to_owned();
            let arguments = instruction.arguments();
            if name == "powi" {
                return Some((name, arguments[..1].to_vec()));
            }
            let same = !arguments.is_empty() && arguments.iter().all(|argument| argument.ty() == instruction.ty());
            // What only passes a value on makes none.
            return (same
                && !matches!(name.as_str(), "minnum" | "maxnum" | "minimum" | "maximum" | "copysign" | "fabs"))
            .then_some((name, arguments));
        }
        _ => return None,
    };
    Some((name.to_owned(), instruction.operands()))
}

/// The function that looks at results of one type that are made from operands of one type.
struct Look {
    function: Value,
    ty: Type,
    operand: Type,
}

impl Look {
    /// Writes the function: `(result, first, second, third, how many operands, site)`.
    fn new(context: &Context, module: &Module, ty: Type, operand: Type) -> Self {
        let (double, int) = (context.f64(), context.int(32));
        let hook = module.declare(HOOK, context.void().function(&[int, double, double, double, double, int]));
        let is_double = ty == double;
        let is_narrowed = operand != ty;
        let name = format!(
            "warpsmith.look.{}{}",
            if is_double { "f64" } else { "f32" },
            if is_narrowed { ".of.f64" } else { "" }
        );
        let function = module.add_function(&name, context.void().function(&[ty, operand, operand, operand, int, int]));
        function.set_linkage(crate::llvm::linkage::INTERNAL);
        function.add_attribute(FUNCTION, context.enum_attribute("alwaysinline", 0));
        let [start, odd, end] = ["start", "odd", "end"].map(|name| function.append_block(context, name));
        let [result, first, second, third, operands, site] = function.parameters()[..] else {
            unreachable!("six parameters")
        };
        let builder = context.builder();
        builder.at_end(start);
        let (bits, exponent) = if is_double { (64, 0x7ff0_0000_0000_0000) } else { (32, 0x7f80_0000) };
        let word = context.int(bits);
        let exponent = word.int_value(exponent);
        let found = builder.cast(opcode::BITCAST, result, word);
        let found = builder.binary(opcode::AND, found, exponent);
        builder.branch_if(builder.icmp(EQUAL, found, exponent), odd, end);
        builder.at_end(odd);
        let wide = |value: Value| if value.ty() == double { value } else { builder.cast(opcode::FPEXT, value, double) };
        builder.call_function(hook, &[site, wide(result), wide(first), wide(second), wide(third), operands]);
        builder.branch(end);
        builder.at_end(end);
        builder.ret(None);
        Self { function, ty, operand }
    }

    /// Looks at an instruction's result, if it is of this type or a vector of it.
    fn at(&self, context: &Context, instruction: Value, operation: &str, operands: &[Value], sites: &mut Sites) {
        let ty = instruction.ty();
        let lanes = match ty.kind() {
            kind::VECTOR if ty.element() == self.ty => ty.vector_len(),
            _ if ty == self.ty => 0,
            _ => return,
        };
        let from = operands[0].ty();
        if (if lanes == 0 { from } else { from.element() }) != self.operand {
            return;
        }
        let Some(after) = instruction.next() else { return };
        let value = if self.operand == context.f64() { SiteValue::F64 } else { SiteValue::F32 } as u32;
        let site = CheckedSite { operation: operation.to_owned(), value, ..of_kind(SiteKind::Float) };
        let Some(number) = sites.number(instruction, site) else { return };
        let number = context.int(32).int_value(u64::from(number));
        let builder = context.builder();
        builder.before(after);
        let count = context.int(32).int_value(operands.len().min(3) as u64);
        let first = operands[0];
        let second = operands.get(1).copied().unwrap_or(first);
        let third = operands.get(2).copied().unwrap_or(second);
        let look = |parts: [Value; 4]| {
            let [result, first, second, third] = parts;
            builder.call_function(self.function, &[result, first, second, third, count, number]);
        };
        if lanes == 0 {
            look([instruction, first, second, third]);
        }
        for lane in 0..lanes {
            let lane = context.int(32).int_value(u64::from(lane));
            look([instruction, first, second, third].map(|vector| builder.extract_element(vector, lane)));
        }
    }
}
