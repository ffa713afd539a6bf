//! Following the log: committed records from a seqno on, read from the segments that still exist.
//!
//! A follower reads the files while the log writes them, but never past what is durable (Rule:
//! I30). So a crash cannot lose or change what it has read.
//!
//! Invariants
//! 1. Commits are handed out in order, each exactly once. A follower that cannot continue this way
//!    because the log was trimmed past it fails with `PositionLost`.
//! 2. Groups are read only once they are durable, so they never change under the reader. A segment
//!    recycled meanwhile has another salt: its groups do not verify.
//! 3. Memory: a window of the segment, and one large record while its fragments are collected.
//!
//! Threads: a follower has one owner; a log may have any number of followers. A follower takes the
//! state lock to look at the list of segments; it delays no writer and no trimming.

use std::time::Duration;

use super::{
    assembly::Assembly,
    group::GROUP_HEADER_BYTES,
    log::Log,
    reader::SegmentReader,
    record::{Record, decode},
    recovery::read_group,
    segment::{SEGMENT_HEADER_BYTES, SegmentHeader},
};
use crate::{
    error::{Error, Place, Result},
    io::Workers,
    types::{Lsn, Seqno},
};

/// Time between two readings of the clock while a follower waits.
const WAIT_SLICE: Duration = Duration::from_millis(50);

/// A callback that takes a commit: seqno, position and payload of the record, for [`decode`].
pub type TakeCommit<'a> = dyn FnMut(Seqno, Lsn, &[u8]) + 'a;

/// A reader of commits; see [`Log::feed`].
pub struct LogFeed {
    place: SegmentPlace,
    assembly: Assembly,
    /// The next commit to hand out.
    next: Seqno,
}

impl std::fmt::Debug for LogFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogFeed(next {}, at {})", self.next, self.place.at)
    }
}

/// The reason given for a commit whose segment was removed.
pub const TRIMMED: &str = "the log does not hold it any more";

/// A position in a segment.
struct SegmentPlace {
    header: SegmentHeader,
    reader: SegmentReader,
    at: Lsn,
    chain: u32,
}

/// The state of the log around a segment.
struct SegmentState {
    is_live: bool,
    next: Option<(u64, Lsn)>,
    durable: Lsn,
}

impl Log {
    /// Follows the commits from `next` on. Every commit above `applied` is in the log (`applied` is
    /// the boundary of a superblock slot, read before this call); so even for a log without commits
    /// it is known whether the wanted commit was trimmed or is still to come. Fails with
    /// `PositionLost` if the log starts later.
    pub fn feed(&self, next: Seqno, applied: Seqno) -> Result<LogFeed> {
        // There is no commit 0.
        let next = next.max(Seqno(1));
        loop {
            let live: Vec<(u64, Lsn)> = self.state.lock().unwrap().live.iter().copied().collect();
            match self.find(&live, next, applied) {
                Ok(feed) => return Ok(feed),
                // Retry if the log was trimmed during the search.
                Err(error) => {
                    let trimmed = live.iter().any(|&(number, _)| !self.around(number).is_live);
                    if !trimmed || matches!(error, Error::PositionLost { .. }) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Opens the last segment whose first commit is not after `next`.
    fn find(&self, live: &[(u64, Lsn)], next: Seqno, applied: Seqno) -> Result<LogFeed> {
        let start = |number| {
            let place = self.open_segment(number)?;
            Ok(LogFeed { place, assembly: Assembly::default(), next })
        };
        // First commits ascend; a segment in which no commit starts counts with those after it.
        let first_from = |index: usize| -> Result<Option<Seqno>> {
            for &(number, _) in live.get(index..).unwrap_or_default() {
                if let Some(first) = self.first_commit(number)? {
                    return Ok(Some(first));
                }
            }
            Ok(None)
        };
        let (mut begun, mut end) = (0, live.len());
        while begun < end {
            let middle = begun.midpoint(end);
            if first_from(middle)?.is_some_and(|first| first <= next) {
                begun = middle + 1;
            } else {
                end = middle;
            }
        }
        if let Some(&(number, _)) = begun.checked_sub(1).and_then(|last| live.get(last)) {
            return start(number);
        }
        match (first_from(0)?, live.first()) {
            (None, Some(&(number, _))) if next > applied => start(number),
            (oldest, _) => {
                let oldest = oldest.unwrap_or(applied.next()).0;
                Err(Error::PositionLost { wanted: next.0, oldest, why: TRIMMED })
            }
        }
    }

    fn first_commit(&self, number: u64) -> Result<Option<Seqno>> {
        let (mut place, mut first) = (self.open_segment(number)?, None);
        let (mut assembly, around) = (Assembly::default(), self.around(number));
        while first.is_none() && place.at < around.end() {
            place.read(around.end(), &mut assembly, &mut |lsn, payload| {
                if let Record::Commit { seqno, .. } = decode(lsn, payload)? {
                    first.get_or_insert(seqno);
                }
                Ok(())
            })?;
        }
        Ok(first)
    }

    fn open_segment(&self, number: u64) -> Result<SegmentPlace> {
        // Open it as the log does: the same bytes are never accessed in two ways (direct and
        // cached).
        let direct = self.open_mode().direct;
        let mut reader = SegmentReader::open_as(&self.env, &self.dir, number, direct)?;
        let header = SegmentHeader::decode(reader.head()?).ok();
        let Some(header) = header.filter(|header| header.number == number) else {
            let file = reader.path().to_owned();
            return Err(Error::WalMissing { file, what: "replaced by another segment" });
        };
        Ok(SegmentPlace { header, reader, at: header.first, chain: header.predecessor })
    }

    fn around(&self, number: u64) -> SegmentState {
        let state = self.state.lock().unwrap();
        let index = state.live.iter().position(|segment| segment.0 == number);
        SegmentState {
            is_live: index.is_some(),
            next: index.and_then(|index| state.live.get(index + 1).copied()),
            durable: state.durable,
        }
    }

    /// Waits until more than `seen` is durable, at most for `time`; false if nothing more is
    /// durable then. Without a log thread, this call runs the log's timers.
    pub fn wait_durable(&self, seen: Lsn, time: Duration) -> Result<bool> {
        let clock = &*self.env.clock;
        let deadline = clock.now().saturating_add(time);
        loop {
            let state = self.state.lock().unwrap();
            self.check(&state)?;
            if state.durable > seen {
                return Ok(true);
            }
            let left = deadline.saturating_sub(clock.now()).min(WAIT_SLICE);
            if left.is_zero() {
                return Ok(false);
            }
            match self.env.workers {
                Workers::Threads(_) => self.sleep_for(state, left),
                Workers::Manual => {
                    drop(state);
                    clock.sleep(left);
                    self.tick(clock.now())?;
                }
            }
        }
    }
}

impl SegmentState {
    /// The position up to which the segment can be read now.
    fn end(&self) -> Lsn {
        self.next.map_or(self.durable, |(_, first)| first.min(self.durable))
    }
}

impl LogFeed {
    /// The next commit to hand out.
    pub fn next_seqno(&self) -> Seqno {
        self.next
    }

    /// Everything before this position has been read.
    pub fn position(&self) -> Lsn {
        self.place.at
    }

    /// Reads one group of the durable log and hands out the commits that end in it and were not
    /// handed out before: none, one or many. Returns the place of the group, or `None` if there is
    /// no further one. After an error, what was taken from the group counts as not handed out and
    /// comes again.
    pub fn read(&mut self, log: &Log, take: &mut TakeCommit<'_>) -> Result<Option<Place>> {
        loop {
            let number = self.place.header.number;
            let around = log.around(number);
            if !around.is_live {
                return Err(self.lost(log));
            }
            let step = if self.place.at < around.end() {
                self.read_group(around.end(), take).map(Some)
            } else {
                match around.next {
                    Some((next, first)) if self.place.at == first => {
                        log.open_segment(next).map(|place| {
                            self.place = place;
                            None
                        })
                    }
                    _ => return Ok(None),
                }
            };
            match step {
                Ok(None) => {}
                Ok(Some(place)) => return Ok(Some(place)),
                // Trimmed during the read: what the follower found no longer belongs to the log.
                Err(_) if !log.around(number).is_live => return Err(self.lost(log)),
                Err(error) => return Err(error),
            }
        }
    }

    fn read_group(&mut self, end: Lsn, take: &mut TakeCommit<'_>) -> Result<Place> {
        let mut next = self.next;
        let place = self.place.read(end, &mut self.assembly, &mut |lsn, payload| {
            if let Record::Commit { seqno, .. } = decode(lsn, payload)?
                && seqno >= next
            {
                next = seqno.next();
                take(seqno, lsn, payload);
            }
            Ok(())
        })?;
        self.next = next;
        Ok(place)
    }

    fn lost(&self, log: &Log) -> Error {
        let oldest = log.state.lock().unwrap().live.front().copied();
        let oldest = oldest.and_then(|(number, _)| log.first_commit(number).ok().flatten());
        let wanted = self.next.0;
        let oldest = oldest.unwrap_or_default().0.max(wanted + 1);
        Error::PositionLost { wanted, oldest, why: TRIMMED }
    }
}

impl SegmentPlace {
    /// Reads one group, which must end by `end`. After an error the position is unchanged, so
    /// reading a damaged group again gives the same error.
    fn read(
        &mut self,
        end: Lsn,
        assembly: &mut Assembly,
        visit: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<Place> {
        let offset = SEGMENT_HEADER_BYTES + self.at.0 - self.header.first.0;
        self.reader.limit(SEGMENT_HEADER_BYTES + end.0 - self.header.first.0);
        let group = read_group(&mut self.reader, &self.header, self.at)?;
        let group = group.filter(|group| group.header.predecessor == self.chain);
        let Some(group) = group.filter(|group| group.header.log_bytes() > 0) else {
            let file = self.reader.path().to_owned();
            return Err(Error::WalDamaged {
                place: Place { file, offset, bytes: crate::io::ALIGN as u64 },
                first_lost: self.at.0,
                last_known: end.0,
            });
        };
        let place =
            Place { file: self.reader.path().to_owned(), offset, bytes: group.header.bytes.into() };
        let body = offset + GROUP_HEADER_BYTES as u64;
        let bytes = group.header.bytes as usize - GROUP_HEADER_BYTES;
        let taken =
            assembly.take(&group.header, self.reader.bytes(body, bytes)?, || place.clone(), visit);
        taken.map_err(|error| in_group(error, &place))?;
        self.at = Lsn(self.at.0 + group.header.log_bytes());
        self.chain = group.checksum;
        Ok(place)
    }
}

/// Adds the file to an error about a record, which knows only its position in the log.
pub fn in_group(error: Error, group: &Place) -> Error {
    match error {
        Error::Malformed { what, why, .. } => Error::Malformed { place: group.clone(), what, why },
        other => other,
    }
}
