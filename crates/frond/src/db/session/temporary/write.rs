//! Writes of temporary trees, as part of transactions.
//!
//! Threads: as the transaction.

use crate::{
    Duplicate, Error, KeyRange, Result,
    db::tree::bounds,
    key_range::check_key,
    sync::Arc,
    txn::{HashedKey, OwnState, lock_table::Owner},
};

use super::{
    super::{
        Txn,
        write_buffer::{Absent, Cancellable, RowWrite, Spiller, Written},
    },
    Held, State, TEMPORARY, TemporaryTree,
};

impl TemporaryTree {
    /// Sets a value, as part of a transaction.
    ///
    /// # Errors
    /// `InvalidArgument` if another transaction has written the tree and not ended, or if this one
    /// is read-only or belongs to another store; `KeyTooLong`, `ValueTooLong`, `TxnEnded`. `Full`
    /// and I/O errors if it could not be spilled: the tree is lost, and all its calls fail with
    /// `TxnEnded` from then on.
    pub fn put(&self, txn: &Txn, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.enroll(txn)?;
        self.held.put(key.as_ref(), value.as_ref(), Absent::Whatever).map(drop)
    }

    /// Sets the value of a key that must not exist.
    ///
    /// # Errors
    /// `DuplicateKey`; as [`put`](Self::put).
    pub fn insert(&self, txn: &Txn, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.enroll(txn)?;
        match self.held.put(key, value.as_ref(), Absent::Must)? {
            Written::Done(_) => Ok(()),
            Written::Exists => {
                let tree = self.held.tree.name();
                Err(Error::DuplicateKey(Duplicate::Row { tree, key: key.to_vec() }))
            }
        }
    }

    /// Sets the value of a key that the program knows to be absent, without a check, as
    /// [`RowWriter::put_absent`](crate::transaction::RowWriter::put_absent) does: the row count
    /// stays exact.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_absent(
        &self,
        txn: &Txn,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.enroll(txn)?;
        self.held.put(key.as_ref(), value.as_ref(), Absent::Follows).map(drop)
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, txn: &Txn, key: impl AsRef<[u8]>) -> Result<()> {
        self.enroll(txn)?;
        self.held.write(key.as_ref(), Absent::Whatever, &RowWrite::Delete).map(drop)
    }

    /// Folds an operand into a value without reading it, as [`Txn::merge`] does.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::operator;
    ///
    /// let groups = db.create_temporary(Default::default())?;
    /// let txn = db.begin(Default::default())?;
    /// for (town, sold) in [(b"Bern", 2u64), (b"Jena", 1), (b"Bern", 3)] {
    ///     groups.merge(&txn, town, operator::ADD, sold.to_be_bytes())?;
    /// }
    /// assert_eq!(groups.get(b"Bern")?, Some(5u64.to_be_bytes().to_vec()));
    /// # drop(txn); drop(groups);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](Self::put), and `MissingOperator`.
    pub fn merge(
        &self,
        txn: &Txn,
        key: impl AsRef<[u8]>,
        operator: u8,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.enroll(txn)?;
        let write = RowWrite::of_operand(&self.held.tree, operator, operand.as_ref())?;
        self.held.write(key.as_ref(), Absent::Whatever, &write).map(drop)
    }

    /// Deletes all rows in a range, and returns how many there were. Costs a read and a delete of
    /// each. Within a statement of the transaction it covers what was written when the statement
    /// started.
    ///
    /// # Errors
    /// As [`delete`](Self::delete) and [`scan`](Self::scan): nothing was deleted, unless the tree
    /// is lost.
    pub fn delete_range(&self, txn: &Txn, range: impl KeyRange) -> Result<u64> {
        let range = bounds(&range)?;
        self.enroll(txn)?;
        let before = self.held.buffer.set_savepoint(&mut self.held.enter()?.buffer);
        let deleted = self.delete_rows(range);
        if deleted.is_err() {
            self.held.rollback_to_savepoint(before)?;
        }
        // A lost tree has reported that.
        if let Ok(mut state) = self.held.lock() {
            state.buffer.marks.release(before)?;
        }
        deleted
    }

    fn delete_rows(&self, (mut from, to): (Option<Vec<u8>>, Option<Vec<u8>>)) -> Result<u64> {
        let mut deleted = 0;
        loop {
            let began = self.held.lock()?.buffer.spills;
            let mut cursor = self.scan_bounds((from, to.clone()))?;
            loop {
                let Some((key, _)) = cursor.next()? else { return Ok(deleted) };
                self.held.write(key, Absent::Not, &RowWrite::Delete)?;
                deleted += 1;
                if self.held.lock()?.buffer.spills != began {
                    // Another scan need not check each row against the spilled deletes.
                    from = Some([key, &[0]].concat());
                    break;
                }
            }
        }
    }
}

impl Held {
    /// Sets a value.
    pub(super) fn put(&self, key: &[u8], value: &[u8], absent: Absent) -> Result<Written> {
        self.tree.check_value(value)?;
        check_key(key)?;
        self.write(key, absent, &RowWrite::of_value(&self.tree, value)?)
    }

    fn write(&self, key: &[u8], absent: Absent, write: &RowWrite<'_>) -> Result<Written> {
        check_key(key)?;
        let mut state = self.enter()?;
        self.spill_if_large(&mut state)?;
        let hashed = HashedKey::new(TEMPORARY, key);
        let own = self.buffer.own_state(self.engine(), &state.buffer, hashed)?;
        let exists = matches!(own, OwnState::Put { .. } | OwnState::Merged);
        if exists && matches!(absent, Absent::Must | Absent::Proven) {
            return Ok(Written::Exists);
        }
        let known = (absent.is_insert(), absent.was_there(own));
        self.buffer.append(self.engine(), &mut state.buffer, (hashed, own), write, known)?;
        Ok(Written::Done(own))
    }

    /// Spills what is in memory if it has become too much. If that fails, the tree is lost.
    fn spill_if_large(&self, state: &mut State) -> Result<()> {
        if !state.buffer.is_large {
            return Ok(());
        }
        let spiller = self.spiller(state.writer.clone());
        if !spiller.is_due(&mut state.buffer)? {
            return Ok(());
        }
        let spilled = spiller.spill(&mut state.buffer, Cancellable::No, None);
        let is_incomplete = spilled.is_err();
        let merged = spilled.and_then(|()| spiller.merge_after_spill(&state.buffer));
        merged.inspect_err(|error| {
            if is_incomplete || !matches!(error, Error::Interrupted) {
                self.tree.shared.stop_if_unwritable(error);
                state.is_lost = true;
                self.buffer.live.clear();
                state.buffer.memory.clear();
            }
        })
    }

    fn spiller(&self, owner: Option<Arc<Owner>>) -> Spiller<'_> {
        let temporary = Some(&self.traits);
        Spiller { buffer: &self.buffer, shared: &self.tree.shared, owner, temporary }
    }
}
