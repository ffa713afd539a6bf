//! The last commit to each tree. It tells a scan whether a tree has changed since the scan read it
//! (Rule: I46).
//!
//! A scan that locks rows would have to read each row again once it holds the row's lock. To avoid
//! that, it reads some rows before it locks them and, after acquiring a row's lock, checks here: if
//! the tree has had no commit after the snapshot that was read, the row that was read is still
//! current.
//!
//! Why that is correct, for a row or a gap whose lock is held:
//! - A writer of the row holds its lock, or one of the tree; or it is a batch that passed the gate
//!   before it was closed. A commit is noted within the sequencer's section, before its seqno is
//!   assigned. So the note precedes any insertion of the commit, its visibility, and the release of
//!   its locks or of its passage of the gate. A thread that holds the lock afterwards acquired it
//!   under the mutex under which it was released, or has seen the passage end: so it sees the note.
//! - All commits do this: batches, transactions, spilled ones included, queues of index builds, and
//!   prepared transactions, whose decision lists the trees. Other threads may insert on behalf of a
//!   stalled committer, but none notes for it or releases its locks.
//! - A commit that is noted and not yet visible only makes a scan read a row once more than
//!   necessary: under the row's lock, the scan then reads what is visible.
//! - Replayed commits are not noted: all of them are below every snapshot.
//! - Changes of the catalog are no commits to the trees concerned: trees are new, renamed or
//!   dropped. A reader separately checks whether its tree was dropped (`TreeEntry::check`), which
//!   is recorded before the tree's lock is released.
//!
//! Invariants
//! 1. A word is at least the last commit that was assigned a seqno, over all trees that share the
//!    word.
//!
//! Threads: notes are made within the sequencer's section, one after the other; all threads read.
//! Cost: one store per tree of a commit. Some trees share a word, which only makes their readers
//! read some rows again; nothing has to be allocated or looked up.

use crate::{
    Seqno, TreeId,
    striped::Striped,
    sync::{AtomicU64, Ordering},
};

/// Number of words. Trees whose numbers differ by less have separate words. 32 KiB per store.
const WORDS: usize = if cfg!(shuttle) { 4 } else { 512 };

/// The last commit to each tree.
#[derive(Debug, Default)]
pub(crate) struct LastCommits {
    /// Each on a cache line of its own: indexes of one table have adjacent numbers.
    words: Striped<AtomicU64, WORDS>,
    /// Number of rows that had to be read again.
    looked_again: AtomicU64,
}

impl LastCommits {
    fn word(&self, tree: TreeId) -> &AtomicU64 {
        self.words.at(tree.0 as usize)
    }

    /// Notes a commit to these trees that is about to get its seqno. Called within the sequencer's
    /// section, so that seqnos ascend.
    pub fn note(&self, trees: impl IntoIterator<Item = TreeId>, seqno: Seqno) {
        for tree in trees {
            // Release pairs with the Acquire in `none_since`; the reader is anyway ordered after it
            // by a mutex.
            self.word(tree).store(seqno.0, Ordering::Release);
        }
    }

    /// True if nothing was committed to a tree after `at`. Must be called while holding the locks
    /// that the answer is about.
    pub fn none_since(&self, tree: TreeId, at: Seqno) -> bool {
        self.word(tree).load(Ordering::Acquire) <= at.0
    }

    /// Counts a row that had to be read again.
    pub fn looks_again(&self) {
        self.looked_again.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of rows that were read again.
    pub fn looked_again(&self) -> u64 {
        self.looked_again.load(Ordering::Relaxed)
    }
}
