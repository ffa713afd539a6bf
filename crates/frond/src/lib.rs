//! Frond: an embedded, ordered, transactional and always compressed key-value store, for data sets
//! larger than memory and write loads that would overwhelm a B-tree.
//!
//! A store is a directory that one process opens for writing, or several read-only. It holds named
//! [trees](Tree), which map keys to values, both byte strings, in key order. Writes go to a log and
//! to memory first, and move through buffered nodes (a Bε-tree) to compressed leaves.
//!
//! ```
//! # fn main() -> frond::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("people.db");
//! use frond::{Db, Options, TreeOptions};
//!
//! let db = Db::open(&path, Options::new().cache_size(256 << 20))?; // creates it if need be
//! let people = db.tree("people", TreeOptions::new())?;
//!
//! people.put("ada", "1815")?;
//! assert_eq!(people.get("ada")?.as_deref(), Some(&b"1815"[..]));
//!
//! // Atomic: all or nothing. Retried after a conflict with another transaction.
//! db.transact(|txn| {
//!     txn.put(&people, "grace", "1906")?;
//!     txn.delete(&people, "ada")
//! })?;
//!
//! for row in people.range(frond::prefix("g")) {
//!     let (name, born) = row?;
//!     println!("{} {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&born));
//! }
//! db.close()
//! # }
//! ```
//!
//! # Map
//!
//! | to do this | use |
//! |---|---|
//! | open a store, and its trees | [`Db`], [`Options`], [`Tree`], [`TreeOptions`] |
//! | write several rows at once | [`Batch`] |
//! | read and write in transactions, with row locks | [`Txn`], [`TxnOptions`], [`Isolation`] |
//! | read an earlier state, or keep the present one | [`Snapshot`], [`Db::create_snapshot`] |
//! | build keys from numbers and strings | [`mod@tuple`] |
//! | keep secondary indexes | [`Table`], [`TableSpec`], [`IndexSpec`] |
//! | describe the columns of rows, for smaller leaves | [`layout`] |
//! | load large amounts of data, build an index while others write | [`load`] |
//! | create, rename, swap or drop trees together | [`schema`] |
//! | follow committed changes | [`feed`] |
//! | back up, restore and check | [`backup`], [`check`] |
//! | watch a store | [`Stats`], [`stats`], [`lock`] |
//! | counters, sums, lists without reading first | [`operator`] |
//! | run a SQL engine on it | [`transaction`] |
//!
//! # Which call when
//!
//! | need | call |
//! |---|---|
//! | one row | [`Tree::get`]; in a transaction, [`Txn::get`], and [`Txn::get_for_update`] before a write that depends on it |
//! | rows of many keys | `get_many`: one pass in key order |
//! | a range, row by row | `range`: an iterator of owned rows, from both ends |
//! | a range, fast | `scan`: a cursor that lends each row, can seek, and reads in batches |
//! | skip or wait for locked rows, see the newest version, read some columns | `get_with` and `scan_with`, with [`ReadOptions`] |
//! | one write | [`Tree::put`]; [`Tree::delete`] |
//! | writes that depend on nothing read | [`Db::commit`] of a [`Batch`] |
//! | writes that depend on reads | [`Db::transact`]; [`Db::try_transact`] to return an error of your own |
//! | count a range | [`Tree::count`] reads it; [`Tree::row_count`] and [`Tree::estimate`] do not |
//! | delete a range | [`Tree::delete_range`] and [`Batch::delete_range`], at the price of one row; [`Txn::delete_range`] row by row |
//! | a new number | [`Tree::next_number`], [`Tree::reserve`] |
//! | a first load | [`Db::bulk_load`] |
//!
//! Errors are one enum, [`Error`]: match on it, or ask [`Error::kind`] what to do next. A commit is
//! acknowledged when its [`Durability`] holds. The repository has the guide (`docs/guide.md`), what
//! is promised of data (`docs/safety.md`) and how to operate a store (`docs/operating.md`).

#![deny(missing_docs)]
// Items that only `internals` exports are used within this workspace alone.
#![cfg_attr(not(feature = "internals"), allow(dead_code, unused_imports))]
// Modules document their private parts for readers of the source.
#![allow(rustdoc::private_intra_doc_links)]

// Defines the macro `plant!`, which all modules use, so it comes before them.
#[macro_use]
mod plant;

// Likewise for the macro `short_debug!`.
#[macro_use]
mod debug;

// The documentation shows the calls of a type in the order of modules: first the most used.
mod db;
pub mod table;

pub mod backup;
mod blob;
mod block;
mod bounds;
mod cache;
mod cancel;
mod catalog;
pub mod check;
#[allow(dead_code)] // each module uses a part of it
mod coding;
mod error;
mod io;
mod key_range;
mod latency;
pub mod layout;
mod memtable;
mod message;
mod page;
mod pipeline;
mod prefetch;
mod progress;
mod run;
mod store;
mod striped;
#[allow(unused_imports)] // a facade: each module uses a part of it
mod sync;
mod tree;
mod trim;
pub mod tuple;
mod txn;
mod types;
mod version;
mod wal;

pub use db::{
    Batch, CACHE_BYTES_MIN, Cursor, Db, IfLocked, Interrupter, Isolation, Options, Projection,
    ReadOptions, Reader, RowBuf, RowCount, RowLock, Rows, Savepoint, Snapshot, SnapshotInfo, Stats,
    TemporaryCursor, TemporaryRows, TemporaryTree, Tree, TreeInfo, TreeOptions, Txn, TxnCursor,
    TxnOptions, TxnRows,
};
pub use error::{Duplicate, Error, ErrorKind, Place, Result};
pub use key_range::{KeyRange, prefix};
pub use table::{IndexRow, IndexRows, IndexScan, IndexSpec, Table, TableIndex, TableSpec};
pub use types::{
    Durability, KEY_BYTES_MAX, Seqno, SizeClass, TreeId, VALUE_BYTES_MAX, VALUE_INLINE_BYTES_MAX,
};

/// The change feed: committed changes in commit order, read from the log ([`Db::changes`]).
pub mod feed {
    pub use crate::{
        db::{Change, ChangeFeed, ChangedTree, Commit},
        message::{Kind, Message, Tag},
    };
}

/// Bulk loads, and index builds that run concurrently with writers ([`Db::bulk_load`],
/// [`Db::build_indexes`]).
pub mod load {
    pub use crate::{
        db::{BulkLoad, BulkLoaded, IndexBuild, RowChanged},
        progress::{Progress, ProgressSnapshot},
    };
}

/// Locks of transactions as a monitor sees them: holders, waiters, deadlocks ([`Db::locks`],
/// [`Db::lock_waits`], [`Db::last_deadlock`]).
pub mod lock {
    pub use crate::{
        db::TreeLock,
        error::LockHolder,
        txn::lock_table::{
            Deadlock, HeldLock, HeldLocks, HeldOn, Hooks as LockHooks, LiveTxn, LockMode, LockOn,
            LockParty, LockStats, LockWait, Party as DeadlockParty,
        },
        types::KeyStart,
    };
}

/// Merge operators: the built-in numbers, and the trait for operators of your own.
pub mod operator {
    pub use crate::{
        run::{
            MergeOperator, OPERATOR_ADD as ADD, OPERATOR_APPEND as APPEND, OPERATOR_MAX as MAX,
            OPERATOR_MIN as MIN, OPERATOR_USER_MIN as USER_MIN,
        },
        types::OPERAND_BYTES_MAX,
    };
}

/// Changes of several trees in one atomic step: create, drop, rename, swap, truncate
/// ([`Db::change_trees`]).
pub mod schema {
    pub use crate::db::{ChangeStep, TreesChange, TreesChanged, WhichTree};
}

/// Statistics of a store and of its trees ([`Db::stats`], [`Db::tree_stats`], [`Tree::sizes`]).
pub mod stats {
    pub use crate::{
        db::{DamagedRange, RangeEstimate, TreeSizes, TreeStats},
        io::SlowOperation,
        latency::LatencyStats,
        run::{DecodeStats, EncodeStats},
    };
}

/// What a SQL engine needs of a transaction beyond [`Txn`]'s basic calls: statements, rows of
/// several trees written as one, interrupts and locks, two-phase commit ([`Txn::statement`],
/// [`Txn::row_writer`], [`Txn::control`], [`Txn::prepare`]).
pub mod transaction {
    pub use crate::{
        db::{
            ManyRows, PreparedInfo, PreparedTxn, RowChange, RowConflict, RowEntry, RowRead,
            RowWriter, Sees, Statement, TemporaryEntry, TxnControl,
        },
        types::{XID_BYTES_MAX, Xid},
    };
}

/// The engine's own modules, for the tests, benchmarks and tools of this workspace. They change
/// without notice.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::{
        db::{Tuning, bypass_table},
        pipeline::Limits,
        tree::Shape,
        txn::{
            HashedKey, LiveWrites, Mark, OwnCursor, OwnState, TreeWriters, TxnWrites, lock_table,
        },
        types::{Lineage, Lsn},
    };
    pub mod blob {
        pub use crate::blob::*;
    }
    pub mod block {
        pub use crate::block::*;
    }
    pub mod bounds {
        pub use crate::bounds::*;
    }
    pub mod cache {
        pub use crate::cache::*;
    }
    pub mod catalog {
        pub use crate::catalog::*;
    }
    pub mod io {
        pub use crate::io::*;
    }
    pub mod memtable {
        pub use crate::memtable::*;
    }
    pub mod page {
        pub use crate::page::*;
    }
    pub mod plant {
        pub use crate::plant::*;
    }
    pub mod run {
        pub use crate::run::*;
    }
    pub mod store {
        pub use crate::store::*;
    }
    pub mod wal {
        pub use crate::wal::*;
    }
}

/// Compiles the example of the README, which `examples/readme.rs` runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
