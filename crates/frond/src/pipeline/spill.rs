//! Spill: writes the memtable that a long-lived snapshot keeps to disk (Rule: I28).
//!
//! A snapshot reads the current version until the memtable that its seqno lies in is applied. That
//! publish gives the snapshot the previous version and that memtable. Most snapshots are gone a
//! moment later. For those that are not, the memtable's commits up to the snapshot are written as
//! one run per tree, in front of the roots of that version. Of several snapshots in one memtable,
//! each adds the commits between the previous one and itself.
//!
//! Invariants
//! 1. Only a version that a checkpoint has written is spilled, so that no checkpoint ever meets the
//!    roots made here.
//! 2. Extents of spills are temporary: the log and the slots do not know them, the last snapshot
//!    that reads them frees them, and after a restart they are free because there are no snapshots.
//! 3. The snapshots' versions hold the memtable's blobs as the memtable did, and also those that
//!    the runs made here list.
//! 4. A full disk fails neither the store nor the snapshot: the memtable stays until there is
//!    space.
//!
//! Threads: the checkpointer, or the caller of `step`. Cost: the memtable's bytes are written once;
//! memory for one tree's part of it while that is built.

use crate::{
    Error, Result, Seqno, SizeClass, TreeId,
    memtable::LATEST,
    page::PageKind,
    store::{Class, Request},
    sync::{Arc, AtomicU64, Ordering},
    tree::{Front, Job, RunHandle, TreeTraits},
    types::VersionNumber,
    version::{TemporaryExtent, Version},
};

use super::Engine;
use std::collections::BTreeMap;

/// How long to wait after a full disk or damage, milliseconds.
const PAUSE_MILLIS: u64 = 1000;

/// Snapshots of one memtable that one pass serves. Each costs a walk over the memtable and adds a
/// run that later snapshots must look into.
const READERS_MAX: usize = 16;

/// State and counters of spills.
#[derive(Debug, Default)]
pub(crate) struct SpillState {
    /// Clock before which no spill is tried, milliseconds.
    not_before_millis: AtomicU64,
    pub count: AtomicU64,
    pub bytes_written: AtomicU64,
}

impl Engine {
    /// Spills the memtables of snapshots that have outlasted a checkpoint and a publish. False if
    /// there was nothing to do.
    pub(crate) fn spill_pinned(&self) -> Result<bool> {
        if self.now_millis() < self.spill.not_before_millis.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let written = self.checkpoint.written();
        let current = self.versions.current().publish;
        let mut any = false;
        for (version, readers) in self.snapshots.unspilled() {
            let lasts = VersionNumber(version.publish.0 + 1) < current;
            if version.publish > written || !lasts {
                continue;
            }
            match self.spill_version(&version, &readers) {
                Ok(()) => any = true,
                Err(Error::Full(_)) => {
                    self.pause_spills();
                    break;
                }
                // A page that it read is damaged. The snapshot continues from memory, and so does
                // the store, which may no longer link that page.
                Err(error) if error.concerns_a_page() => {
                    self.pause_spills();
                    break;
                }
                Err(error) => return self.health.watch(Err(error)),
            }
        }
        Ok(any)
    }

    fn pause_spills(&self) {
        let later = self.now_millis() + PAUSE_MILLIS;
        self.spill.not_before_millis.store(later, Ordering::Relaxed);
    }

    fn spill_version(&self, version: &Arc<Version>, readers: &[Seqno]) -> Result<()> {
        let slot = &version.active;
        let mut roots = version.roots.clone();
        let mut fronts: BTreeMap<TreeId, Front> = BTreeMap::new();
        let mut extents = Vec::new();
        let mut blobs = slot.blobs();
        let mut above = slot.base;
        for &at in readers.iter().take(READERS_MAX) {
            for tree in slot.table.trees() {
                let late = plant!("pipeline: a spill takes later commits, too");
                let interval = (above, if late { LATEST } else { at });
                let below = roots.get(&tree).cloned().unwrap_or_default();
                let batch = super::batch::batch_of(&slot.table, tree, interval, &self.cx, &below)?;
                let Some(batch) = batch else { continue };
                let front = fronts
                    .entry(tree)
                    .or_insert_with(|| Front::of(&below, tree.lineage(), version.publish));
                // Only leaves differ by class, and no leaf is built here.
                let lineage = tree.lineage();
                let class = SizeClass::Default;
                let traits = TreeTraits { lineage, class, leaf_filters: false, schema: None };
                let progress = AtomicU64::new(0);
                let mut job = Job::new(&self.cx, traits, version.publish, 0, &progress);
                job.writes_early = false;
                let runs = job.put_in_front(front, batch)?;
                job.flush_ticks();
                let root = front.root();
                blobs.append(&mut job.effects.blobs);
                for run in &runs {
                    extents.push(self.write_temporary(run)?);
                }
                Arc::make_mut(&mut roots).insert(tree, Arc::new(root));
            }
            let (roots, mut extents) = (roots.clone(), extents.clone());
            if plant!("pipeline: a spill's space is given back at once") {
                extents.clear();
            }
            if plant!("pipeline: a spill releases long values") {
                blobs.clear();
            }
            let spilled = self.versions.spilled(version, at, roots, extents, &self.cx.pool);
            spilled.active.keep_blobs(&blobs);
            self.snapshots.move_over(at, version, spilled);
            above = at;
        }
        self.spill.count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write_temporary(&self, handle: &RunHandle) -> Result<Arc<TemporaryExtent>> {
        let run = handle.resident().expect("a run without an address is in memory");
        // Admitted as a commit's space is, so that spills do not use the reserve (Rule: I24). Twice
        // what is admitted is set aside.
        let bytes = u64::from(run.extent_bytes());
        let admitted = bytes.div_ceil(2);
        self.store.admit(admitted)?;
        let extent = self.store.allocate_temporary(&Request {
            class: Class::Run,
            kind: PageKind::Run,
            bytes,
            birth: handle.birth,
            lineage: handle.lineage,
        });
        self.store.release_admitted(admitted);
        let extent = extent?;
        let held = Arc::new(TemporaryExtent::new(extent.offset, self.store.clone()));
        let file = self.store.file();
        let link = run.write(file, extent.offset, handle.birth, handle.lineage)?;
        run.set_written(file.clone(), link);
        handle.set_link(link);
        self.spill.bytes_written.fetch_add(u64::from(link.bytes), Ordering::Relaxed);
        Ok(held)
    }
}
