//! The place where the log ended, and how the log files are made ready to continue there.

use std::path::{Path, PathBuf};

use super::{
    reader::read_error,
    segment::{self, SEGMENT_HEADER_BYTES, SegmentFile, SegmentHeader},
};
use crate::{
    error::{Error, Result},
    io::{AlignedBuf, Env, OpenMode},
    types::Lsn,
};

/// Bytes of a segment that are rewritten at a time.
const REWRITE_BYTES: usize = 256 << 10;

/// The place where the log ended, for [`Log::resume`](super::Log::resume).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveredTail {
    /// The end of the log: everything before it was handed out.
    pub end: Lsn,
    /// Records handed out.
    pub records: u64,
    /// Groups read.
    pub groups: u64,
    /// True if something that looks like log lay after the end and was cut off.
    pub torn: bool,
    /// The segment that contains `end`.
    pub(super) segment: u64,
    /// That segment's header; `None` in a new store.
    pub(super) header: Option<SegmentHeader>,
    pub(super) chain: u32,
    /// The position at which reading started.
    pub(super) from: Lsn,
    /// All segments up to that one: number and first position, oldest first.
    pub(super) live: Vec<(u64, Lsn)>,
}

impl RecoveredTail {
    pub(super) fn new_store() -> Self {
        Self {
            end: Lsn(0),
            records: 0,
            groups: 0,
            torn: false,
            segment: 0,
            header: None,
            chain: 0,
            from: Lsn(0),
            live: Vec::new(),
        }
    }

    /// Makes what was recovered durable and removes what lies after it. The segment right after the
    /// cut stays until a rename replaces it, so that no crash leaves a gap.
    pub(super) fn clear_way(&self, env: &Env, dir: &Path) -> Result<()> {
        let vfs = &*env.vfs;
        let names = vfs.list(dir).map_err(|error| Error::io(dir, "list", 0, error))?;
        let number = |name: &PathBuf| segment::number_of(name);
        if self.header.is_none() && names.iter().any(|name| number(name).is_some()) {
            let why = "cannot create a store here: the directory already contains a log";
            return Err(Error::not_a_store(dir, why));
        }
        for (index, &(number, first)) in self.live.iter().enumerate() {
            let mode = OpenMode { write: true, create_new: false, direct: true };
            let segment = segment::open(vfs, dir, number, mode)?;
            let end = match self.live.get(index + 1) {
                Some(&(_, next)) if next <= self.from => 0,
                Some(_) => segment.bytes,
                None => SEGMENT_HEADER_BYTES + self.end.0 - first.0,
            };
            if !segment.file.is_direct() && !plant!("wal: what was recovered is not rewritten") {
                rewrite(&segment, end)?;
            }
            segment.sync_data()?;
        }
        let mut later: Vec<_> = names
            .iter()
            .filter(|name| {
                number(name).is_some_and(|number| number > self.segment + 1)
                    || segment::is_unfinished(name)
            })
            .collect();
        later.sort();
        for name in later.iter().rev() {
            let path = dir.join(name);
            vfs.remove(&path).map_err(|error| Error::io(path, "remove", 0, error))?;
        }
        if !later.is_empty() {
            vfs.sync_dir(dir).map_err(|error| Error::io(dir, "sync", 0, error))?;
        }
        Ok(())
    }
}

/// Rewrites a segment with its own bytes, up to `end`. A torn write does no harm, since the bytes
/// are equal.
fn rewrite(segment: &SegmentFile, end: u64) -> Result<()> {
    let mut bytes = AlignedBuf::zeroed(REWRITE_BYTES.min(end as usize));
    let mut at = 0;
    while at < end {
        let part = (end - at).min(bytes.len() as u64) as usize;
        let read = segment.file.read_at(&mut bytes[..part], at);
        read.map_err(|error| read_error(&segment.path, at, error))?;
        segment.write(&bytes[..part], at)?;
        at += part as u64;
    }
    Ok(())
}
