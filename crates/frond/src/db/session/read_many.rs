//! Reads of many rows in one call: one snapshot, one descent, one buffer.
//!
//! Rows that are read without locks are looked up together: their keys go down the tree side by
//! side, blocks that must be read are requested together (`db/read/parallel_reads.rs`), and only
//! the wanted parts of values are decoded. Trees that the transaction itself has written, and rows
//! under locks, are read row by row.
//!
//! Invariants
//! 1. A row is what a single read of it returns at that snapshot.
//!
//! Threads: as the transaction.

use crate::{
    Result,
    db::{
        Projection, Tree,
        read::{Messages, View, key_order, load_leaf_blocks},
    },
    key_range::check_key,
};

use super::{ReadOptions, RowRead, State, Txn, read_as::At};

/// Rows that were read together, in the order of their keys, with their values in one reusable
/// buffer.
#[derive(Clone, Debug, Default)]
pub struct ManyRows {
    bytes: Vec<u8>,
    rows: Vec<Place>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    exists: bool,
    locked: bool,
    at: usize,
    bytes: usize,
}

impl ManyRows {
    /// No rows, with memory for values.
    pub fn with(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self { bytes, rows: Vec::new() }
    }

    /// Number of requested rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The value of a row, or the requested parts of it; `None` if there is no such row.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let Place { exists, at, bytes, .. } = *self.rows.get(row)?;
        self.bytes.get(at..at + bytes).filter(|_| exists)
    }

    /// True if the row is locked by the transaction; see [`RowRead::locked`].
    pub fn is_locked(&self, row: usize) -> bool {
        self.rows.get(row).is_some_and(|row| row.locked)
    }

    /// Returns the buffer for reuse.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Reads other rows into these, whose memory is reused. Otherwise like [`Txn::get_many_with`].
    ///
    /// # Errors
    /// As [`Txn::get_many_with`]; then there are no rows.
    pub fn read<K: AsRef<[u8]>>(
        &mut self,
        txn: &Txn,
        tree: &Tree,
        keys: &[K],
        options: &ReadOptions<'_>,
    ) -> Result<()> {
        self.begin(keys.len());
        let read = txn.read_all(tree, keys, options, self);
        if read.is_err() {
            self.begin(0);
        }
        read
    }

    fn begin(&mut self, rows: usize) {
        self.bytes.clear();
        self.rows.clear();
        self.rows.resize(rows, Place::default());
    }

    fn put(&mut self, row: usize, value: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(value);
        if let Some(row) = self.rows.get_mut(row) {
            (row.exists, row.at, row.bytes) = (true, at, value.len());
        }
    }
}

/// A row of which the tree must be searched as well.
struct Open<'k> {
    key: &'k [u8],
    /// The index in the caller's order.
    row: usize,
    messages: Messages,
}

impl Txn {
    fn read_all<K: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        keys: &[K],
        options: &ReadOptions<'_>,
        rows: &mut ManyRows,
    ) -> Result<()> {
        options.projection.map_or(Ok(()), |projection| projection.check(tree.schema.as_ref()))?;
        keys.iter().try_for_each(|key| check_key(key.as_ref()))?;
        let mut state = self.enter_tree(tree)?;
        let state = &mut *state;
        let order = key_order(keys);
        if let Some((mode, meeting)) = self.locking(options) {
            let mut read = vec![RowRead::default(); keys.len()];
            self.lock_and_read(state, (tree, keys), (mode, meeting), options, &order, &mut read)?;
            for (number, row) in read.iter().enumerate() {
                if row.exists {
                    rows.put(number, &row.value);
                }
                rows.rows[number].locked = row.locked;
            }
            return Ok(());
        }
        let view = self.view(state, tree, options.sees)?;
        if self.has_written_to(state, tree) {
            let mut row = RowRead::default();
            for index in order {
                state.check_interrupted()?;
                let (key, at) = (keys[index].as_ref(), At::View(&view));
                row.exists = self.read_shown(state, tree, key, at, &mut row.value)?;
                options.cut(tree, &mut row)?;
                if row.exists {
                    rows.put(index, &row.value);
                }
            }
            return Ok(());
        }
        let mut value = Vec::new();
        let mut open = Vec::with_capacity(keys.len());
        for index in order {
            let (key, mut messages) = (keys[index].as_ref(), Messages::default());
            if view.add_newest(tree.entry.id, key, options.columns(), &mut messages, &mut value)? {
                view.put_row(tree, key, options.projection, messages, &mut value, (index, rows))?;
            } else {
                open.push(Open { key, row: index, messages });
            }
        }
        let below: Vec<&[u8]> = open.iter().map(|open| open.key).collect();
        let engine = &self.shared.engine;
        load_leaf_blocks(engine, &view.version, tree.entry.id, &below);
        state.check_interrupted()?;
        if let Some(root) = view.version.roots.get(&tree.entry.id) {
            root.get_many(&engine.cx, &below, options.columns(), &mut |number, found| {
                let Open { key, row, messages } = &mut open[number];
                if messages.take(found.message(), found.is_whole(), &mut value) {
                    let messages = std::mem::take(messages);
                    view.put_row(
                        tree,
                        key,
                        options.projection,
                        messages,
                        &mut value,
                        (*row, rows),
                    )?;
                }
                Ok(())
            })?;
        }
        // Operands without a base.
        for Open { key, row, messages } in open.into_iter().filter(|open| open.messages.is_open()) {
            value.clear();
            view.put_row(tree, key, options.projection, messages, &mut value, (row, rows))?;
        }
        Ok(())
    }

    /// Locks all rows, then reads them (`read_as.rs`, invariant 3).
    pub(super) fn lock_and_read<K: AsRef<[u8]>>(
        &self,
        state: &mut State,
        (tree, keys): (&Tree, &[K]),
        how: (crate::txn::lock_table::RowMode, super::Meeting),
        options: &ReadOptions<'_>,
        order: &[usize],
        rows: &mut [RowRead],
    ) -> Result<()> {
        self.or_unlocked(state, options, |state| {
            self.read_locked(state, (tree, keys), how, order, rows)?;
            rows.iter_mut().try_for_each(|row| options.cut(tree, row))
        })
    }
}

impl View<'_> {
    /// Adds a row whose messages are complete, if it exists.
    fn put_row(
        &self,
        tree: &Tree,
        key: &[u8],
        projection: Option<&Projection>,
        messages: Messages,
        value: &mut Vec<u8>,
        (row, rows): (usize, &mut ManyRows),
    ) -> Result<()> {
        let exists = match projection {
            Some(projection) => {
                self.finish_projected(&tree.entry, key, projection, messages, value)?
            }
            None => {
                let exists = messages.finish(self.engine, value)?;
                tree.to_newest_version(value)?;
                exists
            }
        };
        if exists {
            rows.put(row, value);
        }
        Ok(())
    }
}
