//! Groups: the framed unit of the log, the buffers in which they are built, and reservations, which
//! give a record its place in a group.
//!
//! A group is a header, then records, padded with zeros to 4 KiB, so that no later write touches a
//! sector of a synced one (Rule: I14). Most groups are written once, by one writer. A group of
//! small commits at level `os` is written several times as it grows, until it is closed
//! (`leader.rs`).
//!
//! A committer reserves space inside the sequencer's critical section ([`Log::try_reserve`], O(1))
//! and copies its record outside of it ([`Log::fill`]), in parallel with others. A record longer
//! than a group is appended in fragments ([`Log::append_fragments`]). Reservations leave what is
//! guaranteed to later records (`guarantee.rs`).
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
//! 5. Order of reservations = order of records in the log (Rule: I2).
//! 6. A reservation never depends on space that does not exist: a group that would start a segment
//!    is opened only when that segment's file is ready, so a full disk refuses commits and breaks
//!    none (Promise: P13). Records that add rows also require that the reserve exists
//!    (`relief.rs`).
//! 7. At most one large record is in progress; [`Log::position`] never passes its first fragment.
//!
//! Threads: headers are pure functions. Reservations are made under the log's `state` lock; only
//! [`Log::wait_for_room`] and its callers block. [`Log::fill`] is called by all committers
//! concurrently: each frame of a buffer has its own lock, held for one memory copy, so committers
//! wait for each other only if their records share 16 KiB *and* they copy in the same nanoseconds.
//! Bytes: docs/format.md, "Log".

use super::{
    log::{Log, State},
    segment::{SEGMENT_END_BYTES, SEGMENT_HEADER_BYTES},
};
use crate::{
    bounds,
    cache::{FRAME_BYTES, Frame, FramePool},
    coding::{u32_at, u64_at},
    error::Result,
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

/// Bytes of groups that a segment of this length can hold.
pub(super) fn room_of(segment_bytes: u64) -> u64 {
    segment_bytes - SEGMENT_HEADER_BYTES - SEGMENT_END_BYTES
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

/// The group that accepts reservations.
pub(super) struct Active {
    pub buffer: usize,
    pub first: Lsn,
    pub used: usize,
    pub capacity: usize,
    pub records: u32,
    /// Length of the segment that this group starts, if it starts one.
    pub begins_segment: Option<u64>,
}

/// A closed group that waits to be written.
#[derive(Clone, Copy)]
pub(super) struct Sealed {
    pub buffer: usize,
    pub first: Lsn,
    pub used: usize,
    pub records: u32,
    pub begins_segment: Option<u64>,
    pub kind: GroupKind,
}

impl Sealed {
    pub fn end(&self) -> Lsn {
        Lsn(self.first.0 + padded(self.used) as u64)
    }

    /// The last open write, if it wrote this group in full: then the group is in the file already.
    pub fn in_file(&self, open_write: Option<OpenWrite>) -> Option<OpenWrite> {
        let is_whole = |open: &OpenWrite| open.first == self.first && open.used == self.used;
        open_write.filter(|open| self.kind == GroupKind::Records && is_whole(open))
    }
}

/// The file's copy of a group that was written while open (`leader.rs`).
#[derive(Clone, Copy)]
pub(super) struct OpenWrite {
    pub first: Lsn,
    pub used: usize,
    /// Checksum of the header that was written.
    pub checksum: u32,
}

impl OpenWrite {
    pub fn end(&self) -> Lsn {
        Lsn(self.first.0 + self.used as u64)
    }
}

/// Space that the last fragment of a large record leaves for what the sequencer adds.
pub const FRAGMENT_ROOM: usize = 64;

/// The purpose of a record, which decides whether it may take the reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogUse {
    /// Adds data: refused while there is no reserve.
    Rows,
    /// Frees space eventually, or is needed to free space: may take the reserve.
    Relief,
}

impl LogUse {
    /// `Relief` for a record that only deletes, else `Rows`.
    pub fn relief_if(relieves: bool) -> Self {
        if relieves && !plant!("wal: deletes have no reserve") { Self::Relief } else { Self::Rows }
    }
}

/// Space in the log for one record. It must be filled soon, without waiting for the log.
#[derive(Debug)]
pub struct Reservation {
    buffer: usize,
    offset: usize,
    payload: usize,
    piece: Piece,
    lsn: Lsn,
}

impl Reservation {
    /// The record's position.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
}

/// All fragments but the last of a large record, already in the log. No other large record can
/// start while this exists. If it is dropped without [`Log::try_reserve_last`], the record does not
/// exist.
pub struct Fragments<'a> {
    log: &'a Log,
    log_use: LogUse,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Fragments<'_> {
    fn drop(&mut self) {
        self.log.state.lock().unwrap().large_from = None;
    }
}

/// Number of free buffers that other records do not use while any space is guaranteed. A log has at
/// least one buffer more.
pub(super) const BUFFERS_KEPT: usize = 2;

/// The amount of guaranteed space.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct GuaranteedSpace {
    /// Bytes of the records within a buffer.
    pub records: usize,
    /// Bytes within a segment, each record padded to a group of its own.
    pub groups: u64,
    /// The longest of those groups since nothing was guaranteed: this much of a segment may be left
    /// over at its end.
    longest: u64,
}

impl GuaranteedSpace {
    pub fn of(payload: usize) -> Self {
        let records = framed_bytes(payload);
        let groups = padded(GROUP_HEADER_BYTES + records) as u64;
        Self { records, groups, longest: groups }
    }

    pub fn with(self, other: Self) -> Self {
        let (records, groups) = (self.records + other.records, self.groups + other.groups);
        Self { records, groups, longest: self.longest.max(other.longest) }
    }

    pub fn without(self, other: Self) -> Self {
        let records = self.records.saturating_sub(other.records);
        let groups = self.groups.saturating_sub(other.groups);
        Self { records, groups, longest: if records > 0 { self.longest } else { 0 } }
    }

    /// True if everything guaranteed fits into `left` bytes of a segment and the segments of length
    /// `next` after it.
    fn fits(self, left: u64, next: impl Iterator<Item = u64>) -> bool {
        let rooms = [left].into_iter().chain(next.map(room_of));
        let used = rooms.map(|room| room.saturating_sub(self.longest)).sum::<u64>();
        left >= self.groups || used >= self.groups
    }

    /// True if everything guaranteed fits into half of a segment of this length.
    pub fn fits_half(self, segment_bytes: u64) -> bool {
        self.groups <= room_of(segment_bytes) / 2
    }

    pub fn is_some(self) -> bool {
        self.records > 0
    }
}

impl Log {
    /// Longest record that fits one reservation, bytes; longer ones need [`Log::append_fragments`].
    pub fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }

    /// Reserves space for a record of `bytes`: inside the sequencer, O(1), never blocks. On `None`,
    /// leave the sequencer, call [`Log::wait_for_room`] and try again. Panics if `bytes` exceeds
    /// [`Log::record_bytes_max`].
    #[must_use = "a reservation that is not filled stops the log"]
    pub fn try_reserve(&self, bytes: usize, log_use: LogUse) -> Option<Reservation> {
        self.reserve(bytes, Piece::Whole, None, log_use)
    }

    /// Reserves space for the last fragment of a large record; otherwise like [`Log::try_reserve`].
    #[must_use = "a reservation that is not filled stops the log"]
    pub fn try_reserve_last(&self, fragments: &Fragments<'_>, bytes: usize) -> Option<Reservation> {
        assert!(std::ptr::eq(fragments.log, self), "the parts of a record go to one log");
        self.reserve(bytes, Piece::Last, None, fragments.log_use)
    }

    pub(super) fn reserve(
        &self,
        payload: usize,
        piece: Piece,
        guarantee: Option<GuaranteedSpace>,
        log_use: LogUse,
    ) -> Option<Reservation> {
        assert!(payload <= self.record_bytes_max(), "a reservation fits a group");
        let bytes = framed_bytes(payload);
        let mut state = self.state.lock().unwrap();
        if state.stop.is_some() || state.closing {
            return None;
        }
        if log_use == LogUse::Rows && !state.has_reserve && !plant!("wal: rows take the reserve") {
            state.spare_wanted = true;
            return None;
        }
        if state.active.as_ref().is_some_and(|active| active.used + bytes > active.capacity) {
            if guarantee.is_none() && !Self::may_seal(&state) {
                return None;
            }
            self.seal(&mut state, GroupKind::Records);
            let last = state.sealed.back();
            if last.and_then(|last| last.in_file(state.open_write)).is_none() {
                self.work.notify_one();
            }
        }
        if state.active.is_none() {
            let is_kept = guarantee.is_none() && state.free.len() <= Self::kept_buffers(&state);
            if guarantee.is_none() && Self::would_strand(&state, bytes) {
                state.spare_wanted = true;
                return None;
            }
            if is_kept || !self.activate(&mut state, bytes) {
                return None;
            }
        }
        match guarantee {
            Some(guarantee) => Self::take_guaranteed(&mut state, guarantee),
            None if Self::leaves_guaranteed(&state, bytes) => {}
            None => {
                // Either a buffer or a segment is missing.
                let leaves = Self::leaves(&state, state.guaranteed, bytes);
                state.spare_wanted |= state.spares.is_empty() || !leaves;
                Self::close_if_empty(&mut state);
                return None;
            }
        }
        let active = state.active.as_mut()?;
        let (buffer, offset, first) = (active.buffer, active.used, active.first);
        active.used += bytes;
        active.records += 1;
        self.buffers[buffer].begin_fill();
        match piece {
            Piece::First => state.large_from = Some(first),
            Piece::Last => state.large_from = None,
            Piece::Whole | Piece::Middle => {}
        }
        drop(state);
        Some(Reservation { buffer, offset, payload, piece, lsn: Lsn(first.0 + offset as u64) })
    }

    /// Closes the active group for reservations.
    pub(super) fn seal(&self, state: &mut State, kind: GroupKind) {
        if let Some(Active { buffer, first, used, records, begins_segment, .. }) =
            state.active.take()
        {
            let sealed = Sealed { buffer, first, used, records, begins_segment, kind };
            if let Some(bytes) = begins_segment {
                (state.segment_first, state.segment_bytes) = (first, bytes);
            }
            self.counters.records.fetch_add(records.into(), Ordering::Relaxed);
            state.end = sealed.end();
            state.sealed.push_back(sealed);
        }
    }

    /// Closes a group that was opened for a record that was then refused. Otherwise a longer record
    /// would cause the empty group to be written, and its padding would be taken from the
    /// guaranteed space.
    fn close_if_empty(state: &mut State) {
        if let Some(empty) = state.active.take_if(|active| active.records == 0) {
            state.free.push(empty.buffer);
            empty.begins_segment.into_iter().for_each(|bytes| state.spares.push_front(bytes));
        }
    }

    /// Opens a group with room for `bytes`; false if there is no buffer, or no segment to begin.
    pub(super) fn activate(&self, state: &mut State, bytes: usize) -> bool {
        let used = state.end.0 - state.segment_first.0;
        let room = room_of(state.segment_bytes) - used;
        match GROUP_HEADER_BYTES as u64 + bytes as u64 > room {
            true => self.activate_in_next(state),
            false => self.activate_with(state, room, None),
        }
    }

    /// Opens a group in the segment after the current one; false if no buffer or no segment is
    /// ready.
    pub(super) fn activate_in_next(&self, state: &mut State) -> bool {
        let Some(&next) = state.spares.front() else {
            state.spare_wanted = true;
            return false;
        };
        let begins = self.activate_with(state, room_of(next), Some(next));
        if begins {
            state.spares.pop_front();
        }
        begins
    }

    fn activate_with(&self, state: &mut State, room: u64, begins_segment: Option<u64>) -> bool {
        let Some(buffer) = state.free.pop() else { return false };
        state.active = Some(Active {
            buffer,
            first: state.end,
            used: GROUP_HEADER_BYTES,
            capacity: (room as usize).min(self.options.group_bytes),
            records: 0,
            begins_segment,
        });
        true
    }

    /// Copies a record, given in parts, into its reserved space. Runs in parallel: a lock is shared
    /// only with neighbours in the same 16 KiB.
    pub fn fill(&self, reservation: &Reservation, parts: &[&[u8]]) {
        let Reservation { buffer, offset, payload, piece, .. } = *reservation;
        self.buffers[buffer].fill(offset, piece, payload, parts);
        // SeqCst: pairs with `GroupBuf::end_fill` and `wait_until_filled`.
        if self.buffers[buffer].end_fill() && self.filling_awaited.load(Ordering::SeqCst) {
            drop(self.state.lock().unwrap());
            self.progress.notify_all();
        }
    }

    /// Waits until there may be space for a reservation again; called outside the sequencer. If no
    /// other thread does so, writes groups or makes a segment itself. `Full` if the disk has no
    /// room for the next segment: nothing of the commit has happened then.
    pub fn wait_for_room(&self, log_use: LogUse) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        loop {
            self.check(&state)?;
            if !Self::has_buffer(&state) {
                state = self.wait_for_buffer(state)?;
            } else if state.spare_wanted {
                drop(state);
                return self.make_spare(log_use);
            } else {
                return Ok(());
            }
        }
    }

    /// Waits for the write that frees a buffer, or performs it.
    pub(super) fn wait_for_buffer<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>> {
        if state.writing {
            return Ok(self.sleep(state));
        }
        // The active group need not be written now; it may occupy the buffer that is kept.
        let end = if state.sealed.is_empty() { Self::reserved_end(&state) } else { state.end };
        self.write_groups(state, end)
    }

    /// Appends all fragments but the last of a large record: outside the sequencer. Where there is
    /// no space, `wait` decides when to try again. Returns the bytes for the last fragment, for
    /// [`Log::try_reserve_last`].
    pub fn append_fragments<'a>(
        &self,
        body: &'a [u8],
        log_use: LogUse,
        wait: &mut dyn FnMut() -> Result<()>,
    ) -> Result<(Fragments<'_>, &'a [u8])> {
        debug_assert!(
            body.len() <= bounds::RECORD_BYTES.len() || plant!("bounds: the writer does not look"),
            "commits refuse longer ones"
        );
        let fragments = Fragments { _turn: self.large.lock().unwrap(), log: self, log_use };
        let part_bytes = self.record_bytes_max();
        let mut rest = body;
        let mut piece = Piece::First;
        // The last fragment leaves space for what the sequencer adds: a seqno.
        while rest.len() + FRAGMENT_ROOM > part_bytes || piece == Piece::First {
            let (part, later) = rest.split_at(rest.len().saturating_sub(1).min(part_bytes));
            let reservation = loop {
                match self.reserve(part.len(), piece, None, log_use) {
                    Some(reservation) => break reservation,
                    None => wait()?,
                }
            };
            self.fill(&reservation, &[part]);
            rest = later;
            piece = Piece::Middle;
        }
        Ok((fragments, rest))
    }

    /// A position at or before every later reservation and any large record in progress: the start
    /// of a group. Called inside the sequencer.
    pub fn position(&self) -> Lsn {
        let state = self.state.lock().unwrap();
        let next = state.active.as_ref().map_or(state.end, |active| active.first);
        state.large_from.map_or(next, |from| from.min(next))
    }

    pub(super) fn seal_unless_empty(&self, state: &mut State) {
        if state.active.as_ref().is_some_and(|active| active.records > 0) {
            self.seal(state, GroupKind::Records);
        }
    }

    /// Seals the active group, unless that would leave guaranteed records without a buffer.
    pub(super) fn seal_if_it_may(&self, state: &mut State) {
        if Self::may_seal(state) {
            self.seal_unless_empty(state);
        }
    }

    /// End of what is reserved, before padding.
    pub(super) fn reserved_end(state: &State) -> Lsn {
        match &state.active {
            Some(active) if active.records > 0 => Lsn(active.first.0 + active.used as u64),
            _ => state.end,
        }
    }

    /// Reduces what is guaranteed after a record has used its part.
    pub(super) fn take_guaranteed(state: &mut State, taken: GuaranteedSpace) {
        state.guaranteed = state.guaranteed.without(taken);
    }

    /// True if `bytes` more, in the active group or in a group of their own, leave enough buffers
    /// and segments for what is guaranteed (`guarantee.rs`, invariants 2 and 3).
    pub(super) fn leaves_guaranteed(state: &State, bytes: usize) -> bool {
        if !state.guaranteed.is_some() || plant!("wal: guaranteed space is given away") {
            return true;
        }
        // One of the kept buffers may have become the active one.
        let has_buffer = state.free.len() >= BUFFERS_KEPT
            || state.active.as_ref().is_some_and(|active| {
                active.capacity.saturating_sub(active.used + bytes) >= state.guaranteed.records
            });
        has_buffer && Self::leaves(state, state.guaranteed, bytes)
    }

    /// Like `leaves_guaranteed`, for segments alone.
    pub(super) fn leaves(state: &State, guaranteed: GuaranteedSpace, bytes: usize) -> bool {
        Self::leaves_in(state, guaranteed, bytes, state.spares.len())
    }

    /// True if the last ready segment can be removed: what is guaranteed fits without it.
    pub(super) fn fits_without_last_spare(state: &State) -> bool {
        let spares = state.spares.len().saturating_sub(1);
        !state.guaranteed.is_some() || Self::leaves_in(state, state.guaranteed, 0, spares)
    }

    /// Whether `bytes` leave space for what is guaranteed in the current segment and the first
    /// `spares` ready ones.
    fn leaves_in(state: &State, guaranteed: GuaranteedSpace, bytes: usize, spares: usize) -> bool {
        let (segment_bytes, used) = match &state.active {
            Some(active) => {
                let group = padded(active.used + bytes) as u64;
                match active.begins_segment {
                    Some(segment_bytes) => (segment_bytes, group),
                    None => (state.segment_bytes, active.first.0 - state.segment_first.0 + group),
                }
            }
            None => {
                let group = if bytes > 0 { padded(GROUP_HEADER_BYTES + bytes) } else { 0 };
                (state.segment_bytes, state.end.0 - state.segment_first.0 + group as u64)
            }
        };
        let left = room_of(segment_bytes).saturating_sub(used);
        guaranteed.fits(left, state.spares.iter().copied().take(spares))
    }

    /// True if another record that starts the next segment would leave too little space: the rest
    /// of the current segment is lost then.
    pub(super) fn would_strand(state: &State, bytes: usize) -> bool {
        let group = (GROUP_HEADER_BYTES + bytes) as u64;
        let left = room_of(state.segment_bytes) - (state.end.0 - state.segment_first.0);
        let mut spares = state.spares.iter().copied();
        if !state.guaranteed.is_some()
            || group <= left
            || plant!("wal: guaranteed space is given away")
        {
            return false;
        }
        let next = spares.next().map(|next| room_of(next).saturating_sub(group));
        next.is_some_and(|next| !state.guaranteed.fits(next, spares))
    }

    /// True if the active group may be closed, for lack of space or for a write; its buffer may be
    /// one that is kept (`guarantee.rs`, invariant 3).
    pub(super) fn may_seal(state: &State) -> bool {
        state.free.len() >= Self::kept_buffers(state)
    }

    /// True if a reservation that found no space may succeed when tried again.
    pub(super) fn has_buffer(state: &State) -> bool {
        let kept = Self::kept_buffers(state);
        state.free.len() > kept || state.active.is_some() && state.free.len() >= kept
    }

    /// Free buffers that unguaranteed records must leave.
    pub(super) fn kept_buffers(state: &State) -> usize {
        match state.guaranteed.is_some() && !plant!("wal: guaranteed space is given away") {
            true => BUFFERS_KEPT,
            false => 0,
        }
    }
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
