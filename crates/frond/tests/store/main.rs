//! Tests of a store through its public API: small scenarios, a file each, in one program, because
//! each program takes long to link.

mod basics;
mod blobs;
mod branches;
mod changes;
#[path = "../common/mod.rs"]
mod common;
mod counters;
mod counts;
mod creation;
mod cursors;
mod dictionaries;
mod distinct;
mod drop;
mod encoding;
mod idle;
mod inserts;
mod large_batches;
mod operators;
mod projections;
mod queue;
mod range_deletes;
mod readahead;
mod recovery;
mod sizes;
#[path = "../common/sizes.rs"]
mod sizes_of_pages;
mod spill;
