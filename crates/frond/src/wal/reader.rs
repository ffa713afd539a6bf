//! Reading a segment through a window.
//!
//! Invariants
//! 1. Reads are aligned, so that a file with direct I/O accepts them.
//! 2. Callers ask for nothing beyond the file's length at opening; if one does, that is
//!    `WalMissing`, never an end of log.
//! 3. The window never exceeds a group's greatest length plus [`WINDOW_BYTES`].
//!
//! Threads: one owner.

use std::{io, path::Path};

use super::segment;
use crate::{
    bounds,
    error::{Error, Result},
    io::{ALIGN, AlignedBuf, Env, OpenMode},
};

/// Bytes read at a time, so that many small groups cost one read.
const WINDOW_BYTES: usize = 1 << 20;

pub(super) struct SegmentReader {
    segment: segment::SegmentFile,
    /// The offset up to which reading is allowed, and the length of the file.
    len: u64,
    file_bytes: u64,
    window: AlignedBuf,
    /// The part of the file that the window holds.
    start: u64,
    filled: usize,
}

impl SegmentReader {
    /// Opens a segment for reading, with direct I/O, so that what is read is on disk and not only
    /// in the page cache.
    pub(super) fn open(env: &Env, dir: &Path, number: u64) -> Result<Self> {
        Self::open_as(env, dir, number, true)
    }

    pub(super) fn open_as(env: &Env, dir: &Path, number: u64, direct: bool) -> Result<Self> {
        let mode = OpenMode { write: false, create_new: false, direct };
        let segment = segment::open(&*env.vfs, dir, number, mode)?;
        let len = segment.file.len();
        let len = len.map_err(|error| Error::io(&segment.path, "measure", 0, error))?;
        Ok(Self {
            segment,
            len,
            file_bytes: len,
            window: AlignedBuf::zeroed(0),
            start: 0,
            filled: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.segment.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Forbids reading at or after this offset, where the file is still being written.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.len = bytes.min(self.file_bytes);
    }

    /// The first block, read alone.
    pub(super) fn head(&mut self) -> Result<&[u8]> {
        self.read(0, ALIGN as u64, 0)?;
        Ok(&self.window[..ALIGN])
    }

    /// `bytes` at `offset`. The length must be bounded by the caller.
    pub(super) fn bytes(&mut self, offset: u64, bytes: usize) -> Result<&[u8]> {
        assert!(bytes <= bounds::GROUP_BYTES.len(), "a reader asks for no more than a group");
        let end = offset.saturating_add(bytes as u64);
        if end > self.len {
            let file = self.segment.path.clone();
            return Err(Error::WalMissing { file, what: "cut short" });
        }
        if offset < self.start || end > self.start + self.filled as u64 {
            self.read(offset, end, WINDOW_BYTES as u64)?;
        }
        let at = (offset - self.start) as usize;
        let found = self.window.get(at..at + bytes);
        Ok(found.expect("the window holds what was just read"))
    }

    fn read(&mut self, offset: u64, end: u64, ahead: u64) -> Result<()> {
        let align = ALIGN as u64;
        let start = offset / align * align;
        let want = (end - start).next_multiple_of(align).max(ahead);
        // With direct I/O, a file whose length is no multiple of the alignment is read up to its
        // last whole block. The length of a segment that the log has made is always a multiple.
        let want = want.min((self.len - start).next_multiple_of(align)) as usize;
        if self.window.len() < want {
            self.window = AlignedBuf::zeroed(want);
        }
        self.filled = 0;
        let whole = (want as u64).min(self.len - start) as usize;
        let whole = if self.segment.file.is_direct() { whole / ALIGN * ALIGN } else { whole };
        let read = self.segment.file.read_at(&mut self.window[..whole], start);
        match read {
            Err(_) if plant!("wal: read error is the end of the log") => self.window.fill(0),
            read => read.map_err(|error| read_error(&self.segment.path, start, error))?,
        }
        (self.start, self.filled) = (start, whole);
        if end > start + whole as u64 {
            let file = self.segment.path.clone();
            return Err(Error::WalMissing { file, what: "cut short" });
        }
        Ok(())
    }
}

/// Converts an error of reading a segment; end of file means that the file was cut short.
pub(super) fn read_error(path: &Path, offset: u64, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Error::WalMissing { file: path.to_owned(), what: "cut short" };
    }
    Error::io(path, "read", offset, error)
}
