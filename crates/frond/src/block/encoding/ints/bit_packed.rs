//! The packed integer column: frame of reference (FOR) bit packing, with an optional line.
//!
//! Value *i* = base + ((slope · *i*) >> shift) + code *i*, in arithmetic modulo 2^64, so that
//! values may be any distance apart. Without a slope this is a frame of reference, and with codes
//! of 0 bits a constant. A slope makes the codes of ids, times and offsets small: their width
//! depends on the values' distance from the line, not on their range. The slope is whole (shift 0)
//! or in 65 536ths (shift 16): with fewer than 65 536 rows no finer one is needed.
//!
//! ```text
//! packed = width of a code, +128 if the slope is in 65 536ths, u8
//!        | length of base (low half), length of slope (high half), u8 | base | slope | codes
//! ```

use std::ops::Range;

use super::{
    super::{
        super::BadBlock,
        bits::{Codes, pack, packed_bytes, partition, width_of},
    },
    IntKind,
    head::{cut_signed, cut_unsigned, put_low, signed_bytes, unsigned_bytes},
    traits::{IntColumn, IntPlan, Scratch, Values, any_decoded, equal_rows},
};

/// Flag in the byte of the width: the slope is in 65 536ths.
pub const FRACTION: u8 = 0x80;
const FRACTION_BITS: u32 = 16;
/// Slopes in 65 536ths stay below this, so that multiplied by a row they stay below 2^63.
const FRACTION_SLOPE_MAX: u64 = 1 << 47;

/// Fewest rows for which a line is tried: two points always lie on one.
const LINE_ROWS_MIN: usize = 4;
/// Number of values examined first: they often show already that a line gains nothing.
const LINE_SAMPLES: usize = 16;

/// A line through the origin, evaluated at whole rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Line {
    slope: i64,
    shift: u32,
}

impl Line {
    #[inline]
    fn at(self, row: usize) -> u64 {
        (self.slope.wrapping_mul(row as i64) >> self.shift) as u64
    }

    /// The line from the first value to the last.
    fn through_ends(values: &[u64]) -> Self {
        let (Some(&first), Some(&last)) = (values.first(), values.last()) else {
            return Self::default();
        };
        let rise = i128::from(last) - i128::from(first);
        let steps = (values.len() as i128 - 1).max(1);
        let fixed = (rise << FRACTION_BITS) / steps;
        if rise % steps == 0 || fixed.unsigned_abs() >= FRACTION_SLOPE_MAX.into() {
            // Modulo 2^64, like everything computed with it.
            Self { slope: (rise / steps) as i64, shift: 0 }
        } else {
            Self { slope: fixed as i64, shift: FRACTION_BITS }
        }
    }
}

/// A packed column, for reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct BitPacked<'a> {
    base: u64,
    line: Line,
    codes: Codes<'a>,
}

impl<'a> IntColumn<'a> for BitPacked<'a> {
    const KIND: IntKind = IntKind::BitPacked;

    #[inline]
    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let [form, lengths, ..] = **rest else { return None };
        *rest = rest.get(2..)?;
        let base = cut_unsigned(rest, (lengths & 15).into())?;
        let slope = cut_signed(rest, (lengths >> 4).into())?;
        let shift = if form & FRACTION != 0 { FRACTION_BITS } else { 0 };
        let codes = Codes::cut(rest, (form & !FRACTION).into(), rows)?;
        Some(Self { base, line: Line { slope, shift }, codes })
    }

    fn kind(&self) -> IntKind {
        kind_of(self.line, self.codes.width())
    }

    // Without a line no value may exceed 2^64: a search looks for a value's distance from the
    // base.
    fn check(&self, rows: usize) -> Result<(), BadBlock> {
        let most = u64::MAX - self.base;
        if self.line.slope != 0 || self.codes.mask() <= most {
            return Ok(());
        }
        if any_decoded(rows, |first, codes| self.codes.decode(first, codes), |code| code > most) {
            return Err(BadBlock("a packed column leads beyond all numbers"));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize) -> u64 {
        self.base.wrapping_add(self.line.at(row)).wrapping_add(self.codes.get(row))
    }

    fn decode(&self, first: usize, out: &mut [u64]) {
        self.codes.decode(first, out);
        if self.line.slope == 0 {
            out.iter_mut().for_each(|value| *value = value.wrapping_add(self.base));
            return;
        }
        // The line's next point is computed by addition, not multiplication.
        let Line { slope, shift } = self.line;
        let mut point = slope.wrapping_mul(first as i64);
        for value in out {
            *value = value.wrapping_add(self.base).wrapping_add((point >> shift) as u64);
            point = point.wrapping_add(slope);
        }
    }

    fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        if self.line.slope == 0 {
            let above_base = value.saturating_sub(self.base);
            return self.codes.lower_bound(rows, above_base);
        }
        let near = self.rows_near(&rows, value);
        let all_below = near.start == rows.start || self.get(near.start - 1) < value;
        let none_above = near.end == rows.end || self.get(near.end) >= value;
        // The estimate is right unless sums wrapped around.
        let rows = if all_below && none_above { near } else { rows };
        partition(rows, |row| self.get(row) < value)
    }

    #[inline]
    fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        if self.line.slope != 0 {
            let (first, end) = (self.lower_bound(rows.clone(), value), rows.end);
            return equal_rows(first, end, |row| self.get(row) == value);
        }
        let Some(code) = value.checked_sub(self.base) else { return rows.start..rows.start };
        if self.codes.width() == 0 {
            return if code == 0 { rows } else { rows.end..rows.end };
        }
        let (first, end) = (self.codes.lower_bound(rows.clone(), code), rows.end);
        equal_rows(first, end, |row| self.codes.get(row) == code)
    }
}

impl BitPacked<'_> {
    /// The rows between which the bound must lie if no sum wraps: the line itself passes `value` at
    /// their end, and the line plus the largest code at their start.
    fn rows_near(&self, rows: &Range<usize>, value: u64) -> Range<usize> {
        let Line { slope, shift } = self.line;
        let rise = i128::from(value) - i128::from(self.base);
        let row_at = |rise: i128| -> usize {
            let rise = (rise << shift).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            (rise / slope.max(1)).clamp(rows.start as i64, rows.end as i64) as usize
        };
        let start = row_at(rise - i128::from(self.codes.mask()) - 1);
        start..(row_at(rise) + 1).clamp(start, rows.end)
    }
}

fn kind_of(line: Line, width: u32) -> IntKind {
    match (line.slope, width) {
        (0, 0) => IntKind::Constant,
        (0, _) => IntKind::BitPacked,
        _ => IntKind::Linear,
    }
}

/// A plan to encode values as a packed column.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    base: u64,
    line: Line,
    width: u32,
}

impl IntPlan for Plan {
    const KIND: IntKind = IntKind::BitPacked;

    // Only the plan with a line: the caller always has the one without.
    fn below(values: &Values<'_>, bytes_max: usize, _: &mut Scratch) -> Option<Self> {
        Self::linear_below(values.all, bytes_max)
    }

    fn kind(&self) -> IntKind {
        kind_of(self.line, self.width)
    }

    fn bytes(&self, rows: usize) -> usize {
        let head = 2 + unsigned_bytes(self.base) + signed_bytes(self.line.slope);
        head as usize + packed_bytes(rows, self.width)
    }

    fn write(&self, values: &[u64], _: &mut Scratch, out: &mut Vec<u8>) {
        self.put(values, out);
    }
}

impl Plan {
    /// A plan without a line, for values from `min` to `max`.
    pub fn level(min: u64, max: u64) -> Self {
        Self { base: min, line: Line::default(), width: width_of(max - min) }
    }

    /// A plan with a line from the first value to the last, if it takes less than `bytes_max`.
    fn linear_below(values: &[u64], bytes_max: usize) -> Option<Self> {
        if values.len() < LINE_ROWS_MIN {
            return None;
        }
        let line = Line::through_ends(values);
        let every = values.len().div_ceil(LINE_SAMPLES);
        let sample = Self::fit(line, values.iter().enumerate().step_by(every));
        // All values need at least as many bits as the sample.
        if line.slope == 0 || packed_bytes(values.len(), sample.width) >= bytes_max {
            return None;
        }
        let plan = Self::fit(line, values.iter().enumerate());
        (plan.bytes(values.len()) < bytes_max).then_some(plan)
    }

    /// The shorter of the two plans.
    pub fn shortest(values: &[u64]) -> Self {
        let min = values.iter().copied().min().unwrap_or(0);
        let max = values.iter().copied().max().unwrap_or(0);
        let level = Self::level(min, max);
        Self::linear_below(values, level.bytes(values.len())).unwrap_or(level)
    }

    /// The base and width that values need with this line.
    fn fit<'v>(line: Line, values: impl Iterator<Item = (usize, &'v u64)>) -> Self {
        let mut values = values.map(|(row, value)| value.wrapping_sub(line.at(row)));
        let first = values.next().unwrap_or(0);
        let (mut low, mut high) = (0i64, 0i64);
        for value in values {
            let off = value.wrapping_sub(first) as i64;
            (low, high) = (low.min(off), high.max(off));
        }
        let width = width_of(high.wrapping_sub(low) as u64);
        Self { base: first.wrapping_add(low as u64), line, width }
    }

    /// Appends the column.
    pub fn put(&self, values: &[u64], out: &mut Vec<u8>) {
        let fraction = if self.line.shift == 0 { 0 } else { FRACTION };
        let (base_bytes, slope_bytes) = (unsigned_bytes(self.base), signed_bytes(self.line.slope));
        out.push(self.width as u8 | fraction);
        out.push((base_bytes | slope_bytes << 4) as u8);
        put_low(self.base, base_bytes, out);
        put_low(self.line.slope as u64, slope_bytes, out);
        let Self { base, line, width } = *self;
        if line.slope == 0 {
            pack(values.iter().map(|value| value.wrapping_sub(base)), width, out);
        } else {
            let off =
                |(row, value): (usize, &u64)| value.wrapping_sub(base.wrapping_add(line.at(row)));
            pack(values.iter().enumerate().map(off), width, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{are_refused, contradictions_are_detected, holds},
        *,
    };

    #[test]
    fn lines_round_trip_and_survive_damage() {
        holds::<Plan>(&std::array::from_fn::<u64, 100, _>(|row| {
            row as u64 * 1000 + row as u64 % 7
        }));
        holds::<Plan>(&std::array::from_fn::<u64, 40, _>(|row| u64::MAX - row as u64 * 3));
    }

    #[test]
    fn contradictions_are_found() {
        // A sum beyond 2^64, which a search would not find.
        contradictions_are_detected(&[(
            1,
            "08 08 FF FF FF FF FF FF FF FF 00",
            "08 08 FF FF FF FF FF FF FF FF 01",
        )]);
        // A width beyond 64 bits.
        are_refused(&["C1 00 00"]);
    }
}
