//! The state that all handles of an open store share, by owner, and how a store is closed.
//!
//! Invariant: a store is closed once: by `Db::close`, or else when the last handle is dropped.

use super::{
    Options, Snapshot,
    commit::Timings,
    session::{PreparedTable, TxnPool},
};
use crate::{
    Durability, Result, TreeId,
    catalog::Catalog,
    io::Watch,
    pipeline::{Background, Engine},
    sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering},
    trim::FreedBefore,
    txn::{KeyLockTable, LockGate, lock_table::LockTable},
    wal::RecordPool,
};

/// State that all handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub engine: Arc<Engine>,
    pub catalog: Arc<Catalog>,
    pub locking: Locking,
    pub commits: Commits,
    pub sessions: Sessions,
    /// Last field: what it measures is dropped before.
    pub lifecycle: Lifecycle,
}

/// Locks of rows, gaps and trees, and what decides whether a commit needs them.
#[derive(Debug)]
pub(crate) struct Locking {
    /// Keys that commits without transactions are changing.
    pub keys: KeyLockTable,
    /// Locks of transactions, and of batches while there are transactions.
    pub table: Arc<LockTable>,
    pub gate: LockGate,
}

/// What commits share.
#[derive(Debug)]
pub(crate) struct Commits {
    pub durability: Durability,
    pub records: RecordPool,
    pub timings: Timings,
    /// Whether some tree's counter was used since the store was opened.
    pub has_counters: AtomicBool,
}

/// Transactions that begin, and those that are prepared.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// Transaction numbers given out so far.
    begun: AtomicU64,
    /// Pools of state for new transactions.
    pub(in crate::db) pool: TxnPool,
    pub(in crate::db) prepared: PreparedTable,
}

/// How the store was opened, what runs in the background, and how it ends.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    pub read_only: bool,
    pub closing: Mutex<()>,
    pub background: Background,
    /// Problems that opening met and worked around.
    pub warnings: Vec<String>,
    /// Watches for slow operations on the store's files.
    pub watch: Arc<Watch>,
    /// Last field, so that it is dropped after everything else was freed.
    pub freed: FreedBefore,
}

impl Locking {
    pub fn new(table: Arc<LockTable>) -> Self {
        let (keys, gate) = (KeyLockTable::default(), LockGate::default());
        Self { keys, table, gate }
    }
}

impl Commits {
    pub fn new(options: &Options) -> Self {
        Self {
            durability: options.durability,
            records: RecordPool::new(options.cache_bytes),
            timings: Timings::default(),
            has_counters: AtomicBool::new(false),
        }
    }
}

impl Lifecycle {
    pub fn new(
        read_only: bool,
        background: Background,
        warnings: Vec<String>,
        watch: Arc<Watch>,
    ) -> Self {
        let (closing, freed) = (Mutex::new(()), FreedBefore::default());
        Self { read_only, closing, background, warnings, watch, freed }
    }
}

impl Shared {
    /// The number of a new transaction.
    pub(super) fn next_txn(&self) -> u64 {
        self.next_txns(1).start
    }

    /// `count` numbers for new transactions.
    pub(super) fn next_txns(&self, count: u64) -> std::ops::Range<u64> {
        let first = self.sessions.begun.fetch_add(count, Ordering::Relaxed) + 1;
        first..first + count
    }

    /// The name of a tree for messages; empty if the tree is gone.
    pub(super) fn tree_name(&self, tree: TreeId) -> String {
        self.catalog.by_id(tree).map(|tree| tree.name()).unwrap_or_default()
    }

    pub(crate) fn snapshot(self: &Arc<Self>) -> Snapshot {
        let visible = || self.engine.sequencer.visible();
        Snapshot::new(self.engine.clone(), Some(self.clone()), visible)
    }

    /// Wakes all that wait for locks, stops the background work, makes what the log does not need
    /// durable, and closes the files; later calls do nothing.
    pub(super) fn close(&self) -> Result<()> {
        let _closing = self.lifecycle.closing.lock().unwrap();
        let engine = &*self.engine;
        if !engine.health.begin_close() {
            return Ok(());
        }
        self.locking.table.close();
        self.lifecycle.background.stop(engine);
        let outcome = if self.lifecycle.read_only || engine.health.check().is_err() {
            Ok(())
        } else {
            engine.close()
        };
        engine.pool.close();
        engine.readers.close();
        engine.health.close();
        self.lifecycle.freed.expect(engine.known_bytes());
        outcome.and(engine.store.release())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The thread is unwinding: the locks that the panic poisoned would make closing panic, too,
        // and abort. The next open recovers (P16).
        if crate::sync::thread::panicking() {
            self.engine.health.fail("a thread that used the store panicked");
            self.lifecycle.background.abandon();
            return;
        }
        // A destructor has no caller to return an error to, and must not hide it either. The next
        // open recovers.
        if let Err(error) = self.close() {
            let dir = self.engine.store.dir().display();
            eprintln!(
                "frond: {dir} was dropped without Db::close, and closing it failed: {error}. \
                 Commits that were not synced yet may be missing when it is opened again"
            );
        }
        self.leave_prepared();
    }
}
