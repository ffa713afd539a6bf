//! Gap locks of a locking scan: the interval that grows up to the next row, and the keys in it that
//! others have written and not committed (Rule: I33).
//!
//! Invariants
//! 1. The interval exists, or has grown, before pending keys in it are searched.
//! 2. The result of a search is reused only while no insert has looked for intervals since
//!    (`LockTable::inserts_looked`), and only if it says that nothing is pending: a pending key may
//!    have been rolled back. So a scan over many rows searches the writers only once if they change
//!    only existing rows, or none.
//!
//! Threads: one. Cost of a row: the growth, and two loads; after an insert by another transaction,
//! a search of the writes of each writer of the tree, including its spilled runs.

use std::ops::Bound;

use super::LockingScan;
use crate::{
    Error, Result, TreeId,
    db::{Shared, read::Gap},
    run::{Direction, EntrySource},
    tree::SortedRunsCursor,
    txn::{LiveWrites, lock_table::Span},
};

/// The result of searching the writers of a scan's tree for pending keys.
#[derive(Debug)]
pub(super) struct Asked {
    /// Number of times that inserts had looked for intervals before the search.
    looked: u64,
    /// The nearest pending key beyond the searched gap, in the scan's direction; `None`: there is
    /// none up to the range's end.
    nearest: Option<Vec<u8>>,
}

/// How far an interval has grown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// To the requested end.
    End,
    /// To a pending key, which was waited for.
    Pending,
}

impl LockingScan<'_> {
    /// Makes the next step start another interval.
    pub(super) fn leave_interval(&mut self) {
        (self.interval, self.asked, self.waited) = (None, None, None);
    }

    /// Grows the interval to the row in `row`, to the limit, or to the range's end, and waits for
    /// keys in it that others have written and not committed. A forward scan goes no further than
    /// the first of them. Otherwise a transaction that has inserted that key and inserts the next
    /// one would wait for this scan, while the scan waits for the transaction. A writer that waits
    /// for this interval does not hold its row lock: the scan then locks the row at once, and the
    /// writer inserts its key after this transaction has ended.
    pub(super) fn lock_gap(
        &mut self,
        forward: bool,
        seen: bool,
        limit: Option<&[u8]>,
    ) -> Result<Reached> {
        let shared = &self.txn.shared;
        let table = &shared.locking.table;
        let id = self.tree.entry.id;
        let (gap, from, to) = (&self.gap, self.from.as_deref(), self.to.as_deref());
        let row = limit.or(seen.then_some(self.row.0.as_slice()));
        let (low, mut high) = match forward {
            true => (begin(gap, from), row.map_or(end(&Gap::High, to), Bound::Included)),
            false => (row.map_or(begin(&Gap::Low, from), Bound::Included), end(gap, to)),
        };
        let mut nearest = None;
        // Only to decide how far to go: the search is repeated after locking, unless no insert has
        // come meanwhile.
        if forward && !self.knows_of_none(forward, (low, high)) {
            let looked = table.inserts_looked(id);
            nearest = self.nearest_pending(low)?;
            if self.interval.is_some() {
                self.asked = Some(Asked { looked, nearest: nearest.clone() });
            }
            nearest = nearest.filter(|key| !is_beyond(forward, key, (low, high)));
        }
        if let Some(nearest) = &nearest {
            high = Bound::Included(nearest);
        }
        let mut state = self.txn.go_on()?;
        // The first lock closes the gate and takes the intent on the tree.
        self.txn.intend(&mut state, id, self.mode, self.meeting.that_waits())?;
        let Some(locks) = &mut state.locks else { return Ok(Reached::End) };
        let interval = match self.interval {
            Some((_, range)) if forward => {
                table.grow_up(locks, range, high);
                range
            }
            Some((_, range)) => {
                table.grow_down(locks, range, low);
                range
            }
            None => {
                let room = table.must_have_room(locks, id);
                room.map_err(|denied| shared.lock_error(denied))?;
                table.lock_range(locks, id, (low, high))
            }
        };
        self.interval = Some((forward, interval));
        // A row that was waited for in a gap was not returned, and the last returned row is behind:
        // neither can be released by `unlock_last`.
        locks.keep_last();
        if self.knows_of_none(forward, (low, high)) {
            return Ok(Reached::End);
        }
        let looked = table.inserts_looked(id);
        let mut writers = Vec::new();
        self.tree.entry.writers.others(Some(&self.txn.buffer.live), &mut writers);
        let (mut pending, mut beyond) = (Vec::new(), None);
        // Most trees have no other writer; then the bounds of the search are not needed.
        let asked = (!writers.is_empty()).then(|| match forward {
            true => (self.first_asked(low), to.map(<[u8]>::to_vec)),
            false => (from.unwrap_or_default().to_vec(), end_of(high)),
        });
        for (writer, (first, last)) in writers.iter().zip(asked.iter().cycle()) {
            let (mut first, mut last) = (first.clone(), last.clone());
            while shared.pending_key(
                writer,
                id,
                (&first, last.as_deref()),
                direction(forward),
                &mut pending,
            )? {
                if is_beyond(forward, &pending, (low, high)) {
                    keep_nearer(forward, &mut beyond, &pending);
                    break;
                }
                match self.txn.lock_row(&mut state, (id, &pending), self.mode, self.meeting) {
                    // The pending key is not visible to others yet.
                    Err(Error::LockBusy { .. }) if self.passes_busy() => {}
                    locked => drop(locked?),
                }
                match forward {
                    true => first = after(&pending),
                    false => last = Some(pending.clone()),
                }
            }
        }
        if let Some(locks) = &mut state.locks {
            locks.keep_last();
        }
        self.asked = Some(Asked { looked, nearest: beyond });
        let reached = if nearest.is_some() { Reached::Pending } else { Reached::End };
        self.waited = nearest.or(self.waited.take());
        Ok(reached)
    }

    /// True if it is known that nothing is pending in a gap (invariant 2). Must be called after
    /// locking what must stay so.
    fn knows_of_none(&self, forward: bool, gap: Span<'_>) -> bool {
        let (table, id) = (&self.txn.shared.locking.table, self.tree.entry.id);
        self.asked.as_ref().is_some_and(|Asked { looked, nearest }| {
            *looked == table.inserts_looked(id)
                && nearest.as_ref().is_none_or(|key| is_beyond(forward, key, gap))
        })
    }

    /// The first pending key from `low` on that was not waited for, up to the range's end.
    fn nearest_pending(&self, low: Bound<&[u8]>) -> Result<Option<Vec<u8>>> {
        let (shared, id) = (&self.txn.shared, self.tree.entry.id);
        let (mut writers, mut pending, mut nearest) = (Vec::new(), Vec::new(), None);
        self.tree.entry.writers.others(Some(&self.txn.buffer.live), &mut writers);
        if writers.is_empty() {
            return Ok(None);
        }
        let (first, to) = (self.first_asked(low), self.to.as_deref());
        for writer in writers {
            let range = (first.as_slice(), to);
            if shared.pending_key(&writer, id, range, Direction::Forward, &mut pending)? {
                keep_nearer(true, &mut nearest, &pending);
            }
        }
        Ok(nearest)
    }

    /// The first key to search in a gap of a forward scan: after the key that was waited for.
    fn first_asked(&self, low: Bound<&[u8]>) -> Vec<u8> {
        let first = match low {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => Vec::new(),
        };
        let waited = self.waited.as_deref().map(after);
        waited.filter(|waited| *waited > first).unwrap_or(first)
    }
}

impl Shared {
    /// Finds the unpublished key of a writer in `[from, to)` that comes first in a direction, and
    /// puts it into `found`; false if there is none.
    fn pending_key(
        &self,
        writer: &LiveWrites,
        tree: TreeId,
        (from, to): (&[u8], Option<&[u8]>),
        direction: Direction,
        found: &mut Vec<u8>,
    ) -> Result<bool> {
        let (mut any, pieces) = writer.pending(tree, (from, to), direction, found);
        let Some(pieces) = pieces else { return Ok(any) };
        for runs in pieces.iter().flat_map(|piece| piece.writes.of(tree)) {
            let mut cursor = SortedRunsCursor::new(&self.engine.cx, runs, (Some(from), to));
            match direction {
                Direction::Forward => cursor.seek_first()?,
                Direction::Backward => cursor.seek_last()?,
            }
            let is_nearer = |key: &[u8]| match direction {
                Direction::Forward => key < found.as_slice(),
                Direction::Backward => key > found.as_slice(),
            };
            if let Some(entry) = cursor.entry().filter(|entry| !any || is_nearer(entry.key)) {
                found.clear();
                found.extend_from_slice(entry.key);
                any = true;
            }
        }
        Ok(any)
    }
}

fn direction(forward: bool) -> Direction {
    if forward { Direction::Forward } else { Direction::Backward }
}

/// Keeps the key that a scan reaches first.
fn keep_nearer(forward: bool, nearest: &mut Option<Vec<u8>>, key: &[u8]) {
    let is_nearer =
        |than: &Vec<u8>| if forward { key < than.as_slice() } else { key > than.as_slice() };
    if nearest.as_ref().is_none_or(is_nearer) {
        *nearest = Some(key.to_vec());
    }
}

/// True if a key is beyond the gap for a scan in this direction.
fn is_beyond(forward: bool, key: &[u8], (low, high): Span<'_>) -> bool {
    match (forward, low, high) {
        (true, _, Bound::Included(high)) => key > high,
        (true, _, Bound::Excluded(high)) => key >= high,
        (false, Bound::Included(low), _) => key < low,
        (false, Bound::Excluded(low), _) => key <= low,
        (true, _, Bound::Unbounded) | (false, Bound::Unbounded, _) => false,
    }
}

/// The first key after an upper bound.
fn end_of(high: Bound<&[u8]>) -> Option<Vec<u8>> {
    match high {
        Bound::Included(key) => Some(after(key)),
        Bound::Excluded(key) => Some(key.to_vec()),
        Bound::Unbounded => None,
    }
}

/// The lower bound of what is above a gap, in a range from this key on.
fn begin<'a>(gap: &'a Gap, from: Option<&'a [u8]>) -> Bound<&'a [u8]> {
    match gap {
        Gap::Above(key) => Bound::Excluded(key),
        Gap::Below(key) => Bound::Included(key),
        Gap::Low | Gap::High => from.map_or(Bound::Unbounded, Bound::Included),
    }
}

/// The upper bound of what is below a gap, in a range up to this key.
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
