//! The catalog in memory: the existing trees, by name and by id.
//!
//! It mirrors tree 0, whose entries are authoritative: a change is committed there and synced
//! first, then *shown* here, that is, made visible to lookups. Callers serialise changes with
//! [`Catalog::change`]; lookups take a read lock and happen once per opened handle, never per
//! operation.
//!
//! A tree's lifetime is an interval of seqnos from its birth to its end, each the seqno of a commit
//! (Rule: I43). The end is marked within the sequencer's section, not when the change is shown:
//! between the two, the commit is visible and may be applied, after which the version has no root
//! for the tree.
//!
//! Threads: all.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::RangeInclusive,
};

use super::{
    counters::{CountedTrees, Counters},
    queue::QueueSlot,
    record::{CounterRecord, SnapshotRecord, TreeRecord},
    table::StoredTable,
};
use crate::{
    Error, Result, Seqno, SizeClass, TreeId,
    message::Kind,
    pipeline::TreeDirectory,
    run::{RowSchema, Work, WorkByTree},
    sync::{Arc, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, RwLock, Weak},
    tree::{SortedRuns, TreeRoot, TreeTraits},
    txn::{EmptyRanges, TreeWriters, WriteSet},
    types::{Counts, Lineage},
};

/// The tree that holds the catalog itself.
pub(crate) const CATALOG_TREE: TreeId = TreeId(0);

/// One tree, shared by its handles.
#[derive(Debug)]
pub(crate) struct TreeEntry {
    pub id: TreeId,
    pub lineage: Lineage,
    pub class: SizeClass,
    pub unique: bool,
    /// The commit that created the tree; never changed, whereas its birth may be moved later.
    made: Seqno,
    birth: AtomicU64,
    pub empty_ranges: EmptyRanges,
    /// Transactions that have written it and have not ended.
    pub writers: TreeWriters,
    /// The queue of changed keys, for writers of the tree while indexes of it are built.
    pub queue: QueueSlot,
    /// The schema of its rows; replaced when the layout of its values changes.
    schema: RwLock<Option<Arc<RowSchema>>>,
    /// Counters of the work on its runs.
    pub work: Arc<Work>,
    pub counters: Counters,
    record: Mutex<TreeRecord>,
    /// The tree of rows of the table to which it belongs; 0 if it belongs to none. Set before any
    /// handle of the tree can be opened.
    table: AtomicU32,
    /// The commit that drops it; [`NO_END`] until then.
    end: AtomicU64,
}

/// The end of a tree that is not dropped.
const NO_END: u64 = u64::MAX;

/// Number of dropped trees whose ends and names are remembered. 4096 names of about 20 bytes: below
/// 1 MiB.
const ENDED_MAX: usize = 4096;

/// What modules above keep about trees, by tree.
pub(crate) type Kept = Mutex<HashMap<TreeId, Arc<KeptPlace>>>;

/// What modules above keep about one tree, while it is in use.
pub(crate) type KeptPlace = Mutex<Option<Weak<dyn Any + Send + Sync>>>;

/// Bytes of a tree's metadata: its entry and its work, their places in maps by name, number and
/// lineage, two copies of a name of about 20 bytes, its root, and what the allocator adds.
/// Measured: tests/many_trees.rs.
const TREE_BYTES: u64 =
    (size_of::<TreeEntry>() + size_of::<Work>() + size_of::<TreeRoot>() + 352) as u64;

/// The trees and named snapshots of a store.
#[derive(Debug)]
pub(crate) struct Catalog {
    state: RwLock<State>,
    change: Mutex<()>,
    pub kept: Kept,
    /// Trees of builds in progress; other trees that look like that are leftovers.
    pub building: Mutex<BTreeSet<TreeId>>,
    /// Number of trees that have a queue: while it is 0, writers do not look for one.
    pub queues: AtomicUsize,
    /// Trees whose counters, or existence, the next checkpoint must write.
    counted: Arc<CountedTrees>,
    /// Counters of the work on the runs of all trees.
    pub work: Arc<WorkByTree>,
    /// Counters of the work on the runs of tree 0.
    pub own_work: Arc<Work>,
}

#[derive(Debug, Default)]
struct State {
    by_name: BTreeMap<String, Arc<TreeEntry>>,
    by_id: HashMap<TreeId, Arc<TreeEntry>>,
    /// For each tree that belongs to a table, the tree of the rows.
    tables: HashMap<TreeId, TreeId>,
    /// Dropped, but still among the roots: memtables older than the drop are still to be applied.
    leaving: HashMap<TreeId, Arc<TreeEntry>>,
    /// No longer among the roots, but not yet hidden by the thread that drops them.
    gone: BTreeSet<TreeId>,
    /// Already among the roots, but not yet shown by the thread that clones or fills them: the tree
    /// that they clone or replace, and the commit since which they exist.
    begun: BTreeMap<TreeId, (TreeId, Seqno)>,
    /// The most recent of the trees that were dropped since the store was opened.
    ended: BTreeMap<TreeId, Ended>,
    /// Their ids, in the order in which they were dropped.
    ended_in_order: VecDeque<TreeId>,
    snapshots: BTreeMap<String, SnapshotRecord>,
    counters: CounterRecord,
    /// Names of trees that are in tree 0 but cannot be read before the next opening.
    reserved: BTreeSet<String>,
}

/// What is remembered about a dropped tree.
#[derive(Debug)]
struct Ended {
    /// The commit that dropped it.
    end: Seqno,
    /// The name at that time.
    name: String,
}

impl TreeEntry {
    fn new(record: TreeRecord, work: &WorkByTree, counted: &Arc<CountedTrees>) -> Arc<Self> {
        let work = work.of(record.lineage);
        Arc::new(Self {
            id: record.id,
            lineage: record.lineage,
            class: record.size_class,
            unique: record.unique,
            made: record.birth,
            birth: AtomicU64::new(record.birth.0),
            empty_ranges: EmptyRanges::default(),
            writers: TreeWriters::default(),
            queue: QueueSlot::default(),
            schema: RwLock::new(record.schema(&work)),
            work,
            counters: Counters::new(record.id, counted.clone()),
            record: Mutex::new(record),
            table: AtomicU32::new(0),
            end: AtomicU64::new(NO_END),
        })
    }

    /// The current schema of its rows; `None` if it has row blocks.
    pub fn schema(&self) -> Option<Arc<RowSchema>> {
        self.schema.read().unwrap().clone()
    }

    /// The newest version that one of its rows can name, if rows name a version.
    pub fn row_version(&self) -> Option<u16> {
        let schema = self.schema.read().unwrap();
        schema.as_ref()?.versions().map(|versions| versions.newest())
    }

    /// The commit with which it begins: a reader at an older one must not read it (Rule: I43).
    pub fn birth(&self) -> Seqno {
        // What the tree contains at its birth was committed before, so the reader already sees it.
        Seqno(self.birth.load(Ordering::Acquire))
    }

    pub fn name(&self) -> String {
        self.record.lock().unwrap().name.clone()
    }

    pub fn record(&self) -> TreeRecord {
        self.record.lock().unwrap().clone()
    }

    /// The tree of rows of the table to which the tree belongs, as that tree or as an index.
    #[inline]
    pub fn table(&self) -> Option<TreeId> {
        match self.table.load(Ordering::Relaxed) {
            0 => None,
            rows => Some(TreeId(rows)),
        }
    }

    /// True if these are its attributes.
    pub fn is_marked(&self, attributes: &[u8]) -> bool {
        self.record.lock().unwrap().attributes == attributes
    }

    /// True if the catalog records that rows of the tree may have operands of this merge operator.
    pub fn uses(&self, operator: u8) -> bool {
        self.record.lock().unwrap().operators.contains_key(&operator)
    }

    /// Marks the commit that drops the tree. Called within the sequencer's section, before that
    /// commit has a seqno that others can see: a reader at that seqno or a later one finds the
    /// mark.
    pub fn mark_end(&self, seqno: Seqno) {
        // SeqCst: see `check`. The first mark counts.
        self.end.fetch_min(seqno.0, Ordering::SeqCst);
    }

    /// An error if the tree was dropped, or the commit that drops it has its seqno: the tree gets
    /// no more rows.
    ///
    /// A read that is not under a lock of the tree calls this, or [`check_at`](Self::check_at),
    /// after it has its version and its seqno. A check before that is too early: the tree can end
    /// between the check and the read, and a tree that has ended looks empty.
    pub fn check(&self) -> Result<()> {
        // SeqCst pairs with `mark_end`: if a reservation passes here after it has taken its
        // numbers, they were seen by the tree that continues this one's counters.
        match self.end.load(Ordering::SeqCst) {
            NO_END => Ok(()),
            _ => Err(Error::NoSuchTree(self.name())),
        }
    }

    /// Fails if the tree had ended at this seqno. A reader at an older one still has all rows.
    pub fn check_at(&self, at: Seqno) -> Result<()> {
        // Acquire: the mark happens before its commit is visible, and `at` was visible when it was
        // read.
        let end = self.end.load(Ordering::Acquire);
        match end > at.0 || end == NO_END {
            true => Ok(()),
            false => Err(Error::NoSuchTree(self.name())),
        }
    }
}

impl TreeRecord {
    /// The schema of the rows of such a tree; `work` receives its counters.
    pub fn schema(&self, work: &Arc<Work>) -> Option<Arc<RowSchema>> {
        let (key, value) = (self.key_layout.as_ref(), self.value_layout.as_ref());
        // Validated when the record was read or made.
        let versions = self.versions().unwrap_or_default();
        RowSchema::of(key, value, versions, Some(work.clone()))
    }
}

impl Catalog {
    /// An empty catalog; `work` receives the counters.
    pub fn new(work: Arc<WorkByTree>) -> Self {
        let own_work = work.of(Lineage(0));
        Self {
            state: RwLock::default(),
            change: Mutex::new(()),
            kept: Kept::default(),
            building: Mutex::default(),
            queues: AtomicUsize::new(0),
            counted: Arc::default(),
            work,
            own_work,
        }
    }

    /// A tree that is no longer in the catalog, for reading it at a snapshot. If its end is not
    /// known (it was dropped before the store was opened, or long ago), it ends right after
    /// `shown`, the last commit known to show it.
    pub fn gone(&self, record: TreeRecord, shown: Seqno) -> Arc<TreeEntry> {
        let end = self.state.read().unwrap().ended.get(&record.id).map(|ended| ended.end);
        let entry = TreeEntry::new(record, &self.work, &self.counted);
        let is_endless = plant!("db: the end of a tree that is gone is not known");
        let end = if is_endless { Seqno(NO_END) } else { end.unwrap_or(shown.next()) };
        entry.mark_end(end);
        entry
    }

    /// True if a tree is known to have ended (its drop is committed).
    pub fn has_ended(&self, id: TreeId) -> bool {
        let state = self.state.read().unwrap();
        let standing = state.by_id.get(&id);
        standing.map_or(state.ended.contains_key(&id), |entry| entry.check().is_err())
    }

    /// The error for a tree that is not in the catalog: with its name, if that is still known.
    pub fn no_such_tree(&self, id: TreeId) -> Error {
        let state = self.state.read().unwrap();
        let name = state.ended.get(&id).map(|ended| ended.name.clone());
        Error::NoSuchTree(name.unwrap_or_else(|| format!("number {}", id.0)))
    }

    /// The entry of a tree that is never in the catalog, such as a temporary tree.
    pub fn private(&self, record: TreeRecord) -> Arc<TreeEntry> {
        TreeEntry::new(record, &self.work, &self.counted)
    }

    /// Serialises changes; held from the check of a change until it is shown.
    pub fn change(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap()
    }

    pub fn by_name(&self, name: &str) -> Option<Arc<TreeEntry>> {
        self.state.read().unwrap().by_name.get(name).cloned()
    }

    /// True if a tree has this name, or will have it at the next opening.
    pub fn is_taken(&self, name: &str) -> bool {
        self.by_name(name).is_some() || self.is_reserved(name)
    }

    /// True if a tree will have this name at the next opening.
    pub fn is_reserved(&self, name: &str) -> bool {
        self.state.read().unwrap().reserved.contains(name)
    }

    /// Reserves the name of a tree that is in tree 0 and could neither be made readable nor removed
    /// again.
    pub fn reserve_name(&self, name: String) {
        self.state.write().unwrap().reserved.insert(name);
    }

    pub fn by_id(&self, id: TreeId) -> Option<Arc<TreeEntry>> {
        self.state.read().unwrap().by_id.get(&id).cloned()
    }

    /// All trees, by name.
    pub fn trees(&self) -> Vec<Arc<TreeEntry>> {
        self.state.read().unwrap().by_name.values().cloned().collect()
    }

    pub fn counters(&self) -> CounterRecord {
        self.state.read().unwrap().counters.clone()
    }

    pub fn set_counters(&self, counters: CounterRecord) {
        self.state.write().unwrap().counters = counters;
    }

    /// Shows a new tree, or the changes of an existing one.
    pub fn show_tree(&self, record: TreeRecord) -> Arc<TreeEntry> {
        self.state.write().unwrap().show(record, &self.work, &self.counted)
    }

    /// Hides a tree from users; `dropped` is the commit that drops it.
    pub fn hide_tree(&self, id: TreeId, dropped: Seqno) {
        self.state.write().unwrap().hide(id, dropped);
    }

    /// Shows the effect of one commit on trees, at once. For each pair in `clones`, the counters of
    /// the first continue from those of the second. Returns the entries of `put`, in that order.
    pub fn show_change(
        &self,
        seqno: Seqno,
        put: Vec<TreeRecord>,
        drops: &BTreeSet<TreeId>,
        clones: &[(TreeId, TreeId)],
    ) -> Vec<Arc<TreeEntry>> {
        let mut state = self.state.write().unwrap();
        // The parents may be among the trees that are dropped.
        let parents: Vec<_> = clones.iter().map(|(_, of)| state.by_id.get(of).cloned()).collect();
        drops.iter().for_each(|&id| state.hide(id, seqno));
        let shown =
            put.into_iter().map(|record| state.show(record, &self.work, &self.counted)).collect();
        for ((clone, of), parent) in clones.iter().zip(parents) {
            state.begun.remove(clone);
            // Or the parent is new itself.
            let parent = parent.or_else(|| state.by_id.get(of).cloned());
            if let (Some(clone), Some(parent)) = (state.by_id.get(clone), parent) {
                clone.counters.raise(parent.counters.counts());
            }
        }
        shown
    }

    /// A tree that is in the catalog, or was until its last rows are applied.
    pub fn standing(&self, id: TreeId) -> Option<Arc<TreeEntry>> {
        let state = self.state.read().unwrap();
        state.by_id.get(&id).or_else(|| state.leaving.get(&id)).cloned()
    }

    /// Shows a named snapshot.
    pub fn show_snapshot(&self, record: SnapshotRecord) {
        self.state.write().unwrap().snapshots.insert(record.name.clone(), record);
    }

    /// Hides a dropped named snapshot.
    pub fn hide_snapshot(&self, id: u32) {
        self.state.write().unwrap().snapshots.retain(|_, record| record.id != id);
    }

    /// All named snapshots, by name.
    pub fn snapshots(&self) -> Vec<SnapshotRecord> {
        self.state.read().unwrap().snapshots.values().cloned().collect()
    }

    /// The named snapshot with this name.
    pub fn snapshot(&self, name: &str) -> Option<SnapshotRecord> {
        self.state.read().unwrap().snapshots.get(name).cloned()
    }
}

impl State {
    fn show(
        &mut self,
        record: TreeRecord,
        work: &WorkByTree,
        counted: &Arc<CountedTrees>,
    ) -> Arc<TreeEntry> {
        if let Some(entry) = self.by_id.get(&record.id).cloned() {
            entry.birth.store(record.birth.0, Ordering::Release);
            let old = std::mem::replace(&mut *entry.record.lock().unwrap(), record.clone());
            self.show_table(&record);
            if old.value_layout != record.value_layout {
                // Encoding hints learned from rows in the old layout say little about rows in the
                // new one.
                *entry.schema.write().unwrap() = record.schema(&entry.work);
            }
            // Another tree of the same commit may already have the name.
            let is_own = |named: &Arc<TreeEntry>| named.id == record.id;
            if self.by_name.get(&old.name).is_some_and(is_own)
                && !plant!("catalog: rename forgets the old name")
            {
                self.by_name.remove(&old.name);
            }
            self.by_name.insert(record.name, entry.clone());
            return entry;
        }
        let name = record.name.clone();
        self.show_table(&record);
        let entry = TreeEntry::new(record, work, counted);
        if let Some(rows) = self.tables.get(&entry.id) {
            entry.table.store(rows.0, Ordering::Relaxed);
        }
        self.by_id.insert(entry.id, entry.clone());
        self.by_name.insert(name, entry.clone());
        entry
    }

    /// Notes which trees belong to a table, if the record is that of its rows. They belong to it
    /// until they are dropped.
    fn show_table(&mut self, record: &TreeRecord) {
        let Some(table) = StoredTable::of(record.id, &record.attributes) else { return };
        let indexes = table.indexes.iter().map(|index| index.tree);
        for tree in indexes.chain([record.id]) {
            self.tables.insert(tree, record.id);
            if let Some(entry) = self.by_id.get(&tree) {
                entry.table.store(record.id.0, Ordering::Relaxed);
            }
        }
    }

    fn hide(&mut self, id: TreeId, dropped: Seqno) {
        if let Some(entry) = self.take(id, dropped)
            && !self.gone.remove(&id)
        {
            self.leaving.insert(id, entry);
        }
    }

    /// A tree whose rows an apply must keep: it exists, or was dropped after commits that are not
    /// applied yet.
    fn to_apply(&self, id: TreeId) -> Option<&Arc<TreeEntry>> {
        let entry = self.by_id.get(&id).or_else(|| self.leaving.get(&id));
        entry.filter(|_| !self.gone.contains(&id))
    }

    /// The counters of a tree that may not be shown yet.
    fn counts(&self, id: TreeId) -> Counts {
        let mut id = id;
        loop {
            let entry = self.by_id.get(&id).or_else(|| self.leaving.get(&id));
            match (entry, self.begun.get(&id)) {
                (Some(entry), _) => return entry.counters.counts(),
                (None, Some(&(of, _))) => id = of,
                (None, _) => return Counts::default(),
            }
        }
    }

    /// Removes a tree from the lookups.
    fn take(&mut self, id: TreeId, dropped: Seqno) -> Option<Arc<TreeEntry>> {
        self.tables.remove(&id);
        let entry = self.by_id.remove(&id)?;
        // Already marked, unless the log is being replayed.
        entry.mark_end(dropped);
        let name = entry.name();
        if self.by_name.get(&name).is_some_and(|other| other.id == id) {
            self.by_name.remove(&name);
        }
        self.ended.insert(id, Ended { end: dropped, name });
        self.ended_in_order.push_back(id);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended_in_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        Some(entry)
    }
}

impl TreeDirectory for Catalog {
    fn traits(&self, tree: TreeId) -> Option<TreeTraits> {
        if tree == CATALOG_TREE {
            return Some(TreeTraits {
                lineage: Lineage(0),
                class: SizeClass::Fast,
                leaf_filters: false,
                schema: None,
            });
        }
        let state = self.state.read().unwrap();
        let entry = state.to_apply(tree)?;
        Some(TreeTraits {
            lineage: entry.lineage,
            class: entry.class,
            leaf_filters: entry.unique,
            schema: entry.schema(),
        })
    }

    fn cut_empty_ranges(&self, tree: TreeId, writes: &WriteSet) {
        if let Some(entry) = self.by_id(tree) {
            let puts = writes.entries(tree).filter(|entry| entry.tag.kind() != Kind::Delete);
            entry.empty_ranges.put(puts.map(|entry| entry.key));
        }
    }

    fn cut_empty_ranges_within(&self, tree: TreeId, piece: &SortedRuns) {
        if let Some(entry) = self.by_id(tree) {
            entry.empty_ranges.put_within(piece.ranges());
        }
    }

    fn counts(&self, tree: TreeId) -> Counts {
        self.state.read().unwrap().counts(tree)
    }

    fn counting(&self, ids: RangeInclusive<u32>, through: Seqno) -> Vec<TreeId> {
        let state = self.state.read().unwrap();
        let is_there = |id: &TreeId| {
            let is_shown = state
                .by_id
                .get(id)
                .is_some_and(|entry| entry.made <= through && !state.gone.contains(id));
            let has_begun = || state.begun.get(id).is_some_and(|(_, since)| *since <= through);
            (is_shown || has_begun()) && state.counts(*id) != Counts::default()
        };
        ids.map(TreeId).filter(is_there).collect()
    }

    fn take_counted(&self, through: Seqno) -> Vec<TreeId> {
        let state = self.state.read().unwrap();
        let is_later = |tree: &TreeId| {
            let made = state.by_id.get(tree).map(|entry| entry.made);
            made.or_else(|| state.begun.get(tree).map(|(_, since)| *since)) > Some(through)
        };
        let (later, trees): (Vec<_>, Vec<_>) = self.counted.take().into_iter().partition(is_later);
        self.counted.put_back(later);
        for tree in &trees {
            let entry = state.by_id.get(tree).or_else(|| state.leaving.get(tree));
            entry.into_iter().for_each(|entry| entry.counters.begin_writing());
        }
        trees
    }

    fn put_back_counted(&self, trees: Vec<TreeId>) {
        self.counted.put_back(trees);
    }

    fn begins(&self, tree: TreeId, of: TreeId, at: Seqno) {
        let mut state = self.state.write().unwrap();
        if !state.by_id.contains_key(&tree) {
            state.begun.insert(tree, (of, at));
        }
        self.counted.note(tree);
    }

    fn forget(&self, tree: TreeId) {
        let mut state = self.state.write().unwrap();
        state.begun.remove(&tree);
        // The thread that drops it may not have hidden it yet; it shows all its changes at once.
        if state.leaving.remove(&tree).is_none() && state.by_id.contains_key(&tree) {
            state.gone.insert(tree);
        }
        self.counted.note(tree);
    }

    fn memory_bytes(&self) -> u64 {
        self.state.read().unwrap().by_id.len() as u64 * TREE_BYTES
    }
}
