//! Frond: an embedded, ordered, transactional and always compressed storage engine for data sets
//! larger than memory and write loads that would overwhelm a B-tree.

#![deny(missing_docs)]
// Modules document their private parts for readers of the source.
#![allow(rustdoc::private_intra_doc_links)]

// Defines the macro `plant!`, which all modules use, so it comes before them.
#[macro_use]
#[doc(hidden)]
pub mod plant;

// Defines the macro `short_debug!`, likewise.
#[macro_use]
mod debug;

mod backup;
pub mod blob;
pub mod block;
#[doc(hidden)]
pub mod bounds;
pub mod cache;
mod cancel;
pub mod catalog;
mod check;
#[allow(dead_code)] // each module uses a part of it
mod coding;
mod db;
mod error;
pub mod io;
mod key_range;
mod latency;
mod layout;
pub mod memtable;
mod message;
pub mod page;
mod pipeline;
mod prefetch;
mod progress;
pub mod run;
pub mod store;
mod striped;
#[allow(unused_imports)] // a facade: each module uses a part of it
mod sync;
mod table;
mod tree;
mod trim;
pub mod tuple;
mod txn;
mod types;
mod version;
pub mod wal;

pub use backup::{BackupId, BackupInfo, restore, verify_backup};
pub use block::columnar::ColumnOf;
pub use check::{
    CheckMode, CheckReport, Checked, ColumnUse, Finding, LevelShape, Severity, TreeColumns,
    TreeShape, check,
};
#[doc(hidden)]
pub use db::Tuning;
pub use db::{
    Batch, BulkLoad, BulkLoaded, CACHE_BYTES_MIN, Change, ChangeFeed, ChangeStep, ChangedTree,
    Commit, Cursor, DamagedRange, Db, IfLocked, IndexBuild, Interrupter, Isolation, ManyRows,
    Options, PreparedInfo, PreparedTxn, Projection, RangeEstimate, ReadOptions, Reader, RowBuf,
    RowChange, RowChanged, RowConflict, RowCount, RowEntry, RowLock, RowRead, Rows, Savepoint,
    Sees, Snapshot, SnapshotInfo, Stats, TemporaryEntry, TemporaryTree, Tree, TreeInfo, TreeLock,
    TreeOptions, TreeSizes, TreeStats, TreesChange, TreesChanged, Txn, TxnCursor, TxnOptions,
    TxnRows, WhichTree,
};
pub use error::{Error, ErrorKind, Place, Result};
pub use key_range::{KeyRange, prefix};
pub use latency::LatencyStats;
pub use layout::{
    DecodeError, End, Hint, LAYOUT_BYTES_MAX, LAYOUT_PARTS_MAX, Layout, NewPart, Part,
};
pub use message::{Kind, Message, Tag};
#[doc(hidden)]
pub use pipeline::Limits;
pub use run::{DecodeStats, EncodeStats};
/// Merge operators: the built-in numbers, and the trait for operators of your own.
pub mod operator {
    pub use crate::run::{
        MergeOperator, OPERATOR_ADD as ADD, OPERATOR_APPEND as APPEND, OPERATOR_MAX as MAX,
        OPERATOR_MIN as MIN, OPERATOR_USER_MIN as USER_MIN,
    };
}
pub use progress::{Progress, ProgressSnapshot};
pub use table::{
    BuildProgress, Column, ColumnChange, IndexInfo, IndexRow, IndexRows, IndexScan, IndexSpec,
    Table, TableFinding, TableIndex, TableReport, TableSpec,
};
#[doc(hidden)]
pub use tree::Shape;
#[doc(hidden)]
pub use txn::lock_table;
pub use txn::lock_table::{
    Deadlock, HeldLock, HeldLocks, HeldOn, Hooks as LockHooks, LiveTxn, LockMode, LockOn,
    LockParty, LockStats, LockWait, Party as DeadlockParty,
};
#[doc(hidden)]
pub use txn::{HashedKey, LiveWrites, Mark, OwnCursor, OwnState, TreeWriters, TxnWrites};
pub use types::{
    Durability, KEY_BYTES_MAX, KeyStart, Lineage, Lsn, OPERAND_BYTES_MAX, Seqno, SizeClass,
    StoreId, TreeId, VALUE_BYTES_MAX, VALUE_INLINE_BYTES_MAX, VersionNumber, XID_BYTES_MAX, Xid,
};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
/// Runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;
/// Compiles the examples of the guide to tables.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tables.md")]
struct Tables;
