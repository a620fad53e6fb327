//! Maths: what LLVM's PTX backend cannot compute by itself calls libdevice where it was found, else the `libm` crate.

use std::collections::HashSet;
use std::path::Path;

use super::Pipeline;
use super::asm;
use super::constants::ConstBytes;
use super::link::read;
use super::names::TRIPLE;
use crate::job::LowerError;
use crate::llvm::{Context, Module, Type, Value, kind, linkage, opcode};

/// C's names of the functions of one float argument.
const UNARY: &[&str] = &[
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
    "exp10", "expm1", "log", "log2", "log10", "log1p", "cbrt", "rcbrt", "sinpi", "cospi", "tgamma", "lgamma", "erf",
    "erfc", "round",
];
/// C's names of the functions of two.
const BINARY: &[&str] = &["pow", "atan2", "hypot", "fmod", "fdim"];

/// Which function an intrinsic or a C name stands for, and whether it is the `f32` one.
fn wanted(name: &str) -> Option<(String, bool)> {
    let (base, single) = if let Some(rest) = name.strip_prefix("llvm.") {
        let (base, ty) = rest.split_once('.')?;
        let base = if base == "powi" { "powi" } else { base };
        match ty {
            "f32" | "f32.i32" => (base, true),
            "f64" | "f64.i32" => (base, false),
            _ => return None,
        }
    } else if let Some(base) = name.strip_suffix('f').filter(|base| UNARY.contains(base) || BINARY.contains(base)) {
        (base, true)
    } else {
        (name, false)
    };
    let known = UNARY.contains(&base) || BINARY.contains(&base) || base == "powi";
    // `round` is exact in LLVM's own lowering; `lgamma_r` has another signature and is refused by `validate`.
    (known && base != "round").then(|| (base.to_owned(), single))
}

/// Points calls of maths functions at their bodies.
pub(super) fn replace(context: &Context, module: &Module, libdevice: bool) {
    inverse_hyperbolic(context, module, libdevice);
    for function in module.functions() {
        if !function.is_declaration() || !function.has_uses() {
            continue;
        }
        let Some((base, single)) = wanted(&function.name()) else { continue };
        let ty = function.value_type();
        if !has_signature(ty, single, &base) {
            continue;
        }
        let target = module.declare(&symbol(&base, single, libdevice), ty);
        if target != function {
            function.replace_uses(target);
        }
    }
    for function in module.functions() {
        for instruction in function.instructions() {
            if instruction.opcode() == opcode::FREM {
                remainder(context, module, instruction, libdevice);
            }
        }
    }
}

/// std writes `asinh`, `acosh` and `atanh` as formulas, which are far off near their ends: the inner logarithm becomes a call
/// of the function itself.
fn inverse_hyperbolic(context: &Context, module: &Module, libdevice: bool) {
    for (ty, name, ln, ln_1p) in
        [(context.f32(), "f", "llvm.log.f32", "log1pf"), (context.f64(), "", "llvm.log.f64", "log1p")]
    {
        let single = name == "f";
        let calls = |name: &str| {
            let users = module.function(name).map(Value::users).unwrap_or_default();
            users.into_iter().filter(|user| user.is_instruction() && user.opcode() == opcode::CALL)
        };
        let function = ty.function(&[ty]);
        let builder = context.builder();
        let replace = |call: Value, base: &str, x: Value| {
            builder.before(call);
            builder.call(function, module.declare(&symbol(base, single, libdevice), function), &[x])
        };
        for call in calls(ln) {
            if let Some(x) = acosh_argument(call.operand(0)) {
                call.replace_with(replace(call, "acosh", x));
            }
        }
        for call in calls(ln_1p) {
            if let Some(x) = asinh_argument(call.operand(0)) {
                call.replace_with(replace(call, "asinh", x));
            } else if let Some(x) = atanh_argument(call.operand(0)) {
                // Half of it follows.
                let value = replace(call, "atanh", x);
                call.replace_with(builder.binary(opcode::FMUL, value, ty.real(2.0)));
            }
        }
    }
}

/// The operands of an operation on floats.
fn operands(value: Value, code: i32) -> Option<(Value, Value)> {
    (value.is_instruction() && value.opcode() == code).then(|| (value.operand(0), value.operand(1)))
}

/// The operand that is not `constant`.
fn beside(pair: (Value, Value), constant: f64) -> Option<Value> {
    let constant = pair.0.ty().real(constant);
    match pair {
        (a, b) if b == constant => Some(a),
        (a, b) if a == constant => Some(b),
        _ => None,
    }
}

/// The arguments of a call of one of these functions.
fn called_with(value: Value, names: &[&str]) -> Option<Vec<Value>> {
    let is_call = value.is_instruction() && value.opcode() == opcode::CALL;
    let name = is_call.then(|| value.called().as_function())??.name();
    names.contains(&name.as_str()).then(|| value.arguments())
}

/// `x` of `x + sqrt(x - 1) * sqrt(x + 1)`.
fn acosh_argument(sum: Value) -> Option<Value> {
    let (x, product) = operands(sum, opcode::FADD)?;
    let (below, above) = operands(product, opcode::FMUL)?;
    let root = |value| Some(called_with(value, &["llvm.sqrt.f32", "llvm.sqrt.f64"])?[0]);
    let (minuend, one) = operands(root(below)?, opcode::FSUB)?;
    let is_below = minuend == x && one == x.ty().real(1.0);
    let is_above = beside(operands(root(above)?, opcode::FADD)?, 1.0) == Some(x);
    (is_below && is_above).then_some(x)
}

/// `a` of `a + a / (hypot(1, 1 / a) + 1 / a)`.
fn asinh_argument(sum: Value) -> Option<Value> {
    const HYPOT: [&str; 6] =
        ["hypot", "hypotf", "__nv_hypot", "__nv_hypotf", "__warpsmith_math_hypot", "__warpsmith_math_hypotf"];
    let (a, quotient) = operands(sum, opcode::FADD)?;
    let (dividend, divisor) = operands(quotient, opcode::FDIV)?;
    let (hypot, inverse) = operands(divisor, opcode::FADD)?;
    let one = a.ty().real(1.0);
    let is_hypot = called_with(hypot, &HYPOT)? == [one, inverse];
    let is_inverse = operands(inverse, opcode::FDIV)? == (one, a);
    (dividend == a && is_hypot && is_inverse).then_some(a)
}

/// `x` of `2 x / (1 - x)`.
fn atanh_argument(quotient: Value) -> Option<Value> {
    let (double, divisor) = operands(quotient, opcode::FDIV)?;
    let x = beside(operands(double, opcode::FMUL)?, 2.0)?;
    (operands(divisor, opcode::FSUB)? == (x.ty().real(1.0), x)).then_some(x)
}

fn symbol(base: &str, single: bool, libdevice: bool) -> String {
    let suffix = if single { "f" } else { "" };
    if libdevice { format!("__nv_{base}{suffix}") } else { format!("__warpsmith_math_{base}{suffix}") }
}

fn has_signature(ty: Type, single: bool, base: &str) -> bool {
    let float = if single { kind::FLOAT } else { kind::DOUBLE };
    let parameters = ty.parameter_types();
    let count = if BINARY.contains(&base) || base == "powi" { 2 } else { 1 };
    ty.return_type().kind() == float && parameters.len() == count && parameters[0].kind() == float
}

/// `%` on floats: LLVM expands it inexactly, so it becomes a call of a true `fmod`.
fn remainder(context: &Context, module: &Module, instruction: Value, libdevice: bool) {
    let ty = instruction.ty();
    let single = match ty.kind() {
        kind::FLOAT => true,
        kind::DOUBLE => false,
        _ => return,
    };
    let callee_type = ty.function(&[ty, ty]);
    let callee = module.declare(&symbol("fmod", single, libdevice), callee_type);
    let builder = context.builder();
    builder.before(instruction);
    let value = builder.call(callee_type, callee, &[instruction.operand(0), instruction.operand(1)]);
    instruction.replace_with(value);
}

/// Links what of libdevice is called.
pub(super) fn link_libdevice(
    context: &Context,
    module: &Module,
    path: &Path,
    pipeline: &Pipeline<'_>,
) -> Result<(), LowerError> {
    let bitcode = read(path)?;
    let library = context
        .parse_lazily(&bitcode, "libdevice")
        .map_err(|reason| pipeline.internal(format!("{}: {reason}", path.display())))?;
    library.set_target(TRIPLE, &pipeline.machine);
    for symbol in library.functions().chain(library.globals()) {
        if !symbol.is_declaration() && symbol.linkage() != linkage::INTERNAL && symbol.linkage() != linkage::PRIVATE {
            symbol.set_linkage(linkage::LINK_ONCE_ODR);
        }
    }
    // Its tables are never written, though not all are marked so.
    library.globals().filter(|global| !global.is_declaration()).for_each(|global| global.set_global_constant(true));
    let names: HashSet<String> = library.functions().filter(|f| !f.is_declaration()).map(Value::name).collect();
    module.link(library).map_err(|reason| pipeline.internal(reason))?;
    module.functions().filter(|function| names.contains(&function.name())).for_each(asm::accept);
    answer_queries(context, module);
    Ok(())
}

/// libdevice asks how exact square roots are to be: as exact as Rust's. Its other questions LLVM answers with 0.
fn answer_queries(context: &Context, module: &Module) {
    let queries = module.function("__nvvm_reflect").map(Value::users).unwrap_or_default();
    for query in queries.into_iter().filter(|user| user.is_instruction() && user.opcode() == opcode::CALL) {
        let asked = ConstBytes::of_global(query.operand(0));
        if asked.is_some_and(|asked| asked.bytes.starts_with(b"__CUDA_PREC_SQRT")) {
            query.replace_with(context.int(32).int_value(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intrinsics_and_c_names_mean_the_same_function() {
        assert_eq!(wanted("llvm.sin.f32"), Some(("sin".into(), true)));
        assert_eq!(wanted("sinf"), Some(("sin".into(), true)));
        assert_eq!(wanted("sin"), Some(("sin".into(), false)));
        assert_eq!(wanted("erf"), Some(("erf".into(), false)));
        assert_eq!(wanted("llvm.powi.f64.i32"), Some(("powi".into(), false)));
        assert_eq!(wanted("llvm.sqrt.f32"), None);
        assert_eq!(wanted("llvm.sin.v4f32"), None);
    }
}
