//! What repeats say: their median and spread, and whether one target differs from another.
//!
//! Invariants
//! 1. A sample holds finite numbers only; what is not finite was not measured.
//! 2. A difference is significant if both sides have three repeats or more, Student's t on the logarithms gives
//!    p ≤ 0.05, and the ratio is beyond the metric's magnitude. Logarithms, because a ratio is claimed.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::lab::metric::{Better, Metric};

/// Fewest repeats of a significant difference.
const REPEATS_MIN: usize = 3;
/// Largest probability of chance in a significant difference.
const CHANCE_MAX: f64 = 0.05;
/// A spread beyond this share of the median is noise.
const NOISE: f64 = 0.15;

/// The values of one metric over the repeats of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// (repeat, value), in the order of repeats.
    values: Vec<(i64, f64)>,
}

impl Sample {
    /// A sample of the values that are finite.
    pub fn new(values: impl IntoIterator<Item = (i64, f64)>) -> Self {
        let mut values: Vec<_> =
            values.into_iter().filter(|(_, value)| value.is_finite()).collect();
        values.sort_by_key(|(repeat, _)| *repeat);
        Self { values }
    }

    /// Number of repeats.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Values in the order of repeats.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().map(|(_, value)| *value)
    }

    fn of(&self, repeat: i64) -> Option<f64> {
        self.values.iter().find(|(own, _)| *own == repeat).map(|(_, value)| *value)
    }

    /// The median.
    pub fn median(&self) -> Option<f64> {
        median(self.values().collect())
    }

    /// The least value.
    pub fn min(&self) -> Option<f64> {
        self.values().min_by(f64::total_cmp)
    }

    /// The largest value.
    pub fn max(&self) -> Option<f64> {
        self.values().max_by(f64::total_cmp)
    }

    /// The repeat whose value is nearest to the median.
    pub fn typical_repeat(&self) -> Option<i64> {
        let median = self.median()?;
        let distance = |value: f64| (value - median).abs();
        let nearest = |a: &&(i64, f64), b: &&(i64, f64)| distance(a.1).total_cmp(&distance(b.1));
        self.values.iter().min_by(nearest).map(|(repeat, _)| *repeat)
    }

    /// Whether its spread is beyond 15 % of its median.
    pub fn is_noisy(&self) -> bool {
        match (self.min(), self.max(), self.median()) {
            (Some(min), Some(max), Some(median)) => max - min > NOISE * median.abs(),
            _ => false,
        }
    }

    fn logs(&self) -> Option<Vec<f64>> {
        let is_positive = self.len() > 0 && self.values().all(|value| value > 0.0);
        is_positive.then(|| self.values().map(f64::ln).collect())
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => values.get(half).copied(),
        _ => Some(f64::midpoint(values[half - 1], values[half])),
    }
}

/// What a comparison says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Significantly better than the base.
    Better,
    /// Significantly worse.
    Worse,
    /// Significant, of a metric with no better or worse.
    Differs,
    /// Not significant, and why.
    Insignificant(&'static str),
}

/// A target against the base.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// Median of the ratios of repeats.
    pub median: f64,
    /// Least of them.
    pub low: f64,
    /// Largest of them.
    pub high: f64,
    /// Repeats compared.
    pub repeats: usize,
    /// Whether the spread of either side is noise.
    pub is_noisy: bool,
    /// What it says.
    pub verdict: Verdict,
}

impl Ratio {
    /// The ratio turned so that above 1 is better.
    pub fn gain(&self, better: Better) -> f64 {
        if better == Better::Lower { 1.0 / self.median } else { self.median }
    }
}

/// Compares a target with the base. Repeats of one number ran next to each other, so their ratio is free of drift.
/// `is_same_run` says whether they did. None if either side was not measured, or is not above 0.
pub fn compare(own: &Sample, base: &Sample, metric: &Metric, is_same_run: bool) -> Option<Ratio> {
    let (own_logs, base_logs) = (own.logs()?, base.logs()?);
    let of_base = base.median()?;
    let ratios: Vec<f64> = own
        .values
        .iter()
        .map(|(repeat, value)| {
            let pair = if is_same_run { base.of(*repeat) } else { None };
            value / pair.unwrap_or(of_base)
        })
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect();
    let low = ratios.iter().copied().min_by(f64::total_cmp)?;
    let high = ratios.iter().copied().max_by(f64::total_cmp)?;
    let median = median(ratios)?;
    let repeats = own.len().min(base.len());
    let verdict = if !is_same_run {
        Verdict::Insignificant("not of the same run as the base")
    } else if repeats < REPEATS_MIN {
        Verdict::Insignificant("fewer than three repeats")
    } else if chance(&own_logs, &base_logs) > CHANCE_MAX {
        Verdict::Insignificant("may be chance")
    } else if median.max(1.0 / median) - 1.0 <= metric.magnitude {
        Verdict::Insignificant("too small to matter")
    } else {
        match (metric.better, median > 1.0) {
            (Better::Neither, _) => Verdict::Differs,
            (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
            _ => Verdict::Worse,
        }
    };
    Some(Ratio { median, low, high, repeats, is_noisy: own.is_noisy() || base.is_noisy(), verdict })
}

/// Probability that samples of one distribution differ as much: Student's t, two-sided, with Welch's degrees of freedom.
fn chance(a: &[f64], b: &[f64]) -> f64 {
    let ((mean_a, error_a), (mean_b, error_b)) = (mean_and_error(a), mean_and_error(b));
    let error = error_a + error_b;
    let difference = (mean_a - mean_b).abs();
    // Repeats that agree to the last digits (sizes do): rounding is their only spread.
    if error <= f64::EPSILON * f64::EPSILON {
        return if difference > 1e-9 { 0.0 } else { 1.0 };
    }
    let weight = |error: f64, n: usize| error * error / (n as f64 - 1.0);
    let freedom = error * error / (weight(error_a, a.len()) + weight(error_b, b.len()));
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(student) => 2.0 * student.sf(difference / error.sqrt()),
        Err(_) => 1.0,
    }
}

/// Mean, and the square of its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (n - 1.0) / n)
}

/// Geometric mean; None without values, or if one is not above 0.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let is_positive =
        !values.is_empty() && values.iter().all(|value| *value > 0.0 && value.is_finite());
    is_positive
        .then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::metric::find;

    fn sample(values: &[f64]) -> Sample {
        Sample::new((1..).zip(values.iter().copied()))
    }

    fn against(own: &[f64], base: &[f64], name: &str) -> Option<Ratio> {
        compare(&sample(own), &sample(base), find(name)?, true)
    }

    fn verdict(own: &[f64], base: &[f64], name: &str) -> Option<Verdict> {
        against(own, base, name).map(|ratio| ratio.verdict)
    }

    #[test]
    fn median_and_spread_ignore_what_is_not_finite() {
        let odd = sample(&[3.0, f64::NAN, 1.0, f64::INFINITY, 2.0]);
        assert_eq!((odd.median(), odd.min(), odd.max()), (Some(2.0), Some(1.0), Some(3.0)));
        assert_eq!(sample(&[1.0, 4.0]).median(), Some(2.5));
        assert_eq!(sample(&[]).median(), None);
        assert_eq!(odd.typical_repeat(), Some(5));
        assert!(odd.is_noisy() && !sample(&[100.0, 110.0, 105.0]).is_noisy());
    }

    #[test]
    fn clear_differences_are_significant_in_the_direction_of_the_metric() {
        let (fast, slow) = ([200.0, 210.0, 205.0], [100.0, 101.0, 99.0]);
        assert_eq!(verdict(&fast, &slow, "ops_s"), Some(Verdict::Better));
        assert_eq!(verdict(&slow, &fast, "ops_s"), Some(Verdict::Worse));
        assert_eq!(verdict(&fast, &slow, "disk_b"), Some(Verdict::Worse));
        assert_eq!(verdict(&fast, &slow, "ops"), Some(Verdict::Differs));
        let ratio = against(&fast, &slow, "ops_s");
        assert!(ratio.is_some_and(|r| (2.0..2.1).contains(&r.median) && r.low == 2.0), "{ratio:?}");
    }

    #[test]
    fn chance_small_differences_and_few_repeats_are_not_significant() {
        let why = |own: &[f64], base: &[f64], name| match verdict(own, base, name) {
            Some(Verdict::Insignificant(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why(&[200.0, 210.0], &[100.0, 101.0], "ops_s").contains("three repeats"));
        assert!(why(&[100.0, 150.0, 220.0], &[90.0, 140.0, 210.0], "ops_s").contains("chance"));
        assert!(why(&[103.0, 103.1, 103.2], &[100.0, 100.1, 99.9], "ops_s").contains("small"));
        // Equal sizes in all repeats; then sizes that differ in all, by 1 % and by 10 %.
        assert!(why(&[7.0; 3], &[7.0; 3], "disk_b").contains("chance"));
        assert!(why(&[101.0; 3], &[100.0; 3], "disk_b").contains("small"));
        assert_eq!(verdict(&[110.0; 3], &[100.0; 3], "disk_b"), Some(Verdict::Worse));
        let other = find("ops_s")
            .and_then(|m| compare(&sample(&[200.0; 3]), &sample(&[100.0; 3]), m, false));
        assert!(other.is_some_and(
            |r| matches!(r.verdict, Verdict::Insignificant(why) if why.contains("same run"))
        ));
    }

    /// t = 1.8214 with 7.5889 degrees of freedom: p = 0.10805, by integrating the density.
    #[test]
    fn chance_is_that_of_students_distribution() {
        let p = chance(&[20.0, 21.0, 19.0, 22.0, 20.5], &[19.0, 18.0, 20.0, 19.5, 20.2]);
        assert!((p - 0.10805).abs() < 5e-5, "{p}");
        // The quantile of t for one degree of freedom and p = 0.05 is 12.706.
        let student = StudentsT::new(0.0, 1.0, 1.0).map(|t| 2.0 * t.sf(12.706));
        assert!(student.is_ok_and(|p| (p - 0.05).abs() < 1e-4));
    }

    #[test]
    fn zero_and_negative_values_give_no_ratio() {
        assert_eq!(against(&[0.0, 1.0, 1.0], &[1.0; 3], "ops_s"), None);
        assert_eq!(against(&[1.0; 3], &[-1.0, 1.0, 1.0], "ops_s"), None);
        assert_eq!(against(&[], &[1.0], "ops_s"), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert!(geometric_mean(&[2.0, 8.0]).is_some_and(|mean| (mean - 4.0).abs() < 1e-12));
    }
}
