//! The commit path: a write set becomes a record in the log and entries in a memtable.
//!
//! The simple way would be one lock, under which a commit appends its record, syncs it, and inserts
//! its rows. Then commits of many threads would queue, each waiting for a disk write. So a commit
//! holds a lock only while its place in the order is determined, and everything else is done
//! concurrently with other commits:
//!
//! 1. **Prepare.** The write set is sealed: sorted, one message per key (Rule: I5). Keys of checked
//!    inserts are locked and must be absent (`inserts.rs`; Rules: I3, I7). While transactions hold
//!    locks, the rows of a batch are locked like those of a transaction (`row_locks.rs`). Rows of
//!    trees with a running index build are queued for it (`build_queues.rs`).
//! 2. **Reserve.** Disk space is admitted. Long values, which were written as the batch was filled,
//!    are synced. The record is built (`changes.rs`).
//! 3. **Log.** The sequencer assigns seqno, place in the log, and memtable, in one short section
//!    (Rule: I2), so log, visibility and memtables have one order. The record is copied into the
//!    log.
//! 4. **Insert.** The entries are inserted into the memtable (`Engine::insert`). If a tree has many
//!    entries, they were made a mini-run before step 3, which is attached as a whole (Rule: I6).
//! 5. **Make visible.** The commit waits until it and all earlier ones are inserted; then it is
//!    visible, and its locks are released (Rules: I3, I41).
//! 6. **Wait until it is durable**, together with the others that wait for the same write or sync
//!    of the log.
//!
//! A transaction does step 1 on its own (`db/session/end.rs`), and so does a prepared transaction,
//! whose record is short and for which steps 2 and 6 are done when it is prepared
//! (`db/session/prepared/`).
//!
//! Invariants
//! 1. An error before step 3 leaves no trace; from step 3 on, nothing can fail or wait until the
//!    commit is visible: log space is reserved, and memory is taken beyond the budget if need be.
//!    So every seqno is in the log.
//! 2. From its seqno on, other threads can do everything that a commit still has to do, except for
//!    copying a record that is longer than [`COPIED_INSIDE_BYTES_MAX`] or names runs, which waits
//!    for nothing (Rule: I3).
//!
//! Threads: all. Cost: one lock held for a few hundred nanoseconds, two copies of keys and values.

mod build_queues;
mod changes;
mod inserts;
mod row_locks;
#[cfg(all(test, not(shuttle)))]
mod stalled;

use std::time::Duration;

use crate::{
    Duplicate, Durability, Error, Result, Seqno, TreeId,
    blob::BlobHold,
    bounds,
    catalog::CATALOG_TREE,
    db::{Batch, Shared},
    latency::{Histogram, sample},
    pipeline::{CommitPayload, LogWait, Paced},
    sync::{Arc, Ordering, thread_number},
    txn::{KeyLocks, Section, WriteSet},
    version::{Change, MemtableRef},
    wal::{LogUse, RecordBuilder, Reservation, TRAILER_BYTES, trailer},
};

use changes::{ending_trees, in_record, name_blobs_in_log};
pub(super) use row_locks::LOCK_WAIT;

/// Records up to this length are copied into the log inside the sequencer's section. That takes
/// about ten nanoseconds more there, but a descheduled thread cannot leave a gap in the log between
/// reservation and copy.
const COPIED_INSIDE_BYTES_MAX: usize = 4 << 10;

/// A commit that is prepared, and not logged yet.
#[derive(Clone, Copy)]
pub(super) struct PendingCommit<'a> {
    /// What the commit inserts into its memtable. Other threads can reach the payload once the
    /// commit is logged.
    pub payload: &'a Arc<CommitPayload>,
    /// The long values.
    pub blobs: &'a [Arc<BlobHold>],
    /// The changes to roots and branches.
    pub changes: &'a [Change],
    /// Whether the commit eventually frees space, so that a full disk does not refuse it (Rule:
    /// I24).
    pub relieves: bool,
    /// Bytes of disk space that the commit needs; once step 2 is done, bytes that were admitted for
    /// it.
    pub admitted: u64,
    /// Whether its record names the extents of its long values and changes. If not, other records
    /// do, for as long as they are needed.
    pub names_extents: bool,
    /// Length of the commit's record, if log space is guaranteed for it.
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
        let relieves = *relieves || writes.only_deletes() || only_free_space(changes);
        let admitted = writes.bytes() as u64;
        Self { payload, blobs, changes, relieves, admitted, names_extents: true, guaranteed: None }
    }

    /// The commit of a transaction that has spilled `bytes` bytes of its writes to the runs that
    /// `spilled` links.
    pub fn spilled(
        payload: &'a Arc<CommitPayload>,
        blobs: &'a [Arc<BlobHold>],
        (spilled, bytes): &'a (Change, u64),
    ) -> Self {
        let admitted = payload.writes.bytes() as u64 + bytes;
        Self {
            admitted,
            relieves: false,
            ..Self::new(payload, blobs, std::slice::from_ref(spilled))
        }
    }

    /// The trees that it changes.
    fn trees(&self) -> impl Iterator<Item = TreeId> + 'a {
        let (payload, changes) = (&**self.payload, self.changes);
        payload.trees.iter().copied().chain(trees_beyond_memory(payload, changes))
    }
}

/// A commit that has its seqno, its place in the log, and its memtable.
#[derive(Debug)]
pub(super) struct LoggedCommit {
    pub seqno: Seqno,
    slot: Arc<MemtableRef>,
    pub reservation: Reservation,
}

/// Stripes for commits: small commits of many threads are counted concurrently.
const COMMIT_STRIPES: usize = 8;
/// Stripes for sync waits: all threads that wait for one sync count their waits together.
const SYNC_STRIPES: usize = 2;

/// Latencies of commits. A commit that waits for the log is always timed: two clock readings are
/// negligible next to a system call. Of the others a sample is timed. Only successful commits are
/// counted.
#[derive(Debug)]
pub(crate) struct Timings {
    /// Commits, from the call until it returns.
    pub commits: Histogram,
    /// Waits for the log sync, of commits that are synced.
    pub syncs: Histogram,
}

impl Default for Timings {
    fn default() -> Self {
        Self { commits: Histogram::new(COMMIT_STRIPES), syncs: Histogram::new(SYNC_STRIPES) }
    }
}

/// The start of a commit that is being timed.
#[derive(Debug)]
pub(super) struct Timing {
    began: Duration,
    /// Number of commits that it stands for; 0 if it is not timed.
    weight: u64,
}

impl Shared {
    /// Commits a batch and empties it. After an error before it has a seqno, the batch is
    /// unchanged, but sealed.
    pub(crate) fn commit(&self, batch: &mut Batch, level: Option<Durability>) -> Result<Seqno> {
        let timing = self.begin_timing(level.unwrap_or(self.commits.durability));
        let seqno = self.commit_changing(batch, level, &[])?;
        self.end_timing(&timing);
        Ok(seqno)
    }

    /// Commits a batch, like [`commit`](Self::commit). A batch to the catalog may have `changes` to
    /// roots and branches; a batch of rows has none.
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
        let deletes = batch.writes.only_deletes() || only_free_space(changes);
        let paced = if deletes { Paced::Deletes } else { Paced::Free };
        batch.waits.check_interrupted()?;
        self.engine.pace(paced, &|| batch.waits.check_interrupted())?;
        if !batch.operators.is_empty() {
            self.record_operators(&batch.operators)?;
        }
        let level = level.unwrap_or(self.commits.durability);
        let seqno = self.attempt_commit(batch, |batch, queues| {
            self.commit_queued(batch, level, changes, queues)
        })?;
        batch.clear();
        Ok(seqno)
    }

    /// Fails if nothing can be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.lifecycle.read_only {
            return Err(Error::ReadOnly);
        }
        self.engine.health.check_open()
    }

    /// Calls `attempt` with the batch and the queues of index builds that hold its changed keys:
    /// none, unless a tree has a build. If `attempt` returns `None`, because a build has started
    /// meanwhile, calls it again with the queues of that build.
    fn attempt_commit(
        &self,
        batch: &mut Batch,
        attempt: impl Fn(&mut Batch, &[TreeId]) -> Result<Option<Seqno>>,
    ) -> Result<Seqno> {
        if !self.has_build_queues()
            && let Some(seqno) = attempt(batch, &[])?
        {
            return Ok(seqno);
        }
        self.with_build_queues(batch, attempt)
    }

    /// True if a sealed batch of these trees must start over, because its keys would have to be in
    /// other queues of index builds than `queues`.
    fn must_start_over(&self, trees: &[TreeId], queues: &[TreeId]) -> bool {
        (self.has_build_queues() || !queues.is_empty()) && self.lacks_queue(trees, queues)
    }

    fn has_build_queues(&self) -> bool {
        // SeqCst, like the counts of the gate: see `QueueSlot`, invariant 1.
        self.catalog.queues.load(Ordering::SeqCst) > 0
    }

    /// Commits a batch whose changed keys are in `queues`, those of index builds. `None` if the
    /// keys would have to be in other queues.
    fn commit_queued(
        &self,
        batch: &mut Batch,
        level: Durability,
        changes: &[Change],
        queues: &[TreeId],
    ) -> Result<Option<Seqno>> {
        let bytes = batch.bytes() as u64;
        // Waits until the memtables have room; a large batch takes its turn among the large ones.
        let turn = self.engine.make_room(bytes, &|| batch.waits.check_interrupted())?;
        let trees = self.seal(batch)?;
        let Batch { writes, waits, .. } = &mut *batch;
        // Rows of the catalog are not locked.
        let is_user = changes.is_empty() && trees.first() != Some(&CATALOG_TREE);
        let passed = if is_user { self.locking.gate.pass(thread_number()) } else { None };
        if !is_user || passed.is_some() {
            if is_user && self.must_start_over(&trees, queues) {
                return Ok(None);
            }
            let keys = self.lock_checked(writes, &trees)?;
            if writes.has_inserts() {
                self.must_be_absent(writes, &trees)?;
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
        drop(turn);
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

    /// Resolves the checked inserts of a batch, and seals it.
    fn seal_writes(&self, writes: &mut WriteSet) -> Result<()> {
        let resolved = if writes.has_inserts() { writes.resolve_inserts() } else { Ok(()) };
        let sealed = resolved.and_then(|()| match writes.is_one_entry() {
            true => Ok(()),
            false => writes.seal(&self.engine.cx.folder()),
        });
        if let Err(Error::DuplicateKey(Duplicate::InBatch { .. })) = &sealed {
            self.must_be_first_refused(writes)?;
        }
        sealed
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
        Ok(if hashes.is_empty() { None } else { Some(self.locking.keys.lock(hashes)) })
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

    /// Does steps 2 to 6. `locks` are dropped once the commit is visible, before this waits until
    /// it is durable (Rule: I41); after an error they are dropped at once.
    pub(super) fn commit_pending<L>(
        &self,
        commit: &PendingCommit<'_>,
        level: Durability,
        locks: L,
    ) -> Result<Seqno> {
        let admitted = self.engine.admit_commit(commit.admitted, commit.relieves)?;
        let commit = &PendingCommit { admitted, ..*commit };
        let mut record = self.reserve(commit)?;
        let logged = self.log_commit(commit, record.finish());
        self.commits.records.give(record);
        let release = |_: &Error| self.engine.store.release_admitted(commit.admitted);
        let logged = logged.inspect_err(release)?;
        self.mark_counters_logged(&commit.payload.counters);
        self.insert_and_make_visible(commit.payload, &logged);
        drop(locks);
        self.wait_durable(&logged.reservation, level)?;
        Ok(logged.seqno)
    }

    /// Step 2, after disk space was admitted: syncs the long values, and builds the record. After
    /// an error nothing stays admitted.
    fn reserve(&self, commit: &PendingCommit<'_>) -> Result<RecordBuilder> {
        let engine = &*self.engine;
        let release = |_: &Error| engine.store.release_admitted(commit.admitted);
        if !commit.blobs.is_empty() {
            engine.sync_blobs(commit.blobs).inspect_err(release)?;
        }
        let mut record = self.commits.records.take(commit.payload.writes.bytes());
        write_record(&mut record, commit.payload, commit.blobs, commit.changes);
        let bytes = record.bytes();
        if bounds::RECORD_BYTES.admits(bytes) {
            return Ok(record);
        }
        // This is the caller's mistake, not a failure of the log. The record's memory is not kept.
        let (bytes, max) = (bytes as u64, bounds::RECORD_BYTES.max());
        Err(Error::BatchTooLarge { bytes, max, limit: "the log" }).inspect_err(release)
    }

    /// Lists the counter values that the record of a commit to these trees must log.
    pub(super) fn list_counters(
        &self,
        trees: impl Iterator<Item = TreeId>,
        counters: &mut Vec<(TreeId, u8, u64)>,
    ) {
        counters.clear();
        if !self.commits.has_counters.load(Ordering::SeqCst) {
            return;
        }
        for tree in trees {
            if let Some(entry) = self.catalog.by_id(tree) {
                counters.extend(entry.counters.unlogged().map(|(at, next)| (tree, at, next)));
            }
        }
    }

    /// Notes that a record with these values has its place in the log.
    fn mark_counters_logged(&self, counters: &[(TreeId, u8, u64)]) {
        for &(tree, counter, next) in counters {
            let entry = self.catalog.by_id(tree);
            entry.inspect(|entry| entry.counters.mark_logged(counter, next));
        }
    }

    /// Step 3: logs a commit, whose record has this body. An error leaves no trace.
    pub(super) fn log_commit(
        &self,
        commit: &PendingCommit<'_>,
        body: &[u8],
    ) -> Result<LoggedCommit> {
        let PendingCommit { changes, guaranteed, .. } = *commit;
        let engine = &*self.engine;
        let log_use = LogUse::relief_if(commit.relieves);
        let mut wait = LogWait::new(log_use);
        let (fragments, rest) = if body.len() + TRAILER_BYTES > engine.log().record_bytes_max() {
            let looks_again = &mut || engine.wait_for_log(&mut wait);
            let fragments = engine.log().append_fragments(body, log_use, looks_again);
            let (fragments, rest) = engine.health.watch(fragments)?;
            (Some(fragments), rest)
        } else {
            (None, body)
        };
        let bytes = rest.len() + TRAILER_BYTES;
        let begins_memtable = changes.iter().any(Change::begins_memtable);
        let ending = if changes.is_empty() { Vec::new() } else { ending_trees(self, changes) };
        loop {
            let mut section = engine.enter();
            // The last freeze of a close happens in this section; a later commit would be in no
            // checkpoint.
            engine.health.check_open()?;
            if begins_memtable && !plant!("txn: spilled writes commit without locks") {
                engine.freeze_in(&mut section);
            }
            let reserved = match (&fragments, guaranteed) {
                (None, None) => engine.log().try_reserve(bytes, log_use),
                (None, Some(guaranteed)) => engine.log().try_reserve_guaranteed(bytes, guaranteed),
                (Some(fragments), _) => engine.log().try_reserve_last(fragments, bytes),
            };
            let Some(reservation) = reserved else {
                drop(section);
                match guaranteed {
                    None => engine.wait_for_log(&mut wait)?,
                    Some(_) => engine.health.watch(engine.log().wait_for_guaranteed())?,
                }
                continue;
            };
            self.note_commit(commit, &section, &reservation, bytes);
            // Before another thread can make it visible: a reader that sees this commit finds that
            // these trees have ended.
            ending.iter().for_each(|tree| tree.mark_end(section.last().next()));
            let trees = commit.trees();
            let (seqno, slot) = engine.sequencer.assign(&mut section, commit.payload, trees);
            // The log must hold what a record names before another thread can read the record.
            let names_runs = commit.names_extents && changes.iter().any(Change::names_runs);
            let is_copied_inside = bytes <= COPIED_INSIDE_BYTES_MAX && !names_runs;
            if is_copied_inside {
                engine.log().fill(&reservation, &[rest, &trailer(seqno)]);
            }
            let is_full =
                engine.memtable_is_full(&slot) && engine.versions.current().frozen.is_empty();
            let freezes = is_full || changes.iter().any(Change::ends_memtable);
            if freezes {
                engine.freeze_in(&mut section);
            }
            drop(section);
            if freezes {
                engine.signal.notify();
            }
            if commit.names_extents {
                let lsn = reservation.lsn();
                changes.iter().for_each(|change| change.name_in_log(&engine.store, lsn));
            }
            if !is_copied_inside {
                engine.log().fill(&reservation, &[rest, &trailer(seqno)]);
            }
            return Ok(LoggedCommit { seqno, slot, reservation });
        }
    }

    /// Records at the memtable what the commit adds to it. Called in the sequencer's section,
    /// before another thread can insert the commit: from then on the commit may become visible, and
    /// the memtable may be frozen.
    fn note_commit(
        &self,
        commit: &PendingCommit<'_>,
        section: &Section,
        reservation: &Reservation,
        record_bytes: usize,
    ) {
        let PendingCommit { payload, blobs, changes, .. } = *commit;
        let (engine, memtable) = (&*self.engine, &section.active);
        if !blobs.is_empty() {
            if !plant!("blob: the memtable does not hold what it hands out") {
                memtable.keep_blobs(blobs);
            }
            if commit.names_extents {
                name_blobs_in_log(self, blobs, reservation.lsn());
            }
        }
        memtable.admitted.fetch_add(commit.admitted, Ordering::Relaxed);
        // Groups are padded, so many small commits take far more log than their records.
        let reached = reservation.lsn().0;
        let log_bytes = reached.saturating_sub(memtable.log_from().0) + record_bytes as u64;
        memtable.log_bytes.store(log_bytes, Ordering::Relaxed);
        engine.log_reached.store(reached + record_bytes as u64, Ordering::Relaxed);
        memtable.note(changes);
        memtable.count(commit.trees().map(|tree| (tree, payload.rows_of(tree))));
        debug_assert!(
            commit.trees().all(|tree| !self.catalog.has_ended(tree)),
            "a commit into a tree that has ended (`exclusive_lock.rs`, 3)"
        );
    }

    /// Steps 4 and 5: inserts a logged commit into its memtable, and waits until it is visible.
    pub(super) fn insert_and_make_visible(&self, payload: &CommitPayload, logged: &LoggedCommit) {
        let engine = &*self.engine;
        engine.insert(payload, logged.seqno, &logged.slot);
        engine.sequencer.finish(logged.seqno);
        engine.wait_visible(logged.seqno);
    }

    /// Step 6: waits until a record is as durable as its level asks. If the log fails, the store
    /// fails: nothing may be written after it (P12).
    pub(super) fn wait_durable(&self, reservation: &Reservation, level: Durability) -> Result<()> {
        let engine = &self.engine;
        match level {
            Durability::Lazy => {
                engine.health.watch(engine.log().wait(reservation, level))?;
                // After another failure, nothing writes the record any more.
                match engine.health.check() {
                    Err(Error::Failed(why)) => Err(Error::OutcomeUnknown(why)),
                    Ok(()) | Err(_) => Ok(()),
                }
            }
            Durability::Os => engine.health.watch(engine.log().wait(reservation, level)),
            Durability::Sync => {
                let began = engine.env.clock.now();
                engine.health.watch(engine.log().wait(reservation, level))?;
                self.commits.timings.syncs.count(engine.env.clock.now().saturating_sub(began), 1);
                Ok(())
            }
        }
    }

    pub(super) fn begin_timing(&self, level: Durability) -> Timing {
        let weight = if level == Durability::Lazy { sample() } else { 1 };
        let began = if weight > 0 { self.engine.env.clock.now() } else { Duration::ZERO };
        Timing { began, weight }
    }

    /// Counts a commit that is about to return.
    pub(super) fn end_timing(&self, Timing { began, weight }: &Timing) {
        if *weight > 0 {
            let lasted = self.engine.env.clock.now().saturating_sub(*began);
            self.commits.timings.commits.count(lasted, *weight);
        }
    }
}

/// Writes the record of a commit. The extents that it names come first, the counters of loaded
/// trees last: see `changes.rs`.
pub(super) fn write_record(
    record: &mut RecordBuilder,
    payload: &CommitPayload,
    blobs: &[Arc<BlobHold>],
    changes: &[Change],
) {
    record.clear();
    changes.iter().for_each(|change| change.write_extents(record));
    blobs.iter().for_each(|blob| record.extent(in_record(blob.extent())));
    for &(tree, counter, next) in &payload.counters {
        if !plant!("db: counters are not logged with their commit") {
            record.counter(tree, counter, next);
        }
    }
    for &tree in &payload.trees {
        record.tree(tree);
        if let Some(more) = payload.rows_of(tree) {
            record.rows(more);
        }
        for (from, to) in payload.writes.ranges(tree) {
            if !plant!("db: range deletes are not logged") {
                record.delete_range(from, to);
            }
        }
        for entry in payload.writes.entries(tree) {
            record.entry(entry.key, entry.tag, entry.payload);
        }
    }
    for tree in trees_beyond_memory(payload, changes) {
        if let Some(more) = payload.rows_of(tree) {
            record.tree(tree);
            record.rows(more);
        }
    }
    changes.iter().for_each(|change| change.write_counters(record));
}

/// Trees whose rows in this commit were all spilled.
fn trees_beyond_memory<'a>(
    payload: &'a CommitPayload,
    changes: &'a [Change],
) -> impl Iterator<Item = TreeId> + 'a {
    let trees = changes.iter().filter_map(Change::spilled).flat_map(|spilled| spilled.trees());
    trees.filter(|tree| payload.trees.binary_search(tree).is_err())
}

/// True for a commit that drops trees or snapshots and otherwise writes only catalog records.
fn only_free_space(changes: &[Change]) -> bool {
    !changes.is_empty() && changes.iter().all(Change::makes_room)
}

/// Returns the memory of the writes to the batch, unless a helping thread still reads them.
fn give_back_writes(batch: &mut Batch, mut shared: Arc<CommitPayload>) {
    if let Some(payload) = Arc::get_mut(&mut shared) {
        std::mem::swap(&mut payload.writes, &mut batch.writes);
        payload.runs.clear();
        batch.payload = Some(shared);
    }
}
