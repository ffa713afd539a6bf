//! Prepared transactions in the catalog: their content is cut into pieces, and assembled again.
//!
//! Invariants
//! 1. The pieces of a transaction assemble to the bytes that were cut; if a piece is missing, there
//!    is no content.
//! 2. Hostile records take no more memory than they have bytes.
//!
//! Threads: plain values. Bytes: docs/format.md, "Prepared transactions".

use std::collections::BTreeMap;

use super::record::{PreparedPiece, Record};
use crate::{Result, types::Xid};

/// Length of a piece, so that no row of the catalog has a value in an extent of its own.
pub const PIECE_BYTES: usize = 32 << 10;

/// Cuts the content of a prepared transaction into records.
pub fn pieces<'a>(
    xid: &'a Xid,
    content: &'a [u8],
) -> impl ExactSizeIterator<Item = Result<(Vec<u8>, Vec<u8>)>> {
    let count = content.len().div_ceil(PIECE_BYTES) as u32;
    content.chunks(PIECE_BYTES).enumerate().map(move |(number, content)| {
        let record = Record::Prepared(PreparedPiece {
            xid: xid.clone(),
            number: number as u32,
            count,
            content: content.to_vec(),
            carried: Default::default(),
        });
        Ok((record.key(), record.encode()?))
    })
}

/// Prepared transactions, as far as their records are known.
#[derive(Debug, Default)]
pub struct Pieces {
    by_xid: BTreeMap<Xid, Known>,
}

#[derive(Debug, Default)]
struct Known {
    pieces: BTreeMap<u32, PreparedPiece>,
}

impl Pieces {
    /// Adds a piece.
    pub fn put(&mut self, piece: PreparedPiece) {
        let known = self.by_xid.entry(piece.xid.clone()).or_default();
        known.pieces.insert(piece.number, piece);
    }

    /// Removes the piece stored under `key`; true if it was the last one.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let Some((xid, number)) = Record::prepared_of_key(key) else { return false };
        let Some(known) = self.by_xid.get_mut(&xid) else { return false };
        known.pieces.remove(&number);
        known.pieces.is_empty() && self.by_xid.remove(&xid).is_some()
    }

    /// All names with at least one piece.
    pub fn xids(&self) -> impl Iterator<Item = &Xid> {
        self.by_xid.keys()
    }

    /// Number of pieces of a name.
    pub fn count(&self, xid: &Xid) -> u32 {
        self.by_xid.get(xid).map_or(0, |known| known.pieces.len() as u32)
    }

    /// True if all pieces of a name are there.
    pub fn is_whole(&self, xid: &Xid) -> bool {
        self.by_xid.get(xid).is_some_and(|known| known.is_whole())
    }

    /// The content; `None` if there is none, or a part of it is missing.
    pub fn content(&self, xid: &Xid) -> Option<Vec<u8>> {
        let known = self.by_xid.get(xid).filter(|known| known.is_whole())?;
        Some(known.pieces.values().flat_map(|piece| &piece.content).copied().collect())
    }
}

impl Known {
    fn is_whole(&self) -> bool {
        // Numbers are below the count, and each occurs once.
        let count = self.pieces.first_key_value().map(|(_, piece)| piece.count);
        count.is_some_and(|count| {
            self.pieces.len() as u64 == u64::from(count)
                && self.pieces.values().all(|piece| piece.count == count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_content_is_split_and_reassembled() {
        let xid = Xid::new(b"x").unwrap();
        for bytes in [1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 17] {
            let content: Vec<u8> = (0..bytes).map(|i| (i * 7 / 3) as u8).collect();
            let rows: Vec<_> = pieces(&xid, &content).map(|row| row.unwrap()).collect();
            for missing in 0..rows.len() {
                let mut found = Pieces::default();
                for (i, (key, value)) in rows.iter().enumerate().rev() {
                    let Ok(Record::Prepared(piece)) = Record::decode(key, value) else { panic!() };
                    if i != missing {
                        found.put(piece);
                    }
                }
                assert_eq!(found.content(&xid), None);
                let (key, value) = &rows[missing];
                let Ok(Record::Prepared(piece)) = Record::decode(key, value) else { panic!() };
                found.put(piece);
                assert_eq!(found.content(&xid).as_ref(), Some(&content));
                let last = rows.iter().map(|(key, _)| found.delete(key)).filter(|gone| *gone);
                assert_eq!((last.count(), found.xids().count()), (1, 0));
            }
        }
    }
}
