//! In-doubt (prepared) transactions: the extents of their long values and runs, which no tree lists
//! yet, and which each checkpoint must name in the log again.
//!
//! The content of a prepared transaction is stored in the catalog, so that the log need not keep
//! its record (Rule: I12). But the extents that it names are known only to the log (Rule: I11), so
//! every checkpoint names them again before the log that named them is trimmed. The record that
//! commits the transaction names no extents: it is short, however much it commits, so that log
//! space for it can be reserved (Rule: I41).
//!
//! Invariants
//! 1. Extents are listed here from before the record that prepares them is in the log until a slot
//!    has a boundary after their commit, or until their rollback is visible. Naming one needlessly
//!    is harmless: recovery frees extents that nothing claims.
//! 2. A checkpoint names them in the log after its boundary, and syncs that before its slot is
//!    written.
//! 3. They are held while they are listed here, whatever happens to the memtables of their prepare
//!    and their commit.
//! 4. A store that has in-doubt transactions is not marked clean when it is closed, and does not
//!    shrink its log when idle, because the log is needed.
//!
//! Threads: threads that prepare, commit or roll back; replay; the checkpointer.

use std::collections::BTreeMap;

use crate::{
    Result, Seqno,
    blob::BlobHold,
    page::PageKind,
    store::{Extent, HeldPages},
    sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering},
    types::{Lsn, Xid},
    wal::{LogExtent, LogUse, RecordBuilder, TRAILER_BYTES, keeps_trailer},
};

use super::Engine;

/// Bytes that one extent takes in a record at most.
const NAME_BYTES: usize = 2 + 2 * 10;

/// The extents that one in-doubt transaction needs.
#[derive(Clone, Default, Debug)]
pub(crate) struct HeldExtents {
    pub blobs: Vec<Arc<BlobHold>>,
    /// Runs that the transaction spilled.
    pub runs: Option<Arc<HeldPages>>,
}

impl HeldExtents {
    fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.runs.is_none()
    }

    fn extents(&self) -> impl Iterator<Item = (PageKind, Extent)> + '_ {
        let runs = self.runs.iter().filter(|_| !plant!("pipeline: runs in doubt are not named"));
        let blobs = self.blobs.iter().map(|blob| (PageKind::Blob, blob.extent()));
        blobs.chain(runs.flat_map(|runs| runs.iter()))
    }
}

/// Extents by the xid of the in-doubt transaction, and by seqno for committed ones that are in no
/// slot's trees yet.
#[derive(Debug, Default)]
struct All {
    in_doubt: BTreeMap<Xid, HeldExtents>,
    committed: Vec<(Seqno, HeldExtents)>,
}

/// Extents of in-doubt transactions, and of those committed but not yet in trees.
#[derive(Debug, Default)]
pub(crate) struct InDoubt {
    /// Number of entries added so far.
    came: AtomicU64,
    needs: Mutex<All>,
}

impl InDoubt {
    /// Lists the extents of a transaction that is about to be prepared, or that was in doubt when
    /// the store was opened.
    pub fn keep(&self, xid: &Xid, needs: HeldExtents) {
        if !needs.is_empty() {
            let mut all = self.lock();
            self.came.fetch_add(1, Ordering::Relaxed);
            let before = all.in_doubt.insert(xid.clone(), needs);
            drop(all);
            drop(before);
        }
    }

    /// Number of entries added so far.
    pub fn came(&self) -> u64 {
        let _all = self.lock();
        self.came.load(Ordering::Relaxed)
    }

    /// Removes a transaction that was rolled back, or was not prepared after all.
    pub fn release(&self, xid: &Xid) {
        let released = self.lock().in_doubt.remove(xid);
        // Dropped after the lock is released: releasing what it held takes locks of the store.
        drop(released);
    }

    /// Records that the transaction was committed.
    pub fn commit(&self, xid: &Xid, seqno: Seqno) {
        let mut all = self.lock();
        if let Some(needs) = all.in_doubt.remove(xid)
            && !plant!("pipeline: what is committed is named no more")
        {
            all.committed.push((seqno, needs));
        }
    }

    /// Forgets the transactions whose commits a slot has in its trees: those through `applied`.
    pub(super) fn forget_applied(&self, applied: Seqno) {
        let forgotten: Vec<_> =
            self.lock().committed.extract_if(.., |(seqno, _)| *seqno <= applied).collect();
        drop(forgotten);
    }

    /// True if no transaction is in doubt.
    pub fn are_decided(&self) -> bool {
        self.lock().in_doubt.is_empty()
    }

    /// True if no extent needs the log.
    pub fn is_empty(&self) -> bool {
        let all = self.lock();
        all.in_doubt.is_empty() && all.committed.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.needs.lock().unwrap()
    }
}

impl Engine {
    /// Names the extents in the log, after the boundary of the checkpoint that is being written.
    /// Skipped are those that a record from `log_from` on has named, and those of commits through
    /// `applied`, which the checkpoint has in its trees.
    pub(super) fn name_in_doubt(&self, log_from: Lsn, applied: Seqno) -> Result<()> {
        // Cloned, which holds the extents, so that those of a transaction that ends meanwhile still
        // exist when they are named.
        let needs: Vec<HeldExtents> = {
            let all = self.in_doubt.lock();
            let committed = all.committed.iter().filter(|(seqno, _)| *seqno > applied);
            let committed = committed.map(|(_, needs)| needs);
            all.in_doubt.values().chain(committed).cloned().collect()
        };
        let mut extents: Vec<(PageKind, Extent)> =
            needs.iter().flat_map(HeldExtents::extents).collect();
        let named = |extent: &Extent| self.store.space().named_in_log(extent.offset);
        extents.retain(|(_, extent)| named(extent).is_none_or(|at| at < log_from));
        let mut record = RecordBuilder::new();
        let at_once = (self.log().record_bytes_max() - TRAILER_BYTES) / NAME_BYTES;
        if plant!("pipeline: extents in doubt are not named") {
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
