//! What can be known to be wrong about PTX without an assembler.

use syn::Error;

use super::template::Piece;
use super::{Class, Ptx};

/// Instructions, up to their first dot.
const INSTRUCTIONS: &[&str] = &[
    "abs",
    "activemask",
    "add",
    "addc",
    "alloca",
    "and",
    "applypriority",
    "atom",
    "bar",
    "barrier",
    "bfe",
    "bfi",
    "bfind",
    "bmsk",
    "bra",
    "brev",
    "brkpt",
    "brx",
    "call",
    "clusterlaunchcontrol",
    "clz",
    "cnot",
    "copysign",
    "cos",
    "cp",
    "createpolicy",
    "cvt",
    "cvta",
    "discard",
    "div",
    "dp2a",
    "dp4a",
    "elect",
    "ex2",
    "exit",
    "fence",
    "fma",
    "fns",
    "getctarank",
    "griddepcontrol",
    "isspacep",
    "istypep",
    "ld",
    "ldmatrix",
    "ldu",
    "lg2",
    "lop3",
    "mad",
    "mad24",
    "madc",
    "mapa",
    "match",
    "max",
    "mbarrier",
    "membar",
    "min",
    "mma",
    "mov",
    "movmatrix",
    "mul",
    "mul24",
    "multimem",
    "nanosleep",
    "neg",
    "not",
    "or",
    "pmevent",
    "popc",
    "prefetch",
    "prefetchu",
    "prmt",
    "rcp",
    "red",
    "redux",
    "rem",
    "ret",
    "rsqrt",
    "sad",
    "selp",
    "set",
    "setmaxnreg",
    "setp",
    "shf",
    "shfl",
    "shl",
    "shr",
    "sin",
    "slct",
    "sqrt",
    "st",
    "stackrestore",
    "stacksave",
    "stmatrix",
    "sub",
    "subc",
    "suld",
    "suq",
    "sured",
    "sust",
    "szext",
    "tanh",
    "tcgen05",
    "tensormap",
    "testp",
    "tex",
    "tld4",
    "trap",
    "txq",
    "vabsdiff",
    "vabsdiff2",
    "vabsdiff4",
    "vadd",
    "vadd2",
    "vadd4",
    "vavrg2",
    "vavrg4",
    "vmad",
    "vmax",
    "vmax2",
    "vmax4",
    "vmin",
    "vmin2",
    "vmin4",
    "vote",
    "vset",
    "vset2",
    "vset4",
    "vshl",
    "vshr",
    "vsub",
    "vsub2",
    "vsub4",
    "wgmma",
    "wmma",
    "xor",
];

/// Directives that may stand among instructions.
const DIRECTIVES: &[&str] = &[
    ".branchtargets",
    ".callprototype",
    ".calltargets",
    ".const",
    ".local",
    ".loc",
    ".param",
    ".pragma",
    ".reg",
    ".shared",
];

/// Checks braces, the ends of statements and the names of instructions.
pub(super) fn text(pieces: &[Piece], ptx: &Ptx, problems: &mut Vec<Error>) {
    if let Err(message) = statements(pieces).and_then(|all| all.iter().try_for_each(|statement| judge(statement, ptx)))
    {
        problems.push(Error::new(ptx.texts[0].span(), message));
    }
}

/// Whether the text declares registers or labels outside of braces of its own.
pub(super) fn declares(pieces: &[Piece]) -> bool {
    let written = written(pieces);
    let mut depth = 0;
    let mut statement = String::new();
    for c in written.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' => statement.clear(),
            ':' if depth == 0 && is_name(statement.trim()) => return true,
            _ => statement.push(c),
        }
        if depth == 0 && statement.trim() == ".reg" {
            return true;
        }
    }
    false
}

/// The text as its author wrote it, but for doubled braces and comments; references in marks of their own.
fn written(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Operand(index) => format!("{OPEN}{index}{CLOSE}"),
        })
        .collect()
}

/// Stand around an operand's number, where braces would be taken for PTX's.
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';

fn shown(statement: &str) -> String {
    let words: Vec<&str> = statement.split_whitespace().collect();
    words.join(" ").replace(OPEN, "{").replace(CLOSE, "}")
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || "_$%".contains(c))
        && characters.all(|c| c.is_ascii_alphanumeric() || "_$".contains(c))
}

/// The statements, without the braces around them and the labels before them.
fn statements(pieces: &[Piece]) -> Result<Vec<String>, String> {
    let written = written(pieces);
    let (mut blocks, mut inner) = (0, 0);
    let mut all = Vec::new();
    let mut statement = String::new();
    let unended = |statement: &str| format!("a statement of PTX ends with `;`: add one after `{}`", shown(statement));
    for c in written.chars() {
        let is_empty = statement.trim().is_empty();
        match c {
            '{' if is_empty => blocks += 1,
            '}' if is_empty => blocks -= 1,
            '}' if inner == 0 => return Err(unended(&statement)),
            ';' if inner == 0 => {
                if !is_empty {
                    all.push(std::mem::take(&mut statement));
                }
                statement.clear();
            }
            ';' => return Err(format!("`{{{{` in `{}` has no `}}}}`", shown(&statement))),
            ':' if is_name(statement.trim()) => statement.clear(),
            _ => {
                inner += i32::from(c == '{') - i32::from(c == '}');
                statement.push(c);
            }
        }
        if blocks < 0 {
            return Err("the text has a `}}` without its `{{`".to_owned());
        }
    }
    if !statement.trim().is_empty() {
        return Err(unended(&statement));
    }
    if blocks > 0 {
        return Err("the text has a `{{` without its `}}`".to_owned());
    }
    Ok(all)
}

/// Checks one statement.
fn judge(statement: &str, ptx: &Ptx) -> Result<(), String> {
    for (open, close) in [('(', ')'), ('[', ']')] {
        if statement.matches(open).count() != statement.matches(close).count() {
            return Err(format!("`{open}` and `{close}` do not match in `{}`", shown(statement)));
        }
    }
    let mut words = statement.split_whitespace();
    let mut word = words.next().unwrap_or_default();
    if let Some(guard) = word.strip_prefix('@') {
        // `@p`, `@!p` and `@ p` are the same.
        let guard = if guard.is_empty() || guard == "!" { words.next().unwrap_or_default() } else { guard };
        check_guard(guard.trim_start_matches('!'), statement, ptx)?;
        word = words.next().unwrap_or_default();
        if word.is_empty() {
            return Err(format!("`{}` has a guard and no instruction", shown(statement)));
        }
    }
    if let Some(directive) = word.strip_prefix('.') {
        let name = format!(".{}", directive.split('.').next().unwrap_or_default());
        if DIRECTIVES.contains(&&*name) {
            return Ok(());
        }
        return Err(format!("`{name}` in `{}` is no directive that may stand among instructions", shown(statement)));
    }
    let name = word.split('.').next().unwrap_or_default();
    if INSTRUCTIONS.contains(&name) {
        return Ok(());
    }
    let near = INSTRUCTIONS.iter().min_by_key(|known| distance(name, known)).filter(|known| distance(name, known) <= 1);
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(format!("`{}` in `{}` is no instruction of PTX{near}", shown(name), shown(statement)))
}

/// A guard that is an operand is a predicate.
fn check_guard(guard: &str, statement: &str, ptx: &Ptx) -> Result<(), String> {
    let index = guard.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)).and_then(|index| index.parse().ok());
    match index.map(|index: usize| ptx.operands[index].parts().0) {
        None | Some(Some(Class::Predicate)) => Ok(()),
        Some(_) => Err(format!("the guard of `{}` is a predicate: pass a `bool` as `in(pred)`", shown(statement))),
    }
}

/// How many letters differ, with one left out, added or exchanged counted as one.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> Result<(), String> {
        let ptx = Ptx {
            texts: vec![syn::LitStr::new(text, proc_macro2::Span::call_site())],
            operands: Vec::new(),
            options: Vec::new(),
            cpu: None,
        };
        let mut problems = Vec::new();
        let pieces = super::super::template::pieces(&ptx, &mut problems);
        super::text(&pieces, &ptx, &mut problems);
        problems.first().map_or(Ok(()), |error| Err(error.to_string()))
    }

    #[test]
    fn real_texts_pass() {
        for text in [
            "exit;",
            "bar.sync 0;\n// a comment with ; and }} \nmembar.gl;",
            "{{ .reg .pred %p; setp.ne.u32 %p, %r1, 0; @!%p bra DONE; trap; DONE: }}",
            "{{ .reg .b32 t<4>; ld.global.v4.b32 {{t0, t1, t2, t3}}, [%rd1+16]; }}",
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
            "@ %p ret; .pragma \"nounroll\"; /* ; }} */",
        ] {
            assert_eq!(verdict(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("add.u32 %r1, %r2, %r3", "ends with `;`: add one after `add.u32 %r1, %r2, %r3`"),
            ("{{ exit }}", "add one after `exit`"),
            ("ad.u32 %r1, %r2, %r3;", "did you mean `add`?"),
            ("frobnicate.u32 %r1;", "`frobnicate` in `frobnicate.u32 %r1` is no instruction"),
            ("{{ exit;", "`{{` without its `}}`"),
            ("exit; }}", "`}}` without its `{{`"),
            ("ld.b32 {{%r1, %r2, [%rd1];", "`{{` in `ld.b32 {%r1, %r2, [%rd1]` has no `}}`"),
            ("ld.b32 %r1, [%rd1;", "`[` and `]` do not match"),
            (".visible .entry f;", "`.visible`"),
            ("exit; /* never", "has no end"),
        ] {
            let message = verdict(text).expect_err(text);
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
