//! Lists what the kernels reach and a GPU cannot run, with the calls that lead there.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::asm::{Asm, classify};
use super::entries::Entry;
use super::names::{
    ARCHITECTURE_AT_LEAST, DYNAMIC_SHARED, HIDDEN, NAMED_BARRIERS, PRINT_SITE, SHARED, SPECIAL_REGISTER, demangle,
};
use crate::job::LowerError;
use crate::llvm::{Context, FUNCTION, Module, Value, opcode};

/// Functions that the driver's compiler knows by itself.
const DEVICE_BUILTINS: &[&str] = &["malloc", "free", "vprintf"];

/// How a function was reached: from which one, and the line of the call.
#[derive(Clone)]
struct Step {
    from: Value,
    line: Option<(String, u32)>,
}

/// What was found.
enum Subject {
    Symbol(String),
    Asm(String),
    Static,
}

/// Something that a GPU cannot run.
struct Finding {
    subject: Subject,
    /// The function that reaches it, and the line there.
    from: Value,
    line: Option<(String, u32)>,
    what: String,
    remedy: &'static str,
}

/// Something that a GPU cannot run, if optimisation leaves it: code for other processors often folds away.
#[derive(Clone, Debug)]
pub(super) enum Doubt {
    /// A function, or a static of the standard library, by its symbol.
    Symbol { symbol: String, group: String, message: String },
    /// Inline assembly, by its text.
    Asm { template: String, group: String, message: String },
}

/// Refuses kernels that reach statics which a GPU does not have. Lists, for each kernel, what else it reaches and a GPU
/// cannot run.
///
/// # Errors
/// [`LowerError::Unsupported`] with one message for each kernel and static that is reached.
pub(super) fn check(context: &Context, module: &Module, entries: &[Entry]) -> Result<Vec<Vec<Doubt>>, LowerError> {
    // It has a body, and must still be found after optimisation.
    for function in module.functions().filter(|f| demangle(&f.name()).ends_with(CATCH)) {
        function.remove_attribute(FUNCTION, "alwaysinline");
        function.add_attribute(FUNCTION, context.enum_attribute("noinline", 0));
    }
    let mut problems = BTreeMap::new();
    let mut doubts = Vec::new();
    for entry in entries {
        let mut of_entry = Vec::new();
        if let Some(function) = module.function(&entry.symbol) {
            walk(entry, function, &mut problems, &mut of_entry);
        }
        doubts.push(of_entry);
    }
    if problems.is_empty() {
        return Ok(doubts);
    }
    Err(LowerError::Unsupported { problems: problems.into_values().collect() })
}

/// The messages of those doubts that optimisation left, one for each cause.
pub(super) fn remaining(module: &Module, doubts: &[Doubt]) -> Vec<String> {
    let mut left: BTreeMap<&str, &str> = BTreeMap::new();
    let templates: HashSet<String> = module
        .functions()
        .flat_map(Value::instructions)
        .filter(|i| i.opcode() == opcode::CALL && i.called().is_inline_asm())
        .map(|call| call.called().asm_parts().0)
        .collect();
    for doubt in doubts {
        let (there, group, message) = match doubt {
            Doubt::Symbol { symbol, group, message } => {
                let value = module.function(symbol).or_else(|| module.global(symbol));
                (value.is_some_and(Value::has_uses), group, message)
            }
            Doubt::Asm { template, group, message } => (templates.contains(template), group, message),
        };
        if there {
            left.entry(group).or_insert(message);
        }
    }
    left.into_values().map(str::to_owned).collect()
}

/// Visits all that one kernel reaches, nearest first.
fn walk(entry: &Entry, start: Value, problems: &mut BTreeMap<String, String>, doubts: &mut Vec<Doubt>) {
    let mut steps: HashMap<Value, Option<Step>> = HashMap::from([(start, None)]);
    let mut queue = VecDeque::from([start]);
    let mut found: Vec<Finding> = Vec::new();
    while let Some(value) = queue.pop_front() {
        let line = steps[&value].as_ref().and_then(|s| s.line.clone());
        let from = steps[&value].as_ref().map_or(value, |s| s.from);
        if let Some((what, remedy)) = refusal(value) {
            let is_of_user = value.as_global().is_some() && !is_of_std(&demangle(&value.name()));
            let subject = if is_of_user { Subject::Static } else { Subject::Symbol(value.name()) };
            found.push(Finding { subject, from, line, what, remedy });
            continue;
        }
        if value.as_function().is_some() {
            for instruction in value.instructions() {
                // libdevice has PTX of its own.
                let is_asm = instruction.opcode() == opcode::CALL && instruction.called().is_inline_asm();
                if is_asm && !value.name().starts_with("__nv") {
                    let (template, ..) = instruction.called().asm_parts();
                    if matches!(classify(&template), Asm::Foreign) {
                        let text = template.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
                        let what = format!("inline assembly for the host's processor (`{}`)", text.join("; "));
                        let (line, remedy) = (instruction.source_line(), "use a portable function instead");
                        found.push(Finding { subject: Subject::Asm(template), from: value, line, what, remedy });
                    }
                }
                for operand in instruction.operands() {
                    visit(operand, value, instruction.source_line(), &mut steps, &mut queue);
                }
            }
        } else if let Some(initializer) = value.as_global().and_then(Value::initializer) {
            // What a table refers to counts as reached by whoever reaches the table.
            visit(initializer, from, line, &mut steps, &mut queue);
        }
    }
    for Finding { subject, from, line, what, remedy } in found {
        let (path, group) = describe_path(&steps, from, line);
        let message = format!("kernel `{}` reaches {what}\n{path}  {remedy}", entry.title());
        match subject {
            Subject::Symbol(symbol) => doubts.push(Doubt::Symbol { symbol, group, message }),
            Subject::Asm(template) => doubts.push(Doubt::Asm { template, group, message }),
            Subject::Static => {
                problems.entry(format!("{}{group}", entry.title())).or_insert(message);
            }
        }
    }
}

fn visit(
    value: Value,
    from: Value,
    line: Option<(String, u32)>,
    steps: &mut HashMap<Value, Option<Step>>,
    queue: &mut VecDeque<Value>,
) {
    if value.as_function().is_some() || value.as_global().is_some() {
        if value.as_function().is_some_and(Value::is_intrinsic) && !value.name().starts_with("llvm.x86.") {
            return;
        }
        steps.entry(value).or_insert_with(|| {
            queue.push_back(value);
            Some(Step { from, line })
        });
    } else if value.is_constant() {
        for operand in value.operands() {
            if operand.is_constant() {
                visit(operand, from, line.clone(), steps, queue);
            }
        }
    }
}

/// The function in which rustc calls what may panic and is to be caught.
const CATCH: &str = "__rust_try";

/// What to do instead of asking the operating system.
const STAYS_ON_HOST: &str = "files, threads, locks, clocks, the environment, sockets and C libraries stay on the host: use them \
                             before or after the launch, and pass the data; print with `gpu_println!`";

/// Whether a name is one of the standard library's.
fn is_of_std(name: &str) -> bool {
    let name = name.trim_start_matches(['<', '&']);
    // rustc's name for weak symbols, of which only the standard library has any.
    ["std::", "alloc::", "core::", "_rust_extern_with_linkage_"].iter().any(|start| name.starts_with(start))
}

/// Longest name that a message shows.
const NAME_CHARACTERS: usize = 160;

/// A name without the middle of what would fill screens.
fn short(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    if characters.len() <= NAME_CHARACTERS {
        return name.to_owned();
    }
    let half = NAME_CHARACTERS / 2;
    let (head, tail) = (&characters[..half], &characters[characters.len() - half..]);
    format!("{} .. {}", head.iter().collect::<String>(), tail.iter().collect::<String>())
}

/// Why a function or static cannot be there on a device, and what to do.
fn refusal(value: Value) -> Option<(String, &'static str)> {
    let symbol = value.name();
    let name = short(&demangle(&symbol));
    if value.as_global().is_some() {
        if is_of_std(&name) && (value.is_thread_local() || !value.is_global_constant()) {
            let remedy = if name.starts_with("std::hash::") {
                "give the `HashMap` a hasher without random state"
            } else {
                STAYS_ON_HOST
            };
            return Some((format!("the standard library's static `{name}`"), remedy));
        }
        if value.is_thread_local() {
            return Some((format!("the thread-local variable `{name}`"), "pass the value as an argument"));
        }
        if value.is_declaration() {
            return Some((format!("the static `{name}` of the host"), "pass what it holds as an argument"));
        }
        if !value.is_global_constant() && !symbol.starts_with("ws_") {
            return Some((
                format!("the static `{name}`, which can change at run time"),
                "a host static would silently be another variable on the device: use a buffer (of atomics, for a \
                 counter), shared memory within a block, or, for what the host sets between launches, `constant!`",
            ));
        }
        return None;
    }
    if name.ends_with(CATCH) {
        return Some((
            "`catch_unwind`".to_owned(),
            "a panic ends its thread on a GPU and nothing can catch it: test beforehand, or use `Result` or `Option`",
        ));
    }
    if symbol.starts_with("llvm.x86.") {
        return Some((format!("the vendor intrinsic `{symbol}`"), "use portable code, or a crate's portable feature"));
    }
    let known = [SHARED, DYNAMIC_SHARED, NAMED_BARRIERS, HIDDEN, PRINT_SITE, ARCHITECTURE_AT_LEAST]
        .contains(&symbol.as_str())
        || symbol.starts_with(SPECIAL_REGISTER)
        || symbol.starts_with("__nv")
        || DEVICE_BUILTINS.contains(&symbol.as_str());
    if !value.is_declaration() || known || value.is_intrinsic() {
        return None;
    }
    Some(if symbol.starts_with("_R") || symbol.starts_with("_ZN") {
        (
            format!("`{name}`, whose code is not in the bitcode of this build"),
            "the crate may be compiled without bitcode; call something else, or report it with the crate's name",
        )
    } else {
        (format!("the function `{symbol}` of the host's system or of a C library"), STAYS_ON_HOST)
    })
}

/// The calls from the kernel to a function, one a line, and what problems with the same cause have in common.
fn describe_path(
    steps: &HashMap<Value, Option<Step>>,
    end: Value,
    last_line: Option<(String, u32)>,
) -> (String, String) {
    let mut calls = Vec::new();
    let mut at = end;
    let mut line = last_line;
    loop {
        calls.push((short(&demangle(&at.name())), line));
        match steps.get(&at) {
            Some(Some(step)) => {
                line = step.line.clone();
                at = step.from;
            }
            _ => break,
        }
    }
    calls.reverse();
    let mut text = String::new();
    let mut group = String::new();
    let mut inside_std = false;
    for (i, (name, line)) in calls.iter().enumerate() {
        let place = line.as_ref().map_or_else(String::new, |(file, line)| format!(" at {file}:{line}"));
        // The entry's own name says nothing; the kernel was named before.
        if i > 0 {
            text.push_str(&format!("  which calls `{name}`\n"));
        }
        if !place.is_empty() {
            text.push_str(&format!("     {place}\n"));
        }
        if !inside_std {
            group.push_str(name);
        }
        inside_std |= is_of_std(name);
    }
    (text, group)
}
