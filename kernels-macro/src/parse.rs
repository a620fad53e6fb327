//! Tokens of `#[kernel(..)] fn ..` to a [`KernelFn`], without judging them.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, Expr, FnArg, GenericArgument, Pat, PatType, PathArguments, PathSegment, Signature, Token, Type,
    Visibility,
};

use crate::check::Problems;

/// A function under `#[kernel]`, as written.
pub(crate) struct KernelFn {
    /// Attributes below and above `#[kernel]`, doc comments included.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// The typed parameters, in order; a `self` is in [`Self::sig`] alone.
    pub(crate) params: Vec<Param>,
    /// What stood in the parentheses of `#[kernel(..)]`, in order.
    pub(crate) options: Vec<KernelOption>,
}

/// One parameter of a kernel.
pub(crate) struct Param {
    pub(crate) attrs: Vec<Attribute>,
    /// What the launch function calls its argument.
    pub(crate) name: Ident,
    /// The type as written, without the invisible groups that `macro_rules!` puts around it.
    pub(crate) ty: Type,
    pub(crate) kind: ParamKind,
}

/// How a parameter crosses, read off the form of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamKind {
    /// Anything else: by value.
    Value,
    /// `&[T]` or `&T`.
    Shared,
    /// A path that ends in `GridSliceMut`.
    GridSliceMut,
    /// `*const T` or `*mut T`.
    Pointer,
}

/// One option: `name` or `name = value`.
pub(crate) struct KernelOption {
    pub(crate) name: Ident,
    pub(crate) value: Option<Expr>,
}

impl KernelFn {
    /// Reads the attribute's options and the item; problems of syntax go to `problems`, and `None` means no function.
    pub(crate) fn parse(options: TokenStream, item: TokenStream, problems: &mut Problems) -> Option<Self> {
        let options = Punctuated::<KernelOption, Token![,]>::parse_terminated.parse2(options).unwrap_or_else(|error| {
            problems.option_error(error);
            Punctuated::new()
        });
        match parse_fn.parse2(item) {
            Ok((attrs, vis, sig)) => {
                let params = sig.inputs.iter().filter_map(typed).enumerate().map(param).collect();
                Some(Self { attrs, vis, sig, params, options: options.into_iter().collect() })
            }
            Err(error) => {
                problems.error(error);
                None
            }
        }
    }

    /// The option of this name, where given.
    pub(crate) fn option(&self, name: &str) -> Option<&KernelOption> {
        self.options.iter().find(|option| option.name == name)
    }
}

impl Parse for KernelOption {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        let value = if input.parse::<Option<Token![=]>>()?.is_some() { Some(input.parse()?) } else { None };
        Ok(Self { name, value })
    }
}

/// Reads attributes, visibility and signature; the body stays tokens, so that it may use syntax this parser never saw.
fn parse_fn(input: ParseStream<'_>) -> syn::Result<(Vec<Attribute>, Visibility, Signature)> {
    let attrs = input.call(Attribute::parse_outer)?;
    let vis = input.parse()?;
    let sig: Signature = input.parse().map_err(|error| {
        let at = error.span();
        Error::new(at, format!("`#[kernel]` goes on a free function, `fn name(..) {{ .. }}`: {error}"))
    })?;
    let body = input.step(|cursor| match cursor.token_tree() {
        Some((tree, rest)) => Ok((tree, rest)),
        None => Err(cursor.error("a kernel needs a body")),
    })?;
    match body {
        TokenTree::Punct(punct) if punct.as_char() == ';' => {
            Err(Error::new(punct.span(), "a kernel needs a body: `{ .. }` in place of `;`"))
        }
        _ => Ok((attrs, vis, sig)),
    }
}

fn typed(input: &FnArg) -> Option<&PatType> {
    match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    }
}

fn param((index, typed): (usize, &PatType)) -> Param {
    let name = match &*typed.pat {
        Pat::Ident(pat) => pat.ident.clone(),
        _ => format_ident!("argument_{index}"),
    };
    let ty = peel(&typed.ty).clone();
    let kind = ParamKind::of(&ty);
    Param { attrs: typed.attrs.clone(), name, ty, kind }
}

impl ParamKind {
    fn of(ty: &Type) -> Self {
        match ty {
            Type::Reference(_) => Self::Shared,
            Type::Ptr(_) => Self::Pointer,
            _ if grid_slice(ty).is_some() => Self::GridSliceMut,
            _ => Self::Value,
        }
    }
}

/// The type inside parentheses and the invisible groups of `macro_rules!`.
pub(crate) fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peel(&group.elem),
        Type::Paren(paren) => peel(&paren.elem),
        _ => ty,
    }
}

/// The last segment of a path type.
pub(crate) fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match peel(ty) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// The segment `GridSliceMut` of a type that ends in it.
pub(crate) fn grid_slice(ty: &Type) -> Option<&PathSegment> {
    last_segment(ty).filter(|segment| segment.ident == "GridSliceMut")
}

/// The types among a segment's generic arguments.
pub(crate) fn type_arguments(segment: &PathSegment) -> Vec<&Type> {
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => arguments
            .args
            .iter()
            .filter_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// First and last token of a type.
pub(crate) fn ends(ty: &Type) -> (Span, Span) {
    let mut tokens = ty.to_token_stream().into_iter();
    let start = tokens.next().map_or_else(Span::call_site, |token| token.span());
    let end = tokens.last().map_or(start, |token: TokenTree| token.span());
    (start, end)
}

/// The one token, or group of tokens, that stands for a type in errors: what it gives access to, without the rest.
pub(crate) fn place(ty: &Type) -> Span {
    match peel(ty) {
        Type::Reference(reference) => place(&reference.elem),
        Type::Ptr(pointer) => place(&pointer.elem),
        Type::Slice(slice) => slice.bracket_token.span.join(),
        Type::Array(array) => array.bracket_token.span.join(),
        Type::Tuple(tuple) => tuple.paren_token.span.join(),
        ty => match (grid_slice(ty), last_segment(ty)) {
            (Some(grid), _) => type_arguments(grid).first().map_or(grid.ident.span(), |elem| place(elem)),
            (None, Some(segment)) => segment.ident.span(),
            (None, None) => ends(ty).0,
        },
    }
}
