//! `#[derive(AnyBits)]`: proof that a struct has no padding, and fields that take any bits.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields};

use crate::check::Problems;
use crate::parse::ends;

/// Expands the derive: the implementation, or an error for each reason against it.
pub(crate) fn any_bits(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let mut problems = Problems::default();
    if !input.generics.params.is_empty() {
        problems.at(
            &input.generics,
            "whether a generic type has padding depends on its arguments; derive `AnyBits` on a type without parameters",
        );
    }
    match &input.data {
        Data::Struct(data) if problems.is_empty() => return implementation(&input, &data.fields),
        Data::Struct(_) => {}
        Data::Enum(data) => {
            problems.at(data.enum_token, "not all bits are a variant of an enum; hold its number instead")
        }
        Data::Union(data) => problems.at(data.union_token, "a union's fields may leave bytes without a value"),
    }
    problems.into_compile_errors()
}

fn implementation(input: &DeriveInput, fields: &Fields) -> TokenStream {
    // This span makes the code foreign to lints, so that crates that forbid `unsafe` may derive.
    let site = Span::mixed_site();
    let name = &input.ident;
    let of_fields = fields.iter().map(|field| {
        let ty = &field.ty;
        let (start, end) = ends(ty);
        let (open, close) = (quote_spanned!(start=> any_bits::<), quote_spanned!(end=> >()));
        let checked = quote!(#open #ty #close);
        quote_spanned!(site=> + #checked)
    });
    let implemented = quote_spanned!(name.span().resolved_at(site)=> ::warpsmith::__private::AnyBits);
    let text = Literal::string(&format!(
        "`{}` has bytes between or behind its fields that belong to none: order the fields by size, the largest first, or \
         add one that fills the gap",
        name.unraw()
    ));
    quote_spanned! {site=>
        #[automatically_derived]
        unsafe impl #implemented for #name {}

        const _: () = {
            const fn any_bits<T: ::warpsmith::__private::AnyBits>() -> ::core::primitive::usize {
                ::core::mem::size_of::<T>()
            }
            ::core::assert!(::core::mem::size_of::<#name>() == 0 #(#of_fields)*, #text);
        };
    }
}
