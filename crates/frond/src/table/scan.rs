//! Rows in the order of an index.
//!
//! Invariant: every row handed out is what the index says of it; one that others, or the transaction, have changed
//! since the entry was read is passed by, and stands elsewhere.
//!
//! Threads: one. Cost: a look at the table for each row, unless the index is clustering and nothing is locked.

use crate::{Cursor, Error, IfLocked, Result, RowLock, TreeLock, Txn, TxnCursor, db::KeyOrder};

use super::{
    beside::Entries,
    read::{Locking, TableIndex},
};

/// A walk over rows in the order of an index, as a transaction sees them.
#[derive(Debug)]
pub struct IndexScan<'t> {
    index: TableIndex,
    txn: &'t Txn,
    entries: Entries<'t>,
    locking: Locking,
    extracted: Vec<u8>,
    key: Vec<u8>,
    row: Vec<u8>,
    /// Of entries.
    order: KeyOrder,
}

/// A row that an [`IndexScan`] has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexRow<'a> {
    /// What the index orders it by.
    pub extracted: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub row: &'a [u8],
}

impl<'t> IndexScan<'t> {
    pub(super) fn new(
        index: TableIndex,
        txn: &'t Txn,
        (cursor, shown): (TxnCursor<'t>, Option<Cursor>),
        locking: Locking,
    ) -> Self {
        let (extracted, key, row) = Default::default();
        let entries = Entries::new(&index, txn, cursor, shown);
        let order = KeyOrder::default();
        Self { index, txn, entries, locking, extracted, key, row, order }
    }

    /// Moves just below all rows with this extracted, or more.
    pub fn seek(&mut self, extracted: &[u8]) {
        self.order.forget();
        self.entries.seek(&self.index.index.form().low(extracted));
    }

    /// Moves below the first row.
    pub fn seek_first(&mut self) {
        self.order.forget();
        self.entries.seek_first();
    }

    /// Moves above the last row.
    pub fn seek_last(&mut self) {
        self.order.forget();
        self.entries.seek_last();
    }

    /// The next row up, or `None` at the end of the range.
    ///
    /// # Errors
    /// As [`TxnCursor::next`] and [`Txn::get`]; `TableMismatch` if an entry is no row's. The next call in this direction comes to
    /// the same row again.
    #[expect(clippy::should_implement_trait, reason = "a cursor lends, an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<IndexRow<'_>>> {
        self.go(true)
    }

    /// The next row down, or `None` at the begin of the range. On a fresh scan, call
    /// [`seek_last`](Self::seek_last) first.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn prev(&mut self) -> Result<Option<IndexRow<'_>>> {
        self.go(false)
    }

    fn go(&mut self, forward: bool) -> Result<Option<IndexRow<'_>>> {
        let _call = self.index.as_one_call(self.txn, self.locking)?;
        while self.step(forward).map_err(|error| self.index.named(error))? {
            match self.has_row() {
                Ok(true) => return Ok(Some(self.found())),
                Ok(false) => {}
                // Behind one that is no row's the scan can go on.
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

    /// Reads the row of the entry that the scan has come to; false if it is passed by.
    fn has_row(&mut self) -> Result<bool> {
        let (extracted, key) = (&self.extracted[..], &self.key[..]);
        if self.index.index.spec.clustering
            && self.locking.is_none()
            && self.index.is_seen_as_it_was(self.txn, key)?
        {
            return Ok(true);
        }
        let skips = matches!(self.locking, Some((_, IfLocked::Skip)));
        if let Some((lock, IfLocked::Skip)) = self.locking {
            // Who has the whole tree of rows is waited for: its rows are not passed by.
            let intent = match lock {
                RowLock::Shared => TreeLock::IntentShared,
                RowLock::Exclusive => TreeLock::IntentExclusive,
            };
            self.txn.lock_tree(&self.index.rows, intent, IfLocked::Wait)?;
        }
        match self.index.row(self.txn, (extracted, key), self.locking, &mut self.row) {
            // Who has the row may be about to take its entry away.
            Err(Error::LockBusy { .. }) if skips => self.txn.unlock_last().map(|()| false),
            read => read,
        }
    }

    fn found(&self) -> IndexRow<'_> {
        IndexRow { extracted: &self.extracted, key: &self.key, row: &self.row }
    }

    /// The next entry into the buffers; false at the end.
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
        index.rows.bring_up(row)?;
        Ok(true)
    }
}
