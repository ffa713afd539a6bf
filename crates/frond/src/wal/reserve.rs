//! Reservations: how a record gets its place in the log.
//!
//! A committer reserves space inside the sequencer's critical section ([`Log::try_reserve`], O(1))
//! and copies its record outside of it ([`Log::fill`]), in parallel with others. A record longer
//! than a group is appended in fragments ([`Log::append_fragments`]).
//!
//! Invariants
//! 1. Order of reservations = order of records in the log (Rule: I2).
//! 2. A reservation never depends on space that does not exist: a group that would start a segment
//!    is opened only when that segment's file is ready, so a full disk refuses commits and breaks
//!    none (Promise: P13). Records that add rows also require that the reserve exists
//!    (`relief.rs`).
//! 3. At most one large record is in progress; [`Log::position`] never passes its first fragment.
//!
//! Threads: all. Locks as in `log.rs`; only [`Log::wait_for_room`] and its callers block.

use super::{
    group::{GROUP_HEADER_BYTES, GroupKind, Piece, framed_bytes},
    guarantee::GuaranteedSpace,
    log::{Active, Log, Sealed, State, count, room_of},
    relief::LogUse,
};
use crate::{
    bounds,
    error::Result,
    sync::{MutexGuard, Ordering},
    types::Lsn,
};

/// Space that the last fragment of a large record leaves for what the sequencer adds.
pub const FRAGMENT_ROOM: usize = 64;

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
        self.reserve(bytes, Piece::Whole, log_use)
    }

    /// Reserves space for the last fragment of a large record; otherwise like [`Log::try_reserve`].
    #[must_use = "a reservation that is not filled stops the log"]
    pub fn try_reserve_last(&self, fragments: &Fragments<'_>, bytes: usize) -> Option<Reservation> {
        assert!(std::ptr::eq(fragments.log, self), "the parts of a record go to one log");
        self.reserve(bytes, Piece::Last, fragments.log_use)
    }

    fn reserve(&self, payload: usize, piece: Piece, log_use: LogUse) -> Option<Reservation> {
        self.reserve_by(payload, piece, None, log_use)
    }

    pub(super) fn reserve_guaranteed(
        &self,
        payload: usize,
        guarantee: GuaranteedSpace,
    ) -> Option<Reservation> {
        self.reserve_by(payload, Piece::Whole, Some(guarantee), LogUse::Relief)
    }

    fn reserve_by(
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
                match self.reserve(part.len(), piece, log_use) {
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
