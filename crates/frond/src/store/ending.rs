//! Ending lineages: the pages of dropped trees die, a bounded number at a time (Rule: I22).
//!
//! The naive way is to walk a dropped tree and free its pages; it reads the whole tree and fails at
//! a damaged page. So a dropped tree is not read. Whatever it wrote is of its own lineage (Rule:
//! I19), and no version links any of it from the drop on: clones and named snapshots keep what they
//! inherited by their pins, readers and slots keep theirs by pins of versions. So everything that
//! the space map lists as alive in the lineage dies with the tree, and one pass over the map finds
//! it, damaged pages and long values included.
//!
//! The map is also the durable list of the work that remains: an extent that is alive in it and
//! whose lineage has no root in the root directory belongs to a dropped tree. Opening starts a pass
//! for it.
//!
//! Invariants
//! 1. A lineage ends once a version without its tree is being written, after everything that
//!    earlier versions did to its pages has been recorded. If a clone starts in the first such
//!    version, the lineage ends with the next: the clone pins the pages as they are in that
//!    version, and they must not die with it.
//! 2. One pass serves all lineages that ended before it started; the next pass those that ended
//!    meanwhile.
//! 3. The lock is held for a bounded number of records.
//! 4. A page dies with the version that is being written, however long ago its tree was dropped:
//!    the maps of both slots list it as alive until then, and after a crash one of them is used
//!    (Rule: I18).
//!
//! Threads: the checkpoint, one at a time; `end_lineage` also at opening.

use std::collections::{BTreeSet, HashSet};

use super::{
    file::Store,
    space::{Inner, STORE_LINEAGE},
};
use crate::types::{Lineage, VersionNumber};

/// Records examined per hold of the lock: a few hundred microseconds.
const LOOKED_AT_ONCE: usize = 4096;
/// Records examined between two checkpoints, whether or not any dies: about ten milliseconds.
const LOOKED_AT_MAX: usize = 64 * LOOKED_AT_ONCE;

/// The state of ending lineages.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// Lineages of the pass in progress.
    pass: HashSet<Lineage>,
    /// Offset at which the pass continues.
    from: u64,
    /// Lineages of the next pass.
    next: HashSet<Lineage>,
}

impl Store {
    /// Ends a lineage: its tree is neither in the version being written nor in any later one, and
    /// what earlier versions did to its pages is recorded.
    pub fn end_lineage(&self, lineage: Lineage) {
        self.space().lock().ending.next.insert(lineage);
    }

    /// Makes at most `extents_max` extents of ended lineages die with `version`, which is being
    /// written.
    pub fn end_some(&self, version: VersionNumber, extents_max: usize) {
        let (mut died, mut looked_at) = (0, 0);
        while died < extents_max && looked_at < LOOKED_AT_MAX {
            // The lock is released between the steps.
            match self.space().lock().end_piece(version, extents_max - died) {
                Some(count) => died += count,
                None => return,
            }
            looked_at += LOOKED_AT_ONCE;
        }
    }

    /// True while pages of dropped trees remain to be freed.
    pub fn is_ending(&self) -> bool {
        let inner = self.space().lock();
        !(inner.ending.pass.is_empty() && inner.ending.next.is_empty())
    }
}

impl Inner {
    /// Ends the lineages of dropped trees that still have pages. Called after loading the map of a
    /// version whose trees write under `known`: what is alive of any other lineage belongs to a
    /// dropped tree.
    pub fn end_unknown(&mut self, known: &BTreeSet<Lineage>) {
        for record in self.extents.values() {
            let is_unknown = record.lineage != STORE_LINEAGE && !known.contains(&record.lineage);
            if is_unknown && !record.is_dead() && !record.temporary {
                self.ending.next.insert(record.lineage);
            }
        }
    }

    /// Performs one step of a pass and returns how many extents died; `None` if there is nothing to
    /// do.
    fn end_piece(&mut self, version: VersionNumber, extents_max: usize) -> Option<usize> {
        if self.ending.pass.is_empty() {
            self.ending.pass = std::mem::take(&mut self.ending.next);
            self.ending.from = 0;
        }
        if self.ending.pass.is_empty() || plant!("store: a dropped tree keeps its pages") {
            return None;
        }
        let mut ends: Vec<u64> = Vec::new();
        let mut from = None;
        for (seen, (&offset, record)) in self.extents.range(self.ending.from..).enumerate() {
            if seen == LOOKED_AT_ONCE || ends.len() == extents_max {
                from = Some(offset);
                break;
            }
            let has_ended = self.ending.pass.contains(&record.lineage);
            if has_ended && !record.is_dead() && !record.temporary {
                ends.push(offset);
            }
        }
        match from {
            Some(offset) => self.ending.from = offset,
            None => self.ending.pass.clear(),
        }
        for &offset in &ends {
            self.change(offset, |record| record.death = version.max(record.birth));
            self.free_or_keep(offset);
        }
        Some(ends.len())
    }
}
