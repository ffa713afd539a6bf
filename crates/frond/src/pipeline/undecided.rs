//! Extents of transactions that are prepared: long values which no tree lists yet, and whose record may be trimmed.
//!
//! What a prepared transaction will do lies in the catalog, so that the log need not keep its record (Rule: I12). The
//! extents that it names are known by the log alone (Rule: I11), so every checkpoint names them again before the
//! log that named them goes.
//!
//! Invariants
//! 1. Extents are here before the record that prepares them is in the log, and until the record that commits them is,
//!    or their rollback is visible. Naming one in vain is harmless: recovery gives up what nobody takes up.
//! 2. A checkpoint names them behind its boundary, and syncs that before its slot is written.
//! 3. They are held as long as they are here, whatever becomes of the memtable that prepared them.
//! 4. A store that has some is not marked clean when it is closed, and does not rest by itself: the log is needed.
//!
//! Threads: who prepares and decides; the checkpointer.

use std::collections::BTreeMap;

use crate::{
    Lsn, Result, Xid,
    blob::BlobHold,
    store::Extent,
    sync::{Arc, Mutex, MutexGuard},
    wal::{LogExtent, RecordBuilder, TRAILER_BYTES, keeps_trailer},
};

use super::Engine;

/// Bytes of a record that an extent takes at most.
const NAME_BYTES: usize = 1 + 2 * 10;

/// By the name of who has prepared them.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    blobs: Mutex<BTreeMap<Xid, Vec<Arc<BlobHold>>>>,
}

impl Undecided {
    /// A transaction is about to be prepared, or was when the store was closed.
    pub fn keep(&self, xid: &Xid, blobs: Vec<Arc<BlobHold>>) {
        if !blobs.is_empty() {
            self.lock().insert(xid.clone(), blobs);
        }
    }

    /// It is decided.
    pub fn release(&self, xid: &Xid) {
        let released = self.lock().remove(xid);
        // What it held goes under locks of the store.
        drop(released);
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Xid, Vec<Arc<BlobHold>>>> {
        self.blobs.lock().unwrap()
    }
}

impl Engine {
    /// Names those in the log, behind the boundary of the checkpoint that is being written, which no record from
    /// `log_from` on has named.
    pub(super) fn name_undecided(&self, log_from: Lsn) -> Result<()> {
        // Held on, so that what is decided meanwhile is there to be named.
        let mut blobs: Vec<Arc<BlobHold>> =
            self.undecided.lock().values().flatten().cloned().collect();
        let named = |blob: &Arc<BlobHold>| self.store.space().named_in_log(blob.extent().offset);
        blobs.retain(|blob| named(blob).is_none_or(|at| at < log_from));
        let mut record = RecordBuilder::new();
        let at_once = (self.log().record_bytes_max() - TRAILER_BYTES) / NAME_BYTES;
        let blobs =
            if plant!("pipeline: nobody names what is undecided") { &[][..] } else { &blobs };
        for some in blobs.chunks(at_once) {
            record.clear();
            for Extent { offset, bytes } in some.iter().map(|blob| blob.extent()) {
                record.extent(LogExtent { offset, bytes: bytes.into() });
            }
            let body = record.finish();
            let reservation = loop {
                match self.log().try_reserve(body.len() + TRAILER_BYTES) {
                    Some(reservation) => break reservation,
                    None => self.log().wait_for_room()?,
                }
            };
            let at = reservation.lsn();
            self.log().fill(&reservation, &[body, &keeps_trailer()]);
            for blob in some {
                self.store.name_in_log(blob.extent().offset, at)?;
            }
        }
        Ok(())
    }
}
