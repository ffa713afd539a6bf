//! The `frond` command.
#[allow(dead_code)]
mod parse;
fn main() {}
