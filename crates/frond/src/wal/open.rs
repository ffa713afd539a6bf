//! Open groups: small commits at level `os` share a page of the log.
//!
//! A commit that only has to survive the death of the process needs its record in the file, and no sync. To close a group
//! for each would make 4 KiB of log of a record of 200 bytes: a new page of the file's cache for each commit, many times the
//! bytes on the disk, and a log so long that checkpoints and applies come early. So the group stays open: its page is
//! written as it is by now, and again when the next such commit has come, until the page is full, or something needs a
//! closed group: a sync, the clock (after 100 ms), a longer record.
//!
//! Invariants
//! 1. A group is written while it is open only as long as it fits one page, and takes no more from then on. A kill stops a
//!    write between pages of the file's cache, not within one (local file systems of Linux copy a page at once from memory that is
//!    there), so that a process that dies leaves the page as it was before the write or as it was to be: the commits in it
//!    that were acknowledged are there either way.
//! 2. What is durable ends with a closed group: no later write touches a page of it (Rule: I14). A power failure may tear an
//!    open group, and so may a device that fails amid the write; nothing of it has been called durable.
//! 3. The chain goes on from a closed group: the checksum of an open one changes as it grows.
//!
//! Threads: the writer's role (`leader.rs`) is held over the write. The page is copied under the log's lock, when all of its
//! records are filled in; others go on to reserve behind them meanwhile.

use super::{
    group::{GroupHeader, GroupKind},
    leader::StateGuard,
    log::{Log, OpenWrite, Sealed, State, Writer, count},
    promise::BUFFERS_KEPT,
    segment::SEGMENT_HEADER_BYTES,
};
use crate::{
    error::{Error, Result},
    io::ALIGN,
    types::Lsn,
};

impl Sealed {
    /// The last open write, if that was of this group, and nothing came to it after that: it is in the file.
    pub(super) fn in_file(&self, open_write: Option<OpenWrite>) -> Option<OpenWrite> {
        let is_whole = |open: &OpenWrite| open.first == self.first && open.used == self.used;
        open_write.filter(|open| self.kind == GroupKind::Records && is_whole(open))
    }
}

impl Log {
    /// All before this position is in the log's file.
    pub(super) fn in_file(state: &State) -> Lsn {
        let open = state.open_write.map_or(Lsn(0), |open| open.end());
        state.written.max(open)
    }

    /// Takes the writer's role and writes all sealed groups, and what there is of the active one, which stays open if it can.
    pub(super) fn write_with_open_group<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        target: Lsn,
    ) -> Result<StateGuard<'a>> {
        state.writing = true;
        while Self::in_file(&state) < target {
            if let Some(&sealed) = state.sealed.front() {
                state = self.write_sealed(state, sealed)?;
            } else if self.may_stay_open(&state) {
                state = self.write_open(state)?;
            } else {
                // It closes, and whatever else there is.
                return self.write_groups(state, target);
            }
        }
        state.writing = false;
        self.wake_sleepers(&state);
        Ok(state)
    }

    /// Whether the active group can be written and stay open. One that begins a segment is written once; and what is promised
    /// needs two free buffers, where a page would not do (`promise.rs`, 3).
    fn may_stay_open(&self, state: &State) -> bool {
        let has_buffers = !state.promised.is_some() || state.free.len() >= BUFFERS_KEPT;
        state.active.as_ref().is_some_and(|active| {
            let is_short = active.used <= ALIGN && active.begins_segment.is_none();
            let is_whole = active.records > 0 && self.buffers[active.buffer].is_filled();
            is_short && is_whole && has_buffers
        })
    }

    /// Writes the active group as it is, if it still can stay open.
    fn write_open<'a>(&'a self, state: StateGuard<'a>) -> Result<StateGuard<'a>> {
        // Ranks: the writer's lock comes before the state's.
        drop(state);
        let mut writer = self.writer.lock().unwrap();
        let mut state = self.state.lock().unwrap();
        if !self.may_stay_open(&state) || !state.sealed.is_empty() {
            return Ok(state);
        }
        let (synced, before) = (state.durable, state.open_write);
        let Some(active) = state.active.as_mut() else { return Ok(state) };
        if !plant!("wal: an open group grows beyond its page") {
            active.capacity = active.capacity.min(ALIGN);
        }
        let (first, used) = (active.first, active.used);
        let header = GroupHeader {
            first,
            synced,
            bytes: used as u32,
            body_crc: 0,
            predecessor: writer.chain,
            kind: GroupKind::Records,
            records: active.records,
        };
        let Writer { segment, header: segment_header, page, .. } = &mut *writer;
        let checksum = self.buffers[active.buffer].copy_page(header, segment_header.salt, page);
        drop(state);
        // Behind it there are zeros since the first write.
        let is_again = before.is_some_and(|before| before.first == first);
        let bytes = if is_again && !segment.file.is_direct() { used } else { ALIGN };
        let offset = SEGMENT_HEADER_BYTES + first.0 - segment_header.first.0;
        let written = segment.file.write_at(&page[..bytes], offset);
        let path = &segment.path;
        self.or_fail(written.map_err(|error| Error::io(path, "write", offset, error)))?;
        count(&self.counters.written_bytes, bytes as u64);
        drop(writer);
        let mut state = self.state.lock().unwrap();
        self.publish_open(&mut state, OpenWrite { first, used, checksum });
        self.wake_sleepers(&state);
        Ok(state)
    }
}
