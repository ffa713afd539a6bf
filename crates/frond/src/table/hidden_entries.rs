//! Index entries as a transaction sees them, including those that its own writes hide.
//!
//! A unique index has one entry per key. At `RepeatableRead` a transaction writes on top of rows
//! that are newer than its snapshot. So it may have written, or deleted, one row's entry at a key
//! where its snapshot shows the entry of another row, which it has not written. It still sees that
//! other row as its snapshot does, so a scan of the index must return that entry, too.
//!
//! Invariants
//! 1. Entries come in the order of their keys; for one key the transaction's own comes before the
//!    snapshot's.
//! 2. This module adds an entry of the snapshot only if the transaction has written the entry's key
//!    but not its row: all other entries come from the transaction's cursor.
//! 3. Which of two entries with one key comes second depends on what the snapshot contains, not on
//!    the cursor that returned the entry: own writes made during the scan do not change it.
//!
//! At a snapshot outside of transactions there are no own writes, and a cursor returns everything.
//!
//! Threads: one. Cost: while the transaction has written nothing to the index, that of its cursor;
//! from its first write on, a second scan over the snapshot, and a look at own writes for each
//! entry.

use crate::{
    Cursor, Result, Tree, Txn, TxnCursor,
    db::{Passed, Repeats, RowPlace},
};

use super::read::TableIndex;

/// A key and a value.
type Found = (Vec<u8>, Vec<u8>);

/// A scan over entries.
#[derive(Debug)]
pub(super) enum Entries<'t> {
    /// The entries of a transaction whose own writes hide nothing.
    Txn(Box<TxnCursor<'t>>),
    /// The entries of a transaction whose own writes may hide entries of its snapshot.
    Overlaid(Box<Overlaid<'t>>),
    /// The entries at a snapshot outside of transactions.
    Snapshot(Box<Cursor>),
}

/// A scan of a transaction whose own writes may hide entries of its snapshot.
#[derive(Debug)]
pub(super) struct Overlaid<'t> {
    txn: &'t Txn,
    index: TableIndex,
    /// The entries with own writes over them.
    top: TxnCursor<'t>,
    /// The entries of the snapshot alone, once the transaction has written to the index.
    snapshot: Option<Cursor>,
    /// The next entry of `snapshot`, if it was fetched and may be beyond the next of `top`.
    snapshot_next: Option<Found>,
    /// The next entry that own writes hide, if it was found.
    hidden_next: Option<Found>,
    /// What `top` returned in the last step, if that step ended with an entry before it.
    top_next: Option<Option<Found>>,
    /// Both cursors stand at the position.
    is_placed: bool,
    forward: bool,
    position: Position,
    found: Found,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Position {
    Low,
    High,
    Below(Vec<u8>),
    /// On the key of `found`. The value says which of the key's entries was returned last; the
    /// snapshot's entry is the second.
    On(Passed),
}

impl<'t> Entries<'t> {
    /// The entries of a transaction's cursor; with `may_hide`, also those that own writes hide.
    pub fn new(index: &TableIndex, txn: &'t Txn, top: TxnCursor<'t>, may_hide: bool) -> Self {
        if !may_hide {
            return Self::Txn(Box::new(top));
        }
        Self::Overlaid(Box::new(Overlaid {
            txn,
            index: index.clone(),
            top,
            snapshot: None,
            snapshot_next: None,
            hidden_next: None,
            top_next: None,
            is_placed: false,
            forward: true,
            position: Position::Low,
            found: Found::default(),
        }))
    }

    /// The entries of a cursor at a snapshot.
    pub fn at(cursor: Cursor) -> Self {
        Self::Snapshot(Box::new(cursor))
    }

    fn walk(&mut self) -> &mut dyn Walk {
        match self {
            Self::Txn(cursor) => &mut **cursor,
            Self::Overlaid(scan) => &mut **scan,
            Self::Snapshot(cursor) => &mut **cursor,
        }
    }

    pub fn seek(&mut self, key: &[u8]) {
        self.walk().seek(key);
    }

    pub fn seek_first(&mut self) {
        self.walk().seek_first();
    }

    pub fn seek_last(&mut self) {
        self.walk().seek_last();
    }

    /// The next entry in a direction.
    pub fn step(&mut self, forward: bool) -> Result<Option<(&[u8], &[u8])>> {
        if forward { self.walk().next() } else { self.walk().prev() }
    }

    /// Which entries with the last returned key were passed.
    pub fn passed(&self) -> Passed {
        match self {
            Self::Overlaid(scan) => scan.passed(),
            _ => Passed::First,
        }
    }

    /// Whether one key may come twice: as the transaction's own entry, and as the snapshot's.
    pub fn repeats(&self) -> Repeats {
        match self {
            Self::Overlaid(scan) if scan.snapshot.is_some() => Repeats::Always,
            _ => Repeats::Never,
        }
    }

    /// Moves to an entry that was returned before, to continue from there in a direction.
    pub fn go_on_from(&mut self, (mut key, passed): RowPlace, forward: bool) {
        match self {
            Self::Overlaid(scan) => {
                scan.found.0 = key;
                scan.stand(Position::On(passed));
            }
            _ => {
                if forward {
                    key.push(0);
                }
                self.seek(&key);
            }
        }
    }

    /// Makes the next step in this direction return the last entry again.
    pub fn come_again_to(&mut self, mut key: Vec<u8>, forward: bool) {
        match (self, forward) {
            (Self::Overlaid(scan), true) if scan.passed() == Passed::Second => {
                scan.stand(Position::On(Passed::First));
            }
            (Self::Overlaid(scan), false) if scan.passed() == Passed::First => {
                scan.stand(Position::On(Passed::Second));
            }
            (this, _) => {
                if !forward {
                    key.push(0);
                }
                this.seek(&key);
            }
        }
    }
}

impl Overlaid<'_> {
    fn passed(&self) -> Passed {
        match self.position {
            Position::On(passed) => passed,
            _ => Passed::First,
        }
    }

    fn stand(&mut self, position: Position) {
        (self.position, self.is_placed) = (position, false);
    }

    /// Positions both cursors to continue from the position in the direction, including the
    /// entries with its key: those that were passed are skipped.
    fn place(&mut self) {
        (self.snapshot_next, self.hidden_next, self.top_next) = (None, None, None);
        let mut above = self.found.0.clone();
        above.push(0);
        let snapshot = self.snapshot.as_mut().map(|cursor| cursor as &mut dyn Walk);
        for cursor in [&mut self.top as &mut dyn Walk].into_iter().chain(snapshot) {
            match &self.position {
                Position::Low => cursor.seek_first(),
                Position::High => cursor.seek_last(),
                Position::Below(key) => cursor.seek(key),
                Position::On(_) if self.forward => cursor.seek(&self.found.0),
                Position::On(_) => cursor.seek(&above),
            }
        }
    }

    fn step(&mut self, forward: bool) -> Result<Option<(&[u8], &[u8])>> {
        if self.snapshot.is_none() && self.txn.has_touched(&self.index.index.tree) {
            (self.snapshot, self.is_placed) = (self.top.committed(), false);
        }
        if self.snapshot.is_none() && (self.is_placed || !matches!(self.position, Position::On(_)))
        {
            return self.step_untouched(forward);
        }
        if !self.is_placed || self.forward != forward {
            self.forward = forward;
            self.place();
        }
        // Stays false until the step has succeeded.
        self.is_placed = false;
        let mut top = match self.top_next.take() {
            // Nothing lies before it either: own deletes do not come back, except by a rollback.
            Some(top) if self.top.still_gives(top.as_ref().map_or(&[], |(key, _)| key))? => top,
            Some(_) => {
                self.place();
                go(&mut self.top, forward)?
            }
            None => go(&mut self.top, forward)?,
        };
        let mut is_same = false;
        loop {
            is_same |= self.advance_to(top.as_ref())?;
            let is_first = match (&self.hidden_next, &top) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(hidden), Some(top)) if forward => hidden.0 < top.0,
                (Some(hidden), Some(top)) => hidden.0 >= top.0,
            };
            let is_snapshots = is_first || is_same || self.snapshot.is_none();
            let passed = if is_snapshots { Passed::Second } else { Passed::First };
            let found = if is_first { self.hidden_next.take() } else { top.take() };
            let Some(found) = found else {
                self.position = if forward { Position::High } else { Position::Low };
                return Ok(None);
            };
            if !self.has_passed(&found.0, passed) {
                (self.is_placed, self.top_next) = (true, is_first.then_some(top));
                (self.found, self.position) = (found, Position::On(passed));
                return Ok(Some((&self.found.0, &self.found.1)));
            }
            if !is_first {
                (top, is_same) = (go(&mut self.top, forward)?, false);
            }
        }
    }

    /// A step while the transaction has written nothing to the index.
    fn step_untouched(&mut self, forward: bool) -> Result<Option<(&[u8], &[u8])>> {
        if !self.is_placed {
            self.place();
        }
        (self.is_placed, self.forward) = (true, forward);
        let found = if forward { self.top.next()? } else { self.top.prev()? };
        match found {
            Some((key, _)) => {
                self.found.0.clear();
                self.found.0.extend_from_slice(key);
                self.position = Position::On(Passed::Second);
            }
            None => self.position = if forward { Position::High } else { Position::Low },
        }
        Ok(found)
    }

    /// Whether an entry lies before the position in its direction, of those with the key of the
    /// position.
    fn has_passed(&self, key: &[u8], passed: Passed) -> bool {
        let Position::On(last) = self.position else { return false };
        key == self.found.0 && if self.forward { passed <= last } else { passed >= last }
    }

    /// Moves the cursor over the snapshot to its next hidden entry, but not beyond the next entry
    /// of `top`: entries beyond it are checked by a later step. Returns whether it met that same
    /// entry.
    fn advance_to(&mut self, top: Option<&Found>) -> Result<bool> {
        let Some(snapshot) = &mut self.snapshot else { return Ok(false) };
        let mut is_same = false;
        while self.hidden_next.is_none() {
            if self.snapshot_next.is_none() {
                self.snapshot_next = go(snapshot, self.forward)?;
            }
            let Some(next) = &self.snapshot_next else { break };
            let is_beyond = top.is_some_and(|top| match self.forward {
                true => top.0 < next.0,
                false => top.0 > next.0,
            });
            if is_beyond {
                break;
            }
            self.txn.must_not_stop()?;
            if top == Some(next) {
                is_same = true;
            } else if is_hidden(self.txn, &self.index, next)? {
                self.hidden_next = self.snapshot_next.take();
            }
            self.snapshot_next = None;
        }
        Ok(is_same)
    }
}

/// Whether own writes hide an entry of the snapshot (invariant 2).
fn is_hidden(txn: &Txn, index: &TableIndex, (key, value): &Found) -> Result<bool> {
    let (tree, rows): (&Tree, &Tree) = (&index.index.tree, &index.table.rows);
    if !txn.has_written_key(tree, key)? {
        return Ok(false);
    }
    let entry = index.index.form().read(key, value);
    let entry = entry.map_err(|flaw| tree.malformed(flaw))?;
    Ok(!txn.has_written_key(rows, entry.key)?)
}

fn go(walk: &mut dyn Walk, forward: bool) -> Result<Option<Found>> {
    let found = if forward { walk.next()? } else { walk.prev()? };
    Ok(found.map(|(key, value)| (key.to_vec(), value.to_vec())))
}

/// The operations of every scan.
trait Walk {
    fn seek(&mut self, key: &[u8]);
    fn seek_first(&mut self);
    fn seek_last(&mut self);
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
    fn prev(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

macro_rules! walks {
    ($($cursor:ty),+) => {
        $(impl Walk for $cursor {
            fn seek(&mut self, key: &[u8]) {
                self.seek(key);
            }
            fn seek_first(&mut self) {
                self.seek_first();
            }
            fn seek_last(&mut self) {
                self.seek_last();
            }
            fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
                self.next()
            }
            fn prev(&mut self) -> Result<Option<(&[u8], &[u8])>> {
                self.prev()
            }
        })+
    };
}

walks!(Cursor, TxnCursor<'_>);

impl Walk for Overlaid<'_> {
    fn seek(&mut self, key: &[u8]) {
        self.stand(Position::Below(key.to_vec()));
    }
    fn seek_first(&mut self) {
        self.stand(Position::Low);
    }
    fn seek_last(&mut self) {
        self.stand(Position::High);
    }
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(true)
    }
    fn prev(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(false)
    }
}

impl TableIndex {
    /// Whether own writes of a transaction can hide entries of rows that it has not written.
    pub(super) fn own_writes_may_hide(&self, txn: &Txn) -> bool {
        self.index.spec.unique && txn.stands_over_older()
    }
}
