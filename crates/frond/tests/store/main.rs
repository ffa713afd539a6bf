//! A store through its public API: small scenarios, a file each, in one program, for a program takes long to link.

mod basics;
mod branches;
#[path = "../common/mod.rs"]
mod common;
mod counts;
mod dictionaries;
mod distinct;
mod drop;
mod encoding;
mod large_batches;
mod operators;
mod queue;
