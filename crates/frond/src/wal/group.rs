//! Groups: the framed unit of the log, and the buffers in which they are built.
//!
//! A group is a header, then records, padded with zeros to 4 KiB, so that no later write touches a
//! sector of a synced one (Rule: I14). Most groups are written once, by one writer. A group of
//! small commits at level `os` is written several times as it grows, until it is closed
//! (`leader.rs`).
//!
//! Invariants
//! 1. A group's header verifies alone: its checksum is seeded with the segment's salt and covers
//!    the body's checksum. So it can be a witness of what was synced even where the body is torn.
//! 2. `synced` in a header was sampled before the group was written: everything before it was on
//!    disk then.
//! 3. The checksums within a segment form a chain: each header holds the checksum of the header
//!    before it.
//! 4. Until a buffer is sealed, it is written only through reservations; after that, only by the
//!    writer.
//!
//! Threads: headers are pure functions; [`GroupBuf::fill`] is called by all committers
//! concurrently. Each frame of a buffer has its own lock, held for one memory copy; committers wait
//! for each other only if their records share 16 KiB *and* they copy in the same nanoseconds.
//! Bytes: docs/format.md, "Log".

use crate::{
    bounds,
    cache::{FRAME_BYTES, Frame, FramePool},
    io::ALIGN,
    sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering},
    types::Lsn,
};

/// Bytes of a group's header.
pub(super) const GROUP_HEADER_BYTES: usize = 48;
/// Bytes in front of each record in a group.
pub(super) const RECORD_HEADER_BYTES: usize = 8;

const MAGIC: u32 = u32::from_le_bytes(*b"FrGp");

/// Purpose of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum GroupKind {
    /// Holds records.
    Records = 0,
    /// Holds nothing: written by an idle log to state that everything before it is synced.
    Idle = 1,
    /// Holds nothing and has no length in the log: the next group is in the next segment, whose
    /// file exists.
    End = 2,
}

/// A group's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupHeader {
    pub first: Lsn,
    pub synced: Lsn,
    /// Header and records, without padding.
    pub bytes: u32,
    pub body_crc: u32,
    pub predecessor: u32,
    pub kind: GroupKind,
    pub records: u32,
}

/// Checksum of `bytes` under a segment's salt.
pub(super) fn salted_crc(salt: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), bytes)
}

/// `bytes` rounded up to the padding of a group.
pub(super) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

impl GroupHeader {
    /// The header's bytes and its checksum, which represents the group in the chain.
    pub(super) fn encode(&self, salt: u64) -> ([u8; GROUP_HEADER_BYTES], u32) {
        let mut out = [0; GROUP_HEADER_BYTES];
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..16].copy_from_slice(&self.first.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.synced.0.to_le_bytes());
        out[24..28].copy_from_slice(&self.bytes.to_le_bytes());
        out[28..32].copy_from_slice(&self.body_crc.to_le_bytes());
        out[32..36].copy_from_slice(&self.predecessor.to_le_bytes());
        out[36] = self.kind as u8;
        out[40..44].copy_from_slice(&self.records.to_le_bytes());
        let crc = salted_crc(salt, &out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        (out, crc)
    }

    /// Reads a header and its checksum; `None` if `bytes` is not a header under this salt.
    pub(super) fn decode(bytes: &[u8], salt: u64) -> Option<(Self, u32)> {
        let bytes = bytes.first_chunk::<GROUP_HEADER_BYTES>()?;
        if u32_at(bytes, 0)? != MAGIC {
            return None;
        }
        let crc = u32_at(bytes, 4)?;
        if crc != salted_crc(salt, bytes.get(8..)?) {
            return None;
        }
        let header = Self {
            first: Lsn(u64_at(bytes, 8)?),
            synced: Lsn(u64_at(bytes, 16)?),
            bytes: u32_at(bytes, 24)?,
            body_crc: u32_at(bytes, 28)?,
            predecessor: u32_at(bytes, 32)?,
            kind: match bytes.get(36)? {
                0 => GroupKind::Records,
                1 => GroupKind::Idle,
                2 => GroupKind::End,
                _ => return None,
            },
            records: u32_at(bytes, 40)?,
        };
        let sane =
            (GROUP_HEADER_BYTES..=bounds::GROUP_BYTES.len()).contains(&(header.bytes as usize));
        let ends = header.first.0.checked_add(bounds::GROUP_BYTES.max()).is_some();
        (sane && ends).then_some((header, crc))
    }

    /// By how much this group advances the log's position.
    pub(super) fn log_bytes(&self) -> u64 {
        match self.kind {
            GroupKind::End => 0,
            _ => padded(self.bytes as usize) as u64,
        }
    }
}

/// Which part of a record a frame in a group holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Piece {
    /// The whole record.
    Whole = 1,
    /// The first fragment of a large record; discards any earlier large record that has no last
    /// fragment.
    First = 2,
    /// A further fragment.
    Middle = 3,
    /// The last fragment: it completes the record.
    Last = 4,
}

/// Bytes that a record occupies in a group.
pub(super) fn framed_bytes(payload: usize) -> usize {
    RECORD_HEADER_BYTES + payload.next_multiple_of(8)
}

/// Iterates over the records of a group body that has passed its checksum.
pub(super) struct Records<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self { body, at: 0 }
    }

    /// The next record: its offset in the body, which part it is, and its payload.
    pub(super) fn next(&mut self) -> Result<Option<(usize, Piece, &'a [u8])>, &'static str> {
        if self.at >= self.body.len() {
            return Ok(None);
        }
        let at = self.at;
        let rest = self.body.get(at..).unwrap_or_default();
        let bytes = u32_at(rest, 0).ok_or("a record's header is cut short")? as usize;
        let piece = match rest.get(4..RECORD_HEADER_BYTES) {
            Some([1, 0, 0, 0]) => Piece::Whole,
            Some([2, 0, 0, 0]) => Piece::First,
            Some([3, 0, 0, 0]) => Piece::Middle,
            Some([4, 0, 0, 0]) => Piece::Last,
            Some(_) => return Err("a record of unknown type"),
            None => return Err("a record's header is cut short"),
        };
        let payload = rest.get(RECORD_HEADER_BYTES..).and_then(|rest| rest.get(..bytes));
        let payload = payload.ok_or("a record is longer than its group")?;
        self.at = at + framed_bytes(bytes);
        Ok(Some((at, piece, payload)))
    }
}

/// One group's memory: frames that are reused for ever.
pub(super) struct GroupBuf {
    frames: Vec<Mutex<Frame>>,
    /// Number of reservations not filled yet.
    unfilled: AtomicUsize,
}

impl GroupBuf {
    pub(super) fn new(pool: &Arc<FramePool>, bytes: usize) -> Self {
        let frame = || pool.take().unwrap_or_else(|| pool.take_reserve());
        let frames = (0..bytes.div_ceil(FRAME_BYTES)).map(|_| Mutex::new(frame())).collect();
        Self { frames, unfilled: AtomicUsize::new(0) }
    }

    /// Counts a reservation. Called under the log's state lock, before the group is sealed.
    pub(super) fn begin_fill(&self) {
        self.unfilled.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a reservation as filled; true if none is outstanding.
    pub(super) fn end_fill(&self) -> bool {
        // SeqCst: pairs with the writer, which stores `filling_awaited` and then loads this count;
        // one of the two sees the other. It also releases the copied bytes to the writer.
        self.unfilled.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub(super) fn is_filled(&self) -> bool {
        self.unfilled.load(Ordering::SeqCst) == 0
    }

    /// Copies a record into its reserved place.
    pub(super) fn fill(&self, offset: usize, piece: Piece, payload: usize, parts: &[&[u8]]) {
        let given: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(given, payload, "a reservation is filled exactly");
        let mut header = [0; RECORD_HEADER_BYTES];
        header[..4].copy_from_slice(&(payload as u32).to_le_bytes());
        header[4] = piece as u8;
        let padding = payload.next_multiple_of(8) - payload;

        let (mut index, mut at) = (offset / FRAME_BYTES, offset % FRAME_BYTES);
        let mut frame = self.frames[index].lock().unwrap();
        let all = [&header[..]].into_iter().chain(parts.iter().copied());
        for mut part in all.chain([&[0u8; 8][..padding]]) {
            while !part.is_empty() {
                if at == FRAME_BYTES {
                    (index, at) = (index + 1, 0);
                    drop(frame);
                    frame = self.frames[index].lock().unwrap();
                }
                let (now, later) = part.split_at(part.len().min(FRAME_BYTES - at));
                frame[at..at + now.len()].copy_from_slice(now);
                at += now.len();
                part = later;
            }
        }
    }

    /// Copies a filled group that fits one page, and may still grow, for writing: header, records
    /// and zeros. Returns the checksum for the chain.
    pub(super) fn copy_page(&self, mut header: GroupHeader, salt: u64, page: &mut [u8]) -> u32 {
        let used = header.bytes as usize;
        page[..used].copy_from_slice(&self.frames[0].lock().unwrap()[..used]);
        page[used..].fill(0);
        header.body_crc = salted_crc(salt, &page[GROUP_HEADER_BYTES..used]);
        let (bytes, checksum) = header.encode(salt);
        page[..GROUP_HEADER_BYTES].copy_from_slice(&bytes);
        checksum
    }

    /// Completes a sealed and filled group and lends its frames for writing. Returns the locked
    /// frames and the checksum for the chain. Called by the writer only.
    pub(super) fn complete(
        &self,
        mut header: GroupHeader,
        salt: u64,
    ) -> (Vec<MutexGuard<'_, Frame>>, u32) {
        let (used, all) = (header.bytes as usize, padded(header.bytes as usize));
        let frames = self.frames.iter().take(all.div_ceil(FRAME_BYTES));
        let mut frames: Vec<_> = frames.map(|frame| frame.lock().unwrap()).collect();
        let mut crc = crc32c::crc32c(&salt.to_le_bytes());
        for (index, frame) in frames.iter_mut().enumerate() {
            let start = index * FRAME_BYTES;
            let end = used.saturating_sub(start).min(FRAME_BYTES);
            let skip = if index == 0 { GROUP_HEADER_BYTES } else { 0 };
            if end > skip {
                crc = crc32c::crc32c_append(crc, &frame[skip..end]);
            }
            frame[end..(all - start).min(FRAME_BYTES)].fill(0);
        }
        header.body_crc = crc;
        let (bytes, checksum) = header.encode(salt);
        frames[0][..GROUP_HEADER_BYTES].copy_from_slice(&bytes);
        (frames, checksum)
    }
}

/// Reads a little-endian `u32` at an offset of untrusted bytes.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a little-endian `u64` at an offset of untrusted bytes.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_verifies_alone_and_only_under_its_salt() {
        let header = GroupHeader {
            first: Lsn(8192),
            synced: Lsn(4096),
            bytes: 100,
            body_crc: 7,
            predecessor: 9,
            kind: GroupKind::Records,
            records: 2,
        };
        let (bytes, crc) = header.encode(5);
        assert_eq!(GroupHeader::decode(&bytes, 5), Some((header, crc)));
        assert_eq!(GroupHeader::decode(&bytes, 6), None);
        assert_eq!(GroupHeader::decode(&[0; 48], 0), None);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(GroupHeader::decode(&bad, 5), None, "bit {bit}");
        }
    }

    #[test]
    fn records_that_cross_frames_round_trip() {
        let pool = FramePool::new(1 << 20);
        let buf = GroupBuf::new(&pool, 3 * FRAME_BYTES);
        let payloads: Vec<Vec<u8>> = [0usize, 1, 7, 8, 20_000, 150, 17_000]
            .iter()
            .map(|&n| (0..n).map(|i| (i * 7 + n) as u8).collect())
            .collect();
        let mut at = GROUP_HEADER_BYTES;
        for payload in &payloads {
            let (a, b) = payload.split_at(payload.len() / 3);
            buf.begin_fill();
            buf.fill(at, Piece::Whole, payload.len(), &[a, b]);
            assert!(buf.end_fill());
            at += framed_bytes(payload.len());
        }
        let header = GroupHeader {
            first: Lsn(0),
            synced: Lsn(0),
            bytes: at as u32,
            body_crc: 0,
            predecessor: 0,
            kind: GroupKind::Records,
            records: payloads.len() as u32,
        };
        let (frames, _) = buf.complete(header, 3);
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.iter().copied()).collect();
        let (read, _) = GroupHeader::decode(&bytes, 3).unwrap();
        let body = &bytes[GROUP_HEADER_BYTES..read.bytes as usize];
        assert_eq!(salted_crc(3, body), read.body_crc);
        let mut records = Records::new(body);
        for payload in &payloads {
            assert_eq!(records.next().unwrap().unwrap().2, payload);
        }
        assert_eq!(records.next(), Ok(None));
    }
}
