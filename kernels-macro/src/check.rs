//! The rules a kernel keeps: every breach is noted at its tokens, with a remedy, before any is reported.

mod options;
mod problems;
mod types;

use syn::{Attribute, FnArg, ReturnType, Type};

pub(crate) use self::options::{block_shape, constant_checks, opt_level};
pub(crate) use self::problems::Problems;
use crate::parse::{KernelFn, peel};

/// Applies every rule to the kernel.
pub(crate) fn kernel(kernel: &KernelFn, problems: &mut Problems) {
    attributes(kernel, problems);
    signature(kernel, problems);
    for param in &kernel.params {
        types::parameter(kernel, param, problems);
    }
    options::options(kernel, problems);
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
