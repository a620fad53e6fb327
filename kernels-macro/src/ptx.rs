//! `ptx!`: its syntax, and the `asm!` that it becomes.

mod check;
mod template;

use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Lit, LitStr, Token};

use self::template::{Piece, pieces};

/// Expands `ptx!`, or says everything that is wrong with it.
pub(crate) fn ptx(input: TokenStream) -> TokenStream {
    let parsed = match syn::parse2::<Ptx>(input) {
        Ok(parsed) => parsed,
        Err(error) => return error.into_compile_error(),
    };
    let mut problems = Vec::new();
    let pieces = pieces(&parsed, &mut problems);
    if problems.is_empty() {
        check::text(&pieces, &parsed, &mut problems);
    }
    if problems.is_empty() {
        return parsed.expand(&pieces);
    }
    problems.into_iter().map(Error::into_compile_error).collect()
}

/// What stands in the parentheses.
struct Ptx {
    texts: Vec<LitStr>,
    operands: Vec<Operand>,
    options: Vec<Ident>,
    /// What the CPU executor runs instead: a block.
    cpu: Option<TokenTree>,
}

struct Operand {
    name: Option<Ident>,
    /// Where errors about it point.
    span: Span,
    kind: OperandKind,
}

enum OperandKind {
    Input {
        class: Class,
        value: Expr,
    },
    /// `None` for `_`.
    Output {
        direction: Ident,
        class: Class,
        place: Option<Expr>,
    },
    Both {
        direction: Ident,
        class: Class,
        value: Expr,
        place: Option<Expr>,
    },
    Constant(Expr),
    Symbol(Expr),
}

/// What an operand is in PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A register of the value's width.
    Register,
    /// A predicate, from and to `bool`.
    Predicate,
    /// A register of 128 bits, from and to `u128` and `i128`.
    Wide,
}

impl Parse for Class {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        const CLASSES: &str = "an operand of PTX is `reg`, `pred` for a `bool` as a predicate, or `reg128` for 128-bit integers; \
                               registers are not named";
        let name: Ident = input.parse().map_err(|_| input.error(CLASSES))?;
        match &*name.to_string() {
            "reg" => Ok(Self::Register),
            "pred" => Ok(Self::Predicate),
            "reg128" => Ok(Self::Wide),
            _ => Err(Error::new(name.span(), CLASSES)),
        }
    }
}

impl Parse for Ptx {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut this = Self { texts: Vec::new(), operands: Vec::new(), options: Vec::new(), cpu: None };
        const START: &str = "`ptx!` starts with the PTX text: string literals, or `concat!` of literals";
        this.texts.push(text(input)?.ok_or_else(|| input.error(START))?);
        while !input.is_empty() {
            if input.peek(Token![;]) {
                input.parse::<Token![;]>()?;
                if input.is_empty() {
                    break;
                }
                input.parse::<Token![else]>().map_err(|error| {
                    Error::new(error.span(), "after `;` comes what the CPU executor runs instead: `else { .. }`")
                })?;
                let body = input.parse()?;
                if !matches!(&body, TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::Brace) {
                    return Err(Error::new(body.span(), "`else` takes a block"));
                }
                this.cpu = Some(body);
                if !input.is_empty() {
                    return Err(input.error("`else { .. }` is the last part of `ptx!`"));
                }
                break;
            }
            input.parse::<Token![,]>()?;
            if input.is_empty() || input.peek(Token![;]) {
                continue;
            }
            this.part(input)?;
        }
        Ok(this)
    }
}

impl Ptx {
    /// One part between commas.
    fn part(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if let Some(text) = text(input)? {
            if !self.operands.is_empty() {
                return Err(Error::new(text.span(), "all of the text comes before the first operand"));
            }
            self.texts.push(text);
            return Ok(());
        }
        let start = input.span();
        let name = if input.peek(syn::Ident) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
            let name = input.call(Ident::parse_any)?;
            input.parse::<Token![=]>()?;
            Some(name)
        } else {
            None
        };
        let word = input.call(Ident::parse_any)?;
        let class = |input: ParseStream<'_>| {
            let content;
            syn::parenthesized!(content in input);
            content.parse::<Class>()
        };
        let place = |expr: Expr| if matches!(expr, Expr::Infer(_)) { None } else { Some(expr) };
        let kind = match &*word.to_string() {
            "in" => OperandKind::Input { class: class(input)?, value: input.parse()? },
            "out" | "lateout" => {
                OperandKind::Output { direction: word, class: class(input)?, place: place(input.parse()?) }
            }
            "inout" | "inlateout" => {
                let class = class(input)?;
                let value: Expr = input.parse()?;
                let place = if input.parse::<Option<Token![=>]>>()?.is_some() {
                    place(input.parse()?)
                } else {
                    Some(value.clone())
                };
                OperandKind::Both { direction: word, class, value, place }
            }
            "const" => OperandKind::Constant(input.parse()?),
            "sym" => OperandKind::Symbol(input.parse()?),
            "options" if name.is_none() => {
                let content;
                syn::parenthesized!(content in input);
                let options = content.parse_terminated(Ident::parse_any, Token![,])?;
                for option in &options {
                    const KNOWN: &[&str] = &["pure", "nomem", "readonly", "noreturn", "nostack", "preserves_flags"];
                    if !KNOWN.contains(&&*option.to_string()) {
                        let message = format!("PTX takes no option `{option}`; there are {}", list(KNOWN));
                        return Err(Error::new(option.span(), message));
                    }
                }
                self.options.extend(options);
                return Ok(());
            }
            "clobber_abi" => {
                return Err(Error::new(
                    word.span(),
                    "PTX has no registers to clobber; memory counts as changed unless `options(nomem)` is given",
                ));
            }
            "else" => {
                return Err(Error::new(word.span(), "what the CPU executor does comes after a `;`: `..; else { .. }`"));
            }
            other => {
                let message = format!(
                    "`{other}` is no operand: there are `in`, `out`, `lateout`, `inout` and `inlateout` with `(reg)`, `(pred)` or \
                     `(reg128)`, `const`, `sym`, and `options(..)`"
                );
                return Err(Error::new(word.span(), message));
            }
        };
        self.operands.push(Operand { name, span: start, kind });
        Ok(())
    }

    /// The `asm!` of the device build, and what stands for it elsewhere.
    fn expand(&self, pieces: &[Piece]) -> TokenStream {
        let site = Span::mixed_site();
        let asm = quote_spanned!(site=> ::warpsmith::__private::asm);
        let (mut before, mut after, mut operands) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        let (mut first, mut last) = (String::new(), String::new());
        for (index, operand) in self.operands.iter().enumerate() {
            let at = operand.span.resolved_at(site);
            let name = format_ident!("operand_{index}", span = site);
            let (low, high) = (format_ident!("{name}_low", span = site), format_ident!("{name}_high", span = site));
            let (class, value, place, direction) = operand.parts();
            let direction = direction.map(|direction| Ident::new(&direction.to_string(), at));
            match class {
                None => operands.extend(match &operand.kind {
                    OperandKind::Symbol(symbol) => quote_spanned!(at=> #name = sym #symbol,),
                    _ => quote_spanned!(at=> #name = const #value,),
                }),
                Some(Class::Register) => {
                    let value = value.map(|value| quote_spanned!(at=> #asm::into_register(#value)));
                    let result = place.map(|place| {
                        before.extend(quote_spanned!(site=> let #name;));
                        after.extend(quote_spanned!(at=> #place = #asm::from_register(#name);));
                        quote!(#name)
                    });
                    operands.extend(passed(&name, direction.as_ref(), value, result, at));
                }
                Some(Class::Predicate) => {
                    first.push_str(&format!(".reg .pred %ws_p{index}; "));
                    if value.is_some() {
                        first.push_str(&format!("setp.ne.u32 %ws_p{index}, {{{name}}}, 0; "));
                    }
                    if place.is_some() {
                        last.push_str(&format!(" selp.u32 {{{name}}}, 1, 0, %ws_p{index};"));
                    }
                    let value = value.map(|value| quote_spanned!(at=> #asm::from_bool(#value)));
                    let result = place.map(|place| {
                        before.extend(quote_spanned!(site=> let #name: ::core::primitive::u32;));
                        after.extend(quote_spanned!(at=> #place = #name != 0;));
                        quote!(#name)
                    });
                    if value.is_some() || result.is_some() {
                        operands.extend(passed(&name, direction.as_ref(), value, result, at));
                    }
                }
                Some(Class::Wide) => {
                    first.push_str(&format!(".reg .b128 %ws_q{index}; "));
                    if let Some(value) = &value {
                        before.extend(quote_spanned!(at=> let (#low, #high) = #asm::into_halves(#value);));
                        first.push_str(&format!("mov.b128 %ws_q{index}, {{{{{{{low}}}, {{{high}}}}}}}; "));
                    }
                    if place.is_some() {
                        last.push_str(&format!(" mov.b128 {{{{{{{low}}}, {{{high}}}}}}}, %ws_q{index};"));
                    }
                    let results = place.map(|place| {
                        let names = ["low_out", "high_out"].map(|half| format_ident!("{name}_{half}", span = site));
                        let [low, high] = &names;
                        before.extend(
                            quote_spanned!(site=> let (#low, #high): (::core::primitive::u64, ::core::primitive::u64);),
                        );
                        after.extend(quote_spanned!(at=> #place = #asm::from_halves(#low, #high);));
                        names
                    });
                    for (half, index) in [(&low, 0), (&high, 1)] {
                        let value = value.is_some().then(|| quote!(#half));
                        let result = results.as_ref().map(|names| names[index].clone()).map(|name| quote!(#name));
                        if value.is_some() || result.is_some() {
                            operands.extend(passed(half, direction.as_ref(), value, result, at));
                        }
                    }
                }
            }
        }
        let text = self.text(pieces, &first, &last);
        let options = &self.options;
        let options = (!options.is_empty()).then(|| quote_spanned!(site=> options(#(#options),*)));
        let place =
            quote_spanned!(self.texts[0].span()=> ::core::file!(), ":", ::core::line!(), ":", ::core::column!());
        let instructions = quote_spanned! {site=>
            #before
            #[allow(
                asm_sub_register,
                named_asm_labels,
                reason = "the text is PTX: an operand's width comes from its type, and labels are local to their braces"
            )]
            let () = ::core::arch::asm!(::core::concat!("/*ptx@", #place, "@@ ", #text, " */"), #operands #options);
            #after
        };
        match &self.cpu {
            Some(cpu) => quote_spanned! {site=>
                if ::warpsmith::__private::IS_DEVICE_BUILD { #instructions } else #cpu
            },
            None => quote_spanned! {site=> { #asm::begin(); #instructions } },
        }
    }

    /// The text as `asm!` takes it.
    fn text(&self, pieces: &[Piece], first: &str, last: &str) -> Literal {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(part) => text.push_str(&part.replace('{', "{{").replace('}', "}}")),
                Piece::Operand(index) => match self.operands[*index].parts().0 {
                    Some(Class::Predicate) => text.push_str(&format!("%ws_p{index}")),
                    Some(Class::Wide) => text.push_str(&format!("%ws_q{index}")),
                    _ => text.push_str(&format!("{{operand_{index}}}")),
                },
            }
        }
        // Declarations and labels are local to braces: the instructions may occur many times in a function.
        if first.is_empty() && last.is_empty() && !check::declares(pieces) {
            return Literal::string(text.trim());
        }
        Literal::string(&format!("{{{{ {first}{}{last} }}}}", text.trim()))
    }
}

impl Operand {
    /// Class, value, place and direction, as far as there are any.
    fn parts(&self) -> (Option<Class>, Option<&Expr>, Option<&Expr>, Option<&Ident>) {
        match &self.kind {
            OperandKind::Input { class, value } => (Some(*class), Some(value), None, None),
            OperandKind::Output { direction, class, place } => (Some(*class), None, place.as_ref(), Some(direction)),
            OperandKind::Both { direction, class, value, place } => {
                (Some(*class), Some(value), place.as_ref(), Some(direction))
            }
            OperandKind::Constant(value) | OperandKind::Symbol(value) => (None, Some(value), None, None),
        }
    }
}

/// A part of the text: a string literal or `concat!`, which macros that write PTX need.
fn text(input: ParseStream<'_>) -> syn::Result<Option<LitStr>> {
    if let Ok(literal) = input.fork().parse::<LitStr>() {
        input.parse::<LitStr>()?;
        return Ok(Some(literal));
    }
    if !(input.peek(syn::Ident) && input.peek2(Token![!])) {
        return Ok(None);
    }
    let call: syn::ExprMacro = input.parse()?;
    Ok(Some(LitStr::new(&evaluated(&call)?, call.mac.path.segments[0].ident.span())))
}

/// What `concat!` and `stringify!` give.
fn evaluated(call: &syn::ExprMacro) -> syn::Result<String> {
    let tokens = call.mac.tokens.clone();
    if call.mac.path.is_ident("stringify") {
        return Ok(tokens.to_string());
    }
    if !call.mac.path.is_ident("concat") {
        return Err(Error::new_spanned(&call.mac.path, "of macros, the PTX text may hold `concat!` and `stringify!`"));
    }
    let parts = syn::parse::Parser::parse2(Punctuated::<Expr, Token![,]>::parse_terminated, tokens)?;
    parts.iter().map(part_of_text).collect()
}

fn part_of_text(part: &Expr) -> syn::Result<String> {
    match part {
        Expr::Group(group) => part_of_text(&group.expr),
        Expr::Macro(call) => evaluated(call),
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Ok(text.value()),
            Lit::Int(int) => Ok(int.base10_digits().to_owned()),
            Lit::Char(c) => Ok(c.value().to_string()),
            other => Err(Error::new(other.span(), "the PTX text is made of strings, whole numbers and characters")),
        },
        other => Err(Error::new_spanned(other, "the PTX text is made of literals")),
    }
}

/// One operand of `asm!`.
fn passed(
    name: &Ident,
    direction: Option<&Ident>,
    value: Option<TokenStream>,
    result: Option<TokenStream>,
    at: Span,
) -> TokenStream {
    let Some(direction) = direction else { return quote_spanned!(at=> #name = in(reg) #value,) };
    let result = result.unwrap_or_else(|| quote!(_));
    match value {
        Some(value) => quote_spanned!(at=> #name = #direction(reg) #value => #result,),
        None => quote_spanned!(at=> #name = #direction(reg) #result,),
    }
}

fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
