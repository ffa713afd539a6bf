//! The log: its state, creation and opening.
//!
//! A committer reserves space and copies its record (`group.rs`), then waits until the record is as
//! durable as its level requires ([`Log::wait`]). If no thread is writing or syncing, a waiting
//! thread takes that role and does the work for all waiting threads (`leader.rs`). Segments are
//! made ahead and recycled (`spares.rs`).
//!
//! Invariants
//! 1. Groups are written in order.
//! 2. `durable ≤ written ≤ end`, all at group boundaries, and none ever decreases. What the file
//!    holds of an open group lies after them (`leader.rs`).
//! 3. After the first failed write or sync nothing more is written and no commit is acknowledged
//!    (Promise: P12).
//!
//! Threads: all. Lock order: `large`, `spares`, `writer`, `state`, frames. `state` is held for a
//! few instructions, never during I/O and never while copying more than a page. `writer` belongs to
//! the thread that has set `State::writing`.

use std::{collections::VecDeque, path::PathBuf, time::Duration};

use super::{
    group::{
        Active, BUFFERS_KEPT, GROUP_HEADER_BYTES, GroupBuf, GuaranteedSpace, OpenWrite, Sealed,
        framed_bytes, room_of,
    },
    recovered_tail::RecoveredTail,
    relief,
    segment::{self, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentFile, SegmentHeader},
    spares::is_full,
};
use crate::{
    bounds,
    cache::FramePool,
    error::{Error, Result},
    io::{ALIGN, AlignedBuf, Env, OpenMode},
    sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering},
    types::{Durability, Lsn, StoreId},
};

/// Sizes of the log's files and buffers. The defaults are for production; tests use smaller ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// Length of a segment file, bytes; a multiple of 4096, at least 16 KiB.
    pub segment_bytes: u64,
    /// Length of the first segment of a new log, or of one that was idle; same constraints as
    /// `segment_bytes`. Each later segment is twice as long as the one before it, up to
    /// `segment_bytes`, so a seldom used log stays small.
    pub first_segment_bytes: u64,
    /// Length of a group buffer, bytes; reduced to what fits a segment.
    pub group_bytes: usize,
    /// Number of group buffers, at least 3.
    pub groups: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        // 4 × 1 MiB: at 150 MB/s of log the buffers hold 27 ms of commits, more than a write takes.
        Self {
            segment_bytes: 16 << 20,
            first_segment_bytes: 1 << 20,
            group_bytes: 1 << 20,
            groups: 4,
        }
    }
}

impl LogOptions {
    fn checked(mut self) -> Result<Self> {
        self.first_segment_bytes = self.first_segment_bytes.min(self.segment_bytes);
        let fits = |bytes: u64| {
            (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes)
                && bytes.is_multiple_of(ALIGN as u64)
        };
        if !fits(self.segment_bytes)
            || !fits(self.first_segment_bytes)
            || self.groups <= BUFFERS_KEPT
        {
            let why = "a log segment has 16 KiB to 1 GiB in steps of 4 KiB, and 3 groups or more";
            return Err(Error::InvalidArgument(why.into()));
        }
        let room = room_of(self.segment_bytes) as usize;
        let mut bytes = self.group_bytes.min(room);
        if !bounds::GROUP_BYTES.admits(bytes) {
            bytes = bounds::GROUP_BYTES.len();
        }
        self.group_bytes = (bytes / ALIGN * ALIGN).max(ALIGN);
        Ok(self)
    }

    /// Length of the segment that follows one of `bytes`.
    pub(super) fn after(&self, bytes: u64) -> u64 {
        (2 * bytes).min(self.segment_bytes)
    }

    /// The next length to try when the disk has no room for a segment of `bytes`: half, but at
    /// least the first segment's.
    pub(super) fn before(&self, bytes: u64) -> u64 {
        let half = bytes / 2 / ALIGN as u64 * ALIGN as u64;
        half.max(self.first_segment_bytes)
    }

    /// Longest group that can be opened for one reservation, bytes: it fits every segment.
    pub(super) fn begun_bytes_max(&self) -> usize {
        self.group_bytes.min(room_of(self.first_segment_bytes) as usize)
    }

    /// Longest record that fits such a group, bytes.
    fn record_bytes_max(&self) -> usize {
        (self.begun_bytes_max() - GROUP_HEADER_BYTES - framed_bytes(0)) / 8 * 8
    }
}

/// Counters since the log was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogStats {
    /// Records in closed groups; a large record counts once per fragment.
    pub records: u64,
    /// Bytes written, padding and segment headers included.
    pub written_bytes: u64,
    /// Groups written.
    pub groups: u64,
    /// Calls of `fdatasync`.
    pub syncs: u64,
    /// Times that a thread slept until another had written or synced, or until there was space.
    pub waits: u64,
    /// Segments started.
    pub segments: u64,
    /// Segments recycled.
    pub recycled: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub records: AtomicU64,
    pub written_bytes: AtomicU64,
    pub groups: AtomicU64,
    pub syncs: AtomicU64,
    pub waits: AtomicU64,
    pub segments: AtomicU64,
    pub recycled: AtomicU64,
}

/// Why the log accepts no more records.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    Failed(String),
    Closed,
}

pub(super) struct State {
    pub active: Option<Active>,
    pub sealed: VecDeque<Sealed>,
    pub free: Vec<usize>,
    /// Where the group after the last sealed one starts.
    pub end: Lsn,
    /// First position and length of the segment that contains `end`.
    pub segment_first: Lsn,
    pub segment_bytes: u64,
    /// Lengths of the segment files that are ready and not yet assigned to a group.
    pub spares: VecDeque<u64>,
    /// Whether the reserve exists; records that add data are accepted only then (`relief.rs`).
    pub has_reserve: bool,
    /// Guaranteed space, which other reservations must leave free (`guarantee.rs`).
    pub guaranteed: GuaranteedSpace,
    /// Some space was guaranteed on a full disk, before it existed.
    pub is_short: bool,
    /// A reservation found no segment ready.
    pub spare_wanted: bool,
    /// Earliest time at which [`Log::tick`] tries again to make a segment after the disk was full.
    pub spare_again: Duration,
    pub writing: bool,
    pub syncing: bool,
    /// Number of threads that sleep until there is progress.
    pub sleepers: usize,
    /// End of the last closed group that was written.
    pub written: Lsn,
    /// The last write of a group that was open at the time.
    pub open_write: Option<OpenWrite>,
    pub durable: Lsn,
    /// Segments with writes not yet covered by a sync, oldest first; the last is the current one.
    pub unsynced: Vec<SegmentFile>,
    /// Segments up to this number have durable headers.
    pub synced_segment: u64,
    /// Segments that hold log, oldest first: number and first position.
    pub live: VecDeque<(u64, Lsn)>,
    /// Start of the group that holds the first fragment of a large record in progress.
    pub large_from: Option<Lsn>,
    pub stop: Option<Stop>,
    pub closing: bool,
    /// Keep the reserve when the log is closed.
    pub keeps_reserve: bool,
    /// End of the last written group that has records.
    pub records_end: Lsn,
    /// Highest `synced` value in any written group.
    pub claimed: Lsn,
    pub last_write: Duration,
    pub last_sync: Duration,
    /// The end of what was reserved, when [`Log::tick`] last found it changed, and the time at
    /// which it did.
    pub moved: (Lsn, Duration),
}

impl State {
    /// Whether everything reserved is durable, and no thread is writing, syncing or closing the
    /// log.
    pub fn is_still(&self) -> bool {
        self.active.is_none()
            && !self.closing
            && self.stop.is_none()
            && !self.writing
            && !self.syncing
            && self.durable == Log::reserved_end(self)
    }
}

/// The state that only the writer touches.
pub(super) struct Writer {
    pub segment: SegmentFile,
    pub header: SegmentHeader,
    /// Checksum of the last closed group.
    pub chain: u32,
    /// Buffer for a group that is written while it is open.
    pub page: AlignedBuf,
}

/// Segment files prepared in advance.
pub(super) struct Spares {
    pub ready: VecDeque<SegmentFile>,
    /// The reserve, which has no number yet.
    pub reserve: Option<SegmentFile>,
    /// Number and length of the next segment to be made.
    pub next_number: u64,
    pub next_bytes: u64,
}

/// The write-ahead log of a store.
pub struct Log {
    pub(super) env: Env,
    pub(super) dir: PathBuf,
    pub(super) level: Durability,
    pub(super) options: LogOptions,
    pub(super) record_bytes_max: usize,
    pub(super) buffers: Box<[GroupBuf]>,
    pub(super) state: Mutex<State>,
    /// Signalled after a write, a sync, a freed buffer, a filled group or a failure. Only
    /// [`sleep`](Self::sleep) and [`sleep_for`](Self::sleep_for) wait for it, since they count the
    /// sleepers.
    pub(super) progress: Condvar,
    /// Signalled when there is work for the log thread.
    pub(super) work: Condvar,
    /// Set while the writer sleeps until a group is filled.
    pub(super) filling_awaited: AtomicBool,
    pub(super) writer: Mutex<Writer>,
    pub(super) spares: Mutex<Spares>,
    pub(super) stopped: AtomicBool,
    pub(super) written: AtomicU64,
    pub(super) durable: AtomicU64,
    /// Held by the thread that appends a large record.
    pub(super) large: Mutex<()>,
    pub(super) counters: Counters,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log(written {}, durable {})", self.written(), self.durable())
    }
}

impl Log {
    /// Makes the log of a new store, at position 0, and syncs it. The directory must contain no
    /// log.
    pub fn create(
        env: Env,
        dir: impl Into<PathBuf>,
        store: StoreId,
        level: Durability,
        options: LogOptions,
    ) -> Result<Self> {
        let tail = RecoveredTail::new_store();
        Self::resume(env, dir, store, level, options, tail)
    }

    /// Continues a recovered log. Makes durable what was recovered, removes what lies after the
    /// cut, and starts a new segment with a new salt there; nothing is ever appended to a torn
    /// tail. If the disk has no room for the new segment, the log continues in an existing one
    /// (`in_place.rs`). Can be repeated: a crash in here loses nothing (Promise: P5).
    pub fn resume(
        env: Env,
        dir: impl Into<PathBuf>,
        store: StoreId,
        level: Durability,
        options: LogOptions,
        tail: RecoveredTail,
    ) -> Result<Self> {
        let (dir, options) = (dir.into(), options.checked()?);
        let direct = level == Durability::Sync;
        let number = tail.segment + 1;
        let mut tail = tail;
        tail.clear_way(&env, &dir)?;
        if plant!("wal: append after the torn tail") && tail.torn {
            tail.end.0 += ALIGN as u64;
        }
        let header = SegmentHeader {
            store,
            number,
            salt: segment::salt_after(
                tail.header.map_or_else(|| env.rng.next_u64(), |header| header.secret),
                tail.end,
            ),
            secret: env.rng.next_u64(),
            first: tail.end,
            predecessor: tail.chain,
            resumed: true,
            synced: tail.end,
            segment_bytes: options.first_segment_bytes,
        };
        let vfs = env.vfs.clone();
        let bytes = options.first_segment_bytes;
        let (segment, header) =
            match segment::make(&*vfs, &dir, number, bytes, direct, Some(&header)) {
                Err(Error::Io { source, .. })
                    if is_full(&source)
                        && tail.header.is_some()
                        && !plant!("wal: a recovery needs a new segment") =>
                {
                    tail.resume_in_place(&env, &dir, direct, header)?
                }
                made => (made?, header),
            };
        let reserve = relief::reserve_at_opening(&*vfs, &dir, bytes, direct)?;
        let pool = FramePool::new(options.groups * options.group_bytes);
        let buffers = (0..options.groups).map(|_| GroupBuf::new(&pool, options.group_bytes));
        let now = env.clock.now();
        let mut live: VecDeque<_> = tail.live.into();
        if live.back().is_none_or(|&(last, _)| last < segment.number) {
            live.push_back((segment.number, header.first));
        }
        let state = State {
            active: None,
            sealed: VecDeque::new(),
            free: (0..options.groups).rev().collect(),
            end: tail.end,
            segment_first: header.first,
            segment_bytes: segment.bytes,
            spares: VecDeque::new(),
            has_reserve: reserve.is_some(),
            guaranteed: GuaranteedSpace::default(),
            is_short: false,
            spare_wanted: false,
            spare_again: Duration::ZERO,
            writing: false,
            syncing: false,
            sleepers: 0,
            written: tail.end,
            open_write: None,
            durable: tail.end,
            unsynced: vec![segment.clone()],
            synced_segment: segment.number,
            live,
            large_from: None,
            stop: None,
            closing: false,
            keeps_reserve: false,
            records_end: tail.end,
            claimed: tail.end,
            last_write: now,
            last_sync: now,
            moved: (tail.end, now),
        };
        Ok(Self {
            dir,
            level,
            options,
            record_bytes_max: options.record_bytes_max(),
            buffers: buffers.collect(),
            state: Mutex::new(state),
            progress: Condvar::new(),
            work: Condvar::new(),
            filling_awaited: AtomicBool::new(false),
            spares: Mutex::new(Spares {
                ready: VecDeque::new(),
                reserve,
                next_number: segment.number + 1,
                next_bytes: options.after(bytes),
            }),
            writer: Mutex::new(Writer {
                segment,
                header,
                chain: tail.chain,
                page: AlignedBuf::zeroed(ALIGN),
            }),
            stopped: AtomicBool::new(false),
            written: AtomicU64::new(tail.end.0),
            durable: AtomicU64::new(tail.end.0),
            large: Mutex::new(()),
            counters: Counters::default(),
            env,
        })
    }

    /// Memory used by the group buffers, bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.options.groups * self.options.group_bytes
    }

    /// The end of everything reserved so far.
    pub fn end(&self) -> Result<Lsn> {
        let mut state = self.state.lock().unwrap();
        self.check(&state)?;
        self.seal_if_it_may(&mut state);
        Ok(Self::reserved_end(&state))
    }

    /// Current values of the counters.
    pub fn stats(&self) -> LogStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        LogStats {
            records: read(&counters.records),
            written_bytes: read(&counters.written_bytes),
            groups: read(&counters.groups),
            syncs: read(&counters.syncs),
            waits: read(&counters.waits),
            segments: read(&counters.segments),
            recycled: read(&counters.recycled),
        }
    }

    /// Stops the log permanently, because a worker died or another file of the store failed.
    /// Waiting commits get `OutcomeUnknown`.
    pub fn fail(&self, why: &str) {
        let mut state = self.state.lock().unwrap();
        state.stop.get_or_insert_with(|| Stop::Failed(why.to_owned()));
        // Release: pairs with the load in `wait`.
        self.stopped.store(true, Ordering::Release);
        drop(state);
        self.progress.notify_all();
        self.work.notify_all();
    }

    /// True if the log has moved on to a short segment, because it was idle or is new, and
    /// `position` lies before that segment.
    pub fn has_passed(&self, position: Lsn) -> bool {
        let state = self.state.lock().unwrap();
        position < state.segment_first && state.segment_bytes <= self.options.first_segment_bytes
    }

    pub(super) fn check(&self, state: &State) -> Result<()> {
        match &state.stop {
            None if state.closing => Err(Error::Closed),
            None => Ok(()),
            Some(Stop::Closed) => Err(Error::Closed),
            Some(Stop::Failed(why)) => Err(Error::Failed(why.clone())),
        }
    }

    pub(super) fn open_mode(&self) -> OpenMode {
        OpenMode { write: true, create_new: false, direct: self.level == Durability::Sync }
    }
}
