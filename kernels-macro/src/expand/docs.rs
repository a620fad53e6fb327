//! Docs and attributes of what stands beside the user's function.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, MetaNameValue};

use crate::parse::KernelFn;

/// The attributes that the enum and its impl share with the function.
pub(super) fn copied_attributes(kernel: &KernelFn) -> Vec<&Attribute> {
    let is_copied = |attr: &&Attribute| {
        let hides = attr.path().is_ident("doc") && matches!(attr.meta, Meta::List(_));
        hides || ["cfg", "deprecated", "allow"].iter().any(|name| attr.path().is_ident(name))
    };
    kernel.attrs.iter().filter(is_copied).collect()
}

/// The function's doc comment up to its first heading or code: an example would otherwise be tested three times.
fn opening_docs(kernel: &KernelFn) -> Vec<String> {
    let texts = kernel.attrs.iter().filter(|attr| attr.path().is_ident("doc")).filter_map(|attr| match &attr.meta {
        Meta::NameValue(MetaNameValue { value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }), .. }) => {
            Some(text.value())
        }
        _ => None,
    });
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let opens = |line: &String| !["#", "```", "~~~"].iter().any(|mark| line.trim_start().starts_with(mark));
    let mut lines: Vec<String> = lines.take_while(opens).collect();
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    lines
}

/// Docs of the enum: the function's, or a sentence where it has none.
pub(super) fn documentation(kernel: &KernelFn) -> TokenStream {
    let mut lines = opening_docs(kernel);
    if lines.is_empty() {
        lines.push(format!(" The kernel `{}`.", kernel.sig.ident));
    }
    quote_spanned!(Span::mixed_site()=> #(#[doc = #lines])*)
}

/// Docs of `launch`: what it does, what the kernel does, what an unsafe caller promises, and errors.
pub(super) fn launch_documentation(kernel: &KernelFn) -> TokenStream {
    let name = &kernel.sig.ident;
    let mut lines =
        vec![format!(" Queues the kernel `{name}` on `stream`, over the grid that `config` gives."), String::new()];
    lines.extend(opening_docs(kernel));
    if kernel.sig.unsafety.is_some() {
        lines.extend(
            ["", " # Safety", " That of the function, for every thread of the grid, until the launch has ended."]
                .map(str::to_owned),
        );
    }
    lines.extend(
        ["", " # Errors", " When the launch is refused; also reports a failure of work queued earlier on `stream`."]
            .map(str::to_owned),
    );
    quote_spanned!(Span::mixed_site()=> #(#[doc = #lines])*)
}

/// Docs of `load`.
pub(super) fn load_documentation(kernel: &KernelFn) -> TokenStream {
    let name = &kernel.sig.ident;
    let lines = [
        format!(
            " Loads the kernel `{name}` for `device`, as its first launch would, to ask what it needs and to prepare launches."
        ),
        String::new(),
        " # Errors".to_owned(),
        " When the kernel's code is not there for this device, or the driver refuses it.".to_owned(),
    ];
    quote_spanned!(Span::mixed_site()=> #(#[doc = #lines])*)
}
