//! Frond's transactions, at the level that is its default.
//!
//! Threads: one session each.

use std::ops::Bound;

use frond::{Db, Error, ErrorKind, Snapshot, Tree, Txn, TxnOptions};

use super::super::{Attempt, Begin, Failure, HeldSnapshot, Result, Stop, Transactions, Visit};

/// One thread's.
pub(super) struct FrondTransactions<'a> {
    db: &'a Db,
    tree: &'a Tree,
    durability: frond::Durability,
    current: Option<Txn>,
}

/// A snapshot.
pub(super) struct Held<'a> {
    pub snapshot: Snapshot,
    pub tree: &'a Tree,
}

fn stop(error: Error) -> Stop {
    match error.kind() {
        ErrorKind::Retry => Stop::Conflict,
        _ => Stop::Failed(error.into()),
    }
}

impl<'a> FrondTransactions<'a> {
    pub(super) fn new(db: &'a Db, tree: &'a Tree, durability: frond::Durability) -> Self {
        Self { db, tree, durability, current: None }
    }

    fn txn(&self) -> Attempt<&Txn> {
        let none = || Stop::Failed(Failure("frond: no transaction was begun".to_owned()));
        self.current.as_ref().ok_or_else(none)
    }
}

impl Transactions for FrondTransactions<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        let options = TxnOptions {
            read_only: what != Begin::Write,
            durability: Some(self.durability),
            ..TxnOptions::default()
        };
        self.current = Some(self.db.begin(options).map_err(stop)?);
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        self.txn()?.get_into(self.tree, key, value).map_err(stop)
    }

    fn get_for_update(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        let found = self.txn()?.get_for_update(self.tree, key).map_err(stop)?;
        value.clear();
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Attempt<()> {
        self.txn()?.put(self.tree, key, value).map_err(stop)
    }

    fn delete(&mut self, key: &[u8]) -> Attempt<()> {
        self.txn()?.delete(self.tree, key).map_err(stop)
    }

    fn list(&mut self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Attempt<()> {
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut cursor = self.txn()?.scan(self.tree, range).map_err(stop)?;
        while let Some((key, value)) = cursor.next().map_err(stop)? {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Attempt<()> {
        self.current.take().map_or(Ok(()), |txn| txn.commit().map(drop).map_err(stop))
    }

    fn rollback(&mut self) -> Result<()> {
        self.current = None;
        Ok(())
    }
}

impl HeldSnapshot for Held<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.snapshot.get(self.tree, key)?;
        value.clear();
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }
}
