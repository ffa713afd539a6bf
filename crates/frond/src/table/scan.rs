//! Scanning rows in the order of an index.
//!
//! Invariant: every returned row matches its index entry. In a transaction, a row is skipped if it
//! was changed after its entry was read, by others or by the transaction itself: it now has another
//! place in the order of the index.
//!
//! Threads: one. Cost: a lookup in the table for each row, unless the index is clustering and
//! nothing is locked.

use crate::{
    Cursor, Error, IfLocked, Result, RowLock, Snapshot, Txn, TxnCursor,
    db::{BothEnds, KeyOrder, Row, RowPlace, TreeLock, TwoWay},
};

use super::{
    hidden_entries::Entries,
    read::{Locking, TableIndex},
};

/// A scan of rows in the order of an index.
#[must_use = "a scan reads nothing until `next` or `prev` is called"]
pub struct IndexScan<'t> {
    index: TableIndex,
    source: Source<'t>,
    entries: Entries<'t>,
    locking: Locking,
    extracted: Vec<u8>,
    key: Vec<u8>,
    row: Vec<u8>,
    /// The order of the entries.
    order: KeyOrder,
    /// True if a row was returned since the scan was positioned.
    has_given: bool,
}

short_debug!(IndexScan<'_>, "IndexScan", |scan| scan.index.index.spec.name);

/// What rows are read through.
enum Source<'t> {
    Txn(&'t Txn),
    Snapshot(Snapshot),
}

/// A row at which an [`IndexScan`] has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexRow<'a> {
    /// The extracted bytes by which the index orders it.
    pub extracted: &'a [u8],
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub row: &'a [u8],
}

impl<'t> IndexScan<'t> {
    pub(super) fn new(
        index: TableIndex,
        txn: &'t Txn,
        cursor: TxnCursor<'t>,
        locking: Locking,
    ) -> Self {
        // A locking scan reads the newest entries, on which the transaction's own writes are based,
        // so these hide nothing.
        let may_hide = locking.is_none() && index.own_writes_may_hide(txn);
        let entries = Entries::new(&index, txn, cursor, may_hide);
        Self::of(index, Source::Txn(txn), entries, locking)
    }

    /// A scan at a snapshot, with a cursor over its entries.
    pub(super) fn at(index: TableIndex, snapshot: Snapshot, cursor: Cursor) -> Self {
        Self::of(index, Source::Snapshot(snapshot), Entries::at(cursor), None)
    }

    fn of(index: TableIndex, source: Source<'t>, entries: Entries<'t>, locking: Locking) -> Self {
        let (extracted, key, row) = Default::default();
        let order = KeyOrder::default();
        Self { index, source, entries, locking, extracted, key, row, order, has_given: false }
    }

    /// Resets the state of the last step, because the scan was repositioned.
    fn moved(&mut self) {
        self.order.forget();
        self.has_given = false;
    }

    /// Moves just before the first row with these extracted bytes or greater ones.
    pub fn seek(&mut self, extracted: impl AsRef<[u8]>) {
        self.moved();
        self.entries.seek(&self.index.index.form().low(extracted.as_ref()));
    }

    /// Moves before the first row.
    pub fn seek_first(&mut self) {
        self.moved();
        self.entries.seek_first();
    }

    /// Moves after the last row.
    pub fn seek_last(&mut self) {
        self.moved();
        self.entries.seek_last();
    }

    /// The next row, or `None` at the end of the range.
    ///
    /// # Errors
    /// As [`Cursor::next`], or [`TxnCursor::next`] and [`Txn::get`]; `TableMismatch` if an entry
    /// belongs to no row. After any other error the next call in this direction returns to the same
    /// row.
    #[expect(clippy::should_implement_trait, reason = "a cursor lends, an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<IndexRow<'_>>> {
        self.go(true)
    }

    /// The previous row, or `None` at the start of the range. On a fresh scan, call
    /// [`seek_last`](Self::seek_last) first.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn prev(&mut self) -> Result<Option<IndexRow<'_>>> {
        self.go(false)
    }

    fn go(&mut self, forward: bool) -> Result<Option<IndexRow<'_>>> {
        let _call = match self.source {
            Source::Txn(txn) => self.index.as_one_call(txn, self.locking)?,
            Source::Snapshot(_) => None,
        };
        while self.step(forward).map_err(|error| self.index.named(error))? {
            match self.has_row() {
                Ok(true) => {
                    self.has_given = true;
                    return Ok(Some(self.found()));
                }
                Ok(false) => {}
                // The scan can continue after an entry that belongs to no row.
                Err(error @ Error::TableMismatch { .. }) => return Err(error),
                Err(error) => {
                    let mut at = Vec::new();
                    self.index.index.form().write_key(&self.extracted, &self.key, &mut at);
                    self.order.forget();
                    self.entries.come_again_to(at, forward);
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Reads the row of the current entry; false if it is skipped.
    fn has_row(&mut self) -> Result<bool> {
        let (extracted, key) = (&self.extracted[..], &self.key[..]);
        let has_row = self.index.index.spec.clustering && self.locking.is_none();
        let txn = match &self.source {
            Source::Txn(txn) => txn,
            Source::Snapshot(snapshot) => {
                if !has_row {
                    self.row = self.index.row_at(snapshot, (extracted, key))?;
                }
                return Ok(true);
            }
        };
        if has_row && self.index.is_seen_as_it_was(txn, key)? {
            return Ok(true);
        }
        let skipping = self.locking.filter(|options| options.if_locked == IfLocked::SkipLocked);
        if let Some(lock) = skipping.and_then(|options| options.lock) {
            // Wait for a transaction that holds the whole tree of rows: its rows are not skipped.
            let intent = match lock {
                RowLock::Shared => TreeLock::IntentShared,
                RowLock::Exclusive => TreeLock::IntentExclusive,
            };
            txn.lock_tree(&self.index.rows, intent, IfLocked::Wait)?;
        }
        match self.index.row(txn, (extracted, key), self.locking, &mut self.row) {
            // The holder of the row may be about to delete the entry.
            Err(Error::LockBusy { .. }) if skipping.is_some() => {
                txn.control().unlock_last().map(|()| false)
            }
            read => read,
        }
    }

    fn found(&self) -> IndexRow<'_> {
        IndexRow { extracted: &self.extracted, key: &self.key, row: &self.row }
    }

    /// Reads the next entry into the buffers; false at the end.
    fn step(&mut self, forward: bool) -> Result<bool> {
        let Self { entries, index, extracted, key, row, order, .. } = self;
        let repeats = entries.repeats();
        let Some((at, value)) = entries.step(forward)? else {
            order.forget();
            return Ok(false);
        };
        order.hands_out(forward, at, repeats);
        let entry = index.index.form().read(at, value);
        let entry = entry.map_err(|flaw| index.index.tree.malformed(flaw))?;
        extracted.clear();
        extracted.extend_from_slice(&entry.extracted);
        key.clear();
        key.extend_from_slice(entry.key);
        row.clear();
        row.extend_from_slice(entry.row.unwrap_or_default());
        index.rows.to_newest_version(row)?;
        Ok(true)
    }
}

impl TwoWay for IndexScan<'_> {
    fn step(&mut self, forward: bool) -> Result<Option<Row>> {
        let found = self.go(forward)?;
        Ok(found.map(|IndexRow { key, row, .. }| (key.to_vec(), row.to_vec())))
    }

    fn place(&self) -> Option<RowPlace> {
        self.has_given.then(|| {
            let mut at = Vec::new();
            self.index.index.form().write_key(&self.extracted, &self.key, &mut at);
            (at, self.entries.passed())
        })
    }

    fn stand(&mut self, place: Option<RowPlace>, forward: bool) {
        match place {
            Some(place) => {
                self.moved();
                self.entries.go_on_from(place, forward);
            }
            None if forward => self.seek_first(),
            None => self.seek_last(),
        }
    }
}

/// Keys and values of rows in the order of an index, from both ends: see [`TableIndex::range`].
///
/// It ends after the first error.
#[derive(Debug)]
#[must_use = "iterators read nothing until they are used"]
pub struct IndexRows<'t> {
    rows: BothEnds<IndexScan<'t>>,
}

impl<'t> IndexRows<'t> {
    pub(super) fn new(scan: Result<IndexScan<'t>>) -> Self {
        Self { rows: BothEnds::new(scan) }
    }
}

impl Iterator for IndexRows<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows.step(true)
    }
}

impl DoubleEndedIterator for IndexRows<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.rows.step(false)
    }
}

impl std::iter::FusedIterator for IndexRows<'_> {}
