//! The directory from tree ids to tables: a trie over hashed ids, read and grown without locks.
//!
//! Every table is itself a node of the trie: it has four branches, chosen by two hash bits per
//! step, each empty until a table is attached there by compare-and-swap. With a thousand trees, a
//! walk takes five steps; a tree costs 112 bytes until its first key.
//!
//! Invariants
//! 1. A table is never moved or removed, and an id has one table: a new one is attached only where
//!    the walk for its id ends.
//!
//! Threads: all. Idea: Chris Wellons, "Hash-trie".

use super::{
    arena::{Arena, At, AtomicAt, Writer, placed},
    batch::Inserted,
    node::NodeHead,
    tree::Tree,
};
use crate::{
    TreeId,
    sync::{AtomicU32, AtomicU64, Ordering},
};

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
        }
    }

    pub(super) fn tree<'a>(&'a self, arena: &'a Arena) -> Tree<'a> {
        Tree { arena, root: &self.root }
    }

    pub(super) fn is_empty(&self) -> bool {
        let has_ranges = self.ranges.load(Ordering::Acquire) != 0;
        self.root.load().is_none() && !has_ranges && !self.has_runs()
    }

    /// True if mini-runs are attached; they are in the list by then.
    #[inline]
    pub(super) fn has_runs(&self) -> bool {
        self.has_runs.load(Ordering::Acquire) != 0
    }

    /// Records that a mini-run is in the list. Release: a reader that sees the flag sees the run.
    pub(super) fn note_run(&self) {
        self.has_runs.store(1, Ordering::Release);
    }

    pub(super) fn count(&self, inserted: Inserted) {
        self.entries.fetch_add(inserted.entries as u64, Ordering::Relaxed);
        self.entry_bytes.fetch_add(inserted.bytes as u64, Ordering::Relaxed);
    }

    /// Entries inserted, and their bytes.
    pub(super) fn entries(&self) -> (usize, usize) {
        let [entries, bytes] = [&self.entries, &self.entry_bytes];
        (entries.load(Ordering::Relaxed) as usize, bytes.load(Ordering::Relaxed) as usize)
    }
}

/// The trie.
pub(super) struct Directory {
    top: AtomicAt<Table>,
}

impl Directory {
    pub(super) fn new() -> Self {
        Self { top: AtomicAt::empty() }
    }

    /// The table of a tree.
    #[inline]
    pub(super) fn find(&self, arena: &Arena, id: TreeId) -> Option<At<Table>> {
        self.walk(arena, id).ok()
    }

    /// The table of a tree, created if it has none.
    #[inline]
    pub(super) fn find_or_add<'a>(&'a self, writer: &mut Writer<'a>, id: TreeId) -> &'a Table {
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

    /// The table, or the empty branch where it belongs.
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
    pub(super) fn tables<'a>(&'a self, arena: &'a Arena) -> Vec<&'a Table> {
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
