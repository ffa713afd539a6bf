//! Snapshots: the store as it was after one commit.

use crate::{
    Result, Seqno,
    pipeline::Engine,
    sync::Arc,
    version::{SnapshotState, Version},
};

use super::{Cursor, Tree, read::ReadView, tree::bounds};
use std::ops::RangeBounds;

/// One moment of the store; the same bytes for its whole life, whatever is written meanwhile
/// (Promise: P25). Cheap to clone. A long-lived one costs the space of the pages changed since.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) engine: Arc<Engine>,
    state: Arc<SnapshotState>,
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        self.engine.snapshots.share(&self.state);
        Self { engine: self.engine.clone(), state: self.state.clone() }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.engine.snapshots.release(&self.state);
    }
}

impl Snapshot {
    pub(crate) fn new(engine: Arc<Engine>, visible: impl FnOnce() -> Seqno) -> Self {
        let state = engine.snapshots.register(visible);
        Self { engine, state }
    }

    /// The last commit that it shows.
    pub fn seqno(&self) -> Seqno {
        self.state.at
    }

    /// The version to read in this call; never kept from call to call (Rule: I28).
    pub(crate) fn version(&self) -> Arc<Version> {
        self.state.version(&self.engine.versions)
    }

    pub(crate) fn view<'a>(&'a self, version: &'a Version) -> ReadView<'a> {
        ReadView { engine: &self.engine, version, at: self.state.at }
    }

    /// The value of a key at this moment.
    ///
    /// # Errors
    /// `DefinitionChanged` if the tree was created later; I/O errors and damage.
    pub fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check(tree)?;
        let mut value = Vec::new();
        let version = self.version();
        Ok(self.view(&version).get(tree.entry.id, key, &mut value)?.then_some(value))
    }

    /// A cursor over a range of keys at this moment, before its first row.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn scan<'k>(&self, tree: &Tree, range: impl RangeBounds<&'k [u8]>) -> Result<Cursor> {
        self.check(tree)?;
        Cursor::new(self.clone(), tree.entry.id, bounds(&range)?)
    }

    fn check(&self, tree: &Tree) -> Result<()> {
        self.engine.health.check()?;
        if tree.entry.birth > self.state.at {
            return Err(crate::Error::DefinitionChanged(tree.name()));
        }
        Ok(())
    }
}
