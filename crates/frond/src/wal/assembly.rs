//! Assembling whole records from verified groups.
//!
//! Invariants
//! 1. A large record is handed out only with its last fragment; without one it does not exist
//!    (Promise: P2).
//! 2. At most one large record is held, of at most [`RECORD_BYTES`](crate::bounds::RECORD_BYTES)
//!    (Promise: P20).
//!
//! Threads: one owner.

use super::group::{FRAGMENT_ROOM, GROUP_HEADER_BYTES, GroupHeader, Piece, Records};
use crate::{
    bounds,
    error::{Error, Place, Result},
    types::Lsn,
};

/// Assembles records from groups that are read in order.
#[derive(Default)]
pub(super) struct Assembly {
    /// The large record whose last fragment has not come. Also `None` if its first fragment lay
    /// before the start: then the record was already applied.
    large: Option<Vec<u8>>,
    /// Records handed out.
    pub records: u64,
}

impl Assembly {
    /// Hands out the records that end in this group.
    pub(super) fn take(
        &mut self,
        header: &GroupHeader,
        body: &[u8],
        place: impl Fn() -> Place,
        visit: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let malformed =
            |why: &str| Error::Malformed { place: place(), what: "log group", why: why.to_owned() };
        let mut records = Records::new(body);
        let mut count = 0u32;
        while let Some((at, piece, payload)) = records.next().map_err(malformed)? {
            count += 1;
            let lsn = Lsn(header.first.0 + (GROUP_HEADER_BYTES + at) as u64);
            match (piece, &mut self.large) {
                (Piece::Whole, _) => {
                    self.records += 1;
                    visit(lsn, payload)?;
                }
                (Piece::First, large) => {
                    let unfinished = large.replace(payload.to_vec());
                    if plant!("wal: a record exists without its last fragment") {
                        unfinished.map_or(Ok(()), |unfinished| visit(lsn, &unfinished))?;
                    }
                }
                (Piece::Middle | Piece::Last, None) => {}
                (Piece::Middle, Some(large)) => extend(large, payload).map_err(malformed)?,
                (Piece::Last, Some(large)) => {
                    extend(large, payload).map_err(malformed)?;
                    let large = self.large.take().unwrap_or_default();
                    self.records += 1;
                    visit(lsn, &large)?;
                }
            }
        }
        if count != header.records {
            return Err(malformed("it holds another number of records than it says"));
        }
        Ok(())
    }
}

fn extend(large: &mut Vec<u8>, payload: &[u8]) -> Result<(), &'static str> {
    // The last fragment contains what the sequencer added.
    if large.len() + payload.len() > bounds::RECORD_BYTES.len() + FRAGMENT_ROOM {
        return Err("a large record exceeds the maximum length");
    }
    large.try_reserve(payload.len()).map_err(|_| "no memory for a large record")?;
    large.extend_from_slice(payload);
    Ok(())
}
