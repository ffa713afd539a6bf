//! Frond of another commit as an embedded target: its library through the C API, with the trees and settings that the
//! target `frond` has.
//!
//! It takes calls through a C interface and copies of values, which `frond` does not: versions are compared with versions
//! (`frond@HEAD`), not with `frond`.

mod ffi;
mod header;

use std::path::PathBuf;

use super::{
    Attempt, Begin, Clients, Counter, Direction, Durability, Failure, HeldSnapshot, Result,
    Session, Setup, Stop, Target, Transactions, Visit,
};
use crate::layout;
use crate::schema::Keyspace;
use ffi::{Held, Moment, Part, Refusal, Store, Transaction, TreeParts, WriteBatch};

/// A library, and the commit that it is of.
#[derive(Clone, Debug)]
pub struct Version {
    /// The commit, as the target's name has it.
    pub commit: String,
    /// Its `libfrond.so`.
    pub library: PathBuf,
    /// Its `frond.h`.
    pub header: PathBuf,
}

/// Frond of another commit under test.
pub struct Library {
    store: Store,
    commit: String,
    settings: Vec<(String, String)>,
}

fn class(durability: Durability) -> i32 {
    match durability {
        Durability::Sync => 1,
        Durability::Os => 2,
        Durability::Lazy => 3,
    }
}

/// The parts of a layout, as the C API has them.
fn parts(layout: &frond::Layout) -> Vec<Part> {
    let of = |part: &frond::Part| match *part {
        frond::Part::Fixed(width, hint) => Part { kind: 1, width, hint: hint as i32 },
        frond::Part::Var(end) => Part { kind: end as i32, width: 0, hint: 0 },
        frond::Part::Version(version) => Part { kind: 6, width: version, hint: 0 },
    };
    layout.parts().iter().map(of).collect()
}

impl Library {
    /// Opens a fresh store.
    ///
    /// # Errors
    /// The commit's C API is another; those of the store.
    pub fn open(version: &Version, setup: &Setup) -> Result<Self> {
        let Version { commit, library, header } = version;
        let header = std::fs::read_to_string(header)
            .map_err(|error| Failure(format!("{}: {error}", header.display())))?;
        let (memory, durability) = (setup.memory.0, class(setup.durability));
        let mut store = Store::open(library, (commit, &header), &setup.dir, (memory, durability))?;
        for (keyspace, name) in setup.table.keyspaces().iter().enumerate() {
            let value = layout::value(&setup.table, keyspace);
            let made = TreeParts {
                unique: keyspace == 0 && setup.unique,
                keys: parts(&layout::key(&setup.table, keyspace)),
                values: value.as_ref().map(parts).unwrap_or_default(),
            };
            store.create(name, &made)?;
        }
        let settings = vec![
            ("cache_size".to_owned(), memory.to_string()),
            ("durability".to_owned(), format!("{:?}", setup.durability).to_lowercase()),
            ("size_class".to_owned(), "default".to_owned()),
        ];
        Ok(Self { store, commit: commit.clone(), settings })
    }
}

impl Target for Library {
    fn version(&self) -> String {
        format!("Frond {} of commit {}", self.store.version(), self.commit)
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let (batch, buffer) = (self.store.batch()?, self.store.buffer());
        Ok(Box::new(LibrarySession { store: &self.store, batch, buffer }))
    }

    fn transactions(&self, clients: Clients) -> Result<Box<dyn Transactions + '_>> {
        Ok(Box::new(LibraryTransactions {
            store: &self.store,
            durability: class(clients.durability),
            current: None,
            buffer: self.store.buffer(),
        }))
    }

    fn hold_snapshot(&self) -> Result<Box<dyn HeldSnapshot + '_>> {
        let (moment, buffer) = (self.store.snapshot()?, self.store.buffer());
        Ok(Box::new(LibrarySnapshot { moment, buffer }))
    }

    fn settle(&self) -> Result<()> {
        Ok(self.store.checkpoint()?)
    }

    fn counters(&self) -> Vec<Counter> {
        super::frond::counters(self.store.stats())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.store.close()?)
    }
}

struct LibrarySession<'a> {
    store: &'a Store,
    batch: WriteBatch<'a>,
    buffer: Held<'a>,
}

/// Copies what was read, if anything was.
fn copied(found: bool, buffer: &Held<'_>, value: &mut Vec<u8>) -> bool {
    value.clear();
    if found {
        value.extend_from_slice(buffer.bytes());
    }
    found
}

impl Session for LibrarySession<'_> {
    fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.batch.put(keyspace, key, value)?)
    }

    fn delete(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<()> {
        Ok(self.batch.delete(keyspace, key)?)
    }

    fn commit(&mut self) -> Result<()> {
        Ok(self.batch.commit()?)
    }

    fn get(&mut self, keyspace: Keyspace, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.store.get(keyspace, key, &mut self.buffer)?;
        Ok(copied(found, &self.buffer, value))
    }

    fn scan(
        &mut self,
        keyspace: Keyspace,
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<()> {
        match direction {
            Direction::Forward => Ok(self.store.scan(keyspace, (from, None), false, visit)?),
            Direction::Reverse => {
                // The first key behind `from`, since the end of a range is not in it.
                let to = from.map(|from| [from, &[0]].concat());
                Ok(self.store.scan(keyspace, (None, to.as_deref()), true, visit)?)
            }
        }
    }
}

struct LibraryTransactions<'a> {
    store: &'a Store,
    durability: i32,
    current: Option<Transaction<'a>>,
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

impl LibraryTransactions<'_> {
    fn read(&mut self, key: &[u8], locks: bool, value: &mut Vec<u8>) -> Attempt<bool> {
        let none = || Stop::Failed(Failure("frond: no transaction was begun".to_owned()));
        let found = self.current.as_ref().ok_or_else(none)?.get(key, locks, &mut self.buffer)?;
        Ok(copied(found, &self.buffer, value))
    }

    fn current(&self) -> Attempt<&Transaction<'_>> {
        let none = || Stop::Failed(Failure("frond: no transaction was begun".to_owned()));
        self.current.as_ref().ok_or_else(none)
    }
}

impl Transactions for LibraryTransactions<'_> {
    fn begin(&mut self, what: Begin) -> Attempt<()> {
        self.current = Some(self.store.begin(what != Begin::Write, self.durability)?);
        Ok(())
    }

    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        self.read(key, false, value)
    }

    fn get_for_update(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool> {
        self.read(key, true, value)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Attempt<()> {
        Ok(self.current()?.put(key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Attempt<()> {
        Ok(self.current()?.delete(key)?)
    }

    fn list(&mut self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Attempt<()> {
        Ok(self.current()?.scan(from, to, visit)?)
    }

    fn commit(&mut self) -> Attempt<()> {
        self.current.take().map_or(Ok(()), |txn| Ok(txn.commit()?))
    }

    fn rollback(&mut self) -> Result<()> {
        self.current = None;
        Ok(())
    }
}

struct LibrarySnapshot<'a> {
    moment: Moment<'a>,
    buffer: Held<'a>,
}

impl HeldSnapshot for LibrarySnapshot<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.moment.get(key, &mut self.buffer)?;
        Ok(copied(found, &self.buffer, value))
    }
}

#[cfg(test)]
mod tests;
