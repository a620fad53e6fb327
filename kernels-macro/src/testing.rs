//! `#[warpsmith::test]`: a function of a device becomes a test that runs it on several.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, FnArg, Lit, LitBool, Signature, Token, Visibility};

use crate::check::Problems;
use crate::parse::KernelOption;
use crate::targets;

/// Schedules of a test that names no number.
const SCHEDULES: u32 = 6;

/// A function under `#[warpsmith::test]`, as written.
struct TestFn {
    attrs: Vec<Attribute>,
    vis: Visibility,
    sig: Signature,
    body: TokenTree,
}

/// What stands in the attribute's parentheses.
#[derive(Default)]
struct Options {
    schedules: Option<Expr>,
    tolerance: Option<Expr>,
    gpu: Option<LitBool>,
    checked: Option<LitBool>,
}

/// Expands the attribute: a test, and an error for each problem.
pub(crate) fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut problems = Problems::default();
    let options = read_options(options, &mut problems);
    let test = match parse_fn.parse2(item.clone()) {
        Ok(test) => test,
        Err(error) => {
            problems.error(error);
            let errors = problems.into_compile_errors();
            return quote!(#item #errors);
        }
    };
    check(&test, &mut problems);
    if problems.is_empty() {
        let unseen = targets::unseen();
        let test = expand(&test, &options);
        return quote!(#test #unseen);
    }
    let errors = problems.into_compile_errors();
    // Left as a function that nothing calls, so that what its body names is not reported as unused.
    let TestFn { attrs, vis, sig, body } = &test;
    let attrs = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    quote!(#(#attrs)* #[allow(dead_code)] #vis #sig #body #errors)
}

fn parse_fn(input: ParseStream<'_>) -> syn::Result<TestFn> {
    let attrs = input.call(Attribute::parse_outer)?;
    let vis = input.parse()?;
    let sig: Signature = input.parse().map_err(|error| {
        let at = error.span();
        Error::new(
            at,
            format!("`#[warpsmith::test]` goes on a free function, `fn name(device: &Device) {{ .. }}`: {error}"),
        )
    })?;
    let body: TokenTree = input.parse()?;
    Ok(TestFn { attrs, vis, sig, body })
}

fn read_options(tokens: TokenStream, problems: &mut Problems) -> Options {
    let mut options = Options::default();
    let list = match Punctuated::<KernelOption, Token![,]>::parse_terminated.parse2(tokens) {
        Ok(list) => list,
        Err(error) => {
            problems.option_error(error);
            return options;
        }
    };
    let mut seen: Vec<String> = Vec::new();
    for KernelOption { name, value } in list {
        let text = name.unraw().to_string();
        if seen.contains(&text) {
            problems.option_error(Error::new(name.span(), format!("option `{text}` is given twice; keep one")));
            continue;
        }
        let needs = |example: &str| Error::new(name.span(), format!("`{text}` needs a value: `{text} = {example}`"));
        let result = match (text.as_str(), value) {
            ("schedules", Some(value)) => count(value).map(|value| options.schedules = Some(value)),
            ("schedules", None) => Err(needs("20")),
            ("tolerance", Some(value)) => {
                options.tolerance = Some(value);
                Ok(())
            }
            ("tolerance", None) => Err(needs("1e-6")),
            ("gpu", Some(value)) => flag(&text, &value).map(|value| options.gpu = Some(value)),
            ("checked", Some(value)) => flag(&text, &value).map(|value| options.checked = Some(value)),
            ("gpu" | "checked", None) => Err(needs("false")),
            _ => Err(Error::new(
                name.span(),
                format!("unknown option `{text}`; there are `schedules`, `tolerance`, `gpu` and `checked`"),
            )),
        };
        if let Err(error) = result {
            problems.option_error(error);
        }
        seen.push(text);
    }
    options
}

/// A number of schedules; what is no literal is rustc's to judge.
fn count(value: Expr) -> syn::Result<Expr> {
    let wrong = || Error::new(value.span(), "`schedules` is a whole number from 0 up, such as 20");
    match &value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse::<u32>().map(drop).map_err(|_| wrong())?,
            _ => return Err(wrong()),
        },
        Expr::Unary(_) => return Err(wrong()),
        _ => {}
    }
    Ok(value)
}

fn flag(name: &str, value: &Expr) -> syn::Result<LitBool> {
    if let Expr::Lit(literal) = value
        && let Lit::Bool(flag) = &literal.lit
    {
        return Ok(flag.clone());
    }
    Err(Error::new(value.span(), format!("`{name}` is `true` or `false`")))
}

fn check(test: &TestFn, problems: &mut Problems) {
    const REMEDY: &str = "a test under `#[warpsmith::test]` takes the device to run on: `fn name(device: &Device)`";
    let sig = &test.sig;
    let mut refuse = |tokens: &dyn ToTokens, what: &str| {
        problems.error(Error::new_spanned(tokens.to_token_stream(), format!("a test cannot be {what}; remove this")));
    };
    if let Some(token) = &sig.constness {
        refuse(token, "`const`");
    }
    if let Some(token) = &sig.asyncness {
        refuse(token, "`async`");
    }
    if let Some(token) = &sig.unsafety {
        refuse(token, "`unsafe`");
    }
    if let Some(abi) = &sig.abi {
        refuse(abi, "`extern`");
    }
    if !sig.generics.params.is_empty() {
        refuse(&sig.generics, "generic");
    }
    match sig.inputs.iter().collect::<Vec<_>>()[..] {
        [FnArg::Typed(_)] => {}
        [] => problems.error(Error::new(sig.paren_token.span.join(), REMEDY)),
        [first] => problems.error(Error::new_spanned(first, REMEDY)),
        [_, ref more @ ..] => more.iter().for_each(|input| {
            problems.error(Error::new_spanned(input, format!("{REMEDY}, and nothing else")));
        }),
    }
    for attr in test.attrs.iter().filter(|attr| attr.path().is_ident("test")) {
        problems.error(Error::new_spanned(attr, "`#[warpsmith::test]` makes the test; remove this"));
    }
    if !matches!(test.body, TokenTree::Group(_)) {
        problems.error(Error::new(test.body.span(), "a test needs a body: `{ .. }`"));
    }
}

fn expand(test: &TestFn, options: &Options) -> TokenStream {
    let site = Span::mixed_site();
    let TestFn { attrs, vis, sig, body } = test;
    let name = &sig.ident;
    let text = name.unraw().to_string();
    let testing = quote_spanned!(site=> ::warpsmith::__private::testing);
    let schedules = options.schedules.as_ref().map_or_else(|| SCHEDULES.to_token_stream(), ToTokens::to_token_stream);
    let maybe = |flag: &Option<LitBool>| match flag {
        Some(flag) => quote_spanned!(site=> ::core::option::Option::Some(#flag)),
        None => quote_spanned!(site=> ::core::option::Option::None),
    };
    let (gpu, checked) = (maybe(&options.gpu), maybe(&options.checked));
    let open_checked = match &options.checked {
        Some(flag) if !flag.value => quote_spanned!(site=> ::core::option::Option::None),
        _ => quote_spanned!(site=> ::core::option::Option::Some(::warpsmith::Device::cpu_checked_with)),
    };
    // Where the value lacks a trait, rustc points at its type.
    let at = match &sig.output {
        syn::ReturnType::Default => name.span(),
        syn::ReturnType::Type(_, ty) => ty.span(),
    };
    let differs = match &options.tolerance {
        None => quote_spanned!(at.resolved_at(site)=> |value, plain| #testing::equal(value, plain)),
        Some(tolerance) => {
            quote_spanned!(at.resolved_at(site)=> |value, plain| #testing::close(value, plain, #tolerance))
        }
    };
    quote_spanned! {site=>
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis fn #name() {
            #sig #body

            #[allow(unused_imports, reason = "which one depends on what the test gives")]
            use #testing::{ViaResult as _, ViaValue as _};
            #testing::run(
                &#testing::Test {
                    module: ::core::module_path!(),
                    name: #text,
                    schedules: #schedules,
                    gpu: #gpu,
                    checked: #checked,
                    open_checked: #open_checked,
                },
                |device| (&#testing::Outcome::new(#name(device))).outcome(),
                #differs,
            );
        }
    }
}
