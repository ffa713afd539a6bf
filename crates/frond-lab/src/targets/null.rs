//! The null target: accepts everything but keeps only one entry of each keyspace. The cost of a
//! workload on it is the cost of the workload itself, which is subtracted from the figures of the
//! other targets.
//!
//! Invariants
//! 1. Every read finds the entry that was put last into its keyspace, so a client decodes and
//!    changes rows as it does with a store.
//!
//! Threads: a connection has its own entries; they are shared only when it opens and when it
//! closes.

use std::hint::black_box;
use std::sync::Mutex;

use super::{Attempt, Begin, Clients, Connection, Direction, Result, Setup, Target, Visit};
use crate::schema::Keyspace;

/// The entry that reads find; `None` before the first put.
type Sample = Option<(Vec<u8>, Vec<u8>)>;

/// A target that keeps no rows.
pub struct Null {
    samples: Mutex<Vec<Sample>>,
}

struct NullConnection<'a> {
    target: &'a Null,
    samples: Vec<Sample>,
}

impl Null {
    /// Opens a target with the keyspaces of these tables.
    pub fn open(setup: &Setup) -> Self {
        let keyspaces = setup.tables.iter().map(|table| table.keyspaces().len()).sum();
        Self { samples: Mutex::new(vec![None; keyspaces]) }
    }
}

impl Target for Null {
    fn version(&self) -> String {
        "no store".to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn connect(&self, _: Clients) -> Result<Box<dyn Connection + '_>> {
        let samples = self.samples.lock().unwrap_or_else(|e| e.into_inner()).clone();
        Ok(Box::new(NullConnection { target: self, samples }))
    }

    fn keeps_rows(&self) -> bool {
        false
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for NullConnection<'_> {
    fn drop(&mut self) {
        let mut shared = self.target.samples.lock().unwrap_or_else(|e| e.into_inner());
        for (shared, own) in shared.iter_mut().zip(&mut self.samples) {
            if own.is_some() {
                *shared = own.take();
            }
        }
    }
}

impl Connection for NullConnection<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        black_box(what);
        Ok(())
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        black_box(key);
        value.clear();
        let Some((_, sample)) = &self.samples[keyspace] else { return Ok(false) };
        value.extend_from_slice(sample);
        Ok(true)
    }

    fn get_for_update(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        self.get(keyspace, key, value)
    }

    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Attempt<()> {
        let (k, v) = self.samples[keyspace].get_or_insert_default();
        k.clear();
        k.extend_from_slice(key);
        v.clear();
        v.extend_from_slice(value);
        Ok(())
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Attempt<()> {
        black_box((keyspace, key));
        Ok(())
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        bounds: (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Attempt<()> {
        black_box((bounds, direction));
        if let Some((key, value)) = &self.samples[keyspace] {
            visit(key, value);
        }
        Ok(())
    }

    fn commit(&mut self) -> Attempt<()> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        Ok(())
    }
}
