//! Prefix columns: sorted strings, each without what it shares with the previous one. The encoding
//! for keys that are a single variable field.
//!
//! The prefix shared by all is stored once. Every [`RESTART_ROWS`] rows a string is stored whole
//! (after the common prefix), and an integer column has the offsets of these, so that a search
//! compares whole strings until 16 rows are left and walks those. Strings in any order can be
//! stored and read; to be searched, they must ascend.
//!
//! ```text
//! column   shared by all: length, bytes | 2 * length of the entries + wide | restarts: integers |
//!          entries
//! entry    shared, low 4 bits | suffix, high 4 bits | shared - 15 | suffix - 15 | suffix's bytes
//!   wide   shared u8 | suffix u8 | shared - 255 | suffix - 255 | suffix's bytes
//! ```
//!
//! The second number for a length exists only if all bits of the first are ones. `shared` counts
//! from the end of the common prefix. Entries are wide if that takes less.

use std::{cmp::Ordering, ops::Range};

use super::{
    super::Ints,
    raw::take_ints,
    scratch::Scratch,
    strings::Strings,
    traits::{StringColumn, partition},
};
use crate::{
    block::{BadBlock, RESTART_ROWS, common_prefix, varint_bytes, varint32},
    coding::{Reader, put_bytes, put_varint},
};

const BAD: BadBlock = BadBlock("a string lies outside its column");
/// What the first bits of a length can hold; for this value or more, the rest follows.
const NARROW: usize = 15;
const WIDE: usize = 255;

/// A prefix-compressed string column.
#[derive(Clone, Debug)]
pub(super) struct Prefixed<'a> {
    rows: usize,
    common: &'a [u8],
    restarts: Ints<'a>,
    wide: bool,
    entries: &'a [u8],
}

/// Reads one entry after the other.
#[derive(Clone, Copy, Debug)]
struct Entries<'a> {
    wide: bool,
    reader: Reader<'a>,
}

/// One string, as stored.
struct Entry<'a> {
    shared: usize,
    suffix: &'a [u8],
}

/// Writes a column.
pub(super) fn put(strings: &Strings, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { ints, values, bytes: entries, .. } = scratch;
    let first = strings.get(0);
    let common = if strings.ascends() {
        // Everything between two sorted strings shares what they share.
        common_prefix(first, strings.get(strings.len().saturating_sub(1)))
    } else {
        strings.iter().fold(first.len(), |common, string| common.min(common_prefix(first, string)))
    };
    let cut = |row: usize| {
        let string = &strings.get(row)[common..];
        if row.is_multiple_of(RESTART_ROWS) {
            return (0, string);
        }
        let shared = common_prefix(&strings.get(row - 1)[common..], string);
        (shared, &string[shared..])
    };
    let (mut narrow_bytes, mut wide_bytes) = (0, 0);
    for row in 0..strings.len() {
        let (shared, suffix) = cut(row);
        narrow_bytes += 1 + more_bytes(shared, NARROW) + more_bytes(suffix.len(), NARROW);
        wide_bytes += 2 + more_bytes(shared, WIDE) + more_bytes(suffix.len(), WIDE);
    }
    let wide = wide_bytes < narrow_bytes;
    let short = if wide { WIDE } else { NARROW };
    entries.clear();
    values.clear();
    for row in 0..strings.len() {
        if row.is_multiple_of(RESTART_ROWS) {
            values.push(entries.len() as u64);
        }
        let (shared, suffix) = cut(row);
        let heads = [shared.min(short) as u8, suffix.len().min(short) as u8];
        if wide {
            entries.extend_from_slice(&heads);
        } else {
            entries.push(heads[0] | heads[1] << 4);
        }
        for length in [shared, suffix.len()] {
            if let Some(more) = length.checked_sub(short) {
                put_varint(entries, more as u64);
            }
        }
        entries.extend_from_slice(suffix);
    }
    put_bytes(out, &first[..common]);
    put_varint(out, (entries.len() as u64) << 1 | u64::from(wide));
    ints.encode_direct(values, out);
    out.extend_from_slice(entries);
}

/// Bytes of the part of a length that does not fit into its first bits.
fn more_bytes(length: usize, short: usize) -> usize {
    length.checked_sub(short).map_or(0, |more| varint_bytes(more as u64))
}

impl<'a> Prefixed<'a> {
    #[inline]
    pub fn parse(reader: &mut Reader<'a>, rows: usize) -> Result<Self, BadBlock> {
        let common = reader.bytes().ok_or(BAD)?;
        let number = reader.varint().and_then(|number| usize::try_from(number).ok()).ok_or(BAD)?;
        let restarts = take_ints(reader, rows.div_ceil(RESTART_ROWS))?;
        let entries = reader.take(number >> 1).ok_or(BAD)?;
        Ok(Self { rows, common, restarts, wide: number & 1 != 0, entries })
    }

    /// The entries from a restart on.
    #[inline]
    fn restart(&self, restart: usize) -> Result<Entries<'a>, BadBlock> {
        let at = usize::try_from(self.restarts.get(restart)).map_err(|_| BAD)?;
        let rest = self.entries.get(at..).ok_or(BAD)?;
        Ok(Entries { wide: self.wide, reader: Reader::new(rest) })
    }
}

impl StringColumn for Prefixed<'_> {
    // Entries fill their bytes, and every restart points at its entry.
    fn check(&self, _: usize) -> Result<(), BadBlock> {
        self.restarts.check()?;
        let mut entries = Entries { wide: self.wide, reader: Reader::new(self.entries) };
        let mut length = 0;
        for row in 0..self.rows {
            if row.is_multiple_of(RESTART_ROWS) {
                let at = (self.entries.len() - entries.reader.rest().len()) as u64;
                if self.restarts.get(row / RESTART_ROWS) != at {
                    return Err(BadBlock("a restart does not point at its string"));
                }
                length = 0;
            }
            let entry = entries.next()?;
            if entry.shared > length {
                return Err(BAD);
            }
            length = entry.shared + entry.suffix.len();
        }
        if !entries.reader.rest().is_empty() {
            return Err(BadBlock("bytes of a string column belong to no row"));
        }
        Ok(())
    }

    fn get(&self, row: usize, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        if row >= self.rows {
            return Err(BAD);
        }
        let mut entries = self.restart(row / RESTART_ROWS)?;
        out.extend_from_slice(self.common);
        let base = out.len();
        for _ in 0..=row % RESTART_ROWS {
            entries.next()?.apply(base, out)?;
        }
        Ok(())
    }

    fn decode(
        &self,
        rows: Range<usize>,
        bytes_max: usize,
        out: &mut Strings,
    ) -> Result<(), BadBlock> {
        let Some(first) = rows.clone().next() else { return Ok(()) };
        // The previous string, without the common prefix.
        let mut last = Vec::new();
        let mut entries = self.restart(first / RESTART_ROWS)?;
        for row in first / RESTART_ROWS * RESTART_ROWS..rows.end {
            if row.is_multiple_of(RESTART_ROWS) {
                entries = self.restart(row / RESTART_ROWS)?;
            }
            entries.next()?.apply(0, &mut last)?;
            if row >= first {
                out.push_with(|bytes| {
                    bytes.extend_from_slice(self.common);
                    bytes.extend_from_slice(&last);
                    if bytes.len() > bytes_max { Err(BAD) } else { Ok(()) }
                })?;
            }
        }
        Ok(())
    }

    fn cmp(&self, row: usize, key: &[u8]) -> Result<Ordering, BadBlock> {
        if row >= self.rows {
            return Err(BAD);
        }
        let mut walk = Walk::new(self, row / RESTART_ROWS, key)?;
        for _ in 0..row % RESTART_ROWS {
            walk.next()?;
        }
        walk.next()
    }

    fn bound(&self, rows: Range<usize>, key: &[u8], after: bool) -> Result<usize, BadBlock> {
        if rows.is_empty() {
            return Ok(rows.start);
        }
        let wanted = match key.strip_prefix(self.common) {
            Some(wanted) => wanted,
            None if self.common < key => return Ok(rows.end),
            None => return Ok(rows.start),
        };
        let below = |order: Ordering| order.is_lt() || after && order.is_eq();
        // The last restart in the range that is below, or else the one in which the range starts.
        let first = rows.start / RESTART_ROWS;
        let above = partition(first + 1..(rows.end - 1) / RESTART_ROWS + 1, |restart| {
            let string = self.restart(restart)?.next()?.suffix;
            Ok(below(string.cmp(wanted)))
        })?;
        let restart = above - 1;
        let mut walk = Walk::new(self, restart, key)?;
        let start = restart * RESTART_ROWS;
        for row in start..(start + RESTART_ROWS).min(rows.end) {
            let order = walk.next()?;
            if row >= rows.start && !below(order) {
                return Ok(row);
            }
        }
        Ok((start + RESTART_ROWS).min(rows.end))
    }
}

impl<'a> Entries<'a> {
    #[inline]
    fn next(&mut self) -> Result<Entry<'a>, BadBlock> {
        let head = usize::from(self.reader.u8().ok_or(BAD)?);
        let (short, shared, suffix) = if self.wide {
            (WIDE, head, usize::from(self.reader.u8().ok_or(BAD)?))
        } else {
            (NARROW, head & NARROW, head >> 4)
        };
        let mut length = |first: usize| {
            if first < short {
                return Ok(first);
            }
            varint32(&mut self.reader).map(|more| short + more as usize).ok_or(BAD)
        };
        let (shared, suffix) = (length(shared)?, length(suffix)?);
        Ok(Entry { shared, suffix: self.reader.take(suffix).ok_or(BAD)? })
    }
}

impl Entry<'_> {
    /// Replaces the string that ends `out`, from `base` on, with the next one.
    #[inline]
    fn apply(&self, base: usize, out: &mut Vec<u8>) -> Result<(), BadBlock> {
        if self.shared > out.len() - base {
            return Err(BAD);
        }
        out.truncate(base + self.shared);
        out.extend_from_slice(self.suffix);
        Ok(())
    }
}

/// Compares consecutive strings with a key without assembling them: what a string shares with its
/// predecessor often decides.
struct Walk<'a, 'k> {
    entries: Entries<'a>,
    key: &'k [u8],
    /// How the previous string compares, and how much of the key it shares.
    order: Ordering,
    matched: usize,
    length: usize,
}

impl<'a, 'k> Walk<'a, 'k> {
    fn new(column: &Prefixed<'a>, restart: usize, key: &'k [u8]) -> Result<Self, BadBlock> {
        // If the common prefix decides the order, it does so for every string.
        let matched = common_prefix(column.common, key);
        let (order, key) = if matched == column.common.len() {
            (Ordering::Equal, &key[matched..])
        } else {
            (column.common.cmp(key), key)
        };
        let decided = order.is_ne();
        Ok(Self {
            entries: column.restart(restart)?,
            key: if decided { &[] } else { key },
            order,
            matched: if decided { usize::MAX } else { 0 },
            length: 0,
        })
    }

    /// Compares the next string.
    #[inline]
    fn next(&mut self) -> Result<Ordering, BadBlock> {
        let entry = self.entries.next()?;
        if entry.shared > self.length {
            return Err(BAD);
        }
        self.length = entry.shared + entry.suffix.len();
        if self.matched == usize::MAX {
            return Ok(self.order);
        }
        // A string that shares more than what matches of its predecessor differs from the key at
        // the same place.
        if entry.shared > self.matched {
            return Ok(self.order);
        }
        let wanted = self.key.get(entry.shared..).unwrap_or_default();
        let common = common_prefix(entry.suffix, wanted);
        self.matched = entry.shared + common;
        self.order = match (entry.suffix.get(common), wanted.get(common)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(has), Some(wants)) => has.cmp(wants),
        };
        Ok(self.order)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{model::Parts, plan::StrKind, tests::holds},
        *,
    };

    /// Shared and unshared lengths around the values at which their form grows, in runs that begin
    /// at restarts and between them.
    #[test]
    fn lengths_round_trip_where_their_form_changes() {
        for length in [NARROW - 1, NARROW, NARROW + 1, WIDE - 1, WIDE, WIDE + 1, 3 * WIDE] {
            let key = |row: u32| [vec![b'k'; length], row.to_be_bytes().to_vec()].concat();
            let tail = |row: u32| [row.to_be_bytes().to_vec(), vec![b't'; length]].concat();
            for rows in [1, RESTART_ROWS as u32, RESTART_ROWS as u32 + 1, 100] {
                let all: [Vec<Vec<u8>>; 2] =
                    [(0..rows).map(key).collect(), (0..rows).map(|row| tail(row * 300)).collect()];
                for strings in all {
                    let strings = strings.iter().map(Vec::as_slice).collect();
                    holds_if_shorter(&strings);
                }
            }
        }
    }

    /// Checks a column that may be shorter as raw, such as a single row, or rows that share
    /// nothing.
    fn holds_if_shorter(strings: &Strings) {
        let is_shared = strings.len() > 1 && common_prefix(strings.get(0), strings.get(1)) > 3;
        if is_shared {
            let column = holds(strings, Parts::default(), StrKind::Prefix);
            assert!(column.len() < strings.bytes().len());
        } else {
            holds(strings, Parts::default(), StrKind::Raw);
        }
    }
}
