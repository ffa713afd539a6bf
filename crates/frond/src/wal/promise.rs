//! Room that is promised to records to come, so that their reservations cannot fail: those that commit what is
//! prepared (Rules: I12, I41).
//!
//! Room in the log is of two kinds, buffers and segments. While anything is promised, other records leave the last two free
//! buffers alone, and leave as much of the current segment and of those that are ready as the promised ones take, each in a
//! group of its own. So a disk that is full, or one that takes its time, holds up others alone.
//!
//! Two buffers are enough, whatever is being written meanwhile. The first that promised records begin may end with the
//! segment, so that they need the second; that one begins a segment and has room for all of them (invariant 1), which others
//! leave in it. Neither is closed for a write before another is back: what is written before it gives one.
//!
//! Invariants
//! 1. What is promised fits one group, and two segments: more is not promised, and whoever asks is told. One record takes at
//!    most half of the shortest segment.
//! 2. A promised reservation never meets a full disk, and waits for no write; but where a full disk had no room when it was
//!    promised ([`Log::promise_ahead`]). Others find no room then until there is enough for all that is promised.
//! 3. While anything is promised, two buffers are free, or one is and the active one takes whatever fits the segment that it
//!    ends, or the active one has room for all that is promised.
//!
//! Threads: all. A promise is an addition under the log's lock; making one may make a segment.

use super::{
    group::{GROUP_HEADER_BYTES, framed_bytes, padded},
    log::{Log, LogOptions, State, room_of},
    relief::LogUse,
    reserve::Reservation,
};
use crate::error::{Error, Result};

/// Free buffers that others leave alone while anything is promised. A log has one more.
pub(super) const BUFFERS_KEPT: usize = 2;

/// What is promised.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PromisedRoom {
    /// Bytes of records in a buffer.
    records: usize,
    /// Bytes of a segment, each record padded as a group.
    groups: u64,
    /// The longest of those groups, of all since nothing was promised: as much of a segment may be left over at its end.
    longest: u64,
}

impl PromisedRoom {
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

    /// True if it finds its place in a segment of which so much is left, and in others behind it.
    fn fits(self, left: u64, behind: impl Iterator<Item = u64>) -> bool {
        let rooms = [left].into_iter().chain(behind.map(room_of));
        let used = rooms.map(|room| room.saturating_sub(self.longest)).sum::<u64>();
        left >= self.groups || used >= self.groups
    }

    /// True if it finds its place in half of a segment of this length.
    pub fn fits_half(self, segment_bytes: u64) -> bool {
        self.groups <= room_of(segment_bytes) / 2
    }

    pub fn is_some(self) -> bool {
        self.records > 0
    }
}

/// More than can be promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PromiseRefused {
    /// What it would have come to, with others, bytes.
    pub bytes: u64,
    /// How much may be promised.
    pub max: u64,
    /// It is too long by itself; else it has room once others are taken or ended.
    pub is_alone: bool,
}

impl LogOptions {
    /// With buffers long enough to promise room to records of these lengths, as far as buffers may be: a log of a process
    /// that had more memory has promised it to them before.
    pub fn roomy_for(self, payloads: impl Iterator<Item = usize>) -> Self {
        let records = payloads
            .fold(GROUP_HEADER_BYTES, |sum, payload| sum.saturating_add(framed_bytes(payload)));
        let group_bytes = padded(records.min(Self::default().group_bytes)).max(self.group_bytes);
        Self { group_bytes, ..self }
    }
}

impl Log {
    /// Promises room for a record of `payload` bytes at most, or says why it is refused: there is too much promised already.
    /// Waits for a buffer, and makes segments if need be: `Full` if there is no room for one.
    pub fn promise(&self, payload: usize) -> Result<Result<(), PromiseRefused>> {
        let own = PromisedRoom::of(payload);
        loop {
            let mut state = self.state.lock().unwrap();
            self.check(&state)?;
            let all = state.promised.with(own);
            if let Some(refused) = self.refusal(own, all) {
                return Ok(Err(refused));
            }
            if state.free.len() < BUFFERS_KEPT {
                drop(self.wait_for_buffer(state)?);
            } else if Self::leaves(&state, all, 0) {
                (state.promised, state.is_short) = (all, false);
                return Ok(Ok(()));
            } else {
                state.spare_wanted = true;
                drop(state);
                self.make_spare(LogUse::Rows)?;
            }
        }
    }

    /// The same, of room that is to be kept even if a full disk has none now: then others find none either until there is.
    /// Says whether there is.
    pub fn promise_ahead(&self, payload: usize) -> Result<Result<bool, PromiseRefused>> {
        match self.promise(payload) {
            Err(Error::Full(_)) => {}
            promised => return Ok(promised?.map(|()| true)),
        }
        let mut state = self.state.lock().unwrap();
        self.check(&state)?;
        while state.free.len() < BUFFERS_KEPT {
            state = self.wait_for_buffer(state)?;
        }
        (state.promised, state.is_short) = (state.promised.with(PromisedRoom::of(payload)), true);
        Ok(Ok(false))
    }

    /// Why `own` is not promised beside others, which together come to `all`; of the moment in which it is decided, or
    /// what another promise's end has changed would be told as the reason.
    fn refusal(&self, own: PromisedRoom, all: PromisedRoom) -> Option<PromiseRefused> {
        let group = (self.options.begun_bytes_max() - GROUP_HEADER_BYTES) as u64;
        let first_bytes = self.options.first_segment_bytes;
        let segments = 2 * room_of(self.options.segment_bytes);
        let refused = |bytes, max, alone| PromiseRefused { bytes, max, is_alone: alone > max };
        if !own.fits_half(first_bytes) {
            return Some(refused(own.groups, room_of(first_bytes) / 2, own.groups));
        }
        if all.records as u64 > group {
            return Some(refused(all.records as u64, group, own.records as u64));
        }
        (all.groups > segments).then(|| refused(all.groups, segments, own.groups))
    }

    /// Nothing comes of a promise.
    pub fn end_promise(&self, payload: usize) {
        let mut state = self.state.lock().unwrap();
        state.promised = state.promised.without(PromisedRoom::of(payload));
    }

    /// Takes what was promised: as [`Log::try_reserve`], of `bytes`, by a promise of `payload`.
    #[must_use = "a reservation that is not filled stops the log"]
    pub fn try_reserve_promised(&self, bytes: usize, payload: usize) -> Option<Reservation> {
        debug_assert!(bytes <= payload, "no more than was promised");
        self.reserve_promised(bytes, PromisedRoom::of(payload))
    }

    /// Waits until there may be some of the room that was promised before there was any. Else there is none for the log
    /// takes nothing any more: says why.
    pub fn wait_for_promised(&self) -> Result<()> {
        let state = self.state.lock().unwrap();
        self.check(&state)?;
        if !state.is_short {
            return Err(Error::Failed("room that was promised in the log is not there".into()));
        }
        drop(state);
        self.wait_for_room(LogUse::Relief)
    }

    /// What stays promised once a record has taken its part.
    pub(super) fn settle(state: &mut State, taken: PromisedRoom) {
        state.promised = state.promised.without(taken);
    }

    /// True if so many bytes more, in the active group or in one of their own, leave room for what is promised.
    pub(super) fn leaves_promised(state: &State, bytes: usize) -> bool {
        if !state.promised.is_some() || plant!("wal: promised room is given away") {
            return true;
        }
        // The last that was kept may have become the active one.
        let has_buffer = state.free.len() >= BUFFERS_KEPT
            || state.active.as_ref().is_some_and(|active| {
                active.capacity.saturating_sub(active.used + bytes) >= state.promised.records
            });
        has_buffer && Self::leaves(state, state.promised, bytes)
    }

    /// The same of segments alone.
    pub(super) fn leaves(state: &State, promised: PromisedRoom, bytes: usize) -> bool {
        Self::leaves_in(state, promised, bytes, state.spares.len())
    }

    /// True if the last segment that is ready could go: what is promised fits without it.
    pub(super) fn fits_without_last_spare(state: &State) -> bool {
        let spares = state.spares.len().saturating_sub(1);
        !state.promised.is_some() || Self::leaves_in(state, state.promised, 0, spares)
    }

    /// Whether so many bytes leave room for what is promised in the current segment and the first so many that are ready.
    fn leaves_in(state: &State, promised: PromisedRoom, bytes: usize, spares: usize) -> bool {
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
        promised.fits(left, state.spares.iter().copied().take(spares))
    }

    /// True if a record of others that begins the next segment would leave too little behind: what is left of the current one
    /// is lost then.
    pub(super) fn would_strand(state: &State, bytes: usize) -> bool {
        let group = (GROUP_HEADER_BYTES + bytes) as u64;
        let left = room_of(state.segment_bytes) - (state.end.0 - state.segment_first.0);
        let mut spares = state.spares.iter().copied();
        if !state.promised.is_some() || group <= left || plant!("wal: promised room is given away")
        {
            return false;
        }
        let next = spares.next().map(|next| room_of(next).saturating_sub(group));
        next.is_some_and(|next| !state.promised.fits(next, spares))
    }

    /// True if the active group may be closed, for want of room or for a write: it may be in a buffer that is kept.
    pub(super) fn may_seal(state: &State) -> bool {
        state.free.len() >= Self::kept_buffers(state)
    }

    /// True if a reservation that found no room has reason to come again.
    pub(super) fn has_buffer(state: &State) -> bool {
        let kept = Self::kept_buffers(state);
        state.free.len() > kept || state.active.is_some() && state.free.len() >= kept
    }

    /// Free buffers that are not others'.
    pub(super) fn kept_buffers(state: &State) -> usize {
        match state.promised.is_some() && !plant!("wal: promised room is given away") {
            true => BUFFERS_KEPT,
            false => 0,
        }
    }
}
