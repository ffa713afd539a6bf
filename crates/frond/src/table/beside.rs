//! Index entries as a transaction sees them, including those that its own writes hide.
//!
//! A unique index has one entry per key. At `RepeatableRead` a transaction writes on top of rows
//! that are newer than its snapshot. So it may have written, or deleted, the entry of one row where
//! its snapshot shows the entry of another row, which it has not written. It still sees that other
//! row as its snapshot does, so a scan of the index must return it, too.
//!
//! Invariants
//! 1. Entries come in the order of their keys; for one key the transaction's own comes before the
//!    snapshot's.
//! 2. An entry of the snapshot comes from here only if the transaction has written its key but not
//!    its row: all others come from the transaction's cursor.
//!
//! At a snapshot outside of transactions there are no own writes, and a cursor returns everything.
//!
//! Threads: one. Cost: while the transaction has written nothing to the index, that of its cursor;
//! otherwise a second scan over the snapshot, and a look at own writes for each entry.

use std::cmp::Ordering;

use crate::{
    Cursor, Result, Tree, Txn, TxnCursor,
    db::{Passed, Repeats, RowPlace},
};

use super::read::TableIndex;

/// A key and a value.
type Found = (Vec<u8>, Vec<u8>);

/// A scan over entries.
#[derive(Debug)]
pub(super) struct Entries<'t> {
    seen: Seen<'t>,
    beside: Option<Beside<'t>>,
}

/// The cursor over entries, of a transaction or at a snapshot.
#[derive(Debug)]
enum Seen<'t> {
    Txn(Box<TxnCursor<'t>>),
    Snapshot(Box<Cursor>),
}

impl Seen<'_> {
    fn walk(&mut self) -> &mut dyn Walk {
        match self {
            Self::Txn(cursor) => &mut **cursor,
            Self::Snapshot(cursor) => &mut **cursor,
        }
    }
}

/// The scan over the snapshot, for entries that own writes hide.
#[derive(Debug)]
struct Beside<'t> {
    txn: &'t Txn,
    index: TableIndex,
    shown: Cursor,
    /// The next entry of the transaction's cursor, and of the snapshot; the outer `None` means that
    /// it has to be fetched.
    ahead: [Option<Option<Found>>; 2],
    /// The next entry of the snapshot is known to be hidden by own writes.
    is_judged: bool,
    forward: bool,
    position: Position,
    found: Found,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Position {
    Low,
    High,
    Below(Vec<u8>),
    /// An entry with this key was returned; the flag says whether it was the snapshot's.
    At(Vec<u8>, bool),
}

impl<'t> Entries<'t> {
    pub fn new(
        index: &TableIndex,
        txn: &'t Txn,
        seen: TxnCursor<'t>,
        shown: Option<Cursor>,
    ) -> Self {
        let beside = shown.map(|shown| Beside {
            txn,
            index: index.clone(),
            shown,
            ahead: [None, None],
            is_judged: false,
            forward: true,
            position: Position::Low,
            found: Found::default(),
        });
        Self { seen: Seen::Txn(Box::new(seen)), beside }
    }

    /// The entries of a cursor at a snapshot.
    pub fn at(cursor: Cursor) -> Self {
        Self { seen: Seen::Snapshot(Box::new(cursor)), beside: None }
    }

    pub fn seek(&mut self, key: &[u8]) {
        self.stand(Position::Below(key.to_vec()));
    }

    pub fn seek_first(&mut self) {
        self.stand(Position::Low);
    }

    pub fn seek_last(&mut self) {
        self.stand(Position::High);
    }

    /// What was passed of the key of the entry that came last.
    pub fn passed(&self) -> Passed {
        match self.beside.as_ref().map(|beside| &beside.position) {
            Some(Position::At(_, true)) => Passed::Second,
            _ => Passed::First,
        }
    }

    /// Moves to an entry that came before, to go on from there in a direction.
    pub fn go_on_from(&mut self, (key, passed): RowPlace, forward: bool) {
        let at = Position::At(key, passed == Passed::Second);
        place(self.seen.walk(), &at, forward, false);
        if let Some(beside) = &mut self.beside {
            beside.forward = forward;
            beside.stand(at);
        }
    }

    /// Whether one key may come twice: as the transaction's own entry, and as the snapshot's.
    pub fn repeats(&self) -> Repeats {
        if self.beside.is_some() { Repeats::Always } else { Repeats::Never }
    }

    /// Makes the last entry come again. Does nothing if there is a snapshot scan: the key does not
    /// tell which of the two entries came last.
    pub fn come_again_to(&mut self, mut key: Vec<u8>, forward: bool) {
        if self.beside.is_none() {
            if !forward {
                key.push(0);
            }
            self.stand(Position::Below(key));
        }
    }

    fn stand(&mut self, position: Position) {
        place(self.seen.walk(), &position, true, false);
        if let Some(beside) = &mut self.beside {
            beside.stand(position);
        }
    }

    /// The next entry in a direction.
    pub fn step(&mut self, forward: bool) -> Result<Option<(&[u8], &[u8])>> {
        let Self { seen, beside } = self;
        match beside {
            Some(beside) => beside.step(seen.walk(), forward),
            None if forward => seen.walk().next(),
            None => seen.walk().prev(),
        }
    }
}

/// Positions a scan, that over the snapshot's entries or the other, to continue from a position in
/// a direction. Of two entries with one key, the snapshot's comes second.
fn place(walk: &mut dyn Walk, position: &Position, forward: bool, is_shown: bool) {
    match position {
        Position::Low => walk.seek_first(),
        Position::High => walk.seek_last(),
        Position::Below(key) => walk.seek(key),
        Position::At(key, was_shown) => {
            let is_passed = match forward {
                true => *was_shown || !is_shown,
                false => !*was_shown || is_shown,
            };
            match forward == is_passed {
                true => walk.seek(&[key, &[0][..]].concat()),
                false => walk.seek(key),
            }
        }
    }
}

impl Beside<'_> {
    fn stand(&mut self, position: Position) {
        self.position = position;
        self.ahead = [None, None];
        place(&mut self.shown, &self.position, self.forward, true);
    }

    fn step(&mut self, seen: &mut dyn Walk, forward: bool) -> Result<Option<(&[u8], &[u8])>> {
        if self.forward != forward {
            self.forward = forward;
            place(seen, &self.position, forward, false);
            self.stand(self.position.clone());
        }
        if self.ahead[0].is_none() {
            self.ahead[0] = Some(go(seen, forward)?);
        }
        // No further than the transaction's next entry: what lies beyond is checked when its turn
        // comes.
        loop {
            if self.ahead[1].is_none() {
                (self.ahead[1], self.is_judged) = (Some(go(&mut self.shown, forward)?), false);
            }
            let [own, Some(Some(next))] = &self.ahead else { break };
            let is_beyond = own.iter().flatten().next().is_some_and(|own| match forward {
                true => own.0 < next.0,
                false => own.0 > next.0,
            });
            if self.is_judged || is_beyond {
                break;
            }
            self.txn.must_not_stop()?;
            if self.is_stood_over(next)? {
                self.is_judged = true;
                break;
            }
            self.ahead[1] = None;
        }
        let [own, old] = &mut self.ahead;
        let order = match (own.iter().flatten().next(), old.iter().flatten().next()) {
            (None, None) => {
                self.position = if forward { Position::High } else { Position::Low };
                return Ok(None);
            }
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(own), Some(old)) if forward => own.0.cmp(&old.0),
            (Some(own), Some(old)) => old.0.cmp(&own.0),
        };
        // An entry written since the scan began does not hide this one from the transaction's
        // cursor.
        if order == Ordering::Equal && own == old {
            *old = None;
        }
        let both = order == Ordering::Equal && old.is_some();
        let is_shown = order == Ordering::Greater || both && !forward;
        let next = if is_shown { old } else { own };
        self.found = next.take().flatten().unwrap_or_default();
        self.position = Position::At(self.found.0.clone(), is_shown);
        Ok(Some((&self.found.0, &self.found.1)))
    }

    /// Whether an entry comes from the snapshot (invariant 2).
    fn is_stood_over(&self, (key, value): &Found) -> Result<bool> {
        let (tree, rows): (&Tree, &Tree) = (&self.index.index.tree, &self.index.table.rows);
        if !self.txn.has_said(tree, key)? {
            return Ok(false);
        }
        let entry = self.index.index.form().read(key, value);
        let entry = entry.map_err(|flaw| tree.malformed(flaw))?;
        Ok(!self.txn.has_said(rows, entry.key)?)
    }
}

fn go(walk: &mut dyn Walk, forward: bool) -> Result<Option<Found>> {
    let found = if forward { walk.next()? } else { walk.prev()? };
    Ok(found.map(|(key, value)| (key.to_vec(), value.to_vec())))
}

/// The operations of both scans.
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

impl TableIndex {
    /// Whether own writes of a transaction can hide an entry of a row that it has not written.
    pub(super) fn can_be_stood_over(&self, txn: &Txn) -> bool {
        let is_unique = self.index.spec.unique;
        is_unique && txn.stands_over_older() && txn.has_touched(&self.index.tree)
    }
}
