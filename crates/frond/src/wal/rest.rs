//! The log at rest: what an idle store and a closed one keep of it.
//!
//! An idle log has one segment ready and no more. A closed one goes on, for its next opening, in a
//! segment of the least length in which nothing stands: it is made like every other, so that recovery
//! needs no word for it, and all segments before it can be trimmed as soon as both slots begin there.
//!
//! Invariants
//! 1. Numbers have no gap at any moment: the spare that goes is the last, and its number is the next
//!    to be given.
//! 2. The last segment begins where all of the log is synced.
//! 3. Without it nothing is lost, only space: a full disk does not keep a log from being closed.
//!
//! Threads: as in `log.rs`.

use std::time::Duration;

use super::{
    leader::is_full,
    log::{Log, State, Stop},
    segment::{self, SEGMENT_BYTES_MIN, SegmentHeader},
};
use crate::{
    error::{Error, Result},
    sync::Ordering,
    types::Lsn,
};

/// Segments that an idle log keeps ready: the first commit that needs one waits for no zeros.
pub(super) const SPARES_AT_REST: usize = 1;
/// A log rests when nothing was appended for so long. A load that commits at all within this time
/// never has a spare taken from it, so that no steady one makes what is unlinked again.
const REST_INTERVAL: Duration = Duration::from_secs(5);

impl Log {
    /// True if there is something to give back, and nobody has written for a while.
    pub(super) fn rests(state: &mut State, now: Duration) -> bool {
        let end = Self::reserved_end(state);
        if state.moved.0 != end {
            state.moved = (end, now);
        }
        let since = now.saturating_sub(state.moved.1);
        since >= REST_INTERVAL && state.spares_ready > SPARES_AT_REST
    }

    /// Unlinks all but `keep` of the segments that are ready and promised to no group.
    pub(super) fn remove_spares(&self, keep: usize) -> Result<()> {
        let mut spares = self.spares.lock().unwrap();
        loop {
            let mut state = self.state.lock().unwrap();
            if state.spares_ready <= keep {
                return Ok(());
            }
            state.spares_ready -= 1;
            drop(state);
            // Those that are promised are taken from the front.
            let segment = spares.ready.pop_back().expect("as many are ready as are counted");
            if !plant!("wal: spares given back leave a gap") {
                spares.next_number = segment.number;
            }
            let removed = self.env.vfs.remove(&segment.path);
            let removed = removed.and_then(|()| self.env.vfs.sync_dir(&self.dir));
            self.or_fail(removed.map_err(|error| Error::io(&segment.path, "remove", 0, error)))?;
        }
    }

    /// Writes and syncs everything, takes nothing any more, and keeps no more files than hold log.
    /// Returns the exact end, for the superblock's clean mark; what lies before it can be trimmed once
    /// both slots begin there. Reservations must be filled.
    pub fn close(&self) -> Result<Lsn> {
        let mut state = self.state.lock().unwrap();
        self.check(&state)?;
        state.closing = true;
        self.seal_unless_empty(&mut state);
        let end = state.end;
        drop(state);
        self.reach(end, true)?;
        self.remove_spares(0)?;
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
                self.state.lock().unwrap().live.push_back((number, end));
                Ok(())
            }
            // The log ends in the segment that it is in (invariant 3).
            Err(Error::Io { source, .. }) if is_full(&source) => Ok(()),
            Err(error) => self.or_fail(Err(error)),
        }
    }
}
