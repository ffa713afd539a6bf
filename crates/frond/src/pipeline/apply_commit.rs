//! Applying a commit: its payload is inserted into the memtable, by the committing thread or by a
//! thread that waits for it (helping; Rule: I3).
//!
//! Invariants
//! 1. Inserting a payload twice, concurrently or one after the other, has the effect of inserting
//!    it once: a memtable keeps each (key, seqno), range delete and mini-run once, and empty-range
//!    hints are only cut.
//! 2. A payload does not change while another thread can reach it: the write set is sealed before,
//!    and its owner takes the memory back only when it holds the last reference.
//!
//! Threads: all; several may insert one payload.

use crate::{
    Seqno, TreeId,
    memtable::MemRun,
    sync::{Arc, MutexGuard, Ordering},
    txn::{HoldsWrites, Section, WriteSet},
    version::MemtableRef,
};

use super::Engine;

/// Entries of one tree from which a commit builds a mini-run of them (Rule: I6). `--bench commit`:
/// a mini-run saves about half of the commit's time per entry (300 to 120–170 ns at 10 000), and
/// costs every point read of its memtable about 180 ns per run: with 40 runs of 10 000 a read takes
/// 7.5 µs instead of 0.4, with four of 100 000 0.9. A memtable of 64 MiB has a million short
/// entries, so at most about ten runs.
pub(crate) const MINI_RUN_ENTRIES_MIN: usize = 100_000;

/// The payload of a commit: a sealed write set and what goes with it.
#[derive(Debug, Default)]
pub(crate) struct CommitPayload {
    pub writes: WriteSet,
    /// Trees touched, ascending.
    pub trees: Vec<TreeId>,
    /// Changes of the row counts of trees, ascending; a tree that is not listed has an unknown
    /// change.
    pub rows: Vec<(TreeId, i64)>,
    /// New values of trees' counters, as in the log record: tree, counter, and the next number.
    pub counters: Vec<(TreeId, u8, u64)>,
    /// Mini-runs that hold the entries of some of the trees.
    pub runs: Vec<(TreeId, Arc<MemRun>)>,
    /// Catalog rows that the decision of a prepared transaction removes: sorted, point entries
    /// only.
    pub decided: WriteSet,
    /// The commit will free space in the end, so it is admitted on a full disk as deletes are.
    pub relieves: bool,
}

impl CommitPayload {
    /// Change of a tree's row count, if it is known.
    pub fn rows_of(&self, tree: TreeId) -> Option<i64> {
        let at = self.rows.binary_search_by_key(&tree, |(tree, _)| *tree).ok()?;
        Some(self.rows[at].1)
    }
}

impl HoldsWrites for CommitPayload {
    fn writes(&self) -> &WriteSet {
        &self.writes
    }
}

impl Engine {
    /// Builds mini-runs for trees with many entries. Called before the commit has its seqno,
    /// concurrently with other commits.
    pub(crate) fn make_runs(&self, payload: &mut CommitPayload) {
        let CommitPayload { writes, trees, runs, .. } = payload;
        for &tree in trees.iter() {
            if writes.count(tree) >= self.limits.mini_run_entries {
                let entries = writes.entries(tree);
                let messages = entries.map(|entry| (entry.key, entry.tag, entry.payload));
                let run = MemRun::build(self.cx.pool.clone(), messages);
                runs.push((tree, Arc::new(run)));
            }
        }
    }

    /// Enters the sequencer's section, in which a commit gets its seqno.
    pub(crate) fn enter(&self) -> MutexGuard<'_, Section> {
        self.sequencer.enter(|payload, seqno, slot| self.insert(payload, seqno, slot))
    }

    /// Inserts a commit's payload into its memtable.
    pub(crate) fn insert(&self, payload: &CommitPayload, seqno: Seqno, slot: &MemtableRef) {
        let CommitPayload { writes, trees, runs, decided, .. } = payload;
        if self.empty_ranges.load(Ordering::SeqCst) > 0 {
            trees.iter().for_each(|&tree| self.trees.cut_empty_ranges(tree, writes));
            let spilled = slot.spilled().into_iter().flat_map(|spilled| spilled.iter());
            spilled.for_each(|(tree, piece)| self.trees.cut_empty_ranges_within(tree, piece));
        }
        for &tree in trees {
            slot.table.delete_ranges(tree, seqno, writes.ranges(tree));
            match runs.iter().find(|(of, _)| *of == tree) {
                Some((_, run)) => slot.table.attach(tree, seqno, run.clone()),
                None => {
                    let entries = writes.entries(tree);
                    let messages = entries.map(|entry| (entry.key, entry.tag, entry.payload));
                    slot.table.insert(tree, seqno, messages);
                }
            }
        }
        if decided.len() > 0 {
            for tree in decided.trees() {
                let messages = decided.entries(tree);
                let messages = messages.map(|entry| (entry.key, entry.tag, entry.payload));
                slot.table.insert(tree, seqno, messages);
            }
        }
    }

    /// Returns once `seqno` is visible; inserts payloads of stalled commits on their owners'
    /// behalf.
    pub(crate) fn wait_visible(&self, seqno: Seqno) {
        let insert = |payload: &CommitPayload, seqno, slot: &_| self.insert(payload, seqno, slot);
        self.sequencer.wait_visible(seqno, insert);
    }
}
