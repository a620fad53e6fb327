//! `#[unroll]`, `#[unroll(N)]` and `#[no_unroll]` on loops become markers that the lowering reads.
//!
//! Loops are found in the tokens, not in a syntax tree: what surrounds them may use syntax that this crate never saw.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Pat, Token};

/// Expands `#[loops]`: the item with its loops marked, and an error for each problem.
pub(crate) fn loops(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut problems = Vec::new();
    if let Some(token) = options.into_iter().next() {
        problems.push(Error::new(token.span(), "`#[loops]` takes no options; hints stand on the loops themselves"));
    }
    let item = mark(item, &mut problems);
    let errors = problems.into_iter().map(Error::into_compile_error);
    quote!(#item #(#errors)*)
}

/// Marks every loop that carries a hint.
pub(crate) fn mark(tokens: TokenStream, problems: &mut Vec<Error>) -> TokenStream {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let mut out = TokenStream::new();
    let mut at = 0;
    while at < trees.len() {
        let run = attributes(&trees[at..]);
        if run.iter().any(Result::is_ok) {
            at += 2 * run.len();
            at += marked(run, &trees[at..], &mut out, problems);
            continue;
        }
        // Attributes that are not ours stay as they are, whatever is in them.
        for tree in trees[at..].iter().take((2 * run.len()).max(1)) {
            out.extend([match tree {
                TokenTree::Group(group) if run.is_empty() => TokenTree::Group(regrouped(group, problems)),
                tree => tree.clone(),
            }]);
            at += 1;
        }
    }
    out
}

/// A group with its loops marked. One without hints stays itself: a new group has one place, where the old had two for its
/// delimiters, and rustc points at those.
fn regrouped(group: &Group, problems: &mut Vec<Error>) -> Group {
    if !has_hint(group.stream()) {
        return group.clone();
    }
    let mut new = Group::new(group.delimiter(), mark(group.stream(), problems));
    new.set_span(group.span());
    new
}

fn has_hint(tokens: TokenStream) -> bool {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    (0..trees.len()).any(|at| match &trees[at] {
        TokenTree::Punct(_) => attributes(&trees[at..]).iter().any(Result::is_ok),
        TokenTree::Group(group) => has_hint(group.stream()),
        _ => false,
    })
}

/// What an attribute asks of the loop below it.
struct Hint {
    name: Ident,
    /// What stands in its parentheses.
    argument: Option<Group>,
}

/// The attributes at the start: hints, and the tokens of others.
fn attributes(trees: &[TokenTree]) -> Vec<Result<Hint, [TokenTree; 2]>> {
    let mut all = Vec::new();
    for pair in trees.chunks_exact(2) {
        let [TokenTree::Punct(sharp), TokenTree::Group(group)] = pair else { break };
        if sharp.as_char() != '#' || group.delimiter() != Delimiter::Bracket {
            break;
        }
        let inside: Vec<TokenTree> = group.stream().into_iter().collect();
        let hint = match &inside[..] {
            [TokenTree::Ident(name), rest @ ..] if name == "unroll" || name == "no_unroll" => match rest {
                [] => Some(Hint { name: name.clone(), argument: None }),
                [TokenTree::Group(argument)] => Some(Hint { name: name.clone(), argument: Some(argument.clone()) }),
                _ => None,
            },
            _ => None,
        };
        all.push(hint.ok_or_else(|| [pair[0].clone(), pair[1].clone()]));
    }
    all
}

/// Writes the loop at the start of `trees`, marked. Returns how many trees it took.
fn marked(
    attributes: Vec<Result<Hint, [TokenTree; 2]>>,
    trees: &[TokenTree],
    out: &mut TokenStream,
    problems: &mut Vec<Error>,
) -> usize {
    let mut hints = Vec::new();
    for attribute in attributes {
        match attribute {
            Ok(hint) => hints.push(hint),
            Err(other) => out.extend(other),
        }
    }
    let hint = &hints[0];
    if let Some(second) = hints.get(1) {
        let message = format!("this loop has `#[{}]` already; keep one hint", hint.name);
        problems.push(Error::new(second.name.span(), message));
    }
    let label = label(trees);
    let Some((header, body)) = parts(&trees[label..]) else {
        let message =
            format!("`#[{}]` goes on a loop: `for`, `while` or `loop`, with its label if it has one", hint.name);
        problems.push(Error::new(hint.name.span(), message));
        return 0;
    };
    let count = match count(hint) {
        Ok(count) => count,
        Err(error) => {
            problems.push(error);
            TokenStream::new()
        }
    };
    let site = hint.name.span().resolved_at(Span::mixed_site());
    let shape = quote_spanned!(site=> ::warpsmith::__private::shape);
    let count = if count.is_empty() { quote_spanned!(site=> #shape::FULLY) } else { count };
    let header = mark(trees[..label + header].iter().cloned().collect(), problems);
    let statements = mark(body.stream(), problems);
    let marker = quote_spanned!(site=> #shape::unroll_loop(before_loop, #count););
    let mut block = Group::new(Delimiter::Brace, quote!(#marker #statements));
    block.set_span(body.span());
    let before = quote_spanned!(site=> let before_loop = #shape::before_loop(););
    let mut whole = Group::new(Delimiter::Brace, quote!(#before #header #block));
    whole.set_span(body.span());
    out.extend([TokenTree::Group(whole)]);
    taken(&trees[label..]).map_or(0, |taken| label + taken)
}

/// How many trees a label at the start takes.
fn label(trees: &[TokenTree]) -> usize {
    match trees {
        [TokenTree::Punct(tick), TokenTree::Ident(_), TokenTree::Punct(colon), ..]
            if tick.as_char() == '\'' && colon.as_char() == ':' =>
        {
            3
        }
        _ => 0,
    }
}

/// The number of copies, as the marker in the loop takes it.
fn count(hint: &Hint) -> syn::Result<TokenStream> {
    let site = hint.name.span().resolved_at(Span::mixed_site());
    let shape = quote_spanned!(site=> ::warpsmith::__private::shape);
    match &hint.argument {
        None if hint.name == "unroll" => Ok(quote_spanned!(site=> #shape::FULLY)),
        None => Ok(quote_spanned!(site=> 1)),
        Some(argument) if hint.name == "no_unroll" => {
            Err(Error::new(argument.span(), "`#[no_unroll]` takes nothing; write `#[unroll(N)]` for N copies"))
        }
        Some(argument) => {
            let ask = "`#[unroll(N)]` takes one number of copies, a constant of type `u32`; write `#[unroll]` for as many as \
                       the loop has steps";
            let value: Expr = syn::parse2(argument.stream()).map_err(|_| Error::new(argument.span(), ask))?;
            if let Expr::Lit(literal) = &value {
                match &literal.lit {
                    syn::Lit::Int(int) if int.base10_parse::<u32>().is_ok_and(|count| count > 0) => {}
                    syn::Lit::Int(int) => {
                        let limit = format!("`{int}` is no number of copies; it is from 1 to {}", u32::MAX);
                        return Err(Error::new(int.span(), limit));
                    }
                    other => return Err(Error::new(other.span(), ask)),
                }
            }
            Ok(quote_spanned!(site=> const { #shape::unroll_count(#value) }))
        }
    }
}

/// The length of a loop's header at the start, and its body.
fn parts(trees: &[TokenTree]) -> Option<(usize, Group)> {
    let taken = taken(trees)?;
    let TokenTree::Group(group) = &trees[taken - 1] else { return None };
    Some((taken - 1, braces(group)?))
}

/// How many trees a loop at the start takes.
fn taken(trees: &[TokenTree]) -> Option<usize> {
    let all: TokenStream = trees.iter().cloned().collect();
    let rest = |input: ParseStream<'_>| {
        if input.parse::<Option<Token![for]>>()?.is_some() {
            Pat::parse_multi_with_leading_vert(input)?;
            input.parse::<Token![in]>()?;
            Expr::parse_without_eager_brace(input)?;
        } else if input.parse::<Option<Token![while]>>()?.is_some() {
            Expr::parse_without_eager_brace(input)?;
        } else {
            input.parse::<Token![loop]>()?;
        }
        match input.parse()? {
            TokenTree::Group(body) if braces(&body).is_some() => input.parse::<TokenStream>(),
            other => Err(Error::new(other.span(), "expected the loop's body")),
        }
    };
    let rest = rest.parse2(all).ok()?;
    Some(trees.len() - rest.into_iter().count())
}

/// The block in a group, without the invisible groups that `macro_rules!` puts around it.
fn braces(group: &Group) -> Option<Group> {
    match group.delimiter() {
        Delimiter::Brace => Some(group.clone()),
        Delimiter::None => match &group.stream().into_iter().collect::<Vec<_>>()[..] {
            [TokenTree::Group(inner)] => braces(inner),
            _ => None,
        },
        _ => None,
    }
}
