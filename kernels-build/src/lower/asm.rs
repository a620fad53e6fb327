//! Rewrites the host's inline assembly: our `/*ptx: .. */` comments become PTX, `black_box` stays a value nobody sees
//! through, and queries of the host's processor answer zero.

mod widths;

use crate::bundle::Image;
use crate::llvm::{Context, Module, Type, Value, kind, opcode};

/// Stands before assembly that was rewritten already; PTX's text loses it in the end.
pub(super) const REWRITTEN: &str = "/*ws*/";

/// What a piece of inline assembly is.
pub(super) enum Asm {
    /// Rewritten already.
    Done,
    /// PTX without its comment, and the place of the `ptx!` where it is a user's.
    Ptx { text: String, site: Option<String> },
    /// Nothing but operands: `black_box`.
    Opaque,
    /// A query of the host's processor: its answer is zero.
    Query,
    /// A hint to the host's processor.
    Hint,
    /// A square root, which the device has too.
    SquareRoot,
    /// Something of the host's processor.
    Foreign,
}

pub(super) fn classify(template: &str) -> Asm {
    let text = template.trim();
    if text.starts_with(REWRITTEN) {
        return Asm::Done;
    }
    if let Some(inner) = text.strip_prefix("/*ptx:").and_then(|t| t.strip_suffix("*/")) {
        return Asm::Ptx { text: inner.trim().to_owned(), site: None };
    }
    if let Some(inner) = text.strip_prefix("/*ptx@").and_then(|t| t.strip_suffix("*/"))
        && let Some((site, text)) = inner.split_once("@@")
    {
        return Asm::Ptx { text: text.trim().to_owned(), site: Some(site.to_owned()) };
    }
    if text.is_empty()
        || (text.starts_with("/*") && text.ends_with("*/"))
        || text.starts_with('#') && !text.contains('\n')
    {
        return Asm::Opaque;
    }
    if text.contains("cpuid") || text.contains("xgetbv") {
        return Asm::Query;
    }
    if matches!(text, "pause" | "nop" | "mfence" | "lfence" | "sfence") {
        return Asm::Hint;
    }
    if (text.starts_with("sqrtss ") || text.starts_with("sqrtsd ")) && !text.contains([';', '\n']) {
        return Asm::SquareRoot;
    }
    Asm::Foreign
}

/// Rewrites every inline assembly that can be; what is left is [`Asm::Foreign`], and `validate` names it. Returns what is wrong
/// with the text of a `ptx!`.
pub(super) fn rewrite(context: &Context, module: &Module) -> Vec<String> {
    let mut problems = Vec::new();
    for function in module.functions() {
        for instruction in function.instructions() {
            if instruction.opcode() == opcode::CALL && instruction.called().is_inline_asm() {
                rewrite_call(context, module, instruction, &mut problems);
            }
        }
    }
    problems
}

/// Marks the assembly in a function of libdevice, which is PTX already, as what it is.
pub(super) fn accept(function: Value) {
    for call in function.instructions() {
        if call.opcode() == opcode::CALL && call.called().is_inline_asm() {
            let (template, constraints, side_effects) = call.called().asm_parts();
            let accepted = call.called_type().inline_asm(&format!("{REWRITTEN}{template}"), &constraints, side_effects);
            call.set_operand(call.operand_count() - 1, accepted);
        }
    }
}

fn rewrite_call(context: &Context, module: &Module, call: Value, problems: &mut Vec<String>) {
    let (template, constraints, side_effects) = call.called().asm_parts();
    let ty = call.called_type();
    let new = match classify(&template) {
        Asm::Done | Asm::Foreign => return,
        Asm::Ptx { text, site } => {
            let text = plain_operands(&text);
            let mut head = String::new();
            if let Some(site) = site {
                if let Some(fault) = widths::fault(&text, &operand_bits(ty)) {
                    let problem = format!("`ptx!` at {}: {fault}", site.replace("$$", "$"));
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
                head = format!("{}{site}\n\t", Image::INLINE_SITE);
            }
            let text = format!("{REWRITTEN}{head}{text}");
            ty.inline_asm(&text, &ptx_constraints(&constraints, ty), side_effects)
        }
        Asm::Opaque => ty.inline_asm(REWRITTEN, &ptx_constraints(&constraints, ty), true),
        Asm::Query => {
            call.replace_with_zero();
            return;
        }
        Asm::Hint => {
            call.erase();
            return;
        }
        Asm::SquareRoot => {
            square_root(context, module, call);
            return;
        }
    };
    call.set_operand(call.operand_count() - 1, new);
}

fn square_root(context: &Context, module: &Module, call: Value) {
    let ty = call.ty();
    let suffix = match ty.kind() {
        kind::FLOAT => "f32",
        kind::DOUBLE => "f64",
        _ => return,
    };
    let ty = ty.function(&[ty]);
    let intrinsic = module.declare(&format!("llvm.sqrt.{suffix}"), ty);
    let builder = context.builder();
    builder.before(call);
    call.replace_with(builder.call(ty, intrinsic, &call.arguments()[..1]));
}

impl Value {
    fn replace_with_zero(self) {
        if self.has_uses() {
            self.replace_uses(self.ty().null());
        }
        self.erase();
    }
}

/// Drops the host's width modifiers: `${0:k}` is `$0`.
fn plain_operands(template: &str) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else { break };
        let inside = &rest[at + 2..at + end];
        out.push('$');
        out.push_str(inside.split(':').next().unwrap_or(inside));
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    out
}

fn letter(ty: Type) -> &'static str {
    match ty.kind() {
        kind::FLOAT => "f",
        kind::DOUBLE => "d",
        kind::HALF => "h",
        kind::INTEGER if ty.int_bits() <= 16 => "h",
        kind::INTEGER if ty.int_bits() <= 32 => "r",
        kind::INTEGER if ty.int_bits() == 128 => "q",
        _ => "l",
    }
}

/// Results of inline assembly, one or several.
fn outputs(ty: Type) -> Vec<Type> {
    match ty.return_type() {
        t if t.kind() == kind::VOID => Vec::new(),
        t if t.kind() == kind::STRUCT => t.fields(),
        t => vec![t],
    }
}

/// The width of each operand, outputs first.
fn operand_bits(ty: Type) -> Vec<u32> {
    let bits = |t: Type| match letter(t) {
        "h" => 16,
        "r" | "f" => 32,
        "q" => 128,
        _ => 64,
    };
    outputs(ty).into_iter().chain(ty.parameter_types()).map(bits).collect()
}

/// The instructions of rewritten assembly, without the comment before them.
pub(super) fn instructions(template: &str) -> &str {
    let text = template.strip_prefix(REWRITTEN).unwrap_or(template);
    match text.strip_prefix(Image::INLINE_SITE) {
        Some(rest) => rest.split_once('\n').map_or("", |(_, text)| text),
        None => text,
    }
}

/// The PTX version that instructions need, where it may be above what their architecture gets by itself.
pub(super) fn ptx_version(template: &str) -> u32 {
    const NEEDED: &[(&str, u32)] = &[
        ("tanh.approx", 70),
        ("stacksave", 73),
        ("stackrestore", 73),
        ("alloca", 73),
        ("copysign", 73),
        ("createpolicy", 74),
        ("applypriority", 74),
        ("discard.", 74),
        ("bmsk", 76),
        ("szext", 76),
        ("mapa", 78),
        ("getctarank", 78),
        ("griddepcontrol", 78),
        ("stmatrix", 78),
        ("movmatrix", 78),
        ("barrier.cluster", 78),
        ("wgmma", 80),
        ("setmaxnreg", 80),
        ("elect.sync", 80),
        ("cp.async.bulk", 80),
        ("fence.proxy", 80),
        ("multimem", 81),
        ("st.async", 81),
        (".b128", 83),
        ("tensormap", 83),
        ("tcgen05", 86),
        ("clusterlaunchcontrol", 86),
        (".f32x2", 86),
    ];
    let text = instructions(template);
    NEEDED.iter().filter(|(word, _)| text.contains(word)).map(|(_, version)| *version).max().unwrap_or(0)
}

/// The operands' constraints by their types; of the clobbers only memory has a meaning.
fn ptx_constraints(constraints: &str, ty: Type) -> String {
    let mut outputs = outputs(ty).into_iter();
    let mut inputs = ty.parameter_types().into_iter();
    let mut new: Vec<String> = Vec::new();
    for constraint in split(constraints) {
        if constraint.starts_with('~') {
            if constraint == "~{memory}" {
                new.push(constraint);
            }
        } else if let Some(output) = constraint.strip_prefix('=') {
            let early = if output.starts_with('&') { "&" } else { "" };
            new.push(outputs.next().map_or_else(|| constraint.clone(), |t| format!("={early}{}", letter(t))));
        } else {
            let tied = constraint.chars().all(|c| c.is_ascii_digit());
            let input = inputs.next();
            new.push(match input {
                Some(t) if !tied => letter(t).to_owned(),
                _ => constraint,
            });
        }
    }
    new.join(",")
}

/// Splits at commas outside braces.
fn split(constraints: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut depth = 0;
    for c in constraints.chars() {
        match c {
            ',' if depth == 0 => {
                all.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        all.last_mut().expect("there is always one").push(c);
    }
    all.retain(|s| !s.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_modifiers_are_dropped() {
        assert_eq!(plain_operands("add.u32 ${0:k}, $1, ${2:k};"), "add.u32 $0, $1, $2;");
        assert_eq!(plain_operands("exit;"), "exit;");
    }

    #[test]
    fn constraints_split_outside_braces_only() {
        assert_eq!(split("=&{ax},r,~{dirflag}"), ["=&{ax}", "r", "~{dirflag}"]);
        assert!(split("").is_empty());
    }

    #[test]
    fn comments_of_ours_are_told_from_foreign_text() {
        assert!(matches!(classify("/*ptx: bar.sync 0; */"), Asm::Ptx { text, site: None } if text == "bar.sync 0;"));
        assert!(matches!(
            classify("/*ptx@src/a b.rs:3:7@@ exit; */"),
            Asm::Ptx { text, site: Some(site) } if text == "exit;" && site == "src/a b.rs:3:7"
        ));
        assert_eq!(instructions("/*ws*/// ptx! at src/barrier.rs:3:7\n\texit;"), "\texit;");
        assert!(matches!(classify("/* {0} */"), Asm::Opaque));
        assert!(matches!(classify("mov %rbx, $0; cpuid"), Asm::Query));
        assert!(matches!(classify("sqrtsd $0, $1"), Asm::SquareRoot));
        assert!(matches!(classify("rdtsc"), Asm::Foreign));
        assert!(matches!(classify("/*ws*/bar.sync 0;"), Asm::Done));
    }
}
