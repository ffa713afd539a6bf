//! Reading a row by its key, or by a unique index.
//!
//! Outside of transactions an index entry and its row are read at one snapshot, and belong
//! together. In a transaction they are read in separate calls. Between the two, other transactions
//! may have changed the row (at `ReadCommitted`), or the transaction itself has written a version
//! based on a newer row than its snapshot shows (at `RepeatableRead`). In these cases the row
//! decides: the two match only if the index's function still extracts the same bytes from the row.
//!
//! Threads: as the reader.

use crate::{
    Error, IfLocked, Isolation, KeyRange, ReadOptions, Reader, Result, RowLock, Snapshot, Tree,
    Txn, TxnCursor,
    db::{Row, RowCall, RowRead, Sees, Which},
    key_range::OrEmpty,
    sync::Arc,
};

use super::{
    entry::Bounds,
    open::{Table, mismatch},
    scan::{IndexRows, IndexScan},
    state::{IndexState, TableState},
    write::extract,
};

/// How entries and rows are locked when they are read; `None` for no lock.
pub(super) type Locking = Option<ReadOptions<'static>>;

/// The options by which an index read locks entries and rows. Since an entry and its row must
/// match, the read cannot return an older version of one of them: it waits instead.
fn locking(options: &ReadOptions<'_>) -> Result<Locking> {
    if options.sees != Sees::AsLevel || options.with_last || options.projection.is_some() {
        let why = "a read through an index takes the options lock, if_locked and wait only";
        return Err(Error::InvalidArgument(why.to_owned()));
    }
    let if_locked = match options.if_locked {
        IfLocked::SemiConsistent => IfLocked::Wait,
        other => other,
    };
    let locks = |lock| ReadOptions::new().lock(lock).if_locked(if_locked).wait(options.wait);
    Ok(options.lock.map(locks))
}

impl Table {
    /// Reads a row by its key, through a [`Db`](crate::Db), a [`Snapshot`] or a [`Txn`].
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let people = db.table(frond::TableSpec::new("people"))?;
    /// let before = db.snapshot();
    /// db.transact(|txn| {
    ///     people.insert(txn, "ada", "London")?;
    ///     assert!(people.get(txn, "ada")?.is_some());
    ///     Ok(())
    /// })?;
    /// assert_eq!(people.get(&db, "ada")?.as_deref(), Some(&b"London"[..]));
    /// assert_eq!(people.get(&before, "ada")?, None);
    /// # drop((before, people));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get(&self, reader: &impl Reader, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        reader.get(&self.rows, key)
    }

    /// Reads many rows by their keys, all as of one moment; the result has the order of the keys.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[doc(alias = "multi_get")]
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        reader: &impl Reader,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        reader.get_many(&self.rows, keys)
    }

    /// Reads a row by its key and locks it exclusively: see [`Txn::get_for_update`].
    ///
    /// # Errors
    /// As [`Txn::get_for_update`].
    pub fn get_for_update(&self, txn: &Txn, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        txn.get_for_update(&self.rows, key.as_ref())
    }

    /// Reads a row by its key with the given options: see [`Txn::get_with`].
    ///
    /// # Errors
    /// As [`Txn::get_with`].
    pub fn get_with(
        &self,
        txn: &Txn,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<RowRead> {
        txn.get_with(&self.rows, key, options)
    }

    /// Reads many rows by their keys with the given options: see [`Txn::get_many_with`].
    ///
    /// # Errors
    /// As [`Txn::get_many_with`].
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        txn: &Txn,
        keys: &[K],
        options: &ReadOptions<'_>,
    ) -> Result<Vec<RowRead>> {
        txn.get_many_with(&self.rows, keys, options)
    }

    /// Scans rows in the order of their keys. Returns a [`Cursor`](crate::Cursor), or a
    /// [`TxnCursor`] if the reader is a transaction.
    ///
    /// # Errors
    /// As [`Reader::scan`].
    pub fn scan<'r, R: Reader>(
        &self,
        reader: &'r R,
        range: impl KeyRange,
    ) -> Result<R::Cursor<'r>> {
        reader.scan(&self.rows, range)
    }

    /// The rows of a range, in the order of their keys, from both ends. Each row is copied: a
    /// [`scan`](Self::scan) is faster. Errors are items, and end the iteration. A range that ends
    /// before it begins has no rows.
    pub fn range<'r, R: Reader>(&self, reader: &'r R, range: impl KeyRange) -> R::Rows<'r> {
        reader.range(&self.rows, range)
    }

    /// Scans rows in the order of their keys with the given options, for example locking each as
    /// the cursor reaches it: see [`Txn::scan_with`].
    ///
    /// # Errors
    /// As [`Txn::scan_with`].
    pub fn scan_with<'t>(
        &self,
        txn: &'t Txn,
        range: impl KeyRange,
        options: &ReadOptions<'_>,
    ) -> Result<TxnCursor<'t>> {
        txn.scan_with(&self.rows, range, options)
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
/// A snapshot from before the index was built or rebuilt, and a transaction that began to read
/// before that, get [`Error::DefinitionChanged`]; after the index was dropped, all readers get
/// [`Error::NoSuchTree`]. Both errors name the index and its table: "index city of table people".
/// If the whole table was dropped, they name the table.
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

    /// The key and value of the row with these extracted bytes in a unique index, read through a
    /// [`Db`](crate::Db), a [`Snapshot`] or a [`Txn`].
    ///
    /// # Errors
    /// `InvalidArgument` if the index is not unique: scan it. As [`Reader::get`].
    pub fn get(&self, reader: &impl Reader, extracted: impl AsRef<[u8]>) -> Result<Option<Row>> {
        let extracted = extracted.as_ref();
        let found = self.must_be_unique().and_then(|()| match reader.which() {
            Which::Now(db) => self.look_up_at(&db.snapshot(), extracted),
            Which::Then(snapshot) => self.look_up_at(snapshot, extracted),
            Which::Txn(txn) => self.look_up(txn, extracted, None),
        });
        found.map_err(|error| self.named(error))
    }

    /// Reads a row like [`get`](Self::get), and locks it exclusively. If there is none, no other
    /// transaction can insert one until this transaction ends.
    ///
    /// # Errors
    /// As [`get`](Self::get) and [`Txn::get_for_update`].
    pub fn get_for_update(&self, txn: &Txn, extracted: impl AsRef<[u8]>) -> Result<Option<Row>> {
        self.get_with(txn, extracted, &ReadOptions::new().lock(RowLock::Exclusive))
    }

    /// Reads a row like [`get`](Self::get), with the entry and the row locked as requested;
    /// [`TxnControl::unlock_last`](crate::transaction::TxnControl::unlock_last) releases them
    /// together. [`IfLocked::SemiConsistent`] waits, as older versions of entries and rows need not
    /// match.
    ///
    /// # Errors
    /// As [`get`](Self::get) and [`Txn::get_with`]; `InvalidArgument` for options other than
    /// [`lock`](ReadOptions::lock), [`if_locked`](ReadOptions::if_locked) and
    /// [`wait`](ReadOptions::wait).
    pub fn get_with(
        &self,
        txn: &Txn,
        extracted: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<Option<Row>> {
        let locking = locking(options)?;
        let found = self.must_be_unique();
        let found = found.and_then(|()| self.look_up(txn, extracted.as_ref(), locking));
        found.map_err(|error| self.named(error))
    }

    fn must_be_unique(&self) -> Result<()> {
        let spec = &self.index.spec;
        match spec.unique {
            true => Ok(()),
            false => {
                let why = format!("index \"{}\" is not unique: scan it", spec.name);
                Err(Error::InvalidArgument(why))
            }
        }
    }

    fn look_up_at(&self, snapshot: &Snapshot, extracted: &[u8]) -> Result<Option<Row>> {
        let tree = &self.index.tree;
        let Some(value) = snapshot.get(tree, extracted)? else { return Ok(None) };
        let entry = self.index.form().read(extracted, &value);
        let entry = entry.map_err(|flaw| tree.malformed(flaw))?;
        let row = match entry.row {
            Some(row) => self.rows.as_newest_version(row)?.into_owned(),
            None => self.row_at(snapshot, (extracted, entry.key))?,
        };
        Ok(Some((entry.key.to_vec(), row)))
    }

    /// Reads the row of an entry at the entry's snapshot, where it must match.
    pub(super) fn row_at(
        &self,
        snapshot: &Snapshot,
        (extracted, key): (&[u8], &[u8]),
    ) -> Result<Vec<u8>> {
        let (rows, mut now) = (&self.rows, Vec::new());
        let row = snapshot.get(rows, key)?;
        match extract(rows, &self.index.spec, key, row.as_deref(), &mut now)? {
            true if now == extracted => Ok(row.unwrap_or_default()),
            _ => Err(self.has_entry_without_row()),
        }
    }

    fn look_up(&self, txn: &Txn, extracted: &[u8], locking: Locking) -> Result<Option<Row>> {
        let tree = &self.index.tree;
        if locking.is_none()
            && self.own_writes_may_hide(txn)
            && txn.has_touched(tree)
            && txn.has_written_key(tree, extracted)?
        {
            let mut scan = self.scan(txn, extracted..=extracted)?;
            return Ok(scan.next()?.map(|found| (found.key.to_vec(), found.row.to_vec())));
        }
        let mut call = self.as_one_call(txn, locking)?;
        let mut is_again = false;
        loop {
            let value = match locking {
                None => txn.get(tree, extracted)?,
                Some(options) => txn.get_with(tree, extracted, &options)?.into_value(),
            };
            let Some(value) = value else { return Ok(None) };
            let entry = self.index.form().read(extracted, &value);
            let entry = entry.map_err(|flaw| tree.malformed(flaw))?;
            if let (Some(row), None) = (entry.row, locking)
                && self.is_seen_as_it_was(txn, entry.key)?
            {
                return Ok(Some((
                    entry.key.to_vec(),
                    self.rows.as_newest_version(row)?.into_owned(),
                )));
            }
            let mut row = Vec::new();
            if self.row(txn, (extracted, entry.key), locking, &mut row)? {
                return Ok(Some((entry.key.to_vec(), row)));
            }
            if txn.control().isolation() != Isolation::ReadCommitted || txn.stands_over_older() {
                return Ok(None);
            }
            // The row has changed since the index was read. The index shows the change now, unless
            // the entry belongs to no row.
            if is_again && self.has_no_row(txn, extracted, &value)? {
                return Err(self.has_entry_without_row());
            }
            // Rows that the transaction itself has written do not change from here on.
            call = call.map_or_else(|| txn.begin_calls(), Ok).map(Some)?;
            is_again = true;
        }
    }

    /// Makes locking an entry and its row one call, whose waits have a common time limit.
    pub(super) fn as_one_call<'t>(
        &self,
        txn: &'t Txn,
        locking: Locking,
    ) -> Result<Option<RowCall<'t>>> {
        let locks = locking.is_some() || txn.control().isolation() == Isolation::Serializable;
        locks.then(|| txn.begin_calls()).transpose()
    }

    /// Whether an entry that does not match its row belongs to no row at all, rather than the two
    /// having been read at different moments: the transaction has written that row, or the mismatch
    /// exists in a single committed state.
    fn has_no_row(&self, txn: &Txn, extracted: &[u8], value: &[u8]) -> Result<bool> {
        let tree = &self.index.tree;
        let entry = self.index.form().read(extracted, value);
        let entry = entry.map_err(|flaw| tree.malformed(flaw))?;
        if txn.has_written_key(&self.rows, entry.key)? {
            return Ok(true);
        }
        let now = txn.newest_snapshot();
        if now.get(tree, extracted)?.as_deref() != Some(value) {
            return Ok(false);
        }
        let row = now.get(&self.rows, entry.key)?;
        let mut says = Vec::new();
        let has = extract(&self.rows, &self.index.spec, entry.key, row.as_deref(), &mut says)?;
        Ok(!has || says != extracted)
    }

    /// True if an entry and its row are seen as of one moment. At `RepeatableRead`, and within a
    /// statement at `ReadCommitted`, that is not so for a row that the transaction has written: the
    /// write was based on the newest row, and the entry that was read may belong to an older
    /// version.
    pub(super) fn is_seen_as_it_was(&self, txn: &Txn, key: &[u8]) -> Result<bool> {
        Ok(!txn.stands_over_older() || !txn.has_written_key(&self.table.rows, key)?)
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
            Some(options) => {
                // `unlock_last` must release the entry together with the row.
                let found = txn.get_with(rows, key, &options.with_last(true))?;
                *row = found.value;
                found.exists
            }
        };
        let mut now = Vec::new();
        let row = is_there.then_some(&row[..]);
        if extract(rows, &self.index.spec, key, row, &mut now)? && now == extracted {
            return Ok(true);
        }
        let may_differ = matches!(
            txn.control().isolation(),
            Isolation::ReadCommitted | Isolation::RepeatableRead
        );
        // If entry and row are locked, both are the newest version. Exception: scans of a statement
        // that writes see entries as they were when the statement started.
        if may_differ && locking.is_none() || txn.has_written_key(rows, key)? {
            return Ok(false);
        }
        Err(self.has_entry_without_row())
    }

    fn has_entry_without_row(&self) -> Error {
        let why = format!(
            "its index \"{}\" has an entry that is no row's: call Table::check, drop the index and build it again",
            self.index.spec.name
        );
        mismatch(&self.rows, why)
    }

    /// Scans rows in the order of the index, with extracted bytes in a range. Sees what a
    /// [`scan`](Reader::scan) through the reader sees.
    ///
    /// # Errors
    /// As [`Reader::scan`].
    pub fn scan<'r>(&self, reader: &'r impl Reader, range: impl KeyRange) -> Result<IndexScan<'r>> {
        let range = self.index.form().bounds(&range);
        let scan = match reader.which() {
            Which::Now(db) => self.scan_at(db.snapshot(), range),
            Which::Then(snapshot) => self.scan_at(snapshot.clone(), range),
            Which::Txn(txn) => self.scan_in(txn, range),
        };
        scan.map_err(|error| self.named(error))
    }

    fn scan_at<'r>(&self, snapshot: Snapshot, range: Bounds) -> Result<IndexScan<'r>> {
        let cursor = snapshot.scan(&self.index.tree, range)?;
        Ok(IndexScan::at(self.clone(), snapshot, cursor))
    }

    fn scan_in<'t>(&self, txn: &'t Txn, (from, to): Bounds) -> Result<IndexScan<'t>> {
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        let cursor = txn.scan(&self.index.tree, range)?;
        Ok(IndexScan::new(self.clone(), txn, cursor, None))
    }

    /// Keys and values of rows in the order of the index, with extracted bytes in a range, from
    /// both ends. Each row is copied: a [`scan`](Self::scan) is faster. Errors are items, and end
    /// the iteration. A range that ends before it begins has no rows. Taking rows from both ends in
    /// turn costs a search for each turn.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{IndexSpec, TableSpec};
    ///
    /// let people = db.table(TableSpec::new("people").index(IndexSpec::new("city", |_, row, out| {
    ///     out.extend_from_slice(row);
    ///     Ok(true)
    /// })))?;
    /// db.transact(|txn| {
    ///     people.insert(txn, "ada", "London")?;
    ///     people.insert(txn, "bob", "Oslo")
    /// })?;
    /// for person in people.index("city")?.range(&db, "M"..) {
    ///     let (key, row) = person?;
    ///     assert_eq!((&key[..], &row[..]), (&b"bob"[..], &b"Oslo"[..]));
    /// }
    /// let last = people.index("city")?.range(&db, ..).next_back().transpose()?;
    /// assert_eq!(last.map(|(key, _)| key), Some(b"bob".to_vec()));
    /// # drop(people);
    /// # db.close()
    /// # }
    /// ```
    pub fn range<'r>(&self, reader: &'r impl Reader, range: impl KeyRange) -> IndexRows<'r> {
        IndexRows::new(self.scan(reader, OrEmpty(range)))
    }

    /// Scans like [`scan`](Self::scan), with each entry and its row locked as requested when the
    /// cursor reaches it, and read at the latest version. If a row is skipped because another
    /// transaction holds it, its entry is released unless it was locked before.
    /// [`IfLocked::SemiConsistent`] waits: older versions of entries and rows need not match.
    /// [`TxnControl::unlock_last`](crate::transaction::TxnControl::unlock_last) releases an entry
    /// and its row together.
    ///
    /// # Errors
    /// As [`Txn::scan_with`]; `InvalidArgument` for options other than
    /// [`lock`](ReadOptions::lock), [`if_locked`](ReadOptions::if_locked) and
    /// [`wait`](ReadOptions::wait).
    pub fn scan_with<'t>(
        &self,
        txn: &'t Txn,
        range: impl KeyRange,
        options: &ReadOptions<'_>,
    ) -> Result<IndexScan<'t>> {
        let Some(options) = locking(options)? else { return self.scan(txn, range) };
        let range = self.index.form().bounds(&range);
        let cursor = txn.scan_with(&self.index.tree, range, &options);
        let cursor = cursor.map_err(|error| self.named(error))?;
        Ok(IndexScan::new(self.clone(), txn, cursor, Some(options)))
    }
}
