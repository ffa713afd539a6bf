//! Checking a shape column, once, when its block comes from the device.
//!
//! The naive way, group by group in one row after another, took as long as reading the block did.
//! So each run is checked in all rows before the next run, and five groups of digits at a time.

use super::{DIGIT, Shaped, next_run};
use crate::block::BadBlock;

/// Masks of the even and odd groups of five groups of ten bits.
const EVEN: u64 = 0x3ff | 0x3ff << 20 | 0x3ff << 40;
const ODD: u64 = 0x3ff | 0x3ff << 20;
/// An addend that carries each group above 999 into the bit after the group, and those bits.
const LIFT: u64 = 24 | 24 << 20 | 24 << 40;
const LIFTED: u64 = 1 << 10 | 1 << 30 | 1 << 50;

impl Shaped<'_> {
    /// Checks that every row has a string, and only one representation of it.
    pub(super) fn check_rows(&self) -> Result<(), BadBlock> {
        self.shape.check()?;
        self.exceptions.check(self.rows, |_| ())?;
        let (mut runs, mut bit) = (self.shape.runs, 0);
        while let Some(run) = next_run(&mut runs)? {
            // Exceptions have zeros here.
            if run.class == DIGIT && self.has_codes_without_digits(bit, run.count) {
                return Err(BadBlock("a digit of a string is above 9"));
            }
            bit += run.bits();
        }
        Ok(())
    }

    /// True if some row has an invalid code of digits in the run that starts at this bit of each
    /// row. Such a code would be a second representation of a string.
    fn has_codes_without_digits(&self, bit: usize, digits: usize) -> bool {
        let mut bad = false;
        for row in 0..self.rows {
            let mut at = row * self.shape.row_bits + bit;
            for _ in 0..digits / 15 {
                bad |= is_any_above_999(self.bits(at));
                at += 50;
            }
            let rest = digits % 15;
            let word = self.bits(at);
            let (groups, tail) = (rest / 3 * 10, rest % 3);
            bad |= is_any_above_999(word & ((1 << groups) - 1));
            bad |= match tail {
                0 => false,
                1 => (word >> groups) & 15 > 9,
                _ => (word >> groups) & 127 > 99,
            };
        }
        bad
    }
}

/// True if one of the five lowest groups of ten bits is above 999.
#[inline]
fn is_any_above_999(groups: u64) -> bool {
    let (even, odd) = (groups & EVEN, (groups >> 10) & ODD);
    ((even + LIFT) | (odd + LIFT)) & LIFTED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_above_999_are_found_in_every_place() {
        for place in 0..5 {
            for (code, is_bad) in [(0, false), (999, false), (1000, true), (1023, true)] {
                for others in [0, 999] {
                    let groups = (0..5).map(|at| if at == place { code } else { others });
                    let word = groups.rev().fold(0, |word, group| word << 10 | group);
                    // Bits after the fifth group belong to the next run.
                    for word in [word, word | 0x3ff << 50] {
                        assert_eq!(is_any_above_999(word), is_bad, "{code} in {place}");
                    }
                }
            }
        }
    }
}
