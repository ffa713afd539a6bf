//! Reading the rows of one row block: seek, row i, next, previous.
//!
//! [`Rows`] is a position that does not hold the block: every call takes the bytes, so that a
//! cursor can keep the position and the pinned block side by side. The key is assembled in a buffer
//! that is reused; the payload is a range of the block.

use std::{cmp::Ordering, ops::Range};

use super::builder::TRAILER_BYTES;
use crate::{
    block::{
        BadBlock, RESTART_ROWS,
        bytes::{KeyBuf, common_prefix, varint32},
    },
    coding::Reader,
    message::Tag,
    prefetch::{CACHE_LINE_BYTES, prefetch},
};

/// The places of a block's parts. Parsing checks only what the other calls rely on without
/// checking.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    rows: u32,
    restarts: u32,
    rows_end: u32,
}

impl Shape {
    /// Reads a block's trailer.
    pub fn parse(block: &[u8]) -> Result<Shape, BadBlock> {
        let bad = BadBlock("its trailer does not fit");
        let trailer = block.len().checked_sub(TRAILER_BYTES).ok_or(bad)?;
        let counts: [u8; TRAILER_BYTES] =
            block.get(trailer..).and_then(|counts| counts.try_into().ok()).ok_or(bad)?;
        let rows = u32::from(u16::from_le_bytes([counts[0], counts[1]]));
        let restarts = u32::from(u16::from_le_bytes([counts[2], counts[3]]));
        let rows_end = trailer.checked_sub(2 * restarts as usize).ok_or(bad)?;
        if rows == 0 || restarts as usize != (rows as usize).div_ceil(RESTART_ROWS) {
            return Err(BadBlock("its counts do not agree"));
        }
        Ok(Shape { rows, restarts, rows_end: rows_end as u32 })
    }

    /// Number of rows, at least 1.
    pub fn rows(&self) -> usize {
        self.rows as usize
    }

    fn restart(&self, block: &[u8], index: u32) -> Result<usize, BadBlock> {
        let at = self.rows_end as usize + 2 * index as usize;
        let bytes = block.get(at..at + 2).ok_or(BadBlock("a restart lies outside"))?;
        Ok(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }
}

/// The parts of one row, as they are in the block.
pub(in crate::block) struct Row {
    pub tag: Tag,
    pub shared: usize,
    pub suffix: Range<usize>,
    pub payload: Range<usize>,
}

/// Iterates over the rows as stored; their order is not checked.
pub(in crate::block) fn each(
    block: &[u8],
    shape: Shape,
) -> impl Iterator<Item = Result<Row, BadBlock>> {
    let (end, mut at) = (shape.rows_end as usize, 0);
    (0..shape.rows).map(move |_| {
        let row = parse_row(block, at, end)?;
        at = row.payload.end;
        Ok(row)
    })
}

#[inline]
fn parse_row(block: &[u8], at: usize, end: usize) -> Result<Row, BadBlock> {
    const BAD: BadBlock = BadBlock("a row does not fit");
    let head = block.get(at..end).ok_or(BAD)?;
    let (tag, shared, suffix, payload, head_bytes) = match head.first_chunk::<4>() {
        // All three lengths below 128: nearly always.
        Some(four) if u32::from_le_bytes(*four) & 0x8080_8000 == 0 => {
            (four[0], four[1] as usize, four[2] as usize, four[3] as usize, 4)
        }
        _ => long_lengths(head).ok_or(BAD)?,
    };
    let suffix_at = at + head_bytes;
    let payload_at = suffix_at + suffix;
    let row_end = payload_at + payload;
    if row_end > end {
        return Err(BAD);
    }
    let tag = Tag::from_disk(tag).ok_or(BadBlock("a row has an unknown tag"))?;
    Ok(Row { tag, shared, suffix: suffix_at..payload_at, payload: payload_at..row_end })
}

#[cold]
fn long_lengths(head: &[u8]) -> Option<(u8, usize, usize, usize, usize)> {
    let mut reader = Reader::new(head);
    let tag = reader.u8()?;
    let shared = varint32(&mut reader)? as usize;
    let suffix = varint32(&mut reader)? as usize;
    let payload = varint32(&mut reader)? as usize;
    Some((tag, shared, suffix, payload, head.len() - reader.rest().len()))
}

/// A position in a block: on a row, before the first, or after the last.
#[derive(Clone, Debug)]
pub struct Rows {
    key: KeyBuf,
    tag: Tag,
    payload: Range<usize>,
    /// Number of the current row; `rows` after the last.
    row: u32,
    /// Offset of the next row.
    next: usize,
    /// When moving backward, the rows of a restart are decoded once, forward, and then served from
    /// here.
    interval: Interval,
}

/// The decoded rows of one restart.
#[derive(Clone, Debug)]
struct Interval {
    /// Number of the restart; `u32::MAX` if none.
    restart: u32,
    keys: Vec<u8>,
    rows: Vec<IntervalRow>,
}

#[derive(Clone, Debug)]
struct IntervalRow {
    key_end: usize,
    tag: Tag,
    payload: Range<usize>,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            key: KeyBuf::default(),
            tag: Tag::DELETE,
            payload: 0..0,
            row: u32::MAX,
            next: 0,
            interval: Interval { restart: u32::MAX, keys: Vec::new(), rows: Vec::new() },
        }
    }
}

impl Rows {
    /// The current key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.key.get()
    }

    /// The current tag.
    #[inline]
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The range of the current payload in the block.
    #[inline]
    pub fn payload_range(&self) -> Range<usize> {
        self.payload.clone()
    }

    /// The current payload.
    #[inline]
    pub fn payload<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        block.get(self.payload.clone()).unwrap_or_default()
    }

    /// Number of the current row.
    pub fn row(&self) -> usize {
        self.row as usize
    }

    /// Moves to the first row.
    #[inline]
    pub fn first(&mut self, block: &[u8], shape: &Shape) -> Result<(), BadBlock> {
        self.restart_at(block, shape, 0)
    }

    /// Moves to the last row.
    pub fn last(&mut self, block: &[u8], shape: &Shape) -> Result<(), BadBlock> {
        self.fill_interval(block, shape, shape.restarts - 1)?;
        self.in_interval(shape.rows - 1)
    }

    /// Moves to row `row`, which must exist: at most [`RESTART_ROWS`] rows are read.
    pub fn row_at(&mut self, block: &[u8], shape: &Shape, row: usize) -> Result<(), BadBlock> {
        assert!(row < shape.rows(), "row {row} of {}", shape.rows());
        self.restart_at(block, shape, (row / RESTART_ROWS) as u32)?;
        while self.row() < row {
            self.next(block, shape)?;
        }
        Ok(())
    }

    fn restart_at(&mut self, block: &[u8], shape: &Shape, index: u32) -> Result<(), BadBlock> {
        // A jump, perhaps into another block.
        self.interval.restart = u32::MAX;
        let at = shape.restart(block, index)?;
        let row = parse_row(block, at, shape.rows_end as usize)?;
        if row.shared != 0 {
            return Err(BadBlock("a restart row is not whole"));
        }
        self.key.replace_after(0, block.get(row.suffix.clone()).unwrap_or_default());
        self.tag = row.tag;
        self.next = row.payload.end;
        self.payload = row.payload;
        self.row = index * RESTART_ROWS as u32;
        Ok(())
    }

    /// Moves to the next row; false if this was the last.
    #[inline]
    pub fn next(&mut self, block: &[u8], shape: &Shape) -> Result<bool, BadBlock> {
        if self.row + 1 >= shape.rows {
            self.row = shape.rows;
            return Ok(false);
        }
        let row = parse_row(block, self.next, shape.rows_end as usize)?;
        let suffix = block.get(row.suffix.clone()).unwrap_or_default();
        self.row += 1;
        let ascends = if (self.row as usize).is_multiple_of(RESTART_ROWS) {
            row.shared == 0 && suffix > self.key.get()
        } else {
            // The shared prefix is the longest possible, so the first bytes after it decide.
            match (suffix.first(), self.key.get().get(row.shared)) {
                (Some(new), Some(old)) => new > old,
                (Some(_), None) => row.shared == self.key.get().len(),
                (None, _) => false,
            }
        };
        if !ascends {
            return Err(BadBlock("its keys do not ascend"));
        }
        self.key.replace_after(row.shared, suffix);
        self.tag = row.tag;
        self.next = row.payload.end;
        self.payload = row.payload;
        Ok(true)
    }

    /// Moves to the previous row; false if this was the first.
    #[inline]
    pub fn prev(&mut self, block: &[u8], shape: &Shape) -> Result<bool, BadBlock> {
        let Some(row) = self.row.min(shape.rows).checked_sub(1) else { return Ok(false) };
        let restart = row / RESTART_ROWS as u32;
        if self.interval.restart != restart {
            self.fill_interval(block, shape, restart)?;
        }
        self.in_interval(row).map(|()| true)
    }

    /// Decodes all rows of a restart.
    fn fill_interval(&mut self, block: &[u8], shape: &Shape, restart: u32) -> Result<(), BadBlock> {
        self.restart_at(block, shape, restart)?;
        self.interval.keys.clear();
        self.interval.rows.clear();
        loop {
            self.interval.keys.extend_from_slice(self.key.get());
            self.interval.rows.push(IntervalRow {
                key_end: self.interval.keys.len(),
                tag: self.tag,
                payload: self.payload.clone(),
            });
            if self.interval.rows.len() == RESTART_ROWS || !self.next(block, shape)? {
                break;
            }
        }
        self.interval.restart = restart;
        Ok(())
    }

    /// Moves to a row of the decoded restart.
    #[inline]
    fn in_interval(&mut self, row: u32) -> Result<(), BadBlock> {
        const BAD: BadBlock = BadBlock("a restart has too few rows");
        let index = row as usize % RESTART_ROWS;
        let start = match index.checked_sub(1) {
            Some(before) => self.interval.rows.get(before).ok_or(BAD)?.key_end,
            None => 0,
        };
        let IntervalRow { key_end, tag, payload } = self.interval.rows.get(index).ok_or(BAD)?;
        self.key.replace_after(0, self.interval.keys.get(start..*key_end).ok_or(BAD)?);
        self.tag = *tag;
        self.payload = payload.clone();
        self.next = payload.end;
        self.row = row;
        Ok(())
    }

    /// Moves to the first row whose key is not below `key`; false if there is none.
    pub fn seek(&mut self, block: &[u8], shape: &Shape, key: &[u8]) -> Result<bool, BadBlock> {
        self.seek_restart(block, shape, key)?;
        while self.key.get() < key {
            if !self.next(block, shape)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Moves to the last row whose key is below `key`; false if there is none.
    pub fn seek_before(
        &mut self,
        block: &[u8],
        shape: &Shape,
        key: &[u8],
    ) -> Result<bool, BadBlock> {
        if self.seek(block, shape, key)? {
            return self.prev(block, shape);
        }
        self.last(block, shape).map(|()| true)
    }

    /// Moves to the last restart row whose key is not above `key`, or to the first row.
    fn seek_restart(&mut self, block: &[u8], shape: &Shape, key: &[u8]) -> Result<(), BadBlock> {
        let (mut low, mut high) = (0, shape.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let at = shape.restart(block, middle)?;
            let row = parse_row(block, at, shape.rows_end as usize)?;
            match block.get(row.suffix).unwrap_or_default().cmp(key) {
                Ordering::Greater => high = middle,
                _ => low = middle,
            }
        }
        self.restart_at(block, shape, low)
    }
}

/// Returns the tag of `key` and the range of its payload, without assembling any key: a row's
/// shared prefix alone often decides.
pub fn find(
    block: &[u8],
    shape: &Shape,
    key: &[u8],
) -> Result<Option<(Tag, Range<usize>)>, BadBlock> {
    let end = shape.rows_end as usize;
    let (mut low, mut high) = (0, shape.restarts);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let row = parse_row(block, shape.restart(block, middle)?, end)?;
        match block.get(row.suffix).unwrap_or_default().cmp(key) {
            Ordering::Less => low = middle,
            Ordering::Equal => return Ok(Some((row.tag, row.payload))),
            Ordering::Greater => high = middle,
        }
    }
    let mut at = shape.restart(block, low)?;
    let rows = (shape.rows() - low as usize * RESTART_ROWS).min(RESTART_ROWS);
    // How much of `key` the previous row shares; all previous rows are below `key`.
    let mut matched = 0;
    for index in 0..rows {
        let row = parse_row(block, at, end)?;
        if index == 0 {
            prefetch_rows(block, at, row.payload.end - at, rows);
        }
        at = row.payload.end;
        if row.shared > matched {
            continue;
        }
        if row.shared < matched {
            return Ok(None);
        }
        let suffix = block.get(row.suffix).unwrap_or_default();
        let wanted = key.get(matched..).unwrap_or_default();
        let common = common_prefix(suffix, wanted);
        match (suffix.get(common), wanted.get(common)) {
            (None, None) => return Ok(Some((row.tag, row.payload))),
            (Some(has), Some(wants)) if has > wants => return Ok(None),
            (Some(_), None) => return Ok(None),
            _ => matched += common,
        }
    }
    Ok(None)
}

/// Prefetches the heads of `rows` rows from the one at `at` on, assuming that they are as long as
/// that one: rows of a tree usually have similar lengths, and only a row itself shows where the
/// next one starts. For rows shorter than a cache line, the processor's own prefetching suffices.
#[inline]
fn prefetch_rows(block: &[u8], at: usize, row_bytes: usize, rows: usize) {
    if row_bytes < CACHE_LINE_BYTES {
        return;
    }
    let heads = (at..block.len()).step_by(row_bytes).take(rows).skip(1);
    heads.filter_map(|head| block.get(head)).for_each(|head| prefetch(head));
}

/// Checks everything: order, lengths, tags, restarts, and that the rows fill the block exactly.
pub fn check(block: &[u8], shape: &Shape) -> Result<(), BadBlock> {
    let mut rows = Rows::default();
    let mut at = 0;
    if shape.restart(block, 0)? != 0 {
        return Err(BadBlock("its first row is not at its start"));
    }
    rows.first(block, shape)?;
    loop {
        if rows.row().is_multiple_of(RESTART_ROWS)
            && shape.restart(block, (rows.row() / RESTART_ROWS) as u32)? != at
        {
            return Err(BadBlock("a restart does not point at its row"));
        }
        at = rows.next;
        if !rows.next(block, shape)? {
            break;
        }
    }
    if at != shape.rows_end as usize {
        return Err(BadBlock("bytes between rows and restarts"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{BlockBuilder, Pushed},
        *,
    };

    fn key(i: usize) -> Vec<u8> {
        format!("key {:05}", i * 2 + 1).into_bytes()
    }

    fn build(rows: usize) -> Vec<u8> {
        let mut builder = BlockBuilder::new();
        for i in 0..rows {
            let payload = vec![b'v'; i * 7 % 200];
            assert_eq!(builder.push(&key(i), Tag::PUT, &payload, 1 << 16), Pushed::Done);
        }
        builder.finish().to_vec()
    }

    #[test]
    fn every_row_is_found_by_every_search() {
        for count in [1, 2, 15, 16, 17, 32, 100] {
            let block = build(count);
            let shape = Shape::parse(&block).unwrap();
            check(&block, &shape).unwrap();
            let mut rows = Rows::default();
            for i in 0..count {
                rows.row_at(&block, &shape, i).unwrap();
                assert_eq!(rows.key(), key(i));
                assert!(rows.seek(&block, &shape, &key(i)).unwrap());
                assert_eq!((rows.row(), rows.payload(&block).len()), (i, i * 7 % 200));
                let found = find(&block, &shape, &key(i)).unwrap().unwrap();
                assert_eq!(found, (Tag::PUT, rows.payload_range()));
                let below = format!("key {:05}", i * 2).into_bytes();
                assert_eq!(find(&block, &shape, &below).unwrap(), None);
                assert_eq!(find(&block, &shape, &below[..3]).unwrap(), None);
                assert!(rows.seek(&block, &shape, &below).unwrap());
                assert_eq!(rows.row(), i);
                assert_eq!(rows.seek_before(&block, &shape, &below).unwrap(), i > 0);
                if i > 0 {
                    assert_eq!(rows.row(), i - 1);
                }
            }
            assert!(!rows.seek(&block, &shape, b"key 99999").unwrap());
            let mut seen = count;
            while rows.prev(&block, &shape).unwrap() {
                seen -= 1;
                assert_eq!((rows.row(), rows.key()), (seen, &key(seen)[..]));
                assert_eq!(rows.payload(&block).len(), seen * 7 % 200);
            }
            assert_eq!(seen, 0);
            rows.last(&block, &shape).unwrap();
            assert_eq!(rows.key(), key(count - 1));
            if count > 2 {
                // A change of direction in the middle.
                assert!(rows.prev(&block, &shape).unwrap() && rows.prev(&block, &shape).unwrap());
                assert!(rows.next(&block, &shape).unwrap());
                assert_eq!(rows.key(), key(count - 2));
            }
        }
    }

    /// The bytes that docs/format.md shows.
    #[test]
    fn the_documented_block_matches_the_written_bytes() {
        let text = include_str!("../../../../../docs/format.md");
        let shown = text.split("The block of the rows").nth(1).unwrap();
        let shown = shown.split("\n## ").next().unwrap();
        let lines = shown.lines().filter_map(|line| line.strip_prefix("    "));
        let hex = lines.flat_map(|line| line.get(..36).unwrap_or(line).split_whitespace());
        let shown: Vec<u8> = hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let mut builder = BlockBuilder::new();
        for (key, tag, payload) in
            [("apple", Tag::PUT, "1"), ("apples", Tag::DELETE, ""), ("apply", Tag::PUT_FRESH, "22")]
        {
            let pushed = builder.push(key.as_bytes(), tag, payload.as_bytes(), 1000);
            assert_eq!(pushed, Pushed::Done);
        }
        assert_eq!(builder.finish(), shown);
    }

    #[test]
    fn any_flipped_or_cut_byte_gives_rows_or_an_error() {
        let block = build(40);
        let mut rows = Rows::default();
        let mut walk = |bytes: &[u8]| {
            let Ok(shape) = Shape::parse(bytes) else { return };
            let _ = check(bytes, &shape);
            let _ = rows.seek(bytes, &shape, b"key 00031");
            let _ = find(bytes, &shape, b"key 00031");
            let _ = rows.prev(bytes, &shape);
            if rows.first(bytes, &shape).is_ok() {
                while let Ok(true) = rows.next(bytes, &shape) {}
            }
        };
        for at in 0..block.len() {
            for value in [0, 0x7f, 0x80, 0xff, block[at] ^ 1, block[at] ^ 0x10] {
                let mut bad = block.clone();
                bad[at] = value;
                walk(&bad);
            }
            walk(&block[..at]);
            walk(&block[at..]);
        }
    }

    #[test]
    fn a_block_refuses_a_row_beyond_its_limit_but_not_its_first() {
        let mut builder = BlockBuilder::new();
        assert_eq!(builder.push(b"k", Tag::PUT, &[0; 100_000], 16384), Pushed::Done);
        assert_eq!(builder.push(b"l", Tag::PUT, b"", 16384), Pushed::Full);
        assert_eq!(builder.push(b"k", Tag::PUT, b"", 1 << 20), Pushed::Unordered);
        let block = builder.finish().to_vec();
        let shape = Shape::parse(&block).unwrap();
        check(&block, &shape).unwrap();
        assert_eq!(shape.rows(), 1);
        builder.clear();
        assert_eq!(builder.push(b"a", Tag::PUT, b"", 16384), Pushed::Done);
    }
}
