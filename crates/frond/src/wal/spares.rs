//! Segments that are ready to be written, and those that are no longer needed.
//!
//! The naive way is to create a segment when the log reaches the end of the current one. Its space
//! is allocated and its name is synced, which takes milliseconds, and all commits would wait. So
//! the log thread makes one ahead; and a segment that holds no needed log any more becomes the next
//! spare under a new name, instead of being unlinked and made again.
//!
//! Invariants
//! 1. `State::spares` lists the lengths of the segments in `Spares::ready`, in order.
//! 2. Segment numbers have no gap at any moment.
//! 3. A segment is recycled or unlinked only after the header of the next one is synced, and a
//!    reader of the log sees [`Log::oldest_segment`] move past it first.
//!
//! Threads: the log thread, the checkpoint that trims, and a commit that needs a segment at once.
//! `spares` is held during I/O, `state` never is.

use std::io;

use super::{
    group::LogUse,
    log::{Log, Spares, Stop},
    segment::{self, SegmentFile},
};
use crate::{
    error::{Error, Result},
    sync::Ordering,
    types::Lsn,
};

/// Divisor of the disk's free space that limits a segment's length, except for the shortest
/// segments.
const DISK_DIVISOR: u64 = 4;

/// Number of segments that are kept ready: one to continue in, one because checkpoints free them in
/// pairs.
const SPARES_MAX: usize = 2;

impl Log {
    /// Makes a segment ready, unless one is ready and no further one is wanted. For records that
    /// add rows, it makes the reserve first. `Full` if the disk is full.
    pub(super) fn make_spare(&self, log_use: LogUse) -> Result<()> {
        let mut spares = self.spares.lock().unwrap();
        let takes_reserve = log_use == LogUse::Relief || plant!("wal: rows take the reserve");
        if !takes_reserve && spares.reserve.is_none() {
            return self.make_reserve(&mut spares);
        }
        let state = self.state.lock().unwrap();
        let is_wanted = state.spares.is_empty() || state.spare_wanted;
        drop(state);
        if !is_wanted {
            return Ok(());
        }
        match self.make_next(&mut spares) {
            Err(Error::Full(_)) if takes_reserve && self.take_reserve(&mut spares)? => Ok(()),
            made => made,
        }
    }

    /// Makes the next segment ready. Makes a shorter one if the disk has no room for the planned
    /// length, or would have little room left.
    pub(super) fn make_next(&self, spares: &mut Spares) -> Result<()> {
        let (number, mut bytes) = (spares.next_number, spares.next_bytes);
        let (vfs, least) = (&*self.env.vfs, self.options.first_segment_bytes.min(bytes));
        // If the file system cannot report its free space, assume there is enough until a write
        // fails.
        let free = vfs.free_bytes(&self.dir).unwrap_or(u64::MAX);
        while bytes > least && bytes > free / DISK_DIVISOR {
            bytes = self.options.before(bytes);
        }
        let direct = self.open_mode().direct;
        loop {
            match segment::make(vfs, &self.dir, number, bytes, direct, None) {
                Ok(segment) => {
                    self.add_spare(spares, segment);
                    return Ok(());
                }
                Err(Error::Io { source, .. }) if is_full(&source) && bytes > least => {
                    bytes = self.options.before(bytes);
                }
                Err(Error::Io { source, .. }) if is_full(&source) => {
                    // The caller that needs the segment gets the error, and tries again when it
                    // needs one again.
                    self.state.lock().unwrap().spare_wanted = false;
                    return Err(Error::Full(format!(
                        "no space for a log segment of {bytes} bytes"
                    )));
                }
                Err(error) => return self.or_fail(Err(error)),
            }
        }
    }

    pub(super) fn add_spare(&self, spares: &mut Spares, segment: SegmentFile) {
        spares.next_number = segment.number + 1;
        spares.next_bytes = self.options.after(segment.bytes);
        let mut state = self.state.lock().unwrap();
        state.spares.push_back(segment.bytes);
        spares.ready.push_back(segment);
        state.spare_wanted = false;
    }

    /// Trims the log before `keep_from`. Segments that lie wholly before that position are
    /// recycled, or unlinked if enough spares are ready or none is needed any more. Before the
    /// call, nothing durable may refer to log before `keep_from`.
    pub fn trim(&self, keep_from: Lsn) -> Result<()> {
        loop {
            let mut spares = self.spares.lock().unwrap();
            let mut state = self.state.lock().unwrap();
            if let Some(Stop::Failed(why)) = &state.stop {
                return Err(Error::Failed(why.clone()));
            }
            // Keep it until the header of the next segment is durable: recovery starts at one or
            // the other.
            let early = plant!("wal: trim one segment early") && state.live.len() > 1;
            let last = if early { state.live.front() } else { state.live.get(1) };
            let has_next = |next| {
                next <= state.synced_segment
                    || plant!("wal: trim before the next segment is synced")
            };
            let whole = last.is_some_and(|&(number, next)| next <= keep_from && has_next(number));
            if !whole {
                return Ok(());
            }
            let Some((number, _)) = state.live.pop_front() else { return Ok(()) };
            // Recycle only at full length: a log that is still growing needs longer segments, and
            // an idle one needs none.
            let grown = state.segment_bytes == self.options.segment_bytes;
            let recycle = grown && state.spares.len() < SPARES_MAX && !state.closing;
            let is_kept = !state.has_reserve && (!state.closing || state.keeps_reserve);
            drop(state);
            let given = is_kept.then(|| self.give_to_reserve(number, &mut spares));
            if self.or_fail(given.unwrap_or(Ok(false)))? {
                self.counters.recycled.fetch_add(1, Ordering::Relaxed);
            } else if recycle {
                let recycled = self.recycle(number, &spares);
                if let Some(segment) = self.or_fail(recycled)? {
                    self.add_spare(&mut spares, segment);
                    self.counters.recycled.fetch_add(1, Ordering::Relaxed);
                }
            } else {
                let path = self.dir.join(segment::file_name(number));
                let vfs = &*self.env.vfs;
                let removed = vfs.remove(&path).and_then(|()| vfs.sync_dir(&self.dir));
                self.or_fail(removed.map_err(|error| Error::io(&path, "remove", 0, error)))?;
            }
        }
    }

    /// Number of the oldest segment that holds log. A file is renamed or removed only after this
    /// number has moved past it.
    pub fn oldest_segment(&self) -> Option<u64> {
        self.state.lock().unwrap().live.front().map(|&(number, _)| number)
    }

    /// Renames a segment to be the next one; `None` if its length does not fit, in which case it
    /// was removed.
    fn recycle(&self, number: u64, spares: &Spares) -> Result<Option<SegmentFile>> {
        let vfs = &*self.env.vfs;
        let (next, bytes) = (spares.next_number, spares.next_bytes);
        let from = self.dir.join(segment::file_name(number));
        let to = self.dir.join(segment::file_name(next));
        let failed = |error| Error::io(&from, "recycle", 0, error);
        let old = segment::open(vfs, &self.dir, number, self.open_mode())?;
        let fits = old.bytes == bytes;
        let moved = if fits { vfs.rename(&from, &to) } else { vfs.remove(&from) };
        moved.and_then(|()| vfs.sync_dir(&self.dir)).map_err(failed)?;
        Ok(fits.then(|| SegmentFile { number: next, bytes, path: to, file: old.file }))
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
