//! `foreign_kernels!`: its syntax, and the type that it becomes.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Block, Error, Expr, Ident, LitStr, Result, Token, Type, Visibility, braced, parenthesized};

/// Expands `foreign_kernels!`, or says what is wrong with it.
pub(crate) fn foreign_kernels(input: TokenStream) -> TokenStream {
    match syn::parse2::<Declaration>(input) {
        Ok(declaration) => declaration.expand(),
        Err(error) => error.into_compile_error(),
    }
}

/// `pub unsafe struct Name from (image) { .. }`.
struct Declaration {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    source: Option<Expr>,
    kernels: Vec<Kernel>,
    variables: Vec<Variable>,
}

/// `unsafe fn name(parameter: Type, ..) as "symbol" requires |config| { condition };`.
struct Kernel {
    attributes: Vec<Attribute>,
    is_unsafe: bool,
    name: Ident,
    parameters: Vec<(Ident, Type)>,
    symbol: Option<LitStr>,
    condition: Option<(Option<Ident>, Block)>,
}

/// `static name: Type as "symbol";`.
struct Variable {
    attributes: Vec<Attribute>,
    name: Ident,
    kind: Type,
    symbol: Option<LitStr>,
}

mod keyword {
    syn::custom_keyword!(from);
    syn::custom_keyword!(requires);
}

impl Parse for Declaration {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if input.peek(Token![struct]) {
            return Err(input.error(
                "write `unsafe struct`: its author promises that the kernels stay inside their slices, which no compiler sees",
            ));
        }
        input.parse::<Token![unsafe]>()?;
        input.parse::<Token![struct]>()?;
        let name = input.parse()?;
        let source = if input.peek(keyword::from) {
            input.parse::<keyword::from>()?;
            let image;
            parenthesized!(image in input);
            let expression = image.parse()?;
            if !image.is_empty() {
                return Err(image
                    .error("one expression stands in `from (..)`: the bytes or the text of a module, or a closure"));
            }
            Some(expression)
        } else {
            None
        };
        let body;
        braced!(body in input);
        let (mut kernels, mut variables) = (Vec::<Kernel>::new(), Vec::<Variable>::new());
        while !body.is_empty() {
            let attributes = body.call(Attribute::parse_outer)?;
            let name = if body.peek(Token![static]) {
                variables.push(Variable::parse(attributes, &body)?);
                variables.last().map(|variable| variable.name.clone())
            } else {
                kernels.push(Kernel::parse(attributes, &body)?);
                kernels.last().map(|kernel| kernel.name.clone())
            };
            if let Some(name) = name.filter(|name| name == "new" || name == "load") {
                let text =
                    format!("`{name}` is a method of every such type; give it another name, and `as \"{name}\"`");
                return Err(Error::new(name.span(), text));
            }
        }
        if !input.is_empty() {
            return Err(input.error("one `unsafe struct` stands in `foreign_kernels!`"));
        }
        Ok(Self { attributes, visibility, name, source, kernels, variables })
    }
}

fn symbol(input: ParseStream<'_>) -> Result<Option<LitStr>> {
    if !input.peek(Token![as]) {
        return Ok(None);
    }
    input.parse::<Token![as]>()?;
    input.parse().map(Some)
}

impl Variable {
    fn parse(attributes: Vec<Attribute>, input: ParseStream<'_>) -> Result<Self> {
        input.parse::<Token![static]>()?;
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        let kind = input.parse()?;
        let symbol = symbol(input)?;
        input.parse::<Token![;]>()?;
        Ok(Self { attributes, name, kind, symbol })
    }
}

impl Kernel {
    fn parse(attributes: Vec<Attribute>, input: ParseStream<'_>) -> Result<Self> {
        let is_unsafe = input.parse::<Option<Token![unsafe]>>()?.is_some();
        input.parse::<Token![fn]>()?;
        let name = input.parse()?;
        let list;
        parenthesized!(list in input);
        let list = Punctuated::<Parameter, Token![,]>::parse_terminated(&list)?;
        let parameters = list.into_iter().map(|Parameter(name, kind)| (name, kind)).collect();
        if input.peek(Token![->]) {
            return Err(input.error("a kernel returns nothing: it writes results through a `&mut [T]` parameter"));
        }
        let symbol = symbol(input)?;
        let condition = if input.peek(keyword::requires) {
            input.parse::<keyword::requires>()?;
            let config = if input.peek(Token![|]) {
                input.parse::<Token![|]>()?;
                let config = input.parse()?;
                input.parse::<Token![|]>()?;
                Some(config)
            } else {
                None
            };
            Some((config, input.parse()?))
        } else {
            None
        };
        input.parse::<Token![;]>()?;
        Ok(Self { attributes, is_unsafe, name, parameters, symbol, condition })
    }
}

struct Parameter(Ident, Type);

impl Parse for Parameter {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        let mut kind: Type = input.parse()?;
        if let Type::Reference(reference) = &mut kind {
            if let Some(lifetime) = &reference.lifetime {
                return Err(Error::new(lifetime.span(), "a parameter's borrow has no name; leave the lifetime out"));
            }
            if !matches!(*reference.elem, Type::Slice(_)) {
                let text = "a kernel from elsewhere takes slices: write `&[T]` or `&mut [T]`, and how many elements it needs \
                            in `requires { .. }`";
                return Err(Error::new(reference.span(), text));
            }
            // The methods' own borrows are the arguments'; in the type it only tells how the elements are used.
            reference.lifetime = Some(syn::Lifetime::new("'static", reference.and_token.span()));
        }
        Ok(Self(name, kind))
    }
}

fn symbol_of(name: &Ident, symbol: Option<&LitStr>) -> LitStr {
    symbol.cloned().unwrap_or_else(|| LitStr::new(&name.unraw().to_string(), name.span()))
}

impl Declaration {
    fn expand(&self) -> TokenStream {
        let Self { attributes, visibility, name, source, kernels, variables } = self;
        let foreign = quote!(::warpsmith::foreign);
        let fields = kernels.iter().map(Kernel::field).chain(variables.iter().map(Variable::field));
        let fields: Vec<Ident> = fields.collect();
        let types = kernels.iter().map(|_| quote!(#foreign::ForeignKernel)).chain(variables.iter().map(|variable| {
            let kind = &variable.kind;
            quote!(#foreign::ForeignGlobal<#kind>)
        }));
        let found = kernels.iter().map(Kernel::find).chain(variables.iter().map(Variable::find));
        let methods = kernels.iter().map(|kernel| kernel.method(visibility));
        let getters = variables.iter().map(|variable| variable.method(visibility));
        let load = source.as_ref().map(|source| {
            quote_spanned! {source.span()=>
                /// Loads the module on a device, and compares the declarations with it.
                ///
                /// # Errors
                /// [`ForeignError`](::warpsmith::ForeignError): as `ForeignModule::load`, and where a kernel takes other parameters.
                #visibility fn load(device: &::warpsmith::Device) -> ::warpsmith::Result<Self> {
                    let module = #foreign::ForeignSource::load(#source, device)?;
                    // SAFETY: the author of the declaration vouches for the module that it names.
                    unsafe { Self::new(&module) }
                }
            }
        });
        let checks = kernels.iter().map(Kernel::safe_parameters);
        quote! {
            #(#checks)*

            #(#attributes)*
            #[derive(Clone, Debug)]
            #visibility struct #name {
                #(#fields: #types,)*
            }

            #[allow(dead_code, reason = "not every kernel of a module needs to be launched")]
            impl #name {
                #load

                /// Finds the kernels and variables in a module, and compares the declarations with it.
                ///
                /// # Safety
                /// The module is the one that the declaration was written for: its author's promises hold for it.
                ///
                /// # Errors
                /// [`ForeignError`](::warpsmith::ForeignError) where a name is missing, or a kernel takes other parameters.
                #visibility unsafe fn new(module: &#foreign::ForeignModule) -> ::warpsmith::Result<Self> {
                    let _ = module;
                    #(let #fields = #found;)*
                    ::core::result::Result::Ok(Self { #(#fields,)* })
                }

                #(#methods)*
                #(#getters)*
            }
        }
    }
}

impl Variable {
    fn field(&self) -> Ident {
        format_ident!("__variable_{}", self.name.unraw(), span = Span::mixed_site())
    }

    fn find(&self) -> TokenStream {
        let (kind, symbol) = (&self.kind, symbol_of(&self.name, self.symbol.as_ref()));
        quote! {
            // SAFETY: the author of the declaration vouches for any value of the type.
            unsafe { module.global::<#kind>(#symbol) }?
        }
    }

    fn method(&self, visibility: &Visibility) -> TokenStream {
        let (attributes, name, kind, field) = (&self.attributes, &self.name, &self.kind, self.field());
        quote! {
            #(#attributes)*
            #visibility fn #name(&self) -> &::warpsmith::foreign::ForeignGlobal<#kind> {
                &self.#field
            }
        }
    }
}

impl Kernel {
    fn field(&self) -> Ident {
        format_ident!("__kernel_{}", self.name.unraw(), span = Span::mixed_site())
    }

    fn find(&self) -> TokenStream {
        let symbol = symbol_of(&self.name, self.symbol.as_ref());
        let described = self.parameters.iter().map(|(name, kind)| {
            let text = name.unraw().to_string();
            quote_spanned!(kind.span()=> ::warpsmith::foreign::ForeignKernel::describe::<#kind>(#text))
        });
        quote! {{
            let kernel = module.kernel(#symbol)?;
            kernel.check(&[#(#described),*])?;
            kernel
        }}
    }

    /// Items that do not compile where a safe kernel takes a raw pointer, also behind another name for the type.
    fn safe_parameters(&self) -> TokenStream {
        let kinds = self.parameters.iter().map(|(_, kind)| kind).filter(|_| !self.is_unsafe);
        let text = "a raw pointer is a parameter of a kernel here, and nobody vouches for it: write `unsafe fn`";
        let checks = kinds.map(|kind| {
            quote_spanned! {kind.span()=>
                const _: () = ::core::assert!(<#kind as ::warpsmith::foreign::ForeignParam>::IS_SAFE, #text);
            }
        });
        quote!(#(#checks)*)
    }

    fn method(&self, visibility: &Visibility) -> TokenStream {
        let (attributes, name, field) = (&self.attributes, &self.name, self.field());
        let unsafety = self.is_unsafe.then(|| quote!(unsafe));
        let (names, kinds): (Vec<&Ident>, Vec<&Type>) = self.parameters.iter().map(|(name, kind)| (name, kind)).unzip();
        let raw: Vec<Ident> =
            (0..names.len()).map(|at| format_ident!("argument_{at}", span = Span::mixed_site())).collect();
        let [stream, config, launch] = ["stream", "config", "launch"].map(|name| Ident::new(name, Span::mixed_site()));
        let arguments = kinds
            .iter()
            .zip(&names)
            .map(|(kind, name)| quote_spanned!(kind.span()=> #name: impl ::warpsmith::foreign::ForeignArg<#kind>));
        let condition = self.condition.as_ref().map(|(seen, block)| {
            let text = quote!(#block).to_string();
            let text = text.trim_start_matches('{').trim_end_matches('}').trim();
            let statements = &block.stmts;
            let seen = seen.as_ref().map(|seen| quote!(let #seen = &#config;));
            quote! {
                let met: bool = {
                    #(
                        #[allow(unused_variables, reason = "not every condition looks at every argument")]
                        let #names = <#kinds as ::warpsmith::foreign::ForeignParam>::seen(&#raw);
                    )*
                    #seen
                    #(#statements)*
                };
                #launch.require(met, #text)?;
            }
        });
        quote! {
            #(#attributes)*
            #[allow(clippy::too_many_arguments, reason = "as many as the kernel takes")]
            #visibility #unsafety fn #name(
                &self,
                #stream: &::warpsmith::Stream,
                #config: ::warpsmith::LaunchConfig,
                #(#arguments),*
            ) -> ::warpsmith::Result<()> {
                let mut #launch = ::warpsmith::__private::ForeignLaunch::new(&self.#field, #stream, #config)?;
                #(let #raw = #launch.bind::<#kinds, _>(#names)?;)*
                #condition
                // SAFETY: `new` compared the kernel with the parameters, and each was bound by this launch; the author of the
                // declaration vouches for what the kernel does with them.
                unsafe {
                    #launch.run(&[#(<#kinds as ::warpsmith::foreign::ForeignParam>::address(&#raw)),*])
                }
            }
        }
    }
}
