//! The delta column: frames of 32 rows, each a first value and 31 differences.
//!
//! Where values ascend by small random steps, their distance from a line is a random walk, which
//! takes many bits more than a step. The first values of all frames are a packed column of their
//! own; the least of all differences (*step*) is subtracted from each. All differences have one
//! width, or, where that is shorter, each frame has its own: the column then stores for each frame
//! the sum of the widths of a difference of this frame and all previous ones. These sums lie near a
//! line, and the width and the place of a frame follow from two of them.
//!
//! A later column of an index ascends while the columns before it stay the same, and then falls. A
//! row where the value falls is a *restart*: it is in a list, and its difference is not used.
//!
//! ```text
//! frames = 68 | width of a difference, or 255: by frame, u8
//!        | length of step, +128 if there are restarts, u8 | step, signed
//!        | first values, packed | if by frame: sums of widths, packed
//!        | if there are restarts: their number u16, their rows, their values, packed
//!        | differences - step
//! ```
//! Arithmetic is modulo 2^64, so that any values can be encoded.

use std::ops::Range;

use super::super::{
    super::BadBlock,
    bits::{Codes, Packer, pack, packed_bytes, partition, width_of},
};
use super::{
    IntKind,
    bit_packed::{self, BitPacked},
    head::{cut_signed, put_low, row_width, signed_bytes},
    tag,
    traits::{IntColumn, IntPlan, Scratch, Values},
};

const HEAD_BYTES: usize = 3;
/// In place of a width: each frame has its own.
const BY_FRAME: u8 = 255;
/// Flag in the byte with the length of the step: there are restarts.
const RESTARTS: u8 = 0x80;
/// If there is at most one fall in this many rows, falls are restarts; otherwise differences are
/// signed.
const ROWS_A_FALL_MIN: usize = 12;

/// Rows per frame.
pub const FRAME_ROWS: usize = 32;
/// Differences per frame: only between its rows.
const FRAME_DELTAS: usize = FRAME_ROWS - 1;

/// A delta column, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'a> {
    step: u64,
    firsts: BitPacked<'a>,
    widths: Widths<'a>,
    restarts: Restarts<'a>,
    deltas: &'a [u8],
}

/// Rows whose value does not follow from the previous row, and their values.
#[derive(Clone, Copy, Debug, Default)]
struct Restarts<'a> {
    count: usize,
    rows: Codes<'a>,
    values: BitPacked<'a>,
}

impl<'a> Restarts<'a> {
    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let [low, high, ..] = **rest else { return None };
        *rest = rest.get(2..)?;
        let count = usize::from(u16::from_le_bytes([low, high]));
        let rows = Codes::cut(rest, row_width(rows), count)?;
        Some(Self { count, rows, values: BitPacked::cut(rest, count)? })
    }

    /// The restarts in these rows.
    #[inline]
    fn within(&self, rows: Range<usize>) -> Range<usize> {
        if self.count == 0 {
            return 0..0;
        }
        let first = self.rows.lower_bound(0..self.count, rows.start as u64);
        first..self.rows.lower_bound(first..self.count, rows.end as u64)
    }
}

#[derive(Clone, Copy, Debug)]
enum Widths<'a> {
    All(u32),
    Sums(BitPacked<'a>),
}

impl<'a> IntColumn<'a> for Delta<'a> {
    const KIND: IntKind = IntKind::Delta;

    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let frames = Self::open(rest, rows)?;
        let bits = frames.end_bit(rows).filter(|bits| *bits <= rows * 64)?;
        Codes::cut(rest, 1, bits)?;
        Some(frames)
    }

    // Reads the header, up to the differences, which may be incomplete.
    #[inline]
    fn open(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let [_, width, step_bytes, ..] = **rest else { return None };
        *rest = rest.get(HEAD_BYTES..)?;
        let step = cut_signed(rest, (step_bytes & !RESTARTS).into())? as u64;
        let count = rows.div_ceil(FRAME_ROWS);
        let firsts = BitPacked::cut(rest, count)?;
        let widths = match width {
            BY_FRAME => Widths::Sums(BitPacked::cut(rest, count)?),
            0..=64 => Widths::All(width.into()),
            _ => return None,
        };
        let restarts = match step_bytes & RESTARTS {
            0 => Restarts::default(),
            _ => Restarts::cut(rest, rows)?,
        };
        Some(Self { step, firsts, widths, restarts, deltas: rest })
    }

    // Checks that restarts ascend, none at the first row of a frame, and that no width is wider
    // than a value.
    fn check(&self, rows: usize) -> Result<(), BadBlock> {
        self.firsts.check(rows.div_ceil(FRAME_ROWS))?;
        let mut next = 0;
        for restart in 0..self.restarts.count {
            let row = self.restarts.rows.get(restart) as usize;
            if row < next || row >= rows {
                return Err(BadBlock("the restarts of a column do not ascend"));
            }
            // A search relies on the list of first values.
            if row.is_multiple_of(FRAME_ROWS) {
                return Err(BadBlock("a frame of a column has two first values"));
            }
            next = row + 1;
        }
        let Widths::Sums(sums) = &self.widths else { return Ok(()) };
        let mut before = 0;
        for frame in 0..rows.div_ceil(FRAME_ROWS) {
            let sum = sums.get(frame);
            if sum.checked_sub(before).is_none_or(|width| width > 64) {
                return Err(BadBlock("a frame of a column has no width"));
            }
            before = sum;
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize) -> u64 {
        let frame = row / FRAME_ROWS;
        let first = row - row % FRAME_ROWS;
        let (from, value) = self.last_known(frame, first..row.saturating_add(1));
        let (width, bit) = self.place(frame);
        let bit = bit.wrapping_add((from - first) * width as usize);
        let deltas = Codes::over(self.deltas, width).sum_at_bit(bit, row - from);
        value.wrapping_add(self.step.wrapping_mul((row - from) as u64)).wrapping_add(deltas)
    }

    fn decode(&self, first: usize, out: &mut [u64]) {
        let mut row = first;
        let mut rest = out;
        while !rest.is_empty() {
            let (frame, skip) = (row / FRAME_ROWS, row % FRAME_ROWS);
            let count = rest.len().min(FRAME_ROWS - skip);
            let (now, later) = rest.split_at_mut(count);
            match now.first_chunk_mut() {
                Some(whole) => self.decode_frame(frame, whole),
                None => {
                    let mut whole = [0; FRAME_ROWS];
                    self.decode_frame(frame, &mut whole);
                    now.iter_mut().zip(&whole[skip..]).for_each(|(now, value)| *now = *value);
                }
            }
            (row, rest) = (row.wrapping_add(count), later);
        }
    }

    fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        let Some(begin) = frames_in(&rows) else { return rows.start };
        // The bound lies in the frame before the first one that starts with no less.
        let frame = self.firsts.lower_bound(begin, value) - 1;
        self.equal_in(frame, &rows, value).start
    }

    fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        let Some(begin) = frames_in(&rows) else { return rows.start..rows.start };
        let alike = self.firsts.equal_range(begin, value);
        let found = self.equal_in(alike.start - 1, &rows, value);
        if alike.is_empty() {
            return found;
        }
        found.start..self.equal_in(alike.end - 1, &rows, value).end
    }
}

impl Delta<'_> {
    /// The bit where the last difference ends.
    fn end_bit(&self, rows: usize) -> Option<usize> {
        let Some(last) = rows.checked_sub(1) else { return Some(0) };
        let (width, bit) = self.place(last / FRAME_ROWS);
        bit.checked_add(last % FRAME_ROWS * width as usize)
    }

    /// The width of a frame's differences, and the bit where they start.
    #[inline]
    fn place(&self, frame: usize) -> (u32, usize) {
        let (width, sum) = match &self.widths {
            Widths::All(width) => (u64::from(*width), frame.wrapping_mul(*width as usize)),
            Widths::Sums(sums) => {
                let before = if frame == 0 { 0 } else { sums.get(frame - 1) };
                (sums.get(frame).wrapping_sub(before), before as usize)
            }
        };
        (width.min(64) as u32, sum.wrapping_mul(FRAME_DELTAS))
    }

    fn decode_frame(&self, frame: usize, out: &mut [u64; FRAME_ROWS]) {
        let (width, bit) = self.place(frame);
        // One more difference than there are, so that they are whole groups: it is added to no
        // value.
        Codes::over(self.deltas, width).decode_at_bit(bit, out);
        let mut value = self.firsts.get(frame);
        for slot in out.iter_mut() {
            // This sum does not wait for the previous value.
            let next = value.wrapping_add(self.step.wrapping_add(*slot));
            *slot = value;
            value = next;
        }
        let first = frame.wrapping_mul(FRAME_ROWS);
        for restart in self.restarts.within(first..first.saturating_add(FRAME_ROWS)) {
            // Everything after a restart is off by the same amount as the restart itself.
            let within = (self.restarts.rows.get(restart) as usize).wrapping_sub(first);
            let rows = out.get_mut(within..).unwrap_or_default();
            let off = self.restarts.values.get(restart);
            let off = off.wrapping_sub(rows.first().copied().unwrap_or(0));
            rows.iter_mut().for_each(|value| *value = value.wrapping_add(off));
        }
    }

    /// The rows whose value is `value` within one frame that contains some of `rows`.
    #[inline]
    fn equal_in(&self, frame: usize, rows: &Range<usize>, value: u64) -> Range<usize> {
        let first = frame * FRAME_ROWS;
        let (start, end) = (rows.start.max(first), rows.end.min(first + FRAME_ROWS));
        let (from, known) = self.last_known(frame, first..end);
        if from > start {
            // Our encoder restarts where values fall, which in a range that ascends happens only at
            // its first row; other encoders may restart anywhere.
            let low = partition(start..end, |row| self.get(row) < value);
            return low..partition(low..end, |row| self.get(row) == value);
        }
        let (width, bit) = self.place(frame);
        let deltas = Codes::over(self.deltas, width);
        let bit_after = |row: usize| bit.wrapping_add((row - first) * width as usize);
        let skipped = deltas.sum_at_bit(bit_after(from), start - from);
        let steps = self.step.wrapping_mul((start - from) as u64);
        // The bound is usually reached half-way: the rows are walked, not decoded.
        let (mut row, mut at) = (start, known.wrapping_add(steps).wrapping_add(skipped));
        if at < value {
            deltas.walk_from_bit(bit_after(row), end - row - 1, |delta| {
                at = at.wrapping_add(self.step.wrapping_add(delta));
                row += 1;
                at < value
            });
            if at < value {
                return end..end;
            }
        }
        let low = row;
        if at == value {
            row += 1;
            deltas.walk_from_bit(bit_after(low), end - row, |delta| {
                at = at.wrapping_add(self.step.wrapping_add(delta));
                row += usize::from(at == value);
                at == value
            });
        }
        low..row
    }

    /// The last of these rows of a frame, counted from its first, that has a value of its own, and
    /// the value: a restart, or the frame's first.
    #[inline]
    fn last_known(&self, frame: usize, rows: Range<usize>) -> (usize, u64) {
        match self.restarts.within(rows.clone()).last() {
            Some(restart) => {
                let row = self.restarts.rows.get(restart) as usize;
                (row.clamp(rows.start, rows.end - 1), self.restarts.values.get(restart))
            }
            None => (rows.start, self.firsts.get(frame)),
        }
    }
}

/// The frames that start within these rows, after their first row; `None` if there are no rows.
#[inline]
fn frames_in(rows: &Range<usize>) -> Option<Range<usize>> {
    let last = rows.clone().last()?;
    Some(rows.start / FRAME_ROWS + 1..last / FRAME_ROWS + 1)
}

/// A plan to encode values as a delta column.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    step: i64,
    firsts: bit_packed::Plan,
    width: u32,
    /// Set if each frame has its own width.
    sums: Option<bit_packed::Plan>,
    restarts: bit_packed::Plan,
    bytes: usize,
}

/// Intermediate results of planning that encoding needs.
#[derive(Debug, Default)]
pub struct Frames {
    firsts: Vec<u64>,
    /// The largest difference in each frame.
    largest: Vec<i64>,
    sums: Vec<u64>,
    restart_rows: Vec<u64>,
    restarts: Vec<u64>,
}

impl IntPlan for Plan {
    const KIND: IntKind = IntKind::Delta;

    fn below(values: &Values<'_>, bytes_max: usize, scratch: &mut Scratch) -> Option<Self> {
        // Without differences it would be a packed column with more overhead.
        if values.all.len() < 2 || !Self::may_be_below(bytes_max) {
            return None;
        }
        let (falls, values) = (values.falls(), values.all);
        let found = &mut scratch.frames;
        let rows = values.len();
        let step = found.look(values, falls * ROWS_A_FALL_MIN <= rows);
        let (width, bits) = found.sum_widths(values, step);
        let firsts = bit_packed::Plan::shortest(&found.firsts);
        let frames = found.firsts.len();
        let restarts = bit_packed::Plan::shortest(&found.restarts);
        let list = match found.restarts.len() {
            0 => 0,
            count => 2 + packed_bytes(count, row_width(rows)) + restarts.bytes(count),
        };
        let head = HEAD_BYTES + signed_bytes(step) as usize + firsts.bytes(frames) + list;
        let one_width = head + packed_bytes(rows - frames, width);
        let sums = bit_packed::Plan::shortest(&found.sums);
        let by_frame = head + sums.bytes(frames) + packed_bytes(bits, 1);
        let sums = (by_frame < one_width).then_some(sums);
        let bytes = by_frame.min(one_width);
        (bytes < bytes_max).then_some(Self { step, firsts, width, sums, restarts, bytes })
    }

    fn bytes(&self, _: usize) -> usize {
        self.bytes
    }

    fn write(
        &self,
        values: &[u64],
        Scratch { frames: found, .. }: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        let step_bytes = signed_bytes(self.step);
        let width = self.sums.map_or(self.width as u8, |_| BY_FRAME);
        let restarts = if found.restarts.is_empty() { 0 } else { RESTARTS };
        out.extend_from_slice(&[tag::DELTA, width, step_bytes as u8 | restarts]);
        put_low(self.step as u64, step_bytes, out);
        self.firsts.put(&found.firsts, out);
        if let Some(sums) = &self.sums {
            sums.put(&found.sums, out);
        }
        if restarts != 0 {
            out.extend_from_slice(&(found.restarts.len() as u16).to_le_bytes());
            pack(found.restart_rows.iter().copied(), row_width(values.len()), out);
            self.restarts.put(&found.restarts, out);
        }
        let mut packer = Packer::new(out);
        let mut before = 0;
        for (frame, sum) in values.chunks(FRAME_ROWS).zip(&found.sums) {
            let width = self.sums.map_or(self.width, |_| (sum - before) as u32);
            before = *sum;
            for (a, b) in frame.iter().zip(frame.iter().skip(1)) {
                // A fall that is a restart is below every step.
                let delta = b.wrapping_sub(*a) as i64;
                let restarts = restarts != 0 && b < a;
                let code = if restarts { 0 } else { delta.wrapping_sub(self.step) as u64 };
                packer.put(code, width);
            }
        }
        packer.finish();
    }
}

impl Plan {
    /// True if any column could take less than `bytes_max`.
    pub fn may_be_below(bytes_max: usize) -> bool {
        HEAD_BYTES + 4 < bytes_max
    }
}

impl Frames {
    /// Fills everything but the sums, and returns the least difference.
    fn look(&mut self, values: &[u64], falls_are_restarts: bool) -> i64 {
        let Self { firsts, largest, restart_rows, restarts, .. } = self;
        firsts.clear();
        largest.clear();
        restart_rows.clear();
        restarts.clear();
        let mut step = i64::MAX;
        for (number, frame) in values.chunks(FRAME_ROWS).enumerate() {
            let (mut least, mut most) = (i64::MAX, i64::MIN);
            for (row, (a, b)) in frame.iter().zip(frame.iter().skip(1)).enumerate() {
                if falls_are_restarts && b < a {
                    restart_rows.push((number * FRAME_ROWS + row + 1) as u64);
                    restarts.push(*b);
                    continue;
                }
                let delta = b.wrapping_sub(*a) as i64;
                (least, most) = (least.min(delta), most.max(delta));
            }
            firsts.extend(frame.first());
            largest.push(most);
            step = step.min(least);
        }
        // If every row is a restart, no differences are left.
        if step == i64::MAX && largest.iter().all(|most| *most == i64::MIN) { 0 } else { step }
    }

    /// Fills the sums; returns the width if all frames have the same, and the number of bits if
    /// each has its own.
    fn sum_widths(&mut self, values: &[u64], step: i64) -> (u32, usize) {
        self.sums.clear();
        let (mut width, mut sum, mut bits) = (0, 0, 0);
        for (frame, most) in values.chunks(FRAME_ROWS).zip(&self.largest) {
            // A frame whose other rows are all restarts has no differences.
            let own = if *most < step { 0 } else { width_of(most.wrapping_sub(step) as u64) };
            width = width.max(own);
            sum += u64::from(own);
            bits += (frame.len() - 1) * own as usize;
            self.sums.push(sum);
        }
        (width, bits)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{contradictions_are_detected, holds, padded},
        *,
    };

    #[test]
    fn small_steps_round_trip_and_survive_damage() {
        holds::<Plan>(&(0..200).map(|row| row * 1000 + row * row % 777).collect::<Vec<u64>>());
        // With restarts, and with a width for each frame.
        holds::<Plan>(&(0..200).map(|row| row % 60 * 1000 + row % 7).collect::<Vec<u64>>());
        let step = |row: u64| if row < 100 { row * 3 + row % 2 } else { (row * row) << 20 };
        holds::<Plan>(&(0..200).map(step).collect::<Vec<u64>>());
    }

    #[test]
    fn contradictions_are_found() {
        let sums = "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00";
        // Sums of widths that fall.
        contradictions_are_detected(&[(
            34,
            format!("44 FF 00 00 00 03 00 11 {sums}"),
            format!("44 FF 00 00 00 03 00 0A {sums}"),
        )]);
        // Two restarts in one row; one in a frame's first row, which already has a value.
        let sound = "44 00 80 00 00 02 00 85 01 00 00";
        contradictions_are_detected(&[
            (34, sound, "44 00 80 00 00 02 00 45 01 00 00"),
            (34, sound, "44 00 80 00 00 02 00 05 08 00 00"),
        ]);
    }

    /// Rows 0 to 4 are 0; a restart makes the rest of the frame 7; the second frame is 9.
    #[test]
    fn frames_with_ascending_restarts_are_searchable() {
        let bytes = padded(&[0x44, 0, 0x80, 0x04, 0, 0x90, 1, 0, 5, 0, 1, 7]);
        let ints = super::super::Ints::parse(&bytes, 34).expect("parsed");
        ints.check().expect("checked");
        let mut values = [1; 34];
        ints.decode(0, &mut values);
        assert_eq!(values, std::array::from_fn(|row| [0, 7, 9][usize::from(row > 4) + row / 32]));
        for (value, row) in [(0, 0), (1, 5), (7, 5), (8, 32), (9, 32), (10, 34)] {
            assert_eq!(ints.lower_bound(0..34, value), row);
        }
    }
}
