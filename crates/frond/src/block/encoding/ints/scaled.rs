//! The scaled column: values that are the least value plus multiples of a common step (scaling by
//! the greatest common divisor).
//!
//! Times in microseconds that were recorded by the second, amounts in whole hundreds, ids assigned
//! ten at a time: bit-packed directly, each value also takes the bits of the step. The multiples
//! are a column of their own, of whichever kind is best for them.
//!
//! ```text
//! scaled = 72 | length of least (low half), length of step (high half), u8 | least | step
//!         | numbers of steps, a column of any other kind but decimal
//! ```
//!
//! Invariants
//! 1. A step is 2 or more, and no value exceeds 2^64: so values ascend where their multiples do,
//!    and one division converts a searched value.

use std::ops::Range;

use super::super::super::BadBlock;
use super::{
    IntKind, Ints,
    head::{cut_unsigned, put_low, unsigned_bytes},
    tag,
    traits::{IntColumn, any_decoded},
};

const HEAD_BYTES: usize = 2;

/// Number of values examined first: usually two or three of them have no step in common.
const SAMPLES: usize = 16;

/// A scaled column, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {
    least: u64,
    step: u64,
    numbers: Ints<'a>,
}

impl<'a> IntColumn<'a> for Scaled<'a> {
    const KIND: IntKind = IntKind::Scaled;

    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let scaled = Self::open(rest, rows)?;
        let numbers = Ints::parse(rest, rows).ok()?;
        *rest = rest.get(numbers.bytes_used()..)?;
        Some(scaled)
    }

    // Reads the header, up to the multiples, which may be incomplete.
    fn open(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let [_, lengths, ..] = **rest else { return None };
        *rest = rest.get(HEAD_BYTES..)?;
        let least = cut_unsigned(rest, (lengths & 15).into())?;
        let step = cut_unsigned(rest, (lengths >> 4).into())?;
        if step < 2 || matches!(rest.first(), Some(&(tag::SCALED | tag::DECIMAL))) {
            // This also forbids nesting of arbitrary depth.
            return None;
        }
        Some(Self { least, step, numbers: Ints::open(rest, rows)? })
    }

    // Checks the multiples, and that none leads beyond 2^64.
    fn check(&self, rows: usize) -> Result<(), BadBlock> {
        self.numbers.check()?;
        let most = (u64::MAX - self.least) / self.step;
        let decode = |first, out: &mut [u64]| self.numbers.decode(first, out);
        if any_decoded(rows, decode, |number| number > most) {
            return Err(BadBlock("a scaled column leads beyond all numbers"));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize) -> u64 {
        self.value(self.numbers.get(row))
    }

    fn decode(&self, first: usize, out: &mut [u64]) {
        self.numbers.decode(first, out);
        out.iter_mut().for_each(|value| *value = self.value(*value));
    }

    fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        let above = value.saturating_sub(self.least);
        self.numbers.lower_bound(rows, above.div_ceil(self.step))
    }

    fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        match value.checked_sub(self.least) {
            Some(above) if above.is_multiple_of(self.step) => {
                self.numbers.equal_range(rows, above / self.step)
            }
            _ => {
                let first = self.lower_bound(rows, value);
                first..first
            }
        }
    }
}

impl Scaled<'_> {
    #[inline]
    fn value(&self, number: u64) -> u64 {
        self.least.wrapping_add(self.step.wrapping_mul(number))
    }
}

/// Exact division by multiplication.
struct Divisor {
    /// The inverse of the divisor's odd part, modulo 2^64.
    inverse: u64,
    /// The exponent of the divisor's power of two.
    shift: u32,
    /// The largest quotient.
    most: u64,
}

impl Divisor {
    /// Creates the divisor for a number other than 0.
    fn of(divisor: u64) -> Self {
        let shift = divisor.trailing_zeros();
        let odd = divisor >> shift;
        // Newton iteration: three bits are right at first, and twice as many each time.
        let mut inverse = odd;
        for _ in 0..5 {
            let error = 2u64.wrapping_sub(odd.wrapping_mul(inverse));
            inverse = inverse.wrapping_mul(error);
        }
        Self { inverse, shift, most: u64::MAX / divisor }
    }

    /// Numbers that are no multiples map to results above the largest quotient, since the multiples
    /// map to all results up to it.
    #[inline]
    fn quotient(&self, of: u64) -> Option<u64> {
        let quotient = of.wrapping_mul(self.inverse).rotate_right(self.shift);
        (quotient <= self.most).then_some(quotient)
    }
}

fn common(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A plan to encode values as a scaled column.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    least: u64,
    step: u64,
}

impl Plan {
    /// The plan with the longest step from the least value to all others, if there is one and the
    /// column may take less than `bytes_max`; the multiples are put into `numbers`.
    pub fn below(values: &[u64], bytes_max: usize, numbers: &mut Vec<u64>) -> Option<Self> {
        let every = values.len().div_ceil(SAMPLES).max(1);
        let first = *values.first()?;
        let sample = values.iter().step_by(every);
        let step = sample.fold(0, |step, value| match step {
            1 => 1,
            _ => common(value.abs_diff(first), step),
        });
        if step == 1 {
            return None;
        }
        let least = values.iter().copied().min()?;
        let mut plan = Self { least, step: common(first - least, step) };
        while plan.step > 1 && plan.bytes() < bytes_max {
            let divisor = Divisor::of(plan.step);
            numbers.clear();
            let other = values.iter().find(|value| match divisor.quotient(**value - least) {
                Some(number) => {
                    numbers.push(number);
                    false
                }
                None => true,
            });
            let Some(other) = other else { return Some(plan) };
            plan.step = common(other - least, plan.step);
        }
        None
    }

    /// Length of everything but the multiples.
    pub fn bytes(&self) -> usize {
        HEAD_BYTES + (unsigned_bytes(self.least) + unsigned_bytes(self.step)) as usize
    }

    /// Appends everything but the multiples.
    pub fn write(&self, out: &mut Vec<u8>) {
        let [least_bytes, step_bytes] = [self.least, self.step].map(unsigned_bytes);
        out.extend_from_slice(&[tag::SCALED, (least_bytes | step_bytes << 4) as u8]);
        put_low(self.least, least_bytes, out);
        put_low(self.step, step_bytes, out);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{are_refused, contains, contradictions_are_detected},
        *,
    };

    #[test]
    fn multiples_are_distinguished_from_other_numbers() {
        let divisors =
            [1, 2, 3, 5, 7, 10, 12, 1000, 1 << 20, 3 << 40, 1 << 63, u64::MAX - 1, u64::MAX];
        for of in divisors {
            let divisor = Divisor::of(of);
            let near = |number: u64| [number.wrapping_sub(1), number, number.wrapping_add(1)];
            let most = u64::MAX / of;
            let multiples = [0, 1, 2, 3, 1000, most / 2, most].map(|times| of.wrapping_mul(times));
            for number in multiples.into_iter().chain([u64::MAX, 1 << 63]).flat_map(near) {
                let quotient = number.is_multiple_of(of).then_some(number / of);
                assert_eq!(divisor.quotient(number), quotient, "{number} / {of}");
            }
        }
    }

    #[test]
    fn the_largest_step_is_found() {
        let mut numbers = Vec::new();
        let mut step =
            |values: &[u64]| Plan::below(values, 1000, &mut numbers).map(|plan| plan.step);
        assert_eq!(step(&[]), None);
        assert_eq!(step(&[7]), None);
        assert_eq!(step(&[7, 7, 7]), None);
        assert_eq!(step(&[7, 8]), None);
        assert_eq!(step(&[7, 27, 17, 7]), Some(10));
        assert_eq!(step(&[u64::MAX, 0]), Some(u64::MAX));
        assert_eq!(step(&[u64::MAX, 1, u64::MAX >> 1]), Some(2));
        assert_eq!(step(&[u64::MAX, 0, 1]), None);
        assert_eq!(step(&[1 << 63, 0, 1 << 62]), Some(1 << 62));
        // A step that the sample has in common, but other values do not.
        let mut values: Vec<u64> = (0..160).map(|row| row * 360_360 + 5).collect();
        for (row, step_then) in [(33, 180_180), (51, 60_060), (77, 4)] {
            values[row] += step_then;
            assert_eq!(step(&values), Some(step_then));
        }
        values[99] -= 1;
        assert_eq!(step(&values), None);
    }

    #[test]
    fn steps_round_trip_and_survive_damage() {
        let value = |row: u64| (1 << 50) + row * row % 4001 * 1000;
        contains(IntKind::Scaled, &(0..120).map(value).collect::<Vec<u64>>());
    }

    #[test]
    fn contradictions_are_found() {
        // A step beyond 2^64.
        contradictions_are_detected(&[(
            1,
            "48 18 00 FF FF FF FF FF FF FF 10 00 01 0F",
            "48 18 00 FF FF FF FF FF FF FF 10 00 01 10",
        )]);
        // Steps of steps, steps of decimals; a step of 0 and of 1.
        are_refused(&[
            "48 10 02 48 10 02 00 00",
            "48 10 02 45 00 00 00 00 00 00",
            "48 00 00 00",
            "48 10 01 00 00",
        ]);
    }
}
