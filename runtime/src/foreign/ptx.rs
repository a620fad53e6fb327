//! What is read from the text of PTX: its entries, and the sizes of their parameters.

use super::signature::{EntrySignature, Parameter};

/// The text with each comment made into a space. Strings are kept.
pub(crate) fn without_comments(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"']) {
        result.push_str(&rest[..at]);
        rest = &rest[at..];
        let (kept, length) = if rest.starts_with("//") {
            ("", rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (" ", rest.find("*/").map_or(rest.len(), |end| end + 2))
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let length = quoted.find('"').map_or(rest.len(), |end| end + 2);
            (&rest[..length], length)
        } else {
            ("/", 1)
        };
        result.push_str(kept);
        rest = &rest[length..];
    }
    result.push_str(rest);
    result
}

/// The word after a directive, in text without comments.
pub(crate) fn directive<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()
}

/// The entries of a module, in order. What cannot be read is left out.
pub(crate) fn entries(text: &str) -> Vec<EntrySignature> {
    const ENTRY: &str = ".entry";
    let text = without_comments(text);
    let mut entries = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(ENTRY) {
        rest = &rest[at + ENTRY.len()..];
        if !rest.starts_with(char::is_whitespace) {
            continue;
        }
        let Some(entry) = entry(rest) else { continue };
        entries.push(entry);
    }
    entries
}

/// One entry, from its name on.
fn entry(text: &str) -> Option<EntrySignature> {
    let text = text.trim_start();
    let end = text.find(|c: char| !is_name(c))?;
    let (name, text) = text.split_at(end);
    if name.is_empty() {
        return None;
    }
    let text = text.trim_start();
    let Some(list) = text.strip_prefix('(') else {
        // Without a list it takes none.
        return Some(EntrySignature { name: name.to_owned(), parameters: Some(Vec::new()) });
    };
    let list = &list[..list.find(')')?];
    let parameters: Option<Vec<Parameter>> =
        list.split(',').map(str::trim).filter(|text| !text.is_empty()).map(parameter).collect();
    Some(EntrySignature { name: name.to_owned(), parameters })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')
}

/// `.param .align 8 .b8 name[24]`, `.param .u64 .ptr .global .align 16 name`.
fn parameter(text: &str) -> Option<Parameter> {
    let words = text.replace('[', " [ ").replace(']', " ] ");
    let mut words = words.split_whitespace();
    if words.next()? != ".param" {
        return None;
    }
    let (mut element, mut align, mut is_pointer, mut length) = (None, None, false, None);
    while let Some(word) = words.next() {
        match word {
            ".align" => {
                let value: usize = words.next()?.parse().ok()?;
                // After `.ptr` it is what the pointer points to that is aligned.
                if !is_pointer {
                    align = Some(value);
                }
            }
            ".ptr" => is_pointer = true,
            "[" => length = Some(words.next()?.parse::<usize>().ok()?),
            "]" => {}
            _ => {
                if let Some(kind) = word.strip_prefix('.') {
                    element = element.or(type_bytes(kind));
                }
            }
        }
    }
    let element = element?;
    let bytes = element.checked_mul(length.unwrap_or(1))?;
    Some(Parameter { bytes, align: align.unwrap_or(element) })
}

/// Size of a fundamental type. State spaces (`.global` after `.ptr`) are no types.
fn type_bytes(name: &str) -> Option<usize> {
    match name {
        "u8" | "s8" | "b8" | "pred" => Some(1),
        "u16" | "s16" | "b16" | "f16" | "bf16" => Some(2),
        "u32" | "s32" | "b32" | "f32" | "f16x2" | "bf16x2" => Some(4),
        "u64" | "s64" | "b64" | "f64" | "texref" | "samplerref" | "surfref" => Some(8),
        "b128" => Some(16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<(String, Option<Vec<usize>>)> {
        entries(text)
            .into_iter()
            .map(|entry| (entry.name, entry.parameters.map(|all| all.iter().map(|each| each.bytes).collect())))
            .collect()
    }

    #[test]
    fn entries_and_their_parameters_are_read() {
        let text = "// .entry in a comment(\n.version 7.0\n.target sm_80\n.address_size 64\n\
            .visible .entry add(\n\t.param .u64 add_0, /* , .param .u8 no */\n\t.param .u64 .ptr .global .align 16 add_1,\n\
            \t.param .align 8 .b8 add_2[24],\n\t.param .f32 add_3,\n\t.param .u16 add_4,.param .u8 add_5\n)\n.maxntid 128\n{ ret; }\n\
            .entry $none { ret; }\n.weak .entry _Z5emptyv()\n{ ret; }\n.entry odd(.param .unknown x) { ret; }\n";
        assert_eq!(
            sizes(text),
            [
                ("add".to_owned(), Some(vec![8, 8, 24, 4, 2, 1])),
                ("$none".to_owned(), Some(vec![])),
                ("_Z5emptyv".to_owned(), Some(vec![])),
                ("odd".to_owned(), None),
            ]
        );
        assert_eq!(entries(text)[0].parameters.as_ref().unwrap()[2].align, 8);
        assert_eq!(entries(text)[0].parameters.as_ref().unwrap()[1].align, 8);
    }

    #[test]
    fn text_that_ends_anywhere_is_read_without_a_panic() {
        let text = ".version 7.0 /* c */ // d\n.file 1 \"a/b.cu\"\n.visible .entry add(.param .align 8 .b8 x[24], .param .u64 y) { ret; }";
        for end in 0..=text.len() {
            drop(entries(&text[..end]));
        }
        assert_eq!(without_comments("a /* b */ c // d\n\"e // f\" / g"), "a   c \n\"e // f\" / g");
    }
}
