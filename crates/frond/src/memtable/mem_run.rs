//! Mini-runs: a large transaction's messages for one tree, sorted once and attached whole.
//!
//! Ten thousand entries that arrive sorted need no descent each: they are built into a tree of
//! their own (27–33 ns an entry, every leaf full) before the transaction has a seqno, and the
//! commit links it into the memtable with one atomic store. Readers, and the apply of the
//! memtable, merge it with the memtable's own tree by (key, seqno): the run as a whole is neither
//! newer nor older than that tree (Rule: I6).
//!
//! Invariants
//! 1. A mini-run has at most one message per key and never changes after `finish`.
//! 2. Its records carry seqno 0; the seqno that counts is given when it is attached.
//! 3. The list of attached runs only grows, and contains each (tree, seqno) once.
//!
//! Threads: one builds it; afterwards all read it.

use super::{
    arena::{Arena, AtomicAt},
    node::NodeHead,
    tree::{Batch, Entry, Inserted, Tree},
};
use crate::{
    Seqno, TreeId,
    cache::FramePool,
    message::Tag,
    sync::{Arc, OnceLock},
};

/// A sorted run of messages in memory.
pub struct MemRun {
    arena: Arena,
    root: AtomicAt<NodeHead>,
    inserted: Inserted,
}

impl MemRun {
    /// Builds a run from messages in ascending order of key, one per key.
    pub fn build<'e>(
        pool: Arc<FramePool>,
        messages: impl Iterator<Item = (&'e [u8], Tag, &'e [u8])>,
    ) -> Self {
        let arena = Arena::new(pool);
        let root = AtomicAt::empty();
        let entries = messages.map(|(key, tag, payload)| Entry { key, tag, payload });
        let tree = Tree { arena: &arena, root: &root };
        let inserted = Batch::new(tree, &mut arena.writer(), Seqno(0)).insert_all(entries);
        Self { arena, root, inserted }
    }

    /// Number of messages.
    pub fn entries(&self) -> usize {
        self.inserted.entries
    }

    /// Number of messages that give their key a value.
    pub fn rows(&self) -> usize {
        self.inserted.rows.unsigned_abs()
    }

    /// Bytes of keys and payloads.
    pub fn entry_bytes(&self) -> usize {
        self.inserted.bytes
    }

    /// Memory held, bytes.
    pub fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    pub(super) fn tree(&self) -> Tree<'_> {
        Tree { arena: &self.arena, root: &self.root }
    }
}

impl std::fmt::Debug for MemRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemRun({} entries, {} bytes)", self.entries(), self.bytes())
    }
}

/// A mini-run attached to a memtable.
pub(super) struct Attached {
    pub(super) tree: TreeId,
    pub(super) seqno: Seqno,
    pub(super) run: Arc<MemRun>,
    next: OnceLock<Box<Attached>>,
}

/// The attached runs of all trees, in order of arrival.
#[derive(Default)]
pub(super) struct AttachedRuns {
    first: OnceLock<Box<Attached>>,
}

impl AttachedRuns {
    /// Attaches a run; false if the tree already has one of this seqno.
    pub(super) fn attach(&self, tree: TreeId, seqno: Seqno, run: Arc<MemRun>) -> bool {
        let mut new = Box::new(Attached { tree, seqno, run, next: OnceLock::new() });
        let mut place = &self.first;
        loop {
            // A failed set means that another thread attached a run here first: check that run and
            // continue after it.
            match place.set(new) {
                Ok(()) => return true,
                Err(back) => new = back,
            }
            let Some(present) = place.get() else { continue };
            if (present.tree, present.seqno) == (tree, seqno) {
                return false;
            }
            place = &present.next;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Attached> {
        std::iter::successors(self.first.get(), |attached| attached.next.get()).map(|link| &**link)
    }

    /// The runs of a tree up to a seqno, newest first.
    pub(super) fn of_tree(&self, tree: TreeId, at: Seqno) -> Vec<&Attached> {
        let mut runs: Vec<_> =
            self.iter().filter(|run| run.tree == tree && run.seqno <= at).collect();
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.seqno));
        runs
    }
}

impl Drop for AttachedRuns {
    fn drop(&mut self) {
        // One by one: dropping a long list recursively would use a stack frame for each.
        let mut next = self.first.take();
        while let Some(mut attached) = next {
            next = attached.next.take();
        }
    }
}
