//! Segments: the files of the log.
//!
//! A segment is made whole before it is used: it gets its full length, is synced, gets its name,
//! and the name is synced. A segment for direct I/O is also filled with zeros, so that a commit
//! never changes metadata and needs only `fdatasync`; where commits do not wait for syncs, that
//! would only double what the log writes. When no slot needs a segment any more, it is renamed to
//! become a later one, under a new salt.
//!
//! Invariants
//! 1. A file `log-N.frond` has its full length from the moment its name is durable.
//! 2. A segment has started when its header holds its own number; a header with another number is
//!    what the file held before it was recycled.
//! 3. A segment's salt is derived from its predecessor's `secret` and its own first position. So
//!    the groups of a segment whose header is damaged can still be recognised, and no row content
//!    can imitate them.
//! 4. Positions do not count headers: a group at position P of a segment that starts at F lies at
//!    byte 4096 + P − F.
//!
//! Threads: pure functions, and file making under the log's spare lock.
//! Bytes: docs/format.md, "Log".

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    bounds,
    coding::{u32_at, u64_at},
    error::{Error, Result},
    io::{ALIGN, AlignedBuf, Env, File, OpenMode, Vfs},
    sync::Arc,
    types::{Lsn, StoreId},
};

/// Bytes of a segment before its first group.
pub(super) const SEGMENT_HEADER_BYTES: u64 = ALIGN as u64;
/// Bytes kept free at the end for the group that states that the next segment exists.
pub(super) const SEGMENT_END_BYTES: u64 = ALIGN as u64;
/// Shortest segment, bytes.
pub(super) const SEGMENT_BYTES_MIN: u64 = 16 << 10;
/// Longest segment, bytes.
pub(super) const SEGMENT_BYTES_MAX: u64 = bounds::SEGMENT_BYTES.default;

const MAGIC: [u8; 8] = *b"FrondLog";
const FORMAT: u32 = 1;
/// The bytes that the header's checksum covers.
const CHECKED_BYTES: usize = 128;
const RESUMED: u32 = 1;

/// A segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentHeader {
    pub store: StoreId,
    pub number: u64,
    pub salt: u64,
    /// The seed of the next segment's salt.
    pub secret: u64,
    pub first: Lsn,
    /// Checksum of the last group before this segment.
    pub predecessor: u32,
    /// The log was cut at `first` by a recovery.
    pub resumed: bool,
    pub synced: Lsn,
    pub segment_bytes: u64,
}

/// Why a file has no valid segment header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum HeaderFault {
    /// No header, or a damaged one.
    Checksum { stored: u32, computed: u32 },
    /// A newer format.
    TooNew(u32),
    /// The checksum is right but the fields are not.
    Malformed(&'static str),
}

impl SegmentHeader {
    /// The header as one block.
    pub(super) fn encode(&self) -> AlignedBuf {
        let mut out = AlignedBuf::zeroed(SEGMENT_HEADER_BYTES as usize);
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        out[16..32].copy_from_slice(&self.store.0);
        out[32..40].copy_from_slice(&self.number.to_le_bytes());
        out[40..48].copy_from_slice(&self.salt.to_le_bytes());
        out[48..56].copy_from_slice(&self.secret.to_le_bytes());
        out[56..64].copy_from_slice(&self.first.0.to_le_bytes());
        out[64..68].copy_from_slice(&self.predecessor.to_le_bytes());
        out[68..72].copy_from_slice(&(if self.resumed { RESUMED } else { 0 }).to_le_bytes());
        out[72..80].copy_from_slice(&self.synced.0.to_le_bytes());
        out[80..88].copy_from_slice(&self.segment_bytes.to_le_bytes());
        let crc = checksum(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let short = HeaderFault::Malformed("the header is cut short");
        let bytes = bytes.first_chunk::<CHECKED_BYTES>().ok_or(short.clone())?;
        let stored = u32_at(bytes, 12).ok_or(short.clone())?;
        let computed = checksum(bytes);
        if stored != computed || bytes.first_chunk() != Some(&MAGIC) {
            return Err(HeaderFault::Checksum { stored, computed });
        }
        let format = u32_at(bytes, 8).ok_or(short.clone())?;
        if format != FORMAT {
            return Err(HeaderFault::TooNew(format));
        }
        let word = |at| u64_at(bytes, at).ok_or(short.clone());
        let header = Self {
            store: StoreId(*bytes.get(16..).and_then(<[u8]>::first_chunk).ok_or(short.clone())?),
            number: word(32)?,
            salt: word(40)?,
            secret: word(48)?,
            first: Lsn(word(56)?),
            predecessor: u32_at(bytes, 64).ok_or(short.clone())?,
            resumed: u32_at(bytes, 68).ok_or(short.clone())? & RESUMED != 0,
            synced: Lsn(word(72)?),
            segment_bytes: word(80)?,
        };
        let bytes = header.segment_bytes;
        let fits = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes);
        if !fits || !bytes.is_multiple_of(ALIGN as u64) {
            return Err(HeaderFault::Malformed("its length is impossible"));
        }
        if !header.first.0.is_multiple_of(ALIGN as u64) || header.first.0 > u64::MAX / 2 {
            return Err(HeaderFault::Malformed("its first position is impossible"));
        }
        Ok(header)
    }
}

fn checksum(header: &[u8]) -> u32 {
    let head = crc32c::crc32c(header.get(..12).unwrap_or_default());
    crc32c::crc32c_append(head, header.get(16..CHECKED_BYTES).unwrap_or_default())
}

/// The salt of the segment that starts at `first`, whose predecessor holds `secret` (invariant 3).
pub(super) fn salt_after(secret: u64, first: Lsn) -> u64 {
    if plant!("wal: no salt") {
        return 0;
    }
    xxhash_rust::xxh3::xxh3_64_with_seed(&first.0.to_le_bytes(), secret)
}

/// File name of segment `number`.
pub(super) fn file_name(number: u64) -> String {
    format!("log-{number:010}.frond")
}

/// Number of the segment with this file name.
pub(super) fn number_of(name: &Path) -> Option<u64> {
    let digits = name.to_str()?.strip_prefix("log-")?.strip_suffix(".frond")?;
    let plain = digits.len() >= 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain)?;
    (file_name(number) == name.to_str()?).then_some(number)
}

/// Name of the reserve (`relief.rs`). A version that does not know it treats it as unfinished and
/// removes it.
pub(super) const RESERVE_NAME: &str = "log-reserve.new";

/// True for a file that a crash leaves while a segment is made.
pub(super) fn is_unfinished(name: &Path) -> bool {
    name.to_str().is_some_and(|name| {
        name.starts_with("log-") && name.ends_with(".new") && name != RESERVE_NAME
    })
}

/// An open segment file and its length.
#[derive(Clone, Debug)]
pub(super) struct SegmentFile {
    pub number: u64,
    pub bytes: u64,
    pub path: PathBuf,
    pub file: Arc<dyn File>,
}

impl SegmentFile {
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.file.write_at(bytes, offset);
        written.map_err(|error| Error::io(&self.path, "write", offset, error))
    }

    pub(super) fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io(&self.path, "sync", 0, error))
    }
}

/// Makes segment `number`, which reads as zeros after an optional header, and replaces any file
/// with that name.
pub(super) fn make(
    vfs: &dyn Vfs,
    dir: &Path,
    number: u64,
    bytes: u64,
    direct: bool,
    header: Option<&SegmentHeader>,
) -> Result<SegmentFile> {
    let path = dir.join(file_name(number));
    let file = make_at(vfs, &path, bytes, direct, header)?;
    let mut renamed = vfs.rename(&path.with_extension("new"), &path);
    if !plant!("wal: no directory sync for a new segment") {
        renamed = renamed.and_then(|()| vfs.sync_dir(dir));
    }
    renamed.map_err(|error| Error::io(&path, "rename", 0, error))?;
    Ok(SegmentFile { number, bytes, path, file })
}

/// Makes the file of a segment that will get this path, under the same name with the extension
/// `new`.
pub(super) fn make_at(
    vfs: &dyn Vfs,
    path: &Path,
    bytes: u64,
    direct: bool,
    header: Option<&SegmentHeader>,
) -> Result<Arc<dyn File>> {
    let unfinished = path.with_extension("new");
    if vfs.exists(&unfinished).map_err(|error| Error::io(&unfinished, "look up", 0, error))? {
        vfs.remove(&unfinished).map_err(|error| Error::io(&unfinished, "remove", 0, error))?;
    }
    let mode = OpenMode { write: true, create_new: true, direct };
    let file = vfs.open(&unfinished, mode);
    let file = file.map_err(|error| Error::io(&unfinished, "create", 0, error))?;
    if let Err(error) = write_whole(&*file, bytes, direct, header) {
        // Free the space at once. If the removal fails too, that adds nothing to the error.
        return Err(match vfs.remove(&unfinished) {
            Ok(()) | Err(_) => Error::io(&unfinished, "write", 0, error),
        });
    }
    Ok(file)
}

fn write_whole(
    file: &dyn File,
    bytes: u64,
    zeroed: bool,
    header: Option<&SegmentHeader>,
) -> io::Result<()> {
    file.allocate(0, bytes)?;
    file.set_len(bytes)?;
    let zeros = AlignedBuf::zeroed((256 << 10).min(bytes as usize));
    let mut at = 0;
    while zeroed && at < bytes {
        let part = (bytes - at).min(zeros.len() as u64);
        file.write_at(&zeros[..part as usize], at)?;
        at += part;
    }
    if let Some(header) = header {
        file.write_at(&header.encode(), 0)?;
    }
    file.sync_all()
}

/// Makes the log of a copied store: one segment without a group, in which the log continues at
/// `at`. Its name is durable when this returns.
pub fn begin(env: &Env, dir: &Path, store: StoreId, at: Lsn) -> Result<()> {
    let header = SegmentHeader {
        store,
        number: 1,
        salt: env.rng.next_u64(),
        secret: env.rng.next_u64(),
        first: at,
        predecessor: 0,
        resumed: true,
        synced: at,
        segment_bytes: SEGMENT_BYTES_MIN,
    };
    make(&*env.vfs, dir, 1, SEGMENT_BYTES_MIN, false, Some(&header)).map(drop)
}

/// True if the first segment in `dir` starts the log of this store.
pub fn begins(env: &Env, dir: &Path, store: StoreId) -> Result<bool> {
    let mode = OpenMode { write: false, create_new: false, direct: false };
    let segment = match open(&*env.vfs, dir, 1, mode) {
        Err(Error::WalMissing { .. }) => return Ok(false),
        opened => opened?,
    };
    let mut bytes = AlignedBuf::zeroed(SEGMENT_HEADER_BYTES as usize);
    match segment.file.read_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        read => read.map_err(|error| Error::io(&segment.path, "read", 0, error))?,
    }
    let header = SegmentHeader::decode(&bytes);
    Ok(header.is_ok_and(|header| (header.store, header.first) == (store, Lsn(0))))
}

/// True if the log in `dir` was still being created, for a store that has had no checkpoint: its
/// only file is a first segment without its name, so there was no commit. Stores were once given
/// their names before their logs, and such a store is empty. No file at all is a lost log.
pub fn was_being_created(env: &Env, dir: &Path) -> Result<bool> {
    let names = env.vfs.list(dir).map_err(|error| Error::io(dir, "list", 0, error))?;
    let mut files = names.iter().filter(|name| name.to_string_lossy().starts_with("log-"));
    Ok(match (files.next(), files.next()) {
        (Some(only), None) => *only == Path::new(&file_name(1)).with_extension("new"),
        (None, _) => plant!("wal: a lost log is a new one"),
        _ => false,
    })
}

/// Opens an existing segment.
pub(super) fn open(vfs: &dyn Vfs, dir: &Path, number: u64, mode: OpenMode) -> Result<SegmentFile> {
    let path = dir.join(file_name(number));
    match vfs.open(&path, mode) {
        Ok(file) => {
            let bytes = file.len().map_err(|error| Error::io(&path, "measure", 0, error))?;
            Ok(SegmentFile { number, bytes, path, file })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::WalMissing { file: path, what: "missing" })
        }
        Err(error) => Err(Error::io(path, "open", 0, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_and_numbers_correspond() {
        assert_eq!(file_name(7), "log-0000000007.frond");
        assert_eq!(number_of(Path::new("log-0000000007.frond")), Some(7));
        assert_eq!(number_of(Path::new(&file_name(u64::MAX))), Some(u64::MAX));
        for wrong in ["log-7.frond", "log-000000000x.frond", "store.frond", "log-+000000007.frond"]
        {
            assert_eq!(number_of(Path::new(wrong)), None, "{wrong}");
        }
        assert!(is_unfinished(Path::new("log-0000000007.new")));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_detected() {
        let header = SegmentHeader {
            store: StoreId([3; 16]),
            number: 9,
            salt: 77,
            secret: 78,
            first: Lsn(1 << 20),
            predecessor: 4,
            resumed: true,
            synced: Lsn(1 << 19),
            segment_bytes: 1 << 20,
        };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for bit in 0..CHECKED_BYTES * 8 {
            let mut bad = bytes.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            let fault = SegmentHeader::decode(&bad);
            assert!(matches!(fault, Err(HeaderFault::Checksum { .. })), "bit {bit}");
        }
        assert!(SegmentHeader::decode(&[0; 4096]).is_err());
    }
}
