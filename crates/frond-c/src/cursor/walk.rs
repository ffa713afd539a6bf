//! What a cursor reads: committed rows, a transaction's view of them, or a temporary tree.

use std::{sync::Arc, time::Duration};

use frond::{Cursor, TemporaryCursor, TemporaryTree, Txn, TxnCursor};

use super::batch::Place;
use crate::{bytes::Keys, error::*};

/// The engine's cursor under a cursor of the API.
pub(super) enum Walk {
    Plain(Box<Cursor>),
    OfTxn(OwnedCursor),
    OfTemporary(OwnedTemporary),
}

self_cell::self_cell!(
    pub(super) struct OwnedCursor {
        owner: Arc<Txn>,
        #[not_covariant]
        dependent: TxnCursor,
    }
);

self_cell::self_cell!(
    pub(super) struct OwnedTemporary {
        owner: TemporaryTree,
        #[not_covariant]
        dependent: TemporaryCursor,
    }
);

/// Evaluates an expression with the engine's cursor, or another expression if the cursor belongs to
/// neither a transaction nor a temporary tree.
macro_rules! with {
    ($walk:expr, $cursor:ident => $does:expr) => {
        with!($walk, $cursor => $does, $cursor => $does)
    };
    ($walk:expr, $cursor:ident => $does:expr, $plain:pat => $other:expr) => {
        match $walk {
            Walk::Plain($plain) => $other,
            Walk::OfTxn(owned) => owned.with_dependent_mut(|_, $cursor| $does),
            Walk::OfTemporary(owned) => owned.with_dependent_mut(|_, $cursor| $does),
        }
    };
}
pub(super) use with;

impl Walk {
    /// The next row, forward or backward, stored by `take`; `None` at the end.
    pub(super) fn step(
        &mut self,
        forward: bool,
        take: impl FnOnce(&[u8], &[u8]) -> Place,
    ) -> Result<Option<Place>, frond::Error> {
        if let Walk::OfTxn(owned) = self {
            return owned.with_dependent_mut(|_, cursor| step_of(cursor, forward, take));
        }
        with!(self, cursor => {
            let row = if forward { cursor.next()? } else { cursor.prev()? };
            Ok(row.map(|(key, value)| take(key, value)))
        })
    }

    /// Locks the last row returned, and reads it again; `None` if it is gone.
    pub(super) fn relock(
        &mut self,
        wait: Option<Duration>,
        take: impl FnOnce(&[u8], &[u8]) -> Place,
    ) -> Done<Option<Place>> {
        match self {
            Self::OfTxn(owned) => owned.with_dependent_mut(|_, cursor| {
                let row = cursor.relock(wait)?;
                Ok(row.map(|(key, value)| Place { locked: true, ..take(key, value) }))
            }),
            Self::Plain(_) | Self::OfTemporary(_) => {
                Err(misuse("the cursor takes no locks, so it cannot lock a row"))
            }
        }
    }

    /// Whether the transaction is over.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::OfTxn(owned) => owned.borrow_owner().is_over(),
            Self::Plain(_) | Self::OfTemporary(_) => false,
        }
    }

    pub(super) fn seek(&mut self, to: Seek<'_>) {
        with!(self, cursor => match to {
            Seek::Key(key) => cursor.seek(key),
            Seek::First => cursor.seek_first(),
            Seek::Last => cursor.seek_last(),
        });
    }

    /// Continues with another range.
    pub(super) fn set_range(&mut self, range: Keys<'_>) -> Done {
        with!(self, cursor => Ok(cursor.set_range(range)?), _ => {
            Err(misuse("the range of a cursor of frond_scan or frond_snapshot_scan cannot be changed"))
        })
    }

    /// Whether the walk would still return the row of this key.
    pub(super) fn still_gives(&self, key: &[u8]) -> Done<bool> {
        match self {
            // A snapshot does not change.
            Self::Plain(_) => Ok(true),
            Self::OfTxn(owned) => Ok(owned.with_dependent(|_, cursor| cursor.still_gives(key))?),
            Self::OfTemporary(owned) => {
                Ok(owned.with_dependent(|_, cursor| cursor.still_gives(key))?)
            }
        }
    }
}

/// The next row of a transaction's cursor, and whether the cursor has locked it.
fn step_of(
    cursor: &mut TxnCursor<'_>,
    forward: bool,
    take: impl FnOnce(&[u8], &[u8]) -> Place,
) -> Result<Option<Place>, frond::Error> {
    let row = if forward { cursor.next()? } else { cursor.prev()? };
    let place = row.map(|(key, value)| take(key, value));
    Ok(place.map(|place| Place { locked: cursor.is_locked(), ..place }))
}

/// A position to seek to.
#[derive(Clone, Copy)]
pub(super) enum Seek<'a> {
    Key(&'a [u8]),
    First,
    Last,
}
