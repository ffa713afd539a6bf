//! Row locks of batches, which they need while transactions hold locks.
//!
//! While no transaction holds a lock, a batch takes none ([`LockGate`](crate::txn::LockGate)).
//! Otherwise it behaves like a transaction of one call:
//!
//! 1. It locks its rows in the order of their keys, so that two batches seldom wait for each other
//!    in a cycle.
//! 2. It publishes its keys where range locks look for them.
//! 3. It waits until the gaps that it inserts into are free (Rule: I33).
//!
//! A batch can be part of a deadlock cycle with transactions, and with a batch that released a row
//! while it waited for a gap. If it is chosen as the victim, it starts again: it releases all its
//! locks, which ends the cycle, and acquires them anew in the time that is left. The batch has done
//! nothing yet, so its caller need not know. A range delete locks its tree exclusively, and so does
//! a batch with many rows of a tree.
//!
//! Invariants
//! 1. Lock order, as for transactions: rows and gaps, then the turn of large batches, then the key
//!    locks. A holder of a later one never waits for an earlier one.
//! 2. Batches without locks are excluded by the key locks, which both kinds take. While
//!    transactions hold locks, there are no batches without locks.
//!
//! Threads: the committing one.

use std::time::Duration;

use crate::{
    Durability, Error, Result, Seqno, TreeId,
    blob::BlobHold,
    catalog::TreeEntry,
    db::{Batch, Shared, batch::BatchWaits},
    pipeline::CommitPayload,
    sync::Arc,
    txn::{
        LiveWrites, WriteSet,
        lock_table::{LockError, LockMark, LockSet, RowMode, TableMode, WaitPolicy},
    },
};

use super::{PendingCommit, give_back_writes};

/// Default timeout for locks: longer than any transaction of a healthy program, and no longer than
/// a user waits. Other databases have 50 s (InnoDB) or less.
pub(in crate::db) const LOCK_WAIT: Duration = Duration::from_secs(10);
/// Rows of a tree from which a batch locks the whole tree: half a megabyte of locks.
const TREE_ROWS_MAX: usize = 10_000;

/// The locks of a batch.
pub(super) struct BatchLocks<'a> {
    shared: &'a Shared,
    locks: LockSet,
    /// The mark at which the batch held no locks.
    start: LockMark,
    /// When the batch stops waiting, by the store's clock; `None` for no limit.
    until: Option<Duration>,
    /// Where other transactions find the batch's keys, and the trees that list it as a writer.
    live: Option<Arc<LiveWrites>>,
    entered: Vec<Arc<TreeEntry>>,
}

impl Shared {
    /// When a batch that starts to lock now stops waiting, by the store's clock.
    pub(super) fn lock_deadline(&self, waits: &BatchWaits) -> Option<Duration> {
        let now = self.engine.env.clock.now();
        waits.lock_timeout.map(|time| now.saturating_add(time))
    }

    /// Locks the rows of a batch.
    pub(super) fn lock_batch(
        &self,
        writes: &WriteSet,
        trees: &[TreeId],
        (waits, until): (&BatchWaits, Option<Duration>),
    ) -> Result<BatchLocks<'_>> {
        loop {
            match self.lock_batch_once(writes, trees, (waits, until)) {
                Err(Error::Deadlock { .. }) if starts_again() => waits.check_interrupted()?,
                done => return done,
            }
        }
    }

    /// Publishes the keys of a batch, and waits for its gaps.
    pub(super) fn publish_batch<'a>(
        &'a self,
        mut rows: BatchLocks<'a>,
        payload: &Arc<CommitPayload>,
        (waits, until): (&BatchWaits, Option<Duration>),
    ) -> Result<BatchLocks<'a>> {
        loop {
            match rows.publish(payload) {
                Err(Error::Deadlock { .. }) if starts_again() => waits.check_interrupted()?,
                done => return done.map(|()| rows),
            }
            drop(rows);
            rows = self.lock_batch(&payload.writes, &payload.trees, (waits, until))?;
        }
    }

    /// Locks the rows once; `Deadlock` if the batch is chosen as the victim.
    fn lock_batch_once(
        &self,
        writes: &WriteSet,
        trees: &[TreeId],
        (waits, until): (&BatchWaits, Option<Duration>),
    ) -> Result<BatchLocks<'_>> {
        let mut held = self.no_rows(waits, until);
        held.locks.owner().set_writes(writes.len() as u64);
        let table = &self.locking.table;
        for &tree in trees {
            let is_alone =
                writes.ranges(tree).next().is_some() || writes.count(tree) > TREE_ROWS_MAX;
            let mode = if is_alone { TableMode::Exclusive } else { TableMode::IntentExclusive };
            let wait_policy = held.wait_policy();
            table
                .lock_table(&mut held.locks, tree, mode, wait_policy)
                .map_err(|no| self.lock_error(no))?;
            if is_alone {
                continue;
            }
            for entry in writes.entries(tree) {
                let wait_policy = held.wait_policy();
                let locks = &mut held.locks;
                let taken = table.lock_row(locks, tree, entry.key, RowMode::Write, wait_policy);
                taken.map_err(|no| self.lock_error(no))?;
            }
        }
        Ok(held)
    }

    /// An empty lock set, under a transaction number of its own.
    fn no_rows(&self, waits: &BatchWaits, until: Option<Duration>) -> BatchLocks<'_> {
        let locks = self.locking.table.begin(self.next_txn());
        self.locking.table.begins(&locks);
        let start = locks.mark();
        waits.cancel().inspect(|&cancel| locks.owner().cancel_on(cancel.clone()));
        BatchLocks { shared: self, locks, start, until, live: None, entered: Vec::new() }
    }

    /// Commits a batch whose rows are locked and published. `None` if it must start over: see
    /// `build_queues.rs`.
    pub(super) fn commit_locked(
        &self,
        rows: BatchLocks<'_>,
        payload: &Arc<CommitPayload>,
        blobs: &[Arc<BlobHold>],
        (level, bytes, waits): (Durability, u64, &BatchWaits),
        queues: &[TreeId],
    ) -> Result<Option<Seqno>> {
        if self.must_start_over(&payload.trees, queues) {
            return Ok(None);
        }
        let _turn = self.engine.make_room(bytes, &|| waits.check_interrupted())?;
        let keys = self.lock_checked(&payload.writes, &payload.trees)?;
        if payload.writes.has_inserts() {
            self.must_be_absent(&payload.writes, &payload.trees)?;
        }
        // The inserts could be marked fresh (Rule: I7), but the set is already published and must
        // not change.
        let commit = PendingCommit::new(payload, blobs, &[]);
        self.commit_pending(&commit, level, (keys, rows)).map(Some)
    }

    /// Commits a batch of one existing row, which stays until this returns because the caller holds
    /// at least a shared lock on it (`session/autonomous.rs`). It does not wait for readers that
    /// hold such a lock, and index builds see it like any writer.
    pub(in crate::db) fn commit_of_kept_row(
        &self,
        batch: &mut Batch,
        level: Durability,
    ) -> Result<Seqno> {
        let bytes = batch.bytes() as u64;
        self.attempt_commit(batch, |batch, queues| {
            self.commit_kept_once(batch, (level, bytes), queues)
        })
    }

    /// Tries the commit once. `None` if it must start over: see `build_queues.rs`.
    fn commit_kept_once(
        &self,
        batch: &mut Batch,
        level: (Durability, u64),
        queues: &[TreeId],
    ) -> Result<Option<Seqno>> {
        let trees = self.seal(batch)?;
        let own = trees.iter().copied().find(|tree| !queues.contains(tree));
        let mut payload = self.take_writes(batch, trees);
        if let Some(payload) = Arc::get_mut(&mut payload) {
            // The row existed and still exists.
            payload.rows = own.map(|tree| (tree, 0)).into_iter().collect();
        }
        let Batch { blobs, waits, .. } = &*batch;
        let level = (level.0, level.1, waits);
        // The key exists, so there is no gap to wait for.
        let mut none = self.no_rows(waits, self.lock_deadline(waits));
        let published = none.publish(&payload);
        let done =
            published.and_then(|()| self.commit_locked(none, &payload, blobs, level, queues));
        give_back_writes(batch, payload);
        done
    }

    /// The wait policy for a lock wait that ends at `until`.
    fn wait_policy(&self, until: Option<Duration>) -> WaitPolicy {
        let now = self.engine.env.clock.now();
        until.map_or(WaitPolicy::Forever, |until| WaitPolicy::For(until.saturating_sub(now)))
    }

    /// The error for a lock that was not granted.
    pub(in crate::db) fn lock_error(&self, denied: LockError) -> Error {
        let tree = self.tree_name(denied.tree);
        denied.into_error(&tree)
    }
}

/// True if a batch that is chosen as a victim starts again.
fn starts_again() -> bool {
    !plant!("db: a batch that ends a cycle of waits fails")
}

impl BatchLocks<'_> {
    /// Publishes the keys, and waits for the gaps.
    pub fn publish(&mut self, payload: &Arc<CommitPayload>) -> Result<()> {
        let Self { shared, locks, start, until, live, entered } = self;
        let own = live.insert(Arc::new(LiveWrites::new(locks.owner().id())));
        let mut writes = own.lock();
        writes.seal(&shared.engine.cx.folder())?;
        writes.gone_to(payload.clone());
        drop(writes);
        for &tree in &payload.trees {
            if let Some(entry) = shared.catalog.by_id(tree) {
                entry.writers.enter(own);
                entered.push(entry);
            }
        }
        for &tree in &payload.trees {
            for entry in payload.writes.entries(tree) {
                let (table, wait_policy) = (&shared.locking.table, shared.wait_policy(*until));
                if !table.is_gap_locked(locks, tree, entry.key)
                    || shared.exists_at_latest(tree, entry.key)?
                {
                    continue;
                }
                let gap = table.before_insert(locks, tree, entry.key, *start, wait_policy);
                gap.map_err(|no| shared.lock_error(no))?;
            }
        }
        Ok(())
    }

    /// The wait policy for the batch's next lock: what is left of the time limit for all of them
    /// together.
    fn wait_policy(&self) -> WaitPolicy {
        self.shared.wait_policy(self.until)
    }
}

impl Drop for BatchLocks<'_> {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            self.entered.iter().for_each(|tree| tree.writers.leave(live));
            // The set goes back to the batch; a thread that still holds a reference must not find
            // keys in it.
            live.clear();
        }
        self.shared.locking.table.release_all(&mut self.locks);
    }
}
