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
    head::{cut_unsigned, put_low, unsigned_bytes},
    tag,
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

impl<'a> Rle<'a> {
    /// Cuts a run-length column of `rows` rows off the front of `rest`.
    #[inline]
    pub fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
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
            ends: Codes::cut(rest, end_width(rows), runs - 1)?,
            values: Codes::cut(rest, width.into(), runs)?,
        })
    }

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

    /// The value of a row.
    #[inline]
    pub fn get(&self, row: usize) -> u64 {
        self.value_of(self.run_of(row))
    }

    /// Decodes values from row `first` on into `out`.
    pub fn decode(&self, first: usize, out: &mut [u64]) {
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

    /// The first row of `rows` whose value is not below `value`; the column must ascend there.
    pub fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        let runs = self.runs_of(&rows);
        let run = partition(runs.clone(), |run| self.value_of(run) < value);
        self.start_of(run, &runs, &rows)
    }

    /// The rows of `rows` whose value is `value`; the column must ascend there.
    pub fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        let runs = self.runs_of(&rows);
        let first = partition(runs.clone(), |run| self.value_of(run) < value);
        // In columns of our encoder neighbouring runs differ.
        let mut end = first;
        while end < runs.end && self.value_of(end) == value {
            end += 1;
        }
        self.start_of(first, &runs, &rows)..self.start_of(end, &runs, &rows)
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

    /// Checks that run ends ascend, so that each run has at least one row.
    pub fn check(&self, rows: usize) -> Result<(), BadBlock> {
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
}

fn end_width(rows: usize) -> u32 {
    width_of(rows.saturating_sub(1) as u64)
}

/// A plan to encode values as a run-length column.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    base: u64,
    width: u32,
    runs: usize,
}

impl Plan {
    /// A plan for values from `min` to `max` in `runs` runs, if the column takes less than
    /// `bytes_max`.
    pub fn below(rows: usize, runs: usize, min: u64, max: u64, bytes_max: usize) -> Option<Self> {
        let plan = Self { base: min, width: width_of(max - min), runs };
        (rows > 0 && plan.bytes(rows) < bytes_max).then_some(plan)
    }

    /// Length of the column.
    pub fn bytes(&self, rows: usize) -> usize {
        HEAD_BYTES
            + unsigned_bytes(self.base) as usize
            + packed_bytes(self.runs - 1, end_width(rows))
            + packed_bytes(self.runs, self.width)
    }

    /// Appends the column.
    pub fn write(&self, values: &[u64], out: &mut Vec<u8>) {
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
        pack(ends, end_width(values.len()), out);
        pack(of_runs.flat_map(|run| run.first()).map(|value| value - base), width, out);
    }
}
