//! Versions: immutable states of the store that readers use, each with the roots of all trees and
//! the memtables on top of them.
//!
//! A [`Version`] is an immutable value: the root of every tree, the frozen memtables newest first,
//! and the active one. Readers take the current one without a lock and need nothing else.
//!
//! Invariants
//! 1. All roots of a version hold exactly the commits up to `applied` (Rule: I9), and its memtables
//!    exactly those above it, each an interval of seqnos (Rule: I2).
//! 2. `publish` grows with every change of roots, not with a freeze, and dates births and deaths.
//! 3. A version is registered as live before it can be read and until its last reader is gone, so
//!    that no page it links is reused (Rule: I18).
//! 4. Only versions that were given to snapshots link runs in temporary extents; no checkpoint
//!    writes such a version.
//! 5. Versions are swapped under one lock (`Versions::swap`); readers never take it.
//!
//! Threads: all.

mod branches;
#[cfg(all(test, shuttle))]
mod interleavings;
mod roots;
mod snapshots;
mod spilled;

pub(crate) use branches::{Branches, Change, Loaded, NamedRoots, NamedVersion};
pub(crate) use roots::{RootMarks, Roots};
pub(crate) use snapshots::{LiveSnapshot, Reader, SnapshotState, Snapshots};
pub(crate) use spilled::SpilledWrites;

use std::collections::BTreeMap;

use arc_swap::{ArcSwap, Guard};

use crate::{
    Seqno, TreeId,
    blob::BlobHold,
    cache::FramePool,
    memtable::Memtable,
    store::Store,
    sync::{Arc, AtomicU64, AtomicUsize, Mutex, OnceLock, Ordering},
    tree::SortedRuns,
    types::{Lsn, VersionNumber},
};

/// A memtable and the interval of commits that it holds.
#[derive(Debug)]
pub(crate) struct MemtableRef {
    pub table: Arc<Memtable>,
    /// Every commit in it is above this one.
    pub base: Seqno,
    /// The last commit; `u64::MAX` while the memtable is active.
    last: AtomicU64,
    /// Commits that were assigned to it and have not finished inserting.
    pub writers: AtomicUsize,
    /// Disk space reserved for its commits, bytes.
    pub admitted: AtomicU64,
    /// Length of the log from `log_from` through its last commit; during recovery, of the records
    /// alone.
    pub log_bytes: AtomicU64,
    /// Bytes of `blobs`.
    pub blob_bytes: AtomicU64,
    /// Blobs whose references a reader may find in it; held while the memtable exists (Rule: I11).
    blobs: Mutex<Vec<Arc<BlobHold>>>,
    /// The records of its commits are at or after this position of the log.
    log_from: AtomicU64,
    /// Catalog changes of its commits, in order.
    changes: Mutex<Vec<Change>>,
    /// Rows that its only commit has spilled.
    spilled: OnceLock<Arc<SpilledWrites>>,
    /// Changes of trees' row counts by its commits; `None` where one of the commits does not know
    /// its change.
    rows: Mutex<BTreeMap<TreeId, Option<i64>>>,
}

impl MemtableRef {
    pub fn new(table: Arc<Memtable>, base: Seqno, log_from: Lsn) -> Arc<Self> {
        Arc::new(Self {
            table,
            base,
            last: AtomicU64::new(u64::MAX),
            writers: AtomicUsize::new(0),
            admitted: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            blob_bytes: AtomicU64::new(0),
            blobs: Mutex::default(),
            log_from: AtomicU64::new(log_from.0),
            changes: Mutex::default(),
            spilled: OnceLock::new(),
            rows: Mutex::default(),
        })
    }

    /// The records of its commits are at or after this position of the log.
    pub fn log_from(&self) -> Lsn {
        Lsn(self.log_from.load(Ordering::Acquire))
    }

    /// Moves the log position of a memtable without commits along with the log. Called within the
    /// sequencer's section.
    pub fn begin_at(&self, position: Lsn) {
        // Release: a reader of this position sees what was committed before it in older memtables.
        self.log_from.store(position.0, Ordering::Release);
    }

    /// Records the catalog changes of one of its commits. Called before that commit is inserted, so
    /// before the memtable can be applied.
    pub fn note(&self, changes: &[Change]) {
        if let Some(spilled) = changes.iter().find_map(Change::spilled) {
            let first = self.spilled.set(spilled.clone());
            assert!(first.is_ok(), "I6: what was written beyond memory is alone in its memtable");
        }
        if !changes.is_empty() {
            self.changes.lock().unwrap().extend_from_slice(changes);
        }
    }

    /// Adds a commit's changes of row counts, as far as they are known. Called once per commit
    /// within the sequencer's section, so before the memtable can be frozen.
    pub fn count(&self, changed: impl IntoIterator<Item = (TreeId, Option<i64>)>) {
        let mut rows = self.rows.lock().unwrap();
        for (tree, more) in changed.into_iter().filter(|(tree, _)| *tree != TreeId(0)) {
            let sum = rows.entry(tree).or_insert(Some(0));
            *sum = sum.zip(more).and_then(|(sum, more)| sum.checked_add(more));
        }
    }

    /// Change of a tree's row count by its commits, if it is known for all of them.
    pub fn rows(&self, tree: TreeId) -> Option<i64> {
        self.rows.lock().unwrap().get(&tree).copied().unwrap_or(Some(0))
    }

    /// Catalog changes of its commits, in order.
    pub fn changes(&self) -> Vec<Change> {
        self.changes.lock().unwrap().clone()
    }

    /// Rows that its only commit has spilled, if it is such a commit.
    pub fn spilled(&self) -> Option<&Arc<SpilledWrites>> {
        self.spilled.get()
    }

    /// Pieces of one tree that its only commit has spilled, newest first; older than
    /// what is in the memtable. Empty for a reader at an earlier commit.
    pub fn spilled_at(&self, tree: TreeId, at: Seqno) -> &[Arc<SortedRuns>] {
        match self.spilled.get() {
            Some(spilled) if at > self.base => spilled.of(tree),
            _ => &[],
        }
    }

    /// Trees that its commits change, ascending.
    pub fn trees(&self) -> Vec<TreeId> {
        let mut trees = self.table.trees();
        if let Some(spilled) = self.spilled.get() {
            trees.extend(spilled.trees());
            trees.sort_unstable();
            trees.dedup();
        }
        trees
    }

    /// Number of messages in it.
    pub fn entries(&self) -> u64 {
        self.table.entries() as u64 + self.spilled.get().map_or(0, |spilled| spilled.entries())
    }

    /// The blobs that it holds.
    pub fn blobs(&self) -> Vec<Arc<BlobHold>> {
        self.blobs.lock().unwrap().clone()
    }

    /// Holds blobs while the memtable exists.
    pub fn keep_blobs(&self, blobs: &[Arc<BlobHold>]) {
        let bytes: u64 = blobs.iter().map(|blob| u64::from(blob.extent().bytes)).sum();
        self.blob_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.blobs.lock().unwrap().extend(blobs.iter().cloned());
    }

    /// Sets the last commit, which freezes the memtable. Only the sequencer calls this, inside its
    /// critical section.
    pub fn freeze(&self, last: Seqno) {
        self.last.store(last.0, Ordering::Release);
    }

    /// The last commit, once frozen.
    pub fn last(&self) -> Option<Seqno> {
        let last = self.last.load(Ordering::Acquire);
        (last != u64::MAX).then_some(Seqno(last))
    }
}

/// One consistent state of the store.
#[derive(Debug)]
pub(crate) struct Version {
    pub publish: VersionNumber,
    pub applied: Seqno,
    pub roots: Arc<Roots>,
    /// Named snapshots, and what clones inherit.
    pub branches: Arc<Branches>,
    /// Frozen memtables, newest first.
    pub frozen: Vec<Arc<MemtableRef>>,
    pub active: Arc<MemtableRef>,
    /// Temporary extents of spilled runs that its roots link; empty in all other versions.
    _spilled: Vec<Arc<TemporaryExtent>>,
    _pin: Pin,
}

/// An extent that no durable version links; freed when dropped.
#[derive(Debug)]
pub(crate) struct TemporaryExtent {
    offset: u64,
    store: Arc<Store>,
}

impl TemporaryExtent {
    /// Takes ownership of what [`Store::allocate_temporary`] returned.
    pub fn new(offset: u64, store: Arc<Store>) -> Self {
        Self { offset, store }
    }
}

impl Drop for TemporaryExtent {
    fn drop(&mut self) {
        // Refused only if the space map does not know the extent; after a restart it is free
        // anyway.
        let given_back = self.store.abandon(self.offset);
        debug_assert!(given_back.is_ok(), "a temporary extent is abandoned once: {given_back:?}");
    }
}

impl Version {
    /// Memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<MemtableRef>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }
}

/// The current version, and its replacement by newer ones.
#[derive(Debug)]
pub(crate) struct Versions {
    current: ArcSwap<Version>,
    swap: Mutex<()>,
    store: Arc<Store>,
}

/// A pin on one version's pages for as long as the version exists.
#[derive(Debug)]
struct Pin {
    publish: VersionNumber,
    store: Arc<Store>,
}

impl Pin {
    fn new(publish: VersionNumber, store: &Arc<Store>) -> Self {
        store.space().pin_version(publish);
        Self { publish, store: store.clone() }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.store.space().unpin_version(self.publish);
    }
}

impl Versions {
    pub fn new(
        store: Arc<Store>,
        publish: VersionNumber,
        applied: Seqno,
        (roots, branches): (Roots, Branches),
        active: Arc<MemtableRef>,
    ) -> Self {
        let version = Version {
            publish,
            applied,
            roots: Arc::new(roots),
            branches: Arc::new(branches),
            frozen: Vec::new(),
            active,
            _spilled: Vec::new(),
            _pin: Pin::new(publish, &store),
        };
        Self { current: ArcSwap::from_pointee(version), swap: Mutex::new(()), store }
    }

    /// The current version, for the length of one call.
    pub fn current(&self) -> Guard<Arc<Version>> {
        self.current.load()
    }

    /// The current version, to keep.
    pub fn hold(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// Bytes of the memtables that exist at one moment. A sum over a version that was replaced
    /// meanwhile could count a memtable that is gone together with one that reuses its memory.
    pub fn memtables_bytes(&self) -> u64 {
        loop {
            let version = self.current.load();
            let bytes = version.memtables().map(|slot| slot.table.bytes() as u64).sum();
            if Arc::ptr_eq(&version, &self.current.load()) {
                return bytes;
            }
        }
    }

    /// Adds a new active memtable in front of the others. Called inside the sequencer's critical
    /// section, before any commit can go to the new one.
    pub fn freeze(&self, active: Arc<MemtableRef>) {
        let _swap = self.swap.lock().unwrap();
        let old = self.current.load_full();
        let mut frozen = Vec::with_capacity(old.frozen.len() + 1);
        frozen.push(old.active.clone());
        frozen.extend(old.frozen.iter().cloned());
        self.current.store(Arc::new(Version {
            publish: old.publish,
            applied: old.applied,
            roots: old.roots.clone(),
            branches: old.branches.clone(),
            frozen,
            active,
            _spilled: Vec::new(),
            _pin: Pin::new(old.publish, &self.store),
        }));
    }

    /// `old` with one memtable in front: what is kept for a snapshot whose seqno lies in that
    /// memtable.
    fn with_memtable(&self, old: &Version, slot: &Arc<MemtableRef>) -> Arc<Version> {
        let late = plant!("version: a snapshot pins the version after its own");
        let at = if late { VersionNumber(old.publish.0 + 1) } else { old.publish };
        Arc::new(Version {
            publish: old.publish,
            applied: old.applied,
            roots: old.roots.clone(),
            branches: old.branches.clone(),
            frozen: Vec::new(),
            active: slot.clone(),
            _spilled: Vec::new(),
            _pin: Pin::new(at, &self.store),
        })
    }

    /// An empty memtable in place of `slot`, for a snapshot that must see none of its commits.
    fn nothing_above(&self, slot: &MemtableRef) -> Arc<MemtableRef> {
        let table = Arc::new(slot.table.another());
        MemtableRef::new(table, slot.base, slot.log_from())
    }

    /// Publishes changed roots. If `applied` is given, it is the oldest frozen memtable, whose
    /// commits are in the roots now: it is removed from the list in the same swap (Rule: I9).
    pub fn publish(
        &self,
        publish: VersionNumber,
        roots: Arc<Roots>,
        branches: Arc<Branches>,
        applied: Option<&Arc<MemtableRef>>,
    ) -> Arc<Version> {
        let _swap = self.swap.lock().unwrap();
        let old = self.current.load_full();
        assert!(publish > old.publish, "version invariant 2");
        let mut frozen = old.frozen.clone();
        let mut boundary = old.applied;
        if let Some(slot) = applied {
            let oldest = frozen.pop().expect("an applied memtable was frozen");
            assert!(Arc::ptr_eq(&oldest, slot), "memtables are applied oldest first");
            boundary = slot.last().expect("an applied memtable was frozen");
        }
        let version = Arc::new(Version {
            publish,
            applied: boundary,
            roots,
            branches,
            frozen,
            active: old.active.clone(),
            _spilled: Vec::new(),
            _pin: Pin::new(publish, &self.store),
        });
        self.current.store(version.clone());
        version
    }

    /// What a snapshot at `at` reads instead of `old` and its memtable: roots with the memtable's
    /// commits through `at` in front of those of `old`, whose pages stay pinned.
    pub fn spilled(
        &self,
        old: &Version,
        at: Seqno,
        roots: Arc<Roots>,
        extents: Vec<Arc<TemporaryExtent>>,
        pool: &Arc<FramePool>,
    ) -> Arc<Version> {
        let empty = Arc::new(Memtable::new(pool.clone()));
        Arc::new(Version {
            publish: old.publish,
            applied: at,
            roots,
            branches: old.branches.clone(),
            frozen: Vec::new(),
            active: MemtableRef::new(empty, at, old.active.log_from()),
            _spilled: extents,
            _pin: Pin::new(old.publish, &self.store),
        })
    }

    /// A version to read a named snapshot from. Its pin outlives the snapshot's name.
    pub fn named(&self, named: &NamedVersion, roots: Arc<Roots>, pool: &Arc<FramePool>) -> Version {
        let empty = Arc::new(Memtable::new(pool.clone()));
        Version {
            publish: named.publish,
            applied: named.seqno,
            roots,
            branches: Arc::default(),
            frozen: Vec::new(),
            active: MemtableRef::new(empty, named.seqno, Lsn(0)),
            _spilled: Vec::new(),
            _pin: Pin::new(named.publish, &self.store),
        }
    }
}
