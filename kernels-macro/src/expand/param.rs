//! One parameter of a kernel to its parts of the launcher and of the device entry.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::Type;

use super::statics::static_type;
use crate::parse::{Param, ParamKind, peel, place};

/// One parameter on the launcher's side.
///
/// Whatever names the parameter's type has one span, [`place`]. So rustc reports a type that cannot cross there and not
/// many times over: errors that are equal in text and place are printed once.
pub(super) struct LaunchParam {
    /// The parameter of `launch`.
    pub(super) signature: TokenStream,
    /// The statement in `launch` that makes what the host keeps.
    pub(super) bind: TokenStream,
    /// What the function is called with.
    pub(super) local: Ident,
    /// The two parameters of the device entry.
    pub(super) entry: TokenStream,
    /// The statement in the entry that makes `local`.
    pub(super) from_abi: TokenStream,
    /// The statement in one thread's run on the host that makes `local`.
    pub(super) from_raw: TokenStream,
    /// The two parameters, what the host keeps and its memory, of the function that runs threads on the host.
    pub(super) raw_type: TokenStream,
    /// What it is called with.
    pub(super) raw_value: TokenStream,
    /// The statement in it that puts the two together.
    pub(super) with_memory: TokenStream,
    /// Its value on the host, as a field.
    pub(super) raw_field: TokenStream,
    /// That field's name.
    pub(super) raw: Ident,
    /// Whether a thread finds its element.
    pub(super) reaches: TokenStream,
    /// Whether it is owned by place along x and y.
    pub(super) is_plane: TokenStream,
    /// The call that lists the addresses of what the driver takes.
    pub(super) arguments: TokenStream,
    /// The parameter's description.
    pub(super) desc: TokenStream,
}

impl LaunchParam {
    pub(super) fn new(index: usize, param: &Param, kernel: &Ident) -> Self {
        let site = Span::mixed_site();
        let at = place(&param.ty);
        // A local of the kernel's name would hide the kernel.
        let name = if param.name == *kernel { format_ident!("{kernel}_", span = site) } else { param.name.clone() };
        let ty = static_type(&param.ty);
        let abi = quote_spanned!(at=> ::warpsmith::__private);
        let (key, first_type, second_type, host_types) = match peel(&ty) {
            Type::Reference(reference) => match (&*reference.elem, peel(&reference.elem)) {
                (_, Type::Slice(slice)) => {
                    let elem = &slice.elem;
                    (
                        quote_spanned!(at=> #abi::Slice<#elem>),
                        quote_spanned!(at=> &'static [#elem; 0]),
                        quote_spanned!(at=> ::core::primitive::usize),
                        [quote_spanned!(at=> #abi::RawSlice<#elem>), quote_spanned!(at=> &'static [#elem; 0])],
                    )
                }
                (elem, _) => (
                    quote_spanned!(at=> #abi::Ref<#elem>),
                    quote_spanned!(at=> &'static #elem),
                    quote_spanned!(at=> ()),
                    [quote_spanned!(at=> #abi::RawPtr<#elem>), quote_spanned!(at=> &'static #elem)],
                ),
            },
            Type::Ptr(pointer) => {
                let elem = &pointer.elem;
                (
                    pointer.to_token_stream(),
                    pointer.to_token_stream(),
                    quote_spanned!(at=> ()),
                    [quote_spanned!(at=> #abi::RawPtr<#elem>), quote_spanned!(at=> ())],
                )
            }
            ty if param.kind == ParamKind::Value => (
                quote_spanned!(at=> #abi::Value<#ty>),
                quote_spanned!(at=> #abi::ByVal<#ty>),
                quote_spanned!(at=> ()),
                [ty.to_token_stream(), quote_spanned!(at=> ())],
            ),
            ty => (
                ty.to_token_stream(),
                quote_spanned!(at=> <#ty as #abi::KernelParam>::Abi0),
                quote_spanned!(at=> <#ty as #abi::KernelParam>::Abi1),
                [
                    quote_spanned!(at=> <#ty as #abi::KernelParam>::Raw),
                    quote_spanned!(at=> <#ty as #abi::KernelParam>::Memory),
                ],
            ),
        };
        let [raw_type, memory_type] = host_types;
        let of = quote_spanned!(at=> <#key as #abi::KernelParam>);
        let ident = |name: &str| Ident::new(&format!("{name}{index}"), at.resolved_at(site));
        let (raw, local, first, second) = (ident("raw"), ident("argument"), ident("first"), ident("second"));
        let memory = ident("memory");
        let shared = |name: &str| Ident::new(name, at.resolved_at(site));
        let (scope, sink, launch, own_place) = (shared("scope"), shared("sink"), shared("launch"), shared("place"));

        let from_abi = quote_spanned!(at=> #of::from_abi(#first, #second, &#scope));
        let from_raw = quote_spanned!(at=> #of::from_raw(#raw, #scope));
        let (argument, value) = if param.kind == ParamKind::Value {
            (ty.to_token_stream(), name.to_token_stream())
        } else {
            (quote_spanned!(at=> impl ::warpsmith::LaunchArg<#ty>), quote_spanned!(at=> #launch.bind::<#ty, _>(#name)?))
        };
        Self {
            signature: quote_spanned!(site=> #name: #argument),
            bind: quote_spanned!(site=> let #raw = #value;),
            entry: quote_spanned!(site=> #first: #first_type, #second: #second_type),
            from_abi: quote_spanned!(site=> let #local = unsafe { #from_abi };),
            from_raw: quote_spanned!(site=> let #local = unsafe { #from_raw };),
            raw_type: quote_spanned!(at=> #raw: #raw_type, #memory: #memory_type),
            raw_field: quote_spanned!(at=> #raw: #raw_type),
            raw_value: quote_spanned!(at=> #raw, #of::memory(&#raw)),
            with_memory: quote_spanned!(at=> let #raw = #of::with_memory(#raw, #memory);),
            reaches: quote_spanned!(at=> #of::reaches(&#raw, #own_place)),
            is_plane: quote_spanned!(at=> #of::IS_PLANE),
            arguments: quote_spanned!(at=> #of::arguments(#raw, #sink);),
            desc: quote_spanned!(at=> #of::DESC),
            local,
            raw,
        }
    }
}
