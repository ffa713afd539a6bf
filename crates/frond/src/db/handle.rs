//! Calls of a store as a whole: opening it, commits of batches, snapshots, checkpoints, statistics,
//! closing it.
//!
//! Threads: all.

use std::path::Path;

use crate::{Durability, Error, Result, Seqno};

use super::{Batch, Db, Options, Snapshot, Stats, TreeStats, open};

impl Db {
    /// Opens the store in `dir`, and creates it if there is none (unless `Options` say otherwise).
    /// After a crash this replays the log: at most 512 MiB of it.
    ///
    /// # Errors
    /// `Locked` if the store is open elsewhere, unless both only read; `NotAStore`, `TooNew`,
    /// `ForeignFile`, `Truncated`, `WalDamaged`, `WalMissing`, `NoSuperblock` if it cannot be
    /// opened; `OperatorNeeded` if a tree uses a merge operator that is not in `Options`. Nothing
    /// is written then.
    #[doc(alias("create", "open_or_create"))]
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        open::open(dir.as_ref(), options)
    }

    /// Commits a batch at the store's durability, and empties it. Returns the commit's seqno.
    ///
    /// A batch waits for rows, gaps and trees that transactions have locked. It never fails with
    /// `Deadlock`: if it is chosen as the victim of a cycle, it releases its locks and starts
    /// again, in the time that is left of its [lock timeout](Batch::lock_timeout).
    ///
    /// # Errors
    /// Nothing was done, and the batch is unchanged, after:
    /// - `DuplicateKey` if the key of an insert exists ([`Batch::insert`]), `InvalidArgument` if
    ///   the batch belongs to another store;
    /// - `NoSuchTree` if a tree of its rows was dropped, truncated or filled by a load since they
    ///   were put;
    /// - `LockTimeout` if it waited too long for locks, `TooManyLocks` if there is no memory for
    ///   more of them, `Interrupted` if the batch was [cancelled](Batch::set_interrupter);
    /// - `BatchTooLarge` if it does not fit into a log record or into memory;
    /// - `Full` if the disk is full: only deletes are admitted;
    /// - `ReadOnly`, `Closed`, and `Failed` if the store had stopped before;
    /// - I/O errors and damage of what had to be read to check inserts, and to find whether keys
    ///   exist.
    ///
    /// `Failed` from a write or sync of this commit, and `OutcomeUnknown`, stop the store:
    /// reopening it shows whether the batch was committed.
    #[doc(alias("write", "apply_batch"))]
    pub fn commit(&self, batch: &mut Batch) -> Result<Seqno> {
        self.shared.commit(batch, None)
    }

    /// Commits a batch, like [`commit`](Self::commit), at the given durability.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_with(&self, batch: &mut Batch, durability: Durability) -> Result<Seqno> {
        self.shared.commit(batch, Some(durability))
    }

    /// A snapshot of the current state of the store.
    #[doc(alias = "begin_read")]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Makes everything committed so far durable in trees, so that the log before it can be
    /// trimmed, and returns free disk space to the file system. Never needed for safety; useful
    /// before copying files. Blocks until done.
    ///
    /// # Errors
    /// I/O errors, which stop the store.
    #[doc(alias("flush", "compact"))]
    pub fn checkpoint(&self) -> Result<()> {
        if self.shared.lifecycle.read_only {
            return Err(Error::ReadOnly);
        }
        let engine = &self.shared.engine;
        engine.health.check()?;
        engine.freeze();
        while engine.apply_oldest()? {}
        engine.go_idle()
    }

    /// Calls `tell`, on a thread of the store, once every commit sequenced so far is durable:
    /// within one second even if the store is idle, and at the latest before [`close`](Db::close)
    /// returns. `tell` must not call the store. It is never called if the store fails before. Meant
    /// for programs that keep a log of their own until the store no longer needs it.
    ///
    /// # Errors
    /// `ReadOnly`, `Closed`, `Failed`: `tell` is not called.
    pub fn when_synced(&self, tell: impl FnOnce() + Send + 'static) -> Result<()> {
        self.shared.check_writable()?;
        self.shared.engine.tell_when_synced(Box::new(tell))
    }

    /// Problems found while the store was opened, which lost nothing but need attention: one
    /// sentence each, with its code. They concern a superblock slot, or what it links, that could
    /// not be used (FRD-2105); a disk without space for the commits of in-doubt transactions
    /// (FRD-1303), or for the checkpoint that ends a recovery (FRD-1304). Usually empty.
    pub fn warnings(&self) -> &[String] {
        &self.shared.lifecycle.warnings
    }

    /// Counters and sizes, and the damage that background work has found.
    pub fn stats(&self) -> Stats {
        Stats::collect(&self.shared)
    }

    /// Costs of encoding and decoding since the store was opened, for each tree by name, the
    /// catalog first. [`stats`](Db::stats) has the sums, which include dropped trees. Reads some
    /// forty counters per tree.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let words = db.create_tree("words", Default::default())?;
    /// words.put(b"frond", b"the leaf of a fern")?;
    /// db.checkpoint()?;
    /// let stats = db.tree_stats().into_iter().find(|of| of.tree == "words").unwrap();
    /// assert_eq!((stats.leaves.rows, stats.leaves.blocks), (1, 1));
    /// # db.close()
    /// # }
    /// ```
    pub fn tree_stats(&self) -> Vec<TreeStats> {
        TreeStats::collect(&self.shared)
    }

    /// Does one step of background work, if the environment has no threads; false if there is none.
    #[doc(hidden)]
    pub fn step(&self) -> Result<bool> {
        let engine = &self.shared.engine;
        engine.health.watch(engine.step())
    }

    /// Does one step of draining buffers; false if all are empty.
    #[doc(hidden)]
    pub fn drain_step(&self) -> Result<bool> {
        self.shared.engine.drain_some()
    }

    /// Closes the store for all its handles: all commits become durable, and the next open needs no
    /// recovery. Further calls do nothing.
    ///
    /// It does not consume the handle, because that would say nothing about the others: clones,
    /// trees, snapshots and transactions may be left, in other threads, too. Their reads and writes
    /// fail with [`Error::Closed`] from now on. Only open cursors continue to work, until the store
    /// is opened again and reuses the space of what they read.
    ///
    /// Calls of other threads that wait when the close begins, for a row, a gap, a tree, memory or
    /// the end of transactions, return `Closed` at once, whatever their timeout, and have done
    /// nothing. A commit that has its place in the log by then ends as usual and is durable; later
    /// ones fail with `Closed`.
    ///
    /// Transactions that are open when the close begins are rolled back: nothing of them is
    /// committed, and no call waits for their locks any more. From then on
    /// [`Txn::is_over`](crate::Txn::is_over) is true for all of them, and
    /// [`transactions`](Self::transactions) lists none. Their memory is freed when their handles
    /// are dropped. [Prepared](crate::Txn::prepare) transactions stay prepared, for the next open.
    ///
    /// Dropping the last handle closes the store likewise, and prints an error to standard error;
    /// while the thread panics, it leaves the store to the recovery of the next open. A store that
    /// has stopped ([`Stats::failed`]) only closes its files.
    ///
    /// On a full disk, commits for which the trees have no room stay in the log. It is synced, so
    /// nothing is lost; the next open recovers from it.
    ///
    /// # Errors
    /// I/O errors; the store then recovers at the next open. Commits that were acknowledged at
    /// [`Durability::Sync`](crate::Durability::Sync) are there again; of others, those that were
    /// not synced yet may be missing.
    pub fn close(&self) -> Result<()> {
        self.shared.close()
    }
}
