//! Waiting until a record is durable: writing groups, syncing, and timers.
//!
//! The naive way is that each commit writes and syncs its own record: one sync per commit. Instead
//! there are two roles, each held by one thread at a time: *writer* (`State::writing`) and *syncer*
//! (`State::syncing`). Any waiting thread takes a free role and works for all; the log thread only
//! handles timers. The roles are separate so that a commit at level `os` does not wait for the
//! timer's sync. A commit at level `sync` does wait for a sync in progress before it writes:
//! records that accumulate meanwhile are written as one group, with one sync.
//!
//! A commit at level `os` only has to survive the death of the process: it needs its record in the
//! file, but no sync. The naive way is to close a group for each. That turns a record of 200 bytes
//! into 4 KiB of log: each commit touches a new page of the page cache and writes many times its
//! bytes to disk, and the log grows so fast that checkpoints and applies come early. So the group
//! stays open. Its page is written as it is so far, and again when the next such commit arrives,
//! until the page is full or something needs a closed group: a sync, the timer (after 100 ms), a
//! longer record.
//!
//! Invariants
//! 1. A sync covers what was written before the call (`written` as read before it), never what is
//!    written during it.
//! 2. A group's `synced` field is the value of `durable` before the group's write.
//! 3. A segment is synced before, or together with, the ones after it.
//! 4. An I/O error is never retried; it stops the log before any other thread is woken.
//! 5. A group is written while open only as long as it fits one page; from then on it accepts no
//!    more than one page. A kill stops a write between pages of the page cache, not within one
//!    (local file systems of Linux copy a page at once from memory that is resident). So a process
//!    that dies leaves the page either as it was before the write or as it is after it: either way
//!    it has all commits that were acknowledged.
//! 6. What is durable ends with a closed group: no later write touches a page of it (Rule: I14). A
//!    power failure may tear an open group, and so may a device that fails in the middle of the
//!    write; nothing of it has been reported durable.
//! 7. The chain continues from closed groups only: the checksum of an open one changes as it grows.
//!
//! Threads: see `log.rs`. The page of an open group is copied under the log's lock, once all of its
//! records are filled in; meanwhile others can still reserve space after them.

use std::{io, time::Duration};

use super::{
    group::{BUFFERS_KEPT, GroupHeader, GroupKind, LogUse, OpenWrite, Reservation, Sealed, padded},
    idle::Idling,
    log::{Log, State, Stop, Writer},
    segment::{self, SEGMENT_HEADER_BYTES, SegmentFile, SegmentHeader},
};
use crate::{
    error::{Error, Result},
    io::{ALIGN, AlignedBuf},
    sync::{MutexGuard, Ordering},
    types::{Durability, Lsn},
};

/// Records wait at most this long, plus one tick, to be written: with a tick every 50 ms, that is
/// 150 ms of the second that level `lazy` allows.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);
/// Writes wait at most this long, plus one tick, to be synced: this leaves a slow disk 450 ms of
/// the second that level `os` allows.
const SYNC_INTERVAL: Duration = Duration::from_millis(500);
/// An idle log records that it is synced after this time, plus one tick (90 of at most 100 ms).
const IDLE_INTERVAL: Duration = Duration::from_millis(40);

/// Interval at which [`Log::tick`] looks for space for a segment on a full disk. A commit that
/// needs a segment tries by itself.
const SPARE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) type StateGuard<'a> = MutexGuard<'a, State>;

impl Log {
    /// Waits until a filled record is as durable as `level` requires. Fails with `OutcomeUnknown`
    /// if the log fails first.
    pub fn wait(&self, reservation: &Reservation, level: Durability) -> Result<()> {
        let after = reservation.lsn().next();
        match level {
            Durability::Sync if plant!("wal: acknowledge before the sync") => {
                self.reach(after, false)
            }
            Durability::Lazy if self.stopped.load(Ordering::Acquire) => self.reach(after, false),
            Durability::Lazy => Ok(()),
            Durability::Os => self.reach(after, false),
            Durability::Sync => self.reach(after, true),
        }
        .map_err(|error| match error {
            Error::Failed(why) => Error::OutcomeUnknown(why),
            other => other,
        })
    }

    /// Writes and syncs everything reserved so far. Returns the end of the last durable group,
    /// which is at or after everything reserved. A log may start there, as the log of a copy does
    /// (`Superblock::alone`).
    pub fn sync_through_now(&self) -> Result<Lsn> {
        let mut state = self.state.lock().unwrap();
        self.check(&state)?;
        self.seal_if_it_may(&mut state);
        let end = Self::reserved_end(&state);
        drop(state);
        self.reach(end, true)?;
        Ok(self.durable())
    }

    /// Waits until `written`, or `durable`, has reached `target`; does the work if no other thread
    /// does.
    pub(super) fn reach(&self, target: Lsn, durable: bool) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(Stop::Failed(why)) = &state.stop {
                return Err(Error::Failed(why.clone()));
            }
            let reached = if durable { state.durable } else { Self::in_file(&state) };
            if reached >= target {
                return Ok(());
            }
            let to_write = state.written < target;
            let busy =
                if to_write { state.writing || durable && state.syncing } else { state.syncing };
            state = match (busy, to_write) {
                (true, _) => self.sleep(state),
                (false, true) if durable => self.write_groups(state, target)?,
                (false, true) => self.write_with_open_group(state, target)?,
                (false, false) => self.sync_files(state)?,
            };
        }
    }

    /// Takes the writer's role and writes all sealed groups, and the active one if it starts before
    /// `target`: as soon as closing it leaves the guaranteed records their buffers, at the latest
    /// after all others are written.
    pub(super) fn write_groups<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        target: Lsn,
    ) -> Result<StateGuard<'a>> {
        state.writing = true;
        loop {
            if state.active.as_ref().is_some_and(|active| active.first < target) {
                self.seal_if_it_may(&mut state);
            }
            let Some(&sealed) = state.sealed.front() else { break };
            state = self.write_sealed(state, sealed)?;
        }
        state.writing = false;
        self.wake_sleepers(&state);
        Ok(state)
    }

    /// Writes the next sealed group. The caller is the writer.
    pub(super) fn write_sealed<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        sealed: Sealed,
    ) -> Result<StateGuard<'a>> {
        state = self.wait_until_filled(state, sealed.buffer)?;
        let synced = state.durable;
        let open_write = sealed.in_file(state.open_write);
        drop(state);
        // Before the writer's lock (lock order).
        let next = match sealed.begins_segment {
            Some(_) if open_write.is_none() => self.spares.lock().unwrap().ready.pop_front(),
            _ => None,
        };
        let mut writer = self.writer.lock().unwrap();
        let begun = match open_write {
            Some(open) => {
                writer.chain = open.checksum;
                self.counters.groups.fetch_add(1, Ordering::Relaxed);
                None
            }
            None => {
                let written = self.write_group(&mut writer, sealed, synced, next);
                match written {
                    Err(_) if plant!("wal: a failed write does not poison") => None,
                    written => self.or_fail(written)?,
                }
            }
        };
        drop(writer);
        let mut state = self.state.lock().unwrap();
        if let Some(segment) = begun {
            state.live.push_back((segment.number, sealed.first));
            state.unsynced.push(segment);
        }
        state.sealed.pop_front();
        state.free.push(sealed.buffer);
        if open_write.is_none() {
            state.claimed = synced;
        }
        if sealed.records > 0 {
            state.records_end = sealed.end();
        }
        self.publish_written(&mut state, sealed.end());
        self.wake_sleepers(&state);
        Ok(state)
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
                // The group is closed and written, and so is any group that is filled meanwhile.
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
        self.counters.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        drop(writer);
        let mut state = self.state.lock().unwrap();
        self.publish_open(&mut state, OpenWrite { first, used, checksum });
        self.wake_sleepers(&state);
        Ok(state)
    }

    fn wait_until_filled<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        buffer: usize,
    ) -> Result<StateGuard<'a>> {
        if self.buffers[buffer].is_filled() {
            return Ok(state);
        }
        // SeqCst: pairs with `GroupBuf::end_fill`.
        self.filling_awaited.store(true, Ordering::SeqCst);
        while !self.buffers[buffer].is_filled() {
            if let Some(Stop::Failed(why)) = &state.stop {
                return Err(Error::Failed(why.clone()));
            }
            state = self.sleep(state);
        }
        self.filling_awaited.store(false, Ordering::SeqCst);
        Ok(state)
    }

    /// Writes one group; returns the segment if the group started one, which is `next`.
    fn write_group(
        &self,
        writer: &mut Writer,
        sealed: Sealed,
        synced: Lsn,
        next: Option<SegmentFile>,
    ) -> Result<Option<SegmentFile>> {
        if sealed.begins_segment.is_some() {
            let next = next.expect("a group begins a segment only when its file is ready");
            self.begin_segment(writer, next, sealed.first, synced)?;
        }
        let header = GroupHeader {
            first: sealed.first,
            synced,
            bytes: sealed.used as u32,
            body_crc: 0,
            predecessor: writer.chain,
            kind: sealed.kind,
            records: sealed.records,
        };
        let (frames, checksum) = self.buffers[sealed.buffer].complete(header, writer.header.salt);
        let mut rest = padded(sealed.used);
        let slices: Vec<_> = frames
            .iter()
            .map(|frame| {
                let part = rest.min(frame.len());
                rest -= part;
                io::IoSlice::new(&frame[..part])
            })
            .collect();
        let offset = SEGMENT_HEADER_BYTES + sealed.first.0 - writer.header.first.0;
        let file = &writer.segment;
        let written = file.file.write_vectored_at(&slices, offset);
        written.map_err(|error| Error::io(&file.path, "write", offset, error))?;
        writer.chain = checksum;
        self.counters.groups.fetch_add(1, Ordering::Relaxed);
        self.counters.written_bytes.fetch_add(padded(sealed.used) as u64, Ordering::Relaxed);
        Ok(sealed.begins_segment.map(|_| writer.segment.clone()))
    }

    /// Ends the current segment and writes the header of the next, whose file was made ready when
    /// its first group was opened.
    fn begin_segment(
        &self,
        writer: &mut Writer,
        segment: SegmentFile,
        first: Lsn,
        synced: Lsn,
    ) -> Result<()> {
        let end = GroupHeader {
            first,
            synced,
            bytes: super::group::GROUP_HEADER_BYTES as u32,
            body_crc: super::group::salted_crc(writer.header.salt, &[]),
            predecessor: writer.chain,
            kind: GroupKind::End,
            records: 0,
        };
        let mut block = AlignedBuf::zeroed(padded(end.bytes as usize));
        block[..end.bytes as usize].copy_from_slice(&end.encode(writer.header.salt).0);
        let offset = SEGMENT_HEADER_BYTES + first.0 - writer.header.first.0;
        writer.segment.write(&block, offset)?;

        writer.header = SegmentHeader {
            number: segment.number,
            salt: segment::salt_after(writer.header.secret, first),
            secret: self.env.rng.next_u64(),
            first,
            predecessor: writer.chain,
            resumed: false,
            synced,
            segment_bytes: segment.bytes,
            ..writer.header
        };
        segment.write(&writer.header.encode(), 0)?;
        writer.segment = segment;
        self.counters.segments.fetch_add(1, Ordering::Relaxed);
        self.counters
            .written_bytes
            .fetch_add((block.len() as u64) + SEGMENT_HEADER_BYTES, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the syncer's role: calls `fdatasync` on every segment written since the last sync.
    fn sync_files<'a>(&'a self, mut state: StateGuard<'a>) -> Result<StateGuard<'a>> {
        state.syncing = true;
        let covered = state.written;
        let mut files = state.unsynced.clone();
        if plant!("wal: skip the sync") {
            files.clear();
        }
        drop(state);
        let synced = files.iter().try_for_each(|segment| {
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
            match segment.sync_data() {
                Err(_) if plant!("wal: retry a failed sync") => segment.sync_data(),
                synced => synced,
            }
        });
        self.or_fail(synced)?;
        // Segments that are complete are read only by recovery and by feeds that are far behind.
        let complete = files.len().saturating_sub(1);
        files[..complete].iter().for_each(|segment| segment.file.evict());
        let covered = match plant!("wal: sample the covered position after the sync") {
            true => self.written(),
            false => covered,
        };
        let now = self.env.clock.now();
        let mut state = self.state.lock().unwrap();
        state.last_sync = now;
        if let Some(last) = files.last() {
            state.synced_segment = state.synced_segment.max(last.number);
        }
        // The last of these segments may have been written to meanwhile, or will be written to
        // again.
        state.unsynced.drain(..files.len().saturating_sub(1));
        state.syncing = false;
        self.publish_durable(&mut state, covered);
        self.wake_sleepers(&state);
        Ok(state)
    }

    /// Stops the log on an I/O error (invariant 4).
    pub(super) fn or_fail<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            self.fail(&error.to_string());
            Error::Failed(error.to_string())
        })
    }

    /// Everything before this position survives a power failure.
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Everything before this position survives the death of the process. It may lie within an open
    /// group.
    pub fn written(&self) -> Lsn {
        Lsn(self.written.load(Ordering::Acquire))
    }

    /// Waits up to `time` for a full group; the log thread then calls [`Log::tick`].
    pub fn wait_for_work(&self, time: Duration) {
        let state = self.state.lock().unwrap();
        // A group that another thread is already writing needs no work.
        if (state.sealed.is_empty() || state.writing) && state.stop.is_none() {
            drop(self.work.wait_timeout(state, time).unwrap());
        }
    }

    /// Does the timed work: writes full groups, writes records after 100 ms, syncs writes after 500
    /// ms, marks an idle log, makes a segment ready or gives one back. Must be called every 50 ms;
    /// without a log thread, by the owner of the clock.
    pub fn tick(&self, now: Duration) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        self.check(&state)?;
        let write_due = now.saturating_sub(state.last_write) >= WRITE_INTERVAL;
        // A sync covers closed groups only; what is acknowledged in the open group must not wait
        // for the next sync.
        let sync_due = state.durable < Self::in_file(&state)
            && now.saturating_sub(state.last_sync) >= SYNC_INTERVAL
            && !state.syncing;
        let target = if write_due || sync_due { Self::reserved_end(&state) } else { state.end };
        let has_work = state.written < target;
        if write_due && !(has_work && state.writing) {
            state.last_write = now;
        }
        if has_work && !state.writing {
            state = self.write_groups(state, target)?;
        }
        let since_sync = now.saturating_sub(state.last_sync);
        if state.durable < state.written && since_sync >= SYNC_INTERVAL && !state.syncing {
            state = self.sync_files(state)?;
        }
        // Before the mark, which does not count as activity.
        let idling = self.idling(&mut state, now);
        let since_sync = now.saturating_sub(state.last_sync);
        if since_sync >= IDLE_INTERVAL && state.claimed < state.records_end && state.is_still() {
            state = self.mark_idle(state, false)?;
        }
        drop(state);
        match idling {
            Idling::Due => self.go_idle(),
            Idling::Over => match self.make_spare(LogUse::Rows) {
                // A full disk refuses commits once they need the segment; until then it is not an
                // error.
                Err(Error::Full(_)) => {
                    self.state.lock().unwrap().spare_again = now + SPARE_INTERVAL;
                    Ok(())
                }
                other => other,
            },
            Idling::Quiet => Ok(()),
        }
    }

    /// Writes and syncs a group without records, which states that everything before it is synced;
    /// with `in_next`, in the next segment. Only for a log that [is still](State::is_still).
    pub(super) fn mark_idle<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        in_next: bool,
    ) -> Result<StateGuard<'a>> {
        let activated = match in_next {
            true => self.activate_in_next(&mut state),
            // A mark is not worth using guaranteed space, or space that deletes may need.
            false if !state.has_reserve || !Self::leaves_guaranteed(&state, 1) => false,
            false => self.activate(&mut state, 0),
        };
        if !activated {
            return Ok(state);
        }
        self.seal(&mut state, GroupKind::Idle);
        let end = state.end;
        state.moved.0 = end;
        state = self.write_groups(state, end)?;
        if state.durable < end && !state.syncing {
            state = self.sync_files(state)?;
        }
        Ok(state)
    }

    pub(super) fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.counters.waits.fetch_add(1, Ordering::Relaxed);
        state.sleepers += 1;
        let mut state = self.progress.wait(state).unwrap();
        state.sleepers -= 1;
        state
    }

    /// Like [`sleep`](Self::sleep), for at most `time`; not counted as a wait.
    pub(super) fn sleep_for(&self, mut state: MutexGuard<'_, State>, time: Duration) {
        state.sleepers += 1;
        let (mut state, _) = self.progress.wait_timeout(state, time).unwrap();
        state.sleepers -= 1;
    }

    /// Wakes sleeping threads after progress. Without sleepers it makes no system call, which would
    /// cost one per commit.
    pub(super) fn wake_sleepers(&self, state: &State) {
        if state.sleepers > 0 {
            self.progress.notify_all();
        }
    }

    /// Everything before this position is in the log's file.
    pub(super) fn in_file(state: &State) -> Lsn {
        let open = state.open_write.map_or(Lsn(0), |open| open.end());
        state.written.max(open)
    }

    pub(super) fn publish_written(&self, state: &mut State, written: Lsn) {
        state.written = written;
        self.written.store(Self::in_file(state).0, Ordering::Release);
    }

    pub(super) fn publish_open(&self, state: &mut State, open: OpenWrite) {
        state.open_write = Some(open);
        self.written.store(Self::in_file(state).0, Ordering::Release);
    }

    pub(super) fn publish_durable(&self, state: &mut State, durable: Lsn) {
        state.durable = durable;
        self.durable.store(durable.0, Ordering::Release);
    }
}
