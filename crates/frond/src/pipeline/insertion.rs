//! What a commit brings into its memtable, and inserting it: by the committing thread, or by one that
//! waits for it (Rule: I3).
//!
//! Invariants
//! 1. Inserting twice, at once or one after the other, is inserting once: a memtable has each (key,
//!    seqno), range delete and mini-run once, and vacancies are only cut.
//! 2. What is inserted here does not change while anybody can reach it: a write set is sealed before,
//!    and its owner takes the memory back only when it is the last to hold it.
//!
//! Threads: all, for one commit also several.

use crate::{
    Seqno, TreeId,
    memtable::SortedRun,
    sync::{Arc, MutexGuard, Ordering},
    txn::{HoldsWrites, Section, WriteSet},
    version::MemSlot,
};

use super::Engine;

/// Entries of one tree from which on a commit makes a mini-run of them (Rule: I6). `--bench commit`: it
/// takes about half of the commit's time an entry away (300 to 120–170 ns at 10 000), and costs every point
/// read of its memtable some 180 ns a run: 40 runs of 10 000 make a read of 0.4 µs one of 7.5, four of
/// 100 000 one of 0.9. A memtable of 64 MiB has a million short entries, so at most some ten runs.
pub(crate) const MINI_RUN_ENTRIES_MIN: usize = 100_000;

/// A sealed write set on its way.
#[derive(Debug, Default)]
pub(crate) struct Insertion {
    pub writes: WriteSet,
    /// Trees touched, ascending.
    pub trees: Vec<TreeId>,
    /// By how much the numbers of rows of some trees change, of the others nobody knows; ascending.
    pub rows: Vec<(TreeId, i64)>,
    /// How far counters of trees are, as the record says: tree, counter, and the number that comes next.
    pub counters: Vec<(TreeId, u8, u64)>,
    /// The entries of some of them, as mini-runs.
    pub runs: Vec<(TreeId, Arc<SortedRun>)>,
    /// What goes from the catalog as a transaction that was prepared is decided: sorted, point entries alone.
    pub decided: WriteSet,
    /// It makes room in the end, and is admitted to a full disk as deletes are.
    pub relieves: bool,
}

impl Insertion {
    /// By how much the number of rows of a tree changes, if that is known.
    pub fn rows_of(&self, tree: TreeId) -> Option<i64> {
        let at = self.rows.binary_search_by_key(&tree, |(tree, _)| *tree).ok()?;
        Some(self.rows[at].1)
    }
}

impl HoldsWrites for Insertion {
    fn writes(&self) -> &WriteSet {
        &self.writes
    }
}

impl Engine {
    /// Makes mini-runs of trees of which there are many entries: before the commit has its seqno, beside
    /// other commits.
    pub(crate) fn make_runs(&self, insertion: &mut Insertion) {
        let Insertion { writes, trees, runs, .. } = insertion;
        for &tree in trees.iter() {
            if writes.count(tree) >= self.limits.mini_run_entries {
                let entries = writes.entries(tree);
                let messages = entries.map(|entry| (entry.key, entry.tag, entry.payload));
                let run = SortedRun::build(self.cx.pool.clone(), messages);
                runs.push((tree, Arc::new(run)));
            }
        }
    }

    /// Inserts what a commit brings.
    pub(crate) fn insert(&self, insertion: &Insertion, seqno: Seqno, slot: &MemSlot) {
        let Insertion { writes, trees, runs, decided, .. } = insertion;
        if self.vacancies.load(Ordering::SeqCst) > 0 {
            trees.iter().for_each(|&tree| self.trees.cut_vacancy(tree, writes));
            let spilled = slot.spilled().into_iter().flat_map(|spilled| spilled.iter());
            spilled.for_each(|(tree, piece)| self.trees.cut_vacancy_within(tree, piece));
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

    /// Enters the sequencer's section.
    pub(crate) fn enter(&self) -> MutexGuard<'_, Section> {
        self.sequencer.enter(|brings, seqno, slot| self.insert(brings, seqno, slot))
    }

    /// Returns once `seqno` is visible; inserts what others leave lying.
    pub(crate) fn wait_visible(&self, seqno: Seqno) {
        self.sequencer.wait_visible(seqno, |brings, seqno, slot| self.insert(brings, seqno, slot));
    }
}
