//! Finds operands of inline PTX whose width is not that of their instruction, where this is plain to see.

/// Instructions whose operands all have the width of their one type.
const EVEN: &[&str] = &[
    "abs", "add", "addc", "and", "brev", "cos", "div", "ex2", "fma", "lg2", "mad", "madc", "max", "min", "mov", "mul",
    "neg", "not", "or", "rcp", "rem", "rsqrt", "sin", "sqrt", "sub", "subc", "tanh", "xor",
];

/// Bits of a type's register.
fn bits(ty: &str) -> Option<u32> {
    Some(match ty {
        "b16" | "u16" | "s16" | "f16" | "bf16" => 16,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" | "u16x2" | "s16x2" => 32,
        "b64" | "u64" | "s64" | "f64" | "f32x2" => 64,
        "b128" => 128,
        _ => return None,
    })
}

/// What is wrong with the widths (`operands`, by number) in a text with operands as `$0`.
pub(super) fn fault(text: &str, operands: &[u32]) -> Option<String> {
    text.split([';', '\n']).find_map(|statement| of_statement(statement, operands))
}

fn of_statement(statement: &str, operands: &[u32]) -> Option<String> {
    let mut statement = statement.trim_start_matches(|c: char| c == '{' || c.is_whitespace());
    if let Some((label, rest)) = statement.split_once(':')
        && label.trim().chars().all(|c| c.is_ascii_alphanumeric() || "_$%".contains(c))
    {
        statement = rest.trim_start();
    }
    if statement.starts_with('@') {
        statement = statement.split_once(char::is_whitespace)?.1.trim_start();
    }
    let (instruction, arguments) = statement.split_once(char::is_whitespace)?;
    let mut parts = instruction.split('.');
    let name = parts.next()?;
    let parts: Vec<&str> = parts.collect();
    let types: Vec<u32> = parts.iter().filter_map(|part| bits(part)).collect();
    // Vectors in braces and addresses in brackets have widths of their own.
    if !EVEN.contains(&name) || types.len() != 1 || parts.contains(&"wide") || arguments.contains(['{', '[', '|']) {
        return None;
    }
    arguments.split(',').enumerate().find_map(|(place, argument)| {
        let number: usize = argument.trim().strip_prefix('$')?.parse().ok()?;
        let found = *operands.get(number)?;
        (found != types[0]).then(|| {
            format!("`{instruction}` takes operands of {} bits, and its operand {} has {found}", types[0], place + 1)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_compared_where_they_are_plain() {
        let operands = [32, 64, 16];
        for right in [
            "add.u32 $0, $0, 7;",
            "mul.wide.u32 $1, $0, $0;",
            "cvt.u64.u32 $1, $0;",
            "mov.b64 $1, {$0, $0};",
            "fma.rn.f32.f16 $0, $2, $2, $0;",
            "ld.u8 $0, [$1];",
            "shl.b64 $1, $1, $0;",
            "{ .reg .pred p; setp.ne.u32 p, $0, 0; @p add.f16 $2, $2, $2; }",
        ] {
            assert_eq!(fault(right, &operands), None, "{right}");
        }
        for (wrong, part) in [
            ("add.u32 $0, $1, 7;", "`add.u32` takes operands of 32 bits, and its operand 2 has 64"),
            (
                "{ .reg .pred p; @p add.rn.f64 $1, $1, $2; }",
                "`add.rn.f64` takes operands of 64 bits, and its operand 3 has 16",
            ),
            ("bar.sync 0;\nL: @!p mov.b16 $0, 1;", "`mov.b16` takes operands of 16 bits, and its operand 1 has 32"),
        ] {
            assert_eq!(fault(wrong, &operands).as_deref(), Some(part), "{wrong}");
        }
    }
}
