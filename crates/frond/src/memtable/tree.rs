//! The B+tree over an arena's records: descending, splitting, copying a leaf for cursors, and
//! inserting one commit's entries in key order.
//!
//! If a leaf is not in the processor's cache, reading it costs an insert more than everything else.
//! So each entry of a batch is handled in three steps, with steps of other entries in between.
//! First the address of the entry's leaf is found, and the leaf's memory is prefetched. When that
//! has arrived, the leaf's version is read. Finally the entry is inserted, if the version shows
//! that the leaf is still the right one.
//!
//! Invariants
//! 1. A descent trusts a child only if, after the child's version was read, the child's parent (for
//!    the root: the root address) is still unchanged. A split locks the parent before the child and
//!    leaves it changed, so no descent reaches a half whose fences exclude its key.
//! 2. A full inner node met on the way down to an insert is split immediately, so a leaf's parent
//!    always has room.
//! 3. Nodes are only ever added. A node that was reached once stays readable.
//! 4. A key keeps one slot for ever: that of its first record. Later versions hang from that
//!    record.
//! 5. An entry goes into the leaf that a descent found for its key, at the version of that descent,
//!    or at a later one if only this batch's own inserts lie between: those split nothing, so the
//!    leaf's fences are the same.
//! 6. A record is written before it is published, and published by one store: into a slot under the
//!    leaf's lock, or into a chain of versions.
//!
//! Threads: all; one per batch, and batches run concurrently. Readers lock nothing.

use super::{
    arena::{Arena, At, AtomicAt, RecordHead, Writer},
    node::{LEAF_BYTES, Node, NodeHead, Position, SLOTS, SLOTS_SMALL, node, place_node},
    versions,
};
use crate::{
    Seqno,
    message::{Kind, Tag},
};

/// One tree: an arena, and the place of the root's address.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a> {
    pub(super) arena: &'a Arena,
    pub(super) root: &'a AtomicAt<NodeHead>,
}

/// A node and the version it had when it was reached.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) node: Node<'a>,
    pub(super) version: u64,
}

/// The result of a descent that has not touched a leaf below the root.
#[derive(Clone, Copy)]
pub(super) enum Approach<'a> {
    /// The root is a leaf.
    AtLeaf(Seen<'a>),
    /// The leaf's parent as it was when it named the leaf.
    Above { parent: Seen<'a>, leaf: At<NodeHead> },
}

/// Which leaf a cursor wants.
#[derive(Clone, Copy)]
pub(super) enum Leaf<'k> {
    First,
    Last,
    /// The leaf to which this key belongs.
    With(&'k [u8]),
    /// The leaf with the greatest keys below this one.
    Below(&'k [u8]),
}

/// A leaf's slots as they were at one moment.
pub(super) struct LeafCopy {
    pub(super) keys: [Option<At<RecordHead>>; SLOTS],
    pub(super) count: usize,
    pub(super) low: Option<At<RecordHead>>,
    pub(super) high: Option<At<RecordHead>>,
}

impl LeafCopy {
    pub(super) fn empty() -> Self {
        Self { keys: [None; SLOTS], count: 0, low: None, high: None }
    }
}

impl<'a> Tree<'a> {
    /// The root and its version, if the tree has one.
    #[inline]
    fn root(&self) -> Option<Seen<'a>> {
        loop {
            let at = self.root.load()?;
            let node = node(self.arena, at);
            let version = node.lock().begin();
            // The root's address changes under the old root's lock: if it is unchanged after the
            // version was taken, the version is the root's.
            if self.root.load() == Some(at) {
                return Some(Seen { node, version });
            }
        }
    }

    /// Descends to the leaf that `slot_of` selects.
    #[inline]
    pub(super) fn descend(&self, slot_of: impl Fn(&Node<'a>) -> usize) -> Option<Seen<'a>> {
        loop {
            if let Some(leaf) = self.arrive(self.approach(&slot_of)?) {
                return Some(leaf);
            }
        }
    }

    /// The first part of [`descend`](Self::descend): prefetches the leaf's memory and does not wait
    /// for it.
    #[inline]
    pub(super) fn approach(
        &self,
        mut slot_of: impl FnMut(&Node<'a>) -> usize,
    ) -> Option<Approach<'a>> {
        'restart: loop {
            let mut seen = self.root()?;
            while seen.node.level() > 0 {
                let Some(at) = seen.node.child(slot_of(&seen.node)) else { continue 'restart };
                if seen.node.level() == 1 {
                    self.prefetch_leaf(at);
                    return Some(Approach::Above { parent: seen, leaf: at });
                }
                let child = node(self.arena, at);
                let version = child.lock().begin();
                if !seen.node.lock().validate(seen.version) {
                    continue 'restart;
                }
                seen = Seen { node: child, version };
            }
            return Some(Approach::AtLeaf(seen));
        }
    }

    /// Prefetches a leaf before it is touched: all its cache lines arrive together.
    #[inline]
    pub(super) fn prefetch_leaf(&self, leaf: At<NodeHead>) {
        self.arena.prefetch(leaf, LEAF_BYTES);
    }

    /// The second part of [`descend`](Self::descend): the leaf, unless its parent has changed
    /// since.
    #[inline]
    pub(super) fn arrive(&self, approach: Approach<'a>) -> Option<Seen<'a>> {
        match approach {
            Approach::AtLeaf(leaf) => Some(leaf),
            Approach::Above { parent, leaf } => {
                let node = node(self.arena, leaf);
                let version = node.lock().begin();
                parent.node.lock().validate(parent.version).then_some(Seen { node, version })
            }
        }
    }

    /// True if the tree has a root, that is, if something was inserted.
    pub(super) fn find_any(&self) -> bool {
        self.root.load().is_some()
    }

    /// The first record of a key.
    pub(super) fn find(&self, key: &[u8]) -> Option<At<RecordHead>> {
        loop {
            let leaf = self.descend(|node| node.child_slot_for(self.arena, key))?;
            let position = leaf.node.search(self.arena, key);
            let record = leaf.node.key(position.slot);
            if leaf.node.lock().validate(leaf.version) {
                return record.filter(|_| position.found);
            }
        }
    }

    /// Copies the wanted leaf, and returns the first slot whose key is not below the wanted leaf's
    /// key; the leaf's count, if there is none or no key is wanted.
    pub(super) fn copy_leaf(&self, wanted: Leaf<'_>, copy: &mut LeafCopy) -> usize {
        loop {
            let found = match wanted {
                Leaf::First => self.descend(|_| 0),
                Leaf::Last => self.descend(|node| node.count().saturating_sub(1)),
                Leaf::With(key) => self.descend(|node| node.child_slot_for(self.arena, key)),
                Leaf::Below(key) => self.descend(|node| node.child_slot_below(self.arena, key)),
            };
            let Some(Seen { node, version }) = found else {
                copy.count = 0;
                (copy.low, copy.high) = (None, None);
                return 0;
            };
            copy.count = node.count();
            (copy.low, copy.high) = (node.low(), node.high());
            for (slot, key) in copy.keys.iter_mut().take(copy.count).enumerate() {
                *key = node.key(slot);
            }
            let slot = match wanted {
                Leaf::First | Leaf::Last => copy.count,
                Leaf::With(key) | Leaf::Below(key) => node.search(self.arena, key).slot,
            };
            if node.lock().validate(version) {
                return slot.min(copy.count);
            }
        }
    }

    /// Descends to the leaf for a key, leaving room for one more child in every inner node above
    /// it. `None`: something changed (perhaps through this call), try again.
    pub(super) fn descend_with_room(
        &self,
        writer: &mut Writer<'a>,
        key: &[u8],
    ) -> Option<Seen<'a>> {
        let Some(mut seen) = self.root() else {
            let leaf = place_node(writer, 0, SLOTS_SMALL);
            // If another thread was faster, this small leaf stays unused.
            let _ = self.root.replace(None, leaf);
            return None;
        };
        let mut parent: Option<(Seen<'a>, usize)> = None;
        while seen.node.level() > 0 {
            let slot = seen.node.child_slot_for(self.arena, key);
            if seen.node.is_full() {
                let cut = seen.node.cut_for(slot + 1);
                let separator = seen.node.key(cut);
                self.split(writer, parent, seen, cut, separator);
                return None;
            }
            let at = seen.node.child(slot)?;
            if seen.node.level() == 1 {
                self.prefetch_leaf(at);
            }
            let child = node(self.arena, at);
            let version = child.lock().begin();
            if !seen.node.lock().validate(seen.version) {
                return None;
            }
            parent = Some((seen, slot));
            seen = Seen { node: child, version };
        }
        Some(seen)
    }

    /// Makes room in the full leaf to which `key` belongs; `record` has that key.
    #[cold]
    pub(super) fn split_leaf(&self, writer: &mut Writer<'a>, key: &[u8], record: At<RecordHead>) {
        let Some(mut seen) = self.root() else { return };
        let mut parent = None;
        while seen.node.level() > 0 {
            let slot = seen.node.child_slot_for(self.arena, key);
            let Some(at) = seen.node.child(slot) else { return };
            let child = node(self.arena, at);
            let version = child.lock().begin();
            if !seen.node.lock().validate(seen.version) {
                return;
            }
            if seen.node.is_full() {
                let _ = self.descend_with_room(writer, key);
                return;
            }
            parent = Some((seen, slot));
            seen = Seen { node: child, version };
        }
        let Position { slot, found } = seen.node.search(self.arena, key);
        if found || !seen.node.is_full() {
            return;
        }
        if seen.node.is_small() {
            return self.enlarge_root(writer, seen);
        }
        let cut = seen.node.cut_for(slot);
        let separator = if cut == slot { Some(record) } else { seen.node.key(cut) };
        self.split(writer, parent, seen, cut, separator);
    }

    /// Replaces a tree's small first leaf with a full-sized one.
    fn enlarge_root(&self, writer: &mut Writer<'a>, small: Seen<'a>) {
        if small.node.lock().try_lock(small.version) {
            let larger = place_node(writer, 0, SLOTS);
            small.node.copy_to(&node(self.arena, larger));
            self.root.store(Some(larger));
            small.node.lock().unlock();
        }
    }

    /// Splits a full node below `parent` (given with the child's slot there), if neither has
    /// changed.
    fn split(
        &self,
        writer: &mut Writer<'a>,
        parent: Option<(Seen<'a>, usize)>,
        full: Seen<'a>,
        cut: usize,
        separator: Option<At<RecordHead>>,
    ) {
        let Some(separator) = separator else { return };
        if let Some((above, _)) = parent
            && !above.node.lock().try_lock(above.version)
        {
            return;
        }
        if full.node.lock().try_lock(full.version) {
            // The version holds, so a node without a parent is still the root.
            let right_at = place_node(writer, full.node.level(), SLOTS);
            full.node.split_to(self.arena, &node(self.arena, right_at), cut, separator);
            match parent {
                Some((above, slot)) => {
                    above.node.insert(self.arena, slot + 1, separator, Some(right_at));
                }
                None => {
                    let root = place_node(writer, full.node.level() + 1, SLOTS);
                    node(self.arena, root).become_root(
                        self.arena,
                        full.node.at,
                        separator,
                        right_at,
                    );
                    self.root.store(Some(root));
                }
            }
            full.node.lock().unlock();
        }
        if let Some((above, _)) = parent {
            above.node.lock().unlock();
        }
    }
}

/// Number of entries between two steps of one entry.
const AHEAD: usize = 8;
/// Number of entries in progress.
const AT_WORK: usize = 2 * AHEAD;

/// An entry to insert.
#[derive(Clone, Copy)]
pub(super) struct Entry<'e> {
    pub(super) key: &'e [u8],
    pub(super) tag: Tag,
    pub(super) payload: &'e [u8],
}

/// What an insertion added.
#[derive(Clone, Copy, Default)]
pub(super) struct Inserted {
    pub(super) entries: usize,
    /// Bytes of keys and payloads.
    pub(super) bytes: usize,
    /// Change of the number of keys whose newest version is a value.
    pub(super) rows: isize,
}

/// A leaf and the version at which it was found.
#[derive(Clone, Copy)]
struct Located {
    leaf: At<NodeHead>,
    version: u64,
}

impl Located {
    fn of(seen: Seen<'_>) -> Self {
        Self { leaf: seen.node.at, version: seen.version }
    }
}

/// What is known so far about the path to an entry's leaf.
#[derive(Clone, Copy)]
enum Way {
    /// Nothing, or what was known has changed.
    Unknown,
    /// The leaf's parent, at this version, named the leaf.
    Above {
        parent: At<NodeHead>,
        version: u64,
        leaf: At<NodeHead>,
    },
    Found(Located),
}

impl Way {
    fn leaf(self) -> Option<At<NodeHead>> {
        match self {
            Way::Unknown => None,
            Way::Above { leaf, .. } => Some(leaf),
            Way::Found(located) => Some(located.leaf),
        }
    }
}

/// A leaf that only this batch changed between two versions.
#[derive(Clone, Copy)]
struct Own {
    leaf: At<NodeHead>,
    from: u64,
    to: u64,
}

/// One batch being inserted.
pub(super) struct Batch<'w, 'a> {
    tree: Tree<'a>,
    writer: &'w mut Writer<'a>,
    seqno: Seqno,
    own: Option<Own>,
    /// The way to the previous entry; `Found` where the one before that has the same leaf.
    last: Way,
    /// The slot of that leaf in its parent.
    slot: usize,
    inserted: Inserted,
}

impl<'w, 'a> Batch<'w, 'a> {
    pub(super) fn new(tree: Tree<'a>, writer: &'w mut Writer<'a>, seqno: Seqno) -> Self {
        let inserted = Inserted::default();
        Self { tree, writer, seqno, own: None, last: Way::Unknown, slot: 0, inserted }
    }

    /// Inserts entries that ascend by key.
    pub(super) fn insert_all<'e>(
        mut self,
        mut entries: impl Iterator<Item = Entry<'e>>,
    ) -> Inserted {
        let Some(first) = entries.next() else { return self.inserted };
        let Some(second) = entries.next() else {
            self.insert(first, None);
            return self.inserted;
        };
        let mut at_work = [None; AT_WORK];
        let mut turn = 0;
        for entry in [first, second].into_iter().chain(entries) {
            let way = self.way_to(entry.key);
            let due = at_work[turn % AT_WORK].replace((entry, way));
            self.take_turn(&mut at_work, turn, due);
            turn += 1;
        }
        for late in turn..turn + AT_WORK {
            let due = at_work[late % AT_WORK].take();
            self.take_turn(&mut at_work, late, due);
        }
        self.inserted
    }

    /// Inserts the oldest entry in progress, and does the second step for the entry that is
    /// halfway.
    #[inline]
    fn take_turn<'e>(
        &mut self,
        at_work: &mut [Option<(Entry<'e>, Way)>; AT_WORK],
        turn: usize,
        due: Option<(Entry<'e>, Way)>,
    ) {
        if let Some((_, way)) = &mut at_work[(turn + AHEAD) % AT_WORK] {
            *way = self.find(*way);
        }
        if let Some((entry, way)) = due {
            let located = match way {
                Way::Found(located) => Some(located),
                Way::Unknown | Way::Above { .. } => None,
            };
            self.insert(entry, located);
        }
    }

    /// Determines a key's leaf and prefetches it. The key is above all previous ones.
    #[inline]
    fn way_to(&mut self, key: &[u8]) -> Way {
        let arena = self.tree.arena;
        if let Way::Found(last) = self.last {
            let last = self.renewed(last);
            let leaf = node(arena, last.leaf);
            let belongs = leaf.high().is_none_or(|high| key < arena.record(high).key());
            if belongs && leaf.lock().validate(last.version) {
                self.last = Way::Found(last);
                return self.last;
            }
        }
        let way = self.after_last(key).unwrap_or_else(|| self.by_descent(key));
        // A leaf that is found twice in a row is in the cache already; from now on its fence is
        // checked directly.
        let repeats = way.leaf().is_some() && way.leaf() == self.last.leaf();
        self.last = if repeats { self.find(way) } else { way };
        self.last
    }

    /// The way through the parent of the previous entry's leaf.
    #[inline]
    fn after_last(&mut self, key: &[u8]) -> Option<Way> {
        let arena = self.tree.arena;
        let Way::Above { parent, version, .. } = self.last else { return None };
        let above = node(arena, parent);
        // This check comes first: the heads of a node's slots say nothing about keys that do not
        // belong to the node (`node.rs`, invariant 3).
        let is_beyond = above.high().is_some_and(|high| key >= arena.record(high).key());
        if is_beyond && !plant!("memtable: the next key is looked for in the parent of the last") {
            return None;
        }
        let slot = above.child_slot_from(arena, key, self.slot);
        let leaf = above.child(slot)?;
        self.tree.prefetch_leaf(leaf);
        self.slot = slot;
        above.lock().validate(version).then_some(Way::Above { parent, version, leaf })
    }

    fn by_descent(&mut self, key: &[u8]) -> Way {
        let mut slot = 0;
        let slot_of = |node: &Node<'_>| {
            slot = node.child_slot_for(self.tree.arena, key);
            slot
        };
        let way = match self.tree.approach(slot_of) {
            None => Way::Unknown,
            Some(Approach::AtLeaf(leaf)) => Way::Found(Located::of(leaf)),
            Some(Approach::Above { parent, leaf }) => {
                Way::Above { parent: parent.node.at, version: parent.version, leaf }
            }
        };
        self.slot = slot;
        way
    }

    /// Follows the way from the parent to the leaf.
    #[inline]
    fn find(&self, way: Way) -> Way {
        let Way::Above { parent, version, leaf } = way else { return way };
        let parent = Seen { node: node(self.tree.arena, parent), version };
        match self.tree.arrive(Approach::Above { parent, leaf }) {
            Some(leaf) => Way::Found(Located::of(leaf)),
            None => Way::Unknown,
        }
    }

    /// The leaf at its newest version, if only this batch changed it (invariant 5).
    #[inline]
    fn renewed(&self, located: Located) -> Located {
        match self.own {
            Some(own)
                if own.leaf == located.leaf && (own.from..own.to).contains(&located.version) =>
            {
                Located { version: own.to, ..located }
            }
            _ => located,
        }
    }

    fn note_own_change(&mut self, leaf: At<NodeHead>, version: u64) {
        // Locking at a version and unlocking adds two to it.
        let to = version + 2;
        self.own = match self.own {
            Some(own) if own.leaf == leaf && own.to == version => Some(Own { to, ..own }),
            _ => Some(Own { leaf, from: version, to }),
        };
    }

    /// Inserts one version.
    #[inline]
    fn insert(&mut self, entry: Entry<'_>, located: Option<Located>) {
        let mut seen = located.map(|located| {
            let Located { leaf, version } = self.renewed(located);
            Seen { node: node(self.tree.arena, leaf), version }
        });
        if let Some(rows) = self.insert_version(entry, &mut seen) {
            self.inserted.entries += 1;
            self.inserted.bytes += entry.key.len() + entry.payload.len();
            self.inserted.rows += rows;
        }
    }

    /// Inserts one version; returns by how much that changes the number of keys whose newest
    /// version is a value, or `None` if it was already there. `seen` may be out of date.
    fn insert_version(&mut self, entry: Entry<'_>, seen: &mut Option<Seen<'a>>) -> Option<isize> {
        let Entry { key, tag, payload } = entry;
        let is_value = tag.kind() != Kind::Delete;
        let (arena, seqno) = (self.tree.arena, self.seqno);
        let mut record = None;
        loop {
            let found = seen.take().or_else(|| self.tree.descend_with_room(self.writer, key));
            let Some(Seen { node: leaf, version }) = found else { continue };
            let Position { slot, found } = leaf.search(arena, key);
            if found {
                let first = leaf.key(slot);
                if let Some(first) = first
                    && leaf.lock().validate(version)
                {
                    return versions::place(arena, first, (seqno, is_value), || match record {
                        Some(whole) => whole,
                        None => self.writer.record(seqno, tag, &[], payload),
                    });
                }
                continue;
            }
            let at = *record.get_or_insert_with(|| self.writer.record(seqno, tag, key, payload));
            if leaf.is_full() {
                self.tree.split_leaf(self.writer, key, at);
                continue;
            }
            if leaf.lock().try_lock(version) {
                leaf.insert(arena, slot, at, None);
                leaf.lock().unlock();
                self.note_own_change(leaf.at, version);
                return Some(isize::from(is_value));
            }
        }
    }
}
