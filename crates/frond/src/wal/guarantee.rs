//! Guaranteed log space: space set aside for later records, so that their reservations cannot fail.
//! It is used by the records that commit prepared transactions (Rules: I12, I41).
//!
//! Log space consists of two resources, buffers and segments. While anything is guaranteed, other
//! records leave the last two free buffers alone. They also leave as much of the current segment,
//! and of those that are ready, as the guaranteed records take, each in a group of its own. So a
//! full or slow disk delays only the others.
//!
//! Two buffers are enough, whatever is being written meanwhile. The first group that guaranteed
//! records start may end with the segment, so that they need the second buffer. That one starts a
//! segment and has room for all of them (invariant 1), which others leave free. Neither is closed
//! for a write before another buffer is back: the write of an earlier group frees one.
//!
//! Invariants
//! 1. What is guaranteed fits one group and two segments: a request for more is refused with the
//!    reason. One record takes at most half of the shortest segment.
//! 2. A guaranteed reservation never meets a full disk and never waits for a write. The exception
//!    is space that a full disk did not have when it was guaranteed ([`Log::guarantee_ahead`]):
//!    then other records find no space until there is enough for everything guaranteed.
//! 3. While anything is guaranteed, one of these holds: two buffers are free; one is free, and the
//!    active one takes whatever fits the segment that it ends; or the active one has room for
//!    everything guaranteed.
//!
//! Threads: all. Guaranteeing space is an addition under the log's lock; it may make a segment.

use super::{
    group::{GROUP_HEADER_BYTES, framed_bytes, padded},
    log::{Log, LogOptions, State, room_of},
    relief::LogUse,
    reserve::Reservation,
};
use crate::error::{Error, Result};

/// Free buffers that other records leave alone while anything is guaranteed. A log has at least one
/// more.
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
    /// `behind` after it.
    fn fits(self, left: u64, behind: impl Iterator<Item = u64>) -> bool {
        let rooms = [left].into_iter().chain(behind.map(room_of));
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
    /// The record is too long by itself. Otherwise it has space once other guarantees are used or
    /// ended.
    pub is_alone: bool,
}

impl LogOptions {
    /// Enlarges the buffers, up to the greatest length, so that space can be guaranteed to records
    /// of these lengths. A log of a process with more memory may have guaranteed it earlier.
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

    /// Why `own` is not guaranteed in addition to others, with a total of `all`. Called under the
    /// lock of the decision; otherwise the reason could come from a state that another end of a
    /// guarantee has changed.
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
        self.reserve_guaranteed(bytes, GuaranteedSpace::of(payload))
    }

    /// Waits until there may be some of the space that was guaranteed before it existed. If nothing
    /// is missing, the log accepts no more records, and the error says why.
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
        // The last buffer that was kept may have become the active one.
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

    /// True if another record that starts the next segment would leave too little space: what is
    /// left of the current segment is lost then.
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
