//! What a commit did that was prepared: the record of the commit has its name alone, the content was in the log before.
//!
//! A feed remembers what it read last, within a bound; what it does not have it reads again where the commit says
//! that it was prepared. The log may be trimmed by then, and that is told (`PositionLost`).
//!
//! Threads: as the feed.

use std::collections::VecDeque;

use super::KEPT_BYTES;
use crate::{
    Error, Result, Seqno, Xid,
    catalog::{CATALOG_TREE, Pieces, Record as CatalogRecord},
    db::prepared::content_of,
    pipeline::Engine,
    wal::{Item, RecordItems},
};

/// What was prepared lately, and not decided.
#[derive(Debug, Default)]
pub(super) struct Prepares {
    pieces: Pieces,
    /// Keys of pieces and their bytes, in the order in which they came.
    order: VecDeque<(Vec<u8>, usize)>,
    bytes: usize,
}

impl Prepares {
    /// Follows a commit that is handed out.
    pub fn learn(&mut self, seqno: Seqno, mut items: RecordItems<'_>) -> Result<()> {
        while let Some(item) = items.next()? {
            match item {
                Item::Entry { tree: CATALOG_TREE, key, tag, payload } if tag.is_put() => {
                    if let Ok(CatalogRecord::Prepared(piece)) = CatalogRecord::decode(key, payload)
                    {
                        self.bytes += payload.len();
                        self.order.push_back((key.to_vec(), payload.len()));
                        self.pieces.put(piece, Some(seqno));
                    }
                }
                Item::Entry { tree: CATALOG_TREE, key, .. } => {
                    self.pieces.delete(key);
                }
                Item::Entry { .. } | Item::DeleteRange { .. } => break,
                _ => {}
            }
        }
        while self.bytes > KEPT_BYTES
            && let Some((key, bytes)) = self.order.pop_front()
        {
            self.bytes -= bytes;
            self.pieces.delete(&key);
        }
        Ok(())
    }

    /// The body of what was prepared by commit `at`, for commit `seqno`.
    pub fn body(
        &mut self,
        engine: &Engine,
        (xid, at): (&Xid, Seqno),
        seqno: Seqno,
    ) -> Result<Vec<u8>> {
        if !self.pieces.is_whole(xid) || self.pieces.at(xid) != Some(at) {
            self.read_again(engine, at, seqno)?;
        }
        content_of(engine, &self.pieces, xid).map(|(_, body)| body)
    }

    fn read_again(&mut self, engine: &Engine, at: Seqno, seqno: Seqno) -> Result<()> {
        let lost = || Error::PositionLost { wanted: seqno.0, oldest: seqno.next().0 };
        if at == Seqno(0) || at >= seqno {
            return Err(lost());
        }
        let log = engine.log();
        let or_lost = |error: Error| match error {
            Error::PositionLost { .. } => lost(),
            other => other,
        };
        let mut feed = log.feed(at, engine.store.newest().applied).map_err(or_lost)?;
        let mut found = None;
        while found.is_none() && feed.next_seqno() <= at {
            let group = feed.read(log, &mut |seqno, lsn, payload| {
                if seqno == at {
                    found = Some((lsn, payload.to_vec()));
                }
            });
            if group.map_err(or_lost)?.is_none() {
                break;
            }
        }
        let (lsn, payload) = found.ok_or_else(lost)?;
        self.learn(at, super::items(lsn, &payload)?)
    }
}
