//! The run-length integer column (RLE): each value once for all consecutive rows that have it.
//!
//! The leading columns of an index, and values that stay the same for a while, have few runs. A
//! row's run is found by a search in the sorted list of run ends.
//!
//! ```text
//! runs = 66 | width of a value u8 | length of base u8 | runs u16
//!      | base | ends of all runs but the last | values above the base
//! ```
//! The end of a run is the row after its last; it takes as many bits as the last row of the column
//! needs. The last run ends with the column.

use std::ops::Range;

use super::super::{
    super::BadBlock,
    bits::{Codes, pack, packed_bytes, partition, width_of},
};
use super::{
    IntKind,
    head::{cut_unsigned, put_low, row_width, unsigned_bytes},
    tag,
    traits::{IntColumn, IntPlan, Scratch, Values},
};

const HEAD_BYTES: usize = 5;

/// A run-length column, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Rle<'a> {
    rows: usize,
    base: u64,
    /// At least 1.
    runs: usize,
    ends: Codes<'a>,
    values: Codes<'a>,
}

impl<'a> IntColumn<'a> for Rle<'a> {
    const KIND: IntKind = IntKind::Rle;

    #[inline]
    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let [_, width, base_bytes, low, high, ..] = **rest else { return None };
        let runs = usize::from(u16::from_le_bytes([low, high]));
        if runs == 0 {
            return None;
        }
        *rest = rest.get(HEAD_BYTES..)?;
        let base = cut_unsigned(rest, base_bytes.into())?;
        Some(Self {
            rows,
            base,
            runs,
            ends: Codes::cut(rest, row_width(rows), runs - 1)?,
            values: Codes::cut(rest, width.into(), runs)?,
        })
    }

    // Checks that run ends ascend, so that each run has at least one row.
    fn check(&self, rows: usize) -> Result<(), BadBlock> {
        let mut start = 0;
        for run in 0..self.runs {
            let end = self.end_of(run).min(rows);
            if end <= start {
                return Err(BadBlock("the runs of a column do not ascend"));
            }
            start = end;
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize) -> u64 {
        self.value_of(self.run_of(row))
    }

    fn decode(&self, first: usize, out: &mut [u64]) {
        let mut done = 0;
        for run in self.run_of(first)..self.runs {
            let end = self.end_of(run).saturating_sub(first).min(out.len());
            if let Some(rows) = out.get_mut(done..end) {
                rows.fill(self.value_of(run));
            }
            done = done.max(end);
            if done == out.len() {
                break;
            }
        }
    }

    fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        let runs = self.runs_of(&rows);
        let run = partition(runs.clone(), |run| self.value_of(run) < value);
        self.start_of(run, &runs, &rows)
    }

    fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        let runs = self.runs_of(&rows);
        let first = partition(runs.clone(), |run| self.value_of(run) < value);
        // In columns of our encoder neighbouring runs differ.
        let mut end = first;
        while end < runs.end && self.value_of(end) == value {
            end += 1;
        }
        self.start_of(first, &runs, &rows)..self.start_of(end, &runs, &rows)
    }
}

impl Rle<'_> {
    /// The run of a row.
    #[inline]
    fn run_of(&self, row: usize) -> usize {
        partition(0..self.runs - 1, |run| self.ends.get(run) <= row as u64)
    }

    /// The row after a run; beyond all rows for the last run.
    fn end_of(&self, run: usize) -> usize {
        if run + 1 < self.runs { self.ends.get(run) as usize } else { usize::MAX }
    }

    #[inline]
    fn value_of(&self, run: usize) -> u64 {
        self.base.wrapping_add(self.values.get(run))
    }

    /// The runs that contain some of `rows`.
    #[inline]
    fn runs_of(&self, rows: &Range<usize>) -> Range<usize> {
        if rows.is_empty() {
            return 0..0;
        }
        // Usually all rows are asked for, and then no run needs to be searched.
        let first = if rows.start == 0 { 0 } else { self.run_of(rows.start) };
        let end = if rows.end >= self.rows { self.runs } else { self.run_of(rows.end - 1) + 1 };
        first..end
    }

    /// The first row in `rows` of run `run` of `runs`, or of what follows them.
    #[inline]
    fn start_of(&self, run: usize, runs: &Range<usize>, rows: &Range<usize>) -> usize {
        if run <= runs.start {
            return rows.start;
        }
        self.end_of(run - 1).clamp(rows.start, rows.end)
    }
}

/// A plan to encode values as a run-length column.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    base: u64,
    width: u32,
    runs: usize,
}

impl IntPlan for Plan {
    const KIND: IntKind = IntKind::Rle;

    fn below(values: &Values<'_>, bytes_max: usize, _: &mut Scratch) -> Option<Self> {
        let (rows, (min, max)) = (values.all.len(), values.ends());
        let plan = Self { base: min, width: width_of(max - min), runs: values.runs() };
        (rows > 0 && plan.bytes(rows) < bytes_max).then_some(plan)
    }

    fn bytes(&self, rows: usize) -> usize {
        HEAD_BYTES
            + unsigned_bytes(self.base) as usize
            + packed_bytes(self.runs - 1, row_width(rows))
            + packed_bytes(self.runs, self.width)
    }

    fn write(&self, values: &[u64], _: &mut Scratch, out: &mut Vec<u8>) {
        let Self { base, width, runs } = *self;
        let base_bytes = unsigned_bytes(base);
        out.extend_from_slice(&[tag::RLE, width as u8, base_bytes as u8]);
        out.extend_from_slice(&(runs as u16).to_le_bytes());
        put_low(base, base_bytes, out);
        let of_runs = values.chunk_by(|a, b| a == b);
        let ends = of_runs.clone().take(runs - 1).scan(0, |end, run| {
            *end += run.len();
            Some(*end as u64)
        });
        pack(ends, row_width(values.len()), out);
        pack(of_runs.flat_map(|run| run.first()).map(|value| value - base), width, out);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{contradictions_are_detected, holds, padded},
        *,
    };

    #[test]
    fn runs_round_trip_and_survive_damage() {
        holds::<Plan>(&(0..200).map(|row| row / 40 * 1_000_003 % 7).collect::<Vec<u64>>());
    }

    #[test]
    fn contradictions_are_found() {
        // A run without rows.
        contradictions_are_detected(&[(8, "42 02 01 02 00 09 05 0C", "42 02 01 02 00 09 00 0C")]);
    }

    /// Runs that another encoder did not join are found as one range.
    #[test]
    fn adjacent_equal_runs_are_found_as_one_range() {
        let bytes = padded(&[0x42, 2, 0, 3, 0, 0x2a, 0x16]);
        let ints = super::super::Ints::parse(&bytes, 8).expect("parsed");
        ints.check().expect("checked");
        let mut values = [0; 8];
        ints.decode(0, &mut values);
        assert_eq!(values, [2, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!(ints.equal_range(2..8, 1), 2..8);
        assert_eq!(ints.equal_range(3..7, 1), 3..7);
    }
}
