//! `gpu_println!` and its kin: the format taken apart here, so that only values travel from the device.

mod format;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, LitStr, Token};

use self::format::{Argument, Format};

/// What the macros take: a format, then values, some with names.
struct Input {
    format: LitStr,
    values: Vec<(Option<Ident>, Expr)>,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let format = input.parse::<LitStr>().map_err(|error| {
            let message = "the format must be a string literal: it is taken apart when the kernel is compiled; print a \
                           text that is made elsewhere with `\"{}\"`";
            syn::Error::new(error.span(), message)
        })?;
        let mut values = Vec::new();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let name = if input.peek(syn::Ident) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
                let name = input.parse()?;
                input.parse::<Token![=]>()?;
                Some(name)
            } else {
                None
            };
            values.push((name, input.parse()?));
        }
        Ok(Self { format, values })
    }
}

/// Expands `gpu_print!` and, with `newline`, `gpu_println!`.
pub(crate) fn print(input: TokenStream, newline: bool) -> TokenStream {
    if input.is_empty() {
        let format = LitStr::new("", Span::mixed_site());
        return expand(&quote!(""), &Input { format, values: Vec::new() }, newline);
    }
    match syn::parse2(input) {
        Ok(input) => expand(&quote!(""), &input, newline),
        Err(error) => error.into_compile_error(),
    }
}

/// Expands what `gpu_dbg!` is made of: the place, and where there are a text and a value the text and the value.
pub(crate) fn dbg(input: TokenStream) -> TokenStream {
    let site = Span::mixed_site();
    let place = quote_spanned!(site=> "[", ::core::file!(), ":", ::core::line!(), ":", ::core::column!(), "]");
    let given = match Punctuated::<Expr, Token![,]>::parse_terminated.parse2(input) {
        Ok(given) => given,
        Err(error) => return error.into_compile_error(),
    };
    let mut given = given.into_iter();
    match (given.next(), given.next()) {
        (Some(text), Some(value)) => {
            let prefix = quote_spanned!(site=> ::core::concat!(#place, " ", #text, " = "));
            let format = LitStr::new("{:#?}", site);
            expand(&prefix, &Input { format, values: vec![(None, value)] }, true)
        }
        _ => {
            let format = LitStr::new("", site);
            expand(&quote_spanned!(site=> ::core::concat!(#place)), &Input { format, values: Vec::new() }, true)
        }
    }
}

/// Prints `prefix`, a constant text, and then the format's values.
fn expand(prefix: &TokenStream, input: &Input, newline: bool) -> TokenStream {
    let site = Span::mixed_site();
    let Input { format: literal, values } = input;
    let text = literal.value();
    let names: Vec<Option<String>> = values.iter().map(|(name, _)| name.as_ref().map(Ident::to_string)).collect();
    let arguments = values.iter().map(|(name, value)| match name {
        Some(name) => quote!(#name = #value),
        None => quote!(#value),
    });
    let Some(format) = Format::parse(&text, &names) else {
        // rustc says what is wrong with it.
        return quote_spanned!(site=> { let _ = ::core::format_args!(#literal #(, #arguments)*); });
    };
    let locals: Vec<Ident> = (0..values.len()).map(|i| format_ident!("__value{i}", span = site)).collect();
    // Each value is made once. What the format names without giving it is a variable.
    let made = values.iter().map(|(_, value)| quote_spanned!(site=> &(#value)));
    let shown = values.iter().zip(&locals).map(|((name, _), local)| match name {
        Some(name) => quote_spanned!(site=> #name = *#local),
        None => quote_spanned!(site=> *#local),
    });
    let list = format.arguments.iter().rev().fold(quote_spanned!(site=> print::None), |rest, (argument, address)| {
        let (value, span) = match argument {
            Argument::Given(index) => {
                let span = values[*index].1.span();
                let local = Ident::new(&locals[*index].to_string(), site.located_at(span));
                (quote!(#local), site.located_at(span))
            }
            Argument::Captured(name) => {
                let variable = Ident::new(name, literal.span());
                (quote_spanned!(site.located_at(literal.span())=> &#variable), site.located_at(literal.span()))
            }
        };
        if *address {
            quote_spanned!(span=> print::then(&print::address_in(#value), #rest))
        } else {
            quote_spanned!(span=> print::then(#value, #rest))
        }
    });
    let canonical = &format.text;
    quote_spanned! {site=>
        match (#(#made,)*) {
            (#(#locals,)*) => {
                use ::warpsmith::__private::print;
                static __SITE: print::Site = print::Site::new(#prefix, #canonical, #newline);
                print::print(&__SITE, #list, |__print| __print(::core::format_args!(#literal #(, #shown)*)))
            }
        }
    }
}
