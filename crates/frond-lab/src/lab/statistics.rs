//! Repeats: their median, their spread, and whether two sets of them differ.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Repeats of one value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// How many.
    pub count: usize,
}

/// Spread beyond which a median is not to be trusted, as a part of it.
const NOISY: f64 = 0.15;
/// Least repeats on each side that significance can be said of.
pub const REPEATS_MIN: usize = 3;
/// Probability of a difference by chance, at most.
pub const P_MAX: f64 = 0.05;

impl Spread {
    /// Of these values; `None` if there are none. Values that are no numbers are left out.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Some(Self { median, min, max, count: sorted.len() })
    }

    /// Whether the spread is so large that the median says little.
    pub fn is_noisy(&self) -> bool {
        self.count > 1 && (self.max - self.min) > NOISY * self.median.abs()
    }
}

/// Whether two sets of repeats differ by more than chance, and by at least `magnitude` of the second's median: Welch's
/// t-test on logarithms (values are rates, times and sizes, whose noise is a factor). Sets of fewer than three repeats never
/// do.
pub fn differ(one: &[f64], other: &[f64], magnitude: f64) -> bool {
    let (Some(a), Some(b)) = (Spread::of(one), Spread::of(other)) else { return false };
    let is_large = (a.median / b.median - 1.0).abs() >= magnitude;
    is_large && p_value(one, other).is_some_and(|p| p <= P_MAX)
}

/// Probability that two sets of repeats are as far apart by chance; `None` if there are too few, or one is not positive.
pub fn p_value(one: &[f64], other: &[f64]) -> Option<f64> {
    let logs = |values: &[f64]| -> Option<Vec<f64>> {
        let is_fine =
            values.len() >= REPEATS_MIN && values.iter().all(|v| *v > 0.0 && v.is_finite());
        is_fine.then(|| values.iter().map(|value| value.ln()).collect())
    };
    let (one, other) = (logs(one)?, logs(other)?);
    let moments = |values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance / n, n)
    };
    let ((m1, v1, n1), (m2, v2, n2)) = (moments(&one), moments(&other));
    let variance = v1 + v2;
    if variance <= 0.0 {
        return Some(if m1 == m2 { 1.0 } else { 0.0 });
    }
    let t = (m1 - m2).abs() / variance.sqrt();
    let freedom = variance.powi(2) / (v1.powi(2) / (n1 - 1.0) + v2.powi(2) / (n2 - 1.0));
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(2.0 * (1.0 - distribution.cdf(t)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_noise() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[f64::NAN]), None);
        let spread = Spread::of(&[3.0, 1.0, 2.0]).expect("three values");
        assert_eq!((spread.median, spread.min, spread.max, spread.count), (2.0, 1.0, 3.0, 3));
        assert!(spread.is_noisy());
        assert_eq!(Spread::of(&[1.0, 2.0]).map(|spread| spread.median), Some(1.5));
        assert!(!Spread::of(&[100.0, 101.0]).is_some_and(|spread| spread.is_noisy()));
        assert!(!Spread::of(&[100.0]).is_some_and(|spread| spread.is_noisy()));
    }

    #[test]
    fn what_differs_is_told_from_noise() {
        assert!(differ(&[100.0, 101.0, 99.0], &[120.0, 121.0, 119.0], 0.07));
        assert!(
            !differ(&[100.0, 101.0, 99.0], &[102.0, 103.0, 101.0], 0.07),
            "too small to matter"
        );
        assert!(!differ(&[100.0, 150.0, 70.0], &[120.0, 80.0, 160.0], 0.07), "noise");
        assert!(!differ(&[100.0, 101.0], &[200.0, 201.0], 0.07), "too few repeats");
        assert!(differ(&[100.0; 3], &[200.0; 3], 0.07));
        assert!(!differ(&[100.0; 3], &[100.0; 3], 0.0));
        // Welch's example with equal variances is Student's: t = 3, four degrees of freedom, p = 0.0399.
        let exp = |values: [f64; 3]| values.map(f64::exp);
        let (one, other) = (exp([1.0, 2.0, 3.0]), exp([1.0, 2.0, 3.0].map(|v| v + 6f64.sqrt())));
        let p = p_value(&one, &other).expect("three repeats each");
        assert!((p - 0.0399).abs() < 0.0002, "{p}");
    }
}
