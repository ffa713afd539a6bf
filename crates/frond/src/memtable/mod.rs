//! The memtable: an ordered, multi-version map of recent commits, for all trees at once.
//!
//! Commits of one interval of seqnos (Rule: I2) insert into it concurrently. Readers read at any
//! seqno without waiting. When it is frozen it stops growing, and each tree's part is turned, in
//! order, into a run. The memtable is the only mutable structure that readers touch, and the only
//! one with versions.
//!
//! Each tree has an arena-backed B+tree ([`tree`]) from key to the key's versions ([`versions`]),
//! range deletes in levels ([`ranges`]), and possibly mini-runs of large transactions
//! ([`mem_run`]). All of it lives in one arena of frames ([`arena`]) and is found through a small
//! trie of tree ids ([`Directory`]): a tree with one key costs about 350 bytes.
//!
//! Invariants
//! 1. Versions of a key are ordered by seqno, whatever the order in which they arrive (Rule: I2)
//!    and whatever their source (Rule: I6).
//! 2. Inserting the same (key, seqno) again changes nothing (Rule: I3): a waiting committer may
//!    insert another's write set concurrently with its owner.
//! 3. A reader at a seqno sees all of every commit up to it once those commits' inserts have
//!    returned; the sequencer requires no more.
//! 4. Memory is freed all at once when the memtable drops, and not before.
//! 5. A table is never moved or removed, and an id has one table: a new one is attached only where
//!    the walk for its id ends.
//!
//! Threads: all. `unsafe` only in `arena.rs` and `node.rs`.
//! Structure and figures: docs/design/004-memtable-is-a-btree.md. Ideas: B+tree with 8-byte heads
//! (Graefe's poor man's normalised keys), optimistic lock coupling (Leis et al.).

mod arena;
mod cursor;
#[cfg(all(test, shuttle))]
mod interleavings;
mod mem_run;
mod node;
mod place;
mod ranges;
mod rank;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod tree;
mod versions;

pub use cursor::{ApplyCursor, KeyToApply, KeyVersions, MemCursor};
pub use mem_run::MemRun;
pub use ranges::RangeDelete;

use crate::{
    Seqno, TreeId,
    cache::FramePool,
    message::{Message, Tag},
    sync::{Arc, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
use arena::{Arena, At, AtomicAt, Writer, placed};
use mem_run::AttachedRuns;
use node::NodeHead;
use ranges::RangeSets;
use tree::{Batch, Entry, Inserted, Leaf, Tree};
use versions::Versions;

/// A seqno above all: reads the newest state.
pub const LATEST: Seqno = Seqno(u64::MAX);

/// Recent messages of all trees.
pub struct Memtable {
    directory: Directory,
    runs: AttachedRuns,
    run_bytes: AtomicUsize,
    ranges: RangeSets,
    arena: Arena,
}

impl Memtable {
    /// Creates an empty memtable. Its memory comes from `pool`, beyond the pool's limit if
    /// necessary: the caller that fills it watches [`bytes`](Self::bytes).
    pub fn new(pool: Arc<FramePool>) -> Self {
        Self {
            directory: Directory::new(),
            runs: AttachedRuns::default(),
            run_bytes: AtomicUsize::new(0),
            ranges: RangeSets::default(),
            arena: Arena::new(pool),
        }
    }

    /// Creates an empty memtable whose memory comes from the same pool.
    pub fn another(&self) -> Self {
        Self::new(self.arena.pool().clone())
    }

    /// Inserts one commit's messages for one tree: ascending by key, one per key. Never waits for
    /// readers; waits for other inserts only while they shift a node's slots. An entry that is
    /// already there (same key and seqno) is left as it is.
    pub fn insert<'e>(
        &self,
        tree: TreeId,
        seqno: Seqno,
        entries: impl Iterator<Item = (&'e [u8], Tag, &'e [u8])>,
    ) {
        let mut writer = self.arena.writer();
        let table = self.directory.find_or_add(&mut writer, tree);
        let entries = entries.map(|(key, tag, payload)| Entry { key, tag, payload });
        let tree = table.tree(&self.arena);
        table.count(Batch::new(tree, &mut writer, seqno).insert_all(entries));
    }

    /// Deletes the keys of some ranges `[from, to)`, in all versions below `seqno`. `ranges` must
    /// contain every range delete of that commit for the tree: a second call for the commit changes
    /// nothing.
    pub fn delete_ranges<'e>(
        &self,
        tree: TreeId,
        seqno: Seqno,
        ranges: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) {
        let mut ranges = ranges.filter(|(from, to)| from < to).peekable();
        if ranges.peek().is_none() {
            return;
        }
        let mut writer = self.arena.writer();
        let table = self.directory.find_or_add(&mut writer, tree);
        table.count(self.ranges.add(&table.ranges, &mut writer, seqno, ranges));
    }

    /// Deletes one range, which must be the only one of its commit for the tree.
    #[cfg(test)]
    pub fn delete_range(&self, tree: TreeId, seqno: Seqno, from: &[u8], to: &[u8]) {
        self.delete_ranges(tree, seqno, std::iter::once((from, to)));
    }

    /// Attaches a large transaction's messages for one tree (Rule: I6).
    pub fn attach(&self, tree: TreeId, seqno: Seqno, run: Arc<MemRun>) {
        let table = self.directory.find_or_add(&mut self.arena.writer(), tree);
        let (entries, bytes) = (run.entries(), run.bytes());
        let inserted = Inserted { entries, bytes: run.entry_bytes(), rows: run.rows() as isize };
        if self.runs.attach(tree, seqno, run) {
            table.count(inserted);
            self.run_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        // A second thread that inserts the run does this as well: the first may not have come this
        // far, and the second continues as if the run were visible to all.
        table.note_run();
    }

    /// Passes the versions of a key up to `at` to `visit`, newest first, until it returns false. A
    /// covering range delete appears as a Delete at its seqno, and nothing older follows it.
    pub fn get(
        &self,
        tree: TreeId,
        key: &[u8],
        at: Seqno,
        visit: &mut dyn FnMut(Seqno, Message<'_>) -> bool,
    ) {
        let Some(table) = self.table(tree) else { return };
        let first = table.tree(&self.arena).find(key);
        let own = first.map(|first| Versions::new(&self.arena, self.arena.record(first), at));
        let cover = self.ranges.cover(&table.ranges, &self.arena, key, at);
        if !table.has_runs() {
            return show(own.into_iter().flatten(), cover, visit);
        }
        let mut versions: Vec<_> = own.into_iter().flatten().collect();
        for attached in self.runs.of_tree(tree, at) {
            let tree = attached.run.tree();
            if let Some(record) = tree.find(key) {
                versions.push((attached.seqno, tree.arena.record(record).message()));
            }
        }
        versions.sort_by_key(|(seqno, _)| std::cmp::Reverse(*seqno));
        show(versions.into_iter(), cover, visit);
    }

    /// Creates a cursor over the keys that have a version up to `at`. It has no position until a
    /// seek.
    pub fn cursor(self: &Arc<Self>, tree: TreeId, at: Seqno) -> MemCursor {
        MemCursor::new(self.clone(), tree, at)
    }

    /// Creates a walk over all keys of one tree in order, with their versions up to `at`. For a
    /// frozen memtable: concurrent inserts may be missed.
    pub fn apply_cursor(self: &Arc<Self>, tree: TreeId, at: Seqno) -> ApplyCursor {
        ApplyCursor::new(self.clone(), tree, at)
    }

    /// Returns the newest range delete up to `at` that covers a key.
    pub fn cover(&self, tree: TreeId, key: &[u8], at: Seqno) -> Option<Seqno> {
        let table = self.table(tree)?;
        self.ranges.cover(&table.ranges, &self.arena, key, at)
    }

    /// Returns the ranges of a tree that are deleted by commits above the first seqno, up to and
    /// including the second. They are in no particular order, and some may occur twice.
    pub fn range_deletes(&self, tree: TreeId, commits: (Seqno, Seqno)) -> Vec<RangeDelete<'_>> {
        let table = self.table(tree);
        table.map_or(Vec::new(), |table| self.ranges.collect(&table.ranges, &self.arena, commits))
    }

    /// The trees that have messages here, ascending.
    pub fn trees(&self) -> Vec<TreeId> {
        let tables = self.directory.tables(&self.arena);
        let mut trees: Vec<_> =
            tables.iter().filter(|table| !table.is_empty()).map(|table| TreeId(table.id)).collect();
        trees.sort_unstable();
        trees
    }

    /// Memory held, bytes.
    pub fn bytes(&self) -> usize {
        self.arena.bytes() + self.run_bytes.load(Ordering::Relaxed) + self.ranges.bytes()
    }

    /// Number of versions and range deletes inserted, over all trees.
    pub fn entries(&self) -> usize {
        self.directory.tables(&self.arena).iter().map(|table| table.entries().0).sum()
    }

    /// Number of versions and range deletes of one tree, and the bytes of their keys and payloads.
    pub fn tree_entries(&self, tree: TreeId) -> (usize, usize) {
        self.table(tree).map_or((0, 0), Table::entries)
    }

    /// The greatest key of a tree in any version, deleted or not; ignores range deletes.
    pub fn max_key(&self, tree: TreeId) -> Option<&[u8]> {
        self.outermost(tree, Leaf::Last).into_iter().max()
    }

    /// The least key of a tree in any version, deleted or not; ignores range deletes.
    pub fn min_key(&self, tree: TreeId) -> Option<&[u8]> {
        self.outermost(tree, Leaf::First).into_iter().min()
    }

    fn table(&self, tree: TreeId) -> Option<&Table> {
        self.directory.find(&self.arena, tree).map(|at| self.arena.get(at))
    }

    /// The first or last key of each of a tree's sources.
    fn outermost(&self, tree: TreeId, end: Leaf<'static>) -> Vec<&[u8]> {
        let Some(table) = self.table(tree) else { return Vec::new() };
        let mut sources = vec![table.tree(&self.arena)];
        if table.has_runs() {
            sources.extend(self.runs.of_tree(tree, LATEST).iter().map(|run| run.run.tree()));
        }
        sources.into_iter().filter_map(|source| place::outermost(source, end)).collect()
    }
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memtable({} entries, {} bytes)", self.entries(), self.bytes())
    }
}

/// Passes versions to `visit`, newest first, down to the range delete that covers the rest.
#[inline]
fn show<'a>(
    versions: impl Iterator<Item = (Seqno, Message<'a>)>,
    cover: Option<Seqno>,
    visit: &mut dyn FnMut(Seqno, Message<'_>) -> bool,
) {
    for (seqno, message) in versions {
        let hides = |cover| seqno < cover || plant!("memtable: range delete hides newer puts");
        if cover.is_some_and(hides) {
            break;
        }
        if !visit(seqno, message) {
            return;
        }
    }
    if let Some(cover) = cover {
        visit(cover, Message::new(Tag::DELETE, &[]));
    }
}

const BRANCHES: usize = 4;

placed! {
    /// One tree's part of a memtable.
    Table {
        id: u32,
        root: AtomicAt<NodeHead>,
        /// Number of the tree's set of range deletes in the memtable; 0: it has none.
        ranges: AtomicU32,
        /// 1 once a mini-run is attached; the runs are in the memtable's list.
        has_runs: AtomicU32,
        branches: [AtomicAt<Table>; BRANCHES],
        /// Padding: every commit writes the counters and every descent reads the root, so they must
        /// not share a cache line.
        apart: [u32; 16],
        entries: AtomicU64,
        entry_bytes: AtomicU64,
        /// Number of entries minus the number of keys whose newest version is a value; each
        /// mini-run is counted by itself.
        other_entries: AtomicU64,
    }
}

impl Table {
    fn new(id: TreeId) -> Self {
        Self {
            id: id.0,
            root: AtomicAt::empty(),
            ranges: AtomicU32::new(0),
            has_runs: AtomicU32::new(0),
            branches: std::array::from_fn(|_| AtomicAt::empty()),
            apart: [0; 16],
            entries: AtomicU64::new(0),
            entry_bytes: AtomicU64::new(0),
            other_entries: AtomicU64::new(0),
        }
    }

    fn tree<'a>(&'a self, arena: &'a Arena) -> Tree<'a> {
        Tree { arena, root: &self.root }
    }

    fn is_empty(&self) -> bool {
        let has_ranges = self.ranges.load(Ordering::Acquire) != 0;
        self.root.load().is_none() && !has_ranges && !self.has_runs()
    }

    /// True if mini-runs are attached; they are in the list by then.
    #[inline]
    fn has_runs(&self) -> bool {
        self.has_runs.load(Ordering::Acquire) != 0
    }

    /// Records that a mini-run is in the list. Release: a reader that sees the flag sees the run.
    fn note_run(&self) {
        self.has_runs.store(1, Ordering::Release);
    }

    fn count(&self, inserted: Inserted) {
        self.entries.fetch_add(inserted.entries as u64, Ordering::Relaxed);
        self.entry_bytes.fetch_add(inserted.bytes as u64, Ordering::Relaxed);
        // Usually 0: most commits insert only new rows.
        let others = inserted.entries as isize - inserted.rows;
        if others != 0 {
            self.other_entries.fetch_add(others.unsigned_abs() as u64, Ordering::Release);
        }
    }

    /// Number of keys whose newest version is a value, and the bytes of all entries. Entries that
    /// are being inserted concurrently may count as such keys.
    fn rows(&self) -> (usize, usize) {
        // `other_entries` is loaded first: an entry that is counted there was counted before in the
        // number of all entries, which is loaded next.
        let others = self.other_entries.load(Ordering::Acquire) as usize;
        let (entries, bytes) = self.entries();
        (entries.saturating_sub(others), bytes)
    }

    /// Entries inserted, and their bytes.
    fn entries(&self) -> (usize, usize) {
        let [entries, bytes] = [&self.entries, &self.entry_bytes];
        (entries.load(Ordering::Relaxed) as usize, bytes.load(Ordering::Relaxed) as usize)
    }
}

/// The directory from tree ids to tables: a trie over hashed ids, read and grown without locks.
///
/// Every table is itself a node of the trie: it has four branches, chosen by two hash bits per
/// step, each empty until a table is attached there by compare-and-swap. With a thousand trees, a
/// walk takes five steps; a tree costs 120 bytes until its first key. Idea: Chris Wellons,
/// "Hash-trie".
struct Directory {
    top: AtomicAt<Table>,
}

impl Directory {
    fn new() -> Self {
        Self { top: AtomicAt::empty() }
    }

    /// The table of a tree.
    #[inline]
    fn find(&self, arena: &Arena, id: TreeId) -> Option<At<Table>> {
        self.walk(arena, id).ok()
    }

    /// The table of a tree, created if it has none.
    #[inline]
    fn find_or_add<'a>(&'a self, writer: &mut Writer<'a>, id: TreeId) -> &'a Table {
        let arena = writer.arena();
        let mut made: Option<At<Table>> = None;
        loop {
            match self.walk(arena, id) {
                Ok(table) => return arena.get(table), // a table of the slower thread stays unused
                Err(end) => {
                    let table = *made.get_or_insert_with(|| writer.place(Table::new(id)));
                    if end.replace(None, table).is_ok() {
                        return arena.get(table);
                    }
                }
            }
        }
    }

    /// The table of a tree, or the empty branch where it belongs.
    #[inline]
    fn walk<'a>(&'a self, arena: &'a Arena, id: TreeId) -> Result<At<Table>, &'a AtomicAt<Table>> {
        // A bijection, so that different ids diverge within 32 steps of one bit pair each and the
        // walk ends.
        let mut hash = u64::from(id.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = &self.top;
        loop {
            let Some(at) = place.load() else { return Err(place) };
            let table = arena.get(at);
            if table.id == id.0 {
                return Ok(at);
            }
            place = &table.branches[(hash >> 62) as usize];
            hash <<= 2;
        }
    }

    /// All tables, in no order.
    fn tables<'a>(&'a self, arena: &'a Arena) -> Vec<&'a Table> {
        let mut tables = Vec::new();
        let mut places = vec![&self.top];
        while let Some(place) = places.pop() {
            if let Some(at) = place.load() {
                let table = arena.get(at);
                tables.push(table);
                places.extend(&table.branches);
            }
        }
        tables
    }
}
