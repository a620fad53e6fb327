//! A parameter's type with its lifetimes taken out.

use proc_macro2::Ident;
use syn::visit_mut::{self, VisitMut};
use syn::{
    BoundLifetimes, Expr, GenericArgument, GenericParam, Lifetime, ParenthesizedGenericArguments, PathArguments,
    PathSegment, TraitBound, Type, TypeBareFn, TypeReference,
};

/// The type with `'static` in place of every lifetime, written or not: the key under which a parameter crosses.
pub(super) fn static_type(ty: &Type) -> Type {
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

    fn visit_path_segment_mut(&mut self, segment: &mut PathSegment) {
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

    fn visit_trait_bound_mut(&mut self, bound: &mut TraitBound) {
        let lifetimes = bound.lifetimes.clone();
        self.inside(lifetimes.as_ref(), true, |this| visit_mut::visit_trait_bound_mut(this, bound));
    }

    // Labels inside a constant's expression look like lifetimes.
    fn visit_expr_mut(&mut self, _: &mut Expr) {}
    fn visit_bound_lifetimes_mut(&mut self, _: &mut BoundLifetimes) {}
}
