//! The idle log: what an idle store and a closed one keep of their log.
//!
//! A log becomes idle because nothing was written for a while, or because it is asked to. It then
//! continues in a short segment and keeps at most one further segment ready; each following segment
//! is twice as long as the one before. When a log is closed, it starts a segment of the least
//! length, without any group, in which the next opening continues. Both segments are made like any
//! other, so recovery needs no special case, and all segments before them can be trimmed as soon as
//! both slots start there.
//!
//! Invariants
//! 1. Segment numbers have no gap at any moment: the spare that is removed is the last one, and its
//!    number is the next to be assigned.
//! 2. The short segment starts where all of the log is synced.
//! 3. A log does not become idle while more space is guaranteed than fits half of a short segment,
//!    nor while guaranteed space needs a segment that is ready, since a full disk provides no
//!    other. Space may be guaranteed during the preparation, so the condition is checked under the
//!    same lock as each step that takes space away.
//! 4. If a step of becoming idle fails, only space is lost: a full disk does not prevent a log from
//!    becoming idle or from being closed.
//!
//! Threads: as in `log.rs`.

use std::time::Duration;

use super::{
    log::{Log, Spares, State, Stop},
    segment::{self, SEGMENT_BYTES_MIN, SegmentHeader},
    spares::is_full,
};
use crate::{
    error::{Error, Result},
    sync::Ordering,
    types::Lsn,
};

/// A log becomes idle when nothing was appended for this long. A workload that commits at least
/// this often never loses a segment, so a steady workload never has to create an unlinked segment
/// again.
const IDLE_AFTER: Duration = Duration::from_secs(5);
/// The next segment is made once 1/8 of the current one is used: 128 KiB of the first one's 1 MiB,
/// so that a store with occasional writes has no more than that. A writer of 100 MB/s then waits
/// for the next segment: four times after the log was idle, 20 to 100 ms in total.
const NEXT_AT_DIVISOR: u64 = 8;
/// Number of segments that an idle log keeps ready, if they exist already, so that the next commits
/// need not create one.
const IDLE_SPARES: usize = 1;

/// What [`Log::tick`] should do about idleness.
pub(super) enum Idling {
    /// The log may become idle.
    Due,
    /// The log is in use and should have a segment ready.
    Over,
    /// Nothing to do.
    Quiet,
}

impl Log {
    /// Decides from the time of the last append whether the log is idle.
    pub(super) fn idling(&self, state: &mut State, now: Duration) -> Idling {
        let end = Self::reserved_end(state);
        if state.moved.0 != end {
            state.moved = (end, now);
        }
        if now.saturating_sub(state.moved.1) >= IDLE_AFTER {
            let due = self.is_long(state) || state.spares.len() > IDLE_SPARES;
            return if due && self.may_go_idle(state) { Idling::Due } else { Idling::Quiet };
        }
        let used = end.0 - state.segment_first.0;
        let is_due = used >= state.segment_bytes / NEXT_AT_DIVISOR && state.spares.is_empty();
        let wanted = (is_due || !state.has_reserve) && now >= state.spare_again;
        if wanted { Idling::Over } else { Idling::Quiet }
    }

    /// Whether all guaranteed space would fit in the short segment.
    fn may_go_idle(&self, state: &State) -> bool {
        state.guaranteed.fits_half(self.options.first_segment_bytes)
    }

    fn is_long(&self, state: &State) -> bool {
        state.segment_bytes > self.options.first_segment_bytes
    }

    /// Syncs everything and continues in a short segment, unless the current one is short; gives up
    /// if others write meanwhile. What lies before it can be trimmed once both slots start in it.
    pub fn go_idle(&self) -> Result<()> {
        self.sync_through_now()?;
        let mut spares = self.spares.lock().unwrap();
        let state = self.state.lock().unwrap();
        if !state.is_still() || !self.may_go_idle(&state) {
            return Ok(());
        }
        let long = self.is_long(&state);
        drop(state);
        self.remove_spares(&mut spares, if long { 0 } else { IDLE_SPARES })?;
        // A remaining segment was assigned meanwhile, or guaranteed space needs it.
        if !long || !spares.ready.is_empty() {
            // Do not try again at every tick.
            self.state.lock().unwrap().moved.1 = self.env.clock.now();
            return Ok(());
        }
        let first = self.options.first_segment_bytes;
        let next = std::mem::replace(&mut spares.next_bytes, first);
        match self.make_next(&mut spares) {
            Err(Error::Full(_)) => {
                spares.next_bytes = next;
                // Do not try again at every tick.
                self.state.lock().unwrap().moved.1 = self.env.clock.now();
                return Ok(());
            }
            made => made?,
        }
        drop(spares);
        let state = self.state.lock().unwrap();
        // If writing continued after all, the short segment waits after the current one like any
        // other.
        if state.is_still() && self.may_go_idle(&state) {
            drop(self.mark_idle(state, true)?);
        }
        Ok(())
    }

    /// Unlinks the segments that are ready and not assigned to a group, except for `keep` of them.
    /// Unless the log is closing, keeps those that guaranteed records may need.
    fn remove_spares(&self, spares: &mut Spares, keep: usize) -> Result<()> {
        loop {
            let mut state = self.state.lock().unwrap();
            if state.spares.len() <= keep {
                return Ok(());
            }
            // A short segment would hold what is guaranteed; but on a full disk none can be made
            // after this one is removed.
            let may_go = self.may_go_idle(&state) && Self::fits_without_last_spare(&state);
            if !(state.closing || may_go) {
                return Ok(());
            }
            state.spares.pop_back();
            drop(state);
            // Assigned segments are taken from the front.
            let segment = spares.ready.pop_back().expect("as many are ready as are counted");
            if !plant!("wal: spares given back leave a gap") {
                (spares.next_number, spares.next_bytes) = (segment.number, segment.bytes);
            }
            let removed = self.env.vfs.remove(&segment.path);
            let removed = removed.and_then(|()| self.env.vfs.sync_dir(&self.dir));
            self.or_fail(removed.map_err(|error| Error::io(&segment.path, "remove", 0, error)))?;
        }
    }

    /// Writes and syncs everything, then accepts no more records, and keeps only the files that
    /// hold log. Returns the exact end, for the superblock's clean mark; what lies before it can be
    /// trimmed once both slots start there. All reservations must be filled. The reserve is
    /// removed, unless `keeps_reserve`.
    pub fn close(&self, keeps_reserve: bool) -> Result<Lsn> {
        let mut state = self.state.lock().unwrap();
        self.check(&state)?;
        (state.closing, state.keeps_reserve) = (true, keeps_reserve);
        self.seal_unless_empty(&mut state);
        let end = state.end;
        drop(state);
        self.reach(end, true)?;
        {
            let mut spares = self.spares.lock().unwrap();
            self.remove_spares(&mut spares, 0)?;
            if !keeps_reserve {
                self.remove_reserve(&mut spares)?;
            }
        }
        self.begin_last(end)?;
        self.state.lock().unwrap().stop.get_or_insert(Stop::Closed);
        self.stopped.store(true, Ordering::Release);
        self.progress.notify_all();
        self.work.notify_all();
        Ok(end)
    }

    /// Starts the empty segment with which a closed log ends.
    fn begin_last(&self, end: Lsn) -> Result<()> {
        let mut spares = self.spares.lock().unwrap();
        let mut writer = self.writer.lock().unwrap();
        let number = spares.next_number;
        let header = SegmentHeader {
            number,
            salt: segment::salt_after(writer.header.secret, end),
            secret: self.env.rng.next_u64(),
            first: end,
            predecessor: writer.chain,
            resumed: false,
            synced: end,
            segment_bytes: SEGMENT_BYTES_MIN,
            ..writer.header
        };
        let vfs = &*self.env.vfs;
        match segment::make(vfs, &self.dir, number, SEGMENT_BYTES_MIN, false, Some(&header)) {
            Ok(segment) => {
                spares.next_number += 1;
                (writer.segment, writer.header) = (segment, header);
                let mut state = self.state.lock().unwrap();
                state.live.push_back((number, end));
                state.synced_segment = number;
                Ok(())
            }
            // The log ends in its current segment (invariant 4).
            Err(Error::Io { source, .. }) if is_full(&source) => Ok(()),
            Err(error) => self.or_fail(Err(error)),
        }
    }
}
