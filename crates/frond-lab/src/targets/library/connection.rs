//! A client of the library: batches and transactions, like those of the target `frond`.
//!
//! Threads: a connection belongs to one thread.

use std::ops::Range;

use super::super::{Attempt, Begin, Connection, Direction, Failure, Result, Stop, Visit};
use super::ffi::{Held, Refusal, Store, Transaction, WriteBatch};
use crate::schema::Keyspace;

/// What the client has started: a batch or a transaction.
enum Open<'a> {
    Nothing,
    Batch,
    Txn(Transaction<'a>),
}

/// The connection of one client.
pub(super) struct LibraryConnection<'a> {
    store: &'a Store,
    durability: i32,
    batch: WriteBatch<'a>,
    open: Open<'a>,
    buffer: Held<'a>,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        match refusal.is_retry {
            true => Self::Conflict,
            false => Self::Failed(refusal.into()),
        }
    }
}

fn nothing_begun() -> Stop {
    Stop::Failed(Failure("frond: no transaction was begun".to_owned()))
}

impl<'a> LibraryConnection<'a> {
    pub(super) fn new(store: &'a Store, durability: i32) -> Result<Self> {
        let (batch, buffer) = (store.batch()?, store.buffer());
        Ok(Self { store, durability, batch, open: Open::Nothing, buffer })
    }

    /// Copies the value that was read, if the key was found.
    fn copied(&self, found: bool, value: &mut Vec<u8>) -> bool {
        value.clear();
        if found {
            value.extend_from_slice(self.buffer.bytes());
        }
        found
    }
}

impl Connection for LibraryConnection<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        self.open = match what {
            Begin::Batch => Open::Batch,
            Begin::Read | Begin::Write => {
                Open::Txn(self.store.begin(what == Begin::Read, self.durability)?)
            }
        };
        Ok(())
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        let found = match &self.open {
            Open::Txn(txn) => txn.get(keyspace, key, false, &mut self.buffer)?,
            Open::Nothing | Open::Batch => self.store.get(keyspace, key, &mut self.buffer)?,
        };
        Ok(self.copied(found, value))
    }

    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        let Open::Txn(txn) = &self.open else { return Err(nothing_begun()) };
        let found = txn.get(keyspace, key, true, &mut self.buffer)?;
        Ok(self.copied(found, value))
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()> {
        match &self.open {
            Open::Txn(txn) => Ok(txn.put(keyspace, key, value)?),
            Open::Batch => Ok(self.batch.put(keyspace, key, value)?),
            Open::Nothing => Err(nothing_begun()),
        }
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()> {
        match &self.open {
            Open::Txn(txn) => Ok(txn.delete(keyspace, key)?),
            Open::Batch => Ok(self.batch.delete(keyspace, key)?),
            Open::Nothing => Err(nothing_begun()),
        }
    }

    fn delete_range(&mut self, keyspace: Keyspace, range: Range<&[u8]>) -> Attempt<()> {
        Ok(self.batch.delete_range(keyspace, range)?)
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        bounds: (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        let is_reverse = direction == Direction::Reverse;
        match &self.open {
            Open::Txn(txn) => Ok(txn.scan(keyspace, bounds, is_reverse, visit)?),
            Open::Nothing | Open::Batch => {
                Ok(self.store.scan(keyspace, bounds, is_reverse, visit)?)
            }
        }
    }

    fn commit(&mut self) -> Attempt<()> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => Ok(()),
            Open::Batch => Ok(self.batch.commit()?),
            Open::Txn(txn) => Ok(txn.commit()?),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        if let Open::Batch = std::mem::replace(&mut self.open, Open::Nothing) {
            self.batch = self.store.batch()?; // an empty one
        }
        Ok(())
    }
}
