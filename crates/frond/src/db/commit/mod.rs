//! The commit path: a write set becomes a record in the log and entries in the memtable.
//!
//! 1. The write set is sealed: sorted, one message per key (Rule: I5).
//! 2. Keys of checked inserts are locked and must be absent (Rules: I3, I7). While transactions
//!    hold locks, the rows of a batch are locked as theirs are (`commit/locked.rs`).
//! 3. Blobs of the batch, which were written as it was filled, are synced. The record is built;
//!    then the sequencer assigns seqno, log place and memtable (Rule: I2).
//! 4. The record is copied into the log and the entries into the memtable, concurrently with other
//!    commits. If a tree has many entries, they were made a mini-run before step 3, which is
//!    attached as a whole (Rule: I6).
//! 5. The commit waits until it is visible, releases the locks, waits until it is durable, and
//!    returns.
//!
//! Invariants
//! 1. Between step 3 and the end of step 4 nothing can fail or wait: log space is reserved, and
//!    memory is taken beyond the budget if need be. So every seqno is in the log.
//! 2. An error before step 3 leaves no trace.
//! 3. From its seqno on, other threads can do everything that a commit still has to do, except for
//!    copying a record longer than [`COPIED_INSIDE_BYTES_MAX`], which waits for nothing (Rule: I3).
//!
//! Threads: all. Cost: one lock held for some hundred nanoseconds, two copies of keys and values.

use crate::{
    Durability, Error, Lsn, Result, Seqno, TreeId,
    blob::BlobHold,
    bounds,
    catalog::{CATALOG_TREE, TreeEntry},
    pipeline::{Insertion, LogWait, Paced, TurnTaken},
    store::Extent,
    sync::{Arc, Ordering, thread_number},
    txn::{KeyLocks, WriteSet},
    version::{Change, MemtableRef},
    wal::{LogExtent, LogUse, RecordBuilder, Reservation, trailer},
};

use super::{Batch, Shared};

/// Records up to this length are copied into the log inside the sequencer's section. That takes
/// some ten nanoseconds more there, but a descheduled thread cannot leave a gap in the log between
/// reservation and copy.
const COPIED_INSIDE_BYTES_MAX: usize = 4 << 10;

/// The payload of a commit.
#[derive(Clone, Copy)]
pub(super) struct Brings<'a> {
    /// Its rows.
    pub insertion: &'a Arc<Insertion>,
    /// Its long values.
    pub blobs: &'a [Arc<BlobHold>],
    /// Its changes to roots and branches.
    pub changes: &'a [Change],
    /// Whether its record names the extents of all that. If not, other records do, for as long as
    /// they are needed.
    pub is_named: bool,
}

impl<'a> Brings<'a> {
    /// A payload of rows only.
    pub fn rows(insertion: &'a Arc<Insertion>) -> Self {
        Self { insertion, blobs: &[], changes: &[], is_named: true }
    }
}

/// A commit that has its seqno, its place in the log, and its memtable.
#[derive(Debug)]
pub(super) struct Sequenced {
    pub seqno: Seqno,
    slot: Arc<MemtableRef>,
    pub reservation: Reservation,
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
        let deletes = batch.writes.only_deletes() || make_room(changes);
        let paced = if deletes { Paced::Deletes } else { Paced::Free };
        batch.waits.check_interrupted()?;
        self.engine.pace(paced, &|| batch.waits.check_interrupted())?;
        self.record_operators(&batch.operators)?;
        let turn =
            self.engine.make_room(batch.bytes() as u64, &|| batch.waits.check_interrupted())?;
        let seqno = self.commit_writes(batch, level.unwrap_or(self.durability), changes, turn)?;
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

    fn commit_writes<'a>(
        &'a self,
        batch: &mut Batch,
        level: Durability,
        changes: &[Change],
        mut turn: Option<TurnTaken<'a>>,
    ) -> Result<Seqno> {
        loop {
            let queues = self.queue_changes(&mut batch.writes)?;
            let done = self.commit_once(batch, level, changes, (&mut turn, &queues));
            match done {
                Ok(Some(seqno)) => return Ok(seqno),
                // An index build has started meanwhile, or switched to another queue: start over.
                Ok(None) => {
                    batch.writes.forget(&queues);
                    if turn.is_none() {
                        let goes_on = || batch.waits.check_interrupted();
                        turn = self.engine.make_room(batch.bytes() as u64, &goes_on)?;
                    }
                }
                Err(error) => {
                    batch.writes.forget(&queues);
                    return Err(error);
                }
            }
        }
    }

    /// Commits the batch, without queueing rows for index builds. `None` if the rows would have to
    /// be put into a build's queue other than `queues`.
    fn commit_once<'a>(
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
            let insertion = self.take_writes(batch, trees);
            let locks = (keys, passed);
            let done = self.commit_insertion(&insertion, &batch.blobs, level, changes, locks);
            give_back_writes(batch, insertion);
            return done.map(Some);
        }
        // A commit must not wait for rows while it holds the turn, because a transaction that holds
        // rows may wait for the turn.
        drop(turn.take());
        let until = self.lock_deadline(waits);
        let rows = self.lock_batch(writes, &trees, (waits, until))?;
        let insertion = self.take_writes(batch, trees);
        let how = (level, bytes, &batch.waits);
        let rows = self.publish_batch(rows, &insertion, (&batch.waits, until));
        let done =
            rows.and_then(|rows| self.commit_locked(rows, &insertion, &batch.blobs, how, queues));
        give_back_writes(batch, insertion);
        done
    }

    /// Seals the writes of a batch and moves long values out; returns the trees that they change.
    pub(super) fn seal(&self, batch: &mut Batch) -> Result<Vec<TreeId>> {
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

    /// Commits a sealed set: steps 3 to 5. `locks` are dropped once the commit is visible, before
    /// it waits for its durability (Rule: I41); after an error at once.
    pub(super) fn commit_insertion<L>(
        &self,
        insertion: &Arc<Insertion>,
        blobs: &[Arc<BlobHold>],
        level: Durability,
        changes: &[Change],
        locks: L,
    ) -> Result<Seqno> {
        let Insertion { writes, relieves, .. } = &**insertion;
        // Deletes are always allowed: they are how space comes back (Rule: I24).
        let relieves = *relieves || writes.only_deletes() || make_room(changes);
        let admitted = if relieves { 0 } else { writes.bytes() as u64 };
        self.commit_admitted(insertion, blobs, (level, admitted), changes, locks)
    }

    /// Commits `bytes` bytes that were written beyond memory: steps 3 to 5.
    pub(super) fn commit_spilled<L>(
        &self,
        insertion: &Arc<Insertion>,
        blobs: &[Arc<BlobHold>],
        level: Durability,
        (spilled, bytes): (Change, u64),
        locks: L,
    ) -> Result<Seqno> {
        let admitted = insertion.writes.bytes() as u64 + bytes;
        self.commit_admitted(insertion, blobs, (level, admitted), &[spilled], locks)
    }

    fn commit_admitted<L>(
        &self,
        insertion: &Arc<Insertion>,
        blobs: &[Arc<BlobHold>],
        (level, admitted): (Durability, u64),
        changes: &[Change],
        locks: L,
    ) -> Result<Seqno> {
        let engine = &*self.engine;
        match admitted {
            // Deletes are allowed even if the disk is too full for the reserve.
            0 => engine.store.end_idle()?,
            _ => engine.admit(admitted)?,
        }
        engine.sync_blobs(blobs).inspect_err(|_| engine.store.settle_admitted(admitted))?;
        let mut record = self.records.take(insertion.writes.bytes());
        build_record(&mut record, insertion, blobs, changes);
        let body = record.finish();
        if !bounds::RECORD_BYTES.admits(body.len()) {
            // This is the caller's mistake, not a failure of the log. The record's memory is not
            // kept.
            engine.store.settle_admitted(admitted);
            let (bytes, max) = (body.len() as u64, bounds::RECORD_BYTES.max());
            return Err(Error::BatchTooLarge { bytes, max, limit: "the log" });
        }
        let brings = Brings { insertion, blobs, changes, is_named: true };
        let sequenced = self.sequence(brings, body, None, admitted);
        self.records.give(record);
        if sequenced.is_ok() {
            self.counters_are_logged(&insertion.counters);
        }
        if let Ok(sequenced) = &sequenced {
            self.land(insertion, sequenced);
        } else {
            engine.store.settle_admitted(admitted);
        }
        let Sequenced { seqno, reservation, .. } = sequenced?;
        drop(locks);
        self.wait_durable(&reservation, level)?;
        Ok(seqno)
    }

    /// Moves the batch's writes into a payload that other threads can reach.
    fn take_writes(&self, batch: &mut Batch, trees: Vec<TreeId>) -> Arc<Insertion> {
        let mut shared = batch.insertion.take().unwrap_or_default();
        if Arc::get_mut(&mut shared).is_none() {
            // A thread that helped the last commit still uses it.
            shared = Arc::default();
        }
        if let Some(insertion) = Arc::get_mut(&mut shared) {
            std::mem::swap(&mut insertion.writes, &mut batch.writes);
            insertion.rows.clear();
            let counted =
                trees.iter().filter_map(|&tree| Some((tree, insertion.writes.rows(tree)?)));
            insertion.rows.extend(counted);
            self.list_counters(trees.iter().copied(), &mut insertion.counters);
            insertion.trees = trees;
            self.engine.make_runs(insertion);
        }
        shared
    }

    /// Inserts the commit into its memtable (step 4), and waits until it is visible.
    pub(super) fn land(&self, insertion: &Insertion, Sequenced { seqno, slot, .. }: &Sequenced) {
        let engine = &*self.engine;
        engine.insert(insertion, *seqno, slot);
        engine.sequencer.finish(*seqno);
        engine.wait_visible(*seqno);
    }

    /// Sequences the commit (step 3), and copies its record into the log. `guaranteed` is the record
    /// length for which log space was reserved before, if any.
    pub(super) fn sequence(
        &self,
        brings: Brings<'_>,
        body: &[u8],
        guaranteed: Option<usize>,
        admitted: u64,
    ) -> Result<Sequenced> {
        let Brings { insertion, blobs, changes, is_named } = brings;
        let engine = &*self.engine;
        // A commit that was admitted without disk space frees some (Rule: I24).
        let log_use = LogUse::relief_if(admitted == 0);
        let mut wait = LogWait::new(log_use);
        let bytes_max = engine.log().record_bytes_max();
        let whole = body.len() + trailer(Seqno(0)).len();
        let (fragments, rest) = if whole > bytes_max {
            let looks_again = &mut || engine.wait_for_log(&mut wait);
            let fragments = engine.log().append_fragments(body, log_use, looks_again);
            let (fragments, rest) = engine.health.watch(fragments)?;
            (Some(fragments), rest)
        } else {
            (None, body)
        };
        let bytes = rest.len() + trailer(Seqno(0)).len();
        let begins_memtable = changes.iter().any(Change::begins_memtable);
        let ending = self.ending_trees(changes);
        loop {
            let mut section = engine.enter();
            engine.health.check()?;
            // The last freeze of a close happens in this section; a later commit would be in no
            // checkpoint.
            if self.closed.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
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
            // Before another thread can insert it: then it may become visible, and the memtable be
            // frozen.
            self.keep_blobs(blobs, &section.active, is_named.then(|| reservation.lsn()));
            section.active.admitted.fetch_add(admitted, Ordering::Relaxed);
            // Groups are padded, so many small commits take far more log than their records.
            let reached = reservation.lsn().0;
            let log_bytes = reached.saturating_sub(section.active.log_from().0) + bytes as u64;
            section.active.log_bytes.store(log_bytes, Ordering::Relaxed);
            engine.log_reached.store(reached, Ordering::Relaxed);
            section.active.note(changes);
            let beyond = || trees_beyond_memory(insertion, changes);
            let trees = || insertion.trees.iter().copied().chain(beyond());
            section.active.count(trees().map(|tree| (tree, insertion.rows_of(tree))));
            // Before another thread can make it visible.
            if !plant!("txn: a commit is not noted at its trees") {
                self.last_commits.note(trees(), section.last().next());
            }
            let stands = |tree| !self.catalog.has_ended(tree);
            debug_assert!(
                trees().all(stands),
                "a commit into a tree that has ended (`alter.rs`, 3)"
            );
            // Likewise: a reader that sees this commit finds that these trees have ended.
            ending.iter().for_each(|tree| tree.mark_end(section.last().next()));
            let (seqno, slot) = engine.sequencer.assign(&mut section, insertion);
            // The log must hold what a record names before another thread can read the record.
            let names_runs =
                is_named && begins_memtable || changes.iter().any(|one| one.prepared().is_some());
            let inside = bytes <= COPIED_INSIDE_BYTES_MAX && !names_runs;
            if inside {
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
            for loaded in changes.iter().filter_map(Change::loaded_tree) {
                // Outside the section: `changes` holds the extents until this returns.
                let mut named = loaded.pages.name_in_log(reservation.lsn());
                for blob in &loaded.blobs {
                    let offset = blob.extent().offset;
                    named = named.and(engine.store.name_in_log(offset, reservation.lsn()));
                }
                named.expect("I11: an extent that is held is there");
            }
            let spilled = changes.iter().filter(|_| is_named).filter_map(Change::spilled);
            for (_, piece) in spilled.flat_map(|all| all.iter()) {
                let named = piece.pages().name_in_log(reservation.lsn());
                named.expect("I11: an extent that is held is there");
            }
            for pages in changes.iter().filter_map(Change::prepared) {
                let named = pages.name_in_log(reservation.lsn());
                named.expect("I11: an extent that is held is there");
            }
            if !inside {
                engine.log().fill(&reservation, &[rest, &trailer(seqno)]);
            }
            return Ok(Sequenced { seqno, slot, reservation });
        }
    }

    /// The entries of trees that catalog changes drop. Looked up before the section.
    fn ending_trees(&self, changes: &[Change]) -> Vec<Arc<TreeEntry>> {
        let dropped = changes.iter().filter_map(Change::dropped_tree);
        let dropped = dropped.filter(|_| !plant!("db: the end of a tree is not marked"));
        let entries = dropped.filter_map(|tree| self.catalog.by_id(tree));
        let is_index = |entry: &TreeEntry| entry.name().contains('/');
        let marked = |entry: &Arc<TreeEntry>| {
            !(plant!("db: the end of an index is not marked") && is_index(entry))
        };
        entries.filter(marked).collect()
    }

    /// Makes the memtable hold the blobs, and the log too if the record names them (Rule: I11).
    fn keep_blobs(&self, blobs: &[Arc<BlobHold>], slot: &MemtableRef, named: Option<Lsn>) {
        if blobs.is_empty() {
            return;
        }
        let engine = &*self.engine;
        if !plant!("blob: the memtable does not hold what it hands out") {
            slot.keep_blobs(blobs);
        }
        let Some(lsn) = named else { return };
        for blob in blobs {
            let Extent { offset, bytes } = blob.extent();
            let named = engine.store.name_in_log(offset, lsn);
            named.expect("I11: an extent that is held is there");
            engine.blob_bytes_since_checkpoint.fetch_add(bytes.into(), Ordering::Relaxed);
        }
    }

    /// Locks the keys of checked inserts, and of every write to trees that allow them. Called once
    /// no other thread can remove the trees ([`Alone`](super::Alone)): past the gate, or with the
    /// trees locked. A tree that was removed before that is an error.
    pub(super) fn lock_checked(
        &self,
        writes: &WriteSet,
        trees: &[TreeId],
    ) -> Result<Option<KeyLocks<'_>>> {
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
}

/// True for a commit that drops trees or snapshots and otherwise writes only catalog records.
fn make_room(changes: &[Change]) -> bool {
    !changes.is_empty() && changes.iter().all(Change::makes_room)
}

/// Takes the memory of a batch's writes back, unless a helper still reads them.
fn give_back_writes(batch: &mut Batch, mut shared: Arc<Insertion>) {
    if let Some(insertion) = Arc::get_mut(&mut shared) {
        std::mem::swap(&mut insertion.writes, &mut batch.writes);
        insertion.runs.clear();
        batch.insertion = Some(shared);
    }
}

/// Trees of which all rows of the commit were written beyond memory.
fn trees_beyond_memory<'a>(
    insertion: &'a Insertion,
    changes: &'a [Change],
) -> impl Iterator<Item = TreeId> + 'a {
    let trees = changes.iter().filter_map(Change::spilled).flat_map(|spilled| spilled.trees());
    trees.filter(|tree| insertion.trees.binary_search(tree).is_err())
}

pub(super) fn build_record(
    record: &mut RecordBuilder,
    insertion: &Insertion,
    blobs: &[Arc<BlobHold>],
    changes: &[Change],
) {
    let Insertion { writes, trees, .. } = insertion;
    record.clear();
    let place = |Extent { offset, bytes }| LogExtent { offset, bytes: bytes.into() };
    // First, because replay must know the runs before it takes up the commit.
    for (tree, piece) in changes.iter().filter_map(Change::spilled).flat_map(|all| all.iter()) {
        record.runs(tree, piece.links());
    }
    for (kind, extent) in changes.iter().filter_map(Change::prepared).flat_map(|all| all.iter()) {
        record.page(kind, place(extent));
    }
    for loaded in changes.iter().filter_map(Change::loaded_tree) {
        // The extents of each load come before its root, so that replay can tell which load they
        // belong to.
        loaded.blobs.iter().for_each(|blob| record.extent(place(blob.extent())));
        loaded.pages.iter().for_each(|(kind, extent)| record.page(kind, place(extent)));
        record.root(loaded.tree, &loaded.root.to_bytes());
    }
    blobs.iter().for_each(|blob| record.extent(place(blob.extent())));
    for &(tree, counter, next) in &insertion.counters {
        if !plant!("db: counters are not logged with their commit") {
            record.counter(tree, counter, next);
        }
    }
    for &tree in trees.iter() {
        record.tree(tree);
        if let Some(more) = insertion.rows_of(tree) {
            record.rows(more);
        }
        for (from, to) in writes.ranges(tree) {
            if !plant!("db: range deletes are not logged") {
                record.delete_range(from, to);
            }
        }
        for entry in writes.entries(tree) {
            record.entry(entry.key, entry.tag, entry.payload);
        }
    }
    for tree in trees_beyond_memory(insertion, changes) {
        if let Some(more) = insertion.rows_of(tree) {
            record.tree(tree);
            record.rows(more);
        }
    }
    // Last, because replay then has met the catalog record of the tree, and knows it.
    for loaded in changes.iter().filter_map(Change::loaded_tree) {
        let counts = loaded.instead_of.map(|(_, counts)| counts).unwrap_or_default();
        for (counter, next) in (0u8..).zip(counts).filter(|(_, next)| *next > 0) {
            if !plant!("load: counters of a tree that is filled begin again") {
                record.counter(loaded.tree, counter, next);
            }
        }
    }
}

mod inserts;
mod locked;
mod queued;
mod records;
pub(super) use locked::LOCK_WAIT;
pub(super) use records::Records;
#[cfg(all(test, not(shuttle)))]
mod stalled;
