//! The pipeline: the engine behind the public handles, from the insertion of a commit into the
//! memtable to the checkpoint that makes it durable in trees.
//!
//! insert → freeze → apply → publish → checkpoint. A full memtable is frozen; its batches are
//! applied to their trees by the worker pool; the new roots are published as one version; the
//! checkpoint makes a version durable, so that the log before it can be trimmed. Pacing slows
//! writers down when this work cannot keep up.
//!
//! Invariants
//! 1. Memtables are applied oldest first, one at a time, all trees of one in the same publish:
//!    every version has one boundary (Rule: I9).
//! 2. A memtable is applied only when its writer count is zero and all its commits are visible
//!    (Rules: I2, I4).
//! 3. One root-changing job set at a time (Rule: I8); inside it, trees are independent.
//! 4. A checkpoint writes a published version whose boundary is durable in the log (Rules: I10,
//!    I30).
//! 5. Inserting a commit's payload twice, concurrently or one after the other, has the effect of
//!    inserting it once: a memtable keeps each (key, seqno), range delete and mini-run once, and
//!    empty-range hints are only cut. So threads that wait for a commit can insert it (helping;
//!    Rule: I3). A payload does not change while another thread can reach it: the write set is
//!    sealed before, and its owner takes the memory back only when it holds the last reference.
//! 6. A panic, a failed write or sync, or a contradiction in the store's own pages stops the store
//!    (P12, P16): `Health`. An unreadable page of a tree only delays the work that needs it
//!    (`tree/damage.rs`), and a full disk only the work that needs space (`admission.rs`).
//!
//! Threads: one applier, one checkpointer, one for the log's timers, a pool for tree jobs; or none
//! (`Workers::Manual`), then `step` does one unit of work on the calling thread.

mod admission;
mod apply;
mod batch;
mod blobs;
mod checkpoint;
mod in_doubt;
mod memory;
mod pool;
mod readers;
mod spill;
mod sync_requests;
mod workers;

pub(crate) use admission::{Admission, LogWait, Paced};
pub(crate) use blobs::BlobSync;
pub(crate) use checkpoint::CheckpointState;
pub(crate) use in_doubt::{HeldExtents, InDoubt};
pub(crate) use memory::{LoadShare, Loads};
pub(crate) use pool::TaskPool;
pub(crate) use readers::{PieceMemory, Readers};
pub(crate) use spill::SpillState;
pub(crate) use workers::Background;

use crate::{
    Error, Result, Seqno, TreeId,
    io::Env,
    memtable::{MemRun, Memtable},
    store::Store,
    sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering},
    tree::{Effects, SortedRuns, TreeContext, TreeTraits},
    txn::{HoldsWrites, Section, Sequencer, WriteSet, WritesMemory, lock_table::LockTable},
    types::{Counts, Lineage, Lsn, VersionNumber},
    version::{MemtableRef, Snapshots, Versions},
    wal::Log,
};
use std::{collections::VecDeque, ops::RangeInclusive};

/// Byte limits of the pipeline, all derived from the cache size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes in memory at which the active memtable is frozen.
    pub memtable_bytes: u64,
    /// Bytes of its log records at which the active memtable is frozen (Rule: I13).
    pub memtable_log_bytes: u64,
    /// Unwritten run bytes that may exist.
    pub unwritten_bytes: u64,
    /// Indexes and filters of open runs (the run cache) that may stay in memory, bytes.
    pub footers_bytes: u64,
    /// Log bytes after which a checkpoint is due.
    pub checkpoint_log_bytes: u64,
    /// Time after which a checkpoint is due if anything changed, milliseconds.
    pub checkpoint_millis: u64,
    /// Entries of one tree in one commit from which they become a mini-run.
    pub mini_run_entries: usize,
    /// Bytes of a transaction's writes from which they are spilled to disk.
    pub own_writes_bytes: u64,
}

impl Limits {
    /// The limits for a memory budget.
    pub fn for_cache(cache_bytes: u64) -> Self {
        let memtable_max: u64 = if cache_bytes >= 4 << 30 { 256 << 20 } else { 64 << 20 };
        // Jobs and threads need as much memory in a small store as in a large one. From 64 MiB on,
        // the block cache's part is large enough to cover it.
        let constant = (8_u64 << 20).saturating_sub(cache_bytes / 8).min(cache_bytes / 2);
        let ours = cache_bytes - constant;
        Self {
            memtable_bytes: (ours / 8).clamp(256 << 10, memtable_max),
            memtable_log_bytes: 64 << 20,
            unwritten_bytes: ours / 3,
            footers_bytes: cache_bytes / 2,
            checkpoint_log_bytes: 256 << 20,
            checkpoint_millis: 10_000,
            mini_run_entries: MINI_RUN_ENTRIES_MIN,
            // A quarter of the memory of the memtables. A transaction with more writes spills; all
            // transactions together have a limit, too (`memory.rs`).
            own_writes_bytes: (cache_bytes / 16).max(256 << 10),
        }
    }

    /// Bytes of log that may be kept for recovery from the older slot: what two checkpoints need,
    /// and at least enough for some groups (Rule: I13).
    pub(super) fn log_kept_max(&self) -> u64 {
        (2 * self.checkpoint_log_bytes).max(256 << 10)
    }

    /// Extents of dropped trees that one checkpoint releases. Each rewrites an entry of the space
    /// map; together they should be few compared to the pages that the checkpoint writes.
    fn ended_extents(&self) -> usize {
        usize::try_from(self.unwritten_bytes / 4096).unwrap_or(usize::MAX).max(4)
    }
}

/// Entries of one tree from which a commit builds a mini-run of them (Rule: I6). `--bench commit`:
/// a mini-run saves about half of the commit's time per entry (300 to 120–170 ns at 10 000), and
/// costs every point read of its memtable about 180 ns per run: with 40 runs of 10 000 a read takes
/// 7.5 µs instead of 0.4, with four of 100 000 0.9. A memtable of 64 MiB has a million short
/// entries, so at most about ten runs.
const MINI_RUN_ENTRIES_MIN: usize = 100_000;

/// The payload of a commit: a sealed write set and what goes with it.
#[derive(Debug, Default)]
pub(crate) struct CommitPayload {
    pub writes: WriteSet,
    /// Trees touched, ascending.
    pub trees: Vec<TreeId>,
    /// Changes of the row counts of trees, ascending; a tree that is not listed has an unknown
    /// change.
    pub rows: Vec<(TreeId, i64)>,
    /// New values of trees' counters, as in the log record: tree, counter, and the next number.
    pub counters: Vec<(TreeId, u8, u64)>,
    /// Mini-runs that hold the entries of some of the trees.
    pub runs: Vec<(TreeId, Arc<MemRun>)>,
    /// Catalog rows that the decision of a prepared transaction removes: sorted, point entries
    /// only.
    pub decided: WriteSet,
    /// The commit will free space in the end, so it is admitted on a full disk as deletes are.
    pub relieves: bool,
}

impl CommitPayload {
    /// Change of a tree's row count, if it is known.
    pub fn rows_of(&self, tree: TreeId) -> Option<i64> {
        let at = self.rows.binary_search_by_key(&tree, |(tree, _)| *tree).ok()?;
        Some(self.rows[at].1)
    }
}

impl HoldsWrites for CommitPayload {
    fn writes(&self) -> &WriteSet {
        &self.writes
    }
}

/// What tree jobs need to know about trees; implemented by the catalog.
pub(crate) trait TreeDirectory: Send + Sync + std::fmt::Debug {
    /// The traits of a tree; `None` if the tree is gone, and with it its batch.
    fn traits(&self, tree: TreeId) -> Option<TreeTraits>;

    /// Cuts a tree's empty-range hint at the rows that a commit puts into it
    /// (`txn/empty_ranges.rs`, 3).
    fn cut_empty_ranges(&self, tree: TreeId, writes: &WriteSet);
    /// Cuts a tree's empty-range hint at the rows of a piece that was spilled.
    fn cut_empty_ranges_within(&self, tree: TreeId, piece: &SortedRuns);

    /// The counters of a tree for the root directory: at least as high as any commit so far has set
    /// them.
    fn counts(&self, tree: TreeId) -> Counts;
    /// Trees with ids in this range that were created by a commit through `through` and have handed
    /// out counter values.
    fn counting(&self, ids: RangeInclusive<u32>, through: Seqno) -> Vec<TreeId>;
    /// Trees created by a commit through `through` whose counters changed, or that were created or
    /// dropped, since the last call.
    fn take_counted(&self, through: Seqno) -> Vec<TreeId>;
    /// Puts back what [`take_counted`](Self::take_counted) returned, because it was not written.
    fn put_back_counted(&self, trees: Vec<TreeId>);

    /// Announces that a tree will be published that is a clone of `of` as of commit `at`, or
    /// replaces it, and whose counters continue those of `of`. The catalog may not show the tree
    /// yet.
    fn begins(&self, tree: TreeId, of: TreeId, at: Seqno);

    /// Notifies the catalog that the commit that dropped a tree is applied: no batch of the tree
    /// counts any more.
    fn forget(&self, tree: TreeId);

    /// Approximate bytes of memory that the known trees take.
    fn memory_bytes(&self) -> u64;
}

/// The engine behind the public handles.
#[derive(Debug)]
pub(crate) struct Engine {
    pub env: Env,
    pub limits: Limits,
    /// The memory budget, bytes.
    pub cache_bytes: u64,
    /// Bytes of log to keep for followers, beyond what recovery needs.
    pub keep_log_bytes: u64,
    pub cx: Arc<TreeContext>,
    pub store: Arc<Store>,
    /// `None` if the store is open read-only.
    pub log: Option<Log>,
    pub sequencer: Sequencer<CommitPayload>,
    pub admission: Admission,
    /// 1 once any tree has had an empty-range hint; from then on commits check for hints to cut.
    pub empty_ranges: AtomicU64,
    pub versions: Versions,
    pub snapshots: Snapshots,
    pub health: Arc<Health>,
    pub trees: Arc<dyn TreeDirectory>,
    pub pool: TaskPool,
    pub(crate) readers: Readers,
    pub checkpoint: CheckpointState,
    pub spill: SpillState,
    /// End of the last record that was given a place in the log, without the group's padding.
    pub log_reached: AtomicU64,
    /// Running bulk loads.
    pub loads: Arc<Loads>,
    /// The lock table, whose memory counts towards the budget.
    pub lock_table: Arc<LockTable>,
    /// Memory of uncommitted writes, those of prepared transactions included.
    pub writes_memory: WritesMemory,
    /// One sync of the store file for all commits that wait for their blobs.
    pub(crate) blob_sync: BlobSync,
    /// Extents of in-doubt transactions that only the log names.
    pub(crate) in_doubt: InDoubt,
    /// Callbacks to invoke once the log is synced.
    pub(crate) sync_requests: sync_requests::SyncRequests,
    /// Held by the one root-changing job set (invariant 3).
    pub(crate) roots: Mutex<RootJobs>,
    /// Page effects of published jobs, until a checkpoint takes them.
    pub(crate) effects: Mutex<VecDeque<Published>>,
    /// Everything is drained and nothing was committed for a while: a checkpoint is due if anything
    /// is not durable, and free space is returned.
    pub(crate) idle: AtomicBool,
    pub(crate) signal: Signal,
}

/// What a publish did to pages.
#[derive(Debug)]
pub(crate) struct Published {
    publish: VersionNumber,
    effects: Vec<(Lineage, Effects)>,
    /// Lineages of the trees that the publish dropped.
    ended: Vec<Lineage>,
    /// The first version in which they do not exist.
    ended_in: VersionNumber,
}

/// State that only the holder of the job lock uses.
#[derive(Debug, Default)]
pub(crate) struct RootJobs {
    /// Average number of entries encoded per entry applied by recent applies, in 1/256.
    pub work_per_entry: u64,
}

/// Wakes background threads and threads that wait for them. Every commit reads the epoch, so it has
/// a cache line to itself.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Signal {
    epoch: AtomicU64,
    waits: SignalWaits,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct SignalWaits {
    /// Held while the epoch changes, so that a waiter misses no change between its check and its
    /// wait.
    mutex: Mutex<()>,
    changed: Condvar,
}

impl Signal {
    /// Advances the epoch and wakes all waiters: something happened that they may wait for.
    pub fn notify(&self) {
        let guard = self.waits.mutex.lock().unwrap();
        // Pairs with the load in `epoch`: a thread that reads this epoch sees what happened.
        self.epoch.fetch_add(1, Ordering::Release);
        drop(guard);
        self.waits.changed.notify_all();
    }

    /// The current epoch. Read it before checking the condition.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Waits until the epoch has moved on from `seen`, or `millis` have passed.
    pub fn wait(&self, seen: u64, millis: u64) {
        let guard: MutexGuard<'_, ()> = self.waits.mutex.lock().unwrap();
        if self.epoch() == seen {
            let time = std::time::Duration::from_millis(millis);
            drop(self.waits.changed.wait_timeout(guard, time).unwrap());
        }
    }
}

/// Whether the store may continue. The first failed write or sync, or a panic in background work,
/// stops it for good (P12, P16): every later call except statistics and close fails until the store
/// is reopened.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Set after `why`; set without a reason by a clean close.
    failed: AtomicBool,
    /// A close has begun. Its own work continues until `failed` is set.
    pub closing: AtomicBool,
    why: Mutex<Option<String>>,
}

impl Health {
    /// Returns `Err(Error::Failed)` once anything has failed, and `Err(Error::Closed)` after a
    /// clean close. One atomic load in the common case.
    pub fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(self.why().map_or(Error::Closed, Error::Failed))
    }

    /// Checks like [`check`](Self::check), and returns `Err(Error::Closed)` from the moment at
    /// which a close starts: for calls that wait or commit.
    pub fn check_open(&self) -> Result<()> {
        self.check()?;
        if self.is_closing() { Err(Error::Closed) } else { Ok(()) }
    }

    /// True once a close has begun.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Begins a close; false if one has begun before.
    pub fn begin_close(&self) -> bool {
        !self.closing.swap(true, Ordering::SeqCst)
    }

    /// Why the store stopped, if it did.
    pub fn why(&self) -> Option<String> {
        self.why.lock().unwrap().clone()
    }

    /// Stops the store. The first reason stays; after a clean close nothing fails any more.
    pub fn fail(&self, why: impl Into<String>) {
        let mut first = self.why.lock().unwrap();
        if !self.failed.load(Ordering::Acquire) {
            *first = Some(why.into());
            self.failed.store(true, Ordering::Release);
        }
    }

    /// Ends a close without a failure: from now on every call fails with `Closed`.
    pub fn close(&self) {
        let _first = self.why.lock().unwrap();
        self.failed.store(true, Ordering::Release);
    }

    /// Passes a result on. An error after which the medium cannot be trusted stops the store.
    pub fn watch<T>(&self, result: Result<T>) -> Result<T> {
        match &result {
            // Nothing was done, and nothing is wrong with the medium: space may become free (P13),
            // and a log that is being closed accepts nothing more.
            Ok(_) | Err(Error::Full(_) | Error::Closed) => {}
            Err(error) => self.fail(error.to_string()),
        }
        result
    }
}

impl Engine {
    /// Builds mini-runs for trees with many entries. Called before the commit has its seqno,
    /// concurrently with other commits.
    pub fn make_runs(&self, payload: &mut CommitPayload) {
        let CommitPayload { writes, trees, runs, .. } = payload;
        for &tree in trees.iter() {
            if writes.count(tree) >= self.limits.mini_run_entries {
                let entries = writes.entries(tree);
                let messages = entries.map(|entry| (entry.key, entry.tag, entry.payload));
                let run = MemRun::build(self.cx.pool.clone(), messages);
                runs.push((tree, Arc::new(run)));
            }
        }
    }

    /// Enters the sequencer's section, in which a commit gets its seqno.
    pub fn enter(&self) -> MutexGuard<'_, Section> {
        self.sequencer.enter(|payload, seqno, slot| self.insert(payload, seqno, slot))
    }

    /// Inserts a commit's payload into its memtable.
    pub fn insert(&self, payload: &CommitPayload, seqno: Seqno, slot: &MemtableRef) {
        let CommitPayload { writes, trees, runs, decided, .. } = payload;
        if self.empty_ranges.load(Ordering::SeqCst) > 0 {
            trees.iter().for_each(|&tree| self.trees.cut_empty_ranges(tree, writes));
            let spilled = slot.spilled().into_iter().flat_map(|spilled| spilled.iter());
            spilled.for_each(|(tree, piece)| self.trees.cut_empty_ranges_within(tree, piece));
        }
        for &tree in trees {
            slot.table.delete_ranges(tree, seqno, writes.ranges(tree));
            match runs.iter().find(|(of, _)| *of == tree) {
                Some((_, run)) => slot.table.attach(tree, seqno, run.clone()),
                None => {
                    let entries = writes.entries(tree);
                    let messages = entries.map(|entry| (entry.key, entry.tag, entry.payload));
                    slot.table.insert(tree, seqno, messages);
                }
            }
        }
        if decided.len() > 0 {
            for tree in decided.trees() {
                let messages = decided.entries(tree);
                let messages = messages.map(|entry| (entry.key, entry.tag, entry.payload));
                slot.table.insert(tree, seqno, messages);
            }
        }
    }

    /// Returns once `seqno` is visible; inserts payloads of stalled commits on their owners'
    /// behalf.
    pub fn wait_visible(&self, seqno: Seqno) {
        let insert = |payload: &CommitPayload, seqno, slot: &_| self.insert(payload, seqno, slot);
        self.sequencer.wait_visible(seqno, insert);
    }

    /// Freezes the active memtable if it holds anything. Returns the boundary: every commit through
    /// it is in roots or frozen memtables.
    pub fn freeze(&self) -> Seqno {
        let mut section = self.enter();
        self.freeze_in(&mut section)
    }

    /// Freezes like [`freeze`](Self::freeze), for a caller that is already in the sequencer's
    /// section.
    pub fn freeze_in(&self, section: &mut Section) -> Seqno {
        self.freeze_at(section, self.log().position())
    }

    /// Freezes the active memtable in the sequencer's section; `log_from` is a position at or
    /// before the next commit's record.
    pub fn freeze_at(&self, section: &mut Section, log_from: Lsn) -> Seqno {
        let last = section.last();
        if last == section.active.base {
            return last;
        }
        section.active.freeze(last);
        let table = Arc::new(Memtable::new(self.cx.pool.clone()));
        let fresh = MemtableRef::new(table, last, log_from);
        section.active = fresh.clone();
        self.versions.freeze(fresh);
        last
    }

    /// The log; the store must be open for writing.
    pub fn log(&self) -> &Log {
        self.log.as_ref().expect("nothing writes to a store that is open read-only")
    }

    /// Publishes a version that differs from the current one only by its number: every checkpoint
    /// needs a new one.
    pub fn publish_unchanged(&self) {
        let _jobs = self.roots.lock().unwrap();
        let version = self.versions.hold();
        let publish = VersionNumber(version.publish.0 + 1);
        self.versions.publish(publish, version.roots.clone(), version.branches.clone(), None);
    }

    /// Applies until every commit through `seqno` is in the roots.
    pub fn apply_through(&self, seqno: Seqno) -> Result<()> {
        while self.versions.current().applied < seqno && self.apply_oldest()? {}
        Ok(())
    }

    /// Makes the log and the store file as short as possible without work on trees. Everything
    /// should be applied; what is written meanwhile stays in the log. Afterwards both slots start
    /// in a short segment, and the pages that only the older one showed are free.
    pub fn go_idle(&self) -> Result<()> {
        self.health.watch(self.log().go_idle())?;
        self.pass_log();
        self.publish_unchanged();
        self.run_checkpoint()?;
        // Advances the older slot, too. On a full disk it stays where it is; what the caller
        // requested is durable nevertheless.
        self.publish_unchanged();
        match self.run_checkpoint() {
            Ok(()) | Err(Error::Full(_)) => {}
            Err(error) => return Err(error),
        }
        if self.versions.current().frozen.is_empty() && self.pass_log() {
            self.health.watch(self.store.go_idle())?;
        }
        Ok(())
    }

    /// True if nothing was committed since the last freeze; then replay does not need the log
    /// before its current end.
    pub(super) fn pass_log(&self) -> bool {
        let section = self.enter();
        let nothing = section.last() == section.active.base;
        if nothing {
            section.active.begin_at(self.log().position());
        }
        nothing
    }

    /// Applies everything, makes it durable and marks the slot clean. On a full disk it syncs the
    /// log instead, which has every commit, and from which the next open recovers.
    pub fn close(&self) -> Result<()> {
        match self.close_cleanly() {
            Err(Error::Full(_)) => {
                match self.health.watch(self.log().sync_through_now()) {
                    // The log was closed, and thus synced, before a checkpoint found no space.
                    Ok(_) | Err(Error::Closed) => {}
                    Err(error) => return Err(error),
                }
                self.end_sync_requests();
                Ok(())
            }
            closed => closed,
        }
    }

    fn close_cleanly(&self) -> Result<()> {
        self.freeze();
        while self.apply_oldest()? {}
        self.publish_unchanged();
        self.run_checkpoint()?;
        let is_tight = self.store.disk_free().is_ok_and(|free| free < admission::TIGHT_BYTES);
        let end = self.health.watch(self.log().close(is_tight))?;
        self.end_sync_requests();
        if !self.in_doubt.is_empty() {
            // The log names what in-doubt transactions need; the next opening reads it.
            self.store.drop_reserve(is_tight);
            return Ok(());
        }
        self.publish_unchanged();
        self.checkpoint_with(Some(end))?;
        // Moves the older slot's start to the end, too; then nothing needs the older log.
        self.publish_unchanged();
        match self.checkpoint_with(Some(end)) {
            // On a full disk the log stays; the store is closed nevertheless.
            Ok(()) | Err(Error::Full(_)) => {}
            Err(error) => return Err(error),
        }
        self.store.drop_reserve(is_tight);
        self.health.watch(self.store.give_back(0)).map(drop)
    }

    /// True if the active memtable has reached its size, in memory or in the log (Rule: I13).
    pub fn memtable_is_full(&self, slot: &MemtableRef) -> bool {
        let log_bytes = slot.log_bytes.load(Ordering::Relaxed);
        slot.table.bytes() as u64 >= self.limits.memtable_bytes
            || (log_bytes >= self.limits.memtable_log_bytes
                && !plant!("pipeline: the log of a memtable has no bound"))
            || slot.blob_bytes.load(Ordering::Relaxed) >= self.limits.checkpoint_log_bytes
    }

    /// Bytes of log that recovery from the older slot would need now.
    pub(crate) fn log_kept_bytes(&self) -> u64 {
        let needed = self.checkpoint.log_needed.load(Ordering::Relaxed);
        self.log_reached.load(Ordering::Relaxed).saturating_sub(needed)
    }

    /// Bytes of runs that are not written yet.
    pub fn unwritten_bytes(&self) -> u64 {
        self.cx.unwritten.load(Ordering::Relaxed)
    }

    /// Does one unit of background work on this thread, whatever is most due; false if there is
    /// none.
    pub fn step(&self) -> Result<bool> {
        self.health.check()?;
        let now = self.env.clock.now();
        self.snapshots.tick(now);
        self.log().tick(now)?;
        self.answer_sync_requests()?;
        self.balance_memory();
        self.probe_damage();
        if self.with_room(|| self.checkpoint_some())? || self.spill_pinned()? {
            return Ok(true);
        }
        self.with_room(|| self.apply_oldest())
    }

    /// Reads pages again that were unreadable.
    pub(super) fn probe_damage(&self) {
        if self.cx.damage.probe(&self.cx, self.env.clock.now()) {
            self.signal.notify();
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Promises: P12, P16.
    #[test]
    fn the_first_failure_is_kept() {
        let health = Health::default();
        assert!(health.check().is_ok() && health.why().is_none());
        health.fail("first");
        health.fail("second");
        health.close();
        assert!(matches!(health.check(), Err(Error::Failed(why)) if why == "first"));
    }

    /// Work that another thread was still doing finds the files closed.
    #[test]
    fn nothing_fails_after_a_clean_close() {
        let health = Health::default();
        health.close();
        let error = std::io::Error::other("it is closed");
        assert!(health.watch::<()>(Err(Error::io("store", "resize", 0, error))).is_err());
        assert!(matches!(health.check(), Err(Error::Closed)) && health.why().is_none());
    }

    /// Promise: P13.
    #[test]
    fn a_full_disk_does_not_stop_the_store_but_any_other_error_does() {
        let health = Health::default();
        assert!(health.watch::<()>(Err(Error::Full("a disk".into()))).is_err());
        assert!(health.check().is_ok());
        let error = std::io::Error::other("gone");
        assert!(health.watch::<()>(Err(Error::io("store", "read", 0, error))).is_err());
        assert!(matches!(health.check(), Err(Error::Failed(_))));
    }

    #[test]
    fn a_closed_store_reports_that_it_is_closed() {
        let health = Health::default();
        health.close();
        assert!(matches!(health.check(), Err(Error::Closed)));
        assert_eq!(health.why(), None);
    }
}
