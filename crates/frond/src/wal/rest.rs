//! The log at rest: what an idle store and a closed one keep of it.
//!
//! A log that rests, because nobody has written for a while or because it was asked to, goes on in a short
//! segment and has one ready at most; those after it are each twice as long as the one before. A closed one goes
//! on, for its next opening, in a segment of the least length in which nothing stands. Both are made like
//! every other, so that recovery needs no word for them, and all segments before them can be trimmed as soon
//! as both slots begin there.
//!
//! Invariants
//! 1. Numbers have no gap at any moment: the spare that goes is the last, and its number is the next
//!    to be given.
//! 2. The short segment begins where all of the log is synced.
//! 3. While more is promised than fits half of a short segment, it does not rest; nor while what is promised needs a segment
//!    that is ready, for a disk that is full gives no other. Promises are made while it prepares to: so that is looked at under
//!    the same lock as each step that takes room away.
//! 4. Without it nothing is lost, only space: a full disk does not keep a log from resting or from being
//!    closed.
//!
//! Threads: as in `log.rs`.

use std::time::Duration;

use super::{
    leader::{is_full, is_still},
    log::{Log, Spares, State, Stop},
    segment::{self, SEGMENT_BYTES_MIN, SegmentHeader},
};
use crate::{
    error::{Error, Result},
    sync::Ordering,
    types::Lsn,
};

/// A log rests when nothing was appended for so long. A load that commits at all within this time
/// never has a segment taken from it, so that no steady one makes what is unlinked again.
const REST_INTERVAL: Duration = Duration::from_secs(5);
/// The next segment is made when this part of the current one is used: of the first, 128 KiB of 1 MiB, so that a
/// store that is written to now and then has no more than that. A writer of 100 MB/s then waits for the next:
/// four times after a rest, some 20 to 100 ms together.
const NEXT_AT_PART: u64 = 8;
/// Segments that a log at rest keeps ready, if it had reason to make one: not made again at each next commit.
const SPARES_AT_REST: usize = 1;

/// What the clock makes of a log.
pub(super) enum Rest {
    /// It may come to rest.
    Due,
    /// It is in use, and should have a segment ready.
    Over,
    /// Nothing is to be done.
    Quiet,
}

impl Log {
    /// Looks how long ago somebody wrote.
    pub(super) fn rests(&self, state: &mut State, now: Duration) -> Rest {
        let end = Self::reserved_end(state);
        if state.moved.0 != end {
            state.moved = (end, now);
        }
        if now.saturating_sub(state.moved.1) >= REST_INTERVAL {
            let due = self.is_long(state) || state.spares.len() > SPARES_AT_REST;
            return if due && self.may_rest(state) { Rest::Due } else { Rest::Quiet };
        }
        let used = end.0 - state.segment_first.0;
        let is_due = used >= state.segment_bytes / NEXT_AT_PART && state.spares.is_empty();
        let wanted = (is_due || !state.has_reserve) && now >= state.spare_again;
        if wanted { Rest::Over } else { Rest::Quiet }
    }

    /// What is promised would find its place in the short segment.
    fn may_rest(&self, state: &State) -> bool {
        state.promised.fits_half(self.options.first_segment_bytes)
    }

    fn is_long(&self, state: &State) -> bool {
        state.segment_bytes > self.options.first_segment_bytes
    }

    /// Syncs everything and goes on in a short segment, unless the current one is; nothing of it if others write
    /// meanwhile. What lies before it can be trimmed once both slots begin in it.
    pub fn rest(&self) -> Result<()> {
        self.sync_through_now()?;
        let mut spares = self.spares.lock().unwrap();
        let state = self.state.lock().unwrap();
        if !is_still(&state) || !self.may_rest(&state) {
            return Ok(());
        }
        let long = self.is_long(&state);
        drop(state);
        self.remove_spares(&mut spares, if long { 0 } else { SPARES_AT_REST })?;
        // One that is left was promised meanwhile, or what is promised needs it.
        if !long || !spares.ready.is_empty() {
            // Not tried again at every tick.
            self.state.lock().unwrap().moved.1 = self.env.clock.now();
            return Ok(());
        }
        let first = self.options.first_segment_bytes;
        let next = std::mem::replace(&mut spares.next_bytes, first);
        match self.make_next(&mut spares) {
            Err(Error::Full(_)) => {
                spares.next_bytes = next;
                // Not tried again at every tick.
                self.state.lock().unwrap().moved.1 = self.env.clock.now();
                return Ok(());
            }
            made => made?,
        }
        drop(spares);
        let state = self.state.lock().unwrap();
        // Where it goes on after all, the short one waits behind the current segment as any other.
        if is_still(&state) && self.may_rest(&state) {
            drop(self.mark_idle(state, true)?);
        }
        Ok(())
    }

    /// Unlinks the segments that are ready and promised to no group, but `keep` of them; of a log that goes on, none that
    /// promised records may need.
    fn remove_spares(&self, spares: &mut Spares, keep: usize) -> Result<()> {
        loop {
            let mut state = self.state.lock().unwrap();
            if state.spares.len() <= keep {
                return Ok(());
            }
            // A short segment would hold what is promised; but on a full disk none can be made once this one has gone.
            let may_go = self.may_rest(&state) && Self::fits_without_last_spare(&state);
            if !(state.closing || may_go) {
                return Ok(());
            }
            state.spares.pop_back();
            drop(state);
            // Those that are promised are taken from the front.
            let segment = spares.ready.pop_back().expect("as many are ready as are counted");
            if !plant!("wal: spares given back leave a gap") {
                (spares.next_number, spares.next_bytes) = (segment.number, segment.bytes);
            }
            let removed = self.env.vfs.remove(&segment.path);
            let removed = removed.and_then(|()| self.env.vfs.sync_dir(&self.dir));
            self.or_fail(removed.map_err(|error| Error::io(&segment.path, "remove", 0, error)))?;
        }
    }

    /// Writes and syncs everything, takes nothing any more, and keeps no more files than hold log.
    /// Returns the exact end, for the superblock's clean mark; what lies before it can be trimmed once
    /// both slots begin there. Reservations must be filled. The reserve goes, too, unless it is to be kept.
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

    /// Begins the segment that stands for a closed log.
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
            // The log ends in the segment that it is in (invariant 3).
            Err(Error::Io { source, .. }) if is_full(&source) => Ok(()),
            Err(error) => self.or_fail(Err(error)),
        }
    }
}
