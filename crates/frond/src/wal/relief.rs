//! The reserve: log space that a full disk cannot take away, for records that free space (Rule:
//! I24).
//!
//! When a disk is full, rows have to be deleted to free space. But each delete is a record in the
//! log, and sooner or later one needs the next segment, for which there is no room. So:
//!
//! 1. One segment, the reserve, is always made in advance. Records that add rows never take it;
//!    while it is missing, they are refused, even if there is space elsewhere.
//! 2. Deletes, drops and what checkpoints write may take the reserve and continue in it.
//! 3. The segments before it can be trimmed as soon as two slots start in it, and the first one
//!    that is trimmed becomes the next reserve.
//!
//! So deletes never run out of log space while checkpoints can be written; they may have to wait
//! for two checkpoints.
//!
//! The reserve is a file without a number, `log-reserve.new`. It gets the next number by a rename,
//! which needs no space, when a record that may take it finds no other segment. It is at least as
//! long as the first segment of a log, so that every record fits. A closed log has none, unless it
//! is asked to keep it.
//!
//! Invariants
//! 1. While rows are accepted, the reserve exists, is synced and has its full length.
//! 2. The reserve is never made from a segment that a slot may need, nor from one that waits for
//!    its sync.
//!
//! Threads: as in `log.rs`, under the lock `spares`; `State::has_reserve` mirrors it under `state`.

use std::path::Path;

use super::{
    log::{Log, Spares},
    segment::{self, RESERVE_NAME, SEGMENT_BYTES_MAX, SegmentFile},
    spares::is_full,
};
use crate::{
    error::{Error, Result},
    io::{ALIGN, File, OpenMode, Vfs},
    sync::Arc,
};

fn segment_at(dir: &Path, bytes: u64, file: Arc<dyn File>) -> SegmentFile {
    SegmentFile { number: 0, bytes, path: dir.join(RESERVE_NAME), file }
}

/// The reserve at opening: the existing one or a new one; `None` if the disk is full.
pub(super) fn reserve_at_opening(
    vfs: &dyn Vfs,
    dir: &Path,
    bytes: u64,
    direct: bool,
) -> Result<Option<SegmentFile>> {
    let path = dir.join(RESERVE_NAME);
    let failed = |action| {
        let path = path.clone();
        move |error| Error::io(path, action, 0, error)
    };
    if vfs.exists(&path).map_err(failed("look up"))? {
        let mode = OpenMode { write: true, create_new: false, direct };
        let file = vfs.open(&path, mode).map_err(failed("open"))?;
        let found = file.len().map_err(failed("measure"))? / ALIGN as u64 * ALIGN as u64;
        if found >= bytes {
            // The file's length may be only in the page cache.
            file.sync_all().map_err(failed("sync"))?;
            return Ok(Some(segment_at(dir, found.min(SEGMENT_BYTES_MAX), file)));
        }
    }
    match segment::make_at(vfs, &path, bytes, direct, None) {
        Ok(file) => {
            vfs.sync_dir(dir).map_err(failed("sync"))?;
            Ok(Some(segment_at(dir, bytes, file)))
        }
        Err(Error::Io { source, .. })
            if is_full(&source) && !plant!("wal: a log is not opened without its reserve") =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Log {
    /// Makes the reserve if there is none. `Full` if the disk is.
    pub(super) fn make_reserve(&self, spares: &mut Spares) -> Result<()> {
        if spares.reserve.is_some() {
            return Ok(());
        }
        let bytes = self.options.first_segment_bytes;
        let direct = self.open_mode().direct;
        let made = reserve_at_opening(&*self.env.vfs, &self.dir, bytes, direct);
        match self.or_fail(made)? {
            Some(reserve) => {
                self.set_reserve(spares, Some(reserve));
                Ok(())
            }
            None => {
                self.state.lock().unwrap().spare_wanted = false;
                Err(Error::Full(format!("no space for the log's reserve of {bytes} bytes")))
            }
        }
    }

    /// True if rows are accepted.
    pub fn has_reserve(&self) -> bool {
        self.state.lock().unwrap().has_reserve
    }

    /// Length of a newly made reserve, and of the shortest segment, bytes.
    pub fn reserve_bytes(&self) -> u64 {
        self.options.first_segment_bytes
    }

    /// Makes the reserve again if it was used. `Full` if the disk is.
    pub fn refill(&self) -> Result<()> {
        self.make_reserve(&mut self.spares.lock().unwrap())
    }

    fn set_reserve(&self, spares: &mut Spares, reserve: Option<SegmentFile>) {
        let mut state = self.state.lock().unwrap();
        state.has_reserve = reserve.is_some();
        state.spare_wanted = false;
        spares.reserve = reserve;
    }

    /// Turns the reserve into the next segment; false if there is none.
    pub(super) fn take_reserve(&self, spares: &mut Spares) -> Result<bool> {
        let Some(reserve) = spares.reserve.take() else { return Ok(false) };
        // This comes first, so that a record that adds rows finds neither the reserve nor the new
        // segment.
        self.set_reserve(spares, None);
        let number = spares.next_number;
        let path = self.dir.join(segment::file_name(number));
        let vfs = &*self.env.vfs;
        match vfs.rename(&reserve.path, &path) {
            Err(error) if is_full(&error) => {
                self.set_reserve(spares, Some(reserve));
                return Ok(false);
            }
            renamed => {
                let renamed = renamed.and_then(|()| vfs.sync_dir(&self.dir));
                self.or_fail(renamed.map_err(|error| Error::io(&path, "rename", 0, error)))?;
            }
        }
        self.add_spare(spares, SegmentFile { number, path, ..reserve });
        Ok(true)
    }

    /// Turns a segment that is no longer needed into the reserve, if there is none; false if the
    /// segment was left as it is.
    pub(super) fn give_to_reserve(&self, number: u64, spares: &mut Spares) -> Result<bool> {
        if spares.reserve.is_some() {
            return Ok(false);
        }
        let vfs = &*self.env.vfs;
        let old = segment::open(vfs, &self.dir, number, self.open_mode())?;
        if old.bytes < self.options.first_segment_bytes {
            return Ok(false);
        }
        let path = self.dir.join(RESERVE_NAME);
        let renamed = vfs.rename(&old.path, &path).and_then(|()| vfs.sync_dir(&self.dir));
        renamed.map_err(|error| Error::io(&old.path, "recycle", 0, error))?;
        self.set_reserve(spares, Some(segment_at(&self.dir, old.bytes, old.file)));
        Ok(true)
    }

    /// Unlinks the reserve, when the log is closed.
    pub(super) fn remove_reserve(&self, spares: &mut Spares) -> Result<()> {
        let Some(reserve) = spares.reserve.take() else { return Ok(()) };
        self.set_reserve(spares, None);
        let vfs = &*self.env.vfs;
        let removed = vfs.remove(&reserve.path).and_then(|()| vfs.sync_dir(&self.dir));
        self.or_fail(removed.map_err(|error| Error::io(&reserve.path, "remove", 0, error)))
    }
}
