//! Rules for the attribute's options.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, UnOp};

use super::Problems;
use crate::parse::{KernelFn, KernelOption};

/// Most threads a block of any device has.
const MAX_BLOCK_THREADS: u64 = 1024;
/// Most threads a block of any device has along z.
const MAX_BLOCK_Z: u64 = 64;
/// Most blocks that are resident on a multiprocessor of any device.
const MAX_RESIDENT_BLOCKS: u64 = 32;
/// Most registers that a thread of any device has.
const MAX_REGISTERS: u64 = 255;

pub(super) fn options(kernel: &KernelFn, problems: &mut Problems) {
    for (index, option) in kernel.options.iter().enumerate() {
        let name = option.name.to_string();
        if kernel.options[..index].iter().any(|earlier| earlier.name == option.name) {
            problems.option(&option.name, format!("option `{name}` is given twice; keep one"));
            continue;
        }
        match name.as_str() {
            "block" => block(option, problems),
            "max_threads" => number(option, MAX_BLOCK_THREADS, "threads in a block", problems),
            "min_blocks" => number(option, MAX_RESIDENT_BLOCKS, "resident blocks", problems),
            "max_registers" => number(option, MAX_REGISTERS, "registers a thread", problems),
            "opt_level" => {
                if let Err(error) = opt_level(option) {
                    problems.option_error(error);
                }
            }
            "contract" | "fast_math" | "unchecked" | "ftz" | "approx" => {
                if let Some(value) = &option.value {
                    problems.option(value, format!("`{name}` takes no value; write `{name}`, or leave it out"));
                }
            }
            _ => problems.option(
                &option.name,
                format!(
                    "unknown option `{name}`; there are `block`, `max_threads`, `min_blocks`, `max_registers`, `contract`, \
                     `approx`, `ftz`, `fast_math`, `opt_level` and `unchecked`"
                ),
            ),
        }
    }
    if let Some(option) = kernel.option("unchecked").filter(|_| kernel.sig.unsafety.is_none()) {
        problems.option(
            &option.name,
            "`unchecked` removes index checks, so the kernel's caller answers for them; write `unsafe fn`, or remove \
             `unchecked`",
        );
    }
    if let (Some(_), Some(option)) = (kernel.option("fast_math"), kernel.option("approx")) {
        problems.option(
            &option.name,
            "`fast_math` approximates division and roots already; remove `approx`, or `fast_math`",
        );
    }
    if let (Some(level), Some(option)) = (kernel.option("opt_level"), kernel.option("fast_math"))
        && matches!(opt_level(level), Ok(1))
    {
        problems
            .option(&option.name, "`fast_math` lets the optimiser do more, and `opt_level = 0` turns it off; keep one");
    }
    if let (Some(_), Some(option)) = (kernel.option("block"), kernel.option("max_threads")) {
        problems.option(&option.name, "`block` already fixes the number of threads; remove `max_threads`, or `block`");
    }
    if let (Some(option), None, None) =
        (kernel.option("min_blocks"), kernel.option("block"), kernel.option("max_threads"))
    {
        problems.option(
            &option.name,
            "`min_blocks` has no effect on a block of unknown size; add `block` or `max_threads`",
        );
    }
}

/// The sizes in the value of `block`: one, or those of a tuple.
pub(crate) fn block_shape(value: &Expr) -> Vec<&Expr> {
    match value {
        Expr::Tuple(tuple) => tuple.elems.iter().collect(),
        Expr::Paren(paren) => vec![&paren.expr],
        Expr::Group(group) => block_shape(&group.expr),
        _ => vec![value],
    }
}

/// The level in the value of `opt_level`, plus 1, with 5 for `"s"`.
pub(crate) fn opt_level(option: &KernelOption) -> syn::Result<u32> {
    const LEVELS: &str = "`opt_level` is 0, 1, 2, 3, or \"s\" for small code";
    let Some(mut value) = option.value.as_ref() else { return Err(Error::new_spanned(&option.name, LEVELS)) };
    while let Expr::Group(group) = value {
        value = &group.expr;
    }
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) => match int.base10_parse::<u32>() {
            Ok(level @ 0..=3) => Ok(level + 1),
            _ => Err(Error::new(int.span(), LEVELS)),
        },
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if text.value() == "s" => Ok(5),
        _ => Err(Error::new_spanned(value, LEVELS)),
    }
}

/// The number that a literal gives; `None` for an expression that rustc evaluates.
fn literal(value: &Expr) -> Option<syn::Result<u64>> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) => {
            Some(int.base10_parse::<u64>().map_err(|error| Error::new(int.span(), error)))
        }
        Expr::Lit(_) => Some(Err(Error::new(value.span(), "expected a whole number"))),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            Some(Err(Error::new_spanned(value, "expected a whole number above 0")))
        }
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

fn number(option: &KernelOption, limit: u64, what: &str, problems: &mut Problems) {
    let Some(value) = &option.value else {
        problems.option(&option.name, format!("`{0}` needs a number: `{0} = N`, from 1 to {limit}", option.name));
        return;
    };
    match literal(value) {
        Some(Ok(number)) if number == 0 || number > limit => {
            problems.option(value, format!("`{}` is {number}; it counts {what}, from 1 to {limit}", option.name));
        }
        Some(Err(error)) => problems.option_error(error),
        _ => {}
    }
}

fn block(option: &KernelOption, problems: &mut Problems) {
    let Some(value) = &option.value else {
        problems
            .option(&option.name, "`block` needs a shape: `block = 256`, `block = (16, 16)` or `block = (8, 8, 4)`");
        return;
    };
    let shape = block_shape(value);
    if shape.is_empty() || shape.len() > 3 {
        problems.option(value, format!("a block has 1 to 3 dimensions, this has {}", shape.len()));
        return;
    }
    let mut product = 1u64;
    for (size, axis) in shape.iter().zip(["x", "y", "z"]) {
        match literal(size) {
            Some(Ok(0)) => problems.option(size, format!("the block's {axis} is 0; it is at least 1")),
            Some(Ok(number)) => {
                product = product.saturating_mul(number);
                if axis == "z" && number > MAX_BLOCK_Z {
                    problems.option(size, format!("the block's z is {number}; the limit is {MAX_BLOCK_Z}"));
                }
            }
            Some(Err(error)) => problems.option_error(error),
            None => {}
        }
    }
    if product > MAX_BLOCK_THREADS {
        problems.option(value, format!("the block has {product} threads; the limit is {MAX_BLOCK_THREADS}"));
    }
}

/// Assertions on `options` for a value that only rustc can evaluate.
pub(crate) fn constant_checks(option: &KernelOption) -> Option<TokenStream> {
    let value = option.value.as_ref()?;
    let at = value.span().resolved_at(Span::mixed_site());
    if option.name == "opt_level" {
        return None;
    }
    let values = if option.name == "block" { block_shape(value) } else { vec![value] };
    if values.iter().all(|value| literal(value).is_some()) {
        return None;
    }
    let limit = |limit: u64| u32::try_from(limit).expect("limits are small");
    let (name, condition, message) = match option.name.to_string().as_str() {
        "block" => {
            let (threads, z) = (MAX_BLOCK_THREADS, limit(MAX_BLOCK_Z));
            return Some(quote_spanned! {at=>
                ::core::assert!(
                    options.block[0] > 0 && options.block[1] > 0 && options.block[2] > 0,
                    "a size of `block` is 0"
                );
                ::core::assert!(options.block[2] <= #z, "the block's z is over 64");
                ::core::assert!(
                    options.block[0] as ::core::primitive::u128
                        * options.block[1] as ::core::primitive::u128
                        * options.block[2] as ::core::primitive::u128 <= #threads as ::core::primitive::u128,
                    "the block has more than 1024 threads"
                );
            });
        }
        "max_threads" => ("max_threads", limit(MAX_BLOCK_THREADS), "`max_threads` is not from 1 to 1024"),
        "min_blocks" => ("min_blocks", limit(MAX_RESIDENT_BLOCKS), "`min_blocks` is not from 1 to 32"),
        _ => ("max_registers", limit(MAX_REGISTERS), "`max_registers` is not from 1 to 255"),
    };
    let field = Ident::new(name, Span::mixed_site());
    Some(quote_spanned!(at=> ::core::assert!(options.#field > 0 && options.#field <= #condition, #message);))
}
