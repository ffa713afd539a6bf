//! The null target: takes everything, keeps nothing. What a workload costs against it is what the
//! workload itself costs; that is subtracted from the figures of the others.

use std::hint::black_box;

use super::{
    Attempt, Begin, Clients, Direction, HeldSnapshot, Result, Session, Target, Transactions, Visit,
};
use crate::schema::Keyspace;

/// Keeps nothing.
pub struct Null;

struct NullSession;

impl Target for Null {
    fn version(&self) -> String {
        "no store".to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(NullSession))
    }

    fn transactions(&self, _: Clients) -> Result<Box<dyn Transactions + '_>> {
        Ok(Box::new(NullSession))
    }

    fn hold_snapshot(&self) -> Result<Box<dyn HeldSnapshot + '_>> {
        Ok(Box::new(NullSession))
    }

    fn keeps_rows(&self) -> bool {
        false
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl HeldSnapshot for NullSession {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Session::get(self, 0, key, value)
    }
}

impl Transactions for NullSession {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        black_box(what);
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        Ok(Session::get(self, 0, key, value)?)
    }

    fn get_for_update(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        Ok(Session::get(self, 0, key, value)?)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Attempt<()> {
        Ok(Session::put(self, 0, key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Attempt<()> {
        Ok(Session::delete(self, 0, key)?)
    }

    fn list(&mut self, from: &[u8], to: &[u8], _visit: Visit<'_>) -> Attempt<()> {
        black_box((from, to));
        Ok(())
    }

    fn commit(&mut self) -> Attempt<()> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Session for NullSession {
    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((keyspace, key, value));
        Ok(())
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<()> {
        black_box((keyspace, key));
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        Ok(())
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        black_box((keyspace, key));
        value.clear();
        Ok(false)
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        from: Option<&[u8]>,
        direction: Direction,
        _visit: Visit<'_>,
    ) -> Result<()> {
        black_box((keyspace, from, direction));
        Ok(())
    }
}
