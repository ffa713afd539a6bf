//! Reservations: how a record gets its place in the log.
//!
//! A committer reserves room inside the sequencer's critical section ([`Log::try_reserve`], O(1)) and
//! copies its record outside of it ([`Log::fill`]), in parallel with others. A record longer than a
//! group goes in parts ([`Log::append_fragments`]).
//!
//! Invariants
//! 1. Order of reservations = order of records in the log (Rule: I2).
//! 2. A reservation never depends on room that is not there: a group that would begin a segment is
//!    opened only when that segment's file is ready, so a full disk refuses commits and breaks none
//!    (Promise: P13). Records of rows depend on the reserve, too (`relief.rs`).
//! 3. At most one large record is on its way; [`Log::position`] never passes its first part.
//!
//! Threads: all. Locks as in `log.rs`; nothing here blocks but [`Log::wait_for_room`] and what calls it.

use super::{
    group::{GROUP_HEADER_BYTES, GroupKind, Piece, framed_bytes},
    log::{Active, Log, Sealed, State, count, room_of},
    promise::PromisedRoom,
    relief::LogUse,
};
use crate::{
    bounds,
    error::Result,
    sync::{MutexGuard, Ordering},
    types::Lsn,
};

/// Room that the last part of a large record keeps for what the sequencer adds.
pub const FRAGMENT_ROOM: usize = 64;

/// Room in the log for one record. Must be filled, soon, and without waiting for the log.
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

/// All but the last part of a large record, in the log; no other large record can begin while this
/// lives. Dropped without [`Log::try_reserve_last`], the record does not exist.
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
    /// Longest record that one reservation takes, bytes; longer ones go through
    /// [`Log::append_fragments`].
    pub fn record_bytes_max(&self) -> usize {
        (self.options.begun_bytes_max() - GROUP_HEADER_BYTES - framed_bytes(0)) / 8 * 8
    }

    /// Reserves room for a record of `bytes`: inside the sequencer, O(1), never blocks. `None`: leave
    /// the sequencer, call [`Log::wait_for_room`], come again. Panics if `bytes` exceed
    /// [`Log::record_bytes_max`].
    #[must_use = "a reservation that is not filled stops the log"]
    pub fn try_reserve(&self, bytes: usize, log_use: LogUse) -> Option<Reservation> {
        self.reserve(bytes, Piece::Whole, log_use)
    }

    /// Like [`Log::try_reserve`], for the last part of a large record.
    #[must_use = "a reservation that is not filled stops the log"]
    pub fn try_reserve_last(&self, fragments: &Fragments<'_>, bytes: usize) -> Option<Reservation> {
        assert!(std::ptr::eq(fragments.log, self), "the parts of a record go to one log");
        self.reserve(bytes, Piece::Last, fragments.log_use)
    }

    fn reserve(&self, payload: usize, piece: Piece, log_use: LogUse) -> Option<Reservation> {
        self.reserve_by(payload, piece, None, log_use)
    }

    pub(super) fn reserve_promised(
        &self,
        payload: usize,
        promise: PromisedRoom,
    ) -> Option<Reservation> {
        self.reserve_by(payload, Piece::Whole, Some(promise), LogUse::Relief)
    }

    fn reserve_by(
        &self,
        payload: usize,
        piece: Piece,
        promise: Option<PromisedRoom>,
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
            if promise.is_none() && !Self::may_seal(&state) {
                return None;
            }
            self.seal(&mut state, GroupKind::Records);
            let last = state.sealed.back();
            if last.and_then(|last| last.in_file(state.open_write)).is_none() {
                self.work.notify_one();
            }
        }
        if state.active.is_none() {
            let is_kept = promise.is_none() && state.free.len() <= Self::kept_buffers(&state);
            if promise.is_none() && Self::would_strand(&state, bytes) {
                state.spare_wanted = true;
                return None;
            }
            if is_kept || !self.activate(&mut state, bytes) {
                return None;
            }
        }
        match promise {
            Some(promise) => Self::settle(&mut state, promise),
            None if Self::leaves_promised(&state, bytes) => {}
            None => {
                // A buffer, or a segment.
                let leaves = Self::leaves(&state, state.promised, bytes);
                state.spare_wanted |= state.spares.is_empty() || !leaves;
                Self::close_if_empty(&mut state);
                return None;
            }
        }
        let active = state.active.as_mut()?;
        let (buffer, offset, first) = (active.buffer, active.used, active.first);
        active.used += bytes;
        active.records += 1;
        self.buffers[buffer].promise();
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

    /// Takes back a group that was opened for a record which was refused then: a longer one would have it written, with
    /// nothing in it, and the promised room be less by its padding.
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

    /// The same, in the segment after the current one.
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

    /// Copies a record, given in parts, into its reserved room. Parallel: no lock is shared but with
    /// neighbours in the same 16 KiB.
    pub fn fill(&self, reservation: &Reservation, parts: &[&[u8]]) {
        let Reservation { buffer, offset, payload, piece, .. } = *reservation;
        self.buffers[buffer].fill(offset, piece, payload, parts);
        // SeqCst: see `keep_promise`.
        if self.buffers[buffer].keep_promise() && self.filling_awaited.load(Ordering::SeqCst) {
            drop(self.state.lock().unwrap());
            self.progress.notify_all();
        }
    }

    /// Waits until there may be room for a reservation again: outside the sequencer. Writes groups or
    /// makes a segment itself where nobody does. `Full` if the disk has no room for the next segment:
    /// nothing of the commit has happened then.
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

    /// Waits for the write that gives a buffer back, or does it.
    pub(super) fn wait_for_buffer<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>> {
        if state.writing {
            return Ok(self.sleep(state));
        }
        // What is in the active group, which may be in the buffer that is kept, need not go now.
        let end = if state.sealed.is_empty() { Self::reserved_end(&state) } else { state.end };
        self.write_groups(state, end)
    }

    /// Puts all but the last part of a large record into the log: outside the sequencer, and where it finds no room `wait` says when
    /// to look again. Returns what belongs to the last part, for [`Log::try_reserve_last`].
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
        // The last part keeps room for what the sequencer adds: a seqno.
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

    /// A position that no later reservation, and no large record on its way, lies before: a group's
    /// start. Called inside the sequencer.
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

    /// The same, unless promised records would be left without a buffer.
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
