//! The committed rows that a transaction's scan reads.
//!
//! Threads: one.

use crate::Result;

use super::{
    super::{
        locking_scan::{LockingScan, Step},
        write_buffer::{Place, Position, above},
    },
    Cursor,
};

/// The source of committed rows.
#[derive(Debug)]
pub(super) enum Base<'t> {
    Seen(Box<Cursor>),
    Locked(Box<LockingScan<'t>>),
}

impl Base<'_> {
    /// Moves beyond a place, in its direction.
    pub fn place(&mut self, at: &Place) {
        match at.position {
            Position::Low => self.seek_first(),
            Position::High => self.seek_last(),
            Position::Row if at.forward => self.seek(&above(&at.key)),
            Position::Row | Position::Below => self.seek(&at.key),
        }
    }

    fn seek(&mut self, key: &[u8]) {
        match self {
            Base::Seen(cursor) => cursor.seek(key),
            Base::Locked(walk) => walk.seek(key),
        }
    }

    fn seek_first(&mut self) {
        match self {
            Base::Seen(cursor) => cursor.seek_first(),
            Base::Locked(walk) => walk.seek_first(),
        }
    }

    fn seek_last(&mut self) {
        match self {
            Base::Seen(cursor) => cursor.seek_last(),
            Base::Locked(walk) => walk.seek_last(),
        }
    }

    pub fn step(&mut self, forward: bool, limit: Option<&[u8]>) -> Result<Step<'_>> {
        match self {
            Base::Locked(walk) => walk.step(forward, limit),
            Base::Seen(cursor) => {
                let row = if forward { cursor.next()? } else { cursor.prev()? };
                Ok(row.map_or(Step::End, |(key, value)| Step::Row(key, value)))
            }
        }
    }
}
