//! `number as T` in a kernel's body that is compiled for the checker: the cast, and a look at whether it kept the value.
//!
//! `E as u8` becomes `::warpsmith::__private::cast::checked(E, |value| value as u8)`. That has the type and the meaning of what it
//! replaces, whatever `E` is: a number, a pointer, an enum, a function. Three things are left as they are.
//!
//! - A cast to a type that is not written as one of Rust's number types, such as `_` or an alias: it may be to a pointer or a
//!   reference, and a cast borrows its operand where a call moves it.
//! - A cast of what may be a literal: `as` tells a literal its type, which a call does not.
//! - Casts outside of the kernel's own code: in items, constants, array lengths and patterns inside it, where no call can stand,
//!   and in arguments of macros, which are not expressions yet.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    AngleBracketedGenericArguments, Attribute, BinOp, Block, Expr, ExprBinary, ExprCast, ExprConst, ExprRepeat, Item,
    ItemFn, Pat, Stmt, Type, UnOp,
};

use crate::parse::peel;

/// The types of numbers.
const NUMBERS: [&str; 14] =
    ["i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f32", "f64"];

/// The `cfg` under which the nested build for the checker compiles.
const CHECKED: &str = "warpsmith_checked";

/// Whether this compiler compiles for the checker. A `cfg` in the expansion could tell too, but an ordinary build's compiler
/// would warn of it in every crate with kernels.
pub(crate) fn is_checked_build() -> bool {
    is_checked(arguments())
}

/// What the compiler was called with.
pub(crate) fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).flat_map(from_file)
}

/// The arguments in the file that stands for many.
fn from_file(argument: String) -> Vec<String> {
    match argument.strip_prefix('@').map(std::fs::read_to_string) {
        Some(Ok(text)) => text.lines().map(str::to_owned).collect(),
        _ => vec![argument],
    }
}

fn is_checked(arguments: impl Iterator<Item = String>) -> bool {
    let mut after_cfg = false;
    arguments.into_iter().any(|argument| {
        let names = if after_cfg { Some(argument.as_str()) } else { argument.strip_prefix("--cfg=") };
        let is_named = names == Some(CHECKED);
        after_cfg = argument == "--cfg";
        is_named
    })
}

/// The function with the casts of its body looked at. What this crate cannot parse stays as it is.
pub(crate) fn rewrite(item: TokenStream) -> TokenStream {
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else { return item };
    let mut casts = Casts { found: false };
    casts.visit_block_mut(&mut function.block);
    if casts.found { function.into_token_stream() } else { item }
}

struct Casts {
    found: bool,
}

impl VisitMut for Casts {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        let Expr::Cast(ExprCast { attrs, expr: operand, as_token, ty }) = expr else { return };
        if !attrs.is_empty() || !is_number(ty) || may_be_literal(operand) {
            return;
        }
        self.found = true;
        // The call's own place in the source is the cast's: the panics and findings that name it look at it. The variable is
        // nobody else's.
        let at = as_token.span();
        let value = Ident::new("value", Span::mixed_site().located_at(at));
        // What the cast needed around its operand would be too much in a call, and a lint says so.
        let operand = match &**operand {
            Expr::Paren(paren) if paren.attrs.is_empty() => &*paren.expr,
            operand => operand,
        };
        *expr = Expr::Verbatim(quote_spanned! {at=>
            ::warpsmith::__private::cast::checked(#operand, |#value| #value as #ty)
        });
    }

    fn visit_expr_repeat_mut(&mut self, repeat: &mut ExprRepeat) {
        self.visit_expr_mut(&mut repeat.expr);
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_angle_bracketed_generic_arguments_mut(&mut self, _: &mut AngleBracketedGenericArguments) {}
    fn visit_attribute_mut(&mut self, _: &mut Attribute) {}
}

/// Whether a type is written as one of Rust's number types.
fn is_number(ty: &Type) -> bool {
    let Type::Path(path) = peel(ty) else { return false };
    if path.qself.is_some() {
        return false;
    }
    let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments[..] {
        [name] => path.path.leading_colon.is_none() && NUMBERS.contains(&name),
        ["core" | "std", "primitive", name] => NUMBERS.contains(&name),
        _ => false,
    }
}

/// Whether an expression may get its type from what it is cast to: a literal, or what ends in one, or what nobody knows yet.
fn may_be_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) | Expr::Macro(_) | Expr::Const(_) | Expr::Loop(_) => true,
        Expr::Break(_) | Expr::Continue(_) | Expr::Return(_) | Expr::Infer(_) => true,
        Expr::Paren(paren) => may_be_literal(&paren.expr),
        Expr::Group(group) => may_be_literal(&group.expr),
        Expr::Unary(unary) => !matches!(unary.op, UnOp::Deref(_)) && may_be_literal(&unary.expr),
        Expr::Binary(ExprBinary { op: BinOp::Shl(_) | BinOp::Shr(_), left, .. }) => may_be_literal(left),
        Expr::Binary(binary) => may_be_literal(&binary.left) && may_be_literal(&binary.right),
        Expr::Block(block) => may_end_in_literal(&block.block),
        Expr::Unsafe(block) => may_end_in_literal(&block.block),
        Expr::If(branches) => {
            let otherwise = branches.else_branch.as_ref();
            may_end_in_literal(&branches.then_branch) || otherwise.is_none_or(|(_, expr)| may_be_literal(expr))
        }
        Expr::Match(arms) => arms.arms.iter().any(|arm| may_be_literal(&arm.body)),
        // Written by this module, or syntax that `syn` does not know: the first begins with a path.
        Expr::Verbatim(tokens) => !tokens.to_string().starts_with(":: warpsmith :: __private :: cast"),
        _ => false,
    }
}

fn may_end_in_literal(block: &Block) -> bool {
    match block.stmts.last() {
        Some(Stmt::Expr(expr, None)) => may_be_literal(expr),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> TokenStream {
        text.parse().expect("the test's text is Rust")
    }

    /// A statement, rewritten as part of a function; pretty enough to compare.
    fn rewritten(statement: &str) -> String {
        rewrite(tokens(&format!("fn kernel() {{ {statement} }}"))).to_string()
    }

    /// How it looks with the n-th `cast!(E, T)` standing for what is written for `E as T`.
    fn expected(statement: &str) -> String {
        let mut text = tokens(&format!("fn kernel() {{ {statement} }}")).to_string();
        while let Some(start) = text.find("cast ! (") {
            let inside = start + "cast ! (".len();
            let mut depth = 1;
            let mut comma = None;
            let end = text[inside..].char_indices().find_map(|(at, c)| {
                match c {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    ',' if depth == 1 => comma = Some(inside + at),
                    _ => {}
                }
                (depth == 0).then_some(inside + at)
            });
            let (end, comma) = (end.expect("it is closed"), comma.expect("it has a type"));
            let (operand, ty) = (text[inside..comma].trim(), text[comma + 1..end].trim());
            let call = format!(":: warpsmith :: __private :: cast :: checked ({operand} , | value | value as {ty})");
            text.replace_range(start..=end, &call);
        }
        tokens(&text).to_string()
    }

    #[test]
    fn casts_to_numbers_are_looked_at() {
        for (statement, with_casts) in [
            ("let x = y as u8;", "let x = cast!(y, u8);"),
            ("f(i.get() as f32 * 2.0)", "f(cast!(i.get(), f32) * 2.0)"),
            ("i.get() as u32 + 1", "cast!(i.get(), u32) + 1"),
            ("x as u8 as u32;", "cast!(cast!(x, u8), u32);"),
            ("(a + 1) as core::primitive::i64;", "cast!(a + 1, core::primitive::i64);"),
            (
                "a[x as usize] = y[(z as usize) + 1] as u16;",
                "a[cast!(x, usize)] = cast!(y[(cast!(z, usize)) + 1], u16);",
            ),
            ("for i in 0..n as usize { s += i as f64; }", "for i in 0..cast!(n, usize) { s += cast!(i, f64); }"),
            ("if (x as usize) < n { }", "if (cast!(x, usize)) < n { }"),
            ("let f = |x: u32| x as u8; f(3);", "let f = |x: u32| cast!(x, u8); f(3);"),
            ("let x = unsafe { *p.add(1) } as u8;", "let x = cast!(unsafe { *p.add(1) }, u8);"),
            ("x as usize as *const u8;", "cast!(x, usize) as *const u8;"),
            ("p as *const u8 as usize;", "cast!(p as *const u8, usize);"),
            ("let [a, b] = [x as u8; 2];", "let [a, b] = [cast!(x, u8); 2];"),
            ("match x as u8 { 0 => y as i8, _ => 1 as i8 }", "match cast!(x, u8) { 0 => cast!(y, i8), _ => 1 as i8 }"),
            (
                "(n + 1) as u32; (1 + n) as u32; (n << 1) as u32;",
                "cast!(n + 1, u32); cast!(1 + n, u32); cast!(n << 1, u32);",
            ),
            ("(if a { x } else { y }) as u32;", "cast!(if a { x } else { y }, u32);"),
            ("-x as u32; !x as u8; *x as u8;", "cast!(-x, u32); cast!(!x, u8); cast!(*x, u8);"),
            ("(x as u8).pow(2); f(x as u32)?;", "(cast!(x, u8)).pow(2); f(cast!(x, u32))?;"),
        ] {
            // How tokens are spaced is not asked.
            let packed = |text: String| text.replace(' ', "");
            assert_eq!(packed(rewritten(statement)), packed(expected(with_casts)), "{statement}");
        }
    }

    #[test]
    fn everything_else_stays_to_the_token() {
        for statement in [
            "let x = 1 as u8;",
            "let x = -1 as i64 as _;",
            "let x = (3_000_000_000) as u64;",
            "let x = (1 << 40) as u64;",
            "let x = (1 << n) as u64;",
            "let x = { 3_000_000_000 } as u64;",
            "let x = (if a { 1 } else { y }) as u64;",
            "let x = (match a { 1 => y, _ => 5_000_000_000 }) as u64;",
            "let x = (loop { break 5_000_000_000 }) as u64;",
            "let x = 0.1 as f32;",
            "let x = y as _;",
            "let x = y as Index;",
            "let x = y as T::Index;",
            "let x = y as <T as Of>::Index;",
            "let x = y as *const u8;",
            "let x = y as *mut _;",
            "let x = y as fn(u8) -> u8;",
            "let x = y as &dyn Any;",
            "let x = y as &[u8];",
            "let x = y as char;",
            "let x = y as bool;",
            "let x = m!() as u64;",
            "gpu_println!(\"{}\", x as u8);",
            "let x = [0u8; N as usize];",
            "let x: [u8; N as usize] = y;",
            "const N: usize = M as usize; static S: u8 = M as u8;",
            "let x = const { M as usize };",
            "fn inner(x: u32) -> u8 { x as u8 }",
            "enum E { A = N as isize } impl E { fn f(&self) -> u8 { self.0 as u8 } }",
            "f::<{ N as usize }>(); x.g::<{ N as usize }>();",
            "#[a(x as u8)] let x = 1;",
            "macro_rules! m { ($x:expr) => { $x as u8 } }",
            "let x = b'a' as u32 + 'b' as u32;",
        ] {
            assert_eq!(rewritten(statement), tokens(&format!("fn kernel() {{ {statement} }}")).to_string());
        }
    }

    #[test]
    fn what_syn_does_not_know_stays() {
        for item in ["fn f() { x as u8; @ }", "struct S;", "fn f();"] {
            assert_eq!(rewrite(tokens(item)).to_string(), tokens(item).to_string());
        }
    }

    #[test]
    fn what_macro_rules_puts_around_an_expression_is_seen_through() {
        let group = |text| {
            let inside = tokens(text);
            let group = proc_macro2::Group::new(proc_macro2::Delimiter::None, inside);
            rewrite(quote::quote!(fn f() { let x = #group as u64; })).to_string()
        };
        assert!(!group("3_000_000_000").contains("checked"));
        assert!(group("y").contains("checked"));
    }

    #[test]
    fn the_command_line_says_whether_it_is_for_the_checker() {
        let is = |line: &str| is_checked(line.split_whitespace().map(str::to_owned));
        assert!(is("rustc a.rs --cfg warpsmith_checked -O"));
        assert!(is("rustc --cfg=warpsmith_checked"));
        assert!(!is("rustc --cfg warpsmith_device --check-cfg=cfg(warpsmith_checked) warpsmith_checked"));
        assert!(!is("rustc --cfg"));
        assert!(!is_checked_build());
    }
}
