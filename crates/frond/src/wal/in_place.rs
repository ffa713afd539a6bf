//! Continuing after a recovery on a disk that has no room for a new segment.
//!
//! A recovered log continues in a new segment, so that nothing is appended to a torn tail. A disk
//! without a free byte has no room for one: a store that filled its disk and was killed would never
//! open again. So an existing file is used instead.
//!
//! - If the segment after the cut exists (a spare that was not started, or one whose start was
//!   lost), it is filled with zeros, synced, and started by writing its header.
//! - If it does not exist, the segment with the cut has not ended. It is filled with zeros from the
//!   cut on, synced, and continues under its own header.
//!
//! Both are then like a new segment: zeros where no group has been written since. A torn tail must
//! not leave a group that could follow a new one: that is why the segment is zeroed to its end, and
//! synced, before anything is written to it. After a crash meanwhile, some of the bytes after the
//! cut may still be there. The previous recovery found that none of them is synced log, and that
//! the group at the cut is not whole; zeros do not make it whole, so the next recovery cuts at the
//! same place.
//!
//! Only bytes that are already allocated are written, so on a file system that writes in place no
//! space is needed. Cost: one segment is written, at most 16 MiB by default.
//!
//! Threads: one, at opening, before anything is appended.

use std::path::Path;

use super::{
    recovered_tail::RecoveredTail,
    segment::{self, SEGMENT_BYTES_MAX, SEGMENT_HEADER_BYTES, SegmentFile, SegmentHeader},
};
use crate::{
    error::{Error, Result},
    io::{ALIGN, AlignedBuf, Env, OpenMode},
};

const ZEROS_BYTES: usize = 256 << 10;

impl RecoveredTail {
    /// The segment to continue in, and its header. `new` is the header that a new segment would
    /// have.
    pub(super) fn resume_in_place(
        &self,
        env: &Env,
        dir: &Path,
        direct: bool,
        new: SegmentHeader,
    ) -> Result<(SegmentFile, SegmentHeader)> {
        let vfs = &*env.vfs;
        let mode = OpenMode { write: true, create_new: false, direct };
        let next = dir.join(segment::file_name(new.number));
        if vfs.exists(&next).map_err(|error| Error::io(&next, "look up", 0, error))? {
            let mut segment = segment::open(vfs, dir, new.number, mode)?;
            segment.bytes = segment.bytes.min(SEGMENT_BYTES_MAX) / ALIGN as u64 * ALIGN as u64;
            zero_from(&segment, 0)?;
            let header = SegmentHeader { segment_bytes: segment.bytes, ..new };
            segment.write(&header.encode(), 0)?;
            segment.sync_data()?;
            return Ok((segment, header));
        }
        let header = self.header.expect("only a log that was recovered goes on in its place");
        let mut segment = segment::open(vfs, dir, header.number, mode)?;
        segment.bytes = header.segment_bytes;
        if !plant!("wal: bytes after the cut stay") {
            zero_from(&segment, SEGMENT_HEADER_BYTES + self.end.0 - header.first.0)?;
        }
        Ok((segment, header))
    }
}

/// Zeros a segment from an offset to its end, and syncs.
fn zero_from(segment: &SegmentFile, offset: u64) -> Result<()> {
    let zeros = AlignedBuf::zeroed(ZEROS_BYTES.min(segment.bytes as usize));
    let mut at = offset;
    while at < segment.bytes {
        let part = (segment.bytes - at).min(zeros.len() as u64);
        segment.write(&zeros[..part as usize], at)?;
        at += part;
    }
    segment.sync_data()
}
