//! The C API. This crate builds `libfrond.so` and `libfrond.a`; `frond.h` is generated from its
//! sources.
//!
//! Each file contains the calls of one subject. A call is a Rust function marked `#[api]`, and a
//! thin wrapper around the engine's call of the same name. `#[api]` generates the C function, which
//! checks and converts the arguments, catches panics, and reports errors. cbindgen does not expand
//! macros, so the test that writes the header expands `#[api]` first.
//!
//! | Rust | C | |
//! |---|---|---|
//! | `x: &T`, `x: &mut T` | `const T *x`, `T *x` | |
//! | `x: &str` | `const char *x` | UTF-8 |
//! | `x: &[u8]`, `x: &mut [u8]` | `void *x, size_t x_length` | null if the length is 0 |
//! | `x: &[T]`, `x: &mut [Place<T>]` | `T *x, size_t count` | likewise; further lists share `count` |
//! | `#[length(n)] x: &[T]` | `const T *x, size_t n` | another name for the length |
//! | `x: Keys` | `from, from_length, to, to_length` | null with length 0: no bound |
//! | `x: New<T>` | `T **x` | receives a new handle; null after an error |
//! | `x: Owned<T>` | `T *x` | a handle that the call may release |
//! | `x: Option<Box<T>>` | `T *x` | likewise, for a call that only releases it |
//! | `x: Option<…>` | as without `Option` | may be null |
//! | any other type | the type itself | numbers, callbacks |
//! | returns `Done`, or nothing | `frond_error *error`, returns `int32_t` | |
//! | cannot fail | no `error`, returns the same type | all arguments may be null |
//!
//! | file | calls |
//! |---|---|
//! | `error.rs` | outcomes: a code, and a message in the caller's struct |
//! | `bytes.rs` | buffers; the conversions of arguments |
//! | `store.rs` | open, close, trees, checkpoints |
//! | `backup.rs` | backups, increments; verifying and restoring them |
//! | `build.rs` | builds of indexes of a tree that is being written |
//! | `cancel.rs` | long operations: cancelling, progress |
//! | `change.rs` | changes of several trees in one commit |
//! | `layouts.rs` | changes of a layout of values |
//! | `watch.rs` | statistics: numbers, times, and as text the holders of locks and the waiters |
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
//! | `cursor/` | rows in order, in batches |
//!
//! Invariants
//! 1. No panic leaves the library: it becomes `FROND_PANIC`, and the store must be closed.
//! 2. A null pointer where null is not allowed, or an undefined option value, gives `FRD-1001`, and
//!    nothing is done.
//! 3. A handle must not be used after a call has released it, even if that call failed. The header
//!    says which calls release a handle, and after which errors they do not.
//! 4. Every handle keeps the memory of the store alive, so handles can be released in any order.
//! 5. Names and numbers in the header are stable: their meaning never changes.
//!
//! Threads: handles of stores and trees can be used by all threads at once; transactions, prepared
//! transactions, cursors, batches and loads by one thread at a time.

#![allow(non_camel_case_types)]
// The head of the header and `bytes.rs` state the obligations of callers. The documentation of a
// function becomes its documentation in the header.
#![allow(clippy::missing_safety_doc)]

mod backup;
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
