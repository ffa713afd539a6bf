//! Snapshots: the store as it was after one commit.

use crate::{Result, Seqno, pipeline::Engine, sync::Arc, version::Version};

use super::{Cursor, Tree, read::ReadView, tree::bounds};
use std::ops::RangeBounds;

/// One moment of the store; the same bytes for its whole life, whatever is written meanwhile
/// (Promise: P25). Cheap to clone. A long-lived one costs the space of the pages changed since.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) engine: Arc<Engine>,
    pub(crate) version: Arc<Version>,
    pub(crate) at: Seqno,
}

impl Snapshot {
    /// The last commit that it shows.
    pub fn seqno(&self) -> Seqno {
        self.at
    }

    pub(crate) fn view(&self) -> ReadView<'_> {
        ReadView { engine: &self.engine, version: &self.version, at: self.at }
    }

    /// The value of a key at this moment.
    ///
    /// # Errors
    /// `DefinitionChanged` if the tree was created later; I/O errors and damage.
    pub fn get(&self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check(tree)?;
        let mut value = Vec::new();
        Ok(self.view().get(tree.entry.id, key, &mut value)?.then_some(value))
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
        if tree.entry.birth > self.at {
            return Err(crate::Error::DefinitionChanged(tree.name()));
        }
        Ok(())
    }
}
