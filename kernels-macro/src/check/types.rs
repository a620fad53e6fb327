//! Rules for the parameters' types, as far as their form tells; the rest is for the traits, which see through names.

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{GenericArgument, Lifetime, Path, PathArguments, Token, Type, TypeParamBound, TypeReference};

use super::Problems;
use crate::parse::{KernelFn, Param, ParamKind, grid_slice, last_segment, peel, type_arguments};

pub(super) fn parameter(kernel: &KernelFn, param: &Param, problems: &mut Problems) {
    for attr in &param.attrs {
        if attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr") {
            problems.at(attr, "a parameter of a kernel cannot be conditional; put `#[cfg]` on two kernels instead");
        }
    }
    let ty = &param.ty;
    match param.kind {
        ParamKind::Shared => {
            let Type::Reference(reference) = ty else { return };
            shared(reference, problems);
        }
        ParamKind::Pointer => {
            if kernel.sig.unsafety.is_none() {
                problems.at(
                    ty,
                    "a raw pointer has no checks and any number of threads behind it, so the kernel that takes one is an \
                     `unsafe fn`; write `unsafe fn`, or take `&[T]` or `GridSliceMut<T>`",
                );
            }
        }
        ParamKind::GridSliceMut => output(ty, problems),
        ParamKind::Value => value(ty, Place::Parameter, problems),
    }
}

/// Rules for `&T` and `&[T]`.
fn shared(reference: &TypeReference, problems: &mut Problems) {
    no_static(reference.lifetime.as_ref(), problems);
    let elem = peel(&reference.elem);
    if reference.mutability.is_some() {
        let (what, remedy) = match elem {
            Type::Slice(slice) => {
                let elem = written(&slice.elem);
                (
                    "&mut [T]",
                    format!(
                        "take `GridSliceMut<{elem}>`, which gives each thread its own elements, or `&[AtomicU32]` and the \
                         like where threads share them"
                    ),
                )
            }
            _ if grid_slice(elem).is_some() => {
                ("&mut GridSliceMut", "take it by value: `mut y: GridSliceMut<T>`".to_owned())
            }
            _ => (
                "&mut T",
                "take `GridSliceMut<T>`, which gives each thread its own elements, or `&AtomicU32` and the like where \
                 threads share one"
                    .to_owned(),
            ),
        };
        problems.at(
            reference,
            format!(
                "`{what}` would be held by every thread of the grid at once, and a `&mut` has one holder; {remedy}"
            ),
        );
        return;
    }
    match elem {
        Type::Slice(slice) => value(&slice.elem, Place::Element, problems),
        Type::Path(path) if path.qself.is_none() && path.path.is_ident("str") => {
            problems.at(
                reference,
                "text crosses to a kernel as its bytes; take `&[u8]` and pass a buffer of `text.as_bytes()`",
            );
        }
        _ if grid_slice(elem).is_some() => {
            problems.at(reference, "a `GridSliceMut` is passed by value; write `mut y: GridSliceMut<T>`");
        }
        _ => value(elem, Place::Element, problems),
    }
}

/// Rules for `GridSliceMut<T, M>`.
fn output(ty: &Type, problems: &mut Problems) {
    let Some(segment) = grid_slice(ty) else { return };
    if let PathArguments::AngleBracketed(arguments) = &segment.arguments {
        for argument in &arguments.args {
            if let GenericArgument::Lifetime(lifetime) = argument {
                no_static(Some(lifetime), problems);
            }
        }
    }
    match type_arguments(segment).first() {
        Some(elem) => value(elem, Place::Element, problems),
        None => problems.at(ty, "`GridSliceMut` needs its element type: `GridSliceMut<f32>`"),
    }
}

fn no_static(lifetime: Option<&Lifetime>, problems: &mut Problems) {
    if let Some(lifetime) = lifetime.filter(|lifetime| lifetime.ident == "static") {
        problems.at(
            lifetime,
            "a kernel's arguments are borrowed for one launch, never for `'static`; leave the lifetime out or name one: \
             `fn kernel<'a>(x: &'a [T])`",
        );
    }
}

/// Where a type that is to be plain data stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is the parameter's type.
    Parameter,
    /// It is inside a tuple, array or `Option` that crosses by value.
    Part,
    /// It is the element of a slice or behind a reference.
    Element,
}

/// Rules for plain data that can be read off the type's form; what cannot is for the `KernelValue` trait.
fn value(ty: &Type, place: Place, problems: &mut Problems) {
    let inner = if place == Place::Parameter { Place::Part } else { place };
    match peel(ty) {
        Type::Tuple(tuple) => tuple.elems.iter().for_each(|elem| value(elem, inner, problems)),
        Type::Array(array) => value(&array.elem, inner, problems),
        Type::Slice(slice) if place == Place::Parameter => {
            let elem = written(&slice.elem);
            problems.at(ty, format!("a slice crosses by reference; take `&[{elem}]`"));
        }
        Type::Slice(_) => problems.at(ty, "a slice inside another type cannot cross to a kernel; use an array, `[T; N]`"),
        Type::Reference(_) if place == Place::Element => {
            problems.at(
                ty,
                "device memory holds no references: an address of the host means nothing on the device; store indices \
                 into another slice, or the values themselves",
            );
        }
        Type::Reference(_) => {
            problems.at(
                ty,
                "a reference crosses as a parameter of its own, not inside another type; make it a parameter, or hold \
                 the value itself",
            );
        }
        Type::Ptr(_) => problems.at(
            ty,
            "a raw pointer crosses as a parameter of its own in an `unsafe fn`, not inside another type; make it a \
             parameter, or store an index",
        ),
        Type::ImplTrait(bound) => problems.at(
            ty,
            format!(
                "`impl Trait` has no name for the kernel's instances to be told apart by; {}",
                generic_remedy(&bound.bounds)
            ),
        ),
        Type::TraitObject(object) => problems.at(
            ty,
            format!(
                "a `dyn` value holds addresses of the host; {}, or take an enum (`dyn` inside the kernel's body is fine)",
                generic_remedy(&object.bounds)
            ),
        ),
        Type::BareFn(_) => problems.at(
            ty,
            format!("a function pointer is an address of the host; {FUNCTION_REMEDY} (`fn` pointers inside the kernel's body are fine)"),
        ),
        Type::Path(path) if path.qself.is_none() => named(ty, &path.path, inner, problems),
        _ => {}
    }
}

/// What to take in place of a function: closures and function pointers do not cross, types that stand for one do.
const FUNCTION_REMEDY: &str = "take a generic, `F: Operation + KernelValue`, where `Operation` is a trait of yours with the \
    function as its method, on a struct with `#[derive(KernelValue)]`";

/// The generic that says what bounds on an unnamed type say.
fn generic_remedy(bounds: &Punctuated<TypeParamBound, Token![+]>) -> String {
    let is_function = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => bound
            .path
            .segments
            .last()
            .is_some_and(|segment| ["Fn", "FnMut", "FnOnce"].contains(&segment.ident.to_string().as_str())),
        _ => false,
    };
    if bounds.iter().any(is_function) {
        return FUNCTION_REMEDY.to_owned();
    }
    format!("name it: `fn kernel<T: {} + KernelValue>(value: T)`", written(bounds))
}

/// Rules for types that are known by name: the host's owners of memory, `Option`, and `GridSliceMut` in the wrong place.
fn named(ty: &Type, path: &Path, inner: Place, problems: &mut Problems) {
    let Some(segment) = last_segment(ty) else { return };
    if segment.ident == "GridSliceMut" {
        problems.at(ty, "a `GridSliceMut` is a parameter of its own, not part of another type; add a parameter for it");
        return;
    }
    let arguments = type_arguments(segment);
    // A path that starts elsewhere may well name a type of the user's.
    let first = path.segments.first().map(|first| first.ident.to_string());
    let of_std =
        path.segments.len() == 1 || first.is_some_and(|first| ["std", "alloc", "core"].contains(&first.as_str()));
    if !of_std {
        return;
    }
    match (segment.ident.to_string().as_str(), arguments.as_slice()) {
        ("Option", [value_type]) => value(value_type, inner, problems),
        ("String", []) => {
            problems.at(ty, "a `String` owns memory of the host; take `&[u8]` and pass a buffer of `text.as_bytes()`");
        }
        ("Vec", [elem]) => {
            let elem = written(elem);
            problems.at(
                ty,
                format!(
                    "a `Vec` owns memory of the host; take `&[{elem}]` to read, or `GridSliceMut<{elem}>` to write, and pass a \
                     device buffer (a `Vec` inside the kernel's body is fine)"
                ),
            );
        }
        (owner @ ("Box" | "Rc" | "Arc"), [elem]) => {
            let remedy = match peel(elem) {
                Type::Slice(slice) => format!("take `&[{}]`", written(&slice.elem)),
                Type::TraitObject(_) => "take a generic parameter with that bound, or an enum".to_owned(),
                elem => format!("take `{0}` by value or `&{0}`", written(elem)),
            };
            problems.at(ty, format!("`{owner}` points to memory of the host; {remedy}"));
        }
        _ => {}
    }
}

/// Tokens as a person writes them.
fn written(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (spaced, plain) in
        [(" :: ", "::"), (":: ", "::"), (" < ", "<"), ("< ", "<"), (" > ", "> "), (" >", ">"), (" ,", ","), ("& ", "&")]
    {
        text = text.replace(spaced, plain);
    }
    text
}
