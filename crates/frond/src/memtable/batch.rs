//! Inserting one commit's entries into one tree, in key order.
//!
//! A leaf that is not in the processor's cache costs more than all the rest. So each entry is
//! handled in three steps, with steps of other entries in between: first its leaf's address is
//! found and its memory prefetched; when that has arrived, the leaf's version is taken; and when
//! the entry's turn comes, the version tells whether it is still the right leaf.
//!
//! Invariants
//! 1. An entry goes into the leaf that a descent found for its key, at the version of that descent,
//!    or at a later one if only this batch's own inserts lie between: those split nothing, so the
//!    leaf's fences are the same.
//! 2. A record is written before it is published, and published by one store: into a slot under the
//!    leaf's lock, or into a chain of versions.
//!
//! Threads: one per batch; batches run concurrently.

use super::{
    arena::{At, Writer},
    node::{Node, NodeHead, Position, node},
    tree::{Approach, Seen, Tree},
    versions,
};
use crate::{Seqno, Tag};

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

/// How much was new.
#[derive(Clone, Copy, Default)]
pub(super) struct Inserted {
    pub(super) entries: usize,
    /// Of keys and payloads.
    pub(super) bytes: usize,
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

/// What is known so far of the way to an entry's leaf.
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

    /// Inserts the entry that is due, and finds the leaf of the one that is halfway.
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
        let way = self.beside_last(key).unwrap_or_else(|| self.by_descent(key));
        // A leaf met twice in a row is in the cache already; from now on its fence is checked
        // directly.
        let repeats = way.leaf().is_some() && way.leaf() == self.last.leaf();
        self.last = if repeats { self.find(way) } else { way };
        self.last
    }

    /// The way through the parent of the previous entry's leaf.
    #[inline]
    fn beside_last(&mut self, key: &[u8]) -> Option<Way> {
        let arena = self.tree.arena;
        let Way::Above { parent, version, .. } = self.last else { return None };
        let above = node(arena, parent);
        // This comes first: the heads of its slots say nothing about keys that do not belong to it
        // (`node.rs`, invariant 3).
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

    /// The leaf at its newest version, if only this batch changed it (invariant 1).
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
        if self.insert_version(entry, &mut seen) {
            self.inserted.entries += 1;
            self.inserted.bytes += entry.key.len() + entry.payload.len();
        }
    }

    /// Inserts one version; false if it was already there. `seen` may be out of date.
    fn insert_version(&mut self, entry: Entry<'_>, seen: &mut Option<Seen<'a>>) -> bool {
        let Entry { key, tag, payload } = entry;
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
                    return versions::place(arena, first, seqno, || match record {
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
                return true;
            }
        }
    }
}
