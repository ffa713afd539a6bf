//! Prepared transactions in the change feed. The record that commits one has only its name; its
//! content was in the log before.
//!
//! A feed remembers prepared content that it read recently, within a bound. What it does not have
//! it reads again from where the commit says that it was prepared. If the log was trimmed
//! meanwhile, that is an error (`PositionLost`).
//!
//! Threads: as the feed.

use std::collections::{HashMap, VecDeque};

use super::KEPT_BYTES;
use crate::{
    Error, Result, Seqno,
    catalog::{CATALOG_TREE, Pieces, Record as CatalogRecord},
    db::session::prepared::content_of,
    pipeline::Engine,
    types::{Lsn, Xid},
    wal::{Item, RecordItems, TRIMMED},
};

/// Entries of removed pieces in `order` that are tolerated before it is cleaned.
const ORDER_SLACK: usize = 1024;

/// The reason why a commit is lost if its prepared content was in a removed segment.
const PREPARED_TRIMMED: &str = "it was prepared earlier, and the log does not hold that any more";

/// Recently prepared transactions that are in doubt.
#[derive(Debug, Default)]
pub(super) struct Prepares {
    pieces: Pieces,
    /// The remembered pieces by key, each with its arrival number and its bytes.
    there: HashMap<Vec<u8>, (u64, usize)>,
    /// Arrival numbers and keys in order; also of pieces that were removed.
    order: VecDeque<(u64, Vec<u8>)>,
    came: u64,
    bytes: usize,
}

impl Prepares {
    /// Updates the remembered content with a commit that is returned.
    pub fn learn(&mut self, mut items: RecordItems<'_>) -> Result<()> {
        while let Some(item) = items.next()? {
            match item {
                Item::Entry { tree: CATALOG_TREE, key, tag, payload } if tag.is_put() => {
                    if let Ok(CatalogRecord::Prepared(piece)) = CatalogRecord::decode(key, payload)
                    {
                        self.forget(key);
                        self.came += 1;
                        self.bytes += payload.len();
                        self.there.insert(key.to_vec(), (self.came, payload.len()));
                        self.order.push_back((self.came, key.to_vec()));
                        self.pieces.put(piece);
                    }
                }
                Item::Entry { tree: CATALOG_TREE, key, .. } => self.forget(key),
                Item::Entry { .. } | Item::DeleteRange { .. } => break,
                _ => {}
            }
        }
        while self.bytes > KEPT_BYTES
            && let Some((number, key)) = self.order.pop_front()
        {
            if self.there.get(&key).is_some_and(|(own, _)| *own == number) {
                self.forget(&key);
            }
        }
        if self.order.len() > 2 * self.there.len() + ORDER_SLACK {
            let there = &self.there;
            self.order.retain(|(number, key)| there.get(key).is_some_and(|(own, _)| own == number));
        }
        Ok(())
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some((_, bytes)) = self.there.remove(key) {
            self.bytes -= bytes;
            self.pieces.delete(key);
        }
    }

    /// The content of the transaction that was prepared after commit `since`, for commit `seqno`.
    pub fn body(
        &self,
        engine: &Engine,
        (xid, since): (&Xid, Seqno),
        seqno: Seqno,
    ) -> Result<Vec<u8>> {
        if self.pieces.is_whole(xid) {
            let content = content_of(engine, &self.pieces, xid)?;
            if content.since == since {
                return Ok(content.body);
            }
        }
        let found = read_again(engine, (xid, since), seqno)?;
        content_of(engine, &found, xid).map(|content| content.body)
    }
}

/// Searches the log for the commit that prepared the transaction: the first with its name after
/// `since`.
fn read_again(engine: &Engine, (xid, since): (&Xid, Seqno), seqno: Seqno) -> Result<Pieces> {
    let of_commit = |error| of_commit(seqno, error);
    let log = engine.log();
    let mut feed = log.feed(since.next(), engine.store.newest().applied).map_err(of_commit)?;
    let mut pieces = Pieces::default();
    while !pieces.is_whole(xid) && feed.next_seqno() < seqno {
        let mut taken = Ok(());
        let group = feed.read(log, &mut |_, lsn, payload| {
            if taken.is_ok() && !pieces.is_whole(xid) {
                taken = take_pieces(&mut pieces, xid, (lsn, payload));
            }
        });
        taken?;
        if group.map_err(of_commit)?.is_none() {
            break;
        }
    }
    if pieces.is_whole(xid) { Ok(pieces) } else { Err(lost(seqno, PREPARED_TRIMMED)) }
}

fn lost(seqno: Seqno, why: &'static str) -> Error {
    Error::PositionLost { wanted: seqno.0, oldest: seqno.next().0, why }
}

/// The error for a commit whose prepared content could not be read again.
fn of_commit(seqno: Seqno, error: Error) -> Error {
    match error {
        Error::PositionLost { why: TRIMMED, .. } => lost(seqno, PREPARED_TRIMMED),
        Error::PositionLost { why, .. } => lost(seqno, why),
        other => other,
    }
}

fn take_pieces(pieces: &mut Pieces, xid: &Xid, (lsn, payload): (Lsn, &[u8])) -> Result<()> {
    let mut items = super::items(lsn, payload)?;
    while let Some(item) = items.next()? {
        match item {
            Item::Entry { tree: CATALOG_TREE, key, tag, payload } if tag.is_put() => {
                match CatalogRecord::decode(key, payload) {
                    Ok(CatalogRecord::Prepared(piece)) if piece.xid == *xid => pieces.put(piece),
                    _ => {}
                }
            }
            Item::Entry { .. } | Item::DeleteRange { .. } => break,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// The error is that of the commit, with the reason for which its content was lost.
    #[test]
    fn a_lost_prepared_content_keeps_its_reason() {
        let freed = "a long value of it was freed";
        for (why, expected) in [(TRIMMED, PREPARED_TRIMMED), (freed, freed)] {
            let inner = Error::PositionLost { wanted: 3, oldest: 5, why };
            let Error::PositionLost { wanted: 9, oldest: 10, why } = of_commit(Seqno(9), inner)
            else {
                panic!("{why} is lost");
            };
            assert_eq!(why, expected);
        }
        assert!(matches!(of_commit(Seqno(9), Error::Closed), Error::Closed));
    }
}
