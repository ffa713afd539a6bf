//! Walks that lock what they meet: the rows, and at levels that keep others from inserting between them, the gaps.
//!
//! One row after the other (Rule: I46). The interval of the walk grows to the next row there is; keys that others
//! have written there and not committed are waited for; the row is locked; and if anything was committed since the
//! snapshot in which the row was found, it is looked for again. What is read ahead is not locked.
//!
//! Invariants
//! 1. A row handed out is the newest there is, and stays so until the transaction ends.
//! 2. With gaps: between two rows handed out one after the other there is no third, and none comes.
//! 3. Publish, then look (Rule: I33): the interval is there before pending keys are asked for, and they are before
//!    it is looked whether anything was committed.
//!
//! Threads: one. Cost: a lock, and with gaps a look at each writer of the tree, for each row; a descent for each row
//! if others commit all the time.

use std::ops::Bound;

use crate::{
    Result,
    catalog::TreeEntry,
    sync::Arc,
    txn::lock_table::{RangeLock, RowMode},
};

use super::{
    super::{Cursor, Tree},
    IfLocked, Txn,
};
use crate::Error;

/// Where a walk stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Gap {
    Low,
    High,
    Above(Vec<u8>),
    Below(Vec<u8>),
}

/// A walk over committed rows that locks them.
#[derive(Debug)]
pub(super) struct LockedWalk<'t> {
    txn: &'t Txn,
    tree: Tree,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    mode: RowMode,
    if_locked: IfLocked,
    with_gaps: bool,
    gap: Gap,
    /// Rows in the direction of the last step, from the gap on; `None`: to be looked for anew.
    ahead: Option<(bool, Cursor)>,
    /// The interval that grows with the walk, in this direction.
    interval: Option<(bool, RangeLock)>,
    row: (Vec<u8>, Vec<u8>),
}

impl<'t> LockedWalk<'t> {
    pub fn new(
        txn: &'t Txn,
        tree: &Tree,
        (from, to): (Option<Vec<u8>>, Option<Vec<u8>>),
        (mode, if_locked): (RowMode, IfLocked),
    ) -> Self {
        Self {
            txn,
            tree: tree.clone(),
            from,
            to,
            mode,
            if_locked,
            with_gaps: txn.options.isolation.locks_gaps(),
            gap: Gap::Low,
            ahead: None,
            interval: None,
            row: Default::default(),
        }
    }

    pub fn seek(&mut self, key: &[u8]) {
        self.stand(Gap::Below(key.to_vec()));
    }

    pub fn seek_first(&mut self) {
        self.stand(Gap::Low);
    }

    pub fn seek_last(&mut self) {
        self.stand(Gap::High);
    }

    fn stand(&mut self, gap: Gap) {
        self.gap = gap;
        (self.ahead, self.interval) = (None, None);
    }

    /// The next row in a direction, locked.
    pub fn step(&mut self, forward: bool) -> Result<Option<(&[u8], &[u8])>> {
        if self.interval.is_some_and(|(direction, _)| direction != forward) {
            self.interval = None;
        }
        loop {
            let seen = self.look(forward)?;
            if self.with_gaps {
                self.lock_gap(forward, seen).inspect_err(|_| self.ahead = None)?;
            }
            if seen && !self.lock_row(forward)? {
                continue;
            }
            // Whatever was committed since may be here.
            let is_newest = self.ahead.as_ref().is_some_and(|(_, cursor)| {
                cursor.seqno() == self.txn.shared.engine.sequencer.visible()
            });
            if !is_newest {
                let before = seen.then(|| self.row.0.clone());
                self.ahead = None;
                let again = self.look(forward)?;
                if again != before.is_some() || before.is_some_and(|key| key != self.row.0) {
                    // Another row comes first, or it has gone; its lock stays.
                    self.ahead = None;
                    continue;
                }
            }
            if !seen {
                self.gap = if forward { Gap::High } else { Gap::Low };
                return Ok(None);
            }
            self.pass(forward);
            return Ok(Some((&self.row.0, &self.row.1)));
        }
    }

    /// Goes behind the row that was seen.
    fn pass(&mut self, forward: bool) {
        let key = self.row.0.clone();
        self.gap = if forward { Gap::Above(key) } else { Gap::Below(key) };
    }

    /// Puts the next row into `row`; false if there is none.
    fn look(&mut self, forward: bool) -> Result<bool> {
        if self.ahead.as_ref().is_none_or(|(direction, _)| *direction != forward) {
            let entry: Arc<TreeEntry> = self.tree.entry.clone();
            let snapshot = self.txn.shared.snapshot();
            let bounds = (self.from.clone(), self.to.clone());
            let mut cursor = Cursor::new(snapshot, entry.id, Some(entry), bounds)?;
            match &self.gap {
                Gap::Low => cursor.seek_first(),
                Gap::High => cursor.seek_last(),
                Gap::Below(key) => cursor.seek(key),
                Gap::Above(key) => cursor.seek(&after(key)),
            }
            self.ahead = Some((forward, cursor));
        }
        let Some((_, cursor)) = &mut self.ahead else { return Ok(false) };
        let found = match if forward { cursor.next() } else { cursor.prev() } {
            Ok(found) => found,
            Err(error) => {
                self.ahead = None;
                return Err(error);
            }
        };
        if let Some((key, value)) = found {
            self.row.0.clear();
            self.row.0.extend_from_slice(key);
            self.row.1.clear();
            self.row.1.extend_from_slice(value);
            return Ok(true);
        }
        Ok(false)
    }

    /// Locks the row that was seen; false if it is passed by, being locked by another.
    fn lock_row(&mut self, forward: bool) -> Result<bool> {
        let id = self.tree.entry.id;
        let if_locked = self.if_locked;
        let mut state = self.txn.go_on()?;
        let locked = self.txn.lock_row(&mut state, (id, &self.row.0), self.mode, if_locked);
        let locked =
            locked.and_then(|_| self.txn.must_not_conflict(&mut state, &self.tree, &self.row.0));
        drop(state);
        match locked {
            Ok(()) => Ok(true),
            Err(Error::LockBusy { .. }) if if_locked == IfLocked::Skip => {
                self.pass(forward);
                Ok(false)
            }
            // The row is to be seen again.
            Err(error) => {
                self.ahead = None;
                Err(error)
            }
        }
    }

    /// Grows the interval to the row that was seen, or to the range's end, and waits for keys in it that others have
    /// written and not committed. A writer that waits for this interval does not hold its row: then that is had at
    /// once, and the key comes behind this transaction.
    fn lock_gap(&mut self, forward: bool, seen: bool) -> Result<()> {
        let table = &self.txn.shared.lock_table;
        let id = self.tree.entry.id;
        let row = seen.then_some(self.row.0.as_slice());
        let (gap, from, to) = (&self.gap, self.from.as_deref(), self.to.as_deref());
        let (low, high) = match forward {
            true => (begin(gap, from), row.map_or(end(&Gap::High, to), Bound::Included)),
            false => (row.map_or(begin(&Gap::Low, from), Bound::Included), end(gap, to)),
        };
        let mut state = self.txn.go_on()?;
        // The first lock shuts the gate and says so of the tree.
        self.txn.intend(&mut state, id, self.mode, self.if_locked)?;
        let Some(locks) = &mut state.locks else { return Ok(()) };
        let interval = self.interval.map(|(_, range)| {
            if forward {
                table.grow_up(locks, range, high)
            } else {
                table.grow_down(locks, range, low)
            }
            range
        });
        let interval = interval.unwrap_or_else(|| table.lock_range(locks, id, (low, high)));
        let first = match low {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => Vec::new(),
        };
        let end = match high {
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        self.interval = Some((forward, interval));
        let mut writers = Vec::new();
        self.tree.entry.writers.others(Some(&self.txn.live), &mut writers);
        let mut pending = Vec::new();
        for writer in writers {
            let mut at = first.clone();
            while writer.pending_key(id, &at, end.as_deref(), &mut pending) {
                match self.txn.lock_row(&mut state, (id, &pending), self.mode, self.if_locked) {
                    // It is not there for anybody yet.
                    Err(Error::LockBusy { .. }) if self.if_locked == IfLocked::Skip => {}
                    locked => drop(locked?),
                }
                at = after(&pending);
            }
        }
        Ok(())
    }
}

/// Where what is above a gap begins, in a range from this key on.
fn begin<'a>(gap: &'a Gap, from: Option<&'a [u8]>) -> Bound<&'a [u8]> {
    match gap {
        Gap::Above(key) => Bound::Excluded(key),
        Gap::Below(key) => Bound::Included(key),
        Gap::Low | Gap::High => from.map_or(Bound::Unbounded, Bound::Included),
    }
}

/// Where what is below a gap ends, in a range up to this key.
fn end<'a>(gap: &'a Gap, to: Option<&'a [u8]>) -> Bound<&'a [u8]> {
    match gap {
        Gap::Above(key) => Bound::Included(key),
        Gap::Below(key) => Bound::Excluded(key),
        Gap::Low | Gap::High => to.map_or(Bound::Unbounded, Bound::Excluded),
    }
}

/// The first key above this one.
fn after(key: &[u8]) -> Vec<u8> {
    let mut after = key.to_vec();
    after.push(0);
    after
}
