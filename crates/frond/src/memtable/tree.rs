//! The B+tree over an arena's records: descending, splitting, and copying a leaf for cursors.
//! Inserting is in `batch.rs`.
//!
//! Invariants
//! 1. A descent trusts a child only if, after the child's version was taken, its parent (for the
//!    root: the root address) is still unchanged. A split locks the parent before the child and
//!    leaves it changed, so no descent reaches a half whose fences exclude its key.
//! 2. A full inner node met on the way down to an insert is split immediately, so a leaf's parent
//!    always has room.
//! 3. Nodes are only ever added. A node that was reached once stays readable.
//! 4. A key keeps one slot for ever: that of its first record. Later versions hang from that
//!    record.
//!
//! Threads: all; readers lock nothing.

use super::{
    arena::{Arena, At, AtomicAt, RecordHead, Writer},
    node::{LEAF_BYTES, Node, NodeHead, Position, SLOTS, SLOTS_SMALL, node, place_node},
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
