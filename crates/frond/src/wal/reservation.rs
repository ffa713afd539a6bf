//! Reservations: how a record gets its place in the log, and how space is guaranteed for later
//! records.
//!
//! A committer reserves space inside the sequencer's critical section ([`Log::try_reserve`], O(1))
//! and copies its record outside of it ([`Log::fill`]), in parallel with others. A record longer
//! than a group is appended in fragments ([`Log::append_fragments`]).
//!
//! Guaranteed space ([`Log::guarantee`]) is set aside for later records, so that their reservations
//! cannot fail. It is used by the records that commit prepared transactions (Rules: I12, I41). Log
//! space consists of two resources, buffers and segments. While any space is guaranteed, other
//! records do not use the last two free buffers. They also leave as much of the current segment,
//! and of the segments that are ready, as the guaranteed records take, each in a group of its own.
//! So a full or slow disk delays only the other records.
//!
//! Two buffers are enough, whatever is being written meanwhile. The first group that guaranteed
//! records start may end with the segment, so that they need the second buffer. The second group
//! starts a segment and has room for all guaranteed records (invariant 4), which other records
//! leave free. Neither group is closed for a write before another buffer is free again: the write
//! of an earlier group frees one.
//!
//! Invariants
//! 1. Order of reservations = order of records in the log (Rule: I2).
//! 2. A reservation never depends on space that does not exist: a group that would start a segment
//!    is opened only when that segment's file is ready, so a full disk refuses commits and breaks
//!    none (Promise: P13). Records that add rows also require that the reserve exists
//!    (`relief.rs`).
//! 3. At most one large record is in progress; [`Log::position`] never passes its first fragment.
//! 4. All guaranteed records fit into one group, and into two segments: a request for more is
//!    refused with the reason. One record takes at most half of the shortest segment.
//! 5. A guaranteed reservation never meets a full disk and never waits for a write. The exception
//!    is space that a full disk did not have when it was guaranteed ([`Log::guarantee_ahead`]):
//!    then other records get no space until there is enough for everything guaranteed.
//! 6. While anything is guaranteed, one of these holds: two buffers are free; one is free, and the
//!    active one takes whatever fits the segment that it ends; or the active one has room for
//!    everything guaranteed.
//!
//! Threads: all. Locks as in `log.rs`; only [`Log::wait_for_room`] and its callers block. Cost of
//! guaranteeing space: an addition under the log's lock, and sometimes the creation of a segment.

use super::{
    group::{GROUP_HEADER_BYTES, GroupKind, Piece, framed_bytes, padded},
    log::{Active, Log, LogOptions, Sealed, State, count, room_of},
};
use crate::{
    bounds,
    error::{Error, Result},
    sync::{MutexGuard, Ordering},
    types::Lsn,
};

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
    records: usize,
    /// Bytes within a segment, each record padded to a group of its own.
    groups: u64,
    /// The longest of those groups since nothing was guaranteed: this much of a segment may be left
    /// over at its end.
    longest: u64,
}

impl GuaranteedSpace {
    fn of(payload: usize) -> Self {
        let records = framed_bytes(payload);
        let groups = padded(GROUP_HEADER_BYTES + records) as u64;
        Self { records, groups, longest: groups }
    }

    fn with(self, other: Self) -> Self {
        let (records, groups) = (self.records + other.records, self.groups + other.groups);
        Self { records, groups, longest: self.longest.max(other.longest) }
    }

    fn without(self, other: Self) -> Self {
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

/// The reason why space was not guaranteed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuaranteeRefused {
    /// The total that would have been guaranteed, bytes.
    pub bytes: u64,
    /// The largest total that may be guaranteed.
    pub max: u64,
    /// True if the record is too long by itself. Otherwise it can be guaranteed once other
    /// guarantees are used or ended.
    pub is_alone: bool,
}

impl Log {
    /// Longest record that fits one reservation, bytes; longer ones need [`Log::append_fragments`].
    pub fn record_bytes_max(&self) -> usize {
        (self.options.begun_bytes_max() - GROUP_HEADER_BYTES - framed_bytes(0)) / 8 * 8
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

    fn reserve(
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
            Some(guarantee) => Self::settle(&mut state, guarantee),
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
            count(&self.counters.records, records.into());
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
}

impl LogOptions {
    /// Enlarges the buffers, up to the greatest length, so that space can be guaranteed to records
    /// of these lengths: an earlier process with more memory may have guaranteed it.
    pub fn roomy_for(self, payloads: impl Iterator<Item = usize>) -> Self {
        let records = payloads
            .fold(GROUP_HEADER_BYTES, |sum, payload| sum.saturating_add(framed_bytes(payload)));
        let group_bytes = padded(records.min(Self::default().group_bytes)).max(self.group_bytes);
        Self { group_bytes, ..self }
    }
}

impl Log {
    /// Guarantees space for a record of at most `payload` bytes, or returns why not: too much is
    /// guaranteed already. Waits for a buffer and makes segments if necessary; `Full` if there is
    /// no room for one.
    pub fn guarantee(&self, payload: usize) -> Result<Result<(), GuaranteeRefused>> {
        let own = GuaranteedSpace::of(payload);
        loop {
            let mut state = self.state.lock().unwrap();
            self.check(&state)?;
            let all = state.guaranteed.with(own);
            if let Some(refused) = self.refusal(own, all) {
                return Ok(Err(refused));
            }
            if state.free.len() < BUFFERS_KEPT {
                drop(self.wait_for_buffer(state)?);
            } else if Self::leaves(&state, all, 0) {
                (state.guaranteed, state.is_short) = (all, false);
                return Ok(Ok(()));
            } else {
                state.spare_wanted = true;
                drop(state);
                self.make_spare(LogUse::Rows)?;
            }
        }
    }

    /// Like [`guarantee`](Self::guarantee), but guarantees the space even if a full disk has none
    /// now: then other records find none either until there is enough. Returns whether the space
    /// exists.
    pub fn guarantee_ahead(&self, payload: usize) -> Result<Result<bool, GuaranteeRefused>> {
        match self.guarantee(payload) {
            Err(Error::Full(_)) => {}
            guaranteed => return Ok(guaranteed?.map(|()| true)),
        }
        let mut state = self.state.lock().unwrap();
        self.check(&state)?;
        while state.free.len() < BUFFERS_KEPT {
            state = self.wait_for_buffer(state)?;
        }
        (state.guaranteed, state.is_short) =
            (state.guaranteed.with(GuaranteedSpace::of(payload)), true);
        Ok(Ok(false))
    }

    /// The reason why `own` is not guaranteed in addition to other guarantees, with a total of
    /// `all`. Called under the same lock as the decision; otherwise a guarantee could end in
    /// between, and the reason would be wrong.
    fn refusal(&self, own: GuaranteedSpace, all: GuaranteedSpace) -> Option<GuaranteeRefused> {
        let group = (self.options.begun_bytes_max() - GROUP_HEADER_BYTES) as u64;
        let first_bytes = self.options.first_segment_bytes;
        let segments = 2 * room_of(self.options.segment_bytes);
        let refused = |bytes, max, alone| GuaranteeRefused { bytes, max, is_alone: alone > max };
        if !own.fits_half(first_bytes) {
            return Some(refused(own.groups, room_of(first_bytes) / 2, own.groups));
        }
        if all.records as u64 > group {
            return Some(refused(all.records as u64, group, own.records as u64));
        }
        (all.groups > segments).then(|| refused(all.groups, segments, own.groups))
    }

    /// Ends a guarantee that is not used.
    pub fn end_guarantee(&self, payload: usize) {
        let mut state = self.state.lock().unwrap();
        state.guaranteed = state.guaranteed.without(GuaranteedSpace::of(payload));
    }

    /// Reserves `bytes` of the space that was guaranteed for `payload`; otherwise like
    /// [`Log::try_reserve`].
    #[must_use = "a reservation that is not filled stops the log"]
    pub fn try_reserve_guaranteed(&self, bytes: usize, payload: usize) -> Option<Reservation> {
        debug_assert!(bytes <= payload, "no more than was guaranteed");
        self.reserve(bytes, Piece::Whole, Some(GuaranteedSpace::of(payload)), LogUse::Relief)
    }

    /// Waits until some of the space may exist that [`guarantee_ahead`](Self::guarantee_ahead) has
    /// guaranteed without having it. If no space is missing, the log accepts no more records, and
    /// the error says why.
    pub fn wait_for_guaranteed(&self) -> Result<()> {
        let state = self.state.lock().unwrap();
        self.check(&state)?;
        if !state.is_short {
            return Err(Error::Failed("guaranteed log space is missing".into()));
        }
        drop(state);
        self.wait_for_room(LogUse::Relief)
    }

    /// Reduces what is guaranteed after a record has used its part.
    pub(super) fn settle(state: &mut State, taken: GuaranteedSpace) {
        state.guaranteed = state.guaranteed.without(taken);
    }

    /// True if `bytes` more, in the active group or in a group of their own, leave enough buffers
    /// and segments for what is guaranteed.
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
    /// one that is kept.
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
