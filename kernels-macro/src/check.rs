//! The rules a kernel keeps: every breach is noted at its tokens, with a remedy, before any is reported.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, Lit, PathArguments, ReturnType, Token, Type,
    TypeParamBound, TypeReference,
};

use crate::parse::{KernelFn, KernelOption, Param, ParamKind, grid_slice, last_segment, peel, type_arguments};

/// Most threads a block of any device has.
const MAX_BLOCK_THREADS: u64 = 1024;
/// Most threads a block of any device has along z.
const MAX_BLOCK_Z: u64 = 64;
/// Most blocks that are resident on a multiprocessor of any device.
const MAX_RESIDENT_BLOCKS: u64 = 32;
/// Most registers that a thread of any device has.
const MAX_REGISTERS: u64 = 255;

/// What was found wrong with a kernel so far.
#[derive(Default)]
pub(crate) struct Problems {
    signature: Vec<Error>,
    options: Vec<Error>,
}

impl Problems {
    /// Notes a problem of the function at `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.signature.push(Error::new_spanned(tokens, message));
    }

    /// Notes a problem of the function.
    pub(crate) fn error(&mut self, error: Error) {
        self.signature.push(error);
    }

    /// Notes a problem of the attribute's options.
    pub(crate) fn option_error(&mut self, error: Error) {
        self.options.push(error);
    }

    fn option(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.option_error(Error::new_spanned(tokens, message));
    }

    /// Whether the function itself cannot be a kernel.
    pub(crate) fn in_signature(&self) -> bool {
        !self.signature.is_empty()
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.signature.is_empty() && self.options.is_empty()
    }

    /// One `compile_error!` for each problem, options first.
    pub(crate) fn into_compile_errors(self) -> TokenStream {
        self.options.into_iter().chain(self.signature).map(Error::into_compile_error).collect()
    }
}

/// Applies every rule to the kernel.
pub(crate) fn kernel(kernel: &KernelFn, problems: &mut Problems) {
    attributes(kernel, problems);
    signature(kernel, problems);
    for param in &kernel.params {
        parameter(kernel, param, problems);
    }
    options(kernel, problems);
}

/// Whether another `#[kernel]` stands below this one.
pub(crate) fn is_marked_twice(kernel: &KernelFn) -> bool {
    kernel.attrs.iter().any(is_kernel)
}

fn is_kernel(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|segment| segment.ident == "kernel")
}

fn attributes(kernel: &KernelFn, problems: &mut Problems) {
    for attr in &kernel.attrs {
        if is_kernel(attr) {
            problems
                .at(attr, "`#[kernel]` stands here twice; give all options in one: `#[kernel(contract, block = 256)]`");
        } else if attr.path().is_ident("target_feature") {
            problems.at(attr, "`#[target_feature]` is about a CPU, a kernel also runs on a GPU; remove it");
        }
    }
}

fn signature(kernel: &KernelFn, problems: &mut Problems) {
    let sig = &kernel.sig;
    if let Some(token) = &sig.constness {
        problems
            .at(token, "a kernel cannot be `const`: it runs on a device; remove `const`, or call a `const fn` from it");
    }
    if let Some(token) = &sig.asyncness {
        problems.at(
            token,
            "a kernel cannot be `async`: its threads run to their end; remove `async`, `launch` returns before the kernel ends",
        );
    }
    if let Some(abi) = &sig.abi {
        problems.at(abi, "a kernel has no ABI of its own: `#[kernel]` makes the device entry; remove the `extern`");
    }
    if let Some(variadic) = &sig.variadic {
        problems.at(
            variadic,
            "a kernel cannot be variadic; pass a slice, `&[T]`, for a number of values known at run time",
        );
    }
    if let ReturnType::Type(_, ty) = &sig.output
        && !matches!(peel(ty), Type::Tuple(tuple) if tuple.elems.is_empty())
    {
        problems.at(
            &sig.output,
            "a kernel returns nothing: every thread would return its own value; write results through a \
             `GridSliceMut<T>` parameter",
        );
    }
    for input in &sig.inputs {
        if let FnArg::Receiver(receiver) = input {
            problems.at(
                receiver,
                "a kernel is a free function and has no `self`; move it out of the `impl` and take the value as a \
                 parameter, `this: T`, with `#[derive(KernelValue)]` on `T`",
            );
        }
    }
}

fn parameter(kernel: &KernelFn, param: &Param, problems: &mut Problems) {
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

fn no_static(lifetime: Option<&syn::Lifetime>, problems: &mut Problems) {
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
fn named(ty: &Type, path: &syn::Path, inner: Place, problems: &mut Problems) {
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

fn options(kernel: &KernelFn, problems: &mut Problems) {
    for (index, option) in kernel.options.iter().enumerate() {
        let name = option.name.to_string();
        if kernel.options[..index].iter().any(|earlier| earlier.name == option.name) {
            problems.option(&option.name, format!("option `{name}` is given twice; keep one"));
            continue;
        }
        match name.as_str() {
            "block" => block(option, problems),
            "max_threads" => number(option, MAX_BLOCK_THREADS, "threads in a block", problems),
            "min_blocks" => number(option, MAX_RESIDENT_BLOCKS, "resident blocks", problems),
            "max_registers" => number(option, MAX_REGISTERS, "registers a thread", problems),
            "contract" | "fast_math" | "unchecked" => {
                if let Some(value) = &option.value {
                    problems.option(value, format!("`{name}` takes no value; write `{name}`, or leave it out"));
                }
            }
            _ => problems.option(
                &option.name,
                format!(
                    "unknown option `{name}`; there are `block`, `max_threads`, `min_blocks`, `max_registers`, `contract`, \
                     `fast_math` and `unchecked`"
                ),
            ),
        }
    }
    if let Some(option) = kernel.option("unchecked").filter(|_| kernel.sig.unsafety.is_none()) {
        problems.option(
            &option.name,
            "`unchecked` removes index checks, so the kernel's caller answers for them; write `unsafe fn`, or remove \
             `unchecked`",
        );
    }
    if let (Some(_), Some(option)) = (kernel.option("block"), kernel.option("max_threads")) {
        problems.option(&option.name, "`block` already fixes the number of threads; remove `max_threads`, or `block`");
    }
    if let (Some(option), None, None) =
        (kernel.option("min_blocks"), kernel.option("block"), kernel.option("max_threads"))
    {
        problems.option(
            &option.name,
            "`min_blocks` has no effect on a block of unknown size; add `block` or `max_threads`",
        );
    }
}

/// The sizes in the value of `block`: one, or those of a tuple.
pub(crate) fn block_shape(value: &Expr) -> Vec<&Expr> {
    match value {
        Expr::Tuple(tuple) => tuple.elems.iter().collect(),
        Expr::Paren(paren) => vec![&paren.expr],
        Expr::Group(group) => block_shape(&group.expr),
        _ => vec![value],
    }
}

/// The number that a literal gives; `None` for an expression that rustc evaluates.
fn literal(value: &Expr) -> Option<syn::Result<u64>> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(int), .. }) => {
            Some(int.base10_parse::<u64>().map_err(|error| Error::new(int.span(), error)))
        }
        Expr::Lit(_) => Some(Err(Error::new(value.span(), "expected a whole number"))),
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => {
            Some(Err(Error::new_spanned(value, "expected a whole number above 0")))
        }
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

fn number(option: &KernelOption, limit: u64, what: &str, problems: &mut Problems) {
    let Some(value) = &option.value else {
        problems.option(&option.name, format!("`{0}` needs a number: `{0} = N`, from 1 to {limit}", option.name));
        return;
    };
    match literal(value) {
        Some(Ok(number)) if number == 0 || number > limit => {
            problems.option(value, format!("`{}` is {number}; it counts {what}, from 1 to {limit}", option.name));
        }
        Some(Err(error)) => problems.option_error(error),
        _ => {}
    }
}

fn block(option: &KernelOption, problems: &mut Problems) {
    let Some(value) = &option.value else {
        problems
            .option(&option.name, "`block` needs a shape: `block = 256`, `block = (16, 16)` or `block = (8, 8, 4)`");
        return;
    };
    let shape = block_shape(value);
    if shape.is_empty() || shape.len() > 3 {
        problems.option(value, format!("a block has 1 to 3 dimensions, this has {}", shape.len()));
        return;
    }
    let mut product = 1u64;
    for (size, axis) in shape.iter().zip(["x", "y", "z"]) {
        match literal(size) {
            Some(Ok(0)) => problems.option(size, format!("the block's {axis} is 0; it is at least 1")),
            Some(Ok(number)) => {
                product = product.saturating_mul(number);
                if axis == "z" && number > MAX_BLOCK_Z {
                    problems.option(size, format!("the block's z is {number}; the limit is {MAX_BLOCK_Z}"));
                }
            }
            Some(Err(error)) => problems.option_error(error),
            None => {}
        }
    }
    if product > MAX_BLOCK_THREADS {
        problems.option(value, format!("the block has {product} threads; the limit is {MAX_BLOCK_THREADS}"));
    }
}

/// Assertions on `options` for a value that only rustc can evaluate.
pub(crate) fn constant_checks(option: &KernelOption) -> Option<TokenStream> {
    let value = option.value.as_ref()?;
    let at = value.span().resolved_at(Span::mixed_site());
    let values = if option.name == "block" { block_shape(value) } else { vec![value] };
    if values.iter().all(|value| literal(value).is_some()) {
        return None;
    }
    let limit = |limit: u64| u32::try_from(limit).expect("limits are small");
    let (name, condition, message) = match option.name.to_string().as_str() {
        "block" => {
            let (threads, z) = (MAX_BLOCK_THREADS, limit(MAX_BLOCK_Z));
            return Some(quote_spanned! {at=>
                ::core::assert!(
                    options.block[0] > 0 && options.block[1] > 0 && options.block[2] > 0,
                    "a size of `block` is 0"
                );
                ::core::assert!(options.block[2] <= #z, "the block's z is over 64");
                ::core::assert!(
                    options.block[0] as ::core::primitive::u128
                        * options.block[1] as ::core::primitive::u128
                        * options.block[2] as ::core::primitive::u128 <= #threads as ::core::primitive::u128,
                    "the block has more than 1024 threads"
                );
            });
        }
        "max_threads" => ("max_threads", limit(MAX_BLOCK_THREADS), "`max_threads` is not from 1 to 1024"),
        "min_blocks" => ("min_blocks", limit(MAX_RESIDENT_BLOCKS), "`min_blocks` is not from 1 to 32"),
        _ => ("max_registers", limit(MAX_REGISTERS), "`max_registers` is not from 1 to 255"),
    };
    let field = syn::Ident::new(name, Span::mixed_site());
    Some(quote_spanned!(at=> ::core::assert!(options.#field > 0 && options.#field <= #condition, #message);))
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
