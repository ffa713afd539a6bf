//! The committed rows that a transaction's scan reads.
//!
//! Threads: one.

use crate::Result;

use super::{
    super::locking_scan::{LockingScan, Step},
    Cursor,
};

/// The source of committed rows.
#[derive(Debug)]
pub(super) enum Base<'t> {
    Seen(Box<Cursor>),
    Locked(Box<LockingScan<'t>>),
    /// A temporary tree has no committed rows.
    Nothing,
}

impl Base<'_> {
    pub fn seek(&mut self, key: &[u8]) {
        match self {
            Base::Seen(cursor) => cursor.seek(key),
            Base::Locked(walk) => walk.seek(key),
            Base::Nothing => {}
        }
    }

    pub fn seek_first(&mut self) {
        match self {
            Base::Seen(cursor) => cursor.seek_first(),
            Base::Locked(walk) => walk.seek_first(),
            Base::Nothing => {}
        }
    }

    pub fn seek_last(&mut self) {
        match self {
            Base::Seen(cursor) => cursor.seek_last(),
            Base::Locked(walk) => walk.seek_last(),
            Base::Nothing => {}
        }
    }

    pub fn step(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<Step<'_>> {
        match self {
            Base::Nothing => Ok(Step::End),
            Base::Locked(walk) => walk.step(forward, limit),
            Base::Seen(cursor) => {
                let row = if forward { cursor.next()? } else { cursor.prev()? };
                Ok(row.map_or(Step::End, |(key, value)| Step::Row(key, value)))
            }
        }
    }
}
