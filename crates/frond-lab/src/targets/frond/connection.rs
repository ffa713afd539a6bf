//! A client of Frond: batches, and transactions at the default isolation level.
//!
//! Threads: a connection belongs to one thread.

use std::ops::{Bound, Range};
use std::sync::Mutex;

use frond::{Batch, Db, Error, ErrorKind, Tree, Txn, TxnOptions};

use super::super::{Attempt, Begin, Connection, Direction, Entries, Failure, Result, Stop, Visit};
use super::lock;
use crate::schema::Keyspace;

/// What the client has started: a batch or a transaction.
#[allow(clippy::large_enum_variant)] // there is one for each client
enum Open {
    Nothing,
    Batch,
    Txn(Txn),
}

/// The connection of one client.
pub(super) struct FrondConnection<'a> {
    db: &'a Db,
    /// The trees of the target, from which those of the next connections come.
    shared: &'a Mutex<Vec<Tree>>,
    trees: Vec<Tree>,
    durability: Option<frond::Durability>,
    batch: Batch,
    open: Open,
}

fn stop(error: Error) -> Stop {
    match error.kind() {
        ErrorKind::Retry => Stop::Conflict,
        _ => Stop::Failed(error.into()),
    }
}

impl<'a> FrondConnection<'a> {
    pub(super) fn new(
        db: &'a Db,
        shared: &'a Mutex<Vec<Tree>>,
        durability: Option<frond::Durability>,
    ) -> Self {
        let trees = lock(shared).clone();
        Self { db, shared, trees, durability, batch: Batch::new(), open: Open::Nothing }
    }
}

fn nothing_begun() -> Stop {
    Stop::Failed(Failure("frond: no transaction was begun".to_owned()))
}

/// Visits the entries of a cursor. A macro, since cursors of transactions have another type.
macro_rules! walk {
    ($cursor:expr, $direction:expr, $visit:expr) => {{
        let mut cursor = $cursor.map_err(stop)?;
        if $direction == Direction::Reverse {
            cursor.seek_last();
        }
        loop {
            let entry = match $direction {
                Direction::Forward => cursor.next(),
                Direction::Reverse => cursor.prev(),
            };
            match entry.map_err(stop)? {
                Some((key, value)) if $visit(key, value) => {}
                _ => return Ok(()),
            }
        }
    }};
}

impl Connection for FrondConnection<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        self.open = match what {
            Begin::Batch => Open::Batch,
            Begin::Read | Begin::Write => {
                let read_only = what == Begin::Read;
                let durability = self.durability;
                let options = TxnOptions::new().read_only(read_only).durability(durability);
                Open::Txn(self.db.begin(options).map_err(stop)?)
            }
        };
        Ok(())
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        let tree = &self.trees[keyspace];
        let found = match &self.open {
            Open::Txn(txn) => txn.get_into(tree, key, value),
            Open::Nothing | Open::Batch => tree.get_into(key, value),
        };
        found.map_err(stop)
    }

    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        let Open::Txn(txn) = &self.open else { return Err(nothing_begun()) };
        let found = txn.get_for_update(&self.trees[keyspace], key).map_err(stop)?;
        value.clear();
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()> {
        let tree = &self.trees[keyspace];
        match &self.open {
            Open::Txn(txn) => txn.put(tree, key, value).map_err(stop),
            Open::Batch => self.batch.put(tree, key, value).map_err(stop),
            Open::Nothing => Err(nothing_begun()),
        }
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()> {
        let tree = &self.trees[keyspace];
        match &self.open {
            Open::Txn(txn) => txn.delete(tree, key).map_err(stop),
            Open::Batch => self.batch.delete(tree, key).map_err(stop),
            Open::Nothing => Err(nothing_begun()),
        }
    }

    fn delete_range(&mut self, keyspace: Keyspace, range: Range<&[u8]>) -> Attempt<()> {
        self.batch.delete_range(&self.trees[keyspace], range).map_err(stop)
    }

    fn bulk_load(&mut self, keyspace: Keyspace, next: Entries<'_>) -> Attempt<()> {
        let mut load = self.db.bulk_load_into(&self.trees[keyspace]).map_err(stop)?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while next(&mut key, &mut value) {
            load.put(&key, &value).map_err(stop)?;
        }
        let tree = load.finish().map_err(stop)?.tree;
        lock(self.shared)[keyspace] = tree.clone();
        self.trees[keyspace] = tree;
        Ok(())
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        let tree = &self.trees[keyspace];
        let range = (
            from.map_or(Bound::Unbounded, Bound::Included),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        );
        match &self.open {
            Open::Txn(txn) => walk!(txn.scan(tree, range), direction, visit),
            Open::Nothing | Open::Batch => walk!(tree.scan(range), direction, visit),
        }
    }

    fn commit(&mut self) -> Attempt<()> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => Ok(()),
            Open::Batch => self.db.commit(&mut self.batch).map(drop).map_err(stop),
            Open::Txn(txn) => txn.commit().map(drop).map_err(stop),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        self.batch.clear();
        self.open = Open::Nothing;
        Ok(())
    }
}
