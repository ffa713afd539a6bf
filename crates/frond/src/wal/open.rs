//! Open groups: small commits at level `os` share a page of the log.
//!
//! A commit that only has to survive the death of the process needs its record in the file, but no
//! sync. The naive way is to close a group for each. That turns a record of 200 bytes into 4 KiB of
//! log: each commit touches a new page of the page cache and writes many times its bytes to disk,
//! and the log grows so fast that checkpoints and applies come early.
//!
//! So the group stays open. Its page is written as it is so far, and again when the next such
//! commit arrives, until the page is full or something needs a closed group: a sync, the clock
//! (after 100 ms), a longer record.
//!
//! Invariants
//! 1. A group is written while open only as long as it fits one page; from then on it accepts no
//!    more than one page. A kill stops a write between pages of the page cache, not within one
//!    (local file systems of Linux copy a page at once from memory that is resident). So a process
//!    that dies leaves the page either as it was before the write or as it was to be: the
//!    acknowledged commits in it are there either way.
//! 2. What is durable ends with a closed group: no later write touches a page of it (Rule: I14). A
//!    power failure may tear an open group, and so may a device that fails in the middle of the
//!    write; nothing of it has been reported durable.
//! 3. The chain continues from closed groups only: the checksum of an open one changes as it grows.
//!
//! Threads: the writer's role (`leader.rs`) is held during the write. The page is copied under the
//! log's lock, once all of its records are filled in; meanwhile others can still reserve space
//! after them.

use super::{
    group::{GroupHeader, GroupKind},
    guarantee::BUFFERS_KEPT,
    leader::StateGuard,
    log::{Log, OpenWrite, Sealed, State, Writer, count},
    segment::SEGMENT_HEADER_BYTES,
};
use crate::{
    error::{Error, Result},
    io::ALIGN,
    types::Lsn,
};

impl Sealed {
    /// The last open write, if it wrote this group in full: then the group is in the file already.
    pub(super) fn in_file(&self, open_write: Option<OpenWrite>) -> Option<OpenWrite> {
        let is_whole = |open: &OpenWrite| open.first == self.first && open.used == self.used;
        open_write.filter(|open| self.kind == GroupKind::Records && is_whole(open))
    }
}

impl Log {
    /// Everything before this position is in the log's file.
    pub(super) fn in_file(state: &State) -> Lsn {
        let open = state.open_write.map_or(Lsn(0), |open| open.end());
        state.written.max(open)
    }

    /// Takes the writer's role and writes all sealed groups, and what there is of the active one,
    /// which stays open if it can.
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
                // It is closed and written, and so is any group that comes meanwhile.
                return self.write_groups(state, target);
            }
        }
        state.writing = false;
        self.wake_sleepers(&state);
        Ok(state)
    }

    /// Whether the active group can be written and stay open. A group that starts a segment is
    /// written once. Guaranteed space needs two free buffers, which a group limited to one page
    /// cannot replace (`guarantee.rs`, invariant 3).
    fn may_stay_open(&self, state: &State) -> bool {
        let has_buffers = !state.guaranteed.is_some() || state.free.len() >= BUFFERS_KEPT;
        state.active.as_ref().is_some_and(|active| {
            let is_short = active.used <= ALIGN && active.begins_segment.is_none();
            let is_whole = active.records > 0 && self.buffers[active.buffer].is_filled();
            is_short && is_whole && has_buffers
        })
    }

    /// Writes the active group as it is, if it still can stay open.
    fn write_open<'a>(&'a self, state: StateGuard<'a>) -> Result<StateGuard<'a>> {
        // Lock order: the writer's lock comes before the state's.
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
        // The rest of the page has been zeros since the first write.
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
