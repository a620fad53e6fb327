//! [`KernelFn`] to the typed launcher and the device entry that stand beside the user's function.

use proc_macro2::{Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, BoundLifetimes, Expr, ExprLit, GenericArgument, GenericParam, Generics, Lifetime, Lit, Meta,
    MetaNameValue, ParenthesizedGenericArguments, PathArguments, Token, TraitBound, TraitBoundModifier, Type,
    TypeBareFn, TypeParamBound, TypeReference, WherePredicate, parse_quote_spanned,
};

use crate::check::{self, Problems};
use crate::parse::{KernelFn, Param, ParamKind, peel, place};

/// Parameters beyond which `launch` has more arguments than clippy likes.
const MANY: usize = 5;

/// Expands `#[kernel]`: the item as it was, its launcher, and an error for each problem.
pub(crate) fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut problems = Problems::default();
    let launcher = KernelFn::parse(options, item.clone(), &mut problems).map(|kernel| {
        check::kernel(&kernel, &mut problems);
        if check::is_marked_twice(&kernel) {
            // The other attribute makes the launcher.
            TokenStream::new()
        } else if problems.in_signature() {
            placeholder(&kernel)
        } else {
            launcher(&kernel, problems.is_empty())
        }
    });
    let errors = problems.into_compile_errors();
    quote!(#item #launcher #errors)
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
    let binds = params.iter().map(|p| &p.bind);
    let entries = params.iter().map(|p| &p.entry);
    let from_abi = params.iter().map(|p| &p.from_abi);
    let from_raw = params.iter().map(|p| &p.from_raw);
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
            unsafe extern "C" fn entry(#(#entries),*) {
                let scope = unsafe { #abi::Scope::new() };
                #(#from_abi)*
                #call;
            }
        }
    };

    // A kernel with one instance is compiled where it is defined, whoever launches it; others where they are launched.
    let registration = arguments.is_empty().then(|| {
        quote_spanned! {site=>
            #[used]
            static REGISTRATION: ::core::option::Option<fn()> = if #abi::IS_DEVICE_BUILD {
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
                config: ::warpsmith::LaunchConfig,
                #(#signature),*
            ) -> ::warpsmith::Result<()>
            #predicates
            {
                #instance

                #registration
                if #abi::IS_DEVICE_BUILD {
                    __Instance::<#(#arguments),*>::register();
                }
                let mut launch = #abi::Launch::new(
                    stream,
                    config,
                    __Instance::<#(#arguments),*>::DESC,
                    ::core::any::type_name::<__Instance<#(#arguments),*>>(),
                )?;
                #(#binds)*
                launch.run(
                    &|each: &mut dyn ::core::ops::FnMut(*const ::core::primitive::u8)| { #(#arguments_of)* },
                    &|scope: &#abi::Scope| {
                        #(#from_raw)*
                        #call;
                    },
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
                _config: ::warpsmith::LaunchConfig,
                #(#arguments),*
            ) -> ::warpsmith::Result<()> {
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

/// The attributes that the enum and its impl share with the function.
fn copied_attributes(kernel: &KernelFn) -> Vec<&Attribute> {
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
fn documentation(kernel: &KernelFn) -> TokenStream {
    let mut lines = opening_docs(kernel);
    if lines.is_empty() {
        lines.push(format!(" The kernel `{}`.", kernel.sig.ident));
    }
    quote_spanned!(Span::mixed_site()=> #(#[doc = #lines])*)
}

/// Docs of `launch`: what it does, what the kernel does, what an unsafe caller promises, and errors.
fn launch_documentation(kernel: &KernelFn) -> TokenStream {
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

/// One parameter on the launcher's side.
///
/// Whatever names the parameter's type has one span, [`place`]. So rustc reports a type that cannot cross there and not
/// many times over: errors that are equal in text and place are printed once.
struct LaunchParam {
    /// The parameter of `launch`.
    signature: TokenStream,
    /// The statement in `launch` that makes what the host keeps.
    bind: TokenStream,
    /// What the function is called with.
    local: Ident,
    /// The two parameters of the device entry.
    entry: TokenStream,
    /// The statement in the entry that makes `local`.
    from_abi: TokenStream,
    /// The statement in one thread's run on the host that makes `local`.
    from_raw: TokenStream,
    /// The call that lists the addresses of what the driver takes.
    arguments: TokenStream,
    /// The parameter's description.
    desc: TokenStream,
}

impl LaunchParam {
    fn new(index: usize, param: &Param, kernel: &Ident) -> Self {
        let site = Span::mixed_site();
        let at = place(&param.ty);
        // A local of the kernel's name would hide the kernel.
        let name = if param.name == *kernel { format_ident!("{kernel}_", span = site) } else { param.name.clone() };
        let ty = static_type(&param.ty);
        let abi = quote_spanned!(at=> ::warpsmith::__private);
        let (key, first_type, second_type) = match peel(&ty) {
            Type::Reference(reference) => match (&*reference.elem, peel(&reference.elem)) {
                (_, Type::Slice(slice)) => {
                    let elem = &slice.elem;
                    (
                        quote_spanned!(at=> #abi::Slice<#elem>),
                        quote_spanned!(at=> &'static [#elem; 0]),
                        quote_spanned!(at=> ::core::primitive::usize),
                    )
                }
                (elem, _) => (
                    quote_spanned!(at=> #abi::Ref<#elem>),
                    quote_spanned!(at=> &'static #elem),
                    quote_spanned!(at=> ()),
                ),
            },
            Type::Ptr(pointer) => (pointer.to_token_stream(), pointer.to_token_stream(), quote_spanned!(at=> ())),
            ty if param.kind == ParamKind::Value => {
                (quote_spanned!(at=> #abi::Value<#ty>), quote_spanned!(at=> #abi::ByVal<#ty>), quote_spanned!(at=> ()))
            }
            ty => (
                ty.to_token_stream(),
                quote_spanned!(at=> <#ty as #abi::KernelParam>::Abi0),
                quote_spanned!(at=> <#ty as #abi::KernelParam>::Abi1),
            ),
        };
        let of = quote_spanned!(at=> <#key as #abi::KernelParam>);
        let ident = |name: &str| Ident::new(&format!("{name}{index}"), at.resolved_at(site));
        let (raw, local, first, second) = (ident("raw"), ident("argument"), ident("first"), ident("second"));
        let shared = |name: &str| Ident::new(name, at.resolved_at(site));
        let (scope, each, launch) = (shared("scope"), shared("each"), shared("launch"));

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
            arguments: quote_spanned!(at=> #of::arguments(&#raw, #each);),
            desc: quote_spanned!(at=> #of::DESC),
            local,
        }
    }
}

/// The type with `'static` in place of every lifetime, written or not: the key under which a parameter crosses.
fn static_type(ty: &Type) -> Type {
    let mut ty = ty.clone();
    Statics { bound: Vec::new(), elided: true }.visit_type_mut(&mut ty);
    ty
}

/// Puts `'static` in place of lifetimes, except those that a `for<..>` inside binds.
struct Statics {
    bound: Vec<Ident>,
    /// Whether a reference without a lifetime gets one; not inside `fn(..)` and `Fn(..)`, where it means another thing.
    elided: bool,
}

impl Statics {
    fn inside(&mut self, lifetimes: Option<&BoundLifetimes>, elided: bool, visit: impl FnOnce(&mut Self)) {
        let outer = (self.bound.len(), self.elided);
        self.bound.extend(bound_names(lifetimes));
        self.elided &= elided;
        visit(self);
        self.bound.truncate(outer.0);
        self.elided = outer.1;
    }
}

fn bound_names(lifetimes: Option<&BoundLifetimes>) -> Vec<Ident> {
    let params = lifetimes.into_iter().flat_map(|l| &l.lifetimes);
    params
        .filter_map(|p| match p {
            GenericParam::Lifetime(p) => Some(p.lifetime.ident.clone()),
            _ => None,
        })
        .collect()
}

impl VisitMut for Statics {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        let anonymous = lifetime.ident == "_";
        if (anonymous && self.elided) || (!anonymous && !self.bound.contains(&lifetime.ident)) {
            lifetime.ident = Ident::new("static", lifetime.ident.span());
        }
    }

    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        if reference.lifetime.is_none() && self.elided {
            reference.lifetime = Some(Lifetime::new("'static", reference.and_token.span));
        }
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_path_segment_mut(&mut self, segment: &mut syn::PathSegment) {
        if segment.ident == "GridSliceMut"
            && self.elided
            && let PathArguments::AngleBracketed(arguments) = &mut segment.arguments
            && !matches!(arguments.args.first(), Some(GenericArgument::Lifetime(_)))
        {
            let lifetime = Lifetime::new("'static", segment.ident.span());
            arguments.args.insert(0, GenericArgument::Lifetime(lifetime));
        }
        visit_mut::visit_path_segment_mut(self, segment);
    }

    fn visit_type_bare_fn_mut(&mut self, function: &mut TypeBareFn) {
        let lifetimes = function.lifetimes.clone();
        self.inside(lifetimes.as_ref(), false, |this| visit_mut::visit_type_bare_fn_mut(this, function));
    }

    fn visit_parenthesized_generic_arguments_mut(&mut self, arguments: &mut ParenthesizedGenericArguments) {
        self.inside(None, false, |this| visit_mut::visit_parenthesized_generic_arguments_mut(this, arguments));
    }

    fn visit_trait_bound_mut(&mut self, bound: &mut syn::TraitBound) {
        let lifetimes = bound.lifetimes.clone();
        self.inside(lifetimes.as_ref(), true, |this| visit_mut::visit_trait_bound_mut(this, bound));
    }

    // Labels inside a constant's expression look like lifetimes.
    fn visit_expr_mut(&mut self, _: &mut Expr) {}
    fn visit_bound_lifetimes_mut(&mut self, _: &mut BoundLifetimes) {}
}

/// The generics of `launch` and of the instance it makes: those of the function without its lifetimes.
///
/// A bound that names one of the function's lifetimes is asked for all lifetimes, because each thread's run has its own.
struct LaunchGenerics {
    /// Declarations: `T: Bound`, `const N: usize`.
    params: Vec<TokenStream>,
    /// Uses: `T`, `N`.
    arguments: Vec<Ident>,
    /// The type parameters.
    phantom: Vec<Ident>,
    /// The `where` clause, or nothing.
    predicates: Option<TokenStream>,
}

impl LaunchGenerics {
    fn new(generics: &Generics) -> Self {
        let lifetimes: Vec<&Lifetime> = generics.lifetimes().map(|l| &l.lifetime).collect();
        let mut this = Self { params: Vec::new(), arguments: Vec::new(), phantom: Vec::new(), predicates: None };
        let mut predicates = Vec::new();
        for param in &generics.params {
            match param {
                GenericParam::Lifetime(_) => {}
                GenericParam::Type(ty) => {
                    let (attrs, name) = (&ty.attrs, &ty.ident);
                    let mut bounds = Vec::new();
                    for bound in traits(&ty.bounds) {
                        if mentioned(&lifetimes, |finder| finder.visit_trait_bound(bound)).is_empty() {
                            bounds.push(bound.to_token_stream());
                        } else {
                            let ty = parse_quote_spanned!(name.span()=> #name);
                            predicates.push(for_all(&ty, None, bound, &lifetimes));
                        }
                    }
                    // What crosses never borrows. Beside the user's own bounds this gives style lints no cause, and where
                    // there is none, rustc's advice on the missing one stays readable.
                    let outlives = quote_spanned!(Span::mixed_site()=> 'static);
                    if !bounds.is_empty() {
                        bounds.push(outlives);
                    } else if is_bounded(generics, name) {
                        predicates.push(quote!(#name: #outlives));
                    }
                    let colon = (!bounds.is_empty()).then(|| ty.colon_token.unwrap_or_default());
                    this.params.push(quote!(#(#attrs)* #name #colon #(#bounds)+*));
                    this.arguments.push(name.clone());
                    this.phantom.push(name.clone());
                }
                GenericParam::Const(constant) => {
                    let (attrs, name, ty) = (&constant.attrs, &constant.ident, &constant.ty);
                    this.params.push(quote!(#(#attrs)* const #name: #ty));
                    this.arguments.push(name.clone());
                }
            }
        }
        let clauses = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
        for predicate in clauses {
            if let WherePredicate::Type(predicate) = predicate {
                let (ty, outer) = (&predicate.bounded_ty, predicate.lifetimes.as_ref());
                predicates.extend(traits(&predicate.bounds).map(|bound| for_all(ty, outer, bound, &lifetimes)));
            }
        }
        if !predicates.is_empty() {
            this.predicates = Some(quote_spanned!(Span::mixed_site()=> where #(#predicates),*));
        }
        this
    }
}

/// Whether the `where` clause has a bound on this parameter.
fn is_bounded(generics: &Generics, name: &Ident) -> bool {
    let mut predicates = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    predicates.any(|predicate| match predicate {
        WherePredicate::Type(predicate) => {
            matches!(peel(&predicate.bounded_ty), Type::Path(path) if path.path.is_ident(name))
        }
        _ => false,
    })
}

/// The bounds by traits; those by lifetimes are left out, every parameter outlives `'static`.
fn traits(bounds: &Punctuated<TypeParamBound, Token![+]>) -> impl Iterator<Item = &TraitBound> {
    bounds.iter().filter_map(|bound| match bound {
        TypeParamBound::Trait(bound) => Some(bound),
        _ => None,
    })
}

/// `ty: bound` as one predicate, asked for all lifetimes that it binds and for those of the function that it names.
fn for_all(ty: &Type, outer: Option<&BoundLifetimes>, bound: &TraitBound, lifetimes: &[&Lifetime]) -> TokenStream {
    let binders = outer.into_iter().chain(&bound.lifetimes).flat_map(|binder| &binder.lifetimes);
    let mut all: Vec<TokenStream> = binders.map(ToTokens::to_token_stream).collect();
    let named = mentioned(lifetimes, |finder| {
        finder.visit_type(ty);
        finder.visit_path(&bound.path);
    });
    all.extend(named.iter().map(ToTokens::to_token_stream));
    let is_relaxed = matches!(bound.modifier, TraitBoundModifier::Maybe(_));
    let binder = (!all.is_empty() && !is_relaxed).then(|| quote_spanned!(Span::mixed_site()=> for<#(#all),*>));
    let (modifier, path) = (&bound.modifier, &bound.path);
    quote!(#binder #ty: #modifier #path)
}

/// Those of `lifetimes` that a visit meets, each once.
fn mentioned(lifetimes: &[&Lifetime], visit: impl FnOnce(&mut FindLifetimes<'_>)) -> Vec<Lifetime> {
    let mut finder = FindLifetimes { lifetimes, found: Vec::new() };
    visit(&mut finder);
    finder.found
}

struct FindLifetimes<'a> {
    lifetimes: &'a [&'a Lifetime],
    found: Vec<Lifetime>,
}

impl<'ast> Visit<'ast> for FindLifetimes<'_> {
    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        if self.lifetimes.contains(&lifetime) && !self.found.contains(lifetime) {
            self.found.push(lifetime.clone());
        }
    }

    fn visit_expr(&mut self, _: &'ast Expr) {}
}

/// The kernel's options as a constant of type `KernelOptions`.
fn options(kernel: &KernelFn) -> TokenStream {
    let site = Span::mixed_site();
    let abi = quote_spanned!(site=> ::warpsmith::__private);
    let mut fields = Vec::new();
    let mut checks = Vec::new();
    for option in &kernel.options {
        let field = Ident::new(&option.name.to_string(), site);
        match &option.value {
            None => fields.push(quote_spanned!(site=> #field: 1)),
            Some(value) if field == "block" => {
                let shape = check::block_shape(value);
                let missing = (shape.len()..3).map(|_| Literal::u32_unsuffixed(1));
                fields.push(quote_spanned!(site=> #field: [#(#shape,)* #(#missing),*]));
            }
            Some(value) => fields.push(quote_spanned!(site=> #field: #value)),
        }
        checks.extend(check::constant_checks(option));
    }
    if fields.is_empty() {
        return quote_spanned!(site=> #abi::KernelOptions::NONE);
    }
    let options = quote_spanned!(site=> #abi::KernelOptions { #(#fields,)* ..#abi::KernelOptions::NONE });
    if checks.is_empty() { options } else { quote_spanned!(site=> { let options = #options; #(#checks)* options }) }
}
