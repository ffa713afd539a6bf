//! Guaranteed space: space in the log that is set aside for later records, so that their
//! reservations cannot fail.
//!
//! It is used by the records that commit prepared transactions (Rules: I12, I41). Log space
//! consists of two resources, buffers and segments. While any space is guaranteed, other records do
//! not use the last two free buffers. They also leave as much of the current segment, and of the
//! segments that are ready, as the guaranteed records take, each in a group of its own
//! (`Log::leaves_guaranteed`). So a full or slow disk delays only the other records.
//!
//! Two buffers are enough, whatever is being written meanwhile. The first group that guaranteed
//! records start may end with the segment, so that they need the second buffer. The second group
//! starts a segment and has room for all guaranteed records (invariant 1), which other records
//! leave free. Neither group is closed for a write before another buffer is free again: the write
//! of an earlier group frees one.
//!
//! Invariants
//! 1. All guaranteed records fit into one group, and into two segments: a request for more is
//!    refused with the reason. One record takes at most half of the shortest segment.
//! 2. A guaranteed reservation never meets a full disk and never waits for a write. The exception
//!    is space that a full disk did not have when it was guaranteed ([`Log::guarantee_ahead`]):
//!    then other records get no space until there is enough for everything guaranteed.
//! 3. While anything is guaranteed, one of these holds: two buffers are free; one is free, and the
//!    active one takes whatever fits the segment that it ends; or the active one has room for
//!    everything guaranteed.
//!
//! Threads: all. Locks as in `log.rs`. Cost of guaranteeing space: an addition under the log's
//! lock, and sometimes the creation of a segment.

use super::{
    group::{
        BUFFERS_KEPT, GROUP_HEADER_BYTES, GuaranteedSpace, LogUse, Piece, Reservation,
        framed_bytes, padded, room_of,
    },
    log::{Log, LogOptions},
};
use crate::error::{Error, Result};

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
            self.check(&state)?;
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
}
