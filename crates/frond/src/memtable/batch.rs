//! Inserting one commit's entries into one tree, in key order.
//!
//! Each entry's leaf is located a few entries before its turn, and fetched meanwhile: a leaf that is
//! not in the processor's cache costs more than all the rest. When its turn comes, the version tells
//! whether it is still the right leaf.
//!
//! Invariants
//! 1. An entry goes into the leaf that a descent found for its key, at the version of that descent,
//!    or at a later one if only this batch's own inserts lie between: those split nothing, so the
//!    leaf's fences are the same.
//! 2. A record is written before it is shown, and shown by one store: into a slot under the leaf's
//!    lock, or into a chain of versions.
//!
//! Threads: one per batch; batches run side by side.

use super::{
    arena::{At, Writer},
    node::{NodeHead, Position, node},
    tree::{Seen, Tree},
    versions,
};
use crate::{Seqno, Tag};

/// Entries located ahead.
const LOCATED_AHEAD: usize = 8;

/// What an insert brings.
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

/// A leaf that only this batch changed between two versions.
#[derive(Clone, Copy)]
struct Own {
    leaf: At<NodeHead>,
    from: u64,
    to: u64,
}

/// One batch on its way in.
pub(super) struct Batch<'w, 'a> {
    tree: Tree<'a>,
    writer: &'w mut Writer<'a>,
    seqno: Seqno,
    own: Option<Own>,
    /// Where the last entry was located, and whether the one before it was, too.
    last: Option<Located>,
    repeats: bool,
    inserted: Inserted,
}

impl<'w, 'a> Batch<'w, 'a> {
    pub(super) fn new(tree: Tree<'a>, writer: &'w mut Writer<'a>, seqno: Seqno) -> Self {
        let inserted = Inserted::default();
        Self { tree, writer, seqno, own: None, last: None, repeats: false, inserted }
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
        let mut ahead = [None; LOCATED_AHEAD];
        let mut turn = 0;
        for entry in [first, second].into_iter().chain(entries) {
            let located = self.locate(entry.key);
            let slot = &mut ahead[turn % LOCATED_AHEAD];
            if let Some((due, located)) = slot.replace((entry, located)) {
                self.insert(due, located);
            }
            turn += 1;
        }
        for late in turn..turn + LOCATED_AHEAD {
            if let Some((due, located)) = ahead[late % LOCATED_AHEAD].take() {
                self.insert(due, located);
            }
        }
        self.inserted
    }

    /// Finds a key's leaf and asks for its memory. The key is above all located before.
    #[inline]
    fn locate(&mut self, key: &[u8]) -> Option<Located> {
        let arena = self.tree.arena;
        if let Some(last) = self.last {
            let last = self.renewed(last);
            let leaf = node(arena, last.leaf);
            // Only a leaf met twice in a row has its fence looked at: that may be far away.
            let belongs = match leaf.high() {
                None => true,
                Some(high) => self.repeats && key < arena.record(high).key(),
            };
            if belongs && leaf.lock().validate(last.version) {
                self.repeats = true;
                self.last = Some(last);
                return self.last;
            }
        }
        let found = self.tree.descend(|node| node.child_slot_for(arena, key));
        let located = found.map(|seen| Located { leaf: seen.node.at, version: seen.version });
        self.repeats = match (self.last, located) {
            (Some(last), Some(located)) => last.leaf == located.leaf,
            _ => false,
        };
        self.last = located;
        located
    }

    /// The same leaf at its newest version, if only this batch changed it (invariant 1).
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
        // A lock taken at a version and given back makes it two more.
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

    /// Inserts one version; false if it was there. `seen` may be out of date.
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
