//! Apply: moves the oldest frozen memtable into the trees and publishes the new roots.

use crate::{
    Error, Result, Seqno, TreeId,
    blob::BlobRef,
    memtable::LATEST,
    run::Run,
    sync::{Arc, AtomicU64, Ordering},
    tree::{Begun, Effects, Job, TreeContext, TreeRoot, TreeTraits},
    types::{Lineage, VersionNumber},
    version::{Branches, Change, MemtableRef, NamedVersion, Roots},
};

use super::{Engine, Published};

/// Pending bytes at which a leaf of row blocks is flushed, in 1/16 of the leaf's encoded bytes.
/// Rewriting such a leaf is the most expensive step there is, because it passes through a general
/// codec. The runs that wait have no such codec and take about twice the bytes per entry, so 1.5
/// times the leaf's bytes when it is due means that at most three quarters of a leaf's entries
/// wait. Idle draining does the rest. See docs/design/005.
pub(super) const LEAF_FILL_ROW: u64 = 24;
/// Pending bytes at which a leaf of columnar blocks is flushed, in 1/16 of its encoded bytes: runs
/// take little more per entry than leaves do.
pub(super) const LEAF_FILL_COLUMNAR: u64 = 12;

type TreeOutcome = Result<(TreeId, TreeRoot, Lineage, Effects)>;

impl Engine {
    /// Applies the oldest frozen memtable; false if there is none.
    pub(crate) fn apply_oldest(&self) -> Result<bool> {
        let mut jobs = self.roots.lock().unwrap();
        let version = self.versions.hold();
        let Some(slot) = version.frozen.last().cloned() else { return Ok(false) };
        let last = slot.last().expect("frozen memtables have an end");
        if !plant!("pipeline: a memtable is applied before its commits are in it") {
            self.wait_visible(last);
            while slot.writers.load(Ordering::Acquire) > 0 {
                crate::sync::thread::yield_now();
            }
        }
        let entries = slot.entries();
        self.admission.progress.store(0, Ordering::Relaxed);
        let per_entry = jobs.work_per_entry.max(256);
        self.admission
            .progress_expected
            .store((entries * per_entry / 256).max(1), Ordering::Relaxed);

        let publish = VersionNumber(version.publish.0 + 1);
        let changes = slot.changes();
        let is_cloned = |tree| {
            changes.iter().any(|change| matches!(change, Change::Clone { of, .. } if *of == tree))
        };
        let is_dropped = |tree| changes.iter().any(|change| change.dropped_tree() == Some(tree));
        // A clone of a dropped tree has its last rows, so those are applied.
        let dropped = |tree| is_dropped(tree) && !is_cloned(tree);
        let mut roots = version.roots.clone();
        let mut effects = Vec::new();
        let mut tasks: Vec<Box<dyn FnOnce() -> TreeOutcome + Send>> = Vec::new();
        let progress = self.admission.progress.clone();
        for tree in slot.trees().into_iter().filter(|&tree| !dropped(tree)) {
            let Some(traits) = self.trees.traits(tree) else { continue };
            let old = roots.get(&tree).cloned().unwrap_or_default();
            let (cx, slot, progress) = (self.cx.clone(), slot.clone(), progress.clone());
            let is_frugal = self.admission.full.is_replay();
            tasks.push(Box::new(move || {
                let mut job = apply_job(&cx, traits, publish, &progress);
                job.is_frugal = is_frugal;
                let applied = apply_tree(job, &cx, &slot, tree, &old);
                applied.map(|(tree, mut root, lineage, effects)| {
                    root.count(&old, slot.rows(tree));
                    (tree, root, lineage, effects)
                })
            }));
        }
        for outcome in self.pool.run(tasks) {
            let (tree, root, lineage, changed) = outcome?;
            Arc::make_mut(&mut roots).insert(tree, Arc::new(root));
            effects.push((lineage, changed));
        }
        let branches = self.follow(&changes, &version.branches, &mut roots, publish, last)?;
        for loaded in changes.iter().filter_map(Change::loaded_tree) {
            let blobs = loaded.blobs.iter().map(|blob| blob.extent()).collect();
            let begun = Begun { pages: loaded.pages.clone(), blobs };
            let effects_of_load = Effects { begun: vec![begun], ..Effects::default() };
            effects.push((loaded.tree.lineage(), effects_of_load));
        }
        let ended = changes.iter().filter_map(Change::dropped_tree).map(TreeId::lineage).collect();
        self.record(publish, effects, ended)?;
        let publishing = self.snapshots.publishing();
        publishing.pin_below(&self.versions.hold(), &slot, &self.versions);
        // Held over the swap, so that no checkpoint fixes a later version before it has seen this
        // one.
        let mut begun = self.checkpoint.begun();
        let published = self.versions.publish(publish, roots, branches, Some(&slot));
        if changes.iter().any(Change::begins_branch) {
            begun.push_back(published);
        }
        // Before a checkpoint can fix that version; otherwise it would list dropped trees that have
        // handed out counter values as if they existed.
        changes.iter().filter_map(Change::dropped_tree).for_each(|tree| self.trees.forget(tree));
        drop(begun);
        drop(publishing);
        let admitted = slot.admitted.load(Ordering::Relaxed);
        self.checkpoint.applied_to(last, admitted);
        let done = self.admission.progress.load(Ordering::Relaxed);
        if let Some(now) = (done * 256).checked_div(entries) {
            jobs.work_per_entry =
                if jobs.work_per_entry == 0 { now } else { (jobs.work_per_entry * 3 + now) / 4 };
        }
        self.admission.progress_expected.store(0, Ordering::Relaxed);
        self.signal.notify();
        Ok(true)
    }

    /// Records what a publish did to pages, before it is visible. Blobs that its runs are the first
    /// to list are born with it; everything else that the jobs wrote and dropped again is free.
    pub(super) fn record(
        &self,
        publish: VersionNumber,
        mut effects: Vec<(Lineage, Effects)>,
        ended: Vec<Lineage>,
    ) -> Result<()> {
        for (lineage, effects) in &mut effects {
            effects.sum_up();
            let own = effects.run_refs.iter().filter(|(run, _)| run.lineage == *lineage);
            for (run, delta) in own {
                let was_linked = run.refs() > 0;
                if run.add_refs(*delta) > 0 && !was_linked && run.meta.blobs {
                    self.adopt_blobs(&*run.glance(&self.cx)?, publish, *lineage)?;
                }
            }
            for &blob in effects.begun.iter().flat_map(|begun| &begun.blobs) {
                self.store.adopt_blob(blob, publish, *lineage)?;
            }
            effects.blobs.clear();
            // Runs that a job both wrote and dropped give their space back.
            effects.early.retain(|(run, _)| run.refs() > 0);
            effects.early.iter().for_each(|(run, _)| self.cx.remember(run));
        }
        self.effects.lock().unwrap().push_back(Published {
            publish,
            effects,
            ended,
            ended_in: publish,
        });
        Ok(())
    }

    fn adopt_blobs(&self, run: &Run, publish: VersionNumber, lineage: Lineage) -> Result<()> {
        for listed in run.blobs() {
            let reference = BlobRef::read(self.store.file(), &listed.reference)?;
            self.store.adopt_blob(reference.extent(), publish, lineage)?;
        }
        Ok(())
    }

    /// Applies a memtable's catalog changes to roots and branches, as of version `publish`, which
    /// holds the commits through `last`.
    fn follow(
        &self,
        changes: &[Change],
        old: &Arc<Branches>,
        roots: &mut Arc<Roots>,
        publish: VersionNumber,
        last: Seqno,
    ) -> Result<Arc<Branches>> {
        if changes.is_empty() {
            return Ok(old.clone());
        }
        let mut branches = (**old).clone();
        let space = self.store.space();
        let mut consistent = true;
        // A tree that is dropped in the same commit that clones it was there to be cloned,
        // whichever of the two changes replay finds first.
        let (clones, others): (Vec<_>, Vec<_>) =
            changes.iter().partition(|change| matches!(change, Change::Clone { .. }));
        for change in clones.into_iter().chain(others) {
            match change {
                Change::Clone { tree, of } => {
                    self.trees.begins(*tree, *of, last);
                    if let Some(root) = roots.get(of).cloned() {
                        Arc::make_mut(roots).insert(*tree, root);
                        branches.clone_tree(space, *tree, *of, publish);
                    }
                }
                Change::Load(loaded) => {
                    if let Some((of, _)) = loaded.instead_of {
                        self.trees.begins(loaded.tree, of, last);
                    }
                    let root = TreeRoot::load(&self.cx, loaded.root.clone());
                    Arc::make_mut(roots).insert(loaded.tree, Arc::new(root));
                    Arc::make_mut(&mut branches.loaded).insert(loaded.tree, publish);
                }
                // A spill or prepare is applied as the rows of a memtable are.
                Change::Spill(_) | Change::Prepare(_) | Change::Layout => {}
                Change::Snapshot(id) => {
                    let snapshot = NamedVersion::fresh(*id, last, publish, roots);
                    branches.add_snapshot(space, snapshot);
                }
                Change::DropTree(tree) => {
                    Arc::make_mut(roots).remove(tree);
                    consistent &= branches.drop_tree(space, *tree, publish);
                }
                Change::DropSnapshot(id) => {
                    consistent &= branches.drop_snapshot(space, *id, publish);
                }
            }
        }
        if consistent {
            return Ok(Arc::new(branches));
        }
        let why = "it has no pin for a branch that the root directory lists";
        let place = self.store.file().place(0, 0);
        Err(Error::Malformed { place, what: "the space map", why: why.into() })
    }

    /// Drains buffers towards the leaves when there is no other work: one tree, one bounded piece
    /// of work. False if every buffer is empty.
    pub(crate) fn drain_some(&self) -> Result<bool> {
        let alone = !plant!("pipeline: a drain concurrent with an apply");
        let _jobs = alone.then(|| self.roots.lock().unwrap());
        let version = self.versions.hold();
        let publish = VersionNumber(version.publish.0 + 1);
        for (&tree, root) in version.roots.nodes() {
            let Some(traits) = self.trees.traits(tree) else { continue };
            let lineage = traits.lineage;
            let mut job = Job::new(&self.cx, traits, publish, 0, &self.admission.progress);
            let Some(drained) = job.drain(root)? else { continue };
            job.flush_ticks();
            let mut roots = version.roots.clone();
            Arc::make_mut(&mut roots).insert(tree, Arc::new(drained));
            let effects = std::mem::take(&mut job.effects);
            self.record(publish, vec![(lineage, effects)], Vec::new())?;
            self.versions.publish(publish, roots, version.branches.clone(), None);
            self.signal.notify();
            return Ok(true);
        }
        Ok(false)
    }
}

fn apply_job<'a>(
    cx: &'a TreeContext,
    traits: TreeTraits,
    publish: VersionNumber,
    progress: &'a AtomicU64,
) -> Job<'a> {
    let fill = if traits.schema.is_some() { LEAF_FILL_COLUMNAR } else { LEAF_FILL_ROW };
    Job::new(cx, traits, publish, fill, progress)
}

fn apply_tree(
    mut job: Job<'_>,
    cx: &Arc<TreeContext>,
    slot: &MemtableRef,
    tree: TreeId,
    old: &TreeRoot,
) -> TreeOutcome {
    let lineage = job.traits.lineage;
    let all = (slot.base, slot.last().unwrap_or(LATEST));
    let root = apply_commits(&mut job, cx, (slot, tree), old, all)?;
    job.flush_ticks();
    Ok((tree, root, lineage, std::mem::take(&mut job.effects)))
}

/// Applies the commits above `above` up to `through`. If they cannot be folded, because one of them
/// merges with another one's long value that cannot be read, they are split into two batches, and
/// so on recursively. The two messages are then in two runs, and only readers of that key find the
/// damage (P10). A frugal job (replay) also splits them when there is no space for the folded
/// value; a single commit is then split into what it spilled and what it did not.
fn apply_commits(
    job: &mut Job<'_>,
    cx: &Arc<TreeContext>,
    (slot, tree): (&MemtableRef, TreeId),
    old: &TreeRoot,
    (above, through): (Seqno, Seqno),
) -> Result<TreeRoot> {
    let batch = || super::batch::batch_of_slot(slot, tree, (above, through), cx, old);
    let before = job.effects.mark();
    let is_no_space = |error: &Error| {
        error.is_no_space()
            && !plant!("pipeline: a replay needs room for what a long value becomes")
    };
    match job.apply(old, &batch) {
        Err(error) if job.is_frugal && is_no_space(&error) && through.0 <= above.0 + 1 => {
            job.effects.rewind(before);
            let parts = super::batch::parts_of_slot(slot, tree);
            // The oldest first.
            (0..parts).rev().try_fold(old.clone(), |root, part| {
                let newest_first = plant!("pipeline: parts of a commit change places");
                let part = if newest_first { parts - 1 - part } else { part };
                let commits = (above, through);
                job.apply(&root, &|| super::batch::part_of_slot(slot, tree, commits, cx, part))
            })
        }
        Err(error)
            if (error.concerns_a_page() || job.is_frugal && is_no_space(&error))
                && through.0 > above.0 + 1 =>
        {
            job.effects.rewind(before);
            let middle = Seqno(above.0 + (through.0 - above.0) / 2);
            let older = apply_commits(job, cx, (slot, tree), old, (above, middle))?;
            apply_commits(job, cx, (slot, tree), &older, (middle, through))
        }
        done => done,
    }
}
