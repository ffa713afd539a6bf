//! The interface of a store's client: transactions on entries, and on rows with their indexes.
//!
//! Invariants
//! 1. All calls from `begin` to `commit` or `rollback` belong to one transaction, which other
//!    clients see entirely or not at all.
//! 2. In [`Begin::Write`], a row that was read for update, put or deleted cannot be written by
//!    another client until the transaction ends.
//! 3. After a [`Stop::Conflict`] a transaction can only be rolled back.
//! 4. Reads outside of a transaction, and in [`Begin::Batch`], see the last commit.
//! 5. Rows and their index entries are changed together: a store that knows columns changes its own
//!    indexes, other stores have a keyspace for each index.
//!
//! Threads: a connection belongs to one thread.

use std::ops::Range;

use super::{Durability, Failure};
use crate::schema::{EncodedRow, Keyspace, Table, Value};

/// The kind of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// Reads a consistent snapshot.
    Read,
    /// A batch: writes without reading what it writes.
    Batch,
    /// Reads and writes.
    Write,
}

/// Why a call failed.
#[derive(Debug)]
pub enum Stop {
    /// Conflict with another client: roll the transaction back and run it again.
    Conflict,
    /// Anything else.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Converts the error of a call that cannot conflict, since there is only one client.
impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Conflict => Self("a lock was not available to the only client".to_owned()),
            Stop::Failed(failure) => failure,
        }
    }
}

/// Result of a call that may conflict with other clients.
pub type Attempt<T> = std::result::Result<T, Stop>;

/// The clients that use a store concurrently.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    /// Number of clients. Memory that each client has for itself is divided by it.
    pub count: u64,
    /// Durability of their commits, if it differs from the store's.
    pub durability: Option<Durability>,
}

impl Clients {
    /// One client.
    pub const ONE: Self = Self::many(1);

    /// The given number of clients.
    pub const fn many(count: u64) -> Self {
        Self { count, durability: None }
    }
}

/// Direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Reverse,
}

/// Callback for an entry (key, value); returning false ends the scan.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// The entries of a bulk load: writes the next key and value, in ascending order of keys; returns
/// false if there are no more.
pub type Entries<'a> = &'a mut dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> bool;

/// A range of a keyspace, given by the columns of its keys.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The first columns have these values.
    pub equal: &'a [Value<'a>],
    /// The columns after them are at least these, if given.
    pub from: &'a [Value<'a>],
    /// The columns after them are at most these, if given.
    pub to: &'a [Value<'a>],
    /// The direction, which determines the end at which reading starts.
    pub direction: Direction,
    /// Maximum number of entries.
    pub limit: u64,
}

impl<'a> Span<'a> {
    /// All entries of a keyspace.
    pub const ALL: Self =
        Self { equal: &[], from: &[], to: &[], direction: Direction::Forward, limit: u64::MAX };

    /// All entries whose first columns have these values.
    pub fn of(equal: &'a [Value<'a>]) -> Self {
        Self { equal, ..Span::ALL }
    }

    /// Returns the bounds as bytes: the first key (inclusive) and the end (exclusive).
    pub fn bounds(&self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let key = |more: &[Value<'_>]| {
            let mut key = Vec::with_capacity(64);
            self.equal.iter().chain(more).for_each(|value| value.append_key(&mut key));
            key
        };
        let low = Some(key(self.from)).filter(|key| !key.is_empty());
        let high = Some(key(self.to)).and_then(successor);
        (low, high)
    }
}

/// Returns the first key after all keys with this prefix; `None` if there is no such key.
fn successor(mut key: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = key.pop() {
        if last < u8::MAX {
            key.push(last + 1);
            return Some(key);
        }
    }
    None
}

/// A client's connection to a store.
pub trait Connection {
    /// Starts a transaction.
    fn begin(&mut self, what: Begin) -> Attempt<()>;
    /// Reads a value into `value` without a lock; false if the key is absent.
    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool>;
    /// Locks an entry and reads its newest value; false if the key is absent.
    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool>;
    /// Sets a value.
    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()>;
    /// Deletes a key.
    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()>;
    /// Reads the entries with keys in `from..to`, without locks. `Reverse` starts at the last one.
    fn scan(
        &mut self,
        keyspace: Keyspace,
        bounds: (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()>;
    /// Commits the transaction, if there is one.
    fn commit(&mut self) -> Attempt<()>;
    /// Rolls the transaction back, if there is one.
    fn rollback(&mut self) -> super::Result<()>;

    /// Deletes the keys in a range, as part of a batch.
    ///
    /// # Errors
    /// The store has no range deletes (`Target::deletes_ranges`).
    fn delete_range(&mut self, _: Keyspace, _: Range<&[u8]>) -> Attempt<()> {
        Err(Failure("the store has no range deletes".to_owned()).into())
    }

    /// Fills an empty keyspace in the store's own way. Other connections see the entries if they
    /// are opened afterwards.
    ///
    /// # Errors
    /// The store has no such way (`Target::bulk_loads`).
    fn bulk_load(&mut self, _: Keyspace, _: Entries<'_>) -> Attempt<()> {
        Err(Failure("the store has no bulk loads".to_owned()).into())
    }

    /// Creates the index with this number on the rows that a table has, in a store with indexes of
    /// its own. Others return false: there the client puts the entries.
    fn create_index(&mut self, _table: &Table, _index: usize) -> Attempt<bool> {
        Ok(false)
    }

    /// Reads the value of the row with this primary key, which is given as columns and as bytes.
    fn get_row(
        &mut self,
        table: &Table,
        _key: &[Value<'_>],
        as_bytes: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.get(table.base, as_bytes, value)
    }

    /// Locks the row with this primary key and reads its newest value.
    fn lock_row(
        &mut self,
        table: &Table,
        _key: &[Value<'_>],
        as_bytes: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.get_for_update(table.base, as_bytes, value)
    }

    /// Inserts a row that does not exist, with its index entries.
    fn insert_row(
        &mut self,
        table: &Table,
        _row: &[Value<'_>],
        as_bytes: &EncodedRow,
    ) -> Attempt<()> {
        self.put(table.base, &as_bytes.key, &as_bytes.value)?;
        for (keyspace, key) in (table.base + 1..).zip(&as_bytes.index_keys) {
            self.put(keyspace, key, &[])?;
        }
        Ok(())
    }

    /// Updates these columns of a row that was read. `old` is the row as read; `row` and `new` are
    /// the complete row after the update.
    fn update_row(
        &mut self,
        table: &Table,
        _columns: &[usize],
        _row: &[Value<'_>],
        (old, new): (&EncodedRow, &EncodedRow),
    ) -> Attempt<()> {
        for (keyspace, (old, new)) in
            (table.base + 1..).zip(old.index_keys.iter().zip(&new.index_keys))
        {
            if old != new {
                self.delete(keyspace, old)?;
                self.put(keyspace, new, &[])?;
            }
        }
        self.put(table.base, &new.key, &new.value)
    }

    /// Deletes a row that was read, with its index entries.
    fn delete_row(
        &mut self,
        table: &Table,
        _row: &[Value<'_>],
        as_bytes: &EncodedRow,
    ) -> Attempt<()> {
        for (keyspace, key) in (table.base + 1..).zip(&as_bytes.index_keys) {
            self.delete(keyspace, key)?;
        }
        self.delete(table.base, &as_bytes.key)
    }

    /// Reads a range of a table's keyspace (0 the rows, 1.. the indexes) in its order, and visits
    /// the entries in encoded form.
    fn range(
        &mut self,
        table: &Table,
        keyspace: Keyspace,
        span: &Span<'_>,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        let (low, high) = span.bounds();
        let (bounds, mut left) = ((low.as_deref(), high.as_deref()), span.limit);
        if left == 0 {
            return Ok(());
        }
        self.scan(table.base + keyspace, bounds, span.direction, &mut |key, value| {
            left -= 1;
            visit(key, value) && left > 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_bounds_contain_exactly_the_prefix() {
        let (one, two) = ([Value::U32(1)], [Value::U32(u32::MAX)]);
        let bounds = |span: Span<'_>| span.bounds();
        let (low, high) = bounds(Span::of(&one));
        assert_eq!((low, high), (Some(vec![0, 0, 0, 1]), Some(vec![0, 0, 0, 2])));
        assert_eq!(bounds(Span::of(&two)), (Some(vec![255; 4]), None));
        assert_eq!(bounds(Span::ALL), (None, None));
        let (low, high) = bounds(Span { from: &one, to: &two, ..Span::of(&one) });
        assert_eq!(low, Some(vec![0, 0, 0, 1, 0, 0, 0, 1]));
        assert_eq!(
            high,
            Some(vec![0, 0, 0, 2]),
            "the last possible key is followed by the next prefix"
        );
    }
}
