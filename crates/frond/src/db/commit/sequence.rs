//! Logging a commit: it gets its seqno, its place in the log and its memtable, and its record is
//! copied into the log.
//!
//! The three are assigned together, in the sequencer's section, so that log, visibility and
//! memtables have one order (Rule: I2). What can fail or wait is done before: from its seqno on,
//! a commit cannot be undone.
//!
//! Invariants
//! 1. Between the seqno and the copied record nothing can fail or wait. So every seqno is in the
//!    log.
//! 2. From its seqno on, other threads can do everything that a commit still has to do, except for
//!    copying a record longer than [`COPIED_INSIDE_BYTES_MAX`], which waits for nothing (Rule: I3).
//!
//! Threads: all; the section is one lock, held for some hundred nanoseconds.

use crate::{
    Error, Result, Seqno,
    pipeline::LogWait,
    sync::{Arc, Ordering},
    txn::Section,
    version::{Change, MemtableRef},
    wal::{LogUse, Reservation, TRAILER_BYTES, trailer},
};

use super::{
    super::Shared,
    PendingCommit,
    changes::{ending_trees, name_blobs_in_log, trees_beyond_memory},
};

/// Records up to this length are copied into the log inside the sequencer's section. That takes
/// some ten nanoseconds more there, but a descheduled thread cannot leave a gap in the log between
/// reservation and copy.
const COPIED_INSIDE_BYTES_MAX: usize = 4 << 10;

/// A commit that has its seqno, its place in the log, and its memtable.
#[derive(Debug)]
pub(in crate::db) struct LoggedCommit {
    pub seqno: Seqno,
    pub(super) slot: Arc<MemtableRef>,
    pub reservation: Reservation,
}

impl Shared {
    /// Logs a commit, whose record has this body. An error leaves no trace.
    pub(in crate::db) fn log_commit(
        &self,
        commit: &PendingCommit<'_>,
        body: &[u8],
    ) -> Result<LoggedCommit> {
        let PendingCommit { changes, guaranteed, .. } = *commit;
        let engine = &*self.engine;
        // A commit that was admitted without disk space frees some (Rule: I24).
        let log_use = LogUse::relief_if(commit.admitted == 0);
        let mut wait = LogWait::new(log_use);
        let (fragments, rest) = if body.len() + TRAILER_BYTES > engine.log().record_bytes_max() {
            let looks_again = &mut || engine.wait_for_log(&mut wait);
            let fragments = engine.log().append_fragments(body, log_use, looks_again);
            let (fragments, rest) = engine.health.watch(fragments)?;
            (Some(fragments), rest)
        } else {
            (None, body)
        };
        let bytes = rest.len() + TRAILER_BYTES;
        let begins_memtable = changes.iter().any(Change::begins_memtable);
        let ending = ending_trees(self, changes);
        loop {
            let mut section = engine.enter();
            engine.health.check()?;
            // The last freeze of a close happens in this section; a later commit would be in no
            // checkpoint.
            if self.closed.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
            if begins_memtable && !plant!("txn: spilled writes commit without locks") {
                engine.freeze_in(&mut section);
            }
            let reserved = match (&fragments, guaranteed) {
                (None, None) => engine.log().try_reserve(bytes, log_use),
                (None, Some(guaranteed)) => engine.log().try_reserve_guaranteed(bytes, guaranteed),
                (Some(fragments), _) => engine.log().try_reserve_last(fragments, bytes),
            };
            let Some(reservation) = reserved else {
                drop(section);
                match guaranteed {
                    None => engine.wait_for_log(&mut wait)?,
                    Some(_) => engine.health.watch(engine.log().wait_for_guaranteed())?,
                }
                continue;
            };
            self.note_commit(commit, &section, &reservation, bytes);
            // Before another thread can make it visible: a reader that sees this commit finds that
            // these trees have ended.
            ending.iter().for_each(|tree| tree.mark_end(section.last().next()));
            let (seqno, slot) = engine.sequencer.assign(&mut section, commit.payload);
            // The log must hold what a record names before another thread can read the record.
            let names_runs = commit.names_extents && changes.iter().any(Change::names_runs);
            let is_copied_inside = bytes <= COPIED_INSIDE_BYTES_MAX && !names_runs;
            if is_copied_inside {
                engine.log().fill(&reservation, &[rest, &trailer(seqno)]);
            }
            let is_full =
                engine.memtable_is_full(&slot) && engine.versions.current().frozen.is_empty();
            let freezes = is_full || changes.iter().any(Change::ends_memtable);
            if freezes {
                engine.freeze_in(&mut section);
            }
            drop(section);
            if freezes {
                engine.signal.notify();
            }
            if commit.names_extents {
                let lsn = reservation.lsn();
                changes.iter().for_each(|change| change.name_in_log(&engine.store, lsn));
            }
            if !is_copied_inside {
                engine.log().fill(&reservation, &[rest, &trailer(seqno)]);
            }
            return Ok(LoggedCommit { seqno, slot, reservation });
        }
    }

    /// Notes at the memtable and at the trees what the commit brings. Called in the section before
    /// another thread can insert the commit: then it may become visible, and the memtable be
    /// frozen.
    fn note_commit(
        &self,
        commit: &PendingCommit<'_>,
        section: &Section,
        reservation: &Reservation,
        record_bytes: usize,
    ) {
        let PendingCommit { payload, blobs, changes, .. } = *commit;
        let (engine, memtable) = (&*self.engine, &section.active);
        if !blobs.is_empty() && !plant!("blob: the memtable does not hold what it hands out") {
            memtable.keep_blobs(blobs);
        }
        if commit.names_extents {
            name_blobs_in_log(self, blobs, reservation.lsn());
        }
        memtable.admitted.fetch_add(commit.admitted, Ordering::Relaxed);
        // Groups are padded, so many small commits take far more log than their records.
        let reached = reservation.lsn().0;
        let log_bytes = reached.saturating_sub(memtable.log_from().0) + record_bytes as u64;
        memtable.log_bytes.store(log_bytes, Ordering::Relaxed);
        engine.log_reached.store(reached, Ordering::Relaxed);
        memtable.note(changes);
        let trees = || payload.trees.iter().copied().chain(trees_beyond_memory(payload, changes));
        memtable.count(trees().map(|tree| (tree, payload.rows_of(tree))));
        // Before another thread can make it visible.
        if !plant!("txn: a commit is not noted at its trees") {
            self.last_commits.note(trees(), section.last().next());
        }
        debug_assert!(
            trees().all(|tree| !self.catalog.has_ended(tree)),
            "a commit into a tree that has ended (`alter.rs`, 3)"
        );
    }
}
