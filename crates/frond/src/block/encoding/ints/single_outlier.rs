//! The single-outlier column: FOR in which one value, far from all others, has a code of its own.
//! The others are packed against their own base.
//!
//! The placeholder of a null is 0, and "never" is the last possible day: next to times or ids both
//! are so far away that they would make all codes wide, and too frequent for a list of exceptions.
//!
//! ```text
//! outlier = 70 | width of a code u8 | length of value (low half), length of base (high half), u8
//!      | value | base | codes
//! ```
//! Code 0 is the outlier value, any other code is that value's distance from the base.

use super::super::{
    super::BadBlock,
    bits::{Codes, pack, packed_bytes, width_of},
};
use super::{
    IntKind,
    head::{cut_unsigned, put_low, unsigned_bytes},
    tag,
    traits::{IntColumn, IntPlan, Scratch, Values},
};

const HEAD_BYTES: usize = 3;

/// Number of values examined first. An outlier value that is in none of them is rare enough for a
/// list of exceptions.
const SAMPLES: usize = 32;

/// A column with a single outlier value, for reading.
#[derive(Clone, Copy, Debug)]
pub struct SingleOutlier<'a> {
    outlier: u64,
    base: u64,
    codes: Codes<'a>,
}

impl<'a> IntColumn<'a> for SingleOutlier<'a> {
    const KIND: IntKind = IntKind::SingleOutlier;

    #[inline]
    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let [_, width, lengths, ..] = **rest else { return None };
        *rest = rest.get(HEAD_BYTES..)?;
        let outlier = cut_unsigned(rest, (lengths & 15).into())?;
        let base = cut_unsigned(rest, (lengths >> 4).into())?;
        Some(Self { outlier, base, codes: Codes::cut(rest, width.into(), rows)? })
    }

    // Always succeeds: any codes are valid.
    fn check(&self, _rows: usize) -> Result<(), BadBlock> {
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize) -> u64 {
        self.value(self.codes.get(row))
    }

    fn decode(&self, first: usize, out: &mut [u64]) {
        self.codes.decode(first, out);
        out.iter_mut().for_each(|value| *value = self.value(*value));
    }
}

impl SingleOutlier<'_> {
    #[inline]
    fn value(&self, code: u64) -> u64 {
        if code == 0 { self.outlier } else { self.base.wrapping_add(code) }
    }
}

/// A plan to encode values as a single-outlier column.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    outlier: u64,
    base: u64,
    width: u32,
}

impl IntPlan for Plan {
    const KIND: IntKind = IntKind::SingleOutlier;

    fn below(values: &Values<'_>, bytes_max: usize, _: &mut Scratch) -> Option<Self> {
        let ((min, max), values) = (values.ends(), values.all);
        let every = values.len().div_ceil(SAMPLES).max(1);
        // Not the first row: where values ascend it has the least value, which means nothing.
        let mut sample = values.iter().skip(every / 2).step_by(every);
        let too_long = HEAD_BYTES + packed_bytes(values.len(), 1) >= bytes_max;
        if min == max || too_long || !sample.any(|value| *value == min || *value == max) {
            return None;
        }
        // The second least value, and the second largest.
        let (mut above_min, mut below_max) = (max, min);
        for &value in values {
            above_min = above_min.min(if value == min { max } else { value });
            below_max = below_max.max(if value == max { min } else { value });
        }
        let plan = |outlier, least: u64, most: u64| {
            let base = least.wrapping_sub(1);
            Self { outlier, base, width: width_of(most.wrapping_sub(base)) }
        };
        let (low, high) = (plan(min, above_min, max), plan(max, min, below_max));
        let plan = if high.width < low.width { high } else { low };
        // The codes from 1 to 2^64 - 1 plus code 0 would be too many.
        let fits = plan.width > 0 && plan.bytes(values.len()) < bytes_max;
        fits.then_some(plan)
    }

    fn bytes(&self, rows: usize) -> usize {
        let head = unsigned_bytes(self.outlier) + unsigned_bytes(self.base);
        HEAD_BYTES + head as usize + packed_bytes(rows, self.width)
    }

    fn write(&self, values: &[u64], _: &mut Scratch, out: &mut Vec<u8>) {
        let Self { outlier, base, width } = *self;
        let (outlier_bytes, base_bytes) = (unsigned_bytes(outlier), unsigned_bytes(base));
        out.extend_from_slice(&[
            tag::SINGLE_OUTLIER,
            width as u8,
            (outlier_bytes | base_bytes << 4) as u8,
        ]);
        put_low(outlier, outlier_bytes, out);
        put_low(base, base_bytes, out);
        let code = |&value: &u64| if value == outlier { 0 } else { value.wrapping_sub(base) };
        pack(values.iter().map(code), width, out);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::holds, *};

    #[test]
    fn values_next_to_one_far_away_round_trip_and_survive_damage() {
        for far in [0, u64::MAX] {
            let value = |row: u64| if row.is_multiple_of(3) { far } else { 1 << 40 | row };
            holds::<Plan>(&(0..100).map(value).collect::<Vec<u64>>());
        }
    }
}
