//! The attribute's options as a constant.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote_spanned;

use crate::check::{block_shape, constant_checks, opt_level};
use crate::parse::KernelFn;

/// The kernel's options as a constant of type `KernelOptions`.
pub(super) fn options(kernel: &KernelFn) -> TokenStream {
    let site = Span::mixed_site();
    let abi = quote_spanned!(site=> ::warpsmith::__private);
    let mut fields = Vec::new();
    let mut checks = Vec::new();
    for option in &kernel.options {
        let field = Ident::new(&option.name.to_string(), site);
        match &option.value {
            None => fields.push(quote_spanned!(site=> #field: 1)),
            Some(value) if field == "block" => {
                let shape = block_shape(value);
                let missing = (shape.len()..3).map(|_| Literal::u32_unsuffixed(1));
                fields.push(quote_spanned!(site=> #field: [#(#shape,)* #(#missing),*]));
            }
            Some(_) if field == "opt_level" => {
                let level = opt_level(option).unwrap_or(0);
                fields.push(quote_spanned!(site=> #field: #level));
            }
            Some(value) => fields.push(quote_spanned!(site=> #field: #value)),
        }
        checks.extend(constant_checks(option));
    }
    if fields.is_empty() {
        return quote_spanned!(site=> #abi::KernelOptions::NONE);
    }
    let options = quote_spanned!(site=> #abi::KernelOptions { #(#fields,)* ..#abi::KernelOptions::NONE });
    if checks.is_empty() { options } else { quote_spanned!(site=> { let options = #options; #(#checks)* options }) }
}
