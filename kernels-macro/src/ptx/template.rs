//! The text of `ptx!` as pieces: PTX, and references to operands.

use syn::Error;

use super::{Ptx, list};

/// A part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// PTX as it is, without comments.
    Text(String),
    /// The operand of this index.
    Operand(usize),
}

/// Takes the text apart. References to operands that are not there, and operands that nothing refers to, are problems.
pub(super) fn pieces(ptx: &Ptx, problems: &mut Vec<Error>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut used = vec![false; ptx.operands.len()];
    let mut next = 0;
    for literal in &ptx.texts {
        let value = literal.value();
        match split(&value) {
            Ok(parts) => {
                for part in parts {
                    let reference = match part {
                        Part::Text(text) => {
                            pieces.push(Piece::Text(text));
                            continue;
                        }
                        Part::Reference(reference) => reference,
                    };
                    match resolve(&reference, ptx, &mut next) {
                        Ok(index) => {
                            used[index] = true;
                            pieces.push(Piece::Operand(index));
                        }
                        Err(message) => problems.push(Error::new(literal.span(), message)),
                    }
                }
            }
            Err(message) => problems.push(Error::new(literal.span(), message)),
        }
        pieces.push(Piece::Text("\n".to_owned()));
    }
    if problems.is_empty() {
        for (operand, _) in ptx.operands.iter().zip(used).filter(|(_, used)| !used) {
            problems.push(Error::new(operand.span, "the text never names this operand; remove it, or name it"));
        }
    }
    pieces
}

/// The operand that a reference means.
fn resolve(reference: &str, ptx: &Ptx, next: &mut usize) -> Result<usize, String> {
    let reference = reference.trim();
    if reference.contains(':') {
        return Err(format!(
            "`{{{reference}}}`: operands of PTX have no modifiers; write the width into the instruction"
        ));
    }
    let count = ptx.operands.len();
    let index = if reference.is_empty() {
        *next += 1;
        *next - 1
    } else if let Ok(index) = reference.parse() {
        index
    } else {
        let by_name = |operand: &super::Operand| operand.name.as_ref().is_some_and(|name| name == reference);
        return ptx.operands.iter().position(by_name).ok_or_else(|| {
            let names: Vec<String> =
                ptx.operands.iter().filter_map(|o| o.name.as_ref()).map(|n| n.to_string()).collect();
            let names = list(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let there =
                if names.is_empty() { "no operand has a name".to_owned() } else { format!("there are {names}") };
            format!("`{{{reference}}}` names no operand: {there}; braces of PTX itself are doubled, `{{{{` and `}}}}`")
        });
    };
    if index < count {
        Ok(index)
    } else {
        let operands = if count == 1 { "operand" } else { "operands" };
        Err(format!("`{{{reference}}}` is operand number {index}, counted from 0, and there are {count} {operands}"))
    }
}

enum Part {
    Text(String),
    Reference(String),
}

/// Splits at references and drops comments.
fn split(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*") {
            rest = &rest[rest.find("*/").ok_or("the comment that `/*` starts has no end")? + 2..];
            plain.push(' ');
        } else if rest.starts_with("{{") || rest.starts_with("}}") {
            plain.push(c);
            rest = &rest[2..];
        } else if c == '{' {
            let end =
                rest.find('}').ok_or("`{` starts an operand and has no `}`; a brace of PTX itself is doubled: `{{`")?;
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Reference(rest[1..end].to_owned()));
            rest = &rest[end + 1..];
        } else if c == '}' {
            return Err("`}` ends no operand; a brace of PTX itself is doubled: `}}`".to_owned());
        } else {
            plain.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    parts.push(Part::Text(plain));
    Ok(parts)
}
