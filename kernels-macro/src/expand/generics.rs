//! The kernel's generics without its lifetimes.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::{
    BoundLifetimes, Expr, GenericParam, Generics, Lifetime, Token, TraitBound, TraitBoundModifier, Type,
    TypeParamBound, WherePredicate, parse_quote_spanned,
};

use crate::parse::peel;

/// The generics of `launch` and of the instance it makes: those of the function without its lifetimes.
///
/// A bound that names one of the function's lifetimes is asked for all lifetimes, because each thread's run has its own.
pub(super) struct LaunchGenerics {
    /// Declarations: `T: Bound`, `const N: usize`.
    pub(super) params: Vec<TokenStream>,
    /// Uses: `T`, `N`.
    pub(super) arguments: Vec<Ident>,
    /// The type parameters.
    pub(super) phantom: Vec<Ident>,
    /// The `where` clause, or nothing.
    pub(super) predicates: Option<TokenStream>,
}

impl LaunchGenerics {
    pub(super) fn new(generics: &Generics) -> Self {
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
                    if !ty.bounds.is_empty() {
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
