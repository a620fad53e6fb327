//! [`KernelFn`] to the typed launcher and the device entry that stand beside the user's function.

mod docs;
mod generics;
mod options;
mod param;
mod statics;

use proc_macro2::{Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;

use self::docs::{copied_attributes, documentation, launch_documentation, load_documentation};
use self::generics::LaunchGenerics;
use self::options::options;
use self::param::LaunchParam;
use crate::casts;
use crate::check::{self, Problems};
use crate::loops;
use crate::parse::KernelFn;
use crate::targets;

/// Parameters beyond which `launch` has more arguments than clippy likes.
const MANY: usize = 5;

/// Expands `#[kernel]`: the item as it was, except for how it is inlined, its launcher, and an error for each problem.
pub(crate) fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut problems = Problems::default();
    let mut in_loops = Vec::new();
    let item = loops::mark(item, &mut in_loops);
    let item = if casts::is_checked_build() { casts::rewrite(item) } else { item };
    let mut inlined = TokenStream::new();
    let launcher = KernelFn::parse(options, item.clone(), &mut problems).map(|kernel| {
        check::kernel(&kernel, &mut problems);
        if check::is_marked_twice(&kernel) {
            // The other attribute makes the launcher.
            TokenStream::new()
        } else if problems.in_signature() {
            placeholder(&kernel)
        } else {
            if problems.is_empty() {
                inlined = always_inlined(&kernel);
            }
            launcher(&kernel, problems.is_empty())
        }
    });
    let errors = problems.into_compile_errors();
    let in_loops = in_loops.into_iter().map(syn::Error::into_compile_error);
    let errors = quote!(#errors #(#in_loops)*);
    let unseen = targets::unseen();
    quote!(#inlined #item #launcher #errors #unseen)
}

/// An attribute for the user's function: on the CPU its threads are iterations of a loop, and no loop with a call is vectorised.
/// Not in builds for debuggers, which stop in functions by their names; and who has said how it is inlined has the last word.
fn always_inlined(kernel: &KernelFn) -> TokenStream {
    if kernel.attrs.iter().any(|attr| names_inline(attr.to_token_stream())) {
        return TokenStream::new();
    }
    quote_spanned!(Span::mixed_site()=> #[cfg_attr(not(debug_assertions), inline(always))])
}

fn names_inline(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "inline",
        TokenTree::Group(group) => names_inline(group.stream()),
        _ => false,
    })
}

/// The launcher of a kernel whose signature is in order; options are left out when they are not.
fn launcher(kernel: &KernelFn, with_options: bool) -> TokenStream {
    // Locals of this span never meet the user's, and lints take what has it for foreign code, which keeps crates that
    // forbid `unsafe` usable.
    let site = Span::mixed_site();
    let name = &kernel.sig.ident;
    let unsafety = &kernel.sig.unsafety;
    let LaunchGenerics { params: generics, arguments, phantom, predicates } = LaunchGenerics::new(&kernel.sig.generics);
    let params: Vec<LaunchParam> =
        kernel.params.iter().enumerate().map(|(i, p)| LaunchParam::new(i, p, name)).collect();

    let signature = params.iter().map(|p| &p.signature);
    let names = kernel.params.iter().map(|param| Literal::string(&param.name.unraw().to_string()));
    let binds = params.iter().map(|p| &p.bind);
    let entries = params.iter().map(|p| &p.entry);
    let from_abi = params.iter().map(|p| &p.from_abi);
    let from_raw = params.iter().map(|p| &p.from_raw);
    let raw_types: Vec<_> = params.iter().map(|p| &p.raw_type).collect();
    let raw_values: Vec<_> = params.iter().map(|p| &p.raw_value).collect();
    let raw_fields = params.iter().map(|p| &p.raw_field);
    let raws: Vec<_> = params.iter().map(|p| &p.raw).collect();
    let with_memories: Vec<_> = params.iter().map(|p| &p.with_memory).collect();
    let reaches = params.iter().map(|p| &p.reaches);
    let is_plane = params.iter().map(|p| &p.is_plane);
    let arguments_of = params.iter().map(|p| &p.arguments);
    let descs = params.iter().map(|p| &p.desc);
    let locals: Vec<_> = params.iter().map(|p| &p.local).collect();

    let abi = quote_spanned!(site=> ::warpsmith::__private);
    let turbofish = (!arguments.is_empty()).then(|| quote_spanned!(site=> ::<#(#arguments),*>));
    let call = quote_spanned!(site=> #name #turbofish (#(#locals),*));
    let call = if unsafety.is_some() { quote_spanned!(site=> unsafe { #call }) } else { call };
    let text = Literal::string(&name.unraw().to_string());
    let place = quote_spanned!(name.span()=> ::core::file!(), ::core::line!(), ::core::column!());
    let options = if with_options { options(kernel) } else { quote_spanned!(site=> #abi::KernelOptions::NONE) };

    let u32 = quote_spanned!(site=> ::core::primitive::u32);
    let u64 = quote_spanned!(site=> ::core::primitive::u64);
    let bool = quote_spanned!(site=> ::core::primitive::bool);

    let bound = quote_spanned!(site=> __Bound::<#(#arguments),*> { #(#raws,)* instance: ::core::marker::PhantomData });
    let instance = quote_spanned! {site=>
        struct __Instance<#(#generics),*>(::core::marker::PhantomData<(#(*const #phantom,)*)>) #predicates;

        impl<#(#generics),*> __Instance<#(#arguments),*> #predicates {
            const OPTIONS: #abi::KernelOptions = #options;
            const PARAMS: &'static [#abi::ParamDesc] = &[#(#descs),*];
            const DESC: &'static #abi::KernelDesc = &#abi::KernelDesc::new(
                #text,
                ::core::module_path!(),
                #place,
                Self::OPTIONS,
                Self::PARAMS,
            );

            fn register() {
                #abi::register_entry(Self::entry as *const (), Self::DESC, ::core::any::type_name::<Self>());
            }

            #[allow(improper_ctypes_definitions, reason = "the caller is the device build's lowering")]
            unsafe extern "C-unwind" fn entry(#(#entries),*) {
                let scope = unsafe { #abi::Scope::new() };
                #(#from_abi)*
                #call;
            }

            #[inline(never)]
            #[allow(clippy::too_many_arguments, clippy::type_complexity, reason = "two for each of the kernel, of its types")]
            unsafe fn threads(context: &mut #abi::Context<'_>, first: #u32, count: #u64, #(#raw_types),*) {
                #(#with_memories)*
                unsafe { context.run_threads(first, count, &#bound) };
            }

            #[inline(never)]
            #[allow(clippy::too_many_arguments, clippy::type_complexity, reason = "as above")]
            unsafe fn joined_threads(context: &mut #abi::Context<'_>, threads: #abi::JoinedThreads, #(#raw_types),*) {
                #(#with_memories)*
                unsafe { context.run_joined(threads, &#bound) };
            }
        }

        #[allow(clippy::type_complexity, reason = "they are the kernel's own types")]
        struct __Bound<#(#generics),*> #predicates {
            #(#raw_fields,)*
            instance: ::core::marker::PhantomData<__Instance<#(#arguments),*>>,
        }

        unsafe impl<#(#generics),*> #abi::BoundKernel for __Bound<#(#arguments),*> #predicates {
            const IS_PLANE: #bool = false #(|| #is_plane)*;

            #[inline(always)]
            fn reaches(&self, place: &#abi::ThreadPlace) -> #bool {
                let Self { #(#raws,)* instance: _ } = *self;
                true #(&& #reaches)*
            }

            #[inline(always)]
            fn run(&self, scope: &#abi::Scope) {
                let Self { #(#raws,)* instance: _ } = *self;
                #(#from_raw)*
                #call;
            }

            #[inline(always)]
            fn run_joined(&self, context: &mut #abi::Context<'_>, threads: #abi::JoinedThreads) {
                let Self { #(#raws,)* instance: _ } = *self;
                unsafe { __Instance::<#(#arguments),*>::joined_threads(context, threads, #(#raw_values),*) };
            }
        }
    };

    // A kernel with one instance is compiled where it is defined, whoever launches it; others where they are launched.
    let registration = arguments.is_empty().then(|| {
        quote_spanned! {site=>
            #[used]
            static REGISTRATION: ::core::option::Option<fn()> = if #abi::IS_NESTED_BUILD {
                ::core::option::Option::Some(__Instance::register)
            } else {
                ::core::option::Option::None
            };
        }
    });
    let (vis, type_name) = (foreign(kernel.vis.to_token_stream()), enum_name(kernel));
    let (docs, launch_docs) = (documentation(kernel), launch_documentation(kernel));
    let copied = copied_attributes(kernel);
    let parts =
        kernel.attrs.iter().any(|attr| attr.path().is_ident("deprecated")).then(
            || quote_spanned!(site=> #[allow(deprecated, reason = "what names the kernel here is a part of it")]),
        );
    let many = (params.len() > MANY).then(
        || quote_spanned!(site=> #[allow(clippy::too_many_arguments, reason = "as many as the kernel has, and two")]),
    );
    let load_docs = load_documentation(kernel);
    quote_spanned! {site=>
        #(#copied)*
        #docs
        #[non_exhaustive]
        #vis enum #type_name {}

        #(#copied)*
        #parts
        impl #type_name {
            #launch_docs
            #many
            #[inline(never)]
            #vis #unsafety fn launch<#(#generics),*>(
                stream: &::warpsmith::Stream,
                config: impl ::warpsmith::LaunchPlan,
                #(#signature),*
            ) -> ::warpsmith::Result<()>
            #predicates
            {
                let kernel = Self::__kernel #turbofish ();
                let threads = kernel.threads();
                let mut launch = #abi::Launch::new(stream, config, &kernel)?;
                #(#binds)*
                unsafe {
                    launch.launch(
                        (#(#raws,)* threads),
                        |bound, sink: &mut #abi::ArgumentSink<'_>| {
                            let (#(#raws,)* _) = bound;
                            #(#arguments_of)*
                        },
                        |bound, context: &mut #abi::Context<'_>, first: #u32, count: #u64| {
                            let (#(#raws,)* threads) = *bound;
                            threads(context, first, count, #(#raw_values),*);
                        },
                    )
                }
            }

            #load_docs
            #vis fn load<#(#generics),*>(device: &::warpsmith::Device) -> ::warpsmith::Result<::warpsmith::Kernel>
            #predicates
            {
                ::warpsmith::Kernel::load(device, &Self::__kernel #turbofish ())
            }

            #[allow(clippy::type_complexity, reason = "they are the kernel's own types")]
            fn __kernel<#(#generics),*>() -> #abi::KernelInstance<
                unsafe fn(context: &mut #abi::Context<'_>, first: #u32, count: #u64, #(#raw_types),*)
            >
            #predicates
            {
                #instance

                #registration
                if #abi::IS_NESTED_BUILD {
                    __Instance::<#(#arguments),*>::register();
                }
                #abi::KernelInstance::new(
                    __Instance::<#(#arguments),*>::DESC,
                    ::core::any::type_name::<__Instance<#(#arguments),*>>(),
                    &[#(#names),*],
                    __Instance::<#(#arguments),*>::threads,
                )
            }
        }
    }
}

/// What stands in for the launcher while the signature has errors, so that callers bring no further ones.
fn placeholder(kernel: &KernelFn) -> TokenStream {
    let site = Span::mixed_site();
    let (vis, unsafety, type_name) = (foreign(kernel.vis.to_token_stream()), &kernel.sig.unsafety, enum_name(kernel));
    let arguments = (0..kernel.params.len()).map(|i| {
        let name = format_ident!("_argument_{i}", span = site);
        quote_spanned!(site=> #name: impl ::core::marker::Sized)
    });
    quote_spanned! {site=>
        #[doc(hidden)]
        #vis enum #type_name {}

        impl #type_name {
            #[doc(hidden)]
            #vis #unsafety fn launch(
                _stream: &::warpsmith::Stream,
                _config: impl ::warpsmith::LaunchPlan,
                #(#arguments),*
            ) -> ::warpsmith::Result<()> {
                ::core::unreachable!()
            }

            #[doc(hidden)]
            #vis fn load(_device: &::warpsmith::Device) -> ::warpsmith::Result<::warpsmith::Kernel> {
                ::core::unreachable!()
            }
        }
    }
}

/// The same tokens, foreign to lints as the rest of the expansion.
fn foreign(tokens: TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            let span = token.span().resolved_at(Span::mixed_site());
            if let TokenTree::Group(group) = &token {
                token = TokenTree::Group(Group::new(group.delimiter(), foreign(group.stream())));
            }
            token.set_span(span);
            token
        })
        .collect()
}

/// The kernel's name for the type beside it: found where the function's is, but no business of naming lints.
fn enum_name(kernel: &KernelFn) -> Ident {
    let mut name = kernel.sig.ident.clone();
    name.set_span(name.span().resolved_at(Span::mixed_site()));
    name
}
