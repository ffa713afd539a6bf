//! The public API of the engine: a database, its trees, batches, snapshots and cursors.
//!
//! | folder | what it does |
//! |---|---|
//! | `commit/` | the commit path: from a write set to the log and a memtable |
//! | `read/` | reads at one moment: rows, cursors, snapshots, counts |
//! | `session/` | transactions, temporary trees, prepared transactions |
//! | `ddl/` | changes of the catalog: creating, cloning, changing and dropping trees |
//! | `load/` | bulk loads, and builds of indexes |
//! | `feed/` | the feed of committed changes |
//! | `open/` | opening a store and replaying its log |
//!
//! Threads: every handle may be used from all threads concurrently.

// The documentation shows the calls of a type in the order of modules: first the most used.
mod handle;
mod tree;

mod ddl;

mod session;

mod batch;
mod commit;
mod counters;
mod feed;
#[cfg(all(test, shuttle))]
mod interleavings;
mod load;
mod of_table;
mod open;
mod options;
mod read;
mod shared;
mod sizes;
mod stats;
mod striped_handle;

pub(crate) use crate::catalog::{StoredIndex, StoredTable, check_columns, is_table};
pub use batch::Batch;
pub(crate) use ddl::{CatalogChange, ExclusiveTreeLock, ExclusiveWait};
pub use ddl::{ChangeStep, SnapshotInfo, TreesChange, TreesChanged, WhichTree};
pub use feed::{Change, ChangeFeed, ChangedTree, Commit};
pub use load::{BulkLoad, BulkLoaded, IndexBuild, RowChanged};
#[cfg(feature = "internals")]
pub use of_table::bypass_table;
pub use options::{CACHE_BYTES_MIN, Options, Tuning};
pub(crate) use read::{BothEnds, KeyOrder, Passed, Repeats, Row, RowPlace, TwoWay, Which};
pub use read::{
    Cursor, Projection, RangeEstimate, Reader, RowBuf, RowCount, Rows, Snapshot, TemporaryRows,
    TxnRows,
};
pub(crate) use session::RowCall;
pub use session::{
    IfLocked, Interrupter, Isolation, ManyRows, PreparedInfo, PreparedTxn, ReadOptions, RowChange,
    RowConflict, RowEntry, RowLock, RowRead, RowWriter, Savepoint, Sees, Statement,
    TemporaryCursor, TemporaryEntry, TemporaryTree, TreeLock, Txn, TxnControl, TxnCursor,
    TxnOptions,
};
pub(crate) use shared::{Commits, Lifecycle, Locking, Sessions, Shared};
pub use sizes::TreeSizes;
pub use stats::{DamagedRange, Stats, TreeStats};
pub use tree::{Tree, TreeInfo, TreeOptions};

use crate::sync::Arc;
use striped_handle::StripedHandles;

/// An open store.
///
/// Cheap to clone. The store closes when [`close`](Db::close) is called, or when the last handle is
/// dropped: clones, trees, snapshots, transactions, cursors, loads and change feeds are handles,
/// too. `close` returns errors, rolls open transactions back, and makes calls that wait in other
/// threads fail with [`Error::Closed`](crate::Error::Closed). A drop has no caller to return errors
/// to, so it prints them to standard error. Neither loses a commit that was acknowledged as
/// durable.
///
/// ```
/// use frond::{Db, Options};
///
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::open(dir.path().join("store"), Options::new())?;
/// let words = db.create_tree("words", Default::default())?;
/// words.put(b"frond", b"the leaf of a fern")?;
/// assert_eq!(words.get(b"frond")?.as_deref(), Some(&b"the leaf of a fern"[..]));
/// db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) shared: Arc<Shared>,
    /// The store, as transactions hold it.
    handles: StripedHandles,
}

short_debug!(Db, "Db", |db| db.shared.engine.store.dir());
