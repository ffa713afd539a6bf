//! The commit path: a write set becomes a record in the log and entries in a memtable.
//!
//! The simple way would be one lock, under which a commit appends its record, syncs it, and inserts
//! its rows. Then commits of many threads would queue, each for a write of the disk. So a commit
//! holds a lock only while its place in the order is determined, and everything else is done
//! concurrently with other commits:
//!
//! 1. **Prepare.** The write set is sealed: sorted, one message per key (Rule: I5). Keys of checked
//!    inserts are locked and must be absent (`inserts.rs`; Rules: I3, I7). While transactions hold
//!    locks, the rows of a batch are locked as theirs are (`row_locks.rs`). Rows of trees with a
//!    running index build are queued for it (`build_queues.rs`).
//! 2. **Reserve.** Disk space is admitted. Long values, which were written as the batch was filled,
//!    are synced. The record is built (`record.rs`, `changes.rs`).
//! 3. **Log.** The sequencer assigns seqno, place in the log, and memtable, in one short section
//!    (Rule: I2). The record is copied into the log (`sequence.rs`).
//! 4. **Apply.** The entries are inserted into the memtable (`pipeline/apply_commit.rs`). If a tree
//!    has many entries, they were made a mini-run before step 3, which is attached as a whole
//!    (Rule: I6).
//! 5. **Publish.** The commit waits until it and all earlier ones are applied; then it is visible,
//!    and its locks are released (Rule: I41).
//! 6. **Wait until it is durable** (`durable.rs`), together with the others that wait for the same
//!    write or sync of the log.
//!
//! A transaction does step 1 on its own (`db/txn/end.rs`), and so does a prepared transaction,
//! whose record is short and for which steps 2 and 6 are done when it is prepared (`db/prepared/`).
//!
//! Invariants
//! 1. An error before step 3 leaves no trace; from step 3 on, nothing can fail or wait until the
//!    commit is visible: log space is reserved, and memory is taken beyond the budget if need be.
//!
//! Threads: all. Cost: one lock held for some hundred nanoseconds, two copies of keys and values.

mod build_queues;
mod changes;
mod durable;
mod inserts;
mod record;
mod record_buffers;
mod row_locks;
mod sequence;
#[cfg(all(test, not(shuttle)))]
mod stalled;

use crate::{
    Durability, Error, Result, Seqno, TreeId,
    blob::BlobHold,
    bounds,
    catalog::CATALOG_TREE,
    pipeline::{CommitPayload, Paced, TurnTaken},
    sync::{Arc, Ordering, thread_number},
    txn::{KeyLocks, WriteSet},
    version::Change,
    wal::RecordBuilder,
};

use super::{Batch, Shared};
use changes::only_free_space;
pub(super) use durable::Timings;
pub(super) use record::write_record;
pub(super) use record_buffers::Records;
pub(super) use row_locks::LOCK_WAIT;
pub(super) use sequence::LoggedCommit;

/// A commit that is prepared, and not logged yet.
#[derive(Clone, Copy)]
pub(super) struct PendingCommit<'a> {
    /// What it inserts into its memtable. Other threads can reach it once the commit is logged.
    pub payload: &'a Arc<CommitPayload>,
    /// Its long values.
    pub blobs: &'a [Arc<BlobHold>],
    /// Its changes to roots and branches.
    pub changes: &'a [Change],
    /// Disk space that is admitted for it, bytes; 0 if it frees space.
    pub admitted: u64,
    /// Whether its record names the extents of its long values and changes. If not, other records
    /// do, for as long as they are needed.
    pub names_extents: bool,
    /// Length of the record for which log space is guaranteed, if it is.
    pub guaranteed: Option<usize>,
}

impl<'a> PendingCommit<'a> {
    /// A commit of rows, long values, and changes to roots and branches.
    pub fn new(
        payload: &'a Arc<CommitPayload>,
        blobs: &'a [Arc<BlobHold>],
        changes: &'a [Change],
    ) -> Self {
        let CommitPayload { writes, relieves, .. } = &**payload;
        // Deletes are always allowed: they are how space comes back (Rule: I24).
        let relieves = *relieves || writes.only_deletes() || only_free_space(changes);
        let admitted = if relieves { 0 } else { writes.bytes() as u64 };
        Self { payload, blobs, changes, admitted, names_extents: true, guaranteed: None }
    }

    /// A commit most of which was written beyond memory: `bytes` bytes, by `spilled`.
    pub fn spilled(
        payload: &'a Arc<CommitPayload>,
        blobs: &'a [Arc<BlobHold>],
        (spilled, bytes): &'a (Change, u64),
    ) -> Self {
        let admitted = payload.writes.bytes() as u64 + bytes;
        Self { admitted, ..Self::new(payload, blobs, std::slice::from_ref(spilled)) }
    }
}

impl Shared {
    /// Commits a batch and empties it. After an error before it has a seqno, the batch is
    /// unchanged, but sealed.
    pub(crate) fn commit(&self, batch: &mut Batch, level: Option<Durability>) -> Result<Seqno> {
        let timing = self.begin_timing(level.unwrap_or(self.durability));
        let seqno = self.commit_changing(batch, level, &[])?;
        self.end_timing(&timing);
        Ok(seqno)
    }

    /// Commits a batch to the catalog, like [`commit`](Self::commit), with its changes to roots and
    /// branches.
    pub(super) fn commit_changing(
        &self,
        batch: &mut Batch,
        level: Option<Durability>,
        changes: &[Change],
    ) -> Result<Seqno> {
        self.check_writable()?;
        if batch.is_empty() {
            return Ok(self.engine.sequencer.visible());
        }
        batch.check_store(self)?;
        self.must_take_inserts(batch)?;
        let deletes = batch.writes.only_deletes() || only_free_space(changes);
        let paced = if deletes { Paced::Deletes } else { Paced::Free };
        batch.waits.check_interrupted()?;
        self.engine.pace(paced, &|| batch.waits.check_interrupted())?;
        self.record_operators(&batch.operators)?;
        let level = level.unwrap_or(self.durability);
        let mut turn = self.take_turn(batch)?;
        let seqno = self.with_build_queues(batch, |batch, queues, is_first| {
            if !is_first && turn.is_none() {
                turn = self.take_turn(batch)?;
            }
            self.commit_queued(batch, level, changes, (&mut turn, queues))
        })?;
        batch.clear();
        Ok(seqno)
    }

    /// Fails if nothing can be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.engine.health.check()?;
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Waits until the memtables have room for the batch; a large one takes its turn among the
    /// large ones.
    fn take_turn(&self, batch: &Batch) -> Result<Option<TurnTaken<'_>>> {
        self.engine.make_room(batch.bytes() as u64, &|| batch.waits.check_interrupted())
    }

    /// Commits a batch whose changed keys are in these queues of index builds. `None` if they would
    /// have to be in others.
    fn commit_queued<'a>(
        &'a self,
        batch: &mut Batch,
        level: Durability,
        changes: &[Change],
        (turn, queues): (&mut Option<TurnTaken<'a>>, &[TreeId]),
    ) -> Result<Option<Seqno>> {
        let bytes = batch.bytes() as u64;
        let trees = self.seal(batch)?;
        let Batch { writes, waits, .. } = &mut *batch;
        // Rows of the catalog are not locked.
        let is_user = changes.is_empty() && trees.first() != Some(&CATALOG_TREE);
        let passed = if is_user { self.gate.pass(thread_number()) } else { None };
        if !is_user || passed.is_some() {
            if is_user && self.lacks_queue(&trees, queues) {
                return Ok(None);
            }
            let keys = self.lock_checked(writes, &trees)?;
            self.must_be_absent(writes, &trees)?;
            if writes.has_inserts() {
                writes.freshen_inserts();
            }
            let payload = self.take_writes(batch, trees);
            let commit = PendingCommit::new(&payload, &batch.blobs, changes);
            let done = self.commit_pending(&commit, level, (keys, passed));
            give_back_writes(batch, payload);
            return done.map(Some);
        }
        // A commit must not wait for rows while it holds the turn, because a transaction that holds
        // rows may wait for the turn.
        drop(turn.take());
        let until = self.lock_deadline(waits);
        let rows = self.lock_batch(writes, &trees, (waits, until))?;
        let payload = self.take_writes(batch, trees);
        let how = (level, bytes, &batch.waits);
        let rows = self.publish_batch(rows, &payload, (&batch.waits, until));
        let done =
            rows.and_then(|rows| self.commit_locked(rows, &payload, &batch.blobs, how, queues));
        give_back_writes(batch, payload);
        done
    }

    /// Seals the writes of a batch and moves long values out; returns the trees that they change.
    fn seal(&self, batch: &mut Batch) -> Result<Vec<TreeId>> {
        let Batch { writes, blobs, .. } = batch;
        self.seal_writes(writes)?;
        self.separate(writes, blobs)?;
        Ok(writes.trees())
    }

    /// Writes values that became long by folding as blobs.
    pub(super) fn separate(
        &self,
        writes: &mut WriteSet,
        blobs: &mut Vec<Arc<BlobHold>>,
    ) -> Result<()> {
        let engine = &*self.engine;
        writes.separate(engine.cx.shape.blob_bytes, |tree, value| {
            let class = self.catalog.by_id(tree).map(|tree| tree.record().size_class);
            let written = engine.cx.write_blob(value, class.unwrap_or_default(), false);
            let (reference, hold) = written.inspect_err(|error| self.stop_if_unwritable(error))?;
            blobs.push(hold);
            Ok(reference.to_disk())
        })
    }

    /// Locks the keys of checked inserts, and of every write to trees that allow them. Called once
    /// no other thread can remove the trees ([`ExclusiveTreeLock`](super::ExclusiveTreeLock)): past
    /// the gate, or with the trees locked. A tree that was removed before that is an error.
    fn lock_checked(&self, writes: &WriteSet, trees: &[TreeId]) -> Result<Option<KeyLocks<'_>>> {
        let mut hashes = Vec::new();
        for &tree in trees {
            let Some(entry) = self.catalog.by_id(tree) else {
                if tree == CATALOG_TREE
                    || plant!("db: a batch does not look whether its trees are there")
                {
                    continue;
                }
                return Err(self.catalog.no_such_tree(tree));
            };
            if entry.unique {
                let keys = writes.entries(tree).chain(writes.hidden_inserts(tree));
                hashes.extend(keys.map(|entry| crate::txn::lock_hash(tree, entry.key)));
            }
        }
        Ok(if hashes.is_empty() { None } else { Some(self.locks.lock(hashes)) })
    }

    /// Moves the batch's writes into a payload that other threads can reach.
    fn take_writes(&self, batch: &mut Batch, trees: Vec<TreeId>) -> Arc<CommitPayload> {
        let mut shared = batch.payload.take().unwrap_or_default();
        if Arc::get_mut(&mut shared).is_none() {
            // A thread that helped the last commit still uses it.
            shared = Arc::default();
        }
        if let Some(payload) = Arc::get_mut(&mut shared) {
            std::mem::swap(&mut payload.writes, &mut batch.writes);
            payload.rows.clear();
            let counted = trees.iter().filter_map(|&tree| Some((tree, payload.writes.rows(tree)?)));
            payload.rows.extend(counted);
            self.list_counters(trees.iter().copied(), &mut payload.counters);
            payload.trees = trees;
            self.engine.make_runs(payload);
        }
        shared
    }

    /// Does steps 2 to 6. `locks` are dropped once the commit is visible, before it waits until it
    /// is durable (Rule: I41); after an error at once.
    pub(super) fn commit_pending<L>(
        &self,
        commit: &PendingCommit<'_>,
        level: Durability,
        locks: L,
    ) -> Result<Seqno> {
        let mut record = self.reserve(commit)?;
        let logged = self.log_commit(commit, record.finish());
        self.records.give(record);
        let settle = |_: &Error| self.engine.store.settle_admitted(commit.admitted);
        let logged = logged.inspect_err(settle)?;
        self.counters_are_logged(&commit.payload.counters);
        self.apply_and_publish(commit.payload, &logged);
        drop(locks);
        self.wait_durable(&logged.reservation, level)?;
        Ok(logged.seqno)
    }

    /// Step 2: admits disk space, syncs the long values, and builds the record. After an error
    /// nothing stays admitted.
    fn reserve(&self, commit: &PendingCommit<'_>) -> Result<RecordBuilder> {
        let engine = &*self.engine;
        match commit.admitted {
            // Deletes are allowed even if the disk is too full for the reserve.
            0 => engine.store.end_idle()?,
            admitted => engine.admit(admitted)?,
        }
        let settle = |_: &Error| engine.store.settle_admitted(commit.admitted);
        engine.sync_blobs(commit.blobs).inspect_err(settle)?;
        let mut record = self.records.take(commit.payload.writes.bytes());
        write_record(&mut record, commit.payload, commit.blobs, commit.changes);
        let bytes = record.bytes();
        if bounds::RECORD_BYTES.admits(bytes) {
            return Ok(record);
        }
        // This is the caller's mistake, not a failure of the log. The record's memory is not kept.
        let (bytes, max) = (bytes as u64, bounds::RECORD_BYTES.max());
        Err(Error::BatchTooLarge { bytes, max, limit: "the log" }).inspect_err(settle)
    }

    /// Steps 4 and 5: inserts a logged commit into its memtable, and waits until it is visible.
    pub(super) fn apply_and_publish(&self, payload: &CommitPayload, logged: &LoggedCommit) {
        let engine = &*self.engine;
        engine.insert(payload, logged.seqno, &logged.slot);
        engine.sequencer.finish(logged.seqno);
        engine.wait_visible(logged.seqno);
    }
}

/// Takes the memory of a batch's writes back, unless a helper still reads them.
fn give_back_writes(batch: &mut Batch, mut shared: Arc<CommitPayload>) {
    if let Some(payload) = Arc::get_mut(&mut shared) {
        std::mem::swap(&mut payload.writes, &mut batch.writes);
        payload.runs.clear();
        batch.payload = Some(shared);
    }
}
