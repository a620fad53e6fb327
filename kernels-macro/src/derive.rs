//! `#[derive(KernelValue)]`: proof that a type is plain data, with a hash of its layout.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Data, DeriveInput, Expr, Field, Fields, Meta, Token, Type, TypePath, Variant};

use crate::check::Problems;
use crate::parse::{ends, peel};

/// Expands the derive: the implementation, or an error for each reason against it.
pub(crate) fn kernel_value(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let mut problems = Problems::default();
    check(&input, &mut problems);
    if problems.is_empty() { implementation(&input) } else { problems.into_compile_errors() }
}

fn check(input: &DeriveInput, problems: &mut Problems) {
    if let Data::Union(data) = &input.data {
        problems.at(
            data.union_token,
            "a union may hold bytes that are no value of its fields on the other side; derive `KernelValue` on a struct \
             or an enum",
        );
    }
    for lifetime in input.generics.lifetimes() {
        problems.at(
            lifetime,
            "a type with a lifetime borrows memory of the host, which a device cannot reach; hold the values themselves, \
             or indices into a slice that the kernel takes",
        );
    }
    for field in fields(&input.data) {
        match peel(&field.ty) {
            Type::Reference(reference) => problems.at(
                reference,
                "a reference is an address of the host, which a device cannot reach; hold the value itself, or an index \
                 into a slice that the kernel takes",
            ),
            Type::Ptr(pointer) => problems.at(
                pointer,
                "a raw pointer is no plain data; pass it to an `unsafe fn` kernel as a parameter of its own, or hold an \
                 index into a slice that the kernel takes",
            ),
            _ => {}
        }
    }
}

/// All fields of a struct, or of all variants of an enum.
fn fields(data: &Data) -> Vec<&Field> {
    match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    }
}

fn implementation(input: &DeriveInput) -> TokenStream {
    // This span makes the code foreign to lints, so that crates that forbid `unsafe` may derive.
    let site = Span::mixed_site();
    let name = &input.ident;
    let (kind, folds): (_, TokenStream) = match &input.data {
        Data::Struct(data) => ("struct", fold_struct(&data.fields)),
        Data::Enum(data) => {
            let repr = discriminant_type(&input.attrs);
            let mut discriminant = Discriminant::FIRST;
            let mut fold = |variant| {
                let folds = fold_variant(variant, discriminant.of(variant), &repr);
                discriminant.advance();
                folds
            };
            ("enum", data.variants.iter().map(&mut fold).collect())
        }
        Data::Union(_) => ("union", TokenStream::new()),
    };
    let text = Literal::string(&format!("{kind} {}", name.unraw()));
    let mut generics = input.generics.clone();
    let extra = predicates(input);
    if !extra.is_empty() {
        generics.make_where_clause().predicates.extend(extra);
    }
    let (generics, arguments, predicates) = generics.split_for_impl();
    // Where the type itself falls short, it is not `Copy` say, the error is at its name.
    let implemented = quote_spanned!(name.span().resolved_at(site)=> ::warpsmith::__private::KernelValue);
    quote_spanned! {site=>
        #[automatically_derived]
        unsafe impl #generics #implemented for #name #arguments #predicates {
            const LAYOUT: ::core::primitive::u64 = {
                let mut hash = ::warpsmith::__private::leaf_layout::<Self>(#text);
                #folds
                hash
            };
        }
    }
}

fn fold_struct(fields: &Fields) -> TokenStream {
    let site = Span::mixed_site();
    let fold = |(member, field): (syn::Member, &Field)| {
        let label = fold_text(&member.to_token_stream().to_string());
        let offset = fold(quote_spanned!(site=> ::core::mem::offset_of!(Self, #member) as ::core::primitive::u64));
        let ty = fold_type(&field.ty);
        quote_spanned!(site=> #label #offset #ty)
    };
    fields.members().zip(fields).map(fold).collect()
}

/// Offsets inside variants have no stable name; size, alignment and order of the types fix them for one compiler.
fn fold_variant(variant: &Variant, discriminant: &Discriminant<'_>, repr: &Ident) -> TokenStream {
    let site = Span::mixed_site();
    let label = fold_text(&variant.ident.to_string());
    let after = Literal::i128_suffixed(discriminant.after);
    let base = match discriminant.explicit {
        Some(value) => quote_spanned!(site=> {
            const EXPLICIT: ::core::primitive::#repr = #value;
            EXPLICIT as ::core::primitive::i128
        }),
        None => quote_spanned!(site=> 0),
    };
    let discriminant =
        fold(quote_spanned!(site=> ::core::primitive::i128::wrapping_add(#base, #after) as ::core::primitive::u64));
    let fields = variant.fields.members().zip(&variant.fields).map(|(member, field)| {
        let label = fold_text(&member.to_token_stream().to_string());
        let ty = fold_type(&field.ty);
        quote_spanned!(site=> #label #ty)
    });
    quote_spanned!(site=> #label #discriminant #(#fields)*)
}

/// A variant's discriminant: so many after the last one that was written.
#[derive(Clone, Copy)]
struct Discriminant<'a> {
    explicit: Option<&'a Expr>,
    after: i128,
}

impl<'a> Discriminant<'a> {
    const FIRST: Self = Self { explicit: None, after: 0 };

    /// That of `variant`, which comes next.
    fn of(&mut self, variant: &'a Variant) -> &Self {
        if let Some((_, value)) = &variant.discriminant {
            *self = Self { explicit: Some(value), after: 0 };
        }
        self
    }

    fn advance(&mut self) {
        self.after += 1;
    }
}

/// The integer type of an enum's discriminants: that of `#[repr(..)]`, or `isize`.
fn discriminant_type(attrs: &[Attribute]) -> Ident {
    let words = attrs.iter().filter(|attr| attr.path().is_ident("repr")).flat_map(|attr| {
        attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default().into_iter()
    });
    let integer = words.filter_map(|word| word.path().get_ident().map(ToString::to_string)).find(|word| {
        let size = word.strip_prefix(['i', 'u']);
        size.is_some_and(|size| ["8", "16", "32", "64", "128", "size"].contains(&size))
    });
    Ident::new(integer.as_deref().unwrap_or("isize"), Span::mixed_site())
}

fn fold(word: TokenStream) -> TokenStream {
    quote_spanned!(Span::mixed_site()=> hash = ::warpsmith::__private::fold_layout(hash, #word);)
}

/// Folds a name in as one number, its FNV-1a hash.
fn fold_text(text: &str) -> TokenStream {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    fold(Literal::u64_suffixed(hash).into_token_stream())
}

/// Folds a field's type in; the error for a type that cannot cross is at the type.
fn fold_type(ty: &Type) -> TokenStream {
    let (start, end) = ends(ty);
    let (open, close) = (quote_spanned!(start=> <), quote_spanned!(end=> as ::warpsmith::__private::KernelValue>));
    fold(quote!(#open #ty #close ::LAYOUT))
}

/// What the generic parameters must be for the fields to cross: `T: KernelValue` where a `T` is held; for a type that
/// only mentions one (`PhantomData<T>`, `T::Item`) the type itself.
fn predicates(input: &DeriveInput) -> Vec<syn::WherePredicate> {
    let names: Vec<&Ident> = input.generics.type_params().map(|param| &param.ident).collect();
    let mut uses = Uses { names: &names, held: Vec::new(), mentioned: Vec::new() };
    for field in fields(&input.data) {
        uses.visit_type(&field.ty);
    }
    let site = Span::mixed_site();
    let value = quote_spanned!(site=> ::warpsmith::__private::KernelValue);
    let mut predicates = Vec::new();
    for name in &names {
        let bound = if uses.held.contains(name) { value.clone() } else { quote_spanned!(site=> 'static) };
        predicates.push(syn::parse_quote_spanned!(site=> #name: #bound));
    }
    predicates.extend(uses.mentioned.iter().map(|ty| syn::parse_quote_spanned!(site=> #ty: #value)));
    if names.iter().any(|name| !uses.held.contains(name)) {
        predicates.push(syn::parse_quote_spanned!(site=> Self: ::core::marker::Copy));
    }
    predicates
}

/// Finds out how the fields use the generic parameters.
struct Uses<'a> {
    names: &'a [&'a Ident],
    held: Vec<Ident>,
    mentioned: Vec<TypePath>,
}

impl Uses<'_> {
    fn mentions_parameter(&self, path: &TypePath) -> bool {
        let mut inner = Uses { names: self.names, held: Vec::new(), mentioned: Vec::new() };
        visit::visit_type_path(&mut inner, path);
        !inner.held.is_empty() || !inner.mentioned.is_empty()
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_type_path(&mut self, path: &'ast TypePath) {
        let first = path.path.segments.first().map(|segment| &segment.ident);
        let starts_with_parameter = path.qself.is_none() && first.is_some_and(|first| self.names.contains(&first));
        let phantom = path.path.segments.last().is_some_and(|segment| segment.ident == "PhantomData");
        if starts_with_parameter && path.path.segments.len() == 1 {
            self.held.extend(first.cloned());
        } else if starts_with_parameter || ((phantom || path.qself.is_some()) && self.mentions_parameter(path)) {
            self.mentioned.push(path.clone());
        } else {
            visit::visit_type_path(self, path);
        }
    }
}
