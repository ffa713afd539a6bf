//! Reading a row by its key, or by a unique index.
//!
//! An index entry and its row are read in separate calls. Between the two, other transactions may
//! have changed the row (at `ReadCommitted`), or the transaction itself has written a version based
//! on a newer row than its snapshot shows (at `RepeatableRead`). In these cases the row decides: it
//! is a match only if the index's function still extracts the same from it.
//!
//! Threads: as the transaction.

use crate::{
    Error, IfLocked, Isolation, KeyRange, ReadOptions, Result, RowLock, Tree, Txn, TxnCursor,
    db::RowCall, sync::Arc,
};

use super::{
    open::{Table, mismatch},
    scan::IndexScan,
    state::{IndexState, TableState},
    write::extract,
};

/// A row's key and value.
pub(super) type Row = (Vec<u8>, Vec<u8>);

/// How a row is locked when it is read; `None` for no lock.
pub(super) type Locking = Option<(RowLock, IfLocked)>;

/// Replaces `LastCommit` with `Wait`, for reads that must lock.
fn that_locks(if_locked: IfLocked) -> IfLocked {
    if if_locked == IfLocked::SemiConsistent { IfLocked::Wait } else { if_locked }
}

impl Table {
    /// Reads a row by its key: see [`Txn::get`].
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn get(&self, txn: &Txn, key: &[u8]) -> Result<Option<Vec<u8>>> {
        txn.get(&self.rows, key)
    }

    /// Reads a row by its key and locks it exclusively: see [`Txn::get_for_update`].
    ///
    /// # Errors
    /// As [`Txn::get_for_update`].
    pub fn get_for_update(&self, txn: &Txn, key: &[u8]) -> Result<Option<Vec<u8>>> {
        txn.get_for_update(&self.rows, key)
    }

    /// Reads a row by its key with a lock: see [`Txn::get_locked`].
    ///
    /// # Errors
    /// As [`Txn::get_locked`].
    pub fn get_locked(
        &self,
        txn: &Txn,
        key: &[u8],
        lock: RowLock,
        if_locked: IfLocked,
    ) -> Result<Option<Vec<u8>>> {
        txn.get_locked(&self.rows, key, lock, if_locked)
    }

    /// Scans rows in the order of their keys: see [`Txn::scan`].
    ///
    /// # Errors
    /// As [`Txn::scan`].
    pub fn scan<'t>(&self, txn: &'t Txn, range: impl KeyRange) -> Result<TxnCursor<'t>> {
        txn.scan(&self.rows, range)
    }

    /// Scans rows in the order of their keys, locking each as the cursor reaches it: see
    /// [`Txn::scan_locked`].
    ///
    /// # Errors
    /// As [`Txn::scan_locked`].
    pub fn scan_locked<'t>(
        &self,
        txn: &'t Txn,
        range: impl KeyRange,
        lock: RowLock,
        if_locked: IfLocked,
    ) -> Result<TxnCursor<'t>> {
        txn.scan_locked(&self.rows, range, lock, if_locked)
    }

    /// An index, for reading.
    ///
    /// # Errors
    /// `TableMismatch` if the table has no index with this name (yet); `DefinitionChanged` if its
    /// columns have changed since the handle was opened.
    pub fn index(&self, name: &str) -> Result<TableIndex> {
        let index = self.state.index(&self.rows, name)?;
        Ok(TableIndex { table: self.state.clone(), index, rows: self.rows.clone() })
    }
}

/// An index of a table, for reading: see [`Table::index`].
///
/// A transaction that began to read before the index was built or rebuilt gets
/// [`Error::DefinitionChanged`]; after the index was dropped, all get [`Error::NoSuchTree`]. Both
/// errors name the index and its table: "index city of table people". If the whole table was
/// dropped, they name the table.
#[derive(Clone)]
pub struct TableIndex {
    pub(super) table: Arc<TableState>,
    pub(super) index: Arc<IndexState>,
    /// The rows, in the layout version that the index's function knows.
    pub(super) rows: Tree,
}

short_debug!(TableIndex, "TableIndex", |index| index.index.spec.name);

impl TableIndex {
    /// Rewrites an error about the index's tree, whose name is internal, to name the index.
    #[cold]
    pub(super) fn named(&self, error: Error) -> Error {
        let (tree, rows) = (&self.index.tree, &self.table.rows);
        if error.tree() != Some(&*tree.name()) {
            return error;
        }
        let name = || format!("index {} of table {}", self.index.spec.name, rows.name());
        match error {
            Error::NoSuchTree(_) => match rows.check_there() {
                Ok(()) => Error::NoSuchTree(name()),
                Err(gone) => gone,
            },
            Error::DefinitionChanged(_) => Error::DefinitionChanged(name()),
            other => other,
        }
    }

    /// The key and value of the row with these extracted bytes in a unique index.
    ///
    /// # Errors
    /// `InvalidArgument` if the index is not unique: scan it. As [`Txn::get`].
    pub fn get(&self, txn: &Txn, extracted: &[u8]) -> Result<Option<Row>> {
        self.look_up(txn, extracted, None).map_err(|error| self.named(error))
    }

    /// Like [`get`](Self::get), with the row locked exclusively. If there is none, no other
    /// transaction can insert one until this transaction ends.
    ///
    /// # Errors
    /// As [`get`](Self::get) and [`Txn::get_for_update`].
    pub fn get_for_update(&self, txn: &Txn, extracted: &[u8]) -> Result<Option<Row>> {
        let locking = Some((RowLock::Exclusive, IfLocked::Wait));
        self.look_up(txn, extracted, locking).map_err(|error| self.named(error))
    }

    /// Like [`get`](Self::get), with the entry and the row locked as requested;
    /// [`Txn::unlock_last`] releases them together.
    ///
    /// # Errors
    /// As [`get`](Self::get) and [`Txn::get_locked`].
    pub fn get_locked(
        &self,
        txn: &Txn,
        extracted: &[u8],
        lock: RowLock,
        if_locked: IfLocked,
    ) -> Result<Option<Row>> {
        let locking = Some((lock, that_locks(if_locked)));
        self.look_up(txn, extracted, locking).map_err(|error| self.named(error))
    }

    fn look_up(&self, txn: &Txn, extracted: &[u8], locking: Locking) -> Result<Option<Row>> {
        let (spec, tree) = (&self.index.spec, &self.index.tree);
        if !spec.unique {
            let why = format!("index \"{}\" is not unique: scan it", spec.name);
            return Err(Error::InvalidArgument(why));
        }
        if locking.is_none() && self.can_be_stood_over(txn) && txn.has_said(tree, extracted)? {
            let mut scan = self.scan(txn, extracted..=extracted)?;
            return Ok(scan.next()?.map(|found| (found.key.to_vec(), found.row.to_vec())));
        }
        let mut call = self.as_one_call(txn, locking)?;
        let mut is_again = false;
        loop {
            let value = match locking {
                None => txn.get(tree, extracted)?,
                Some((lock, if_locked)) => txn.get_locked(tree, extracted, lock, if_locked)?,
            };
            let Some(value) = value else { return Ok(None) };
            let entry = self.index.form().read(extracted, &value);
            let entry = entry.map_err(|flaw| tree.malformed(flaw))?;
            if let (Some(row), None) = (entry.row, locking)
                && self.is_seen_as_it_was(txn, entry.key)?
            {
                return Ok(Some((entry.key.to_vec(), self.rows.brought_up(row)?.into_owned())));
            }
            let mut row = Vec::new();
            if self.row(txn, (extracted, entry.key), locking, &mut row)? {
                return Ok(Some((entry.key.to_vec(), row)));
            }
            if txn.isolation() != Isolation::ReadCommitted || txn.stands_over_older() {
                return Ok(None);
            }
            // The row has changed since the index was read; the index shows that by now, unless the
            // entry belongs to no row.
            if is_again && self.is_nobodys(txn, extracted, &value)? {
                return Err(self.has_nobodys_entry());
            }
            // What the transaction itself has written does not change from here on.
            call = call.map_or_else(|| txn.begin_calls(), Ok).map(Some)?;
            is_again = true;
        }
    }

    /// Makes the locks of an entry and its row one call, whose waits have a common time limit.
    pub(super) fn as_one_call<'t>(
        &self,
        txn: &'t Txn,
        locking: Locking,
    ) -> Result<Option<RowCall<'t>>> {
        let locks = locking.is_some() || txn.isolation() == Isolation::Serializable;
        locks.then(|| txn.begin_calls()).transpose()
    }

    /// Whether an entry that does not match its row belongs to no row at all, rather than the two
    /// having been read at different moments: the transaction has written that row, or the mismatch
    /// exists in a single committed state.
    fn is_nobodys(&self, txn: &Txn, extracted: &[u8], value: &[u8]) -> Result<bool> {
        let tree = &self.index.tree;
        let entry = self.index.form().read(extracted, value);
        let entry = entry.map_err(|flaw| tree.malformed(flaw))?;
        if txn.has_said(&self.rows, entry.key)? {
            return Ok(true);
        }
        let now = txn.newest_snapshot();
        if now.get(tree, extracted)?.as_deref() != Some(value) {
            return Ok(false);
        }
        let row = now.get(&self.rows, entry.key)?;
        let mut says = Vec::new();
        let has = extract(&self.index.spec, entry.key, row.as_deref(), &mut says);
        Ok(!has || says != extracted)
    }

    /// True if an entry and its row are seen as of one moment. At repeatable read, and within a
    /// statement at read committed, that is not so for a row that the transaction has written: the
    /// write was based on the newest row, and the entry seen may be that of an older one.
    pub(super) fn is_seen_as_it_was(&self, txn: &Txn, key: &[u8]) -> Result<bool> {
        Ok(!txn.stands_over_older() || !txn.has_said(&self.table.rows, key)?)
    }

    /// Reads the row of an entry; false if the entry does not match it any more.
    pub(super) fn row(
        &self,
        txn: &Txn,
        (extracted, key): (&[u8], &[u8]),
        locking: Locking,
        row: &mut Vec<u8>,
    ) -> Result<bool> {
        let rows = &self.rows;
        let is_there = match locking {
            None => txn.get_into(rows, key, row)?,
            Some((lock, if_locked)) => {
                // `unlock_last` must release the entry together with the row.
                let options = ReadOptions::new().lock(lock).if_locked(if_locked).with_last(true);
                let found = txn.get_with(rows, key, &options)?;
                *row = found.value;
                found.exists
            }
        };
        let mut now = Vec::new();
        let row = is_there.then_some(&row[..]);
        if extract(&self.index.spec, key, row, &mut now) && now == extracted {
            return Ok(true);
        }
        let may_differ =
            matches!(txn.isolation(), Isolation::ReadCommitted | Isolation::RepeatableRead);
        // What is locked is the newest version, of entry and row. Exception: scans of a statement
        // that writes see entries as they were when it began.
        if may_differ && locking.is_none() || txn.has_said(rows, key)? {
            return Ok(false);
        }
        Err(self.has_nobodys_entry())
    }

    fn has_nobodys_entry(&self) -> Error {
        let why = format!(
            "its index \"{}\" has an entry that is no row's: call Table::check, drop the index and build it again",
            self.index.spec.name
        );
        mismatch(&self.rows, why)
    }

    /// Scans rows in the order of the index, with extracted bytes in a range. Sees what
    /// [`Txn::scan`] sees.
    ///
    /// # Errors
    /// As [`Txn::scan`].
    pub fn scan<'t>(&self, txn: &'t Txn, range: impl KeyRange) -> Result<IndexScan<'t>> {
        let (from, to) = self.index.form().bounds(&range);
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        let named = |error| self.named(error);
        let cursor = txn.scan(&self.index.tree, range).map_err(named)?;
        let shown = match self.can_be_stood_over(txn) {
            true => Some(txn.scan_snapshot(&self.index.tree, range).map_err(named)?),
            false => None,
        };
        Ok(IndexScan::new(self.clone(), txn, (cursor, shown), None))
    }

    /// Like [`scan`](Self::scan), with each entry and its row locked as the cursor reaches it, and
    /// read at the latest version. If a row is skipped because another transaction holds it, its
    /// entry is released unless it was locked before. [`IfLocked::SemiConsistent`] waits: older
    /// versions of entries and rows need not match. [`Txn::unlock_last`] releases an entry and its
    /// row together.
    ///
    /// # Errors
    /// As [`Txn::scan_locked`].
    pub fn scan_locked<'t>(
        &self,
        txn: &'t Txn,
        range: impl KeyRange,
        lock: RowLock,
        if_locked: IfLocked,
    ) -> Result<IndexScan<'t>> {
        let if_locked = that_locks(if_locked);
        let (from, to) = self.index.form().bounds(&range);
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        let cursor = txn.scan_locked(&self.index.tree, range, lock, if_locked);
        let cursor = cursor.map_err(|error| self.named(error))?;
        Ok(IndexScan::new(self.clone(), txn, (cursor, None), Some((lock, if_locked))))
    }
}
