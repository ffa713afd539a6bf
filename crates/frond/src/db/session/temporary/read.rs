//! Reads of temporary trees: single rows, counts, estimates.
//!
//! Threads: as the transaction.

use crate::{
    KeyRange, Result,
    db::{
        Projection, RangeEstimate, RowCount,
        read::{Messages, in_key_order, is_nothing},
        tree::bounds,
    },
    key_range::check_key,
    txn::{HashedKey, OwnState},
};

use super::{Held, State, TEMPORARY, TemporaryTree};

impl TemporaryTree {
    /// The value of a key, as last written.
    ///
    /// # Errors
    /// I/O errors and damage of spilled rows.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads the value of a key into a reusable buffer, like [`get`](Self::get); false, with an
    /// empty buffer, if there is no such key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        let key = key.as_ref();
        check_key(key)?;
        self.held.get_into(&*self.held.enter()?, key, value)
    }

    /// Reads parts of a value, as [`Tree::get_projected`](crate::Tree::get_projected) does: false,
    /// with an empty buffer, if there is no such key. Values are read whole and cut.
    ///
    /// # Errors
    /// As [`get`](Self::get); `InvalidArgument` if the value does not fit the layout of its tree,
    /// or if the projection is for a tree with other layouts.
    pub fn get_projected(
        &self,
        key: impl AsRef<[u8]>,
        projection: &Projection,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let tree = &self.held.tree;
        projection.check(tree.schema.as_ref())?;
        let found = self.get_into(key, value)?;
        if found && let Err(misfit) = projection.keep(Some(&tree.entry), value) {
            value.clear();
            return Err(misfit);
        }
        Ok(found)
    }

    /// Reads a byte range of a value, as [`Tree::get_at`](crate::Tree::get_at) does.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_at(
        &self,
        key: impl AsRef<[u8]>,
        from: usize,
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        let (held, key, mut value) = (&self.held, key.as_ref(), Vec::new());
        check_key(key)?;
        let messages = held.messages(&*held.enter()?, key, &mut value)?;
        messages.finish_at(&held.tree, &mut value, from, out)
    }

    /// True if the key exists. Does not read its value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let (held, key) = (&self.held, key.as_ref());
        check_key(key)?;
        let state = held.enter()?;
        let hashed = HashedKey::new(TEMPORARY, key);
        let own = held.buffer.own_state(held.engine(), &state.buffer, hashed)?;
        Ok(matches!(own, OwnState::Put { .. } | OwnState::Merged))
    }

    /// The values of many keys, as last written, in the order of the keys.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let state = self.held.enter()?;
        in_key_order(keys, |key| {
            check_key(key)?;
            let mut value = Vec::new();
            Ok(self.held.get_into(&state, key, &mut value)?.then_some(value))
        })
    }

    /// Counts the rows of a range that a scan would find now.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn count(&self, range: impl KeyRange) -> Result<u64> {
        let mut cursor = self.scan(range)?;
        let mut rows = 0;
        while cursor.next()?.is_some() {
            rows += 1;
        }
        Ok(rows)
    }

    /// Estimates how many rows are in a range, and how many bytes they take; 0 rows only if there
    /// are none. Reads nothing.
    ///
    /// # Errors
    /// `TxnEnded` if the tree is lost; `Interrupted`.
    pub fn estimate(&self, range: impl KeyRange) -> Result<RangeEstimate> {
        let state = self.held.enter()?;
        let (from, to) = bounds(&range)?;
        if is_nothing(&from, &to) {
            return Ok(RangeEstimate::default());
        }
        let range = (from.as_deref(), to.as_deref());
        let (mut own, all) = self.held.buffer.estimate(&state.buffer, TEMPORARY, range);
        if let Some(all) = all.and_then(|all| u64::try_from(all).ok()) {
            own.rows = own.rows.min(all.max(u64::from(own.rows > 0)));
        }
        Ok(own)
    }

    /// Number of rows: exact while every write knew whether its key existed (inserts, rows with a
    /// unique own entry), otherwise an estimate.
    ///
    /// # Errors
    /// As [`estimate`](Self::estimate).
    pub fn row_count(&self) -> Result<RowCount> {
        let delta = self.held.buffer.row_delta(&self.held.lock()?.buffer, TEMPORARY);
        if let Some(rows) = delta.and_then(|delta| u64::try_from(delta).ok()) {
            return Ok(RowCount { rows, exact: true });
        }
        Ok(RowCount { rows: self.estimate(..)?.rows, exact: false })
    }
}

impl Held {
    fn messages(&self, state: &State, key: &[u8], value: &mut Vec<u8>) -> Result<Messages> {
        let (mut messages, place) = (Messages::default(), (TEMPORARY, key));
        self.buffer.take_messages(self.engine(), &state.buffer, place, &mut messages, value)?;
        Ok(messages)
    }

    fn get_into(&self, state: &State, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let messages = self.messages(state, key, value)?;
        let exists = messages.finish(self.engine(), value)?;
        if exists {
            self.tree.to_newest_version(value)?;
        }
        Ok(exists)
    }
}
