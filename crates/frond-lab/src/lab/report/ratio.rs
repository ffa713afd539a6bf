//! A target against the base: the ratio of their repeats, and whether it is significant.
//!
//! Invariants
//! 1. A sample holds finite numbers only; what is not finite was not measured.
//! 2. A difference is significant if both sides have three repeats or more, the t-test on logarithms (statistics.rs)
//!    gives p ≤ 0.05, and the ratio is beyond the metric's magnitude.

use crate::lab::metric::{Better, Metric};
use crate::lab::statistics::{P_MAX, REPEATS_MIN, Spread, p_value};

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

    /// Median, least and largest.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(&self.values().collect::<Vec<f64>>())
    }

    /// The median.
    pub fn median(&self) -> Option<f64> {
        self.spread().map(|spread| spread.median)
    }

    /// The repeat whose value is nearest to the median.
    pub fn typical_repeat(&self) -> Option<i64> {
        let median = self.median()?;
        let distance = |value: f64| (value - median).abs();
        let nearest = |a: &&(i64, f64), b: &&(i64, f64)| distance(a.1).total_cmp(&distance(b.1));
        self.values.iter().min_by(nearest).map(|(repeat, _)| *repeat)
    }

    fn is_noisy(&self) -> bool {
        self.spread().is_some_and(|spread| spread.is_noisy())
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
    let is_positive = |sample: &Sample| sample.values().all(|value| value > 0.0);
    if !is_positive(own) || !is_positive(base) {
        return None;
    }
    let of_base = base.median()?;
    let ratios: Vec<f64> = own
        .values
        .iter()
        .map(|(repeat, value)| {
            let pair = if is_same_run { base.of(*repeat) } else { None };
            value / pair.unwrap_or(of_base)
        })
        .filter(|ratio| *ratio > 0.0)
        .collect();
    let Spread { median, min: low, max: high, .. } = Spread::of(&ratios)?;
    let values = |sample: &Sample| sample.values().collect::<Vec<f64>>();
    let repeats = own.len().min(base.len());
    let verdict = if !is_same_run {
        Verdict::Insignificant("not of the same run as the base")
    } else if repeats < REPEATS_MIN {
        Verdict::Insignificant("fewer than three repeats")
    } else if p_value(&values(own), &values(base)).is_none_or(|p| p > P_MAX) {
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
        let spread = odd.spread().map(|spread| (spread.median, spread.min, spread.max));
        assert_eq!(spread, Some((2.0, 1.0, 3.0)));
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

    #[test]
    fn zero_and_negative_values_give_no_ratio() {
        assert_eq!(against(&[0.0, 1.0, 1.0], &[1.0; 3], "ops_s"), None);
        assert_eq!(against(&[1.0; 3], &[-1.0, 1.0, 1.0], "ops_s"), None);
        assert_eq!(against(&[], &[1.0], "ops_s"), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert!(geometric_mean(&[2.0, 8.0]).is_some_and(|mean| (mean - 4.0).abs() < 1e-12));
    }
}
