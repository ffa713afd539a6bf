//! The change feed: committed records from a seqno on, out of the segments that are still there.
//!
//! A feed reads the files beside the log that writes them, never past what is durable (Rule: I30), so
//! what it read cannot be lost by a crash and read otherwise afterwards.
//!
//! Invariants
//! 1. Commits are handed out in order, each once, none left out. A feed that cannot keep this, because
//!    the log was trimmed beyond it, fails with `PositionLost`.
//! 2. Blocks are read only when they are durable, hence never change under the reader. A segment
//!    recycled meanwhile has another salt: its blocks do not verify.
//!
//! Threads: a feed has one owner, the log any number. It takes the state lock for a look at the list
//! of segments; it holds up no writer and no trimming.

use super::{
    assembly::Assembly,
    group::GROUP_HEADER_BYTES,
    log::Log,
    reader::SegmentReader,
    record::{Record, RecordItems, decode},
    recovery::read_group,
    segment::{SEGMENT_HEADER_BYTES, SegmentHeader},
};
use crate::{
    error::{Error, Place, Result},
    types::{Lsn, Seqno},
};

/// A reader of commits; see [`Log::feed`].
pub struct LogFeed {
    place: SegmentPlace,
    assembly: Assembly,
    /// The commit to be handed out next.
    next: Seqno,
    /// A commit at or before `next` was seen, so none was missed.
    proven: bool,
}

impl std::fmt::Debug for LogFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogFeed(next {}, at {})", self.next, self.place.at)
    }
}

/// A position in a segment.
struct SegmentPlace {
    header: SegmentHeader,
    reader: SegmentReader,
    at: Lsn,
    chain: u32,
}

/// What the log says about a segment.
struct Surroundings {
    is_live: bool,
    next: Option<(u64, Lsn)>,
    durable: Lsn,
}

impl Log {
    /// Follows the commits after `after`. `PositionLost` if the log begins later.
    pub fn feed(&self, after: Seqno) -> Result<LogFeed> {
        let next = after.next();
        loop {
            let live: Vec<(u64, Lsn)> = self.state.lock().unwrap().live.iter().copied().collect();
            match self.find(&live, next) {
                Ok(feed) => return Ok(feed),
                // Trimmed while we looked: look again.
                Err(error) => {
                    let trimmed = live.iter().any(|&(number, _)| !self.around(number).is_live);
                    if !trimmed || matches!(error, Error::PositionLost { .. }) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The last segment whose first commit is not after `next`.
    fn find(&self, live: &[(u64, Lsn)], next: Seqno) -> Result<LogFeed> {
        let mut oldest = None;
        for &(number, _) in live.iter().rev() {
            match self.first_commit(number)? {
                None => {}
                Some(first) if first <= next => {
                    return Ok(LogFeed {
                        place: self.open_segment(number)?,
                        assembly: Assembly::default(),
                        next,
                        proven: true,
                    });
                }
                Some(first) => oldest = Some(first),
            }
        }
        match (oldest, live.first()) {
            (None, Some(&(number, _))) => Ok(LogFeed {
                place: self.open_segment(number)?,
                assembly: Assembly::default(),
                next,
                proven: false,
            }),
            (oldest, _) => {
                let oldest = oldest.unwrap_or(next).0;
                Err(Error::PositionLost { wanted: next.0, oldest })
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
        // As the log itself opened it: never two ways to the same bytes.
        let direct = self.open_mode().direct;
        let mut reader = SegmentReader::open_as(&self.env, &self.dir, number, direct)?;
        let header = SegmentHeader::decode(reader.head()?).ok();
        let Some(header) = header.filter(|header| header.number == number) else {
            let file = reader.path().to_owned();
            return Err(Error::WalMissing { file, what: "no longer what it was" });
        };
        Ok(SegmentPlace { header, reader, at: header.first, chain: header.predecessor })
    }

    fn around(&self, number: u64) -> Surroundings {
        let state = self.state.lock().unwrap();
        let index = state.live.iter().position(|segment| segment.0 == number);
        Surroundings {
            is_live: index.is_some(),
            next: index.and_then(|index| state.live.get(index + 1).copied()),
            durable: state.durable,
        }
    }
}

impl Surroundings {
    /// How far the segment can be read now.
    fn end(&self) -> Lsn {
        self.next.map_or(self.durable, |(_, first)| first.min(self.durable))
    }
}

impl LogFeed {
    /// The commit that comes next.
    pub fn next_seqno(&self) -> Seqno {
        self.next
    }

    /// Hands out all commits that are durable by now and were not handed out before, and returns how
    /// many. An error of `visit` ends the call; the commit at which it came counts as handed out.
    pub fn poll(
        &mut self,
        log: &Log,
        visit: &mut dyn FnMut(Seqno, RecordItems<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut count = 0;
        loop {
            let number = self.place.header.number;
            let around = log.around(number);
            let read = self.read_segment(&around, &mut count, visit);
            let moved = match (read, around.next) {
                (Ok(()), Some((next, first))) if self.place.at == first => {
                    log.open_segment(next).map(|place| {
                        self.place = place;
                        true
                    })
                }
                (read, _) => read.map(|()| false),
            };
            match moved {
                Ok(true) => {}
                // Trimmed under the reader: whatever it met is no longer the log's.
                Err(error) if !log.around(number).is_live => {
                    return Err(match error {
                        Error::PositionLost { .. } => error,
                        _ => self.lost(log),
                    });
                }
                Ok(false) if !around.is_live => return Err(self.lost(log)),
                other => return other.map(|_| count),
            }
        }
    }

    fn read_segment(
        &mut self,
        around: &Surroundings,
        count: &mut u64,
        visit: &mut dyn FnMut(Seqno, RecordItems<'_>) -> Result<()>,
    ) -> Result<()> {
        let (next, proven) = (&mut self.next, &mut self.proven);
        while self.place.at < around.end() {
            self.place.read(around.end(), &mut self.assembly, &mut |lsn, payload| {
                let Record::Commit { seqno, items } = decode(lsn, payload)? else { return Ok(()) };
                if !*proven && seqno > *next {
                    return Err(Error::PositionLost { wanted: next.0, oldest: seqno.0 });
                }
                *proven = true;
                if seqno >= *next {
                    *next = seqno.next();
                    *count += 1;
                    visit(seqno, items)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn lost(&self, log: &Log) -> Error {
        let oldest = log.state.lock().unwrap().live.front().copied();
        let oldest = oldest.and_then(|(number, _)| log.first_commit(number).ok().flatten());
        let wanted = self.next.0;
        Error::PositionLost { wanted, oldest: oldest.map_or(wanted, |seqno| seqno.0) }
    }
}

impl SegmentPlace {
    /// Reads one group, which must end by `end`.
    fn read(
        &mut self,
        end: Lsn,
        assembly: &mut Assembly,
        visit: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<()> {
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
        // An error of `visit` leaves the group to be read again: what it had handed out is told by
        // its seqno.
        let before = assembly.clone();
        let taken =
            assembly.take(&group.header, self.reader.bytes(body, bytes)?, || place.clone(), visit);
        match taken {
            Ok(()) => {
                self.at = Lsn(self.at.0 + group.header.log_bytes());
                self.chain = group.checksum;
            }
            Err(_) => *assembly = before,
        }
        taken
    }
}
