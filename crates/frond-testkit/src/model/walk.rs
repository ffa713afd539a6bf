//! Locking scans in the model: row by row and, at levels that lock gaps, the gap before each row.
//!
//! A scan locks no further than requested. It returns own rows as it reaches them, without a lock
//! on the committed row after them. If another transaction has written a key and not committed it,
//! an ascending scan locks the gap that far before it finds that the key is busy.

use std::ops::Bound;

use frond::{IfLocked, Isolation, RowLock};

use super::{
    Answer, Model, Refusal, Row, Sessions, TreeNumber,
    sessions::{Place, Span},
};
use crate::ops::Locking;

/// How plain scans of serializable transactions lock.
pub(super) const SERIAL: Locking = Locking { lock: RowLock::Shared, if_locked: IfLocked::Wait };

/// The position of a scan.
struct Walk<'a> {
    slot: u8,
    tree: TreeNumber,
    from: &'a [u8],
    to: &'a [u8],
    reverse: bool,
    locking: Locking,
    may_conflict: bool,
    /// The last row passed.
    at: Option<Vec<u8>>,
    /// The last pending key reached while ascending.
    waited: Option<Vec<u8>>,
    is_done: bool,
}

/// The result of a step.
enum Step {
    Row(Vec<u8>),
    /// The next committed row is beyond the own one.
    Beyond,
    End,
}

impl Sessions {
    /// The rows of a locking scan, in its order.
    #[expect(clippy::too_many_arguments, reason = "a scan has as many")]
    pub(super) fn walk(
        &mut self,
        model: &Model,
        slot: u8,
        tree: TreeNumber,
        (from, to): (&[u8], &[u8]),
        (limit, reverse): (usize, bool),
        locking: Locking,
        found: &Answer,
    ) -> Result<Vec<Row>, Refusal> {
        let (at, waited, is_done) = (None, None, false);
        let may_conflict = *found == Answer::Refused(Refusal::Conflict);
        let mut walk =
            Walk { slot, tree, from, to, reverse, locking, may_conflict, at, waited, is_done };
        let mut own: Vec<Vec<u8>> = self.at(slot).own_keys(tree, (from, to)).into_iter().collect();
        if !reverse {
            own.reverse(); // the next one last
        }
        let mut rows = Vec::new();
        // The committed row to return next; the outer `None`: it has to be searched for.
        let mut ahead: Option<Option<Vec<u8>>> = None;
        while rows.len() < limit {
            if ahead.is_none() {
                ahead = match self.step(model, &mut walk, own.last())? {
                    Step::Row(key) => Some(Some(key)),
                    Step::End => Some(None),
                    Step::Beyond => None,
                };
            }
            let committed = ahead.clone().flatten();
            let key = match (committed, own.last()) {
                (None, None) => break,
                (Some(key), None) => key,
                (None, Some(own)) => own.clone(),
                (Some(key), Some(own)) if reverse => key.max(own.clone()),
                (Some(key), Some(own)) => key.min(own.clone()),
            };
            if own.last() == Some(&key) {
                own.pop();
            }
            let place = (tree, key);
            if ahead.as_ref().is_some_and(|ahead| ahead.as_ref() == Some(&place.1)) {
                ahead = None;
            }
            if let Some(value) = self.at(slot).scanned(model, &place, u64::MAX) {
                rows.push((place.1, value));
            }
        }
        Ok(rows)
    }

    /// Locks the next committed row, but goes no further than the own row at `limit`.
    fn step(
        &mut self,
        model: &Model,
        walk: &mut Walk<'_>,
        limit: Option<&Vec<u8>>,
    ) -> Result<Step, Refusal> {
        if walk.is_done {
            return Ok(Step::End);
        }
        loop {
            let seen = walk.next(model);
            let is_beyond = limit.is_some_and(|limit| {
                seen.as_ref().is_none_or(|key| if walk.reverse { key < limit } else { key > limit })
            });
            let end = if is_beyond { limit } else { seen.as_ref() };
            let isolation = self.at(walk.slot).isolation;
            if matches!(isolation, Isolation::RepeatableRead | Isolation::Serializable)
                && self.lock_gap(walk, end)?
            {
                continue;
            }
            let end = end.cloned();
            if is_beyond {
                self.nothing_has_gone(model, walk, end)?;
                return Ok(Step::Beyond);
            }
            let Some(key) = seen else {
                self.nothing_has_gone(model, walk, end)?;
                walk.is_done = true;
                return Ok(Step::End);
            };
            let place: Place = (walk.tree, key.clone());
            let locked = self.lock(walk.slot, &place, walk.locking.lock);
            let passes = self.passes_busy(walk);
            if locked.is_ok() || passes {
                self.nothing_has_gone(model, walk, end)?;
            }
            if locked.is_err() && passes {
                walk.at = Some(key.clone());
                match walk.locking.if_locked {
                    // As last committed.
                    IfLocked::SemiConsistent => return Ok(Step::Row(key)),
                    _ => continue,
                }
            }
            locked?;
            self.must_not_conflict(model, walk.slot, &place, walk.may_conflict)?;
            walk.at = Some(key.clone());
            return Ok(Step::Row(key));
        }
    }

    /// Whether a row that another transaction holds is skipped, or returned as last committed.
    fn passes_busy(&self, walk: &Walk<'_>) -> bool {
        let is_serial = self.at(walk.slot).isolation == Isolation::Serializable;
        match walk.locking.if_locked {
            IfLocked::SkipLocked => true,
            IfLocked::SemiConsistent => !is_serial,
            IfLocked::Wait | IfLocked::NoWait => false,
        }
    }

    /// Ends a snapshot transaction if its snapshot shows a row before `end`, or before the end of
    /// the range, that has been deleted since.
    fn nothing_has_gone(
        &mut self,
        model: &Model,
        walk: &Walk<'_>,
        end: Option<Vec<u8>>,
    ) -> Result<(), Refusal> {
        let session = self.at(walk.slot);
        let Some(step) = session.snapshot.filter(|_| session.isolation == Isolation::Snapshot)
        else {
            return Ok(());
        };
        let (mut low, mut high) = walk.rest();
        match (end, walk.reverse) {
            (Some(end), false) => high = Bound::Excluded(end),
            (Some(end), true) => low = Bound::Excluded(end),
            (None, _) => {}
        }
        let span = (low, high);
        let history = &model.trees[&walk.tree];
        let mut shown = history.rows_at(step).map(|(key, _)| key);
        let is_gone = |key: &Vec<u8>| is_in(key, &span) && history.at(key, u64::MAX).is_none();
        if model.is_there_at(walk.tree, step) && shown.any(is_gone) {
            self.at_mut(walk.slot).end();
            return Err(Refusal::Conflict);
        }
        Ok(())
    }

    /// Locks the gap up to the row `end`, or to the end of the range; true if it only reached a
    /// pending key.
    fn lock_gap(&mut self, walk: &mut Walk<'_>, end: Option<&Vec<u8>>) -> Result<bool, Refusal> {
        let (mut low, mut high) = walk.rest();
        match (end, walk.reverse) {
            (Some(end), false) => high = Bound::Included(end.clone()),
            (Some(end), true) => low = Bound::Included(end.clone()),
            (None, _) => {}
        }
        let behind_waited = match &walk.waited {
            Some(waited) if !walk.reverse && is_in(waited, &(low.clone(), high.clone())) => {
                Bound::Excluded(waited.clone())
            }
            _ => low.clone(),
        };
        let mut pending = self.pending(walk.slot, walk.tree, &(behind_waited, high.clone()));
        let nearest = if walk.reverse { None } else { pending.first().cloned() };
        if let Some(nearest) = &nearest {
            high = Bound::Included(nearest.clone());
            pending.retain(|key| key <= nearest);
        }
        self.at_mut(walk.slot).lock_gap(walk.tree, (low, high), walk.locking.lock);
        for key in pending {
            let locked = self.lock(walk.slot, &(walk.tree, key), walk.locking.lock);
            if !self.passes_busy(walk) {
                locked.inspect_err(|_| self.at_mut(walk.slot).fails_in_gap())?;
            }
        }
        let is_pending = nearest.is_some();
        walk.waited = nearest.or(walk.waited.take());
        Ok(is_pending)
    }
}

impl Walk<'_> {
    /// The part of the range that is still ahead.
    fn rest(&self) -> Span {
        let (from, to) = (self.from.to_vec(), self.to.to_vec());
        match (&self.at, self.reverse) {
            (None, _) => (Bound::Included(from), Bound::Excluded(to)),
            (Some(at), false) => (Bound::Excluded(at.clone()), Bound::Excluded(to)),
            (Some(at), true) => (Bound::Included(from), Bound::Excluded(at.clone())),
        }
    }

    fn next(&self, model: &Model) -> Option<Vec<u8>> {
        let rest = self.rest();
        let rows = model.trees[&self.tree].rows_at(u64::MAX).map(|(key, _)| key);
        let mut rows = rows.filter(|key| is_in(key, &rest));
        if self.reverse { rows.next_back().cloned() } else { rows.next().cloned() }
    }
}

/// True if a key is in an interval.
pub(super) fn is_in(key: &[u8], (low, high): &Span) -> bool {
    let above = match low {
        Bound::Included(low) => key >= low.as_slice(),
        Bound::Excluded(low) => key > low.as_slice(),
        Bound::Unbounded => true,
    };
    let below = match high {
        Bound::Included(high) => key <= high.as_slice(),
        Bound::Excluded(high) => key < high.as_slice(),
        Bound::Unbounded => true,
    };
    above && below
}

impl Model {
    /// Whether a tree, given by number, existed after a step.
    pub(super) fn is_there_at(&self, tree: TreeNumber, step: u64) -> bool {
        self.names_at(step).values().any(|number| *number == tree)
    }
}

impl super::History {
    /// Whether a key was written since a step, even if its value did not change.
    pub(super) fn is_touched_since(&self, key: &[u8], step: u64) -> bool {
        let versions = self.rows.get(key).and_then(|versions| versions.last());
        let covers = |(at, from, to): &(u64, Vec<u8>, Vec<u8>)| {
            *at > step && key >= from.as_slice() && key < to.as_slice()
        };
        versions.is_some_and(|(at, _)| *at > step) || self.ranges.iter().any(covers)
    }
}
