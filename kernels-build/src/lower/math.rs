//! Maths: what LLVM's PTX backend cannot compute by itself calls libdevice where it was found, else the `libm` crate.

use std::path::Path;

use super::Pipeline;
use super::link::read;
use super::names::TRIPLE;
use crate::job::LowerError;
use crate::llvm::{Context, Module, Type, Value, kind, linkage, opcode};

/// C's names of the functions of one float argument.
const UNARY: &[&str] = &[
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
    "exp10", "expm1", "log", "log2", "log10", "log1p", "cbrt", "tgamma", "lgamma", "erf", "erfc", "round",
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
    module.link(library).map_err(|reason| pipeline.internal(reason))
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
