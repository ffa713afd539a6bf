//! Batches beside transactions: their rows are locked, and others find their keys.
//!
//! As long as no transaction holds a lock, a batch takes none ([`LockGate`](crate::txn::LockGate)). Else it is as a
//! transaction of one call: rows locked in the order of their keys, so that two batches seldom wait for each other in
//! a cycle; then its keys are where others look for them; then the gaps that they go into must be free (Rule: I33).
//!
//! A batch can be on a cycle of waits with transactions, and with a batch that gave a row up while it waited for a gap. If it
//! is chosen to end the cycle, it starts again: it releases all its locks, which ends the cycle, and acquires them anew, in
//! what is left of its time. It has done nothing yet, so its caller need not know.
//! A range delete wants its tree alone, and so does a batch with many rows of a tree.
//!
//! Invariants
//! 1. Rows and gaps come before the turn of large batches, and that before the key locks, as of transactions: who has
//!    one of the later ones waits for none of the earlier.
//! 2. Against batches without locks there are the key locks, which both take; against transactions there are none
//!    such batches.
//!
//! Threads: the committing one.

use std::time::Duration;

use crate::{
    Durability, Error, Result, Seqno, TreeId,
    blob::BlobHold,
    catalog::TreeEntry,
    pipeline::Insertion,
    sync::Arc,
    txn::{
        LiveWrites, WriteSet,
        lock_table::{Denied, LockMark, LockSet, Patience, RowMode, TableMode},
    },
};

use super::{
    super::{Batch, Shared, batch::BatchWaits},
    give_back_writes,
};

/// How long a lock is waited for where nobody says: longer than any transaction of a program that is well, and no
/// longer than a user waits. Databases have 50 s (InnoDB) and less.
pub(in crate::db) const LOCK_WAIT: Duration = Duration::from_secs(10);
/// Rows of a tree from which on a batch wants the tree: half a megabyte of locks.
const TREE_ROWS_MAX: usize = 10_000;

/// What a batch holds.
pub(super) struct BatchLocks<'a> {
    shared: &'a Shared,
    locks: LockSet,
    /// When it held nothing.
    start: LockMark,
    /// How long it waits, by the store's clock; else until it has all.
    until: Option<Duration>,
    /// Where its keys are found, and the trees that list it.
    live: Option<Arc<LiveWrites>>,
    entered: Vec<Arc<TreeEntry>>,
}

impl Shared {
    /// When a batch that begins to lock now gives up waiting, by the store's clock.
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
                Err(Error::Deadlock { .. }) if starts_again() => waits.must_go_on()?,
                done => return done,
            }
        }
    }

    /// Lets others find the keys of a batch, and waits for the gaps.
    pub(super) fn publish_batch<'a>(
        &'a self,
        mut rows: BatchLocks<'a>,
        insertion: &Arc<Insertion>,
        (waits, until): (&BatchWaits, Option<Duration>),
    ) -> Result<BatchLocks<'a>> {
        loop {
            match rows.publish(insertion) {
                Err(Error::Deadlock { .. }) if starts_again() => waits.must_go_on()?,
                done => return done.map(|()| rows),
            }
            drop(rows);
            rows = self.lock_batch(&insertion.writes, &insertion.trees, (waits, until))?;
        }
    }

    /// `Deadlock` if the batch is chosen to end a cycle.
    fn lock_batch_once(
        &self,
        writes: &WriteSet,
        trees: &[TreeId],
        (waits, until): (&BatchWaits, Option<Duration>),
    ) -> Result<BatchLocks<'_>> {
        let mut held = self.no_rows(waits, until);
        held.locks.owner().set_writes(writes.len() as u64);
        let table = &self.lock_table;
        for &tree in trees {
            let is_alone =
                writes.ranges(tree).next().is_some() || writes.count(tree) > TREE_ROWS_MAX;
            let mode = if is_alone { TableMode::Exclusive } else { TableMode::IntentExclusive };
            let patience = held.patience();
            table
                .lock_table(&mut held.locks, tree, mode, patience)
                .map_err(|no| self.lock_error(no))?;
            if is_alone {
                continue;
            }
            for entry in writes.entries(tree) {
                let patience = held.patience();
                let locks = &mut held.locks;
                let taken = table.lock_row(locks, tree, entry.key, RowMode::Write, patience);
                taken.map_err(|no| self.lock_error(no))?;
            }
        }
        Ok(held)
    }

    /// Under a number of its own, nothing yet.
    fn no_rows(&self, waits: &BatchWaits, until: Option<Duration>) -> BatchLocks<'_> {
        let locks = self.lock_table.begin(self.next_txn());
        self.lock_table.begins(&locks);
        let start = locks.mark();
        waits.heed().inspect(|&heed| locks.owner().heed(heed.clone()));
        BatchLocks { shared: self, locks, start, until, live: None, entered: Vec::new() }
    }

    /// Commits what these rows were locked for, and others find; `None`: see `queued.rs`.
    pub(super) fn commit_locked(
        &self,
        rows: BatchLocks<'_>,
        insertion: &Arc<Insertion>,
        blobs: &[Arc<BlobHold>],
        (level, bytes, waits): (Durability, u64, &BatchWaits),
        queues: &[TreeId],
    ) -> Result<Option<Seqno>> {
        if self.lacks_queue(&insertion.trees, queues) {
            return Ok(None);
        }
        let _turn = self.engine.make_room(bytes, &|| waits.must_go_on())?;
        let keys = self.lock_checked(&insertion.writes, &insertion.trees)?;
        self.must_be_absent(&insertion.writes, &insertion.trees)?;
        // They could be said to be fresh (Rule: I7), were the set not where others look already.
        self.commit_insertion(insertion, blobs, level, &[], (keys, rows)).map(Some)
    }

    /// Commits a batch of one row that is there, and stays until this returns, for the caller has it locked at least shared
    /// (`txn/autonomous.rs`). It goes past who reads it so, and is found by builds of indexes as any writer is.
    pub(in crate::db) fn commit_of_kept_row(
        &self,
        batch: &mut Batch,
        level: Durability,
    ) -> Result<Seqno> {
        let bytes = batch.bytes() as u64;
        loop {
            let queues = self.queue_changes(&mut batch.writes)?;
            let done = self.commit_kept_once(batch, (level, bytes), &queues);
            if let Ok(Some(seqno)) = done {
                return Ok(seqno);
            }
            batch.writes.forget(&queues);
            done?;
        }
    }

    /// `None`: see `queued.rs`.
    fn commit_kept_once(
        &self,
        batch: &mut Batch,
        level: (Durability, u64),
        queues: &[TreeId],
    ) -> Result<Option<Seqno>> {
        let trees = self.seal(batch)?;
        let own = trees.iter().copied().find(|tree| !queues.contains(tree));
        let mut insertion = self.take_writes(batch, trees);
        if let Some(insertion) = Arc::get_mut(&mut insertion) {
            // It was there, and is.
            insertion.rows = own.map(|tree| (tree, 0)).into_iter().collect();
        }
        let Batch { blobs, waits, .. } = &*batch;
        let level = (level.0, level.1, waits);
        // The key is there, so there is no gap to wait for.
        let mut none = self.no_rows(waits, self.lock_deadline(waits));
        let published = none.publish(&insertion);
        let done =
            published.and_then(|()| self.commit_locked(none, &insertion, blobs, level, queues));
        give_back_writes(batch, insertion);
        done
    }

    /// What is left until then.
    fn patience(&self, until: Option<Duration>) -> Patience {
        let now = self.engine.env.clock.now();
        until.map_or(Patience::Forever, |until| Patience::For(until.saturating_sub(now)))
    }

    /// What a caller is told who did not get a lock.
    pub(in crate::db) fn lock_error(&self, denied: Denied) -> Error {
        let tree = self.tree_name(denied.tree);
        denied.into_error(&tree)
    }
}

/// Whether a batch that is to end a cycle of waits starts again.
fn starts_again() -> bool {
    !plant!("db: a batch that ends a cycle of waits fails")
}

impl BatchLocks<'_> {
    /// Lets others find the keys, and waits for the gaps.
    pub fn publish(&mut self, insertion: &Arc<Insertion>) -> Result<()> {
        let Self { shared, locks, start, until, live, entered } = self;
        let own = live.insert(Arc::new(LiveWrites::new(locks.owner().id())));
        let mut writes = own.lock();
        writes.seal(&shared.engine.cx.folder())?;
        writes.gone_to(insertion.clone());
        drop(writes);
        for &tree in &insertion.trees {
            if let Some(entry) = shared.catalog.by_id(tree) {
                entry.writers.enter(own);
                entered.push(entry);
            }
        }
        for &tree in &insertion.trees {
            for entry in insertion.writes.entries(tree) {
                let (table, patience) = (&shared.lock_table, shared.patience(*until));
                if !table.is_gap_locked(locks, tree, entry.key)
                    || shared.exists_at_latest(tree, entry.key)?
                {
                    continue;
                }
                let gap = table.before_insert(locks, tree, entry.key, *start, patience);
                gap.map_err(|no| shared.lock_error(no))?;
            }
        }
        Ok(())
    }

    /// What is left of the time that all its locks may take together.
    fn patience(&self) -> Patience {
        self.shared.patience(self.until)
    }
}

impl Drop for BatchLocks<'_> {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            self.entered.iter().for_each(|tree| tree.writers.leave(live));
            // The set goes back to the batch, and to nobody else who may still ask for its keys.
            live.clear();
        }
        self.shared.lock_table.release_all(&mut self.locks);
    }
}
