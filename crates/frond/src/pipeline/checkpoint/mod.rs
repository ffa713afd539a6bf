//! Checkpoint: makes a published version durable, so that the log before its boundary can be
//! trimmed.
//!
//! 1. Fix V, the current version, and its boundary F.
//! 2. Take the page effects of all publishes through V: pages loaded in bulk, deaths, and run
//!    references as of V.
//! 3. Write everything that V links and that has no address: runs and children before the nodes
//!    that link them.
//! 4. Name in the log what in-doubt transactions need (`in_doubt.rs`), and sync the log through F
//!    (Rule: I10).
//! 5. Publish: root directory, space map, sync, slot, sync (module `store`).
//! 6. Trim the log that neither slot needs.
//!
//! Invariants
//! 1. Pages that died before V is fixed are never written (Rule: I10).
//! 2. A page gets its address once, here, and is readable at it before the address is linked.
//! 3. One checkpoint at a time, of ascending versions.
//! 4. A version in which a branch begins (a clone, a named snapshot), and one that a snapshot pins,
//!    is written as it is, before any later one. What died right after it is written, too: the
//!    branch needs it, and the snapshot must not keep it in memory.
//!
//! Threads: the checkpointer, or the caller of `Db::checkpoint`. Commits and applies continue
//! concurrently.

use crate::{
    Result, Seqno,
    blob::BlobRef,
    page::PageKind,
    store::{Checkpoint, Class, DirectoryChange, Extent, Request},
    sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering},
    tree::{Begun, Child, Node, NodeRef, RunHandle, TreeContext, seal_node},
    types::{Lineage, Lsn, VersionNumber},
    version::{RootMarks, Roots, Version},
    wal::{LogUse, TRAILER_BYTES, checkpoint_record},
};

mod roots;

use super::{Engine, Published};
use std::collections::VecDeque;

/// Time between two checkpoints, in milliseconds, if the second is only needed to release pages of
/// dropped trees. One checkpoint releases so many pages that this is some gigabytes a second.
const ENDING_PAUSE_MILLIS: u64 = 500;

/// Bytes of dead pages for which an idle store makes one more checkpoint: this much, or a fraction
/// of its live bytes if that is more. A checkpoint itself replaces less of the space map and of the
/// directories, so checkpoints of an idle store end.
const IDLE_KEPT_BYTES_MIN: u64 = 1 << 20;
/// The divisor of that fraction.
const IDLE_KEPT_DIVISOR: u64 = 64;

/// Blobs that the runs of one publish are the first to list, and blobs that they no longer list.
#[derive(Debug, Default)]
struct BlobChanges {
    gained: Vec<(Lineage, Extent)>,
    lost: Vec<(Lineage, Extent)>,
}

impl BlobChanges {
    fn note(
        &mut self,
        cx: &TreeContext,
        run: &RunHandle,
        lineage: Lineage,
        (before, left): (u32, u32),
    ) -> Result<()> {
        let changed = match (before, left) {
            (0, 1..) => &mut self.gained,
            (1.., 0) => &mut self.lost,
            _ => return Ok(()),
        };
        let run = match run.glance(cx) {
            Ok(run) => run,
            // A damaged run cannot be asked what it listed: those blobs are never freed, but the
            // checkpoint continues.
            Err(error) if left == 0 && error.concerns_a_page() => return Ok(()),
            Err(error) => return Err(error),
        };
        for listed in run.blobs() {
            let reference = BlobRef::read(cx.store.file(), &listed.reference)?;
            changed.push((lineage, reference.extent()));
        }
        Ok(())
    }
}

/// State that all checkpoints of a store share.
#[derive(Debug, Default)]
pub(crate) struct CheckpointState {
    running: Mutex<()>,
    /// Version in the newest slot.
    publish: AtomicU64,
    /// Boundary in the newest slot.
    applied: AtomicU64,
    /// Log position when the last checkpoint started.
    log_at: AtomicU64,
    /// First log position that either slot needs.
    pub(super) log_needed: AtomicU64,
    /// Clock when the last checkpoint ended, milliseconds.
    ended_millis: AtomicU64,
    /// Disk space reserved for memtables that are applied but not yet durable in trees: their last
    /// commit, and bytes.
    reserved: Mutex<VecDeque<(Seqno, u64)>>,
    /// Versions in which branches begin, oldest first: each gets a checkpoint of its own.
    begun: Mutex<VecDeque<Arc<Version>>>,
    /// Roots of the version in the newest slot; `None` if all groups must be written.
    written_roots: Mutex<Option<RootMarks>>,
    pub count: AtomicU64,
    pub pages_written: AtomicU64,
    pub bytes_written: AtomicU64,
}

impl CheckpointState {
    /// The state after opening a store whose newest slot has this version.
    pub fn new(publish: VersionNumber, applied: Seqno, now_millis: u64) -> Self {
        let state = Self::default();
        state.publish.store(publish.0, Ordering::Relaxed);
        state.applied.store(applied.0, Ordering::Relaxed);
        state.ended_millis.store(now_millis, Ordering::Relaxed);
        state
    }

    /// Sets the position at which the log continues. The log before it does not count towards the
    /// next checkpoint.
    pub fn begin_log_at(&self, position: Lsn) {
        self.log_at.store(position.0, Ordering::Relaxed);
        self.log_needed.store(position.0, Ordering::Relaxed);
    }

    /// Records that the newest slot has these roots.
    pub fn roots_are_written(&self, roots: &Roots) {
        let mut marks = self.written_roots.lock().unwrap();
        let older = marks.take().unwrap_or_default();
        *marks = Some(roots.marks(older));
    }

    /// The version in the newest slot.
    pub fn written(&self) -> VersionNumber {
        VersionNumber(self.publish.load(Ordering::Relaxed))
    }

    /// Versions that must still be written as they are (invariant 4).
    pub fn begun(&self) -> MutexGuard<'_, VecDeque<Arc<Version>>> {
        self.begun.lock().unwrap()
    }

    /// Records that the memtable with the commits through `last`, for which `admitted` bytes were
    /// reserved, is applied.
    pub fn applied_to(&self, last: Seqno, admitted: u64) {
        self.reserved.lock().unwrap().push_back((last, admitted));
    }
}

impl Engine {
    pub(super) fn now_millis(&self) -> u64 {
        u64::try_from(self.env.clock.now().as_millis()).unwrap_or(u64::MAX)
    }

    /// True if there is something to make durable and one of the limits is reached.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let version = self.versions.current();
        let state = &self.checkpoint;
        if version.publish.0 <= state.publish.load(Ordering::Relaxed) {
            return false;
        }
        let log = self.log().position().0.saturating_sub(state.log_at.load(Ordering::Relaxed));
        let log = log.saturating_add(self.blob_sync.bytes_since_checkpoint.load(Ordering::Relaxed));
        let age = self.now_millis().saturating_sub(state.ended_millis.load(Ordering::Relaxed));
        let pinned = self.snapshots.pinned_memtable_bytes();
        self.unwritten_bytes() >= self.limits.unwritten_bytes / 2
            || pinned >= 2 * self.limits.memtable_bytes
            || log >= self.limits.checkpoint_log_bytes
            || age >= self.limits.checkpoint_millis
            || self.idle.load(Ordering::Relaxed)
    }

    /// Writes the oldest version that must be written as it is, or else makes a checkpoint if one
    /// is due. False if there was nothing to do.
    pub(super) fn checkpoint_some(&self) -> Result<bool> {
        if self.write_begun()? {
            return Ok(true);
        }
        let due = self.free_space_if_due()
            | self.checkpoint_is_due()
            | self.goes_on_ending()
            | self.shortens_log()
            | self.becomes_idle();
        if due && self.versions.current().publish > self.checkpoint.written() {
            return self.run_checkpoint().map(|()| true);
        }
        Ok(false)
    }

    /// Advances whatever keeps the log from being trimmed, if the log kept for the older slot
    /// approaches its limit. True if a checkpoint should follow. It freezes the active memtable; if
    /// there is nothing to apply, it publishes a version for a checkpoint, after which the newest
    /// slot becomes the older one (Rule: I13).
    fn shortens_log(&self) -> bool {
        if self.log_kept_bytes() < self.limits.log_kept_max() / 4 * 3 {
            return false;
        }
        if self.versions.current().frozen.is_empty() {
            self.freeze();
        }
        let version = self.versions.hold();
        if version.frozen.is_empty() && version.publish <= self.checkpoint.written() {
            self.publish_unchanged();
        }
        true
    }

    /// True if a checkpoint should give back more of an idle store's log or space; then there is a
    /// version for it.
    ///
    /// - The log continues in a short segment, and a slot still starts before that. If the active
    ///   memtable holds anything, that is frozen first.
    /// - Draining freed pages after the last checkpoint but one, so the older slot still links
    ///   them. Without another checkpoint they would stay allocated until the next write.
    fn becomes_idle(&self) -> bool {
        if !self.idle.load(Ordering::Relaxed) {
            return false;
        }
        let shortens =
            self.in_doubt.is_empty() && self.log().has_passed(self.store.log_needed_from());
        if shortens && !self.pass_log() {
            self.freeze();
            return false;
        }
        let frees = || {
            let live = self.store.space().stats().live;
            self.store.kept_for_older_slot() >= IDLE_KEPT_BYTES_MIN.max(live / IDLE_KEPT_DIVISOR)
        };
        if !shortens && !frees() {
            return false;
        }
        if self.versions.current().publish <= self.checkpoint.written() {
            self.publish_unchanged();
        }
        true
    }

    /// True if a checkpoint should release more pages of dropped trees; then there is a version for
    /// it.
    fn goes_on_ending(&self) -> bool {
        let since =
            self.now_millis().saturating_sub(self.checkpoint.ended_millis.load(Ordering::Relaxed));
        let goes_on = self.store.is_ending() && since >= ENDING_PAUSE_MILLIS;
        if goes_on && self.versions.current().publish <= self.checkpoint.written() {
            self.publish_unchanged();
        }
        goes_on
    }

    /// Makes the current version, or a later one, durable, and before it those that must be written
    /// as they are.
    pub(crate) fn run_checkpoint(&self) -> Result<()> {
        self.checkpoint_with(None)
    }

    /// Makes the current version durable, like [`run_checkpoint`](Self::run_checkpoint). With
    /// `clean`, the end of the log, it is one of the last steps of a clean close.
    pub(crate) fn checkpoint_with(&self, clean: Option<Lsn>) -> Result<()> {
        let target = self.versions.current().publish;
        loop {
            let _one = self.checkpoint.running.lock().unwrap();
            self.health.check()?;
            let (version, is_current) = self.fix();
            self.write_once(&version, clean.filter(|_| is_current))?;
            // Versions that snapshots have pinned in the meantime are written by the next
            // checkpoint.
            if is_current || (clean.is_none() && self.checkpoint.written() >= target) {
                return Ok(());
            }
        }
    }

    /// Makes the oldest version durable that must be written as it is (invariant 4); false if there
    /// is none.
    pub(crate) fn write_begun(&self) -> Result<bool> {
        if self.checkpoint.begun().is_empty() {
            return Ok(false);
        }
        let _one = self.checkpoint.running.lock().unwrap();
        self.health.check()?;
        let (version, is_current) = self.fix();
        if is_current {
            return Ok(false); // another thread wrote it
        }
        self.write_once(&version, None).map(|()| true)
    }

    /// The oldest version that must be written as it is (invariant 4), or the current one and
    /// `true` if there is none. Called with `running` locked. Publishes hold the locks of the
    /// snapshot registry and of `begun`: a version that must be written and appears after this
    /// check is later than the one fixed.
    fn fix(&self) -> (Arc<Version>, bool) {
        let written = self.checkpoint.written();
        let publishing = self.snapshots.publishing();
        let begun = self.checkpoint.begun();
        let pinned = publishing.oldest_pinned_after(written);
        let first = begun.front().cloned().into_iter().chain(pinned).min_by_key(|v| v.publish);
        match first {
            Some(version) => (version, false),
            None => (self.versions.hold(), true),
        }
    }

    /// Makes a version durable, unless a later one already is. Called with `running` locked.
    fn write_once(&self, version: &Arc<Version>, clean: Option<Lsn>) -> Result<()> {
        if version.publish.0 > self.checkpoint.publish.load(Ordering::Relaxed) {
            self.health.watch(self.write_version(version, clean))?;
        }
        let mut begun = self.checkpoint.begun();
        if begun.front().is_some_and(|first| first.publish == version.publish) {
            begun.pop_front();
        }
        Ok(())
    }

    fn write_version(&self, version: &Arc<Version>, clean: Option<Lsn>) -> Result<()> {
        let log_at = self.log().position();
        self.blob_sync.bytes_since_checkpoint.store(0, Ordering::Relaxed);
        // Replay needs the records of every memtable that is not applied in V.
        let oldest = version.frozen.last().unwrap_or(&version.active);
        let log_from = match plant!("pipeline: log position before the boundary is dropped") {
            true => clean.unwrap_or(log_at),
            false => clean.unwrap_or(oldest.log_from()),
        };
        self.take_effects(version.publish)?;
        let counted = self.trees.take_counted(version.applied);
        let written = self
            .write_roots(version, &counted)
            .and_then(|change| self.finish_version(version, clean, (log_at, log_from), &change));
        written.inspect_err(|_| self.trees.put_back_counted(counted))
    }

    /// Steps 4 to 6 of a checkpoint.
    fn finish_version(
        &self,
        version: &Arc<Version>,
        clean: Option<Lsn>,
        (log_at, log_from): (Lsn, Lsn),
        directory: &DirectoryChange,
    ) -> Result<()> {
        if clean.is_none() {
            self.name_in_doubt(log_from, version.applied)?;
        }
        let log_synced = match clean {
            Some(end) => end,
            None if plant!("pipeline: checkpoint without syncing the log") => log_at,
            None => self.log().sync_through_now()?,
        };
        let superblock = self.store.publish(&Checkpoint {
            publish: version.publish,
            applied: version.applied,
            log_from,
            log_synced,
            clean,
            roots: directory,
        })?;
        self.checkpoint.roots_are_written(&version.roots);
        for snapshot in version.branches.named.values().filter(|one| !one.is_durable()) {
            snapshot.set_durable(self.store.trees_root());
        }
        if clean.is_none() {
            self.log_checkpoint(superblock.sequence)?;
        }
        self.in_doubt.forget_applied(version.applied);
        let needed = self.store.log_needed_from();
        self.log().trim(self.log_kept_from(needed))?;
        self.store.space().log_trimmed(needed);
        let state = &self.checkpoint;
        state.log_needed.store(needed.0, Ordering::Relaxed);
        state.publish.store(version.publish.0, Ordering::Relaxed);
        state.applied.store(version.applied.0, Ordering::Relaxed);
        state.log_at.store(log_at.0, Ordering::Relaxed);
        state.ended_millis.store(self.now_millis(), Ordering::Relaxed);
        state.count.fetch_add(1, Ordering::Relaxed);
        if clean.is_none() {
            self.adapt_reserve(version.applied)?;
        }
        self.signal.notify();
        Ok(())
    }

    /// First log position to keep. Recovery needs the log from `needed` on. The log kept for
    /// followers goes further back, but never exceeds the free disk space, so that it is given up
    /// before commits find the disk full.
    fn log_kept_from(&self, needed: Lsn) -> Lsn {
        if self.keep_log_bytes == 0 {
            return needed;
        }
        // If the file system does not report its free space, none is assumed.
        let keep = self.keep_log_bytes.min(self.store.disk_free().unwrap_or(0));
        needed.min(Lsn(self.log().position().0.saturating_sub(keep)))
    }

    /// Releases reservations of disk space that were used, adapts the reserve to the size of the
    /// store, and returns free space beyond a fifth of the live bytes to the file system.
    fn adapt_reserve(&self, applied: Seqno) -> Result<()> {
        loop {
            let mut reserved = self.checkpoint.reserved.lock().unwrap();
            match reserved.front() {
                Some(&(last, bytes)) if last <= applied => {
                    reserved.pop_front();
                    self.store.release_admitted(bytes);
                }
                _ => break,
            }
        }
        let live = self.store.space().stats().live;
        if self.idle.load(Ordering::Relaxed) {
            self.store.give_back(0)?;
        } else {
            self.store.set_reserve(self.limits.unwritten_bytes)?;
            self.store.give_back(live / 5 + (8 << 20))?;
        }
        self.refill_log()
    }

    /// Records in the log that a slot is durable. A log with this record next to slots that do not
    /// match it reveals a lost write (docs/safety.md §3.2). Skipped if the log is full at the
    /// moment: the record is only a witness, nothing depends on it.
    fn log_checkpoint(&self, sequence: u64) -> Result<()> {
        if let Some(reservation) = self.log().try_reserve(TRAILER_BYTES, LogUse::Rows) {
            self.log().fill(&reservation, &[&checkpoint_record(sequence)]);
        }
        Ok(())
    }

    /// Step 2 of a checkpoint: takes the page effects of the publishes up to `through`.
    fn take_effects(&self, through: VersionNumber) -> Result<()> {
        let mut changed: Vec<Arc<RunHandle>> = Vec::new();
        let mut ended = Vec::new();
        loop {
            let next = {
                let mut queue = self.effects.lock().unwrap();
                match queue.front() {
                    Some(next) if next.publish <= through => queue.pop_front(),
                    _ => None,
                }
            };
            let Some(Published { publish, effects, ended: dropped, ended_in }) = next else {
                break;
            };
            let begins = || self.checkpoint.begun().iter().any(|begun| begun.publish == through);
            if ended_in == through && !dropped.is_empty() && begins() {
                // A clone made in the same commit may hold the dropped tree's pages as of this very
                // version, so they may die in the next one at the earliest; and pages that are not
                // written yet are not in the space map.
                let (publish, effects) = (VersionNumber(publish.0 + 1), Vec::new());
                let later = Published { publish, effects, ended: dropped, ended_in };
                self.effects.lock().unwrap().push_front(later);
            } else {
                ended.extend(dropped);
            }
            let mut blobs = BlobChanges::default();
            for (lineage, effects) in effects {
                for Begun { pages, blobs: listed } in effects.begun {
                    pages.adopt()?;
                    blobs.gained.extend(listed.into_iter().map(|blob| (lineage, blob)));
                }
                for (run, extent) in &effects.early {
                    self.store.adopt(extent.extent().offset, run.birth, lineage)?;
                }
                for node in effects.dead_nodes {
                    if let Some(link) = node.link().filter(|link| link.lineage == lineage)
                        && !plant!("pipeline: replaced nodes never die")
                    {
                        self.store.die(link, lineage, publish)?;
                    }
                }
                let runs = effects.run_refs.into_iter();
                let mut runs: Vec<_> =
                    runs.filter(|(run, delta)| run.lineage == lineage && *delta != 0).collect();
                // Some runs are read: in file order, which is the same in every run of a seed.
                runs.sort_by_key(|(run, _)| run.link().map(|link| link.offset));
                for (run, delta) in runs {
                    let before = run.refs_durable();
                    let left = run.add_refs_durable(delta);
                    if run.meta.blobs {
                        // Read before the run's own extent is released below.
                        blobs.note(&self.cx, &run, lineage, (before, left))?;
                    }
                    match (left, run.link()) {
                        (0, Some(link)) => self.store.die(link, lineage, publish)?,
                        (_, Some(_)) => changed.push(run),
                        (_, None) => {}
                    }
                }
            }
            self.count_blobs(blobs, publish)?;
        }
        for run in changed {
            if let (Some(link), refs @ 1..) = (run.link(), run.refs_durable()) {
                self.store.set_run_refs(link, refs)?;
            }
        }
        // Last, because the pages of ended lineages may be freed at once, and nothing above may use
        // them after that.
        ended.into_iter().for_each(|lineage| self.store.end_lineage(lineage));
        self.store.end_some(through, self.limits.ended_extents());
        Ok(())
    }

    /// Counts which runs list which blobs. A blob may move from one run to another within a
    /// publish, so the runs that newly list blobs come first.
    fn count_blobs(&self, changes: BlobChanges, publish: VersionNumber) -> Result<()> {
        for (changed, listed) in [(changes.gained, true), (changes.lost, false)] {
            let skipped = match listed {
                true => plant!("blob: runs that list a blob are not counted"),
                false => plant!("blob: the last run does not release its blobs"),
            };
            if skipped {
                continue;
            }
            for (lineage, blob) in changed {
                self.store.count_blob(blob, lineage, listed, publish)?;
            }
        }
        Ok(())
    }

    fn write_node(&self, node: &NodeRef) -> Result<()> {
        if node.link().is_some() {
            return Ok(());
        }
        let content: Arc<Node> = node.load(&self.cx)?.clone();
        for run in content.run_refs() {
            self.write_run(run)?;
        }
        for child in &content.children {
            if let Child::Node(child) = child {
                self.write_node(child)?;
            }
        }
        let bytes = seal_node(&content, node.birth)?;
        let link = self.store.put_page(PageKind::Node, node.birth, node.lineage, &[&bytes])?;
        self.count_page(link.bytes);
        node.set_link(link);
        Ok(())
    }

    fn write_run(&self, handle: &Arc<RunHandle>) -> Result<()> {
        if handle.link().is_some() || handle.is_placeholder() {
            return Ok(());
        }
        let run = handle.resident().expect("a run without an address is in memory");
        let extent = self.store.allocate(&Request {
            class: Class::Run,
            kind: PageKind::Run,
            bytes: u64::from(run.extent_bytes()),
            birth: handle.birth,
            lineage: handle.lineage,
        })?;
        let file = self.store.file();
        let link = run.write(file, extent.offset, handle.birth, handle.lineage)?;
        run.set_written(file.clone(), link);
        self.count_page(link.bytes);
        self.store.set_run_refs(&link, handle.refs_durable())?;
        handle.set_link(link);
        self.cx.remember(handle);
        Ok(())
    }

    fn count_page(&self, bytes: u32) {
        self.checkpoint.pages_written.fetch_add(1, Ordering::Relaxed);
        self.checkpoint.bytes_written.fetch_add(u64::from(bytes), Ordering::Relaxed);
    }
}
