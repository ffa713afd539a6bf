//! Extents of transactions that are prepared: long values and runs which no tree lists yet, and whose record may be trimmed.
//!
//! What a prepared transaction will do lies in the catalog, so that the log need not keep its record (Rule: I12). The
//! extents that it names are known by the log alone (Rule: I11), so every checkpoint names them again before the
//! log that named them goes. The record that commits it names none: it is short, however much it commits, so that the
//! log can promise it room (Rule: I41).
//!
//! Invariants
//! 1. Extents are here before the record that prepares them is in the log, and until a slot has a boundary behind their
//!    commit, or their rollback is visible. Naming one in vain is harmless: recovery gives up what nobody takes up.
//! 2. A checkpoint names them behind its boundary, and syncs that before its slot is written.
//! 3. They are held as long as they are here, whatever becomes of the memtables of their prepare and their commit.
//! 4. A store that has some is not marked clean when it is closed, and does not rest by itself: the log is needed.
//!
//! Threads: who prepares and decides; replay; the checkpointer.

use std::collections::BTreeMap;

use crate::{
    Lsn, Result, Seqno, Xid,
    blob::BlobHold,
    page::PageKind,
    store::{Extent, HeldPages},
    sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering},
    wal::{LogExtent, LogUse, RecordBuilder, TRAILER_BYTES, keeps_trailer},
};

use super::Engine;

/// Bytes of a record that an extent takes at most.
const NAME_BYTES: usize = 2 + 2 * 10;

/// What one of them needs.
#[derive(Clone, Default, Debug)]
pub(crate) struct Needs {
    pub blobs: Vec<Arc<BlobHold>>,
    /// Of what it has written beyond memory.
    pub runs: Option<Arc<HeldPages>>,
}

impl Needs {
    fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.runs.is_none()
    }

    fn extents(&self) -> impl Iterator<Item = (PageKind, Extent)> + '_ {
        let runs = self.runs.iter().filter(|_| !plant!("pipeline: nobody names undecided runs"));
        let blobs = self.blobs.iter().map(|blob| (PageKind::Blob, blob.extent()));
        blobs.chain(runs.flat_map(|runs| runs.iter()))
    }
}

/// By the name of who has prepared them; by their commits, which are in no slot's trees yet.
#[derive(Debug, Default)]
struct All {
    undecided: BTreeMap<Xid, Needs>,
    committed: Vec<(Seqno, Needs)>,
}

/// What prepared transactions need, and such as are committed and not in trees yet.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    /// How many have come.
    came: AtomicU64,
    needs: Mutex<All>,
}

impl Undecided {
    /// A transaction is about to be prepared, or was when the store was closed.
    pub fn keep(&self, xid: &Xid, needs: Needs) {
        if !needs.is_empty() {
            let mut all = self.lock();
            self.came.fetch_add(1, Ordering::Relaxed);
            let before = all.undecided.insert(xid.clone(), needs);
            drop(all);
            drop(before);
        }
    }

    /// How many have come so far.
    pub fn came(&self) -> u64 {
        let _all = self.lock();
        self.came.load(Ordering::Relaxed)
    }

    /// It is rolled back, or was not prepared after all.
    pub fn release(&self, xid: &Xid) {
        let released = self.lock().undecided.remove(xid);
        // What it held goes under locks of the store.
        drop(released);
    }

    /// It is committed.
    pub fn commit(&self, xid: &Xid, seqno: Seqno) {
        let mut all = self.lock();
        if let Some(needs) = all.undecided.remove(xid)
            && !plant!("pipeline: what is committed is named no more")
        {
            all.committed.push((seqno, needs));
        }
    }

    /// A slot has all up to this commit in its trees.
    pub(super) fn settle(&self, applied: Seqno) {
        let settled: Vec<_> =
            self.lock().committed.extract_if(.., |(seqno, _)| *seqno <= applied).collect();
        drop(settled);
    }

    /// True if nothing waits for a decision.
    pub fn are_decided(&self) -> bool {
        self.lock().undecided.is_empty()
    }

    /// True if the log is not needed for any.
    pub fn is_empty(&self) -> bool {
        let all = self.lock();
        all.undecided.is_empty() && all.committed.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.needs.lock().unwrap()
    }
}

impl Engine {
    /// Names those in the log, behind the boundary of the checkpoint that is being written, which no record from
    /// `log_from` on has named; but for what is `applied`, which the checkpoint has in its trees.
    pub(super) fn name_undecided(&self, log_from: Lsn, applied: Seqno) -> Result<()> {
        // Held on, so that what is decided meanwhile is there to be named.
        let needs: Vec<Needs> = {
            let all = self.undecided.lock();
            let committed = all.committed.iter().filter(|(seqno, _)| *seqno > applied);
            let committed = committed.map(|(_, needs)| needs);
            all.undecided.values().chain(committed).cloned().collect()
        };
        let mut extents: Vec<(PageKind, Extent)> = needs.iter().flat_map(Needs::extents).collect();
        let named = |extent: &Extent| self.store.space().named_in_log(extent.offset);
        extents.retain(|(_, extent)| named(extent).is_none_or(|at| at < log_from));
        let mut record = RecordBuilder::new();
        let at_once = (self.log().record_bytes_max() - TRAILER_BYTES) / NAME_BYTES;
        if plant!("pipeline: nobody names what is undecided") {
            extents.clear();
        }
        for some in extents.chunks(at_once) {
            record.clear();
            for &(kind, Extent { offset, bytes }) in some {
                let place = LogExtent { offset, bytes: bytes.into() };
                match kind {
                    PageKind::Blob => record.extent(place),
                    _ => record.page(kind, place),
                }
            }
            let body = record.finish();
            let reservation = loop {
                match self.log().try_reserve(body.len() + TRAILER_BYTES, LogUse::Relief) {
                    Some(reservation) => break reservation,
                    None => self.log().wait_for_room(LogUse::Relief)?,
                }
            };
            let at = reservation.lsn();
            self.log().fill(&reservation, &[body, &keeps_trailer()]);
            for (_, extent) in some {
                self.store.name_in_log(extent.offset, at)?;
            }
        }
        Ok(())
    }
}
