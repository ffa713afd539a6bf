//! Branches: clones and named snapshots. A clone starts as the state of its parent tree, and a
//! named snapshot keeps the state of all trees, as of one commit to the catalog. The sequencer
//! freezes the memtable at that commit, so that some version holds exactly the commits through it
//! (Rule: I35).
//!
//! A branch copies no page. Pages written before the branch stay in the lineage of the tree that
//! wrote them; the branch keeps them by a pin on that lineage, at the version in which it branched
//! off (Rule: I19).
//!
//! Invariants
//! 1. A version's branches are those of the catalog as of its boundary: catalog changes travel with
//!    the memtable that holds their commit, and take effect in the publish that applies it.
//! 2. For each lineage pin that an existing branch needs there is one open pin in the space map,
//!    made with the branch and closed with it.
//! 3. The version in which a branch begins is written as it is by a checkpoint of its own: a later
//!    checkpoint would not write pages that died in between.
//!
//! Threads: values; changes are made by the one root-changing job.

use std::collections::BTreeMap;

use crate::{
    Seqno, TreeId,
    blob::BlobHold,
    page::Link,
    store::{HeldPages, NamedSnapshot, SnapshotTrees, Space, TreeRoot as DurableRoot},
    sync::{Arc, Mutex, OnceLock},
    types::{Counts, Lineage, VersionNumber},
};

use super::{Roots, SpilledWrites};

/// A lineage and a version: the lineage's pages as of that version.
pub(crate) type Inherited = (Lineage, VersionNumber);

/// A change of the catalog, or rows outside the memtable, that the apply of its commit must take
/// into account.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// `tree` begins as a clone of `of`.
    Clone { tree: TreeId, of: TreeId },
    /// A tree begins with the pages that a bulk load has written.
    Load(Arc<Loaded>),
    /// A commit has rows that were spilled.
    Spill(Arc<SpilledWrites>),
    /// Runs with rows of a prepared transaction, which are invisible until it is committed: the log
    /// names them.
    Prepare(Arc<HeldPages>),
    /// A named snapshot of all trees begins.
    Snapshot(u32),
    /// The layout of a tree's values changes. The memtable ends here, so rows written in the new
    /// layout are only in versions that show it.
    Layout,
    /// A tree is dropped, with all its pages.
    DropTree(TreeId),
    /// A named snapshot is dropped.
    DropSnapshot(u32),
}

/// A tree that was loaded in bulk.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub tree: TreeId,
    /// The root, as in the log record.
    pub root: DurableRoot,
    /// The pages below it.
    pub pages: Arc<HeldPages>,
    /// The blobs that its leaves list, each in one row. Held until they are adopted.
    pub blobs: Vec<Arc<BlobHold>>,
    /// The empty tree that it replaces, and the counters with which it continues (Rule: I35).
    /// Replay reads both from the log record.
    pub instead_of: Option<(TreeId, Counts)>,
}

impl Change {
    /// True if its commit must be the last one of a memtable. For a new tree or snapshot: it starts
    /// from the state after that commit.
    pub fn ends_memtable(&self) -> bool {
        self.begins_branch() || matches!(self, Change::Load(_) | Change::Spill(_) | Change::Layout)
    }

    /// True if its commit must also be the first one of a memtable.
    pub fn begins_memtable(&self) -> bool {
        matches!(self, Change::Spill(_))
    }

    /// True if it frees pages and adds none.
    pub fn makes_room(&self) -> bool {
        matches!(self, Change::DropTree(_) | Change::DropSnapshot(_))
    }

    /// Rows that were spilled.
    pub fn spilled(&self) -> Option<&Arc<SpilledWrites>> {
        match self {
            Change::Spill(spilled) => Some(spilled),
            _ => None,
        }
    }

    /// True if a branch begins in the version that includes the change (invariant 3).
    pub fn begins_branch(&self) -> bool {
        matches!(self, Change::Clone { .. } | Change::Snapshot(_))
    }

    /// The tree that begins with pages of its own.
    pub fn loaded_tree(&self) -> Option<&Loaded> {
        match self {
            Change::Load(loaded) => Some(loaded),
            _ => None,
        }
    }

    /// The tree that the change drops.
    pub fn dropped_tree(&self) -> Option<TreeId> {
        match self {
            Change::DropTree(tree) => Some(*tree),
            _ => None,
        }
    }
}

/// Named snapshots, and what clones inherit. Versions share it until it changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branches {
    /// Lineages that trees inherit, oldest ancestor first; trees that inherit nothing are not
    /// listed.
    pub inherits: Arc<BTreeMap<TreeId, Vec<Inherited>>>,
    /// The version in which a bulk-loaded tree, or a clone of one, became reachable: its pages may
    /// be born before (Rule: I20).
    pub loaded: Arc<BTreeMap<TreeId, VersionNumber>>,
    /// Named snapshots by id.
    pub named: BTreeMap<u32, Arc<NamedVersion>>,
}

/// A named snapshot and its version.
#[derive(Debug)]
pub(crate) struct NamedVersion {
    pub id: u32,
    /// The last commit that it shows.
    pub seqno: Seqno,
    /// The version that it keeps.
    pub publish: VersionNumber,
    /// Lineage pins that keep its pages, if it was made by a version of Frond that pinned each
    /// tree; `None` if one pin of the whole version does.
    pins: Option<Vec<Inherited>>,
    /// The entry in the root directory; set once the checkpoint of its version is done.
    durable: OnceLock<NamedSnapshot>,
    /// The roots in memory, until then.
    fresh: Mutex<Option<Arc<Roots>>>,
}

/// Where the roots of a named snapshot are.
pub(crate) enum NamedRoots<'a> {
    Durable(&'a NamedSnapshot),
    Fresh(Arc<Roots>),
}

impl NamedVersion {
    /// A snapshot of the store as of version `publish`, which is about to be published. Pins
    /// nothing yet.
    pub fn fresh(id: u32, seqno: Seqno, publish: VersionNumber, roots: &Arc<Roots>) -> Self {
        let fresh = Mutex::new(Some(roots.clone()));
        Self { id, seqno, publish, pins: None, durable: OnceLock::new(), fresh }
    }

    /// A snapshot that the root directory lists; `None` if its id cannot have been assigned.
    pub fn load(listed: NamedSnapshot) -> Option<Self> {
        let id = u32::try_from(listed.id).ok()?;
        let (seqno, publish) = (listed.seqno, listed.publish);
        let pins = match &listed.trees {
            SnapshotTrees::Listed(trees) => {
                let pins = trees.iter().flat_map(|(tree, root)| {
                    root.inherits.iter().copied().chain([(tree.lineage(), publish)])
                });
                Some(pins.collect())
            }
            _ => None,
        };
        let durable = OnceLock::new();
        let _ = durable.set(listed);
        Some(Self { id, seqno, publish, pins, durable, fresh: Mutex::new(None) })
    }

    /// True once its roots are durable.
    pub fn is_durable(&self) -> bool {
        self.durable.get().is_some()
    }

    /// Records that the snapshot's version is durable and that this page table holds its roots;
    /// releases the roots in memory.
    pub fn set_durable(&self, trees: Option<Link>) {
        let trees = SnapshotTrees::Paged(trees);
        if self.durable.set(NamedSnapshot { trees, ..self.own() }).is_ok() {
            *self.fresh.lock().unwrap() = None;
        }
    }

    /// Where its roots are.
    pub fn roots(&self) -> NamedRoots<'_> {
        let fresh = self.fresh.lock().unwrap();
        match (self.durable.get(), &*fresh) {
            (Some(durable), _) => NamedRoots::Durable(durable),
            (None, Some(roots)) => NamedRoots::Fresh(roots.clone()),
            (None, None) => {
                unreachable!("roots in memory are released only after the durable entry is set")
            }
        }
    }

    fn own(&self) -> NamedSnapshot {
        let (seqno, publish) = (self.seqno, self.publish);
        NamedSnapshot { id: self.id.into(), seqno, publish, trees: SnapshotTrees::Own }
    }

    /// The entry in the root directory. If the version being written is its own, the entry refers
    /// to that (invariant 3).
    pub fn listed(&self, written: VersionNumber) -> NamedSnapshot {
        let durable = self.durable.get();
        assert!(durable.is_some() || written == self.publish, "branches/mod.rs invariant 3");
        durable.cloned().unwrap_or_else(|| self.own())
    }
}

impl Branches {
    /// Lineage pins that keep `tree` as it is in version `publish`.
    fn pins_of(&self, tree: TreeId, publish: VersionNumber) -> Vec<Inherited> {
        let mut pins = self.inherits.get(&tree).cloned().unwrap_or_default();
        if plant!("version: a clone of a clone forgets the first parent") {
            pins.clear();
        }
        pins.push((tree.lineage(), publish));
        pins
    }

    /// Makes `tree` begin in version `publish` as a clone of `of`.
    pub fn clone_tree(&mut self, space: &Space, tree: TreeId, of: TreeId, publish: VersionNumber) {
        let mut pins = self.pins_of(of, publish);
        if plant!("version: a clone keeps nothing of its parent") {
            pins.clear();
        }
        for &(lineage, at) in &pins {
            space.pin_lineage(lineage, at, publish);
        }
        Arc::make_mut(&mut self.inherits).insert(tree, pins);
        if let Some(&loaded) = self.loaded.get(&of) {
            Arc::make_mut(&mut self.loaded).insert(tree, loaded);
        }
    }

    /// Ends `tree`: it does not exist from version `until` on. Returns as [`close`] does.
    pub fn drop_tree(&mut self, space: &Space, tree: TreeId, until: VersionNumber) -> bool {
        if self.loaded.contains_key(&tree) {
            Arc::make_mut(&mut self.loaded).remove(&tree);
        }
        let mut pins = Vec::new();
        if self.inherits.contains_key(&tree) {
            pins = Arc::make_mut(&mut self.inherits).remove(&tree).unwrap_or_default();
        }
        if plant!("version: a dropped clone keeps its pins") {
            pins.clear();
        }
        close(space, &pins, until)
    }

    /// Adds a named snapshot, which begins in the version that is about to be published.
    pub fn add_snapshot(&mut self, space: &Space, snapshot: NamedVersion) {
        if !plant!("version: a name keeps nothing") {
            space.pin_named(snapshot.publish);
        }
        self.named.insert(snapshot.id, Arc::new(snapshot));
    }

    /// Ends a named snapshot: it does not exist from version `until` on. Returns as [`close`] does.
    pub fn drop_snapshot(&mut self, space: &Space, id: u32, until: VersionNumber) -> bool {
        let Some(snapshot) = self.named.remove(&id) else { return true };
        match &snapshot.pins {
            None => space.unpin_named(snapshot.publish, until),
            Some(pins) => close(space, pins, until),
        }
    }
}

/// Closes pins. False if the space map and the root directory contradict each other because a pin
/// was missing.
fn close(space: &Space, pins: &[Inherited], until: VersionNumber) -> bool {
    let closed = pins.iter().map(|&(lineage, at)| space.unpin_lineage(lineage, at, until));
    closed.fold(true, |all, closed| all & closed)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
