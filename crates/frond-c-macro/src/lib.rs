//! `#[api]` generates the C function of a Rust function. The head of `frond-c` has its rules.

mod expand;

use proc_macro::TokenStream;
use syn::{Error, ItemFn, parse_macro_input};

/// Exports a Rust function to C under its name.
#[proc_macro_attribute]
pub fn api(_: TokenStream, function: TokenStream) -> TokenStream {
    let function = parse_macro_input!(function as ItemFn);
    expand::expand(function).unwrap_or_else(Error::into_compile_error).into()
}
