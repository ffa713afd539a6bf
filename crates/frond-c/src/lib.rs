//! The C API: `frond.h`, generated from this crate, `libfrond.so` and `libfrond.a`.
//!
//! Each file has the calls of one subject; each call is a thin shell around the Rust call of the
//! same name.
//!
//! | file | calls |
//! |---|---|
//! | `error.rs` | outcomes: a code, and a message in the caller's struct |
//! | `bytes.rs` | buffers, handles, lists and strings that cross the C boundary |
//! | `store.rs` | open, close, trees, checkpoints |
//! | `build.rs` | builds of indexes of a tree that is being written |
//! | `cancel.rs` | long operations: cancelling, progress |
//! | `change.rs` | changes of several trees in one commit |
//! | `layouts.rs` | changes of a layout of values |
//! | `watch.rs` | statistics as text: numbers, times, holders of locks and waiters |
//! | `locks.rs` | locks and waits as structs |
//! | `sizes.rs` | sizes of trees, costs of compression |
//! | `tree.rs` | rows of a tree outside transactions |
//! | `temporary.rs` | temporary trees |
//! | `txn.rs` | transactions, savepoints |
//! | `whole_tree.rs` | locks on trees |
//! | `read_as.rs` | reads with all options |
//! | `row.rs` | writes of rows with all their index entries |
//! | `prepared.rs` | two-phase commit |
//! | `operators.rs` | merge operators of the program |
//! | `waits.rs` | interrupts, and hooks for lock waits |
//! | `counts.rs` | numbers of rows, estimates, counters |
//! | `snapshot.rs` | snapshots, reads of many keys at once |
//! | `batch.rs` | batches, bulk loads |
//! | `projection.rs` | parts of keys and values, reads of some of them |
//! | `cursor.rs` | rows in order, in batches |
//!
//! Invariants
//! 1. No panic leaves the library: it becomes `FROND_PANIC`, and the store must be closed.
//! 2. A null pointer where none is allowed, or a number without a meaning, is `FRD-1001`, and
//!    nothing is done.
//! 3. A handle that is released is not used again, even if the call fails; the header says which
//!    calls release it.
//! 4. Handles keep the store open, so they can be released in any order.
//! 5. Names and numbers in the header are stable: none gets another meaning.
//!
//! Threads: handles of stores and trees can be used by all threads at once; transactions, prepared
//! transactions, cursors, batches and loads by one thread at a time.

#![allow(non_camel_case_types)]
// What callers must promise is at the head of the header and in `bytes.rs`. The documentation of
// each function is that of the header.
#![allow(clippy::missing_safety_doc)]

mod batch;
mod build;
mod bytes;
mod cancel;
mod change;
mod counts;
mod cursor;
mod error;
mod layouts;
mod locks;
mod operators;
mod prepared;
mod projection;
mod read_as;
mod row;
mod sizes;
mod snapshot;
mod store;
mod temporary;
mod tree;
mod txn;
mod waits;
mod watch;
mod whole_tree;

pub use batch::*;
pub use build::*;
pub use bytes::*;
pub use cancel::*;
pub use change::*;
pub use counts::*;
pub use cursor::*;
pub use error::*;
pub use layouts::*;
pub use locks::*;
pub use operators::*;
pub use prepared::*;
pub use projection::*;
pub use read_as::*;
pub use row::*;
pub use sizes::*;
pub use snapshot::*;
pub use store::*;
pub use temporary::*;
pub use tree::*;
pub use txn::*;
pub use waits::*;
pub use watch::*;
pub use whole_tree::*;
