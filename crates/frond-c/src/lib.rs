//! The C API: `frond.h`, generated from this crate, `libfrond.so` and `libfrond.a`.
//!
//! One call per file's subject; each is a thin shell around the Rust call of the same name.
//!
//! | file | what is called |
//! |---|---|
//! | `error.rs` | outcomes: a code, and a message in the caller's struct |
//! | `bytes.rs` | strings that go in and come out |
//! | `store.rs` | open, close, trees, checkpoints |
//! | `build.rs` | indexes of a tree that is being written |
//! | `heed.rs` | long work: stopped, and how far it is |
//! | `change.rs` | changes of several trees that are one commit |
//! | `watch.rs` | what there is to be seen: numbers, times, who holds locks and who waits |
//! | `locks.rs` | the same of locks, in fields |
//! | `tree.rs` | rows of a tree outside of transactions |
//! | `txn.rs` | transactions, savepoints |
//! | `whole_tree.rs` | locks on trees |
//! | `read_as.rs` | reads with all that can be said of them |
//! | `row.rs` | rows with all their index entries |
//! | `prepared.rs` | two-phase commit |
//! | `operators.rs` | merge operators of the program's own |
//! | `waits.rs` | interrupts, and what hears of waits for locks |
//! | `counts.rs` | numbers of rows, estimates, counters |
//! | `snapshot.rs` | one moment of the store, many keys at once |
//! | `batch.rs` | batches, bulk loads |
//! | `parts.rs` | parts of keys and values, reads of some of them |
//! | `cursor.rs` | rows in order, some at a time |
//!
//! Invariants
//! 1. No panic crosses: it becomes `FROND_PANIC`, and the store is to be closed.
//! 2. A null pointer where none may be is `FRD-1001`, as is a number that names nothing; nothing is done then.
//! 3. A handle that is given back is not touched again, also where the call fails; the header says which calls do so.
//! 4. Handles hold the store open by themselves: they may be given back in any order.
//!
//! Threads: handles of stores and trees may be used by all at once; transactions, prepared ones, cursors, batches and loads by
//! one thread at a time.
//!
//! Names and numbers in the header are stable: none is given another meaning.

#![allow(non_camel_case_types)]
// What callers promise is said once, at the head of the header and in `bytes.rs`; each function's words are those of the header.
#![allow(clippy::missing_safety_doc)]

mod batch;
mod build;
mod bytes;
mod change;
mod counts;
mod cursor;
mod error;
mod heed;
mod layouts;
mod locks;
mod operators;
mod parts;
mod prepared;
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
pub use change::*;
pub use counts::*;
pub use cursor::*;
pub use error::*;
pub use heed::*;
pub use layouts::*;
pub use locks::*;
pub use operators::*;
pub use parts::*;
pub use prepared::*;
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
