//! The last commit to each tree, for who must know whether there was any since he looked (Rule: I46).
//!
//! A scan that locks rows reads some of them before it has their locks. Behind a lock it asks here: if its tree has had no
//! commit behind the snapshot that was read, what was read is what there is.
//!
//! Why that may be believed, of a row or a gap whose lock one has:
//! - Whoever changes it has its lock, or one of the tree; or is a batch that passed the gate before that was shut. A commit
//!   is noted within the sequencer's section, before its seqno is given out, and so before anybody can insert it, before it is
//!   visible, and before its locks or its passage of the gate are given back. Who has the lock thereafter has it from the mutex
//!   under which it was given back, or has seen the passage end: so he sees the note.
//! - All commits take that way: batches, transactions, what they have written beyond memory, queues of builds, and what was
//!   prepared, of which the decision brings the trees. Others insert for a committer who lies still, but nobody notes for
//!   him, or gives his locks back.
//! - A commit that is noted and is not visible yet lets a scan look once more than it had to, no more: it looks at what is
//!   visible, and at the row under the lock.
//! - Commits that are replayed are not noted: all of them are below every snapshot.
//! - What a change of the catalog makes of trees is no commit to them: they are new, renamed or dropped, and who reads one asks
//!   beside whether it was dropped (`TreeEntry::check`), which is said before the tree's lock is given back.
//!
//! Invariants
//! 1. A word is at least the last commit, of those that were given a seqno, to each tree that has it.
//!
//! Threads: notes are made within the sequencer's section, one after the other; all read. Cost: a store a tree of a commit. Some
//! trees share a word, which costs who reads them a look, and nothing else: there is nothing to allocate or to look up.

use crate::{
    Seqno, TreeId,
    sync::{AtomicU64, Ordering},
};

/// Trees whose numbers differ by less have words of their own. 32 KiB a store.
const WORDS: usize = if cfg!(shuttle) { 4 } else { 512 };

/// A word on a cache line of its own: indexes of one table have numbers side by side.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Word(AtomicU64);

/// The last commit to each tree.
#[derive(Debug)]
pub(crate) struct LastCommits {
    words: Box<[Word]>,
    /// Rows that were looked for again because of it.
    looked_again: AtomicU64,
}

impl Default for LastCommits {
    fn default() -> Self {
        let words = (0..WORDS).map(|_| Word::default()).collect();
        Self { words, looked_again: AtomicU64::new(0) }
    }
}

impl LastCommits {
    fn word(&self, tree: TreeId) -> &AtomicU64 {
        &self.words[tree.0 as usize % WORDS].0
    }

    /// A commit to these trees is about to get its seqno. Within the sequencer's section, so that seqnos ascend.
    pub fn note(&self, trees: impl IntoIterator<Item = TreeId>, seqno: Seqno) {
        for tree in trees {
            // Release, as `none_since` acquires: it is read behind a mutex that orders the two anyway.
            self.word(tree).store(seqno.0, Ordering::Release);
        }
    }

    /// True if nothing was committed to a tree behind `at`. To be asked under the locks of what it is asked for.
    pub fn none_since(&self, tree: TreeId, at: Seqno) -> bool {
        self.word(tree).load(Ordering::Acquire) <= at.0
    }

    /// A row had to be looked for again.
    pub fn looks_again(&self) {
        self.looked_again.fetch_add(1, Ordering::Relaxed);
    }

    /// How many rows were looked for again.
    pub fn looked_again(&self) -> u64 {
        self.looked_again.load(Ordering::Relaxed)
    }
}
