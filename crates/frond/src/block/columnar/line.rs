//! Linear relations between two columns: one grows by a fixed amount when the other grows by one.
//!
//! Ids are assigned as time passes. So even in an index whose rows are not in the order of time,
//! the id of a row is about its time multiplied by a factor.
//!
//! Invariants
//! 1. A line is a function of one word, modulo 2^64, for any header: the same value that is
//!    subtracted from a column when it is written is added when it is read.
//!
//! Threads: all.

/// Maximum shift of a slope, in bits.
pub(super) const SHIFT_MAX: u8 = 32;
/// Bits of a slope's fraction, if it has one and there is room.
const FRACTION_BITS: u8 = 20;
/// Maximum number of pairs that a line is fitted to.
pub(super) const PAIRS_MAX: usize = 96;
/// Minimum number of pairs that a line is fitted to.
const PAIRS_MIN: usize = 16;

/// A line over another word: ((other − origin) · slope) >> shift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub origin: u64,
    pub slope: i64,
    pub shift: u8,
}

impl Line {
    /// The other word itself.
    pub const SAME: Self = Self { origin: 0, slope: 1, shift: 0 };

    /// The line's word at `other`.
    #[inline]
    pub fn at(self, other: u64) -> u64 {
        let far = other.wrapping_sub(self.origin) as i64;
        // Shifts are at most SHIFT_MAX: lines that are read are checked, and lines that are made
        // obey it.
        (far.wrapping_mul(self.slope) >> (self.shift & 63)) as u64
    }

    /// Fits a line to most of these pairs (other, word), with a whole slope, unless a fraction fits
    /// them more closely. Sorts the pairs. `None` if there are too few, or if the line is not worth
    /// it: vertical, level, or the other word itself.
    pub fn through(pairs: &mut [(u64, u64)]) -> Option<Self> {
        if pairs.len() < PAIRS_MIN {
            return None;
        }
        pairs.sort_unstable();
        let (first, last) = (pairs.first()?.0, pairs.last()?.0);
        // The median of the slopes between pairs half the sample apart: a few outliers do not move
        // it.
        let mut slopes = [0i128; PAIRS_MAX];
        let mut count = 0;
        let apart = pairs.iter().zip(pairs.iter().skip(pairs.len() / 2));
        let apart = apart.filter(|(low, high)| low.0 < high.0);
        for ((low, high), slope) in apart.zip(&mut slopes) {
            let rise = i128::from(high.1) - i128::from(low.1);
            *slope = (rise << FRACTION_BITS) / i128::from(high.0 - low.0);
            count += 1;
        }
        let slopes = slopes.get_mut(..count)?;
        slopes.sort_unstable();
        let fixed = *slopes.get(count / 2)?;
        let half = 1i128 << (FRACTION_BITS - 1);
        let whole = i64::try_from((fixed + half) >> FRACTION_BITS).ok()?;
        let whole = Self { origin: first, slope: whole, shift: 0 };
        // The shift keeps as much of the fraction as fits: the product of the largest distance and
        // the slope must not exceed 63 bits.
        let fits = |shift: &u8| {
            let slope = fixed.unsigned_abs() >> (FRACTION_BITS - shift);
            slope.checked_mul((last - first).into()).is_some_and(|most| most < 1 << 62)
        };
        let shift = (1..=FRACTION_BITS).rev().find(fits);
        let sloped = shift.and_then(|shift| {
            let slope = i64::try_from(fixed >> (FRACTION_BITS - shift)).ok()?;
            Some(Self { origin: first, slope, shift })
        });
        let sloped = sloped.filter(|sloped| sloped.slope != 0);
        match sloped {
            Some(sloped) if whole.slope == 0 || sloped.spread(pairs) < whole.spread(pairs) => {
                Some(sloped)
            }
            _ => (whole.slope != 0 && whole.slope != 1).then_some(whole),
        }
    }

    /// The range of the distances of these pairs' words from the line, ignoring the highest and the
    /// lowest eighth.
    pub fn spread(self, pairs: &[(u64, u64)]) -> u64 {
        let mut rests = [0i64; PAIRS_MAX];
        let mut count = 0;
        for ((other, word), rest) in pairs.iter().zip(&mut rests) {
            *rest = word.wrapping_sub(self.at(*other)) as i64;
            count += 1;
        }
        let rests = rests.get_mut(..count).unwrap_or_default();
        rests.sort_unstable();
        let at = |index: usize| rests.get(index).copied().unwrap_or(0);
        at(count.saturating_sub(1 + count / 8)).wrapping_sub(at(count / 8)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: impl Fn(u64) -> (u64, u64)) -> Vec<(u64, u64)> {
        (0..PAIRS_MAX as u64).map(|i| of(i * 7919 % 1000)).collect()
    }

    #[test]
    fn lines_are_found_despite_outliers() {
        let noise = |i: u64| i * 31 % 50;
        let far = |i: u64| if i.is_multiple_of(20) { 1 << 40 } else { 0 };
        for (slope, off) in [(20i64, 0), (20, 1), (-3, 1), (1_000_000, 1)] {
            let mut all = pairs(|i| {
                let word = (i as i64).wrapping_mul(slope) as u64;
                (5000 + i, (1u64 << 50).wrapping_add(word).wrapping_add(off * (noise(i) + far(i))))
            });
            let line = Line::through(&mut all).unwrap();
            assert!(line.spread(&all) < 200, "{slope} {off}: {line:?} {}", line.spread(&all));
            if off == 0 {
                assert_eq!((line.slope, line.shift), (slope, 0));
            }
        }
        // A slope below one, and three times as steep at the other end of the word range.
        let mut thirds = pairs(|i| (u64::MAX - 6000 + 6 * i, 7 + 2 * i));
        let line = Line::through(&mut thirds).unwrap();
        assert!(line.shift > 0 && line.spread(&thirds) <= 1, "{line:?}");
    }

    #[test]
    fn columns_without_a_linear_relation_have_no_line() {
        for mut none in
            [pairs(|i| (7, i)), pairs(|i| (i, 7)), pairs(|i| (i, 90 + i)), vec![(1, 1); 3], vec![]]
        {
            assert_eq!(Line::through(&mut none), None);
        }
        // Far beyond the range of numbers: some line, or none, but no panic.
        let mut wild = pairs(|i| (i.wrapping_mul(u64::MAX / 900), (i % 2).wrapping_mul(u64::MAX)));
        if let Some(line) = Line::through(&mut wild) {
            line.at(u64::MAX);
        }
        let odd = Line { origin: u64::MAX, slope: i64::MIN, shift: 255 };
        odd.at(0);
    }
}
