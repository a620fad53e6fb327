//! The list of what was found wrong.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

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

    pub(super) fn option(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
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
