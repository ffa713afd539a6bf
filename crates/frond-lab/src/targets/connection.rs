//! A client's way into a store: transactions on entries, and on rows with their indexes.
//!
//! Invariants
//! 1. From `begin` to `commit` or `rollback` all calls are of one transaction, which others see whole or not at all.
//! 2. In [`Begin::Write`] a row that was read for an update, put or deleted is nobody else's to write until the
//!    transaction ends.
//! 3. A [`Stop::Conflict`] leaves a transaction that can only be rolled back.
//! 4. Reads outside of a transaction, and in [`Begin::Batch`], see what was committed last.
//! 5. Rows and their entries are changed together: a store that knows columns changes its own indexes, the others have a
//!    keyspace for each.
//!
//! Threads: one each.

use super::{Durability, Failure};
use crate::schema::{EncodedRow, Keyspace, Table, Value};

/// What a transaction is going to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// Reads at one moment.
    Read,
    /// Writes without reading what it writes: a batch.
    Batch,
    /// Reads and writes.
    Write,
}

/// Why a call failed.
#[derive(Debug)]
pub enum Stop {
    /// Others were in its way: the transaction is to be rolled back and done again.
    Conflict,
    /// Anything else.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Of a call that nobody can be in the way of.
impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Conflict => Self("a lock was not available to the only client".to_owned()),
            Stop::Failed(failure) => failure,
        }
    }
}

/// Result of a call that others may be in the way of.
pub type Attempt<T> = std::result::Result<T, Stop>;

/// The clients that use a store concurrently.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    /// How many there are: memory that each has for itself is so many times less.
    pub count: u64,
    /// When their commits are acknowledged, if not as the store's.
    pub durability: Option<Durability>,
}

impl Clients {
    /// One client.
    pub const ONE: Self = Self::many(1);

    /// So many clients.
    pub const fn many(count: u64) -> Self {
        Self { count, durability: None }
    }
}

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Reverse,
}

/// Sees one entry (key, value); false ends the scan.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// A part of a keyspace by the columns of its keys.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The first columns have these values.
    pub equal: &'a [Value<'a>],
    /// The columns after them have at least these, if there are any.
    pub from: &'a [Value<'a>],
    /// And at most these.
    pub to: &'a [Value<'a>],
    /// The end that it begins at.
    pub direction: Direction,
    /// Most entries.
    pub limit: u64,
}

impl<'a> Span<'a> {
    /// All of a keyspace.
    pub const ALL: Self =
        Self { equal: &[], from: &[], to: &[], direction: Direction::Forward, limit: u64::MAX };

    /// All entries that begin so.
    pub fn of(equal: &'a [Value<'a>]) -> Self {
        Self { equal, ..Span::ALL }
    }

    /// Its bounds as bytes: the first key, and the one after the last.
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

/// The first key after all that begin with this one.
fn successor(mut key: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = key.pop() {
        if last < u8::MAX {
            key.push(last + 1);
            return Some(key);
        }
    }
    None
}

/// One client's connection.
pub trait Connection {
    /// Begins a transaction.
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
    /// Reads the entries from one key up to another, which is not among them, without locks. `Reverse` begins at the last.
    fn scan(
        &mut self,
        keyspace: Keyspace,
        bounds: (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()>;
    /// Commits the transaction, if there is one.
    fn commit(&mut self) -> Attempt<()>;
    /// Rolls it back, if there is one.
    fn rollback(&mut self) -> super::Result<()>;

    /// Reads the value of the row with this primary key, given as columns and as bytes.
    fn get_row(
        &mut self,
        table: &Table,
        _key: &[Value<'_>],
        as_bytes: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.get(table.base, as_bytes, value)
    }

    /// Locks that row and reads its newest value.
    fn lock_row(
        &mut self,
        table: &Table,
        _key: &[Value<'_>],
        as_bytes: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.get_for_update(table.base, as_bytes, value)
    }

    /// Inserts a row that is not there, with its index entries.
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

    /// Sets these columns of a row that was read, `old`; `row` is all of it as it becomes, `new`.
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

    /// Deletes a row that was read.
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

    /// Reads a part of a table's keyspace (0 the rows, 1.. the indexes) in its order; visits entries in encoded form.
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
    fn bounds_hold_what_begins_so_and_nothing_else() {
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
