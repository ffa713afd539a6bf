//! Scans that lock the rows that they reach and, at levels that prevent inserts between rows, the
//! gaps.
//!
//! The naive way, to read a row and then lock it, is not enough: the row may change in between, and
//! others may insert before it. So rows are handled one by one (Rule: I46):
//!
//! 1. With gap locks, the scan's interval grows to the next existing row, and the scan waits for
//!    keys in it that others have written and not committed.
//! 2. The row is locked.
//! 3. If anything was committed to the tree since the snapshot in which the row was found, the row
//!    is looked up again.
//!
//! Rows that are read ahead are not locked.
//!
//! Invariants
//! 1. A returned row is the newest version, and stays so until the transaction ends. Exception: if
//!    another transaction holds the row and the last committed version is requested, that version
//!    is returned, without a lock.
//! 2. With gap locks: between two consecutive returned rows there is no other row, and none is
//!    inserted, except rows that were skipped because they were locked.
//! 3. A transaction at `Snapshot` does not skip a row that its snapshot shows and that was deleted
//!    since, because it would continue as if the row had never existed; it gets `Conflict` (Rule:
//!    I27). Existing rows are checked one by one.
//! 4. Publish, then look (Rule: I33): the interval exists before pending keys are searched
//!    (`locking_scan/gap.rs`), and both come before the check for commits.
//! 5. A row that was read before it was locked is returned only if the tree has had no commit by
//!    the time it is locked: `txn/sequencer.rs` says why this check is sufficient. Commits to
//!    other trees cost nothing.
//! 6. Every step moves the gap past what the caller returns next: the row of the step, or the
//!    caller's own row at the limit. Without gap locks, others may commit rows below it at any
//!    time; the scan must not go back to them.
//!
//! Threads: one. Cost: a lock for each row, and with gaps an interval that grows; a descent for
//! each row if others keep committing to the tree.

mod gap;

use crate::{
    Result,
    db::{Cursor, Tree, read::Gap},
    txn::lock_table::{RangeLock, RowMode},
};

use super::{IfLocked, Isolation, Meeting, Txn};
use crate::Error;
use gap::{Asked, Reached};

/// A locking scan over committed rows.
#[derive(Debug)]
pub(super) struct LockingScan<'t> {
    txn: &'t Txn,
    tree: Tree,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    mode: RowMode,
    meeting: Meeting,
    /// True if the row returned last is locked.
    is_locked: bool,
    with_gaps: bool,
    gap: Gap,
    /// Rows in the direction of the last step, from the gap on; `None` if they must be read anew.
    ahead: Option<(bool, Cursor)>,
    /// A scan over the transaction's snapshot, once that is not the newest.
    before: Option<Before>,
    /// The interval that grows with the scan, and its direction.
    interval: Option<(bool, RangeLock)>,
    /// What is known about pending keys ahead.
    asked: Option<Asked>,
    /// The last pending key that a forward scan waited for.
    waited: Option<Vec<u8>>,
    row: (Vec<u8>, Vec<u8>),
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// A row, locked.
    Row(&'a [u8], &'a [u8]),
    /// The next row, if any, is beyond the limit and is not locked. The scan is now past the limit.
    Beyond,
    End,
}

impl<'t> LockingScan<'t> {
    pub fn new(
        txn: &'t Txn,
        tree: &Tree,
        (from, to): (Option<Vec<u8>>, Option<Vec<u8>>),
        (mode, meeting): (RowMode, Meeting),
    ) -> Self {
        Self {
            txn,
            tree: tree.clone(),
            from,
            to,
            mode,
            meeting,
            is_locked: false,
            with_gaps: txn.options.isolation.locks_gaps(),
            gap: Gap::Low,
            ahead: None,
            before: None,
            interval: None,
            asked: None,
            waited: None,
            row: Default::default(),
        }
    }

    /// Positions the scan at `key`, or at the nearer end of the range if the key is outside it.
    pub fn seek(&mut self, key: &[u8]) {
        let is_below = self.from.as_deref().is_some_and(|from| key <= from);
        let is_above = self.to.as_deref().is_some_and(|to| key >= to);
        self.stand(match (is_below, is_above) {
            (true, _) => Gap::Low,
            (_, true) => Gap::High,
            _ => Gap::Below(key.to_vec()),
        });
    }

    pub fn seek_first(&mut self) {
        self.stand(Gap::Low);
    }

    pub fn seek_last(&mut self) {
        self.stand(Gap::High);
    }

    /// Restricts the scan to another range, starting at its first row. What it has locked stays
    /// locked.
    pub fn set_range(&mut self, (from, to): (Option<Vec<u8>>, Option<Vec<u8>>)) {
        (self.from, self.to) = (from, to);
        self.seek_first();
    }

    fn stand(&mut self, gap: Gap) {
        self.gap = gap;
        (self.ahead, self.before) = (None, None);
        self.leave_interval();
    }

    /// Locks and returns the next row in a direction, but goes no further than `limit`, the key of
    /// the caller's next own row.
    pub fn step(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<Step<'_>> {
        if self.gap == if forward { Gap::High } else { Gap::Low } {
            return Ok(Step::End);
        }
        if self.interval.is_some_and(|(direction, _)| direction != forward) {
            self.leave_interval();
        }
        loop {
            let seen = self.look(forward)?;
            let is_beyond = limit.is_some_and(|limit| !seen || self.is_beyond(forward, limit));
            let limit = limit.filter(|_| is_beyond);
            let is_last = || !seen && limit.is_none();
            let passes = || plant!("txn: the gap after the last row is not locked") && is_last();
            if self.with_gaps && !passes() {
                let end = self.lock_gap(forward, seen, limit);
                if end.inspect_err(|_| self.ahead = None)? == Reached::Pending {
                    self.ahead = None;
                    continue;
                }
            }
            let takes = seen && !is_beyond;
            let has = takes && self.lock_row()?;
            let is_busy = takes && !has;
            if self.is_newest() {
                // A holder of the whole tree may have dropped it, which is not a commit to it.
                self.tree.entry.check().inspect_err(|_| self.ahead = None)?;
            } else {
                self.txn.shared.engine.sequencer.last_commits.looks_again();
                let before = takes.then(|| self.row.0.clone());
                self.ahead = None;
                let again = self.look(forward)?;
                let is_same = match (&before, limit) {
                    (Some(key), _) => again && *key == self.row.0,
                    (None, Some(limit)) => !again || self.is_beyond(forward, limit),
                    (None, None) => !again,
                };
                if !is_same {
                    // Another row comes first, or the row was deleted.
                    if has {
                        self.leave_row();
                    }
                    self.ahead = None;
                    continue;
                }
            }
            if self.txn.options.isolation == Isolation::Snapshot {
                let end = limit.map(<[u8]>::to_vec).or_else(|| seen.then(|| self.row.0.clone()));
                self.nothing_has_gone(forward, end.as_deref())
                    .inspect_err(|_| self.ahead = None)?;
            }
            if is_busy && self.meeting.if_locked == IfLocked::SkipLocked {
                pass(&mut self.gap, forward, &self.row.0);
                continue;
            }
            if let Some(limit) = limit {
                // The caller returns its own row next: rows that others commit below it from now on
                // are behind the scan.
                if !plant!("txn: a locking scan stays below the own row that it hands out") {
                    pass(&mut self.gap, forward, limit);
                }
                self.ahead = None;
                return Ok(Step::Beyond);
            }
            if !seen {
                self.gap = if forward { Gap::High } else { Gap::Low };
                return Ok(Step::End);
            }
            self.is_locked = has;
            if has {
                let mut state = self.txn.go_on()?;
                let conflict = self.txn.must_not_conflict(&mut state, &self.tree, &self.row.0);
                if conflict.is_ok() {
                    state.seen.note(self.tree.entry.id, &self.row.0, true);
                }
                drop(state);
                conflict.inspect_err(|_| self.ahead = None)?;
            }
            pass(&mut self.gap, forward, &self.row.0);
            return Ok(Step::Row(&self.row.0, &self.row.1));
        }
    }

    /// Fails, and ends the transaction, if its snapshot shows a row between the gap and `end`, or
    /// the range's end, that does not exist any more (invariant 3). Must be called while `ahead` is
    /// up to date.
    fn nothing_has_gone(&mut self, forward: bool, end: Option<&[u8]>) -> Result<()> {
        let state = self.txn.go_on()?;
        let Some(snapshot) = &state.snapshot else { return Ok(()) };
        let last = &self.txn.shared.engine.sequencer.last_commits;
        let is_seen = self.ahead.as_ref().is_some_and(|(_, cursor)| cursor.seqno() <= snapshot.at)
            || last.none_since(self.tree.entry.id, snapshot.at);
        if is_seen || self.tree.birth() > snapshot.at {
            return Ok(());
        }
        if self.before.as_ref().is_none_or(|before| before.forward != forward) {
            let snapshot = self.txn.held_again(snapshot);
            let bounds = (self.from.clone(), self.to.clone());
            let tree = &self.tree;
            let mut cursor = Cursor::new(snapshot, tree.entry.id, Some(tree), bounds)?;
            cursor.stand(self.gap.clone());
            self.before = Some(Before { cursor, forward, next: None });
        }
        drop(state);
        let Some(before) = &mut self.before else { return Ok(()) };
        let is_gone = before.is_gone(&self.gap, end).inspect_err(|_| self.before = None)?;
        let gone = self.before.as_ref().and_then(|before| before.next.clone().flatten());
        let gone = gone.unwrap_or_default();
        if !is_gone || plant!("txn: a scan does not miss what has gone") {
            return Ok(());
        }
        let mut state = self.txn.go_on()?;
        self.txn.end(&mut state);
        Err(Error::Conflict { tree: self.tree.name(), key: gone })
    }

    /// True if the rows read ahead are up to date: nothing was committed to the tree since. Called
    /// after locking (invariant 5).
    fn is_newest(&self) -> bool {
        let (last, tree) = (&self.txn.shared.engine.sequencer.last_commits, self.tree.entry.id);
        self.ahead.as_ref().is_some_and(|(_, cursor)| last.none_since(tree, cursor.seqno()))
    }

    /// True if the row in `row` is beyond a key.
    fn is_beyond(&self, forward: bool, limit: &[u8]) -> bool {
        if forward { self.row.0.as_slice() > limit } else { self.row.0.as_slice() < limit }
    }

    /// Reads the next row into `row`; false if there is none.
    fn look(&mut self, forward: bool) -> Result<bool> {
        // Checked again after each wait for a lock: its holder may have dropped the tree.
        self.tree.entry.check()?;
        if self.ahead.as_ref().is_none_or(|(direction, _)| *direction != forward) {
            let tree = &self.tree;
            let snapshot = self.txn.newest_snapshot();
            let bounds = (self.from.clone(), self.to.clone());
            let mut cursor = Cursor::new(snapshot, tree.entry.id, Some(tree), bounds)?;
            cursor.stand(self.gap.clone());
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

    /// How rows are locked.
    pub fn lock(&self) -> (RowMode, Meeting) {
        (self.mode, self.meeting)
    }

    /// True if the row returned last is locked.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// True if a row that another transaction holds is skipped, or returned as last committed.
    fn passes_busy(&self) -> bool {
        matches!(self.meeting.if_locked, IfLocked::SkipLocked | IfLocked::SemiConsistent)
    }

    /// Releases a row that was locked and turned out not to be the next one, unless the level
    /// requires that rows it has read stay unchanged.
    fn leave_row(&self) {
        if self.txn.options.isolation == Isolation::ReadCommitted
            && let Ok(mut state) = self.txn.stay()
            && let Some(locks) = &mut state.locks
        {
            self.txn.shared.locking.table.unlock_last(locks);
        }
    }

    /// Locks the row in `row`; false if another transaction holds it and it must not be waited for.
    fn lock_row(&mut self) -> Result<bool> {
        let id = self.tree.entry.id;
        let mut state = self.txn.go_on()?;
        // With gap locks the intent was already taken for the first of them.
        let intended = match self.with_gaps {
            true => Ok(()),
            false => self.txn.intend(&mut state, id, self.mode, self.meeting.that_waits()),
        };
        let locked = intended.and_then(|()| {
            self.txn.lock_row(&mut state, (id, &self.row.0), self.mode, self.meeting)
        });
        drop(state);
        match locked {
            Ok(_) => Ok(true),
            Err(Error::LockBusy { .. }) if self.passes_busy() => Ok(false),
            // The row must be read again.
            Err(error) => {
                self.ahead = None;
                Err(error)
            }
        }
    }
}

/// Moves a gap past a key, in the direction of the scan.
fn pass(gap: &mut Gap, forward: bool, past: &[u8]) {
    let mut key = match std::mem::replace(gap, Gap::Low) {
        Gap::Above(key) | Gap::Below(key) => key,
        Gap::Low | Gap::High => Vec::new(),
    };
    key.clear();
    key.extend_from_slice(past);
    *gap = if forward { Gap::Above(key) } else { Gap::Below(key) };
}

/// A scan over a snapshot, in step with the one over the newest rows.
#[derive(Debug)]
struct Before {
    cursor: Cursor,
    forward: bool,
    /// The next row; the inner `None` means there is none.
    next: Option<Option<Vec<u8>>>,
}

impl Before {
    /// True if there is a row between the gap and `end`. Rows before the gap are skipped; the row
    /// at `end` is kept for the next call.
    fn is_gone(&mut self, gap: &Gap, end: Option<&[u8]>) -> Result<bool> {
        loop {
            if self.next.is_none() {
                let found = if self.forward { self.cursor.next() } else { self.cursor.prev() };
                self.next = Some(found?.map(|(key, _)| key.to_vec()));
            }
            let Some(Some(key)) = &self.next else { return Ok(false) };
            // The scan has passed it as an existing row.
            let is_behind = match gap {
                Gap::Above(at) if self.forward => key <= at,
                Gap::Below(at) if !self.forward => key >= at,
                _ => false,
            };
            if !is_behind {
                let (key, end) = (key.as_slice(), end);
                return Ok(end.is_none_or(|end| if self.forward { key < end } else { key > end }));
            }
            self.next = None;
        }
    }
}
