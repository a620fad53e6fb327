//! `#[derive(WarpValue)]`: the bits of a struct's fields, packed; an enum without data as the number of its variant.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Data, DataEnum, DeriveInput, Fields, Type};

use crate::check::Problems;
use crate::parse::ends;

/// Expands the derive: the implementation, or an error for each reason against it.
pub(crate) fn warp_value(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let mut problems = Problems::default();
    match &input.data {
        Data::Struct(_) => {}
        Data::Enum(data) => {
            for variant in data.variants.iter().filter(|variant| !matches!(variant.fields, Fields::Unit)) {
                problems.at(
                    variant,
                    "an enum with data moves between lanes only as you say: implement `WarpValue` by hand, with a tuple \
                     of all that a variant may hold",
                );
            }
            if data.variants.is_empty() {
                problems.at(&input.ident, "an enum without variants has no value to move");
            }
        }
        Data::Union(data) => {
            problems.at(data.union_token, "which field of a union holds a value is not known; move that field itself");
        }
    }
    if !problems.is_empty() {
        return problems.into_compile_errors();
    }
    match &input.data {
        Data::Struct(data) => of_struct(&input, &data.fields),
        Data::Enum(data) => of_enum(&input, data),
        Data::Union(_) => TokenStream::new(),
    }
}

fn implementation(input: &DeriveInput, bits: &TokenStream, to: &TokenStream, from: &TokenStream) -> TokenStream {
    let site = Span::mixed_site();
    let name = &input.ident;
    let mut generics = input.generics.clone();
    for parameter in input.generics.type_params() {
        let parameter = &parameter.ident;
        let bound = syn::parse_quote_spanned!(site=> #parameter: ::warpsmith::__private::WarpValue);
        generics.make_where_clause().predicates.push(bound);
    }
    let (generics, arguments, predicates) = generics.split_for_impl();
    let implemented = quote_spanned!(name.span().resolved_at(site)=> ::warpsmith::__private::WarpValue);
    quote_spanned! {site=>
        #[automatically_derived]
        impl #generics #implemented for #name #arguments #predicates {
            const LANE_BITS: ::core::primitive::u32 = #bits;

            #[inline(always)]
            fn to_lane_bits(self) -> ::core::primitive::u128 {
                #to
            }

            #[inline(always)]
            fn from_lane_bits(bits: ::core::primitive::u128) -> Self {
                #from
            }
        }
    }
}

fn of_struct(input: &DeriveInput, fields: &Fields) -> TokenStream {
    let site = Span::mixed_site();
    let bits = fields.iter().map(|field| {
        let bits = of_field(&field.ty, &quote!(LANE_BITS));
        quote_spanned!(site=> + #bits)
    });
    let pushes = fields.members().map(|member| quote_spanned!(site=> .push(self.#member)));
    let takes = fields.members().zip(fields).map(|(member, field)| {
        let ty = &field.ty;
        quote_spanned!(site=> #member: all.take::<#ty>(),)
    });
    implementation(
        input,
        &quote_spanned!(site=> 0 #(#bits)*),
        &quote_spanned!(site=> ::warpsmith::__private::LaneBits::new(0) #(#pushes)* .bits()),
        &quote_spanned! {site=>
            let all = &mut ::warpsmith::__private::LaneBits::new(bits);
            let _ = &all;
            Self { #(#takes)* }
        },
    )
}

/// An item of a field's type; the error for a type that cannot move is at the type.
fn of_field(ty: &Type, item: &TokenStream) -> TokenStream {
    let (start, end) = ends(ty);
    let (open, close) = (quote_spanned!(start=> <), quote_spanned!(end=> as ::warpsmith::__private::WarpValue>));
    quote!(#open #ty #close :: #item)
}

fn of_enum(input: &DeriveInput, data: &DataEnum) -> TokenStream {
    let site = Span::mixed_site();
    let variants = data.variants.iter().map(|variant| &variant.ident);
    let again = variants.clone();
    let last = data.variants.len() - 1;
    let bits = usize::BITS - last.leading_zeros();
    let mask = Literal::u128_suffixed((1 << bits) - 1);
    let numbers = (0..).map(Literal::u128_suffixed);
    let numbers_again = numbers.clone();
    let text = Literal::string(&format!(
        "variant {{}} of `{}` came from another lane, which ends at {last}",
        syn::ext::IdentExt::unraw(&input.ident)
    ));
    implementation(
        input,
        &quote_spanned!(site=> #bits),
        &quote_spanned!(site=> match self { #(Self::#variants => #numbers,)* }),
        &quote_spanned! {site=>
            match bits & #mask {
                #(#numbers_again => Self::#again,)*
                other => ::core::panic!(#text, other),
            }
        },
    )
}
