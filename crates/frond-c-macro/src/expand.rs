//! Generates the C function for a Rust function marked `#[api]`. The test that writes frond.h
//! includes this file, too, because cbindgen does not expand macros. So the header and the library
//! agree.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, FnArg, GenericArgument, ItemFn, Pat, PatType, PathArguments, Result,
    ReturnType, Type, TypeReference, TypeSlice, parse_quote,
};

/// The C function, with the Rust function inside it.
pub fn expand(function: ItemFn) -> Result<TokenStream> {
    let ItemFn { attrs, mut sig, block, .. } = function;
    // A call without a body releases its argument.
    let unused = block.stmts.is_empty().then(|| quote!(#[allow(unused_variables)]));
    let mut parameters = Parameters::default();
    for argument in &mut sig.inputs {
        parameters.add(argument)?;
    }
    let Parameters { mut declared, places, others, fails, passed, bytes, buffers } = parameters;
    // The key may lie in the buffer that receives the value: then the function gets a copy of the
    // key.
    let copied = buffers.iter().flat_map(|buffer| {
        bytes.iter().map(move |bytes| quote!(let #bytes = &*#buffer.apart(#bytes);))
    });
    let (name, mut output) = (&sig.ident, sig.output.clone());
    let call = quote!(#(#places)* #(#others)* #(#copied)* #name(#(#passed),*));
    let (fails, run) = match &sig.output {
        ReturnType::Default => (fails, quote!(#call; Ok(()))),
        ReturnType::Type(_, of) => (named(of, "Done").is_some(), call),
    };
    let run = match (&sig.output, fails) {
        (_, true) => {
            declared.push((format_ident!("error"), quote!(*mut crate::error::frond_error)));
            output = parse_quote!(-> i32);
            quote!(crate::error::call(error, || { #run }))
        }
        (ReturnType::Default, _) => {
            quote!(crate::error::call(::std::ptr::null_mut(), || { #run });)
        }
        (ReturnType::Type(..), _) => run,
    };
    let declared = declared.iter().map(|(name, of)| quote!(#name: #of));
    Ok(quote! {
        #(#attrs)*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn #name(#(#declared),*) #output {
            #unused #sig #block
            // SAFETY: as the head of `bytes.rs` says.
            unsafe { #run }
        }
    })
}

#[derive(Default)]
struct Parameters {
    /// Names and types in C.
    declared: Vec<(Ident, TokenStream)>,
    /// Statements that convert the arguments from C to Rust. Places for handles come first, so that
    /// they are null after any error.
    places: Vec<TokenStream>,
    others: Vec<TokenStream>,
    /// Whether one of these can fail.
    fails: bool,
    /// The Rust arguments; those of them that are bytes; and the buffers that are written to.
    passed: Vec<Ident>,
    bytes: Vec<Ident>,
    buffers: Vec<Ident>,
}

impl Parameters {
    fn add(&mut self, argument: &mut FnArg) -> Result<()> {
        let FnArg::Typed(PatType { pat, ty, attrs, .. }) = argument else {
            return Err(Error::new_spanned(argument, "a function of the API cannot be a method"));
        };
        let Pat::Ident(pattern) = &**pat else {
            return Err(Error::new_spanned(pat, "a parameter of the API must have a name"));
        };
        let length = std::mem::take(attrs).first().map(Attribute::parse_args).transpose()?;
        let (name, what) = (&pattern.ident, pattern.ident.to_string());
        let optional = named(ty, "Option").filter(|of| !matches!(of, Type::FnPtr(_)));
        let of = optional.unwrap_or(ty);
        self.passed.push(name.clone());
        if named(of, "Keys").is_some() {
            for name in ["from", "to"] {
                self.declared.push((format_ident!("{name}"), bytes()));
                self.declared.push((format_ident!("{name}_length"), quote!(usize)));
            }
            let (from, to) = (quote!((from.cast(), from_length)), quote!((to.cast(), to_length)));
            let range = quote!(crate::bytes::range(#from, #to)?);
            self.others.push(quote!(let #name = #range;));
            self.fails = true;
            return Ok(());
        }
        let (c, by) = in_c(of);
        let is_bytes = is(&c, bytes()) || is(&c, bytes_to_write());
        let is_buffer = is(&c, quote!(*mut frond_buffer));
        self.declared.push((name.clone(), c));
        let mut is_none = quote!(#name.is_null());
        let by_name = format_ident!("{by}");
        let made = match by {
            "as_it_is" => return Ok(()),
            "list" | "list_mut" | "places" => {
                let usual = if is_bytes { format!("{name}_length") } else { "count".to_owned() };
                let length: Ident = length.unwrap_or_else(|| format_ident!("{usual}"));
                // Several lists may share a length: it follows the first of them.
                if self.declared.iter().all(|(declared, _)| *declared != length) {
                    self.declared.push((length.clone(), quote!(usize)));
                    is_none = quote!(#is_none && #length == 0);
                }
                let data = if is_bytes { quote!(#name.cast::<u8>()) } else { quote!(#name) };
                quote!(crate::bytes::#by_name(#data, #length, #what)?)
            }
            "given" if optional.is_some() => quote!(&*#name),
            "given_mut" if optional.is_some() => quote!(&mut *#name),
            _ => quote!(crate::bytes::#by_name(#name, #what)?),
        };
        let made = match optional {
            Some(_) => quote!(let #name = if #is_none { None } else { Some(#made) };),
            None => quote!(let #name = #made;),
        };
        self.fails |= optional.is_none();
        match by {
            "list" if is_bytes => self.bytes.push(name.clone()),
            "given_mut" if is_buffer => self.buffers.push(name.clone()),
            // The key may lie in these bytes, too, and the conversion fills them with zeros.
            "list_mut" => self
                .others
                .extend(self.bytes.iter().map(|bytes| quote!(let #bytes = &*#bytes.to_vec();))),
            _ => {}
        }
        if by == "place" { &mut self.places } else { &mut self.others }.push(made);
        Ok(())
    }
}

/// The type of a parameter in C, and the function of `bytes.rs` that makes the Rust argument.
fn in_c(of: &Type) -> (TokenStream, &'static str) {
    let Type::Reference(TypeReference { elem, mutability, .. }) = of else {
        return match (named(of, "New"), named(of, "Owned"), named(of, "Box")) {
            (Some(handle), ..) => (quote!(*mut *mut #handle), "place"),
            (_, Some(handle), _) => (quote!(*mut #handle), "owned"),
            (_, _, Some(handle)) => (quote!(*mut #handle), "boxed"),
            // A number, a callback, or a pointer that the function converts itself.
            _ => (quote!(#of), "as_it_is"),
        };
    };
    match (&**elem, mutability) {
        (Type::Slice(TypeSlice { elem, .. }), None) => match named(elem, "u8") {
            Some(_) => (bytes(), "list"),
            None => (quote!(*const #elem), "list"),
        },
        (Type::Slice(TypeSlice { elem, .. }), Some(_)) => match named(elem, "Place") {
            Some(item) => (quote!(*mut #item), "places"),
            None => (bytes_to_write(), "list_mut"),
        },
        (of, None) if named(of, "str").is_some() => (quote!(*const ::std::ffi::c_char), "text"),
        (of, None) => (quote!(*const #of), "given"),
        (of, Some(_)) => (quote!(*mut #of), "given_mut"),
    }
}

/// Bytes of the caller. `void`, so that text, numbers and structs need no cast.
fn bytes() -> TokenStream {
    quote!(*const ::std::ffi::c_void)
}

/// Bytes of the caller that the call writes.
fn bytes_to_write() -> TokenStream {
    quote!(*mut ::std::ffi::c_void)
}

fn is(one: &TokenStream, other: TokenStream) -> bool {
    one.to_string() == other.to_string()
}

/// The generic argument of a type that has this name, or the type itself if it has none. `None` for
/// a type of another name.
fn named<'a>(of: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(generic) = &last.arguments else { return Some(of) };
    generic.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(of) => Some(of),
        _ => None,
    })
}
