//! Frond of another commit as an embedded target: its library, called through the C API, with the
//! same trees and settings as the target `frond`.
//!
//! Calls cross a C interface and values are copied, which the target `frond` does not need. So
//! compare versions with versions (`frond@HEAD`), not with `frond`.

mod connection;
mod ffi;
mod header;

use std::path::PathBuf;

use super::{Clients, Connection, Counter, Durability, Failure, Result, Setup, Target};
use crate::layout;
use connection::LibraryConnection;
use ffi::{Part, Store, TreeParts};

/// A library and its commit.
#[derive(Clone, Debug)]
pub struct Version {
    /// The commit, as written in the target's name.
    pub commit: String,
    /// The `libfrond.so`.
    pub library: PathBuf,
    /// The `frond.h`.
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

/// Converts the parts of a layout to those of the C API.
fn parts(layout: &frond::layout::Layout) -> Vec<Part> {
    let of = |part: &frond::layout::Part| match *part {
        frond::layout::Part::Fixed(width, hint) => Part { kind: 1, width, hint: hint as i32 },
        frond::layout::Part::Var(end) => Part { kind: end as i32, width: 0, hint: 0 },
        frond::layout::Part::Version(version) => Part { kind: 6, width: version, hint: 0 },
    };
    layout.parts().iter().map(of).collect()
}

impl Library {
    /// Opens a fresh store.
    ///
    /// # Errors
    /// The commit's C API differs, or the store cannot be opened.
    pub fn open(version: &Version, setup: &Setup) -> Result<Self> {
        let Version { commit, library, header } = version;
        let header = std::fs::read_to_string(header)
            .map_err(|error| Failure(format!("{}: {error}", header.display())))?;
        let (memory, durability) = (setup.memory.0, class(setup.durability));
        let mut store = Store::open(library, (commit, &header), &setup.dir, (memory, durability))?;
        for table in &setup.tables {
            for (keyspace, name) in table.keyspaces().iter().enumerate() {
                let value = layout::value(table, keyspace);
                let made = TreeParts {
                    unique: keyspace == 0 && setup.unique,
                    keys: parts(&layout::key(table, keyspace)),
                    values: value.as_ref().map(parts).unwrap_or_default(),
                };
                store.create(name, &made)?;
            }
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

    fn connect(&self, clients: Clients) -> Result<Box<dyn Connection + '_>> {
        let durability = clients.durability.map_or(ffi::AS_STORE, class);
        Ok(Box::new(LibraryConnection::new(&self.store, durability)?))
    }

    fn deletes_ranges(&self) -> bool {
        true
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

#[cfg(test)]
mod tests;
